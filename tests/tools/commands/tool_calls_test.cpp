// Tools offered to a model, and its calls of them.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "model/file/json.h"
#include "tests/engine/session/scripted_model.h"
#include "tests/tools/process.h"

namespace cria::test {
namespace {

const std::string kCallingTemplate =
    "{% for m in messages %}{{ '<|im_start|>' ~ m.role ~ ' ' ~ m.content ~ '<|im_end|>' }}{% "
    "endfor %}"
    "{% if tools %}{{ tools|tojson }} <tool_call>{% endif %}{% if add_generation_prompt "
    "%}<|im_start|>{% "
    "endif %}";

class ToolCalls : public testing::Test {
 protected:
  void SetUp() override {
    scripted_file(kCallingTemplate, {"I look. ", "<tool_call>", R"({"name": "look",)",
                                     R"( "arguments": {"x": 1.0}})", "</tool_call>"})
        .write(model_);
  }

  Result run(std::vector<std::string> more) {
    std::vector<std::string> arguments = {"run", "-m", model_, "--temp", "0", "--seed", "1", "hi"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return cria(arguments);
  }

  TempDirectory directory_;
  std::string model_ = directory_.path("caller.gguf");
  std::string tools_ =
      directory_.write("tools.json", R"([{"name": "look", "parameters": {"type": "object"}}])");
};

TEST_F(ToolCalls, JsonHasThemAsOpenAi) {
  const Result result = run({"--tools", tools_, "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const SortedJson all = SortedJson::parse(result.out);
  EXPECT_EQ(all.at("text"), "I look.");
  const SortedJson& choice = all.at("choices").at(0);
  EXPECT_EQ(choice.at("finish_reason"), "tool_calls");
  EXPECT_EQ(choice.at("message").at("content"), "I look.");
  const SortedJson& call = choice.at("message").at("tool_calls").at(0);
  EXPECT_EQ(call.at("type"), "function");
  EXPECT_EQ(call.at("function").at("name"), "look");
  EXPECT_EQ(call.at("function").at("arguments"), R"({"x": 1.0})");
  EXPECT_EQ(call.at("id").get<std::string>().size(), 29U);
  EXPECT_EQ(SortedJson::parse(run({"--tools", tools_, "--json"}).out).at("choices"),
            all.at("choices"))
      << "ids are the same each time";
}

TEST_F(ToolCalls, PiecesAndLines) {
  std::istringstream lines(run({"--tools", tools_, "--stream-json"}).out);
  std::string content;
  SortedJson calls = SortedJson::array();
  for (std::string line; std::getline(lines, line);) {
    const SortedJson piece = SortedJson::parse(line);
    if (piece.at("object") != "chat.completion.chunk") continue;
    const SortedJson& delta = piece.at("choices").at(0).at("delta");
    content += delta.value("content", "");
    if (delta.contains("tool_calls")) calls.push_back(delta.at("tool_calls").at(0));
  }
  EXPECT_EQ(content, "I look.");
  ASSERT_EQ(calls.size(), 1U);
  EXPECT_EQ(calls[0].at("index"), 0);
  EXPECT_EQ(calls[0].at("function").at("name"), "look");
  EXPECT_EQ(run({"--tools", tools_}).out,
            "I look.\n{\"name\":\"look\",\"arguments\":{\"x\":1.0}}\n");
}

// A pipe can be read only once.
TEST_F(ToolCalls, ToolsMayComeOnStdin) {
  const Result result = cria(
      {"run", "-m", model_, "--temp", "0", "--seed", "1", "hi", "--tools", "-"}, read_file(tools_));
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, run({"--tools", tools_}).out);
}

TEST_F(ToolCalls, WithoutToolsItIsText) {
  EXPECT_EQ(run({}).out,
            R"(I look. <tool_call>{"name": "look", "arguments": {"x": 1.0}}</tool_call>)"
            "\n");
}

TEST_F(ToolCalls, ToolsReachTheTemplate) {
  const std::string talk = directory_.write("talk.json", R"([{"role": "user", "content": "hi"}])");
  const auto shown = [&](const std::string& tools, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {"template", "-m",      model_, "--messages",
                                          talk,       "--tools", tools};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return cria(arguments);
  };
  EXPECT_NE(shown(tools_).out.find(R"([{"type": "function", "function": {"name": "look")"),
            std::string::npos)
      << shown(tools_).out;
  for (const std::string bad : {"{", "{}", "5", "[5]", R"([{"function": {}}])"}) {
    const Result result = shown(directory_.write("bad.json", bad));
    EXPECT_EQ(result.code, 1) << bad;
    EXPECT_NE(result.err.find("bad.json: "), std::string::npos) << result.err;
  }
}

TEST_F(ToolCalls, RejectsUnknownFormats) {
  const std::string odd = directory_.write("odd.jinja", "{{ tools }} {{ messages[0].content }}");
  const Result result = run({"--tools", tools_, "--chat-template", odd});
  EXPECT_EQ(result.code, 1);
  EXPECT_NE(result.err.find("does not show how this model calls tools"), std::string::npos)
      << result.err;
  EXPECT_EQ(
      run({"--tools", tools_, "--chat-template", odd, "--tool-format", "hermes", "-n", "1"}).code,
      0);
  EXPECT_EQ(run({"--tools", tools_, "--tool-format", "none"}).code, 2);
}

// A template that knows no tools: the system message tells of them.
TEST_F(ToolCalls, TemplatesWithoutToolsAreHelped) {
  const std::string talk =
      directory_.write("talk.json", R"([{"role": "system", "content": "Be kind."},
      {"role": "user", "content": "hi"},
      {"role": "assistant", "content": null, "tool_calls": [{"id": "1", "type": "function",
          "function": {"name": "look", "arguments": "{\"x\": 1}"}}]},
      {"role": "tool", "tool_call_id": "1", "content": "a cat"}])");
  const Result result =
      cria({"template", "--template", "chatml", "--messages", talk, "--tools", tools_});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out.find("<|im_start|>system\nBe kind.\n\n"), 0U) << result.out;
  EXPECT_NE(result.out.find("<tools>\n{\"type\":\"function\",\"function\":{\"name\":\"look\""),
            std::string::npos)
      << result.out;
  EXPECT_NE(
      result.out.find(
          "<|im_start|>assistant\n<tool_call>\n{\"name\":\"look\",\"arguments\":{\"x\":1}}\n"
          "</tool_call><|im_end|>\n<|im_start|>user\n<tool_response>\na cat\n</tool_response>"),
      std::string::npos)
      << result.out;
}

// Also where no tools are offered any more.
TEST_F(ToolCalls, EarlierCallsAreTexts) {
  const std::string talk = directory_.write("talk.json", R"([{"role": "user", "content": "hi"},
      {"role": "assistant", "content": null, "tool_calls": [{"id": "1", "type": "function",
          "function": {"name": "look", "arguments": "{}"}}]},
      {"role": "tool", "tool_call_id": "1", "content": "a cat"}])");
  const Result result = cria({"template", "--template", "chatml", "--messages", talk});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out.find("<tools>"), std::string::npos);
  EXPECT_NE(result.out.find("<tool_call>\n{\"name\":\"look\",\"arguments\":{}}\n</tool_call>"),
            std::string::npos)
      << result.out;
  EXPECT_NE(result.out.find("<tool_response>\na cat\n</tool_response>"), std::string::npos)
      << result.out;
}

// OpenAI's arguments are texts; templates print objects, or join texts.
TEST_F(ToolCalls, ArgumentsAreWhatTheTemplateNeeds) {
  const std::string talk =
      directory_.write("talk.json", R"([{"role": "assistant", "content": "", "tool_calls":
      [{"type": "function", "function": {"name": "look", "arguments": "{\"x\": 1}"}}]}])");
  const auto shown = [&](const std::string& expression) {
    const std::string file = directory_.write(
        "t.jinja", "{% set f = messages[0].tool_calls[0].function %}" + expression);
    return cria({"template", "--template", file, "--messages", talk}).out;
  };
  EXPECT_EQ(shown("{{ f.arguments|tojson }}"), "{\"x\": 1}");
  EXPECT_EQ(shown("{{ 'a' + f.arguments + 'b' }}"), "a{\"x\": 1}b");
}

}  // namespace
}  // namespace cria::test
