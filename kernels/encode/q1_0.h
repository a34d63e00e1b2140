// Q1_0: 128 weights ±d. The signs are the weights' own, so the best d is the mean of their
// magnitudes.
#pragma once

#include "kernels/encode/encoder.h"
#include "kernels/encode/lanes.h"

namespace cria {

template <class Isa, bool weighted>
void encode_q1_0(const float* x, const float* importance, std::size_t n_blocks, std::byte* out) {
  using V = F32x16<Isa>;
  const BlockLanes<Isa, 128, weighted> block(x, importance, n_blocks);
  V sum_wx = V::broadcast(0), sum_w = sum_wx;
  for (std::size_t i = 0; i < 128; ++i) {
    sum_wx = sum_wx + block.weigh(i, abs(block.x(i)));
    sum_w = sum_w + block.w(i);
  }
  std::byte d[2 * kFloatLanes];
  to_f16_and_back(sum_wx / sum_w).store_f16(d);
  ByteLanes<Isa, 16> bytes;
  for (std::size_t i = 0; i < 16; ++i) {
    V byte = V::broadcast(0);
    for (std::size_t bit = 0; bit < 8; ++bit)
      byte = byte + select_less(block.x(8 * i + bit), V::broadcast(0), V::broadcast(0),
                                V::broadcast(static_cast<float>(1 << bit)));
    bytes.set(i, byte);
  }
  for (std::size_t b = 0; b < n_blocks; ++b) {
    BlockQ1_0 one;
    __builtin_memcpy(&one.d, d + 2 * b, sizeof one.d);
    bytes.copy(b, 0, 16, one.bits);
    __builtin_memcpy(out + b * sizeof one, &one, sizeof one);
  }
}

template <class Isa>
struct Encoder<Isa, DType::Q1_0> {
  static constexpr EncodeFn run = [](const float* x, const float* importance, std::size_t n,
                                     std::byte* blocks) {
    each_batch<BlockQ1_0, 128, kFloatLanes>(
        x, importance, n, blocks,
        [](const float* some, const float* w, std::size_t n_blocks, std::byte* out) {
          (w == nullptr ? encode_q1_0<Isa, false> : encode_q1_0<Isa, true>)(some, w, n_blocks, out);
        });
  };
};

}  // namespace cria
