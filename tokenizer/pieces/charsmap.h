// SentencePiece's precompiled normalization: a trie of texts and what replaces them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace cria {

/// Any bytes are safe: no look-up leaves the map. They must outlive this.
class Charsmap {
 public:
  /// bytes: the trie's size as u32, a double array of u32 units, replacements that end with NUL.
  /// Empty: nothing is replaced. Throws Error if the sizes do not fit.
  explicit Charsmap(std::string_view bytes);

  struct Match {
    std::size_t bytes = 0;  ///< length in the text; 0: nothing is replaced
    std::string_view replacement;
  };
  /// The longest text of the map at the start of `text`.
  [[nodiscard]] Match longest(std::string_view text) const;

 private:
  std::vector<std::uint32_t> units_;
  std::string_view replacements_;  ///< part of the constructor's bytes
};

}  // namespace cria
