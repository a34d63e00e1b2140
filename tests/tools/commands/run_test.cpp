#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>
#include <sstream>

#include "model/file/json.h"
#include "tests/tools/paths.h"
#include "tests/tools/process.h"

namespace cria::test {
namespace {

const std::string kQuestion = "What is the capital of France?";
const std::string kAnswer = "The capital of France is Paris.";
const std::string kLine = kAnswer + "\n";  // in a pipe, too

TEST(Run, ReadsFilesOfOtherEditors) {
  const TempDirectory directory;
  const std::string plain = directory.write("plain", "Hello\n"),
                    marked = directory.write("marked", "\xEF\xBB\xBFHello\n"),
                    wide = directory.write("wide", std::string("\xFF\xFEH\0i\0", 6));
  const std::vector<std::string> run = {"run", "--temp", "0", "-n", "8", "--json", "-f"};
  const auto answer = [&](const std::string& file) {
    std::vector<std::string> arguments = run;
    arguments.push_back(file);
    return cria(arguments);
  };
  EXPECT_EQ(Json::parse(answer(marked).out).at("usage"),
            Json::parse(answer(plain).out).at("usage"));
  EXPECT_EQ(answer(wide).code, 1);
  EXPECT_NE(answer(wide).err.find("the text is UTF-16"), std::string::npos);
}

TEST(Run, WantsAMessage) {
  const Result result = cria({"run", "--messages", "[]"});
  EXPECT_EQ(result.code, 1);
  EXPECT_NE(result.err.find("expected at least one message"), std::string::npos) << result.err;
}

TEST(Run, AnswersWithTheChatTemplate) {
  const Result result = cria({"run", "--chat", "-p", kQuestion, "--temp", "0"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, kLine);
  EXPECT_EQ(result.err, "");
}

TEST(Run, TakesThePromptFromAFileOrStdin) {
  const TempDirectory directory;
  const std::string file = directory.write("prompt", kQuestion);
  EXPECT_EQ(cria({"run", "--chat", "-f", file, "--temp", "0"}).out, kLine);
  EXPECT_EQ(cria({"run", "--chat", "--temp", "0"}, kQuestion).out, kLine);
  EXPECT_EQ(cria({"run", "--chat", "--temp", "0", "-"}, kQuestion).out, kLine);
}

TEST(Run, TheTemplateIsTheDefault) {
  const TempDirectory directory;
  const std::string file = directory.write("prompt", kQuestion + "\n");
  EXPECT_EQ(cria({"run", kQuestion, "--temp", "0"}).out, kLine);
  EXPECT_EQ(cria({"run", "-p", kQuestion, "--temp", "0"}).out, kLine);
  EXPECT_EQ(cria({"run", "-f", file, "--temp", "0"}).out, kLine)
      << "its last newline is the file's";
  const Result system =
      cria({"run", "My name is Ana.", "-s", "You are a kind teacher.", "--temp", "0", "--json"});
  const Result none = cria({"run", "My name is Ana.", "--temp", "0", "--json"});
  EXPECT_GT(nlohmann::json::parse(system.out).at("prompt_tokens"),
            nlohmann::json::parse(none.out).at("prompt_tokens"));
  EXPECT_NE(cria({"run", "--raw", kQuestion, "--temp", "0", "-n", "8"}).out, kAnswer.substr(0, 8));
  const std::string ids = cria({"tokenize", "--ids", "-p", " The river"}).out;
  const auto raw =
      nlohmann::json::parse(cria({"run", "--raw", " The river", "-n", "1", "--json"}).out);
  EXPECT_EQ(raw.at("prompt_tokens"), 1 + std::count(ids.begin(), ids.end(), ' ')) << ids;
  for (const std::vector<std::string>& both : std::vector<std::vector<std::string>>{
           {"--chat"}, {"-s", "x"}, {"--messages", file}, {"--chat-template", "chatml"}}) {
    std::vector<std::string> arguments = {"run", "--raw"};
    arguments.insert(arguments.end(), both.begin(), both.end());
    EXPECT_EQ(cria(arguments, "x").code, 2) << both[0];
  }
  for (const std::vector<std::string>& twice :
       std::vector<std::vector<std::string>>{{"-p", "x"}, {"-f", file}, {"--messages", file}}) {
    std::vector<std::string> arguments = {"run", "x"};
    arguments.insert(arguments.end(), twice.begin(), twice.end());
    EXPECT_EQ(cria(arguments).code, 2) << twice[0];
  }
}

TEST(Run, ReadsEscapesOnRequest) {
  const auto prompt_tokens = [](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"run", "--raw", "-n", "0", "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return nlohmann::json::parse(cria(arguments).out).at("prompt_tokens");
  };
  EXPECT_EQ(prompt_tokens({"-e", R"(a\nb\t\\ \"c\" \q)"}), prompt_tokens({"a\nb\t\\ \"c\" \\q"}));
  EXPECT_NE(prompt_tokens({R"(a\nb\nc\n)"}), prompt_tokens({"-e", R"(a\nb\nc\n)"}));
}

// Several answers from one prompt: each depends on its own seed only.
TEST(Run, ChoicesEqualAnswersOfTheirSeeds) {
  const std::vector<std::string> ask = {"run", "Tell me a story.", "--temp", "1", "-n", "24"};
  const auto with = [&ask](std::vector<std::string> more) {
    more.insert(more.begin(), ask.begin(), ask.end());
    return cria(more);
  };
  const auto all = nlohmann::json::parse(with({"--seed", "5", "--choices-of", "3", "--json"}).out);
  ASSERT_EQ(all.size(), 3U);
  std::string text;
  for (std::size_t i = 0; i < 3; ++i) {
    const std::string seed = std::to_string(5 + i);
    const auto alone = nlohmann::json::parse(with({"--seed", seed, "--json"}).out);
    for (const char* const key : {"text", "tokens", "stop_reason", "seed", "choices"})
      EXPECT_EQ(all[i].at(key), alone.at(key)) << seed << key;
    const auto piece = alone.at("text").get<std::string>();
    text += (i == 0 ? "" : text.ends_with('\n') ? "---\n" : "\n---\n") + piece;
  }
  EXPECT_NE(all[0].at("text"), all[1].at("text"));
  EXPECT_EQ(all[0].at("usage").at("prompt_tokens_details").at("cached_tokens"), 0);
  EXPECT_GT(all[2].at("usage").at("prompt_tokens_details").at("cached_tokens"), 0) << "read once";
  EXPECT_EQ(with({"--seed", "5", "--choices-of", "3"}).out, text + "\n");
  const std::vector<std::string> raw = {"run", "--raw", "The river", "-n", "8", "--seed", "1"};
  std::vector<std::string> one = raw;
  one.insert(one.end(), {"--choices-of", "1"});
  EXPECT_EQ(cria(one).out, cria(raw).out);
  for (const std::vector<std::string>& other : std::vector<std::vector<std::string>>{
           {"--stream-json"}, {"--context-shift"}, {"--session", "x"}}) {
    std::vector<std::string> both = {"--choices-of", "2"};
    both.insert(both.end(), other.begin(), other.end());
    EXPECT_EQ(with(both).code, 2) << other[0];
  }
}

TEST(Run, AnEmptyAnswerIsExplained) {
  const Result ended = cria({"run", "hello", "--temp", "0", "--logit-bias", "4+1000"});
  EXPECT_EQ(ended.code, 0);
  EXPECT_EQ(ended.out, "");
  EXPECT_NE(ended.err.find("the answer is empty: the model ended it at once"), std::string::npos)
      << ended.err;
  const Result stopped = cria({"run", "hello", "--temp", "0", "--stop", "Hello"});
  EXPECT_EQ(stopped.out, "");
  EXPECT_NE(stopped.err.find("it began with the stop string \"Hello\""), std::string::npos)
      << stopped.err;
  EXPECT_EQ(cria({"run", "hello", "-n", "0"}).err, "") << "that is what was asked for";
}

TEST(Run, SaysWhatOfALongRawPromptIsForgotten) {
  const std::vector<std::string> raw = {"run", "--raw", "-c", "64", "-n", "1", "--temp", "0"};
  std::string words;
  for (int i = 0; i < 100; ++i) words += " word";
  EXPECT_EQ(cria(raw, words).code, 1);
  std::vector<std::string> shifting = raw;
  shifting.emplace_back("--context-shift");
  const Result cut = cria(shifting, words);
  EXPECT_EQ(cut.code, 0);
  EXPECT_NE(cut.err.find("and the context holds 64: the oldest are forgotten"), std::string::npos)
      << cut.err;
  EXPECT_EQ(cria(shifting, "a word").err, "");
}

TEST(Run, ReportsAContextAboveTraining) {
  for (const std::string command : {"run", "chat"}) {
    const Result above = cria({command, "-c", "1024", "-n", "1"}, "hello");
    EXPECT_EQ(above.err.find(
                  "cria: warning: a context of 1024 tokens, but the model was trained for 512"),
              0U)
        << above.err;
    EXPECT_EQ(cria({command, "-c", "512", "-n", "1"}, "hello").err, "");
  }
}

TEST(Run, ItsJsonHasTheLayoutOfAll) {
  const Result result = cria({"run", "hi", "-n", "1", "--seed", "1", "--json"});
  EXPECT_EQ(result.out, nlohmann::ordered_json::parse(result.out).dump(1) + "\n");
}

TEST(Run, NotesBeginALineOfTheirOwn) {
  const TempDirectory directory;
  const std::string both = directory.path("both");
  const std::string command = "'" + std::string(program_path()) + "' run -v --temp 0 '" +
                              kQuestion + "' > '" + both + "' 2>&1";
  ASSERT_EQ(std::system(command.c_str()), 0);
  EXPECT_NE(read_file(both).find(kAnswer + "\n8 tokens"), std::string::npos) << read_file(both);
}

TEST(Run, ReportsWaitingForTheTerminal) {
  Child child(Child::Kind::Terminal, {"run", "--temp", "0"});
  ASSERT_TRUE(child.wait_for("Ctrl-D ends it")) << child.output();
  child.send(kQuestion + "\n\004");
  EXPECT_TRUE(child.wait_for(kAnswer)) << child.output();
  EXPECT_EQ(child.exit_code(), 0);
}

// SECURITY.md: text of a model or a file cannot drive the terminal; elsewhere it stays as it is.
TEST(Run, AnswersCannotDriveTheTerminal) {
  const std::vector<std::string> ask = {"run", "--temp", "0", "--regex", R"(\x1b\[31mred\u009b32m)",
                                        "hi"};
  const auto with = [&ask](const std::string& more) {
    std::vector<std::string> arguments = ask;
    if (!more.empty()) arguments.push_back(more);
    return arguments;
  };
  const std::string raw = "\033[31mred\302\23332m";
  EXPECT_EQ(cria(ask).out, raw + "\n");
  Child shown(Child::Kind::Terminal, with(""), {"TERM=xterm"});
  EXPECT_TRUE(shown.wait_for("^[[31mred\\u009b32m")) << shown.output();
  EXPECT_EQ(shown.exit_code(), 0);
  Child json(Child::Kind::Terminal, with("--json"), {"TERM=xterm"});
  EXPECT_EQ(json.exit_code(), 0);
  EXPECT_EQ(nlohmann::json::parse(json.output()).at("text"), raw);
  for (const Child* const child : {&shown, &json}) {
    EXPECT_EQ(child->output().find('\033'), std::string::npos) << child->output();
    EXPECT_EQ(child->output().find("\302\233"), std::string::npos) << child->output();
  }
}

TEST(Run, AnswersAConversation) {
  const TempDirectory directory;
  const std::string file =
      directory.write("talk.json", R"([{"role":"system","content":"You are a kind teacher."},
      {"role":"user","content":"My name is Ana."},{"role":"assistant","content":"Nice to meet you, Ana!"},
      {"role":"user","content":"What is my name?"}])");
  const Result result = cria({"run", "--messages", file, "--temp", "0", "-n", "64"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "Your name is Ana.\n");
}

TEST(Run, HasOneSystemMessage) {
  const TempDirectory directory;
  const std::string file = directory.write(
      "talk.json", R"([{"role":"system","content":"Old."},{"role":"user","content":"Hi."}])");
  const std::string shown = directory.write(
      "t.jinja",
      "{% for m in messages %}{{ m.role ~ m.content }}{% endfor %}{{ messages|length }}");
  const std::vector<std::string> arguments = {
      "run", "--messages", file, "--chat-template", shown, "-n", "1", "--temp", "0", "--json"};
  const auto prompt_tokens = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = arguments;
    all.insert(all.end(), more.begin(), more.end());
    const Result result = cria(all);
    EXPECT_EQ(result.code, 0) << result.err;
    return nlohmann::json::parse(result.out).at("prompt_tokens");
  };
  EXPECT_EQ(prompt_tokens({"-s", "Old."}), prompt_tokens({}));
}

TEST(Run, RefusesABadConversation) {
  const TempDirectory directory;
  const std::pair<std::string, std::string> bad[] = {
      {"[{", "not JSON (at byte 3: unexpected end of input; expected string literal)"},
      {R"([{"role":"user","content":"a","content":"b"}])",
       "a key stands twice in one JSON object (key content)"},
      {"{}", "\"messages\" is missing"},
      {R"({"messages":5})", "expected an array of messages, got number"},
      {"[1]", "expected an object, got number (message 0)"},
      {R"([{"role":"user","content":"a"},{"role":"user"}])", "\"content\" is missing (message 1)"},
      {R"([{"role":"user","content":5}])",
       "\"content\": expected a string, got number (message 0)"},
  };
  for (const auto& [text, message] : bad) {
    const std::string file = directory.write("bad.json", text);
    const Result result = cria({"run", "--messages", file});
    EXPECT_EQ(result.code, 1) << text;
    EXPECT_EQ(result.err,
              std::string("cria: error: ").append(file).append(": ").append(message).append("\n"));
    EXPECT_EQ(result.out, "") << text;
  }
  for (const auto& [text, message] :
       {std::pair{R"([{"role":"user","content":"a","images":["x"]}])",
                  R"("messages[0].images": only text is read)"},
        {R"([{"role":"user","content":"a"},{"role":"assistant","content":"b","prefix":true}])",
         R"("prefix": only cria serve continues a message (message 1))"}}) {
    const Result result = cria({"run", "--messages", "-"}, text);
    EXPECT_EQ(result.code, 1) << text;
    EXPECT_NE(result.err.find(message), std::string::npos) << result.err;
  }
  EXPECT_EQ(cria({"run", "--messages", "-"}, "{}").err,
            "cria: error: stdin: \"messages\" is missing\n");
  EXPECT_EQ(cria({"run", "--tools", "-", "hi"}, "5").err,
            "cria: error: stdin: expected an array of tools, got number\n");
  EXPECT_EQ(cria({"run", "--chat-template", "-", "hi"}, "{{").err.find("cria: error: stdin: "), 0U);
}

TEST(Run, ARegistrysNameIsNoPrompt) {
  for (const std::string name : {"qwen3:0.6b", "deepseek-r1:7b", "llama3:latest", "hf.co/a/b"}) {
    const Result result = cria({"run", name, "Hi there"});
    EXPECT_EQ(result.code, 1) << name;
    EXPECT_NE(result.err.find("cria does not download models"), std::string::npos) << result.err;
  }
  EXPECT_EQ(cria({"run", "Note:this", "-n", "1"}).code, 0);
  EXPECT_EQ(cria({"run", "-m", "", "Hi"}).code, 2) << "an unset variable of a shell";
}

TEST(Run, TakesAnotherTemplate) {
  const TempDirectory directory;
  const std::string file = directory.write("t.jinja", "{{ bos_token }}{{ messages[0].content }}");
  const auto plain = cria({"run", "--raw", "-p", " The river", "--temp", "0", "-n", "5"});
  const auto own = cria(
      {"run", "--chat", "--chat-template", file, "-p", " The river", "--temp", "0", "-n", "5"});
  EXPECT_EQ(own.code, 0) << own.err;
  EXPECT_EQ(own.out, plain.out + "\n");
  EXPECT_EQ(
      cria({"run", "--chat", "--chat-template", "chatml", "-p", kQuestion, "--temp", "0"}).out,
      kLine);
  const std::string bad = directory.write("bad.jinja", "a\n{{ raise_exception('no') }}");
  const auto refused = cria({"run", "--chat", "--chat-template", bad, "-p", "x"});
  EXPECT_EQ(refused.code, 1);
  EXPECT_EQ(refused.err, "cria: error: " + bad + ": no (at line 2, column 19)\n");
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"run", "--chat-template", "chatlm", "x"},
        {"template", "--template", "chatlm", "--messages", "-"}})
    EXPECT_EQ(
        cria(arguments, "[]").err,
        "cria: error: chatlm: is neither a file nor a built-in template; did you mean chatml?\n");
}

