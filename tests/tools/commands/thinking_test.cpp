// Models that think, by the program: what is shown, what is kept.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/engine/session/scripted_model.h"
#include "tests/tools/process.h"

namespace cria::test {
namespace {

class Thinking : public testing::Test {
 protected:
  void SetUp() override { scripted_file(kThinkingTemplate, kThinkingScript).write(model_); }

  Result run(std::vector<std::string> more) {
    std::vector<std::string> arguments = {"run", "-m", model_, "--temp", "0", "hi"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return cria(arguments);
  }
  Result chat(std::string_view input, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {"chat", "-m", model_, "--temp", "0"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return cria(arguments, input);
  }

  TempDirectory directory_;
  std::string model_ = directory_.path("thinker.gguf");
};

TEST_F(Thinking, RunPrintsOnlyTheAnswer) {
  const Result result = run({});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "Fourty\n");
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(run({"--show-thinking"}).out, "[thinking]\nhmso\n[end of thinking]\n\nFourty\n");
  EXPECT_EQ(run({"--show-thinking", "--no-think"}).out, "Fourty\n");
}

TEST_F(Thinking, ExplainsMissingAnswers) {
  const Result result = run({"-n", "3"});
  EXPECT_EQ(result.out, "");
  EXPECT_NE(result.err.find("the model was still thinking"), std::string::npos) << result.err;
  EXPECT_EQ(run({"-n", "3", "--show-thinking"}).out, "[thinking]\nhmso\n[end of thinking]\n\n");
}

TEST_F(Thinking, JsonHasItApart) {
  const nlohmann::json all = nlohmann::json::parse(run({"--json", "--logprobs", "0"}).out);
  EXPECT_EQ(all.at("text"), "Fourty");
  EXPECT_EQ(all.at("reasoning_content"), "hmso");
  EXPECT_EQ(all.at("tokens").size(), 6U);
  const nlohmann::json& choice = all.at("choices").at(0);
  EXPECT_EQ(choice.at("message").at("content"), "Fourty");
  EXPECT_EQ(choice.at("message").at("reasoning_content"), "hmso");
  EXPECT_EQ(choice.at("logprobs").at("content").size(), 2U);
  EXPECT_EQ(all.at("usage").at("completion_tokens_details").at("reasoning_tokens"), 4);
  const nlohmann::json none = nlohmann::json::parse(run({"--json", "--no-think"}).out);
  EXPECT_FALSE(none.contains("reasoning_content"));
  EXPECT_FALSE(none.at("usage").contains("completion_tokens_details"));
}

TEST_F(Thinking, MarksPiecesOfThinking) {
  std::istringstream lines(run({"--stream-json"}).out);
  std::string answer, thoughts;
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json piece = nlohmann::json::parse(line);
    if (piece.at("object") != "chat.completion.chunk") continue;
    const nlohmann::json& delta = piece.at("choices").at(0).at("delta");
    EXPECT_EQ(delta.size(), 1U);
    answer += delta.value("content", "");
    thoughts += delta.value("reasoning_content", "");
  }
  EXPECT_EQ(answer, "Fourty");
  EXPECT_EQ(thoughts, "hmso");
}

TEST_F(Thinking, VariablesReachTheTemplate) {
  const std::string talk =
      directory_.write("talk.json", R"({"messages": [{"role": "user", "content": "hi"}],
                                                            "enable_thinking": false, "n": 1})");
  const std::string file = directory_.write(
      "t.jinja", "{{ enable_thinking }} {{ thinking }} {{ reasoning_effort }} {{ n }}");
  const auto shown = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"template", "--template", file, "--messages", talk};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return cria(arguments);
  };
  EXPECT_EQ(shown({}).out, "False   1");
  EXPECT_EQ(shown({"--think", "--reasoning-effort", "high"}).out, "True True high 1");
  EXPECT_EQ(
      shown({"--no-think", "--chat-template-kwargs", R"({"n": [2], "enable_thinking": true})"}).out,
      "False False  [2]")
      << "a flag is stronger";
  EXPECT_EQ(shown({"--chat-template-kwargs", R"({"enable_thinking": true})"}).out, "True   1");
  for (const std::vector<std::string>& wrong :
       std::vector<std::vector<std::string>>{{"--think", "--no-think"},
                                             {"--reasoning-effort", "huge"},
                                             {"--chat-template-kwargs", "[1]"},
                                             {"--chat-template-kwargs", "{"}})
    EXPECT_EQ(shown(wrong).code, 2) << wrong[0];
  EXPECT_EQ(run({"--raw", "--no-think"}).code, 2);
}

