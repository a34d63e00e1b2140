// Products of F32, F16 and BF16 weights with float activations: 16 lanes along the row, one tree at its end,
// for one token and for many alike (numerics: kernels/README.md).
//
// A few tokens read the weights where they lie. Many tokens share a panel: rows converted once to float32,
// walked in pieces of kPiece columns, so that a piece of a few rows and of a few tokens stays in L1 while
// kRows×kTokens sums stay in registers.
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

inline constexpr std::size_t kPanelRows = 32;           ///< rows converted together, at most
inline constexpr std::size_t kPanelBytes = 512U << 10;  ///< of float32 weights, about half of an L2 cache
inline constexpr std::size_t kPiece = 512;              ///< columns
inline constexpr std::size_t kMaxBlockTokens = 6;

constexpr std::size_t padded_cols(std::size_t cols) {
  return (cols + kFloatLanes - 1) / kFloatLanes * kFloatLanes;
}

/// Rows of a panel: as many as fit kPanelBytes, at least 4, at most kPanelRows.
constexpr std::size_t panel_rows(std::size_t cols) {
  const std::size_t fit = kPanelBytes / (padded_cols(cols) * sizeof(float) + 1) / 4 * 4;
  return fit < 4 ? 4 : fit > kPanelRows ? kPanelRows : fit;
}
/// Scratch of float_matmul: the panel, and the sums of its rows for a block of tokens.
constexpr std::size_t float_matmul_scratch_bytes(std::size_t cols) {
  return (panel_rows(cols) * padded_cols(cols) + kPanelRows * kMaxBlockTokens * kFloatLanes) * sizeof(float);
}

/// sums[r][t] += w[r]·x[t], lane by lane, over cols columns. w, x: where the first column lies.
template <class Isa, Stored type, std::size_t Rows, std::size_t Tokens>
[[gnu::always_inline]] inline void dot_block(const std::byte* const* w, const float* const* x,
                                             std::size_t cols, F32x16<Isa> (&sums)[Rows][Tokens]) {
  using V = F32x16<Isa>;
  const auto step = [&](std::size_t k, auto load_w, auto load_x) {
    V tokens[Tokens];
    for (std::size_t t = 0; t < Tokens; ++t) tokens[t] = load_x(x[t] + k);
    for (std::size_t r = 0; r < Rows; ++r) {
      const V row = load_w(w[r] + k * stored_bytes(type));
      for (std::size_t t = 0; t < Tokens; ++t) sums[r][t] = fma(row, tokens[t], sums[r][t]);
    }
  };
  std::size_t k = 0;
  for (; k + kFloatLanes <= cols; k += kFloatLanes)
    step(
        k, [](const std::byte* p) { return V::template load_as<type>(p); },
        [](const float* p) { return V::load(p); });
  if (const std::size_t tail = cols - k; tail > 0)
    step(
        k, [=](const std::byte* p) { return V::template load_partial_as<type>(p, tail); },
        [=](const float* p) { return V::load_partial(p, tail); });
}

template <class Isa, Stored type>
class FloatMatMul {
  using V = F32x16<Isa>;
  static constexpr std::size_t kRows = FloatBlock<Isa>::kRows, kTokens = FloatBlock<Isa>::kTokens;
  static constexpr std::size_t kDirectTokens = 8;  ///< up to here a panel costs more than it saves

 public:
  FloatMatMul(const MatMulJob& job, std::byte* scratch)
      : job_(job), panel_(reinterpret_cast<float*>(scratch)), panel_stride_(padded_cols(job.cols)) {}

  void run(std::size_t begin, std::size_t end) {
    if (job_.x->n_tokens <= kDirectTokens) {
      by_blocks<4, 1>(begin, end, [&](auto rows, std::size_t r) { direct_rows<rows>(r); });
      return;
    }
    const std::size_t step = panel_rows(job_.cols);
    sums_ = panel_ + step * panel_stride_;
    for (std::size_t r = begin; r < end; r += step) panel_rows_times_all(r, end - r < step ? end - r : step);
  }

 private:
  template <std::size_t N>
  struct Constant {
    constexpr operator std::size_t() const { return N; }
  };
  /// Calls f(Constant<Large>, i) while Large fit into [i, end), then f(Constant<Small>, i).
  template <std::size_t Large, std::size_t Small, class F>
  static void by_blocks(std::size_t i, std::size_t end, F f) {
    for (; i + Large <= end; i += Large) f(Constant<Large>(), i);
    for (; i < end; i += Small) f(Constant<Small>(), i);
  }

