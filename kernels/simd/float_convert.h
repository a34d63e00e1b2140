// Float operations that xsimd does not offer uniformly on every instruction set: fused
// multiply-add, powers of two, and conversions of the narrow types of weights and caches.
// FloatOps<Isa> works on one register, FloatOps<ScalarIsa> on one float. Kernels use them through
// simd/f32x16.h.
#pragma once

#include <bit>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/simd/isa.h"
#include "kernels/simd/namespace.h"
#include "kernels/simd/round.h"
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

/// Before a loop over an array of vectors: unrolled early, the array stays
/// in registers; too late, it lives on the stack.
#if defined(__clang__)
#define CRIA_UNROLL _Pragma("clang loop unroll(full)")
#else
#define CRIA_UNROLL _Pragma("GCC unroll 16")
#endif

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

/// Members, all on Batch (kSize floats):
/// - fma(a, b, c): a*b + c rounded once
/// - div(a, b): a / b, correctly rounded (xsimd's is an estimate on NEON)
/// - max(a, b): a > b ? a : b, by lane (the second if either is NaN); min(a, b): a < b ? a : b
/// - select_less(a, b, x, y): a < b ? x : y, by lane (y if a or b is NaN)
/// - less_bits(a, b): bit i: lane i of a is less than lane i of b
/// - max_magnitude(a, b): the larger of two nonnegative numbers; NaN is larger than infinity
/// - scale2(x, n): (optional) x * 2^n, rounded once, for integers |n| <= 252
/// - pow2(t): 2^n with t = n + 1.5*2^23 and -126 <= n <= 127
/// - swap_pairs(x): lanes 2i and 2i+1 exchanged (kSize > 1)
/// - low_bf16, high_bf16(x): the bfloat16 in the low (high) half of each lane's bits
/// - load_f16, load_i8: from kSize values at any alignment
/// - store_f16, store_bf16: to the nearest, ties to even
/// - fold4(op, a, b, c, d, p): (kSize > 1) p[i] = the 16 lanes of the i-th operand, given as parts,
///   folded by the tree of F32x16::sum
/// - fold16(op, v): (kSize = 16, optional) lane i: the lanes of v(i) folded by op, by the same tree
/// - store_partial(p, x, n): (kSize = 16, optional) the first n lanes
/// - store_i8: (kSize > 1) integers in -128…127; NaN is stored as 0
template <class Isa>
struct FloatOps;

template <class Ops>
concept IsFloatOps = requires(typename Ops::Batch x, const float* from, float* to) {
  { Ops::kSize } -> std::convertible_to<std::size_t>;
  { Ops::load(from) } -> std::same_as<typename Ops::Batch>;
  { Ops::fma(x, x, x) } -> std::same_as<typename Ops::Batch>;
  { Ops::select_less(x, x, x, x) } -> std::same_as<typename Ops::Batch>;
  Ops::store(to, x);
};

/// 1.5*2^23: x + kRoundMagic - kRoundMagic is x rounded to an integer, ties to even, for |x| <
/// 2^22.
inline constexpr float kRoundMagic = 12582912.0F;

template <>
struct FloatOps<ScalarIsa> {
  using Batch = float;
  static constexpr std::size_t kSize = 1;

  static float load(const float* p) {  // any alignment, as in vectors
    float x;
    std::memcpy(&x, p, sizeof x);
    return x;
  }
  static void store(float* p, float x) { *p = x; }
  static float broadcast(float x) { return x; }
  static float abs(float x) {
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & 0x7FFFFFFFU);
  }
  static float fma(float a, float b, float c) { return std::fma(a, b, c); }
  static float div(float a, float b) { return a / b; }
  static float max(float a, float b) { return a > b ? a : b; }
  static std::uint32_t less_bits(float a, float b) { return a < b ? 1 : 0; }
  static float max_magnitude(float a, float b) {
    return std::bit_cast<std::int32_t>(a) > std::bit_cast<std::int32_t>(b) ? a : b;
  }
  static float min(float a, float b) { return a < b ? a : b; }
  static float select_less(float a, float b, float x, float y) { return a < b ? x : y; }
  static float pow2(float t) {
    return std::bit_cast<float>((std::bit_cast<std::uint32_t>(t) << 23) + 0x3F800000U);
  }
  static float low_bf16(float x) {
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) << 16);
  }
  static float high_bf16(float x) {
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & 0xFFFF0000U);
  }
  static float load_f16(const void* p) { return f16_to_f32(load_bits(p)); }
  static void store_f16(void* p, float x) {
    const std::uint16_t bits = f32_to_f16(x);
    std::memcpy(p, &bits, sizeof bits);
  }
  static void store_bf16(void* p, float x) {
    const std::uint16_t bits = f32_to_bf16(x);
    std::memcpy(p, &bits, sizeof bits);
  }
  static void store_i8(std::int8_t* p, float x) {
    *p = x == x ? static_cast<std::int8_t>(x) : std::int8_t{0};
  }

 private:
  static std::uint16_t load_bits(const void* p) {
    std::uint16_t bits;
    std::memcpy(&bits, p, sizeof bits);
    return bits;
  }
};

