// The K types: integer scales (and mins) of sub-blocks under one or two float scales.
#include "kernels/decode_super256.h"

namespace cria {
namespace {

// Eight 6-bit scales and mins in 12 bytes, each for 32 values. The first four lie in the low six bits of
// bytes j (scale) and j+4 (min); the others have their low four bits in byte j+4 (scale low, min high) and
// the top two in those bytes' spare bits.
void unpack_scales_and_mins(const std::uint8_t (&packed)[12], Decoded256& out) {
  for (int j = 0; j < 8; ++j) {
    int scale = packed[j % 4] & 63, min = packed[j % 4 + 4] & 63;
    if (j >= 4) {
      scale = (packed[j + 4] & 15) | packed[j - 4] >> 6 << 4;
      min = packed[j + 4] >> 4 | packed[j] >> 6 << 4;
    }
    out.scale[2 * j] = out.scale[2 * j + 1] = static_cast<std::int16_t>(scale);
    out.min[2 * j] = out.min[2 * j + 1] = static_cast<std::int16_t>(min);
  }
}

// Value i of nibbles where 32 bytes hold 32 values in their low and the next 32 in their high halves.
int nibble_of_64(const std::uint8_t (&lo)[128], int i) {
  return lo[i / 64 * 32 + i % 32] >> (i / 32 % 2 * 4) & 15;
}

// Bit j of byte l belongs to value 32j + l.
int bit_plane(const std::uint8_t (&hi)[32], int i) { return hi[i % 32] >> (i / 32) & 1; }

}  // namespace

void decode_q2_k(const std::byte* block, Decoded256& out) {
  const auto b = load_block<BlockQ2_K>(block);
  fill_super256(
      out, f16_to_f32(b.d), [&](int i) { return two_bits(b.q, i); }, [&](int j) { return b.scales[j] & 15; });
  for (int j = 0; j < 16; ++j) out.min[j] = b.scales[j] >> 4;
  out.dmin = f16_to_f32(b.dmin);
}

void decode_q3_k(const std::byte* block, Decoded256& out) {
  const auto b = load_block<BlockQ3_K>(block);
  const auto scale = [&](int j) {
    const int low = b.scales[j % 8] >> (j / 8 * 4) & 15, high = b.scales[8 + j % 4] >> (j / 4 * 2) & 3;
    return (low | high << 4) - 32;
  };
  fill_super256(
      out, f16_to_f32(b.d), [&](int i) { return two_bits(b.lo, i) + 4 * bit_plane(b.hi, i) - 4; }, scale);
}

void decode_q4_k(const std::byte* block, Decoded256& out) {
  const auto b = load_block<BlockQ4_K>(block);
  for (int i = 0; i < 256; ++i) out.q[i] = static_cast<std::int8_t>(nibble_of_64(b.lo, i));
  unpack_scales_and_mins(b.scales, out);
  out.d = f16_to_f32(b.d);
  out.dmin = f16_to_f32(b.dmin);
}

void decode_q5_k(const std::byte* block, Decoded256& out) {
  const auto b = load_block<BlockQ5_K>(block);
  for (int i = 0; i < 256; ++i)
    out.q[i] = static_cast<std::int8_t>(nibble_of_64(b.lo, i) + 16 * bit_plane(b.hi, i));
  unpack_scales_and_mins(b.scales, out);
  out.d = f16_to_f32(b.d);
  out.dmin = f16_to_f32(b.dmin);
}

void decode_q6_k(const std::byte* block, Decoded256& out) {
  const auto b = load_block<BlockQ6_K>(block);
  const auto low = [&](int i) { return b.lo[i / 128 * 64 + i % 64] >> (i / 64 % 2 * 4) & 15; };
  fill_super256(
      out, f16_to_f32(b.d), [&](int i) { return (low(i) | two_bits(b.hi, i) << 4) - 32; },
      [&](int j) { return int{b.scales[j]}; });
}

}  // namespace cria
