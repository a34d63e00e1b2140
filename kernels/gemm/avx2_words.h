// Products of weights of the full range of a byte with 12 to kWordsMostTokens tokens on AVX2:
// sixteen rows of words in a panel that stays in the first-level cache, by four tokens. Multiplied
// by Winograd's inner product (see avx2.h); the tokens' words are laid out once for all rows of a
// call.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/formats/round.h"
#include "kernels/gemm/avx2_words_pack.h"
#include "kernels/gemm/words_tokens.h"
#include "kernels/gemv/fetch_ahead.h"
#include "kernels/kernels.h"

namespace cria {

/// Fills WordsTokens. groups: 32 columns share floats, else 256.
template <bool groups>
class WordsLayout {
 public:
  /// The 256 or fewer columns from k on of tokens [first, first + n) of x, n <= 4; the last is
  /// repeated.
  static void tile(const Activations& x, std::size_t first, std::size_t n, std::size_t k,
                   std::size_t cols, WordsTokens& out) {
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
      const __m128i both =
          _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
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
      Transpose256<Avx2>::store(out.words[8 * i + c],
                                _mm256_permute2x128_si256(odd[c], even[c], 0x20));
      Transpose256<Avx2>::store(out.words[8 * i + 4 + c],
                                _mm256_permute2x128_si256(odd[c], even[c], 0x31));
    });
    return _mm256_add_epi32(_mm256_add_epi32(own[0], own[1]), _mm256_add_epi32(own[2], own[3]));
  }
};

/// The micro-kernel: 16 rows × T tokens.
template <bool groups, int T>
class WordsTile {
 public:
  /// acc[token][row] += the products of a panel's first 32n columns and a tile.
  static void run(const WordsPanel& panel, const WordsTokens& x, std::size_t n,
                  float (*acc)[kWordsRows]) {
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
  CRIA_INLINE static __m256i load(const void* p) {
    return _mm256_load_si256(static_cast<const __m256i*>(p));
  }
  CRIA_INLINE static __m256i splat(const std::int32_t& p) { return _mm256_set1_epi32(p); }

  CRIA_INLINE static void start(const WordsPanel& panel, const WordsTokens& x, std::size_t b,
                                Sums& sums) {
    each([&](auto t, auto h) CRIA_INLINE {
      sums[t][h] = _mm256_sub_epi32(splat(x.own[b][t]), load(panel.own[b] + 8 * h));
    });
  }
  /// sums += (even weights + odd activations) * (odd weights + even activations) of 32 columns.
  CRIA_INLINE static void dot(const WordsPanel& panel, const WordsTokens& x, std::size_t b,
                              Sums& sums) {
    unroll<8>([&](auto i) CRIA_INLINE {
      const std::size_t k = 8 * b + i;
      const __m256i even[kHalves] = {load(panel.words[k][0]), load(panel.words[k][0] + 8)},
                    odd[kHalves] = {load(panel.words[k][1]), load(panel.words[k][1] + 8)};
      unroll<T>([&](auto t) CRIA_INLINE {
        const __m256i o = splat(x.words[k][0][t]), e = splat(x.words[k][1][t]);
        unroll<kHalves>([&](auto h) CRIA_INLINE {
          const __m256i p =
              _mm256_madd_epi16(_mm256_add_epi16(even[h], o), _mm256_add_epi16(odd[h], e));
          sums[t][h] = _mm256_add_epi32(sums[t][h], p);
          pin(sums[t][h]);
        });
      });
    });
  }
  CRIA_INLINE static void finish(const WordsPanel& panel, const WordsTokens& x, std::size_t b,
                                 const Sums& sums, float (*acc)[kWordsRows]) {
    each([&](auto t, auto h) CRIA_INLINE {
      const __m256 d =
          _mm256_mul_ps(_mm256_load_ps(panel.d[b] + 8 * h), _mm256_broadcast_ss(&x.d[b][t]));
      float* const to = acc[t] + 8 * h;
      _mm256_store_ps(to, _mm256_fmadd_ps(d, _mm256_cvtepi32_ps(sums[t][h]), _mm256_load_ps(to)));
    });
  }
};

/// The micro-kernels for 1 … 4 tokens: [tokens - 1].
template <bool groups>
inline constexpr std::array kWordsTiles = {WordsTile<groups, 1>::run, WordsTile<groups, 2>::run,
                                           WordsTile<groups, 3>::run, WordsTile<groups, 4>::run};

/// Tiles of all tokens of a product, as few as can be, and as equal.
class WordsTiles {
 public:
  explicit WordsTiles(std::size_t n_tokens) : n_(n_tokens), size_(words_tiles(n_tokens)) {}
  [[nodiscard]] std::size_t size() const { return size_; }
  /// The first token of tile i.
  [[nodiscard]] std::size_t first(std::size_t i) const { return n_ * i / size_; }
  [[nodiscard]] std::size_t tokens(std::size_t i) const { return first(i + 1) - first(i); }

