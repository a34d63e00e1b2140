// Row-per-register GEMV of AVX2: a register holds 32 columns of one row (in gemv.h: 16 columns of
// two). Weights are loaded without inserts, and the activations of a block, rearranged once, serve
// eight rows. A row's eight int32 are summed for eight rows together.
#pragma once

#include <immintrin.h>

#include <array>

#include "kernels/formats/formats.h"
#include "kernels/gemv/gemv.h"
#include "kernels/lanes/iq4.h"
#include "kernels/lanes/k.h"
#include "kernels/simd/avx2.h"
#include "kernels/simd/namespace.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

/// The row-per-register GEMV of a type; an object holds the state shared by the blocks of eight
/// rows. Specialised below and in avx2_row_k.h, avx2_row_iq.h.
/// - Block
/// - kShift: the integer sum is shifted left by this
/// - Avx2Row(rows, offset, q, sum): for the blocks at `offset` of the rows, 256 activations and 16
///   sums
/// - row(p, r, sum): fills eight int32 whose total is the integer sum of row r, with its block at p
/// - d(), dmin(): scales of the eight rows
/// - more(): optional: added to the integer sums of the eight rows
/// - kNeighbours: optional: never read as streams, which lose on Zen 3
///
/// Types with mins have one of
/// - row(p, r, sum, min): also computes the mins, not shifted
/// - mins(): their integer sums
template <DType type>
class Avx2Row;

CRIA_INLINE inline __m256i load256(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}
/// Sixteen bytes in both halves, always from memory: GCC would assemble them from another load,
/// which takes a shuffle.
CRIA_INLINE inline __m256i both_halves(const void* p) {
  asm("" : "+r"(p));
  return RowLanes<Avx2>::same(p);
}

/// The same of 32 bytes: it would load them again for every use, and they often lie across two
/// cache lines.
CRIA_INLINE inline __m256i load_once256(const void* p) {
  __m256i v = load256(p);
  pin(v);
  return v;
}

/// The scales of the eight rows' blocks, which the rows then load.
template <DType type>
class Avx2RowScales {
  using Lanes = LaneType<RowLanes<Avx2>, type>;
  static constexpr int kVecs = Lanes::kScales / 8;

 public:
  CRIA_INLINE Avx2RowScales(const std::byte* const* rows, std::size_t offset) {
    unroll<4>([&](int k) CRIA_INLINE {
      __m256i two_rows[kVecs];
      Lanes::scales(rows + k, offset, two_rows);
      for (int i = 0; i < kVecs; ++i) {
        scales_[k][i] = _mm256_castsi256_si128(two_rows[i]);
        scales_[k + 4][i] = _mm256_extracti128_si256(two_rows[i], 1);
      }
    });
    keep_in_memory(scales_);
  }
  /// Eight int16 of row r in both halves, from 8i on.
  [[nodiscard]] CRIA_INLINE __m256i of(std::size_t r, int i = 0) const {
    return both_halves(&scales_[r][i]);
  }

 private:
  __m128i scales_[kRowGroup][kVecs];
};
/// For a lookup in eight int16: 2i in the first half, 2i + 1 in the second.
alignas(32) inline constexpr auto kPairsOfInt16 = [] {
  std::array<std::array<std::uint8_t, 32>, 4> from{};
  for (std::size_t i = 0; i < 4; ++i)
    for (std::size_t k = 0; k < 32; ++k)
      from[i][k] = static_cast<std::uint8_t>(4 * i + k / 16 * 2 + k % 2);
  return from;
}();

