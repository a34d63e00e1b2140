// Basics of the encoders: sixteen blocks in sixteen lanes. Each lane searches the scale of its own
// block, and nothing is summed across lanes.
#pragma once

#include <type_traits>

#include "kernels/formats/formats.h"
#include "kernels/kernels.h"
#include "kernels/simd/f32x16.h"
#include "kernels/simd/namespace.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

/// The encoder of a type, specialised for every type that can be a weight matrix.
template <class Isa, DType type>
inline constexpr EncodeFn kEncoder = nullptr;

/// Weights beyond this are taken for this: far more than any block can hold, and the squares stay
/// finite. NaN is taken for it, too.
inline constexpr float kLargestWeight = 0x1p40F;
/// Lower limit of importance, relative to the block's largest: values that were never used are
/// still encoded sensibly.
inline constexpr float kMinImportance = 0x1p-24F;
/// The least f16 above 0.
inline constexpr float kMinF16 = 0x1p-24F;

template <class Isa>
[[gnu::always_inline]] inline F32x16<Isa> limited(const F32x16<Isa>& x, float limit) {
  using V = F32x16<Isa>;
  return max(min(x, V::broadcast(limit)), V::broadcast(-limit));
}

/// Importance as a weight: no less than 0, finite.
template <class Isa>
[[gnu::always_inline]] inline F32x16<Isa> sane_importance(const F32x16<Isa>& w) {
  using V = F32x16<Isa>;
  return min(max(w, V::broadcast(0)), V::broadcast(0x1p100F));
}

/// The f16 nearest to each number; too large ones become the largest. 0 for numbers that are nearer
/// to it.
template <class Isa>
[[gnu::always_inline]] inline F32x16<Isa> to_f16_and_back(const F32x16<Isa>& x) {
  std::byte half[2 * kFloatLanes];
  limited(x, kF16Max).store_f16(half);
  return F32x16<Isa>::template load_as<Stored::F16>(half);
}

/// The same for scales, but 0 only for what no type can tell from it: one that is not 0 is of more
/// use if too large. Its codes are found again.
template <class Isa>
[[gnu::always_inline]] inline F32x16<Isa> to_f16_scale(const F32x16<Isa>& x) {
  using V = F32x16<Isa>;
  const V zero = V::broadcast(0), half = to_f16_and_back(x);
  const V least = select_less(x, zero, V::broadcast(-kMinF16), V::broadcast(kMinF16));
  const V some = select_less(V::broadcast(0x1p-100F), abs(x), least, zero);
  return select_less(abs(half), V::broadcast(kMinF16), some, half);
}

/// The same, but where f16 is coarse the best of the nearest, its neighbours (0 is one of the
/// least) and its negative, by error(scale).
template <class Isa, class Error>
[[gnu::always_inline]] inline F32x16<Isa> to_best_f16_scale(const F32x16<Isa>& x, Error error) {
  using V = F32x16<Isa>;
  const V nearest = to_f16_scale(x), coarse = V::broadcast(0x1p-16F);
  if (less_bits(abs(nearest), coarse) == 0) return nearest;
  V best = nearest, least = error(nearest);
  for (const V& other : {nearest - V::broadcast(kMinF16), nearest + V::broadcast(kMinF16),
                         V::broadcast(0) - nearest}) {
    const V others = select_less(abs(nearest), coarse, error(other), least);
    best = select_less(others, least, other, best);
    least = min(others, least);
  }
  return best;
}

/// 1/x, or 0 if x is too small for any type to distinguish from 0.
template <class Isa>
[[gnu::always_inline]] inline F32x16<Isa> inverse_or_0(const F32x16<Isa>& x) {
  using V = F32x16<Isa>;
  return select_less(V::broadcast(0x1p-100F), abs(x), V::broadcast(1) / x, V::broadcast(0));
}

/// Up to sixteen blocks of N values with their weights of importance, value i of every block in one
/// vector.
template <class Isa, std::size_t N, bool weighted>
class BlockLanes {
  using V = F32x16<Isa>;

 public:
  /// The n_blocks at x; the other lanes are zero. `shared` consecutive lanes make up a super-block,
  /// whose largest importance counts as 1.
  BlockLanes(const float* x, const float* importance, std::size_t n_blocks,
             std::size_t shared = 1) {
    transpose(x, n_blocks, x_);
    for (std::size_t i = 0; i < N; ++i) limited<Isa>(V::load(x_[i]), kLargestWeight).store(x_[i]);
    if constexpr (weighted) {
      transpose(importance, n_blocks, w_.rows);
      normalize_importance(shared);
    }
  }
  [[gnu::always_inline]] V x(std::size_t i) const { return V::load(x_[i]); }
  [[gnu::always_inline]] V w(std::size_t i) const {
    if constexpr (weighted) return V::load(w_.rows[i]);
    return V::broadcast(1);
  }
  /// The importance that counts as 1 in each lane.
  [[nodiscard]] V unit() const {
    if constexpr (weighted) return V::load(w_.unit);
    return V::broadcast(1);
  }
  /// Multiplies the values of each lane.
  void scale(const V& factor) {
    for (std::size_t i = 0; i < N; ++i) (x(i) * factor).store(x_[i]);
  }
  /// w·v
  [[gnu::always_inline]] V weigh(std::size_t i, const V& v) const {
    if constexpr (weighted) return V::load(w_.rows[i]) * v;
    return v;
  }

