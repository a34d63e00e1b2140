// The GEMM micro-kernel of NEON with the dot product extension: 8 rows × 4 tokens, signed bytes.
#pragma once

#include <arm_neon.h>

#include <algorithm>

#include "kernels/gemm/panel.h"
#include "kernels/simd/isa.h"
#include "kernels/simd/namespace.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

template <>
struct GemmKernel<Neon> {
  static constexpr std::size_t kTokens = 4;
  static constexpr bool kSigned = true, kSumsInt16 = false;
  struct Session {
    explicit Session(PanelShape) {}
  };

  static constexpr PanelBytes bytes(const DecodeTraits& t, bool) {
    const Range r = scaled_range(t);
    return r.max - r.min <= 255 ? PanelBytes::Scaled : PanelBytes::Weights;
  }
  static constexpr int scaled_zero(const DecodeTraits& t) {
    return std::min(0, 127 - scaled_range(t).max);
  }

  static void transpose(uint8x16_t (&v)[4]) {
    const uint32x4x2_t a = vtrnq_u32(vreinterpretq_u32_u8(v[0]), vreinterpretq_u32_u8(v[1]));
    const uint32x4x2_t b = vtrnq_u32(vreinterpretq_u32_u8(v[2]), vreinterpretq_u32_u8(v[3]));
    const auto join = [](uint32x2_t low, uint32x2_t high) {
      return vreinterpretq_u8_u32(vcombine_u32(low, high));
    };
    v[0] = join(vget_low_u32(a.val[0]), vget_low_u32(b.val[0]));
    v[1] = join(vget_low_u32(a.val[1]), vget_low_u32(b.val[1]));
    v[2] = join(vget_high_u32(a.val[0]), vget_high_u32(b.val[0]));
    v[3] = join(vget_high_u32(a.val[1]), vget_high_u32(b.val[1]));
  }
  static void store(void* p, uint8x16_t v) { vst1q_u8(static_cast<std::uint8_t*>(p), v); }
  /// Scales 2c and 2c + 1 of each row.
  static void store_scales(Panel& panel, std::size_t c, std::size_t lane, uint8x16_t pair) {
    store_pairs(panel.scale, c, lane, pair);
  }
  template <int n>
  static void store_mins(Panel& panel, std::size_t c, std::size_t lane, uint8x16_t pair) {
    store_pairs(panel.min, c, lane, pair);
  }

  template <PanelShape shape>
  static void run(const TokenSlice& x, GemmScratch& s, std::size_t n_panels, Ahead ahead) {
    for (std::size_t t = 0; t < x.n_tokens; t += kTokens) {
      ahead.fetch();
      for (std::size_t p = 0; p < n_panels; ++p) {
        for (std::size_t lane = 0; lane < kGemmRows; lane += 8) {
          if constexpr (shape.groups())
            groups<shape>(x, t, s.panel[p], lane, s.acc[p] + t);
          else
            super256<shape>(x, t, s.panel[p], lane, s.acc[p] + t);
        }
      }
    }
  }

 private:
  using Acc = float[kGemmRows];
  using Sums = int32x4_t[kTokens][2];

  static void store_pairs(std::int32_t (&to)[16][kGemmRows], std::size_t c, std::size_t lane,
                          uint8x16_t pair) {
    const int32x4_t v = vreinterpretq_s32_u8(pair);
    vst1q_s32(to[2 * c] + lane, vshrq_n_s32(vshlq_n_s32(v, 16), 16));
    vst1q_s32(to[2 * c + 1] + lane, vshrq_n_s32(v, 16));
  }
  static std::size_t token(const TokenSlice& x, std::size_t t) {
    return t < x.n_tokens ? t : x.n_tokens - 1;
  }

  /// sums += the products of 16n columns from panel row k on.
  [[gnu::always_inline]] static void dot(const Panel& panel, std::size_t k, std::size_t n,
                                         std::size_t lane, const std::int8_t* const (&q)[kTokens],
                                         Sums& sums) {
    for (std::size_t i = k; i < k + 4 * n; i += 4) {
      int8x16_t a[kTokens];
      for (std::size_t t = 0; t < kTokens; ++t) a[t] = vld1q_s8(q[t] + 4 * i);
      step<0>(panel.q[0][i], lane, a, sums);
      step<1>(panel.q[0][i + 1], lane, a, sums);
      step<2>(panel.q[0][i + 2], lane, a, sums);
      step<3>(panel.q[0][i + 3], lane, a, sums);
    }
  }
  template <int column>
  [[gnu::always_inline]] static void step(const std::uint8_t (&row)[kGemmRows][4], std::size_t lane,
                                          const int8x16_t (&a)[kTokens], Sums& sums) {
    const int8x16_t w0 = vreinterpretq_s8_u8(vld1q_u8(row[lane])),
                    w1 = vreinterpretq_s8_u8(vld1q_u8(row[lane + 4]));
    for (std::size_t t = 0; t < kTokens; ++t) {
      sums[t][0] = vdotq_laneq_s32(sums[t][0], w0, a[t], column);
      sums[t][1] = vdotq_laneq_s32(sums[t][1], w1, a[t], column);
    }
  }

