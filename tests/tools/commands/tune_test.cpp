// `cria bench --tune`: what it decides by given speeds, what it says and remembers, and who uses
// it. What the clock says is not tested.
#include "tools/commands/tune.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "engine/execute/machine.h"
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
  /// Stores options as if they had been the fastest for the demo model.
  void remember(const nlohmann::json& options) const {
    ASSERT_EQ(tune({"--remember"}).code, 0);
    nlohmann::json json = nlohmann::json::parse(std::ifstream(file_));
    for (auto& machine : json)
      for (auto& model : machine) model = options;
    std::ofstream(file_) << json;
  }
  /// Runs a short answer with -v, which reports the options in use.
  [[nodiscard]] Result answer(const std::vector<std::string>& more = {},
                              const std::vector<std::string>& environment = {}) const {
    std::vector<std::string> arguments = {"run", "-v", "-p",     "Once upon a time",
                                          "-n",  "4",  "--temp", "0"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments, environment);
  }

  TempDirectory directory_;
  std::string file_ = directory_.path() + "/cria/tuned.json";
};

constexpr const char* kNote = "tuned for this model and machine: --batch 7 --threads 1 (";

TEST_F(Tune, ReportsTheBestInOneLine) {
  const Result result = tune({});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(std::ranges::count(result.out, '\n'), 1);
  EXPECT_TRUE(
      result.out.starts_with("best for cria-demo-Q8_0.gguf on this machine (") ||
      result.out.starts_with("the defaults are best for cria-demo-Q8_0.gguf on this machine ("))
      << result.out;
  EXPECT_EQ(result.err, "");
  EXPECT_FALSE(std::filesystem::exists(file_));
}