  [[nodiscard]] const float* token(std::size_t t) const { return job_.x->f32 + t * job_.x->f32_stride; }
  void put(std::size_t row, std::size_t t, float sum) {
    const std::size_t at = t * job_.out_stride + row;
    job_.out[at] = job_.residual == nullptr ? sum : job_.residual[at] + sum;
  }

  /// Rows [row, row + Rows) for all tokens, straight from the file.
  template <std::size_t Rows>
  void direct_rows(std::size_t row) {
    by_blocks<kTokens, 1>(0, job_.x->n_tokens,
                          [&](auto tokens, std::size_t t) { direct_block<Rows, tokens>(row, t); });
  }
  template <std::size_t Rows, std::size_t Tokens>
  void direct_block(std::size_t row, std::size_t t) {
    const std::byte* w[Rows];
    const float* x[Tokens];
    V sums[Rows][Tokens];
    for (std::size_t i = 0; i < Rows; ++i) w[i] = job_.weights + (row + i) * job_.row_bytes;
    for (std::size_t j = 0; j < Tokens; ++j) x[j] = token(t + j);
    for (auto& row_sums : sums)
      for (V& sum : row_sums) sum = V::broadcast(0);
    dot_block<Isa, type, Rows, Tokens>(w, x, job_.cols, sums);
    for (std::size_t i = 0; i < Rows; ++i)
      for (std::size_t j = 0; j < Tokens; ++j) put(row + i, t + j, sums[i][j].sum());
  }

  void panel_rows_times_all(std::size_t row, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i)
      convert_row(job_.weights + (row + i) * job_.row_bytes, panel_ + i * panel_stride_);
    by_blocks<kTokens, 1>(0, job_.x->n_tokens,
                          [&](auto tokens, std::size_t t) { panel_times<tokens>(row, n, t); });
  }
  void convert_row(const std::byte* w, float* to) {
    std::size_t k = 0;
    for (; k + kFloatLanes <= job_.cols; k += kFloatLanes)
      V::template load_as<type>(w + k * stored_bytes(type)).store(to + k);
    if (k < job_.cols)
      V::template load_partial_as<type>(w + k * stored_bytes(type), job_.cols - k).store(to + k);
  }
  template <std::size_t Tokens>
  void panel_times(std::size_t row, std::size_t n, std::size_t t) {
    for (std::size_t k = 0; k < job_.cols; k += kPiece) {
      const std::size_t cols = job_.cols - k < kPiece ? job_.cols - k : kPiece;
      by_blocks<kRows, 1>(0, n,
                          [&](auto rows, std::size_t r) { panel_block<rows, Tokens>(row, r, t, k, cols); });
    }
  }
  /// One piece of columns of a block; sums wait in memory between pieces.
  template <std::size_t Rows, std::size_t Tokens>
  void panel_block(std::size_t row, std::size_t r, std::size_t t, std::size_t k, std::size_t cols) {
    const std::byte* w[Rows];
    const float* x[Tokens];
    V sums[Rows][Tokens];
    float* saved = sums_ + r * Tokens * kFloatLanes;
    for (std::size_t i = 0; i < Rows; ++i)
      w[i] = reinterpret_cast<const std::byte*>(panel_ + (r + i) * panel_stride_ + k);
    for (std::size_t j = 0; j < Tokens; ++j) x[j] = token(t + j) + k;
    for (std::size_t i = 0; i < Rows; ++i)
      for (std::size_t j = 0; j < Tokens; ++j)
        sums[i][j] = k == 0 ? V::broadcast(0) : V::load(saved + (i * Tokens + j) * kFloatLanes);
    dot_block<Isa, Stored::F32, Rows, Tokens>(w, x, cols, sums);
    const bool last = k + cols == job_.cols;
    for (std::size_t i = 0; i < Rows; ++i)
      for (std::size_t j = 0; j < Tokens; ++j) {
        if (last) {
          put(row + r + i, t + j, sums[i][j].sum());
        } else {
          sums[i][j].store(saved + (i * Tokens + j) * kFloatLanes);
        }
      }
  }

  const MatMulJob& job_;
  float* panel_;
  std::size_t panel_stride_;
  float* sums_ = nullptr;  ///< [rows of the panel][tokens of a block][16]
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
