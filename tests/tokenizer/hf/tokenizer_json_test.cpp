#include "tokenizer/hf/formats.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "model/error.h"
#include "tests/model/temporary_directory.h"
#include "tests/tokenizer/vocabularies.h"
#include "tokenizer/bpe/pre_tokenizer.h"
#include "tokenizer/hf/vocabulary.h"

namespace cria::testing {
namespace {

VocabularyBuilder read_json_vocabulary(const SortedJson& json, std::size_t tokens,
                                       const std::string& pre = "") {
  VocabularyBuilder builder(tokens, "tokenizer.json");
  read_tokenizer_json(SortedJson::parse(json.dump()), "tokenizer.json", {pre}, builder);
  return builder;
}

std::string json_error_in(const SortedJson& json) {
  try {
    read_json_vocabulary(json, 300);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// Returns a tokenizer.json with the pre-tokenizer of Llama 3 and a small vocabulary.
SortedJson llama3_json() {
  return SortedJson::parse(R"({
    "added_tokens": [{"id": 5, "content": "<|begin_of_text|>", "special": true},
                     {"id": 6, "content": "<tool>", "special": false}],
    "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
      {"type": "Split", "behavior": "Isolated", "invert": false, "pattern": {"Regex":
       "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}},
      {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}]},
    "post_processor": {"type": "Sequence", "processors": [
      {"type": "ByteLevel"},
      {"type": "TemplateProcessing",
       "single": [{"SpecialToken": {"id": "<|begin_of_text|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]}]},
    "model": {"type": "BPE", "ignore_merges": true, "vocab": {"a": 0, "b": 1, "Ġ": 2, "ab": 3, "Ġab": 4},
              "merges": ["a b", ["Ġ", "ab"]]}})");
}

TEST(TokenizerJson, ByteLevel) {
  const VocabularyBuilder builder = read_json_vocabulary(llama3_json(), 8);
  const Vocabulary& v = builder.vocabulary();
  EXPECT_EQ(v.model, "gpt2");
  EXPECT_EQ(v.pre, "llama-bpe");
  EXPECT_EQ(v.tokens[4], "Ġab");
  EXPECT_EQ(v.types[4], TokenType::Normal);
  EXPECT_EQ(v.types[5], TokenType::Control);
  EXPECT_EQ(v.types[6], TokenType::UserDefined);
  EXPECT_EQ(v.merges, (std::vector<std::string_view>{"a b", "Ġ ab"}));
  EXPECT_TRUE(v.add_bos);
  EXPECT_EQ(v.bos, 5);
  EXPECT_FALSE(v.add_eos);
  EXPECT_FALSE(v.add_space_prefix);
}

TEST(TokenizerJson, PreTokenizerByItsExpressions) {
  SortedJson json = llama3_json();
  json["model"]["ignore_merges"] = false;
  EXPECT_EQ(read_json_vocabulary(json, 8).vocabulary().pre, "dbrx")
      << "the same words, merges not ignored";
  SortedJson& step = json["pre_tokenizer"]["pretokenizers"][0];
  std::string regex = step["pattern"]["Regex"];
  regex.replace(regex.find("{1,3}"), 5, "");
  step["pattern"]["Regex"] = regex;
  EXPECT_EQ(read_json_vocabulary(json, 8).vocabulary().pre, "qwen2");
  step["behavior"] = "Removed";
  step["invert"] = true;
  EXPECT_EQ(read_json_vocabulary(json, 8).vocabulary().pre, "qwen2")
      << "as files made from tiktoken's have it";
  json["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", true}};
  EXPECT_EQ(read_json_vocabulary(json, 8).vocabulary().pre, "gpt-2");
  EXPECT_TRUE(read_json_vocabulary(json, 8).vocabulary().add_space_prefix);
  json["pre_tokenizer"] = SortedJson::parse(R"({"type": "Sequence", "pretokenizers": [
      {"type": "Digits", "individual_digits": true}, {"type": "ByteLevel", "add_prefix_space": false}]})");
  EXPECT_EQ(read_json_vocabulary(json, 8).vocabulary().pre, "starcoder");
  json["pre_tokenizer"]["pretokenizers"][0]["individual_digits"] = false;
  EXPECT_NE(json_error_in(json).find("unknown pre-tokenizer (choose one by --pre NAME"),
            std::string::npos)
      << json_error_in(json);
  EXPECT_EQ(read_json_vocabulary(json, 8, "falcon").vocabulary().pre, "falcon");
}

TEST(TokenizerJson, RawCharactersAreTheSameAsEscapes) {
  // These are the expressions of deepseek-coder.
  const std::vector<std::string> expressions = {"[\r\n]", R"(\s?\p{L}+)", R"(\s?\p{P}+)",
                                                "[一-龥ࠀ-一가-퟿]+", R"(\p{N})"};
  EXPECT_EQ(PreTokenizer::name_of(expressions, false), "deepseek-coder");
}

TEST(TokenizerJson, EveryPreTokenizerIsRecognizedByItsOwnExpressions) {
  for (const std::string_view name : PreTokenizer::names()) {
    const std::string_view found =
        PreTokenizer::name_of(PreTokenizer::expressions(name), PreTokenizer(name).ignores_merges());
    EXPECT_EQ(PreTokenizer::expressions(found), PreTokenizer::expressions(name)) << name;
    EXPECT_EQ(PreTokenizer(found).ignores_merges(), PreTokenizer(name).ignores_merges()) << name;
  }
  EXPECT_EQ(PreTokenizer::name_of({"x+"}, false), "");
}

TEST(TokenizerJson, BytesAsTokensMergeInTheFilesOrder) {
  // "abc": by rank first "bc", then "a"+"bc"; the scores must lead there too.
  SortedJson json = {
      {"normalizer",
       {{"type", "Sequence"}, {"normalizers", {{{"type", "Prepend"}, {"prepend", "▁"}}}}}},
      {"model",
       {{"type", "BPE"},
        {"unk_token", "<unk>"},
        {"byte_fallback", true},
        {"merges", {"b c", "a b", "a bc"}}}}};
  SortedJson vocabulary = {{"<unk>", 0}, {"<s>", 1}};
  for (int byte = 0; byte < 256; ++byte) vocabulary[SmallVocabulary::byte_text(byte)] = byte + 2;
  int next = 258;
  for (const char* token : {"▁", "a", "b", "c", "ab", "bc", "abc"}) vocabulary[token] = next++;
  json["model"]["vocab"] = vocabulary;
  json["added_tokens"] = {{{"id", 1}, {"content", "<s>"}, {"special", true}}};
  const VocabularyBuilder builder = read_json_vocabulary(json, static_cast<std::size_t>(next));
  const Vocabulary& v = builder.vocabulary();
  EXPECT_EQ(v.model, "llama");
  EXPECT_TRUE(v.add_space_prefix);
  EXPECT_EQ(v.unk, 0);
  EXPECT_EQ(v.types[0], TokenType::Unknown);
  EXPECT_EQ(v.types[1], TokenType::Control);
  EXPECT_EQ(v.types[12], TokenType::Byte);
  Vocabulary ready = v;
  ready.bos = 1;
  ready.eos = 1;
  const auto tokenizer = Tokenizer::create(ready);
  EXPECT_EQ(tokenizer->encode("abc", false, false), (Ids{258, 264}));
  EXPECT_EQ(tokenizer->encode("aab", false, false), (Ids{258, 259, 262}));

  VocabularyBuilder listing(static_cast<std::size_t>(next), "tokenizer.json");
  read_tokenizer_json(SortedJson::parse(json.dump()), "tokenizer.json", {.listed_merges = true},
                      listing);
  Vocabulary listed = listing.vocabulary();
  EXPECT_EQ(listed.model, "gemma4");
  EXPECT_EQ(listed.merges, (std::vector<std::string_view>{"b c", "a b", "a bc"}));
  listed.bos = listed.eos = 1;
  EXPECT_EQ(Tokenizer::create(listed)->encode("abc", false, false), (Ids{258, 264}));
}

TEST(TokenizerJson, ComesBackAsItWas) {
  BytePairs pairs("llama-bpe");
  pairs.merge("t", "h");
  pairs.merge("th", "e");
  pairs.merge(" ", "the");
  pairs.add("<|more|>", TokenType::UserDefined);
  pairs.add("[PAD262]", TokenType::Unused);
  pairs->bos = pairs->eos = 1;
  pairs->add_bos = pairs->add_eos = true;
  pairs->strip_before = {1};
  pairs->strip_after = {1, 258};
  const SortedJson written = tokenizer_json(*pairs.operator->());
  for (const SortedJson& token : written["added_tokens"]) {
    EXPECT_EQ(token["lstrip"], token["id"] == 1) << token;
    EXPECT_EQ(token["rstrip"], token["id"] == 1 || token["id"] == 258) << token;
  }
  ASSERT_FALSE(written["added_tokens"].empty());
  for (const SortedJson& token : written["added_tokens"])
    EXPECT_EQ(written["model"]["vocab"][token["content"].get<std::string>()], token["id"])
        << "the library numbers what it does not find there anew";
  VocabularyBuilder builder = read_json_vocabulary(written, pairs->tokens.size());
  builder.fill_holes();
  const Vocabulary& v = builder.vocabulary();
  EXPECT_EQ(v.pre, "llama-bpe");
  EXPECT_EQ(v.tokens, pairs->tokens);
  EXPECT_EQ(v.merges, pairs->merges);
  EXPECT_TRUE(v.add_bos && v.add_eos);
  EXPECT_EQ(v.bos, 1);
  EXPECT_EQ(v.eos, 1);
  for (std::size_t id = 1; id < v.types.size(); ++id)
    EXPECT_EQ(v.types[id], pairs->types[id]) << id;
}

TEST(TokenizerJson, NamesTheInvalidKey) {
  const auto with = [](const char* key, const SortedJson& value) {
    SortedJson json = llama3_json();
    json["model"][key] = value;
    return json_error_in(json);
  };
  EXPECT_NE(with("type", "WordLevel").find("got WordLevel (key model.type)"), std::string::npos);
  EXPECT_NE(with("vocab", {}).find("(key model.vocab)"), std::string::npos);
  EXPECT_NE(with("vocab", {{"a", -1}}).find("bad token id"), std::string::npos);
  EXPECT_NE(
      with("vocab", {{"a", 0}, {"b", 0}}).find("two tokens with the same id: a and b (token 0)"),
      std::string::npos);
  EXPECT_NE(with("vocab", {{std::string(70'000, 'a'), 0}}).find("token is too long"),
            std::string::npos);
  EXPECT_NE(with("merges", {}).find("(key model.merges)"), std::string::npos);
  EXPECT_NE(with("merges", {"ab"}).find("bad merge at index 0"), std::string::npos);
  EXPECT_NE(with("merges", {{"a", "b", "c"}}).find("bad merge at index 0"), std::string::npos);
  EXPECT_NE(json_error_in(SortedJson::array()).find("expected a JSON object"), std::string::npos);
  SortedJson json = llama3_json();
  json["pre_tokenizer"] = nullptr;
  EXPECT_NE(json_error_in(json).find("unknown kind of vocabulary: expected a byte-level or"),
            std::string::npos);
}

TEST(TokenizerJson, RefusesWhatWouldChangeTheText) {
  const auto with = [](SortedJson json, const char* key, const SortedJson& value) {
    json[Json::json_pointer(key)] = value;
    return json_error_in(json);
  };
  const SortedJson space = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}};
  SortedJson quotes = space;
  quotes["pattern"]["String"] = "``";
  for (const SortedJson& passes :
       {SortedJson(), SortedJson{{"type", "NFC"}}, space,
        SortedJson{{"type", "Sequence"}, {"normalizers", {{{"type", "Prepend"}}, space}}}})
    EXPECT_EQ(with(llama3_json(), "/normalizer", passes), "");
  for (const SortedJson& refused :
       {SortedJson{{"type", "Lowercase"}}, SortedJson{{"type", "Strip"}}, quotes})
    EXPECT_NE(with(llama3_json(), "/normalizer", refused)
                  .find("got " + refused["type"].get<std::string>()),
              std::string::npos);
  EXPECT_NE(with(llama3_json(), "/pre_tokenizer/pretokenizers/0", {{"type", "New"}})
                .find("(choose one by --pre NAME)"),
            std::string::npos);
  EXPECT_NE(
      with(llama3_json(), "/model/end_of_word_suffix", "</w>").find("expected none, got </w>"),
      std::string::npos);
  EXPECT_EQ(with(llama3_json(), "/model/end_of_word_suffix", ""), "");

  SortedJson bytes = llama3_json();
  bytes["model"]["vocab"] = {{"<0x00>", 0}, {"a", 1}, {"b", 2}, {"ab", 3}};
  bytes["model"]["merges"] = {"a b"};
  const SortedJson at_spaces = {
      {"type", "Split"}, {"behavior", "MergedWithPrevious"}, {"pattern", {{"String", " "}}}};
  EXPECT_EQ(with(bytes, "/pre_tokenizer", at_spaces), "") << "as Gemma has it";
  EXPECT_EQ(with(bytes, "/pre_tokenizer", {{"type", "Metaspace"}}), "");
  EXPECT_NE(with(bytes, "/pre_tokenizer", {{"type", "Digits"}}).find("expected none, got \\p{N}+"),
            std::string::npos);
}

TEST(TokenizerJson, ASpaceBeforeTheFirstWordIsAWarning) {
  SortedJson json = llama3_json();
  EXPECT_TRUE(read_json_vocabulary(json, 8).vocabulary().warnings.empty());
  json["pre_tokenizer"]["pretokenizers"][1]["add_prefix_space"] = true;
  EXPECT_EQ(read_json_vocabulary(json, 8).vocabulary().warnings.size(), 1U);
}

// Speech models have as many. transformers writes six fields for every added token.
TEST(HfVocabulary, ManyAddedTokens) {
  constexpr int kAdded = 29'000;
  const cria::test::TemporaryDirectory directory;
  directory.write("tokenizer.json", llama3_json().dump());
  SortedJson added;
  for (int i = 0; i < kAdded; ++i) {
    added[std::to_string(7 + i)] = {{"content", "<custom_token_" + std::to_string(i) + ">"},
                                    {"lstrip", false},
                                    {"normalized", false},
                                    {"rstrip", false},
                                    {"single_word", false},
                                    {"special", false}};
  }
  directory.write("tokenizer_config.json", SortedJson{{"added_tokens_decoder", added}}.dump(2));
  HfVocabularyOptions options;
  options.tokens = 7 + kAdded;
  const HfVocabulary out = read_hf_vocabulary(directory.file(""), options);
  EXPECT_EQ(out.vocabulary().tokens.back(), "<custom_token_28999>");
  EXPECT_EQ(out.vocabulary().types.back(), TokenType::UserDefined);
}

// gpt-oss: other programs know gpt-4o only, and merges make each of its tokens.
TEST(HfVocabulary, PrefersTheKnownNameIfNoIdDiffers) {
  const auto name_with = [](const char* merges) {
    const cria::test::TemporaryDirectory directory;
    SortedJson json = llama3_json();
    json["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] =
        PreTokenizer::expressions("gpt-4o").front();
    json["model"]["merges"] = SortedJson::parse(merges);
    directory.write("tokenizer.json", json.dump());
    HfVocabularyOptions options;
    options.tokens = 8;
    return read_hf_vocabulary(directory.file(""), options).vocabulary().pre;
  };
  EXPECT_EQ(name_with(R"(["a b", ["Ġ", "ab"]])"), "gpt-4o");
  EXPECT_EQ(name_with(R"(["a b"])"), "granite-embed-multi-97m") << "no merge makes Ġab";
}

/// A tokenizer.model: <unk>, <s>, </s>, the bytes, "a".
std::string pieces_file() {
  SmallVocabulary v;
  v.add("a");
  return sentencepiece_model(*v);
}

// transformers 5 writes no added_tokens.json, no added_tokens_decoder and no add_bos_token.
TEST(HfVocabulary, ReadsAddedTokensFromTokenizerJson) {
  const cria::test::TemporaryDirectory directory;
  directory.write("tokenizer.model", pieces_file());
  SortedJson json = {{"added_tokens",
                      {{{"id", 1}, {"content", "<s>"}, {"special", true}},
                       {{"id", 260}, {"content", "<|im_end|>"}, {"special", true}},
                       {{"id", 261}, {"content", "<tool>"}, {"special", false}}}},
                     {"post_processor",
                      {{"type", "TemplateProcessing"},
                       {"single", {{{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}}}}};
  directory.write("tokenizer.json", json.dump());
  directory.write("tokenizer_config.json",
                  R"({"eos_token": "<|im_end|>", "pad_token": "<|pad|>"})");
  HfVocabularyOptions options;
  options.tokens = 264;
  const HfVocabulary out = read_hf_vocabulary(directory.file(""), options);
  const Vocabulary& v = out.vocabulary();
  EXPECT_EQ(v.model, "llama");
  EXPECT_EQ(v.tokens[260], "<|im_end|>");
  EXPECT_EQ(v.types[260], TokenType::Control);
  EXPECT_EQ(v.types[261], TokenType::UserDefined);
  EXPECT_EQ(v.eos, 260);
  EXPECT_EQ(v.bos, 1);
  EXPECT_FALSE(v.add_bos) << "the template puts none before a text";
  EXPECT_EQ(v.warnings, std::vector<std::string>{"pad_token is <|pad|>, which is not a token"});
  json.erase("post_processor");
  directory.write("tokenizer.json", json.dump());
  EXPECT_TRUE(read_hf_vocabulary(directory.file(""), options).vocabulary().add_bos);
}

TEST(HfVocabulary, ATokenizerModelOfAnotherKindGivesWayToTokenizerJson) {
  const cria::test::TemporaryDirectory directory;
  directory.write("tokenizer.model", "IQ== 0\nIg== 1\n");  // as tiktoken writes them
  directory.write("tekken.json", "{}");
  HfVocabularyOptions options;
  options.tokens = 8;
  EXPECT_THROW((void)read_hf_vocabulary(directory.file(""), options), Error);
  directory.write("tokenizer.json", llama3_json().dump());
  const HfVocabulary out = read_hf_vocabulary(directory.file(""), options);
  EXPECT_EQ(out.vocabulary().model, "gpt2");
  ASSERT_EQ(out.vocabulary().warnings.size(), 1U);
  EXPECT_NE(out.vocabulary().warnings[0].find("tokenizer.json is taken"), std::string::npos);

  const cria::test::TemporaryDirectory mistral;
  mistral.write("tekken.json", "{}");
  try {
    (void)read_hf_vocabulary(mistral.file(""), options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("got tekken.json"), std::string::npos) << error.what();
  }
}

TEST(HfVocabulary, NamedTemplatesComeBack) {
  const cria::test::TemporaryDirectory directory;
  directory.write("tokenizer.model", pieces_file());
  directory.write("chat_template.jinja", "standard");
  directory.write("tokenizer_config.json",
                  R"({"chat_template": [{"name": "default", "template": "old"},
    {"name": "rag", "template": "documents"}, {"name": "tool_use", "template": "old tools"}]})");
  std::filesystem::create_directory(directory.file("additional_chat_templates"));
  directory.write("additional_chat_templates/tool_use.jinja", "tools");
  directory.write("additional_chat_templates/notes.txt", "none");
  HfVocabularyOptions options;
  options.tokens = 260;
  const HfVocabulary out = read_hf_vocabulary(directory.file(""), options);
  EXPECT_EQ(out.vocabulary().chat_template, "standard");
  EXPECT_EQ(out.templates, (NamedTemplates{{"rag", "documents"}, {"tool_use", "tools"}}));

  const cria::test::TemporaryDirectory exported;
  for (const TextFile& file : hf_vocabulary_files(out.vocabulary(), out.templates))
    exported.write(file.name, file.content);
  const HfVocabulary again = read_hf_vocabulary(exported.file(""), options);
  EXPECT_EQ(again.vocabulary().chat_template, "standard");
  EXPECT_EQ(again.templates, out.templates);
}

}  // namespace
}  // namespace cria::testing
