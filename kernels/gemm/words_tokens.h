// The tokens' side of products of words on AVX2, laid out once for all rows: see avx2_words.h.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/formats/round.h"
#include "kernels/gemm/panel.h"

namespace cria {

inline constexpr std::size_t kWordsTokens = 4;        ///< of a tile
inline constexpr std::size_t kWordsRows = 16;         ///< of a panel
inline constexpr std::size_t kWordsPanels = 2;        ///< that share one reading of the tokens
inline constexpr std::size_t kWordsMostTokens = 128;  ///< that one decoding of the weights serves

/// What 256 columns of four tokens bring to the products.
struct alignas(64) WordsTokens {
  std::int32_t words[kGemmCols / 4][2]
                    [kWordsTokens];   ///< of four columns the odd ones' words, then the even ones'
  std::int32_t own[8][kWordsTokens];  ///< sums of products of neighbours, negated: per group of 32
                                      ///< columns, or [0] of all
  float d[8][kWordsTokens];           ///< likewise
};

using WordsSums = float[kWordsMostTokens][kWordsRows];  ///< of a panel

constexpr std::size_t words_tiles(std::size_t n_tokens) {
  return divide_up(n_tokens, kWordsTokens);
}

/// Bytes that n tokens of rows of `cols` values take.
constexpr std::size_t words_tokens_bytes(std::size_t n_tokens, std::size_t cols) {
  return divide_up(cols, kGemmCols) * words_tiles(n_tokens) * sizeof(WordsTokens);
}

/// How many tokens of so long rows are multiplied at a time: 2 MiB, but not so few that decoding
/// the weights again would count.
constexpr std::size_t words_tokens_together(std::size_t cols) {
  const std::size_t tile = divide_up(cols, kGemmCols) * sizeof(WordsTokens);
  return std::clamp((std::size_t{2} << 20) / std::max<std::size_t>(tile, 1) * kWordsTokens,
                    std::size_t{32}, kWordsMostTokens);
}

/// Bytes of scratch that the tokens of rows of `cols` values take, with the sums.
constexpr std::size_t words_bytes(std::size_t cols) {
  return kWordsPanels * sizeof(WordsSums) + words_tokens_bytes(words_tokens_together(cols), cols);
}

}  // namespace cria
