// The role of each token: the file's type, corrected if files are known to be wrong.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/vocabulary.h"

namespace cria {

/// Text and Unused stand for text, Byte for one byte. The others match literally: UserDefined (runs
/// of spaces, words, HTML tags) in any text, Control and Marker (<think>, [INST]: text that looks
/// like chat markup) in trusted text only. Control tokens are not shown in answers.
enum class TokenRole : std::uint8_t { Text, Unused, Byte, Control, Marker, UserDefined };

constexpr bool is_special(TokenRole role) { return role >= TokenRole::Control; }

/// The role of every token, by id.
std::vector<TokenRole> token_roles(const Vocabulary& vocabulary);

/// Throws Error if lists differ in length, special ids are outside the vocabulary, or BOS or EOS
/// are wanted but absent.
void check_vocabulary(const Vocabulary& vocabulary);

// Byte-level vocabularies write every byte as one visible character, as in GPT-2's encoder.
// Printable Latin-1 characters stand for themselves, the other 68 bytes for U+0100 and up, in
// order.

/// Returns the bytes of a byte-level token. Characters outside the table and invalid UTF-8 stand
/// for themselves.
std::string bytes_of_byte_text(std::string_view text);

/// bytes_of_byte_text, appended.
void append_bytes_of_byte_text(std::string_view text, std::string& bytes);

// Finds the tokens that are written in a text as they stand (control and user-defined ones)
// before any other tokenization.

class SpecialTokens {
 public:
  struct Match {
    TokenId id;
    std::size_t bytes;
    bool strip_left, strip_right;
  };
  struct Entry {
    std::string text;
    TokenId id;
    bool control;                                  ///< never found in untrusted text
    bool strip_left = false, strip_right = false;  ///< swallows the white space before it, after it
  };

  explicit SpecialTokens(std::vector<Entry> entries);
  /// The longest special token that the text begins with. With control = false only user-defined
  /// ones count.
  [[nodiscard]] std::optional<Match> match(std::string_view text, bool control) const;
  /// First place, at `from` or later, at which a special token may begin, or text.size().
  [[nodiscard]] std::size_t find_candidate(std::string_view text, std::size_t from,
                                           bool control) const;

 private:
  std::vector<Entry> entries_;  ///< sorted by text
  std::array<std::array<bool, 256>, 2>
      begins_{};               ///< by control, by byte: whether such a token begins with it
  std::array<bool, 2> any_{};  ///< by control
};

}  // namespace cria
