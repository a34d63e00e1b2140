// Eight rows in lanes by transposition: how AVX2 and AVX-VNNI pack panels.
#pragma once

#include <immintrin.h>

#include "kernels/formats/formats.h"
#include "kernels/lanes/iq.h"
#include "kernels/lanes/iq4.h"
#include "kernels/simd/namespace.h"
#include "kernels/simd/prefetch.h"
#include "kernels/simd/row_lanes.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

// Transposition for panels of AVX2 and AVX-VNNI.

template <class Isa>
struct Transpose256 {
  /// 4×4 int32 in either 16-byte lane.
  static void transpose(__m256i (&v)[4]) {
    const __m256i a = _mm256_unpacklo_epi32(v[0], v[1]), b = _mm256_unpackhi_epi32(v[0], v[1]);
    const __m256i c = _mm256_unpacklo_epi32(v[2], v[3]), d = _mm256_unpackhi_epi32(v[2], v[3]);
    v[0] = _mm256_unpacklo_epi64(a, c);
    v[1] = _mm256_unpackhi_epi64(a, c);
    v[2] = _mm256_unpacklo_epi64(b, d);
    v[3] = _mm256_unpackhi_epi64(b, d);
  }
  static void store(void* p, __m256i v) { _mm256_store_si256(static_cast<__m256i*>(p), v); }
};

/// Sixteen columns of eight rows, transposed when loaded: part c holds columns 4c … 4c + 3 of all
/// rows. For decoders that treat all bytes equally and then process denser vectors.
template <class Isa>
struct Columns256 {};
template <class Isa>
struct RowLanes<Columns256<Isa>> {
  using One = RowLanes<Isa>;
  struct Vec {
    __m256i part[4];
  };
  using RowPtr = typename One::RowPtr;
  using Float8 = typename One::Float8;
  static constexpr int kBias = One::kBias;

  template <class F>
  CRIA_INLINE static Vec each(F f) {
    return {{f(0), f(1), f(2), f(3)}};
  }
  CRIA_INLINE static Vec load(RowPtr rows, std::size_t offset) {
    Vec v = each([&](int k) CRIA_INLINE { return One::load(rows + k, offset); });
    Transpose256<Isa>::transpose(v.part);
    return v;
  }
  CRIA_INLINE static Vec same(const void* p) { return all(One::same(p)); }
  CRIA_INLINE static Vec zero() { return all(One::zero()); }
  CRIA_INLINE static Vec splat8(int x) { return all(One::splat8(x)); }
  CRIA_INLINE static Vec bit_and(Vec a, Vec b) { return map<One::bit_and>(a, b); }
  CRIA_INLINE static Vec bit_or(Vec a, Vec b) { return map<One::bit_or>(a, b); }
  CRIA_INLINE static Vec add8(Vec a, Vec b) { return map<One::add8>(a, b); }
  CRIA_INLINE static Vec lookup(Vec table, Vec index) { return map<One::lookup>(table, index); }
  template <int N>
  CRIA_INLINE static Vec take(Vec v, Vec mask) {
    return map<One::template take<N>>(v, mask);
  }
  /// The first (second) eight columns of a, then of b.
  CRIA_INLINE static Vec join_low(Vec a, Vec b) {
    return {{a.part[0], a.part[1], b.part[0], b.part[1]}};
  }
  CRIA_INLINE static Vec join_high(Vec a, Vec b) {
    return {{a.part[2], a.part[3], b.part[2], b.part[3]}};
  }

 private:
  CRIA_INLINE static Vec all(__m256i v) { return {{v, v, v, v}}; }
  template <auto f>
  CRIA_INLINE static Vec map(Vec a, Vec b) {
    return each([&](int p) CRIA_INLINE { return f(a.part[p], b.part[p]); });
  }
};

/// 16 where a bit of 32 is set: of the four bytes from byte At of a block on.
template <class Isa, int At>
struct FifthBits<RowLanes<Columns256<Isa>>, At> {
  using V = RowLanes<Columns256<Isa>>;
  using Vec = typename V::Vec;
  Vec first, second;
  FifthBits(typename V::RowPtr rows, std::size_t offset) {
    const __m256i all = RowLanes<Isa>::load_u32(rows, offset + At), nibble = _mm256_set1_epi8(15);
    const __m256i low = _mm256_and_si256(all, nibble),
                  high = _mm256_and_si256(_mm256_srli_epi16(all, 4), nibble);
    first = spread<0>(low, high);
    second = spread<2>(low, high);
  }
  Vec add(Vec nibbles, Vec hi) const { return V::bit_or(nibbles, hi); }

