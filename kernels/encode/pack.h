// Codes to bytes (the inverse of the decoders of kernels/formats/), and what the encoders of
// super-blocks share.
#pragma once

#include "kernels/encode/lanes.h"
#include "kernels/encode/search.h"
#include "kernels/formats/formats.h"
#include "kernels/simd/namespace.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

/// Writes up to sixteen blocks of 32 values. code(i): codes of value i in lanes; d, m: scale and
/// (if the type has one) offset.
template <class Isa, class Block, class Code>
void store_blocks32(Code code, const F32x16<Isa>& d, const F32x16<Isa>& m, std::size_t n_blocks,
                    std::byte* out) {
  using V = F32x16<Isa>;
  constexpr bool kSixBits = std::is_same_v<Block, BlockQ6_0>;
  constexpr bool kFiveBits = !kSixBits && requires(Block block) { block.hi; };
  ByteLanes<Isa, 24> bytes;  // sixteen of nibbles, four of fifth bits or eight of fifth and sixth
  V hi[8];
  for (V& v : hi) v = V::broadcast(0);
  for (std::size_t i = 0; i < 16; ++i) {
    V first = code(i), second = code(i + 16);
    if constexpr (kFiveBits) {
      const V bit = V::broadcast(static_cast<float>(1 << i % 8)), zero = V::broadcast(0);
      const V sixteen = V::broadcast(16), fifteen = V::broadcast(15);
      hi[i / 8] = hi[i / 8] + select_less(fifteen, first, bit, zero);
      hi[2 + i / 8] = hi[2 + i / 8] + select_less(fifteen, second, bit, zero);
      first = first - select_less(fifteen, first, sixteen, zero);
      second = second - select_less(fifteen, second, sixteen, zero);
    }
    if constexpr (kSixBits) {
      const V sixteenth = V::broadcast(0x1p-4F), less = V::broadcast(0.46875F);
      const V top0 = round(fma(first, sixteenth, V::broadcast(0) - less)),
              top1 = round(fma(second, sixteenth, V::broadcast(0) - less));
      hi[i % 8] = fma(fma(top1, V::broadcast(4), top0), V::broadcast(i < 8 ? 1 : 16), hi[i % 8]);
      first = fma(top0, V::broadcast(-16), first);
      second = fma(top1, V::broadcast(-16), second);
    }
    bytes.set(i, fma(second, V::broadcast(16), first));
  }
  for (std::size_t i = 0; i < 8; ++i) bytes.set(16 + i, hi[i]);
  std::byte ds[2 * kFloatLanes], ms[2 * kFloatLanes];
  d.store_f16(ds);
  m.store_f16(ms);
  for (std::size_t b = 0; b < n_blocks; ++b) {
    Block block;
    __builtin_memcpy(&block.d, ds + 2 * b, 2);
    if constexpr (requires { block.m; }) __builtin_memcpy(&block.m, ms + 2 * b, 2);
    bytes.copy(b, 0, 16, block.lo);
    if constexpr (kSixBits) bytes.copy(b, 16, 8, block.hi);
    if constexpr (kFiveBits) {
      std::uint8_t bits[4];
      bytes.copy(b, 16, 4, bits);
      __builtin_memcpy(&block.hi, bits, 4);
    }
    __builtin_memcpy(out + b * sizeof block, &block, sizeof block);
  }
}

/// The codes of a super-block in the order of the row, and its integer scales and mins.
struct SuperCodes {
  alignas(64) std::uint8_t q[256];
  /// One per sub-block; signed ones as the format biases them. In tables, mins are 1 for a shift.
  std::uint8_t scales[16], mins[16];
};

