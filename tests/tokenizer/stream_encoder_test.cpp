// Streamed text gives the tokens and offsets of the whole text.
#include <gtest/gtest.h>

#include "tests/tokenizer/vocabularies.h"

namespace cria::testing {
namespace {

const std::string kText =
    "The quick brown fox, na\xC3\xAFve as it was,\n\n jumped over 12345 lazy dogs' tails "
    "<|im_end|>  and   "
    "then\xFF slept. ";

void expect_same(const Tokenizer& tokenizer, bool special) {
  std::vector<std::size_t> whole_ends;
  const Ids whole = tokenizer.encode(kText, true, special, &whole_ends);
  for (const std::size_t step : {1U, 2U, 5U, 17U, 1000U}) {
    StreamEncoder stream(tokenizer, true, special);
    Ids ids;
    std::vector<std::size_t> ends, all_ends;
    const auto take = [&](const Ids& more) {
      ids.insert(ids.end(), more.begin(), more.end());
      all_ends.insert(all_ends.end(), ends.begin(), ends.end());
    };
    for (std::size_t at = 0; at < kText.size(); at += step)
      take(stream.push(std::string_view(kText).substr(at, step), &ends));
    EXPECT_TRUE(step == 1000 || ids.size() > 10) << "nothing came before the end";
    take(stream.finish(&ends));
    EXPECT_EQ(ids, whole) << step;
    EXPECT_EQ(all_ends, whole_ends) << step;
  }
}

TEST(StreamEncoder, EqualsEncodingTheWholeText) {
  for (const bool special : {false, true}) {
    expect_same(*demo().tokenizer, special);
    BytePairs v("llama-bpe");
    v.merge("t", "h");
    v.merge(" ", "a");
    v.add("<|im_end|>", TokenType::Control);
    v->bos = v->eos = 1;
    v->add_bos = v->add_eos = true;
    expect_same(*v.tokenizer(), special);
  }
}

TEST(StreamEncoder, TokensAcrossSeamsWaitForTheEnd) {
  BytePairs v;
  const TokenId user = v.add("x y", TokenType::UserDefined);
  const auto tokenizer = v.tokenizer();
  StreamEncoder stream(*tokenizer, false, false);
  EXPECT_EQ(stream.push("a b x y a"), Ids{});
  const Ids ids = stream.finish();
  EXPECT_EQ(std::count(ids.begin(), ids.end(), user), 1);
}

TEST(StreamEncoder, EncodesEmptyText) {
  StreamEncoder stream(*demo().tokenizer, true, false);
  EXPECT_EQ(stream.push(""), Ids{});
  EXPECT_EQ(stream.finish(), Ids{1});
}

TEST(Offsets, EqualOffsetsOfPieces) {
  for (const bool special : {false, true}) {
    const Tokenizer& tokenizer = *demo().tokenizer;
    std::vector<std::size_t> ends;
    const Ids ids = tokenizer.encode(kText, false, special, &ends);
    ASSERT_EQ(ends.size(), ids.size());
    std::size_t begin = 0;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const std::string piece = tokenizer.piece(ids[i], true),
                        slice = kText.substr(begin, ends[i] - begin);
      EXPECT_TRUE(piece == slice || piece == " " + slice)
          << piece << " for " << slice;  // or a dummy space
      begin = ends[i];
    }
    EXPECT_EQ(begin, kText.size());
  }
}

TEST(Strip, SpecialTokensSwallowWhiteSpaceAfterThem) {
  SmallVocabulary v;
  const TokenId user = v.add("<|user|>", TokenType::Control), a = v.add("a");
  v->add_space_prefix = false;
  v->strip_after = {user};
  const auto tokenizer = v.tokenizer();
  std::vector<std::size_t> ends;
  EXPECT_EQ(tokenizer->encode("<|user|>\n \xC2\xA0"
                              "a\n",
                              false, true, &ends),
            (Ids{user, a, 3 + '\n'}));
  EXPECT_EQ(ends, (std::vector<std::size_t>{12, 13, 14}));
  const TextPart parts[] = {{"<|user|>\n", true}, {" \n", false}, {" a", false}};
  EXPECT_EQ(tokenizer->encode_parts(parts), (Ids{user, a})) << "also in the parts that follow";
  EXPECT_EQ(tokenizer->encode("<s> a", false, true).size(), 3U) << "others do not";
}

TEST(Strip, SpecialTokensSwallowWhiteSpaceBeforeThem) {
  BytePairs v;
  const TokenId sep = v.add("<|sep|>", TokenType::Control);
  v->strip_before = {sep};
  const auto tokenizer = v.tokenizer();
  std::vector<std::size_t> ends;
  EXPECT_EQ(tokenizer->encode("a \xC2\xA0\n<|sep|> b<|sep|>", false, true, &ends),
            (Ids{BytePairs::byte('a'), sep, BytePairs::byte(' '), BytePairs::byte('b'), sep}));
  EXPECT_EQ(ends, (std::vector<std::size_t>{1, 12, 13, 14, 21}));
  const TextPart parts[] = {
      {"a \n", false}, {" \n<|sep|> ", true}, {"\n", false}, {"<|sep|>", true}};
  EXPECT_EQ(tokenizer->encode_parts(parts), (Ids{BytePairs::byte('a'), sep, sep}))
      << "also in the parts before";
  EXPECT_EQ(tokenizer->encode("a <|end|>", false, true).size(), 3U) << "others do not";
}

}  // namespace
}  // namespace cria::testing
