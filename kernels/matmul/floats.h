// Products of F32 and F16 weights with float activations: 16 lanes along the row, one tree at its end,
// for one token and for many alike (numerics: kernels/README.md).
//
// A few tokens read the weights where they lie. Many tokens share a panel: rows converted once to float32 and
// laid out in the order in which the inner loop reads them, in pieces of kPiece columns. The sums of a few
// rows and tokens stay in registers for a piece and wait in memory between pieces. A block of tokens stays in
// L1; a piece of the panel and the sums of a wave of tokens stay in an L2 of 512 KiB.
#pragma once

#include <algorithm>
#include <cstddef>

#include "kernels/gemv/fetch_ahead.h"
#include "kernels/kernels.h"
#include "kernels/matmul/float_tiles.h"
#include "kernels/simd/f32x16.h"

namespace cria {

/// Register blocks, rows × tokens. From a panel one register of the 16 lanes is walked at a time, straight
/// from the file all: kRowsOfOne rows with a single token, or kDirectRows with kDirectTokens. kPacked: the tokens of a block
/// are copied together, for want of registers (their addresses) and of ways of the L1 (tokens lie 4 KiB apart or a multiple).
/// kFewTokens: up to here a panel costs more than it saves; kTilesFrom: from here on it pays to transpose the rows
/// (float_tiles.h). kStreamTokens: up to here rows are read in long streams, as RowLanes::kLongStreams says.
template <class Isa>
struct FloatBlock {
  static constexpr std::size_t kRows = 4, kTokens = 6, kDirectRows = 3, kDirectTokens = 2, kRowsOfOne = 3;
  static constexpr std::size_t kFewTokens = 6, kTilesFrom = 128, kStreamTokens = 0;
  static constexpr bool kPacked = true;
};
template <>
struct FloatBlock<Avx2> {
  static constexpr std::size_t kRows = 3, kTokens = 4, kDirectRows = 3, kDirectTokens = 2, kRowsOfOne = 6;
  static constexpr std::size_t kFewTokens = 24, kTilesFrom = 128, kStreamTokens = 24;
  static constexpr bool kPacked = true;
};
template <>
struct FloatBlock<Avx512> {
  static constexpr std::size_t kRows = 4, kTokens = 6, kDirectRows = 4, kDirectTokens = 6, kRowsOfOne = 4;
  static constexpr std::size_t kFewTokens = 32, kTilesFrom = 33, kStreamTokens = 1;
  static constexpr bool kPacked = false;
};

inline constexpr std::size_t kPanelRowUnit = 12;      ///< a multiple of every kRows
inline constexpr std::size_t kPanelRows = 60;         ///< rows converted together, at most
inline constexpr std::size_t kPanelBytes = 3U << 19;  ///< of float32 weights, at most
inline constexpr std::size_t kWave = 48;              ///< tokens that pass a piece of the panel together
inline constexpr std::size_t kPiece = 512;            ///< columns
inline constexpr std::size_t kMaxBlockTokens = 6;

constexpr std::size_t padded_cols(std::size_t cols) {
  return (cols + kFloatLanes - 1) / kFloatLanes * kFloatLanes;
}

/// Rows of a panel: as many units as fit kPanelBytes, at least one, at most kPanelRows.
constexpr std::size_t panel_rows(std::size_t cols) {
  const std::size_t fit =
      kPanelBytes / (padded_cols(cols) * sizeof(float) + 1) / kPanelRowUnit * kPanelRowUnit;
  return fit < kPanelRowUnit ? kPanelRowUnit : fit > kPanelRows ? kPanelRows : fit;
}
/// Scratch of float_matmul: the panel, the sums of its rows for a wave of tokens, a piece of a block of
/// tokens. (Halves come in steps of twice 16 columns.)
constexpr std::size_t float_matmul_scratch_bytes(std::size_t cols) {
  const std::size_t panel = (panel_rows(cols) * (padded_cols(cols) + kFloatLanes + kWave * kFloatLanes) +
                             kPiece * kMaxBlockTokens) *
                            sizeof(float);
  return std::max(panel, TileShape{cols}.bytes());
}

/// What multiplies steps of a panel: the lanes' own operations, or those of their halves.
template <class Ops>
struct PanelOpsOf {
  using Type = Ops;
};
template <class Ops>
requires requires { typename Ops::Halves; }
struct PanelOpsOf<Ops> {
  using Type = typename Ops::Halves;
};

template <class Isa, Stored type>
class FloatMatMul {
  using V = F32x16<Isa>;
  using Ops = FloatOps<Isa>;
  using Part = typename Ops::Batch;
  using PanelOps = typename PanelOpsOf<Ops>::Type;
  using Block = FloatBlock<Isa>;
  static constexpr std::size_t kRows = Block::kRows, kPart = Ops::kSize;
  /// Where lanes hold two halves (bf16.h) a panel has two steps for one of the weights.
  static constexpr bool kHalves = requires { typename Ops::Halves; };
  static constexpr std::size_t kSplit = kHalves ? 2 : 1;
  static constexpr std::size_t kPieceCols = kPiece / kSplit;
  template <std::size_t Rows, std::size_t Tokens>
  using Sums = V[Rows][Tokens];

