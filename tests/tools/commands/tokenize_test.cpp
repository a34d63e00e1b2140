#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "model/gguf/writer.h"
#include "tests/tools/process.h"

namespace cria::test {
namespace {

TEST(Tokenize, IdsAreOneLine) {
  const Result with_bos = cria({"tokenize", "--ids", "-p", "The capital of France"});
  const Result without = cria({"tokenize", "--ids", "--no-bos", "-p", "The capital of France"});
  ASSERT_EQ(with_bos.code, 0) << with_bos.err;
  EXPECT_EQ(count_lines(with_bos.out), 1U);
  EXPECT_EQ(with_bos.out, "1 " + without.out);  // <s> is 1
}

TEST(Tokenize, AnyBytesComeBack) {
  std::string bytes = "  two spaces\r\n\ttab \xC3\xA9 \xF0\x9F\xA6\x99 <|im_end|> ";
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);  // NUL and invalid UTF-8 too
  const Result ids = cria({"tokenize", "--ids"}, bytes);
  ASSERT_EQ(ids.code, 0) << ids.err;
  const Result text = cria({"tokenize", "--decode"}, ids.out);
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_EQ(text.out, bytes);
}

TEST(Tokenize, EmptyTextYieldsTheBeginToken) {
  EXPECT_EQ(cria({"tokenize", "--ids"}).out, "1\n");
  EXPECT_EQ(cria({"tokenize", "--ids", "--no-bos", "-p", ""}).out, "\n");
}

// The tokens are those that cria run reads.
TEST(Tokenize, PutsStdinBeforeTheText) {
  EXPECT_EQ(cria({"tokenize", "--ids", "-p", "Summarize."}, "Some notes.\n").out,
            cria({"tokenize", "--ids", "-p", "Some notes.\n\nSummarize."}).out);
  EXPECT_EQ(cria({"tokenize", "--decode", "-p", "300"}, "301").out,
            cria({"tokenize", "--decode", "-p", "301 300"}).out);
}

// A loop that reads lines would otherwise lose the rest of them without a word.
TEST(Tokenize, ReportsThatItTakesTheRestOfAFile) {
  const Result rest =
      cria_in({.input = "one\ntwo\n", .in_child = [] { lseek(STDIN_FILENO, 4, SEEK_SET); }},
              {"tokenize", "--ids", "-p", "x"});
  EXPECT_EQ(rest.out, cria({"tokenize", "--ids", "-p", "two\n\nx"}).out);
  EXPECT_NE(rest.err.find("a loop that reads lines needs < /dev/null"), std::string::npos);
  EXPECT_EQ(cria({"tokenize", "--ids", "-p", "x"}, "one\n").err, "");
}

TEST(Tokenize, ReadsAFile) {
  const TempDirectory directory;
  const std::string file = directory.write("text", "Hello\n");
  EXPECT_EQ(cria({"tokenize", "--ids", "-f", file}).out,
            cria({"tokenize", "--ids"}, "Hello\n").out);
  const Result two = cria({"tokenize", "--ids", "-f", file}, "more");
  EXPECT_NE(two.err.find("stdin is not read: --file names what is"), std::string::npos) << two.err;
  const Result missing = cria({"tokenize", "-f", directory.path("none")});
  EXPECT_EQ(missing.code, 1);
  EXPECT_EQ(missing.err, "cria: error: " + directory.path("none") +
                             ": cannot be opened: No such file or directory\n");
}

TEST(Tokenize, ShowsPieces) {
  const Result table = cria({"tokenize", "-p", "Paris"});
  const auto json = nlohmann::json::parse(cria({"tokenize", "--json", "-p", "Paris"}).out);
  EXPECT_EQ(count_lines(table.out), json.size());
  EXPECT_EQ(json.at(0).at("piece"), "<s>");
  std::string text;
  for (std::size_t i = 1; i < json.size(); ++i) text += json[i].at("piece");
  EXPECT_EQ(text, " Paris");  // the dummy prefix of SentencePiece
}

TEST(Tokenize, ParsesControlTokensOnlyOnRequest) {
  const std::string marker = "<|im_end|>";
  EXPECT_EQ(cria({"tokenize", "--ids", "--no-bos", "--special", "-p", marker}).out, "4\n");
  EXPECT_GT(cria({"tokenize", "--ids", "--no-bos", "-p", marker}).out.size(), 4U);
  EXPECT_EQ(cria({"tokenize", "--decode", "-p", "4"}).out, "");
  EXPECT_EQ(cria({"tokenize", "--decode", "--special", "-p", "4"}).out, marker);
}

TEST(Tokenize, DecodedTextCannotDriveTheTerminal) {
  const std::string ids = cria({"tokenize", "--ids", "-p", "a\033[31mb"}).out;
  EXPECT_EQ(cria({"tokenize", "--decode", "-p", ids}).out, "a\033[31mb");
  Child child(Child::Kind::Terminal, {"tokenize", "--decode", "-p", ids});
  EXPECT_TRUE(child.wait_for("a^[[31mb")) << child.output();
  EXPECT_EQ(child.exit_code(), 0);
}

TEST(Tokenize, ShowsOffsets) {
  const std::string text = "na\xC3\xAFve  text";
  const auto json = nlohmann::json::parse(cria({"tokenize", "--json", "-p", text}).out);
  EXPECT_EQ(json.at(0).at("end"), 0) << "BOS has no bytes of the text";
  std::size_t end = 0;
  for (const auto& token : json) {
    EXPECT_EQ(token.at("begin"), end);
    end = token.at("end");
  }
  EXPECT_EQ(end, text.size());
}

// A long stream, tokenized while it arrives, has the ids of the whole file.
TEST(Tokenize, StreamsGiveTheSameTokens) {
  std::string text;
  for (int i = 0; i < 300'000; ++i)
    text += "word" + std::to_string(i % 977) + (i % 13 == 0 ? "\n" : " and ");
  const TempDirectory directory;
  const std::string file = directory.write("text", text);
  const Result whole = cria({"tokenize", "--ids", "-f", file});
  ASSERT_EQ(whole.code, 0) << whole.err;
  EXPECT_EQ(cria({"tokenize", "--ids"}, text).out, whole.out);
  EXPECT_EQ(cria({"tokenize", "--decode"}, whole.out).out, text);
}

/// A byte-level vocabulary of a, b, ab and a control token.
std::string byte_pair_file(const TempDirectory& directory, const std::string& pre) {
  std::string path = directory.path("bpe" + pre + ".gguf");
  GgufWriter writer(path);
  writer.set("general.architecture", std::string("llama"));
  writer.set("tokenizer.ggml.model", std::string("gpt2"));
  if (!pre.empty()) writer.set("tokenizer.ggml.pre", pre);
  writer.set("tokenizer.ggml.tokens",
             GgufArray::of(std::vector<std::string>{"a", "b", "ab", "<|im_end|>", "1", "11"}));
  writer.set("tokenizer.ggml.token_type",
             GgufArray::of(std::vector<std::int32_t>{1, 1, 1, 3, 1, 1}));
  writer.set("tokenizer.ggml.merges", GgufArray::of(std::vector<std::string>{"a b", "1 1"}));
  writer.begin();
  writer.finish();
  return path;
}

TEST(Tokenize, BytePairVocabularies) {
  const TempDirectory directory;
  const std::string file = byte_pair_file(directory, "qwen2");
  EXPECT_EQ(cria({"tokenize", "-m", file, "--ids", "-p", "abba11"}).out, "2 1 0 4 4\n");
  EXPECT_EQ(cria({"tokenize", "-m", file, "--ids", "--pre", "llama-bpe", "-p", "11"}).out, "5\n");
  EXPECT_EQ(cria({"tokenize", "-m", file, "--ids", "--special", "-p", "<|im_end|>"}).out, "3\n");
  const Result absent = cria({"tokenize", "-m", file, "-p", "c"});
  EXPECT_EQ(absent.code, 1);
  EXPECT_EQ(absent.err,
            "cria: error: no token for byte 99, and no unknown token to stand in (key "
            "tokenizer.ggml.tokens)\n");
}

TEST(Tokenize, PreTokenizersMissingAndUnknown) {
  const TempDirectory directory;
  const Result missing =
      cria({"tokenize", "-m", byte_pair_file(directory, ""), "--ids", "-p", "ab"});
  EXPECT_EQ(missing.code, 0);
  EXPECT_EQ(missing.out, "2\n");
  EXPECT_EQ(count_lines(missing.err), 1U);
  EXPECT_NE(missing.err.find("missing key tokenizer.ggml.pre"), std::string::npos) << missing.err;
  const std::string file = byte_pair_file(directory, "nobody-pre");
  const Result unknown = cria({"tokenize", "-m", file, "--ids", "-p", "ab"});
  EXPECT_EQ(unknown.code, 1);
  EXPECT_EQ(unknown.err.find("cria: error: " + file + ": unknown pre-tokenizer"), 0U)
      << unknown.err;
  EXPECT_NE(unknown.err.find("llama-bpe"), std::string::npos);
  const Result given = cria({"tokenize", "-m", file, "--ids", "--pre", "qwen2", "-p", "ab"});
  EXPECT_EQ(given.out, "2\n") << given.err;
  const Result wrong = cria({"tokenize", "-m", file, "--ids", "--pre", "qwen-2", "-p", "ab"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_NE(wrong.err.find("unknown pre-tokenizer: qwen-2; did you mean qwen2?"), std::string::npos)
      << wrong.err;
}

TEST(Tokenize, TakesIdsInBrackets) {
  const std::string ids = cria({"tokenize", "--ids", "--no-bos", "-p", "Hello world"}).out;
  EXPECT_EQ(cria({"tokenize", "--detokenize"}, "[" + ids.substr(0, ids.size() - 1) + "]\n").out,
            "Hello world");
}

TEST(Tokenize, RejectsInvalidTokenIds) {
  for (const std::string bad : {"4096", "-1", "x", "1.5", "99999999999999999999"}) {
    const Result result = cria({"tokenize", "--decode"}, "1 " + bad);
    EXPECT_EQ(result.code, 1) << bad;
    EXPECT_EQ(result.err, "cria: error: not a token id: expected 0 to 4095, got " + bad + "\n");
    EXPECT_EQ(result.out, "");
  }
}

}  // namespace
}  // namespace cria::test
