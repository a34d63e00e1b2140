// Causal convolution along positions, one set of taps per channel. Numerics: kernels/README.md.
#pragma once

#include <cstddef>

#include "kernels/recurrent/recurrent.h"
#include "kernels/rows/row_ops.h"
#include "kernels/simd/namespace.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

/// A tile of channels: its taps in lanes and its last input rows.
template <class Isa>
class ConvolutionTile {
  using V = F32x16<Isa>;

 public:
  /// Channels of a tile: few taps leave room for long runs of memory.
  static constexpr std::size_t channels(std::size_t taps) {
    return kFloats / taps / kFloatLanes * kFloatLanes;
  }

  ConvolutionTile(const ConvolutionJob& job, std::size_t first, std::size_t channels)
      : job_(job),
        first_(first),
        channels_(channels),
        taps_(job.shape.taps),
        stride_(ConvolutionTile::channels(taps_)) {
    if (channels % kFloatLanes != 0) {  // lanes after the end are computed, too
      __builtin_memset(weights_, 0, sizeof weights_);
      __builtin_memset(rows_, 0, sizeof rows_);
    }
    switch (taps_) {
      case 3:
        read_weights<3>();
        break;
      case 4:
        read_weights<4>();
        break;
      default:
        read_weights<0>();
    }
    for (std::size_t back = taps_ - 1; back > 0; --back) {
      const bool exists = job.first_pos >= back;
      const std::size_t pos = job.first_pos - back;  // (wraps around before position 0)
      float* const row = rows_ + slot_before(back) * stride_;
      if (exists) {
        __builtin_memcpy(row, ring_row(pos), channels_ * sizeof(float));
      } else {
        __builtin_memset(row, 0, channels_ * sizeof(float));
      }
    }
  }

  void run() {
    for (std::size_t t = 0; t < job_.n_rows; ++t) {
      const std::size_t at = t * job_.x_stride + first_;
      if (t + kAhead < job_.n_rows) prefetch(t + kAhead);
      read(job_.x + at, job_.factor == nullptr ? nullptr : job_.factor + at);
      if (t + job_.shape.ring_rows() >= job_.n_rows)
        __builtin_memcpy(ring_row(job_.first_pos + t), rows_ + newest_ * stride_,
                         channels_ * sizeof(float));
      write(job_.out + t * job_.out_stride + first_,
            job_.out_factor == nullptr ? nullptr : job_.out_factor + at);
      newest_ = newest_ + 1 == taps_ ? 0 : newest_ + 1;
    }
  }

 private:
  static constexpr std::size_t kFloats = 2048;
  /// Rows are far apart, so hardware does not prefetch them. More of them would evict each other
  /// from L1, as they are often multiples of a page apart.
  static constexpr std::size_t kAhead = 3;
  static_assert(kFloats / kMaxConvolutionTaps >= kFloatLanes);

  /// Transposes the taps; n: their number, 0: any.
  template <std::size_t n>
  void read_weights() {
    const std::size_t taps = n == 0 ? taps_ : n, stride = ConvolutionTile::channels(taps);
    const float* const from = job_.weights + first_ * taps;
    for (std::size_t c = 0; c < channels_; ++c)
      for (std::size_t tap = 0; tap < taps; ++tap)
        weights_[tap * stride + c] = from[c * taps + tap];
  }
  CRIA_INLINE void prefetch(std::size_t t) const {
    const float* const x = job_.x + t * job_.x_stride + first_;
    const float* const out = job_.out + t * job_.out_stride + first_;
    for (std::size_t i = 0; i < channels_; i += kFloatLanes) {
      __builtin_prefetch(x + i, 0, 3);
      __builtin_prefetch(out + i, 1, 3);
    }
  }
  float* ring_row(std::size_t pos) const {
    return job_.memory + pos % job_.shape.ring_rows() * job_.shape.channels + first_;
  }
  /// The row of rows_ that is `back` positions before the newest one.
  [[nodiscard]] std::size_t slot_before(std::size_t back) const {
    return newest_ >= back ? newest_ - back : newest_ + taps_ - back;
  }
  void read(const float* x, const float* factor) {
    float* const row = rows_ + newest_ * stride_;
    for_each_group(channels_, [&](std::size_t i, std::size_t lanes) {
      const V v = load_group<Isa>(x + i, lanes);
      store_group(factor == nullptr ? v : load_group<Isa>(factor + i, lanes) * v, row + i, lanes);
    });
  }
  void write(float* out, const float* factor) const {
    const float* rows[kMaxConvolutionTaps];
    for (std::size_t tap = 0; tap < taps_; ++tap)
      rows[tap] = rows_ + slot_before(taps_ - 1 - tap) * stride_;
    for_each_group(channels_, [&](std::size_t i, std::size_t lanes) {
      const V first = V::load(weights_ + i), oldest = V::load(rows[0] + i);
      V y = job_.bias == nullptr
                ? first * oldest
                : fma(first, oldest, load_group<Isa>(job_.bias + first_ + i, lanes));
      for (std::size_t tap = 1; tap < taps_; ++tap)
        y = fma(V::load(weights_ + tap * stride_ + i), V::load(rows[tap] + i), y);
      if (job_.silu) y = y / (V::broadcast(1) + exp(V::broadcast(0) - y));
      if (factor != nullptr) y = load_group<Isa>(factor + i, lanes) * y;
      store_group(y, out + i, lanes);
    });
  }

  const ConvolutionJob& job_;
  std::size_t first_, channels_, taps_, stride_, newest_ = 0;
  alignas(64) float weights_[kFloats];  ///< [taps][stride_]
  alignas(64) float rows_[kFloats];     ///< [taps][stride_]
};

/// KernelSet::convolution.
template <class Isa>
void convolution(const ConvolutionJob& job, std::size_t channel_begin, std::size_t channel_end) {
  using Tile = ConvolutionTile<Isa>;
  const std::size_t step = Tile::channels(job.shape.taps);
  for (std::size_t c = channel_begin; c < channel_end; c += step)
    Tile(job, c, channel_end - c < step ? channel_end - c : step).run();
}

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
