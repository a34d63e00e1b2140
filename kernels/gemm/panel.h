// Data shared by packing and micro-kernels of a GEMM: the panel of decoded weights, the tokens, and
// the scratch.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

#include "kernels/formats/format.h"
#include "kernels/rows/activations.h"
#include "kernels/simd/namespace.h"
#include "kernels/simd/round.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

inline constexpr std::size_t kGemmRows = 32;   ///< rows of a panel
inline constexpr std::size_t kGemmPanels = 2;  ///< panels that share one reading of the activations
inline constexpr std::size_t kGemmCols = 256;  ///< columns of a panel
inline constexpr std::size_t kGemmTokens = 512;  ///< tokens that one decoding of the weights serves
/// Tokens that the last tile of a micro-kernel may reach beyond the end.
inline constexpr std::size_t kGemmPad = 32;

/// Encoding of weights in the bytes of a panel.
enum class PanelBytes : std::uint8_t {
  Weights,   ///< q + zero (or q/2 + zero with twice the scales, GemmKernel::kHalfWeights)
  Scaled,    ///< q*scale + zero: no scales are left to apply
  Halved,    ///< (q*scale + zero)/2 where q, scale and zero are odd
  TwoBytes,  ///< q*scale = lo + 256*hi, two signed bytes in two panels
  Int16,  ///< q*scale as int16: columns 4k and 4k + 2 in the first panel, 4k + 1 and 4k + 3 in the
          ///< second
};

/// The shape of a panel: the compile-time half of a type. Structural, so that types of equal shape
/// share a micro-kernel.
struct PanelShape {
  PanelBytes bytes;
  int group;   ///< columns that share a float scale: 256 in class Super256, else 32 or 16
  int zero;    ///< added to every byte
  int max;     ///< the greatest byte; 255: any
  int scales;  ///< integer scales per 256 columns that the micro-kernel applies: 16, 8 or 0
  int mins;    ///< mins per 256 columns: 16, 8 or 0; of groups: 1 says that there is m
  bool powers_of_two = false;  ///< groups: every d is a power of two

  [[nodiscard]] constexpr bool groups() const { return group < 256; }
};

/// Least and greatest q*scale of a type.
struct Range {
  int min, max;
};
constexpr Range scaled_range(const DecodeTraits& t) {
  Range r{0, 0};
  for (const int q : {t.q_min, t.q_max}) {
    for (const int s : {t.scale_min, t.scale_max}) {
      r.min = q * s < r.min ? q * s : r.min;
      r.max = q * s > r.max ? q * s : r.max;
    }
  }
  return r;
}

/// 32 rows × 256 columns, rows in lanes.
struct alignas(64) Panel {
  /// Bytes of four consecutive columns per row; [1]: the second digit.
  std::uint8_t q[2][kGemmCols / 4][kGemmRows][4];
  std::int32_t scale[16][kGemmRows],
      min[16][kGemmRows];  ///< as store_scales and store_mins lay them out
  float d[16][kGemmRows];  ///< Super256: [0]; else one per group of columns
  float m[8][kGemmRows];   ///< dmin or m, in the same order
};

/// Scratch of one thread, part of matmul_scratch_bytes().
struct alignas(64) GemmScratch {
  Panel panel[kGemmPanels];
  float acc[kGemmPanels][kGemmTokens + kGemmPad][kGemmRows];
};

/// The activations that meet one panel: n_tokens rows of up to 256 columns.
struct TokenSlice {
  const std::int8_t* q;
  const float* d;
  const std::int16_t* sum;
  std::size_t q_stride, d_stride, sum_stride;
  std::size_t n_tokens;
  std::size_t cols;

  TokenSlice(const Activations& x, std::size_t token, std::size_t tokens, std::size_t k)
      : q(x.q + token * x.q_stride() + k),
        d(x.d + token * x.d_stride() + k / x.values_per_d()),
        sum(x.sum + token * x.sum_stride() + k / x.values_per_sum()),
        q_stride(x.q_stride()),
        d_stride(x.d_stride()),
        sum_stride(x.sum_stride()),
        n_tokens(tokens),
        cols(x.cols - k < kGemmCols ? x.cols - k : kGemmCols) {}
};