 private:
  std::size_t n_, size_;
};

/// Fills to[block of 256 columns][stride] with tile i of the tokens.
template <bool groups>
void lay_out_words(const Activations& x, const WordsTiles& tiles, std::size_t i, std::size_t stride,
                   WordsTokens* to) {
  for (std::size_t k = 0; k < x.cols; k += kGemmCols, to += stride)
    WordsLayout<groups>::tile(x, tiles.first(i), tiles.tokens(i), k,
                              std::min(kGemmCols, x.cols - k), *to);
}
/// LayOut::run, of the tiles that begin with one of the tokens.
template <bool groups>
void lay_out_words(const Activations& x, std::size_t t0, std::size_t t1, std::byte* to) {
  const WordsTiles tiles(x.n_tokens);
  for (std::size_t i = 0; i < tiles.size(); ++i)
    if (tiles.first(i) >= t0 && tiles.first(i) < t1)
      lay_out_words<groups>(x, tiles, i, tiles.size(), reinterpret_cast<WordsTokens*>(to) + i);
}

/// Products of rows of one type with the tokens of some tiles.
template <DType type>
class WordsRows {
  using Packer = WordsPacker<type>;
  static constexpr std::size_t kRows = kWordsPanels * kWordsRows;

 public:
  static constexpr bool kGroups = Packer::kGroups;

  /// Tiles [begin, end), of words_tokens_together(job.cols) tokens at most.
  WordsRows(const MatMulJob& job, std::size_t begin, std::size_t end, std::byte* scratch)
      : job_(job),
        tiles_(job.x->n_tokens),
        begin_(begin),
        end_(end),
        acc_(reinterpret_cast<WordsSums*>(scratch)) {
    if (job.laid_out != nullptr) {
      tokens_ = reinterpret_cast<const WordsTokens*>(job.laid_out) + begin;
      stride_ = tiles_.size();
      return;
    }
    auto* const own = reinterpret_cast<WordsTokens*>(scratch + kWordsPanels * sizeof(WordsSums));
    tokens_ = own;
    stride_ = end - begin;
    for (std::size_t i = begin; i < end; ++i)
      lay_out_words<Packer::kGroups>(*job.x, tiles_, i, stride_, own + (i - begin));
  }

  void run(std::size_t row_begin, std::size_t row_end) {
    const std::byte* const end = job_.weights + row_end * job_.row_bytes;
    for (std::size_t r = row_begin; r < row_end; r += kRows) {
      const std::size_t n_rows = std::min(kRows, row_end - r),
                        n_panels = divide_up(n_rows, kWordsRows);
      const std::byte* const rows = job_.weights + r * job_.row_bytes;
      multiply(rows, n_rows, n_panels,
               fetched_beside(rows, kRows * job_.row_bytes, end, job_.next));
      for (std::size_t p = 0; p < n_panels; ++p)
        for (std::size_t t = 0; t < n_tokens(); ++t)
          put(r + p * kWordsRows, std::min(kWordsRows, n_rows - p * kWordsRows),
              tiles_.first(begin_) + t, acc_[p][t]);
    }
  }

 private:
  [[nodiscard]] std::size_t n_tokens() const { return tiles_.first(end_) - tiles_.first(begin_); }
  [[nodiscard]] std::size_t columns(std::size_t k) const {
    return std::min(kGemmCols, job_.cols - k);
  }

  void multiply(const std::byte* row, std::size_t n_rows, std::size_t n_panels,
                const std::byte* far) {
    const std::byte* rows[kRows / kRowGroup][kRowGroup];
    for (std::size_t i = 0; i < kRows; ++i)
      rows[i / kRowGroup][i % kRowGroup] = row + std::min(i, n_rows - 1) * job_.row_bytes;
    for (std::size_t p = 0; p < n_panels; ++p)
      std::memset(acc_[p], 0, n_tokens() * sizeof acc_[p][0]);
    std::size_t offset = kHeaderBytes<type>;
    const WordsTokens* x = tokens_;
    for (std::size_t k = 0; k < job_.cols; k += kGemmCols, x += stride_) {
      const std::size_t n_blocks = columns(k) / Packer::kBlockValues,
                        bytes = n_blocks * Packer::kBytes;
      for (std::size_t g = 0; g < n_panels * (kWordsRows / kRowGroup);
           ++g, far += kRowGroup * bytes)
        Packer::pack(rows[g], offset, n_blocks, far, g * kRowGroup % kWordsRows,
                     panel_[g * kRowGroup / kWordsRows]);
      offset += bytes;
      for (std::size_t i = begin_; i < end_; ++i)
        for (std::size_t p = 0; p < n_panels; ++p)
          kWordsTiles<Packer::kGroups>[tiles_.tokens(i) - 1](
              panel_[p], x[i - begin_], columns(k) / 32,
              acc_[p] + (tiles_.first(i) - tiles_.first(begin_)));
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
  WordsTiles tiles_;
  std::size_t begin_, end_, stride_;
  WordsSums* acc_;
  const WordsTokens* tokens_;  ///< [block of columns][stride_ tiles]
  WordsPanel panel_[kWordsPanels];
};

/// A MatMulFn for types whose weights have the full range of a byte.
template <DType type>
void words_rows(const MatMulJob& job, std::size_t row_begin, std::size_t row_end,
                std::byte* scratch) {
  const std::size_t tiles = words_tiles(job.x->n_tokens),
                    most = words_tokens_together(job.cols) / kWordsTokens,
                    waves = divide_up(tiles, most);
  for (std::size_t i = 0; i < waves; ++i)
    WordsRows<type>(job, tiles * i / waves, tiles * (i + 1) / waves, scratch)
        .run(row_begin, row_end);
}

}  // namespace cria
