// Row-per-register GEMV of AVX-512 for blocks of 32.
#pragma once

#include "kernels/gemv/avx512_row.h"
#include "kernels/lanes/blocks32.h"
#include "kernels/lanes/iq4.h"
#include "kernels/simd/namespace.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

// Nibbles in blocks of 32: four blocks of a row in a register, a lane each. A row's 128 columns are
// two loads without inserts, their sums are transposed together, and the scales of 32 blocks become
// floats together.

/// The bytes of four blocks of a row.
template <class Block>
class FourBlocks {
 public:
  static constexpr std::size_t kBytes = 4 * sizeof(Block);
  __m512i start, end;  ///< the first 64 bytes, and the last kEnd

  CRIA_INLINE explicit FourBlocks(const std::byte* p) : start(_mm512_loadu_si512(p)) {
    const std::byte* const last = p + kBytes - kEnd;
    if constexpr (kEnd == 4) end = _mm512_castsi128_si512(_mm_loadu_si32(last));
    if constexpr (kEnd == 8) end = _mm512_castsi128_si512(_mm_loadu_si64(last));
    if constexpr (kEnd == 16)
      end = _mm512_castsi128_si512(_mm_loadu_si128(reinterpret_cast<const __m128i*>(last)));
    if constexpr (kEnd == 32)
      end = _mm512_castsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(last)));
  }
  /// The bytes selected by places().
  template <const auto& places>
  [[nodiscard]] CRIA_INLINE __m512i bytes() const {
    return _mm512_permutex2var_epi8(start, load_bytes(places), end);
  }
  /// For byte i of lane b: where byte from(i) of block b is.
  template <class From>
  static constexpr std::array<std::uint8_t, 64> places(From from) {
    return bytes_by([from](std::size_t i) {
      const std::size_t byte = i / 16 * sizeof(Block) + from(i % 16);
      return byte < 64 ? byte : byte - (kBytes - kEnd) + 64;
    });
  }

 private:
  static constexpr std::size_t kEnd = std::bit_ceil(kBytes - 64);
};

/// Float16 of four rows, in lane b of block b: int16 kFirst + b * kApart of each row.
template <int kFirst, int kApart>
CRIA_INLINE inline __m512 f16_of_four(const __m512i (&rows)[4]) {
  alignas(64) static constexpr auto kFrom = [] {
    std::array<std::uint16_t, 32> from{};
    for (int i = 0; i < 16; ++i)
      from[static_cast<std::size_t>(i)] =
          static_cast<std::uint16_t>(i % 2 * 32 + kFirst + i / 4 * kApart);
    return from;
  }();
  const __m512i from = _mm512_load_si512(kFrom.data());
  const __m512i words =
      _mm512_or_si512(_mm512_maskz_permutex2var_epi16(0x3333, rows[0], from, rows[1]),
                      _mm512_maskz_permutex2var_epi16(0xCCCC, rows[2], from, rows[3]));
  return _mm512_cvtph_ps(_mm512_castsi512_si256(words));
}

/// The nibbles of four blocks of a row. Derived classes define
/// - low(), high(): the bytes of each lane's columns 0 … 15 and 16 … 31, plus the type's kZero
/// - scales(heads): of four rows, in lane b of block b
/// - mins(heads): the same, for types with an offset
template <class Block_>
class Nibbles4 {
 public:
  using Block = Block_;
  __m512i head;  ///< source of scales and mins
  CRIA_INLINE static __m512 scales(const __m512i (&heads)[4]) {
    return f16_of_four<0, kInt16>(heads);
  }
  CRIA_INLINE static __m512 mins(const __m512i (&heads)[4]) {
    return f16_of_four<1, kInt16>(heads);
  }

 protected:
  __m512i nibbles_;
  CRIA_INLINE explicit Nibbles4(const FourBlocks<Block>& blocks)
      : head(blocks.start), nibbles_(blocks.template bytes<kNibbles>()) {}

 private:
  static constexpr int kInt16 = sizeof(Block) / 2;
  alignas(64) static constexpr auto kNibbles = FourBlocks<Block>::places([](std::size_t i) {
    return offsetof(Block, lo) + i;
  });
};

/// Nibbles that are numbers.
template <class Block>
class PlainNibbles : public Nibbles4<Block> {
 public:
  CRIA_INLINE explicit PlainNibbles(const FourBlocks<Block>& blocks) : Nibbles4<Block>(blocks) {}
  [[nodiscard]] CRIA_INLINE __m512i low() const {
    return _mm512_and_si512(this->nibbles_, _mm512_set1_epi8(15));
  }
  [[nodiscard]] CRIA_INLINE __m512i high() const {
    return _mm512_and_si512(_mm512_srli_epi16(this->nibbles_, 4), _mm512_set1_epi8(15));
  }
};

