// The ternary types.
#include "kernels/decode_super256.h"

namespace cria {
namespace {

// A byte holds trits as the digits of a base-3 fraction of 256: multiplying by 3^n modulo 256 drops the first
// n of them, and the next is the integer part of three times the rest. Any byte yields 0…2.
int trit(std::uint8_t byte, int n) {
  constexpr int kPow3[5] = {1, 3, 9, 27, 81};
  return (byte * kPow3[n] & 255) * 3 >> 8;
}

}  // namespace

// 32 bytes with values 0…159 and 16 bytes with values 160…239, five runs each, one trit of every byte per
// run; then four bytes with values 240…255 in four runs.
void decode_tq1_0(const std::byte* block, Decoded256& out) {
  const auto b = load_block<BlockTQ1_0>(block);
  const auto q = [&](int i) {
    if (i < 160) return trit(b.q[i % 32], i / 32) - 1;
    if (i < 240) return trit(b.q[32 + i % 16], (i - 160) / 16) - 1;
    return trit(b.qh[i % 4], (i - 240) / 4) - 1;
  };
  fill_super256(out, f16_to_f32(b.d), q, [](int) { return 1; });
}

void decode_tq2_0(const std::byte* block, Decoded256& out) {
  const auto b = load_block<BlockTQ2_0>(block);
  fill_super256(
      out, f16_to_f32(b.d), [&](int i) { return two_bits(b.q, i) - 1; }, [](int) { return 1; });
}

}  // namespace cria