#if defined(__x86_64__) || defined(__aarch64__)
/// The operations that xsimd has.
template <class Isa>
struct XsimdFloatOps {
  using Batch = xsimd::batch<float, typename Isa::Arch>;
  static constexpr std::size_t kSize = Batch::size;

  [[gnu::always_inline]] static Batch load(const float* p) { return Batch::load_unaligned(p); }
  [[gnu::always_inline]] static void store(float* p, Batch x) { x.store_unaligned(p); }
  [[gnu::always_inline]] static Batch broadcast(float x) { return Batch(x); }
  [[gnu::always_inline]] static Batch abs(Batch x) { return xsimd::abs(x); }
};
#endif

#if defined(__AVX2__)
template <>
struct FloatOps<Avx2> : XsimdFloatOps<Avx2> {
  static Batch fma(Batch a, Batch b, Batch c) { return _mm256_fmadd_ps(a, b, c); }
  static Batch div(Batch a, Batch b) { return _mm256_div_ps(a, b); }
  static Batch max(Batch a, Batch b) { return _mm256_max_ps(a, b); }
  static std::uint32_t less_bits(Batch a, Batch b) {
    return static_cast<std::uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_LT_OQ)));
  }
  static Batch max_magnitude(Batch a, Batch b) {
    return _mm256_castsi256_ps(_mm256_max_epi32(_mm256_castps_si256(a), _mm256_castps_si256(b)));
  }
  static Batch min(Batch a, Batch b) { return _mm256_min_ps(a, b); }
  static Batch select_less(Batch a, Batch b, Batch x, Batch y) {
    return _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
  }
  static Batch pow2(Batch t) {
    const __m256i shifted = _mm256_slli_epi32(_mm256_castps_si256(t), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(shifted, _mm256_set1_epi32(0x3F800000)));
  }
  static Batch swap_pairs(Batch x) { return _mm256_permute_ps(x, 0xB1); }
  template <class Op>
  static void fold4(Op op, const Batch* a, const Batch* b, const Batch* c, const Batch* d,
                    float* out) {
    const auto fold = [&](__m256 x, __m256 y) -> __m256 {  // l[i], l[i+4] of two
      return op(_mm256_permute2f128_ps(x, y, 0x20), _mm256_permute2f128_ps(x, y, 0x31));
    };
    const __m256 ab = fold(op(a[0], a[1]), op(b[0], b[1])),
                 cd = fold(op(c[0], c[1]), op(d[0], d[1]));
    const __m256 twos = op(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xEE));
    const __m256 ones = op(twos, _mm256_permute_ps(twos, 0xB1));  // a a c c | b b d d
    _mm_storeu_ps(out, _mm_unpacklo_ps(_mm_permute_ps(_mm256_castps256_ps128(ones), 0xD8),
                                       _mm_permute_ps(_mm256_extractf128_ps(ones, 1), 0xD8)));
  }
  /// Rows become columns.
  [[gnu::always_inline]] static void transpose(Batch* m) {
    __m256 pairs[8], fours[8];
    for (int i = 0; i < 8; i += 2) {
      pairs[i] = _mm256_unpacklo_ps(m[i], m[i + 1]);
      pairs[i + 1] = _mm256_unpackhi_ps(m[i], m[i + 1]);
    }
    for (int i = 0; i < 8; i += 4)
      for (int j = 0; j < 2; ++j) {
        fours[i + 2 * j] = _mm256_shuffle_ps(pairs[i + j], pairs[i + j + 2], 0x44);
        fours[i + 2 * j + 1] = _mm256_shuffle_ps(pairs[i + j], pairs[i + j + 2], 0xEE);
      }
    for (int i = 0; i < 4; ++i) {
      m[i] = _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x20);
      m[i + 4] = _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x31);
    }
  }
  static Batch low_bf16(Batch x) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(x), 16));
  }
  static Batch high_bf16(Batch x) {
    return _mm256_and_ps(x, _mm256_castsi256_ps(_mm256_set1_epi32(static_cast<int>(0xFFFF0000U))));
  }
  static Batch load_f16(const void* p) { return _mm256_cvtph_ps(load128(p)); }
  static void store_f16(void* p, Batch x) {
    _mm_storeu_si128(static_cast<__m128i*>(p), _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
  }
  static void store_bf16(void* p, Batch x) {
    const __m256i bits = _mm256_castps_si256(x), upper = _mm256_srli_epi32(bits, 16);
    const __m256i half =
        _mm256_add_epi32(_mm256_and_si256(upper, _mm256_set1_epi32(1)), _mm256_set1_epi32(0x7FFF));
    const __m256 nearest = _mm256_castsi256_ps(_mm256_srli_epi32(_mm256_add_epi32(bits, half), 16));
    const __m256 quiet = _mm256_castsi256_ps(_mm256_or_si256(upper, _mm256_set1_epi32(0x40)));
    const __m256i wide =
        _mm256_castps_si256(_mm256_blendv_ps(nearest, quiet, _mm256_cmp_ps(x, x, _CMP_UNORD_Q)));
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(wide, wide), 0x08);
    _mm_storeu_si128(static_cast<__m128i*>(p), _mm256_castsi256_si128(packed));
  }
  static void store_i8(std::int8_t* p, Batch x) {
    const __m256 number = _mm256_and_ps(x, _mm256_cmp_ps(x, x, _CMP_ORD_Q));
    const __m256i wide = _mm256_cvtps_epi32(number);
    const __m128i half =
        _mm_packs_epi32(_mm256_castsi256_si128(wide), _mm256_extracti128_si256(wide, 1));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packs_epi16(half, half));
  }

 private:
  static __m128i load128(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
};
#endif

