// `cria chat` on a pseudo-terminal: prompt, editing, history, Ctrl-C.
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/tools/paths.h"
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

  /// The text of a message of the conversation so far.
  [[nodiscard]] std::string said(Child& child, std::size_t index) const {
    const std::string file = directory_.path("said.json");
    std::filesystem::remove(file);
    child.send("/save " + file + "\r");
    EXPECT_TRUE(child.wait_for("saved")) << child.output();
    EXPECT_TRUE(child.wait_for("> "));
    return nlohmann::json::parse(read_file(file)).at(index).at("content");
  }

  static std::string pasted(const std::string& text) { return "\033[200~" + text + "\033[201~"; }

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

// From a pipe it is refused (Arguments.ExplainsLlamaCppNamesByCommand).
TEST_F(ChatTerminal, NoContextShiftIsTheDefault) {
  Child child = start({"--no-context-shift"});
  ASSERT_TRUE(child.wait_for("> ")) << child.output();
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

TEST_F(ChatTerminal, SecondCtrlCAtAnEmptyPromptEnds) {
  Child child = start();
  ASSERT_TRUE(child.wait_for("> "));
  child.send(kCtrlC);
  ASSERT_TRUE(child.wait_for("Ctrl-C again")) << child.output();
  ASSERT_TRUE(child.wait_for("> "));
  child.send(kCtrlC);
  EXPECT_EQ(child.exit_code(), 130);
}

TEST_F(ChatTerminal, CtrlCClearsALineAlways) {
  Child child = start({"-n", "1"});
  ASSERT_TRUE(child.wait_for("> "));
  for (int i = 0; i < 3; ++i) {
    child.send("half a line");
    child.send(kCtrlC);
    ASSERT_TRUE(child.wait_for("^C")) << child.output();
    ASSERT_TRUE(child.wait_for("> ")) << child.output();
  }
  EXPECT_EQ(child.output().find("Ctrl-C again"), std::string::npos)
      << "something was typed each time";
  child.send("\"\"\"one\r");
  ASSERT_TRUE(child.wait_for(". "));
  child.send(kCtrlC);
  ASSERT_TRUE(child.wait_for("> ")) << child.output();
  child.send("whole\r");
  ASSERT_TRUE(child.wait_for("\n> ")) << child.output();
  EXPECT_EQ(said(child, 0), "whole");
}

TEST_F(ChatTerminal, PastedTextIsOneMessage) {
  Child child = start({"-n", "1"});
  ASSERT_TRUE(child.wait_for("\033[?2004h")) << "the terminal is asked for brackets";
  ASSERT_TRUE(child.wait_for("> "));
  child.send(pasted("one\r\n/reset\rthree\\\r") + "\r");
  ASSERT_TRUE(child.wait_for("\n> ")) << child.output();
  child.send(pasted("/exit") + "\r");
  ASSERT_TRUE(child.wait_for("\n> ")) << child.output();
  child.send("see: " + pasted("/usr/bin\n\"\"\"") + "\r");
  ASSERT_TRUE(child.wait_for("\n> ")) << child.output();
  EXPECT_EQ(said(child, 0), "one\n/reset\nthree\\");
  EXPECT_EQ(said(child, 2), "/exit");
  EXPECT_EQ(said(child, 4), "see: /usr/bin\n\"\"\"");
  child.send(kCtrlD);
  EXPECT_EQ(child.exit_code(), 0);
  EXPECT_NE(child.output().rfind("\033[?2004l"), std::string::npos)
      << "bracketed paste is disabled at the end";
}

TEST_F(ChatTerminal, CtrlDInABlockSendsIt) {
  Child child = start({"-n", "1"});
  ASSERT_TRUE(child.wait_for("> "));
  child.send("\"\"\"one\r");
  ASSERT_TRUE(child.wait_for(". "));
  child.send("two\r");
  ASSERT_TRUE(child.wait_for(". "));
  child.send(kCtrlD);
  ASSERT_TRUE(child.wait_for("\n> ")) << child.output();
  EXPECT_EQ(said(child, 0), "one\ntwo");
}

TEST_F(ChatTerminal, CtrlGOpensTheEditor) {
  const std::string editor =
      directory_.write("editor", "#!/bin/sh\nprintf 'two\\n/reset\\n\\n' >> \"$1\"\n");
  std::filesystem::permissions(editor, std::filesystem::perms::owner_all);
  environment_.push_back("VISUAL=" + editor);
  Child child = start({"-n", "1"});
  ASSERT_TRUE(child.wait_for("> "));
  child.send("one\007");
  ASSERT_TRUE(child.wait_for("/reset")) << child.output();
  child.send("\r");
  ASSERT_TRUE(child.wait_for("\n> ")) << child.output();
  EXPECT_EQ(said(child, 0), "one\ntwo\n/reset");
}

// The directory for temporary files is gone, or none can be made there.
TEST_F(ChatTerminal, CtrlGWithoutAPlaceForAFileKeepsTheLine) {
  environment_.emplace_back("VISUAL=true");
  for (const std::string& place : {directory_.path("gone"), std::string("/proc")}) {
    environment_.push_back("TMPDIR=" + place);
    Child child = start({"-n", "1"});
    ASSERT_TRUE(child.wait_for("> "));
    child.send("one\007");
    ASSERT_TRUE(child.wait_for("one")) << child.output();
    ASSERT_TRUE(child.wait_for("one")) << "the line is shown again: " << child.output();
    child.send("\r");
    ASSERT_TRUE(child.wait_for("\n> ")) << child.output();
    EXPECT_EQ(said(child, 0), "one");
  }
}

TEST_F(ChatTerminal, CtrlZAndFgBringThePromptBack) {
  environment_.push_back("PS1=shell$ ");
  Child shell(Child::Kind::Shell, {"--norc", "--noprofile", "-i"}, environment_);
  ASSERT_TRUE(shell.wait_for("shell$ "));
  shell.send("'" + std::string(program_path()) + "' chat --temp 0 -n 1\r");
  ASSERT_TRUE(shell.wait_for("> "));
  shell.send("half");
  ASSERT_TRUE(shell.wait_for("half"));
  shell.send("\032");
  ASSERT_TRUE(shell.wait_for("Stopped")) << shell.output();
  ASSERT_TRUE(shell.wait_for("shell$ "));
  shell.send("stty -a; echo $((6*7))\r");
  ASSERT_TRUE(shell.wait_for("42")) << shell.output();
  EXPECT_NE(shell.output().find(" icanon"), std::string::npos) << shell.output();
  shell.send("fg\r");
  ASSERT_TRUE(shell.wait_for("> half")) << shell.output();
  EXPECT_FALSE(shell.terminal_is_cooked());
  shell.send("way\r");
  ASSERT_TRUE(shell.wait_for("\n> ")) << shell.output();
  EXPECT_EQ(said(shell, 0), "halfway");
  shell.send(kCtrlD);
  ASSERT_TRUE(shell.wait_for("shell$ "));
  shell.send("exit\r");
  EXPECT_EQ(shell.exit_code(), 0);
}

// The terminal is set up again, as the program that had it meanwhile may have changed it.
TEST_F(ChatTerminal, ContinuesAfterSigstop) {
  Child child = start();
  ASSERT_TRUE(child.wait_for("> "));
  child.send("half");
  ASSERT_TRUE(child.wait_for("half"));
  child.signal(SIGSTOP);
  child.cook_terminal();
  child.signal(SIGCONT);
  ASSERT_TRUE(child.wait_for("> half")) << child.output();
  EXPECT_FALSE(child.terminal_is_cooked());
}

// Backspace takes away what a reader takes for one character: a letter with its accent, a family of
// emoji.
TEST_F(ChatTerminal, EditsWholeCharacters) {
  Child child = start({"-n", "1"});
  ASSERT_TRUE(child.wait_for("> "));
  child.send(
      "a\xF0\x9F\x91\xA8\xE2\x80\x8D\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x91\xA7\177be\xCC\x81\177c"
      "\xF0\x9F\x91\x8D\xF0\x9F\x8F\xBD\033[D\033[D!\r");
  ASSERT_TRUE(child.wait_for("\n> ")) << child.output();
  EXPECT_EQ(said(child, 0), "ab!c\xF0\x9F\x91\x8D\xF0\x9F\x8F\xBD");
}

TEST_F(ChatTerminal, TwoChatsKeepEachOthersHistory) {
  {
    Child one = start({"-n", "1"}), two = start({"-n", "1"});
    ASSERT_TRUE(one.wait_for("> ") && two.wait_for("> "));
    for (const std::string number : {"1", "2"}) {
      one.send("first" + number + "\r");
      ASSERT_TRUE(one.wait_for("\n> "));
      two.send("second" + number + "\r");
      ASSERT_TRUE(two.wait_for("\n> "));
    }
    one.send(kCtrlD);
    two.send(kCtrlD);
    EXPECT_EQ(one.exit_code(), 0);
    EXPECT_EQ(two.exit_code(), 0);
  }
  const std::string history = read_file(directory_.path("cria/history"));
  for (const std::string message : {"first1", "second1", "first2", "second2"})
    EXPECT_NE(history.find(message), std::string::npos) << message << " is not in " << history;
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

TEST_F(ChatTerminal, ReportsWaitingIfAnswersAreRedirected) {
  const std::string command = "'" + std::string(program_path()) + "' chat --temp 0 | cat";
  Child shell(Child::Kind::Shell, {"--norc", "--noprofile", "-c", command}, environment_);
  ASSERT_TRUE(shell.wait_for("reading messages from the terminal, a line each; Ctrl-D ends"))
      << shell.output();
  shell.send("What is the capital of France?\r");
  EXPECT_TRUE(shell.wait_for("The capital of France is Paris.")) << shell.output();
  shell.send(kCtrlD);
  EXPECT_EQ(shell.exit_code(), 0);
}

TEST_F(ChatTerminal, GreetsWithThingsToAskTheDemo) {
  Child child = start();
  EXPECT_TRUE(child.wait_for("capital of Japan?")) << child.output();
  EXPECT_TRUE(child.wait_for("What colour is grass?")) << child.output();
  EXPECT_TRUE(child.wait_for("What is my name?")) << child.output();
}

TEST_F(ChatTerminal, TabCompletesCommands) {
  directory_.write("talk.json", "[]");
  Child child = start();
  ASSERT_TRUE(child.wait_for("> "));
  child.send("/sta\t\r");
  EXPECT_TRUE(child.wait_for("no answer yet")) << child.output();
  child.send("/s\t");
  EXPECT_TRUE(child.wait_for("/set \r\n/shift\r\n/stats\r\n")) << child.output();
  child.send("ave ~/ta\t");
  EXPECT_TRUE(child.wait_for("lk.json")) << child.output();
  child.send("\003/set repeat-p\t");
  EXPECT_TRUE(child.wait_for("enalty")) << child.output();
}

TEST_F(ChatTerminal, TabCutsNoCharacter) {
  for (const char* const name : {"na\u00EFve", "na\u00FCve"})
    directory_.write(name, "[]");  // C3 AF, C3 BC
  Child child = start();
  ASSERT_TRUE(child.wait_for("> "));
  child.send("/load ~/n\t\t");
  EXPECT_TRUE(child.wait_for("/load ~/na\u00EFve\r\n/load ~/na\u00FCve\r\n")) << child.output();
}

TEST_F(ChatTerminal, NamesOfFilesCannotDriveTheTerminal) {
  directory_.write("odd\033[31m1", "[]");
  directory_.write("odd\033[31m2", "[]");
  Child child = start();
  ASSERT_TRUE(child.wait_for("> "));
  child.send("/load ~/odd\t");
  ASSERT_TRUE(child.wait_for("^[[31m")) << child.output();
  child.send("\t");
  EXPECT_TRUE(child.wait_for("odd^[[31m1\r\n/load ~/odd^[[31m2\r\n")) << child.output();
  EXPECT_EQ(child.output().find("\033[31m"), std::string::npos) << child.output();
}

TEST_F(ChatTerminal, SaveAsksBeforeItOverwritesAndKnowsHome) {
  const std::string file = directory_.write("talk.json", "mine");
  Child child = start();
  ASSERT_TRUE(child.wait_for("> "));
  for (const std::string answer : {"", "n"}) {
    child.send("/save ~/talk.json\r");
    ASSERT_TRUE(child.wait_for("Overwrite it?")) << child.output();
    child.send(answer + "\r");
    ASSERT_TRUE(child.wait_for("not saved")) << child.output();
    EXPECT_EQ(read_file(file), "mine");
  }
  child.send("/save ~/talk.json\r");
  ASSERT_TRUE(child.wait_for("Overwrite it?"));
  child.send("y\r");
  ASSERT_TRUE(child.wait_for("\nsaved /")) << child.output();
  EXPECT_EQ(read_file(file), "[]\n");
}

TEST_F(ChatTerminal, AnUnstartedAnswerLeavesNoMessage) {
  environment_.push_back("CRIA_ISA=scalar");  // slow enough for a prompt that can be interrupted
  Child child = start({"-t", "1", "-b", "400"});
  ASSERT_TRUE(child.wait_for("> "));
  std::string words;
  for (int i = 0; i < 450; ++i) words += "word ";
  child.send(words + "\r");
  ASSERT_TRUE(child.wait_for("word \r\n")) << child.output();
  child.signal(SIGINT);
  ASSERT_TRUE(child.wait_for("your message was removed")) << child.output();
  ASSERT_TRUE(child.wait_for("> "));
  child.send("/undo\r");
  ASSERT_TRUE(child.wait_for("the conversation is empty")) << child.output();
}

TEST_F(ChatTerminal, AnUnstartedRetryKeepsTheAnswer) {
  environment_.push_back("CRIA_ISA=scalar");
  std::string words;
  for (int i = 0; i < 450; ++i) words += "word ";
  directory_.write("talk.json", R"([{"role":"user","content":")" + words +
                                    R"("},{"role":"assistant","content":"mine"}])");
  Child child = start({"-t", "1", "-b", "400"});
  ASSERT_TRUE(child.wait_for("> "));
  child.send("/load ~/talk.json\r");
  ASSERT_TRUE(child.wait_for("loaded")) << child.output();
  ASSERT_TRUE(child.wait_for("> "));
  child.send("/retry\r");
  ASSERT_TRUE(child.wait_for("/retry\r\n")) << child.output();
  child.signal(SIGINT);
  ASSERT_TRUE(child.wait_for("the answer before stays")) << child.output();
  ASSERT_TRUE(child.wait_for("> "));
  EXPECT_EQ(said(child, 1), "mine");
}

