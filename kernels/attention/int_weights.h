// Attention over a Q8_0 cache: the weights of a tile times the scales of its values, as integers of
// sixteen bits. Numerics: kernels/README.md.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/attention/int_dots.h"
#include "kernels/attention/queries.h"
#include "kernels/simd/namespace.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

/// amax/kOperandSteps, and in factor its inverse. All zero or too small: both 0. NaN or infinity:
/// NaN.
template <class V>
inline V operand_scale(const V& largest, V& factor) {
  // NOLINTNEXTLINE(misc-redundant-expression): NaN where largest is infinite
  const V amax = largest + (largest - largest), steps = V::broadcast(kOperandSteps),
          zero = V::broadcast(0);
  const V inverse = steps / amax, most = V::broadcast(__FLT_MAX__);
  factor = select_less(most, inverse, zero, inverse);
  return select_less(most, inverse, zero, amax) / steps;
}

template <class Isa>
class IntWeights {
  using V = F32x16<Isa>;
  using Lanes = QueryLanes<Isa>;
  using Dots = IntDots<Isa>;
  static constexpr std::size_t kGroups = kKeyTile / kFloatLanes;
  static constexpr bool kSigned = Dots::template kSigned<Operand::Weights>;

 public:
  static constexpr std::size_t kBytes = 2 * kKeyTile;  ///< an operand: a query's weights

  /// A block of queries' weights for a block of values.
  struct Operands {
    alignas(64) std::byte bytes[kBlockQueries * kBytes];
    alignas(64) float scale[kFloatLanes];  ///< by query: what an integer of 1 is worth
    std::int32_t starts[kFloatLanes];      ///< by query: of its sums
  };

  static constexpr std::size_t scratch_bytes(std::size_t blocks) {
    return blocks * (kKeyTile + 2) * sizeof(float);
  }
  /// scratch: scratch_bytes(blocks of 32 dims of a value), at a multiple of 64.
  IntWeights(std::byte* scratch, std::size_t blocks)
      : steps_(reinterpret_cast<float*>(scratch)),
        units_(steps_ + blocks * kKeyTile),
        uneven_(units_ + blocks) {}

  /// Prepares the scales of a block of a tile's values, for all queries that see the whole tile.
  void divide_scales(const std::byte* values, std::size_t block) {
    V d[kGroups];
    for (std::size_t g = 0; g < kGroups; ++g) d[g] = scales(values, g);
    const float highest = largest(d).max_magnitude_lane(),
                lowest = -(V::broadcast(0) - least(d)).max_lane();
    alignas(64) float unit[kFloatLanes];
    V factor;
    operand_scale(V::broadcast(highest), factor).store(unit);
    units_[block] = unit[0];
    uneven_[block] = is_uneven(lowest, highest) ? 1 : 0;
    for (std::size_t g = 0; g < kGroups; ++g)
      (d[g] * factor).store(steps_ + block * kKeyTile + g * kFloatLanes);
  }

  /// The weights of a block of queries for a block of a tile's values. growth: what weights are
  /// worth, by query.
  void encode(const QueryBlock& queries, const float (*weights)[kKeyTile], const V& growth,
              const std::byte* values, std::size_t block, Operands& to) const {
    V unit = V::broadcast(units_[block]);
    if (queries.ranges.whole() && uneven_[block] == 0) {
      encode(
          queries.n, weights, [&](std::size_t) { return steps_ + block * kKeyTile; }, to);
    } else {
      alignas(64) float steps[kBlockQueries][kKeyTile];
      unit = steps_of_each(queries, weights, values, steps);
      encode(
          queries.n, weights, [&](std::size_t i) -> const float* { return steps[i]; }, to);
    }
    (growth * unit).store(to.scale);
  }

