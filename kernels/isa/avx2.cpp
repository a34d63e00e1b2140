// The kernels of avx2, but for the products and encoders, which are units of their own.

#include "kernels/gemm/packed_activations.h"
#include "kernels/isa/make_kernels.h"
#include "kernels/matmul/integers.h"

namespace cria {

/// Measured on Zen 3, and for 3, 4 and 33 to 64 tokens on Zen 5 (bench/processors/zen3.md).
template <DType type>
struct TokenLimits<Avx2, type> {
  static constexpr std::size_t kGemv = 2, kSmall = kTiledTokens;
};

template <>
KernelSet kernels_of<Avx2>() noexcept {
  static constexpr PrefetchMode kModes[] = {PrefetchMode::Streams, PrefetchMode::InOrder};
  KernelSet set = make_kernels<Avx2>(any_matmul<Avx2, int_matmul<Avx2>>);
  set.prefetch_modes = kModes;
  return set;
}

}  // namespace cria
