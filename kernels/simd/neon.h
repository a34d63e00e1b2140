// Lanes of NEON with the dot product extension: one row in a 128-bit register. See
// simd/row_lanes.h.
#pragma once

#include <arm_neon.h>

#include <cstring>

#include "kernels/simd/namespace.h"
#include "kernels/simd/row_lanes.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

template <>
struct RowLanes<Neon> {
  static constexpr std::size_t kLanes = 1, kPacks = kRowGroup / kLanes;
  static constexpr int kBias = 0;
  using Vec = uint8x16_t;
  struct Float8 {
    float32x4_t low, high;
  };
  struct Int8 {
    int32x4_t low, high;
  };
  using RowPtr = const std::byte* const*;

  static int16x8_t s16(Vec v) { return vreinterpretq_s16_u8(v); }
  static uint16x8_t u16(Vec v) { return vreinterpretq_u16_u8(v); }
  static int32x4_t s32(Vec v) { return vreinterpretq_s32_u8(v); }
  static uint32x4_t u32(Vec v) { return vreinterpretq_u32_u8(v); }
  static int8x16_t s8(Vec v) { return vreinterpretq_s8_u8(v); }
  static Vec vec(int32x4_t v) { return vreinterpretq_u8_s32(v); }
  static Vec vec(uint32x4_t v) { return vreinterpretq_u8_u32(v); }
  static Vec vec(int16x8_t v) { return vreinterpretq_u8_s16(v); }
  static Vec vec(uint16x8_t v) { return vreinterpretq_u8_u16(v); }

  static Vec same(const void* p) { return vld1q_u8(static_cast<const std::uint8_t*>(p)); }
  static Vec load(RowPtr rows, std::size_t offset) { return same(rows[0] + offset); }

