#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/constrain/constraint.h"
#include "tests/engine/demo.h"
#include "tests/engine/session/scripted_model.h"

namespace cria::test {
namespace {

constexpr const char* kTwoTools =
    R"([{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties":
    {"on": {"type": "boolean"}}, "required": ["on"], "additionalProperties": false}}},
    {"type": "function", "function": {"name": "g"}}])";

TEST(ToolCalls, ANamedOneIsCalledOnce) {
  const std::string f = R"({"name": "f", "arguments": {"on": true}})",
                    g = R"({"name": "g", "arguments": {}})";
  for (const bool parallel : {true, false}) {
    for (const std::string name : {"", "f"}) {
      const auto calls = Constraint::tool_calls({CallForm::Mistral, kTwoTools, name, parallel});
      EXPECT_TRUE(calls->accepts("[TOOL_CALLS][" + f + "]"));
      EXPECT_EQ(calls->accepts("[TOOL_CALLS][" + f + ", " + f + "]"), parallel && name.empty());
      EXPECT_EQ(calls->accepts("[TOOL_CALLS][" + g + "]"), name.empty());
      EXPECT_FALSE(calls->begins(R"([TOOL_CALLS][{"name": "f", "arguments": {"on": 1)"));
    }
  }
}

std::string every_byte() {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  return all;
}

/// Texts that hold no call of any form, to the last byte.
std::vector<std::string> free_texts() {
  return {"",
          "Hello.",
          "<tool_cal",
          "<<tool_cal> <tool_call",
          "[TOOL_CALL] [TOOL_CALLS",
          R"({"name": "Bob", "age": 3})",
          "{ }",
          "[1]",
          every_byte() + every_byte()};
}

TEST(ToolCalls, AfterTextOfAnyKind) {
  const std::string call =
      "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"on\": true}}\n</tool_call>";
  const std::string dense =
      "<tool_call>{\"name\": \"f\", \"arguments\": {\"on\": true}}</tool_call>";
  for (const bool parallel : {true, false}) {
    const auto calls = Constraint::tool_calls({CallForm::Hermes, kTwoTools, "", parallel, true});
    for (const std::string& text : free_texts()) {
      EXPECT_TRUE(calls->accepts(text)) << text;
      EXPECT_TRUE(calls->accepts(text + " " + call)) << text;
      EXPECT_TRUE(calls->accepts(text + dense)) << text;
      EXPECT_FALSE(calls->accepts(text + " " + call.substr(0, call.size() - 1))) << text;
      EXPECT_EQ(calls->accepts(call + text + "\n" + call), parallel) << text;
    }
    for (const char* const wrong :
         {"<tool_call> ", "<tool_call>\n{\"name\": \"h",
          "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"on\": 1", "<<tool_call>x"})
      EXPECT_FALSE(calls->begins(std::string("a ") + wrong)) << wrong;
  }
}

TEST(ToolCalls, AfterTextInMistralsForms) {
  const auto calls = Constraint::tool_calls({CallForm::Mistral, kTwoTools, "", true, true});
  for (const std::string& text : free_texts()) {
    EXPECT_TRUE(calls->accepts(text)) << text;
    EXPECT_TRUE(calls->accepts(text + R"([TOOL_CALLS]f[ARGS]{"on": true}[TOOL_CALLS]g[ARGS]{})"))
        << text;
    EXPECT_TRUE(calls->accepts(text + R"([TOOL_CALLS][{"name": "f", "arguments": {"on": false}}])"))
        << text;
  }
  for (const char* const wrong :
       {"[TOOL_CALLS]h", "[TOOL_CALLS]f[ARGS]{\"on\": 0", "[TOOL_CALLS]f{"})
    EXPECT_FALSE(calls->begins(wrong)) << wrong;
}

