// Texts of tokens by hash. The hash is a polynomial, so that the hash of two texts joined costs one
// multiplication: merging looks up every pair of neighbours without reading them again.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

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
  /// The text must outlive the table. A text that is there already gets the new id.
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

}  // namespace cria
