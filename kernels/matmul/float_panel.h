// Float products of many tokens from a panel (numerics: kernels/README.md). Rows are converted once
// to float32, in the order of the inner loop, in pieces of kPiece columns. The sums of a few rows
// and tokens stay in registers for a piece and are kept in memory between pieces. A block of tokens
// stays in L1; a piece of the panel and the sums of a wave of tokens stay in an L2 of 512 KiB.
#pragma once

#include <algorithm>
#include <cstddef>

#include "kernels/kernels.h"
#include "kernels/matmul/float_blocks.h"
#include "kernels/simd/f32x16.h"
#include "kernels/simd/namespace.h"
#include "kernels/simd/prefetch.h"
#include "kernels/simd/round.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

inline constexpr std::size_t kPanelRowUnit = 12;      ///< a multiple of every kRows
inline constexpr std::size_t kFloatPanelRows = 60;    ///< rows converted together, at most
inline constexpr std::size_t kPanelBytes = 3U << 19;  ///< max bytes of float32 weights
inline constexpr std::size_t kWave = 48;    ///< tokens that pass a piece of the panel together
inline constexpr std::size_t kPiece = 512;  ///< columns
inline constexpr std::size_t kMaxBlockTokens = 6;

constexpr std::size_t padded_cols(std::size_t cols) { return round_up(cols, kFloatLanes); }

/// Rows of a panel: the units that fit in kPanelBytes, from one unit to kFloatPanelRows.
constexpr std::size_t panel_rows(std::size_t cols) {
  const std::size_t fit =
      kPanelBytes / (padded_cols(cols) * sizeof(float) + 1) / kPanelRowUnit * kPanelRowUnit;
  return fit < kPanelRowUnit ? kPanelRowUnit : fit > kFloatPanelRows ? kFloatPanelRows : fit;
}
/// Scratch: the panel, the sums of its rows for a wave of tokens, a piece of a block of tokens.
/// (Halves come in steps of twice 16 columns.)
constexpr std::size_t float_panel_scratch_bytes(std::size_t cols) {
  return (panel_rows(cols) * (padded_cols(cols) + kFloatLanes + kWave * kFloatLanes) +
          kPiece * kMaxBlockTokens) *
         sizeof(float);
}

template <class Isa, Stored type>
class FloatPanel : FloatJob {
  using V = F32x16<Isa>;
  using Ops = FloatOps<Isa>;
  using Part = typename Ops::Batch;
  using Block = FloatBlock<Isa>;
  static constexpr std::size_t kRows = Block::kRows, kPart = Ops::kSize;
  /// If lanes hold two halves (Bf16Pairs), a panel has two steps for one of the weights.
  static constexpr bool kHalves = requires { typename Ops::Halves; };
  static constexpr std::size_t kSplit = kHalves ? 2 : 1;
  static constexpr std::size_t kPieceCols = kPiece / kSplit;

 public:
  /// scratch: float_panel_scratch_bytes(columns)
  FloatPanel(const MatMulJob& job, std::byte* scratch)
      : FloatJob(job),
        panel_(reinterpret_cast<float*>(scratch)),
        sums_(panel_ + panel_rows(job.cols * kSplit) * padded_cols(job.cols) * kSplit),
        tokens_(sums_ + panel_rows(job.cols * kSplit) * kWave * kFloatLanes) {}

