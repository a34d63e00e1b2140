// Activations and cached keys and values to int8. Numerics: kernels/README.md.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "kernels/rows/activations.h"
#include "kernels/simd/f32x16.h"
#include "kernels/simd/namespace.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

/// Steps from 0 to the largest value that are tried; the one with the least squared error wins, the
/// first among equals. More or fewer candidates differ little: three is a compromise between error
/// and time.
inline constexpr float kStepsTried[] = {127.0F, 126.5F, 126.0F};

/// Blocks of Groups*16 values, `stride` floats apart, that are quantized together, so that their
/// scales are computed in lanes.
template <class Isa, std::size_t Groups>
class BlockQuantizer {
  using V = F32x16<Isa>;
  static constexpr std::size_t kValues = Groups * kFloatLanes;
  static constexpr std::size_t kTried = std::size(kStepsTried);

 public:
  static constexpr std::size_t kBlocks = kFloatLanes;  ///< at most this many at once

  /// n blocks at x: q = round(x * (steps/amax)) in -127…127, d = amax/steps. All zero: d = 0, q =
  /// 0. A NaN or an infinity among them: d = NaN, q = 0.
  BlockQuantizer(const float* x, std::size_t stride, std::size_t n)
      : x_(x), stride_(stride), n_(n) {
    find_largest();
    choose_steps();
  }
  [[nodiscard]] float d(std::size_t block) const { return d_[block]; }
  /// Stores n × kValues, blocks q_stride bytes apart; of each one sum, or with 16 groups one per
  /// group, sum_stride apart.
  void store(std::int8_t* q, std::size_t q_stride, std::int16_t* sums,
             std::size_t sum_stride) const {
    constexpr std::size_t kSums = Groups == 2 ? 1 : Groups;
    constexpr std::size_t kPerSum = Groups / kSums;
    for (std::size_t i = 0; i < n_ * kSums; i += 4) {
      V lanes[4];
      CRIA_UNROLL
      for (std::size_t j = 0; j < 4; ++j) {
        lanes[j] = V::broadcast(0);
        const std::size_t block = (i + j) / kSums, first = (i + j) % kSums * kPerSum;
        if (block >= n_) continue;
        const V factor = V::broadcast(factor_[block]);
        CRIA_UNROLL
        for (std::size_t g = 0; g < kPerSum; ++g) {
          const V rounded = round(values(block, first + g) * factor);
          rounded.store_i8(q + block * q_stride + (first + g) * kFloatLanes);
          lanes[j] = lanes[j] + rounded;
        }
      }
      std::int16_t four[4];
      put_sums(lanes, four);
      for (std::size_t j = 0; j < 4 && i + j < n_ * kSums; ++j)
        sums[(i + j) / kSums * sum_stride + (i + j) % kSums] = four[j];
    }
  }

 private:
  [[gnu::always_inline]] V values(std::size_t block, std::size_t group) const {
    return V::load(x_ + block * stride_ + group * kFloatLanes);
  }
  [[gnu::always_inline]] static V round(const V& v) {
    const V magic = V::broadcast(kRoundMagic);
    return v + magic - magic;
  }
  static void put_sums(const V (&lanes)[4], std::int16_t (&sums)[4]) {
    float four[4];
    V::sum4(lanes[0], lanes[1], lanes[2], lanes[3], four);
    for (std::size_t i = 0; i < 4; ++i)
      sums[i] = four[i] == four[i] ? static_cast<std::int16_t>(four[i]) : std::int16_t{0};
  }
  /// Calls f(block, lanes) for each block to fill its N lanes, and fold(k, lanes k of four blocks,
  /// first block) for every four; those beyond the end have zeros.
  template <std::size_t N, class F, class Fold>
  [[gnu::always_inline]] void each_block(F f, Fold fold) const {
    for (std::size_t block = 0; block < n_; block += 4) {
      V lanes[N][4];
      CRIA_UNROLL
      for (std::size_t i = 0; i < 4; ++i) {
        V own[N];
        CRIA_UNROLL
        for (std::size_t k = 0; k < N; ++k) own[k] = V::broadcast(0);
        if (block + i < n_) f(block + i, own);
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
          for (std::size_t g = 0; g < Groups; ++g)
            lanes[0] = max_magnitude(lanes[0], abs(values(block, g)));
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
  std::size_t stride_, n_;
  alignas(64) float amax_[kBlocks] = {};
  alignas(64) float d_[kBlocks], factor_[kBlocks];
};

/// Blocks of Groups*16 values of a form of activations.
template <class Isa, std::size_t Groups>
class RowQuantizer {
  using Quantizer = BlockQuantizer<Isa, Groups>;
  static constexpr std::size_t kValues = Groups * kFloatLanes, kSums = Groups == 2 ? 1 : Groups;
  /// Tokens: rows may lie a multiple of a page apart, and caches have few ways.
  static constexpr std::size_t kDown = 4;

 public:
  /// Quantizes columns [begin, end) of tokens [t0, t1), whole blocks. With a few columns it
  /// processes the same block of several tokens together, otherwise neighbouring blocks.
  static void run(const float* x, std::size_t x_stride, Activations& to, std::size_t t0,
                  std::size_t t1, std::size_t begin, std::size_t end) {
    const std::size_t first = begin / kValues, last = end / kValues;
    if (last - first < kDown) {
      for (std::size_t b = first; b < last; ++b) {
        for (std::size_t t = t0; t < t1; t += kDown)
          put(x, x_stride, to, t, b, std::min(t1 - t, kDown),
              {x_stride, to.q_stride(), to.sum_stride(), to.d_stride()});
      }
      return;
    }
    for (std::size_t t = t0; t < t1; ++t) {
      for (std::size_t b = first; b < last; b += Quantizer::kBlocks)
        put(x, x_stride, to, t, b, std::min(last - b, Quantizer::kBlocks),
            {kValues, kValues, kSums, 1});
    }
  }

 private:
  /// From one block to the next.
  struct Strides {
    std::size_t x, q, sums, d;
  };
  /// n blocks, the first of which is block b of token t.
  static void put(const float* x, std::size_t x_stride, Activations& to, std::size_t t,
                  std::size_t b, std::size_t n, const Strides& step) {
    const Quantizer quantizer(x + t * x_stride + b * kValues, step.x, n);
    quantizer.store(to.q + t * to.q_stride() + b * kValues, step.q,
                    to.sum + t * to.sum_stride() + b * kSums, step.sums);
    float* const d = to.d + t * to.d_stride() + b;
    for (std::size_t i = 0; i < n; ++i) d[i * step.d] = quantizer.d(i);
  }
};

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
void quantize(const float* x, std::size_t x_stride, Activations& acts, std::size_t t0,
              std::size_t t1, std::size_t begin, std::size_t end) {
  switch (acts.type) {
    case ActType::BF16:
      for (std::size_t t = t0; t < t1; ++t)
        round_row<Isa>(x + t * x_stride + begin, end - begin,
                       acts.q + t * acts.q_stride() + begin * acts.value_bytes());
      return;
    case ActType::Q8x16:
      return RowQuantizer<Isa, 1>::run(x, x_stride, acts, t0, t1, begin, end);
    case ActType::Q8x32:
      return RowQuantizer<Isa, 2>::run(x, x_stride, acts, t0, t1, begin, end);
    case ActType::Q8x256:
      return RowQuantizer<Isa, 16>::run(x, x_stride, acts, t0, t1, begin, end);
    case ActType::None:
    case ActType::F32:  // a view of x itself
      return;
  }
}

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
