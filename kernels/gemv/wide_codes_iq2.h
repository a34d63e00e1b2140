// IQ2, two bits a column, by permutations of codes: see wide_codes.h.
#pragma once

#include "kernels/gemv/wide_codes.h"

namespace cria {

/// Of two bits a column.
template <DType type>
struct CodedTwoBits : CodedPair {
  using Book = typename LaneType<RowLanes<Avx512>, type>::Book;
  CodedIndices index;
  __m512i codes[2][1];
  CRIA_INLINE static void find(CodedTwoBits& first, CodedTwoBits& second) { find_pairs(first, second); }
};
template <>
class CodedRows<DType::IQ2_XXS> : public CodedTwoBits<DType::IQ2_XXS> {
 public:
  __m512i scales[2][1];
  CRIA_INLINE CodedRows(const std::byte* a, const std::byte* b) {
    const __m512 first = subs(a), second = subs(b);
    index = {_mm512_castps_si512(_mm512_shuffle_ps(first, second, 0x88)), _mm512_setzero_si512()};
    take_signs_scales(_mm512_castps_si512(_mm512_shuffle_ps(first, second, 0xDD)), scales[0], scales[1]);
  }

 private:
  CRIA_INLINE static __m512 subs(const std::byte* p) {
    return _mm512_castsi512_ps(_mm512_loadu_si512(p + offsetof(BlockIQ2_XXS, sub)));
  }
};
template <>
class CodedRows<DType::IQ2_XS> : public CodedTwoBits<DType::IQ2_XS> {
 public:
  __m512i scales[2][2];
  CRIA_INLINE CodedRows(const std::byte* a, const std::byte* b) {
    const __m512i first = _mm512_loadu_si512(a + offsetof(BlockIQ2_XS, q)),
                  second = _mm512_loadu_si512(b + offsetof(BlockIQ2_XS, q));
    const __m512i high = _mm512_permutex2var_epi8(first, load_bytes(kBytes<1>), second);
    index = {_mm512_permutex2var_epi8(first, load_bytes(kBytes<0>), second), high};
    take_sevens(_mm512_srli_epi16(high, 1));
    scales_of_nibbles(a + offsetof(BlockIQ2_XS, scales), scales[0]);
    scales_of_nibbles(b + offsetof(BlockIQ2_XS, scales), scales[1]);
  }

 private:
  /// The low (0) or high (1) bytes of both rows' words, to the lanes.
  template <std::size_t high>
  alignas(64) static constexpr auto kBytes = bytes_by([](std::size_t i) {
    return 64 * (i % 16 / 8) + 2 * (i / 16 * 8 + i % 8) + high;
  });
};
template <>
class CodedRows<DType::IQ2_S> : public CodedTwoBits<DType::IQ2_S> {
 public:
  __m512i scales[2][2];
  CRIA_INLINE CodedRows(const std::byte* a, const std::byte* b) {
    constexpr std::size_t kHigh = offsetof(BlockIQ2_S, index_hi), kScales = offsetof(BlockIQ2_S, scales);
    const __m512i pairs = _mm512_broadcast_i32x4(
        _mm_set_epi64x(load_bits<std::int64_t>(b + kHigh), load_bits<std::int64_t>(a + kHigh)));
    index = {to_lanes(load32(a + offsetof(BlockIQ2_S, index)), load32(b + offsetof(BlockIQ2_S, index))),
             _mm512_multishift_epi64_epi8(load_bytes(kPairs), pairs)};
    take_signs(a + offsetof(BlockIQ2_S, signs), b + offsetof(BlockIQ2_S, signs));
    scales_of_nibbles(a + kScales, scales[0]);
    scales_of_nibbles(b + kScales, scales[1]);
  }

 private:
  alignas(64) static constexpr auto kPairs = bytes_by([](std::size_t i) {
    return 16 * (i / 16) + 2 * (i % 8);
  });
};

}  // namespace cria