  void run(std::size_t begin, std::size_t end) {
    const std::size_t step = panel_rows(job_.cols * kSplit);
    for (std::size_t row = begin; row < end; row += step)
      panel_times_tokens(row, std::min(step, end - row));
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

  void panel_times_tokens(std::size_t row, std::size_t n) {
    groups_ = divide_up(n, kRows);
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

  /// Steps of the inner loop in the piece that starts at column k: groups of 16 columns, or of 16
  /// halves.
  [[nodiscard]] std::size_t steps(std::size_t k) const {
    return padded_cols(job_.cols - k < kPieceCols ? job_.cols - k : kPieceCols) / kFloatLanes *
           kSplit;
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
        if (w != nullptr) prefetch_far_l2<kStep>(w + at * stored_bytes(type) + kPrefetchFar);
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
    const std::size_t n = steps(k), whole = (job_.cols - k) / kFloatLanes,
                      stride = n * Tokens * kPart;
    for (std::size_t j = 0; j < Tokens; ++j) {
      const float* x = token(t + j) + k;
      float* to = tokens_ + j * kPart;
      for (std::size_t step = 0; step < n / kSplit;
           ++step, x += kFloatLanes, to += kSplit * Tokens * kPart)
        store_steps(step < whole ? V::load(x) : V::load_partial(x, job_.cols % kFloatLanes), to,
                    Tokens * kPart, stride);
    }
  }
  /// Address that the inner loop prefetches, a line per step, or null: in the last groups, the next
  /// input of pack_tokens. (All at once would delay the loop's own loads; earlier, L1 would lose
  /// it.)
  template <std::size_t Tokens>
  [[nodiscard]] const float* ahead(std::size_t group) const {
    const std::size_t first = groups_ < Tokens ? 0 : groups_ - Tokens,
                      t = next_token_ + group - first;
    return group >= first && t < job_.x->n_tokens ? token(t) + next_col_ : nullptr;
  }

  /// sums[row][token] += the piece at column k, for all rows of the panel and Tokens tokens from t
  /// on.
  template <std::size_t Tokens>
  void piece(std::size_t t, std::size_t k, float* sums) {
    if (kHalves || Block::kPacked || job_.cols % kFloatLanes != 0) {
      pack_tokens<Tokens>(t, k);
      groups<Tokens>(k, sums, PackedTokens<Tokens>{tokens_}, steps(k) * Tokens * kPart);
    } else {
      groups<Tokens>(k, sums, TokensInPlace{token(t) + k, job_.x->f32_stride}, kPart);
    }
  }
  /// The tokens of the inner loop.
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
  /// One register of the lanes: saved[row][token] += w[step][row]·x[step][token]. (Not inlined, or
  /// GCC 12 keeps sums in memory.)
  template <std::size_t Tokens, class X>
  [[gnu::noinline]] static void block(const float* w, X x, std::size_t n_steps, bool first,
                                      float* saved, const float* next) {
    const std::size_t stride = next == nullptr ? 0 : kFloatLanes;
    if (next == nullptr) next = w;
    Part sums[kRows][Tokens];
    CRIA_UNROLL
    for (std::size_t i = 0; i < kRows; ++i) {
      CRIA_UNROLL
      for (std::size_t j = 0; j < Tokens; ++j)
        sums[i][j] = first ? Ops::broadcast(0) : Ops::load(saved + (i * Tokens + j) * kFloatLanes);
    }
    for (std::size_t step = 0; step < n_steps;
         ++step, w += kRows * kPart, x.step(), next += stride) {
      __builtin_prefetch(next, 0, 3);
      Part tokens[Tokens];
      CRIA_UNROLL
      for (std::size_t j = 0; j < Tokens; ++j) tokens[j] = Ops::load(x.token(j));
      CRIA_UNROLL
      for (std::size_t i = 0; i < kRows; ++i) {
        const Part row = Ops::load(w + i * kPart);
        CRIA_UNROLL
        for (std::size_t j = 0; j < Tokens; ++j)
          sums[i][j] = HalfOps<Isa>::fma(row, tokens[j], sums[i][j]);
      }
    }
    CRIA_UNROLL
    for (std::size_t i = 0; i < kRows; ++i) {
      CRIA_UNROLL
      for (std::size_t j = 0; j < Tokens; ++j)
        Ops::store(saved + (i * Tokens + j) * kFloatLanes, sums[i][j]);
    }
  }

  /// Adds up the lanes of n rows of one token.
  void finish(std::size_t row, std::size_t n, std::size_t t, const float* sums,
              std::size_t stride) {
    std::size_t i = 0;
    for (; i + kFloatLanes <= n; i += kFloatLanes) {
      const V all = V::sums([&](std::size_t r) { return V::load(sums + (i + r) * stride); });
      const std::size_t at = t * job_.out_stride + row + i;
      (job_.residual == nullptr ? all : V::load(job_.residual + at) + all).store(job_.out + at);
    }
    for (; i + 4 <= n; i += 4) {
      float four[4];
      V::sum4(V::load(sums + i * stride), V::load(sums + (i + 1) * stride),
              V::load(sums + (i + 2) * stride), V::load(sums + (i + 3) * stride), four);
      for (std::size_t r = 0; r < 4; ++r) put(row + i + r, t, four[r]);
    }
    for (; i < n; ++i) put(row + i, t, V::load(sums + i * stride).sum());
  }

  float *panel_, *sums_, *tokens_;
  std::size_t groups_ = 0;                     ///< groups of kRows rows in the panel
  std::size_t next_token_ = 0, next_col_ = 0;  ///< where the next piece begins
};

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
