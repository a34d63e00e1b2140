// The types whose rows share d: rows of d·s·value, an integer s per 32 and, but for IQ2_KL, one of
// two tables of values. A row is walked several times: for the scales that its sub-blocks want, for
// the d that suits them best, and for their integers.
#pragma once

#include "kernels/encode/lanes.h"
#include "kernels/encode/pack.h"
#include "kernels/encode/search.h"
#include "kernels/simd/namespace.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

/// The codes of kIq4Values with an even (0) or odd (1) number of ones, by value.
template <int parity>
inline constexpr std::array<std::int8_t, 8> kIq4OfParity = [] {
  std::array<std::int8_t, 8> values{};
  std::size_t n = 0;
  for (unsigned code = 0; code < kIq4Values.size(); ++code)
    if (std::popcount(code) % 2 == parity) values[n++] = kIq4Values[code];
  return values;
}();

/// IQ4_KSS: the four codes of a word have an even number of ones together. If the nearest have
/// an odd one, the value that loses least takes its nearest of the other parity.
template <class Isa, int shift>
struct EvenWordGrid : TableGrid<Isa, kIq4Values, shift> {
  using V = F32x16<Isa>;
  template <class Lanes, class F>
  static void each_nearest(const Lanes& block, const V& factor, F f) {
    for (std::size_t k = 0; k < 8; ++k) each_of_word(block, factor, 2 * k, f);
  }

 private:
  template <class Lanes, class F>
  static void each_of_word(const Lanes& block, const V& factor, std::size_t first, F f) {
    const V zero = V::broadcast(0), one = V::broadcast(1);
    V best[4], other[4], odd = zero, least = V::broadcast(__builtin_inff()), loser = zero;
    const auto index = [&](std::size_t m) { return first + m % 2 + m / 2 * 16; };
    for (std::size_t m = 0; m < 4; ++m) {
      const V x = block.x(index(m)) * factor;
      const auto error = [&](const V& value) {
        return block.weigh(index(m), value - x) * (value - x);
      };
      const V even = TableGrid<Isa, kIq4OfParity<0>, shift>::nearest(x),
              uneven = TableGrid<Isa, kIq4OfParity<1>, shift>::nearest(x);
      const V loss = error(uneven) - error(even);
      best[m] = select_less(loss, zero, uneven, even);
      other[m] = select_less(loss, zero, even, uneven);
      odd = abs(odd - select_less(loss, zero, one, zero));
      loser = select_less(abs(loss), least, V::broadcast(static_cast<float>(m)), loser);
      least = min(abs(loss), least);
    }
    const V changed = select_less(zero, odd, loser, V::broadcast(-1));
    for (std::size_t m = 0; m < 4; ++m)
      f(index(m), select_less(abs(changed - V::broadcast(static_cast<float>(m))),
                              V::broadcast(0.5F), other[m], best[m]));
  }
};

/// IQ2_KL: the nearest of 32 pairs.
template <class Isa>
struct PairGrid : TableGrid<Isa, kIq3Values> {
  using V = F32x16<Isa>;
  template <class Lanes, class F>
  static void each_nearest(const Lanes& block, const V& factor, F f) {
    for (std::size_t p = 0; p < 16; ++p) {
      V errors[2][8];
      for (std::size_t h = 0; h < 2; ++h) {
        const V x = block.x(2 * p + h) * factor;
        for (std::size_t i = 0; i < 8; ++i) {
          const V e = V::broadcast(kIq3Values[i]) - x;
          errors[h][i] = block.weigh(2 * p + h, e) * e;
        }
      }
      V least = V::broadcast(__builtin_inff()), first = V::broadcast(0), second = first;
      CRIA_UNROLL
      for (std::size_t code = 0; code < kIq2klPairs.size(); ++code) {
        const std::size_t a = kIq2klPairs[code] / 8U, b = kIq2klPairs[code] % 8U;
        const V error = errors[0][a] + errors[1][b];
        first = select_less(error, least, V::broadcast(kIq3Values[a]), first);
        second = select_less(error, least, V::broadcast(kIq3Values[b]), second);
        least = min(error, least);
      }
      f(2 * p, first);
      f(2 * p + 1, second);
    }
  }
};