#if defined(__AVX512BW__)
template <>
struct FloatOps<Avx512> : XsimdFloatOps<Avx512> {
  static Batch fma(Batch a, Batch b, Batch c) { return _mm512_fmadd_ps(a, b, c); }
  static Batch div(Batch a, Batch b) { return _mm512_div_ps(a, b); }
  static Batch max(Batch a, Batch b) { return _mm512_max_ps(a, b); }
  static std::uint32_t less_bits(Batch a, Batch b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
  static Batch max_magnitude(Batch a, Batch b) {
    return _mm512_castsi512_ps(_mm512_max_epi32(_mm512_castps_si512(a), _mm512_castps_si512(b)));
  }
  static Batch min(Batch a, Batch b) { return _mm512_min_ps(a, b); }
  static Batch select_less(Batch a, Batch b, Batch x, Batch y) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), y, x);
  }
  static Batch scale2(Batch x, Batch n) { return _mm512_scalef_ps(x, n); }
  static Batch pow2(Batch t) {
    const __m512i shifted = _mm512_slli_epi32(_mm512_castps_si512(t), 23);
    return _mm512_castsi512_ps(_mm512_add_epi32(shifted, _mm512_set1_epi32(0x3F800000)));
  }
  static Batch swap_pairs(Batch x) { return _mm512_permute_ps(x, 0xB1); }
  static void store_partial(float* p, Batch x, std::size_t n) {
    _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1U << n) - 1), x);
  }
  /// Lane i: v(i) folded, of sixteen at once.
  template <class Op, class F>
  [[gnu::always_inline]] static Batch fold16(Op op, const F& v) {
    const auto lanes = [&](__m512 x, __m512 y, auto even, auto odd) -> __m512 {
      return op(_mm512_shuffle_f32x4(x, y, even), _mm512_shuffle_f32x4(x, y, odd));
    };
    const auto four = [&](int i) {  // i, i + 4, i + 8 and i + 12: l[k] + l[k+8], then l[k] + l[k+4]
      constexpr std::integral_constant<int, 0x44> low;
      constexpr std::integral_constant<int, 0xEE> high;
      constexpr std::integral_constant<int, 0x88> even;
      constexpr std::integral_constant<int, 0xDD> odd;
      return lanes(lanes(v(i), v(i + 4), low, high), lanes(v(i + 8), v(i + 12), low, high), even,
                   odd);
    };
    const auto two = [&](int i) {
      const __m512d a = _mm512_castps_pd(four(i)), b = _mm512_castps_pd(four(i + 1));
      return op(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)),
                _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));
    };
    const __m512 a = two(0), b = two(2);
    return op(_mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xDD));
  }
  template <class Op>
  static void fold4(Op op, const Batch* a, const Batch* b, const Batch* c, const Batch* d,
                    float* out) {
    const auto fold = [&](__m512 x, __m512 y) -> __m512 {  // l[i], l[i+8] of two
      return op(_mm512_shuffle_f32x4(x, y, 0x44), _mm512_shuffle_f32x4(x, y, 0xEE));
    };
    const __m512 ab = fold(a[0], b[0]), cd = fold(c[0], d[0]);
    const __m512 fours = op(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xDD));
    const __m512 twos = op(fours, _mm512_permute_ps(fours, 0xEE));
    const __m512 ones = op(twos, _mm512_permute_ps(twos, 0xB1));
    _mm_storeu_ps(out, _mm512_castps512_ps128(_mm512_maskz_compress_ps(0x1111, ones)));
  }
  /// Rows become columns.
  [[gnu::always_inline]] static void transpose(Batch* m) {
    __m512 pairs[16];
    __m512d fours[16];
    CRIA_UNROLL
    for (int i = 0; i < 16; i += 2) {
      pairs[i] = _mm512_unpacklo_ps(m[i], m[i + 1]);
      pairs[i + 1] = _mm512_unpackhi_ps(m[i], m[i + 1]);
    }
    CRIA_UNROLL
    for (int i = 0; i < 16;
         i += 4) {  // fours[i + c]: columns c, c + 4, c + 8 and c + 12 of rows i … i + 3
      const auto pair = [&](int j) { return _mm512_castps_pd(pairs[i + j]); };
      fours[i] = _mm512_unpacklo_pd(pair(0), pair(2));
      fours[i + 1] = _mm512_unpackhi_pd(pair(0), pair(2));
      fours[i + 2] = _mm512_unpacklo_pd(pair(1), pair(3));
      fours[i + 3] = _mm512_unpackhi_pd(pair(1), pair(3));
    }
    CRIA_UNROLL
    for (int c = 0; c < 4; ++c) {
      const auto four = [&](int i) { return _mm512_castpd_ps(fours[4 * i + c]); };
      const __m512 even_low = _mm512_shuffle_f32x4(four(0), four(1), 0x88),
                   odd_low = _mm512_shuffle_f32x4(four(0), four(1), 0xDD),
                   even_high = _mm512_shuffle_f32x4(four(2), four(3), 0x88),
                   odd_high = _mm512_shuffle_f32x4(four(2), four(3), 0xDD);
      m[c] = _mm512_shuffle_f32x4(even_low, even_high, 0x88);
      m[c + 4] = _mm512_shuffle_f32x4(odd_low, odd_high, 0x88);
      m[c + 8] = _mm512_shuffle_f32x4(even_low, even_high, 0xDD);
      m[c + 12] = _mm512_shuffle_f32x4(odd_low, odd_high, 0xDD);
    }
  }
  static Batch low_bf16(Batch x) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(x), 16));
  }
  static Batch high_bf16(Batch x) {
    return _mm512_and_ps(x, _mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int>(0xFFFF0000U))));
  }
  static Batch load_f16(const void* p) { return _mm512_cvtph_ps(load256(p)); }
  static void store_f16(void* p, Batch x) {
    _mm256_storeu_si256(static_cast<__m256i*>(p), _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
  }
  static void store_bf16(void* p, Batch x) {
    const __m512i bits = _mm512_castps_si512(x), upper = _mm512_srli_epi32(bits, 16);
    const __m512i half =
        _mm512_add_epi32(_mm512_and_si512(upper, _mm512_set1_epi32(1)), _mm512_set1_epi32(0x7FFF));
    const __m512i nearest = _mm512_srli_epi32(_mm512_add_epi32(bits, half), 16);
    const __m512i wide = _mm512_mask_or_epi32(nearest, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q),
                                              upper, _mm512_set1_epi32(0x40));
    _mm256_storeu_si256(static_cast<__m256i*>(p), _mm512_cvtepi32_epi16(wide));
  }
  static void store_i8(std::int8_t* p, Batch x) {
    const __m512i wide = _mm512_maskz_cvtps_epi32(_mm512_cmp_ps_mask(x, x, _CMP_ORD_Q), x);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtsepi32_epi8(wide));
  }

 private:
  static __m256i load256(const void* p) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(p));
  }
};
#endif