/// Nibbles that name one of sixteen bytes.
template <class Block, const auto& table>
class NamedNibbles : public Nibbles4<Block> {
 public:
  CRIA_INLINE explicit NamedNibbles(const FourBlocks<Block>& blocks) : Nibbles4<Block>(blocks) {}
  // Four tables side by side: what stands above a nibble chooses one of them.
  [[nodiscard]] CRIA_INLINE __m512i low() const {
    return _mm512_permutexvar_epi8(this->nibbles_, RowLanes<Avx512>::same(&table));
  }
  [[nodiscard]] CRIA_INLINE __m512i high() const {
    return _mm512_permutexvar_epi8(_mm512_srli_epi16(this->nibbles_, 4),
                                   RowLanes<Avx512>::same(&table));
  }
};

/// Nibbles with a fifth bit. Each quadword of a lane of the head has 32 fifth bits, then d (and m).
template <class Block>
class FiveBits : public PlainNibbles<Block> {
 public:
  CRIA_INLINE explicit FiveBits(const FourBlocks<Block>& blocks) : PlainNibbles<Block>(blocks) {
    this->head = blocks.template bytes<kHead>();
  }
  [[nodiscard]] CRIA_INLINE __m512i low() const {
    return with_fifth<0>(PlainNibbles<Block>::low());
  }
  [[nodiscard]] CRIA_INLINE __m512i high() const {
    return with_fifth<16>(PlainNibbles<Block>::high());
  }
  CRIA_INLINE static __m512 scales(const __m512i (&heads)[4]) { return f16_of_four<2, 8>(heads); }
  CRIA_INLINE static __m512 mins(const __m512i (&heads)[4]) { return f16_of_four<3, 8>(heads); }

 private:
  template <int first>
  [[nodiscard]] CRIA_INLINE __m512i with_fifth(__m512i nibbles) const {
    const __mmask64 bits = _mm512_bitshuffle_epi64_mask(this->head, load_bytes(kBits<first>));
    return _mm512_mask_add_epi8(nibbles, bits, nibbles, _mm512_set1_epi8(16));
  }
  alignas(64) static constexpr auto kHead = FourBlocks<Block>::places([](std::size_t i) {
    return i % 8 < 4 ? offsetof(Block, hi) + i % 4 : i % 4;
  });
  template <int first>
  alignas(64) static constexpr auto kBits = bytes_by([](std::size_t i) { return first + i % 16; });
};

/// Nibbles that name a floating-point number of four bits; scales are powers of two.
class Fp4Nibbles4 : public NamedNibbles<BlockMXFP4, Fp4Nibbles<RowLanes<Avx512>>::kBiased> {
 public:
  using NamedNibbles::NamedNibbles;
  /// Byte 17b is byte b of lane b's first four.
  CRIA_INLINE static __m512 scales(const __m512i (&heads)[4]) {
    const __m512i first = _mm512_unpacklo_epi64(_mm512_unpacklo_epi32(heads[0], heads[1]),
                                                _mm512_unpacklo_epi32(heads[2], heads[3]));
    const __m512i exponent = _mm512_srli_epi32(_mm512_shuffle_epi8(first, load_bytes(kToTop)), 1);
    const __m512i normal = _mm512_sub_epi32(exponent, _mm512_set1_epi32(0x00800000));
    // 2^-128 and 2^-127 for bytes of 0 and 1; not above `normal` for others.
    const __m512i subnormal =
        _mm512_add_epi32(_mm512_srli_epi32(exponent, 2), _mm512_set1_epi32(0x00200000));
    return _mm512_castsi512_ps(_mm512_max_epi32(normal, subnormal));
  }

 private:
  /// Byte b of every four in lane b, alone at their top.
  alignas(64) static constexpr auto kToTop = bytes_by([](std::size_t i) {
    return i % 4 == 3 ? i % 16 - 3 + i / 16 : 0x80;
  });
};

/// The decoder of four blocks of a row.
template <DType type>
struct NibblesOf;
template <>
struct NibblesOf<DType::Q4_0> {
  using Type = PlainNibbles<BlockQ4_0>;
};
template <>
struct NibblesOf<DType::Q4_1> {
  using Type = PlainNibbles<BlockQ4_1>;
};
template <>
struct NibblesOf<DType::Q5_0> {
  using Type = FiveBits<BlockQ5_0>;
};
template <>
struct NibblesOf<DType::Q5_1> {
  using Type = FiveBits<BlockQ5_1>;
};
template <>
struct NibblesOf<DType::IQ4_NL> {
  using Type = NamedNibbles<BlockIQ4_NL, Iq4Nibbles<RowLanes<Avx512>>::kBiased>;
};
template <>
struct NibblesOf<DType::MXFP4> {
  using Type = Fp4Nibbles4;
};

