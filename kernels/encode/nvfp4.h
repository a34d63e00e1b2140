// NVFP4: sub-blocks of 16 weights d·q, q twice E2M1, d half of UE4M3.
#pragma once

#include <algorithm>

#include "kernels/encode/scale_byte.h"

namespace cria {

/// The UE4M3 byte whose half is d, rounded down, or more than the largest. A byte is the upper bits
/// of a float that is too small by 2^120.
[[gnu::always_inline]] inline int ue4m3_below(float d) {
  return static_cast<int>(std::bit_cast<std::uint32_t>(d * 0x1p-119F) >> 20);
}

/// Up to four blocks, their sub-blocks in lanes.
template <class Isa, bool weighted>
void encode_nvfp4(const float* x, const float* importance, std::size_t n_blocks, std::byte* out) {
  constexpr std::size_t kSubBlocks = 4;  // of a block
  const BlockLanes<Isa, 16, weighted> block(x, importance, n_blocks * kSubBlocks, kSubBlocks);
  ScaleByte<Isa, E2m1Grid<Isa>, 16, weighted> scale(block);
  alignas(64) float peaks[kFloatLanes];
  scale.peaks(peaks);
  // Beside the scale whose grid ends at the peak: eight steps are a factor of two.
  constexpr int kLowest = -4, kHighest = 10, kMost = kLargestUe4m3;
  for (int step = kLowest; step <= kHighest; ++step)
    scale.consider(
        [&](std::size_t l) {
          const int byte = ue4m3_below(peaks[l] / E2m1Grid<Isa>::kTop) + step;
          return static_cast<std::uint8_t>(std::max(1, std::min(byte, kMost)));
        },
        [](std::uint8_t e) { return kHalfOfUe4m3[e]; });
  const auto bytes = scale.nibbles();
  for (std::size_t b = 0; b < n_blocks; ++b) {
    BlockNVFP4 one;
    for (std::size_t j = 0; j < kSubBlocks; ++j) {
      one.e[j] = scale.best(b * kSubBlocks + j);
      bytes.copy(b * kSubBlocks + j, 0, 8, one.lo[j]);
    }
    __builtin_memcpy(out + b * sizeof one, &one, sizeof one);
  }
}

template <class Isa>
struct Encoder<Isa, DType::NVFP4> {
  static constexpr EncodeFn run = [](const float* x, const float* importance, std::size_t n,
                                     std::byte* blocks) {
    each_batch<BlockNVFP4, 64, kFloatLanes / 4>(
        x, importance, n, blocks,
        [](const float* some, const float* w, std::size_t n_blocks, std::byte* out) {
          (w == nullptr ? encode_nvfp4<Isa, false> : encode_nvfp4<Isa, true>)(some, w, n_blocks,
                                                                              out);
        });
  };
};

}  // namespace cria
