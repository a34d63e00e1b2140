// Packing: blocks of 32 rows, decoded in lanes as a GEMV decodes them, transposed into a panel.
#pragma once

#include <algorithm>

#include "kernels/formats/formats.h"
#include "kernels/gemm/panel.h"
#include "kernels/kernels.h"
#include "kernels/lanes/iq.h"
#include "kernels/lanes/iq4.h"
#include "kernels/simd/namespace.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

/// True if panels hold halves of unscaled weights, and twice the scales: then more sums fit in
/// int16.
template <class Isa, DType type>
constexpr bool halves_weights() {
  return requires {
    requires GemmKernel<Isa>::kHalfWeights && LaneType<RowLanes<Isa>, type>::kEven;
  };
}

template <class Isa, DType type>
constexpr PanelShape panel_shape() {
  using W = LaneType<RowLanes<Isa>, type>;
  constexpr DecodeTraits traits = Format<type>::kTraits;
  // Full weights that need seven bits get the least zero point: their sums may fit in int16.
  constexpr bool kSevenBits = W::kSuper && W::kFull && traits.q_max - traits.q_min <= 127;
  constexpr int kZero = kSevenBits ? -traits.q_min : W::kZero;
  constexpr int kBias = GemmKernel<Isa>::kSigned ? 0 : kZero;
  constexpr int kMax = !GemmKernel<Isa>::kSumsInt16 ? 255
                       : kSevenBits                 ? kZero + traits.q_max
                                                    : W::kMax;
  if constexpr (!W::kSuper) {
    constexpr PanelBytes kBytes =
        W::kFull ? GemmKernel<Isa>::bytes(traits, true) : PanelBytes::Weights;
    constexpr int kGroup = Format<type>::kGroupValues;
    if constexpr (kBytes == PanelBytes::Int16)
      return {kBytes, kGroup, 0, 255, 0, traits.has_min ? 1 : 0};
    return {PanelBytes::Weights,    kGroup, kBias, kMax, 0, traits.has_min ? 1 : 0,
            kScalesByPowersOfTwo<W>};
  } else {
    constexpr int kMins = traits.has_min ? W::kScales : 0;
    constexpr PanelBytes kBytes = GemmKernel<Isa>::bytes(traits, W::kFull);
    constexpr int kUnit = halves_weights<Isa, type>() ? 2 : 1;
    if constexpr (kBytes == PanelBytes::Weights)
      return {kBytes, 256, kBias / kUnit, kMax / kUnit, W::kScales, kMins};
    constexpr bool kOneByte = kBytes == PanelBytes::Scaled || kBytes == PanelBytes::Halved;
    return {kBytes, 256, kOneByte ? GemmKernel<Isa>::scaled_zero(traits) : 0, 255, 0, kMins};
  }
}

/// The float scales of eight rows' block, the b-th of a panel, whose rows from `lane` on they are,
/// and dmin or m.
template <class V, DType type, class P>
CRIA_INLINE inline void pack_floats(typename V::RowPtr rows, std::size_t offset, std::size_t b,
                                    std::size_t lane, P& panel) {
  using W = LaneType<V, type>;
  constexpr std::size_t kGroups = Format<type>::kBlockValues / Format<type>::kGroupValues;
  typename V::Float8 d[kGroups];
  block_scales<V, W>(rows, offset, d);
  for (std::size_t i = 0; i < kGroups; ++i) V::store(panel.d[b * kGroups + i] + lane, d[i]);
  if constexpr (Format<type>::kTraits.has_min) {
    if constexpr (W::kSuper)
      V::store(panel.m[b] + lane, W::dmin(rows, offset));
    else
      V::store(panel.m[b] + lane, W::offset_of(rows, offset));
  }
}

template <class Isa, DType type>
class PanelPacker {
  using V = RowLanes<Isa>;
  using W = LaneType<V, type>;
  using Vec = typename V::Vec;
  using Kernel = GemmKernel<Isa>;
  static constexpr PanelShape kShape = panel_shape<Isa, type>();
  static constexpr DecodeTraits kTraits = Format<type>::kTraits;
  static constexpr bool kInt16 = kShape.bytes == PanelBytes::Int16;
  static constexpr std::size_t kBlockValues = Format<type>::kBlockValues;
  static constexpr int kScaleVecs = W::kSuper && W::kScales == 16 ? 2 : 1;
  static constexpr bool kHalved =
      halves_weights<Isa, type>() && kShape.bytes == PanelBytes::Weights;
  static constexpr int kBias = W::kZero;                ///< added to the weights by the decoder
  static constexpr std::size_t kWidth = 4 * V::kLanes;  ///< rows transposed together

 public:
  /// True if pack() prefetches the next weights.
  static constexpr bool kFetches = false;

  /// Packs rows [row, row + n_rows) and up to 256 columns from k on; the last row is repeated to
  /// fill the panel. far: address to prefetch, if kFetches.
  static void pack(const MatMulJob& job, std::size_t row, std::size_t n_rows, std::size_t k,
                   const std::byte* /*far*/, Panel& panel) {
    const std::byte* rows[kGemmRows];
    for (std::size_t i = 0; i < kGemmRows; ++i)
      rows[i] = job.weights + (row + std::min(i, n_rows - 1)) * job.row_bytes;
    for (std::size_t b = 0; b < std::min(kGemmCols, job.cols - k) / kBlockValues; ++b)
      pack_block(rows, kHeaderBytes<type> + (k / kBlockValues + b) * W::kBytes, b, panel);
  }

 private:
  static void pack_block(const std::byte* const* rows, std::size_t offset, std::size_t b,
                         Panel& panel) {
    for (std::size_t lane = 0; lane < kGemmRows; lane += kWidth)
      pack_lanes(rows + lane, offset, b, lane, panel);
    for (std::size_t lane = 0; lane < kGemmRows; lane += kRowGroup)
      pack_floats<V, type>(rows + lane, offset, b, lane, panel);
  }

