#include <gtest/gtest.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "tests/tools/process.h"

namespace cria::test {
namespace {

const std::string kQuestion = "What is the capital of France?";
const std::string kAnswer = "The capital of France is Paris.";

TEST(Run, AnswersWithTheChatTemplate) {
  const Result result = cria({"run", "--chat", "-p", kQuestion, "--temp", "0"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, kAnswer);
  EXPECT_EQ(result.err, "");
}

TEST(Run, TakesThePromptFromAFileOrStdin) {
  const TempDirectory directory;
  const std::string file = directory.write("prompt", kQuestion);
  EXPECT_EQ(cria({"run", "--chat", "-f", file, "--temp", "0"}).out, kAnswer);
  EXPECT_EQ(cria({"run", "--chat", "--temp", "0"}, kQuestion).out, kAnswer);
}

TEST(Run, AnswersAConversation) {
  const TempDirectory directory;
  const std::string file =
      directory.write("talk.json", R"([{"role":"system","content":"You are a kind teacher."},
      {"role":"user","content":"My name is Ana."},{"role":"assistant","content":"Nice to meet you, Ana!"},
      {"role":"user","content":"What is my name?"}])");
  const Result result = cria({"run", "--messages", file, "--temp", "0", "-n", "64"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "Your name is Ana.");
}

TEST(Run, RefusesABadConversation) {
  const TempDirectory directory;
  const std::pair<std::string, std::string> bad[] = {
      {"[{", "not JSON (at byte 3)"},
      {"{}", "\"messages\" is missing"},
      {R"({"messages":5})", "expected an array of messages, got number"},
      {"[1]", "expected an object, got number (message 0)"},
      {R"([{"role":"user","content":"a"},{"role":"user"}])", "\"content\" is missing (message 1)"},
      {R"([{"role":"user","content":5}])", "\"content\": expected a string, got number (message 0)"},
  };
  for (const auto& [text, message] : bad) {
    const std::string file = directory.write("bad.json", text);
    const Result result = cria({"run", "--messages", file});
    EXPECT_EQ(result.code, 1) << text;
    EXPECT_EQ(result.err,
              std::string("cria: error: ").append(file).append(": ").append(message).append("\n"));
    EXPECT_EQ(result.out, "") << text;
  }
}

TEST(Run, TakesAnotherTemplate) {
  const TempDirectory directory;
  const std::string file = directory.write("t.jinja", "{{ bos_token }}{{ messages[0].content }}");
  const auto plain = cria({"run", "-p", " The river", "--temp", "0", "-n", "5"});
  const auto own =
      cria({"run", "--chat", "--chat-template", file, "-p", " The river", "--temp", "0", "-n", "5"});
  EXPECT_EQ(own.code, 0) << own.err;
  EXPECT_EQ(own.out, plain.out);
  EXPECT_EQ(cria({"run", "--chat", "--chat-template", "chatml", "-p", kQuestion, "--temp", "0"}).out,
            kAnswer);
  const std::string bad = directory.write("bad.jinja", "a\n{{ raise_exception('no') }}");
  const auto refused = cria({"run", "--chat", "--chat-template", bad, "-p", "x"});
  EXPECT_EQ(refused.code, 1);
  EXPECT_EQ(refused.err, "cria: error: " + bad + ": no (at line 2, column 19)\n");
}

TEST(Run, SameBytesForAnyThreadsAndChunks) {
  const std::vector<std::string> base = {"run", "-p", " The river rises in the mountains and", "--temp", "0",
                                         "-n",  "24"};
  const std::string want = cria(base).out;
  EXPECT_GT(want.size(), 20U);
  for (const auto& more : std::vector<std::vector<std::string>>{
           {"-t", "1"}, {"-t", "3"}, {"-b", "1"}, {"-b", "7"}, {"--threads-prefill", "1"}, {"--no-mmap"}}) {
    std::vector<std::string> arguments = base;
    arguments.insert(arguments.end(), more.begin(), more.end());
    EXPECT_EQ(cria(arguments).out, want) << more.front();
  }
}

TEST(Run, SeedDecides) {
  const auto answer = [](const std::string& seed) {
    return cria({"run", "-p", " The river", "--temp", "1.5", "--top-k", "0", "--top-p", "1", "--min-p", "0",
                 "-n", "24", "--seed", seed})
        .out;
  };
  EXPECT_EQ(answer("7"), answer("7"));
  EXPECT_NE(answer("7"), answer("8"));
}

TEST(Run, JsonTellsAll) {
  const Result result = cria({"run", "--chat", "-p", kQuestion, "--temp", "0", "--seed", "5", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json.at("text"), kAnswer);
  EXPECT_EQ(json.at("stop_reason"), "end of generation");
  EXPECT_EQ(json.at("seed"), 5);
  EXPECT_GT(json.at("tokens").size(), 3U);
  EXPECT_GT(json.at("prompt_tokens"), 8);
  EXPECT_GT(json.at("tokens_per_second"), 0);
}

TEST(Run, EndsAtLimitAndStopText) {
  const auto json =
      nlohmann::json::parse(cria({"run", "-p", " The river", "--temp", "0", "-n", "5", "--json"}).out);
  EXPECT_EQ(json.at("tokens").size(), 5U);
  EXPECT_EQ(json.at("stop_reason"), "length");
  EXPECT_EQ(cria({"run", "--chat", "-p", kQuestion, "--temp", "0", "--stop", "[x]", "--stop", " of Fr"}).out,
            "The capital");
  EXPECT_EQ(cria({"run", "-p", " The river", "-n", "0"}).out, "");
}

TEST(Run, BiasChangesTheChoice) {
  const Result result = cria(
      {"run", "--chat", "-p", kQuestion, "--temp", "0", "-n", "3", "--json", "--logit-bias", "300+1000"});
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json.at("tokens"), (std::vector<int>{300, 300, 300}));
}

TEST(Run, IgnoreEosGoesOn) {
  const auto json = nlohmann::json::parse(
      cria({"run", "--chat", "-p", kQuestion, "--temp", "0", "-n", "40", "--ignore-eos", "--json"}).out);
  EXPECT_EQ(json.at("tokens").size(), 40U);
}

TEST(Run, ExplainsAFullContext) {
  const Result result = cria({"run", "-p", " The river", "--temp", "0", "-c", "16", "--ignore-eos"});
  EXPECT_EQ(result.code, 0);
  EXPECT_GT(result.out.size(), 5U);
  EXPECT_NE(result.err.find("context of 16 tokens is full"), std::string::npos) << result.err;
  const Result shifted = cria({"run", "-p", " The river", "--temp", "0", "-c", "16", "-n", "40",
                               "--ignore-eos", "--context-shift", "--json"});
  EXPECT_EQ(nlohmann::json::parse(shifted.out).at("tokens").size(), 40U) << shifted.err;
}

TEST(Run, RefusesAPromptThatDoesNotFit) {
  const Result result = cria({"run", "-c", "8", "-p", "one two three four five six seven eight nine ten"});
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.out, "");
  EXPECT_NE(result.err.find("too long: expected at most 8 tokens, got "), std::string::npos) << result.err;
}

TEST(Run, NotesGoToStderr) {
  const Result result = cria({"run", "--chat", "-p", kQuestion, "--temp", "0", "-v"});
  EXPECT_EQ(result.out, kAnswer);
  EXPECT_NE(result.err.find("tokens/s"), std::string::npos) << result.err;
  EXPECT_EQ(result.err.find('\033'), std::string::npos);
}

TEST(Run, FullDiskIsAnError) {
  const std::string command = std::string(CRIA_PROGRAM) + " run -p ' The river' -n 4 > /dev/full 2> ";
  const TempDirectory directory;
  const int status = std::system((command + directory.path("err")).c_str());
  EXPECT_EQ(WEXITSTATUS(status), 1);
  EXPECT_EQ(read_file(directory.path("err")),
            "cria: error: stdout: cannot be written: No space left on device\n");
}

TEST(Run, ASessionFileSparesReading) {
  const TempDirectory directory;
  const std::string file = directory.path("session");
  const std::vector<std::string> arguments = {
      "run", "-p", "The river rises in the mountains", "--temp", "0", "-n", "8", "--session", file, "--json"};
  const auto first = nlohmann::json::parse(cria(arguments).out);
  const auto second = nlohmann::json::parse(cria(arguments).out);
  EXPECT_EQ(second.at("text"), first.at("text"));
  EXPECT_GT(first.at("prompt_tokens"), 3);
  EXPECT_EQ(second.at("prompt_tokens"), 1);
  const std::string saved = read_file(file);
  const auto refused = [&](const std::string& bytes, const std::string& says) {
    directory.write("session", bytes);
    const Result result = cria(arguments);
    EXPECT_EQ(result.code, 1) << says;
    EXPECT_EQ(result.out, "") << says;
    EXPECT_EQ(result.err.find("cria: error: " + file + ": " + says), 0U) << result.err;
    EXPECT_EQ(read_file(file), bytes) << "a file that is refused is left alone";
  };
  refused(saved.substr(0, saved.size() - 1), "wrong size in bytes");
  refused("GGUF, which is long enough to be a header of 40 bytes", "not a session file of cria");
  std::string other = saved;
  other[16] = static_cast<char>(other[16] ^ 1);
  refused(other, "saved with another model");
  const Result nowhere = cria({"run", "-p", "x", "-n", "1", "--session", directory.path("no/such")});
  EXPECT_EQ(nowhere.code, 1);
  EXPECT_EQ(nowhere.out, "") << "it is said before anything is computed";
}

TEST(Run, CtrlCKeepsWhatWasSaid) {
  Child child(Child::Kind::Pipe,
              {"run", "-p", " The river", "--temp", "0", "--ignore-eos", "--context-shift"});
  ASSERT_TRUE(child.wait_for(" "));
  child.signal(SIGINT);
  EXPECT_EQ(child.exit_code(), 130);
  EXPECT_GT(child.output().size(), 0U);
}

}  // namespace
}  // namespace cria::test