TEST(ToolCalls, MayBeTheCompleteAnswer) {
  for (const bool parallel : {true, false}) {
    const auto calls = Constraint::tool_calls({CallForm::Llama, kTwoTools, "", parallel, true});
    for (const std::string& text : free_texts()) EXPECT_TRUE(calls->accepts(text)) << text;
    const std::string f = R"({"name": "f", "parameters": {"on": true}})";
    for (const std::string before : {"", "\n", "<|python_tag|>"})
      EXPECT_TRUE(calls->accepts(before + f)) << before;
    EXPECT_TRUE(calls->accepts(R"({ "name" : "g", "parameters": {"any": [1]}})"));
    EXPECT_EQ(calls->accepts(f + "; " + f), parallel);
    EXPECT_TRUE(calls->accepts("It is " + f + " so."));  // text
    for (const char* const wrong :
         {R"({"name": "f"})", R"({"name": "f", "parameters": {"on": 1)", R"({"name": "f", "x)"})
      EXPECT_FALSE(calls->begins(wrong)) << wrong;
    EXPECT_FALSE(calls->begins(f + "."));
  }
}

TEST(ToolCalls, ArgumentsAreObjectsAmongSeveralTypes) {
  for (const char* const type : {R"(["object"])", R"(["null", "object"])"}) {
    const std::string tools =
        R"([{"type": "function", "function": {"name": "h", "strict": true, "parameters":
        {"required": ["a"], "properties": {"a": {"type": "null"}}, "type": )" +
        std::string(type) + "}}}]";
    const auto calls = Constraint::tool_calls({CallForm::Mistral, tools, ""});
    EXPECT_TRUE(calls->accepts(R"([TOOL_CALLS][{"name": "h", "arguments": {"a": null}}])"));
    EXPECT_FALSE(calls->accepts(R"([TOOL_CALLS][{"name": "h", "arguments": null}])"));
    EXPECT_FALSE(calls->accepts(R"([TOOL_CALLS][{"name": "h", "arguments": {}}])"));
  }
}

TEST(ToolCalls, ReportsUnconstrainedCalls) {
  const std::string loose = R"({"name": "h", "parameters": {"type": "object", "not": {}}})";
  const auto tools = [](const std::string& function) {
    return R"([{"type": "function", "function": )" + function + "}]";
  };
  std::vector<std::string> told;
  const auto calls = Constraint::tool_calls({CallForm::Mistral, tools(loose), ""}, &told);
  EXPECT_TRUE(calls->accepts(R"([TOOL_CALLS][{"name": "h", "arguments": {"a": 1}}])"));
  ASSERT_EQ(told.size(), 1U);
  EXPECT_TRUE(told[0].starts_with("h: ")) << told[0];
  told.clear();
  (void)Constraint::tool_calls({CallForm::Mistral, kTwoTools, ""}, &told);
  EXPECT_TRUE(told.empty());
  const std::string strict = loose.substr(0, loose.size() - 1) + R"(, "strict": true})";
  EXPECT_THROW((void)Constraint::tool_calls({CallForm::Mistral, tools(strict), ""}),
               ConstraintError);
  const auto bounded = [&](const std::string& most) {
    return tools(R"({"name": "h", "parameters": {"properties": {"a": {"maxLength": )" + most +
                 "}}}}");
  };
  (void)Constraint::tool_calls({CallForm::Mistral, bounded("9223372036854775807"), ""}, &told);
  EXPECT_EQ(told.size(), 1U) << "a schema, whose count is too large";
  EXPECT_THROW((void)Constraint::tool_calls({CallForm::Mistral, bounded("5.5"), ""}),
               ConstraintError);
  std::string many = "0";
  for (int i = 0; i < 300'000; ++i) many += ",0";
  told.clear();
  (void)Constraint::tool_calls(
      {CallForm::Mistral, tools(R"({"name": "h", "parameters": {"const": [)" + many + "]}}"), ""},
      &told);
  EXPECT_EQ(told.size(), 1U) << "a schema of more than 256 KiB";
}

std::string tool_of(const std::string& name, const std::string& parameters, bool strict = false) {
  return R"({"type":"function","function":{"name":")" + name + "\"" +
         (strict ? R"(,"strict":true)" : "") + R"(,"parameters":)" + parameters + "}}";
}

// All tools have one budget, which those that cost too much do not take from the others, wherever
// they stand.
TEST(ToolCalls, ExpensiveToolsAreUnconstrained) {
  const std::string dear = R"({"properties":{"a":{"type":"string","pattern":"(a|b)*a(a|b){30}"}}})";
  const std::string cheap =
      R"({"properties":{"on":{"type":"boolean"}},"required":["on"],"additionalProperties":false})";
  std::string tools = tool_of("d", dear);
  for (int i = 0; i < 20; ++i) tools += "," + tool_of("d" + std::to_string(i), dear);
  std::vector<std::string> told;
  const auto calls = Constraint::tool_calls(
      {CallForm::Mistral, "[" + tools + "," + tool_of("f", cheap) + "]", ""}, &told);
  EXPECT_EQ(told.size(), 21U);
  for (const std::string& line : told)
    EXPECT_TRUE(line.starts_with("d") && line.find("too many steps") != std::string::npos) << line;
  EXPECT_TRUE(calls->accepts(R"([TOOL_CALLS][{"name": "d7", "arguments": {"any": 1}}])"));
  EXPECT_TRUE(calls->accepts(R"([TOOL_CALLS][{"name": "f", "arguments": {"on": true}}])"));
  EXPECT_FALSE(calls->begins(R"([TOOL_CALLS][{"name": "f", "arguments": {"any)"));
  EXPECT_THROW((void)Constraint::tool_calls(
                   {CallForm::Mistral, "[" + tools + "," + tool_of("s", dear, true) + "]", ""}),
               ConstraintError);
}

// Every tool has a schema whose alternatives are compared pairwise. Any one of them would fit the
// budget; together they exceed it.
TEST(ToolCalls, HaveOneBudget) {
  std::string alternatives;
  for (int i = 0; i < 12; ++i) {
    alternatives +=
        std::string(i > 0 ? "," : "") +
        R"({"type":"object","required":["k"],"additionalProperties":false,"properties":{"k":{"const":)" +
        std::to_string(i) + "}";
    for (int n = 0; n < 12; ++n)
      alternatives += ",\"" + std::to_string(n) + R"(":{"type":"string"})";
    alternatives += "}}";
  }
  const std::string costs_some = R"({"oneOf":[)" + alternatives + "]}";
  std::vector<std::string> told;
  (void)Constraint::tool_calls({CallForm::Mistral, "[" + tool_of("t", costs_some) + "]", ""},
                               &told);
  EXPECT_EQ(told.size(), 0U);
  std::string tools = tool_of("t", costs_some);
  for (int i = 0; i < 99; ++i) tools += "," + tool_of("t" + std::to_string(i), costs_some);
  (void)Constraint::tool_calls({CallForm::Mistral, "[" + tools + "]", ""}, &told);
  EXPECT_GT(told.size(), 0U);
  EXPECT_LT(told.size(), 100U);
}

TEST(ToolCalls, RejectsDeeplyNestedParameters) {
  std::string schema = R"({"type":"object","$ref":"#/$defs/0","$defs":{)";
  for (int i = 0; i < 5000; ++i)
    schema += "\"" + std::to_string(i) + R"(":{"$ref":"#/$defs/)" + std::to_string(i + 1) + "\"},";
  schema += R"("5000":{}}})";
  std::vector<std::string> told;
  (void)Constraint::tool_calls({CallForm::Mistral, "[" + tool_of("t", schema) + "]", ""}, &told);
  ASSERT_EQ(told.size(), 1U);
  EXPECT_NE(told[0].find("nested too deeply"), std::string::npos) << told[0].substr(0, 200);
  EXPECT_THROW(
      (void)Constraint::tool_calls({CallForm::Mistral, "[" + tool_of("t", schema, true) + "]", ""}),
      ConstraintError);
}

// An answer without calls has the same tokens as an answer without tools.
TEST(ToolCalls, ChangeNoTextWithoutThem) {
  const std::vector<TokenId> prompt =
      demo_model().tokenizer().encode("Once upon a time", true, false);
  Session session(demo_model(), {.n_ctx = 256, .threads = 2});
  for (const CallForm form : {CallForm::Hermes, CallForm::Mistral, CallForm::Llama}) {
    for (std::uint64_t seed = 0; seed < 2; ++seed) {
      GenerateOptions options;
      options.max_tokens = 40;
      options.sampler.seed = seed;
      options.sampler.temperature = seed == 0 ? 0.F : 2.F;
      options.sampler.top_p = 1;
      options.sampler.top_k = 0;
      options.sampler.min_p = 0;
      options.format.calls = form;
      options.format.tools = kTwoTools;
      const GenerateResult without = session.generate(prompt, options);
      options.constraint = Constraint::tool_calls({form, kTwoTools, "", true, true});
      const GenerateResult with = session.generate(prompt, options);
      EXPECT_EQ(with.tokens, without.tokens);
      EXPECT_EQ(with.text, without.text);
      EXPECT_EQ(with.reason, without.reason);
      EXPECT_TRUE(with.tool_calls.empty());
    }
  }
}

constexpr const char* kCallingTemplate =
    "{{ messages[0].content }}{% if tools %}{# <tool_call> <think> </think> #}{% endif "
    "%}<|im_start|>";

ChatOptions offering(const char* tools) {
  ChatOptions how;
  how.variables = std::string(R"({"tools": )") + tools + "}";
  return how;
}

// A model that opens a call and then writes what its tokens are, one after the other.
TEST(ToolCalls, AreWellFormedForEveryModelOutput) {
  std::vector<std::string> script = {"Hi", "<tool_call>", "\n", "{"};
  for (const char c : std::string("\"name:frgutsol,}")) script.emplace_back(1, c);
  script.insert(script.end(), {"\xE2\x96\x81", "</tool_call>"});
  const auto model = scripted_file(kCallingTemplate, script).load();
  Session session(*model, {});
  const GenerateResult result = session.chat({{"user", "hi"}}, greedy(), {}, offering(kTwoTools));
  EXPECT_EQ(result.text, "Hi");
  ASSERT_EQ(result.tool_calls.size(), 1U) << result.text;
  EXPECT_EQ(result.tool_calls[0].name, "f");
  const auto arguments = nlohmann::json::parse(result.tool_calls[0].arguments);
  EXPECT_EQ(arguments.size(), 1U);
  EXPECT_TRUE(arguments["on"].is_boolean());
  EXPECT_TRUE(result.end_token);
  for (std::size_t n = 1; n < result.tokens.size(); ++n) {  // nothing shows of a call that is cut
    const GenerateResult cut = session.chat({{"user", "hi"}}, greedy(static_cast<std::int64_t>(n)),
                                            {}, offering(kTwoTools));
    EXPECT_EQ(cut.reason, StopReason::Length);
    EXPECT_EQ(cut.text, "Hi") << n;
  }
}

TEST(ToolCalls, AreFreeWhileTheModelThinks) {
  const auto model =
      scripted_file(kCallingTemplate, {"<think>", "<tool_call>", "hm", "</think>", "Four"}).load();
  Session session(*model, {});
  const GenerateResult result = session.chat({{"user", "hi"}}, greedy(), {}, offering(kTwoTools));
  EXPECT_EQ(result.reasoning, "<tool_call>hm");
  EXPECT_EQ(result.text, "Four");
}

}  // namespace
}  // namespace cria::test
