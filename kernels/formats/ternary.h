// The ternary types: 256 values of -1, 0, 1 times one scale.
#pragma once

#include "kernels/formats/format.h"

namespace cria {

#pragma pack(push, 1)
struct BlockTQ1_0 {    // 1.6875 bits per weight: d*(trit - 1)
  std::uint8_t q[48];  // five trits a byte: 32 bytes with values 0…159, 16 bytes with values
                       // 160…239, in five runs each, one trit of every byte per run
  std::uint8_t qh[4];  // four trits a byte: values 240…255 in four runs
  F16Bits d;
};
struct BlockTQ2_0 {    // 2.0625 bits: d*(two bits - 1)
  std::uint8_t q[64];  // per half of 128: bits 2j, 2j+1 of byte l are value 32j + l
  F16Bits d;
};
#pragma pack(pop)

template <>
struct Format<DType::TQ1_0> : Super256Format<BlockTQ1_0> {
  static_assert(sizeof(Block) == 54);
  static constexpr DecodeTraits kTraits{-1, 1, 256, 1, 1, false};
  static void decode(const Block& b, Decoded256& out) {
    const auto q = [&](int i) {
      if (i < 160) return trit(b.q[i % 32], i / 32) - 1;
      if (i < 240) return trit(b.q[32 + i % 16], (i - 160) / 16) - 1;
      return trit(b.qh[i % 4], (i - 240) / 4) - 1;
    };
    fill(out, f16_to_f32(b.d), q, [](int) { return 1; });
  }

 private:
  /// A byte holds trits as the digits of a base-3 fraction of 256: multiplying by 3^n modulo 256
  /// drops the first n of them, and the next is the integer part of three times the rest. Any byte
  /// yields 0…2.
  static int trit(std::uint8_t byte, int n) {
    constexpr int kPow3[5] = {1, 3, 9, 27, 81};
    return (byte * kPow3[n] & 255) * 3 >> 8;
  }
};

template <>
struct Format<DType::TQ2_0> : Super256Format<BlockTQ2_0> {
  static_assert(sizeof(Block) == 66);
  static constexpr DecodeTraits kTraits{-1, 2, 256, 1, 1, false};
  static void decode(const Block& b, Decoded256& out) {
    fill(
        out, f16_to_f32(b.d), [&](int i) { return two_bits(b.q, i) - 1; }, [](int) { return 1; });
  }
};

}  // namespace cria
