// Products of five to eight tokens with blocks of 32 whole bytes on AVX2, straight from the file: two rows in a register as in
// a GEMV. All tokens meet a block before any token's sums are added up and scaled: one after the other each would wait for
// the last of a dozen steps.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "kernels/formats/formats.h"
#include "kernels/gemv/fetch_ahead.h"
#include "kernels/kernels.h"
#include "kernels/lanes/lanes.h"
#include "kernels/simd/avx2.h"

namespace cria {

inline constexpr std::size_t kBytesTokens = 8;  ///< at most

/// What 32 columns of T tokens bring to the products.
template <int T>
struct alignas(32) BytesTokens {
  std::int8_t q[T][32];
  float d[8];
};

/// Eight rows by T tokens.
template <DType type, int T>
class BytesKernel {
  using V = RowLanes<Avx2>;
  using W = LaneType<V, type>;
  using Vec = typename V::Vec;
  using Sums = Vec[T][V::kPacks];
  static_assert(W::kFull && !W::kSuper && W::kZero == 0 && Format<type>::kBlockValues == 32);

 public:
  using Rows = const std::byte* [kRowGroup];
  using Tokens = BytesTokens<T>;

  /// All tokens of x, the last repeated.
  static void lay_out(const Activations& x, Tokens* out) {
    const std::size_t n = x.cols / 32;
    for (std::size_t b = 0; b < n; ++b) {
      for (std::size_t t = 0; t < T; ++t) {
        const std::size_t token = std::min(t, x.n_tokens - 1);
        std::memcpy(out[b].q[t], x.q + token * x.q_stride() + 32 * b, sizeof out[b].q[t]);
        out[b].d[t] = x.d[token * n + b];
      }
    }
  }
  /// acc[token][row] = the products of n blocks. far: as much as they, fetched meanwhile; null: nothing is.
  CRIA_FLATTEN static void run(const Rows& rows, std::size_t n, const Tokens* x, const std::byte* far,
                               float (&acc)[T][kRowGroup]) {
    std::memset(acc, 0, sizeof acc);
    std::size_t offset = kHeaderBytes<type>;
#pragma GCC unroll 1
    for (std::size_t b = 0; b < n; ++b, offset += W::kBytes) {
      if (far != nullptr) {
        fetch_far<kRowGroup * W::kBytes, 1>(far, 0);
        far += kRowGroup * W::kBytes;
      }
      block(rows, offset, x[b], acc);
    }
  }

 private:
  CRIA_INLINE static void block(const Rows& rows, std::size_t offset, const Tokens& x,
                                float (&acc)[T][kRowGroup]) {
    alignas(32) Sums sums;
    unroll<2>([&](auto half) CRIA_INLINE { multiply<2 * half>(rows, offset, x, sums); });
    keep_in_memory(sums);
    const auto d = W::d(rows, offset);
    unroll<T>([&](auto t) CRIA_INLINE {
      const auto scale = V::mul(d, _mm256_broadcast_ss(&x.d[t]));
      _mm256_storeu_ps(acc[t], V::fma(scale, V::to_float(sum_rows(sums[t])), _mm256_loadu_ps(acc[t])));
    });
  }
  /// sums[t][k] = the products of rows k and k + 4, for two k.
  template <int first>
  CRIA_INLINE static void multiply(const Rows& rows, std::size_t offset, const Tokens& x, Sums& sums) {
    Vec w[2][2], magnitude[2][2];
    unroll<2>([&](auto i) CRIA_INLINE {
      W::weights(rows + first + i, offset, [&](int, Vec w0, Vec w1) CRIA_INLINE {
        w[i][0] = w0;
        w[i][1] = w1;
      });
      unroll<2>([&](auto part) CRIA_INLINE { magnitude[i][part] = _mm256_abs_epi8(w[i][part]); });
    });
    unroll<T>([&](auto t) CRIA_INLINE {
      const Vec a[2] = {V::same(x.q[t]), V::same(x.q[t] + 16)};
      unroll<2>([&](auto i) CRIA_INLINE {
        Vec sum[2];
        unroll<2>([&](auto part) CRIA_INLINE {  // 2 * 128 * 127 fits in an int16
          const Vec p = _mm256_maddubs_epi16(magnitude[i][part], _mm256_sign_epi8(a[part], w[i][part]));
          sum[part] = _mm256_madd_epi16(p, V::splat16(1));
        });
        Vec both = _mm256_add_epi32(sum[0], sum[1]);
        pin(both);
        sums[t][first + i] = both;
      });
    });
  }
  /// Shuffles and adds: vphaddd is three operations.
  CRIA_INLINE static __m256i sum_rows(const Vec (&v)[V::kPacks]) {
    const __m256i x = _mm256_add_epi32(_mm256_unpacklo_epi32(v[0], v[1]), _mm256_unpackhi_epi32(v[0], v[1]));
    const __m256i y = _mm256_add_epi32(_mm256_unpacklo_epi32(v[2], v[3]), _mm256_unpackhi_epi32(v[2], v[3]));
    return _mm256_add_epi32(_mm256_unpacklo_epi64(x, y), _mm256_unpackhi_epi64(x, y));
  }
};

template <DType type, int T>
void bytes_rows_by(const MatMulJob& job, std::size_t row_begin, std::size_t row_end, std::byte* scratch) {
  using Kernel = BytesKernel<type, T>;
  auto* const tokens = reinterpret_cast<BytesTokens<T>*>(scratch);
  Kernel::lay_out(*job.x, tokens);
  const bool streams = job.fetch == FetchAhead::Streams;
  const RowGroups groups(row_begin, row_end, kRowGroup, streams ? job.row_bytes : 0);
  const std::byte* const end = job.weights + row_end * job.row_bytes;
  for (std::size_t group = 0; group < groups.size(); ++group) {
    const auto [r, n_rows, apart] = groups[group];
    const std::byte* const far =
        streams ? nullptr
                : fetched_beside(job.weights + r * job.row_bytes, kRowGroup * job.row_bytes, end, job.next);
    const std::byte* rows[kRowGroup];
    for (std::size_t i = 0; i < kRowGroup; ++i)
      rows[i] = job.weights + (r + std::min(i, n_rows - 1) * apart) * job.row_bytes;
    alignas(32) float acc[T][kRowGroup];
    Kernel::run(rows, job.cols / 32, tokens, far, acc);
    for (std::size_t t = 0; t < job.x->n_tokens; ++t) {
      const std::size_t at = t * job.out_stride + r;
      for (std::size_t i = 0; i < n_rows; ++i)
        job.out[at + i * apart] = job.residual ? job.residual[at + i * apart] + acc[t][i] : acc[t][i];
    }
  }
}

/// A MatMulFn for up to kBytesTokens tokens.
template <DType type>
void bytes_rows(const MatMulJob& job, std::size_t row_begin, std::size_t row_end, std::byte* scratch) {
  if (job.x->n_tokens <= 6)
    bytes_rows_by<type, 6>(job, row_begin, row_end, scratch);
  else
    bytes_rows_by<type, 8>(job, row_begin, row_end, scratch);
}

}  // namespace cria