/// Two bits at `shift` of four values 32 apart in a byte.
template <class Isa>
void pack_two_bits(const SuperCodes& c, int shift, std::uint8_t (&to)[64]) {
  for (std::size_t l = 0; l < 64; ++l) {
    const std::uint8_t* q = c.q + l / 32 * 128 + l % 32;
    unsigned byte = 0;
    for (unsigned j = 0; j < 4; ++j)
      byte |= (static_cast<unsigned>(q[32 * j]) >> shift & 3U) << (2 * j);
    to[l] = static_cast<std::uint8_t>(byte);
  }
}
/// The bit at `shift` of eight values 32 apart in a byte.
template <class Isa>
void pack_bit_planes(const SuperCodes& c, int shift, std::uint8_t (&to)[32]) {
  for (std::size_t l = 0; l < 32; ++l) {
    unsigned byte = 0;
    for (unsigned j = 0; j < 8; ++j)
      byte |= (static_cast<unsigned>(c.q[32 * j + l]) >> shift & 1U) << j;
    to[l] = static_cast<std::uint8_t>(byte);
  }
}
/// Packs the low nibbles of two values, `apart` places from each other, into a byte, in runs of
/// 2·apart values.
template <class Isa, std::size_t apart>
void pack_nibbles(const SuperCodes& c, std::uint8_t (&to)[128]) {
  for (std::size_t l = 0; l < 128; ++l) {
    const std::uint8_t* q = c.q + l / apart * 2 * apart + l % apart;
    to[l] = static_cast<std::uint8_t>((q[0] & 15U) | (q[apart] & 15U) << 4);
  }
}
/// The low four bits of the first 2·N numbers.
template <class Isa, std::size_t N>
void pack_scale_nibbles(const std::uint8_t (&s)[16], std::uint8_t (&to)[N]) {
  for (std::size_t j = 0; j < N; ++j)
    to[j] = static_cast<std::uint8_t>((s[2 * j] & 15U) | (s[2 * j + 1] & 15U) << 4);
}
/// Eight 6-bit scales and mins: see unpack_scales_and_mins.
template <class Isa>
void pack_scales_and_mins(const SuperCodes& c, std::uint8_t (&to)[12]) {
  for (std::size_t j = 0; j < 4; ++j) {
    const unsigned s = c.scales[j + 4], m = c.mins[j + 4];
    to[j] = static_cast<std::uint8_t>(c.scales[j] | s >> 4 << 6);
    to[j + 4] = static_cast<std::uint8_t>(c.mins[j] | m >> 4 << 6);
    to[j + 8] = static_cast<std::uint8_t>((s & 15U) | (m & 15U) << 4);
  }
}

