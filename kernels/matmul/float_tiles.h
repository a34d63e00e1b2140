// Float products of many tokens with rows in lanes, for instruction sets that transpose a square of their registers
// (numerics: kernels/README.md).
//
// Each of the sixteen lanes of a row and a token is a chain of its own: columns l, l + 16, … So the chains of one l are a
// matrix product by themselves, and 16 rows × 6 tokens of it an outer product in every step: two registers and six
// broadcasts for twelve multiply-adds, the sums in registers from the first column to the last. The tree at the end adds
// whole registers. That is what rows and tokens are transposed for: rows once, kept in L3, tokens once for each panel.
#pragma once

#include <algorithm>
#include <cstddef>

#include "kernels/kernels.h"
#include "kernels/simd/outer_product.h"

namespace cria {

inline constexpr std::size_t kTileRows = kFloatLanes;
inline constexpr std::size_t kTilePanelBytes = 9U << 19;  ///< of float32 weights, at most
inline constexpr std::size_t kTileWave = 24;              ///< tokens transposed together, at most

/// Steps of a chain, and floats from a chain to the next one: not a multiple of 4 KiB, or stores would meet in a set.
struct TileShape {
  std::size_t cols;
  /// Even: columns of bfloat16 come in pairs.
  [[nodiscard]] constexpr std::size_t steps() const {
    return (cols + 2 * kFloatLanes - 1) / (2 * kFloatLanes) * 2;
  }
  [[nodiscard]] constexpr std::size_t row_slice() const { return (steps() | 1) * kTileRows; }
  [[nodiscard]] constexpr std::size_t token_steps() const { return (steps() + 7) / 8 * 8; }
  [[nodiscard]] constexpr std::size_t token_slice() const { return kTileWave * token_steps() + kFloatLanes; }

  [[nodiscard]] constexpr std::size_t group_floats() const { return kFloatLanes * row_slice(); }
  /// Groups of kTileRows rows in a panel.
  [[nodiscard]] constexpr std::size_t groups() const {
    const std::size_t fit = kTilePanelBytes / (group_floats() * sizeof(float));
    return fit == 0 ? 1 : fit;
  }
  [[nodiscard]] constexpr std::size_t sums_floats() const { return kFloatLanes * kTileWave * kTileRows; }
  [[nodiscard]] constexpr std::size_t bytes() const {
    return (groups() * group_floats() + kFloatLanes * token_slice() + sums_floats()) * sizeof(float);
  }
};

/// Isa: that of the multiply-adds. kHalves: what lies in memory are pairs of bfloat16 (bf16.h), and each is two steps,
/// the second half first.
template <class Isa, Stored type, bool kHalves>
class FloatTiles {
  using V = F32x16<Isa>;
  using Ops = FloatOps<Isa>;
  using Part = typename Ops::Batch;
  static constexpr std::size_t kPart = Ops::kSize, kSplit = kHalves ? 2 : 1;
  static_assert(kPart % kSplit == 0 && kFloatLanes % kPart == 0);

 public:
  /// scratch: TileShape{columns as floats}.bytes()
  FloatTiles(const MatMulJob& job, std::byte* scratch)
      : job_(job),
        shape_{job.cols * kSplit},
        steps_((job.cols + kFloatLanes - 1) / kFloatLanes * kSplit),
        panel_(reinterpret_cast<float*>(scratch)),
        tokens_(panel_ + shape_.groups() * shape_.group_floats()),
        sums_(tokens_ + kFloatLanes * shape_.token_slice()) {}