TEST(Run, SameBytesForAnyThreadsAndChunks) {
  const std::vector<std::string> base = {
      "run", "--raw", "-p", " The river rises in the mountains and", "--temp", "0", "-n", "24"};
  const std::string want = cria(base).out;
  EXPECT_GT(want.size(), 20U);
  for (const auto& more : std::vector<std::vector<std::string>>{{"-t", "1"},
                                                                {"-t", "3"},
                                                                {"-b", "1"},
                                                                {"-b", "7"},
                                                                {"--threads-prefill", "1"},
                                                                {"--no-mmap"}}) {
    std::vector<std::string> arguments = base;
    arguments.insert(arguments.end(), more.begin(), more.end());
    EXPECT_EQ(cria(arguments).out, want) << more.front();
  }
}

TEST(Run, SeedDecides) {
  const auto answer = [](const std::string& seed) {
    return cria({"run", "--raw", "-p", " The river", "--temp", "1.5", "--top-k", "0", "--top-p",
                 "1", "--min-p", "0", "-n", "24", "--seed", seed})
        .out;
  };
  EXPECT_EQ(answer("7"), answer("7"));
  EXPECT_NE(answer("7"), answer("8"));
}

TEST(Run, EverySeedIsTheSameEachTime) {
  const auto run = [](const std::string& seed) {
    return cria({"run", "--raw", "-p", " The river", "--temp", "1.5", "--top-k", "0", "--top-p",
                 "1", "--min-p", "0", "-n", "24", "--json", "--seed", seed});
  };
  for (const std::string seed : {"0", "4294967295", "18446744073709551615"}) {
    const auto first = nlohmann::json::parse(run(seed).out),
               second = nlohmann::json::parse(run(seed).out);
    EXPECT_EQ(first.at("tokens"), second.at("tokens")) << seed;
    EXPECT_EQ(first.at("seed").dump(), seed);
  }
}