// The history restores messages and commands as such, also in a later chat and after editing.
TEST_F(ChatTerminal, TheHistoryBringsTheSameMessageBack) {
  const std::string text = "/help\n\tme\n\nx\"\"\"";
  {
    Child child = start({"-n", "1"});
    ASSERT_TRUE(child.wait_for("> "));
    child.send("\"\"\"\r");
    for (const std::string& more :
         {std::string("/help"), pasted("\tme\n\nx\"\"\""), std::string("\"\"\"")}) {
      ASSERT_TRUE(child.wait_for(". ")) << child.output();
      child.send(more + "\r");
    }
    for (const std::string& more : {pasted("/exit"), std::string("/system be\\")}) {
      ASSERT_TRUE(child.wait_for("\n> ")) << child.output();
      child.send(more + "\r");
    }
    ASSERT_TRUE(child.wait_for(". ")) << child.output();
    child.send("kind\r");
    ASSERT_TRUE(child.wait_for("system message set")) << child.output();
    ASSERT_TRUE(child.wait_for("> "));
    child.send(kCtrlD);
    EXPECT_EQ(child.exit_code(), 0);
  }
  Child child = start({"-n", "1"});
  ASSERT_TRUE(child.wait_for("> "));
  const auto up = [](int times) {
    std::string keys;
    for (int i = 0; i < times; ++i) keys += kUp;
    return keys;
  };
  child.send(up(1) + "\r");
  ASSERT_TRUE(child.wait_for("system message set")) << child.output();
  ASSERT_TRUE(child.wait_for("> "));
  child.send(up(2) + "\r");
  ASSERT_TRUE(child.wait_for("\n> ")) << child.output();
  child.send(up(4) + "\r");
  ASSERT_TRUE(child.wait_for("\n> ")) << child.output();
  child.send(up(1) + "\033[D\033[D\033[D\033[D!\r");  // before the last line
  ASSERT_TRUE(child.wait_for("\n> ")) << child.output();
  EXPECT_EQ(said(child, 0), "be\nkind");
  EXPECT_EQ(said(child, 1), "/exit");
  EXPECT_EQ(said(child, 3), text);
  EXPECT_EQ(said(child, 5), text + "!");
}

