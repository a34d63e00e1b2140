// Products of weights of the full range of a byte with a dozen tokens to a hundred on AVX2: sixteen rows of words in a panel
// that stays in the first-level cache, by four tokens. Multiplied by Winograd's inner product (see avx2.h); the tokens' words
// are laid out once for all rows of a call, and rows are read in long streams.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/formats/formats.h"
#include "kernels/gemm/avx2_columns.h"
#include "kernels/gemm/words_tokens.h"
#include "kernels/gemv/fetch_ahead.h"
#include "kernels/kernels.h"
#include "kernels/lanes/lanes.h"

namespace cria {

/// 256 columns of sixteen rows.
struct alignas(64) WordsPanel {
  std::int32_t words[kGemmCols / 4][2]
                    [kWordsRows];  ///< of four columns the even ones' words of each row, then the odd ones'
  std::int32_t own[8]
                  [kWordsRows];  ///< sums of products of neighbours: per group of 32 columns, or [0] of all
  float d[8][kWordsRows];        ///< likewise
};

/// Decodes eight rows into a panel. Words are weights, or weights times their integer scales.
template <DType type>
class WordsPacker {
  using V = RowLanes<Avx2>;
  using W = LaneType<V, type>;
  using Vec = typename V::Vec;
  using Rows = const std::byte* [kRowGroup];
  static constexpr bool kScaled = W::kSuper;
  static_assert(W::kFull && W::kZero == 0 && (!kScaled || W::kScales == 8));

 public:
  static constexpr std::size_t kBytes = W::kBytes, kBlockValues = Format<type>::kBlockValues;
  static constexpr bool kGroups = !W::kSuper;

  /// n blocks from `offset` on into the panel's rows [lane, lane + 8). far: as much, fetched meanwhile.
  CRIA_FLATTEN static void pack(const Rows& rows, std::size_t offset, std::size_t n, const std::byte* far,
                                std::size_t lane, WordsPanel& panel) {
    for (const std::byte* row : rows)  // what is packed next
      for (std::size_t at = 0; at < n * kBytes; at += 64)
        __builtin_prefetch(row + offset + n * kBytes + at, 0, 3);
#pragma GCC unroll 1
    for (std::size_t b = 0; b < n; ++b, offset += kBytes, far += kRowGroup * kBytes) {
      const __m256i own = pack_block(rows, offset, b * kBlockValues / 4, far, lane, panel);
      Transpose256<Avx2>::store(panel.own[b] + lane, own);
      V::store(panel.d[b] + lane, d(rows, offset));
    }
  }

 private:
  static constexpr int kParts = kBlockValues / 32;

