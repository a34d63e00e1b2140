// The search of the IQ encoders. For 256 values it finds the block scale, the sub-block scales and
// an entry per group with the least weighted squared error. Method: kernels/README.md.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "kernels/encode/iq_books.h"
#include "kernels/encode/iq_entries.h"
#include "kernels/encode/lanes.h"
#include "kernels/simd/f32x16.h"
#include "kernels/simd/namespace.h"
#include "kernels/simd/round.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

/// Choices of a group in addition to its entry.
enum class IqChoice : std::uint8_t {
  Signs,          ///< the sign of every value
  EvenSigns,      ///< signs of which an even number is negative
  EvenPairSigns,  ///< the same of two groups together
  BlockShift,     ///< ±1 added to every value of the sub-block
  GroupShift,     ///< ±1 added to every value
};

/// Value i of a codebook's entry.
template <class Entry>
float entry_value(Entry entry, std::size_t i) {
  return static_cast<float>(static_cast<std::int8_t>(entry >> (8 * i) & 255));
}

/// A block as the search finds it.
template <class IqFormat>
struct IqCodes {
  static constexpr std::size_t kGroups = 256 / IqFormat::kDims,
                               kSubs = kGroups / IqFormat::kSubGroups;
  F16Bits d = 0;
  std::uint8_t scale[kSubs] = {};
  std::uint16_t entry[kGroups] = {};
  std::uint8_t negative[kGroups] = {};  ///< bit i: value i is negative
  bool minus[kGroups] = {};             ///< the shift
};

template <class Isa, class IqFormat>
class IqSearch {
  using V = F32x16<Isa>;
  using Codes = IqCodes<IqFormat>;
  static constexpr std::size_t kValues = 256, kDims = IqFormat::kDims,
                               kSubGroups = IqFormat::kSubGroups, kGroups = Codes::kGroups,
                               kSubs = Codes::kSubs, kScales = IqFormat::kScales;
  static constexpr IqChoice kChoice = IqFormat::kChoice;
  static constexpr bool kShifted =
      kChoice == IqChoice::BlockShift || kChoice == IqChoice::GroupShift;
  static constexpr std::size_t kVariants = kShifted || kChoice == IqChoice::EvenPairSigns ? 2 : 1;
  static constexpr std::size_t kTogether = kFloatLanes / kScales;  ///< block scales tried at once

 public:
  /// importance: null or a weight per value.
  void encode(const float* x, const float* importance, Codes& codes) {
    codes = {};
    if (!take_values(x)) return;
    take_weights(importance);
    for (std::size_t sub = 0; sub < kSubs; ++sub) typical_[sub] = typical_scale(sub);
    for (std::size_t g = 0; g < kGroups; ++g) find_hulls(g);
    const float d = search_scale();
    if (d > 0) put_codes(d, codes);
  }

