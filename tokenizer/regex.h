// A compiled regular expression over UTF-8 (PCRE2 with Unicode properties, just-in-time compiled
// where the machine allows it).
#pragma once

#include <cstddef>
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
  /// Throws Error that says what is wrong with the pattern.
  explicit Regex(std::string_view pattern);

  /// One thread's searches with one expression.
  class Search {
   public:
    explicit Search(const Regex& regex);
    /// The first match that begins at `from` or later. The text must be valid UTF-8 and `from` the
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
