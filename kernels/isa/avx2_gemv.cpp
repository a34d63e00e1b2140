// The products of integer types with few tokens on avx2.
#include "kernels/gemv/avx2_wide_iq.h"
#include "kernels/gemv/avx2_wide_iq1.h"
#include "kernels/gemv/avx2_wide_iq4.h"
#include "kernels/gemv/avx2_wide_k.h"
#include "kernels/gemv/avx2_wide_ternary.h"
#include "kernels/gemv/gemv.h"
#include "kernels/simd/avx2.h"

namespace cria {

template <>
inline constexpr bool kHasStreams<Avx2> = true;

template <DType type>
struct OneToken<Avx2, type> {
  template <Reading reading>
  using Reads = Gemv<Avx2, type, 1, reading>;
  using Type = Reads<Reading::InOrder>;
  static constexpr bool kNeighbours = false;
};
template <DType type>
requires(requires { sizeof(Avx2Wide<type>); }) struct OneToken<Avx2, type> {
  template <Reading reading>
  using Reads = Avx2WideGemv<type, reading>;
  using Type = Reads<Reading::InOrder>;
  /// Rows are never read as streams.
  static constexpr bool kNeighbours = requires { Avx2Wide<type>::kNeighbours; };
};

template <>
MatMulFn streams_kernel<Avx2>(DType type, FetchAhead /*fetch*/) {
  return with_dtype(type, [](auto t) -> MatMulFn {
    if constexpr (is_integer(Format<t>::kClass)) {
      using Kernels = OneToken<Avx2, t>;
      if constexpr (!Kernels::kNeighbours)
        return gemv_of_one<typename Kernels::template Reads<Reading::Streams>>;
    }
    return nullptr;
  });
}

template MatMulFn gemv_kernel<Avx2>(DType type);

}  // namespace cria