 public:
  FloatMatMul(const MatMulJob& job, std::byte* scratch)
      : job_(job),
        scratch_(scratch),
        panel_(reinterpret_cast<float*>(scratch)),
        sums_(panel_ + panel_rows(job.cols * kSplit) * padded_cols(job.cols) * kSplit),
        tokens_(sums_ + panel_rows(job.cols * kSplit) * kWave * kFloatLanes) {}

  void run(std::size_t begin, std::size_t end) {
    const std::size_t n = job_.x->n_tokens;
    if (n == 1) return direct<Block::kRowsOfOne>(begin, end);
    if (n <= Block::kFewTokens) return direct<Block::kDirectRows>(begin, end);
    if constexpr (requires(Part * square) { Ops::transpose(square); }) {
      if (n >= Block::kTilesFrom) {
        tiles(begin, end);
        return;
      }
    }
    const std::size_t step = panel_rows(job_.cols * kSplit);
    for (std::size_t row = begin; row < end; row += step)
      panel_times_tokens(row, end - row < step ? end - row : step);
  }

 private:
  template <std::size_t N>
  struct Constant {
    constexpr operator std::size_t() const { return N; }
  };
  /// Calls f(Constant<size>, first) for blocks of Largest and one smaller rest.
  template <std::size_t Largest, class F>
  static void in_blocks(std::size_t n, F f, std::size_t first = 0) {
    for (; first + Largest <= n; first += Largest) f(Constant<Largest>(), first);
    if constexpr (Largest > 1) {
      if (first < n) in_blocks<Largest - 1>(n, f, first);
    }
  }

  [[nodiscard]] const float* token(std::size_t t) const { return job_.x->f32 + t * job_.x->f32_stride; }
  void put(std::size_t row, std::size_t t, float sum) {
    const std::size_t at = t * job_.out_stride + row;
    job_.out[at] = job_.residual == nullptr ? sum : job_.residual[at] + sum;
  }
  /// One step of 16 columns; rows are loaded one at a time, which leaves registers for the sums.
  template <std::size_t Rows, std::size_t Tokens, class LoadRow, class LoadToken>
  [[gnu::always_inline]] static void multiply_add(LoadRow load_row, LoadToken load_token,
                                                  Sums<Rows, Tokens>& sums) {
    V x[Tokens];
    CRIA_UNROLL
    for (std::size_t j = 0; j < Tokens; ++j) x[j] = load_token(j);
    CRIA_UNROLL
    for (std::size_t i = 0; i < Rows; ++i) {
      const V w = load_row(i);
      CRIA_UNROLL
      for (std::size_t j = 0; j < Tokens; ++j) sums[i][j] = fma(w, x[j], sums[i][j]);
    }
  }

