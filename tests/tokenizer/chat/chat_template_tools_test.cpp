// Tools, their calls and results, in templates that show them and in those that do not.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "model/error.h"
#include "tests/tokenizer/vocabularies.h"
#include "tokenizer/chat/chat_template.h"
#include "tokenizer/jinja/values/text.h"

namespace cria::testing {
namespace {

constexpr const char* kToolsTold =
    "You can call these tools:\n<tools>\n{\"name\":\"look\"}\n</tools>\nTo call one, write:\n"
    "<tool_call>\n{\"name\": NAME, \"arguments\": {…}}\n</tool_call>";

ChatMessage json_message(const char* role, const char* json) { return {role, "", json}; }

/// Prints [role:content] of each message.
ChatTemplate bracketed(const std::string& before = "") {
  return ChatTemplate::parse(
      before + "{% for m in messages %}[{{ m.role }}:{{ m.content }}]{% endfor %}", "test", {});
}

TEST(ChatTemplate, ToolsAsTextKeepContentsOfParts) {
  const std::vector<ChatMessage> talk{
      json_message(
          "system",
          R"({"content": [{"type": "text", "text": "BE "}, {"type": "text", "text": "BRIEF"}]})"),
      {"user", "Hi"},
      json_message("assistant", R"({"content": [{"type": "text", "text": "LOOKING"}],
                                    "tool_calls": [{"function": {"name": "look", "arguments": "{\"at\": 1}"}}]})"),
      json_message("tool", R"({"content": [{"type": "text", "text": "42"}]})")};
  RenderOptions options;
  options.variables = R"({"tools": [{"name": "look"}]})";
  EXPECT_EQ(bracketed().render(talk, options).bytes(),
            std::string("[system:BE BRIEF\n\n") + kToolsTold +
                "][user:Hi][assistant:LOOKING\n<tool_call>\n{\"name\":\"look\",\"arguments\":{"
                "\"at\":1}}\n"
                "</tool_call>][user:<tool_response>\n42\n</tool_response>]");
  const ChatMessage picture = json_message("tool", R"({"content": [{"type": "image"}]})");
  EXPECT_THROW((void)bracketed().render({{"user", "Hi"}, picture}, options), Error);
}

// A result may come without the call that it answers.
TEST(ChatTemplate, ResultsOfToolsArriveOrAreAnError) {
  const std::string known = "{% for m in messages %}{% if m.role != 'tool' %}[{{ m.content }}]";
  const std::vector<ChatMessage> talk{{"user", "Hi"}, {"tool", "SUNNY"}};
  const auto rendered = [&talk, &known](const std::string& more) {
    const ChatTemplate chat =
        ChatTemplate::parse(known + "{% endif %}{% endfor %}" + more, "test", {});
    return chat.render(talk, {}).bytes();
  };
  EXPECT_EQ(rendered(""), "[Hi][<tool_response>\nSUNNY\n</tool_response>]");
  EXPECT_THROW((void)rendered("{{ messages[0].tool_calls }}"), Error);
}

// Some templates show either the text of a message or its calls.
TEST(ChatTemplate, TextAndCallsArrive) {
  const std::vector<ChatMessage> talk{{"user", "Hi"},
                                      json_message("assistant", R"({"content": "LOOKING about",
                                    "tool_calls": [{"function": {"name": "look", "arguments": {}}}]})")};
  const auto rendered = [&talk](const std::string& condition) {
    const ChatTemplate chat = ChatTemplate::parse(
        "{% for m in messages %}[{% if " + condition +
            " %}{{ m.tool_calls[0].function.name }}{% else %}{{ m.content }}{% endif %}]"
            "{% endfor %}",
        "test", {});
    return chat.render(talk, {}).bytes();
  };
  EXPECT_EQ(rendered("m.tool_calls"), "[Hi][LOOKING about][look]");
  EXPECT_EQ(rendered("m.content == none"), "[Hi][LOOKING about][look]");
  EXPECT_EQ(rendered("m.tool_calls and loop.length == 2"), "[Hi][look]") << "refuses two";
}

TEST(ChatTemplate, ObjectArgumentsBecomeText) {
  const std::vector<ChatMessage> talk{{"user", "Hi"},
                                      json_message("assistant",
                                                   R"({"content": null,
                       "tool_calls": [{"function": {"name": "look", "arguments": {"at": "é"}}}]})")};
  const auto rendered = [&talk](const std::string& shown) {
    const ChatTemplate chat =
        ChatTemplate::parse("{% for m in messages %}{% if m.content == none %}{{ " + shown +
                                " }}{% else %}[{{ m.content }}]{% endif %}{% endfor %}",
                            "test", {});
    return chat.render(talk, {}).bytes();
  };
  EXPECT_EQ(rendered("'>' + m.tool_calls[0].function.arguments"), "[Hi]>{\"at\": \"é\"}");
  EXPECT_EQ(rendered("m.tool_calls[0].function.arguments['at']"), "[Hi]é");
}

TEST(ChatTemplate, ToolsBecomeTextIfTheTemplateRejectsThem) {
  const ChatTemplate strict = bracketed(
      "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% "
      "endif %}"
      "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
      "{{ raise_exception('roles must alternate') }}{% endif %}{% endfor %}");
  const std::vector<ChatMessage> talk{
      {"user", "Hi"},
      json_message(
          "assistant",
          R"({"tool_calls": [{"function": {"name": "a"}}, {"name": "b", "arguments": {}}]})"),
      {"tool", "1"},
      {"tool", "2"}};
  const std::string answers =
      "[assistant:<tool_call>\n{\"name\":\"a\",\"arguments\":{}}\n</tool_call>\n"
      "<tool_call>\n{\"name\":\"b\",\"arguments\":{}}\n</tool_call>]"
      "[user:<tool_response>\n1\n</tool_response>\n<tool_response>\n2\n</tool_response>]";
  EXPECT_EQ(strict.render(talk, {}).bytes(), "[user:Hi]" + answers);
  RenderOptions options;
  options.variables = R"({"tools": [{"name": "look"}]})";
  EXPECT_EQ(strict.render(talk, options).bytes(),
            std::string("[user:") + kToolsTold + "\n\nHi]" + answers);
  try {
    (void)strict.render({{"system", "Be kind."}, {"user", "Hi"}}, options);
    FAIL() << "the user's own system message is refused";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("System role not supported"), std::string::npos);
  }
}

