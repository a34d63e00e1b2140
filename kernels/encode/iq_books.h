// The codebooks of the IQ types as an encoder wants them: in floats, by coordinate, and again
// sorted by the first half of an entry.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cria {

/// Vectors of halves: coordinate i of the j-th is value[i * n + j]; n is a
/// multiple of 16, the last ones may be repeated.
struct EntryPlanes {
  std::size_t n;
  const float *value, *square;  ///< and value²
};

/// A codebook whose entries (2, 4, 6 … values as the decoder's integers, without signs and shifts;
/// IQ1: -8, 0, 8) are pairs of halves. Entries with the same first half make a run: slots run[r] …
/// run[r + 1] hold the second halves of first half r.
struct EncoderBook {
  static constexpr std::size_t kMaxHalves = 96, kMaxSlots = 3328;
  EntryPlanes all;              ///< the entries
  EntryPlanes first, second;    ///< the different halves
  EntryPlanes slots;            ///< the second halves of the entries
  const std::uint16_t* number;  ///< 0, 1, 2 … all.n - 1
  const std::uint16_t* run;     ///< first.n + 1 slots, multiples of 16; empty for repeated halves
  const std::uint16_t* entry;   ///< index of a slot's entry; padding repeats an entry of the run
};

/// Built when first asked for, by any thread, and never freed.
const EncoderBook& iq2_xxs_book();
const EncoderBook& iq2_xs_book();
const EncoderBook& iq2_s_book();
const EncoderBook& iq3_xxs_book();
const EncoderBook& iq3_s_book();
const EncoderBook& iq1_book();

}  // namespace cria