/// Lane r: the total of the int32 of v[r].
CRIA_INLINE inline __m256i sum_each(const __m256i (&v)[kRowGroup]) {
  // In both halves: a0 + a2, b0 + b2, a1 + a3, b1 + b3.
  const auto neighbours = [](__m256i a, __m256i b) CRIA_INLINE {
    return _mm256_add_epi32(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
  };
  const auto four = [&](const __m256i* p) CRIA_INLINE {
    const __m256i ab = neighbours(p[0], p[1]), cd = neighbours(p[2], p[3]);
    return _mm256_add_epi32(_mm256_unpacklo_epi64(ab, cd), _mm256_unpackhi_epi64(ab, cd));
  };
  const __m256i first = four(v), last = four(v + 4);
  return _mm256_add_epi32(_mm256_permute2x128_si256(first, last, 0x20),
                          _mm256_permute2x128_si256(first, last, 0x31));
}

/// Same interface as Gemv for one token.
template <DType type, PrefetchMode mode>
class Avx2RowGemv {
  using W = Avx2Row<type>;
  using Block = typename W::Block;
  static constexpr bool kMins = Format<type>::kTraits.has_min;
  static constexpr bool kRowMins = kMins && !requires(const W& w) { w.mins(); };

 public:
  using Lanes = RowLanes<Avx2>;
  static constexpr PrefetchMode kMode = mode;

  static void run(const std::byte* const (&rows)[kRowGroup], const std::byte* ahead,
                  const Activations& x, std::size_t token, __m256 (&acc)[1]) {
    acc[0] = _mm256_setzero_ps();
    const std::size_t n = x.cols / 256;
    const std::int8_t* const q = x.q + token * x.q_stride();
    const std::int16_t* const sum = x.sum + token * 16 * n;
    const float* const d = x.d + token * n;
    for (std::size_t b = 0; b < n; ++b)
      super_block(rows, kHeaderBytes<type> + b * sizeof(Block),
                  ahead + b * kRowGroup * sizeof(Block), q + 256 * b, sum + 16 * b,
                  _mm256_set1_ps(d[b]), acc[0]);
  }

 private:
  CRIA_INLINE static void super_block(const std::byte* const (&rows)[kRowGroup], std::size_t offset,
                                      const std::byte* ahead, const std::int8_t* q,
                                      const std::int16_t* sum, __m256 da, __m256& acc) {
    const W blocks(rows, offset, q, sum);
    __m256i sums[kRowGroup], mins[kRowGroup];
    const auto row = [&](std::size_t r) CRIA_INLINE {
      const std::byte* const p = rows[r] + offset;
      if constexpr (mode == PrefetchMode::InOrder) {
        prefetch_far<sizeof(Block), 1>(ahead + r * sizeof(Block), 0,
                                       [&]() CRIA_INLINE { prefetch_near<sizeof(Block)>(p); });
      }
      if constexpr (kRowMins)
        blocks.row(p, r, sums[r], mins[r]);
      else
        blocks.row(p, r, sums[r]);
    };
    // Not unrolled: eight copies of a codebook's code overflow the cache of decoded instructions,
    // which two threads share.
    for (std::size_t r = 0; r < kRowGroup; ++r) row(r);
    __m256i isum = _mm256_srai_epi32(sum_each(sums), W::kShift);
    if constexpr (requires { blocks.more(); }) isum = _mm256_add_epi32(isum, blocks.more());
    acc = _mm256_fmadd_ps(_mm256_mul_ps(blocks.d(), da), _mm256_cvtepi32_ps(isum), acc);
    if constexpr (kMins) {
      __m256i imin;
      if constexpr (kRowMins)
        imin = sum_each(mins);
      else
        imin = blocks.mins();
      acc = _mm256_fnmadd_ps(_mm256_mul_ps(blocks.dmin(), da), _mm256_cvtepi32_ps(imin), acc);
    }
  }
};

// IQ4_XS and IQ4_KS on AVX2, a register of 32 columns at a time: see avx2_wide.h.

/// Sixteen columns of two sub-blocks side by side, as their nibbles lie. A weight takes the sign of
/// its activation, whose magnitude multiplies it then: 2 * 127 * 127 fits an int16.
template <DType type>
class Avx2RowIq4 {
 protected:
  using V = RowLanes<Avx2>;

 public:
  using Block = typename Format<type>::Block;
  static constexpr int kShift = 0;

  CRIA_INLINE Avx2RowIq4(const std::byte* const* rows, std::size_t offset, const std::int8_t* q,
                         const std::int16_t* /*sum*/)
      : rows_(rows), offset_(offset), scales_(rows, offset) {
    unroll<8>([&](int i) CRIA_INLINE {
      const std::int8_t* const p = q + i / 2 * 64 + i % 2 * 16;
      q_[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(V::load128(p)), V::load128(p + 32), 1);
      magnitudes_[i] = _mm256_abs_epi8(q_[i]);
    });
    keep_in_memory(q_);
    keep_in_memory(magnitudes_);
  }
  CRIA_INLINE void row(const std::byte* p, std::size_t r, __m256i& sum) const {
    const __m256i values = V::same(&Iq4Nibbles<V>::kBiased), mask = _mm256_set1_epi8(15),
                  scales = scales_.of(r);
    sum = _mm256_setzero_si256();
    unroll<4>([&](int i) CRIA_INLINE {
      const __m256i v = load_once256(p + offsetof(Block, lo) + 32 * i);
      const __m256i scale = _mm256_shuffle_epi8(scales, load256(kPairsOfInt16[i].data()));
      const auto add = [&](int j, __m256i nibbles) CRIA_INLINE {
        const __m256i w = _mm256_sign_epi8(_mm256_shuffle_epi8(values, nibbles), q_[j]);
        sum = _mm256_add_epi32(sum,
                               _mm256_madd_epi16(_mm256_maddubs_epi16(magnitudes_[j], w), scale));
      };
      add(2 * i, _mm256_and_si256(v, mask));
      add(2 * i + 1, _mm256_and_si256(_mm256_srli_epi16(v, 4), mask));
    });
  }
  [[nodiscard]] CRIA_INLINE __m256 d() const { return LaneType<V, type>::d(rows_, offset_); }

 private:
  const std::byte* const* rows_;
  std::size_t offset_;
  Avx2RowScales<type> scales_;
  __m256i q_[8], magnitudes_[8];
};

template <>
class Avx2Row<DType::IQ4_XS> : public Avx2RowIq4<DType::IQ4_XS> {
  using Avx2RowIq4::Avx2RowIq4;
};

/// The shift of all weights of a sub-block is multiplied by the sum of its activations.
template <>
class Avx2Row<DType::IQ4_KS> : public Avx2RowIq4<DType::IQ4_KS> {
 public:
  CRIA_INLINE Avx2Row(const std::byte* const* rows, std::size_t offset, const std::int8_t* q,
                      const std::int16_t* sum)
      : Avx2RowIq4(rows, offset, q, sum) {
    const __m256i pairs = V::pair_sums(sum);
    __m256i sums[4];
    unroll<4>([&](int k) CRIA_INLINE {
      __m256i scales[1];
      LaneType<V, DType::IQ4_KS>::scales(rows + k, offset, scales);
      const __m256i bytes = V::zip_low8(V::load(rows + k, offset), V::zero());
      const __m256i moved =
          _mm256_cmpeq_epi16(_mm256_and_si256(bytes, V::splat16(1)), V::splat16(1));
      sums[k] = _mm256_madd_epi16(_mm256_and_si256(scales[0], moved), pairs);
    });
    static_assert(kIq4Shift == 4);
    more_ = _mm256_slli_epi32(V::sum_rows(sums), 2);
  }
  [[nodiscard]] CRIA_INLINE __m256i more() const { return more_; }

 private:
  __m256i more_;
};

// The ternary types on AVX2, a register of 32 columns at a time: see avx2_wide.h.

/// Without scales all columns are summed in int16: 16 products of up to 3 * 127.
template <>
class Avx2Row<DType::TQ2_0> {
  using V = RowLanes<Avx2>;

 public:
  using Block = BlockTQ2_0;
  static constexpr int kShift = 0;

  CRIA_INLINE Avx2Row(const std::byte* const* rows, std::size_t offset, const std::int8_t* q,
                      const std::int16_t* sum)
      : rows_(rows), offset_(offset), q_(q) {
    const __m256i sums = _mm256_madd_epi16(load256(sum), _mm256_set1_epi16(-1));
    const __m128i four =
        _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
    const __m128i two = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4E));
    more_ = _mm256_broadcastd_epi32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 0xB1)));
  }
  CRIA_INLINE void row(const std::byte* p, std::size_t /*r*/, __m256i& sum) const {
    const __m256i three = _mm256_set1_epi8(3);
    __m256i words = _mm256_setzero_si256();
    unroll<2>([&](int half) CRIA_INLINE {
      const __m256i v = load_once256(p + offsetof(Block, q) + 32 * half);
      unroll<4>([&](auto j) CRIA_INLINE {
        const __m256i products =
            V::products(V::take<2 * j>(v, three), load256(q_ + 128 * half + 32 * j));
        words = _mm256_add_epi16(words, products);
      });
    });
    sum = _mm256_madd_epi16(words, _mm256_set1_epi16(1));
  }
  /// Every weight is one too large.
  [[nodiscard]] CRIA_INLINE __m256i more() const { return more_; }
  [[nodiscard]] CRIA_INLINE __m256 d() const {
    return V::eight_f16(rows_, offset_ + offsetof(Block, d));
  }

 private:
  const std::byte* const* rows_;
  std::size_t offset_;
  const std::int8_t* q_;
  __m256i more_;
};

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