 private:
  // ---- values and weights, scaled by powers of two to a maximum of about one
  static int exponent_of(float x) {
    return static_cast<int>(std::bit_cast<std::uint32_t>(x) >> 23 & 255U);
  }
  static float power_of_two(int exponent) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(exponent) << 23);
  }
  /// False if the values are too small for any scale.
  bool take_values(const float* x) {
    V most = V::broadcast(0);
    for (std::size_t i = 0; i < kValues; i += kFloatLanes) {
      const V v = limited<Isa>(V::load(x + i), kLargestWeight);
      v.store(x_ + i);
      most = max(most, abs(v));
    }
    const int exponent = exponent_of(most.max_lane());
    if (exponent < kMinExponent) return false;
    unit_ = power_of_two(exponent);
    scale_by(power_of_two(254 - exponent), x_);
    for (std::size_t g = 0; g < kGroups; ++g) {
      unsigned bits = 0;
      for (std::size_t i = 0; i < kDims; ++i) bits |= (x_[g * kDims + i] < 0 ? 1U : 0U) << i;
      negative_[g] = static_cast<std::uint8_t>(bits);
    }
    for (std::size_t g = 0; g < kGroups; ++g) odd_[g] = is_odd(g);
    return true;
  }
  void take_weights(const float* importance) {
    weighted_ = false;
    if (importance != nullptr) {
      V most = V::broadcast(0);
      std::uint32_t differ = 0;
      const V first = sane_importance<Isa>(V::broadcast(importance[0]));
      for (std::size_t i = 0; i < kValues; i += kFloatLanes) {
        const V w = sane_importance<Isa>(V::load(importance + i));
        w.store(w_ + i);
        most = max(most, w);
        differ |= less_bits(w, first) | less_bits(first, w);
      }
      const float top = most.max_lane();
      weighted_ = differ != 0 && top > 0x1p-100F;
      if (weighted_) scale_by(1 / top, w_);
    }
    const V least = V::broadcast(kMinImportance);
    for (std::size_t i = 0; i < kValues; i += kFloatLanes) {
      const V w = weighted_ ? max(V::load(w_ + i), least) : V::broadcast(1), x = V::load(x_ + i);
      w.store(w_ + i);
      (w * (kShifted ? x : abs(x))).store(wx_ + i);
    }
  }
  static void scale_by(float factor, float* x) {
    for (std::size_t i = 0; i < kValues; i += kFloatLanes)
      (V::load(x + i) * V::broadcast(factor)).store(x + i);
  }
  /// The scale at which the values of a sub-block look like a codebook's.
  [[nodiscard]] float typical_scale(std::size_t sub) const {
    constexpr std::size_t kSub = kSubGroups * kDims;
    V squares = V::broadcast(0), weights = squares;
    for (std::size_t i = sub * kSub; i < (sub + 1) * kSub; i += kFloatLanes) {
      const V x = V::load(x_ + i), w = V::load(w_ + i);
      squares = fma(w * x, x, squares);
      weights = weights + w;
    }
    return __builtin_sqrtf(squares.sum() / weights.sum()) / IqFormat::kTypical + 1e-6F;
  }

  // ---- the hulls of a group
  [[nodiscard]] bool is_odd(std::size_t g) const {
    if constexpr (kChoice == IqChoice::EvenSigns) return std::popcount(negative_[g]) % 2 != 0;
    if constexpr (kChoice == IqChoice::EvenPairSigns)
      return std::popcount(negative_[g & ~std::size_t{1}]) % 2 !=
             std::popcount(negative_[g | 1]) % 2;
    return false;
  }
  void find_hulls(std::size_t g) {
    IqGroup group{w_ + g * kDims, wx_ + g * kDims, typical_[g / kSubGroups], 0};
    if constexpr (kShifted) {
      for (std::size_t v = 0; v < 2; ++v) {
        group.shift = v == 0 ? 1.0F : -1.0F;
        plain_.find(*book_, group, finder_, hulls_[v][g]);
      }
    } else {
      if (kVariants == 2 || !odd_[g]) plain_.find(*book_, group, finder_, hulls_[0][g]);
      if (odd_[g]) flipped_.find(*book_, group, finder_, hulls_[kVariants - 1][g]);
    }
  }

  // ---- the gain of a sub-block: what a scale c saves of Σ w x², as gain·c
  [[nodiscard]] V gain(std::size_t sub, const V& minus_c) const {
    V total = V::broadcast(0), other = V::broadcast(0);
    for (std::size_t g = sub * kSubGroups; g < (sub + 1) * kSubGroups; ++g) {
      if constexpr (kChoice == IqChoice::GroupShift) {
        total = total + max(hull_gain(hulls_[0][g], minus_c), hull_gain(hulls_[1][g], minus_c));
      } else if constexpr (kChoice == IqChoice::BlockShift) {
        total = total + hull_gain(hulls_[0][g], minus_c);
        other = other + hull_gain(hulls_[1][g], minus_c);
      } else if constexpr (kChoice == IqChoice::EvenPairSigns) {
        const V a = hull_gain(hulls_[0][g], minus_c), b = hull_gain(hulls_[0][g + 1], minus_c);
        if (odd_[g]) {
          total = total + max(hull_gain(hulls_[1][g], minus_c) + b,
                              a + hull_gain(hulls_[1][g + 1], minus_c));
        } else {
          total = total + (a + b);
        }
        ++g;
      } else {
        total = total + hull_gain(hulls_[0][g], minus_c);
      }
    }
    return kChoice == IqChoice::BlockShift ? max(total, other) : total;
  }

  // ---- the scales
  /// The d of the block, in units of the values as scaled here.
  [[nodiscard]] F16Bits half_of(float d) const {
    const float stored = d * (unit_ / IqFormat::kFactor);
    const float some = stored > kMinF16 ? stored : kMinF16;  // rather too large than 0
    return f32_to_f16(some < kF16Max ? some : kF16Max);
  }
  [[nodiscard]] float rounded(float d) const {
    return f16_to_f32(half_of(d)) * IqFormat::kFactor / unit_;
  }

  /// Lanes: 2s + 1, over again for each of the scales tried together.
  static const float* multipliers() {
    alignas(64) static constexpr auto kTable = [] {
      struct {
        float lane[kFloatLanes];
      } t{};
      for (std::size_t i = 0; i < kFloatLanes; ++i)
        t.lane[i] = static_cast<float>(2 * (i % kScales) + 1);
      return t;
    }();
    return kTable.lane;
  }
  struct Candidate {
    float d, gain;
  };
  /// Gains of kTogether candidates, rounded scales first.
  void judge(Candidate* candidates) const {
    alignas(64) float d[kFloatLanes], lanes[kFloatLanes];
    for (std::size_t i = 0; i < kFloatLanes; ++i) d[i] = candidates[i / kScales].d;
    const V c = V::broadcast(0) - V::load(multipliers()) * V::load(d);
    for (std::size_t k = 0; k < kTogether; ++k) candidates[k].gain = 0;
    for (std::size_t sub = 0; sub < kSubs; ++sub) {
      (gain(sub, c) * (V::broadcast(0) - c)).store(lanes);
      for (std::size_t k = 0; k < kTogether; ++k) {
        float most = lanes[k * kScales];
        for (std::size_t s = 1; s < kScales; ++s)
          most = lanes[k * kScales + s] > most ? lanes[k * kScales + s] : most;
        candidates[k].gain += most;
      }
    }
  }
  /// The sub-block's best scale among a ladder of sixteen around what its size suggests.
  [[nodiscard]] float own_scale(std::size_t sub) const {
    float c = 0.45F * typical_[sub];
    alignas(64) float lanes[kFloatLanes];
    for (float& lane : lanes) lane = c, c *= 1.13F;
    const V scales = V::load(lanes);
    alignas(64) float gains[kFloatLanes];
    (gain(sub, V::broadcast(0) - scales) * scales).store(gains);
    std::size_t best = 0;
    for (std::size_t i = 1; i < kFloatLanes; ++i) best = gains[i] > gains[best] ? i : best;
    return lanes[best];
  }
  float search_scale() {
    float largest = 0;
    for (std::size_t sub = 0; sub < kSubs; ++sub) {
      const float c = own_scale(sub);
      largest = c > largest ? c : largest;
    }
    Candidate best{0, 0};
    float steps = IqFormat::kMaxSteps;
    for (std::size_t tried = 0; tried < IqFormat::kTried; tried += kTogether) {
      Candidate now[kTogether];
      for (Candidate& candidate : now) {
        candidate = {rounded(largest / steps), 0};
        steps *= IqFormat::kStepRatio;
      }
      judge(now);
      for (const Candidate& candidate : now)
        if (candidate.gain > best.gain) best = candidate;
    }
    for (int round = 0; round < kRounds && best.d > 0; ++round) {
      Candidate now[kTogether];
      for (Candidate& candidate : now) candidate = {rounded(fitted(best.d)), 0};
      if (now[0].d == best.d) break;
      judge(now);
      if (!(now[0].gain > best.gain)) break;
      best = now[0];
    }
    return best.d;
  }

  // ---- codes for a scale
  struct Choice {
    std::size_t scale;
    float c;
  };
  [[nodiscard]] Choice best_scale(std::size_t sub, float d) const {
    const V c = V::load(multipliers()) * V::broadcast(d);
    alignas(64) float lanes[kFloatLanes];
    (gain(sub, V::broadcast(0) - c) * c).store(lanes);
    std::size_t best = 0;
    for (std::size_t s = 1; s < kScales; ++s) best = lanes[s] > lanes[best] ? s : best;
    return {best, static_cast<float>(2 * best + 1) * d};
  }
  struct Vertex {
    std::size_t variant, at;
  };
  /// The vertices of the groups of a sub-block for scale c.
  void choose(std::size_t sub, float c, Vertex* vertex) const {
    float gain[2][kSubGroups];
    std::size_t at[2][kSubGroups];
    const std::size_t first = sub * kSubGroups;
    float sums[2] = {0, 0};
    for (std::size_t v = 0; v < kVariants; ++v) {
      for (std::size_t g = 0; g < kSubGroups; ++g) {
        if (kChoice == IqChoice::EvenPairSigns && v == 1 && !odd_[first + g]) continue;
        at[v][g] = best_vertex<Isa>(hulls_[v][first + g], -c, gain[v][g]);
        sums[v] += gain[v][g];
      }
    }
    for (std::size_t g = 0; g < kSubGroups; ++g) {
      std::size_t variant = 0;
      if constexpr (kChoice == IqChoice::GroupShift) variant = gain[1][g] > gain[0][g] ? 1 : 0;
      if constexpr (kChoice == IqChoice::BlockShift) variant = sums[1] > sums[0] ? 1 : 0;
      if constexpr (kChoice == IqChoice::EvenPairSigns) {
        if (odd_[first + g]) {
          const std::size_t a = g & ~std::size_t{1}, b = g | 1;
          const bool flip_first = gain[1][a] + gain[0][b] > gain[0][a] + gain[1][b];
          variant = flip_first == (g == a) ? 1 : 0;
        }
      }
      vertex[g] = {variant, at[variant][g]};
    }
  }
  /// The scale that is best for the codes which d leads to.
  [[nodiscard]] float fitted(float d) const {
    float p = 0, q = 0;
    for (std::size_t sub = 0; sub < kSubs; ++sub) {
      const Choice choice = best_scale(sub, d);
      Vertex vertex[kSubGroups];
      choose(sub, choice.c, vertex);
      const float m = static_cast<float>(2 * choice.scale + 1);
      for (std::size_t g = 0; g < kSubGroups; ++g) {
        const EntryHull& hull = hulls_[vertex[g].variant][sub * kSubGroups + g];
        p += m * hull.p2[vertex[g].at];
        q += m * m * hull.q[vertex[g].at];
      }
    }
    return q > 0 ? p / (2 * q) : d;
  }
  void put_codes(float d, Codes& codes) const {
    codes.d = half_of(d);
    for (std::size_t sub = 0; sub < kSubs; ++sub) {
      const Choice choice = best_scale(sub, d);
      Vertex vertex[kSubGroups];
      choose(sub, choice.c, vertex);
      codes.scale[sub] = static_cast<std::uint8_t>(choice.scale);
      for (std::size_t i = 0; i < kSubGroups; ++i) {
        const std::size_t g = sub * kSubGroups + i;
        codes.entry[g] = hulls_[vertex[i].variant][g].entry[vertex[i].at];
        codes.minus[g] = kShifted && vertex[i].variant == 1;
        codes.negative[g] = negative_[g];
        if (!kShifted && odd_[g] && vertex[i].variant == kVariants - 1)
          codes.negative[g] ^= cheapest_flip(g, codes.entry[g]);
      }
    }
  }
  [[nodiscard]] std::uint8_t cheapest_flip(std::size_t g, std::size_t entry) const {
    std::size_t best = 0;
    float least = 0;
    for (std::size_t i = 0; i < kDims; ++i) {
      const float cost = entry_value(IqFormat::kGrid[entry], i) * wx_[g * kDims + i];
      if (i == 0 || cost < least) least = cost, best = i;
    }
    return static_cast<std::uint8_t>(1U << best);
  }

  static constexpr int kMinExponent = 127 - 40;  ///< below, any d rounds to zero
  static constexpr int kRounds = 4;

  const EncoderBook* book_ = &IqFormat::book();
  bool weighted_ = false;
  float unit_ = 1;  ///< x_ * unit_ are the values
  alignas(64) float x_[kValues], w_[kValues], wx_[kValues];
  std::uint8_t negative_[kGroups];
  bool odd_[kGroups];
  float typical_[kSubs];
  EntrySearch<Isa, kDims / 2, IqFormat::kPruned, false, kShifted> plain_;
  EntrySearch<Isa, kDims / 2, IqFormat::kPruned, true, false> flipped_;
  HullFinder<Isa> finder_;
  EntryHull hulls_[kVariants][kGroups];
};

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