// The word alone says nothing: Phi-4-mini's template looks at a member of the system message.
TEST(ChatTemplate, ToolsBecomeTextIfTheTemplateIgnoresThem) {
  RenderOptions options;
  options.variables = R"({"tools": [{"name": "look"}]})";
  for (const char* const words :
       {"{# tools and tool_calls #}", "{% set x = 'tools and tool_calls' %}",
        "{% if 'tools' in messages[0] and messages[0]['tools'] is not none %}{{ "
        "messages[0].tools }}{% endif %}"}) {
    const ChatTemplate chat = bracketed(words);
    EXPECT_EQ(chat.render({{"user", "Hi"}}, options).bytes(),
              std::string("[system:") + kToolsTold + "][user:Hi]")
        << words;
    EXPECT_EQ(chat.answer_format(options.variables).calls, CallForm::Hermes) << words;
    const ChatMessage call =
        json_message("assistant", R"({"tool_calls": [{"function": {"name": "f"}}]})");
    EXPECT_NE(chat.render({call}, {}).bytes().find("<tool_call>"), std::string::npos) << words;
  }
  for (const char* const reads :
       {"{% if tools %}T{% endif %}", "{% if tools is defined %}T{% endif %}",
        "{{ 'T' if x is defined or tools|length }}"})
    EXPECT_EQ(bracketed(reads).render({{"user", "Hi"}}, options).bytes(), "T[user:Hi]") << reads;
}

// A template that shows no system message gets tools in the user's message.
TEST(ChatTemplate, ToolsReachATemplateOfUsersOnly) {
  RenderOptions options;
  options.variables = R"({"tools": [{"name": "look"}]})";
  const ChatTemplate chat = ChatTemplate::parse(
      "{% for m in messages if m.role != 'system' %}[{{ m.role }}:{{ m.content }}]{% endfor %}",
      "t", {});
  EXPECT_EQ(chat.render({{"user", "Hi"}}, options).bytes(),
            std::string("[user:") + kToolsTold + "\n\nHi]");
  EXPECT_THROW((void)chat.render({{"system", "Be kind."}, {"user", "Hi"}}, options), Error);
}

