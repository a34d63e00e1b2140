// `cria chat` with a pipe for stdin: answers line by line, nothing else on stdout.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/tools/process.h"

namespace cria::test {
namespace {

Result chat(std::string_view input, std::vector<std::string> more = {}) {
  std::vector<std::string> arguments = {"chat", "--temp", "0"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return cria(std::move(arguments), input);
}

TEST(Chat, AnswersLineByLineAndEnds) {
  const Result result = chat("What is the capital of France?\n\nWhat colour is grass?");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "The capital of France is Paris.\nGrass is green.\n");
  EXPECT_EQ(result.err, "");
}

TEST(Chat, RemembersUntilReset) {
  EXPECT_NE(chat("My name is Ana.\nWhat is my name?\n").out.find("Your name is Ana."), std::string::npos);
  EXPECT_EQ(chat("My name is Ana.\n/reset\nWhat is my name?\n").out.find("Your name is Ana."),
            std::string::npos);
}

TEST(Chat, SavesAndLoads) {
  const TempDirectory directory;
  const std::string file = directory.path("talk.json");
  const Result first =
      chat("/system You are a kind teacher.\nMy name is Ana.\n/save " + file + "\n/exit\nnot read\n");
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(count_lines(first.out), 1U);
  const auto talk = nlohmann::json::parse(read_file(file));
  ASSERT_EQ(talk.size(), 3U);
  EXPECT_EQ(talk[0].at("role"), "system");
  EXPECT_EQ(talk[1].at("content"), "My name is Ana.");
  EXPECT_EQ(talk[2].at("content").get<std::string>() + "\n", first.out);
  EXPECT_EQ(chat("/load " + file + "\nWhat is my name?\n").out, "Your name is Ana.\n");
}

TEST(Chat, MessagesOfSeveralLines) {
  const TempDirectory directory;
  const std::string file = directory.path("talk.json");
  const Result result = chat("one\\\ntwo\n\"\"\"three\nfour\n\"\"\"\n/save " + file + "\n", {"-n", "1"});
  EXPECT_EQ(result.code, 0) << result.err;
  const auto talk = nlohmann::json::parse(read_file(file));
  ASSERT_EQ(talk.size(), 4U);
  EXPECT_EQ(talk[0].at("content"), "one\ntwo");
  EXPECT_EQ(talk[2].at("content"), "three\nfour");
}

TEST(Chat, BadCommandsAreErrorsAndNotTheEnd) {
  const Result result = chat("/fly\n/load /no/such/file\n/save\nWhat colour is grass?\n");
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.out, "Grass is green.\n");
  EXPECT_EQ(count_lines(result.err), 3U) << result.err;
  EXPECT_EQ(result.err.find("cria: error: unknown command /fly (/help lists them)\n"), 0U);
}

TEST(Chat, HelpAndStatsAreNotes) {
  const Result result = chat("/help\n/stats\nhello\n/stats\n");
  EXPECT_EQ(result.out, "Hello! How can I help you?\n");
  for (const std::string word : {"/reset", "/system TEXT", "/save FILE", "/load FILE", "/exit",
                                 "no answer yet", "tokens/s", "of 512 tokens"})
    EXPECT_NE(result.err.find(word), std::string::npos) << word;
}

TEST(Chat, LongConversationsForgetTheirBeginning) {
  std::string questions;
  for (int i = 0; i < 30; ++i) questions += "What is the capital of France?\n";
  const Result result = chat(questions, {"-c", "128"});
  EXPECT_EQ(result.code, 0) << result.err;
  std::string want;
  for (int i = 0; i < 30; ++i) want += "The capital of France is Paris.\n";
  EXPECT_EQ(result.out, want);
}

TEST(Chat, MessageLargerThanTheContextIsRefused) {
  std::string message;
  for (int i = 0; i < 200; ++i) message += "word ";
  const Result result = chat(message + "\nWhat colour is grass?\n", {"-c", "128"});
  EXPECT_EQ(result.code, 1);
  EXPECT_NE(result.err.find("no room for this message"), std::string::npos) << result.err;
  EXPECT_EQ(result.out, "Grass is green.\n");
}

TEST(Chat, WithoutATemplateTextGoesOn) {
  const Result result = chat(" In 1998 , the band released\n", {"--no-template", "-n", "4"});
  const Result run = cria({"run", "-p", " In 1998 , the band released", "--temp", "0", "-n", "4"});
  EXPECT_EQ(result.out, run.out + "\n");
}

}  // namespace
}  // namespace cria::test