  /// Vector i of a transposition holds rows i, i + 4, i + 8 …, so that the transposed lanes are in
  /// order.
  static void pack_lanes(const std::byte* const* rows, std::size_t offset, std::size_t b,
                         std::size_t lane, Panel& panel) {
    constexpr int kDigits = kShape.bytes == PanelBytes::TwoBytes || kInt16 ? 2 : 1;
    Vec q[kDigits][kBlockValues / 16][4], scale[kScaleVecs][4], min[kScaleVecs][4];
    for (std::size_t i = 0; i < 4; ++i) {
      const std::byte* at[kRowGroup] = {};
      for (std::size_t l = 0; l < V::kLanes; ++l) at[l * V::kPacks] = rows[i + 4 * l];
      Vec s[kScaleVecs];
      if constexpr (W::kSuper && W::kScales != 0) W::scales(at, offset, s);
      W::weights(at, offset, [&](int j, Vec w0, Vec w1) {
        Vec* const out[2] = {&q[0][2 * j][i], &q[kDigits - 1][2 * j][i]};
        put(w0, s, 2 * j, out);
        Vec* const next[2] = {&q[0][2 * j + 1][i], &q[kDigits - 1][2 * j + 1][i]};
        put(w1, s, 2 * j + 1, next);
      });
      for (int v = 0; v < kScaleVecs && kShape.scales != 0; ++v)
        scale[v][i] = kHalved ? V::add16(s[v], s[v]) : s[v];
      if constexpr (W::kSuper && kTraits.has_min) {
        Vec m[kScaleVecs];
        W::mins(at, offset, m);
        for (int v = 0; v < kScaleVecs; ++v) min[v][i] = m[v];
      }
    }
    for (int digit = 0; digit < kDigits; ++digit) {
      std::size_t k = b * kBlockValues / 4;
      for (auto& v : q[digit]) Kernel::transpose(v);
      if constexpr (requires { Kernel::template arrange<kShape>(q[digit]); })
        Kernel::template arrange<kShape>(q[digit]);
      for (auto& v : q[digit]) {
        for (const Vec& dwords : v) Kernel::store(place(panel, digit, k++, lane), dwords);
      }
    }
    if constexpr (kShape.scales != 0) {
      for (int v = 0; v < kScaleVecs; ++v) {
        Kernel::transpose(scale[v]);
        for (int c = 0; c < 4; ++c) Kernel::store_scales(panel, 4 * v + c, lane, scale[v][c]);
      }
    }
    if constexpr (W::kSuper && kTraits.has_min) {
      for (int v = 0; v < kScaleVecs; ++v) {
        Kernel::transpose(min[v]);
        for (int c = 0; c < 4; ++c)
          Kernel::template store_mins<W::kScales>(panel, 4 * v + c, lane, min[v][c]);
      }
    }
  }

  /// Destination of the weights of four columns, for the rows from `lane` on.
  static std::uint8_t* place(Panel& panel, int digit, std::size_t k, std::size_t lane) {
    if constexpr (requires { Kernel::template place<kShape>(panel, digit, k, lane); })
      return Kernel::template place<kShape>(panel, digit, k, lane);
    return panel.q[digit][k][lane];
  }

  /// Sixteen weights of each lane as the panel's bytes; sub: which
  /// sixteen of the block; s: the scales of the lanes.
  static void put(Vec w, const Vec* s, int sub, Vec* const (&out)[2]) {
    if constexpr (kShape.bytes == PanelBytes::Weights) {
      constexpr int kOffset = kHalved ? kBias / 2 : kBias;
      if constexpr (kHalved) w = V::template shr16<1>(w);  // both bytes are even
      *out[0] = kShape.zero == kOffset ? w : V::sub8(w, V::splat8(kOffset - kShape.zero));
    } else {
      constexpr int kPerScale = W::kScales == 8 ? 2 : 1;
      constexpr int kOffset = kInt16 ? 128 : kBias;  // present offset of w
      if constexpr (kInt16) w = V::add8(w, V::splat8(kOffset - kBias));
      Vec even = V::bit_and(w, V::splat16(0xFF)), odd = V::template shr16<8>(w),
          offset = V::splat16(kShape.zero);
      if constexpr (W::kScales == 0) {
        offset = V::splat16(kShape.zero - kOffset);
      } else {
        const int j = sub / kPerScale;
        const Vec scale = V::lookup(s[j / 8], V::splat16((2 * (j % 8) + 1) << 8 | 2 * (j % 8)));
        offset = V::add16(offset, V::mul16(scale, V::splat16(-kOffset)));
        even = V::mul16(even, scale);
        odd = V::mul16(odd, scale);
      }
      even = V::add16(even, offset);
      odd = V::add16(odd, offset);
      if constexpr (kShape.bytes == PanelBytes::Halved) {
        even = V::template shr16<1>(even);
        odd = V::template shr16<1>(odd);
      }
      if constexpr (kInt16) {
        *out[0] = even;
        *out[1] = odd;
        return;
      }
      *out[0] = V::bit_or(V::bit_and(even, V::splat16(0xFF)), V::template shl16<8>(odd));
      if constexpr (kShape.bytes == PanelBytes::TwoBytes) {
        // hi = (v + 128) >> 8 goes with lo = the low byte as a signed number.
        even = V::add16(even, V::splat16(128));
        odd = V::add16(odd, V::splat16(128));
        *out[1] = V::bit_or(V::template shr16<8>(even), V::bit_and(odd, V::splat16(0xFF00)));
      }
    }
  }
};

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
