// Byte-level byte-pair vocabularies: merges, special tokens, bytes that are not text.
#include <gtest/gtest.h>

#include <random>

#include "model/error.h"
#include "tests/tokenizer/vocabularies.h"

namespace cria::testing {
namespace {

constexpr auto byte_token = BytePairs::byte;

TEST(BytePairs, LowestRankFirst) {
  BytePairs v;
  const TokenId bc = v.merge("b", "c"), ab = v.merge("a", "b"), abc = v.merge("a", "bc"),
                bcd = v.merge("bc", "d");
  const auto tokenizer = v.tokenizer();
  EXPECT_EQ(tokenizer->encode("abc", false, false), Ids{abc}) << "bc, then a bc";
  EXPECT_EQ(tokenizer->encode("abb", false, false), (Ids{ab, byte_token('b')}));
  EXPECT_EQ(tokenizer->encode("abcd", false, false), (Ids{abc, byte_token('d')}))
      << "a bc has the lower rank";
  EXPECT_EQ(tokenizer->encode("bcd", false, false), Ids{bcd});
  EXPECT_EQ(tokenizer->encode("cb", false, false), (Ids{byte_token('c'), byte_token('b')}));
  EXPECT_EQ(tokenizer->encode("bc", false, false), Ids{bc});
}

TEST(BytePairs, OfEqualPairsTheLeftmost) {
  BytePairs v;
  const TokenId aa = v.merge("a", "a");
  EXPECT_EQ(v.tokenizer()->encode("aaaaa", false, false), (Ids{aa, aa, byte_token('a')}));
}

TEST(BytePairs, NoMergeAcrossWords) {
  BytePairs v;
  v.merge("a", " ");
  const TokenId space_b = v.merge(" ", "b");
  EXPECT_EQ(v.tokenizer()->encode("a b", false, false), (Ids{byte_token('a'), space_b}));
}

TEST(BytePairs, IgnoresMergesOfUnknownParts) {
  BytePairs v;
  v->merges.push_back("x yz");
  const TokenId xy = v.merge("x", "y");
  EXPECT_EQ(v.tokenizer()->encode("xyz", false, false), (Ids{xy, byte_token('z')}));
}

TEST(BytePairs, BadMergeIsNamed) {
  BytePairs v;
  v->merges.push_back("xy");
  try {
    (void)v.tokenizer();
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(
        std::string(error.what()),
        "bad merge 0: expected two parts with a space between, got xy (key tokenizer.ggml.merges)");
  }
}

// "hello" is a token that its merges never reach.
TEST(BytePairs, WholeWordsOnlyWhereMergesAreIgnored) {
  for (const auto& [pre, whole] :
       {std::pair("llama-bpe", true), std::pair("tekken", true), std::pair("qwen2", false)}) {
    BytePairs v(pre);
    const TokenId he = v.merge("h", "e"), hello = v.add("hello");
    const Ids pieces{he, byte_token('l'), byte_token('l'), byte_token('o')};
    EXPECT_EQ(v.tokenizer()->encode("hello", false, false), whole ? Ids{hello} : pieces) << pre;
  }
}

/// The merges as they are defined, one at a time over the whole word.
Ids merge_slowly(const std::vector<std::tuple<TokenId, TokenId, TokenId>>& merges, Ids ids) {
  for (;;) {
    std::size_t best = merges.size(), at = 0;
    for (std::size_t i = 0; i + 1 < ids.size(); ++i)
      for (std::size_t rank = 0; rank < best; ++rank)
        if (ids[i] == std::get<0>(merges[rank]) && ids[i + 1] == std::get<1>(merges[rank])) {
          best = rank;
          at = i;
        }
    if (best == merges.size()) return ids;
    ids[at] = std::get<2>(merges[best]);
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

// Words of all lengths, on both sides of the limit between the two ways to merge.
TEST(BytePairs, RandomMergesFollowTheDefinition) {
  std::mt19937 random(11);
  for (int round = 0; round < 30; ++round) {
    BytePairs v;
    std::vector<std::string> texts{"a", "b", "c"};
    Ids ids{byte_token('a'), byte_token('b'), byte_token('c')};
    std::vector<std::tuple<TokenId, TokenId, TokenId>> merges;
    while (merges.size() < 25) {
      const std::size_t left = random() % texts.size(), right = random() % texts.size();
      const std::string joined = texts[left] + texts[right];
      if (std::count(texts.begin(), texts.end(), joined) > 0) continue;
      ids.push_back(v.merge(texts[left], texts[right]));
      texts.push_back(joined);
      merges.emplace_back(ids[left], ids[right], ids.back());
    }
    const auto tokenizer = v.tokenizer();
    for (const std::size_t length : {3U, 20U, 39U, 40U, 41U, 60U, 300U}) {
      std::string word;
      Ids bytes;
      while (word.size() < length) {
        word += "abc"[random() % 3];
        bytes.push_back(byte_token(word.back()));
      }
      EXPECT_EQ(tokenizer->encode(word, false, false), merge_slowly(merges, bytes)) << word;
    }
  }
}

TEST(BytePairs, LongWordOfOneLetter) {
  BytePairs v("llama-bpe");
  std::string text = "a";
  TokenId longest = 0;
  for (int i = 0; i < 6; ++i, text += text) longest = v.merge(text, text);
  const auto tokenizer = v.tokenizer();
  const std::size_t n = std::size_t{1} << 20;
  EXPECT_EQ(tokenizer->encode(std::string(n, 'a'), false, false), Ids(n / 64, longest));
}

TEST(BytePairs, AnyBytesComeBack) {
  std::mt19937 random(3);
  for (const char* pre :
       {"default", "gpt-2", "llama-bpe", "deepseek-llm", "falcon", "gpt-4o", "bloom"}) {
    BytePairs v(pre);
    v.merge("a", "b");
    v.merge("\xC3", "\xA9");
    v.merge(" ", "ab");
    const auto tokenizer = v.tokenizer();
    for (int i = 0; i < 300; ++i) {
      std::string text;
      for (auto n = random() % 30; n > 0; --n) {
        constexpr const char* kParts[] = {"ab", " ", "\xC3\xA9", "\xC3", "\xFF",
                                          "\n", "1", "<|end|>",  "'s",   "\xE2\x96"};
        text += kParts[random() % std::size(kParts)];
      }
      text += static_cast<char>(random());
      EXPECT_EQ(tokenizer->decode(tokenizer->encode(text, false, false)), text) << pre;
      EXPECT_EQ(tokenizer->decode(tokenizer->encode(text, false, true), true), text) << pre;
    }
  }
}

TEST(BytePairs, MissingBytes) {
  BytePairs v;
  v->tokens[static_cast<std::size_t>(byte_token('z'))] = "gone";
  v->unk = 0;
  EXPECT_EQ(v.tokenizer()->encode("yzz", false, false), (Ids{byte_token('y'), 0, 0}))
      << "the unknown token stands in";
  v->unk.reset();
  v->types[0] = TokenType::Normal;
  const auto tokenizer = v.tokenizer();
  EXPECT_EQ(tokenizer->encode("y", false, false), Ids{byte_token('y')});
  EXPECT_THROW((void)tokenizer->encode("z", false, false), Error);
}

TEST(BytePairs, TypedControlTokensArePlainText) {
  BytePairs v("qwen2");
  const TokenId think = v.add("<think>", TokenType::UserDefined),
                two = v.add("  ", TokenType::UserDefined);
  v.merge("<", "|");
  v.merge("<|", "end");
  const auto tokenizer = v.tokenizer();
  for (const char* text : {"<|end|>", "x<|end|>", "<think>"}) {
    const Ids plain = tokenizer->encode(text, false, false);
    EXPECT_EQ(tokenizer->decode(plain), text);
    for (const TokenId id : plain) EXPECT_TRUE(id != 1 && id != think) << text;
  }
  EXPECT_EQ(tokenizer->encode("<|end|><think>", false, true), (Ids{1, think}));
  EXPECT_EQ(tokenizer->decode(Ids{1, think}), "<think>");
  EXPECT_EQ(tokenizer->encode("a  b", false, false), (Ids{byte_token('a'), two, byte_token('b')}))
      << "text, not a marker";
}

TEST(BytePairs, PartsAreOneText) {
  BytePairs v;
  const TokenId ab = v.merge("a", "b");
  const auto tokenizer = v.tokenizer();
  const TextPart parts[] = {{"<|end|>a", true}, {"b<|end|>", false}, {"<|end", true}, {"|>", true}};
  std::vector<std::size_t> ends;
  const Ids ids = tokenizer->encode_parts(parts, &ends);
  ASSERT_GT(ids.size(), 3U);
  EXPECT_EQ(ids[0], 1);
  EXPECT_EQ(ids[1], ab);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), 1), 1) << "users and seams make no control tokens";
  EXPECT_EQ(ends[0], 7U);
  EXPECT_EQ(ends[1], 9U);
  EXPECT_EQ(ends.back(), 23U);
}

}  // namespace
}  // namespace cria::testing
