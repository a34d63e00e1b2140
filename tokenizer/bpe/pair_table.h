// Which pairs of tokens merge, by hash: the one look-up of byte-pair merging.
#pragma once

#include <cstdint>
#include <vector>

#include "model/vocabulary.h"
#include "tokenizer/bpe/merger.h"

namespace cria {

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
  /// Of equal pairs the first one stays.
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
