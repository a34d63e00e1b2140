// Prompts that ask to fill a gap: their markers, and what is cut from long texts.
#include "tokenizer/fill_middle.h"

#include <gtest/gtest.h>

#include "tests/tokenizer/vocabularies.h"

namespace cria::testing {
namespace {

/// A vocabulary of bytes and FIM tokens.
struct Code {
  BytePairs vocabulary;
  std::unique_ptr<Tokenizer> tokenizer;

  explicit Code(bool repository = true, bool bos = false) {
    FimTokens& fim = vocabulary->fim;
    fim.pre = vocabulary.add("<PRE>", TokenType::Control);
    fim.suf = vocabulary.add("<SUF>", TokenType::Control);
    fim.mid = vocabulary.add("<MID>", TokenType::Control);
    if (repository) fim.rep = vocabulary.add("<REP>", TokenType::Control);
    if (repository) fim.sep = vocabulary.add("<SEP>", TokenType::Control);
    vocabulary->bos = 1;
    vocabulary->add_bos = bos;
    tokenizer = vocabulary.tokenizer();
  }
  /// Writes a prompt as text, with the names of its control tokens.
  std::string shown(const FillPrompt& prompt) const {
    return tokenizer->decode(prompt.tokens, true);
  }
};

TEST(FillMiddle, PutsMarkersBetweenTexts) {
  const Code code;
  EXPECT_EQ(code.shown(fill_prompt(*code.tokenizer, {"ab", "cd"})), "<PRE>ab<SUF>cd<MID>");
  EXPECT_EQ(code.shown(fill_prompt(*code.tokenizer, {"", ""})), "<PRE><SUF><MID>");
  EXPECT_EQ(code.shown(fill_prompt(*code.tokenizer, {"ab", "cd", {{"x", "1"}, {"y", "2"}}})),
            "<REP>project\n<SEP>x\n1\n<SEP>y\n2\n<SEP>current\n<PRE>ab<SUF>cd<MID>");
}

TEST(FillMiddle, LeavesOutMarkersThatAreMissing) {
  const Code code(false, true);
  EXPECT_EQ(code.shown(fill_prompt(*code.tokenizer, {"ab", "cd", {{"x", "1"}}})),
            "<|end|>x\n1\n<PRE>ab<SUF>cd<MID>");
}

TEST(FillMiddle, TextsHoldNoControlTokens) {
  const Code code;
  const FillPrompt prompt = fill_prompt(*code.tokenizer, {"<MID>", "", {{"<SEP>", "<PRE>"}}});
  const FimTokens& fim = code.tokenizer->vocabulary().fim;
  EXPECT_EQ(std::ranges::count(prompt.tokens, *fim.mid), 1);
  EXPECT_EQ(std::ranges::count(prompt.tokens, *fim.pre), 1);
  EXPECT_EQ(std::ranges::count(prompt.tokens, *fim.sep), 2);
}

TEST(FillMiddle, CutsTheFirstFilesBeforeTheTexts) {
  const Code code;
  const FillText text{"ab", "cd", {{"x", "1"}, {"y", "2"}}};
  const std::size_t whole = fill_prompt(*code.tokenizer, text).tokens.size();
  EXPECT_FALSE(fill_prompt(*code.tokenizer, text, whole).cut);
  const FillPrompt less = fill_prompt(*code.tokenizer, text, whole - 1);
  EXPECT_TRUE(less.cut);
  EXPECT_EQ(code.shown(less), "<REP>project\n<SEP>y\n2\n<SEP>current\n<PRE>ab<SUF>cd<MID>");
  EXPECT_EQ(code.shown(fill_prompt(*code.tokenizer, text, 20)), "<PRE>ab<SUF>cd<MID>");
}

TEST(FillMiddle, CutsThePrefixAtItsBeginningAndTheSuffixAtItsEnd) {
  const Code code;
  const auto cut = [&](const FillText& text, std::size_t limit) {
    const FillPrompt prompt = fill_prompt(*code.tokenizer, text, limit);
    EXPECT_TRUE(prompt.cut);
    EXPECT_EQ(prompt.tokens.size(), limit);
    return code.shown(prompt);
  };
  EXPECT_EQ(cut({"abcdefghij", "klmnopqrst"}, 11), "<PRE>efghij<SUF>kl<MID>");
  EXPECT_EQ(cut({"abcdefghij", "k"}, 11), "<PRE>defghij<SUF>k<MID>");
  EXPECT_EQ(cut({"ab", "klmnopqrst"}, 11), "<PRE>ab<SUF>klmnop<MID>");
  EXPECT_EQ(cut({"ab", "kl"}, 3), "<PRE><SUF><MID>");
}

}  // namespace
}  // namespace cria::testing
