// Texts of tokens by hash. The hash is a polynomial, so that the hash of two texts joined costs one
// multiplication: merging looks up every pair of neighbours without reading them again.
#pragma once

#include <bitset>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "model/file/utf8.h"
#include "model/vocabulary.h"

namespace cria {

class TextTable {
 public:
  static constexpr TokenId kNone = -1;
  static constexpr std::uint64_t kBase = 0x9E3779B97F4A7C15U;  ///< odd, bits evenly spread

  static constexpr std::uint64_t hash(std::string_view text) {
    std::uint64_t h = 0;
    for (const char c : text) h = h * kBase + static_cast<unsigned char>(c) + 1;
    return h;
  }

  /// Room for n texts, which insert must not exceed.
  explicit TextTable(std::size_t n = 0) {
    std::size_t slots = 16;
    while (slots < 2 * n) slots *= 2;
    slots_.resize(slots);
    shift_ = 64 - static_cast<unsigned>(__builtin_ctzll(slots));
  }
  /// The text must outlive the table. A text that already exists gets the new id.
  void insert(std::string_view text, TokenId id) {
    Slot& slot = slots_[find_slot(hash(text), text)];
    slot = {hash(text), text.data(), static_cast<std::uint32_t>(text.size()), id};
  }
  /// The id of a text whose hash is known, or kNone.
  [[nodiscard]] TokenId find(std::uint64_t hash, std::string_view text) const {
    return slots_[find_slot(hash, text)].id;
  }
  [[nodiscard]] TokenId find(std::string_view text) const { return find(hash(text), text); }

 private:
  struct Slot {
    std::uint64_t hash = 0;
    const char* text = nullptr;
    std::uint32_t bytes = 0;
    TokenId id = kNone;
  };

  [[nodiscard]] std::size_t find_slot(std::uint64_t hash, std::string_view text) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = (hash ^ (hash >> 32)) * kBase >> shift_;
    while (slots_[at].id != kNone &&
           (slots_[at].hash != hash || std::string_view(slots_[at].text, slots_[at].bytes) != text))
      at = (at + 1) & mask;
    return at;
  }

  std::vector<Slot> slots_;
  unsigned shift_;
};

// Ids of words that were met before: words repeat, and finding one is ten times as fast as merging
// it.

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
  std::string bytes_;         ///< texts of all words
  std::vector<TokenId> ids_;  ///< ids of all words
  std::size_t n_words_ = 0;
  unsigned shift_ = 64;
};

// A set of pairs of characters, quick for ASCII.

class CharacterPairs {
 public:
  /// Adds all neighbours in a text.
  void add(std::string_view text) {
    char32_t previous = 0;
    each_char(text, [&](const Utf8Char& c, std::size_t at) {
      if (at > 0) insert(previous, c.code_point);
      previous = c.code_point;
    });
  }
  [[nodiscard]] bool contains(char32_t left, char32_t right) const {
    const std::uint32_t a = small(left), b = small(right);
    return a < kSmall && b < kSmall ? ascii_pairs_[a * kSmall + b]
                                    : others_.contains(key(left, right));
  }

 private:
  static constexpr std::uint32_t kSmall = 128;

  /// SentencePiece's symbol for spaces in the place of the space, which tokens do not contain.
  static std::uint32_t small(char32_t c) { return c == 0x2581 ? U' ' : c == U' ' ? kSmall : c; }
  static std::uint64_t key(char32_t left, char32_t right) {
    return (std::uint64_t{left} << 32) | right;
  }
  void insert(char32_t left, char32_t right) {
    const std::uint32_t a = small(left), b = small(right);
    if (a < kSmall && b < kSmall)
      ascii_pairs_.set(a * kSmall + b);
    else
      others_.insert(key(left, right));
  }

  std::bitset<kSmall * kSmall> ascii_pairs_;
  std::unordered_set<std::uint64_t> others_;
};

}  // namespace cria
