// Finding the special token at the start of a text.
#include "tokenizer/bpe/special_tokens.h"

#include <gtest/gtest.h>

namespace cria {
namespace {

TokenId match(const SpecialTokens& tokens, std::string_view text, bool control) {
  const auto found = tokens.match(text, control);
  return found ? found->id : -1;
}

TEST(SpecialTokens, TakesTheLongestMatch) {
  const SpecialTokens tokens({{"<a>", 1, true},
                              {"<a>b", 2, false},
                              {"<a>bc", 3, true},
                              {"\xFF", 4, false},
                              {"<", 5, false}});
  EXPECT_EQ(match(tokens, "<a>bcd", true), 3);
  EXPECT_EQ(match(tokens, "<a>bcd", false), 2);
  EXPECT_EQ(match(tokens, "<a>", true), 1);
  EXPECT_EQ(match(tokens, "<a>", false), 5);
  EXPECT_EQ(match(tokens, "\xFF", false), 4);
  EXPECT_EQ(match(tokens, "a>", true), -1);
  EXPECT_EQ(match(tokens, "", true), -1);
  EXPECT_EQ(match(SpecialTokens({}), "<", true), -1);
}

TEST(SpecialTokens, OfEqualTextsTheFirst) {
  const SpecialTokens tokens({{"x", 1, true}, {"x", 2, false}, {"x", 3, false}});
  EXPECT_EQ(match(tokens, "x", false), 2);
}

}  // namespace
}  // namespace cria
