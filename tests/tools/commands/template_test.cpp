// `cria template`: the rendering, exactly.
#include <gtest/gtest.h>

#include "tests/tools/process.h"

namespace cria::test {
namespace {

constexpr const char* kTalk =
    R"([{"role":"user","content":"Hi"},{"role":"assistant","content":"Yo"},{"role":"user","content":"Bye"}])";

TEST(Template, PrintsTheModelsRendering) {
  const TempDirectory directory;
  const std::string talk = directory.write("talk.json", kTalk);
  const Result result = cria({"template", "--messages", talk});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out,
            "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nYo<|im_end|>\n<|im_start|>"
            "user\nBye<|im_end|>\n"
            "<|im_start|>assistant\n");
  EXPECT_EQ(result.err, "");
  const Result ended = cria({"template", "--messages", "-", "--no-generation-prompt"}, kTalk);
  EXPECT_EQ(ended.out + "<|im_start|>assistant\n", result.out);
}

TEST(Template, TakesAFileTokensAndDate) {
  const TempDirectory directory;
  const std::string file =
      directory.write("t.jinja",
                      "{{ bos_token }}{{ strftime_now('%d %b %Y') }} {{ tools|length "
                      "}}{{ eos_token }}{{ messages|length }}\n");
  const Result result = cria({"template", "--template", file, "--messages", "-", "--bos-token",
                              "<B>", "--eos-token", "<E>", "--date", "2026-11-20"},
                             R"({"messages": [], "tools": [1, 2]})");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "<B>20 Nov 2026 2<E>0");
  EXPECT_EQ(cria({"template", "--template", "plain", "--messages", "-"}, kTalk).out,
            "User: Hi\nAssistant: Yo\nUser: Bye\nAssistant:");
}

// A default of the configuration is not a wish for this conversation.
TEST(Template, KeepsASystemMessageUnlessAnotherIsTyped) {
  const char* const talk =
      R"([{"role": "system", "content": "S"}, {"role": "user", "content": "Hi"}])";
  const std::vector<std::string> words = {"template", "--template", "plain", "--messages", "-"};
  const auto text = [&](std::vector<std::string> more, const char* messages) {
    more.insert(more.begin(), words.begin(), words.end());
    return cria(more, messages, {"CRIA_SYSTEM=X"}).out;
  };
  EXPECT_EQ(text({}, talk).find("S\n"), 0U) << text({}, talk);
  EXPECT_EQ(text({"-s", "T"}, talk).find("T\n"), 0U) << text({"-s", "T"}, talk);
  EXPECT_NE(text({}, R"([{"role": "user", "content": "Hi"}])").find("X"), std::string::npos);
}

// A template that prints the content gets a string, and a template that iterates over it gets
// parts. `cria serve` does the same.
TEST(Template, JoinsPartsOfText) {
  const TempDirectory directory;
  const std::string file =
      directory.write("t.jinja", "{% for m in messages %}{{ m.content }}{% endfor %}");
  const char* const talk = R"([{"role": "user", "content": [{"type": "text", "text": "Hi "},
                                                            {"type": "text", "text": "there"}]}])";
  const Result result = cria({"template", "--template", file, "--messages", "-"}, talk);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "Hi there");
  const std::string parts = directory.write(
      "parts.jinja",
      "{% for m in messages %}{% for p in m.content %}[{{ p.text }}]{% endfor %}{% endfor %}");
  const Result walked = cria({"template", "--template", parts, "--messages", "-"}, talk);
  EXPECT_EQ(walked.code, 0) << walked.err;
  EXPECT_EQ(walked.out, "[Hi ][there]");
}

// Python's integers have any size; a tool whose limits change is another tool.
TEST(Template, KeepsTheDigitsOfLargeIntegers) {
  const TempDirectory directory;
  const std::string file = directory.write(
      "t.jinja",
      "{{ messages[0].tool_calls[0].function.arguments|tojson }}{{ tools|tojson }}{{ big }}");
  const Result result = cria({"template", "--template", file, "--messages", "-", "--tools",
                              directory.write("tools.json", R"([{"name": "f", "maximum":
                                              115792089237316195423570985008687907853}])"),
                              "--chat-template-kwargs", R"({"big": -99999999999999999999})"},
                             R"([{"role": "assistant", "content": "", "tool_calls": [{"id": "1",
      "type": "function", "function": {"name": "f", "arguments":
      {"n": 123456789012345678901234567890}}}]}])");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out,
            "{\"n\": 123456789012345678901234567890}[{\"type\": \"function\", \"function\": "
            "{\"name\": \"f\", \"maximum\": 115792089237316195423570985008687907853}}]"
            "-99999999999999999999");
}

TEST(Template, WarnsIfTheLastQuestionIsLeftOut) {
  const TempDirectory directory;
  const std::string file = directory.write(
      "t.jinja",
      "{% for m in messages %}{{ m.content }};{% if loop.index > 1 %}{% break %}{% endif %}"
      "{% endfor %}");
  const Result result = cria({"template", "--template", file, "--messages", "-"}, kTalk);
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, "Hi;Yo;");
  EXPECT_NE(result.err.find("leaves out the text of the last message"), std::string::npos);
  EXPECT_EQ(cria({"run", "--chat-template", file, "--messages", "-"}, kTalk).code, 1);
}