  static Vec zero() { return vdupq_n_u8(0); }
  static Vec splat8(int x) { return vdupq_n_u8(static_cast<std::uint8_t>(x)); }
  static Vec splat16(int x) { return vec(vdupq_n_s16(static_cast<std::int16_t>(x))); }
  static Vec bit_and(Vec a, Vec b) { return vandq_u8(a, b); }
  static Vec bit_or(Vec a, Vec b) { return vorrq_u8(a, b); }
  static Vec bit_xor(Vec a, Vec b) { return veorq_u8(a, b); }
  template <int N>
  static Vec take(Vec v, Vec mask) {
    if constexpr (N < 0) return bit_and(vshlq_n_u8(v, -N), mask);
    if constexpr (N > 0) return bit_and(vshrq_n_u8(v, N), mask);
    return bit_and(v, mask);
  }
  static Vec add8(Vec a, Vec b) { return vaddq_u8(a, b); }
  static Vec sub8(Vec a, Vec b) { return vsubq_u8(a, b); }
  static Vec abs8(Vec v) { return vreinterpretq_u8_s8(vabsq_s8(s8(v))); }
  static Vec add16(Vec a, Vec b) { return vec(vaddq_u16(u16(a), u16(b))); }
  static Vec sub16(Vec a, Vec b) { return vec(vsubq_u16(u16(a), u16(b))); }
  static Vec mul16(Vec a, Vec b) { return vec(vmulq_u16(u16(a), u16(b))); }
  template <int N>
  static Vec shr16(Vec v) {
    return vec(vshrq_n_u16(u16(v), N));
  }
  template <int N>
  static Vec shl16(Vec v) {
    return vec(vshlq_n_u16(u16(v), N));
  }
  static Vec add32(Vec a, Vec b) { return vec(vaddq_u32(u32(a), u32(b))); }
  static Vec mul32(Vec a, Vec b) { return vec(vmulq_u32(u32(a), u32(b))); }
  template <int N>
  static Vec shl32(Vec v) {
    return vec(vshlq_n_u32(u32(v), N));
  }
  /// Every int32 of acc plus the sum of its four bytes of v, of up to 63.
  static Vec sum_bytes(Vec acc, Vec v) { return vec(vdotq_u32(u32(acc), v, splat8(1))); }
  static Vec lookup(Vec table, Vec index) { return vqtbl1q_u8(table, index); }
  static Vec zip_low8(Vec a, Vec b) { return vzip1q_u8(a, b); }
  static Vec zip_high8(Vec a, Vec b) { return vzip2q_u8(a, b); }
  /// The first (last) eight bytes of a, then of b.
  static Vec join_low(Vec a, Vec b) { return vcombine_u8(vget_low_u8(a), vget_low_u8(b)); }
  static Vec join_high(Vec a, Vec b) { return vcombine_u8(vget_high_u8(a), vget_high_u8(b)); }
  static Vec widen_low(Vec v) { return vec(vmovl_s8(vget_low_s8(s8(v)))); }
  static Vec widen_high(Vec v) { return vec(vmovl_s8(vget_high_s8(s8(v)))); }
  /// w + x where v has bits (one bit in each byte).
  static Vec add_where(Vec w, Vec v, Vec bits, Vec x) {
    return add8(w, bit_and(vtstq_u8(v, bits), x));
  }
  /// Sixteen bytes of signs per lane, in the form that with_signs() wants.
  using Signs = Vec;
  static Signs signs(Vec v) { return v; }
  /// offset + w, or offset - w where the bits of bytes 2i and 2i + 1 say so.
  template <int i>
  static Vec with_signs(Vec w, Signs signs, Vec offset) {
    const Vec negative = vtstq_u8(lookup(signs, same(&kSpread<2 * i>)), same(&kBitOfByte));
    return vbslq_u8(negative, sub8(offset, w), add8(offset, w));
  }
  /// Counts how many of a, b are less than v; signed bytes.
  static Vec count_less(Vec v, Vec a, Vec b) {
    return sub8(sub8(zero(), vcgtq_s8(s8(v), s8(a))), vcgtq_s8(s8(v), s8(b)));
  }
  /// The low (high) bytes of 8 and 8 int16 of each lane.
  static Vec low_bytes(Vec a, Vec b) { return vuzp1q_u8(a, b); }
  static Vec high_bytes(Vec a, Vec b) { return vuzp2q_u8(a, b); }
  /// The even (odd) int32 of a, then of b.
  static Vec even_dwords(Vec a, Vec b) { return vec(vuzp1q_u32(u32(a), u32(b))); }
  static Vec odd_dwords(Vec a, Vec b) { return vec(vuzp2q_u32(u32(a), u32(b))); }
  /// Bits 7k … 7k+6 of each int32 to its byte k.
  static Vec sevens(Vec v) {
    const auto part = [](uint32x4_t shifted, std::uint32_t mask) {
      return vec(vandq_u32(shifted, vdupq_n_u32(mask)));
    };
    const uint32x4_t bits = u32(v);
    return bit_or(
        bit_or(part(bits, 0x7F), part(vshlq_n_u32(bits, 1), 0x7F00)),
        bit_or(part(vshlq_n_u32(bits, 2), 0x7F0000), part(vshlq_n_u32(bits, 3), 0x7F000000)));
  }
  static constexpr bool kPermutes = false, kNegates = false;
  /// Sixteen-bit indices.
  class Indices {
   public:
    void take(Vec v) { vst1q_u64(four_, vreinterpretq_u64_u8(v)); }
    [[nodiscard]] std::size_t at(int /*lane*/, int i) const {
      return four_[i / 4] >> (16 * (i % 4)) & 0xFFFF;
    }

   private:
    std::uint64_t four_[2];
  };
  /// Two 8-byte entries; index(0, n): which.
  template <class F>
  CRIA_INLINE static Vec entries(const std::uint64_t* table, F index) {
    return vreinterpretq_u8_u64(
        vcombine_u64(vcreate_u64(table[index(0, 0)]), vcreate_u64(table[index(0, 1)])));
  }
  /// Four 4-byte entries.
  template <class F>
  CRIA_INLINE static Vec entries(const std::uint32_t* table, F index) {
    const std::uint32_t e[4] = {table[index(0, 0)], table[index(0, 1)], table[index(0, 2)],
                                table[index(0, 3)]};
    return vec(vld1q_u32(e));
  }

