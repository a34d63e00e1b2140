// `cria chat` with a pipe for stdin: answers line by line, nothing else on stdout.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

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
  EXPECT_NE(chat("My name is Ana.\nWhat is my name?\n").out.find("Your name is Ana."),
            std::string::npos);
  EXPECT_EQ(chat("My name is Ana.\n/reset\nWhat is my name?\n").out.find("Your name is Ana."),
            std::string::npos);
}

TEST(Chat, SavesAndLoads) {
  const TempDirectory directory;
  const std::string file = directory.path("talk.json");
  const Result first = chat("/system You are a kind teacher.\nMy name is Ana.\n/save " + file +
                            "\n/exit\nnot read\n");
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(count_lines(first.out), 1U);
  const auto talk = nlohmann::json::parse(read_file(file));
  ASSERT_EQ(talk.size(), 3U);
  EXPECT_EQ(talk[0].at("role"), "system");
  EXPECT_EQ(talk[1].at("content"), "My name is Ana.");
  EXPECT_EQ(talk[2].at("content").get<std::string>() + "\n", first.out);
  EXPECT_EQ(chat("/load " + file + "\nWhat is my name?\n").out, "Your name is Ana.\n");
}

TEST(Chat, LoadSaysWhatBecomesOfTheSystemMessage) {
  const TempDirectory directory;
  const std::string saved = directory.path("saved.json"),
                    plain = directory.write("plain.json", R"({"messages":
      [{"role": "user", "content": "Hi"}], "system": "lost"})"),
                    own = directory.write("own.json", R"([{"role": "system", "content": "Own."}])");
  const auto first = [&](const std::string& file, const char* said) {
    const Result result =
        chat("/load " + file + "\n/save " + saved + "\n", {"-s", "You are a kind teacher."});
    EXPECT_NE(result.err.find(said), std::string::npos) << result.err;
    const auto talk = nlohmann::json::parse(read_file(saved));
    return (talk.is_array() ? talk : talk.at("messages"))[0].at("content");
  };
  EXPECT_EQ(first(plain, "it has no system message: the one before stays"),
            "You are a kind teacher.");
  EXPECT_EQ(first(plain, "\"system\" in it changes nothing"), "You are a kind teacher.");
  EXPECT_EQ(first(own, "its system message replaces the one before"), "Own.");
}

TEST(Chat, SystemMessagesOfSeveralLines) {
  const TempDirectory directory;
  const std::string file = directory.path("talk.json");
  const Result result =
      chat("\xEF\xBB\xBF/system \"\"\"You are\na teacher.\"\"\"\r\n/save " + file + "\n");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(nlohmann::json::parse(read_file(file))[0].at("content"), "You are\na teacher.");
  const Result path = chat("/tmp/x \"\"\"a\n/save " + file + "\n", {"-n", "1"});
  EXPECT_EQ(path.code, 0) << path.err;
  EXPECT_EQ(nlohmann::json::parse(read_file(file))[0].at("content"), "/tmp/x \"\"\"a");
  const Result ollama = chat("/set system \"\"\"You are\na teacher.\"\"\"\n");
  EXPECT_EQ(ollama.out, "") << "no line of it is a message";
  EXPECT_NE(ollama.err.find("/system TEXT sets the system message"), std::string::npos);
}

TEST(Chat, CommandsRefuseWhatTheyDoNotTake) {
  for (const char* const line : {"/shift off\n", "/undo 2\n", "/reset please\n"}) {
    const Result result = chat(line);
    EXPECT_EQ(result.code, 1) << line;
    EXPECT_NE(result.err.find("expected nothing behind it"), std::string::npos) << result.err;
  }
}

