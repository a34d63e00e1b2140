#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

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

TEST(Tokenize, EmptyTextIsNothingButItsBeginning) {
  EXPECT_EQ(cria({"tokenize", "--ids"}).out, "1\n");
  EXPECT_EQ(cria({"tokenize", "--ids", "--no-bos", "-p", ""}).out, "\n");
}

TEST(Tokenize, ReadsAFile) {
  const TempDirectory directory;
  const std::string file = directory.write("text", "Hello\n");
  EXPECT_EQ(cria({"tokenize", "--ids", "-f", file}).out, cria({"tokenize", "--ids"}, "Hello\n").out);
  const Result missing = cria({"tokenize", "-f", directory.path("none")});
  EXPECT_EQ(missing.code, 1);
  EXPECT_EQ(missing.err,
            "cria: error: " + directory.path("none") + ": cannot be opened: No such file or directory\n");
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

TEST(Tokenize, ControlTokensOnlyWhereAskedFor) {
  const std::string marker = "<|im_end|>";
  EXPECT_EQ(cria({"tokenize", "--ids", "--no-bos", "--special", "-p", marker}).out, "4\n");
  EXPECT_GT(cria({"tokenize", "--ids", "--no-bos", "-p", marker}).out.size(), 4U);
  EXPECT_EQ(cria({"tokenize", "--decode", "-p", "4"}).out, "");
  EXPECT_EQ(cria({"tokenize", "--decode", "--special", "-p", "4"}).out, marker);
}

TEST(Tokenize, RefusesWhatIsNoTokenId) {
  for (const std::string bad : {"4096", "-1", "x", "1.5", "99999999999999999999"}) {
    const Result result = cria({"tokenize", "--decode"}, "1 " + bad);
    EXPECT_EQ(result.code, 1) << bad;
    EXPECT_EQ(result.err, "cria: error: not a token id: expected 0 to 4095, got " + bad + "\n");
    EXPECT_EQ(result.out, "");
  }
}

}  // namespace
}  // namespace cria::test
