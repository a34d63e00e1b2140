// `cria bench --tune`: what it says and remembers, and who uses it. Which way is the fastest is not tested.
#include "tools/commands/tune.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/tools/process.h"

namespace cria::test {
namespace {

class Tune : public ::testing::Test {
 protected:
  [[nodiscard]] Result run(const std::vector<std::string>& arguments,
                           std::vector<std::string> environment = {}) const {
    environment.push_back("XDG_STATE_HOME=" + directory_.path());
    return cria(arguments, "", environment);
  }
  [[nodiscard]] Result tune(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = {"bench", "--tune", "-p", "16", "-n", "2", "-r", "1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments);
  }
  /// As if these had been the best for the demo model here.
  void remember(const nlohmann::json& options) const {
    ASSERT_EQ(tune({"--remember"}).code, 0);
    nlohmann::json json = nlohmann::json::parse(std::ifstream(file_));
    for (auto& machine : json)
      for (auto& model : machine) model = options;
    std::ofstream(file_) << json;
  }
  /// What is said of a short answer's session.
  [[nodiscard]] Result answer(const std::vector<std::string>& more = {},
                              const std::vector<std::string>& environment = {}) const {
    std::vector<std::string> arguments = {"run", "-v", "-p", "Once upon a time", "-n", "4", "--temp", "0"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments, environment);
  }

  TempDirectory directory_;
  std::string file_ = directory_.path() + "/cria/tuned.json";
};

constexpr const char* kNote = "tuned for this model and machine: --batch 7 --threads 1 (";

TEST_F(Tune, OneLineSaysWhatIsBestAndNothingIsKept) {
  const Result result = tune({});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(std::ranges::count(result.out, '\n'), 1);
  EXPECT_NE(result.out.find("best for cria-demo-Q8_0.gguf"), std::string::npos) << result.out;
  EXPECT_EQ(result.err, "");
  EXPECT_FALSE(std::filesystem::exists(file_));
}

TEST_F(Tune, WhatWasTriedAndWhatIsRemembered) {
  const Result result = tune({"--remember", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.err.find("remembered in " + file_), std::string::npos) << result.err;
  const nlohmann::json all = nlohmann::json::parse(result.out);
  ASSERT_TRUE(all.is_array() && all.size() == 1) << "as all that bench --json prints";
  const nlohmann::json& json = all[0];
  std::size_t decodes = 0;
  for (const auto& each : json["tries"]) {
    EXPECT_GT(each["tokens_per_second"].get<double>(), 0);
    EXPECT_GE(each["threads"].get<unsigned>(), 1U);
    decodes += each["test"] == "tg2";
  }
  EXPECT_GE(decodes, 2U);
  const nlohmann::json kept = nlohmann::json::parse(std::ifstream(file_));
  ASSERT_TRUE(kept.contains(json["machine"]));
  ASSERT_EQ(kept[json["machine"].get<std::string>()].size(), 1U);
  tools::TunedOptions options;
  for (const auto& [name, value] : kept.front().front().items()) options[name] = value;
  EXPECT_EQ(tools::typed_options(options), json["options"]);
}

TEST_F(Tune, RememberedOptionsAreUsedUnlessOthersAreGiven) {
  remember({{"threads", "1"}, {"batch", "7"}});
  const Result tuned = answer();
  EXPECT_NE(tuned.err.find(kNote), std::string::npos) << tuned.err;
  EXPECT_NE(tuned.err.find("batch 7, threads 1 (prompts 1)"), std::string::npos) << tuned.err;
  const Result without = answer({"--no-tuned"});
  EXPECT_EQ(without.err.find("tuned"), std::string::npos) << without.err;
  EXPECT_NE(without.err.find("batch 512"), std::string::npos) << without.err;
  EXPECT_EQ(without.out, tuned.out);
  EXPECT_EQ(answer({}, {"CRIA_NO_TUNED=1"}).err.find("tuned"), std::string::npos);
  for (const Result& other : {answer({"-t", "3"}), answer({}, {"CRIA_THREADS=3"})})
    EXPECT_NE(other.err.find("batch 7, threads 3"), std::string::npos) << other.err;
  const Result bench = run({"bench", "-p", "8", "-n", "0", "-r", "1", "--json"});
  ASSERT_EQ(bench.code, 0) << bench.err;
  EXPECT_EQ(nlohmann::json::parse(bench.out)[0]["threads"], 1);
  EXPECT_EQ(run({"bench", "-m", kDemo, "-m", kDemo, "-p", "8", "-n", "0", "-r", "1"}).err, "")
      << "for one model each";
  EXPECT_EQ(tune({}).err, "") << "tuning begins with the defaults";
}

TEST_F(Tune, RememberedOptionsAreNotUsedBesideWhatExcludesThem) {
  remember({{"threads", "1"}, {"threads-prefill", "2"}});
  const Result result = run({"bench", "--verify", "2", "-r", "1"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.err.find("tuned for this model and machine: --threads 1 ("), std::string::npos)
      << result.err;
}

TEST_F(Tune, ConfigTellsWhereItComesFrom) {
  remember({{"batch", "7"}});
  const nlohmann::json json = nlohmann::json::parse(run({"config", "run", "--json"}).out);
  for (const auto& setting : json["settings"]) {
    if (setting["option"] != "batch") continue;
    EXPECT_EQ(setting["value"], "7");
    EXPECT_EQ(setting["source"], file_);
  }
}

TEST_F(Tune, PromptsThreadsBelongToThoseOfDecoding) {
  remember({{"threads", "1"}, {"threads-prefill", "2"}});
  EXPECT_NE(answer().err.find("threads 1 (prompts 2)"), std::string::npos);
  EXPECT_NE(answer({"-t", "1"}).err.find("threads 1 (prompts 1)"), std::string::npos);
}

TEST_F(Tune, AFileThatIsNotItsOwnCountsForNothing) {
  std::filesystem::create_directory(directory_.path() + "/cria");
  for (const char* text : {"", "[]", "{\"a\": 1}", "{\"a\": {\"b\": {\"threads\": 1}}}"}) {
    std::ofstream(file_) << text;
    const Result result = answer();
    EXPECT_EQ(result.code, 0);
    EXPECT_NE(result.err.find("warning: " + file_ + " is not what"), std::string::npos) << result.err;
  }
}

TEST_F(Tune, WrongUsage) {
  EXPECT_EQ(run({"bench", "--remember"}).code, 2);
  EXPECT_EQ(run({"bench", "--tune", "--verify", "1"}).code, 2);
  EXPECT_EQ(run({"bench", "--tune", "--synthetic", "demo:Q8_0"}).code, 2);
  const Result homeless = cria({"bench", "--tune", "--remember", "-p", "4", "-n", "1", "-r", "1"}, "",
                               {"HOME=", "XDG_STATE_HOME="});
  EXPECT_EQ(homeless.code, 1);
  EXPECT_NE(homeless.err.find("cria: error: there is no directory to remember in"), std::string::npos);
}

TEST(ThreadsToTry, TheUsualNumberFirstAndNoneTwice) {
  EXPECT_EQ(tools::threads_to_try(1, 1), (std::vector<unsigned>{1}));
  EXPECT_EQ(tools::threads_to_try(2, 2), (std::vector<unsigned>{2, 1}));
  EXPECT_EQ(tools::threads_to_try(8, 16), (std::vector<unsigned>{8, 2, 4, 6, 7, 16}));
}

}  // namespace
}  // namespace cria::test