TEST(Template, WarnsIfTheSystemMessageIsLeftOut) {
  const char* const only_users =
      "{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}{% endif %}{% endfor %}";
  const std::vector<std::string> words = {"-s", "Be kind.", "-p", "Hi"};
  const auto with = [&](std::vector<std::string> command) {
    command.insert(command.end(), words.begin(), words.end());
    return cria(command);
  };
  const Result result = with({"template", "--template", only_users});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, "Hi");
  EXPECT_NE(result.err.find("leaves out the system message"), std::string::npos) << result.err;
  EXPECT_EQ(with({"run", "-n", "1", "--chat-template", only_users}).code, 1);
}

// OpenAI and cria serve return answers without content, refusals and thoughts.
TEST(Template, TakesAnswersAsServersReturnThem) {
  const auto shown = [](const std::string& answer) {
    const Result result =
        cria({"template", "--messages", "-", "--no-generation-prompt"},
             R"([{"role":"user","content":"Hi"},{"role":"assistant",)" + answer + "}]");
    EXPECT_EQ(result.code, 0) << answer << result.err;
    return result.out;
  };
  const std::string empty = shown(R"("content":"")"), no = shown(R"("content":"No.")");
  EXPECT_EQ(shown(R"("content":null)"), empty);
  EXPECT_EQ(shown(R"("refusal":null)"), empty);
  EXPECT_EQ(shown(R"("content":null,"refusal":"No.")"), no);
  EXPECT_EQ(shown(R"("content":[{"type":"thinking","thinking":"?"},
                                {"type":"refusal","refusal":"No."}])"),
            no);
}

TEST(Template, AnEmptySystemMessageRemovesTheOneOfTheFile) {
  const char* const talk =
      R"([{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"}])";
  EXPECT_EQ(cria({"template", "-s", "", "--messages", talk}).out,
            cria({"template", "-p", "Hi"}).out);
}

TEST(Template, VariablesAreGivenOneByOne) {
  const Result result =
      cria({"template", "--template", "{{ a }}{{ b }}{{ messages[0].content }}",
            "--chat-template-kwargs", R"({"a": 1, "b": 2})", "--chat-template-kwargs",
            R"({"b": 3, "enable_thinkng": true})", "-p", "Hi"});
  EXPECT_EQ(result.out, "13Hi");
  EXPECT_NE(result.err.find("\"enable_thinkng\" in --chat-template-kwargs changes nothing"),
            std::string::npos)
      << result.err;
}

TEST(Template, RenderingsCannotDriveTheTerminal) {
  const TempDirectory directory;
  const std::string talk =
      directory.write("talk.json", R"([{"role":"user","content":"\u001b[31mred"}])");
  EXPECT_NE(cria({"template", "--messages", talk}).out.find("\033[31mred"), std::string::npos);
  Child child(Child::Kind::Terminal, {"template", "--messages", talk});
  EXPECT_TRUE(child.wait_for("\n^[[31mred<|im_end|>")) << child.output();
  EXPECT_EQ(child.exit_code(), 0);
}

TEST(Template, ReportsUnusedVariables) {
  const Result result = cria({"template", "--messages", "-", "--no-think"}, kTalk);
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err.find("cria: note: "), 0U) << result.err;
  EXPECT_EQ(result.out, cria({"template", "--messages", "-"}, kTalk).out);
}

TEST(Template, TakesOneMessageAsText) {
  const char* const talk =
      R"([{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"}])";
  const Result result = cria({"template", "-s", "Be kind.", "-p", "Hi"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, cria({"template", "--messages", talk}).out);
}

TEST(Template, UsesEveryOption) {
  EXPECT_EQ(cria({"template", "--messages", "-", "--tool-format", "hermes"}, kTalk).code, 2);
}

// The role is renamed as in `cria serve`.
TEST(Template, ADeveloperIsTheSystem) {
  for (const std::string more : {"", R"(, "name": "Ana")"}) {
    const auto shown = [&](const std::string& role) {
      return cria({"template", "--template", "chatml", "--messages", "-"},
                  R"([{"role": ")" + role + R"(", "content": "Be kind.")" + more + "}]");
    };
    EXPECT_EQ(shown("developer").code, 0) << shown("developer").err;
    EXPECT_EQ(shown("developer").out, shown("system").out);
  }
}

TEST(Template, ReportsThePlaceOfAnError) {
  const TempDirectory directory;
  const std::string file = directory.write("t.jinja", "{{ bos_token }}\n  {{ messages[0].x.y }}");
  const Result result = cria({"template", "--template", file, "--messages", "-"}, kTalk);
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err, "cria: error: " + file +
                            ": 'dict object' has no attribute 'x' (at line 2, column 19)\n");
}

TEST(Template, WrongUsage) {
  EXPECT_EQ(cria({"template"}).code, 2);
  EXPECT_EQ(cria({"template", "--messages", "-", "-p", "x"}, kTalk).code, 2);
  EXPECT_EQ(cria({"template", "--messages", "-", "--date", "tomorrow"}, kTalk).code, 2);
  EXPECT_EQ(cria({"template", "--messages", "-", "--template", "/no/such/file"}, kTalk).code, 1);
}

}  // namespace
}  // namespace cria::test
