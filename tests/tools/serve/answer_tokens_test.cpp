// Selection of the tokens that belong to an answer's text.
#include "tools/serve/api/answer_tokens.h"

#include <gtest/gtest.h>

#include "tests/tools/serve/served_demo.h"

namespace cria::serve::test {
namespace {

/// The texts of tokens of `written` that belong to the answer `shown`.
std::string shown_tokens(std::string_view written, std::string_view shown) {
  const Tokenizer& tokenizer = demo_model()->tokenizer();
  AnswerTokens tokens(tokenizer);
  bool text_begins = true;
  for (const TokenId id : tokenizer.encode(written, false, false)) {
    if (text_begins && tokenizer.piece(id) == " ")
      continue;  // the blank that a text is given in front
    text_begins = false;
    TokenLogprobs token;
    token.id = id;
    tokens.add(std::move(token));
  }
  std::string text;
  for (const std::size_t bytes : {std::size_t{1}, shown.size()})
    for (const TextToken& token : tokens.take(bytes, shown.substr(0, bytes))) text += token.text;
  return text;
}

// White space is stripped after thinking, for example.
TEST(ServeAnswerTokens, OmitsStrippedWhiteSpace) {
  EXPECT_EQ(shown_tokens("\n\n  The answer.", "The answer."), "The answer.");
  EXPECT_EQ(shown_tokens("The answer.", "The answer."), "The answer.");
  EXPECT_EQ(shown_tokens("\n\nThe answer.", "\n\nThe answer."), "\n\nThe answer.");
}

}  // namespace
}  // namespace cria::serve::test
