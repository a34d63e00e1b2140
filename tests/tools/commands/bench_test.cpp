#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "model/gguf/gguf.h"
#include "tests/tools/process.h"

namespace cria::test {
namespace {

TEST(Bench, JsonHasOneObjectPerTest) {
  const Result result =
      cria({"bench", "-p", "8,16", "-n", "2", "-d", "0,4", "-r", "2", "-t", "1,2", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const auto rows = nlohmann::json::parse(result.out);
  ASSERT_EQ(rows.size(), 2U * 2 * 3);
  EXPECT_EQ(rows[0]["model"], "cria-demo-Q8_0.gguf");
  EXPECT_EQ(rows[0]["dtype"], "Q8_0");
  EXPECT_EQ(rows[0]["threads"], 1);
  EXPECT_EQ(rows[0]["test"], "pp8");
  EXPECT_EQ(rows[2]["test"], "tg2");
  EXPECT_EQ(rows[5]["test"], "tg2@d4");
  EXPECT_EQ(rows[6]["threads"], 2);
  for (const auto& row : rows) {
    EXPECT_GT(row["tokens_per_second"].get<double>(), 0);
    EXPECT_GE(row["stddev"].get<double>(), 0);
    EXPECT_GT(row["gmac_per_second"].get<double>(), 0);
    EXPECT_TRUE(row["roofline_fraction"].is_null());
  }
}

TEST(Bench, RooflineIsMeasuredAndUsed) {
  const Result result = cria({"bench", "-p", "8", "-n", "2", "-r", "1", "-t", "1", "--roofline", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  for (const auto& row : nlohmann::json::parse(result.out)) {
    EXPECT_GT(row["roofline_fraction"].get<double>(), 0);
    EXPECT_TRUE(std::isfinite(row["roofline_fraction"].get<double>()));
  }
  EXPECT_NE(result.err.find("int8 dot"), std::string::npos);
}

TEST(Bench, SyntheticModelsOfEveryTypeRun) {
  for (const char* type :
       {"F32",   "F16",   "BF16",  "Q4_0",   "Q4_1",   "Q5_0",  "Q5_1",    "Q8_0",  "Q2_K",   "Q3_K",
        "Q4_K",  "Q5_K",  "Q6_K",  "IQ4_NL", "IQ4_XS", "IQ3_S", "IQ3_XXS", "IQ2_S", "IQ2_XS", "IQ2_XXS",
        "IQ1_S", "IQ1_M", "TQ1_0", "TQ2_0",  "MXFP4",  "NVFP4", "Q1_0",    "IQ4_KS"}) {
    const Result result = cria(
        {"bench", "--synthetic", std::string("demo:") + type, "-p", "20", "-n", "1", "-r", "1", "--csv"});
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(count_lines(result.out), 3U) << type;
    EXPECT_NE(result.out.find(std::string("demo:") + type + "," + type), std::string::npos) << result.out;
  }
}

TEST(Bench, PromptsHaveNoReadRate) {
  const Result result = cria({"bench", "-p", "8", "-n", "2", "-r", "1", "-t", "1", "--md"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out.find("| 0.0 |"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("| pp8 |"), std::string::npos) << result.out;
}

TEST(Bench, ShowsProgressAndStopsAtCtrlC) {
  const TempDirectory directory;
  Child child(Child::Kind::Terminal, {"bench", "-p", "16", "-n", "16", "-r", "1000", "-t", "1"},
              {"CRIA_ISA=scalar", "TMPDIR=" + directory.path()});
  ASSERT_TRUE(child.wait_for("pp16 [")) << child.output();
  ASSERT_TRUE(child.wait_for("of 1001")) << child.output();
  child.send("\003");
  EXPECT_EQ(child.exit_code(), 130);
  EXPECT_EQ(child.output().find('\n'), std::string::npos)
      << "one line, which does not scroll: " << child.output();
}

TEST(Bench, KeepsASyntheticFileWhereTold) {
  const TempDirectory directory;
  const std::string path = directory.path("model.gguf");
  const Result result =
      cria({"bench", "--synthetic", "demo:Q6_K", "--write", path, "-p", "0", "-n", "1", "-r", "1", "--md"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out.substr(0, 9), "| model |");
  const GgufFile file = GgufFile::open(path);
  EXPECT_EQ(file.tensor("blk.7.ffn_down.weight")->dtype, DType::Q6_K);
  EXPECT_EQ(cria({"run", "-m", path, "-p", "a", "-n", "2", "--temp", "0", "--ignore-eos"}).code, 0);
}

TEST(Bench, RefusesWhatDoesNotExist) {
  EXPECT_EQ(cria({"bench", "--synthetic", "9b:Q4_K"}).code, 2);
  EXPECT_NE(cria({"bench", "--synthetic", "9b:Q4_K"}).err.find("there are: demo, "), std::string::npos);
  EXPECT_EQ(cria({"bench", "--synthetic", "demo:Q9_K"}).code, 2);
  EXPECT_NE(cria({"bench", "--synthetic", "demo:Q9_K"}).err.find("IQ4_XS"), std::string::npos);
  EXPECT_EQ(cria({"bench", "--synthetic", "demo:Q8_K"}).code, 2);
  EXPECT_EQ(cria({"bench", "-r", "0"}).code, 2);
}

}  // namespace
}  // namespace cria::test
