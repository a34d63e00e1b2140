// Logits of a batch, row by row.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "engine/engine.h"

namespace cria {

/// Calls take(row, logits) for rows begin … end-1 of a batch, computed in pieces of what the engine
/// holds at once.
template <class Take>
void for_each_row(const Engine& engine, Batch& batch, std::size_t begin, std::size_t end,
                  Take&& take) {
  const std::size_t n_vocab = engine.model().vocabulary_size();
  while (begin < end) {
    const std::size_t piece = std::min(end, begin + engine.logit_rows());
    const std::span<const float> logits = batch.logits(begin, piece);
    for (std::size_t row = begin; row < piece; ++row)
      take(row, logits.subspan((row - begin) * n_vocab, n_vocab));
    begin = piece;
  }
}

}  // namespace cria
