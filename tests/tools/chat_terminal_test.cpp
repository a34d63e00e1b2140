// `cria chat` on a pseudo-terminal: prompt, editing, history, Ctrl-C.
#include <gtest/gtest.h>

#include "tests/tools/process.h"

namespace cria::test {
namespace {

constexpr std::string_view kCtrlC = "\003", kCtrlD = "\004", kUp = "\033[A";

class ChatTerminal : public ::testing::Test {
 protected:
  Child start(std::vector<std::string> more = {}) const {
    std::vector<std::string> arguments = {"chat", "--temp", "0"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return {Child::Kind::Terminal, std::move(arguments), environment_};
  }

  TempDirectory directory_;
  std::vector<std::string> environment_ = {"TERM=xterm", "NO_COLOR=1", "HOME=" + directory_.path(),
                                           "XDG_STATE_HOME=" + directory_.path()};
};

TEST_F(ChatTerminal, PromptsAnswersAndEndsWithCtrlD) {
  Child child = start();
  ASSERT_TRUE(child.wait_for("> ")) << child.output();
  child.send("What is the capital of Frxnce\b\b\b\bance?\r");
  EXPECT_TRUE(child.wait_for("The capital of France is Paris.")) << child.output();
  ASSERT_TRUE(child.wait_for("> "));
  child.send("/stats\r");
  EXPECT_TRUE(child.wait_for("tokens/s")) << child.output();
  ASSERT_TRUE(child.wait_for("> "));
  child.send(kCtrlD);
  EXPECT_EQ(child.exit_code(), 0);
}

TEST_F(ChatTerminal, ColoursEndWithThePrompt) {
  environment_[1] = "NO_COLOR=";
  Child child = start();
  EXPECT_TRUE(child.wait_for("\033[1;32m>\033[0m ")) << child.output();
}

TEST_F(ChatTerminal, CtrlCStopsTheAnswerNotTheProgram) {
  Child child = start({"--ignore-eos", "--context-shift"});  // an answer without end
  ASSERT_TRUE(child.wait_for("> "));
  child.send("hello\r");
  ASSERT_TRUE(child.wait_for("Hello!")) << child.output();
  child.send(kCtrlC);
  ASSERT_TRUE(child.wait_for("> ")) << child.output();
  child.send("/exit\r");
  EXPECT_EQ(child.exit_code(), 0);
}

TEST_F(ChatTerminal, SecondCtrlCAtThePromptEnds) {
  Child child = start();
  ASSERT_TRUE(child.wait_for("> "));
  child.send("half a line");
  child.send(kCtrlC);
  ASSERT_TRUE(child.wait_for("Ctrl-C again")) << child.output();
  ASSERT_TRUE(child.wait_for("> "));
  child.send(kCtrlC);
  EXPECT_EQ(child.exit_code(), 130);
}

TEST_F(ChatTerminal, HistoryOutlivesTheProgram) {
  {
    Child child = start();
    ASSERT_TRUE(child.wait_for("> "));
    child.send("What colour is gr\xC3\xA4ss?\r");
    ASSERT_TRUE(child.wait_for("\n> ")) << child.output();
    child.send(kCtrlD);
    EXPECT_EQ(child.exit_code(), 0);
  }
  Child child = start();
  ASSERT_TRUE(child.wait_for("> "));
  child.send(kUp);
  EXPECT_TRUE(child.wait_for("gr\xC3\xA4ss?")) << child.output();
  child.send("\r");
  ASSERT_TRUE(child.wait_for("\n> "));
  child.send(kCtrlD);
  EXPECT_EQ(child.exit_code(), 0);
}

TEST_F(ChatTerminal, LinesGoOnAfterABackslash) {
  Child child = start({"-n", "1"});
  ASSERT_TRUE(child.wait_for("> "));
  child.send("one\\\r");
  ASSERT_TRUE(child.wait_for(". ")) << child.output();
  child.send("two\r");
  ASSERT_TRUE(child.wait_for("> ")) << child.output();
  child.send("/save " + directory_.path("talk.json") + "\r");
  ASSERT_TRUE(child.wait_for("saved")) << child.output();
  EXPECT_NE(read_file(directory_.path("talk.json")).find("one\\ntwo"), std::string::npos);
}

}  // namespace
}  // namespace cria::test
