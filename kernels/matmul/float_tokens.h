// The shape of float products with rows in lanes (float_tiles.h), and how their tokens are laid
// out, once for all rows.
#pragma once

#include <algorithm>
#include <cstddef>

#include "kernels/formats/round.h"
#include "kernels/kernels.h"
#include "kernels/matmul/float_blocks.h"
#include "kernels/simd/f32x16.h"

namespace cria {

inline constexpr std::size_t kTileRegisters = 2;  ///< of rows

/// The shape of a product whose columns are chains. Where lanes hold two halves (bf16.h), each is
/// two steps, the second half first.
template <class Isa>
struct TileShape {
  using Ops = FloatOps<Isa>;
  using Part = typename Ops::Batch;
  static constexpr bool kHalves = requires { typename Ops::Halves; };
  static constexpr std::size_t kPart = Ops::kSize, kSplit = kHalves ? 2 : 1,
                               kRows = kTileRegisters * kPart,
                               kTokens = FloatBlock<Isa>::kTileTokens;
  static_assert(kTokens <= kPart && kTokens <= kMaxTileTokens && kFloatLanes % kPart == 0 &&
                kRows % kFloatLanes == 0);

  std::size_t cols;  ///< of what lies in memory

  [[nodiscard]] constexpr std::size_t steps() const {
    return divide_up(cols, kFloatLanes) * kSplit;
  }
  /// Floats from a chain to the next one. Of rows: not a multiple of 4 KiB, or stores would meet in
  /// a set. Of tokens: a register is stored for kTokens, and the last one reaches beyond them.
  [[nodiscard]] constexpr std::size_t row_slice() const { return (steps() | 1) * kRows; }
  [[nodiscard]] constexpr std::size_t token_slice() const {
    return steps() * kTokens + kFloatLanes;
  }
  /// Floats of a tile of tokens.
  [[nodiscard]] constexpr std::size_t token_tile() const { return kFloatLanes * token_slice(); }
  [[nodiscard]] static constexpr std::size_t tiles(std::size_t n_tokens) {
    return divide_up(n_tokens, kTokens);
  }
  /// Tiles are as equal as can be, of whole units.
  static constexpr std::size_t kUnit = kTokens / 3;
  [[nodiscard]] static constexpr std::size_t first_token(std::size_t tile, std::size_t n_tokens) {
    const std::size_t units = divide_up(n_tokens, kUnit);
    return std::min(units * tile / tiles(n_tokens) * kUnit, n_tokens);
  }

  /// A square of numbers: register i is from(i), and column i goes to to(i); two columns of halves
  /// to to(i) and what lies `step` floats behind it.
  template <class From, class To>
  [[gnu::always_inline]] static void transpose(From from, To to, std::size_t step) {
    Part square[kPart];
    CRIA_UNROLL
    for (std::size_t i = 0; i < kPart; ++i) square[i] = from(i);
    Ops::transpose(square);
    CRIA_UNROLL
    for (std::size_t i = 0; i < kPart; ++i) {
      if constexpr (kHalves) {
        Ops::store(to(i), Ops::high_bf16(square[i]));
        Ops::store(to(i) + step, Ops::low_bf16(square[i]));
      } else {
        Ops::store(to(i), square[i]);
      }
    }
  }
  /// kPart numbers at p, of which `left` are there.
  template <Stored stored>
  static Part load(const std::byte* p, std::size_t left) {
    if (left < kPart) return F32x16<Isa>::template load_partial_as<stored>(p, left).part[0];
    if constexpr (stored == Stored::F16) {
      return Ops::load_f16(p);
    } else {
      return Ops::load(reinterpret_cast<const float*>(p));
    }
  }
  [[nodiscard]] std::size_t left(std::size_t col) const { return col < cols ? cols - col : 0; }
};

/// LayOut of the float products: [tile][lane][step][token of the tile]; tokens that are not there
/// are the last one again.
template <class Isa>
struct FloatTokens {
  using Shape = TileShape<Isa>;

  static std::size_t bytes(std::size_t n_tokens, std::size_t cols) {
    return Shape::tiles(n_tokens) * Shape{lane_cols<Isa>(cols)}.token_tile() * sizeof(float);
  }
  static void run(const Activations& x, std::size_t t0, std::size_t t1, std::byte* to) {
    const Shape shape{lane_cols<Isa>(x.cols)};
    for (std::size_t tile = 0; tile < Shape::tiles(x.n_tokens); ++tile) {
      const std::size_t first = Shape::first_token(tile, x.n_tokens);
      if (t0 <= first && first < t1)
        lay_out_tile(x, shape, first, reinterpret_cast<float*>(to) + tile * shape.token_tile());
    }
  }

 private:
  static void lay_out_tile(const Activations& x, const Shape& shape, std::size_t first, float* to) {
    constexpr std::size_t kPart = Shape::kPart;
    const std::byte* const rows = kPairs<Isa> ? reinterpret_cast<const std::byte*>(x.q)
                                              : reinterpret_cast<const std::byte*>(x.f32);
    const std::size_t stride = kPairs<Isa> ? x.q_stride() : x.f32_stride * sizeof(float);
    const std::byte* token[kPart];
    for (std::size_t i = 0; i < kPart; ++i)
      token[i] = rows + std::min(first + std::min(i, Shape::kTokens - 1), x.n_tokens - 1) * stride;
    for (std::size_t step = 0; step < shape.steps(); step += Shape::kSplit)
      for (std::size_t lane = 0; lane < kFloatLanes; lane += kPart) {
        const std::size_t col = step / Shape::kSplit * kFloatLanes + lane, left = shape.left(col);
        float* const at = to + lane * shape.token_slice() + step * Shape::kTokens;
        Shape::transpose(
            [&](std::size_t i) {
              return Shape::template load<Stored::F32>(token[i] + col * sizeof(float), left);
            },
            [&](std::size_t i) { return at + i * shape.token_slice(); }, Shape::kTokens);
      }
  }
};

}  // namespace cria
