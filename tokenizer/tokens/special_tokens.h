// Finds the tokens that are written in a text as they stand (control and user-defined ones)
// before any other tokenization.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/vocabulary.h"

namespace cria {

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
  /// Where, at `from` or later, a special token may begin; text.size() if nowhere.
  [[nodiscard]] std::size_t find_candidate(std::string_view text, std::size_t from,
                                           bool control) const;

 private:
  std::vector<Entry> entries_;  ///< sorted by text
  std::array<std::array<bool, 256>, 2>
      begins_{};               ///< by control, by byte: whether such a token begins with it
  std::array<bool, 2> any_{};  ///< by control
};

}  // namespace cria
