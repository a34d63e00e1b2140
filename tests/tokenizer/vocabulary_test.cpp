// Vocabularies that are odd must work, those that are broken must be named.
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "tests/tokenizer/vocabularies.h"

namespace cria::testing {
namespace {

TEST(OddVocabulary, DuplicateEmptyAndInvalidTokensLoad) {
  SmallVocabulary v;
  v.add("a");
  const TokenId last = v.add("a");
  v.add("");
  v.add("", TokenType::Control);
  v.add("\xC3");
  v.add(std::string(1 << 20, 'x'));
  v.add("<unk>", TokenType::Unknown);
  v->add_space_prefix = false;
  const auto tokenizer = v.tokenizer();
  EXPECT_EQ(tokenizer->encode("a", false, false), Ids{last});
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("a\xC3xx", false, true)), "a\xC3xx");
}

TEST(OddVocabulary, NoSpaceToken) {
  SmallVocabulary v;
  v.add("a");
  const auto tokenizer = v.tokenizer();
  EXPECT_EQ(tokenizer->encode("a ", false, false), (Ids{3 + ' ', 3 + 256, 3 + ' '}));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(" a  ", false, false)), " a  ");
}

TEST(OddVocabulary, UnknownStandsInForMissingBytes) {
  SmallVocabulary v(false);
  const TokenId a = v.add("a");
  v->add_space_prefix = false;
  EXPECT_EQ(v.tokenizer()->encode("a\xC3\xA9?a", false, false), (Ids{a, 0, a}));
}

TEST(OddVocabulary, NoTokenTypes) {
  SmallVocabulary v;
  const TokenId marker = v.add("<|im_start|>");
  v->types.assign(v->types.size(), TokenType::Normal);
  v->add_bos = true;
  const auto tokenizer = v.tokenizer();
  EXPECT_EQ(tokenizer->encode("<s>\n", true, true), (Ids{1, 3 + ' ', 3 + '\n'}));
  EXPECT_EQ(tokenizer->encode("<|im_start|>", false, true), Ids{marker});
  EXPECT_EQ(tokenizer->decode(Ids{1, 3 + ' ', 3 + '\n'}), "\n");
}

struct Defect {
  const char* name;
  std::function<void(SmallVocabulary&)> break_it;
  const char* says;
};

TEST(BrokenVocabulary, IsNamed) {
  const Defect defects[] = {
      {"kind", [](auto& v) { v->model = "rwkv"; },
       "expected llama (SentencePiece), gemma4, gpt2 (byte-level BPE), bert (WordPiece) or t5 "
       "(Unigram), got 'rwkv' (key tokenizer.ggml.model)"},
      {"charsmap", [](auto& v) { v->model = "t5", v->precompiled_charsmap = "\1\0\0\0x"; },
       "bad charsmap: expected the size of a trie and its units, got 1 byte"},
      {"no scores", [](auto& v) { v->model = "t5", v->scores.clear(); }, "without scores"},
      {"no tokens", [](auto& v) { v->tokens.clear(); }, "key tokenizer.ggml.tokens"},
      {"types", [](auto& v) { v->types.pop_back(); },
       "expected 259, got 258 (key tokenizer.ggml.token_type)"},
      {"scores", [](auto& v) { v->scores.pop_back(); },
       "expected 259, got 258 (key tokenizer.ggml.scores)"},
      {"NaN", [](auto& v) { v->scores[7] = std::numeric_limits<float>::quiet_NaN(); },
       "not a number"},
      {"bos", [](auto& v) { v->bos = 259; },
       "expected 0 to 258, got 259 (key tokenizer.ggml.bos_token_id)"},
      {"eos", [](auto& v) { v->eos = -1; }, "got -1 (key tokenizer.ggml.eos_token_id)"},
      {"no bos", [](auto& v) { v->bos.reset(), v->add_bos = true; },
       "the vocabulary lacks a BOS token"},
      {"no eos", [](auto& v) { v->eos.reset(), v->add_eos = true; },
       "the vocabulary lacks an EOS token"},
      {"hex", [](auto& v) { v->tokens[9] = "<0xZZ>"; }, "got <0xZZ> (key tokenizer.ggml.tokens)"},
      {"sign", [](auto& v) { v->tokens[9] = "<0x-1>"; }, "got <0x-1> (key tokenizer.ggml.tokens)"},
      {"a byte missing",
       [](auto& v) {
         v->tokens[9] = "<0x00>";
         v->unk.reset();
         v->types[0] = TokenType::Normal;
       },
       "no token for byte 6"},
  };
  for (const Defect& defect : defects) {
    SmallVocabulary v;
    defect.break_it(v);
    try {
      (void)v.tokenizer();
      ADD_FAILURE() << defect.name << ": accepted";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(defect.says), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace cria::testing
