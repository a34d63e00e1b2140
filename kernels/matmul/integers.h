// Matrix products of the integer types: a GEMV for one or a few tokens, a GEMM for many, and in
// some sets a small-batch GEMM for counts in between.
#pragma once

#include <algorithm>

#include "kernels/formats/formats.h"
#include "kernels/isa/instruction_set.h"
#include "kernels/lanes/lane_type.h"
#include "kernels/simd/isa.h"
#include "kernels/simd/namespace.h"
#include "kernels/simd/prefetch.h"
#include "kernels/simd/row_lanes.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

/// True if the set has gemm_packing().
template <class Isa>
inline constexpr bool kPacksForGemm = false;

/// Max tokens of the GEMV and of the small-batch GEMM; from there on, the GEMM is used. (Other
/// sets: isa/NAME.cpp; overview: kernels/README.md.)
template <class Isa, DType type>
struct TokenLimits {
  static constexpr std::size_t kGemv = 8, kSmall = 0;
};
template <DType type>
struct TokenLimits<Avx512, type> {
  using Lanes = LaneType<RowLanes<Avx512>, type>;
  static_assert(IsLaneType<Lanes>);  // defined here
  static constexpr std::size_t kBytes = Lanes::kBytes * 32 / Format<type>::kBlockValues;
  /// Three tokens of small types that are decoded by columns are faster without a GEMV, and two if
  /// they have no GEMV for two that decodes a row at a time (bench/processors/zen5.md).
  static constexpr std::size_t kGemv = [] {
    if (!kDecodesColumns<Lanes>) return 3;
    if (Lanes::kSuper && Lanes::kScales != 0) return kBytes <= 22 ? 2 : 3;
    return kBytes <= 18 ? 1 : 3;
  }();
  static constexpr std::size_t kSmall = 64;
  /// With a larger L1, or a scale for every sixteen columns, the GEMM is faster from 48 tokens on
  /// (bench/processors/zen4.md, zen5.md).
  static std::size_t small() {
    return kSmallL1Cache && Format<type>::kTraits.sub_block != 16 ? kSmall : 47;
  }
};

/// Max tokens of the small-batch GEMM on this processor: kSmall, or fewer if small() exists.
template <class Isa, DType type>
std::size_t max_small() {
  using Most = TokenLimits<Isa, type>;
  if constexpr (requires { Most::small(); })
    return Most::small();
  else
    return Most::kSmall;
}

template <class Isa, DType type>
void int_product(const MatMulJob& job, std::size_t row_begin, std::size_t row_end,
                 std::byte* scratch) {
  using Most = TokenLimits<Isa, type>;
  static_assert(Most::kGemv >= 1);  // 0 tokens are a GEMV's, too
  const std::size_t n = job.x->n_tokens;
  if (n <= Most::kGemv) return gemv_kernel<Isa>(type)(job, row_begin, row_end, scratch);
  if constexpr (Most::kSmall != 0) {
    if (n <= max_small<Isa, type>())
      return small_gemm_kernel<Isa>(type)(job, row_begin, row_end, scratch);
  }
  gemm_kernel<Isa>(type)(job, row_begin, row_end, scratch);
}

template <class Isa, DType type>
MatMulKernel int_matmul_of() {
  using Most = TokenLimits<Isa, type>;
  MatMulKernel kernel{activations_of(Format<type>::kClass), int_product<Isa, type>};
  if constexpr (Most::kSmall != 0) {
    kernel.pack_small = small_gemm_packing<Isa>(type);
    kernel.pack_small.from = Most::kGemv + 1;
    kernel.pack_small.to = max_small<Isa, type>();
  }
  if constexpr (kPacksForGemm<Isa>) {
    kernel.pack = gemm_packing<Isa>(type);
    kernel.pack.from = std::max(Most::kGemv, max_small<Isa, type>()) + 1;
  }
  return kernel;
}

/// The kernel of a type; run is null for types that are not integers in blocks.
template <class Isa>
MatMulKernel int_matmul(DType type) {
  return with_dtype(type, [](auto t) -> MatMulKernel {
    if constexpr (is_integer(Format<t>::kClass)) return int_matmul_of<Isa, t>();
    return {};
  });
}

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
