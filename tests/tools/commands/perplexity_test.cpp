#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "model/file/json.h"
#include "tests/tools/process.h"
#include "tools/commands/choices.h"

namespace cria::test {
namespace {

/// A text of many windows.
std::string long_text() {
  std::string text;
  for (int i = 1; i < 300; ++i)
    text += " In " + std::to_string(1700 + i) + " , the river rose by " + std::to_string(i % 17) +
            " metres .";
  return text;
}

/// Returns the output of --json without the elapsed time.
SortedJson figures(const Result& result) {
  EXPECT_EQ(result.code, 0) << result.err;
  SortedJson object = SortedJson::parse(result.out, nullptr, false);
  EXPECT_TRUE(object.is_object()) << result.out;
  object.erase("tokens_per_second");
  return object;
}

TEST(Perplexity, JsonForAFileOrStdin) {
  const TempDirectory directory;
  const std::string file = directory.write("text", long_text());
  const Result result = cria({"perplexity", "-f", file, "-c", "128", "--chunks", "3", "--json"});
  EXPECT_EQ(result.err, "");
  const SortedJson object = SortedJson::parse(result.out);
  EXPECT_EQ(object["chunks"], 3);
  EXPECT_EQ(object["tokens"], 3 * 63);
  EXPECT_GT(object["ppl"], 2);
  EXPECT_LT(object["ppl"], 100);
  EXPECT_GT(object["ppl_stderr"], 0);
  EXPECT_GT(object["tokens_per_second"], 0);
  EXPECT_EQ(result.out.find("{\n \"ppl\": "), 0U) << "the layout of all JSON";
  const Result piped = cria(
      {"perplexity", "-c", "128", "--chunks", "3", "--json", "-t", "1", "-b", "17"}, long_text());
  EXPECT_EQ(figures(piped), figures(result));
  const Result people = cria({"perplexity", "-c", "128", "--chunks", "3"}, long_text());
  EXPECT_EQ(people.out.find("perplexity "), 0U) << people.out;
  EXPECT_NE(people.out.find("3 windows of 128 tokens, 189 scored"), std::string::npos)
      << people.out;
}

// A context for talks, in the configuration, does not change figures.
TEST(Perplexity, IgnoresTheContextOfSettings) {
  const std::vector<std::string> arguments = {"perplexity", "--chunks", "1", "--json"};
  EXPECT_EQ(figures(cria(arguments, long_text(), {"CRIA_CTX=64"})),
            figures(cria(arguments, long_text())));
  const SortedJson windows = figures(cria(arguments, long_text(), {"CRIA_WINDOW=64"}));
  EXPECT_EQ(windows["tokens"], 31);
}

TEST(Perplexity, StrideScoresAlmostEveryToken) {
  const SortedJson object = figures(
      cria({"perplexity", "-c", "128", "--stride", "64", "--chunks", "4", "--json"}, long_text()));
  EXPECT_EQ(object["tokens"], 127 + 3 * 64);
  EXPECT_EQ(object["stride"], 64);
}

TEST(Perplexity, ReportsErrors) {
  const TempDirectory directory;
  const Result brief = cria({"perplexity", "-f", "-"}, "A few words.");
  EXPECT_EQ(brief.code, 1);
  EXPECT_EQ(
      brief.err.find(
          "cria: error: the text is too short: expected at least a window of 512 tokens, got "),
      0U)
      << brief.err;
  EXPECT_EQ(brief.out, "");
  const std::string nothing = directory.path("nothing");
  EXPECT_EQ(cria({"perplexity", "-f", nothing}).err,
            "cria: error: " + nothing + ": cannot be opened: No such file or directory\n");
  EXPECT_EQ(cria({"perplexity", "--state", nothing + "/state"}, "short").err,
            "cria: error: " + nothing + "/state: cannot write: No such file or directory\n")
      << "before anything is evaluated";
  const std::string text = directory.write("text", "text");
  EXPECT_EQ(cria({"perplexity", "--compare", text}).err,
            "cria: error: " + text + ": not a cria log-probability file: too short\n");
  for (const std::vector<std::string>& wrong :
       {std::vector<std::string>{"--compare", "a", "--base", "b"},
        {"--save-logits", "a", "--compare", "b"},
        {"--save-logits", "a", "--state", "b"},
        {"--choices", "a", "--stride", "3"},
        {"--stride", "0"}}) {
    std::vector<std::string> arguments = {"perplexity"};
    arguments.insert(arguments.end(), wrong.begin(), wrong.end());
    EXPECT_EQ(cria(arguments).code, 2) << wrong.front() << ' ' << wrong[2 % wrong.size()];
  }
}

TEST(Perplexity, ComparesWithLogitsOfAFileOrABase) {
  const TempDirectory directory;
  const std::string file = directory.path("logits");
  const Result saved = cria(
      {"perplexity", "-c", "128", "--chunks", "3", "--json", "--save-logits", file}, long_text());
  const double ppl = figures(saved)["ppl"];
  // The head, 384 tokens of text, rows of 4 + 2·4096 bytes, a checksum per window and one of the
  // head.
  EXPECT_EQ(std::filesystem::file_size(file), 56 + 384 * 4 + 189 * (4 + 2 * 4096) + 4 * 8);
  const SortedJson with_file = figures(cria({"perplexity", "--compare", file, "--json"}));
  const SortedJson with_base = figures(
      cria({"perplexity", "-c", "128", "--chunks", "3", "--base", kDemo, "--json"}, long_text()));
  for (const SortedJson& object : {with_file, with_base}) {
    EXPECT_EQ(object["ppl"], ppl);
    EXPECT_NEAR(object["base_ppl"], ppl, 1e-4 * ppl);
    EXPECT_NEAR(object["ppl_ratio"], 1, 1e-4);
    EXPECT_NEAR(object["kld"], 0, 1e-6);
    EXPECT_EQ(object["same_top"], 1);
    EXPECT_EQ(object["kld_quantiles"].size(), 13U);
  }
  EXPECT_EQ(with_base["ppl_ratio"], 1) << "the same model";
  EXPECT_EQ(with_base["kld"].get<double>(), 0);
  const std::string text = directory.write("text", long_text());
  EXPECT_EQ(figures(cria({"perplexity", "--compare", file, "-f", text, "-c", "128", "--json"})),
            with_file);
  EXPECT_EQ(cria({"perplexity", "--compare", file, "-c", "64"}).err,
            "cria: error: " + file + ": made with another window (-c): expected 64, got 128\n");
  const std::string other = directory.write("other", "Another text ." + long_text());
  EXPECT_EQ(cria({"perplexity", "--compare", file, "-f", other}).err,
            "cria: error: " + file + ": made with another text than " + other + "\n");
  EXPECT_EQ(cria({"perplexity", "--compare", file, "--chunks", "4"}).code, 1);
  EXPECT_EQ(figures(cria({"perplexity", "--compare", file, "--json"}, "",
                         {"CRIA_CTX=64", "CRIA_WINDOW=64", "CRIA_STRIDE=16", "CRIA_CHUNKS=4"})),
            with_file)
      << "only what is typed contradicts the file";
}

TEST(Perplexity, LeavesNoLogitsAfterAFailure) {
  const TempDirectory directory;
  const std::string target = directory.write("old", "old");
  EXPECT_EQ(cria({"perplexity", "--save-logits", target}, "short").code, 1);
  EXPECT_EQ(read_file(target), "old");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory.path()), {}), 1);
}

