// Types with one float scale per 32 values.
#include "kernels/blocks.h"
#include "kernels/decoders.h"
#include "kernels/f16.h"
#include "kernels/iq_tables.h"

namespace cria {
namespace {

constexpr int nibble(const std::uint8_t (&lo)[16], int i) { return i < 16 ? lo[i] & 15 : lo[i - 16] >> 4; }

constexpr int five_bits(const std::uint8_t (&lo)[16], std::uint32_t hi, int i) {
  return nibble(lo, i) | static_cast<int>(hi >> i & 1) << 4;
}

// value_of(i) is q[i].
template <class ValueOf>
void fill(Decoded32& out, F16Bits d, F16Bits m, ValueOf value_of) {
  for (int i = 0; i < 32; ++i) out.q[i] = static_cast<std::int8_t>(value_of(i));
  out.d = f16_to_f32(d);
  out.m = f16_to_f32(m);
}

}  // namespace

void decode_q4_0(const std::byte* block, Decoded32& out) {
  const auto b = load_block<BlockQ4_0>(block);
  fill(out, b.d, 0, [&](int i) { return nibble(b.lo, i) - 8; });
}

void decode_q4_1(const std::byte* block, Decoded32& out) {
  const auto b = load_block<BlockQ4_1>(block);
  fill(out, b.d, b.m, [&](int i) { return nibble(b.lo, i); });
}

void decode_q5_0(const std::byte* block, Decoded32& out) {
  const auto b = load_block<BlockQ5_0>(block);
  fill(out, b.d, 0, [&](int i) { return five_bits(b.lo, b.hi, i) - 16; });
}

void decode_q5_1(const std::byte* block, Decoded32& out) {
  const auto b = load_block<BlockQ5_1>(block);
  fill(out, b.d, b.m, [&](int i) { return five_bits(b.lo, b.hi, i); });
}

void decode_q8_0(const std::byte* block, Decoded32& out) {
  const auto b = load_block<BlockQ8_0>(block);
  fill(out, b.d, 0, [&](int i) { return b.q[i]; });
}

void decode_iq4_nl(const std::byte* block, Decoded32& out) {
  const auto b = load_block<BlockIQ4_NL>(block);
  fill(out, b.d, 0, [&](int i) { return kIq4Values[static_cast<std::size_t>(nibble(b.lo, i))]; });
}

}  // namespace cria
