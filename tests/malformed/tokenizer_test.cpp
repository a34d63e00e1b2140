// Cases 76 to 87: vocabularies.
#include <gtest/gtest.h>

#include <limits>

#include "tests/malformed/refusal.h"

namespace cria::test {
namespace {

using Strings = std::vector<std::string>;
using Floats = std::vector<float>;
using Ints = std::vector<std::int32_t>;

const std::string kTokens = "tokenizer.ggml.tokens", kScores = "tokenizer.ggml.scores",
                  kTypes = "tokenizer.ggml.token_type", kMerges = "tokenizer.ggml.merges";

std::function<void(Image&)> put(const std::string& key, const GgufData& data) {
  return [=](Image& m) { m.set(key) = data; };
}
std::function<void(Image&)> without(const std::string& key) {
  return [=](Image& m) { m.erase(key); };
}
GgufArray& array(Image& m, const std::string& key) { return std::get<GgufArray>(m.set(key)); }
/// One element of an array.
std::function<void(Image&)> element(const std::string& key, std::size_t i, const GgufData& data) {
  return [=](Image& m) { array(m, key).values.at(i) = data; };
}
constexpr std::size_t kByteTokens = 3;  // where <0x00> stands in the SentencePiece vocabulary

TEST(MalformedTokenizer, Case076Tokens) {
  expect_refused({
      {"missing key (key tokenizer.ggml.tokens)", without(kTokens)},
      {"empty vocabulary (key tokenizer.ggml.tokens)", put(kTokens, GgufArray::of(Strings{}))},
      {"wrong type of a key: expected array of string, got array of i32 (key "
       "tokenizer.ggml.tokens)",
       put(kTokens, GgufArray::of(Ints{1, 2, 3}))},
      {"wrong type of a key: expected array of string, got string (key tokenizer.ggml.tokens)",
       put(kTokens, std::string("a"))},
      {"wrong type of a key: expected array of string, got array of array (key "
       "tokenizer.ggml.tokens)",
       put(kTokens, GgufArray{GgufType::Array, {GgufArray::of(Strings{"a"})}})},
  });
}

TEST(MalformedTokenizer, Case077Scores) {
  Floats scores(kValidVocabulary, 0);
  scores[260] = std::numeric_limits<float>::quiet_NaN();
  const std::string length = "wrong length of an array: expected one entry per token, 266, got ";
  expect_refused({
      {length + "265 (key tokenizer.ggml.scores)", put(kScores, GgufArray::of(Floats(265, 0)))},
      {length + "267 (key tokenizer.ggml.scores)", put(kScores, GgufArray::of(Floats(267, 0)))},
      {"wrong type of a key: expected array of f32 or f64, got array of i32 (key "
       "tokenizer.ggml.scores)",
       put(kScores, GgufArray::of(Ints(266, 0)))},
      {"wrong type of a key: expected array of f32 or f64, got f32 (key tokenizer.ggml.scores)",
       put(kScores, 0.0F)},
      {"a score is not a number: at index 260 (key tokenizer.ggml.scores)",
       put(kScores, GgufArray::of(scores))},
  });
  Image none = valid_model();
  none.erase(kScores);
  expect_answer(none);
}

TEST(MalformedTokenizer, Case078TokenTypes) {
  const std::string length = "wrong length of an array: expected one entry per token, 266, got ";
  const std::string unknown = "unknown token type at index 260: expected 0 to 6, got ";
  expect_refused({
      {length + "265 (key tokenizer.ggml.token_type)", put(kTypes, GgufArray::of(Ints(265, 1)))},
      {length + "0 (key tokenizer.ggml.token_type)", put(kTypes, GgufArray::of(Ints{}))},
      {"wrong type of a key: expected array of integers, got array of f32 (key "
       "tokenizer.ggml.token_type)",
       put(kTypes, GgufArray::of(Floats(266, 1)))},
      {unknown + "7 (key tokenizer.ggml.token_type)", element(kTypes, 260, 7)},
      {unknown + "-1 (key tokenizer.ggml.token_type)", element(kTypes, 260, -1)},
  });
  Image none = valid_model();
  none.erase(kTypes);
  expect_same_answer(none);
}

TEST(MalformedTokenizer, Case079Merges) {
  const std::string bad = "bad merge at index 1: expected two parts with a space between, got ",
                    key = " (key tokenizer.ggml.merges)";
  expect_refused(
      {
          {"missing key (key tokenizer.ggml.merges)", without(kMerges)},
          {"wrong type of a key: expected array of string, got array of i32 (key "
           "tokenizer.ggml.merges)",
           put(kMerges, GgufArray::of(Ints{1}))},
          {bad + "'th'" + key, element(kMerges, 1, std::string("th"))},
          {bad + "''" + key, element(kMerges, 1, std::string())},
          {bad + "'t '" + key, element(kMerges, 1, std::string("t "))},
          {bad + "' h'" + key, element(kMerges, 1, std::string(" h"))},
      },
      valid_byte_pair_model());
  Image strange = valid_byte_pair_model();  // parts and results that are not tokens
  array(strange, kMerges).values.emplace_back(std::string("q x"));
  array(strange, kMerges).values.emplace_back(std::string("nothing here"));
  expect_same_answer(strange, valid_byte_pair_model());
}

TEST(MalformedTokenizer, Case080SpecialTokens) {
  std::vector<Defect> defects;
  for (const char* name : {"bos", "eos", "unknown", "seperator", "padding", "eot", "eom"}) {
    const std::string key = "tokenizer.ggml." + std::string(name) + "_token_id";
    defects.push_back(
        {"token outside the vocabulary: expected less than 266, got 266 (key " + key + ")",
         put(key, 266U)});
    const bool may_be_null =
        key.find("seperator") != std::string::npos || key.find("padding") != std::string::npos;
    const std::uint32_t largest = may_be_null ? UINT32_MAX - 1 : UINT32_MAX;
    defects.push_back({"token outside the vocabulary: expected less than 266, got " +
                           std::to_string(largest) + " (key " + key + ")",
                       put(key, largest)});
    defects.push_back(
        {"negative number: expected 0 or more, got -1 (key " + key + ")", put(key, -1)});
    defects.push_back({"wrong type of a key: expected an integer, got string (key " + key + ")",
                       put(key, std::string("<s>"))});
  }
  defects.push_back(
      {"default token outside the vocabulary: expected less than 2, got 2 (key "
       "tokenizer.ggml.eos_token_id)",
       [](Image& m) {
         m.set(kTokens) = GgufArray::of(Strings{"<unk>", "<s>"});
         for (const std::string& key :
              {kScores, kTypes, std::string("tokenizer.ggml.eos_token_id")})
           m.erase(key);
       }});
  expect_refused(defects);
}

TEST(MalformedTokenizer, Case081FlagsWithoutTokens) {
  for (const std::string name : {"bos", "eos"}) {
    const std::string flag = "tokenizer.ggml.add_" + name + "_token",
                      upper = name == "bos" ? "a BOS" : "an EOS";
    const std::string says =
        std::string("add_").append(name).append("_token without ").append(upper);
    expect_refused(
        {{std::string(says).append(" token (key ").append(flag).append(")"),
          [&](Image& m) {
            m.set(flag) = true;
            m.erase("tokenizer.ggml." + name + "_token_id");
          }},
         {"wrong type of a key: expected bool, got u32 (key " + flag + ")", put(flag, 1U)}},
        valid_byte_pair_model());
  }
}

TEST(MalformedTokenizer, Case082ByteTokens) {
  std::vector<Defect> defects;
  for (const std::string text : {"<0x-1>", "<0xZZ>", "<0x1>", "<0x123>", "<0x0", ""})
    defects.push_back({"bad byte token 10: expected <0x00> to <0xFF>, got '" + text +
                           "' (key tokenizer.ggml.tokens)",
                       element(kTokens, 10, text)});
  expect_refused(defects);
  Image missing = valid_model();  // bytes that the prompt does not contain
  for (const std::size_t byte : {std::size_t{0}, std::size_t{200}}) {
    element(kTokens, kByteTokens + byte, "x" + std::to_string(byte))(missing);
    element(kTypes, kByteTokens + byte, 1)(missing);
  }
  EXPECT_NE(expect_answer(missing, {"-v"}).err.find("expected 256 byte tokens, got 254"),
            std::string::npos);
  const TempDirectory directory;
  const Result unknown =
      limited({"tokenize", "-m", directory.write("m", missing.bytes()), "--ids"}, "\xC8");
  EXPECT_EQ(unknown.code, 0) << unknown.err;
  EXPECT_EQ(unknown.out, "1 262 0\n") << "a byte without a token is the unknown one";
}

TEST(MalformedTokenizer, Case083TextsOfTokens) {
  expect_refused(
      {{"token 260 is too long: expected at most 65536 bytes, got 65537 (key "
        "tokenizer.ggml.tokens)",
        element(kTokens, 260, std::string(65'537, 'x'))}});
  Image odd = valid_model();
  element(kTokens, 100, std::string())(odd);
  element(kTypes, 100, 1)(odd);
  element(kTokens, 101, std::string("\xFF\xFE"))(odd);
  element(kTypes, 101, 1)(odd);
  element(kTokens, 102, std::string(65'536, 'x'))(odd);
  element(kTypes, 102, 1)(odd);
  const Result result = expect_answer(odd, {"-v"});
  EXPECT_NE(result.err.find("empty: 1 token of the vocabulary"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("not UTF-8: 1 token of the vocabulary"), std::string::npos)
      << result.err;
}

TEST(MalformedTokenizer, Case084UnknownKinds) {
  const std::string model =
      "unknown kind of tokenizer: expected llama (SentencePiece), gemma4, gpt2 (byte-level BPE), "
      "bert (WordPiece) or t5 (Unigram), got ";
  expect_refused({
      {model + "'rwkv' (key tokenizer.ggml.model)",
       put("tokenizer.ggml.model", std::string("rwkv"))},
      {model + "'' (key tokenizer.ggml.model)", put("tokenizer.ggml.model", std::string())},
      {"missing key (key tokenizer.ggml.model)", without("tokenizer.ggml.model")},
      {"wrong type of a key: expected string, got u32 (key tokenizer.ggml.model)",
       put("tokenizer.ggml.model", 1U)},
  });
  expect_refused(
      {{"unknown pre-tokenizer (--pre NAME overrides it): expected *llama-bpe*qwen2*, got 'emu' "
        "(key tokenizer.ggml.pre)",
        put("tokenizer.ggml.pre", std::string("emu"))}},
      valid_byte_pair_model());
  Image other = valid_byte_pair_model();
  put("tokenizer.ggml.pre", std::string("emu"))(other);
  EXPECT_EQ(expect_answer(other, {"--pre", "gpt-2"}).out,
            expect_answer(valid_byte_pair_model()).out);
  other.erase("tokenizer.ggml.pre");
  EXPECT_NE(expect_answer(other).err.find("cria: warning: missing key tokenizer.ggml.pre"),
            std::string::npos);
}

TEST(MalformedTokenizer, Case085NoNewline) {
  Image image = valid_model();
  element(kTokens, kByteTokens + 10, std::string("newline"))(image);
  element(kTypes, kByteTokens + 10, 1)(image);
  expect_same_answer(image);
  const TempDirectory directory;
  const Result result =
      limited({"tokenize", "-m", directory.write("m", image.bytes()), "--ids"}, "H\n");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "1 260 0\n");
}

TEST(MalformedTokenizer, Case087DuplicatesLoad) {
  Image image = valid_model();
  element(kTokens, kByteTokens,
          std::string("Hi"))(image);  // a normal token now, and the same text again
  element(kTypes, kByteTokens, 1)(image);
  expect_same_answer(image);
  Image pairs = valid_byte_pair_model();
  element(kTokens, 200, std::string("Hi"))(pairs);  // the last of two counts
  expect_same_answer(pairs, valid_byte_pair_model());
}

}  // namespace
}  // namespace cria::test
