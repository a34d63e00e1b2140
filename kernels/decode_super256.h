// What the decoders of 256-value blocks share.
#pragma once

#include "kernels/blocks.h"
#include "kernels/decoders.h"
#include "kernels/f16.h"

namespace cria {

/// Fills a decoded block without mins: q[i] = q_of(i), scale[j] = scale_of(j) for each sub-block of 16.
template <class QOf, class ScaleOf>
void fill_super256(Decoded256& out, float d, QOf q_of, ScaleOf scale_of) {
  for (int i = 0; i < 256; ++i) out.q[i] = static_cast<std::int8_t>(q_of(i));
  for (int j = 0; j < 16; ++j) {
    out.scale[j] = static_cast<std::int16_t>(scale_of(j));
    out.min[j] = 0;
  }
  out.d = d;
  out.dmin = 0;
}

/// Value i of two-bit values that lie as in BlockQ2_K: 32 bytes hold four runs of 32 values, lowest bits
/// first.
inline int two_bits(const std::uint8_t (&q)[64], int i) {
  return q[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2) & 3;
}

/// Nibble i of bytes, low nibble first.
inline int nibble_at(const std::uint8_t* bytes, int i) { return bytes[i / 2] >> (i % 2 * 4) & 15; }

}  // namespace cria
