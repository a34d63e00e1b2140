// What one pass over the weights computes, as plain data: planned once, then executed.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "engine/execute/kv_pool.h"
#include "model/token_id.h"

namespace cria {

/// Rows [begin, end) of a batch: neighbouring positions of one sequence, first_pos the one of row
/// begin.
struct BatchSlice {
  std::size_t begin, end, first_pos;
  const PageTables* pages;  ///< hold every page that these positions write and see
};

/// Rows [begin, end) of a slice whose attention is computed together.
struct QueryBlock {
  std::size_t slice, begin, end;
};

/// The rows [begin, end) that nodes compute: what they are of.
struct BatchRows {
  std::size_t begin = 0, end = 0;
  std::vector<TokenId> tokens;         ///< by row
  std::vector<std::size_t> positions;  ///< by row
  std::vector<BatchSlice> slices;
  std::vector<QueryBlock> blocks;

  [[nodiscard]] std::size_t count() const { return end - begin; }
};

/// A batch is slices, one after the other. Logits are wanted of a suffix of each. From
/// Graph::first_sparse on only such rows are computed; they are moved to the end first, so that
/// they are neighbours.
struct BatchPlan {
  BatchRows all, wanted;
  /// Rows from … from+n-1 become to …; in this order, each from its last row on, nothing is lost.
  struct Move {
    std::size_t from, to, n;
  };
  std::vector<Move> moves;

  /// Room for n_batch tokens: nothing is allocated after this.
  explicit BatchPlan(std::size_t n_batch);
  void clear();
  /// Tokens at first_pos … of a sequence; logits are wanted of those from first_wanted on.
  void add(std::span<const TokenId> tokens, std::size_t first_pos, std::size_t first_wanted,
           const PageTables& pages);
  /// After the last add().
  void finish();
  /// The first token of a slice, counted from its first, whose logits are wanted.
  [[nodiscard]] std::size_t first_wanted(std::size_t slice) const {
    return first_wanted_[slice] - all.slices[slice].begin;
  }

 private:
  std::vector<std::size_t> first_wanted_;  // row of each slice
};

}  // namespace cria
