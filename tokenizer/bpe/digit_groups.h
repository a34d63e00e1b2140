// Digits in groups of three, counted from the end of a run ("1 234 567"). The models' expressions
// look ahead over the rest of the run at every place; counting once from its end gives the same
// cuts in linear time.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "tokenizer/regex.h"

namespace cria {

// The expressions as the models' tokenizers have them.
inline constexpr std::string_view kCutsBeforeThrees = R"((?=(\d{3})+(?!\d)))";
inline constexpr std::string_view kDigitsInThreesAtWordEnds = R"(\d{1,3}(?=(?:\d{3})*\b))";
inline constexpr std::string_view kNumbersInThrees = R"(\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N})))";

struct DigitGroups {
  std::string_view expression;
  std::string_view run;  ///< an expression for the whole runs that are cut
  bool isolates;         ///< cuts also around the run; else only before full groups

  /// Null for any other expression.
  static const DigitGroups* of(std::string_view expression);

  /// Calls sink(offset) for every cut of a run in the text, from left to right.
  template <class Sink>
  void cut(std::string_view text, RegexSpan span, Sink&& sink) const {
    std::vector<std::size_t> digits;  // where they begin; those of some scripts have several bytes
    for (std::size_t at = span.begin; at < span.end; ++at)
      if ((text[at] & 0xC0) != 0x80) digits.push_back(at);
    if (isolates && digits.size() % 3 != 0) sink(span.begin);
    for (std::size_t i = digits.size() % 3; i < digits.size(); i += 3) sink(digits[i]);
    if (isolates) sink(span.end);
  }
};

}  // namespace cria
