// Scales that are a byte: so few can be best that they are all tried, by their true error.
#pragma once

#include "kernels/encode/encoder.h"
#include "kernels/encode/grid.h"
#include "kernels/encode/lanes.h"

namespace cria {

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

}  // namespace cria