template <class Isa>
void pack(const SuperCodes& c, BlockQ2_K& block) {
  for (std::size_t j = 0; j < 16; ++j)
    block.scales[j] = static_cast<std::uint8_t>(c.scales[j] | c.mins[j] << 4);
  pack_two_bits<Isa>(c, 0, block.q);
}
template <class Isa>
void pack(const SuperCodes& c, BlockQ3_K& block) {
  pack_two_bits<Isa>(c, 0, block.lo);
  pack_bit_planes<Isa>(c, 2, block.hi);
  for (std::size_t j = 0; j < 8; ++j)
    block.scales[j] = static_cast<std::uint8_t>((c.scales[j] & 15U) | (c.scales[j + 8] & 15U) << 4);
  for (std::size_t j = 0; j < 4; ++j) {
    unsigned byte = 0;
    for (std::size_t k = 0; k < 4; ++k)
      byte |= static_cast<unsigned>(c.scales[j + 4 * k]) >> 4 << (2 * k);
    block.scales[8 + j] = static_cast<std::uint8_t>(byte);
  }
}
template <class Isa>
void pack(const SuperCodes& c, BlockQ4_K& block) {
  pack_scales_and_mins<Isa>(c, block.scales);
  pack_nibbles<Isa, 32>(c, block.lo);
}
template <class Isa>
void pack(const SuperCodes& c, BlockQ5_K& block) {
  pack_scales_and_mins<Isa>(c, block.scales);
  pack_nibbles<Isa, 32>(c, block.lo);
  pack_bit_planes<Isa>(c, 4, block.hi);
}
template <class Isa>
void pack(const SuperCodes& c, BlockQ6_K& block) {
  pack_nibbles<Isa, 64>(c, block.lo);
  pack_two_bits<Isa>(c, 4, block.hi);
  for (std::size_t j = 0; j < 16; ++j)
    block.scales[j] = static_cast<std::int8_t>(c.scales[j] ^ 0x80U);
}
template <class Isa>
void pack(const SuperCodes& c, BlockIQ4_XS& block) {
  unsigned hi = 0;
  for (std::size_t j = 0; j < 8; ++j) hi |= static_cast<unsigned>(c.scales[j]) >> 4 << (2 * j);
  block.scales_hi = static_cast<std::uint16_t>(hi);
  pack_scale_nibbles<Isa>(c.scales, block.scales_lo);
  pack_nibbles<Isa, 16>(c, block.lo);
}
/// Eight odd scales, whose lowest bits say what is shifted.
template <class Isa>
void pack_odd_scales(const SuperCodes& c, std::uint8_t (&to)[8]) {
  for (std::size_t j = 0; j < 8; ++j) to[j] = static_cast<std::uint8_t>(c.scales[j] | c.mins[j]);
}
template <class Isa>
void pack(const SuperCodes& c, BlockIQ4_KS& block) {
  pack_odd_scales<Isa>(c, block.scales);
  pack_nibbles<Isa, 16>(c, block.lo);
}
template <class Isa>
void pack(const SuperCodes& c, BlockIQ5_KS& block) {
  pack_odd_scales<Isa>(c, block.scales);
  pack_nibbles<Isa, 32>(c, block.lo);
  pack_bit_planes<Isa>(c, 4, block.hi);
}
/// The four nibbles of a word have an even number of ones. Bit b of the word is the parity of their
/// bits from b up; bit 0, which is even, gives way to a bit of the scale.
template <class Isa>
void pack(const SuperCodes& c, BlockIQ4_KSS& block) {
  std::uint8_t scales[8], nibbles[128];
  pack_odd_scales<Isa>(c, scales);
  pack_nibbles<Isa, 16>(c, nibbles);
  for (std::size_t k = 0; k < 64; ++k) {
    unsigned word = nibbles[2 * k] | static_cast<unsigned>(nibbles[2 * k + 1]) << 8;
    for (unsigned shift = 1; shift < 16; shift *= 2) word ^= word >> shift;
    block.words[k / 8][k % 8] =
        static_cast<std::uint16_t>((word & 0xFFFEU) | (scales[k / 8] >> k % 8 & 1U));
  }
}
/// A bit for each of eight sub-blocks: bit `bit` of some number.
template <class Isa>
std::uint8_t pack_bits_of(const std::uint8_t (&of)[16], int bit) {
  unsigned bits = 0;
  for (std::size_t j = 0; j < 8; ++j) bits |= (static_cast<unsigned>(of[j]) >> bit & 1U) << j;
  return static_cast<std::uint8_t>(bits);
}
/// Eight nibbles: see halved_nibble().
template <class Isa>
void pack_halved_nibbles(const std::uint8_t (&s)[16], std::uint8_t (&to)[4]) {
  for (std::size_t j = 0; j < 4; ++j)
    to[j] = static_cast<std::uint8_t>((s[j] & 15U) | (s[j + 4] & 15U) << 4);
}
template <class Isa>
void pack(const SuperCodes& c, BlockIQ2_KS& block) {
  block.shifts = pack_bits_of<Isa>(c.mins, 0);
  block.scales_hi = pack_bits_of<Isa>(c.scales, 4);
  pack_scale_nibbles<Isa>(c.scales, block.scales);
  pack_two_bits<Isa>(c, 0, block.q);
}
template <class Isa>
void pack(const SuperCodes& c, BlockIQ3_KS& block) {
  block.shifts = pack_bits_of<Isa>(c.mins, 0);
  block.scales_hi = pack_bits_of<Isa>(c.scales, 4);
  pack_halved_nibbles<Isa>(c.scales, block.scales);
  pack_two_bits<Isa>(c, 0, block.lo);
  pack_bit_planes<Isa>(c, 2, block.hi);
}
/// Codes index kIq3Values; kIq2klPairs must contain every pair.
template <class Isa>
void pack(const SuperCodes& c, BlockIQ2_KL& block) {
  std::uint8_t code_of[64] = {};
  for (std::size_t i = 0; i < kIq2klPairs.size(); ++i)
    code_of[kIq2klPairs[i]] = static_cast<std::uint8_t>(i);
  unsigned top = 0;
  for (std::size_t j = 0; j < 8; ++j) top |= static_cast<unsigned>(c.scales[j]) >> 4 << (2 * j);
  block.scales_hi = static_cast<std::uint16_t>(top);
  pack_halved_nibbles<Isa>(c.scales, block.scales);
  for (std::size_t p = 0; p < 16; ++p) {
    unsigned codes[8], hi = 0;
    for (std::size_t j = 0; j < 8; ++j) {
      const std::uint8_t* const pair = c.q + 32 * j + 2 * p;
      codes[j] = code_of[8 * pair[0] + pair[1]];
      hi |= codes[j] >> 4 << j;
    }
    for (std::size_t j = 0; j < 4; ++j)
      block.lo[16 * j + p] =
          static_cast<std::uint8_t>((codes[2 * j] & 15U) | (codes[2 * j + 1] & 15U) << 4);
    block.hi[p] = static_cast<std::uint8_t>(hi);
  }
}
/// A bit for each sub-block that is shifted.
template <class Isa>
std::uint16_t pack_shifts(const SuperCodes& c) {
  unsigned bits = 0;
  for (std::size_t j = 0; j < 16; ++j) bits |= static_cast<unsigned>(c.mins[j]) << j;
  return static_cast<std::uint16_t>(bits);
}
/// Sixteen numbers of six bits.
template <class Isa, class Block>
void pack_six_bits(const SuperCodes& c, Block& block) {
  pack_scale_nibbles<Isa>(c.scales, block.scales_lo);
  for (std::size_t l = 0; l < 4; ++l) {
    unsigned byte = 0;
    for (std::size_t k = 0; k < 4; ++k)
      byte |= static_cast<unsigned>(c.scales[4 * l + k]) >> 4 << (2 * k);
    block.scales_hi[l] = static_cast<std::uint8_t>(byte);
  }
}
template <class Isa>
void pack(const SuperCodes& c, BlockIQ2_K& block) {
  block.extra = pack_shifts<Isa>(c);
  pack_scale_nibbles<Isa>(c.scales, block.scales);
  pack_two_bits<Isa>(c, 0, block.q);
}
template <class Isa>
void pack(const SuperCodes& c, BlockIQ3_K& block) {
  std::uint8_t sizes[16];
  unsigned signs = 0;
  for (std::size_t j = 0; j < 16; ++j) {
    const int s = c.scales[j] - 31;
    sizes[j] = static_cast<std::uint8_t>(((s < 0 ? -s : s) - 1) / 2);
    signs |= (s < 0 ? 1U : 0U) << j;
  }
  block.extra = pack_shifts<Isa>(c);
  block.signs = static_cast<std::uint16_t>(signs);
  pack_scale_nibbles<Isa>(sizes, block.scales);
  pack_two_bits<Isa>(c, 0, block.lo);
  pack_bit_planes<Isa>(c, 2, block.hi);
}
template <class Isa>
void pack(const SuperCodes& c, BlockIQ4_K& block) {
  block.extra = pack_shifts<Isa>(c);
  pack_six_bits<Isa>(c, block);
  pack_nibbles<Isa, 16>(c, block.lo);
}
template <class Isa>
void pack(const SuperCodes& c, BlockIQ5_K& block) {
  block.extra = pack_shifts<Isa>(c);
  pack_six_bits<Isa>(c, block);
  pack_nibbles<Isa, 32>(c, block.lo);
  pack_bit_planes<Isa>(c, 4, block.hi);
}
template <class Isa>
void pack(const SuperCodes& c, BlockIQ6_K& block) {
  block.extra = pack_shifts<Isa>(c);
  for (std::size_t j = 0; j < 16; ++j)
    block.scales[j] = static_cast<std::int8_t>(c.scales[j] ^ 0x80U);
  pack_nibbles<Isa, 32>(c, block.lo);
  pack_two_bits<Isa>(c, 4, block.hi);
}
template <class Isa>
void pack(const SuperCodes& c, BlockTQ2_0& block) {
  pack_two_bits<Isa>(c, 0, block.q);
}
/// Five trits as the digits of a base-3 fraction of 256, rounded up so
/// that multiplying them out again finds each.
template <class Isa>
void pack(const SuperCodes& c, BlockTQ1_0& block) {
  const auto byte = [](const std::uint8_t* q, std::size_t apart, int trits) {
    unsigned number = 0;
    for (int n = 0; n < 5; ++n)
      number = 3 * number + (n < trits ? q[static_cast<std::size_t>(n) * apart] : 0U);
    return static_cast<std::uint8_t>((number * 256 + 242) / 243);
  };
  for (std::size_t l = 0; l < 32; ++l) block.q[l] = byte(c.q + l, 32, 5);
  for (std::size_t l = 0; l < 16; ++l) block.q[32 + l] = byte(c.q + 160 + l, 16, 5);
  for (std::size_t l = 0; l < 4; ++l) block.qh[l] = byte(c.q + 240 + l, 4, 4);
}

