// The kernels of avx2, but for the products and encoders, which are units of their own.

#include "kernels/gemm/few256_tokens.h"
#include "kernels/isa/make_kernels.h"
#include "kernels/matmul/integers.h"

namespace cria {

/// Measured on Zen 3, and 3, 4 and 33 to 64 tokens on Zen 5 (bench/processors/zen3.md): two tokens
/// are a GEMV's, more have panels of few rows, of weights of the full range of a byte until it pays
/// to make them words (avx2_gemm.cpp).
template <DType type>
struct MostTokens<Avx2, type> {
  static constexpr bool kBytes = Format<type>::kTraits.q_max - Format<type>::kTraits.q_min > 127;
  static constexpr std::size_t kGemv = 2, kFew = kBytes ? 11 : kTiledTokens;
};
template <>
inline constexpr bool kLaysOutForGemm<Avx2> = true;

template <>
KernelSet kernels_of<Avx2>() noexcept {
  static constexpr FetchAhead kFetches[] = {FetchAhead::Streams, FetchAhead::Far};
  KernelSet set = make_kernels<Avx2, int_matmul<Avx2>>();
  set.fetches = kFetches;
  return set;
}

}  // namespace cria
