// The codebooks of the IQ types as an encoder wants them: by coordinate, in floats.
#pragma once

#include <cstddef>

namespace cria {

/// A codebook of `size` entries (a multiple of 16) of `dims` values. Value i of entry e is value[i * size +
/// e].
struct EncoderBook {
  std::size_t size, dims;
  const float* value;       ///< as the decoder's integers, without signs and shifts: IQ1's are -8, 0, 8
  const float* square;      ///< value², laid out like value
  const float* sum;         ///< of entry e: Σ_i value
  const float* square_sum;  ///< of entry e: Σ_i value²
};

/// Built when first asked for, by any thread, and never freed.
const EncoderBook& iq2_xxs_book();
const EncoderBook& iq2_xs_book();
const EncoderBook& iq2_s_book();
const EncoderBook& iq3_xxs_book();
const EncoderBook& iq3_s_book();
const EncoderBook& iq1_book();

}  // namespace cria
