#include "tokenizer/bpe/digit_groups.h"

#include <algorithm>
#include <iterator>

namespace cria {
namespace {

// \b after digits: none of what Oniguruma, the authors' engine, takes for a part of a word follows:
// letters, marks, letters that are numbers or symbols, connectors, and of the other numbers those
// of Latin-1 ("10²"). A run that does not end so is not cut at all.
constexpr std::string_view kDigitsAtWordEnd =
    R"((?<!\d)\d++(?![\p{L}\p{M}\p{Nl}\p{Pc}\x{b2}\x{b3}\x{b9}\x{bc}-\x{be})"
    R"(\x{24b6}-\x{24e9}\x{1f130}-\x{1f149}\x{1f150}-\x{1f169}\x{1f170}-\x{1f189}]))";

constexpr DigitGroups kGroups[] = {
    {kCutsBeforeThrees, R"(\d++)", false},
    {kDigitsInThreesAtWordEnds, kDigitsAtWordEnd, true},
    {kNumbersInThrees, R"(\p{N}++)", true},
};

}  // namespace

const DigitGroups* DigitGroups::of(std::string_view expression) {
  const auto* const found = std::ranges::find(kGroups, expression, &DigitGroups::expression);
  return found == std::end(kGroups) ? nullptr : found;
}

}  // namespace cria