template <DType type, PrefetchMode mode>
class NibbleGemv : public BlockSteps<NibbleGemv<type, mode>, type, 4, mode> {
  friend class BlockSteps<NibbleGemv, type, 4, mode>;
  using Nibbles = typename NibblesOf<type>::Type;
  using Blocks = FourBlocks<typename Nibbles::Block>;
  using W = LaneType<RowLanes<Avx512>, type>;
  using Four = __m512i[4];
  static constexpr int kLargest =
      std::max(W::kZero, W::kMax - W::kZero);  // weight, without its sign
  static constexpr bool kSmall =
      16 * kLargest * 127 <= 32767;  // sums of sixteen products fit in an int16
  static constexpr bool kMins = Format<type>::kTraits.has_min;

  CRIA_INLINE static void step(const std::byte* const (&rows)[kRowGroup], std::size_t offset,
                               const std::byte* ahead, const std::int8_t* q,
                               const std::int16_t* sum, const float* d, __m256& acc) {
    const Values x(q);
    const __m128 d4 = _mm_loadu_ps(d);
    const __m512 da =
        _mm512_permutexvar_ps(_mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3),
                              _mm512_castps128_ps512(d4));
    __m512 sums[2], scales[2], mins[2];
    unroll<2>([&](int half) CRIA_INLINE {
      Four heads, products;
      unroll<4>([&](auto r) CRIA_INLINE {
        const std::byte* const row = rows[4 * half + r] + offset;
        if constexpr (mode == PrefetchMode::InOrder && r % 2 == 0)
          prefetch_far<kRowGroup * Blocks::kBytes, 4>(ahead, 2 * half + r / 2);
        if constexpr (mode == PrefetchMode::Streams)
          prefetch_stream<Blocks::kBytes>(row, stream_distance());
        const Nibbles nibbles{Blocks(row)};
        heads[r] = nibbles.head;
        products[r] = x.products(nibbles);
      });
      sums[half] = _mm512_cvtepi32_ps(sums_of_lanes(products));
      scales[half] = _mm512_mul_ps(Nibbles::scales(heads), da);
      if constexpr (kMins) mins[half] = Nibbles::mins(heads);
      pin(sums[half]);
    });
    const __m128 sums4 = _mm_mul_ps(d4, _mm_cvtepi32_ps(_mm_cvtepi16_epi32(_mm_loadu_si64(sum))));
    unroll<2>([&](auto i) CRIA_INLINE {
      const auto add = [&](const __m512& a, const __m512& b, auto part) CRIA_INLINE {
        acc =
            _mm256_fmadd_ps(_mm512_extractf32x8_ps(a, part), _mm512_extractf32x8_ps(b, part), acc);
      };
      const __m512 sum_of = blocks_of<2 * i>(sums), scale = blocks_of<2 * i>(scales);
      unroll<2>([&](auto part) CRIA_INLINE {
        add(scale, sum_of, part);
        if constexpr (kMins) add(blocks_of<2 * i>(mins), splat2<2 * i>(sums4), part);
      });
    });
  }

  /// The activations of four blocks: what meets the low nibbles and the high ones.
  struct Values {
    __m512i low, high, start;
    CRIA_INLINE explicit Values(const std::int8_t* q) {
      low = every_other_sixteen<0>(q);
      high = every_other_sixteen<1>(q);
      start = _mm512_setzero_si512();
      if constexpr (W::kZero != 0) {
        const __m512i zero = _mm512_set1_epi8(static_cast<char>(W::kZero));
        start = _mm512_sub_epi32(
            start, _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(start, zero, low), zero, high));
      }
    }
    /// In each lane four sums of eight products.
    [[nodiscard]] CRIA_INLINE __m512i products(const Nibbles& w) const {
      return _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(start, w.low(), low), w.high(), high);
    }
  };

  /// Sums of four rows: each lane has the sum of the first row, of the second …
  CRIA_INLINE static __m512i sums_of_lanes(const Four& v) {
    if constexpr (kSmall) {
      const __m512i ones = _mm512_set1_epi16(1), none = _mm512_setzero_si512();
      const __m512i first = _mm512_dpwssd_epi32(none, _mm512_packs_epi32(v[0], v[1]), ones),
                    second = _mm512_dpwssd_epi32(none, _mm512_packs_epi32(v[2], v[3]), ones);
      return _mm512_dpwssd_epi32(none, _mm512_packs_epi32(first, second), ones);
    } else {
      return add_pairs(add_neighbours(v[0], v[1]), add_neighbours(v[2], v[3]));
    }
  }

  /// From lanes of rows 0 … 3 and of rows 4 … 7: lanes of block b, then of b + 1.
  template <int b>
  CRIA_INLINE static __m512 blocks_of(const __m512 (&v)[2]) {
    constexpr int k = 4 * b;
    const __m512i from =
        _mm512_setr_epi32(k, k + 1, k + 2, k + 3, k + 16, k + 17, k + 18, k + 19, k + 4, k + 5,
                          k + 6, k + 7, k + 20, k + 21, k + 22, k + 23);
    return _mm512_permutex2var_ps(v[0], from, v[1]);
  }
  /// Number b eight times, then b + 1.
  template <int b>
  CRIA_INLINE static __m512 splat2(__m128 v) {
    const __m512i from = _mm512_setr_epi32(b, b, b, b, b, b, b, b, b + 1, b + 1, b + 1, b + 1,
                                           b + 1, b + 1, b + 1, b + 1);
    return _mm512_permutexvar_ps(from, _mm512_castps128_ps512(v));
  }
};