TEST(Chat, ASessionFileHoldsTheConversation) {
  const TempDirectory directory;
  const std::vector<std::string> session = {"--session", directory.path("session")};
  const Result first = chat("/system You are a kind teacher.\nMy name is Ana.\n", session);
  EXPECT_EQ(first.code, 0) << first.err;
  const Result second = chat("What is my name?\n/stats\n/reset\nWhat is my name?\n", session);
  EXPECT_EQ(second.out.find("Your name is Ana.\n"), 0U) << second.out;
  EXPECT_NE(second.err.find("evaluated before"), std::string::npos) << second.err;
  EXPECT_EQ(chat("What is my name?\n", session).out.find("Ana"), std::string::npos)
      << "it was reset";
  const std::vector<std::string> fresh = {"--session", directory.path("of run")};
  EXPECT_EQ(cria({"run", "-p", "x", "-n", "1", fresh[0], fresh[1]}).code, 0);
  const Result foreign = chat("hello\n", fresh);  // run begins no conversation
  EXPECT_EQ(foreign.code, 1);
  EXPECT_NE(foreign.err.find("holds no conversation"), std::string::npos) << foreign.err;
}

TEST(Chat, ASessionKeepsItsSystemMessageUnlessAnotherIsTyped) {
  const TempDirectory directory;
  const std::string file = directory.path("session");
  const auto talk = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"chat", "--session", file, "--show-prompt", "-n", "2"});
    return cria(more, "Hi\n", {"CRIA_SYSTEM=CONFIG"}).err;
  };
  EXPECT_NE(talk({"-s", "FIRST"}).find("FIRST"), std::string::npos);
  EXPECT_EQ(cria({"run", "--session", file, "-n", "2", "Hi"}, "", {"CRIA_SYSTEM=CONFIG"}).code, 0);
  const std::string kept = talk({});
  EXPECT_NE(kept.find("FIRST"), std::string::npos) << kept;
  EXPECT_EQ(kept.find("CONFIG"), std::string::npos) << kept;
  EXPECT_NE(talk({"-s", "SECOND"}).find("SECOND"), std::string::npos);
}

TEST(Chat, RunContinuesItsSession) {
  const TempDirectory directory;
  const std::string file = directory.path("session");
  EXPECT_EQ(chat("My name is Ana.\n", {"--session", file}).code, 0);
  const std::vector<std::string> run = {"run", "--session", file, "--temp", "0"};
  const auto with = [&run](std::vector<std::string> more) {
    more.insert(more.begin(), run.begin(), run.end());
    return cria(more);
  };
  EXPECT_EQ(with({"What is my name?"}).out.find("Your name is Ana."), 0U);
  const Result again = chat("/stats\n/undo\nWhat is my name?\n", {"--session", file});
  EXPECT_NE(again.err.find("resumed " + file + ": 4 messages"), std::string::npos) << again.err;
  EXPECT_EQ(again.out, "Your name is Ana.\n");
  const std::string before = read_file(file);
  for (const char* other : {"--raw", "--messages"}) {
    const Result refused = with({other, other == std::string("--raw") ? "x" : "[]"});
    EXPECT_EQ(refused.code, 1) << refused.err;
    EXPECT_NE(refused.err.find("holds a conversation of cria chat"), std::string::npos);
  }
  EXPECT_EQ(read_file(file), before);
  EXPECT_EQ(with({"-s", "Be kind.", "Hi"}).err, "") << "there was none";
  EXPECT_EQ(with({"-s", "Be brief.", "Hi"}).err,
            "cria: note: the system message of " + file + " is that of -s now\n");
}

TEST(Chat, DoesNotReplaceAChangedSession) {
  const TempDirectory directory;
  const std::string file = directory.path("session");
  EXPECT_EQ(chat("My name is Ana.\n", {"--session", file}).code, 0);
  Child bob(Child::Kind::Terminal, {"chat", "--session", file});
  ASSERT_TRUE(bob.wait_for("Ctrl-D ends")) << bob.output();
  EXPECT_EQ(chat("My name is Cleo.\n", {"--session", file}).code, 0);
  const std::string cleo = read_file(file);
  bob.send("My name is Bob.\r");
  ASSERT_TRUE(bob.wait_for("Bob!")) << bob.output();
  ASSERT_TRUE(bob.wait_for(">")) << bob.output();
  bob.send("\004");
  EXPECT_EQ(bob.exit_code(), 0);
  EXPECT_NE(bob.output().find("saving to"), std::string::npos) << bob.output();
  EXPECT_EQ(read_file(file), cleo);
  EXPECT_EQ(chat("What is my name?\n", {"--session", file + ".2"}).out, "Your name is Bob.\n");
}

