// Vocabularies that write spaces and bytes as SentencePiece does but list their merges (Gemma 4).
#include <gtest/gtest.h>

#include <deque>

#include "model/error.h"
#include "tests/tokenizer/vocabularies.h"

namespace cria::testing {
namespace {

/// Bytes from 3, then single characters and what is merged of them.
struct ListedMerges {
  explicit ListedMerges(const char* model = "gemma4") {
    v->model = model;
    v->add_space_prefix = false;
    for (const char* one : {"a", "b", "c", "\xE2\x96\x81", "\n"}) v.add(one);
  }
  TokenId merge(const std::string& left, const std::string& right) {
    v->merges.push_back(texts.emplace_back(left + " " + right));
    return v.add(left + right);
  }
  SmallVocabulary v;
  std::deque<std::string> texts;
};

TEST(ListedMergesTokenizer, RanksOfPairsDecideNotScores) {
  ListedMerges m;
  const TokenId bc = m.merge("b", "c");
  const TokenId ab = m.merge("a", "b");
  m.v->scores[static_cast<std::size_t>(ab)] = 100;
  const auto tokenizer = m.v.tokenizer();
  EXPECT_EQ(tokenizer->encode("abc", false, false), (Ids{3 + 256, bc}));
  EXPECT_EQ(tokenizer->encode("ab", false, false), Ids{ab});
}

TEST(ListedMergesTokenizer, NeverYieldsUnreachableTokens) {
  ListedMerges m;
  const TokenId ab = m.merge("a", "b");
  m.v.add("abc");  // a token, but neither ab+c nor a+bc is listed
  EXPECT_EQ(m.v.tokenizer()->encode("abc", false, false), (Ids{ab, 3 + 258}));
}

TEST(ListedMergesTokenizer, SpacesBytesAndLineEnds) {
  ListedMerges m;
  const TokenId space_a = m.merge("\xE2\x96\x81", "a");
  const TokenId lines = m.v.add("\n\n\n");  // its merges are not listed
  const auto tokenizer = m.v.tokenizer();
  EXPECT_EQ(tokenizer->encode("a a", false, false), (Ids{3 + 256, space_a})) << "no dummy space";
  EXPECT_EQ(tokenizer->encode("\xC3\xA9", false, false), (Ids{3 + 0xC3, 3 + 0xA9}));
  EXPECT_EQ(tokenizer->encode("a\n\n\nb", false, false), (Ids{3 + 256, lines, 3 + 257}));
  const std::string text = " a  b\n\xE2\x96\x81\xC3\xA9 ";
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(text, false, false)), text);
}

TEST(ListedMergesTokenizer, ByNameOfThePreTokenizer) {
  ListedMerges m("gpt2");
  m.v->pre = "sarvam-moe";
  const TokenId ab = m.merge("a", "b");
  EXPECT_EQ(m.v.tokenizer()->encode("ab", false, false), Ids{ab});
  m.v->model = "rwkv";
  EXPECT_THROW((void)m.v.tokenizer(), Error);
}

}  // namespace
}  // namespace cria::testing