TEST(Run, ReportsARandomSeed) {
  const Result any =
      cria({"run", "--raw", "-p", " The river", "-n", "1", "--json", "--seed", "-1"});
  ASSERT_EQ(any.code, 0) << any.err;
  EXPECT_EQ(any.err,
            "cria: note: the seed is " + nlohmann::json::parse(any.out).at("seed").dump() + "\n");
  for (const std::string seed : {"-2", "18446744073709551616", "1.5", "x", ""}) {
    const Result bad = cria({"run", "-p", "x", "-n", "1", "--seed", seed});
    EXPECT_EQ(bad.code, 2) << seed;
    EXPECT_NE(bad.err.find("expected -1 or a whole number up to 18446744073709551615, got " + seed),
              std::string::npos)
        << bad.err;
  }
}

TEST(Run, JsonHasAllFields) {
  const Result result =
      cria({"run", "--chat", "-p", kQuestion, "--temp", "0", "--seed", "5", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json.at("text"), kAnswer);
  EXPECT_EQ(json.at("stop_reason"), "end of generation");
  EXPECT_EQ(json.at("seed"), 5);
  EXPECT_GT(json.at("tokens").size(), 3U);
  EXPECT_GT(json.at("prompt_tokens"), 8);
  EXPECT_GT(json.at("tokens_per_second"), 0);
}

TEST(Run, JsonIsAlsoWhatOthersRead) {
  const auto json = nlohmann::json::parse(
      cria({"run", kQuestion, "--temp", "0", "--json", "--logprobs", "2"}).out);
  EXPECT_EQ(json.at("object"), "chat.completion");
  const auto& choice = json.at("choices").at(0);
  EXPECT_EQ(choice.at("message").at("content"), kAnswer);
  EXPECT_EQ(choice.at("finish_reason"), "stop");
  const auto& tokens = choice.at("logprobs").at("content");
  ASSERT_EQ(tokens.size(), json.at("tokens").size());
  std::string bytes;
  for (const auto& token : tokens) {
    for (const int byte : token.at("bytes")) bytes += static_cast<char>(byte);
    ASSERT_EQ(token.at("top_logprobs").size(), 2U);
    EXPECT_EQ(token.at("top_logprobs")[0].at("token"), token.at("token"))
        << "greedy decoding takes the most likely token";
    EXPECT_EQ(token.at("top_logprobs")[0].at("logprob"), token.at("logprob"));
    EXPECT_LE(token.at("top_logprobs")[1].at("logprob"), token.at("logprob"));
  }
  EXPECT_EQ(bytes, kAnswer);
  const auto& usage = json.at("usage");
  EXPECT_EQ(usage.at("completion_tokens"), tokens.size() + 1) << "and the token that ends it";
  EXPECT_EQ(usage.at("total_tokens"), usage.at("prompt_tokens").get<std::size_t>() +
                                          usage.at("completion_tokens").get<std::size_t>());
  const auto raw = nlohmann::json::parse(
      cria({"run", "--raw", " The river", "-n", "3", "--temp", "0", "--json"}).out);
  EXPECT_EQ(raw.at("object"), "text_completion");
  EXPECT_EQ(raw.at("choices").at(0).at("text"), raw.at("text"));
  EXPECT_EQ(raw.at("choices").at(0).at("finish_reason"), "length");
  EXPECT_EQ(raw.at("choices").at(0).at("logprobs"), nullptr);
}

TEST(Run, StreamJsonIsAnObjectALine) {
  const Result result = cria({"run", kQuestion, "--temp", "0", "--seed", "3", "--stream-json"});
  std::istringstream lines(result.out);
  std::string text;
  nlohmann::json last;
  for (std::string line; std::getline(lines, line);) {
    last = nlohmann::json::parse(line);
    if (last.at("object") == "chat.completion.chunk")
      text += last.at("choices").at(0).at("delta").at("content").get<std::string>();
  }
  EXPECT_EQ(text, kAnswer);
  EXPECT_EQ(last.at("object"), "chat.completion");
  EXPECT_EQ(last.at("text"), kAnswer);
  EXPECT_EQ(last.at("seed"), 3);
  EXPECT_GT(count_lines(result.out), 5U);
}

TEST(Run, EndsAtLimitAndStopText) {
  const auto json = nlohmann::json::parse(
      cria({"run", "--raw", "-p", " The river", "--temp", "0", "-n", "5", "--json"}).out);
  EXPECT_EQ(json.at("tokens").size(), 5U);
  EXPECT_EQ(json.at("stop_reason"), "length");
  EXPECT_EQ(
      cria({"run", "--chat", "-p", kQuestion, "--temp", "0", "--stop", "[x]", "--stop", " of Fr"})
          .out,
      "The capital\n");
  EXPECT_EQ(cria({"run", "--raw", "-p", " The river", "-n", "0"}).out, "");
}

TEST(Run, BiasChangesTheChoice) {
  const Result result = cria({"run", "--chat", "-p", kQuestion, "--temp", "0", "-n", "3", "--json",
                              "--logit-bias", "300+1000"});
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json.at("tokens"), (std::vector<int>{300, 300, 300}));
}

