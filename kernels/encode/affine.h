// Encoders of types with an offset: Q4_1, Q5_1 (32 weights d·q + m) and Q2_K, Q4_K, Q5_K (d·s·q -
// dmin·m, integers s and m per sub-block).
#pragma once

#include "kernels/encode/lanes.h"
#include "kernels/encode/pack.h"
#include "kernels/encode/search.h"
#include "kernels/simd/namespace.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

// Q4_1 and Q5_1: 32 weights d·q + m.

template <class Isa, class Block, int top, bool weighted>
void encode_affine32(const float* x, const float* importance, std::size_t n_blocks,
                     std::byte* out) {
  using V = F32x16<Isa>;
  const BlockLanes<Isa, 32, weighted> block(x, importance, n_blocks);
  const AffineSearch<Isa, top, 32, weighted, false> search(block);
  const auto best =
      search.best_of(top == 15 ? Starts{-0.05F, 0.2F, 20} : Starts{-0.04F, 0.1F, 20}, 6);
  const V m = to_f16_and_back(best.offset);
  const V d = to_best_f16_scale(best.scale, [&](V scale) { return search.error(scale, m); }),
          factor = inverse_or_0(d);
  store_blocks32<Isa, Block>(
      [&](std::size_t i) { return IntegerGrid<Isa, 0, top>::code((block.x(i) - m) * factor); }, d,
      m, n_blocks, out);
}

template <class Isa, class Block, int top>
inline constexpr EncodeFn kAffine32 =
    encode_batches<Block, 32, kFloatLanes, encode_affine32<Isa, Block, top, kWeightedOnly<Isa>>,
                   encode_affine32<Isa, Block, top, true>>;

template <class Isa>
inline constexpr EncodeFn kEncoder<Isa, DType::Q4_1> = kAffine32<Isa, BlockQ4_1, 15>;
template <class Isa>
inline constexpr EncodeFn kEncoder<Isa, DType::Q5_1> = kAffine32<Isa, BlockQ5_1, 31>;

// Q2_K, Q4_K and Q5_K: d·s·q - dmin·m, integers s and m per sub-block.

/// Effort of the search.
struct AffineEffort {
  Starts inset;  ///< search of a sub-block: AffineSearch::best_of
  int beside;    ///< the same
  int around;    ///< how far around the nearest s and m all pairs are tried
  int rounds;    ///< rounds of: least squares for d and dmin, then neighbours of s and m
};
template <class Block>
inline constexpr AffineEffort kAffineEffort{};
template <>
inline constexpr AffineEffort kAffineEffort<BlockQ2_K> = {{-0.05F, 0.3F, 14}, 1, 1, 1};
template <>
inline constexpr AffineEffort kAffineEffort<BlockQ4_K> = {{-0.05F, 0.15F, 16}, 4, 2, 1};
template <>
inline constexpr AffineEffort kAffineEffort<BlockQ5_K> = {{-0.04F, 0.08F, 16}, 4, 2, 1};

template <class Isa, class Block, int top, std::size_t N, int s_max, bool weighted>
class AffineSuper {
  using V = F32x16<Isa>;
  using Scales = SuperScales<Isa>;
  using Lanes = BlockLanes<Isa, N, weighted>;
  static constexpr std::size_t kGroup = 256 / N;
  static constexpr const AffineEffort& kEffort = kAffineEffort<Block>;

 public:
  AffineSuper(const float* x, const float* importance, std::size_t n_blocks)
      : block_(x, importance, n_blocks * kGroup, kGroup), sign_(orient(block_)), search_(block_) {
    const auto fit = search_.best_of(kEffort.inset, kEffort.beside);
    const V share = V::broadcast(1.0F / static_cast<float>(s_max)), minus = V::broadcast(-1);
    Scales r;
    r.d = to_f16_scale(group_peak<Isa, kGroup>(fit.scale) * share);
    r.dmin = to_f16_scale(group_peak<Isa, kGroup>(fit.offset) * minus * share);
    r.s = round(fit.scale * inverse_or_0(r.d));
    r.m = round(fit.offset * minus * inverse_or_0(r.dmin));
    r = choose_around(r, kEffort.around);
    for (int k = 0; k < kEffort.rounds; ++k) {
      refit(r);
      r = choose_around(r, 1);
    }
  }
  void store(std::size_t n_blocks, std::byte* out) const {
    const V factor = inverse_or_0(best_.d * best_.s), low = best_.dmin * best_.m;
    store_super_blocks<Isa, Block, N>(
        [&](std::size_t i) { return IntegerGrid<Isa, 0, top>::code((block_.x(i) + low) * factor); },
        best_.d * sign_, best_.dmin * sign_, best_.s, best_.m, n_blocks, out);
  }

