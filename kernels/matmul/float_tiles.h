// Float products of many tokens with rows in lanes, for instruction sets that transpose a square of their registers
// (numerics: kernels/README.md).
//
// Each of the sixteen lanes of a row and a token is a chain of its own: columns l, l + 16, … So the chains of one l are a
// matrix product by themselves, and a few registers of rows × a few tokens of it an outer product in every step: all
// operands are read once, sums stay in registers for a piece of the columns, and the tree at the end adds whole registers.
// That is what rows and tokens are transposed for: tokens once for the whole product (LayOut), rows for all tokens.
#pragma once

#include <algorithm>
#include <cstddef>

#include "kernels/kernels.h"
#include "kernels/matmul/float_blocks.h"
#include "kernels/matmul/float_job.h"
#include "kernels/simd/f32x16.h"

namespace cria {

inline constexpr std::size_t kTileRegisters = 2;  ///< of rows
/// Tiles of tokens that meet a slice of rows while it is in L1.
inline constexpr std::size_t kTilesTogether = 3;
inline constexpr std::size_t kTileSteps = 128;  ///< of a slice, at most

/// The shape of a product whose columns are chains. Where lanes hold two halves (bf16.h), each is two steps, the second half
/// first.
template <class Isa>
struct TileShape {
  using Ops = FloatOps<Isa>;
  using Part = typename Ops::Batch;
  static constexpr bool kHalves = requires { typename Ops::Halves; };
  static constexpr std::size_t kPart = Ops::kSize, kSplit = kHalves ? 2 : 1, kRows = kTileRegisters * kPart,
                               kTokens = FloatBlock<Isa>::kTileTokens;
  static_assert(kTokens <= kPart && kTokens <= kMostTileTokens && kFloatLanes % kPart == 0 &&
                kRows % kFloatLanes == 0);

  std::size_t cols;  ///< of what lies in memory

  [[nodiscard]] constexpr std::size_t steps() const {
    return (cols + kFloatLanes - 1) / kFloatLanes * kSplit;
  }
  /// Floats from a chain to the next one. Of rows: not a multiple of 4 KiB, or stores would meet in a set. Of tokens: a
  /// register is stored for kTokens, and the last one reaches beyond them.
  [[nodiscard]] constexpr std::size_t row_slice() const { return (steps() | 1) * kRows; }
  [[nodiscard]] constexpr std::size_t token_slice() const { return steps() * kTokens + kFloatLanes; }
  /// Floats of a tile of tokens.
  [[nodiscard]] constexpr std::size_t token_tile() const { return kFloatLanes * token_slice(); }
  [[nodiscard]] static constexpr std::size_t tiles(std::size_t n_tokens) {
    return (n_tokens + kTokens - 1) / kTokens;
  }

  /// A square of numbers: register i is from(i), and column i goes to to(i); two columns of halves to to(i) and what lies
  /// `step` floats behind it.
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

/// LayOut of the float products: [tile][lane][step][token of the tile]; tokens that are not there are the last one again.
template <class Isa>
struct FloatTokens {
  using Shape = TileShape<Isa>;

  static std::size_t bytes(std::size_t n_tokens, std::size_t cols) {
    return Shape::tiles(n_tokens) * Shape{lane_cols<Isa>(cols)}.token_tile() * sizeof(float);
  }
  static void run(const Activations& x, std::size_t t0, std::size_t t1, std::byte* to) {
    const Shape shape{lane_cols<Isa>(x.cols)};
    for (std::size_t tile = Shape::tiles(t0); tile * Shape::kTokens < t1; ++tile)
      lay_out_tile(x, shape, tile * Shape::kTokens, reinterpret_cast<float*>(to) + tile * shape.token_tile());
  }

