// The kernels of avx512vnni, but for the products and encoders, which are units of their own.
#include "kernels/gemm/packed_activations.h"
#include "kernels/gemm/small512_products.h"
#include "kernels/isa/make_kernels.h"
#include "kernels/matmul/integers.h"

namespace cria {

template <>
inline constexpr bool kPacksForGemm<Avx512> = true;

template <>
KernelSet kernels_of<Avx512>() noexcept {
  static constexpr PrefetchMode kModes[] = {PrefetchMode::InOrder, PrefetchMode::Streams};
  KernelSet set = make_kernels<Avx512, Avx2>(any_matmul<Avx512, int_matmul<Avx512>>);
  set.prefetch_modes = kModes;
  return set;
}

}  // namespace cria