// The detection renders the template; a marker somewhere in its source does not count.
TEST(ChatTemplate, CallFormatIsWhatTheTemplateRenders) {
  const std::string variables = R"({"tools": [{"type": "function", "function": {"name": "f"}}]})";
  const auto form = [&](const std::string& source) {
    return ChatTemplate::parse(source, "t", {}).answer_format(variables).calls;
  };
  const std::string begin = "{% if tools %}Write <tool_call>. {{ tools | tojson }}{% endif %}",
                    messages = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}",
                    end = "{% endfor %}";
  const auto calls = [](const std::string& body) {
    return "{% for c in m.tool_calls or [] %}" + body + "{% endfor %}";
  };
  const std::string json =
      R"({"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}})";
  EXPECT_EQ(form(begin + messages + calls("<tool_calls>[" + json + "]</tool_calls>") + end),
            call_form_named("tool-calls-list"));
  EXPECT_EQ(form(begin + messages + calls("<tool_call>" + json + "</tool_call>") + end),
            CallForm::Hermes);
  EXPECT_EQ(form(begin + messages + calls("{{ c.function.name }}") + end), CallForm::Hermes)
      << "a call that no format reads: by the marker in the text";
  EXPECT_EQ(form(begin + messages +
                 calls("<|tool_call_begin|>{{ c.id }}<|tool_call_argument_begin|>"
                       "{{ c.function.arguments | tojson }}<|tool_call_end|>") +
                 end),
            call_form_named("kimi-k2"));
}

TEST(ChatTemplate, BadCallsOfToolsAreErrors) {
  for (const char* const calls :
       {R"([{"function": {"name": 5}}])", R"([{"function": "x"}])", R"([{}])", R"([5])"}) {
    const std::string json = R"({"content": "", "tool_calls": )" + std::string(calls) + "}";
    EXPECT_THROW((void)bracketed().render({json_message("assistant", json.c_str())}, {}), Error)
        << calls;
  }
}

// Schemas of tools have them as bounds.
TEST(ChatTemplate, RendersLargeIntegersWithTheirDigits) {
  const ChatTemplate chat = ChatTemplate::parse(
      "{{ n|tojson }} {{ n[1] }} {{ n[1] > n[0] }} {{ n[1] == n[0] }}", "test", {});
  const auto shown = [&](const std::string& numbers) {
    RenderOptions options;
    options.variables = "{\"n\": " + numbers + "}";
    return chat.render({}, options).bytes();
  };
  EXPECT_EQ(shown("[0, 18446744073709551615]"),
            "[0, 18446744073709551615] 18446744073709551615 True False");
  EXPECT_EQ(shown("[9223372036854775807, 9223372036854775808]").substr(0, 62),
            "[9223372036854775807, 9223372036854775808] 9223372036854775808");
  EXPECT_EQ(shown("[-123456789012345678901234567890, 1]").substr(0, 39),
            "[-123456789012345678901234567890, 1] 1 ");
}

