// Products of F32, F16 and BF16 weights with float activations: 16 lanes along the row, one tree at its end,
// for one token and for many alike (numerics: kernels/README.md).
//
// A few tokens read the weights where they lie. Many tokens share a panel: rows converted once to float32 and
// laid out in the order in which the inner loop reads them, in pieces of kPiece columns. The sums of a few
// rows and tokens stay in registers for a piece and wait in memory between pieces; the tokens' piece stays in
// L1, the panel in L2.
#pragma once

#include <cstddef>

#include "kernels/f32x16.h"
#include "kernels/kernels.h"

namespace cria {

/// Register block: rows × tokens sums and their operands fit the register file.
template <class Isa>
struct FloatBlock {
  static constexpr std::size_t kRows = 3, kTokens = 2;
};
template <>
struct FloatBlock<Avx512> {
  static constexpr std::size_t kRows = 4, kTokens = 6;
};

inline constexpr std::size_t kPanelRowUnit = 12;      ///< a multiple of every kRows
inline constexpr std::size_t kPanelRows = 120;        ///< rows converted together, at most
inline constexpr std::size_t kPanelBytes = 3U << 19;   ///< of float32 weights: most of a large L2 cache
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
/// Scratch of float_matmul: the panel, the sums of its rows for a block of tokens, a piece of those tokens.
constexpr std::size_t float_matmul_scratch_bytes(std::size_t cols) {
  return (panel_rows(cols) * (padded_cols(cols) + kMaxBlockTokens * kFloatLanes) + kPiece * kMaxBlockTokens) *
         sizeof(float);
}

template <class Isa, Stored type>
class FloatMatMul {
  using V = F32x16<Isa>;
  static constexpr std::size_t kRows = FloatBlock<Isa>::kRows, kTokens = FloatBlock<Isa>::kTokens;
  static constexpr std::size_t kDirectTokens = 6;  ///< up to here a panel costs more than it saves
  template <std::size_t Rows, std::size_t Tokens>
  using Sums = V[Rows][Tokens];

 public:
  FloatMatMul(const MatMulJob& job, std::byte* scratch)
      : job_(job),
        panel_(reinterpret_cast<float*>(scratch)),
        sums_(panel_ + panel_rows(job.cols) * padded_cols(job.cols)),
        tokens_(sums_ + panel_rows(job.cols) * kMaxBlockTokens * kFloatLanes) {}