  template <std::size_t most>
  void direct(std::size_t begin, std::size_t end) {
    const RowGroups groups(begin, end, most, job_.x->n_tokens <= Block::kStreamTokens ? job_.row_bytes : 0);
    for (std::size_t group = 0; group < groups.size(); ++group) {
      const auto [row, n, apart] = groups[group];
      apart_ = apart;
      if (n == most)
        direct_rows<most>(row);
      else
        for (std::size_t i = 0; i < n; ++i) direct_rows<1>(row + i);
    }
  }
  /// Each block of tokens that meets the same rows fetches its part of those that come later, or memory would idle
  /// while the others do.
  struct Fetches {
    std::size_t block, blocks;
  };
  /// Rows from `row` on, apart_ from each other, for all tokens, straight from the file.
  template <std::size_t Rows>
  void direct_rows(std::size_t row) {
    const std::size_t n = job_.x->n_tokens, blocks = (n + Block::kDirectTokens - 1) / Block::kDirectTokens;
    for (std::size_t t = 0, b = 0; t < n; ++b)  // as equal as can be
      t += direct_tokens<Rows, Block::kDirectTokens>((n - t + blocks - b - 1) / (blocks - b), row, t,
                                                     {b, blocks});
  }
  template <std::size_t Rows, std::size_t Tokens>
  std::size_t direct_tokens(std::size_t n, std::size_t row, std::size_t t, Fetches fetches) {
    if constexpr (Tokens > 1) {
      if (n < Tokens) return direct_tokens<Rows, Tokens - 1>(n, row, t, fetches);
    }
    direct_block<Rows, Tokens>(row, t, fetches);
    return Tokens;
  }
  template <std::size_t Rows, std::size_t Tokens>
  void direct_block(std::size_t row, std::size_t t, Fetches fetches) {
    const std::byte* weights = job_.weights + row * job_.row_bytes;
    const float* tokens = token(t);
    const std::size_t cols = job_.cols, row_bytes = apart_ * job_.row_bytes, x_stride = job_.x->f32_stride;
    Sums<Rows, Tokens> sums;
    CRIA_UNROLL
    for (std::size_t i = 0; i < Rows; ++i) {
      CRIA_UNROLL
      for (std::size_t j = 0; j < Tokens; ++j) sums[i][j] = V::broadcast(0);
    }
    std::size_t k = 0;
    const auto w = [&](std::size_t i) { return weights + i * row_bytes + k * stored_bytes(type); };
    const auto x = [&](std::size_t j) { return tokens + j * x_stride + k; };
    constexpr std::size_t kStep = Rows * kFloatLanes * stored_bytes(type);
    [[maybe_unused]] const std::byte* ahead = fetched_beside(weights, Rows * row_bytes);
    [[maybe_unused]] std::size_t wait = fetches.block;
    for (; k + kFloatLanes <= cols; k += kFloatLanes) {
      if constexpr (Tokens > Block::kStreamTokens) {
        if (wait == 0) fetch_far<kStep, 1, 2>(ahead, 0), wait = fetches.blocks;
        --wait;
        ahead += kStep;
      }
      multiply_add([&](std::size_t i) { return V::template load_as<type>(w(i)); },
                   [&](std::size_t j) { return V::load(x(j)); }, sums);
    }
    if (const std::size_t tail = cols - k; tail > 0) {
      multiply_add([&](std::size_t i) { return V::template load_partial_as<type>(w(i), tail); },
                   [&](std::size_t j) { return V::load_partial(x(j), tail); }, sums);
    }
    CRIA_UNROLL
    for (std::size_t i = 0; i < Rows; ++i) {
      CRIA_UNROLL
      for (std::size_t j = 0; j < Tokens; ++j) put(row + i * apart_, t + j, sums[i][j].sum());
    }
  }

  /// Few registers: rows in lanes.
  void tiles(std::size_t begin, std::size_t end) {
    if constexpr (kHalves) {
      FloatTiles<typename Ops::HalvesIsa, type, true>(job_, scratch_).run(begin, end);
    } else {
      FloatTiles<Isa, type, false>(job_, scratch_).run(begin, end);
    }
  }

  void panel_times_tokens(std::size_t row, std::size_t n) {
    groups_ = (n + kRows - 1) / kRows;
    for (std::size_t i = 0; i < groups_ * kRows; ++i)
      pack_row(i, i < n ? job_.weights + (row + i) * job_.row_bytes : nullptr);
    for (std::size_t first = 0; first < job_.x->n_tokens; first += kWave) {
      const std::size_t wave = std::min(kWave, job_.x->n_tokens - first);
      const auto sums = [&](std::size_t t) { return sums_ + t * groups_ * kRows * kFloatLanes; };
      for (std::size_t k = 0; k < job_.cols; k += kPieceCols)
        in_blocks<Block::kTokens>(wave, [&](auto tokens, std::size_t t) {
          const bool last = t + tokens == wave, end = k + kPieceCols >= job_.cols;
          next_token_ = last && !end ? first : first + t + tokens;
          next_col_ = !last ? k : end ? 0 : k + kPieceCols;
          piece<tokens>(first + t, k, sums(t));
        });
      in_blocks<Block::kTokens>(wave, [&](auto tokens, std::size_t t) {
        for (std::size_t j = 0; j < tokens; ++j)
          finish(row, n, first + t + j, sums(t) + j * kFloatLanes, tokens * kFloatLanes);
      });
    }
  }