/// Prefetches the weights that are packed next while a micro-kernel runs: rows are too far apart
/// for hardware prefetchers. It prefetches into L1 and few lines at a time, since bursts into L2
/// did not arrive (Zen 5), and only in the last tiles of tokens, or the panels would evict the
/// lines.
class Ahead {
 public:
  /// The same bytes of n_rows rows; tiles: how often fetch() will be called.
  Ahead(const std::byte* first, std::size_t row_bytes, std::size_t n_rows, std::size_t bytes,
        std::size_t tiles)
      : at_(first),
        row_bytes_(row_bytes),
        lines_((bytes + 126) / 64),
        left_(n_rows * lines_),
        waits_(tiles < kParts ? 0 : tiles - kParts),
        step_((left_ + tiles - waits_ - 1) / (tiles - waits_)) {}

  /// Also prefetches the results of n_tokens tokens, `stride` floats apart, in equal parts, into L2
  /// for writing.
  void also(const float* out, std::size_t stride, std::size_t n_rows, std::size_t n_tokens,
            std::size_t fetches) {
    out_ = out;
    out_stride_ = stride;
    out_rows_ = n_rows;
    out_left_ = n_tokens;
    out_step_ = divide_up(n_tokens, fetches);
  }

  /// The next part. (Inlined, or GCC takes it for a function without effects.)
  [[gnu::always_inline]] void fetch() {
    for (std::size_t i = 0; i < out_step_ && out_left_ > 0; ++i, --out_left_, out_ += out_stride_)
      for (std::size_t r = 0; r < out_rows_; r += 64 / sizeof(float))
        __builtin_prefetch(out_ + r, 1, 2);
    if (waits_ > 0) {
      --waits_;
      return;
    }
    for (std::size_t i = 0; i < step_ && left_ > 0; ++i, --left_) {
      __builtin_prefetch(at_ + 64 * line_, 0, 3);
      if (++line_ == lines_) line_ = 0, at_ += row_bytes_;
    }
  }

 private:
  static constexpr std::size_t kParts = 16;
  const std::byte* at_;
  std::size_t row_bytes_, lines_, line_ = 0, left_, waits_, step_;
  const float* out_ = nullptr;
  std::size_t out_stride_ = 0, out_rows_ = 0, out_left_ = 0, out_step_ = 0;
};

/// The micro-kernel of an instruction set, gemm/NAME.h; checked by the concept IsGemmKernel:
/// - kSigned: true if bytes of unscaled weights are signed
/// - kSumsInt16: true if the kernel needs the range of the bytes
/// - kHalfWeights: optional: true for halves of the weights, with twice the scales, for types that
///   have only even weights
/// - kTokens: tokens per tile
/// - bytes(traits, full): encoding of a Super256 type; full: LaneType::kFull
/// - scaled_zero(traits): added to scale * q for PanelBytes::Scaled
/// - store_scales(panel, c, lane, pair), store_mins<n>(…): store two scales, or mins, of the rows
///   from `lane` on
/// - run<shape>(slice, s, n, ahead): adds the products of n panels and the slice to s.acc, and
///   calls ahead.fetch() for every kTokens tokens
/// - kPrefetchesPerPanel: optional: calls ahead.fetch() this often for every kTokens tokens and
///   panel
/// - Tokens<shape>: optional: makes the slices, instead of TokensInPlace (gemm.h)
/// - Session: held by a thread while it runs
/// - place<shape>(panel, plane, k, row): optional: address of a vector of weights in panel.q, if
///   not [plane][k][row]
/// - arrange<shape>(q): optional: reorders the weights of sixteen rows, a vector for every four
///   columns
/// - transpose(v): transposes 4×4 int32 in every 16-byte lane of four vectors
/// - store(p, v)
template <class Isa>
struct GemmKernel;

template <class K>
concept IsGemmKernel = requires {
  requires std::constructible_from<typename K::Session, PanelShape>;
  { K::kTokens } -> std::convertible_to<std::size_t>;
  { K::kSigned&& K::kSumsInt16 } -> std::convertible_to<bool>;
  { K::bytes(DecodeTraits{}, false) } -> std::same_as<PanelBytes>;
  { K::scaled_zero(DecodeTraits{}) } -> std::same_as<int>;
};

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
