// `cria embed` and `cria rerank`.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/tools/paths.h"
#include "tests/tools/process.h"

namespace cria::test {
namespace {

std::string vectors_file(const std::string& name) {
  return std::string(project_root()) + "/tests/data/vectors/" + name;
}

std::vector<nlohmann::json> json_lines(const std::string& text) {
  std::vector<nlohmann::json> all;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) all.push_back(nlohmann::json::parse(line));
  return all;
}

TEST(Embed, PrintsAVectorPerLine) {
  const std::string model = vectors_file("bert-tokens.gguf");
  const Result text = cria({"embed", "-m", model, "--pooling", "mean"}, "abc\n\nhello world\n");
  ASSERT_EQ(text.code, 0) << text.err;
  EXPECT_EQ(count_lines(text.out), 2U);
  const Result json =
      cria({"embed", "-m", model, "--pooling", "mean", "--json"}, "abc\n\nhello world\n");
  const auto lines = json_lines(json.out);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[1]["line"], 3);
  double squares = 0;
  for (const auto& value : lines[1]["embedding"]) squares += std::pow(value.get<double>(), 2);
  EXPECT_NEAR(squares, 1, 1e-5);
  const Result alone = cria({"embed", "-m", model, "--pooling", "mean", "-p", "hello world"});
  EXPECT_EQ(text.out.substr(text.out.find('\n') + 1), alone.out) << "alone or among others";
}

// Nothing that is given is left out: each -p, and what a pipe holds.
TEST(Embed, TakesSeveralTextsAndStdin) {
  const std::vector<std::string> embed = {"embed",     "-m",   vectors_file("bert-tokens.gguf"),
                                          "--pooling", "mean", "--json"};
  const auto with = [&](std::vector<std::string> more, std::string_view input = {}) {
    more.insert(more.begin(), embed.begin(), embed.end());
    return json_lines(cria(std::move(more), input).out);
  };
  const auto lines = with({"-p", "abc", "-p", "hello world"}, "xyz\n\n");
  ASSERT_EQ(lines.size(), 3U);
  const auto piped = with({"-p", "abc"}, "xyz\n");
  EXPECT_EQ(piped[0]["line"], 1);
  EXPECT_EQ(piped[1]["line"], 2) << "no line between them";
  EXPECT_EQ(lines[0]["embedding"], with({"-p", "xyz"})[0]["embedding"]);
  EXPECT_EQ(lines[1]["embedding"], with({"-p", "abc"})[0]["embedding"]);
  EXPECT_EQ(lines[2]["embedding"], with({"-p", "hello world"})[0]["embedding"]);
  EXPECT_EQ(with({"-p", "two\nlines"}).size(), 1U);
  EXPECT_NE(cria(embed, "a\n\nb\n").err.find("1 empty line is left out"), std::string::npos);
  const TempDirectory directory;  // the end of a file ends a text
  const auto files = with({"-f", directory.write("1", "xyz"), "-f", directory.write("2", "abc\n")});
  ASSERT_EQ(files.size(), 2U);
  EXPECT_EQ(files[0]["embedding"], lines[0]["embedding"]);
  EXPECT_NE(cria(embed, "\n").err.find("the input has no text"), std::string::npos);
  const Result ranked = cria({"rerank", "-m", vectors_file("bert-rank.gguf"), "--json", "q", "-p",
                              "longer text", "-p", "xyz"},
                             "b\n");
  EXPECT_EQ(count_lines(ranked.out), 3U) << ranked.err;
}

TEST(Embed, TheFileSaysHowToPool) {
  const std::string model = vectors_file("bert-tokens.gguf");
  const auto lines = json_lines(cria({"embed", "-m", model, "--json", "-p", "abc"}).out);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0]["embeddings"].size(), lines[0]["tokens"].get<std::size_t>());
  EXPECT_EQ(lines[0]["embeddings"][0].size(), 48U);
}

TEST(Embed, ReportsLongTextsAndOtherModels) {
  const Result long_text =
      cria({"embed", "-m", vectors_file("bert-tokens.gguf")}, "a\n" + std::string(100, 'x') + "\n");
  EXPECT_EQ(long_text.code, 1);
  EXPECT_NE(long_text.err.find("expected at most 64 tokens"), std::string::npos) << long_text.err;
  EXPECT_NE(long_text.err.find("(line 2)"), std::string::npos) << long_text.err;
  EXPECT_EQ(cria({"embed", "-m", vectors_file("bert-rank.gguf"), "-p", "a"}).code, 2);
  const Result text = cria({"run", "-m", vectors_file("bert-tokens.gguf"), "-p", "a"});
  EXPECT_EQ(text.code, 1);
  EXPECT_NE(text.err.find("use cria embed"), std::string::npos) << text.err;
}

TEST(Rerank, OrdersDocuments) {
  const std::string model = vectors_file("bert-rank.gguf"), documents = "b\nlonger text\nxyz\n";
  const Result json = cria({"rerank", "-m", model, "--json", "q"}, documents);
  ASSERT_EQ(json.code, 0) << json.err;
  const auto lines = json_lines(json.out);
  ASSERT_EQ(lines.size(), 3U);
  for (std::size_t i = 1; i < lines.size(); ++i)
    EXPECT_GE(lines[i - 1]["relevance_score"].get<double>(),
              lines[i]["relevance_score"].get<double>());
  const Result table = cria({"rerank", "-m", model, "--top", "2", "q"}, documents);
  EXPECT_EQ(count_lines(table.out), 3U) << table.out;
  EXPECT_NE(table.out.find(lines[0]["document"].get<std::string>()), std::string::npos);
  const Result other = cria({"rerank", "-m", kDemo, "q"}, documents);
  EXPECT_EQ(other.code, 1);
  EXPECT_NE(other.err.find("no classifier"), std::string::npos) << other.err;
}

}  // namespace
}  // namespace cria::test
