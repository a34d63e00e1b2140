// Activations and cached keys and values to int8. Numerics: kernels/README.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>

#include "kernels/rows/activations.h"
#include "kernels/simd/f32x16.h"

namespace cria {

/// Steps from 0 to the largest value that are tried; the one with the least squared error wins, the first
/// among equals. More or fewer candidates differ little: three is a compromise between error and time.
inline constexpr float kStepsTried[] = {127.0F, 126.5F, 126.0F};

/// Blocks of Groups*16 values that are quantized together, so that their scales are computed in lanes.
template <class Isa, std::size_t Groups>
class BlockQuantizer {
  using V = F32x16<Isa>;
  static constexpr std::size_t kValues = Groups * kFloatLanes;
  static constexpr std::size_t kTried = std::size(kStepsTried);

 public:
  static constexpr std::size_t kBlocks = kFloatLanes;  ///< at most this many at once

  /// n blocks at x: q = round(x * (steps/amax)) in -127…127, d = amax/steps. All zero: d = 0, q = 0. A NaN or
  /// an infinity among them: d = NaN, q = 0.
  BlockQuantizer(const float* x, std::size_t n) : x_(x), n_(n) {
    find_largest();
    choose_steps();
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
  /// Calls f(block, lanes) for each block to fill its N lanes, and fold(k, lanes k of four blocks, first
  /// block) for every four.
  template <std::size_t N, class F, class Fold>
  [[gnu::always_inline]] void each_block(F f, Fold fold) const {
    for (std::size_t block = 0; block < n_; block += 4) {
      V lanes[N][4];
      CRIA_UNROLL
      for (std::size_t i = 0; i < 4; ++i) {
        V own[N];
        CRIA_UNROLL
        for (std::size_t k = 0; k < N; ++k) own[k] = V::broadcast(0);
        f(clamp(block + i), own);
        CRIA_UNROLL
        for (std::size_t k = 0; k < N; ++k) lanes[k][i] = own[k];
      }
      CRIA_UNROLL
      for (std::size_t k = 0; k < N; ++k) fold(k, lanes[k], block);
    }
  }

  void find_largest() {
    each_block<1>(
        [&](std::size_t block, V(&lanes)[1]) {
          for (std::size_t g = 0; g < Groups; ++g) lanes[0] = max_magnitude(lanes[0], abs(values(block, g)));
        },
        [&](std::size_t, const V(&l)[4], std::size_t block) {
          V::max_magnitude4(l[0], l[1], l[2], l[3], amax_ + block);
        });
    for (float& amax : amax_) {
      amax += amax - amax;  // infinity becomes NaN
      if (127.0F / amax == __builtin_inff()) amax = 0;
    }
  }
  /// All numbers of steps are tried in one pass over the values.
  void choose_steps() {
    alignas(64) float d[kTried][kBlocks], factor[kTried][kBlocks], squares[kTried][kBlocks] = {};
    for (std::size_t k = 0; k < kTried; ++k) {
      for (std::size_t i = 0; i < kBlocks; ++i) {
        d[k][i] = amax_[i] / kStepsTried[k];
        factor[k][i] = amax_[i] == 0 ? 0 : kStepsTried[k] / amax_[i];
      }
    }
    each_block<kTried>(
        [&](std::size_t block, V(&lanes)[kTried]) {
          V scale[kTried], minus_d[kTried];
          CRIA_UNROLL
          for (std::size_t k = 0; k < kTried; ++k) {
            scale[k] = V::broadcast(factor[k][block]);
            minus_d[k] = V::broadcast(-d[k][block]);
          }
          for (std::size_t g = 0; g < Groups; ++g) {
            const V v = values(block, g);
            CRIA_UNROLL
            for (std::size_t k = 0; k < kTried; ++k) {
              const V error = fma(round(v * scale[k]), minus_d[k], v);
              lanes[k] = fma(error, error, lanes[k]);
            }
          }
        },
        [&](std::size_t k, const V(&l)[4], std::size_t block) {
          V::sum4(l[0], l[1], l[2], l[3], squares[k] + block);
        });
    for (std::size_t i = 0; i < kBlocks; ++i) {
      float least = __builtin_inff();
      d_[i] = d[0][i];
      factor_[i] = factor[0][i];
      for (std::size_t k = 0; k < kTried; ++k) {
        const bool better = squares[k][i] < least;
        least = better ? squares[k][i] : least;
        d_[i] = better ? d[k][i] : d_[i];
        factor_[i] = better ? factor[k][i] : factor_[i];
      }
    }
  }

  const float* x_;
  std::size_t n_;
  alignas(64) float amax_[kBlocks] = {};
  alignas(64) float d_[kBlocks], factor_[kBlocks];
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

/// One row of cols values as bfloat16, and a zero after an odd number of them.
template <class Isa>
void round_row(const float* x, std::size_t cols, std::int8_t* q) {
  using V = F32x16<Isa>;
  auto* out = reinterpret_cast<std::byte*>(q);
  std::size_t i = 0;
  for (; i + kFloatLanes <= cols; i += kFloatLanes) V::load(x + i).store_bf16(out + 2 * i);
  if (const std::size_t rest = cols - i; rest > 0) {
    std::byte last[2 * kFloatLanes];
    V::load_partial(x + i, rest).store_bf16(last);
    __builtin_memcpy(out + 2 * i, last, 2 * (rest + rest % 2));
  }
}

/// KernelSet::quantize.
template <class Isa>
void quantize(const float* x, std::size_t x_stride, Activations& acts, std::size_t t0, std::size_t t1) {
  if (acts.type == ActType::BF16) {
    for (std::size_t t = t0; t < t1; ++t)
      round_row<Isa>(x + t * x_stride, acts.cols, acts.q + t * acts.q_stride());
    return;
  }
  if (acts.type == ActType::None || acts.type == ActType::F32) return;  // F32: a view of x itself
  const auto row = acts.type == ActType::Q8x16   ? quantize_row<Isa, 1>
                   : acts.type == ActType::Q8x32 ? quantize_row<Isa, 2>
                                                 : quantize_row<Isa, 16>;
  for (std::size_t t = t0; t < t1; ++t)
    row(x + t * x_stride, acts.cols, acts.q + t * acts.q_stride(), acts.d + t * acts.d_stride(),
        acts.sum + t * acts.sum_stride());
}

}  // namespace cria