  void run(std::size_t begin, std::size_t end) {
    if (job_.x->n_tokens <= kDirectTokens) {
      in_blocks<kTokens>(job_.x->n_tokens, [&](auto tokens, std::size_t t) {
        std::size_t row = begin;
        for (; row + kRows <= end; row += kRows) direct_block<kRows, tokens>(row, t);
        for (; row < end; ++row) direct_block<1, tokens>(row, t);
      });
      return;
    }
    const std::size_t step = panel_rows(job_.cols);
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
  template <std::size_t Rows, std::size_t Tokens, class LoadRow>
  [[gnu::always_inline]] static void multiply_add(LoadRow load_row, const V (&x)[Tokens],
                                                  Sums<Rows, Tokens>& sums) {
    for (std::size_t i = 0; i < Rows; ++i) {
      const V w = load_row(i);
      for (std::size_t j = 0; j < Tokens; ++j) sums[i][j] = fma(w, x[j], sums[i][j]);
    }
  }

  /// Rows [row, row + Rows) for Tokens tokens, straight from the file.
  template <std::size_t Rows, std::size_t Tokens>
  void direct_block(std::size_t row, std::size_t t) {
    const std::byte* weights = job_.weights + row * job_.row_bytes;
    const float* x = token(t);
    const std::size_t cols = job_.cols;
    Sums<Rows, Tokens> sums;
    for (auto& row_sums : sums)
      for (V& sum : row_sums) sum = V::broadcast(0);
    V v[Tokens];
    std::size_t k = 0;
    const auto at = [&](std::size_t i) { return weights + i * job_.row_bytes + k * stored_bytes(type); };
    for (; k + kFloatLanes <= cols; k += kFloatLanes) {
      for (std::size_t j = 0; j < Tokens; ++j) v[j] = V::load(x + j * job_.x->f32_stride + k);
      multiply_add([&](std::size_t i) { return V::template load_as<type>(at(i)); }, v, sums);
    }
    if (const std::size_t tail = cols - k; tail > 0) {
      for (std::size_t j = 0; j < Tokens; ++j) v[j] = V::load_partial(x + j * job_.x->f32_stride + k, tail);
      multiply_add([&](std::size_t i) { return V::template load_partial_as<type>(at(i), tail); }, v, sums);
    }
    for (std::size_t i = 0; i < Rows; ++i)
      for (std::size_t j = 0; j < Tokens; ++j) put(row + i, t + j, sums[i][j].sum());
  }

  void panel_times_tokens(std::size_t row, std::size_t n) {
    groups_ = (n + kRows - 1) / kRows;
    for (std::size_t i = 0; i < groups_ * kRows; ++i)
      pack_row(i, i < n ? job_.weights + (row + i) * job_.row_bytes : nullptr);
    in_blocks<kTokens>(job_.x->n_tokens, [&](auto tokens, std::size_t t) {
      for (std::size_t k = 0; k < job_.cols; k += kPiece) piece<tokens>(t, k);
      for (std::size_t j = 0; j < tokens; ++j)
        finish(row, n, t + j, sums_ + j * kFloatLanes, tokens * kFloatLanes);
    });
  }

  /// Columns of the piece that starts at column k, padded to whole lanes.
  [[nodiscard]] std::size_t piece_cols(std::size_t k) const {
    return padded_cols(job_.cols - k < kPiece ? job_.cols - k : kPiece);
  }
  /// Panel: [piece][group of kRows rows][16 columns][row][16].
  float* panel_piece(std::size_t k, std::size_t group) {
    return panel_ + kRows * (k * groups_ + group * piece_cols(k));
  }

  /// Row i of the panel; zeros without weights.
  void pack_row(std::size_t i, const std::byte* w) {
    for (std::size_t k = 0; k < job_.cols; k += kPiece) {
      float* to = panel_piece(k, i / kRows) + i % kRows * kFloatLanes;
      for (std::size_t c = 0; c < piece_cols(k); c += kFloatLanes, to += kRows * kFloatLanes) {
        const std::size_t at = k + c, left = job_.cols - at;
        const V v = w == nullptr ? V::broadcast(0)
                    : left >= kFloatLanes
                        ? V::template load_as<type>(w + at * stored_bytes(type))
                        : V::template load_partial_as<type>(w + at * stored_bytes(type), left);
        v.store(to);
      }
    }
  }
  /// tokens_: [16 columns][token][16] of the piece at column k.
  template <std::size_t Tokens>
  void pack_tokens(std::size_t t, std::size_t k) {
    const std::size_t cols = job_.cols - k < kPiece ? job_.cols - k : kPiece,
                      whole = cols / kFloatLanes * kFloatLanes;
    for (std::size_t j = 0; j < Tokens; ++j) {
      const float* x = token(t + j) + k;
      float* to = tokens_ + j * kFloatLanes;
      for (std::size_t c = 0; c < whole; c += kFloatLanes) V::load(x + c).store(to + c * Tokens);
      if (whole < cols) V::load_partial(x + whole, cols - whole).store(to + whole * Tokens);
    }
  }
  /// Asks for what pack_tokens will read next, a few lines for each of the groups that the present piece has.
  template <std::size_t Tokens>
  void prefetch_tokens(std::size_t t, std::size_t k, std::size_t group) const {
    const bool same = k + kPiece < job_.cols;
    if (!same && t + 2 * Tokens > job_.x->n_tokens) return;
    const std::size_t share = (kPiece / kFloatLanes + groups_ - 1) / groups_;
    for (std::size_t j = 0; j < Tokens; ++j) {
      const float* x =
          (same ? token(t + j) + k + kPiece : token(t + Tokens + j)) + group * share * kFloatLanes;
      for (std::size_t line = 0; line < share; ++line) __builtin_prefetch(x + line * kFloatLanes, 0, 3);
    }
  }

  /// sums_[row][token] += the piece at column k, for all rows of the panel and Tokens tokens.
  template <std::size_t Tokens>
  void piece(std::size_t t, std::size_t k) {
    pack_tokens<Tokens>(t, k);
    for (std::size_t group = 0; group < groups_; ++group) {
      prefetch_tokens<Tokens>(t, k, group);
      float* saved = sums_ + group * kRows * Tokens * kFloatLanes;
      const float *w = panel_piece(k, group), *x = tokens_;
      Sums<kRows, Tokens> sums;
      for (std::size_t i = 0; i < kRows; ++i)
        for (std::size_t j = 0; j < Tokens; ++j)
          sums[i][j] = k == 0 ? V::broadcast(0) : V::load(saved + (i * Tokens + j) * kFloatLanes);
      for (const float* const end = w + piece_cols(k) * kRows; w != end;
           w += kRows * kFloatLanes, x += Tokens * kFloatLanes) {
        V tokens[Tokens];
        for (std::size_t j = 0; j < Tokens; ++j) tokens[j] = V::load(x + j * kFloatLanes);
        multiply_add([&](std::size_t i) { return V::load(w + i * kFloatLanes); }, tokens, sums);
      }
      for (std::size_t i = 0; i < kRows; ++i)
        for (std::size_t j = 0; j < Tokens; ++j) sums[i][j].store(saved + (i * Tokens + j) * kFloatLanes);
    }
  }

  /// Adds up the lanes of n rows of one token.
  void finish(std::size_t row, std::size_t n, std::size_t t, const float* sums, std::size_t stride) {
    std::size_t i = 0;
    for (; i + 4 <= n; i += 4) {
      float four[4];
      V::sum4(V::load(sums + i * stride), V::load(sums + (i + 1) * stride), V::load(sums + (i + 2) * stride),
              V::load(sums + (i + 3) * stride), four);
      for (std::size_t r = 0; r < 4; ++r) put(row + i + r, t, four[r]);
    }
    for (; i < n; ++i) put(row + i, t, V::load(sums + i * stride).sum());
  }

  const MatMulJob& job_;
  float *panel_, *sums_, *tokens_;
  std::size_t groups_ = 0;  ///< of kRows rows in the panel
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
  if (type == DType::BF16) return {ActType::F32, float_matmul<Isa, Stored::BF16>};
  return {};
}

}  // namespace cria