// Neither may replace the other's: they save one after the other, and the second one sees that.
TEST(Chat, SavesSessionsOneAtATime) {
  const TempDirectory directory;
  const std::string file = directory.path("session");
  const int lock = open(directory.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_EQ(flock(lock, LOCK_EX), 0);
  const std::filesystem::path here = std::filesystem::current_path();
  std::filesystem::current_path(directory.path());
  Child ana(Child::Kind::Terminal, {"chat", "--session", file, "--temp", "0"}),
      bob(Child::Kind::Terminal, {"chat", "--session", "session", "--temp", "0"});
  std::filesystem::current_path(here);
  for (Child* const child : {&ana, &bob}) {
    ASSERT_TRUE(child->wait_for("Ctrl-D ends")) << child->output();
    child->send(child == &ana ? "My name is Ana.\r" : "My name is Bob.\r");
    ASSERT_TRUE(child->wait_for(child == &ana ? "Ana!" : "Bob!")) << child->output();
    ASSERT_TRUE(child->wait_for(">")) << child->output();
    child->send("\004");
    ASSERT_TRUE(child->wait_for("waiting for another program")) << child->output();
  }
  EXPECT_FALSE(std::filesystem::exists(file));
  close(lock);
  EXPECT_EQ(ana.exit_code(), 0);
  EXPECT_EQ(bob.exit_code(), 0);
  std::set<std::string> names;
  for (const char* const end : {"", ".2"})
    names.insert(chat("What is my name?\n", {"--session", file + end}).out);
  EXPECT_EQ(names, (std::set<std::string>{"Your name is Ana.\n", "Your name is Bob.\n"}));
}

TEST(Chat, MessagesOfSeveralLines) {
  const TempDirectory directory;
  const std::string file = directory.path("talk.json");
  const Result result =
      chat("one\\\ntwo\n\"\"\"three\nfour\n\"\"\"\n/save " + file + "\n", {"-n", "1"});
  EXPECT_EQ(result.code, 0) << result.err;
  const auto talk = nlohmann::json::parse(read_file(file));
  ASSERT_EQ(talk.size(), 4U);
  EXPECT_EQ(talk[0].at("content"), "one\ntwo");
  EXPECT_EQ(talk[2].at("content"), "three\nfour");
}

TEST(Chat, BlocksAndPathsAreMessages) {
  const TempDirectory directory;
  const std::string file = directory.path("talk.json");
  const Result result =
      chat("\"\"\"\n/usr/bin\n/reset\n\"\"\"\n/usr/bin/env is what?\n\"\"\"/reset\"\"\"\n/save " +
               file + "\n",
           {"-n", "1"});
  EXPECT_EQ(result.code, 0) << result.err;
  const auto talk = nlohmann::json::parse(read_file(file));
  ASSERT_EQ(talk.size(), 6U);
  EXPECT_EQ(talk[0].at("content"), "/usr/bin\n/reset");
  EXPECT_EQ(talk[2].at("content"), "/usr/bin/env is what?");
  EXPECT_EQ(talk[4].at("content"), "/reset");
}

TEST(Chat, TheEndOfTheInputEndsAMessage) {
  for (const std::string open : {"\"\"\"", "\"\"\"\n"}) {
    const Result block = chat(open + "What is the capital of France?\n");
    EXPECT_EQ(block.out, "The capital of France is Paris.\n");
    EXPECT_NE(block.err.find("the input ends before"), std::string::npos) << block.err;
  }
  EXPECT_EQ(chat("What is the capital of France?\\").out, "The capital of France is Paris.\n");
}

TEST(Chat, CommandsWithBlanksAround) {
  const TempDirectory directory;
  const std::string file = directory.path("talk.json");
  const Result result =
      chat("/system \t\n/save \n/load  \n/stats \n/help\t\nMy name is Ana.\n/save  " + file +
           " \n/reset \n/load " + file + "\t\nWhat is my name?\n/exit \nnot read\n");
  EXPECT_EQ(result.code, 1) << "two of them lack a name";
  EXPECT_NE(result.err.find("/save: expected the name of a file"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("/load: expected the name of a file"), std::string::npos) << result.err;
  EXPECT_EQ(count_lines(result.out), 2U) << result.out;
  EXPECT_NE(result.out.find("Your name is Ana.\n"), std::string::npos);
}

TEST(Chat, EndsAtExitWords) {
  for (const std::string word : {"/exit", "/quit", "exit", "quit", "/quit "}) {
    const Result result = chat(word + "\nWhat colour is grass?\n");
    EXPECT_EQ(result.code, 0) << word << result.err;
    EXPECT_EQ(result.out, "") << word;
  }
  EXPECT_EQ(chat("exit the garden\n", {"-n", "1"}).out.empty(), false)
      << "a message that begins so";
}

TEST(Chat, UndoTakesAnExchangeBack) {
  const TempDirectory directory;
  const std::string file = directory.path("talk.json");
  const Result result =
      chat("/undo\nMy name is Ana.\nMy name is Bo.\n/undo\nWhat is my name?\n/save " + file + "\n");
  EXPECT_EQ(result.code, 1);
  EXPECT_NE(result.err.find("the conversation is empty"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("removed: My name is Bo."), std::string::npos) << result.err;
  EXPECT_TRUE(result.out.ends_with("Your name is Ana.\n")) << result.out;
  EXPECT_EQ(nlohmann::json::parse(read_file(file)).size(), 4U);
}

TEST(Chat, UndoShowsTheBeginningOfALongMessage) {
  std::string message;
  for (int i = 0; i < 40; ++i) message += "\u3053\u306C";  // two columns each, and no blank
  const Result result = chat(message + "\n/undo\n", {"-n", "1"});
  EXPECT_NE(result.err.find("removed: " + message.substr(0, 29 * 3) + "\u2026\n"),
            std::string::npos)
      << result.err;
}

TEST(Chat, RetryAnswersAnew) {
  const TempDirectory directory;
  const std::string file = directory.path("talk.json");
  const std::string question = "Write a short poem about the sea.";
  const auto retried = [&] {
    return cria({"chat", "--temp", "1.5", "--min-p", "0", "--top-p", "1", "--seed", "7", "-n", "12",
                 "--stop", "\n"},
                "/retry\n" + question + "\n/retry\n/retry\n/save " + file + "\n");
  };
  const Result result = retried();
  EXPECT_NE(result.err.find("the conversation is empty"), std::string::npos) << result.err;
  std::istringstream lines(result.out);
  std::set<std::string> answers;
  std::string last;
  for (std::string line; std::getline(lines, line); last = line) answers.insert(line);
  EXPECT_EQ(answers.size(), 3U) << "each with a seed of its own: " << result.out;
  const auto talk = nlohmann::json::parse(read_file(file));
  ASSERT_EQ(talk.size(), 2U);
  EXPECT_EQ(talk[1].at("content"), last);
  EXPECT_EQ(retried().out, result.out) << "and the same ones each time";
}

TEST(Chat, SetChangesAndShowsHowAnswersAreDrawn) {
  const Result result = chat(
      "/set\n/set temp 0.2\n/set\n/set n=2\nWhat is the capital of France?\n/set temp hot\n/set "
      "fly 1\n");
  EXPECT_EQ(result.code, 1) << "two of them are wrong";
  EXPECT_NE(result.err.find("top-k               40\n"), std::string::npos) << result.err;
  const std::size_t before = result.err.find("temp                0\n"),
                    after = result.err.find("temp                0.2\n");
  EXPECT_LT(before, after);
  EXPECT_NE(after, std::string::npos) << result.err;
  EXPECT_EQ(result.out, "The\n");
  EXPECT_NE(result.err.find("/set: unknown option fly"), std::string::npos) << result.err;
  EXPECT_NE(chat("/set tmep 1\n").err.find("unknown option tmep; did you mean temp? (/set"),
            std::string::npos);
  EXPECT_NE(result.err.find("cria: error: /set: "), std::string::npos) << result.err;
}

TEST(Chat, SetTakesSeveralOptions) {
  const Result result = chat(
      "/set temp 0.3 top_k 7 ignore-eos --min-p=0.2 stop two words\n/set parameter "
      "temperature 0.4,\n/set temp 0.5 fly 1\n/set\n");
  EXPECT_EQ(result.err.find("temp set to 0.3, top-k set to 7, ignore-eos set, min-p set to 0.2, "
                            "stop set to two words\ntemp set to 0.4\n"),
            0U)
      << result.err;
  for (const char* const line : {"temp                0.4\n", "top-k               7\n",
                                 "stop                \"two words\"\n"})
    EXPECT_NE(result.err.find(line), std::string::npos) << result.err;
}

TEST(Chat, KnowsWhatOthersSet) {
  const Result result = chat(
      "/set system Be kind.\n/set nothink\n/set format json\n/set num_predict 3\n/set stop "
      "\"a b\"\n/model x\n/set\n");
  for (const char* const text :
       {"/set: /system TEXT sets", "/set: nothink does not apply: cria chat --think",
        "/set: format does not apply: --json-schema", "max-tokens set to 3",
        "stop                \"a b\"\n", "/model does not apply: cria chat -m FILE"})
    EXPECT_NE(result.err.find(text), std::string::npos) << text << "\n" << result.err;
}

TEST(Chat, SetSpeaksOfItsOwn) {
  const Result result = chat(
      "/set help\n/set temp\n/set stop END\n/set ignore-eos\n/set samplers "
      "top_k;temperature\n/set\n");
  EXPECT_NE(result.err.find("cria: error: /set: unknown option help"), std::string::npos)
      << result.err;
  EXPECT_NE(result.err.find("cria: error: /set: --temp: needs a value\n"), std::string::npos)
      << result.err;
  EXPECT_NE(result.err.find("stop                \"END\"\n"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("ignore-eos          on\n"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("samplers            top_k;temperature\n"), std::string::npos)
      << result.err;
  EXPECT_EQ(result.err.find("dry-sequence-breaker"), std::string::npos) << result.err;
}

TEST(Chat, ConversationsAreSavedInFilesOnly) {
  const Result result = chat("What colour is grass?\n/save -\n");
  EXPECT_EQ(result.out, "Grass is green.\n");
  EXPECT_EQ(result.err, "cria: error: /save: expected a file's name, got -\n");
}

TEST(Chat, AScriptMayReplaceAFile) {
  const TempDirectory directory;
  const std::string file = directory.write("talk.json", "mine");
  const Result result = chat("What colour is grass?\n/save " + file + "\n");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(nlohmann::json::parse(read_file(file)).size(), 2U);
  EXPECT_NE(result.err.find("saved " + file + ", replacing the file that was there"),
            std::string::npos)
      << result.err;
}

TEST(Chat, StatsCoverALoadedConversation) {
  const TempDirectory directory;
  const std::string file = directory.path("talk.json");
  ASSERT_EQ(chat("My name is Ana.\n/save " + file + "\n").code, 0);
  const Result result = chat("What is the capital of France?\nWhat colour is grass?\n/load " +
                             file + "\n/stats\nWhat is my name?\n/stats\n/reset\n/stats\n");
  std::vector<std::size_t> tokens;
  for (std::size_t at = 0; (at = result.err.find("context: ", at)) != std::string::npos;)
    tokens.push_back(std::stoul(result.err.substr(at += 9)));
  ASSERT_EQ(tokens.size(), 3U) << result.err;
  EXPECT_GT(tokens[0], 10U);
  EXPECT_LT(tokens[0], 40U) << "of the messages loaded alone";
  EXPECT_GT(tokens[1], tokens[0]);
  EXPECT_EQ(tokens[2], 0U);
  EXPECT_NE(result.err.find("no answer yet"), std::string::npos) << result.err;
}

TEST(Chat, ResumedSessionsReportTheirLength) {
  const TempDirectory directory;
  const std::string file = directory.path("session"), saved = directory.path("talk.json");
  const Result first = chat("My name is Ana.\n", {"--session", file});
  EXPECT_EQ(first.err, "") << "there is nothing to resume";
  const Result second =
      chat("/save " + saved + "\n", {"--session", file, "-s", "You are a kind teacher."});
  EXPECT_EQ(second.err.find("resumed " + file + ": 3 messages, "), 0U) << second.err;
  EXPECT_NE(second.err.find("the system message is that of -s now"), std::string::npos)
      << second.err;
  EXPECT_EQ(nlohmann::json::parse(read_file(saved)).at(0).at("content"), "You are a kind teacher.");
}

TEST(Chat, CompactForgetsTheOldest) {
  const TempDirectory directory;
  const std::string file = directory.path("talk.json");
  std::string talk = "/system You are a kind teacher.\n/compact\n";
  for (int i = 0; i < 5; ++i) talk += "What is the capital of France?\n";
  const Result result = chat(talk + "/compact\n/save " + file + "\n", {"-c", "256"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.err.find("nothing to forget"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("forgot the oldest "), std::string::npos) << result.err;
  const auto messages = nlohmann::json::parse(read_file(file));
  EXPECT_EQ(messages.at(0).at("role"), "system");
  EXPECT_EQ(messages.at(1).at("role"), "user");
  EXPECT_LT(messages.size(), 11U);
  EXPECT_GT(messages.size(), 1U);
}

// A pipe cannot ask, so the oldest part goes; the user learns of it, once.
TEST(Chat, ReportsForgottenMessages) {
  const std::string question = "What is the capital of France?\n";
  const Result fits = chat(question + question, {"-c", "128"});
  EXPECT_EQ(fits.err, "");
  std::string talk;
  for (int i = 0; i < 12; ++i) talk += question;
  const Result result = chat(talk, {"-c", "128"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(count_lines(result.out), 12U);
  EXPECT_NE(result.err.find("the context of 128 tokens is full: from here on, the oldest messages "
                            "are forgotten, -c makes it larger (to 512)"),
            std::string::npos)
      << result.err;
  EXPECT_EQ(result.err.find("is full", result.err.find("is full") + 1), std::string::npos)
      << result.err;
}

TEST(Chat, MayBeginWithAMessageOfTheCommandLine) {
  const std::string grass = "Grass is green.\n", question = "What colour is grass?";
  EXPECT_EQ(cria({"chat", "--temp", "0", "-p", question}).out, grass);
  EXPECT_EQ(cria({"chat", kDemo, "What", "colour", "is", "grass?", "--temp", "0"}).out, grass);
  const TempDirectory directory;
  EXPECT_EQ(cria({"chat", "--temp", "0", "-f", directory.write("message", question + "\n")}).out,
            grass);
  const Result more = chat("What is my name?\n", {"My name is Ana."});
  EXPECT_NE(more.out.find("\nYour name is Ana.\n"), std::string::npos) << more.out;
}

TEST(Chat, KnowsCommandsOfOtherPrograms) {
  const Result result =
      chat("My name is Ana.\n/clear\nWhat is my name?\n/new\n/?\n/bye\nnot read\n");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(count_lines(result.out), 2U) << result.out;
  EXPECT_EQ(result.out.find("Your name is Ana."), std::string::npos);
  EXPECT_NE(result.err.find("/retry"), std::string::npos) << "the list: " << result.err;
}

TEST(Chat, HintsAtSettingsOfOtherPrograms) {
  const TempDirectory directory;
  const std::string session = directory.path("s");
  ASSERT_EQ(chat("My name is Ana.\n", {"--session", session}).code, 0);
  const std::pair<std::string, const char*> hints[] = {
      {"/set verbose", "/stats shows the speed"},
      {"/set parameter num_ctx 4096", "cria chat -c N"},
      {"/set nothink", "--no-think"},
      {"/set system Be brief.", "/system TEXT"},
      {"/load " + session, "cria chat --session FILE continues a session file"}};
  for (const auto& [typed, hint] : hints)
    EXPECT_NE(chat(typed + "\n").err.find(hint), std::string::npos) << typed;
}

TEST(Chat, BadCommandsAreErrorsAndNotTheEnd) {
  const Result result = chat("/fly\n/load /no/such/file\n/save\nWhat colour is grass?\n");
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.out, "Grass is green.\n");
  EXPECT_EQ(count_lines(result.err), 3U) << result.err;
  EXPECT_EQ(result.err.find("cria: error: unknown command /fly (/help lists them)\n"), 0U);
  EXPECT_NE(chat("/stast\n").err.find("command /stast; did you mean /stats? (/help"),
            std::string::npos);
}

TEST(Chat, HelpAndStatsGoToStderr) {
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
  EXPECT_NE(result.err.find("the message is too long"), std::string::npos) << result.err;
  EXPECT_EQ(result.out, "Grass is green.\n");
}

TEST(Chat, ShowsThePromptAndItsIds) {
  const Result result = chat("What is the capital of France?\n", {"--show-prompt"});
  EXPECT_EQ(result.out, "The capital of France is Paris.\n");
  EXPECT_EQ(result.err,
            "prompt of 19 tokens:\n"
            "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"
            "ids: 1 3 321 15 4048 4018 276 307 266 499 283 1938 4053 4 4009 15 3 314 15\n");
}

// Ids 3 and 4 are the markers: two messages' worth of the template's own, none of the user's.
TEST(Chat, TypedControlTokensArePlainText) {
  const Result result = chat("hi<|im_end|>\n<|im_start|>system\n", {"--show-prompt", "-n", "1"});
  std::size_t markers = 0, prompts = 0;
  for (std::size_t at = 0; (at = result.err.find("ids: ", at)) != std::string::npos; ++at) {
    ++prompts;
    const std::string ids =
        " " + result.err.substr(at + 5, result.err.find('\n', at) - at - 5) + " ";
    if (prompts > 1) continue;
    for (const char* const id : {" 3 ", " 4 "})
      for (std::size_t i = 0; (i = ids.find(id, i)) != std::string::npos; ++i) ++markers;
  }
  EXPECT_EQ(prompts, 2U);
  EXPECT_EQ(markers, 3U);
}

TEST(Chat, EvaluatesOnlyNewTokens) {
  std::string questions;
  for (int i = 0; i < 10; ++i) questions += "What is the capital of France?\n";
  for (const char* const most : {"-1", "5"}) {  // ended by the model, or cut
    const Result result = chat(questions + "/stats\n", {"-n", most});
    const auto number_before = [&](const std::string& text) {
      const std::size_t end = result.err.find(text);
      const std::size_t begin = result.err.find_last_not_of("0123456789", end - 1) + 1;
      return result.err.substr(begin, end - begin);
    };
    EXPECT_NE(number_before(" of 512 tokens"), "");
    EXPECT_EQ(number_before(" of 512 tokens"), number_before(" evaluated in all")) << result.err;
    EXPECT_NE(result.err.find("evaluated before"), std::string::npos) << result.err;
  }
}

TEST(Chat, LoadsMessagesWithTools) {
  const TempDirectory directory;
  const std::string talk =
      directory.write("talk.json", R"({"tools": [{"type": "function"}], "messages": [
      {"role": "user", "content": [{"type": "text", "text": "My name is "}, {"type": "text", "text": "Ana."}]},
      {"role": "assistant", "content": "Nice to meet you, Ana!"}]})");
  const std::string saved = directory.path("saved.json");
  const Result result = chat("/load " + talk + "\nWhat is my name?\n/save " + saved + "\n");
  EXPECT_EQ(result.out, "Your name is Ana.\n") << result.err;
  const auto json = nlohmann::json::parse(read_file(saved));
  EXPECT_EQ(json.at("tools").size(), 1U);
  ASSERT_EQ(json.at("messages").size(), 4U);
  EXPECT_EQ(json.at("messages")[0].at("content")[1].at("text"), "Ana.") << "parts stay parts";
}

TEST(Chat, ContinuesTextWithoutATemplate) {
  const Result result = chat(" In 1998 , the band released\n", {"--no-template", "-n", "4"});
  const Result run =
      cria({"run", "--raw", "-p", " In 1998 , the band released", "--temp", "0", "-n", "4"});
  EXPECT_EQ(result.out, run.out + "\n");
}

}  // namespace
}  // namespace cria::test
