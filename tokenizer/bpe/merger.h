// The pairs that wait to be merged: the least rank first, of equal ranks the leftmost.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <queue>
#include <unordered_map>
#include <vector>

#include "model/vocabulary.h"

namespace cria {

/// A heap of ranks over one list of positions per rank. Positions of a rank arrive nearly in order,
/// so most are appended. On a word of 20 million letters it is two to three times as fast as one
/// heap of all pairs.
class MergeQueue {
 public:
  struct Entry {
    std::uint32_t rank, at;
  };

  void push(std::uint32_t rank, std::uint32_t at) {
    Positions& positions = lists_[rank];
    if (positions.empty()) ranks_.push(rank);
    if (positions.in_order.empty() || positions.in_order.back() <= at)
      positions.in_order.push_back(at);
    else
      positions.late.push(at);
  }
  [[nodiscard]] bool empty() const { return ranks_.empty(); }
  Entry pop() {
    const std::uint32_t rank = ranks_.top();
    Positions& positions = lists_[rank];
    const std::uint32_t at = positions.pop();
    if (positions.empty()) ranks_.pop();
    return {rank, at};
  }

 private:
  template <class T>
  using Least = std::priority_queue<T, std::vector<T>, std::greater<>>;

  struct Positions {
    std::vector<std::uint32_t> in_order;
    std::size_t next = 0;  ///< index in in_order; earlier ones are done
    Least<std::uint32_t> late;

    [[nodiscard]] bool empty() const { return next == in_order.size() && late.empty(); }
    std::uint32_t pop() {
      if (late.empty() || (next < in_order.size() && in_order[next] <= late.top())) {
        const std::uint32_t at = in_order[next++];
        if (next == in_order.size()) {
          in_order.clear();
          next = 0;
        }
        return at;
      }
      const std::uint32_t at = late.top();
      late.pop();
      return at;
    }
  };

  std::unordered_map<std::uint32_t, Positions> lists_;  ///< by rank
  Least<std::uint32_t> ranks_;                          ///< ranks with a list that is not empty
};

// Byte-pair merging: of all neighbouring symbols the pair of lowest rank (of equal ranks the
// leftmost) becomes one symbol, until no pair has a rank.

/// The result of merging two neighbours.
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
    if (symbols.size() <= kMaxSmall)
      run_small(rules, symbols);
    else
      run_large(rules, symbols);
  }

 private:
  static constexpr std::size_t kMaxSmall = 40;
  static constexpr std::uint32_t kEnd = std::numeric_limits<std::uint32_t>::max();

  void run_small(const Rules& rules, std::vector<Symbol>& symbols) {
    std::array<Merge, kMaxSmall> pairs;  // pairs[i]: symbol i and its right neighbour
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
  void run_large(const Rules& rules, std::vector<Symbol>& symbols) {
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

// Pairs of tokens that merge, by hash: the only look-up of byte-pair merging.

/// The rules of a merger whose symbols are token ids.
class PairTable {
 public:
  using Symbol = TokenId;

  /// Room for n pairs, which insert must not exceed.
  explicit PairTable(std::size_t n = 0) {
    std::size_t slots = 16;
    while (slots < 2 * n) slots *= 2;
    slots_.resize(slots);
    shift_ = 64 - static_cast<unsigned>(__builtin_ctzll(slots));
  }
  /// The first of equal pairs stays.
  void insert(TokenId left, TokenId right, Merge merge) {
    Slot& slot = slots_[find_slot(key(left, right))];
    if (slot.merge.rank == Merge::kNever) slot = {key(left, right), merge};
  }
  [[nodiscard]] Merge find(TokenId left, TokenId right) const {
    return slots_[find_slot(key(left, right))].merge;
  }
  [[nodiscard]] static TokenId join(TokenId, TokenId, TokenId joined) { return joined; }

 private:
  struct Slot {
    std::uint64_t key = 0;
    Merge merge;  ///< never: empty
  };

  static std::uint64_t key(TokenId left, TokenId right) {
    return (std::uint64_t{static_cast<std::uint32_t>(left)} << 32) |
           static_cast<std::uint32_t>(right);
  }
  [[nodiscard]] std::size_t find_slot(std::uint64_t key) const {
    std::uint64_t mixed = key * 0x9E3779B97F4A7C15U;
    mixed = (mixed ^ (mixed >> 32)) * 0x9E3779B97F4A7C15U;
    std::size_t at = mixed >> shift_;
    while (slots_[at].merge.rank != Merge::kNever && slots_[at].key != key)
      at = (at + 1) & (slots_.size() - 1);
    return at;
  }

  std::vector<Slot> slots_;
  unsigned shift_;
};

}  // namespace cria
