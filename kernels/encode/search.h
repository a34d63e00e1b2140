// Searches for the scales of blocks without and with an offset, sixteen blocks in lanes. Each start
// gives codes, codes give a scale in closed form (least squares), and the best wins.
#pragma once

#include "kernels/encode/lanes.h"
#include "kernels/formats/blocks32.h"
#include "kernels/formats/iq_tables.h"
#include "kernels/simd/f32x16.h"
#include "kernels/simd/namespace.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

// Grids that encoders round to: the values of the codes before scaling.

/// The integers lo … hi.
template <class Isa, int lo, int hi>
struct IntegerGrid {
  using V = F32x16<Isa>;
  static constexpr float kBottom = lo, kTop = hi;

  /// The nearest value.
  [[gnu::always_inline]] static V nearest(const V& x) {
    return max(min(round(x), V::broadcast(kTop)), V::broadcast(kBottom));
  }
  /// Its code, from 0.
  [[gnu::always_inline]] static V code(const V& x) { return nearest(x) - V::broadcast(kBottom); }
};

/// The values of a table, ascending, each plus `shift`.
template <class Isa, const auto& table, int shift = 0>
struct TableGrid {
  using V = F32x16<Isa>;
  static constexpr float kBottom = table.front() + shift, kTop = table.back() + shift;

  [[gnu::always_inline]] static V nearest(const V& x) {
    V value = V::broadcast(kBottom);
    CRIA_UNROLL
    for (std::size_t i = 1; i < table.size(); ++i)
      value = select_less(V::broadcast(middle(i)), x, V::broadcast(table[i] + shift), value);
    return value;
  }
  [[gnu::always_inline]] static V code(const V& x) {
    V code = V::broadcast(0);
    CRIA_UNROLL
    for (std::size_t i = 1; i < table.size(); ++i)
      code = select_less(V::broadcast(middle(i)), x, V::broadcast(static_cast<float>(i)), code);
    return code;
  }

 private:
  static constexpr float middle(std::size_t i) {
    return (static_cast<float>(table[i - 1]) + static_cast<float>(table[i])) / 2 + shift;
  }
};
template <class Isa>
using Iq4Grid = TableGrid<Isa, kIq4Values>;

/// Twice the numbers of E2M1: 0, 1, 2, 3, 4, 6, 8, 12 and their negatives.
template <class Isa>
struct E2m1Grid {
  using V = F32x16<Isa>;
  static constexpr float kBottom = -12, kTop = 12;

  [[gnu::always_inline]] static V nearest(const V& x) {
    const V size = abs(x);
    V value = V::broadcast(0);
    CRIA_UNROLL
    for (std::size_t i = 1; i < 8; ++i)
      value = select_less(V::broadcast(middle(i)), size, V::broadcast(kTwiceE2m1[i]), value);
    return select_less(x, V::broadcast(0), V::broadcast(0) - value, value);
  }
  /// Its nibble.
  [[gnu::always_inline]] static V code(const V& x) {
    const V size = abs(x);
    V code = V::broadcast(0);
    CRIA_UNROLL
    for (std::size_t i = 1; i < 8; ++i)
      code = select_less(V::broadcast(middle(i)), size, V::broadcast(static_cast<float>(i)), code);
    const V sign = select_less(V::broadcast(0), code, V::broadcast(8), V::broadcast(0));
    return select_less(x, V::broadcast(0), code + sign, code);
  }

 private:
  static constexpr float middle(std::size_t i) {
    return (static_cast<float>(kTwiceE2m1[i - 1]) + static_cast<float>(kTwiceE2m1[i])) / 2;
  }
};

/// Calls f(i, the nearest value of x·factor) for the N values of a block: each by itself, or by
/// Grid::each_nearest(), which weighs the values of a group against each other.
template <class Grid, std::size_t N, class Lanes, class V, class F>
[[gnu::always_inline]] inline void each_nearest(const Lanes& block, const V& factor, F f) {
  if constexpr (requires { Grid::each_nearest(block, factor, f); }) {
    Grid::each_nearest(block, factor, f);
  } else {
    for (std::size_t i = 0; i < N; ++i) f(i, Grid::nearest(block.x(i) * factor));
  }
}

/// Equally spaced numbers: where a search begins.
struct Starts {
  float first, last;
  int count;
  [[nodiscard]] constexpr float at(int i) const {
    return first + (last - first) * static_cast<float>(i) / static_cast<float>(count - 1);
  }
};

/// The integers s of sub-blocks: from low to high, `step` apart.
struct ScaleRange {
  int low, high, step = 1;
};

/// The nearest of them.
template <class Isa, ScaleRange range>
[[gnu::always_inline]] inline F32x16<Isa> nearest_scale(const F32x16<Isa>& s) {
  using V = F32x16<Isa>;
  const V low = V::broadcast(range.low);
  V nearest = round(s);
  if constexpr (range.step == 2)
    nearest = fma(round((s - low) * V::broadcast(0.5F)), V::broadcast(2), low);
  return max(min(nearest, V::broadcast(range.high)), low);
}

