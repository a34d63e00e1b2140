// Packed activations of the GEMM micro-kernels of AVX-512, ready for broadcasts.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "kernels/gemm/packed_activations.h"
#include "kernels/gemm/panel.h"
#include "kernels/kernels.h"
#include "kernels/simd/namespace.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

/// In which order a token's columns lie.
enum class ColumnOrder : std::uint8_t {
  Given,
  Pairs16,  ///< four of sixteen columns and of the next sixteen in turn
  Pairs32,  ///< four of thirty-two and of the next
};

/// Lays tokens out in one order.
template <ColumnOrder order>
class TokenPacker {
 public:
  /// PackActivations::run
  static void run(const Activations& x, std::size_t t0, std::size_t t1, std::byte* to) {
    auto* const tokens = reinterpret_cast<PackedToken*>(to);
    const std::size_t n = padded_tokens(x.n_tokens);
    for (std::size_t t = t0; t < t1; ++t) {
      for (std::size_t k = 0; k < x.cols; k += kGemmCols) {
        PackedToken& token = tokens[k / kGemmCols * n + t];
        fill(x, t, k, token);
        for (std::size_t i = t + 1; t + 1 == x.n_tokens && i < n; ++i)
          tokens[k / kGemmCols * n + i] = token;
      }
    }
  }

 private:
  static void fill(const Activations& x, std::size_t t, std::size_t k, PackedToken& to) {
    const TokenSlice from(x, t, 1, k);
    if (from.cols < kGemmCols) {
      std::memcpy(to.q, from.q, from.cols);
      std::memcpy(to.d, from.d, from.cols / x.values_per_d() * sizeof *from.d);
      std::memcpy(to.sum, from.sum, from.cols / x.values_per_sum() * sizeof *from.sum);
      if (x.type == ActType::Q8x32) put_d_sum(to);
      return;
    }
    for (std::size_t i = 0; i < kGemmCols; i += 64)
      _mm512_store_si512(to.q + i, in_order(_mm512_loadu_si512(from.q + i)));
    if (x.type == ActType::Q8x32) {
      _mm256_store_ps(to.d, _mm256_loadu_ps(from.d));
      _mm_store_si128(reinterpret_cast<__m128i*>(to.sum),
                      _mm_loadu_si128(reinterpret_cast<const __m128i*>(from.sum)));
      put_d_sum(to);
      return;
    }
    const __m256i sum = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from.sum));
    _mm256_store_si256(reinterpret_cast<__m256i*>(to.sum), sum);
    if (x.type == ActType::Q8x16) {
      _mm512_store_ps(to.d, _mm512_loadu_ps(from.d));
    } else {
      to.d[0] = from.d[0];
      put_sums(sum, to);
    }
  }
  static __m512i in_order(__m512i columns) {
    if constexpr (order == ColumnOrder::Given) return columns;
    const __m512i from =
        order == ColumnOrder::Pairs32
            ? _mm512_setr_epi32(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15)
            : _mm512_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15);
    return _mm512_permutexvar_epi32(from, columns);
  }
  static void put_d_sum(PackedToken& to) {
    const __m256i sum =
        _mm256_cvtepi16_epi32(_mm_load_si128(reinterpret_cast<const __m128i*>(to.sum)));
    _mm256_storeu_ps(to.d_sum, _mm256_mul_ps(_mm256_load_ps(to.d), _mm256_cvtepi32_ps(sum)));
  }
  static void put_sums(__m256i sum, PackedToken& to) {
    const __m256i pairs = _mm256_madd_epi16(sum, _mm256_set1_epi16(1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to.more.of32), _mm256_cvtepi32_epi16(pairs));
    to.more.all = _mm512_reduce_add_epi32(_mm512_zextsi256_si512(pairs));
    if constexpr (order == ColumnOrder::Given) put_largest(to);
  }
  static void put_largest(PackedToken& to) {
    const __m512i zero = _mm512_setzero_si512();
    __m512i most16 = zero, most32 = zero;
    for (std::size_t i = 0; i < kGemmCols; i += 64) {
      const __m512i v = _mm512_load_si512(to.q + i), above = _mm512_max_epi8(v, zero),
                    below = _mm512_sub_epi8(above, v);
      const __m512i up = sixteen(_mm512_sad_epu8(above, zero)),
                    down = sixteen(_mm512_sad_epu8(below, zero));
      most16 = _mm512_max_epi32(most16, _mm512_add_epi32(up, down));
      most32 = _mm512_max_epi32(most32, _mm512_max_epi32(thirty_two(up), thirty_two(down)));
    }
    to.more.most16 = _mm512_reduce_max_epi32(most16);
    to.more.most32 = _mm512_reduce_max_epi32(most32);
  }
  /// Sums of sixteen from sums of eight, and sums of thirty-two from sums of sixteen.
  static __m512i sixteen(__m512i eights) {
    return _mm512_add_epi32(eights, _mm512_shuffle_epi32(eights, _MM_PERM_BADC));
  }
  static __m512i thirty_two(__m512i sixteens) {
    return _mm512_add_epi32(sixteens, _mm512_permutex_epi64(sixteens, 0x4E));
  }
};

