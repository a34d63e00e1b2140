// GEMV of avxvnni.
#include "kernels/gemv/gemv.h"
#include "kernels/simd/avx2.h"

namespace cria {

template <DType type>
struct GemvOf<AvxVnni, type> {
  template <int T, PrefetchMode mode>
  using Kernel = Gemv<AvxVnni, type, T, mode>;
  static constexpr bool kStreams = false;
};

extern template MatMulFn gemv_kernel<Avx2>(DType type);

/// Code books wait for their look-ups, of which AVX2's own kernels need the fewest instructions.
template <>
MatMulFn gemv_kernel<AvxVnni>(DType type) {
  return with_dtype(type, [](auto t) -> MatMulFn {
    if constexpr (kHasCodebook<t>)
      return gemv_kernel<Avx2>(t);
    else if constexpr (is_integer(Format<t>::kClass))
      return gemv<AvxVnni, t>;
    return nullptr;
  });
}

}  // namespace cria
