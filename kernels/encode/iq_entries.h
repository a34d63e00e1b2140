// Finds the entries of a codebook that can be nearest to a group of values, for all scales at once.
//
// A group of values x with weights w, encoded as c·e for an entry e, costs
// - Σ w (x - c e)² = Σ w x² - c (2 P - c Q) with P = Σ w x e and Q = Σ w e².
//
// So for every scale c > 0 the best entry is a vertex of the lower convex hull of the points (P,
// Q): the one that maximises 2P - c·Q. The hull has a dozen vertices of hundreds of entries. With
// the hull, the best entry for a scale costs a dozen multiplications and is exact.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "kernels/encode/iq_books.h"
#include "kernels/simd/f32x16.h"
#include "kernels/simd/namespace.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

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

/// Scales at which hulls are evaluated first, relative to the group's typical scale. Hulls are cut
/// off beyond the ends.
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

/// A group of values to encode; arrays of 2·kHalf.
struct IqGroup {
  const float* w;  ///< weights
  const float*
      wx;       ///< weights times values, or times magnitudes where entries have signs of their own
  float scale;  ///< typical scale
  float shift;  ///< is added to every value of an entry
};

/// kFlip: the cheapest of the values has the wrong sign.
/// kPruned: leave entries out; in small codebooks they are looked at faster.
template <class Isa, std::size_t kHalf, bool kPruned, bool kFlip, bool kShifted>
class EntrySearch {
  using V = F32x16<Isa>;
  static constexpr std::size_t kMaxHalves = EncoderBook::kMaxHalves, kRungs = kHullLadder.size(),
                               kLimits = kRungs + 1;

 public:
  void find(const EncoderBook& book, const IqGroup& group, HullFinder<Isa>& finder,
            EntryHull& hull) {
    book_ = &book;
    group_ = &group;
    if constexpr (kPruned) {
      n_ = 0;
      sum_halves(book.first, 0, first_);
      sum_halves(book.second, kHalf, second_);
      take_promising();
      Limits limits;
      set_limits(limits);
      take_possible(limits);
    } else {
      take_all();
    }
    finder.find(points(), group.scale, hull);
  }

 private:
  struct Sums {
    alignas(64) float p[kMaxHalves], q[kMaxHalves], flipped[kFlip ? kMaxHalves : 1];
  };
  [[nodiscard]] EntryPoints points() const {
    return {p_, q_, kPruned ? entry_ : book_->number, n_};
  }

  /// P, Q and the cheapest change of sign of 16 entries or halves that start at a coordinate of the
  /// group.
  struct Lanes {
    V p, q, least;
  };
  template <std::size_t kCount>
  [[gnu::always_inline]] Lanes sum(const EntryPlanes& halves, std::size_t at,
                                   std::size_t coordinate) const {
    Lanes sums{V::broadcast(0), V::broadcast(0), V::broadcast(__builtin_inff())};
    CRIA_UNROLL
    for (std::size_t i = 0; i < kCount; ++i) {
      V value = V::load(halves.value + i * halves.n + at),
        square = V::load(halves.square + i * halves.n + at);
      if constexpr (kShifted) {
        value = value + V::broadcast(group_->shift);
        square = value * value;
      }
      const V wx = V::broadcast(group_->wx[coordinate + i]);
      if constexpr (kFlip) sums.least = min(value * wx, sums.least);
      sums.p = fma(value, wx, sums.p);
      sums.q = fma(square, V::broadcast(group_->w[coordinate + i]), sums.q);
    }
    return sums;
  }
  void sum_halves(const EntryPlanes& halves, std::size_t coordinate, Sums& out) const {
    for (std::size_t j = 0; j < halves.n; j += kFloatLanes) {
      const Lanes sums = sum<kHalf>(halves, j, coordinate);
      sums.p.store(out.p + j);
      sums.q.store(out.q + j);
      if constexpr (kFlip) sums.least.store(out.flipped + j);
    }
  }
  void take_all() {
    for (n_ = 0; n_ < book_->all.n; n_ += kFloatLanes) {
      const Lanes sums = sum<2 * kHalf>(book_->all, n_, 0);
      (kFlip ? fma(V::broadcast(-2), sums.least, sums.p) : sums.p).store(p_ + n_);
      sums.q.store(q_ + n_);
    }
  }
  /// Adds the entries with first half r to the points.
  void take(std::size_t r) {
    const V p = V::broadcast(first_.p[r]), q = V::broadcast(first_.q[r]);
    for (std::size_t slot = book_->run[r]; slot < book_->run[r + 1];
         slot += kFloatLanes, n_ += kFloatLanes) {
      const Lanes sums = sum<kHalf>(book_->slots, slot, kHalf);
      V all = sums.p + p;
      if constexpr (kFlip)
        all = fma(V::broadcast(-2), min(sums.least, V::broadcast(first_.flipped[r])), all);
      all.store(p_ + n_);
      (sums.q + q).store(q_ + n_);
      __builtin_memcpy(entry_ + n_, book_->entry + slot, kFloatLanes * sizeof *entry_);
    }
  }

