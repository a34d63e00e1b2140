// Float products of many tokens with rows in lanes, for instruction sets that transpose a square of
// their registers (numerics: kernels/README.md).
//
// Each of the sixteen lanes of a row and a token is a chain of its own: columns l, l + 16, … The
// chains of one l are a matrix product by themselves: in every step an outer product of a few
// registers of rows and a few tokens. All operands are read once, sums stay in registers for a
// piece of the columns, and the final tree adds whole registers. For this, tokens are transposed
// once per product (PackActivations), and rows once for all tokens.
#pragma once

#include <algorithm>
#include <cstddef>

#include "kernels/kernels.h"
#include "kernels/matmul/float_blocks.h"
#include "kernels/simd/f32x16.h"
#include "kernels/simd/namespace.h"
#include "kernels/simd/round.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

// The shape of these products, and the packing of tokens.

inline constexpr std::size_t kTileRegisters = 2;  ///< registers of rows

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

  std::size_t cols;  ///< columns in memory

  [[nodiscard]] constexpr std::size_t steps() const {
    return divide_up(cols, kFloatLanes) * kSplit;
  }
  /// Floats between chains. Rows: not a multiple of 4 KiB, or stores would meet in a set. Tokens: a
  /// register is stored for kTokens, and the last one reaches beyond them.
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

