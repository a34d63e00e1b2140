#include "model/vocabulary.h"

#include <gtest/gtest.h>

#include <functional>

#include "tests/model/tiny_model.h"

namespace cria::test {
namespace {

using Strings = std::vector<std::string>;

/// Six tokens of a SentencePiece vocabulary.
TinyModel sentencepiece() {
  TinyModel model;
  model.tensors.clear();
  model.keys["tokenizer.ggml.model"] = std::string("llama");
  model.keys["tokenizer.ggml.tokens"] =
      GgufArray::of(Strings{"<unk>", "<s>", "</s>", "<0x0A>", "a", "<|im_end|>"});
  model.keys["tokenizer.ggml.scores"] = GgufArray::of(std::vector<float>{0, 0, 0, 0, -1, 0});
  model.keys["tokenizer.ggml.token_type"] =
      GgufArray::of(std::vector<std::int32_t>{2, 3, 3, 6, 1, 3});
  return model;
}

TinyModel bpe() {
  TinyModel model;
  model.tensors.clear();
  model.keys["tokenizer.ggml.model"] = std::string("gpt2");
  model.keys["tokenizer.ggml.pre"] = std::string("qwen2");
  model.keys["tokenizer.ggml.tokens"] = GgufArray::of(Strings{"a", "b", "ab", "<|endoftext|>"});
  model.keys["tokenizer.ggml.token_type"] = GgufArray::of(std::vector<std::int32_t>{1, 1, 1, 3});
  model.keys["tokenizer.ggml.merges"] = GgufArray::of(Strings{"a b"});
  return model;
}

TEST(Vocabulary, SentencePieceDefaults) {
  const GgufFile file = sentencepiece().open();
  const Vocabulary vocabulary = Vocabulary::from_gguf(file);
  EXPECT_EQ(vocabulary.model, "llama");
  EXPECT_EQ(vocabulary.tokens.size(), 6U);
  EXPECT_EQ(vocabulary.tokens[4], "a");
  EXPECT_EQ(vocabulary.scores[4], -1.0F);
  EXPECT_EQ(vocabulary.types[3], TokenType::Byte);
  EXPECT_EQ(vocabulary.bos, 1);
  EXPECT_EQ(vocabulary.eos, 2);
  EXPECT_EQ(vocabulary.unk, 0);
  EXPECT_EQ(vocabulary.pad, std::nullopt);
  EXPECT_TRUE(vocabulary.add_bos);
  EXPECT_FALSE(vocabulary.add_eos);
  EXPECT_TRUE(vocabulary.add_space_prefix);
  EXPECT_EQ(vocabulary.end_of_generation, (std::vector<TokenId>{2, 5}));
  EXPECT_EQ(vocabulary.warnings, Strings{"expected 256 byte tokens, got 1"});
}

TEST(Vocabulary, SuppressedTokens) {
  TinyModel model = sentencepiece();
  model.keys["tokenizer.ggml.suppress_tokens"] = GgufArray::of(std::vector<std::int32_t>{5, 3});
  EXPECT_EQ(Vocabulary::from_gguf(model.open()).suppressed, (std::vector<TokenId>{5, 3}));
}

// llama.cpp's converter of llama2.c models writes -1.
TEST(Vocabulary, NoSeparatorAndNoPaddingMayBeWrittenAsMinusOne) {
  TinyModel model = sentencepiece();
  for (const char* key : {"tokenizer.ggml.seperator_token_id", "tokenizer.ggml.padding_token_id"})
    model.keys[key] = UINT32_MAX;
  const GgufFile file = model.open();
  const Vocabulary vocabulary = Vocabulary::from_gguf(file);
  EXPECT_EQ(vocabulary.sep, std::nullopt);
  EXPECT_EQ(vocabulary.pad, std::nullopt);
}

TEST(Vocabulary, FimTokensHaveKeysOrTexts) {
  TinyModel model = bpe();
  model.keys["tokenizer.ggml.tokens"] =
      GgufArray::of(Strings{"a", "b", "ab", "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"});
  model.keys["tokenizer.ggml.token_type"] =
      GgufArray::of(std::vector<std::int32_t>{1, 1, 1, 3, 3, 1});
  const FimTokens texts = Vocabulary::from_gguf(model.open()).fim;
  EXPECT_EQ(texts.pre, 3);
  EXPECT_EQ(texts.suf, 4);
  EXPECT_EQ(texts.mid, std::nullopt) << "an ordinary token";
  EXPECT_FALSE(texts.complete());
  model.keys["tokenizer.ggml.fim_pre_token_id"] = std::uint32_t{1};
  model.keys["tokenizer.ggml.prefix_token_id"] = std::uint32_t{2};
  model.keys["tokenizer.ggml.middle_token_id"] = std::uint32_t{5};
  model.keys["tokenizer.ggml.fim_pad_token_id"] = UINT32_MAX;
  const FimTokens keys = Vocabulary::from_gguf(model.open()).fim;
  EXPECT_TRUE(keys.complete());
  EXPECT_EQ(keys.all(), (std::vector<TokenId>{1, 4, 5}));
  model.keys["tokenizer.ggml.fim_rep_token_id"] = std::uint32_t{6};
  EXPECT_THROW((void)Vocabulary::from_gguf(model.open()), Error);
}

TEST(Vocabulary, FindsEndTokensByName) {
  const auto ends = [](const Strings& tokens, const std::vector<std::int32_t>& types) {
    TinyModel model = bpe();
    model.keys["tokenizer.ggml.tokens"] = GgufArray::of(tokens);
    if (types.empty())
      model.keys.erase("tokenizer.ggml.token_type");
    else
      model.keys["tokenizer.ggml.token_type"] = GgufArray::of(types);
    const GgufFile file = model.open();
    return Vocabulary::from_gguf(file).end_of_generation;
  };
  using Ids = std::vector<TokenId>;
  EXPECT_EQ(ends({"a", "<|im_end|>", "<|eot_id|>", "[EOT]"}, {1, 3, 1, 4}), (Ids{1, 3}))
      << "not the plain one";
  EXPECT_EQ(ends({"a", "<|im_end|>", "</s>"}, {}), Ids{1}) << "a file without types";
  EXPECT_EQ(ends({"a", "b", "</s>"}, {1, 1, 3}), Ids{2}) << "the last resort";
  EXPECT_EQ(ends({"a", "b", "c"}, {1, 1, 1}), Ids{});
}

TEST(Vocabulary, EndOfAMessageEndsNoAnswerOfSeveral) {
  const auto ends = [](const Strings& tokens) {
    TinyModel model = bpe();
    model.keys["tokenizer.ggml.tokens"] = GgufArray::of(tokens);
    model.keys["tokenizer.ggml.token_type"] =
        GgufArray::of(std::vector<std::int32_t>(tokens.size(), 3));
    model.keys["tokenizer.ggml.eos_token_id"] = std::uint32_t{0};
    const GgufFile file = model.open();
    return Vocabulary::from_gguf(file).end_of_generation;
  };
  using Ids = std::vector<TokenId>;
  EXPECT_EQ(ends({"<|return|>", "<|end|>", "<|call|>", "<|start|>"}), (Ids{0, 2})) << "gpt-oss";
  EXPECT_EQ(ends({"<|flush|>", "<|end|>", "<|calls|>"}), (Ids{0, 2})) << "Solar";
  EXPECT_EQ(ends({"<|endoftext|>", "<|end|>", "<|user|>"}), (Ids{0, 1})) << "Phi-3: one message";
}

TEST(Vocabulary, ListedMerges) {
  TinyModel model = sentencepiece();
  model.keys["tokenizer.ggml.model"] = std::string("gemma4");
  EXPECT_THROW(Vocabulary::from_gguf(model.open()), Error) << "no merges";
  model.keys["tokenizer.ggml.merges"] = GgufArray::of(Strings{"a a"});
  {
    const GgufFile file = model.open();
    const Vocabulary vocabulary = Vocabulary::from_gguf(file);
    EXPECT_FALSE(vocabulary.bos) << "no token by default";
    EXPECT_FALSE(vocabulary.add_space_prefix);
  }
  model.keys["tokenizer.ggml.bos_token_id"] = std::uint32_t{1};
  model.keys["tokenizer.ggml.add_bos_token"] = false;
  const GgufFile file = model.open();
  const Vocabulary vocabulary = Vocabulary::from_gguf(file);
  EXPECT_TRUE(vocabulary.add_bos) << "files that say no are wrong";
  EXPECT_FALSE(vocabulary.warnings.empty());
}

TEST(Vocabulary, Phi3MarkersSwallowWhiteSpace) {
  TinyModel model = sentencepiece();
  EXPECT_TRUE(Vocabulary::from_gguf(model.open()).strip_after.empty());
  model.keys["general.name"] = std::string("Phi 3.5 Mini Instruct");
  const GgufFile file = model.open();
  EXPECT_EQ(Vocabulary::from_gguf(file).strip_after, (std::vector<TokenId>{2, 5}))
      << "not <unk> and <s>";
}

TEST(Vocabulary, Phi4MarkersSwallowWhiteSpaceOnBothSides) {
  TinyModel model = bpe();
  model.keys["general.architecture"] = std::string("phi3");
  Strings tokens{"a",          "b",         "<|fim_suffix|>", "<|endoftext|>", "<|im_start|>",
                 "<|im_sep|>", "<|im_end|>"};
  const auto read = [&] {
    model.keys["tokenizer.ggml.tokens"] = GgufArray::of(tokens);
    model.keys["tokenizer.ggml.token_type"] =
        GgufArray::of(std::vector<std::int32_t>{1, 1, 3, 3, 3, 3, 3});
    const GgufFile file = model.open();
    const Vocabulary vocabulary = Vocabulary::from_gguf(file);
    EXPECT_EQ(vocabulary.strip_before, vocabulary.strip_after);
    return vocabulary.strip_before;
  };
  EXPECT_EQ(read(), (std::vector<TokenId>{2, 4, 5, 6}));
  tokens[5] = "<|user|>";
  EXPECT_TRUE(read().empty()) << "another model of the architecture";
}

TEST(Vocabulary, BpeDefaults) {
  const GgufFile file = bpe().open();
  const Vocabulary vocabulary = Vocabulary::from_gguf(file);
  EXPECT_EQ(vocabulary.merges, std::vector<std::string_view>{"a b"});
  EXPECT_EQ(vocabulary.bos, std::nullopt);
  EXPECT_FALSE(vocabulary.add_bos);
  EXPECT_FALSE(vocabulary.add_space_prefix);
  EXPECT_EQ(vocabulary.end_of_generation, std::vector<TokenId>{3});
  EXPECT_TRUE(vocabulary.scores.empty());
  EXPECT_TRUE(vocabulary.warnings.empty());
}

TEST(Vocabulary, KeysWinOverDefaults) {
  TinyModel model = bpe();
  model.keys["tokenizer.ggml.pre"] = std::string("llama-bpe");
  model.keys["tokenizer.ggml.bos_token_id"] = 3U;
  model.keys["tokenizer.ggml.eot_token_id"] = 1U;
  model.keys["tokenizer.ggml.add_eos_token"] = false;
  model.keys["tokenizer.ggml.add_space_prefix"] = true;
  model.keys["tokenizer.ggml.precompiled_charsmap"] =
      GgufArray::of(std::vector<std::uint8_t>{1, 0, 2});
  model.keys["tokenizer.chat_template"] = std::string("{{ x }}");
  const GgufFile file = model.open();
  const Vocabulary vocabulary = Vocabulary::from_gguf(file);
  EXPECT_TRUE(vocabulary.add_bos);
  EXPECT_TRUE(vocabulary.add_space_prefix);
  EXPECT_EQ(vocabulary.end_of_generation, (std::vector<TokenId>{1, 3}));
  EXPECT_EQ(vocabulary.precompiled_charsmap, std::string("\1\0\2", 3));
  EXPECT_EQ(vocabulary.chat_template, "{{ x }}");
}

TEST(Vocabulary, ToleratesWhatExists) {
  TinyModel model = bpe();
  model.keys.erase("tokenizer.ggml.pre");
  model.keys.erase("tokenizer.ggml.token_type");
  model.keys["tokenizer.ggml.tokens"] = GgufArray::of(Strings{"a", "a", "", "\xFF"});
  const GgufFile file = model.open();
  const Vocabulary vocabulary = Vocabulary::from_gguf(file);
  EXPECT_EQ(vocabulary.types, std::vector(4, TokenType::Normal));
  EXPECT_EQ(vocabulary.warnings.size(), 3U);
}

struct VocabularyDefect {
  const char* name;
  const char* expected;
  std::function<void(TinyModel&)> apply;
  bool is_bpe = false;
};
void PrintTo(const VocabularyDefect& defect, std::ostream* out) { *out << defect.name; }

class BadVocabulary : public testing::TestWithParam<VocabularyDefect> {};

TEST_P(BadVocabulary, IsRefused) {
  TinyModel model = GetParam().is_bpe ? bpe() : sentencepiece();
  GetParam().apply(model);
  const GgufFile file = model.open();
  const std::string text = error_of([&] { Vocabulary::from_gguf(file); });
  EXPECT_NE(text.find(GetParam().expected), std::string::npos) << text;
}

std::function<void(TinyModel&)> with_key(const char* suffix, GgufData value) {
  return [=](TinyModel& m) { m.keys["tokenizer." + std::string(suffix)] = value; };
}
std::function<void(TinyModel&)> without_key(const char* suffix) {
  return [=](TinyModel& m) { m.keys.erase("tokenizer." + std::string(suffix)); };
}

INSTANTIATE_TEST_SUITE_P(
    Vocabulary, BadVocabulary,
    testing::Values(
        VocabularyDefect{"ModelMissing", "missing key (key tokenizer.ggml.model)",
                         without_key("ggml.model")},
        VocabularyDefect{"TokensMissing", "missing key (key tokenizer.ggml.tokens)",
                         without_key("ggml.tokens")},
        VocabularyDefect{"TokensEmpty", "empty vocabulary",
                         with_key("ggml.tokens", GgufArray{GgufType::String, {}})},
        VocabularyDefect{"TokensNumbers", "expected array of string, got array of u32",
                         with_key("ggml.tokens", GgufArray::of(std::vector<std::uint32_t>{1}))},
        VocabularyDefect{"TokenHuge", "token 0 is too long",
                         with_key("ggml.tokens", GgufArray::of(Strings{std::string(70000, 'x')}))},
        VocabularyDefect{"ScoresShort",
                         "expected one entry per token, 6, got 1 (key tokenizer.ggml.scores)",
                         with_key("ggml.scores", GgufArray::of(std::vector<float>{1}))},
        VocabularyDefect{"ScoresIntegers", "expected array of f32 or f64, got array of i32",
                         with_key("ggml.scores", GgufArray::of(std::vector<std::int32_t>{1}))},
        VocabularyDefect{"TypesShort",
                         "expected one entry per token, 6, got 1 (key tokenizer.ggml.token_type)",
                         with_key("ggml.token_type", GgufArray::of(std::vector<std::int32_t>{1}))},
        VocabularyDefect{"TypesFloats", "expected array of integers",
                         with_key("ggml.token_type", GgufArray::of(std::vector<float>(6)))},
        VocabularyDefect{"TypeUnknown", "expected 0 to 6, got 7",
                         with_key("ggml.token_type",
                                  GgufArray::of(std::vector<std::int32_t>{2, 3, 3, 6, 7, 3}))},
        VocabularyDefect{"ByteToken", "bad byte token 4: expected <0x00> to <0xFF>, got 'a'",
                         with_key("ggml.token_type",
                                  GgufArray::of(std::vector<std::int32_t>{2, 3, 3, 6, 6, 3}))},
        VocabularyDefect{"MergesMissing", "missing key (key tokenizer.ggml.merges)",
                         without_key("ggml.merges"), true},
        VocabularyDefect{"MergeWithoutSpace", "bad merge at index 0",
                         with_key("ggml.merges", GgufArray::of(Strings{"ab"})), true},
        VocabularyDefect{"MergeHalf", "bad merge at index 1",
                         with_key("ggml.merges", GgufArray::of(Strings{"a b", "a "})), true},
        VocabularyDefect{"MergeEmpty", "bad merge at index 0",
                         with_key("ggml.merges", GgufArray::of(Strings{""})), true},
        VocabularyDefect{"BosOutside",
                         "expected less than 6, got 6 (key tokenizer.ggml.bos_token_id)",
                         with_key("ggml.bos_token_id", 6U)},
        VocabularyDefect{
            "SuppressedOutside",
            "token outside the vocabulary: expected less than 6, got 6 (key "
            "tokenizer.ggml.suppress_tokens)",
            with_key("ggml.suppress_tokens", GgufArray::of(std::vector<std::int32_t>{2, 6}))},
        VocabularyDefect{
            "SuppressedNegative", "expected less than 6, got -1",
            with_key("ggml.suppress_tokens", GgufArray::of(std::vector<std::int32_t>{-1}))},
        VocabularyDefect{"EosMax", "outside the vocabulary",
                         with_key("ggml.eos_token_id", UINT32_MAX)},
        VocabularyDefect{"DefaultOutside",
                         "default token outside the vocabulary: expected less than 1, got 1",
                         [](TinyModel& m) {
                           for (const char* key : {"scores", "token_type"})
                             m.keys.erase(std::string("tokenizer.ggml.") + key);
                           m.keys["tokenizer.ggml.tokens"] = GgufArray::of(Strings{"a"});
                         }},
        VocabularyDefect{"AddBosWithoutBos", "add_bos_token without a BOS token",
                         with_key("ggml.add_bos_token", true), true},
        VocabularyDefect{"AddBosNumber", "expected bool, got u8",
                         with_key("ggml.add_bos_token", std::uint8_t{1})},
        VocabularyDefect{"TemplateNumber", "expected string, got u32 (key tokenizer.chat_template)",
                         with_key("chat_template", 1U)},
        VocabularyDefect{"CharsmapString", "expected array of u8",
                         with_key("ggml.precompiled_charsmap", std::string("x"))}),
    case_name<VocabularyDefect>);

}  // namespace
}  // namespace cria::test