/// Writes the super-blocks whose sub-blocks of N values are in lanes. code(i): the codes of value i
/// in lanes; scales, mins: integers from 0, one per lane; d, dmin: one value for all lanes of a
/// super-block, which is not stored if the row's header has it.
template <class Isa, class Block, std::size_t N, class Code>
void store_super_blocks(Code code, const F32x16<Isa>& d, const F32x16<Isa>& dmin,
                        const F32x16<Isa>& scales, const F32x16<Isa>& mins, std::size_t n_blocks,
                        std::byte* out) {
  constexpr std::size_t kGroup = 256 / N;
  ByteLanes<Isa, N + 2> bytes;
  for (std::size_t i = 0; i < N; ++i) bytes.set(i, code(i));
  bytes.set(N, scales);
  bytes.set(N + 1, mins);
  std::byte ds[2 * kFloatLanes], dmins[2 * kFloatLanes];
  d.store_f16(ds);
  dmin.store_f16(dmins);
  for (std::size_t b = 0; b < n_blocks; ++b) {
    SuperCodes codes;
    for (std::size_t j = 0; j < kGroup; ++j) {
      bytes.copy(b * kGroup + j, 0, N, codes.q + j * N);
      bytes.copy(b * kGroup + j, N, 1, codes.scales + j);
      bytes.copy(b * kGroup + j, N + 1, 1, codes.mins + j);
    }
    Block block;
    if constexpr (requires { block.d; }) __builtin_memcpy(&block.d, ds + 2 * b * kGroup, 2);
    if constexpr (requires { block.dmin; })
      __builtin_memcpy(&block.dmin, dmins + 2 * b * kGroup, 2);
    pack<Isa>(codes, block);
    __builtin_memcpy(out + b * sizeof block, &block, sizeof block);
  }
}