  /// Steps of the inner loop in the piece that starts at column k: groups of 16 columns, or of 16 halves.
  [[nodiscard]] std::size_t steps(std::size_t k) const {
    return padded_cols(job_.cols - k < kPieceCols ? job_.cols - k : kPieceCols) / kFloatLanes * kSplit;
  }
  /// Panel: [piece][group of kRows rows][part][step][row][kPart].
  float* panel_piece(std::size_t k, std::size_t group) {
    return panel_ + kRows * (k * kSplit * groups_ + group * steps(k) * kFloatLanes);
  }
  /// One number of [part][step][row or token][kPart]: where part 0 of a
  /// step goes, and how far apart the parts are.
  static void store_parts(const V& v, float* to, std::size_t stride) {
    for (std::size_t p = 0; p < V::kParts; ++p) Ops::store(to + p * stride, v.part[p]);
  }
  /// The same for the step or the two steps of 16 columns; step: floats from one to the next.
  static void store_steps(const V& v, float* to, std::size_t step, std::size_t stride) {
    if constexpr (kHalves) {
      V half;
      for (std::size_t p = 0; p < V::kParts; ++p) half.part[p] = Ops::high_bf16(v.part[p]);
      store_parts(half, to, stride);
      for (std::size_t p = 0; p < V::kParts; ++p) half.part[p] = Ops::low_bf16(v.part[p]);
      store_parts(half, to + step, stride);
    } else {
      store_parts(v, to, stride);
    }
  }

  /// Row i of the panel; zeros without weights. (What follows in memory is what is packed next.)
  void pack_row(std::size_t i, const std::byte* w) {
    constexpr std::size_t kStep = kFloatLanes * stored_bytes(type);
    for (std::size_t k = 0; k < job_.cols; k += kPieceCols) {
      const std::size_t n = steps(k);
      float* to = panel_piece(k, i / kRows) + i % kRows * kPart;
      for (std::size_t step = 0; step < n / kSplit; ++step, to += kSplit * kRows * kPart) {
        const std::size_t at = k + step * kFloatLanes, left = job_.cols - at;
        if (w != nullptr) fetch_far<kStep, 1, 2>(fetched_beside(w + at * stored_bytes(type), 0), 0);
        const V v = w == nullptr ? V::broadcast(0)
                    : left >= kFloatLanes
                        ? V::template load_as<type>(w + at * stored_bytes(type))
                        : V::template load_partial_as<type>(w + at * stored_bytes(type), left);
        store_steps(v, to, kRows * kPart, n * kRows * kPart);
      }
    }
  }
  /// tokens_: [part][step][token][kPart] of the piece at column k.
  template <std::size_t Tokens>
  void pack_tokens(std::size_t t, std::size_t k) {
    const std::size_t n = steps(k), whole = (job_.cols - k) / kFloatLanes, stride = n * Tokens * kPart;
    for (std::size_t j = 0; j < Tokens; ++j) {
      const float* x = token(t + j) + k;
      float* to = tokens_ + j * kPart;
      for (std::size_t step = 0; step < n / kSplit; ++step, x += kFloatLanes, to += kSplit * Tokens * kPart)
        store_steps(step < whole ? V::load(x) : V::load_partial(x, job_.cols % kFloatLanes), to,
                    Tokens * kPart, stride);
    }
  }
  /// What the inner loop asks for while it runs over a group, a line in every step, or null: in the last
  /// groups, what pack_tokens will read next. (All at once would keep the loop's own loads waiting; earlier,
  /// L1 would lose it again.)
  template <std::size_t Tokens>
  [[nodiscard]] const float* ahead(std::size_t group) const {
    const std::size_t first = groups_ < Tokens ? 0 : groups_ - Tokens, t = next_token_ + group - first;
    return group >= first && t < job_.x->n_tokens ? token(t) + next_col_ : nullptr;
  }

