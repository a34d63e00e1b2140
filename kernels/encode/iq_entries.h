// The hull (kernels/encode/iq_hull.h) of a codebook's entries for a group of values, without
// looking at most of them: the gain 2P - c·Q of an entry is the sum of those of its halves, so all
// entries with a first half are left out if even the best second half that there is would not make
// them the best for any scale.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/encode/iq_books.h"
#include "kernels/encode/iq_hull.h"

namespace cria {

/// A group of values to encode; arrays of 2·kHalf.
struct IqGroup {
  const float* w;  ///< weights
  const float*
      wx;       ///< weights times values, or times magnitudes where entries have signs of their own
  float scale;  ///< about where the hull is of interest
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
  /// What an entry has to surpass at a scale to be a vertex; as halves: P - c/2·Q.
  struct Limits {
    V minus_half[kLimits];
    float gain[kLimits];
  };
  /// Where the best entries known for the ladder's scales give way to each other, and the ends: an
  /// entry whose gain, which is convex in c, surpasses theirs anywhere does so at one of these
  /// scales.
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

}  // namespace cria
