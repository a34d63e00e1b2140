#include "tokenizer/bpe/digit_groups.h"

#include <algorithm>
#include <iterator>

namespace cria {
namespace {

// \b after digits: no letter, mark, digit or connector follows. A run that does not end so is not cut at all.
constexpr DigitGroups kGroups[] = {
    {kCutsBeforeThrees, R"(\d++)", false},
    {kDigitsInThreesAtWordEnds, R"((?<!\d)\d++(?![\p{L}\p{M}\p{Pc}]))", true},
    {kNumbersInThrees, R"(\p{N}++)", true},
};

}  // namespace

const DigitGroups* DigitGroups::of(std::string_view expression) {
  const auto* const found = std::ranges::find(kGroups, expression, &DigitGroups::expression);
  return found == std::end(kGroups) ? nullptr : found;
}

}  // namespace cria
