// Finds the tokens that are written in a text as they stand (control and user-defined ones) before any other
// tokenization.
#pragma once

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
  };
  struct Entry {
    std::string text;
    TokenId id;
    bool control;  ///< never found in untrusted text
  };

  explicit SpecialTokens(std::vector<Entry> entries);
  /// The longest special token that the text begins with. With control = false only user-defined ones count.
  [[nodiscard]] std::optional<Match> match(std::string_view text, bool control) const;

 private:
  std::vector<Entry> entries_;  ///< sorted by text
};

}  // namespace cria