TEST_F(ChatTerminal, AFullContextOffersWaysOut) {
  Child child = start({"-c", "64", "--ignore-eos"});
  ASSERT_TRUE(child.wait_for("> "));
  child.send("hello\r");
  ASSERT_TRUE(child.wait_for("the answer ends here: the context of 64 tokens is full: /compact"))
      << child.output();
  ASSERT_TRUE(child.wait_for("> "));
  child.send("again\r");
  ASSERT_TRUE(child.wait_for("the conversation is too long")) << child.output();
  ASSERT_TRUE(child.wait_for("/shift")) << child.output();
  ASSERT_TRUE(child.wait_for("> "));
  child.send("/shift\r");
  ASSERT_TRUE(child.wait_for("> "));
  child.send("again\r");
  ASSERT_TRUE(child.wait_for("the answer ends here")) << child.output();
  ASSERT_TRUE(child.wait_for("> "));
  std::string words;
  for (int i = 0; i < 60; ++i) words += "word ";
  child.send(words + "\r");
  ASSERT_TRUE(child.wait_for("the message is too long")) << child.output();
  ASSERT_TRUE(child.wait_for("> "));
  EXPECT_EQ(child.output().substr(child.output().find("the message is too long")).find("/reset"),
            std::string::npos)
      << "none of the commands would help";
}

// The same words as in a pipe, and no line of the answer is wider than the terminal.
TEST_F(ChatTerminal, AnswersAreWrappedAtWords) {
  constexpr std::size_t kColumns = 24;
  const std::string question = "Write a short poem about the sea.";
  const std::string whole = cria({"chat", "--temp", "0"}, question + "\n").out;
  Child child = start();
  ASSERT_TRUE(child.wait_for("> "));
  child.resize(40, kColumns);
  child.send(question + "\r");
  ASSERT_TRUE(child.wait_for("sea.\r\n")) << "the question";
  const std::size_t begin = child.output().find("sea.\r\n") + 6;
  ASSERT_TRUE(child.wait_for("\n> ")) << child.output();
  std::string answer = child.output().substr(begin, child.output().rfind("\r\n> ") - begin);
  std::erase(answer, '\r');
  std::istringstream shown(answer), said(whole);
  for (std::string line; std::getline(shown, line);) EXPECT_LE(line.size(), kColumns) << line;
  std::istringstream words(answer);
  std::string want, got;
  while (said >> want) {
    words >> got;
    EXPECT_EQ(got, want);
  }
}

TEST_F(ChatTerminal, BackslashContinuesALine) {
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