  [[gnu::always_inline]] static V gain(const Sums& sums, std::size_t at, const V& minus_half) {
    return fma(minus_half, V::load(sums.q + at), V::load(sums.p + at));
  }
  /// Takes the first halves that are best for the scales of the ladder.
  void take_promising() {
    for (std::size_t r = 0; r < book_->first.n; ++r) taken_[r] = false;
    typename HullFinder<Isa>::Point best[kRungs];
    HullFinder<Isa>::climb({first_.p, first_.q, book_->number, book_->first.n}, group_->scale,
                           best);
    for (const auto& half : best) {
      if (!taken_[half.entry]) take(half.entry);
      taken_[half.entry] = true;
    }
  }
  /// The gain that an entry must exceed at a scale to be a vertex, halved: P - c/2·Q.
  struct Limits {
    V minus_half[kLimits];
    float gain[kLimits];
  };
  /// Sets limits at the crossings between the best known entries of the ladder's scales, and at
  /// both ends. Gains are convex in c, so an entry that exceeds the known ones anywhere does so at
  /// one of these scales.
  void set_limits(Limits& limits) const {
    typename HullFinder<Isa>::Point best[kRungs];
    HullFinder<Isa>::climb(points(), group_->scale, best);
    const auto set = [&](std::size_t k, float half, const auto& point) {
      limits.minus_half[k] = V::broadcast(-half);
      limits.gain[k] = __builtin_fmaf(-half, point.q, point.p);
    };
    for (std::size_t k = 0; k <= kRungs; ++k) {
      const auto& above = best[k < kRungs ? k : kRungs - 1];
      const float p = k == 0 ? 0 : above.p - best[k - 1].p,
                  q = k == 0 ? 0 : above.q - best[k - 1].q;
      const bool crossing = p > 0 && q > 0;
      set(k, crossing ? p / q : 0.5F * kHullLadder[k == 0 ? 0 : kRungs - 1] * group_->scale, above);
    }
  }
  /// Takes the first halves which, with the best of the second halves, surpass a limit.
  void take_possible(const Limits& limits) {
    V own[kLimits], flipped[kLimits];
    for (std::size_t k = 0; k < kLimits; ++k) own[k] = flipped[k] = V::broadcast(-__builtin_inff());
    for (std::size_t j = 0; j < book_->second.n; j += kFloatLanes) {
      CRIA_UNROLL
      for (std::size_t k = 0; k < kLimits; ++k) {
        const V g = gain(second_, j, limits.minus_half[k]);
        own[k] = max(g, own[k]);
        if constexpr (kFlip)
          flipped[k] = max(fma(V::broadcast(-2), V::load(second_.flipped + j), g), flipped[k]);
      }
    }
    for (std::size_t k = 0; k < kLimits; ++k) {
      own[k] = V::broadcast(limits.gain[k] - own[k].max_lane());
      if constexpr (kFlip) flipped[k] = V::broadcast(limits.gain[k] - flipped[k].max_lane());
    }
    for (std::size_t r = 0; r < book_->first.n; r += kFloatLanes) {
      std::uint32_t bits = 0;
      CRIA_UNROLL
      for (std::size_t k = 0; k < kLimits; ++k) {
        const V g = gain(first_, r, limits.minus_half[k]);
        if constexpr (kFlip) {
          bits |= less_bits(flipped[k], g) |
                  less_bits(own[k], fma(V::broadcast(-2), V::load(first_.flipped + r), g));
        } else {
          bits |= less_bits(own[k], g);
        }
      }
      for (; bits != 0; bits &= bits - 1) {
        const std::size_t at = r + static_cast<std::size_t>(std::countr_zero(bits));
        if (!taken_[at]) take(at);
      }
    }
  }

  const EncoderBook* book_ = nullptr;
  const IqGroup* group_ = nullptr;
  Sums first_, second_;
  bool taken_[kMaxHalves];
  std::size_t n_ = 0;
  alignas(64) float p_[EncoderBook::kMaxSlots], q_[EncoderBook::kMaxSlots];
  std::uint16_t entry_[EncoderBook::kMaxSlots];
};

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
