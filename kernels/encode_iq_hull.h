// Which entries of a codebook can be the nearest of a group of values, for all scales at once.
//
// A group of values x with weights w, encoded as c·e for an entry e, costs
//   Σ w (x - c e)² = Σ w x² - c (2 P - c Q)   with P = Σ w x e and Q = Σ w e².
// So for every scale c > 0 the best entry is a vertex of the lower convex hull of the points (P, Q): the one
// that maximises 2P - c·Q. The hull has a dozen vertices of hundreds of entries; once it is found, the best
// entry for a scale costs a dozen multiplications and is exact.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "kernels/f32x16.h"

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
[[gnu::always_inline]] inline F32x16<Isa> hull_gain(const EntryHull& hull, const F32x16<Isa>& minus_c) {
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

/// Finds hulls by divide and conquer: between two vertices the point farthest below their chord is a vertex,
/// and only points below the two new chords can be more of them. The first vertices are those of a ladder of
/// scales, found together; beyond its ends the hull is cut off.
template <class Isa>
class HullFinder {
  using V = F32x16<Isa>;
  static constexpr std::size_t kBlock = 128;  ///< points whose maxima are kept together
  static constexpr float kLadder[] = {8.0F, 1.4F, 0.7F, 0.125F};
  static constexpr std::size_t kRungs = sizeof kLadder / sizeof *kLadder;

 public:
  static constexpr std::size_t kMostPoints = 2048;

  /// Point e of n (a multiple of 128) is (p[e], q[e]), finite. scale: about where the hull is of interest, >
  /// 0.
  void find(const float* p, const float* q, std::size_t n, float scale, EntryHull& hull) {
    hull_ = &hull;
    hull.n = used_ = 0;
    Point rung[kRungs];
    climb(p, q, n, scale, rung);
    List below[kRungs - 1];
    collect(p, q, n, rung, below);
    push(rung[0]);
    for (std::size_t k = 1; k < kRungs; ++k) {
      if (!(rung[k].p > rung[k - 1].p)) continue;
      split(rung[k - 1], rung[k], below[k - 1]);
      push(rung[k]);
    }
  }

 private:
  struct Point {
    float p, q;
    std::uint16_t entry;
  };
  struct List {  ///< of points in p_, q_, entry_
    std::size_t begin, n;
  };
  /// A line through two points. Points are judged by q - slope·p.
  struct Chord {
    Chord(const Point& a, const Point& b)
        : minus_slope(-((b.q - a.q) / (b.p - a.p))), limit(__builtin_fmaf(minus_slope, a.p, a.q)) {}
    [[nodiscard]] [[gnu::always_inline]] V height(const V& p, const V& q) const {
      return fma(V::broadcast(minus_slope), p, q);
    }
    [[nodiscard]] [[gnu::always_inline]] std::uint32_t below(const V& p, const V& q) const {
      return less_bits(height(p, q), V::broadcast(limit));
    }
    float minus_slope, limit;
  };

  void push(const Point& x) {
    if (hull_->n == EntryHull::kMost) return;
    hull_->p2[hull_->n] = 2 * x.p;
    hull_->q[hull_->n] = x.q;
    hull_->entry[hull_->n++] = x.entry;
  }
  void append(List& list, const Point& x) {
    const std::size_t at = list.begin + list.n++;
    p_[at] = x.p;
    q_[at] = x.q;
    entry_[at] = x.entry;
  }
  /// Fills the lanes after the end with points above every chord.
  void seal(const List& list) {
    const std::size_t end = list.begin + list.n;
    V::broadcast(0).store(p_ + end);
    V::broadcast(__builtin_inff()).store(q_ + end);
    used_ = end + kFloatLanes;
  }
  /// rung[k]: the point with the most 2p - scale·kLadder[k]·q, the first of equals.
  void climb(const float* p, const float* q, std::size_t n, float scale, Point (&rung)[kRungs]) {
    V minus_half[kRungs], all[kRungs];
    for (std::size_t k = 0; k < kRungs; ++k) {
      minus_half[k] = V::broadcast(-0.5F * scale * kLadder[k]);
      all[k] = V::broadcast(-__builtin_inff());
    }
    for (std::size_t b = 0; b < n / kBlock; ++b) {
      for (std::size_t k = 0; k < kRungs; ++k) {
        V most = V::broadcast(-__builtin_inff());
        for (std::size_t e = b * kBlock; e < (b + 1) * kBlock; e += kFloatLanes)
          most = max(fma(minus_half[k], V::load(q + e), V::load(p + e)), most);
        most_[b][k] = most;
        all[k] = max(most, all[k]);
      }
    }
    for (std::size_t k = 0; k < kRungs; ++k) {
      const V bound = V::broadcast(all[k].max_lane());
      std::size_t e = 0;
      while (less_bits(most_[e / kBlock][k], bound) == 0xFFFFU) e += kBlock;
      std::uint32_t less = 0xFFFFU;
      for (;; e += kFloatLanes) {
        less = less_bits(fma(minus_half[k], V::load(q + e), V::load(p + e)), bound);
        if (less != 0xFFFFU) break;
      }
      const std::size_t at = e + static_cast<std::size_t>(std::countr_one(less));
      rung[k] = {p[at], q[at], static_cast<std::uint16_t>(at)};
    }
  }
  /// below[k]: the points below the chord of rungs k and k + 1.
  void collect(const float* p, const float* q, std::size_t n, const Point (&rung)[kRungs],
               List (&below)[kRungs - 1]) {
    for (std::size_t k = 0; k + 1 < kRungs; ++k) {
      below[k] = {used_, 0};
      if (!(rung[k + 1].p > rung[k].p)) continue;
      const Chord chord(rung[k], rung[k + 1]);
      for (std::size_t e = 0; e < n; e += kFloatLanes) {
        for (std::uint32_t bits = chord.below(V::load(p + e), V::load(q + e)); bits != 0; bits &= bits - 1) {
          const std::size_t at = e + static_cast<std::size_t>(std::countr_zero(bits));
          append(below[k], {p[at], q[at], static_cast<std::uint16_t>(at)});
        }
      }
      seal(below[k]);
    }
  }
  /// The point of the list that is farthest below the chord.
  Point lowest(const Chord& chord, const List& list) const {
    const V minus = V::broadcast(-1.0F);
    V depth = V::broadcast(-__builtin_inff());
    for (std::size_t i = list.begin; i < list.begin + list.n; i += kFloatLanes)
      depth = max(minus * chord.height(V::load(p_ + i), V::load(q_ + i)), depth);
    const V bound = V::broadcast(depth.max_lane());
    std::size_t at = list.begin;
    for (std::size_t i = list.begin; i < list.begin + list.n; i += kFloatLanes) {
      const V d = minus * chord.height(V::load(p_ + i), V::load(q_ + i));
      const std::uint32_t equal = ~less_bits(d, bound) & 0xFFFFU;
      if (equal == 0) continue;
      at = i + static_cast<std::size_t>(std::countr_zero(equal));
      break;
    }
    return {p_[at], q_[at], entry_[at]};
  }
  List filter(const Chord& chord, const List& list) {
    List below{used_, 0};
    for (std::size_t i = list.begin; i < list.begin + list.n; i += kFloatLanes) {
      for (std::uint32_t bits = chord.below(V::load(p_ + i), V::load(q_ + i)); bits != 0; bits &= bits - 1) {
        const std::size_t at = i + static_cast<std::size_t>(std::countr_zero(bits));
        append(below, {p_[at], q_[at], entry_[at]});
      }
    }
    seal(below);
    return below;
  }
  /// Pushes the vertices between a and b, which are in the list, all below their chord.
  void split(const Point& a, const Point& b, const List& list) {
    if (list.n == 0 || hull_->n == EntryHull::kMost) return;
    const Point m =
        list.n == 1 ? Point{p_[list.begin], q_[list.begin], entry_[list.begin]} : lowest(Chord(a, b), list);
    if (!(a.p < m.p && m.p < b.p)) return;  // below by rounding only
    const std::size_t used = used_;
    if (list.n > 1 && used + list.n + kFloatLanes <= kRoom) split(a, m, filter(Chord(a, m), list));
    used_ = used;
    push(m);
    if (list.n > 1 && used + list.n + kFloatLanes <= kRoom) split(m, b, filter(Chord(m, b), list));
    used_ = used;
  }

  static constexpr std::size_t kRoom = 4 * kMostPoints;
  EntryHull* hull_ = nullptr;
  V most_[kMostPoints / kBlock][kRungs];
  std::size_t used_ = 0;  ///< of the arrays below, a stack of lists
  alignas(64) float p_[kRoom + kFloatLanes], q_[kRoom + kFloatLanes];
  std::uint16_t entry_[kRoom + kFloatLanes];
};

}  // namespace cria