TEST(Run, IgnoreEosContinues) {
  const auto json = nlohmann::json::parse(
      cria({"run", "--chat", "-p", kQuestion, "--temp", "0", "-n", "40", "--ignore-eos", "--json"})
          .out);
  EXPECT_EQ(json.at("tokens").size(), 40U);
}

TEST(Run, ExplainsAFullContext) {
  const Result result =
      cria({"run", "--raw", "-p", " The river", "--temp", "0", "-c", "16", "--ignore-eos"});
  EXPECT_EQ(result.code, 0);
  EXPECT_GT(result.out.size(), 5U);
  EXPECT_NE(result.err.find("context of 16 tokens is full"), std::string::npos) << result.err;
  const Result shifted = cria({"run", "--raw", "-p", " The river", "--temp", "0", "-c", "16", "-n",
                               "40", "--ignore-eos", "--context-shift", "--json"});
  EXPECT_EQ(nlohmann::json::parse(shifted.out).at("tokens").size(), 40U) << shifted.err;
}

TEST(Run, RejectsAnOversizedPrompt) {
  const Result result =
      cria({"run", "--raw", "-c", "8", "-p", "one two three four five six seven eight nine ten"});
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.out, "");
  EXPECT_NE(result.err.find("too long: expected at most 8 tokens, got "), std::string::npos)
      << result.err;
}