  void run(std::size_t begin, std::size_t end) {
    if (begin >= end) return;
    const std::size_t n_tokens = job_.x->n_tokens, groups = (end - begin + kTileRows - 1) / kTileRows,
                      panels = (groups + shape_.groups() - 1) / shape_.groups(),
                      step = (groups + panels - 1) / panels * kTileRows;
    for (std::size_t row = begin; row < end; row += step) {
      const std::size_t n = std::min(step, end - row);
      for (std::size_t i = 0; i < n; i += kTileRows) pack_rows(row + i, std::min(kTileRows, n - i), group(i));
      for (std::size_t t = 0; t < n_tokens; t += kTileWave) {
        const std::size_t wave = std::min(kTileWave, n_tokens - t);
        for (std::size_t j = 0; j < wave; ++j) pack_token(t + j, tokens_ + j * shape_.token_steps());
        for (std::size_t i = 0; i < n; i += kTileRows) {
          multiply(group(i), wave);
          for (std::size_t j = 0; j < wave; ++j) finish(row + i, std::min(kTileRows, n - i), t + j, j);
        }
      }
    }
  }

 private:
  [[nodiscard]] float* group(std::size_t row) { return panel_ + row / kTileRows * shape_.group_floats(); }

  /// kPart numbers at p, of which `left` are there; half: which of a pair of bfloat16.
  template <Stored stored>
  static Part load(const std::byte* p, std::size_t left, std::size_t half) {
    Part x;
    if (left >= kPart) {
      if constexpr (stored == Stored::F16) {
        x = Ops::load_f16(p);
      } else {
        x = Ops::load(reinterpret_cast<const float*>(p));
      }
    } else {
      x = V::template load_partial_as<stored>(p, left).part[0];
    }
    if constexpr (kHalves) return half == 0 ? Ops::high_bf16(x) : Ops::low_bf16(x);
    return x;
  }
  /// A square of numbers: register i is from(i), and goes to `to` as column i.
  template <class From>
  [[gnu::always_inline]] static void transpose(From from, float* to, std::size_t stride) {
    Part square[kPart];
    CRIA_UNROLL
    for (std::size_t i = 0; i < kPart; ++i) square[i] = from(i);
    Ops::transpose(square);
    CRIA_UNROLL
    for (std::size_t i = 0; i < kPart; ++i) Ops::store(to + i * stride, square[i]);
  }
  [[nodiscard]] std::size_t left(std::size_t col) const { return col < job_.cols ? job_.cols - col : 0; }

  /// [lane][step][row]; rows that are not there are the last one again.
  void pack_rows(std::size_t row, std::size_t n, float* to) {
    constexpr std::size_t kLine = 64 / stored_bytes(type);  // whole lines of a few rows: L1 has eight ways
    const std::size_t cols = steps_ / kSplit * kFloatLanes;
    for (std::size_t first = 0; first < cols; first += kLine) {
      // Nothing here is in L1 or L2, and a store that misses keeps all later ones waiting.
      for (std::size_t r = 0; r < kTileRows; ++r)
        __builtin_prefetch(job_.weights + (row + std::min(r, n - 1)) * job_.row_bytes +
                           first * stored_bytes(type) + 256);
      for (std::size_t lane = 0; lane < kFloatLanes; ++lane)
        for (std::size_t step = 0; step < kLine / kFloatLanes * kSplit; ++step)
          __builtin_prefetch(to + lane * shape_.row_slice() +
                             ((first + 2 * kLine) / kFloatLanes * kSplit + step) * kTileRows);
      for (std::size_t r = 0; r < kTileRows; r += kPart)
        for (std::size_t col = first; col < std::min(cols, first + kLine); col += kPart)
          for (std::size_t half = 0; half < kSplit; ++half)
            pack_square(row, n, r, col, half,
                        to + col % kFloatLanes * shape_.row_slice() +
                            (col / kFloatLanes * kSplit + half) * kTileRows + r);
    }
  }
  void pack_square(std::size_t row, std::size_t n, std::size_t r, std::size_t col, std::size_t half,
                   float* to) {
    const std::size_t there = left(col), row_bytes = job_.row_bytes;
    const std::byte* const w = job_.weights + row * row_bytes + col * stored_bytes(type);
    const auto at = [&](std::size_t i) { return w + std::min(r + i, n - 1) * row_bytes; };
    if (there >= kPart) {
      transpose([&](std::size_t i) { return load<type>(at(i), kPart, half); }, to, shape_.row_slice());
    } else {
      transpose([&](std::size_t i) { return load<type>(at(i), there, half); }, to, shape_.row_slice());
    }
  }

