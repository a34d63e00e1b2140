// MXFP4: 32 weights 2^(e - 127)·E2M1. The scale is a power of two, so the few that can be best are all tried.
#pragma once

#include <algorithm>
#include <bit>

#include "kernels/encode/encoder.h"
#include "kernels/encode/grid.h"
#include "kernels/encode/lanes.h"

namespace cria {

/// The least scale that is used: half of it is the least normal float.
inline constexpr int kLeastE8m0 = 2;

/// The E8M0 whose scale is more than a quarter of a peak, at most half: E2M1 reaches to 6, so the codes reach a
/// little beyond it, one less cuts it at three quarters or more.
inline int e8m0_beyond(float peak) { return static_cast<int>(std::bit_cast<std::uint32_t>(peak) >> 23) - 1; }

template <class Isa, bool weighted>
void encode_mxfp4(const float* x, const float* importance, std::size_t n_blocks, std::byte* out) {
  using V = F32x16<Isa>;
  using Grid = E2m1Grid<Isa>;
  const BlockLanes<Isa, 32, weighted> block(x, importance, n_blocks);
  V peak = V::broadcast(0);
  for (std::size_t i = 0; i < 32; ++i) peak = max(peak, abs(block.x(i)));
  alignas(64) float lanes[kFloatLanes], d[kFloatLanes], factor[kFloatLanes];
  alignas(64) float best_factor[kFloatLanes] = {}, errors[kFloatLanes], least[kFloatLanes];
  std::uint8_t best[kFloatLanes] = {};
  peak.store(lanes);
  for (float& error : least) error = __builtin_inff();
  constexpr int kTried = 4;
  for (int step = 0; step < kTried; ++step) {
    std::uint8_t e[kFloatLanes];
    for (std::size_t l = 0; l < kFloatLanes; ++l) {
      e[l] = static_cast<std::uint8_t>(std::max(e8m0_beyond(lanes[l]) - step, kLeastE8m0));
      d[l] = half_of_e8m0(e[l]);
      factor[l] = 1 / d[l];
    }
    const V scale = V::load(d), inverse = V::load(factor);
    V error = V::broadcast(0);
    for (std::size_t i = 0; i < 32; ++i) {
      const V off = block.x(i) - Grid::nearest(block.x(i) * inverse) * scale;
      error = fma(block.weigh(i, off), off, error);
    }
    error.store(errors);
    for (std::size_t l = 0; l < kFloatLanes; ++l) {
      if (!(errors[l] < least[l])) continue;
      least[l] = errors[l];
      best[l] = e[l];
      best_factor[l] = factor[l];
    }
  }
  const V inverse = V::load(best_factor);
  ByteLanes<Isa, 16> bytes;
  for (std::size_t i = 0; i < 16; ++i)
    bytes.set(i,
              fma(Grid::code(block.x(i + 16) * inverse), V::broadcast(16), Grid::code(block.x(i) * inverse)));
  for (std::size_t b = 0; b < n_blocks; ++b) {
    BlockMXFP4 one;
    one.e = best[b];
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
          (w == nullptr ? encode_mxfp4<Isa, false> : encode_mxfp4<Isa, true>)(some, w, n_blocks, out);
        });
  };
};

}  // namespace cria