/// The differences between the types: their grids, their s, the neighbours of s that are tried on
/// either side, and the sizes of d that are tried, relative to the one for the largest s.
template <class Isa, class Block>
struct RowScaleType {
  using Plain = TableGrid<Isa, Block::kValues>;
  using Shifted = TableGrid<Isa, Block::kValues, Block::kShift>;
  static constexpr ScaleRange kRange = {-127, 127, 2};
  static constexpr int kBeside = 1;
  static constexpr Starts kStarts = {0.85F, 1.2F, 6}, kSizes = {1, 1, 1};
};
template <class Isa>
struct RowScaleType<Isa, BlockIQ4_KSS> : RowScaleType<Isa, BlockIQ4_KS> {
  using Plain = EvenWordGrid<Isa, 0>;
  using Shifted = EvenWordGrid<Isa, kIq4Shift>;
  static constexpr int kBeside = 2;
};
template <class Isa>
struct RowScaleType<Isa, BlockIQ2_KS> {
  using Plain = TableGrid<Isa, kIq2Values>;
  using Shifted = TableGrid<Isa, kIq2Values, BlockIQ2_KS::kShift>;
  static constexpr ScaleRange kRange = {-16, 15};
  static constexpr int kBeside = 2;
  static constexpr Starts kStarts = {0.6F, 2.4F, 10}, kSizes = {0.7F, 1.05F, 8};
};
template <class Isa>
struct RowScaleType<Isa, BlockIQ3_KS> {
  using Plain = TableGrid<Isa, kIq3Values>;
  using Shifted = TableGrid<Isa, kIq3Values, BlockIQ3_KS::kShift>;
  static constexpr ScaleRange kRange = {-16, 15};
  static constexpr int kBeside = 2;
  static constexpr Starts kStarts = {0.7F, 1.7F, 8}, kSizes = {0.7F, 1.05F, 8};
};
template <class Isa>
struct RowScaleType<Isa, BlockIQ2_KL> {
  using Plain = PairGrid<Isa>;
  using Shifted = Plain;
  static constexpr ScaleRange kRange = {-32, 31};
  static constexpr int kBeside = 1;
  static constexpr Starts kStarts = {0.7F, 2, 6}, kSizes = {0.8F, 1.05F, 4};
};

template <class Isa, DType type, bool weighted>
class RowScaleLanes {
  using V = F32x16<Isa>;
  using Block = typename Format<type>::Block;
  using Type = RowScaleType<Isa, Block>;
  using Plain = typename Type::Plain;
  using Shifted = typename Type::Shifted;
  static constexpr std::size_t kSubBlocks = 8;  // per block
  static constexpr int kLow = Type::kRange.low, kStep = Type::kRange.step;

 public:
  static constexpr std::size_t kBlocks = kFloatLanes / kSubBlocks;  ///< at once
  static constexpr int kFits = std::is_same_v<Plain, Shifted> ? 1 : 2;
  using Fits = V[kFits];  ///< the scale that sub-blocks want of each table

  /// Up to two blocks: their sub-blocks in lanes.
  RowScaleLanes(const float* x, const float* importance, std::size_t n_blocks)
      : block_(x, importance, n_blocks * kSubBlocks, kSubBlocks),
        plain_(block_),
        shifted_(block_) {}

  /// Finds the scales. The return value is the largest that the sub-blocks want.
  float fit(Fits& scales) const {
    ScaleFit<Isa> best = best_of(plain_);
    scales[0] = best.scale;
    if constexpr (kFits == 2) {
      const ScaleFit<Isa> other = best_of(shifted_);
      scales[1] = other.scale;
      best.better_of(other);
    }
    alignas(64) float lanes[kFloatLanes];
    group_peak<Isa, kFloatLanes>(best.scale).store(lanes);
    return lanes[0];
  }
  /// Chooses s and the table of every sub-block, given d.
  void choose(float d, const Fits& scales) {
    d_ = V::broadcast(d);
    s_ = shift_ = V::broadcast(0);
    error_ = kStep == 1 ? plain_.error(s_) : V::broadcast(__builtin_inff());
    for (int beside = -Type::kBeside; beside <= Type::kBeside; ++beside) {
      try_scale(plain_, scales[0], beside, 0);
      if constexpr (kFits == 2) try_scale(shifted_, scales[1], beside, 1);
    }
  }
  /// The error of all sub-blocks, weighted by importance.
  [[nodiscard]] double error(std::size_t n_blocks) const {
    alignas(64) float lanes[kFloatLanes], units[kFloatLanes];
    error_.store(lanes);
    block_.unit().store(units);
    double sum = 0;
    for (std::size_t l = 0; l < n_blocks * kSubBlocks; ++l)
      sum += static_cast<double>(lanes[l]) * static_cast<double>(units[l]);
    return sum;
  }
  void store(std::size_t n_blocks, std::byte* out) const {
    const V factor = inverse_or_0(d_ * s_), half = V::broadcast(0.5F);
    V codes[32];
    each_nearest<Plain, 32>(block_, factor,
                            [&](std::size_t i, const V& q) { codes[i] = Plain::code(q); });
    if constexpr (kFits == 2)
      each_nearest<Shifted, 32>(block_, factor, [&](std::size_t i, const V& q) {
        codes[i] = select_less(half, shift_, Shifted::code(q), codes[i]);
      });
    store_super_blocks<Isa, Block, 32>([&](std::size_t i) { return codes[i]; }, d_, d_,
                                       s_ - V::broadcast(kLow), shift_, n_blocks, out);
  }