  /// [lane][token][step]
  void pack_token(std::size_t t, float* to) {
    const float* const x = job_.x->f32 + t * job_.x->f32_stride;
    const auto at = [&](std::size_t col) { return reinterpret_cast<const std::byte*>(x + col); };
    for (std::size_t step = 0; step < steps_; step += kPart) {
      for (std::size_t lane = 0; lane < kFloatLanes; ++lane)
        __builtin_prefetch(to + lane * shape_.token_slice() + step + 4 * kPart);
      for (std::size_t i = 0; i < kPart / kSplit; ++i)
        __builtin_prefetch(x + (step / kSplit + i) * kFloatLanes + 256);
      for (std::size_t lane = 0; lane < kFloatLanes; lane += kPart) {
        float* const square = to + lane * shape_.token_slice() + step;
        const auto col = [&](std::size_t i) { return (step + i) / kSplit * kFloatLanes + lane; };
        if (left(col(kPart - 1)) >= kPart) {
          transpose([&](std::size_t i) { return load<Stored::F32>(at(col(i)), kPart, i % kSplit); }, square,
                    shape_.token_slice());
        } else {
          transpose([&](std::size_t i) { return load<Stored::F32>(at(col(i)), left(col(i)), i % kSplit); },
                    square, shape_.token_slice());
        }
      }
    }
  }

  /// sums_[lane][token][row] of 16 rows and n tokens.
  void multiply(const float* rows, std::size_t n) {
    const std::size_t blocks = (n + kMaxQueries - 1) / kMaxQueries;
    const std::size_t line =
        kTileRows * sizeof(float) / blocks;  // of the rows' next chains, by each block a part
    for (std::size_t lane = 0; lane < kFloatLanes; ++lane)
      for (std::size_t b = 0; b < blocks; ++b) {
        const std::size_t first = n * b / blocks, count = n * (b + 1) / blocks - first;
        const float* chains[kMaxQueries];
        for (std::size_t j = 0; j < count; ++j)
          chains[j] = tokens_ + lane * shape_.token_slice() + (first + j) * shape_.token_steps();
        outer_product<Isa, Stored::F32>(
            count,
            {chains, steps_, reinterpret_cast<const std::byte*>(rows + lane * shape_.row_slice()),
             kTileRows * sizeof(float), sums_ + (lane * kTileWave + first) * kTileRows, kTileRows, true,
             nullptr, rows + (lane + 1) * shape_.row_slice() + steps_ * kTileRows * b / blocks, line},
            0, 1);
      }
  }

  /// The tree over the lanes for token t, the j-th of its wave.
  void finish(std::size_t row, std::size_t n, std::size_t t, std::size_t j) {
    const float* const from = sums_ + j * kTileRows;
    const auto lane = [&](std::size_t l) { return V::load(from + l * kTileWave * kTileRows); };
    V sum[kFloatLanes / 2];
    CRIA_UNROLL
    for (std::size_t l = 0; l < 8; ++l) sum[l] = lane(l) + lane(l + 8);
    CRIA_UNROLL
    for (std::size_t l = 0; l < 4; ++l) sum[l] = sum[l] + sum[l + 4];
    const V all = (sum[0] + sum[2]) + (sum[1] + sum[3]);
    const std::size_t at = t * job_.out_stride + row;
    if (n == kTileRows) {
      (job_.residual == nullptr ? all : V::load(job_.residual + at) + all).store(job_.out + at);
    } else {
      (job_.residual == nullptr ? all : V::load_partial(job_.residual + at, n) + all)
          .store_partial(job_.out + at, n);
    }
  }

  const MatMulJob& job_;
  TileShape shape_;
  std::size_t steps_;
  float *panel_, *tokens_, *sums_;
};

}  // namespace cria
