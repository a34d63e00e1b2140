// Which tokens of a text are evaluated together, and which of them are scored.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cria {

struct PerplexityOptions {
  std::uint32_t window = 512;  ///< tokens of a window
  /// 0: windows side by side, each begins with BOS where the model wants it, the tokens after its
  /// middle are scored: how llama.cpp and published tables of quantizations do it. Else every
  /// window begins so many tokens after the one before it, holds the text as it is, and what no
  /// window before it held is scored: how papers and Hugging Face do it.
  std::uint32_t stride = 0;
  std::uint64_t max_windows = 0;  ///< 0: all
};

/// Tokens evaluated together, from a new beginning.
struct TextWindow {
  std::size_t begin, end;  ///< in the text
  std::size_t
      first_scored;  ///< tokens [first_scored, end) are scored, each by the tokens before it
};

/// The windows of a text of n tokens.
class TextWindows {
 public:
  /// Throws Error for a text shorter than a window, and for options that make no sense.
  TextWindows(std::size_t n_tokens, const PerplexityOptions& options);
  [[nodiscard]] std::size_t size() const { return count_; }
  [[nodiscard]] TextWindow operator[](std::size_t i) const;

 private:
  std::size_t n_tokens_, window_, stride_, count_;
};

}  // namespace cria
