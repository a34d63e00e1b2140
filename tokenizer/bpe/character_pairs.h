// A set of pairs of characters, quick for ASCII.
#pragma once

#include <bitset>
#include <cstdint>
#include <string_view>
#include <unordered_set>

#include "model/file/utf8.h"

namespace cria {

class CharacterPairs {
 public:
  /// Adds all neighbours in a text.
  void add(std::string_view text) {
    char32_t previous = 0;
    for (std::size_t at = 0; at < text.size();) {
      const Utf8Char c = first_char(text.substr(at));
      if (at > 0) insert(previous, c.code_point);
      previous = c.code_point;
      at += c.bytes;
    }
  }
  [[nodiscard]] bool contains(char32_t left, char32_t right) const {
    const std::uint32_t a = small(left), b = small(right);
    return a < kSmall && b < kSmall ? few_[a * kSmall + b] : others_.contains(key(left, right));
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
      few_.set(a * kSmall + b);
    else
      others_.insert(key(left, right));
  }

  std::bitset<kSmall * kSmall> few_;
  std::unordered_set<std::uint64_t> others_;
};

}  // namespace cria
