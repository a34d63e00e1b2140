#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "model/gguf/gguf.h"
#include "tests/kernels/kernel_test.h"
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
  EXPECT_TRUE(std::ranges::any_of(rows, [](const auto& row) { return row["stddev"] > 0; }))
      << "some two runs differ by a nanosecond";
  for (const auto& row : rows) {
    EXPECT_GT(row["tokens_per_second"].get<double>(), 0);
    EXPECT_GT(row["gmac_per_second"].get<double>(), 0);
    EXPECT_TRUE(row["roofline_fraction"].is_null());
  }
}

TEST(Bench, RooflineIsMeasuredAndUsed) {
  const Result result =
      cria({"bench", "-p", "8", "-n", "2", "-r", "1", "-t", "1", "--roofline", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  for (const auto& row : nlohmann::json::parse(result.out)) {
    EXPECT_EQ(row["stddev"], 0) << "of one run";
    EXPECT_GT(row["roofline_fraction"].get<double>(), 0);
    EXPECT_TRUE(std::isfinite(row["roofline_fraction"].get<double>()));
  }
  EXPECT_NE(result.err.find("int8 dot"), std::string::npos);
}

TEST(Bench, ScalarKernelsHaveNoPeakButTheMemorys) {
  const Result result =
      cria({"bench", "-p", "8", "-n", "2", "-r", "1", "-t", "1", "--roofline", "--json"}, "",
           {"CRIA_ISA=scalar"});
  ASSERT_EQ(result.code, 0) << result.err;
  const auto rows = nlohmann::json::parse(result.out);
  EXPECT_TRUE(rows.at(0)["roofline_fraction"].is_null());
  EXPECT_GT(rows.at(1)["roofline_fraction"].get<double>(), 0);
  EXPECT_EQ(result.err.find("int8 dot"), std::string::npos);
  EXPECT_EQ(cria({"inspect", "--cpu", "--measure"}, "", {"CRIA_ISA=scalar"}).code, 0);
}

TEST(Bench, PassesOfFewTokensAreHeldAgainstTheMachine) {
  const Result result =
      cria({"bench", "--verify", "1,3,17", "-r", "1", "-t", "1,2", "-d", "5", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const auto rows = nlohmann::json::parse(result.out);
  ASSERT_EQ(rows.size(), 2U * 3);
  EXPECT_EQ(rows[0]["model"], "cria-demo-Q8_0.gguf");
  EXPECT_EQ(rows[1]["tokens"], 3);
  EXPECT_EQ(rows[3]["threads"], 2);
  for (const auto& row : rows) {
    EXPECT_GT(row["milliseconds"].get<double>(), 0);
    EXPECT_GT(row["read_milliseconds"].get<double>(), 0);
    const double longer =
        std::max(row["read_milliseconds"].get<double>(), row["product_milliseconds"].get<double>());
    EXPECT_DOUBLE_EQ(row["goal_milliseconds"].get<double>(), 1.25 * longer);
    EXPECT_DOUBLE_EQ(row["of_goal"].get<double>() * row["goal_milliseconds"].get<double>(),
                     row["milliseconds"].get<double>());
  }
  EXPECT_GT(rows[2]["product_milliseconds"], rows[0]["product_milliseconds"]);
}

// More tokens than one pass takes are an error, so no time of several passes is reported as one.
TEST(Bench, APassIsOne) {
  const Result large = cria({"bench", "--verify", "40", "-b", "8", "-r", "1", "-t", "1", "--json"});
  ASSERT_EQ(large.code, 0) << large.err;
  EXPECT_EQ(nlohmann::json::parse(large.out).at(0).at("tokens"), 40);
  const Result larger = cria({"bench", "--verify", "8,5000", "-r", "1", "-t", "1"});
  EXPECT_EQ(larger.code, 1);
  EXPECT_EQ(larger.out, "");
  EXPECT_NE(
      larger.err.find("cria: error: too many tokens for one pass of this model: expected at most "),
      std::string::npos)
      << larger.err;
}

TEST(Bench, SequencesAreCountedTogether) {
  for (const bool shared : {false, true}) {
    std::vector<std::string> arguments = {"bench", "--parallel", "1,3", "-p", "70", "-n", "5",
                                          "-b",    "32",         "-r",  "1",  "-t", "2",  "--json"};
    if (shared) arguments.emplace_back("--shared-prompt");
    const Result result = cria(arguments);
    ASSERT_EQ(result.code, 0) << result.err;
    const auto rows = nlohmann::json::parse(result.out);
    ASSERT_EQ(rows.size(), 2U);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const double n = i == 0 ? 1 : 3, read = 70 * (shared ? 1 : n), written = 5 * n;
      EXPECT_EQ(rows[i]["sequences"], n);
      EXPECT_TRUE(rows[i]["sequences"].is_number_integer() &&
                  rows[i]["threads"].is_number_integer());
      const double seconds = read / rows[i]["prompt_tokens_per_second"].get<double>() +
                             written / rows[i]["decode_tokens_per_second"].get<double>();
      EXPECT_NEAR((read + written) / seconds, rows[i]["tokens_per_second"].get<double>(),
                  0.01 / seconds);
    }
  }
  EXPECT_EQ(cria({"bench", "--shared-prompt"}).code, 2);
  EXPECT_EQ(cria({"bench", "--parallel", "2", "--verify", "2"}).code, 2);
  EXPECT_EQ(cria({"bench", "--parallel", "0"}).code, 2);
}

TEST(Bench, GuessesOfAnOracle) {
  const Result result = cria({"bench", "--speculate-rates", "0,100", "-p", "8", "-n", "64", "-r",
                              "1", "-t", "1", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const auto rows = nlohmann::json::parse(result.out);
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_TRUE(rows[0]["right_percent"].is_null());
  EXPECT_EQ(rows[0]["passes"], 64);
  EXPECT_EQ(rows[1]["kept"], 0);
  EXPECT_EQ(rows[1]["passes"], 64);
  EXPECT_EQ(rows[2]["drafted"], rows[2]["kept"]);
  for (const auto& row : rows) EXPECT_EQ(row["passes"].get<int>() + row["kept"].get<int>(), 64);
  EXPECT_EQ(cria({"bench", "--speculate-rates", "101"}).code, 2);
}

TEST(Bench, FiguresInEveryForm) {
  const std::vector<std::string> test = {"bench", "--verify", "2", "-r", "1", "-t", "1"};
  const auto in = [&](const char* form) {
    std::vector<std::string> arguments = test;
    arguments.emplace_back(form);
    return cria(arguments).out;
  };
  EXPECT_EQ(in("--csv").substr(0, 28), "model,dtype,threads,tokens,m");
  EXPECT_NE(in("--csv").find("\ncria-demo-Q8_0.gguf,Q8_0,1,2,"), std::string::npos) << in("--csv");
  EXPECT_EQ(count_lines(in("--csv")), 2U);
  EXPECT_NE(in("--md").find("| model | type | threads | tokens | ms |"), std::string::npos);
  EXPECT_NE(in("--md").find("|---|---|--:|"), std::string::npos);
  EXPECT_EQ(count_lines(cria(test).out), 2U);
}

TEST(Bench, CsvQuotesNames) {
  const TempDirectory directory;
  const std::string model = directory.path("a,\"b\".gguf");
  std::filesystem::create_symlink(std::filesystem::absolute(kDemo), model);
  for (const std::vector<std::string>& test :
       {std::vector<std::string>{"-p", "4", "-n", "1"}, {"--verify", "2"}}) {
    std::vector<std::string> arguments = {"bench", "-m", model, "-r", "1", "-t", "1", "--csv"};
    arguments.insert(arguments.end(), test.begin(), test.end());
    const Result result = cria(arguments);
    EXPECT_NE(result.out.find("\n\"a,\"\"b\"\".gguf\",Q8_0,1"), std::string::npos)
        << result.out << result.err;
  }
}

TEST(Bench, SyntheticModelsOfEveryTypeRun) {
  for (const DType id : types_where([](DotClass dot) { return dot != DotClass::None; })) {
    const std::string type(name(id)), label = "demo:" + type;
    const Result result =
        cria({"bench", "--synthetic", label, "-p", "20", "-n", "1", "-r", "1", "--csv"});
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(count_lines(result.out), 3U) << type;
    EXPECT_NE(result.out.find(label + "," + type), std::string::npos) << result.out;
  }
}

TEST(Bench, WhatWasMeasuredIsPrintedWhereTheNextFails) {
  for (const char* const mode : {"-p", "--verify"}) {
    const Result result = cria(
        {"bench", "-m", kDemo, "-m", "/no/such.gguf", "-r", "1", "-t", "1", mode, "2", "--json"});
    EXPECT_EQ(result.code, 1);
    EXPECT_NE(result.err.find("/no/such.gguf"), std::string::npos) << result.err;
    EXPECT_EQ(nlohmann::json::parse(result.out).at(0).at("model"), "cria-demo-Q8_0.gguf");
  }
  EXPECT_EQ(cria({"bench", "-m", "/no/such.gguf"}).out, "");
}

TEST(Bench, OmitsColumnsOfSkippedPhases) {
  for (const char* const more : {"--no-tuned", "--md", "--roofline"}) {
    const std::string out = cria({"bench", "-p", "8", "-n", "2", "-r", "1", "-t", "1", more}).out;
    EXPECT_EQ(out.substr(0, out.find('\n')).find("roofline") != std::string::npos,
              std::string_view(more) == "--roofline")
        << out;
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

TEST(Bench, DumbTerminalsGetNoBar) {
  const std::vector<std::string> takes_long = {"bench", "-p",   "16", "-n", "0",
                                               "-r",    "1000", "-t", "1"};
  Child usual(Child::Kind::Terminal, takes_long, {"CRIA_ISA=scalar"});
  Child dumb(Child::Kind::Terminal, takes_long, {"CRIA_ISA=scalar", "TERM=dumb"});
  ASSERT_TRUE(usual.wait_for("of 1001")) << usual.output();
  for (Child* child : {&usual, &dumb}) child->send("\003");
  EXPECT_EQ(dumb.exit_code(), 130);
  EXPECT_NE(usual.output().find('\033'), std::string::npos);
  EXPECT_EQ(dumb.output().find('\033'), std::string::npos) << dumb.output();
}

TEST(Bench, KeepsASyntheticFileOnRequest) {
  const TempDirectory directory;
  const std::string path = directory.path("model.gguf");
  const Result result = cria({"bench", "--synthetic", "demo:Q6_K", "--write", path, "-p", "0", "-n",
                              "1", "-r", "1", "--md"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out.substr(0, 9), "| model |");
  const GgufFile file = GgufFile::open(path);
  EXPECT_EQ(file.tensor("blk.7.ffn_down.weight")->dtype, DType::Q6_K);
  EXPECT_EQ(cria({"run", "-m", path, "-p", "a", "-n", "2", "--temp", "0", "--ignore-eos"}).code, 0);
}

TEST(Bench, RemovesTheSyntheticFileAtEveryExit) {
  const TempDirectory directory;
  Child child(
      Child::Kind::Terminal,
      {"bench", "--synthetic", "demo:Q8_0", "-p", "16", "-n", "16", "-r", "1000", "-t", "1"},
      {"CRIA_ISA=scalar", "TMPDIR=" + directory.path()});
  ASSERT_TRUE(child.wait_for("pp16 [")) << child.output();
  child.signal(SIGKILL);
  EXPECT_EQ(child.exit_code(), 128 + SIGKILL);
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

TEST(Bench, RejectsUnknownNames) {
  EXPECT_EQ(cria({"bench", "--parallel", "2", "--roofline"}).code, 2) << "its table has no share";
  EXPECT_EQ(cria({"bench", "--speculate-rates", "50", "--roofline"}).code, 2);
  EXPECT_EQ(cria({"bench", "--synthetic", "9b:Q4_K"}).code, 2);
  EXPECT_NE(cria({"bench", "--synthetic", "9b:Q4_K"}).err.find("known: demo, "), std::string::npos);
  EXPECT_EQ(cria({"bench", "--synthetic", "demo:Q9_K"}).code, 2);
  EXPECT_NE(cria({"bench", "--synthetic", "demo:Q9_K"}).err.find("IQ4_XS"), std::string::npos);
  EXPECT_EQ(cria({"bench", "--synthetic", "demo:Q8_K"}).code, 2);
  EXPECT_EQ(cria({"bench", "-r", "0"}).code, 2);
  EXPECT_EQ(cria({"bench", "-p", "0", "-n", "0"}).code, 2) << "a table without rows";
}

}  // namespace
}  // namespace cria::test
