// GEMV of avx2.
#include "kernels/gemv/avx2_row.h"
#include "kernels/gemv/avx2_row_iq.h"
#include "kernels/gemv/avx2_row_k.h"
#include "kernels/gemv/gemv.h"
#include "kernels/simd/avx2.h"

namespace cria {

template <DType type>
struct GemvOf<Avx2, type> {
  template <int T, PrefetchMode mode>
  using Kernel = Gemv<Avx2, type, T, mode>;
  static constexpr bool kStreams = true;
};
template <DType type>
requires(requires { sizeof(Avx2Row<type>); }) struct GemvOf<Avx2, type> {
  template <int T, PrefetchMode mode>
  using Kernel = std::conditional_t<T == 1, Avx2RowGemv<type, mode>, Gemv<Avx2, type, T, mode>>;
  static constexpr bool kStreams = !requires { Avx2Row<type>::kNeighbours; };
};

template MatMulFn gemv_kernel<Avx2>(DType type);

}  // namespace cria