 private:
  template <class S>
  static ScaleFit<Isa> best_of(const S& search) {
    ScaleFit<Isa> best = search.best_of(Type::kStarts);
    for (int again = 0; again < 2; ++again) best.better_of(search.fit(inverse_or_0(best.scale)));
    return best;
  }
  /// Tries the s nearest to the wanted scale, or a neighbour.
  template <class S>
  void try_scale(const S& search, const V& wanted, int beside, float shifted) {
    const V whole = nearest_scale<Isa, Type::kRange>(wanted * inverse_or_0(d_)),
            s = nearest_scale<Isa, Type::kRange>(whole +
                                                 V::broadcast(static_cast<float>(beside * kStep)));
    const V error = search.error(d_ * s);
    s_ = select_less(error, error_, s, s_);
    shift_ = select_less(error, error_, V::broadcast(shifted), shift_);
    error_ = select_less(error, error_, error, error_);
  }

  BlockLanes<Isa, 32, weighted> block_;
  SymmetricSearch<Isa, Plain, 32, weighted> plain_;
  SymmetricSearch<Isa, Shifted, 32, weighted> shifted_;
  V d_, s_, shift_, error_;
};

/// The d for which the largest scale of a row becomes the s at the end of their range, times a
/// size.
template <class Isa, DType type>
float row_scale_of(float largest, float size) {
  constexpr ScaleRange kRange = RowScaleType<Isa, typename Format<type>::Block>::kRange;
  if (kRange.low == -kRange.high) largest = __builtin_fabsf(largest) * -1;
  const float d = largest / (static_cast<float>(kRange.low) * size);
  if constexpr (std::is_same_v<typename Format<type>::Header, F16Header>) {
    alignas(64) float lanes[kFloatLanes];
    to_f16_scale(F32x16<Isa>::broadcast(d)).store(lanes);
    return lanes[0];
  }
  return d;
}

/// The blocks of a row. Until the row's scale is known, their memory holds the scales that fit
/// them best.
template <class Isa, DType type, bool weighted>
class RowScaleRow {
  using V = F32x16<Isa>;
  using Block = typename Format<type>::Block;
  using Lanes = RowScaleLanes<Isa, type, weighted>;
  using Fits = typename Lanes::Fits;
  static constexpr std::size_t kPerBlock = kFloatLanes / Lanes::kBlocks;  // scales of a table
  static_assert(Lanes::kFits * kPerBlock * sizeof(float) <= sizeof(Block));

 public:
  RowScaleRow(const float* x, const float* importance, std::size_t n, std::byte* blocks)
      : x_(x), importance_(importance), n_(n), blocks_(blocks) {}

  /// Fits the scales; the return value is the largest.
  float fit() const {
    float most = 0;
    each([&](Lanes&& lanes, std::size_t n_blocks, std::byte* out) {
      Fits fits;
      const float scale = lanes.fit(fits);
      most = __builtin_fabsf(scale) > __builtin_fabsf(most) ? scale : most;
      for (std::size_t i = 0; i < Lanes::kFits; ++i) {
        alignas(64) float scales[kFloatLanes];
        fits[i].store(scales);
        for (std::size_t b = 0; b < n_blocks; ++b)
          __builtin_memcpy(waiting(out, b, i), scales + b * kPerBlock, kPerBlock * sizeof(float));
      }
    });
    return most;
  }
  [[nodiscard]] double error(float d) const {
    double sum = 0;
    each([&](Lanes&& lanes, std::size_t n_blocks, const std::byte* out) {
      choose(lanes, d, n_blocks, out);
      sum += lanes.error(n_blocks);
    });
    return sum;
  }
  void store(float d) const {
    each([&](Lanes&& lanes, std::size_t n_blocks, std::byte* out) {
      choose(lanes, d, n_blocks, out);
      lanes.store(n_blocks, out);
    });
  }