/// The tokens of a job from `first` on: already packed, or packed here. tile: tokens per tile.
template <ColumnOrder order, std::size_t tile>
class PackedTokens {
 public:
  using Layout = TokenPacker<order>;
  /// The tokens of a block of columns.
  struct Slice {
    const PackedToken* token;
    std::size_t n_tokens;
    std::size_t cols;
  };

  static std::size_t most(const MatMulJob& job) {
    return job.packed != nullptr ? (kGemmTokens + kGemmPad) / tile * tile
                                 : packed_together(job.cols);
  }
  PackedTokens(const MatMulJob& job, std::size_t first, std::size_t n, std::byte* memory)
      : n_(n), cols_(job.cols) {
    const Activations& x = *job.x;
    if (job.packed != nullptr) {
      tokens_ = reinterpret_cast<const PackedToken*>(job.packed) + first;
      stride_ = padded_tokens(x.n_tokens);
      return;
    }
    Activations part = x;
    part.q += first * x.q_stride();
    part.d += first * x.d_stride();
    part.sum += first * x.sum_stride();
    part.n_tokens = n;
    Layout::run(part, 0, n, memory);
    tokens_ = reinterpret_cast<const PackedToken*>(memory);
    stride_ = padded_tokens(n);
  }
  [[nodiscard]] Slice at(std::size_t k) const {
    return {tokens_ + k / kGemmCols * stride_, n_, std::min(kGemmCols, cols_ - k)};
  }

 private:
  const PackedToken* tokens_;
  std::size_t n_, stride_, cols_;
};

/// Packing for panels of a shape.
template <class Kernel, PanelShape shape>
PackActivations packing_of() {
  return {Kernel::template Tokens<shape>::Layout::run, packed_bytes, 0,
          std::numeric_limits<std::size_t>::max()};
}

/// Initial sums of a token, one per scale or group: -zero * (sum of the columns).
struct alignas(64) Starts {
  std::int32_t at[16];
  std::int32_t operator[](std::size_t j) const { return at[j]; }
};
template <PanelShape shape>
void fill_starts(const PackedToken& token, Starts& to) {
  if constexpr (!shape.groups() && shape.scales == 0) {
    to.at[0] = -shape.zero * token.more.all;
    return;
  }
  const auto* const sums = !shape.groups() && shape.scales == 8 ? token.more.of32 : token.sum;
  const __m512i all =
      _mm512_cvtepi16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(sums)));
  _mm512_store_si512(to.at, _mm512_mullo_epi32(all, _mm512_set1_epi32(-shape.zero)));
}
/// The sums of pairs of a token's columns that meet a pair of mins.
template <PanelShape shape>
const std::int16_t* sums_of_mins(const PackedToken& token) {
  return shape.mins == 16 ? token.sum : token.more.of32;
}

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