  /// Returns each row's sum of products of neighbours.
  CRIA_INLINE static __m256i pack_block(const Rows& rows, std::size_t offset, std::size_t first,
                                        const std::byte* far, std::size_t lane, WordsPanel& panel) {
    Vec scale[8];
    if constexpr (kScaled) scales(rows, offset, scale);
    Vec own = V::zero();
    const auto put = [&](Vec w, int j, std::size_t k) CRIA_INLINE {
      // Multiplications instead of shifts: there are shuffles enough for the same pipes.
      const Vec factor = kScaled ? scale[j] : V::splat16(256);
      const Vec even = _mm256_mulhi_epi16(V::template shl16<8>(w), factor),
                odd = _mm256_mulhi_epi16(kScaled ? V::bit_and(w, V::splat16(-256)) : w, factor);
      own = V::madd16(own, even, odd);
      pin(own);
      Transpose256<Avx2>::store(panel.words[k][0] + lane, even);
      Transpose256<Avx2>::store(panel.words[k][1] + lane, odd);
    };
    if constexpr (requires { W::kBytewise; }) {
      using Columns = RowLanes<Avx2Columns>;
      LaneType<Columns, type>::weights(
          rows, offset, [&](int j, typename Columns::Vec w0, typename Columns::Vec w1) CRIA_INLINE {
            fetch_far<kRowGroup * kBytes, kParts>(far, j);
            const std::size_t k = first + 8 * static_cast<std::size_t>(j);
            unroll<4>([&](auto c) CRIA_INLINE { put(w0.part[c], j, k + c); });
            unroll<4>([&](auto c) CRIA_INLINE { put(w1.part[c], j, k + 4 + c); });
          });
    } else {
      Vec decoded[kBlockValues / 16][V::kPacks];
      for (std::size_t k = 0; k < V::kPacks; ++k) {
        W::weights(rows + k, offset, [&](int j, Vec w0, Vec w1) CRIA_INLINE {
          constexpr std::size_t kPack = kRowGroup * kBytes / V::kPacks;
          fetch_far<kPack, kParts>(far + k * kPack, j);
          decoded[2 * j][k] = w0;
          decoded[2 * j + 1][k] = w1;
        });
      }
      keep_in_memory(decoded);
      for (std::size_t i = 0; i < kBlockValues / 16; ++i) {
        Transpose256<Avx2>::transpose(decoded[i]);
        for (std::size_t c = 0; c < 4; ++c) put(decoded[i][c], static_cast<int>(i / 2), first + 4 * i + c);
      }
    }
    return own;
  }
  /// Each scale of the eight rows times 256, twice.
  CRIA_INLINE static void scales(const Rows& rows, std::size_t offset, Vec (&out)[8]) {
    Vec v[V::kPacks];
    for (std::size_t k = 0; k < V::kPacks; ++k) {
      Vec s[1];
      W::scales(rows + k, offset, s);
      v[k] = V::template shl16<8>(s[0]);
    }
    Transpose256<Avx2>::transpose(v);
    for (int c = 0; c < 4; ++c) {
      out[2 * c] = _mm256_blend_epi16(v[c], _mm256_slli_epi32(v[c], 16), 0xAA);
      out[2 * c + 1] = _mm256_blend_epi16(_mm256_srli_epi32(v[c], 16), v[c], 0xAA);
    }
  }
  CRIA_INLINE static typename V::Float8 d(const Rows& rows, std::size_t offset) {
    if constexpr (kScaled) return W::d(rows, offset);
    static_assert(offsetof(BlockQ8_0, d) == 0 && offsetof(BlockIQ4_NL, d) == 0);
    return _mm256_cvtph_ps(_mm_set_epi64x(four_f16<4>(rows, offset), four_f16<0>(rows, offset)));
  }
  /// By general registers, which have nothing else to do.
  template <std::size_t row>
  CRIA_INLINE static std::int64_t four_f16(const Rows& rows, std::size_t offset) {
    std::uint64_t all = 0;
    unroll<4>([&](auto i) CRIA_INLINE {
      std::uint16_t bits;
      std::memcpy(&bits, rows[row + i] + offset, sizeof bits);
      all |= static_cast<std::uint64_t>(bits) << (16 * i);
    });
    asm("" : "+r"(all));
    return static_cast<std::int64_t>(all);
  }
};

/// Fills WordsTokens. groups: 32 columns share floats, else 256.
template <bool groups>
class WordsLayout {
 public:
  /// The 256 or fewer columns from k on of tokens [first, first + n) of x, n <= 4; the last is repeated.
  static void tile(const Activations& x, std::size_t first, std::size_t n, std::size_t k, std::size_t cols,
                   WordsTokens& out) {
    const std::int8_t* q[kWordsTokens];
    const std::size_t n_groups = groups ? cols / 32 : 1, n_parts = cols / 32;
    for (std::size_t t = 0; t < kWordsTokens; ++t) {
      const std::size_t token = first + std::min(t, n - 1);
      q[t] = x.q + token * x.q_stride() + k;
      const float* const d = x.d + (token * x.cols + k) / (groups ? 32 : kGemmCols);
      for (std::size_t i = 0; i < n_groups; ++i) out.d[i][t] = d[i];
    }
    __m256i sums = _mm256_setzero_si256();
    for (std::size_t i = 0; i < n_parts; ++i) {
      sums = _mm256_add_epi32(sums, part(q, i, out));
      if (!groups && i + 1 != n_parts) continue;
      const __m128i both = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
      _mm_store_si128(reinterpret_cast<__m128i*>(out.own[groups ? i : 0]),
                      _mm_sub_epi32(_mm_setzero_si128(), both));
      sums = _mm256_setzero_si256();
    }
  }