// Or a model that once wrote such arguments could never be asked again.
TEST(ChatTemplate, KeepsUnparsableArguments) {
  std::string many = "{";
  for (int i = 0; i < 100'000; ++i) many += "\"" + std::to_string(i) + "\":0,";
  many.back() = '}';
  const std::string deep = "{\"a\":" + std::string(100'000, '[') + std::string(100'000, ']') + "}";
  const std::string level = "{\"a\":" + std::string(95, '[') + std::string(95, ']') + "}";
  const ChatTemplate knows = ChatTemplate::parse(
      "{% for call in messages[0].tool_calls %}{{ call.function.arguments is string }}{% endfor %}",
      "test", {});
  const auto is_text = [&](const std::string& arguments) {
    const nlohmann::json json = {
        {"tool_calls", {{{"function", {{"name", "f"}, {"arguments", arguments}}}}}}};
    EXPECT_FALSE(bracketed().render({json_message("assistant", json.dump().c_str())}, {}).empty());
    return knows.render({json_message("assistant", json.dump().c_str())}, {}).bytes();
  };
  EXPECT_EQ(is_text(R"({"a": 1})"), "False");
  EXPECT_EQ(is_text(many), "False") << "in linear time";
  for (const char* integer :
       {"18446744073709551615", "12345678901234567890123", "-9223372036854775809"})
    EXPECT_EQ(is_text(std::string("{\"a\": ") + integer + "}"), "False") << integer;
  EXPECT_EQ(is_text(R"({"a": 1e30})"), "False");
  EXPECT_EQ(is_text(R"({"a": )"), "True");
  EXPECT_EQ(is_text("[1]"), "True");
  EXPECT_EQ(is_text(deep), "True");
  EXPECT_EQ(is_text(level), "True");
}

/// Renders a call that has `members` in addition to its name.
std::string shown_call(const std::string& source, const std::string& members) {
  const ChatTemplate chat =
      ChatTemplate::parse("{% set f = messages[0].tool_calls[0].function %}" + source, "test", {});
  const std::string json =
      R"({"content": "", "tool_calls": [{"function": {"name": "now")" + members + "}}]}";
  return chat.render({json_message("assistant", json.c_str())}, {}).bytes();
}

// Clients write an empty text for them, or nothing.
TEST(ChatTemplate, CallsWithoutArgumentsHaveAnEmptyObject) {
  for (const char* const members :
       {"", R"(, "arguments": "")", R"(, "arguments": " \n")", R"(, "arguments": null)",
        R"(, "arguments": "{}")", R"(, "arguments": {})"}) {
    EXPECT_EQ(
        shown_call(
            "{% for k, v in f.arguments.items() %}{{ k }}{% endfor %}[{{ f.arguments|tojson }}]",
            members),
        "[{}]")
        << members;
  }
  for (const char* const members : {"", R"(, "arguments": "")", R"(, "arguments": null)"})
    EXPECT_EQ(shown_call("{{ 'call: ' + f.arguments }}", members), "call: {}") << members;
  for (const char* const members : {"", R"(, "arguments": "")", R"(, "arguments": null)"}) {
    const std::string json =
        R"({"tool_calls": [{"function": {"name": "now")" + std::string(members) + "}}]}";
    EXPECT_EQ(bracketed().render({json_message("assistant", json.c_str())}, {}).bytes(),
              "[assistant:<tool_call>\n{\"name\":\"now\",\"arguments\":{}}\n</tool_call>]")
        << members;
  }
}

// The arguments of an answer that was cut must neither end the conversation nor get lost.
TEST(ChatTemplate, KeepsInvalidArguments) {
  const std::string cut = R"(, "arguments": "{\"city\": \"Ro")";
  EXPECT_EQ(shown_call("{% for k, v in f.arguments.items() %}{{ k }}: {{ v }}{% endfor %}", cut),
            R"(arguments: {"city": "Ro)");
  EXPECT_EQ(shown_call("{{ f.arguments }}", cut), R"({"city": "Ro)");
  const std::string json = R"({"tool_calls": [{"function": {"name": "now")" + cut + "}}]}";
  EXPECT_EQ(bracketed().render({json_message("assistant", json.c_str())}, {}).bytes(),
            "[assistant:<tool_call>\n{\"name\":\"now\",\"arguments\":\"{\\\"city\\\": \\\"Ro\"}"
            "\n</tool_call>]");
}

// Clients send a call back without content, as they received it.
TEST(ChatTemplate, CallsWithoutAContent) {
  const std::string call =
      R"("tool_calls": [{"function": {"name": "f", "arguments": "{\"a\": 1}"}}])";
  const auto render = [&](const std::string& source, const std::string& content) {
    const std::string knows = "{% set calls = messages[0].tool_calls %}";
    const auto chat_template = ChatTemplate::parse(knows + source, "test", {"", ""});
    return chat_template.render({{"assistant", "", "{" + content + call + "}"}}, {}).bytes();
  };
  const std::string
      is_text = "{% set m = messages[0] %}{% if '<' in m.content %}x{% endif %}[{{ m.content }}]",
      asks = "{% if messages[0]['content'] is none %}none{% else %}text{% endif %}",
      wants_both = asks + "{{ messages[0].content|length }}";
  for (const char* const content : {"\"content\": null, ", ""}) {
    EXPECT_EQ(render(is_text, content), "[]");
    EXPECT_EQ(render("{{ messages[0].tool_calls[0].function.arguments.a }}" + is_text, content),
              "1[]");
    EXPECT_EQ(render(wants_both, content), "text0");
  }
  EXPECT_EQ(render(asks, "\"content\": null, "), "none");
  EXPECT_EQ(render(asks, "\"content\": \"a\", "), "text");
}

