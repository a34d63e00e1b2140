// Finds stop texts in text that arrives in pieces.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cria {

class StopScanner {
 public:
  /// Empty stop texts are ignored.
  explicit StopScanner(std::vector<std::string> stops);
  /// The text that can be shown after this piece: what might begin a stop text is held
  /// back until it is clear.
  std::string push(std::string_view piece);
  /// What is still held back, at the end of the text.
  std::string finish();
  /// The stop text found ("" if none): it and what follows are never returned. Of several the one
  /// that begins first, of these the longest.
  [[nodiscard]] const std::string& found() const { return found_; }

 private:
  [[nodiscard]] std::size_t held_back() const;

  std::vector<std::string> stops_;
  std::string pending_;
  std::string found_;
};

}  // namespace cria