TEST_F(Thinking, ReportsUnsupportedSwitches) {
  const Result think = cria({"run", "hello", "--temp", "0", "--no-think"});
  EXPECT_EQ(think.code, 0);
  EXPECT_NE(think.err.find("--no-think changes nothing"), std::string::npos) << think.err;
  const Result effort = run({"--reasoning-effort", "low"});
  EXPECT_NE(effort.err.find("--reasoning-effort changes nothing"), std::string::npos) << effort.err;
  EXPECT_EQ(run({"--no-think"}).err, "");
}

TEST_F(Thinking, ChatKeepsItButDoesNotReadItAgain) {
  const std::string saved = directory_.path("talk.json"), shorter = directory_.path("shorter.json");
  const Result result = chat("hi\nwhy\n/save " + saved + "\n", {"--show-prompt"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "Fourty\nFourty\n");
  EXPECT_EQ(result.err.find("hmso"), std::string::npos) << result.err;
  const nlohmann::json talk = nlohmann::json::parse(read_file(saved));
  ASSERT_EQ(talk.size(), 4U);
  EXPECT_EQ(talk[1].at("content"), "Fourty");
  EXPECT_EQ(talk[1].at("reasoning_content"), "hmso");
  const Result again = chat("/load " + saved + "\n/retry\n/undo\n/save " + shorter + "\n");
  EXPECT_EQ(again.out, "Fourty\n");
  EXPECT_EQ(nlohmann::json::parse(read_file(shorter)).size(), 2U);
}

TEST_F(Thinking, ASessionFileKeepsIt) {
  const std::vector<std::string> session = {"--session", directory_.path("session")};
  EXPECT_EQ(chat("hi\n", session).out, "Fourty\n");
  const std::string saved = directory_.path("talk.json");
  const Result second = chat("why\n/stats\n/save " + saved + "\n", session);
  EXPECT_EQ(second.out, "Fourty\n") << second.err;
  EXPECT_NE(second.err.find("evaluated before"), std::string::npos) << second.err;
  EXPECT_EQ(nlohmann::json::parse(read_file(saved)).at(1).at("reasoning_content"), "hmso");
}

TEST_F(Thinking, APipeShowsItOnRequest) {
  EXPECT_EQ(chat("hi\nhi\n", {"--show-thinking"}).out,
            "[thinking]\nhmso\n[end of thinking]\n\nFourty\n"
            "[thinking]\nhmso\n[end of thinking]\n\nFourty\n");
  EXPECT_EQ(chat("hi\n", {"--hide-thinking"}).out, "Fourty\n");
}

TEST_F(Thinking, ATerminalShowsItDimmed) {
  const std::vector<std::string> arguments = {"chat", "-m", model_, "--temp", "0"};
  std::vector<std::string> around = {"TERM=xterm", "NO_COLOR=", "HOME=" + directory_.path(),
                                     "XDG_STATE_HOME=" + directory_.path()};
  Child dimmed(Child::Kind::Terminal, arguments, around);
  ASSERT_TRUE(dimmed.wait_for(">\033[0m ")) << dimmed.output();
  dimmed.send("hi\r");
  EXPECT_TRUE(dimmed.wait_for("\033[2mhmso\033[0m\r\n\r\nFourty\r\n")) << dimmed.output();
  EXPECT_EQ(dimmed.output().find("[thinking]"), std::string::npos);
  around[1] = "NO_COLOR=1";
  Child plain(Child::Kind::Terminal, arguments, around);
  ASSERT_TRUE(plain.wait_for("> ")) << plain.output();
  plain.send("hi\r");
  EXPECT_TRUE(plain.wait_for("[thinking]\r\nhmso\r\n[end of thinking]\r\n\r\nFourty\r\n"))
      << plain.output();
}

}  // namespace
}  // namespace cria::test