template <DType type>
requires requires { sizeof(NibblesOf<type>); }
struct GemvOf<Avx512, type> {
  template <int T, PrefetchMode mode>
  using Kernel = OneOrLanes<T, NibbleGemv<type, mode>, type, mode>;
  static constexpr bool kStreams = true;
};

// Q8_0: two blocks of a row in a register, so that a row takes two loads and one insert (in lanes:
// four and three). The sums and scales of sixteen blocks are processed together.

template <PrefetchMode mode>
class Q8Gemv : public BlockSteps<Q8Gemv<mode>, DType::Q8_0, 2, mode> {
  friend class BlockSteps<Q8Gemv, DType::Q8_0, 2, mode>;
  static constexpr std::size_t kBytes = sizeof(BlockQ8_0), kStepBytes = 2 * kBytes;

  CRIA_INLINE static void step(const std::byte* const (&rows)[kRowGroup], std::size_t offset,
                               const std::byte* ahead, const std::int8_t* q,
                               const std::int16_t* /*sum*/, const float* d, __m256& acc) {
    const __m512i x = _mm512_loadu_si512(q), bias = _mm512_set1_epi8(-128),
                  zero = _mm512_setzero_si512();
    const __m512i start = _mm512_sub_epi32(zero, _mm512_dpbusd_epi32(zero, bias, x));
    __m512i pairs[4], scales = zero;
    unroll<4>([&](auto i) CRIA_INLINE {
      const auto row = [&](auto r) CRIA_INLINE {
        const std::byte* const p = rows[r] + offset;
        if constexpr (mode == PrefetchMode::Streams)
          prefetch_stream<kStepBytes>(p, stream_distance());
        scales = _mm512_mask_broadcastd_epi32(scales, __mmask16(1U << r), _mm_loadu_si32(p));
        scales =
            _mm512_mask_broadcastd_epi32(scales, __mmask16(256U << r), _mm_loadu_si32(p + kBytes));
        const __m512i w =
            _mm512_inserti64x4(_mm512_castsi256_si512(weights(p)), weights(p + kBytes), 1);
        return _mm512_dpbusd_epi32(start, _mm512_xor_si512(w, bias), x);
      };
      if constexpr (mode == PrefetchMode::InOrder)
        prefetch_far<kRowGroup * kStepBytes, 4>(ahead, i);
      const __m512i first = row(std::integral_constant<int, 2 * i>{});
      pairs[i] = add_neighbours(first, row(std::integral_constant<int, 2 * i + 1>{}));
      pin(pairs[i]);
    });
    // Lanes 0 and 1 are of the first block, 2 and 3 of the second: of rows 0 to 3, then of 4 to 7.
    const __m512i low = add_pairs(pairs[0], pairs[1]), high = add_pairs(pairs[2], pairs[3]);
    const __m512i even = _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13),
                  odd = _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15);
    const __m512 sums = _mm512_cvtepi32_ps(_mm512_add_epi32(
        _mm512_permutex2var_epi64(low, even, high), _mm512_permutex2var_epi64(low, odd, high)));
    const __m512 da = _mm512_insertf32x8(_mm512_set1_ps(d[0]), _mm256_set1_ps(d[1]), 1);
    const __m512 scale = _mm512_mul_ps(_mm512_cvtph_ps(_mm512_cvtepi32_epi16(scales)), da);
    acc = _mm256_fmadd_ps(_mm512_castps512_ps256(scale), _mm512_castps512_ps256(sums), acc);
    acc = _mm256_fmadd_ps(_mm512_extractf32x8_ps(scale, 1), _mm512_extractf32x8_ps(sums, 1), acc);
  }
  /// The weights of the block at p.
  CRIA_INLINE static __m256i weights(const std::byte* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + offsetof(BlockQ8_0, q)));
  }
};

template <>
struct GemvOf<Avx512, DType::Q8_0> {
  template <int T, PrefetchMode mode>
  using Kernel = OneOrLanes<T, Q8Gemv<mode>, DType::Q8_0, mode>;
  static constexpr bool kStreams = true;
};

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