  static Vec madd16(Vec acc, Vec a, Vec b) {
    const int32x4_t low = vmlal_s16(s32(acc), vget_low_s16(s16(a)), vget_low_s16(s16(b)));
    return vec(vmlal_high_s16(low, s16(a), s16(b)));
  }

  template <int Max>
  static Vec dot(Vec acc, Vec w0, Vec a0, Vec w1, Vec a1) {
    static_assert(Max <= 127);
    return dot_full(acc, w0, a0, w1, a1);
  }
  template <int Max>
  static Vec dot(Vec acc, Vec w, Vec a) {
    static_assert(Max <= 127);
    return vec(vdotq_s32(s32(acc), s8(w), s8(a)));
  }
  static Vec dot_full(Vec acc, Vec w0, Vec a0, Vec w1, Vec a1) {
    return vec(vdotq_s32(vdotq_s32(s32(acc), s8(w0), s8(a0)), s8(w1), s8(a1)));
  }
  /// The scale as int32 everywhere.
  static Vec scale(Vec s, int j) {
    const int16x8_t all = s16(lookup(s, splat16((2 * j + 1) << 8 | 2 * j)));
    return vec(vmovl_s16(vget_low_s16(all)));
  }
  template <int Max>
  static Vec scaled_dot(Vec acc, Vec w, Vec a, Vec s) {
    static_assert(Max <= 127);
    return scaled_dot_full(acc, w, a, s);
  }
  template <int Max>
  static Vec scaled_dot(Vec acc, Vec w0, Vec a0, Vec w1, Vec a1, Vec s) {
    static_assert(Max <= 127);
    return scaled_dot_full(acc, w0, a0, w1, a1, s);
  }
  static Vec scaled_dot_full(Vec acc, Vec w0, Vec a0, Vec w1, Vec a1, Vec s) {
    return vec(vmlaq_s32(s32(acc), s32(dot_full(zero(), w0, a0, w1, a1)), s32(s)));
  }
  static Vec scaled_dot_full(Vec acc, Vec w, Vec a, Vec s) {
    return vec(vmlaq_s32(s32(acc), vdotq_s32(vdupq_n_s32(0), s8(w), s8(a)), s32(s)));
  }

  /// Sums of neighbours of 16 int16, in every lane.
  static Vec pair_sums(const std::int16_t* p) {
    return vec(vpaddq_s16(vld1q_s16(p), vld1q_s16(p + 8)));
  }