 private:
  /// 32 columns. Returns each token's sum of products of neighbours, in two halves.
  CRIA_INLINE static __m256i part(const std::int8_t* const (&q)[kWordsTokens], std::size_t i,
                                  WordsTokens& out) {
    __m256i even[kWordsTokens], odd[kWordsTokens], own[kWordsTokens];
    unroll<kWordsTokens>([&](auto t) CRIA_INLINE {
      const __m256i v = _mm256_load_si256(reinterpret_cast<const __m256i*>(q[t] + 32 * i));
      odd[t] = _mm256_srai_epi16(v, 8);
      even[t] = _mm256_srai_epi16(_mm256_slli_epi16(v, 8), 8);
      own[t] = _mm256_madd_epi16(even[t], odd[t]);
    });
    Transpose256<Avx2>::transpose(even);
    Transpose256<Avx2>::transpose(odd);
    Transpose256<Avx2>::transpose(own);
    unroll<4>([&](auto c) CRIA_INLINE {
      Transpose256<Avx2>::store(out.words[8 * i + c], _mm256_permute2x128_si256(odd[c], even[c], 0x20));
      Transpose256<Avx2>::store(out.words[8 * i + 4 + c], _mm256_permute2x128_si256(odd[c], even[c], 0x31));
    });
    return _mm256_add_epi32(_mm256_add_epi32(own[0], own[1]), _mm256_add_epi32(own[2], own[3]));
  }
};

/// The micro-kernel: 16 rows × T tokens.
template <bool groups, int T>
class WordsTile {
 public:
  /// acc[token][row] += the products of a panel's first 32n columns and a tile.
  static void run(const WordsPanel& panel, const WordsTokens& x, std::size_t n, float (*acc)[kWordsRows]) {
    Sums sums;
#pragma GCC unroll 1
    for (std::size_t b = 0; b < n; ++b) {
      if (groups || b == 0) start(panel, x, b, sums);
      dot(panel, x, b, sums);
      if (groups || b + 1 == n) finish(panel, x, groups ? b : 0, sums, acc);
    }
  }

 private:
  static constexpr int kHalves = 2;
  using Sums = __m256i[T][kHalves];

  template <class F>
  CRIA_INLINE static void each(F f) {
    unroll<T>([&](auto t) CRIA_INLINE { unroll<kHalves>([&](auto h) CRIA_INLINE { f(t, h); }); });
  }
  CRIA_INLINE static __m256i load(const void* p) { return _mm256_load_si256(static_cast<const __m256i*>(p)); }
  CRIA_INLINE static __m256i splat(const std::int32_t& p) { return _mm256_set1_epi32(p); }

  CRIA_INLINE static void start(const WordsPanel& panel, const WordsTokens& x, std::size_t b, Sums& sums) {
    each([&](auto t, auto h)
             CRIA_INLINE { sums[t][h] = _mm256_sub_epi32(splat(x.own[b][t]), load(panel.own[b] + 8 * h)); });
  }
  /// sums += (even weights + odd activations) * (odd weights + even activations) of 32 columns.
  CRIA_INLINE static void dot(const WordsPanel& panel, const WordsTokens& x, std::size_t b, Sums& sums) {
    unroll<8>([&](auto i) CRIA_INLINE {
      const std::size_t k = 8 * b + i;
      const __m256i even[kHalves] = {load(panel.words[k][0]), load(panel.words[k][0] + 8)},
                    odd[kHalves] = {load(panel.words[k][1]), load(panel.words[k][1] + 8)};
      unroll<T>([&](auto t) CRIA_INLINE {
        const __m256i o = splat(x.words[k][0][t]), e = splat(x.words[k][1][t]);
        unroll<kHalves>([&](auto h) CRIA_INLINE {
          const __m256i p = _mm256_madd_epi16(_mm256_add_epi16(even[h], o), _mm256_add_epi16(odd[h], e));
          sums[t][h] = _mm256_add_epi32(sums[t][h], p);
          pin(sums[t][h]);
        });
      });
    });
  }
  CRIA_INLINE static void finish(const WordsPanel& panel, const WordsTokens& x, std::size_t b,
                                 const Sums& sums, float (*acc)[kWordsRows]) {
    each([&](auto t, auto h) CRIA_INLINE {
      const __m256 d = _mm256_mul_ps(_mm256_load_ps(panel.d[b] + 8 * h), _mm256_broadcast_ss(&x.d[b][t]));
      float* const to = acc[t] + 8 * h;
      _mm256_store_ps(to, _mm256_fmadd_ps(d, _mm256_cvtepi32_ps(sums[t][h]), _mm256_load_ps(to)));
    });
  }
};

/// The micro-kernels for 1 … 4 tokens: [tokens - 1].
template <bool groups>
inline constexpr std::array kWordsTiles = {WordsTile<groups, 1>::run, WordsTile<groups, 2>::run,
                                           WordsTile<groups, 3>::run, WordsTile<groups, 4>::run};

/// Products of rows of one type with some tokens, as few tiles as can be, and as equal.
template <DType type>
class WordsRows {
  using Packer = WordsPacker<type>;
  static constexpr std::size_t kRows = kWordsPanels * kWordsRows;