TEST_F(Tune, ReportsTrialsAndRemembersTheBest) {
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

TEST_F(Tune, RememberedOptionsYieldToTypedOnes) {
  remember({{"threads", "1"}, {"threads-prefill", "2"}});
  const Result result = run({"bench", "--verify", "2", "-r", "1"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.err.find("tuned for this model and machine: --threads 1 ("), std::string::npos)
      << result.err;
}

TEST_F(Tune, ConfigNamesTheSource) {
  remember({{"batch", "7"}});
  const nlohmann::json settings =
      nlohmann::json::parse(run({"config", "run", "--json"}).out).at("settings");
  const auto batch = std::ranges::find_if(
      settings, [](const auto& setting) { return setting["option"] == "batch"; });
  ASSERT_NE(batch, settings.end()) << settings;
  EXPECT_EQ((*batch)["value"], "7");
  EXPECT_EQ((*batch)["source"], file_);
}

TEST_F(Tune, PrefillThreadsNeedDecodeThreads) {
  remember({{"threads", "1"}, {"threads-prefill", "2"}});
  EXPECT_NE(answer().err.find("threads 1 (prompts 2)"), std::string::npos);
  EXPECT_NE(answer({"-t", "1"}).err.find("threads 1 (prompts 1)"), std::string::npos);
}

TEST_F(Tune, IgnoresForeignFiles) {
  std::filesystem::create_directory(directory_.path() + "/cria");
  for (const char* text : {"", "[]", "{\"a\": 1}", "{\"a\": {\"b\": {\"threads\": 1}}}"}) {
    std::ofstream(file_) << text;
    const Result result = answer();
    EXPECT_EQ(result.code, 0);
    EXPECT_NE(result.err.find("warning: " + file_ + " is not a file written by"), std::string::npos)
        << result.err;
  }
}

TEST_F(Tune, WrongUsage) {
  EXPECT_EQ(run({"bench", "--remember"}).code, 2);
  EXPECT_EQ(run({"bench", "--tune", "--verify", "1"}).code, 2);
  EXPECT_EQ(run({"bench", "--tune", "--synthetic", "demo:Q8_0"}).code, 2);
  const Result homeless = cria({"bench", "--tune", "--remember", "-p", "4", "-n", "1", "-r", "1"},
                               "", {"HOME=", "XDG_STATE_HOME="});
  EXPECT_EQ(homeless.code, 1);
  EXPECT_NE(homeless.err.find("cria: error: set HOME or XDG_STATE_HOME"), std::string::npos);
}

/// Decisions of `tune` with made-up speeds, relative to 100 tokens/s for the defaults.
class TuneChoice : public ::testing::Test {
 protected:
  using Speed = std::function<double(const tools::TuneWay&, bool prompt)>;
  static tools::TuneResult decide(const Speed& gain) {
    const auto rate = [&](const tools::TuneWay& way, bool prompt) {
      return 100 * gain(way, prompt);
    };
    return tools::tune(kDemo, {.prompt = 1024, .rate = rate});
  }
};

TEST_F(TuneChoice, TakesAModeFasterThanChance) {
  for (const double gain : {1.02, 1.04}) {
    const auto result = decide([&](const tools::TuneWay& way, bool prompt) {
      return prompt && way.batch == 1024 ? gain : 1;
    });
    const bool taken = gain > 1.03;
    EXPECT_EQ(result.best.batch, taken ? 1024U : 512U) << gain;
    EXPECT_EQ(result.options(),
              taken ? tools::TunedOptions({{"batch", "1024"}}) : tools::TunedOptions())
        << gain;
    EXPECT_DOUBLE_EQ(result.usual_prompt, 100);
    EXPECT_DOUBLE_EQ(result.best_prompt, taken ? 100 * gain : 100);
    EXPECT_EQ(result.tries.back().test, "tg32");
  }
}

TEST_F(TuneChoice, TheFastestOfSeveralIsTaken) {
  const auto result = decide([](const tools::TuneWay& way, bool prompt) {
    return prompt && way.batch == 256 ? 1.2 : prompt && way.batch == 1024 ? 1.1 : 1;
  });
  EXPECT_EQ(result.best.batch, 256U);
}

TEST_F(TuneChoice, CopyingHasToBeWorthMore) {
  for (const double gain : {1.08, 1.12}) {
    const auto result =
        decide([&](const tools::TuneWay& way, bool) { return way.copied ? gain : 1; });
    EXPECT_EQ(result.best.copied, gain > 1.10) << gain;
    EXPECT_GT(result.copy_seconds, 0) << "there is memory for so small a file";
  }
}

// Each way was faster when it was tried, but not all of them together at the end.
TEST_F(TuneChoice, RejectsAModeWithSlowerFinalRuns) {
  int left = 1 + 3;  // a run that does not count, and three rounds
  const auto result = decide([&](const tools::TuneWay& way, bool prompt) {
    return prompt && way.batch == 1024 && left-- > 0 ? 1.5 : 1;
  });
  EXPECT_TRUE(std::ranges::any_of(result.tries,
                                  [](const auto& each) { return each.tokens_per_second == 150; }));
  EXPECT_EQ(result.best.batch, 512U);
  EXPECT_EQ(result.best_prompt, result.usual_prompt);
  EXPECT_TRUE(result.options().empty());
}

TEST_F(TuneChoice, OneLuckyRoundDecidesNothing) {
  int runs = 0;
  const auto result = decide([&](const tools::TuneWay& way, bool prompt) {
    return prompt && way.batch == 1024 && ++runs == 3 ? 10 : 1;
  });
  EXPECT_EQ(result.best.batch, 512U);
  EXPECT_EQ(
      std::ranges::count_if(result.tries, [](const auto& each) { return each.way.batch == 1024; }),
      1)
      << "nor is it tried again at the end";
}

// Decoding by the last number that is tried, prompts by the usual one.
TEST_F(TuneChoice, PromptsHaveThreadsOfTheirOwn) {
  const unsigned usual = usable_cores();
  const unsigned other = tools::threads_to_try(usual, std::thread::hardware_concurrency()).back();
  const auto result = decide([&](const tools::TuneWay& way, bool prompt) {
    return (prompt ? way.threads_prefill == usual : way.threads == other) ? 1.5 : 1;
  });
  EXPECT_EQ(result.best.threads, other);
  EXPECT_EQ(result.best.threads_prefill, other == usual ? 0 : usual);
}

TEST(TuneOptions, IncludeOnlyChangedValues) {
  tools::TuneResult result;
  const auto options = [&](const tools::TuneWay& best) {
    result.usual = {.threads = 4};
    result.best = best;
    return result.options();
  };
  using Options = tools::TunedOptions;
  EXPECT_EQ(options({.threads = 4}), Options());
  EXPECT_EQ(options({.threads = 4, .threads_prefill = 4}), Options());
  EXPECT_EQ(options({.threads = 2}), Options({{"threads", "2"}}));
  EXPECT_EQ(options({.threads = 4, .threads_prefill = 8}),
            Options({{"threads", "4"}, {"threads-prefill", "8"}}))
      << "threads-prefill needs threads";
  EXPECT_EQ(options({.threads = 4, .batch = 256, .copied = true}),
            Options({{"batch", "256"}, {"no-mmap", "true"}}));
}

TEST(TuneLine, ShowsTheCommandIfOneHelps) {
  tools::TuneResult result;
  result.usual_prompt = result.best_prompt = 10;
  result.usual_decode = result.best_decode = 5;
  EXPECT_EQ(
      tools::tune_line("m.gguf", result).find("the defaults are best for m.gguf on this machine ("),
      0U);
  result.best.batch = 256;
  result.best_prompt = 12;
  const std::string line = tools::tune_line("m.gguf", result);
  EXPECT_EQ(line.find("best for m.gguf on this machine ("), 0U) << line;
  EXPECT_NE(line.find("): --batch 256: prompts 10.0 -> 12.0, decoding 5.0 -> 5.0 tokens/s"),
            std::string::npos)
      << line;
}

TEST(ThreadsToTry, TheUsualNumberFirstAndNoneTwice) {
  EXPECT_EQ(tools::threads_to_try(1, 1), (std::vector<unsigned>{1}));
  EXPECT_EQ(tools::threads_to_try(2, 2), (std::vector<unsigned>{2, 1}));
  EXPECT_EQ(tools::threads_to_try(8, 16), (std::vector<unsigned>{8, 2, 4, 6, 7, 16}));
}

}  // namespace
}  // namespace cria::test