// The template of gpt-oss looks through all later messages for every tool call.
TEST(ChatTemplate, RendersLongConversationsWithLookahead) {
  const ChatTemplate chat = ChatTemplate::parse(
      "{% for m in messages %}{% if m.tool_calls %}{% for later in messages[loop.index:] %}"
      "{% if later.role == 'assistant' and 'tool_calls' not in later %}final{% endif %}{% endfor "
      "%}{% endif "
      "%}"
      "{% endfor %}{{ messages[-1].content }}",
      "test", {});
  std::vector<ChatMessage> talk;
  for (int i = 0; i < 1000; ++i) {
    talk.push_back(json_message(
        "assistant",
        R"({"content": "", "tool_calls": [{"function": {"name": "read_file", "arguments": "{\"path\": \"a\"}"}}]})"));
    talk.push_back({"tool", "text of a file"});
  }
  EXPECT_EQ(chat.render(talk, {}).bytes(), "text of a file");
}

TEST(ChatTemplate, UsesTheTemplateForTools) {
  Vocabulary vocabulary = demo().vocabulary;
  vocabulary.chat_template = "{{ messages[0].content }}";
  vocabulary.tool_template = "{{ tools[0].name }}: {{ messages[0].content }}";
  const ChatTemplate chat = ChatTemplate::from_vocabulary(vocabulary);
  EXPECT_EQ(chat.render({{"user", "Hi"}}, {}).bytes(), "Hi");
  EXPECT_EQ(chat.render({{"user", "Hi"}}, {.variables = R"({"tools": [{"name": "f"}]})"}).bytes(),
            "f: Hi");
}

TEST(ChatTemplate, TheVocabularyMayShowHowToolsAreCalled) {
  Vocabulary vocabulary;
  vocabulary.tokens = {"a", "<|tool_call_start|>"};
  vocabulary.chat_template = "{{ tools }}{{ messages[0].content }}";
  const auto form = [&](TokenType type) {
    vocabulary.types = {TokenType::Normal, type};
    const std::string tools = R"({"tools": [{"type": "function", "function": {"name": "f"}}]})";
    return ChatTemplate::from_vocabulary(vocabulary).answer_format(tools).calls;
  };
  EXPECT_EQ(form(TokenType::Normal), CallForm::None);
  EXPECT_EQ(form(TokenType::Control), call_form_named("lfm2"));
}

TEST(ChatTemplate, KeepsSupportedToolResults) {
  const ChatTemplate chat = ChatTemplate::parse(
      "{% if tools %}<|tool_call|>{% endif %}{% for m in messages %}<{{ m.role }}>{{ m.content }}"
      "{% endfor %}",
      "test", {});
  const std::vector<ChatMessage> talk{
      {"user", "Weather?"},
      json_message("assistant", R"({"role": "assistant", "content": "", "tool_calls": [{"function":
                                    {"name": "weather", "arguments": {"city": "Oslo"}}}]})"),
      {"tool", "5 degrees"}};
  const std::string text =
      chat.render(talk, {.variables = R"({"tools": [{"name": "weather"}]})"}).bytes();
  EXPECT_NE(text.find("<tool>5 degrees"), std::string::npos) << text;
  EXPECT_EQ(text.find("<tool_call>"), std::string::npos) << text;
}

// Looks at all earlier messages for every one, and gathers its output in a namespace.
TEST(ChatTemplate, RendersLongConversationsWithLookback) {
  const ChatTemplate chat = ChatTemplate::parse(
      "{% set ns = namespace(out='') %}{% for m in messages %}{% set last = namespace(role=none) %}"
      "{% for i in range(loop.index0 - 1, -1, -1) %}{% if last.role is none %}"
      "{% set last.role = messages[i].role %}{% endif %}{% endfor %}"
      "{% set ns.out = ns.out ~ m.content ~ '\n' %}{% endfor %}{{ ns.out }}",
      "test", {});
  std::vector<ChatMessage> talk;
  for (int i = 0; i < 1500; ++i)
    talk.push_back({i % 2 == 0 ? "user" : "assistant", std::string(100, 'a')});
  EXPECT_EQ(chat.render(talk, {}).size(), 1500U * 101);
}

}  // namespace
}  // namespace cria::testing
