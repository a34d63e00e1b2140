// The kernels of avx2, but for the products and encoders, which are units of their own.
#include <algorithm>

#include "kernels/gemm/token_tiles.h"
#include "kernels/isa/make_kernels.h"
#include "kernels/matmul/integers.h"

namespace cria {

/// Measured on Zen 3, and from 33 tokens on on Zen 5 (bench/README.md): two tokens are a GEMV's, or four of types without integer
/// scales, those between have panels of few rows, of weights of the full range of a byte (as words) up to 128. More are a GEMM's.
template <DType type>
struct FewestTokens<Avx2, type> {
  static constexpr bool kBytes = Format<type>::kTraits.q_max - Format<type>::kTraits.q_min > 127;
  static constexpr std::size_t kGemv = Format<type>::kClass == DotClass::Super256 ? 2 : 4,
                               kFew = kBytes ? 128 : 64;
  static_assert(kBytes || kFew <= kTiledTokens);
};

template <>
KernelSet kernels_of<Avx2>() noexcept {
  static constexpr FetchAhead kFetches[] = {FetchAhead::Streams, FetchAhead::Far};
  KernelSet set = make_kernels<Avx2, int_matmul_of_few<Avx2>>();
  set.fetches = kFetches;
  return set;
}

}  // namespace cria
