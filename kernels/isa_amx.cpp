// What the amx kernel set does in its own way: integer products of many tokens run on tiles. All else is
// avx512vnni's.
#include "kernels/gemm_amx.h"
#include "kernels/isa_sets.h"
#include "kernels/matmul_int.h"

namespace cria {

template <DType type>
struct FewTokens<Amx, type> {
  static void run(const MatMulJob& job, std::size_t row_begin, std::size_t row_end, std::byte* scratch) {
    kAvx512Kernels.matmul(type).run(job, row_begin, row_end, scratch);
  }
};

MatMulKernel amx_matmul(DType type) {
  const MatMulKernel kernel = int_matmul<Amx>(type);
  return kernel.run != nullptr ? kernel : avx512bf16_matmul(type);
}

std::uint64_t amx_peak(std::uint64_t rounds) {
  const GemmKernel<Amx>::Session session(PanelShape{});
  for (std::uint64_t i = 0; i < rounds; ++i) {
    _tile_dpbssd(0, 4, 6);
    _tile_dpbssd(1, 4, 7);
    _tile_dpbssd(2, 5, 6);
    _tile_dpbssd(3, 5, 7);
  }
  return rounds * 4 * 16 * 16 * 64;
}

}  // namespace cria
