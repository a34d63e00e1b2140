// The amx kernels: GEMM on tiles; all else is avx512bf16's.
#include "kernels/gemm/amx.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/packed_activations.h"
#include "kernels/isa/instruction_set.h"
#include "kernels/matmul/integers.h"

namespace cria {

/// Panels are packed for at least 32 tokens. Vectors are faster up to one and a half tiles, or
/// three quarters of one if scale·q is one byte without further work
/// (bench/processors/xeon_amx.md).
template <DType type>
struct TokenLimits<Amx, type> {
  static constexpr std::size_t kGemv = 3,
                               kSmall =
                                   panel_shape<Amx, type>().bytes == PanelBytes::Scaled ? 24 : 48;
  static_assert(kSmall <= kMaxSmallTokens);
};

template MatMulFn gemm_kernel<Amx>(DType type);

template <>
MatMulFn gemv_kernel<Amx>(DType type) {
  return gemv_kernel<Avx512>(type);
}

template <>
MatMulFn small_gemm_kernel<Amx>(DType type) {
  return small_gemm_kernel<Avx512>(type);
}
template <>
PackActivations small_gemm_packing<Amx>(DType type) {
  return small_gemm_packing<Avx512>(type);
}

namespace {

MatMulKernel matmul(DType type) {
  const MatMulKernel kernel = int_matmul<Amx>(type);
  return kernel.run != nullptr ? kernel : kernels_of<Avx512Bf16>().matmul(type);
}

std::uint64_t matrix_peak(std::uint64_t rounds) {
  const GemmKernel<Amx>::Session session(PanelShape{});
  for (std::uint64_t i = 0; i < rounds; ++i) {
    _tile_dpbssd(0, 4, 6);
    _tile_dpbssd(1, 4, 7);
    _tile_dpbssd(2, 5, 6);
    _tile_dpbssd(3, 5, 7);
  }
  return rounds * 4 * 16 * 16 * 64;
}

}  // namespace

template <>
KernelSet kernels_of<Amx>() noexcept {
  KernelSet set = kernels_of<Avx512Bf16>();
  set.isa = Amx::name;
  set.matmul = matmul;
  set.matrix_peak = matrix_peak;
  return set;
}

}  // namespace cria