/// A scale and by how much it lowers the squared error of encoding everything as 0.
template <class Isa>
struct ScaleFit {
  using V = F32x16<Isa>;
  V scale = V::broadcast(0), gain = V::broadcast(0);

  /// Takes the other where it gains more.
  void better_of(const ScaleFit& other) {
    scale = select_less(gain, other.gain, other.scale, scale);
    gain = select_less(gain, other.gain, other.gain, gain);
  }
};

/// x ≈ scale·value, value of a grid.
template <class Isa, class Grid, std::size_t N, bool weighted>
class SymmetricSearch {
  using V = F32x16<Isa>;
  using Fit = ScaleFit<Isa>;

 public:
  using Values = Grid;
  explicit SymmetricSearch(const BlockLanes<Isa, N, weighted>& block)
      : block_(block), peak_(block.x(0)) {
    for (std::size_t i = 1; i < N; ++i)
      peak_ = select_less(abs(peak_), abs(block.x(i)), block.x(i), peak_);
  }
  /// The weight of the largest magnitude.
  [[nodiscard]] const V& peak() const { return peak_; }
  /// The best of starts that put the peak at the bottom or the top of the grid times each of
  /// `stretch`.
  Fit best_of(const Starts& stretch) const {
    const V inverse_peak = inverse_or_0(peak_);
    Fit best;
    for (int i = 0; i < stretch.count; ++i) {
      best.better_of(fit(V::broadcast(Grid::kBottom * stretch.at(i)) * inverse_peak));
      best.better_of(fit(V::broadcast(Grid::kTop * stretch.at(i)) * inverse_peak));
    }
    return best;
  }
  /// Codes x·factor and fits the scale: Σw(x - s·q)² = Σwx² - (Σwxq)²/Σwq² at s = Σwxq/Σwq².
  Fit fit(const V& factor) const {
    V xq, qq;
    sums(factor, xq, qq);
    const V scale = xq / qq;  // NaN if all codes are 0: no gain
    return {scale, xq * scale};
  }
  /// Σwxq and Σwq² of the codes of x·factor.
  void sums(const V& factor, V& xq, V& qq) const {
    xq = qq = V::broadcast(0);
    each_nearest<Grid, N>(block_, factor, [&](std::size_t i, const V& q) {
      const V wq = block_.weigh(i, q);
      xq = fma(block_.x(i), wq, xq);
      qq = fma(q, wq, qq);
    });
  }
  /// Σw(x - scale·q)² with the nearest codes.
  V error(const V& scale) const {
    const V minus = V::broadcast(0) - scale;
    V sum = V::broadcast(0);
    each_nearest<Grid, N>(block_, inverse_or_0(scale), [&](std::size_t i, const V& q) {
      const V e = fma(q, minus, block_.x(i));
      sum = fma(e, block_.weigh(i, e), sum);
    });
    return sum;
  }

 private:
  const BlockLanes<Isa, N, weighted>& block_;
  V peak_;
};

/// A scale, an offset, and by how much they lower the squared error of encoding every value as the
/// mean.
template <class Isa>
struct AffineFit {
  using V = F32x16<Isa>;
  V scale, offset, gain;

  void better_of(const AffineFit& other) {
    scale = select_less(gain, other.gain, other.scale, scale);
    offset = select_less(gain, other.gain, other.offset, offset);
    gain = select_less(gain, other.gain, other.gain, gain);
  }
};

/// x ≈ scale·q + offset, q in 0…top; the offset at most 0 if `negative`.
template <class Isa, int top, std::size_t N, bool weighted, bool negative>
class AffineSearch {
  using V = F32x16<Isa>;
  using Fit = AffineFit<Isa>;
  using Grid = IntegerGrid<Isa, 0, top>;

 public:
  explicit AffineSearch(const BlockLanes<Isa, N, weighted>& block) : block_(block) {
    V sum_wx = V::broadcast(0);
    low_ = high_ = block.x(0);
    for (std::size_t i = 0; i < N; ++i) {
      const V x = block.x(i);
      low_ = min(low_, x);
      high_ = max(high_, x);
      sum_w_ = sum_w_ + block.w(i);
      sum_wx = fma(block.w(i), x, sum_wx);
    }
    mean_ = sum_wx / sum_w_;
    if constexpr (negative) low_ = min(low_, V::broadcast(0));
  }
  [[nodiscard]] const V& sum_w() const { return sum_w_; }
  [[nodiscard]] const V& mean() const { return mean_; }

