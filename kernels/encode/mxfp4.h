// MXFP4: 32 weights 2^(e - 127)·E2M1. The scale is a power of two, so four can be best.
#pragma once

#include <algorithm>

#include "kernels/encode/scale_byte.h"

namespace cria {

/// The least scale that is used: half of it is the least normal float.
inline constexpr int kMinE8m0 = 2;

/// The E8M0 whose scale is more than a quarter of a peak, at most half: E2M1 reaches to 6, so the
/// codes reach a little beyond it, one less cuts it at three quarters or more.
[[gnu::always_inline]] inline int e8m0_beyond(float peak) {
  return static_cast<int>(std::bit_cast<std::uint32_t>(peak) >> 23) - 1;
}

template <class Isa, bool weighted>
void encode_mxfp4(const float* x, const float* importance, std::size_t n_blocks, std::byte* out) {
  const BlockLanes<Isa, 32, weighted> block(x, importance, n_blocks);
  ScaleByte<Isa, E2m1Grid<Isa>, 32, weighted> scale(block);
  alignas(64) float peaks[kFloatLanes];
  scale.peaks(peaks);
  constexpr int kTried = 4;
  for (int step = 0; step < kTried; ++step)
    scale.consider(
        [&](std::size_t l) {
          return static_cast<std::uint8_t>(std::max(e8m0_beyond(peaks[l]) - step, kMinE8m0));
        },
        [](std::uint8_t e) { return half_of_e8m0(e); });
  const auto bytes = scale.nibbles();
  for (std::size_t b = 0; b < n_blocks; ++b) {
    BlockMXFP4 one;
    one.e = scale.best(b);
    bytes.copy(b, 0, 16, one.lo);
    __builtin_memcpy(out + b * sizeof one, &one, sizeof one);
  }
}

template <class Isa>
struct Encoder<Isa, DType::MXFP4> {
  static constexpr EncodeFn run = [](const float* x, const float* importance, std::size_t n,
                                     std::byte* blocks) {
    each_batch<BlockMXFP4, 32, kFloatLanes>(
        x, importance, n, blocks,
        [](const float* some, const float* w, std::size_t n_blocks, std::byte* out) {
          (w == nullptr ? encode_mxfp4<Isa, false> : encode_mxfp4<Isa, true>)(some, w, n_blocks,
                                                                              out);
        });
  };
};

}  // namespace cria
