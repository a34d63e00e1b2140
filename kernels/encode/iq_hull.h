// Which entries of a codebook can be the nearest of a group of values, for all scales at once.
//
// A group of values x with weights w, encoded as c·e for an entry e, costs
//   Σ w (x - c e)² = Σ w x² - c (2 P - c Q)   with P = Σ w x e and Q = Σ w e².
// So for every scale c > 0 the best entry is a vertex of the lower convex hull of the points (P,
// Q): the one that maximises 2P - c·Q. The hull has a dozen vertices of hundreds of entries; once
// it is found, the best entry for a scale costs a dozen multiplications and is exact.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "kernels/simd/f32x16.h"

namespace cria {

/// Lower convex hull by rising P and Q, at least one vertex.
struct EntryHull {
  static constexpr std::size_t kMost = 48;  ///< vertices; what a hull has beyond is left out
  std::size_t n;
  float p2[kMost], q[kMost];  ///< 2P and Q
  std::uint16_t entry[kMost];
};

/// max over the vertices of 2P - c·Q, for a scale per lane.
template <class Isa>
[[gnu::always_inline]] inline F32x16<Isa> hull_gain(const EntryHull& hull,
                                                    const F32x16<Isa>& minus_c) {
  using V = F32x16<Isa>;
  V gain = fma(minus_c, V::broadcast(hull.q[0]), V::broadcast(hull.p2[0]));
  for (std::size_t k = 1; k < hull.n; ++k)
    gain = max(fma(minus_c, V::broadcast(hull.q[k]), V::broadcast(hull.p2[k])), gain);
  return gain;
}

/// The vertex with that gain for one scale, the first of equals.
template <class Isa>
std::size_t best_vertex(const EntryHull& hull, float minus_c, float& gain) {
  std::size_t best = 0;
  for (std::size_t k = 0; k < hull.n; ++k) {
    const float g = __builtin_fmaf(minus_c, hull.q[k], hull.p2[k]);
    if (k == 0 || g > gain) gain = g, best = k;
  }
  return best;
}

/// Scales at which hulls are found first, times about where they are of
/// interest; beyond the ends they are cut off.
inline constexpr std::array<float, 4> kHullLadder = {3.0F, 1.35F, 0.8F, 0.45F};

/// Point i of n (a multiple of 16) is (p[i], q[i]), finite.
struct EntryPoints {
  const float *p, *q;
  const std::uint16_t* entry;
  std::size_t n;
};

/// Finds hulls by divide and conquer: the vertices of the ladder first, then between two vertices
/// the point farthest below their chord. Few points are below the ladder's chords; only they are
/// looked at again.
template <class Isa>
class HullFinder {
  using V = F32x16<Isa>;
  static constexpr std::size_t kRungs = kHullLadder.size();

 public:
  static constexpr std::size_t kMaxPoints = 3328;
  struct Point {
    float p, q;
    std::uint16_t entry;
  };

  void find(const EntryPoints& points, float scale, EntryHull& hull) {
    hull_ = &hull;
    hull.n = 0;
    Point rung[kRungs];
    climb(points, scale, rung);
    collect(points, rung);
    push(rung[0]);
    for (std::size_t k = 1; k < kRungs; ++k) {
      if (!(rung[k].p > rung[k - 1].p)) continue;
      split(rung[k - 1], rung[k]);
      push(rung[k]);
    }
  }

  /// rung[k]: the point with the most 2p - scale·kHullLadder[k]·q, the first of equals.
  static void climb(const EntryPoints& x, float scale, Point (&rung)[kRungs]) {
    V minus_half[kRungs], most[kRungs];
    CRIA_UNROLL
    for (std::size_t k = 0; k < kRungs; ++k) {
      minus_half[k] = V::broadcast(-0.5F * scale * kHullLadder[k]);
      most[k] = V::broadcast(-__builtin_inff());
    }
    for (std::size_t i = 0; i < x.n; i += kFloatLanes) {
      const V p = V::load(x.p + i), q = V::load(x.q + i);
      CRIA_UNROLL
      for (std::size_t k = 0; k < kRungs; ++k) most[k] = max(fma(minus_half[k], q, p), most[k]);
    }
    for (std::size_t k = 0; k < kRungs; ++k) {
      const V bound = V::broadcast(most[k].max_lane());
      std::size_t i = 0;
      std::uint32_t less = 0xFFFFU;
      for (;; i += kFloatLanes) {
        less = less_bits(fma(minus_half[k], V::load(x.q + i), V::load(x.p + i)), bound);
        if (less != 0xFFFFU) break;
      }
      rung[k] = point_at(x, i + static_cast<std::size_t>(std::countr_one(less)));
    }
  }