 public:
  /// Tokens [token, token + n), n <= words_tokens_together(job.cols).
  WordsRows(const MatMulJob& job, std::size_t token, std::size_t n, std::byte* scratch)
      : job_(job),
        token_(token),
        n_(n),
        n_tiles_((n + kWordsTokens - 1) / kWordsTokens),
        acc_(reinterpret_cast<WordsSums*>(scratch)),
        tokens_(reinterpret_cast<WordsTokens*>(scratch + kWordsPanels * sizeof(WordsSums))) {
    WordsTokens* to = tokens_;
    for (std::size_t k = 0; k < job.cols; k += kGemmCols)
      for (std::size_t i = 0; i < n_tiles_; ++i, ++to)
        WordsLayout<Packer::kGroups>::tile(*job.x, token + first(i), in_tile(i), k, columns(k), *to);
  }

  void run(std::size_t row_begin, std::size_t row_end) {
    const std::byte* const end = job_.weights + row_end * job_.row_bytes;
    for (std::size_t r = row_begin; r < row_end; r += kRows) {
      const std::size_t n_rows = std::min(kRows, row_end - r),
                        n_panels = (n_rows + kWordsRows - 1) / kWordsRows;
      const std::byte* const rows = job_.weights + r * job_.row_bytes;
      multiply(rows, n_rows, n_panels, fetched_beside(rows, kRows * job_.row_bytes, end, job_.next));
      for (std::size_t p = 0; p < n_panels; ++p)
        for (std::size_t t = 0; t < n_; ++t)
          put(r + p * kWordsRows, std::min(kWordsRows, n_rows - p * kWordsRows), token_ + t, acc_[p][t]);
    }
  }

 private:
  [[nodiscard]] std::size_t first(std::size_t tile) const { return n_ * tile / n_tiles_; }
  [[nodiscard]] std::size_t in_tile(std::size_t tile) const { return first(tile + 1) - first(tile); }
  [[nodiscard]] std::size_t columns(std::size_t k) const { return std::min(kGemmCols, job_.cols - k); }

  void multiply(const std::byte* row, std::size_t n_rows, std::size_t n_panels, const std::byte* far) {
    const std::byte* rows[kRows / kRowGroup][kRowGroup];
    for (std::size_t i = 0; i < kRows; ++i)
      rows[i / kRowGroup][i % kRowGroup] = row + std::min(i, n_rows - 1) * job_.row_bytes;
    for (std::size_t p = 0; p < n_panels; ++p) std::memset(acc_[p], 0, n_ * sizeof acc_[p][0]);
    std::size_t offset = kHeaderBytes<type>;
    const WordsTokens* x = tokens_;
    for (std::size_t k = 0; k < job_.cols; k += kGemmCols, x += n_tiles_) {
      const std::size_t n_blocks = columns(k) / Packer::kBlockValues, bytes = n_blocks * Packer::kBytes;
      for (std::size_t g = 0; g < n_panels * (kWordsRows / kRowGroup); ++g, far += kRowGroup * bytes)
        Packer::pack(rows[g], offset, n_blocks, far, g * kRowGroup % kWordsRows,
                     panel_[g * kRowGroup / kWordsRows]);
      offset += bytes;
      for (std::size_t i = 0; i < n_tiles_; ++i)
        for (std::size_t p = 0; p < n_panels; ++p)
          kWordsTiles<Packer::kGroups>[in_tile(i) - 1](panel_[p], x[i], columns(k) / 32, acc_[p] + first(i));
    }
  }
  void put(std::size_t row, std::size_t n_rows, std::size_t token, const float* sums) const {
    const std::size_t at = token * job_.out_stride + row;
    if (job_.residual == nullptr) {
      std::memcpy(job_.out + at, sums, n_rows * sizeof *sums);
      return;
    }
    for (std::size_t r = 0; r < n_rows; ++r) job_.out[at + r] = job_.residual[at + r] + sums[r];
  }

  const MatMulJob& job_;
  std::size_t token_, n_, n_tiles_;
  WordsSums* acc_;
  WordsTokens* tokens_;  ///< [block of columns][tile]
  WordsPanel panel_[kWordsPanels];
};

/// A MatMulFn for types whose weights have the full range of a byte.
template <DType type>
void words_rows(const MatMulJob& job, std::size_t row_begin, std::size_t row_end, std::byte* scratch) {
  const std::size_t all = job.x->n_tokens, most = words_tokens_together(job.cols),
                    waves = (all + most - 1) / most;
  for (std::size_t i = 0; i < waves; ++i) {
    const std::size_t first = all * i / waves, end = all * (i + 1) / waves;
    WordsRows<type>(job, first, end - first, scratch).run(row_begin, row_end);
  }
}

}  // namespace cria
