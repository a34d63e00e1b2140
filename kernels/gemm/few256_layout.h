// Lays out the tokens of products of few tokens on AVX2 and AVX-VNNI: see few256_tokens.h.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "kernels/gemm/few256_tokens.h"
#include "kernels/rows/activations.h"
#include "kernels/simd/row_lanes.h"

namespace cria {

/// Two int16, each of which may have wrapped around.
constexpr std::int32_t two_words(int low, int high) {
  return static_cast<std::int32_t>((static_cast<std::uint32_t>(low) & 0xFFFF) |
                                   static_cast<std::uint32_t>(high) << 16);
}

/// -zero times the sums of columns 4i, 4i + 1 and of columns 4i + 2, 4i + 3, as the two int16 of a
/// sum take them.
template <int columns, int zero>
CRIA_INLINE inline std::int32_t start_of_sums(const std::int8_t* q) {
  __m128i sum = _mm_setzero_si128();
#pragma GCC unroll 16
  for (int i = 0; i < columns; i += 16) {
    const auto* const p = reinterpret_cast<const __m128i*>(q + i);
    const __m128i v = columns == 8 ? _mm_loadl_epi64(p) : _mm_loadu_si128(p);
    sum = _mm_add_epi16(sum, _mm_maddubs_epi16(_mm_set1_epi8(1), v));
  }
  sum = _mm_add_epi16(sum, _mm_shuffle_epi32(sum, 0x4E));
  sum = _mm_add_epi16(sum, _mm_shuffle_epi32(sum, 0xB1));
  return _mm_cvtsi128_si32(_mm_mullo_epi16(sum, _mm_set1_epi16(-zero)));
}

/// Of n columns of a token from `column` on.
template <FewRowsShape shape, int n>
CRIA_INLINE inline int sum_of_columns(const Activations& x, std::size_t token, std::size_t column) {
  constexpr std::size_t kPerSum = shape.group == 32 ? 32 : 16;
  const std::int16_t* const sum = x.sum + (token * x.cols + column) / kPerSum;
  return std::accumulate(sum, sum + n / kPerSum, 0);
}

/// Place t of a tile: `cols` columns from k on of `token`.
template <FewRowsShape shape>
void lay_out_tile_token(const Activations& x, std::size_t token, std::size_t k, std::size_t cols,
                        std::size_t t, TokenTile& out) {
  constexpr int kColumns = 4 * shape.in_one_run();
  const std::int8_t* const q = x.q + token * x.q_stride() + k;
  if (cols == kGemmCols)
    std::memcpy(out.q[t], q, kGemmCols);
  else
    std::memcpy(out.q[t], q, cols);
  if constexpr (shape.centred) {
    for (std::size_t i = 0; i < cols / kColumns; ++i) {
      if constexpr (shape.in_fours())
        out.start[i][t] = -shape.zero * sum_of_columns<shape, kColumns>(x, token, k + kColumns * i);
      else
        out.start[i][t] = start_of_sums<kColumns, shape.zero>(q + kColumns * i);
    }
  }
  const std::size_t n_groups = cols / shape.group, group = (token * x.cols + k) / shape.group;
  for (std::size_t i = 0; i < n_groups; ++i) out.d[i][t] = x.d[group + i];
  if constexpr (shape.groups() && shape.mins != 0)
    for (std::size_t i = 0; i < n_groups; ++i)
      out.d_sum[i][t] = x.d[group + i] * static_cast<float>(x.sum[group + i]);
  if constexpr (shape.pairs() != 0) {
    const std::int16_t* const sum = x.sum + (token * x.cols + k) / 16;
    for (int i = 0; i < shape.pairs(); ++i)
      out.pairs[i][t] = shape.pairs() == 8 ? two_words(sum[2 * i], sum[2 * i + 1])
                                           : two_words(sum[4 * i] + sum[4 * i + 1],
                                                       sum[4 * i + 2] + sum[4 * i + 3]);
  }
}

/// Fills TokenTile[block of 256 columns][tile] with tokens [t0, t1) of all: as few tiles as can be,
/// and as equal.
template <FewRowsShape shape>
void lay_out_tiles(const Activations& x, std::size_t t0, std::size_t t1, std::byte* to) {
  auto* const tiles = reinterpret_cast<TokenTile*>(to);
  const std::size_t n = x.n_tokens, n_tiles = token_tiles(n);
  for (std::size_t i = 0; i < n_tiles; ++i) {
    const std::size_t first = n * i / n_tiles, end = n * (i + 1) / n_tiles;
    for (std::size_t t = std::max(first, t0); t < std::min(end, t1); ++t)
      for (std::size_t k = 0; k < x.cols; k += kGemmCols)
        lay_out_tile_token<shape>(x, t, k, std::min(kGemmCols, x.cols - k), t - first,
                                  tiles[k / kGemmCols * n_tiles + i]);
  }
}

}  // namespace cria