TEST(Run, NotesGoToStderr) {
  const Result result = cria({"run", "--chat", "-p", kQuestion, "--temp", "0", "-v"});
  EXPECT_EQ(result.out, kLine);
  EXPECT_NE(result.err.find("tokens/s"), std::string::npos) << result.err;
  EXPECT_EQ(result.err.find('\033'), std::string::npos);
}

TEST(Run, FullDiskIsAnError) {
  const std::string command =
      std::string(program_path()) + " run --raw -p ' The river' -n 4 > /dev/full 2> ";
  const TempDirectory directory;
  const int status = std::system((command + directory.path("err")).c_str());
  EXPECT_EQ(WEXITSTATUS(status), 1);
  EXPECT_EQ(read_file(directory.path("err")),
            "cria: error: stdout: cannot be written: No space left on device\n");
}

TEST(Run, PutsPipedTextBeforeThePrompt) {
  const auto prompt_of = [](const std::vector<std::string>& more, const std::string& input) {
    std::vector<std::string> arguments = {"run", "-n", "1", "--temp", "0", "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Result result = cria(arguments, input);
    EXPECT_EQ(result.code, 0) << result.err;
    return nlohmann::json::parse(result.out).at("prompt_tokens").get<int>();
  };
  const int both = prompt_of({"one\ntwo\n\nSay it."}, "");
  EXPECT_EQ(prompt_of({"Say it."}, "one\ntwo\n"), both);
  EXPECT_EQ(prompt_of({"-p", "Say it."}, "one\ntwo"), both);
  EXPECT_LT(prompt_of({"Say it."}, "\n"), both);
  const std::string capital = "What is the capital of France?";
  EXPECT_EQ(cria({"run", "--temp", "0", "--raw", "of France?"}, "capital").out,
            cria({"run", "--temp", "0", "--raw", "capital\n\nof France?"}).out);
  EXPECT_EQ(
      cria({"run", "--temp", "0", "--tools", "-", "--tool-format", "hermes", capital}, "[]").code,
      0)
      << "stdin has the tools";
}

TEST(Run, RefusesPipedTextWithMessages) {
  const char* const talk = R"([{"role": "user", "content": "Hi"}])";
  const Result result = cria({"run", "--messages", talk, "-n", "1"}, "a text\n");
  EXPECT_EQ(result.code, 2);
  EXPECT_NE(result.err.find("stdin has a text that would be lost"), std::string::npos)
      << result.err;
}

TEST(Run, NotesUnusedSettings) {
  const Result request =
      cria({"run", "--messages",
            R"({"messages": [{"role": "user", "content": "Hi"}], "temperature": 2, "tools": []})",
            "-n", "1"});
  EXPECT_EQ(request.code, 0) << request.err;
  EXPECT_NE(request.err.find("note: \"temperature\" in --messages changes nothing"),
            std::string::npos)
      << request.err;
  EXPECT_EQ(request.err.find("tools"), std::string::npos) << request.err;
  const Result escaped = cria({"run", "one\\ntwo", "-n", "1"});
  EXPECT_NE(escaped.err.find("note: \\n in the prompt is two characters; -e"), std::string::npos)
      << escaped.err;
  const Result system = cria({"run", "one", "-s", "a\\nb", "-n", "1"});
  EXPECT_NE(system.err.find("\\n in the system message is two"), std::string::npos) << system.err;
  const Result stop = cria({"run", "one", "--stop", "\\n", "-n", "1"});
  EXPECT_NE(stop.err.find("note: \\n in --stop is two characters; --stop $'\\n'"),
            std::string::npos)
      << stop.err;
  EXPECT_EQ(cria({"run", "--raw", "-e", "The", "--stop", "\\x \\n", "--seed", "1", "-n", "2"}).err,
            "");
  EXPECT_EQ(cria({"run", "-p", "-", "--temp", "0"}, "Hi").out,
            cria({"run", "Hi", "--temp", "0"}).out);
}

TEST(Run, ASessionFileSparesReading) {
  const TempDirectory directory;
  const std::string file = directory.path("session");
  const std::vector<std::string> arguments = {
      "run",       "--raw", "-p",    "The river rises in the mountains", "--temp", "0", "-n", "8",
      "--session", file,    "--json"};
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
  const Result nowhere =
      cria({"run", "-p", "x", "-n", "1", "--session", directory.path("no/such")});
  EXPECT_EQ(nowhere.code, 1);
  EXPECT_EQ(nowhere.out, "") << "it is said before anything is computed";
}

TEST(Run, CtrlCKeepsTheText) {
  Child child(Child::Kind::Pipe, {"run", "--raw", "-p", " The river", "--temp", "0", "--ignore-eos",
                                  "--context-shift"});
  ASSERT_TRUE(child.wait_for(" "));
  child.signal(SIGINT);
  EXPECT_EQ(child.exit_code(), 130);
  EXPECT_GT(child.output().size(), 0U);
}

TEST(Run, SamplersAreOptions) {
  const auto with = [](std::vector<std::string> more) {
    more.insert(more.begin(),
                {"run", "-p", " The river rises in", "-n", "12", "--seed", "7", "--temp", "2"});
    return cria(more);
  };
  const std::string want = with({}).out;
  EXPECT_EQ(with({}).out, want);
  for (const std::vector<std::string>& more : std::vector<std::vector<std::string>>{
           {"--samplers", "temperature;top_k", "--top-k", "2"},
           {"--mirostat", "2", "--mirostat-ent", "0.01", "--mirostat-lr", "1"},
           {"--mirostat", "1", "--mirostat-ent", "0.01", "--mirostat-lr", "1"},
           {"--top-n-sigma", "0.1"},
           {"--dynatemp-range", "2", "--dynatemp-exp", "3"},
           {"--xtc-probability", "1", "--xtc-threshold", "0.001"}}) {
    const Result result = with(more);
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_NE(result.out, want) << more[0];
    EXPECT_EQ(with(more).out, result.out) << more[0];
  }
}

TEST(Run, DryEndsARepetition) {
  std::vector<std::string> arguments = {
      "run", "--raw", "-p",     " a river and a lake and a river and a lake and a",
      "-n",  "4",     "--temp", "0"};
  const std::string repeated = cria(arguments).out;
  arguments.insert(arguments.end(), {"--dry-multiplier", "100", "--dry-allowed-length", "1",
                                     "--dry-sequence-breaker", "none"});
  const Result result = cria(arguments);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.out, repeated);
}