  template <PanelShape shape>
  static void super256(const TokenSlice& x, std::size_t first, const Panel& panel, std::size_t lane,
                       Acc* acc) {
    const std::int8_t* q[kTokens];
    Sums block;
    for (std::size_t t = 0; t < kTokens; ++t) {
      q[t] = x.q + token(x, first + t) * x.q_stride;
      block[t][0] = block[t][1] =
          vdupq_n_s32(start<shape>(x.sum + token(x, first + t) * x.sum_stride));
    }
    if constexpr (shape.scales == 0) {
      dot(panel, 0, kGemmCols / 16, lane, q, block);
    } else {
      for (std::size_t j = 0; j < shape.scales; ++j) {
        Sums sums;
        for (auto& sum : sums) sum[0] = sum[1] = vdupq_n_s32(0);
        constexpr std::size_t kStep = kGemmCols / 16 / shape.scales;
        dot(panel, j * 4 * kStep, kStep, lane, q, sums);
        for (int h = 0; h < 2; ++h) {
          const int32x4_t scale = vld1q_s32(panel.scale[j] + lane + 4 * h);
          for (std::size_t t = 0; t < kTokens; ++t)
            block[t][h] = vmlaq_s32(block[t][h], sums[t][h], scale);
        }
      }
    }
    for (std::size_t t = 0; t < kTokens; ++t) {
      const std::size_t at = token(x, first + t);
      for (int h = 0; h < 2; ++h)
        add_sum<shape>(x, at, panel, lane + 4 * h, block[t][h], acc[t] + lane + 4 * h);
    }
  }
  template <PanelShape shape>
  static std::int32_t start(const std::int16_t* sum) {
    if constexpr (shape.zero == 0) return 0;
    return -shape.zero * (vaddlvq_s16(vld1q_s16(sum)) + vaddlvq_s16(vld1q_s16(sum + 8)));
  }

  /// acc = fma(d_w*d_a, isum, acc) for one token and four rows, then the mins.
  template <PanelShape shape>
  static void add_sum(const TokenSlice& x, std::size_t token, const Panel& panel, std::size_t lane,
                      int32x4_t isum, float* acc) {
    const float32x4_t d = vdupq_n_f32(x.d[token * x.d_stride]);
    float32x4_t sum =
        vfmaq_f32(vld1q_f32(acc), vmulq_f32(vld1q_f32(panel.d[0] + lane), d), vcvtq_f32_s32(isum));
    if constexpr (shape.mins != 0) {
      constexpr std::size_t kPerMin = 16 / shape.mins;
      const std::int16_t* const sums = x.sum + token * x.sum_stride;
      int32x4_t min = vdupq_n_s32(0);
      for (std::size_t j = 0; j < 16; ++j)
        min = vmlaq_n_s32(min, vld1q_s32(panel.min[j / kPerMin] + lane), sums[j]);
      sum = vfmsq_f32(sum, vmulq_f32(vld1q_f32(panel.m[0] + lane), d), vcvtq_f32_s32(min));
    }
    vst1q_f32(acc, sum);
  }

  template <PanelShape shape>
  static void groups(const TokenSlice& x, std::size_t first, const Panel& panel, std::size_t lane,
                     Acc* acc) {
    std::size_t at[kTokens];
    const std::int8_t* q[kTokens];
    for (std::size_t t = 0; t < kTokens; ++t) {
      at[t] = token(x, first + t);
      q[t] = x.q + at[t] * x.q_stride;
    }
    for (std::size_t b = 0; b < x.cols / shape.group; ++b) {
      Sums sums;
      for (auto& sum : sums) sum[0] = sum[1] = vdupq_n_s32(0);
      dot(panel, shape.group / 4 * b, shape.group / 16, lane, q, sums);
      for (std::size_t t = 0; t < kTokens; ++t) {
        const float d = x.d[at[t] * x.d_stride + b];
        for (std::size_t h = 0; h < 2; ++h) {
          const std::size_t row = lane + 4 * h;
          const float32x4_t scale = vmulq_n_f32(vld1q_f32(panel.d[b] + row), d);
          float32x4_t total = vfmaq_f32(vld1q_f32(acc[t] + row), scale, vcvtq_f32_s32(sums[t][h]));
          if constexpr (shape.mins != 0) {
            const float sum = d * static_cast<float>(x.sum[at[t] * x.sum_stride + b]);
            total = vfmaq_f32(total, vld1q_f32(panel.m[b] + row), vdupq_n_f32(sum));
          }
          vst1q_f32(acc[t] + row, total);
        }
      }
    }
  }
};

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