 private:
  static void lay_out_tile(const Activations& x, const Shape& shape, std::size_t first, float* to) {
    constexpr std::size_t kPart = Shape::kPart;
    const std::byte* const rows =
        kPairs<Isa> ? reinterpret_cast<const std::byte*>(x.q) : reinterpret_cast<const std::byte*>(x.f32);
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

/// Of any instruction set.
constexpr std::size_t float_tiles_scratch_bytes(std::size_t cols) {
  constexpr std::size_t kRows = kTileRegisters * kFloatLanes;
  const std::size_t steps = (cols + 2 * kFloatLanes - 1) / (2 * kFloatLanes) * 2;
  return kFloatLanes * ((steps | 1) + kTilesTogether * kMostTileTokens) * kRows * sizeof(float);
}

/// Products of tokens that are laid out (MatMulJob::laid_out).
template <class Isa, Stored type>
class FloatTiles : FloatJob {
  using V = F32x16<Isa>;
  using Shape = TileShape<Isa>;
  using Ops = typename Shape::Ops;
  using Part = typename Shape::Part;
  static constexpr std::size_t kPart = Shape::kPart, kRows = Shape::kRows, kTokens = Shape::kTokens;
  /// Of a tile's sums of one lane.
  static constexpr std::size_t kTileSums = kTokens * kRows;

 public:
  /// scratch: float_tiles_scratch_bytes(columns as floats)
  FloatTiles(const MatMulJob& job, std::byte* scratch)
      : FloatJob(job),
        shape_{job.cols},
        tokens_(reinterpret_cast<const float*>(job.laid_out)),
        rows_(reinterpret_cast<float*>(scratch)),
        sums_(rows_ + kFloatLanes * shape_.row_slice()) {}

  void run(std::size_t begin, std::size_t end) {
    const std::size_t n_tokens = job_.x->n_tokens, tiles = Shape::tiles(n_tokens);
    for (std::size_t row = begin; row < end; row += kRows) {
      const std::size_t n = std::min(kRows, end - row);
      pack_rows(row, n);
      for (std::size_t tile = 0; tile < tiles; tile += kTilesTogether) {
        const std::size_t together = std::min(kTilesTogether, tiles - tile), first = tile * kTokens,
                          last = std::min(first + together * kTokens, n_tokens);
        multiply(tile, together, last - first);
        for (std::size_t t = first; t < last; ++t) finish(row, n, t, sums_ + (t - first) * kRows);
      }
    }
  }

 private:
  /// [lane][step][row]; rows that are not there are the last one again.
  void pack_rows(std::size_t row, std::size_t n) {
    constexpr std::size_t kLine = 64 / stored_bytes(type);  // whole lines, while they are in L1
    constexpr std::size_t kAhead = 256;                     // bytes: nothing here is in the caches
    const std::size_t cols = shape_.steps() / Shape::kSplit * kFloatLanes;
    for (std::size_t first = 0; first < cols; first += kLine) {
      for (std::size_t r = 0; r < kRows; ++r)
        __builtin_prefetch(job_.weights + (row + std::min(r, n - 1)) * job_.row_bytes +
                           first * stored_bytes(type) + kAhead);
      for (std::size_t r = 0; r < kRows; r += kPart)
        for (std::size_t col = first; col < std::min(cols, first + kLine); col += kPart) {
          const std::byte* const w = job_.weights + row * job_.row_bytes + col * stored_bytes(type);
          const std::size_t left = shape_.left(col);
          float* const to =
              rows_ + col % kFloatLanes * shape_.row_slice() + col / kFloatLanes * Shape::kSplit * kRows + r;
          Shape::transpose(
              [&](std::size_t i) {
                return Shape::template load<type>(w + std::min(r + i, n - 1) * job_.row_bytes, left);
              },
              [&](std::size_t i) { return to + i * shape_.row_slice(); }, kRows);
        }
    }
  }

  /// Steps [begin, end) of the chains.
  struct Piece {
    std::size_t begin, end;
    [[nodiscard]] std::size_t size() const { return end - begin; }
  };
  [[nodiscard]] std::size_t pieces() const { return (shape_.steps() + kTileSteps - 1) / kTileSteps; }
  [[nodiscard]] Piece piece(std::size_t i) const {
    return {shape_.steps() * i / pieces(), shape_.steps() * (i + 1) / pieces()};
  }
  [[nodiscard]] const float* rows_at(std::size_t lane, std::size_t step) const {
    return rows_ + lane * shape_.row_slice() + step * kRows;
  }
  [[nodiscard]] const float* tokens_at(std::size_t tile, std::size_t lane, std::size_t step) const {
    return tokens_ + tile * shape_.token_tile() + lane * shape_.token_slice() + step * kTokens;
  }
  /// What a block fetches: the next block's tokens, and a part of the next slice of rows.
  struct Ahead {
    const float *tokens, *rows;
    std::size_t rows_step;  ///< floats
  };

  /// sums_[lane][token][row] of n_tokens tokens in n tiles.
  void multiply(std::size_t tile, std::size_t n, std::size_t n_tokens) {
    for (std::size_t p = 0; p < pieces(); ++p)
      for (std::size_t lane = 0; lane < kFloatLanes; ++lane) {
        const Piece now = piece(p);
        const std::size_t next_lane = (lane + 1) % kFloatLanes,
                          next_step = piece((p + (next_lane == 0 ? 1 : 0)) % pieces()).begin;
        for (std::size_t i = 0; i < n; ++i) {
          const Ahead ahead{
              i + 1 < n ? tokens_at(tile + i + 1, lane, now.begin) : tokens_at(tile, next_lane, next_step),
              rows_at(next_lane, next_step + now.size() * i / n), kRows / n};
          float* const sums = sums_ + (lane * kTilesTogether + i) * kTileSums;
          block_of(n_tokens - i * kTokens, rows_at(lane, now.begin), tokens_at(tile + i, lane, now.begin),
                   now.size(), p == 0, sums, ahead);
        }
      }
  }

  /// A tile's first n tokens, if it has more, and perhaps some of those.
  template <std::size_t Tokens = kTokens, class... Args>
  static void block_of(std::size_t n, const Args&... args) {
    constexpr std::size_t kFewer = kTokens / 3;
    if constexpr (Tokens > kFewer) {
      if (n + kFewer <= Tokens) return block_of<Tokens - kFewer>(n, args...);
    }
    block<Tokens>(args...);
  }
  /// sums[token][row] += rows[step][row] · tokens[step][token]. (Not inlined, or GCC 12 keeps sums in memory.)
  template <std::size_t Tokens>
  [[gnu::noinline]] static void block(const float* rows, const float* tokens, std::size_t n_steps, bool first,
                                      float* to, const Ahead& ahead) {
    Part sums[Tokens][kTileRegisters];
    CRIA_UNROLL
    for (std::size_t t = 0; t < Tokens; ++t) {
      CRIA_UNROLL
      for (std::size_t r = 0; r < kTileRegisters; ++r)
        sums[t][r] = first ? Ops::broadcast(0) : Ops::load(to + t * kRows + r * kPart);
    }
    const float *next_tokens = ahead.tokens, *next_rows = ahead.rows;
    const std::size_t rows_step = ahead.rows_step;
    for (std::size_t step = 0; step < n_steps; ++step) {
      __builtin_prefetch(next_tokens, 0, 3);
      __builtin_prefetch(next_rows, 0, 3);
      Part row[kTileRegisters];
      CRIA_UNROLL
      for (std::size_t r = 0; r < kTileRegisters; ++r) row[r] = Ops::load(rows + r * kPart);
      CRIA_UNROLL
      for (std::size_t t = 0; t < Tokens; ++t) {
        const Part x = Ops::broadcast(tokens[t]);
        CRIA_UNROLL
        for (std::size_t r = 0; r < kTileRegisters; ++r)
          sums[t][r] = HalfOps<Isa>::fma(row[r], x, sums[t][r]);
      }
      rows += kRows, tokens += kTokens;
      next_tokens += kTokens, next_rows += rows_step;
    }
    CRIA_UNROLL
    for (std::size_t t = 0; t < Tokens; ++t) {
      CRIA_UNROLL
      for (std::size_t r = 0; r < kTileRegisters; ++r) Ops::store(to + t * kRows + r * kPart, sums[t][r]);
    }
  }

  /// The tree over the lanes of token t.
  void finish(std::size_t row, std::size_t n, std::size_t t, const float* from) {
    for (std::size_t r = 0; r < n; r += kFloatLanes, from += kFloatLanes) {
      const auto lane = [&](std::size_t l) { return V::load(from + l * kTilesTogether * kTileSums); };
      V sum[kFloatLanes / 2];
      CRIA_UNROLL
      for (std::size_t l = 0; l < 8; ++l) sum[l] = lane(l) + lane(l + 8);
      CRIA_UNROLL
      for (std::size_t l = 0; l < 4; ++l) sum[l] = sum[l] + sum[l + 4];
      const V all = (sum[0] + sum[2]) + (sum[1] + sum[3]);
      const std::size_t at = t * job_.out_stride + row + r;
      if (n - r >= kFloatLanes) {
        (job_.residual == nullptr ? all : V::load(job_.residual + at) + all).store(job_.out + at);
      } else {
        (job_.residual == nullptr ? all : V::load_partial(job_.residual + at, n - r) + all)
            .store_partial(job_.out + at, n - r);
      }
    }
  }

  Shape shape_;
  const float* tokens_;
  float *rows_, *sums_;
};

}  // namespace cria
