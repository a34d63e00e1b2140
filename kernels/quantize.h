// Activations and cached keys and values to int8. Numerics: kernels/README.md.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/activations.h"
#include "kernels/f32x16.h"

namespace cria {

/// Steps from 0 to the largest value that are tried; the one with the least squared error wins, the first
/// among equals. More or fewer candidates differ little: three is a compromise between error and time.
inline constexpr float kStepsTried[] = {127.0F, 126.5F, 126.0F};

/// Blocks of Groups*16 values that are quantized together, so that their scales are computed in lanes.
template <class Isa, std::size_t Groups>
class BlockQuantizer {
  using V = F32x16<Isa>;
  static constexpr std::size_t kValues = Groups * kFloatLanes;

 public:
  static constexpr std::size_t kBlocks = kFloatLanes;  ///< at most this many at once

  /// n blocks at x: q = round(x * (steps/amax)) in -127…127, d = amax/steps. All zero: d = 0, q = 0. A NaN or
  /// an infinity among them: d = NaN, q = 0.
  BlockQuantizer(const float* x, std::size_t n) : x_(x), n_(n) {
    choose_first();
    for (const float steps : kStepsTried) try_steps(steps);
  }
  [[nodiscard]] float d(std::size_t block) const { return d_[block]; }
  /// Stores n × kValues; sums holds one sum per block, or with 16 groups one per group.
  void store(std::int8_t* q, std::int16_t* sums) const {
    constexpr std::size_t kSums = Groups == 2 ? 1 : Groups;
    constexpr std::size_t kPerSum = Groups / kSums;
    for (std::size_t i = 0; i < n_ * kSums; i += 4) {
      V lanes[4];
      CRIA_UNROLL
      for (std::size_t j = 0; j < 4; ++j) {
        const std::size_t block = clamp((i + j) / kSums), first = (i + j) % kSums * kPerSum;
        const V factor = V::broadcast(factor_[block]);
        lanes[j] = V::broadcast(0);
        CRIA_UNROLL
        for (std::size_t g = 0; g < kPerSum; ++g) {
          const V rounded = round(values(block, first + g) * factor);
          rounded.store_i8(q + block * kValues + (first + g) * kFloatLanes);
          lanes[j] = lanes[j] + rounded;
        }
      }
      put_sums(lanes, sums + i, n_ * kSums - i);
    }
  }

 private:
  [[gnu::always_inline]] V values(std::size_t block, std::size_t group) const {
    return V::load(x_ + block * kValues + group * kFloatLanes);
  }
  [[gnu::always_inline]] static V round(const V& v) {
    const V magic = V::broadcast(kRoundMagic);
    return v + magic - magic;
  }
  static void put_sums(const V (&lanes)[4], std::int16_t* sums, std::size_t n) {
    float four[4];
    V::sum4(lanes[0], lanes[1], lanes[2], lanes[3], four);
    for (std::size_t i = 0; i < 4 && i < n; ++i)
      sums[i] = four[i] == four[i] ? static_cast<std::int16_t>(four[i]) : std::int16_t{0};
  }
  /// Four blocks are worked on at a time; those beyond the end repeat the last one.
  [[nodiscard]] std::size_t clamp(std::size_t block) const { return block < n_ ? block : n_ - 1; }
  /// Calls f(block, lanes) for each block to fill its lanes, and fold(lanes of four blocks, out) for every
  /// four.
  template <class F, class Fold>
  [[gnu::always_inline]] void each_block(F f, Fold fold) const {
    for (std::size_t block = 0; block < n_; block += 4) {
      V lanes[4];
      CRIA_UNROLL
      for (std::size_t i = 0; i < 4; ++i) {
        lanes[i] = V::broadcast(0);
        f(clamp(block + i), lanes[i]);
      }
      fold(lanes, block);
    }
  }

  void choose_first() {
    each_block(
        [&](std::size_t block, V& lanes) {
          for (std::size_t g = 0; g < Groups; ++g) lanes = max_magnitude(lanes, abs(values(block, g)));
        },
        [&](const V(&l)[4], std::size_t block) { V::max_magnitude4(l[0], l[1], l[2], l[3], amax_ + block); });
    for (std::size_t i = 0; i < kBlocks; ++i) {
      amax_[i] += amax_[i] - amax_[i];  // infinity becomes NaN
      if (127.0F / amax_[i] == __builtin_inff()) amax_[i] = 0;
      d_[i] = amax_[i] / 127.0F;
      factor_[i] = amax_[i] == 0 ? 0 : 127.0F / amax_[i];
      least_[i] = __builtin_inff();
    }
  }
  void try_steps(float steps) {
    float d[kBlocks], factor[kBlocks], squares[kBlocks];
    for (std::size_t i = 0; i < kBlocks; ++i) {
      d[i] = amax_[i] / steps;
      factor[i] = amax_[i] == 0 ? 0 : steps / amax_[i];
      squares[i] = 0;
    }
    each_block(
        [&](std::size_t block, V& lanes) {
          const V scale = V::broadcast(factor[block]), minus_d = V::broadcast(-d[block]);
          for (std::size_t g = 0; g < Groups; ++g) {
            const V v = values(block, g), error = fma(round(v * scale), minus_d, v);
            lanes = fma(error, error, lanes);
          }
        },
        [&](const V(&l)[4], std::size_t block) { V::sum4(l[0], l[1], l[2], l[3], squares + block); });
    for (std::size_t i = 0; i < kBlocks; ++i) {
      const bool better = squares[i] < least_[i];
      least_[i] = better ? squares[i] : least_[i];
      d_[i] = better ? d[i] : d_[i];
      factor_[i] = better ? factor[i] : factor_[i];
    }
  }

  const float* x_;
  std::size_t n_;
  alignas(64) float amax_[kBlocks] = {};
  alignas(64) float d_[kBlocks], factor_[kBlocks], least_[kBlocks];  ///< the best so far
};

/// One row of cols values in blocks of Groups*16.
template <class Isa, std::size_t Groups>
void quantize_row(const float* x, std::size_t cols, std::int8_t* q, float* d, std::int16_t* sums) {
  using Quantizer = BlockQuantizer<Isa, Groups>;
  constexpr std::size_t kValues = Groups * kFloatLanes, kSums = Groups == 2 ? 1 : Groups;
  const std::size_t blocks = cols / kValues;
  for (std::size_t b = 0; b < blocks; b += Quantizer::kBlocks) {
    const std::size_t n = blocks - b < Quantizer::kBlocks ? blocks - b : Quantizer::kBlocks;
    const Quantizer quantizer(x + b * kValues, n);
    quantizer.store(q + b * kValues, sums + b * kSums);
    for (std::size_t i = 0; i < n; ++i) d[b + i] = quantizer.d(i);
  }
}

/// KernelSet::quantize.
template <class Isa>
void quantize(const float* x, std::size_t x_stride, Activations& acts, std::size_t t0, std::size_t t1) {
  const bool blocks32 = acts.type == ActType::Q8x32;
  if (!blocks32 && acts.type != ActType::Q8x256) return;  // F32: a view of x itself
  const auto row = blocks32 ? quantize_row<Isa, 2> : quantize_row<Isa, 16>;
  for (std::size_t t = t0; t < t1; ++t)
    row(x + t * x_stride, acts.cols, acts.q + t * acts.q_stride(), acts.d + t * acts.d_stride(),
        acts.sum + t * acts.sum_stride());
}

}  // namespace cria
