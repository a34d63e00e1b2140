// Q8_0: 32 weights d·q, q in -128…127. Fast above all: its encoding is a race against the disk.
#pragma once

#include <iterator>

#include "kernels/encode/lanes.h"
#include "kernels/simd/namespace.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

/// Grid positions tried for the weight of the largest magnitude. They differ enough to round most
/// weights differently; the best rounding wins.
inline constexpr float kQ8Steps[4] = {-128.0F, -127.2F, 127.3F, -126.4F};

/// Up to sixteen blocks: their values stay in rows, their scales are in lanes.
template <class Isa, bool weighted>
class Q8Blocks {
  using V = F32x16<Isa>;
  static constexpr std::size_t kStarts = std::size(kQ8Steps);

 public:
  Q8Blocks(const float* x, const float* importance, std::size_t n_blocks)
      : x_(x), importance_(importance), n_(n_blocks) {
    find_peaks();
    if constexpr (weighted) normalize_importance();
    choose();
    const V d = to_best_f16_scale(best_d_, [&](V scale) { return error(scale); });
    d.store_f16(d_);
    inverse_or_0(d).store(factor_);
  }
  void store(std::size_t /*n_blocks*/, std::byte* out) const {
    for (std::size_t b = 0; b < n_; ++b) {
      BlockQ8_0 block;
      __builtin_memcpy(&block.d, d_ + 2 * b, 2);
      const V factor = V::broadcast(factor_[b]);
      for (std::size_t g = 0; g < 2; ++g)
        quantized(value(b, g), factor).store_i8(block.q + g * kFloatLanes);
      __builtin_memcpy(out + b * sizeof block, &block, sizeof block);
    }
  }

