// IQ3, three bits a column, by permutations of codes: see wide_codes.h.
#pragma once

#include "kernels/gemv/wide_codes.h"

namespace cria {

/// Which of a row's 64 indices lies at byte i, where the middle dwords of each lane are exchanged.
constexpr std::size_t exchanged_index(std::size_t i) {
  constexpr std::size_t kDwords[4] = {0, 2, 1, 3};
  return i / 16 * 16 + 4 * kDwords[i / 4 % 4] + i % 4;
}

/// Of three bits a column: the 64 indices of a row fill a register. Codes of entries 8q … 8q + 3 come first, those of the
/// four after them second.
template <DType type>
struct CodedThreeBits : CodedPair {
  using Book = typename LaneType<RowLanes<Avx512>, type>::Book;
  __m512i codes[2][2];

  CodedIndices index[2];
  CRIA_INLINE static void find(CodedThreeBits& first, CodedThreeBits& second) {
    find_both<Book>(first.index[0], first.index[1], first.codes[0], first.codes[1]);
    find_both<Book>(second.index[0], second.index[1], second.codes[0], second.codes[1]);
  }

 protected:
  CRIA_INLINE static __m512i exchanged(const std::byte* indices) {
    return _mm512_shuffle_epi32(_mm512_loadu_si512(indices), _MM_PERM_DBCA);
  }
};
template <>
class CodedRows<DType::IQ3_XXS> : public CodedThreeBits<DType::IQ3_XXS> {
 public:
  __m512i scales[2][1];
  CRIA_INLINE CodedRows(const std::byte* a, const std::byte* b) {
    index[0] = {exchanged(a + offsetof(BlockIQ3_XXS, index)), _mm512_setzero_si512()};
    index[1] = {exchanged(b + offsetof(BlockIQ3_XXS, index)), _mm512_setzero_si512()};
    constexpr std::size_t kSigns = offsetof(BlockIQ3_XXS, signs_scale);
    take_signs_scales(to_lanes(load32(a + kSigns), load32(b + kSigns)), scales[0], scales[1]);
  }
};
template <>
class CodedRows<DType::IQ3_S> : public CodedThreeBits<DType::IQ3_S> {
 public:
  __m512i scales[2][1];
  CRIA_INLINE CodedRows(const std::byte* a, const std::byte* b) {
    take_row(0, a);
    take_row(1, b);
    take_signs(a + offsetof(BlockIQ3_S, signs), b + offsetof(BlockIQ3_S, signs));
  }

 private:
  CRIA_INLINE void take_row(std::size_t r, const std::byte* p) {
    const __m512i high = _mm512_set1_epi64(load_bits<std::int64_t>(p + offsetof(BlockIQ3_S, index_hi)));
    index[r] = {exchanged(p + offsetof(BlockIQ3_S, index)),
                _mm512_multishift_epi64_epi8(load_bytes(kBits), high)};
    const auto nibbles = load_bits<std::int32_t>(p + offsetof(BlockIQ3_S, scales));
    scales[r][0] =
        odd_scales<4>(_mm512_rolv_epi32(_mm512_set1_epi32(nibbles), _mm512_load_si512(kToBit1.data())));
  }
  alignas(64) static constexpr auto kBits = bytes_by(exchanged_index);
  /// How far to rotate eight nibbles, so that quadword q has the q-th in bits 1 … 4.
  alignas(64) static constexpr auto kToBit1 = [] {
    std::array<std::uint32_t, 16> left{};
    for (std::uint32_t i = 0; i < 16; ++i) left[i] = (33 - 4 * (i / 2)) % 32;
    return left;
  }();
};

}  // namespace cria