/// PackActivations of the float products: [tile][lane][step][token of the tile]; tokens that are
/// not there are the last one again.
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
        pack_tile(x, shape, first, reinterpret_cast<float*>(to) + tile * shape.token_tile());
    }
  }

 private:
  static void pack_tile(const Activations& x, const Shape& shape, std::size_t first, float* to) {
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

/// Tiles of tokens whose sums are kept while they meet all lanes. If these are all tokens, rows are
/// packed piece by piece, and a piece of long rows stays in L2.
inline constexpr std::size_t kTilesTogether = 11;
inline constexpr std::size_t kTileSteps =
    128;  ///< max steps of a piece: a lane's slice of it stays in L1

/// Enough for every instruction set.
constexpr std::size_t float_tiles_scratch_bytes(std::size_t cols) {
  constexpr std::size_t kRows = kTileRegisters * kFloatLanes;
  const std::size_t steps = (cols + 2 * kFloatLanes - 1) / (2 * kFloatLanes) * 2;
  return kFloatLanes * ((steps | 1) + kTilesTogether * kMaxTileTokens) * kRows * sizeof(float);
}

/// Products of packed tokens (MatMulJob::packed).
template <class Isa, Stored type>
class FloatTiles : FloatJob {
  using V = F32x16<Isa>;
  using Shape = TileShape<Isa>;
  using Ops = typename Shape::Ops;
  using Part = typename Shape::Part;
  static constexpr std::size_t kPart = Shape::kPart, kRows = Shape::kRows, kTokens = Shape::kTokens;
  /// Sums of a tile, in one lane.
  static constexpr std::size_t kTileSums = kTokens * kRows;

 public:
  /// scratch: float_tiles_scratch_bytes(columns as floats)
  FloatTiles(const MatMulJob& job, std::byte* scratch)
      : FloatJob(job),
        shape_{job.cols},
        tokens_(reinterpret_cast<const float*>(job.packed)),
        rows_(reinterpret_cast<float*>(scratch)),
        sums_(rows_ + kFloatLanes * shape_.row_slice()) {}

  void run(std::size_t begin, std::size_t end) {
    const std::size_t tiles = Shape::tiles(job_.x->n_tokens),
                      groups = (tiles + kTilesTogether - 1) / kTilesTogether;
    for (std::size_t row = begin; row < end; row += kRows) {
      const std::size_t n = std::min(kRows, end - row);
      const std::byte* const rows = job_.weights + row * job_.row_bytes;
      const bool in_order = row + n < end || job_.next_weights == nullptr;
      const std::byte* const after = in_order ? rows + n * job_.row_bytes : job_.next_weights;
      for (std::size_t group = 0; group < groups; ++group) {
        const Tiles now{tiles * group / groups, tiles * (group + 1) / groups};
        for (std::size_t p = 0; p < pieces(); ++p) {
          if (group == 0) pack_rows(rows, n, piece(p));
          // The file's rows that are packed next arrive during the last tiles, or they would be
          // pushed out again.
          multiply(now, p, group + 1 < groups ? nullptr : p + 1 < pieces() ? rows : after);
        }
        for (std::size_t i = 0; i < now.size(); ++i) finish(row, n, now.begin + i, sums_at(0, i));
      }
    }
  }

 private:
  /// Tiles of tokens that meet a slice of rows together.
  struct Tiles {
    std::size_t begin, end;
    [[nodiscard]] std::size_t size() const { return end - begin; }
  };
  /// Steps [begin, end) of the chains.
  struct Piece {
    std::size_t begin, end;
    [[nodiscard]] std::size_t size() const { return end - begin; }
    [[nodiscard]] std::size_t col() const { return begin / Shape::kSplit * kFloatLanes; }
    [[nodiscard]] std::size_t cols() const { return size() / Shape::kSplit * kFloatLanes; }
  };
  [[nodiscard]] std::size_t pieces() const {
    return (shape_.steps() + kTileSteps - 1) / kTileSteps;
  }
  [[nodiscard]] Piece piece(std::size_t i) const {
    const std::size_t steps = shape_.steps() / Shape::kSplit, n = pieces();
    return {steps * i / n * Shape::kSplit, steps * (i + 1) / n * Shape::kSplit};
  }

  /// [lane][step][row] of a piece of n rows of the file; rows that are not there are the last one
  /// again.
  void pack_rows(const std::byte* rows, std::size_t n, Piece piece) {
    constexpr std::size_t kLine = 64 / stored_bytes(type);  // whole lines, while they are in L1
    constexpr std::size_t kAhead = 256;                     // bytes
    const std::byte* at[kRows];
    for (std::size_t r = 0; r < kRows; ++r) at[r] = rows + std::min(r, n - 1) * job_.row_bytes;
    const std::size_t end = piece.col() + piece.cols();
    for (std::size_t first = piece.col(); first < end; first += kLine) {
      for (const std::byte* row : at) __builtin_prefetch(row + first * stored_bytes(type) + kAhead);
      for (std::size_t r = 0; r < kRows; r += kPart)
        for (std::size_t col = first; col < std::min(end, first + kLine); col += kPart)
          pack_square(shape_, at + r, col,
                      rows_ + col % kFloatLanes * shape_.row_slice() +
                          col / kFloatLanes * Shape::kSplit * kRows + r);
    }
  }
  /// kPart columns of kPart rows. (Not inlined, or GCC 12 computes each address anew.)
  [[gnu::noinline]] static void pack_square(const Shape& shape, const std::byte* const* rows,
                                            std::size_t col, float* to) {
    const std::size_t left = shape.left(col), slice = shape.row_slice();
    const auto transpose = [&](std::size_t there) __attribute__((always_inline)) {
      Shape::transpose(
          [&](std::size_t i) {
            return Shape::template load<type>(rows[i] + col * stored_bytes(type), there);
          },
          [&](std::size_t i) { return to + i * slice; }, kRows);
    };
    left < kPart ? transpose(left) : transpose(kPart);
  }

  [[nodiscard]] const float* rows_at(std::size_t lane, std::size_t step) const {
    return rows_ + lane * shape_.row_slice() + step * kRows;
  }
  [[nodiscard]] const float* tokens_at(std::size_t tile, std::size_t lane, std::size_t step) const {
    return tokens_ + tile * shape_.token_tile() + lane * shape_.token_slice() + step * kTokens;
  }
  /// Sums of tile i of the tiles processed together.
  [[nodiscard]] float* sums_at(std::size_t lane, std::size_t i) const {
    return sums_ + (lane * kTilesTogether + i) * kTileSums;
  }
  [[nodiscard]] std::size_t tokens_of(std::size_t tile) const {
    const std::size_t n = job_.x->n_tokens;
    return Shape::first_token(tile + 1, n) - Shape::first_token(tile, n);
  }
  /// Addresses that a block prefetches in steps: the next block's tokens, a part of the next slice
  /// of rows, and of the file.
  struct Ahead {
    const float *tokens, *rows;
    std::size_t rows_step;  ///< floats
    const std::byte* file;
    std::size_t file_step;  ///< bytes
  };

  /// sums_[lane][token][row] of some tiles += piece p of the columns. next: null, or the rows of
  /// the file whose next piece (after the last one: whose first) is packed after this.
  void multiply(const Tiles& tiles, std::size_t p, const std::byte* next) {
    const Piece now = piece(p), then = piece((p + 1) % pieces());
    const std::size_t n = tiles.size();
    for (std::size_t lane = 0; lane < kFloatLanes; ++lane) {
      const std::size_t next_lane = (lane + 1) % kFloatLanes,
                        next_step = next_lane == 0 ? then.begin : now.begin;
      for (std::size_t i = 0; i < n; ++i) {
        const std::size_t tile = tiles.begin + i;
        const float* const tokens = i + 1 < n ? tokens_at(tile + 1, lane, now.begin)
                                              : tokens_at(tiles.begin, next_lane, next_step);
        Ahead ahead{tokens, rows_at(next_lane, next_step + now.size() * i / n), kRows / n,
                    reinterpret_cast<const std::byte*>(tokens), 0};
        if (next != nullptr) fetch_rows(ahead, next, then, lane, i, n, now.size());
        block_of(tokens_of(tile), rows_at(lane, now.begin), tokens_at(tile, lane, now.begin),
                 now.size(), p == 0, sums_at(lane, i), ahead);
      }
    }
  }
  /// Sets what tile i of n fetches of a piece of the file's rows. Each lane fetches some rows, each
  /// row several tiles.
  void fetch_rows(Ahead& ahead, const std::byte* rows, const Piece& then, std::size_t lane,
                  std::size_t i, std::size_t n, std::size_t steps) const {
    constexpr std::size_t kOfLane = kRows / kFloatLanes;
    const std::size_t row = i * kOfLane / n, first = (row * n + kOfLane - 1) / kOfLane,
                      parts = ((row + 1) * n + kOfLane - 1) / kOfLane - first,
                      bytes = then.cols() * stored_bytes(type);
    ahead.file = rows + (lane * kOfLane + row) * job_.row_bytes + then.col() * stored_bytes(type) +
                 bytes * (i - first) / parts;
    ahead.file_step = (bytes / parts + steps - 1) / steps;
  }

  /// Multiplies the first n tokens of a tile, rounded up to a supported count.
  template <std::size_t Tokens = kTokens, class... Args>
  static void block_of(std::size_t n, const Args&... args) {
    constexpr std::size_t kUnit = Shape::kUnit;
    if constexpr (Tokens > kUnit) {
      if (n + kUnit <= Tokens) return block_of<Tokens - kUnit>(n, args...);
    }
    block<Tokens>(args...);
  }
  /// sums[token][row] += rows[step][row] · tokens[step][token]. (Not inlined, or GCC 12 keeps sums
  /// in memory.)
  template <std::size_t Tokens>
  [[gnu::noinline]] static void block(const float* rows, const float* tokens, std::size_t n_steps,
                                      bool first, float* to, const Ahead& ahead) {
    Part sums[Tokens][kTileRegisters];
    CRIA_UNROLL
    for (std::size_t t = 0; t < Tokens; ++t) {
      CRIA_UNROLL
      for (std::size_t r = 0; r < kTileRegisters; ++r)
        sums[t][r] = first ? Ops::broadcast(0) : Ops::load(to + t * kRows + r * kPart);
    }
    const float *next_tokens = ahead.tokens, *next_rows = ahead.rows;
    const std::byte* file = ahead.file;
    const std::size_t rows_step = ahead.rows_step, file_step = ahead.file_step;
    for (std::size_t step = 0; step < n_steps; ++step) {
      __builtin_prefetch(next_tokens, 0, 3);
      __builtin_prefetch(next_rows, 0, 3);
      __builtin_prefetch(file, 0, 2);
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
      next_tokens += kTokens, next_rows += rows_step, file += file_step;
    }
    CRIA_UNROLL
    for (std::size_t t = 0; t < Tokens; ++t) {
      CRIA_UNROLL
      for (std::size_t r = 0; r < kTileRegisters; ++r)
        Ops::store(to + t * kRows + r * kPart, sums[t][r]);
    }
  }

  /// The trees over the lanes of a tile's tokens.
  void finish(std::size_t row, std::size_t n, std::size_t tile, const float* from) {
    const std::size_t first = Shape::first_token(tile, job_.x->n_tokens);
    for (std::size_t t = 0; t < tokens_of(tile); ++t, from += kRows)
      for (std::size_t r = 0; r < n; r += kFloatLanes)
        add_lanes(row + r, n - r, first + t, from + r);
  }
  /// Stores the sums of token t and up to sixteen of n rows.
  void add_lanes(std::size_t row, std::size_t n, std::size_t t, const float* from) {
    const auto lane = [&](std::size_t l) { return V::load(from + l * kTilesTogether * kTileSums); };
    V sum[kFloatLanes / 2];
    CRIA_UNROLL
    for (std::size_t l = 0; l < 8; ++l) sum[l] = lane(l) + lane(l + 8);
    CRIA_UNROLL
    for (std::size_t l = 0; l < 4; ++l) sum[l] = sum[l] + sum[l + 4];
    const V all = (sum[0] + sum[2]) + (sum[1] + sum[3]);
    const std::size_t at = t * job_.out_stride + row;
    if (n >= kFloatLanes) {
      (job_.residual == nullptr ? all : V::load(job_.residual + at) + all).store(job_.out + at);
    } else {
      (job_.residual == nullptr ? all : V::load_partial(job_.residual + at, n) + all)
          .store_partial(job_.out + at, n);
    }
  }

  Shape shape_;
  const float* tokens_;
  float *rows_, *sums_;
};

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