 private:
  static void transpose(const float* from, std::size_t n_blocks, float (*to)[kFloatLanes]) {
    for (std::size_t b = 0; b < kFloatLanes; ++b)
      for (std::size_t i = 0; i < N; ++i) to[i][b] = b < n_blocks ? from[b * N + i] : 0.0F;
  }
  void normalize_importance(std::size_t shared) {
    V most = V::broadcast(0);
    for (std::size_t i = 0; i < N; ++i) {
      const V sane = sane_importance<Isa>(V::load(w_.rows[i]));
      sane.store(w_.rows[i]);
      most = max(most, sane);
    }
    alignas(64) float lanes[kFloatLanes], factor[kFloatLanes], least[kFloatLanes];
    most.store(lanes);
    for (std::size_t first = 0; first < kFloatLanes; first += shared) {
      float top = 0;
      for (std::size_t l = first; l < first + shared; ++l) top = lanes[l] > top ? lanes[l] : top;
      const bool none = !(top > 0x1p-100F);
      for (std::size_t l = first; l < first + shared; ++l) {
        factor[l] = none ? 0.0F : 1.0F / top;
        least[l] = none ? 1.0F : kMinImportance;
        w_.unit[l] = none ? 0x1p-100F : top;  // hardly counts
      }
    }
    for (std::size_t i = 0; i < N; ++i)
      max(V::load(w_.rows[i]) * V::load(factor), V::load(least)).store(w_.rows[i]);
  }

  struct Importance {
    alignas(64) float rows[N][kFloatLanes], unit[kFloatLanes];
  };
  struct None {};
  alignas(64) float x_[N][kFloatLanes];
  [[no_unique_address]] std::conditional_t<weighted, Importance, None> w_;
};

/// Bytes of sixteen blocks, computed in lanes: byte i of every block from one vector of integers
/// 0…255.
template <class Isa, std::size_t N>
class ByteLanes {
  using V = F32x16<Isa>;

 public:
  [[gnu::always_inline]] void set(std::size_t i, const V& v) {
    (v - V::broadcast(128)).store_i8(rows_[i]);
  }
  /// Bytes first … first + n of one lane.
  void copy(std::size_t lane, std::size_t first, std::size_t n, std::uint8_t* to) const {
    for (std::size_t i = 0; i < n; ++i)
      to[i] = static_cast<std::uint8_t>(rows_[first + i][lane] ^ -128);
  }

 private:
  alignas(64) std::int8_t rows_[N][kFloatLanes];
};

/// True if an instruction set encodes without importance as if all of it were 1: the same bits,
/// half the code.
template <class Isa>
inline constexpr bool kWeightedOnly = std::is_same_v<Isa, ScalarIsa>;

template <std::size_t N>
struct Ones {
  constexpr Ones() {
    for (float& value : at) value = 1;
  }
  float at[N];
};

/// Calls f(x, importance, number of blocks ≤ Batch, where they go) over a row. No importance is
/// nullptr, or 1 for each value if `weighted`.
template <class Block, std::size_t Values, std::size_t Batch, bool weighted, class F>
[[gnu::always_inline]] inline void each_batch(const float* x, const float* importance,
                                              std::size_t n, std::byte* blocks, F f) {
  static constexpr Ones<weighted ? Values * Batch : 1> kOnes;
  const std::size_t n_blocks = n / Values;
  for (std::size_t b = 0; b < n_blocks; b += Batch) {
    const std::size_t some = n_blocks - b < Batch ? n_blocks - b : Batch;
    const float* const none = weighted ? kOnes.at : nullptr;
    f(x + b * Values, importance == nullptr ? none : importance + b * Values, some,
      blocks + b * sizeof(Block));
  }
}

/// An EncodeFn that calls plain, or with importance weighted, for up to Batch blocks at a time:
/// (x, importance, number of blocks, destination).
template <class Block, std::size_t Values, std::size_t Batch, auto plain, auto weighted>
void encode_batches(const float* x, const float* importance, std::size_t n, std::byte* blocks) {
  each_batch<Block, Values, Batch, plain == weighted>(
      x, importance, n, blocks,
      [](const float* some, const float* w, std::size_t n_blocks, std::byte* out) {
        (w == nullptr ? plain : weighted)(some, w, n_blocks, out);
      });
}
/// Encodes up to a batch by an object of class Coder.
template <class Coder>
void encode_by(const float* x, const float* importance, std::size_t n_blocks, std::byte* out) {
  Coder(x, importance, n_blocks).store(n_blocks, out);
}

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