#if defined(__aarch64__)
template <>
struct FloatOps<Neon> : XsimdFloatOps<Neon> {
  static Batch fma(Batch a, Batch b, Batch c) { return vfmaq_f32(c, a, b); }
  static Batch div(Batch a, Batch b) { return vdivq_f32(a, b); }
  static Batch max(Batch a, Batch b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
  static std::uint32_t less_bits(Batch a, Batch b) {
    const std::uint32_t bit[4] = {1, 2, 4, 8};
    return vaddvq_u32(vandq_u32(vcltq_f32(a, b), vld1q_u32(bit)));
  }
  static Batch max_magnitude(Batch a, Batch b) {
    return vreinterpretq_f32_s32(vmaxq_s32(vreinterpretq_s32_f32(a), vreinterpretq_s32_f32(b)));
  }
  static Batch min(Batch a, Batch b) { return vbslq_f32(vcltq_f32(a, b), a, b); }
  static Batch select_less(Batch a, Batch b, Batch x, Batch y) {
    return vbslq_f32(vcltq_f32(a, b), x, y);
  }
  static Batch pow2(Batch t) {
    const uint32x4_t shifted = vshlq_n_u32(vreinterpretq_u32_f32(t), 23);
    return vreinterpretq_f32_u32(vaddq_u32(shifted, vdupq_n_u32(0x3F800000U)));
  }
  static Batch swap_pairs(Batch x) { return vrev64q_f32(x); }
  template <class Op>
  static void fold4(Op op, const Batch* a, const Batch* b, const Batch* c, const Batch* d,
                    float* out) {
    const auto fold = [&](const Batch* x) -> float32x4_t {
      return op(op(x[0], x[2]), op(x[1], x[3]));
    };
    const auto fold2 = [&](float32x4_t x, float32x4_t y) -> float32x4_t {  // l[i], l[i+2] of two
      const float64x2_t p = vreinterpretq_f64_f32(x), q = vreinterpretq_f64_f32(y);
      return op(vreinterpretq_f32_f64(vzip1q_f64(p, q)), vreinterpretq_f32_f64(vzip2q_f64(p, q)));
    };
    const float32x4_t ab = fold2(fold(a), fold(b)), cd = fold2(fold(c), fold(d));
    vst1q_f32(out, op(vuzp1q_f32(ab, cd), vuzp2q_f32(ab, cd)));
  }
  static Batch low_bf16(Batch x) {
    return vreinterpretq_f32_u32(vshlq_n_u32(vreinterpretq_u32_f32(x), 16));
  }
  static Batch high_bf16(Batch x) {
    return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(x), vdupq_n_u32(0xFFFF0000U)));
  }
  static Batch load_f16(const void* p) { return vcvt_f32_f16(vreinterpret_f16_u16(load64(p))); }
  static void store_f16(void* p, Batch x) {
    const uint16x4_t bits = vreinterpret_u16_f16(vcvt_f16_f32(x));
    std::memcpy(p, &bits, sizeof bits);
  }
  static void store_bf16(void* p, Batch x) {
    const uint32x4_t bits = vreinterpretq_u32_f32(x), upper = vshrq_n_u32(bits, 16);
    const uint32x4_t half = vaddq_u32(vandq_u32(upper, vdupq_n_u32(1)), vdupq_n_u32(0x7FFF));
    const uint32x4_t nearest = vshrq_n_u32(vaddq_u32(bits, half), 16);
    const uint16x4_t all =
        vmovn_u32(vbslq_u32(vceqq_f32(x, x), nearest, vorrq_u32(upper, vdupq_n_u32(0x40))));
    std::memcpy(p, &all, sizeof all);
  }
  static void store_i8(std::int8_t* p, Batch x) {
    const int16x4_t half = vmovn_s32(vcvtq_s32_f32(x));  // NaN converts to 0
    const int8x8_t bytes = vmovn_s16(vcombine_s16(half, half));
    std::memcpy(p, &bytes, 4);
  }

 private:
  static uint16x4_t load64(const void* p) {
    uint16x4_t bits;
    std::memcpy(&bits, p, sizeof bits);
    return bits;
  }
};
#endif

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