  static Int8 sum_rows(const Vec (&v)[kPacks]) {
    const auto four = [&](int i) {
      return vpaddq_s32(vpaddq_s32(s32(v[i]), s32(v[i + 1])),
                        vpaddq_s32(s32(v[i + 2]), s32(v[i + 3])));
    };
    return {four(0), four(4)};
  }
  static Int8 sub_all(Int8 v, int x) {
    const int32x4_t all = vdupq_n_s32(x);
    return {vsubq_s32(v.low, all), vsubq_s32(v.high, all)};
  }
  static Float8 to_float(Int8 v) { return {vcvtq_f32_s32(v.low), vcvtq_f32_s32(v.high)}; }
  static Float8 zero_float() { return splat_float(0.0F); }
  static Float8 splat_float(float x) { return {vdupq_n_f32(x), vdupq_n_f32(x)}; }
  static Float8 mul(Float8 a, Float8 b) {
    return {vmulq_f32(a.low, b.low), vmulq_f32(a.high, b.high)};
  }
  static Float8 fma(Float8 a, Float8 b, Float8 c) {
    return {vfmaq_f32(c.low, a.low, b.low), vfmaq_f32(c.high, a.high, b.high)};
  }
  static Float8 fnma(Float8 a, Float8 b, Float8 c) {
    return {vfmsq_f32(c.low, a.low, b.low), vfmsq_f32(c.high, a.high, b.high)};
  }
  static void store(float* p, Float8 v) {
    vst1q_f32(p, v.low);
    vst1q_f32(p + 4, v.high);
  }
  /// Word `word` of the 8 rows, as f16.
  template <std::size_t word>
  static Float8 f16_of_lanes(const Vec (&v)[kPacks]) {
    std::uint16_t h[kRowGroup];
    for (std::size_t r = 0; r < kRowGroup; ++r)
      h[r] = vgetq_lane_u16(vreinterpretq_u16_u8(v[r]), word);
    return from_f16(h);
  }
  /// Byte At of a block of Bytes bytes in each of the 8 rows.
  template <std::size_t Bytes, std::size_t At>
  static Int8 load_u8(RowPtr rows, std::size_t offset) {
    std::int32_t b[kRowGroup];
    for (std::size_t r = 0; r < kRowGroup; ++r)
      b[r] = static_cast<std::int32_t>(rows[r][offset + At]);
    return {vld1q_s32(b), vld1q_s32(b + 4)};
  }
  static Int8 load_u32(RowPtr rows, std::size_t offset) {
    std::int32_t b[kRowGroup];
    for (std::size_t r = 0; r < kRowGroup; ++r) std::memcpy(&b[r], rows[r] + offset, sizeof b[r]);
    return {vld1q_s32(b), vld1q_s32(b + 4)};
  }
  template <int N>
  static Int8 byte(Int8 v) {
    const auto half = [](int32x4_t part) {
      const uint32x4_t bits = vreinterpretq_u32_s32(part);
      return vreinterpretq_s32_u32(vshrq_n_u32(vshlq_n_u32(bits, 24 - 8 * N), 24));
    };
    return {half(v.low), half(v.high)};
  }
  static Float8 load_f32(RowPtr rows, std::size_t offset) {
    const Int8 v = load_u32(rows, offset);
    return {vreinterpretq_f32_s32(v.low), vreinterpretq_f32_s32(v.high)};
  }
  /// Seven bits are an f16 but for a power of two.
  static Float8 half_of_ue4m3(Int8 e) {
    const auto half = [](int32x4_t v) {
      const int32x4_t number = vbicq_s32(v, vreinterpretq_s32_u32(vceqq_s32(v, vdupq_n_s32(0x7F))));
      const int32x4_t bits = vshlq_n_s32(vandq_s32(number, vdupq_n_s32(0x7F)), 7);
      return vmulq_n_f32(vcvt_f32_f16(vreinterpret_f16_s16(vmovn_s32(bits))), 0x1p7F);
    };
    return {half(e.low), half(e.high)};
  }
  /// 2^(e - 128) for e of 0…255, subnormal for 0 and 1.
  static Float8 half_of_e8m0(Int8 e) {
    const auto half = [](int32x4_t v) {
      const int32x4_t one = vdupq_n_s32(1),
                      subnormal = vshlq_s32(vdupq_n_s32(0x00200000), vminq_s32(v, one));
      return vreinterpretq_f32_s32(vmaxq_s32(vshlq_n_s32(vsubq_s32(v, one), 23), subnormal));
    };
    return {half(e.low), half(e.high)};
  }
  /// The f16 at byte At of a block of Bytes bytes in each of the 8 rows.
  template <std::size_t Bytes, std::size_t At, bool Shared = true>
  static Float8 load_f16(RowPtr rows, std::size_t offset) {
    std::uint16_t h[kRowGroup];
    for (std::size_t r = 0; r < kRowGroup; ++r)
      std::memcpy(&h[r], rows[r] + offset + At, sizeof h[r]);
    return from_f16(h);
  }

 private:
  static Float8 from_f16(const std::uint16_t (&h)[kRowGroup]) {
    return {vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(h))),
            vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(h + 4)))};
  }
};

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