 private:
  [[gnu::always_inline]] V value(std::size_t block, std::size_t group) const {
    return limited(V::load(x_ + block * 32 + group * kFloatLanes), kLargestWeight);
  }
  [[gnu::always_inline]] V weight(std::size_t block, std::size_t group) const {
    const V sane = sane_importance<Isa>(V::load(importance_ + block * 32 + group * kFloatLanes));
    return max(sane * V::broadcast(importance_factor_[block]),
               V::broadcast(least_importance_[block]));
  }
  [[gnu::always_inline]] static V quantized(const V& x, const V& factor) {
    return max(min(round(x * factor), V::broadcast(127)), V::broadcast(-128));
  }
  /// Calls fill(block, i) for i of 0…3 and four blocks, then fold(the first of them).
  template <class Fill, class Fold>
  [[gnu::always_inline]] void each_four(Fill fill, Fold fold) const {
    for (std::size_t block = 0; block < n_; block += 4) {
      CRIA_UNROLL
      for (std::size_t i = 0; i < 4; ++i) fill(block + i < n_ ? block + i : n_ - 1, i);
      fold(block);
    }
  }
  void find_peaks() {
    V top[4], bottom[4];
    alignas(64) float tops[kFloatLanes] = {}, bottoms[kFloatLanes] = {};
    each_four(
        [&](std::size_t b, std::size_t i) {
          const V low = value(b, 0), high = value(b, 1), zero = V::broadcast(0);
          top[i] = max(low, high);
          bottom[i] = zero - min(low, high);
        },
        [&](std::size_t b) {
          V::max4(top[0], top[1], top[2], top[3], tops + b);
          V::max4(bottom[0], bottom[1], bottom[2], bottom[3], bottoms + b);
        });
    const V up = V::load(tops), down = V::load(bottoms);
    select_less(down, up, up, V::broadcast(0) - down).store(peak_);
  }
  void normalize_importance() {
    V most[4];
    alignas(64) float tops[kFloatLanes] = {};
    each_four(
        [&](std::size_t b, std::size_t i) {
          const float* w = importance_ + b * 32;
          most[i] =
              max(sane_importance<Isa>(V::load(w)), sane_importance<Isa>(V::load(w + kFloatLanes)));
        },
        [&](std::size_t b) { V::max4(most[0], most[1], most[2], most[3], tops + b); });
    const V top = V::load(tops), factor = inverse_or_0(top);
    factor.store(importance_factor_);
    select_less(V::broadcast(0), factor, V::broadcast(kMinImportance), V::broadcast(1))
        .store(least_importance_);
  }
  /// Each start's codes give d and what it gains: Σw(x - d·q)² = Σwx² - (Σwxq)²/Σwq² at d =
  /// Σwxq/Σwq².
  void choose() {
    float all_xq[kFloatLanes][kStarts] = {}, all_qq[kFloatLanes][kStarts] = {};
    const V inverse_peak = inverse_or_0(V::load(peak_));
    alignas(64) float factors[kStarts][kFloatLanes];
    for (std::size_t k = 0; k < kStarts; ++k)
      (V::broadcast(kQ8Steps[k]) * inverse_peak).store(factors[k]);
    for (std::size_t b = 0; b < n_; ++b) sums(b, factors, all_xq[b], all_qq[b]);
    V most = V::broadcast(0);
    best_d_ = most;
    for (std::size_t k = 0; k < kStarts; ++k) {
      const V xq = column(all_xq, k), d = xq / column(all_qq, k),
              gain = xq * d;  // NaN where all is 0: no gain
      best_d_ = select_less(most, gain, d, best_d_);
      most = select_less(most, gain, gain, most);
    }
  }
  static V column(const float (&rows)[kFloatLanes][kStarts], std::size_t k) {
    alignas(64) float lanes[kFloatLanes];
    for (std::size_t b = 0; b < kFloatLanes; ++b) lanes[b] = rows[b][k];
    return V::load(lanes);
  }
  /// Σwxq and Σwq² of one block for every start.
  [[gnu::always_inline]] void sums(std::size_t b, const float (&factors)[kStarts][kFloatLanes],
                                   float (&all_xq)[kStarts], float (&all_qq)[kStarts]) const {
    const V x[2] = {value(b, 0), value(b, 1)};
    V w[2] = {V::broadcast(1), V::broadcast(1)}, xq[kStarts], qq[kStarts];
    if constexpr (weighted) w[0] = weight(b, 0), w[1] = weight(b, 1);
    for (std::size_t k = 0; k < kStarts; ++k) {
      const V factor = V::broadcast(factors[k][b]);
      const V q0 =
          min(round(x[0] * factor), V::broadcast(127));  // no start puts the peak beyond -128
      const V q1 = min(round(x[1] * factor), V::broadcast(127));
      V wq0 = q0, wq1 = q1;
      if constexpr (weighted) wq0 = q0 * w[0], wq1 = q1 * w[1];
      xq[k] = fma(x[1], wq1, x[0] * wq0);
      qq[k] = fma(q1, wq1, q0 * wq0);
    }
    V::sum4(xq[0], xq[1], xq[2], xq[3], all_xq);
    V::sum4(qq[0], qq[1], qq[2], qq[3], all_qq);
  }

  /// Σw(x - scale·q)² of every block with the nearest codes.
  [[nodiscard]] V error(const V& scale) const {
    alignas(64) float scales[kFloatLanes], factors[kFloatLanes], sums[kFloatLanes] = {};
    scale.store(scales);
    inverse_or_0(scale).store(factors);
    for (std::size_t b = 0; b < n_; ++b) {
      V sum = V::broadcast(0);
      for (std::size_t g = 0; g < 2; ++g) {
        const V x = value(b, g),
                e = x - quantized(x, V::broadcast(factors[b])) * V::broadcast(scales[b]);
        if constexpr (weighted)
          sum = fma(e * weight(b, g), e, sum);
        else
          sum = fma(e, e, sum);
      }
      sums[b] = sum.sum();
    }
    return V::load(sums);
  }

  alignas(64) float peak_[kFloatLanes], factor_[kFloatLanes];
  alignas(64) float importance_factor_[kFloatLanes], least_importance_[kFloatLanes];
  const float *x_, *importance_;
  std::size_t n_;
  V best_d_;
  std::byte d_[2 * kFloatLanes];
};

template <class Isa>
inline constexpr EncodeFn kEncoder<Isa, DType::Q8_0> =
    encode_batches<BlockQ8_0, 32, kFloatLanes, encode_by<Q8Blocks<Isa, kWeightedOnly<Isa>>>,
                   encode_by<Q8Blocks<Isa, true>>>;

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
