#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "model/file/json.h"
#include "tests/tools/process.h"
#include "tools/commands/batch_answers.h"

namespace cria::test {
namespace {

std::vector<SortedJson> answers_in(const std::string& path) {
  std::vector<SortedJson> answers;
  std::istringstream text(read_file(path));
  for (std::string line; std::getline(text, line);) answers.push_back(SortedJson::parse(line));
  return answers;
}

// Returns n requests with common prefixes and different sampling.
std::string many_requests(int n) {
  std::string text;
  for (int i = 0; i < n; ++i) {
    const SortedJson body = {
        {"prompt", "The river rises in the hills and item " + std::to_string(i % 7)},
        {"raw", i % 2 == 0},
        {"temperature", i % 3 * 0.7},
        {"seed", i},
        {"max_tokens", 3 + i % 9}};
    text += body.dump() + "\n";
  }
  return text;
}

TEST(Batch, AnswersMatchRun) {
  const TempDirectory directory;
  const std::string in =
      directory.write("in",
                      R"({"prompt": "What is the capital of France?", "temperature": 0}
{"custom_id": "b", "url": "/v1/chat/completions", "body": {"model": "x", "messages": [{"role": "user", "content": "What colour is grass?"}], "max_tokens": 20, "temperature": 0.7, "seed": 5}}

{"custom_id": "c", "url": "/v1/completions", "body": {"prompt": "The river", "max_tokens": 10, "temperature": 0}}
{"prompt": " The river", "raw": true, "max_tokens": 12, "seed": 9, "stop": ["e"], "logprobs": true}
)");
  const std::string out = directory.path("out");
  const Result result = cria({"batch", "-i", in, "-o", out, "--seed", "1"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  const std::vector<SortedJson> answers = answers_in(out);
  ASSERT_EQ(answers.size(), 4U);
  EXPECT_EQ(answers[0].at("text"), "The capital of France is Paris.");
  EXPECT_EQ(answers[1].at("custom_id"), "b");
  EXPECT_EQ(answers[1].at("error"), nullptr);
  EXPECT_EQ(answers[1]["response"]["status_code"], 200);
  EXPECT_EQ(
      answers[1]["response"]["body"]["choices"][0]["message"]["content"].get<std::string>() + "\n",
      cria({"run", "What colour is grass?", "-n", "20", "--temp", "0.7", "--seed", "5"}).out);
  EXPECT_EQ(answers[2]["response"]["body"]["choices"][0]["text"],
            cria({"run", "--raw", "The river", "-n", "10", "--temp", "0"}).out);
  const SortedJson run = SortedJson::parse(cria({"run", "--raw", " The river", "-n", "12", "--seed",
                                                 "9", "--stop", "e", "--logprobs", "0", "--json"})
                                               .out);
  for (const char* key : {"text", "tokens", "stop_reason", "choices"})
    EXPECT_EQ(answers[3].at(key), run.at(key)) << key;
}

TEST(Batch, RawRefusesMessages) {
  const Result raw =
      cria({"batch", "--raw"}, R"({"messages": [{"role": "user", "content": "x"}]})");
  EXPECT_NE(raw.out.find("messages need a chat template, which --raw leaves out"),
            std::string::npos)
      << raw.out;
}

TEST(Batch, ContinuesAfterABadLine) {
  const TempDirectory directory;
  const std::string in = directory.write("in",
                                         R"(not json
{"custom_id": "b", "body": {"prompt": "x", "temprature": 1}}
{"messages": []}
{"prompt": "x", "temperature": -1}
{"prompt": "x", "max_tokens": 1.5}
{"prompt": "What is the capital of France?", "temperature": 0}
[1]
)");
  const std::string out = directory.path("out");
  const Result result = cria({"batch", "-i", in, "-o", out});
  EXPECT_EQ(result.code, 0);
  EXPECT_NE(result.err.find("6 requests could not be answered"), std::string::npos) << result.err;
  const std::vector<SortedJson> answers = answers_in(out);
  ASSERT_EQ(answers.size(), 7U);
  EXPECT_EQ(answers[1]["response"], nullptr);
  EXPECT_EQ(answers[1]["custom_id"], "b");
  const std::vector<std::string> said = {"not JSON", "\"temprature\"", "is empty", "temperature",
                                         "whole number"};
  for (std::size_t i = 0; i < said.size(); ++i)
    EXPECT_NE(answers[i]["error"]["message"].get<std::string>().find(said[i]), std::string::npos)
        << answers[i];
  EXPECT_EQ(answers[5]["text"], "The capital of France is Paris.");
  const Result again = cria({"batch", "-i", in, "-o", out});
  EXPECT_EQ(again.code, 0);
  EXPECT_EQ(again.err,
            "cria: note: " + out +
                " has all answers already; another -o FILE answers the requests again\n" +
                result.err)
      << "still so, though nothing was left to do";
}

TEST(Batch, ReadsConversationsAsTheyAreServed) {
  const TempDirectory directory;
  const SortedJson user = {{"role", "user"}, {"content", "What is the capital of France?"}};
  const auto line = [&](const char* role, SortedJson more) {
    more.update({{"messages", {{{"role", role}, {"content", "Be brief."}}, user}},
                 {"temperature", 0},
                 {"max_tokens", 3}});
    return SortedJson{{"body", std::move(more)}}.dump() + "\n";
  };
  const std::string in = line("system", {{"say", "now"}}) +
                         line("developer", {{"chat_template_kwargs", {{"say", "now"}}}}) +
                         line("system", {{"say", "not now"}}) + line("user", {{"say", "now"}});
  const std::string form =
      directory.write("form.jinja",
                      "{% for m in messages %}{% if m.role == 'system' %}System: {% "
                      "endif %}{{ m.content }} {% endfor %}{{ say }}");
  const std::string out = directory.path("out");
  const Result result =
      cria({"batch", "-i", directory.write("in", in), "-o", out, "--chat-template", form});
  EXPECT_EQ(result.code, 0) << result.err;
  const std::vector<SortedJson> answers = answers_in(out);
  ASSERT_EQ(answers.size(), 4U);
  const auto tokens = [&](std::size_t i) {
    return answers[i]["response"]["body"]["usage"]["prompt_tokens"].get<int>();
  };
  EXPECT_EQ(tokens(1), tokens(0));
  EXPECT_NE(tokens(2), tokens(0)) << "the variable counts";
  EXPECT_NE(tokens(3), tokens(0)) << "the role counts";
}

TEST(Batch, RejectsUnsupportedFields) {
  const TempDirectory directory;
  const SortedJson tools = {{{"type", "function"}, {"function", {{"name", "f"}}}}};
  const std::pair<const char*, SortedJson> refused[] = {
      {"guided_json", {{"guided_json", {{"type", "object"}}}}},
      {"functions", {{"functions", SortedJson::array()}}},
      {"instructions", {{"instructions", "Be brief."}}},
      {"extra_body", {{"extra_body", {{"top_k", 1}}}}},
      {"params", {{"params", {{"max_tokens", 8}}}}},
      {"id", {{"id", "a"}}},
      {"temp", {{"temp", 0}}},
      {"maxTokens", {{"maxTokens", 3}}},
      {"topP", {{"topP", 0.5}}},
      {"temprature", {{"temprature", 0.5}}},
      {"tool_choice", {{"tools", tools}, {"tool_choice", "required"}}},
      {"tool_choice", {{"tools", tools}, {"tool_choice", {{"type", "function"}}}}},
      {"parallel_tool_calls", {{"tools", tools}, {"parallel_tool_calls", false}}},
  };
  const SortedJson taken[] = {
      SortedJson::object(),
      {{"tools", tools}, {"tool_choice", "none"}},
      {{"tool_choice", "auto"}, {"parallel_tool_calls", false}, {"modalities", {"text"}}},
      {{"tools", SortedJson::array()}, {"parallel_tool_calls", false}},
      {{"guided_json", nullptr}}};
  const auto line = [](SortedJson more) {
    more.update({{"messages", {{{"role", "user"}, {"content", "What is the capital of France?"}}}},
                 {"temperature", 0}});
    return more.dump() + "\n";
  };
  std::string in;
  for (const auto& [param, more] : refused) in += line(more);
  for (const SortedJson& more : taken) in += line(more);
  const std::string out = directory.path("out");
  EXPECT_EQ(cria({"batch", "-i", directory.write("in", in), "-o", out}).code, 0);
  const std::vector<SortedJson> answers = answers_in(out);
  ASSERT_EQ(answers.size(), std::size(refused) + std::size(taken));
  std::size_t at = 0;
  for (const auto& [param, more] : refused) {
    const std::string message = answers[at++]["error"]["message"];
    EXPECT_EQ(message.find("\"" + std::string(param) + "\""), 0U) << message;
  }
  for (; at < answers.size(); ++at)
    EXPECT_EQ(answers[at]["text"], "The capital of France is Paris.") << answers[at];
}

TEST(Batch, OutputIsIndependentOfConcurrency) {
  const TempDirectory directory;
  const std::string in = directory.write("in", many_requests(40));
  const auto answers = [&](std::vector<std::string> more) {
    const std::string out = directory.path("out" + std::to_string(more.size()) + more.back());
    std::vector<std::string> arguments = {"batch", "-i", in, "-o", out};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Result result = cria(arguments);
    EXPECT_EQ(result.code, 0) << result.err;
    return read_file(out);
  };
  const std::string alone = answers({"--parallel", "1"});
  EXPECT_EQ(count_lines(alone), 40U);
  EXPECT_EQ(answers({"--parallel", "7", "-t", "2"}), alone);
  EXPECT_EQ(answers({"--parallel", "32", "-b", "16", "-t", "3"}), alone);
  const std::string unordered = answers({"--parallel", "8", "--unordered"});
  const auto sorted = [](const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream in_text(text);
    for (std::string line; std::getline(in_text, line);) lines.push_back(line);
    std::sort(lines.begin(), lines.end());
    return lines;
  };
  EXPECT_EQ(sorted(unordered), sorted(alone));
}

// Killed again and again, at any byte; what is there stays, what is missing comes.
TEST(Batch, ResumesAfterAKill) {
  const TempDirectory directory;
  const std::string in = directory.write("in", many_requests(30));
  const std::string whole = directory.path("whole"), out = directory.path("out");
  ASSERT_EQ(cria({"batch", "-i", in, "-o", whole}).code, 0);
  const std::string want = read_file(whole);
  for (const std::size_t cut : {0U, 1U, 700U}) {
    directory.write("out", want.substr(0, cut));
    EXPECT_EQ(cria({"batch", "-i", in, "-o", out}).code, 0);
    EXPECT_EQ(read_file(out), want) << cut;
  }
  std::filesystem::remove(out);
  for (int i = 0; i < 3; ++i) {
    Child child(Child::Kind::Pipe, {"batch", "-i", in, "-o", out});
    std::this_thread::sleep_for(std::chrono::milliseconds(100 + 100 * i));  // any moment will do
    child.signal(SIGKILL);
    child.exit_code();
  }
  EXPECT_EQ(cria({"batch", "-i", in, "-o", out}).code, 0);
  EXPECT_EQ(read_file(out), want);
  EXPECT_EQ(cria({"batch", "-i", in, "-o", out}).code, 0) << "nothing is left to do";
  EXPECT_EQ(read_file(out), want);
  const std::string others = directory.write("others", "{\"prompt\": \"x\"}\n");
  const Result refused = cria({"batch", "-i", others, "-o", out});
  EXPECT_EQ(refused.code, 1);
  EXPECT_NE(refused.err.find("holds more than answers to these requests"), std::string::npos)
      << refused.err;
  EXPECT_EQ(read_file(out), want);
}

// Resuming cuts off an incomplete answer at the end of the file, and nothing else.
TEST(Batch, KeepsAnUnrelatedFile) {
  const TempDirectory directory;
  const std::string request = "{\"prompt\": \"x\"}";
  const std::string in = directory.write("in", request),
                    notes = directory.write("notes", "my notes");
  for (const std::string& out : {notes, in}) {
    const std::string before = read_file(out);
    const Result refused = cria({"batch", "-i", in, "-o", out, "-n", "1"});
    EXPECT_EQ(refused.code, 1);
    EXPECT_NE(refused.err.find(out + ": holds more than answers to these requests"),
              std::string::npos)
        << refused.err;
    EXPECT_EQ(read_file(out), before);
  }
}

// Without a seed on the command line, resuming takes the seed from the existing answers.
TEST(Batch, ResumesWithItsSeed) {
  const TempDirectory directory;
  std::string requests;
  for (int i = 0; i < 8; ++i) {
    SortedJson request = {{"prompt", "Item " + std::to_string(i)},
                          {"raw", true},
                          {"max_tokens", 6},
                          {"temperature", 2}};
    if (i == 0) request["seed"] = 3;
    requests += (i % 2 == 0 ? request : SortedJson{{"body", request}}).dump() + "\n";
  }
  const std::string in = directory.write("in", requests), out = directory.path("out");
  EXPECT_EQ(cria({"batch", "-i", in, "-o", out}).code, 0);
  const std::string all = read_file(out);
  std::size_t end = 0;
  for (int line = 0; line < 3; ++line) end = all.find('\n', end) + 1;
  std::filesystem::resize_file(out, end + 20);
  EXPECT_EQ(cria({"batch", "-i", in, "-o", out}).code, 0);
  EXPECT_EQ(read_file(out), all);
}

// Speculative decoding does not change answers, with any source of drafts.
TEST(Batch, DraftsChangeNothing) {
  const TempDirectory directory;
  const std::string in = directory.write("in", many_requests(20)), one = directory.path("one"),
                    two = directory.path("two"), demo = kDemo;
  EXPECT_EQ(cria({"batch", "-i", in, "-o", one, "--speculate", "off"}).code, 0);
  EXPECT_EQ(cria({"batch", "-i", in, "-o", two, "--draft", demo, "-t", "2"}).code, 0);
  EXPECT_EQ(read_file(one), read_file(two));
  std::filesystem::remove(two);
  EXPECT_EQ(cria({"batch", "-i", in, "-o", two, "--speculate", "lookup"}).code, 0);
  EXPECT_EQ(read_file(one), read_file(two));
}

// The progress bar counts only this run: it starts at zero, and so do its speed and time left.
TEST(Batch, ReportsProgressOfTheResumedRun) {
  const TempDirectory directory;
  const std::string line = SortedJson{
      {"prompt", "The river"},
      {"raw", true},
      {"max_tokens", 60},
      {"ignore_eos", true}}.dump();
  std::string requests, answers;
  for (std::size_t i = 0; i < 2000; ++i) {
    requests += line + "\n";
    if (i < 1900)
      answers += SortedJson{{"id", tools::batch_answer_id(i, line)}, {"text", ""}}.dump() + "\n";
  }
  const std::string in = directory.write("in", requests), out = directory.write("out", answers);
  Child child(Child::Kind::Terminal, {"batch", "-i", in, "-o", out, "--parallel", "1", "-t", "1"},
              {"CRIA_ISA=scalar"});
  ASSERT_TRUE(child.wait_for("answering [")) << child.output();
  ASSERT_TRUE(child.wait_for("] ")) << child.output();
  const std::size_t share = child.output().find("] ") + 2;
  ASSERT_TRUE(child.wait_for(" %")) << child.output();
  EXPECT_LT(std::stoi(child.output().substr(share)), 50) << child.output();
  child.send("\003");
  EXPECT_EQ(child.exit_code(), 130);
}

TEST(Batch, AnswersGoToStdout) {
  const TempDirectory directory;
  const std::string in = directory.write("in", many_requests(3)), out = directory.path("out");
  ASSERT_EQ(cria({"batch", "-i", in, "-o", out}).code, 0);
  EXPECT_EQ(cria({"batch", "-i", in, "-o", "-"}).out, read_file(out));
  EXPECT_EQ(cria({"batch"}, many_requests(3)).out, read_file(out)) << "stdin and stdout";
  for (const char* const closed : {"-", "/dev/stdout"}) {
    const Result result =
        cria_in({.output = Surroundings::Output::NoReader}, {"batch", "-i", in, "-o", closed});
    EXPECT_EQ(result.code, 141) << closed;
    EXPECT_EQ(result.err, "") << closed;
  }
}

TEST(Batch, TimesItsNodes) {
  const TempDirectory directory;
  const std::string in = directory.write("in", R"({"prompt": "hi", "max_tokens": 2})");
  const Result result = cria({"batch", "-i", in, "-o", directory.path("out"), "--profile"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.err.find("blk.*.attn_q"), std::string::npos) << result.err;
}

TEST(Batch, ReadsSeveralFiles) {
  const TempDirectory directory;
  const std::string a = directory.write("a", R"({"prompt": "Item 1", "seed": 1, "max_tokens": 4})"),
                    b = directory.write("b", many_requests(3)),
                    all = directory.write("all", read_file(a) + "\n" + read_file(b));
  EXPECT_EQ(cria({"batch", "-i", a, "-i", b}).out, cria({"batch", "-i", all}).out);
}

TEST(Batch, ReportsUnusedFields) {
  const std::string line =
      R"({"messages": [{"role": "user", "content": "a"}], "greeting": 1, "max_tokens": 1})";
  const Result result = cria({"batch"}, line + "\n" + line + "\n");
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err,
            "cria: note: \"greeting\" in request 1 changes nothing: the chat template does not use "
            "it\n");
}

TEST(Batch, FailsIfNoRequestCouldBeAnswered) {
  const TempDirectory directory;
  const std::string out = directory.path("out");
  for (int run = 0; run < 2; ++run) {
    const Result result = cria({"batch", "-o", out}, "What is this?\nAnd this?\n");
    EXPECT_EQ(result.code, 1);
    EXPECT_NE(result.err.find("2 requests could not be answered"), std::string::npos);
  }
  EXPECT_EQ(cria({"batch"}, "").code, 0);
}

TEST(Batch, WrongUsage) {
  EXPECT_EQ(cria({"batch", "-i", "x", "-o", "y", "--parallel", "0"}).code, 2);
  EXPECT_EQ(cria({"batch", "-i", "/no/such/file", "-o", "/tmp/y"}).code, 1);
}

}  // namespace
}  // namespace cria::test