 private:
  /// Offsets must be of one sign: super-blocks whose values are rather all positive are encoded as
  /// their negatives, and their d and dmin are negative.
  static V orient(Lanes& block) {
    V low = block.x(0), high = low;
    for (std::size_t i = 1; i < N; ++i) {
      low = min(low, block.x(i));
      high = max(high, block.x(i));
    }
    const V zero = V::broadcast(0), above = group_sum<Isa, kGroup>(max(low, zero));
    const V below = group_sum<Isa, kGroup>(max(zero - high, zero));
    const V sign = select_less(below, above, V::broadcast(-1), V::broadcast(1));
    block.scale(sign);
    return sign;
  }
  /// The best pairs up to `reach` around r's.
  Scales choose_around(const Scales& r, int reach) {
    const V most = V::broadcast(static_cast<float>(s_max)), zero = V::broadcast(0);
    Scales next;
    next.d = r.d;
    next.dmin = r.dmin;
    for (int i = -reach; i <= reach; ++i) {
      const V s = max(min(r.s + V::broadcast(static_cast<float>(i)), most), zero);
      for (int j = -reach; j <= reach; ++j) {
        const V m = max(min(r.m + V::broadcast(static_cast<float>(j)), most), zero);
        next.better_sub_blocks(s, m, search_.error(r.d * s, zero - r.dmin * m));
      }
    }
    best_.template better_super_blocks<kGroup>(next);
    return next;
  }
  /// d and dmin of least squares under the codes: the 2×2 system of Σw(x - d·a + dmin·m)², a = s·q.
  void refit(Scales& r) {
    V yq, q1, qq;
    search_.sums(r.d * r.s, V::broadcast(0) - r.dmin * r.m, yq, q1, qq);
    const V w = search_.sum_w(), mean = search_.mean();
    const V aa = group_sum<Isa, kGroup>(r.s * r.s * qq),
            am = group_sum<Isa, kGroup>(r.s * r.m * q1);
    const V mm = group_sum<Isa, kGroup>(r.m * r.m * w), xm = group_sum<Isa, kGroup>(r.m * w * mean);
    const V xa = group_sum<Isa, kGroup>(r.s * fma(mean, q1, yq)), det = aa * mm - am * am;
    // Nearly dependent (as if all m are 0): fit d only. No codes at all: fit neither.
    const V least = aa * mm * V::broadcast(0x1p-16F), alone = fma(r.dmin, am, xa) / aa;
    const V d = select_less(least, det, (xa * mm - xm * am) / det, alone);
    const V dmin = select_less(least, det, (xa * am - xm * aa) / det, r.dmin);
    r.d = to_f16_scale(select_less(abs(d), V::broadcast(0x1p100F), d, r.d));
    r.dmin = to_f16_scale(dmin);
  }

  Lanes block_;
  V sign_;
  AffineSearch<Isa, top, N, weighted, true> search_;
  Scales best_;
};

/// Codes 0…top, scales 0…s_max of N values.
template <class Isa, class Block, int top, std::size_t N, int s_max>
inline constexpr EncodeFn kAffineSuper =
    encode_batches<Block, 256, kFloatLanes * N / 256,
                   encode_by<AffineSuper<Isa, Block, top, N, s_max, kWeightedOnly<Isa>>>,
                   encode_by<AffineSuper<Isa, Block, top, N, s_max, true>>>;

template <class Isa>
inline constexpr EncodeFn kEncoder<Isa, DType::Q2_K> = kAffineSuper<Isa, BlockQ2_K, 3, 16, 15>;
template <class Isa>
inline constexpr EncodeFn kEncoder<Isa, DType::Q4_K> = kAffineSuper<Isa, BlockQ4_K, 15, 32, 63>;
template <class Isa>
inline constexpr EncodeFn kEncoder<Isa, DType::Q5_K> = kAffineSuper<Isa, BlockQ5_K, 31, 32, 63>;

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