// Scalar kernels are slow enough to be stopped, and give the same bits.
class PerplexityStopped : public ::testing::Test {
 protected:
  std::vector<std::string> with_state() const {
    std::vector<std::string> arguments = arguments_;
    arguments.insert(arguments.end(), {"--state", state_});
    return arguments;
  }
  void wait_for_state() const {
    for (int i = 0; i < 6000 && !std::filesystem::exists(state_); ++i) usleep(10'000);
    ASSERT_TRUE(std::filesystem::exists(state_));
  }

  TempDirectory directory_;
  std::string state_ = directory_.path("state");
  std::vector<std::string> arguments_ = {
      "perplexity", "-f",       directory_.write("text", long_text()),
      "-c",         "64",       "--base",
      kDemo,        "--chunks", "30",
      "--json"};
};

TEST_F(PerplexityStopped, ResumesAfterCtrlC) {
  Child child(Child::Kind::Terminal, with_state(), {"CRIA_ISA=scalar"});
  EXPECT_TRUE(child.wait_for("tokens/s")) << child.output();  // progress, time left …
  EXPECT_TRUE(child.wait_for(" left")) << child.output();
  EXPECT_TRUE(child.wait_for(" ± ")) << child.output();  // … and the running value
  child.signal(SIGINT);
  EXPECT_EQ(child.exit_code(), 130);
  EXPECT_NE(child.output().find("stopped after "), std::string::npos) << child.output();
  EXPECT_NE(child.output().find(" of 30 windows; run the same command again to resume"),
            std::string::npos)
      << child.output();
  wait_for_state();
  const SortedJson want = figures(cria(arguments_));
  const Result resumed = cria(with_state());
  EXPECT_EQ(resumed.err.find("resuming after "), 0U) << resumed.err;
  EXPECT_EQ(figures(resumed), want);
  EXPECT_EQ(figures(cria(with_state())), want) << "all was done already";
}

TEST_F(PerplexityStopped, ResumesAfterAKill) {
  {
    const Child child(Child::Kind::Pipe, with_state(), {"CRIA_ISA=scalar"});
    wait_for_state();
    child.signal(SIGKILL);
  }
  EXPECT_EQ(figures(cria(with_state())), figures(cria(arguments_)));
  std::vector<std::string> other = with_state();
  other[4] = "32";
  EXPECT_EQ(cria(other).err, "cria: error: " + state_ +
                                 ": state of a different measurement: the model, text, windows or "
                                 "reference differ (at byte 16)\n");
}

TEST(Choices, ANumberIsAnIndexAlsoAmongNumbers) {
  const TempDirectory directory;
  const auto answer = [&](const std::string& choices, const std::string& said) {
    const std::string line =
        R"({"question": "2 + 1 =", "choices": )" + choices + R"(, "answer": )" + said + "}";
    return tools::read_choices(directory.write("q.jsonl", line)).at(0).answer;
  };
  constexpr const char* kNumbers = R"(["1", "2", "3", "4"])";
  EXPECT_EQ(answer(kNumbers, "2"), 2U);
  EXPECT_EQ(answer(kNumbers, "\"3\""), 2U) << "a text";
  EXPECT_THROW((void)answer(kNumbers, "4"), Error) << "neither an index nor a text";
  EXPECT_EQ(answer(R"(["a", "b"])", "\"1\""), 1U);
  EXPECT_EQ(answer(R"({"text": ["4", "1"], "label": ["1", "2"]})", "1"), 0U);
}

TEST(Choices, OfSeveralForms) {
  const std::string questions =
      R"({"question": "The capital of France is", "choices": ["a river .", "Paris ."], "answer": 1})"
      "\n\n"
      R"({"question": "Paris is the capital of", "choices": {"text": ["Germany", "France"], "label": ["A", "B"]}, "answerKey": "B"})"
      "\n"
      R"({"ctx": "In 1998 , the band released a new", "endings": ["king", "album"], "label": "1"})"
      "\n"
      R"({"question": "The opposite of hot is", "choices": ["cold", "blue"], "answer": "cold"})"
      "\n";
  const TempDirectory directory;
  const SortedJson object =
      figures(cria({"perplexity", "--choices", directory.write("q.jsonl", questions), "--json"}));
  EXPECT_EQ(object["questions"], 4);
  const double right = 4 * object["accuracy_raw"].get<double>();
  EXPECT_EQ(right, std::round(right));
  EXPECT_GE(right, 3);
  const Result people = cria({"perplexity", "--choices", "-"}, questions);
  EXPECT_EQ(people.out.find("accuracy "), 0U) << people.out << people.err;
  const std::pair<std::string, std::string> bad[] = {
      {"{", "expected a JSON object (line 1)"},
      {"\n{}", "no question (line 2)"},
      {R"({"question": 5})", "question: expected text, got number (line 1)"},
      {R"({"question": "a", "choices": ["b"], "answer": 0})",
       "expected at least 2 choices, got 1 (line 1)"},
      {R"({"question": "a", "choices": ["b", "c"], "answer": 2})",
       "answer: expected an index below 2, a label or a choice, got 2 (line 1)"},
      {R"({"question": "a", "choices": {"text": ["b", "c"], "label": ["A"]}, "answer": "A"})",
       "expected one label per choice, got 1 and 2 (line 1)"},
      {"", "no questions"},
  };
  for (const auto& [text, message] : bad) {
    const std::string file = directory.write("bad.jsonl", text);
    const Result result = cria({"perplexity", "--choices", file});
    EXPECT_EQ(result.code, 1) << text;
    EXPECT_EQ(result.err, "cria: error: " + file + ": " + message + "\n");
  }
}

TEST(Choices, ANumberIsAnIndexAndATextIsAText) {
  const TempDirectory directory;
  const auto answer = [&](const std::string& json) {
    const std::string line =
        R"({"question": "One and one is", "choices": ["2", "0", "1", "3"], "answer": )";
    return tools::read_choices(directory.write("q.jsonl", line + json + "}\n")).at(0).answer;
  };
  EXPECT_EQ(answer("0"), 0U);
  EXPECT_EQ(answer("1"), 1U);
  EXPECT_EQ(answer("2"), 2U);
  EXPECT_EQ(answer(R"("1")"), 2U);
  EXPECT_EQ(answer(R"("2")"), 0U);
  const std::string labelled =
      R"({"question": "a", "choices": {"text": ["b", "c"], "label": ["1", "2"]}, "answerKey": )";
  for (const char* key : {"2", R"("2")"})
    EXPECT_EQ(tools::read_choices(directory.write("q.jsonl", labelled + std::string(key) + "}"))
                  .at(0)
                  .answer,
              1U);
}

TEST(Choices, NamesAnOversizedQuestionFirst) {
  std::string questions = R"({"question": "a", "choices": ["b", "c"], "answer": 0})"
                          "\n";
  questions += R"({"question": ")";
  for (int i = 0; i < 100; ++i) questions += "river ";
  questions += R"(", "choices": ["b", "c"], "answer": 0})";
  const Result result = cria({"perplexity", "--choices", "-", "-c", "32"}, questions);
  EXPECT_EQ(result.code, 1);
  EXPECT_NE(result.err.find("the question with a choice exceeds the context: expected up to 33"),
            std::string::npos)
      << result.err;
  EXPECT_NE(result.err.find("(question 2)"), std::string::npos) << result.err;
}

TEST(Perplexity, QuestionsLoseNoPassage) {
  const Result result = cria(
      {"perplexity", "--choices", "-"},
      R"({"passage": "Ana has a cat.", "question": "Who?", "choices": ["b", "c"], "answer": 0})");
  EXPECT_EQ(result.code, 1);
  EXPECT_NE(result.err.find("\"passage\" would be lost"), std::string::npos) << result.err;
}

}  // namespace
}  // namespace cria::test
