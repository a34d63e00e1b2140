#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/tools/process.h"

namespace cria::test {
namespace {

TEST(Plan, MoreMachinesNeedLessMemoryEach) {
  const Result result = cria({"plan", "-m", kDemo, "--machines", "1,2", "-c", "256", "-p", "16",
                              "-t", "1", "--read-rate", "10", "--gmacs", "100", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const auto rows = nlohmann::json::parse(result.out);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[1]["machines"], 2);
  EXPECT_EQ(rows[0]["decode_link_percent"], 0);
  for (const char* const part : {"weights_mib", "kv_mib"})
    EXPECT_LT(rows[1][part].get<double>(), 0.6 * rows[0][part].get<double>()) << part;
  EXPECT_GT(rows[1]["decode_link_percent"].get<double>(), 0);
  EXPECT_LT(rows[1]["decode_link_percent"].get<double>(), 100);
  EXPECT_EQ(result.err,
            "per machine (given): 10.0 GB/s when decoding, 100.0 GMAC/s for prompts\n"
            "link: 25.0 µs, 10.0 Gbit/s\n");
}

TEST(Plan, PlansAnAbsentOversizedModel) {
  const Result result = cria({"plan", "--synthetic", "70b:Q4_K", "--machines", "32", "--link",
                              "100gbe-ib", "--read-rate", "100", "--gmacs", "1000"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(count_lines(result.out), 2U);
  for (std::size_t begin = 0; begin < result.out.size(); begin = result.out.find('\n', begin) + 1)
    EXPECT_LE(result.out.find('\n', begin) - begin, 80U);
}

TEST(Plan, MeasuresThisMachine) {
  const Result result =
      cria({"plan", "-m", kDemo, "--machines", "2", "-p", "16", "-c", "64", "-t", "1", "--csv"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.err.find("measured here, 1 thread"), std::string::npos) << result.err;
  EXPECT_EQ(result.out.find("machines,weights_mib,kv_mib,work_mib,prompt_tokens_per_second,"), 0U);
}

TEST(Plan, WrongUsage) {
  const auto fails = [](std::vector<std::string> arguments, const char* text) {
    arguments.insert(arguments.begin(), "plan");
    const Result result = cria(std::move(arguments));
    EXPECT_EQ(result.code, 2) << text;
    EXPECT_EQ(result.out, "");
    EXPECT_NE(result.err.find(text), std::string::npos) << result.err;
  };
  fails({"--link", "token-ring"},
        "expected 1gbe, 10gbe, 25gbe, 100gbe-ib, or microseconds and Gbit/s like 50,10");
  fails({"--machines", "0"}, "whole number from 1 to 1024");
  fails({"--read-rate", "10"}, "--gmacs");
  fails({"-p", "8192"},
        "cria: error: --prompt: longer than the context: expected at most 4096 (--ctx), got 8192");
  fails({"--synthetic", "9b:Q4_K"},
        "cria: error: --synthetic: unknown shape 9b; did you mean 3b? (known: ");
  EXPECT_EQ(cria({"plan", "-m", "/no/such.gguf"}).code, 1);
  EXPECT_EQ(
      cria({"plan", "-c", "256", "--machines", "1", "--read-rate", "10", "--gmacs", "100"}).code,
      0);
}

}  // namespace
}  // namespace cria::test