  /// sums[row][token] += the piece at column k, for all rows of the panel and Tokens tokens from t on.
  template <std::size_t Tokens>
  void piece(std::size_t t, std::size_t k, float* sums) {
    if (kHalves || Block::kPacked || job_.cols % kFloatLanes != 0) {
      pack_tokens<Tokens>(t, k);
      groups<Tokens>(k, sums, PackedTokens<Tokens>{tokens_}, steps(k) * Tokens * kPart);
    } else {
      groups<Tokens>(k, sums, TokensInPlace{token(t) + k, job_.x->f32_stride}, kPart);
    }
  }
  /// Where the inner loop finds its tokens.
  template <std::size_t Tokens>
  struct PackedTokens {
    const float* at;
    [[gnu::always_inline]] const float* token(std::size_t j) const { return at + j * kPart; }
    [[gnu::always_inline]] void step() { at += Tokens * kPart; }
  };
  struct TokensInPlace {
    const float* at;
    std::size_t stride;
    [[gnu::always_inline]] const float* token(std::size_t j) const { return at + j * stride; }
    [[gnu::always_inline]] void step() { at += kFloatLanes; }
  };
  template <std::size_t Tokens, class X>
  void groups(std::size_t k, float* sums, const X& x, std::size_t part_stride) {
    const std::size_t n = steps(k);
    for (std::size_t group = 0; group < groups_; ++group) {
      const float *w = panel_piece(k, group), *next = ahead<Tokens>(group);
      float* saved = sums + group * kRows * Tokens * kFloatLanes;
      X part_x = x;
      for (std::size_t part = 0; part < V::kParts;
           ++part, saved += kPart, w += n * kRows * kPart, part_x.at += part_stride)
        block<Tokens>(w, part_x, n, k == 0, saved, part == 0 ? next : nullptr);
    }
  }
  /// One register of the lanes: saved[row][token] += w[step][row]·x[step][token]. (Not inlined, or GCC 12
  /// keeps sums in memory.)
  template <std::size_t Tokens, class X>
  [[gnu::noinline]] static void block(const float* w, X x, std::size_t n_steps, bool first, float* saved,
                                      const float* next) {
    const std::size_t stride = next == nullptr ? 0 : kFloatLanes;
    if (next == nullptr) next = w;
    Part sums[kRows][Tokens];
    CRIA_UNROLL
    for (std::size_t i = 0; i < kRows; ++i) {
      CRIA_UNROLL
      for (std::size_t j = 0; j < Tokens; ++j)
        sums[i][j] = first ? Ops::broadcast(0) : Ops::load(saved + (i * Tokens + j) * kFloatLanes);
    }
    for (std::size_t step = 0; step < n_steps; ++step, w += kRows * kPart, x.step(), next += stride) {
      __builtin_prefetch(next, 0, 3);
      Part tokens[Tokens];
      CRIA_UNROLL
      for (std::size_t j = 0; j < Tokens; ++j) tokens[j] = Ops::load(x.token(j));
      CRIA_UNROLL
      for (std::size_t i = 0; i < kRows; ++i) {
        const Part row = Ops::load(w + i * kPart);
        CRIA_UNROLL
        for (std::size_t j = 0; j < Tokens; ++j) sums[i][j] = PanelOps::fma(row, tokens[j], sums[i][j]);
      }
    }
    CRIA_UNROLL
    for (std::size_t i = 0; i < kRows; ++i) {
      CRIA_UNROLL
      for (std::size_t j = 0; j < Tokens; ++j) Ops::store(saved + (i * Tokens + j) * kFloatLanes, sums[i][j]);
    }
  }

  /// Adds up the lanes of n rows of one token.
  void finish(std::size_t row, std::size_t n, std::size_t t, const float* sums, std::size_t stride) {
    std::size_t i = 0;
    for (; i + kFloatLanes <= n; i += kFloatLanes) {
      const V all = V::sums([&](std::size_t r) { return V::load(sums + (i + r) * stride); });
      const std::size_t at = t * job_.out_stride + row + i;
      (job_.residual == nullptr ? all : V::load(job_.residual + at) + all).store(job_.out + at);
    }
    for (; i + 4 <= n; i += 4) {
      float four[4];
      V::sum4(V::load(sums + i * stride), V::load(sums + (i + 1) * stride), V::load(sums + (i + 2) * stride),
              V::load(sums + (i + 3) * stride), four);
      for (std::size_t r = 0; r < 4; ++r) put(row + i + r, t, four[r]);
    }
    for (; i < n; ++i) put(row + i, t, V::load(sums + i * stride).sum());
  }

  const MatMulJob& job_;
  std::byte* scratch_;
  float *panel_, *sums_, *tokens_;
  std::size_t apart_ = 1;                      ///< rows between those that direct_rows() takes together
  std::size_t groups_ = 0;                     ///< of kRows rows in the panel
  std::size_t next_token_ = 0, next_col_ = 0;  ///< where the next piece begins
};

/// MatMulFn for weights stored as `type`.
template <class Isa, Stored type>
void float_matmul(const MatMulJob& job, std::size_t row_begin, std::size_t row_end, std::byte* scratch) {
  FloatMatMul<Isa, type>(job, scratch).run(row_begin, row_end);
}

/// The kernel of a float type; run is null for any other.
template <class Isa>
MatMulKernel float_matmul_kernel(DType type) {
  if (type == DType::F32) return {ActType::F32, float_matmul<Isa, Stored::F32>};
  if (type == DType::F16) return {ActType::F32, float_matmul<Isa, Stored::F16>};
  return {};
}

}  // namespace cria