 private:
  static Point point_at(const EntryPoints& x, std::size_t at) {
    return {x.p[at], x.q[at], x.entry[at]};
  }
  /// A line through two points. Points are judged by slope·p - q, their depth.
  struct Chord {
    Chord(const Point& a, const Point& b)
        : slope((b.q - a.q) / (b.p - a.p)), depth(__builtin_fmaf(slope, a.p, -a.q)) {}
    float slope, depth;
  };

  void push(const Point& x) {
    if (hull_->n == EntryHull::kMost) return;
    hull_->p2[hull_->n] = 2 * x.p;
    hull_->q[hull_->n] = x.q;
    hull_->entry[hull_->n++] = x.entry;
  }
  /// Keeps the points below the chord of any two neighbouring rungs.
  void collect(const EntryPoints& x, const Point (&rung)[kRungs]) {
    V minus_slope[kRungs - 1], limit[kRungs - 1];
    for (std::size_t k = 0; k + 1 < kRungs; ++k) {
      const bool apart = rung[k + 1].p > rung[k].p;
      const Chord chord(rung[k], rung[k + 1]);
      minus_slope[k] = V::broadcast(apart ? -chord.slope : 0);
      limit[k] = V::broadcast(apart ? -chord.depth : -__builtin_inff());
    }
    n_ = 0;
    for (std::size_t i = 0; i < x.n; i += kFloatLanes) {
      const V p = V::load(x.p + i), q = V::load(x.q + i);
      std::uint32_t bits = 0;
      CRIA_UNROLL
      for (std::size_t k = 0; k + 1 < kRungs; ++k)
        bits |= less_bits(fma(minus_slope[k], p, q), limit[k]);
      for (; bits != 0; bits &= bits - 1) {
        const std::size_t at = i + static_cast<std::size_t>(std::countr_zero(bits));
        p_[n_] = x.p[at];
        minus_q_[n_] = -x.q[at];
        entry_[n_++] = x.entry[at];
      }
    }
    V::broadcast(0).store(p_ + n_);
    V::broadcast(-__builtin_inff()).store(minus_q_ + n_);
  }
  /// Pushes the vertices between a and b.
  void split(const Point& a, const Point& b) {
    const Chord chord(a, b);
    const V slope = V::broadcast(chord.slope);
    V deepest = V::broadcast(chord.depth);
    for (std::size_t i = 0; i < n_; i += kFloatLanes)
      deepest = max(fma(slope, V::load(p_ + i), V::load(minus_q_ + i)), deepest);
    const float depth = deepest.max_lane();
    if (!(depth > chord.depth) || hull_->n == EntryHull::kMost) return;
    const V bound = V::broadcast(depth);
    std::uint32_t less = 0xFFFFU;
    std::size_t i = 0;
    for (;; i += kFloatLanes) {
      less = less_bits(fma(slope, V::load(p_ + i), V::load(minus_q_ + i)), bound);
      if (less != 0xFFFFU) break;
    }
    i += static_cast<std::size_t>(std::countr_one(less));
    const Point m{p_[i], -minus_q_[i], entry_[i]};
    if (!(a.p < m.p && m.p < b.p)) return;  // below by rounding only
    split(a, m);
    push(m);
    split(m, b);
  }

  EntryHull* hull_ = nullptr;
  std::size_t n_ = 0;  ///< points kept
  alignas(64) float p_[kMaxPoints + kFloatLanes], minus_q_[kMaxPoints + kFloatLanes];
  std::uint16_t entry_[kMaxPoints];
};

}  // namespace cria