 private:
  static V scales(const std::byte* values, std::size_t group) {
    return V::template load_as<Stored::F16>(values + group * kFloatLanes * sizeof(F16Bits));
  }
  static V largest(const V (&x)[kGroups]) {
    return max_magnitude(max_magnitude(abs(x[0]), abs(x[1])), max_magnitude(abs(x[2]), abs(x[3])));
  }
  static V least(const V (&x)[kGroups]) { return min(min(x[0], x[1]), min(x[2], x[3])); }
  static void load(const float* from, V (&x)[kGroups]) {
    for (std::size_t g = 0; g < kGroups; ++g) x[g] = V::load(from + g * kFloatLanes);
  }
  /// Scales so different that a step of the largest is too coarse where the largest weight meets
  /// the least.
  static bool is_uneven(float least, float largest) { return least * 16 < largest; }

  /// Computes steps for each query, for queries that see part of a tile or for uneven scales.
  /// Returns the value of an integer of 1.
  static V steps_of_each(const QueryBlock& queries, const float (*weights)[kKeyTile],
                         const std::byte* values, float (*steps)[kKeyTile]) {
    Lanes high(queries.n), low(queries.n), products(queries.n);
    for (std::size_t i = 0; i < queries.n; ++i) {
      const KeyRange keys = queries.ranges.keys[i];
      const auto hide = [&](float x) {
        for (std::size_t k = 0; k < keys.begin; ++k) steps[i][k] = x;
        for (std::size_t k = keys.end; k < kKeyTile; ++k) steps[i][k] = x;
      };
      V d[kGroups];
      for (std::size_t g = 0; g < kGroups; ++g) scales(values, g).store(steps[i] + g * kFloatLanes);
      hide(__builtin_inff());
      load(steps[i], d);
      low.lanes[i] = V::broadcast(0) - least(d);
      hide(0);
      load(steps[i], d);
      high.lanes[i] = largest(d);
    }
    alignas(64) float lowest[kFloatLanes], highest[kFloatLanes], factor[kFloatLanes];
    const V amax = V::max_magnitudes(high);
    V factors, unit = operand_scale(amax, factors);
    amax.store(highest);
    factors.store(factor);
    V::maxima(low).store(lowest);
    for (std::size_t i = 0; i < queries.n; ++i) {
      V d[kGroups], w[kGroups];
      load(steps[i], d);
      load(weights[i], w);
      for (std::size_t g = 0; g < kGroups; ++g) {
        d[g] = d[g] * V::broadcast(factor[i]);
        d[g].store(steps[i] + g * kFloatLanes);
        w[g] = w[g] * d[g];
      }
      products.lanes[i] =
          is_uneven(-lowest[i], highest[i]) ? largest(w) : V::broadcast(kOperandSteps);
    }
    unit = unit * operand_scale(V::max_magnitudes(products), factors);
    factors.store(factor);
    for (std::size_t i = 0; i < queries.n; ++i)
      for (std::size_t k = 0; k < kKeyTile; k += kFloatLanes)
        (V::load(steps[i] + k) * V::broadcast(factor[i])).store(steps[i] + k);
    return unit;
  }

  /// weights[i]·steps(i) for n queries.
  template <class Steps>
  static void encode(std::size_t n, const float (*weights)[kKeyTile], Steps steps, Operands& to) {
    Lanes sums(n);
    for (std::size_t i = 0; i < n; ++i) {
      V w[kGroups], factors[kGroups];
      CRIA_UNROLL
      for (std::size_t g = 0; g < kGroups; ++g) {
        w[g] = V::load(weights[i] + g * kFloatLanes);
        factors[g] = V::load(steps(i) + g * kFloatLanes);
      }
      sums.lanes[i] = Dots::template encode<Operand::Weights>(w, factors, to.bytes + i * kBytes);
    }
    if constexpr (!kSigned) {
      alignas(64) float sum[kFloatLanes];
      V::sums(sums).store(sum);
      for (std::size_t i = 0; i < n; ++i)
        to.starts[i] = -kQ8Bias * static_cast<std::int32_t>(sum[i]);
    }
  }

  float
      *steps_,  ///< [blocks of values][kKeyTile]: d/e·kOperandSteps, e the largest d of the block,
      *units_,  ///< [blocks of values]: e/kOperandSteps
      *uneven_;  ///< [blocks of values]: is_uneven(), as 0 or 1
};

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
