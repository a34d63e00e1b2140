// The kernels of avx2, but for the products and encoders, which are units of their own.
#include "kernels/gemm/token_tiles.h"
#include "kernels/isa/make_kernels.h"
#include "kernels/matmul/integers.h"

namespace cria {

/// Measured on Zen 3 with whole models: two tokens are a GEMV's, and four of types without integer scales. Whole bytes in
/// blocks of 32 gain nothing by a kernel in between: up to 16 are a GEMV's. More tokens are a GEMM's: its panel is of more rows, and no thread
/// lays tokens out for it.
template <DType type>
struct FewestTokens<Avx2, type> {
  static constexpr bool kSuper = Format<type>::kClass == DotClass::Super256;
  static constexpr bool kBytes = Format<type>::kTraits.q_max - Format<type>::kTraits.q_min > 127;
  static constexpr std::size_t kGemv = kSuper ? 2 : kBytes ? 16 : 4, kFew = kSuper ? 24 : kBytes ? 0 : 8;
  static_assert(kFew <= kTiledTokens);
};

template <>
KernelSet kernels_of<Avx2>() noexcept {
  return make_kernels<Avx2, int_matmul<Avx2>>();
}

}  // namespace cria