// Basics of super-block encoders: lanes are sub-blocks, and the sub-blocks of a super-block share
// d.

/// Lane l of the result: op over the lanes of l's group, from its first to its last.
template <class Isa, std::size_t group, class Op>
F32x16<Isa> across(const F32x16<Isa>& v, Op op) {
  alignas(64) float lanes[kFloatLanes];
  v.store(lanes);
  for (std::size_t first = 0; first < kFloatLanes; first += group) {
    float all = lanes[first];
    for (std::size_t l = first + 1; l < first + group; ++l) all = op(all, lanes[l]);
    for (std::size_t l = first; l < first + group; ++l) lanes[l] = all;
  }
  return F32x16<Isa>::load(lanes);
}
template <class Isa, std::size_t group>
F32x16<Isa> group_sum(const F32x16<Isa>& v) {
  return across<Isa, group>(v, [](float a, float b) { return a + b; });
}
/// The number of the largest magnitude, with its sign.
template <class Isa, std::size_t group>
F32x16<Isa> group_peak(const F32x16<Isa>& v) {
  return across<Isa, group>(
      v, [](float a, float b) { return __builtin_fabsf(a) < __builtin_fabsf(b) ? b : a; });
}

/// d and dmin of super-blocks, the same in all lanes of each, the integers s and m of their
/// sub-blocks, and the error that they leave to each sub-block.
template <class Isa>
struct SuperScales {
  using V = F32x16<Isa>;
  V d = V::broadcast(0), dmin = V::broadcast(0), s = V::broadcast(0), m = V::broadcast(0),
    error = V::broadcast(0x1p126F);

  /// Takes the other's s and m where they leave less error to the sub-block.
  void better_sub_blocks(const V& other_s, const V& other_m, const V& other_error) {
    s = select_less(other_error, error, other_s, s);
    m = select_less(other_error, error, other_m, m);
    error = min(other_error, error);
  }
  /// Takes the other where it leaves less error to the super-block.
  template <std::size_t group>
  void better_super_blocks(const SuperScales& other) {
    const V mine = group_sum<Isa, group>(error), others = group_sum<Isa, group>(other.error);
    d = select_less(others, mine, other.d, d);
    dmin = select_less(others, mine, other.dmin, dmin);
    s = select_less(others, mine, other.s, s);
    m = select_less(others, mine, other.m, m);
    error = select_less(others, mine, other.error, error);
  }
};

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
