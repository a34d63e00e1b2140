// A compiled regular expression (PCRE2, just-in-time compiled if the machine allows it).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

namespace cria {

struct RegexSpan {
  std::size_t begin, end;
};

/// Immutable; safe to use from several threads.
class Regex {
 public:
  enum class Text : std::uint8_t {
    Utf8,   ///< with the Unicode properties of the system's PCRE2
    Bytes,  ///< single bytes; only ASCII has properties
  };
  /// Throws Error that says what is wrong with the pattern.
  explicit Regex(std::string_view pattern, Text text = Text::Utf8);

  /// One thread's searches with one expression.
  class Search {
   public:
    explicit Search(const Regex& regex);
    /// The first match that begins at `from` or later. Text::Utf8 requires valid UTF-8 and the
    /// start of a character. Throws Error if PCRE2 gives up (memory).
    std::optional<RegexSpan> next(std::string_view text, std::size_t from);

   private:
    struct State;
    struct Free {
      void operator()(State* state) const;
    };
    std::unique_ptr<State, Free> state_;
  };

 private:
  struct Code;
  std::shared_ptr<const Code> code_;
};

}  // namespace cria
