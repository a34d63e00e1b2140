// Codebooks of the IQ types: which groups of values their indices mean.
// Byte g of an entry is value g of the group.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace cria {

extern const std::array<std::uint64_t, 256> kIq2xxsGrid;  ///< magnitudes 8, 25, 43
extern const std::array<std::uint64_t, 512> kIq2xsGrid;   ///< the same
extern const std::array<std::uint64_t, 1024> kIq2sGrid;   ///< the same
extern const std::array<std::uint32_t, 256>
    kIq3xxsGrid;  ///< magnitudes 4, 12, 20, 28, 36, 44, 52, 62
extern const std::array<std::uint32_t, 512> kIq3sGrid;  ///< magnitudes 1, 3, 5 … 15
extern const std::array<std::uint64_t, 2048>
    kIq1Grid;  ///< -8, 0, 8 as int8: eight times the format's grid

/// A codebook as the codes that it is made of, in two planes for lookups by byte permutations. A
/// digit names one of the levels below. Groups of eight: digits of two bits, the first four of
/// entry i in low[i], the lowest first, the others in high[i]. Groups of four: digits of three
/// bits, two and two.
template <std::size_t N>
struct CodePlanes {
  alignas(64) std::array<std::uint8_t, N> low, high;
};
extern const CodePlanes<256> kIq2xxsPlanes;
extern const CodePlanes<512> kIq2xsPlanes;
extern const CodePlanes<1024> kIq2sPlanes;
extern const CodePlanes<256> kIq3xxsPlanes;
extern const CodePlanes<512> kIq3sPlanes;
extern const CodePlanes<2048> kIq1Planes;

/// The high plane of IQ1 by windows of sixteen entries. Codes are sorted, so it changes at most
/// once per window: first[w], then second[w] from the entry with low byte change[w] on.
struct HighWindows {
  alignas(64) std::array<std::uint8_t, 128> first, second, change;
};
extern const HighWindows kIq1High;

inline constexpr std::array<std::int8_t, 3> kIq2Levels = {8, 25, 43};
inline constexpr std::array<std::int8_t, 8> kIq3xxsLevels = {4, 12, 20, 28, 36, 44, 52, 62};
inline constexpr std::array<std::int8_t, 8> kIq3sLevels = {1, 3, 5, 7, 9, 11, 13, 15};
inline constexpr std::array<std::int8_t, 3> kIq1Levels = {-8, 0, 8};

/// Values of the nibbles of IQ4_NL and IQ4_XS.
inline constexpr std::array<std::int8_t, 16> kIq4Values = {
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

/// Eight sign bits from the seven stored ones: the eighth makes their number even.
constexpr std::uint8_t even_signs(std::uint32_t seven) {
  seven &= 0x7F;
  return static_cast<std::uint8_t>(seven | static_cast<std::uint32_t>(std::popcount(seven) & 1)
                                               << 7);
}

}  // namespace cria