TEST(Run, InvalidSamplersAreUsageErrors) {
  for (const std::vector<std::string>& bad :
       std::vector<std::vector<std::string>>{{"--samplers", "top_k;kernel"},
                                             {"--samplers", "top_k;top_k"},
                                             {"--mirostat", "3"},
                                             {"--xtc-probability", "-1"},
                                             {"--dry-multiplier", "nan"},
                                             {"--top-n-sigma", "inf"},
                                             {"--temp", "nan"},
                                             {"--dry-base", "0.5"},
                                             {"--dynatemp-range", "-1"}}) {
    std::vector<std::string> arguments = {"run", "-p", "x"};
    arguments.insert(arguments.end(), bad.begin(), bad.end());
    const Result result = cria(arguments);
    EXPECT_EQ(result.code, 2) << bad[0] << ' ' << bad[1];
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
    EXPECT_EQ(result.out, "");
  }
}

TEST(Run, CtrlCWipesTheProgressOfAPrompt) {
  std::string words;
  for (int i = 0; i < 3500; ++i) words += "word ";
  Child child(Child::Kind::Terminal,
              {"run", "-m", kDemo, "-c", "4096", "-b", "64", "-t", "1", words},
              {"CRIA_ISA=scalar"});
  ASSERT_TRUE(child.wait_for("reading [")) << child.output();
  child.signal(SIGINT);
  ASSERT_TRUE(child.wait_for("left\r\033[K")) << child.output();
  EXPECT_EQ(child.exit_code(), 130);
  EXPECT_EQ(child.output().substr(child.output().rfind("left")), "left\r\033[K\r\n");
}

TEST(Run, GuessesChangeNoAnswer) {
  const auto answer = [](std::vector<std::string> more) {
    std::vector<std::string> arguments = {
        "run",          "--raw",  "-p", "one two three, one two three, one two",
        "--ignore-eos", "-n",     "60", "--temp",
        "0.4",          "--seed", "3",  "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Result result = cria(arguments);
    EXPECT_EQ(result.code, 0) << result.err;
    return nlohmann::json::parse(result.out);
  };
  const auto off = answer({"--speculate", "off"});
  EXPECT_EQ(off.at("speculation").at("drafted"), 0);
  const auto lookup = answer({"--speculate", "lookup"});
  EXPECT_GT(lookup.at("speculation").at("drafted"), 0);
  EXPECT_GE(lookup.at("speculation").at("drafted"), lookup.at("speculation").at("kept"));
  for (const auto& other : {lookup, answer({}), answer({"--draft", kDemo})})
    EXPECT_EQ(other.at("tokens"), off.at("tokens"));
  EXPECT_EQ(cria({"run", "x", "--speculate", "much"}).code, 2);
  EXPECT_EQ(cria({"run", "x", "--draft", "/no/such/model.gguf"}).code, 1);
}

}  // namespace
}  // namespace cria::test