  /// Returns the best of several starts. A start maps codes 0 and top to the range of values, cut
  /// at both ends by inset.first … inset.last (negative: extended). Then tries `beside` neighbours
  /// of the best, and a refit of its codes.
  Fit best_of(const Starts& inset, int beside) const {
    Fit best = constant();
    best.better_of(from_range(0, 0));
    for (int i = 0; i < inset.count; ++i)
      best.better_of(
          from_range(inset.at(i), inset.first + (inset.last - inset.first) * scattered(i)));
    best.better_of(fit(best.scale, best.offset));
    for (int i = 0; i < beside; ++i) {  // up to 4 % narrower or wider, moved by up to 0.3 codes
      const float wider =
          0.04F * ((2 * static_cast<float>(i) + 1) / static_cast<float>(beside) - 1);
      const float moved = 0.3F * (2 * scattered(i) - 1) - wider * (0.5F * static_cast<float>(top));
      const V scale = best.scale * V::broadcast(1 + wider);
      best.better_of(fit(scale, fma(best.scale, V::broadcast(moved), best.offset)));
    }
    best.better_of(fit(best.scale, best.offset));
    return best;
  }
  /// Σw(x - mean)q, Σwq, Σwq² of the nearest codes.
  void sums(const V& scale, const V& offset, V& yq, V& q1, V& qq) const {
    const V factor = inverse_or_0(scale);
    yq = q1 = qq = V::broadcast(0);
    for (std::size_t i = 0; i < N; ++i) {
      const V x = block_.x(i), q = Grid::nearest((x - offset) * factor), wq = block_.weigh(i, q);
      yq = fma(x - mean_, wq, yq);
      q1 = q1 + wq;
      qq = fma(q, wq, qq);
    }
  }
  /// Σw(x - scale·q - offset)² with the nearest codes.
  V error(const V& scale, const V& offset) const {
    const V factor = inverse_or_0(scale), minus = V::broadcast(0) - scale;
    V sum = V::broadcast(0);
    for (std::size_t i = 0; i < N; ++i) {
      const V x = block_.x(i) - offset, e = fma(Grid::nearest(x * factor), minus, x);
      sum = fma(e, block_.weigh(i, e), sum);
    }
    return sum;
  }

 private:
  /// Every value as the mean, or as 0 where that is above it.
  Fit constant() const {
    const V zero = V::broadcast(0);
    if constexpr (!negative) return {zero, mean_, zero};
    const V above = max(mean_, zero);
    return {zero, min(mean_, zero), zero - sum_w_ * above * above};
  }
  /// Numbers in 0…1, spread evenly however many there are: multiples of the golden ratio.
  static constexpr float scattered(int i) {
    const float golden = static_cast<float>(i) * 0.618034F;
    return golden - static_cast<float>(static_cast<int>(golden));
  }
  Fit from_range(float below, float above) const {
    const V range = high_ - low_;
    return fit(range * V::broadcast((1 - below - above) / static_cast<float>(top)),
               fma(range, V::broadcast(below), low_));
  }
  /// Codes with a scale and an offset and fits both. With y = x - mean, Σwy = 0 and the scale is
  /// Σwyq / (Σwq² - (Σwq)²/Σw).
  Fit fit(const V& scale, const V& offset) const {
    V yq, q1, qq;
    sums(scale, offset, yq, q1, qq);
    V spread = qq - q1 * q1 / sum_w_;
    const V least = qq * V::broadcast(0x1p-12F);
    if (less_bits(spread, least) != 0) {
      V exact_yq, exact_spread;
      sums_about(q1 / sum_w_, scale, offset, exact_yq, exact_spread);
      yq = select_less(spread, least, exact_yq, yq);
      spread = select_less(spread, least, exact_spread, spread);
    }
    Fit result;
    result.scale = select_less(V::broadcast(0), spread, yq / spread, V::broadcast(0));
    result.offset = mean_ - result.scale * q1 / sum_w_;
    result.gain = yq * result.scale;
    if constexpr (negative) {  // a positive offset is replaced by the best fit without one
      const V xq = fma(mean_, q1, yq), alone = xq / qq, limit = V::broadcast(0x1p-100F);
      result.scale = select_less(result.offset, limit, result.scale, alone);
      result.gain =
          select_less(result.offset, limit, result.gain, xq * alone - sum_w_ * mean_ * mean_);
      result.offset = min(result.offset, V::broadcast(0));
    }
    return result;
  }

  /// Σw(x - mean)q and Σw(q - mean_code)² of the nearest codes: not what rounding leaves of the
  /// difference of two large sums, where all weight lies on nearly equal codes. Both 0 if all are
  /// equal.
  void sums_about(const V& mean_code, const V& scale, const V& offset, V& yq, V& spread) const {
    const V factor = inverse_or_0(scale), zero = V::broadcast(0);
    yq = spread = zero;
    for (std::size_t i = 0; i < N; ++i) {
      const V x = block_.x(i), r = Grid::nearest((x - offset) * factor) - mean_code,
              wr = block_.weigh(i, r);
      yq = fma(x - mean_, wr, yq);
      spread = fma(r, wr, spread);
    }
    const V rounding = mean_code * mean_code * sum_w_ * V::broadcast(0x1p-36F);
    yq = select_less(rounding, spread, yq, zero);
    spread = select_less(rounding, spread, spread, zero);
  }

  const BlockLanes<Isa, N, weighted>& block_;
  V low_, high_, mean_, sum_w_ = V::broadcast(0);
};

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
