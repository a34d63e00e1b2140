// Encoders of MXFP4 and NVFP4, whose scales are a byte: all plausible scales are tried, by their
// true error.
#pragma once

#include <algorithm>

#include "kernels/encode/lanes.h"
#include "kernels/encode/search.h"
#include "kernels/simd/namespace.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

// Scales that are a byte: so few can be best that they are all tried, by their true error.

/// The best of the scales tried for sixteen runs of N values of a grid, one per lane.
template <class Isa, class Grid, std::size_t N, bool weighted>
class ScaleByte {
  using V = F32x16<Isa>;

 public:
  explicit ScaleByte(const BlockLanes<Isa, N, weighted>& block) : block_(block) {
    for (float& error : least_) error = __builtin_inff();
  }
  /// Largest magnitudes.
  void peaks(float (&lanes)[kFloatLanes]) const {
    V peak = V::broadcast(0);
    for (std::size_t i = 0; i < N; ++i) peak = max(peak, abs(block_.x(i)));
    peak.store(lanes);
  }
  /// Tries byte_of(lane), which stands for scale_of(byte), neither 0 nor so small that it has no
  /// inverse.
  template <class ByteOf, class ScaleOf>
  [[gnu::always_inline]] void consider(ByteOf byte_of, ScaleOf scale_of) {
    alignas(64) float d[kFloatLanes], factor[kFloatLanes], errors[kFloatLanes];
    std::uint8_t bytes[kFloatLanes];
    for (std::size_t l = 0; l < kFloatLanes; ++l) {
      bytes[l] = byte_of(l);
      d[l] = scale_of(bytes[l]);
      factor[l] = 1 / d[l];
    }
    const V scale = V::load(d), inverse = V::load(factor);
    V error = V::broadcast(0);
    for (std::size_t i = 0; i < N; ++i) {
      const V off = block_.x(i) - Grid::nearest(block_.x(i) * inverse) * scale;
      error = fma(block_.weigh(i, off), off, error);
    }
    error.store(errors);
    for (std::size_t l = 0; l < kFloatLanes; ++l) {
      if (!(errors[l] < least_[l])) continue;
      least_[l] = errors[l];
      best_[l] = bytes[l];
      factor_[l] = factor[l];
    }
  }
  [[nodiscard]] std::uint8_t best(std::size_t lane) const { return best_[lane]; }
  /// Bytes of two codes under the best scale: value i and value i + N/2 of every lane.
  [[nodiscard]] ByteLanes<Isa, N / 2> nibbles() const {
    const V inverse = V::load(factor_);
    ByteLanes<Isa, N / 2> bytes;
    for (std::size_t i = 0; i < N / 2; ++i)
      bytes.set(i, fma(Grid::code(block_.x(i + N / 2) * inverse), V::broadcast(16),
                       Grid::code(block_.x(i) * inverse)));
    return bytes;
  }

 private:
  const BlockLanes<Isa, N, weighted>& block_;
  std::uint8_t best_[kFloatLanes] = {};
  float least_[kFloatLanes];
  alignas(64) float factor_[kFloatLanes] = {};
};

// MXFP4: 32 weights 2^(e - 127)·E2M1. The scale is a power of two, so four can be best.

/// The least scale that is used: half of it is the least normal float.
inline constexpr int kMinE8m0 = 2;

/// The E8M0 byte whose scale is between a quarter (exclusive) and half of a peak. E2M1 reaches 6,
/// so the codes reach beyond the peak; one step less cuts it at three quarters or more.
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
inline constexpr EncodeFn kEncoder<Isa, DType::MXFP4> =
    encode_batches<BlockMXFP4, 32, kFloatLanes, encode_mxfp4<Isa, kWeightedOnly<Isa>>,
                   encode_mxfp4<Isa, true>>;

// NVFP4: sub-blocks of 16 weights d·q, q twice E2M1, d half of UE4M3.

/// The UE4M3 byte whose half is d, rounded down, or more than the largest. A byte is the upper bits
/// of a float that is too small by 2^120.
[[gnu::always_inline]] inline int ue4m3_below(float d) {
  return static_cast<int>(std::bit_cast<std::uint32_t>(d * 0x1p-119F) >> 20);
}

/// Up to four blocks, their sub-blocks in lanes.
template <class Isa, bool weighted>
void encode_nvfp4(const float* x, const float* importance, std::size_t n_blocks, std::byte* out) {
  constexpr std::size_t kSubBlocks = 4;  // per block
  const BlockLanes<Isa, 16, weighted> block(x, importance, n_blocks * kSubBlocks, kSubBlocks);
  ScaleByte<Isa, E2m1Grid<Isa>, 16, weighted> scale(block);
  alignas(64) float peaks[kFloatLanes];
  scale.peaks(peaks);
  // Steps around the scale whose grid ends at the peak; eight steps are a factor of two.
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
inline constexpr EncodeFn kEncoder<Isa, DType::NVFP4> =
    encode_batches<BlockNVFP4, 64, kFloatLanes / 4, encode_nvfp4<Isa, kWeightedOnly<Isa>>,
                   encode_nvfp4<Isa, true>>;

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
