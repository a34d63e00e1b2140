// Text as one byte per character, for the expressions of pre-tokenizers. Characters that no
// expression tells apart share a byte, so the expressions run on bytes: fast, with positions in
// characters, and with the Unicode properties of our own table.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/bpe/word_rules.h"
#include "tokenizer/unicode/unicode.h"

namespace cria {

/// Immutable; safe to use from several threads.
class CharacterClasses {
 public:
  /// Finds the classes that these expressions tell apart. ASCII characters keep their bytes.
  explicit CharacterClasses(const std::vector<std::string_view>& expressions);

  /// The expression for texts of class bytes. It knows \p, \P, \s, \S, \d, brackets, and groups of
  /// any case, and leaves the rest as it is.
  [[nodiscard]] std::string translate(std::string_view expression) const;
  /// Appends the class byte of each character of a UTF-8 text.
  void append_classes(std::string_view text, std::string& classes) const;
  /// The class of each byte for WordScanner.
  [[nodiscard]] const WordClasses& word_classes() const { return word_classes_; }

 private:
  [[nodiscard]] std::string members(const CodeSet& set) const;

  std::vector<CodeSet> sets_;           ///< all sets of the expressions
  std::vector<char32_t> examples_;      ///< a character of each class beyond ASCII
  std::vector<std::uint8_t> class_of_;  ///< by code point
  WordClasses word_classes_;
};

}  // namespace cria