 private:
  template <class F>
  void each(F f) const {
    each_batch<Block, 256, Lanes::kBlocks, weighted>(
        x_, importance_, n_, blocks_,
        [&](const float* x, const float* w, std::size_t n_blocks, std::byte* out) {
          f(Lanes(x, w, n_blocks), n_blocks, out);
        });
  }
  template <class Byte>
  static Byte* waiting(Byte* out, std::size_t block, std::size_t table) {
    return out + block * sizeof(Block) + table * kPerBlock * sizeof(float);
  }
  static void choose(Lanes& lanes, float d, std::size_t n_blocks, const std::byte* out) {
    Fits fits;
    for (std::size_t i = 0; i < Lanes::kFits; ++i) {
      alignas(64) float scales[kFloatLanes] = {};
      for (std::size_t b = 0; b < n_blocks; ++b)
        __builtin_memcpy(scales + b * kPerBlock, waiting(out, b, i), kPerBlock * sizeof(float));
      fits[i] = V::load(scales);
    }
    lanes.choose(d, fits);
  }

  const float *x_, *importance_;
  std::size_t n_;
  std::byte* blocks_;
};

/// Returns the last factor of d. Codes of least error are too small as a whole, by the share of
/// the row that they miss, and a row of its own size diverges less (measured on the demo model).
inline float size_correction(double error, double whole) {
  constexpr double kMax = 0.12;  // larger shares come from weights that codes can hardly describe
  const double missed = whole > 0 ? error / whole : 0;
  return static_cast<float>(1 / __builtin_sqrt(1 - (missed < kMax ? missed : kMax)));
}

template <class Isa, DType type, bool weighted>
void encode_row_scale(const float* x, const float* importance, std::size_t n, std::byte* row) {
  constexpr Starts kSizes = RowScaleType<Isa, typename Format<type>::Block>::kSizes;
  const RowScaleRow<Isa, type, weighted> blocks(x, importance, n, row + kHeaderBytes<type>);
  const float most = blocks.fit();
  float d = row_scale_of<Isa, type>(most, 1), correction = 1;
  if constexpr (kSizes.count > 1) {
    double least = blocks.error(d);
    for (int i = 0; i < kSizes.count; ++i) {
      const float other = row_scale_of<Isa, type>(most, kSizes.at(i));
      const double error = blocks.error(other);
      d = error < least ? other : d;
      least = error < least ? error : least;
    }
    correction = size_correction(least, blocks.error(0));
  }
  blocks.store(d);
  typename Format<type>::Header header;
  header.set(kSizes.count > 1 && __builtin_fabsf(d * correction) > kF16Max ? d : d * correction);
  __builtin_memcpy(row, &header, sizeof header);
}

template <class Isa, DType type>
inline constexpr EncodeFn kRowScale =
    [](const float* x, const float* importance, std::size_t n, std::byte* row) {
      (importance == nullptr ? encode_row_scale<Isa, type, kWeightedOnly<Isa>>
                             : encode_row_scale<Isa, type, true>)(x, importance, n, row);
    };

template <class Isa>
inline constexpr EncodeFn kEncoder<Isa, DType::IQ4_KS> = kRowScale<Isa, DType::IQ4_KS>;
template <class Isa>
inline constexpr EncodeFn kEncoder<Isa, DType::IQ5_KS> = kRowScale<Isa, DType::IQ5_KS>;
template <class Isa>
inline constexpr EncodeFn kEncoder<Isa, DType::IQ4_KSS> = kRowScale<Isa, DType::IQ4_KSS>;
template <class Isa>
inline constexpr EncodeFn kEncoder<Isa, DType::IQ2_KS> = kRowScale<Isa, DType::IQ2_KS>;
template <class Isa>
inline constexpr EncodeFn kEncoder<Isa, DType::IQ3_KS> = kRowScale<Isa, DType::IQ3_KS>;
template <class Isa>
inline constexpr EncodeFn kEncoder<Isa, DType::IQ2_KL> = kRowScale<Isa, DType::IQ2_KL>;

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
