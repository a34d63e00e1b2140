// Ids of words that were met before: words repeat, and finding one is ten times as fast as merging
// it.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/vocabulary.h"

namespace cria {

/// Bounded: forgets everything when it is full. Not for several threads.
class WordCache {
 public:
  static constexpr std::size_t kLongestWord = 40;  ///< bytes; longer ones hardly repeat

  /// The ids of a word, or nullptr data if it is not known (no word has no ids). Valid until the
  /// next insert.
  [[nodiscard]] std::span<const TokenId> find(std::string_view word) const {
    if (slots_.empty()) return {};
    const Slot& slot = slots_[slot_of(word, hash(word))];
    return {slot.n_ids == 0 ? nullptr : ids_.data() + slot.ids, slot.n_ids};
  }
  void insert(std::string_view word, std::span<const TokenId> ids) {
    if (word.size() > kLongestWord || ids.empty()) return;
    if (2 * n_words_ >= slots_.size()) grow();
    Slot& slot = slots_[slot_of(word, hash(word))];
    if (slot.n_ids != 0) return;
    slot = {static_cast<std::uint32_t>(bytes_.size()), static_cast<std::uint32_t>(ids_.size()),
            tag(hash(word)), static_cast<std::uint8_t>(word.size()),
            static_cast<std::uint8_t>(ids.size())};
    bytes_.append(word);
    ids_.insert(ids_.end(), ids.begin(), ids.end());
    ++n_words_;
  }

 private:
  static constexpr std::size_t kFirstSlots = 1 << 10, kMaxSlots = 1 << 18;

  struct Slot {
    std::uint32_t bytes = 0, ids = 0;  ///< where they begin
    std::uint16_t tag = 0;
    std::uint8_t n_bytes = 0, n_ids = 0;  ///< no ids: empty
  };

  static std::uint64_t hash(std::string_view word) {
    std::uint64_t h = word.size();
    const char* at = word.data();
    std::size_t left = word.size();
    const auto mix = [&h](std::uint64_t value) {
      h = (h ^ value) * 0x9E3779B97F4A7C15U;
      h ^= h >> 29;
    };
    for (std::uint64_t eight = 0; left >= 8; at += 8, left -= 8) {
      std::memcpy(&eight, at, 8);
      mix(eight);
    }
    std::uint64_t rest = 0;
    for (std::size_t i = 0; i < left; ++i)
      rest |= std::uint64_t{static_cast<unsigned char>(at[i])} << (8 * i);
    mix(rest);
    return h * 0x9E3779B97F4A7C15U;
  }
  static std::uint16_t tag(std::uint64_t hash) { return static_cast<std::uint16_t>(hash); }

  [[nodiscard]] std::size_t slot_of(std::string_view word, std::uint64_t hash) const {
    std::size_t at = hash >> shift_;
    for (;; at = (at + 1) & (slots_.size() - 1)) {
      const Slot& slot = slots_[at];
      if (slot.n_ids == 0) return at;
      if (slot.tag == tag(hash) && slot.n_bytes == word.size() &&
          std::memcmp(bytes_.data() + slot.bytes, word.data(), word.size()) == 0)
        return at;
    }
  }

  void grow() {
    const bool full = slots_.size() >= kMaxSlots;
    std::vector<Slot> old(full ? kFirstSlots : std::max(kFirstSlots, 2 * slots_.size()));
    old.swap(slots_);
    shift_ = 64 - static_cast<unsigned>(__builtin_ctzll(slots_.size()));
    if (full) {
      bytes_.clear();
      ids_.clear();
      n_words_ = 0;
      return;
    }
    for (const Slot& slot : old) {
      if (slot.n_ids == 0) continue;
      const std::string_view word(bytes_.data() + slot.bytes, slot.n_bytes);
      slots_[slot_of(word, hash(word))] = slot;
    }
  }

  std::vector<Slot> slots_;
  std::string bytes_;         ///< of all words
  std::vector<TokenId> ids_;  ///< of all words
  std::size_t n_words_ = 0;
  unsigned shift_ = 64;
};

}  // namespace cria