 private:
  /// Bytes `byte` and byte + 1, of which `low` and `high` have the nibbles, four bits a vector.
  template <int byte>
  CRIA_INLINE static Vec spread(__m256i low, __m256i high) {
    const auto four = [](__m256i nibbles, int at) CRIA_INLINE {
      const __m256i copies = _mm256_shuffle_epi8(nibbles, RowLanes<Isa>::same(&kCopies[at]));
      const __m256i bits = _mm256_and_si256(copies, _mm256_set1_epi32(0x0804'0201));
      return _mm256_shuffle_epi8(RowLanes<Isa>::same(&kSixteen), bits);
    };
    return {{four(low, byte), four(high, byte), four(low, byte + 1), four(high, byte + 1)}};
  }
  static constexpr LaneConstant<std::uint8_t> copies(std::uint8_t byte) {
    LaneConstant<std::uint8_t> from{};
    for (std::uint8_t i = 0; i < 16; ++i) from.at[i] = static_cast<std::uint8_t>(i / 4 * 4 + byte);
    return from;
  }
  static constexpr LaneConstant<std::uint8_t> kCopies[4] = {copies(0), copies(1), copies(2),
                                                            copies(3)},
                                              kSixteen = {{0, 16, 16, 0, 16, 0, 0, 0, 16}};
};

/// Calls put(k, v) for the weights of columns 4k … 4k + 3 of a block, v for all rows. If a type
/// treats all bytes equally, or nearly so, its rows are transposed before they are decoded, since
/// they are shorter then. far: address to prefetch, for as much as the eight blocks.
template <class Isa, DType type, class Put>
CRIA_INLINE inline void decode_columns(const std::byte* const (&rows)[kRowGroup],
                                       std::size_t offset, const std::byte* far, Put put) {
  using V = RowLanes<Isa>;
  using W = LaneType<V, type>;
  constexpr std::size_t kBytes = kRowGroup * W::kBytes;
  constexpr int kParts = Format<type>::kBlockValues / 32;
  if constexpr (kDecodesColumns<W>) {
    using Columns = RowLanes<Columns256<Isa>>;
    using Vec = typename Columns::Vec;
    LaneType<Columns, type>::weights(rows, offset, [&](int j, Vec w0, Vec w1) CRIA_INLINE {
      prefetch_far<kBytes, kParts>(far, j);
      const std::size_t k = 8 * static_cast<std::size_t>(j);
      unroll<4>([&](int c) CRIA_INLINE { put(k + c, w0.part[c]); });
      unroll<4>([&](int c) CRIA_INLINE { put(k + 4 + c, w1.part[c]); });
    });
  } else {
    typename V::Vec decoded[Format<type>::kBlockValues / 16][V::kPacks];
    for (std::size_t i = 0; i < V::kPacks; ++i) {
      W::weights(rows + i, offset, [&](int j, auto w0, auto w1) CRIA_INLINE {
        prefetch_far<kBytes / V::kPacks, kParts>(far + i * (kBytes / V::kPacks), j);
        decoded[2 * j][i] = w0;
        decoded[2 * j + 1][i] = w1;
      });
    }
    keep_in_memory(decoded);
    std::size_t k = 0;
    for (auto& v : decoded) {
      Transpose256<Isa>::transpose(v);
      for (const auto& columns : v) put(k++, columns);
    }
  }
}

/// Transposes eight int16 of each row and vector, from get(k, rows k and k + 4): out[v][c] has
/// int16 2c and 2c + 1 of all rows.
template <class Isa, std::size_t n, class F>
CRIA_INLINE inline void int16_of_rows(F get, __m256i (&out)[n][4]) {
  for (std::size_t k = 0; k < 4; ++k) {
    __m256i v[n];
    get(k, v);
    for (std::size_t i = 0; i < n; ++i) out[i][k] = v[i];
  }
  for (auto& v : out) Transpose256<Isa>::transpose(v);
}

/// The integer scales and mins of a block of a Super256 type: calls scales(i, v) and mins(i, v), v
/// the two from 2i on of all rows.
template <class Isa, DType type, class Scales, class Mins>
CRIA_INLINE inline void pairs_of_rows(const std::byte* const (&rows)[kRowGroup], std::size_t offset,
                                      Scales scales, Mins mins) {
  using W = LaneType<RowLanes<Isa>, type>;
  constexpr int kVecs = W::kScales == 16 ? 2 : 1;
  const auto give = [](auto put, auto get) CRIA_INLINE {
    __m256i words[kVecs][4];
    int16_of_rows<Isa>(get, words);
    for (int v = 0; v < kVecs; ++v)
      for (int c = 0; c < 4; ++c) put(4 * v + c, words[v][c]);
  };
  if constexpr (W::kScales != 0)
    give(scales,
         [&](std::size_t k, __m256i(&s)[kVecs]) CRIA_INLINE { W::scales(rows + k, offset, s); });
  if constexpr (Format<type>::kTraits.has_min)
    give(mins,
         [&](std::size_t k, __m256i(&m)[kVecs]) CRIA_INLINE { W::mins(rows + k, offset, m); });
}

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
