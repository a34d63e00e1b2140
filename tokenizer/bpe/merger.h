// Byte-pair merging: of all neighbouring symbols the pair of lowest rank (of equal ranks the
// leftmost) becomes one symbol, until no pair has a rank.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "tokenizer/bpe/merge_queue.h"

namespace cria {

/// What becomes of two neighbours.
struct Merge {
  static constexpr std::uint32_t kNever = std::numeric_limits<std::uint32_t>::max();
  std::uint32_t rank = kNever;
  std::int32_t id = -1;  ///< the token that they make
};

/// Rules: `Symbol`, a small type; `Merge find(Symbol left, Symbol right)`; `Symbol join(Symbol
/// left, Symbol right, std::int32_t id)`. Working memory is kept from one word to the next; not for
/// several threads.
template <class Rules>
class Merger {
 public:
  using Symbol = typename Rules::Symbol;

  /// Replaces the symbols of a word (fewer than 2^32) by those that remain. Time n log n, and n²
  /// for the few symbols of a usual word, where that is less.
  void run(const Rules& rules, std::vector<Symbol>& symbols) {
    if (symbols.size() <= kFew)
      run_few(rules, symbols);
    else
      run_many(rules, symbols);
  }

 private:
  static constexpr std::size_t kFew = 40;
  static constexpr std::uint32_t kEnd = std::numeric_limits<std::uint32_t>::max();

  void run_few(const Rules& rules, std::vector<Symbol>& symbols) {
    std::array<Merge, kFew> pairs;  // of symbol i and its right neighbour
    std::size_t n = symbols.size();
    for (std::size_t i = 0; i + 1 < n; ++i) pairs[i] = rules.find(symbols[i], symbols[i + 1]);
    while (n > 1) {
      std::size_t best = 0;
      for (std::size_t i = 1; i + 1 < n; ++i)
        if (pairs[i].rank < pairs[best].rank) best = i;
      if (pairs[best].rank == Merge::kNever) break;
      symbols[best] = rules.join(symbols[best], symbols[best + 1], pairs[best].id);
      --n;
      std::copy(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 2,
                symbols.begin() + static_cast<std::ptrdiff_t>(n) + 1,
                symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
      std::copy(pairs.begin() + best + 1, pairs.begin() + n, pairs.begin() + best);
      if (best > 0) pairs[best - 1] = rules.find(symbols[best - 1], symbols[best]);
      if (best + 1 < n) pairs[best] = rules.find(symbols[best], symbols[best + 1]);
    }
    symbols.resize(n);
  }

  struct Node {
    Symbol symbol;
    Merge pair;  ///< with the next node
    std::uint32_t previous, next;
  };
  void run_many(const Rules& rules, std::vector<Symbol>& symbols) {
    const auto n = static_cast<std::uint32_t>(symbols.size());
    nodes_.resize(n);
    for (std::uint32_t i = 0; i < n; ++i)
      nodes_[i] = {symbols[i], {}, i == 0 ? kEnd : i - 1, i + 1 < n ? i + 1 : kEnd};
    MergeQueue queue;
    for (std::uint32_t i = 0; i + 1 < n; ++i) pair_up(rules, i, queue);
    while (!queue.empty()) {
      const auto [rank, at] = queue.pop();
      if (nodes_[at].pair.rank == rank) merge(rules, at, queue);  // else its pair has changed since
    }
    symbols.clear();
    for (std::uint32_t i = 0; i != kEnd; i = nodes_[i].next) symbols.push_back(nodes_[i].symbol);
    if (n > kKeptNodes) nodes_ = {};
  }

  void merge(const Rules& rules, std::uint32_t at, MergeQueue& queue) {
    Node& left = nodes_[at];
    Node& right = nodes_[left.next];
    left.symbol = rules.join(left.symbol, right.symbol, left.pair.id);
    left.next = right.next;
    right.pair = {};
    if (left.next != kEnd) nodes_[left.next].previous = at;
    if (left.previous != kEnd) pair_up(rules, left.previous, queue);
    pair_up(rules, at, queue);
  }

  void pair_up(const Rules& rules, std::uint32_t at, MergeQueue& queue) {
    Node& node = nodes_[at];
    node.pair = node.next == kEnd ? Merge{} : rules.find(node.symbol, nodes_[node.next].symbol);
    if (node.pair.rank != Merge::kNever) queue.push(node.pair.rank, at);
  }

  static constexpr std::size_t kKeptNodes = 1 << 16;
  std::vector<Node> nodes_;
};

}  // namespace cria
