// Calls of tools in answers, however the text is cut into pieces.
#include "tokenizer/chat/call_scanner.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <vector>

namespace cria {
namespace {

struct Heard {
  std::string text;
  std::vector<std::pair<std::string, std::string>> calls;  // name, arguments
  decltype(calls) cut = {};
  bool operator==(const Heard&) const = default;
};

void PrintTo(const Heard& heard, std::ostream* out) {
  *out << "text [" << heard.text << "]";
  for (const auto& [name, arguments] : heard.calls)
    *out << " call " << name << " [" << arguments << "]";
}

/// The text in one piece, byte by byte, and in random pieces: always the same.
Heard scan(CallForm form, std::string_view text, const std::string& tools = "", bool cut = false) {
  Heard whole;
  std::mt19937 random(7);
  for (int round = -1; round < 20; ++round) {
    Heard heard;
    decltype(heard.calls) written;
    const CallScanner::Sink sink = {
        [&](AnswerPart, std::string_view piece) {
          EXPECT_FALSE(piece.empty());
          heard.text += piece;
        },
        [&](const ToolCall& call) { heard.calls.emplace_back(call.name, call.arguments); },
        [&](const CallPiece& one) {
          EXPECT_NE(one.name.empty(), one.arguments.empty());
          if (!one.name.empty()) written.emplace_back(one.name, "");
          written.back().second += one.arguments;
        },
        [&](const ToolCall& call) { heard.cut.emplace_back(call.name, call.arguments); }};
    CallScanner scanner(form, tools);
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t n = round < 0 ? text.size() : round == 0 ? 1 : 1 + random() % 9;
      scanner.push(text.substr(at, n), sink);
      at += n;
    }
    scanner.finish(sink, cut);
    heard.calls.insert(heard.calls.end(), heard.cut.begin(), heard.cut.end());
    EXPECT_EQ(written, heard.calls) << text << ": pieces of the calls";
    heard.calls.resize(heard.calls.size() - heard.cut.size());
    if (round < 0) whole = heard;
    EXPECT_EQ(heard, whole) << text;
  }
  return whole;
}

/// The pieces in which the arguments come if each byte is pushed alone.
std::vector<std::string> pieces(CallForm form, std::string_view text, const std::string& tools) {
  std::vector<std::string> out;
  const CallScanner::Sink sink = {[](AnswerPart, std::string_view) {}, [](const ToolCall&) {},
                                  [&](const CallPiece& piece) {
                                    if (piece.name.empty()) out.emplace_back(piece.arguments);
                                  }};
  CallScanner scanner(form, tools);
  for (std::size_t i = 0; i < text.size(); ++i) scanner.push(text.substr(i, 1), sink);
  scanner.finish(sink);
  return out;
}

Heard called(std::string text, const std::string& name, const std::string& arguments) {
  return {std::move(text), {{name, arguments}}};
}

TEST(CallScanner, Hermes) {
  EXPECT_EQ(scan(CallForm::Hermes,
                 "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1.0}}\n</tool_call>"),
            called("", "f", "{\"a\": 1.0}"))
      << "numbers as they were written";
  EXPECT_EQ(scan(CallForm::Hermes,
                 "I look.\n<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n"
                 "<tool_call>{\"name\":\"g\",\"arguments\":\"{\\\"b\\\": []}\"}</tool_call> Done."),
            (Heard{"I look.Done.", {{"f", "{}"}, {"g", "{\"b\": []}"}}}));
  EXPECT_EQ(scan(CallForm::Hermes, "<tool_call>{\"name\": \"f\"}"), called("", "f", "{}"))
      << "it ends there";
  EXPECT_EQ(
      scan(
          CallForm::Hermes,
          R"(<tool_call>{"name":"f","arguments":{"x":"</tool_call> \" }","y":[{"z":"]"}]}}</tool_call>)"),
      called("", "f", R"({"x":"</tool_call> \" }","y":[{"z":"]"}]})"))
      << "a marker inside of a text is text";
}

TEST(CallScanner, TreatsOtherOutputAsText) {
  for (const char* text :
       {"a <tool_call> b", "<tool_call>{\"name\": 5}</tool_call>", "<tool_call>{\"nam",
        "<tool_call>", "x <tool", "<tool_call>{\"arguments\": {}}</tool_call> y",
        "<tool_call>{bad}</tool_call>", " \n", "<tool_call>[1]</tool_call>",
        "<tool_call>{\"name\":\"f\",\"arguments\":[1]}</tool_call>"})
    for (const CallForm form : {CallForm::Hermes, CallForm::Coder, CallForm::Seed})
      EXPECT_EQ(scan(form, text), (Heard{text, {}})) << text;
  for (const std::string text :
       {"I see <tool_call> here", "<tool_call>", " <tool_call>\n",
        "a <tool_call> <tool_call>\n\n b", "a </tool_call> b", "<tool_call>\n<func",
        "<tool_call>\n<function=f", "<tool_call> <function=</function>",
        "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>",
        "<tool_call>\n<function=f>\n<parameter=a</function>\n</tool_call>",
        "<tool_call>\n<function=f><parameter=a>\n<tool_call><function=g></function></"
        "tool_call> "}) {
    EXPECT_EQ(scan(CallForm::Coder, text), (Heard{text, {}})) << text;
    std::string seed = text;
    for (std::size_t at = 0; (at = seed.find("tool_call>", at)) != std::string::npos; at += 15)
      seed.insert(at, "seed:");
    EXPECT_EQ(scan(CallForm::Seed, seed), (Heard{seed, {}})) << seed;
  }
  EXPECT_EQ(scan(CallForm::Coder,
                 "a <tool_call> <tool_call>\n<function=f></function></tool_call> <tool_call> b"),
            called("a <tool_call><tool_call> b", "f", "{}"))
      << "only the marker next to the call is its own";
  EXPECT_EQ(scan(CallForm::None, "<tool_call>{\"name\":\"f\"}</tool_call>").calls.size(), 0U);
}

TEST(CallScanner, PassesArgumentsOnAsTheyAreWritten) {
  EXPECT_EQ(
      pieces(CallForm::Hermes,
             R"(<tool_call>{"name": "f", "arguments": {"a": "b\"", "c": 12}}</tool_call>)", ""),
      (std::vector<std::string>{"{", "\"", "a", "\"", ":", " ", "\"", "b", "\\", "\"", "\"", ",",
                                " ", "\"", "c", "\"", ":", " ", "12}"}))
      << "a number is complete with what follows it";
  const std::string tools =
      R"([{"function": {"name": "f", "parameters": {"properties": {"s": {"type": "string"}, "n": {"type": "integer"}}}}}])";
  EXPECT_EQ(
      pieces(CallForm::Coder,
             "<tool_call>\n<function=f>\n<parameter=s>\nab\n\"\n</parameter>\n<parameter=n>12"
             "</parameter></function></tool_call>",
             tools),
      (std::vector<std::string>{"{", "\"s\": \"a", "b", "\\n\\\"", "\"", ", ", "\"n\": 12", "}"}))
      << "line breaks at the ends of a value are not part of it";
}

TEST(CallScanner, GivesTruncatedCallsAsFarAsTheyAreWritten) {
  const std::string call = R"(<tool_call>{"name": "f", "arguments": {"a": tr)";
  EXPECT_EQ(scan(CallForm::Hermes, call, "", true).cut,
            (decltype(Heard::cut){{"f", R"({"a": tr)"}}));
  EXPECT_EQ(scan(CallForm::Hermes, call.substr(0, 23), "", true).cut,
            (decltype(Heard::cut){{"f", ""}}))
      << "its name is complete";
  EXPECT_EQ(scan(CallForm::Hermes, call.substr(0, 22), "", true).cut, (decltype(Heard::cut){}));
  EXPECT_EQ(
      scan(CallForm::Coder, "<tool_call><function=f><parameter=a>1</parameter><param", "", true)
          .cut,
      (decltype(Heard::cut){{"f", R"({"a": 1)"}}));
  EXPECT_EQ(scan(CallForm::Mistral,
                 R"([TOOL_CALLS][{"name": "f", "arguments": {}}, {"name": "g", "arguments": {"b)",
                 "", true)
                .cut,
            (decltype(Heard::cut){{"f", "{}"}, {"g", R"({"b)"}}));
}

TEST(CallScanner, DropsTruncatedCalls) {
  const std::string call =
                        "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>",
                    text = "a < b " + call;
  const std::size_t marker = text.find("<tool_call>") + std::string_view("<tool_call>").size(),
                    whole = text.rfind('\n');
  for (std::size_t n = marker; n < text.size(); ++n) {
    const Heard heard = scan(CallForm::Hermes, text.substr(0, n), "", true);
    EXPECT_EQ(heard.text, "a < b") << n;
    EXPECT_EQ(heard.calls.size(), n < whole ? 0U : 1U) << n;
  }
  for (const CallForm form : {CallForm::Coder, CallForm::DeepSeek}) {
    const std::string other =
        form == CallForm::Coder
            ? "<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>"
            : "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁end｜><"
              "｜tool▁calls▁end｜>";
    for (std::size_t n = other.find('>') + 1; n <= other.size(); ++n)
      EXPECT_EQ(scan(form, "a < b " + other.substr(0, n), "", true).text, "a < b") << n;
  }
  EXPECT_EQ(scan(CallForm::Hermes, "a <to", "", true).text, "a <to");  // too short for a marker
  EXPECT_EQ(scan(CallForm::Hermes, "a <tool_call>\n{", "", false).text, "a <tool_call>\n{");
  EXPECT_EQ(scan(CallForm::Glm, "a <tool_call>f<arg_key>k", "", true).text, "a");
}

TEST(CallScanner, Mistral) {
  EXPECT_EQ(scan(CallForm::Mistral,
                 "[TOOL_CALLS][{\"name\":\"f\",\"arguments\":{\"a\":1}}, "
                 "{\"name\":\"g\",\"arguments\":{}}]"),
            (Heard{"", {{"f", "{\"a\":1}"}, {"g", "{}"}}}));
  EXPECT_EQ(
      scan(CallForm::Mistral, "Well.[TOOL_CALLS]f[ARGS]{\"a\": {}}[TOOL_CALLS]g[CALL_ID]x[ARGS]{}"),
      (Heard{"Well.", {{"f", "{\"a\": {}}"}, {"g", "{}"}}}));
}

TEST(CallScanner, Llama) {
  EXPECT_EQ(scan(CallForm::Llama, "{\"name\": \"f\", \"parameters\": {\"a\": 1}}"),
            called("", "f", "{\"a\": 1}"));
  EXPECT_EQ(scan(CallForm::Llama,
                 "<|python_tag|>{\"name\": \"f\", \"parameters\": {}}; "
                 "{\"name\": \"g\", \"parameters\": {}}"),
            (Heard{"", {{"f", "{}"}, {"g", "{}"}}}));
  for (const char* text : {"It is {\"name\": \"f\", \"parameters\": {}}", "{\"answer\": 42}",
                           "{\"name\": \"f", " {x} y"})
    EXPECT_EQ(scan(CallForm::Llama, text), (Heard{text, {}})) << text;
}

TEST(CallScanner, UnmarkedCallsMustNameAnOfferedTool) {
  const std::string tools =
      R"([{"type": "function", "function": {"name": "f"}}, {"name": "g", "parameters": {}}])";
  for (const char* const name : {"f", "g"})
    EXPECT_EQ(scan(CallForm::Llama, "{\"name\": \"" + std::string(name) + "\", \"parameters\": {}}",
                   tools),
              called("", name, "{}"));
  for (const char* const text :
       {R"({"name": "Bob", "age": 3})", R"({"name": "h", "parameters": {"a": 1}})"})
    EXPECT_EQ(scan(CallForm::Llama, text, tools), (Heard{text, {}}));
}

TEST(CallScanner, NoCharacterIsCutInLongPieces) {
  std::string text = std::string(1023, ' ');
  for (int i = 0; i < 2000; ++i) text += "é";
  std::string heard;
  const CallScanner::Sink sink = {[&](AnswerPart, std::string_view piece) {
                                    EXPECT_NE(static_cast<unsigned char>(piece.front()) & 0xC0,
                                              0x80);
                                    heard += piece;
                                  },
                                  [](const ToolCall&) {}};
  CallScanner scanner(CallForm::None, "");
  scanner.push(text, sink);
  scanner.finish(sink);
  EXPECT_EQ(heard, text);
}

const std::string kTools =
    R"([{"type": "function", "function": {"name": "f", "parameters": {"type": "object",
    "properties": {"zip": {"type": "string"}, "n": {"type": "integer"}}}}}])";

TEST(CallScanner, FormsWithBareValues) {
  EXPECT_EQ(scan(CallForm::Coder,
                 "Now:\n<tool_call>\n<function=f>\n<parameter=zip>\n00123\n</"
                 "parameter>\n<parameter=n>\n5\n"
                 "</parameter>\n<parameter=t>\na \"b\"\nc\n</parameter>\n</function>\n</tool_call>",
                 kTools),
            called("Now:", "f", R"({"zip": "00123", "n": 5, "t": "a \"b\"\nc"})"));
  EXPECT_EQ(
      scan(CallForm::Glm,
           "<tool_call>f\n<arg_key>zip</arg_key>\n<arg_value>12</arg_value>\n<arg_key>n</arg_key>\n"
           "<arg_value>{\"x\": [1]}</arg_value>\n</tool_call>\n",
           kTools),
      called("", "f", R"({"zip": "12", "n": {"x": [1]}})"));
  EXPECT_EQ(
      scan(CallForm::Coder,
           "I look. <function=f>\n<parameter=zip>\n0\n</parameter>\n</function>\n</tool_call>\n"
           "<tool_call>\n<function=g>\n</function>",
           kTools),
      (Heard{"I look.", {{"f", R"({"zip": "0"})"}, {"g", "{}"}}}))
      << "markers around calls may be missing";
  EXPECT_EQ(scan(CallForm::Seed,
                 "<seed:tool_call>\n<function=f>\n<parameter=zip>00123</"
                 "parameter>\n<parameter=n>5</parameter>\n"
                 "</function>\n</seed:tool_call>",
                 kTools),
            called("", "f", R"({"zip": "00123", "n": 5})"));
  const std::string file = "\nprint(1)\n", escaped = R"({"zip": "\nprint(1)\n"})";
  EXPECT_EQ(scan(CallForm::Glm, "<tool_call>f<arg_key>zip</arg_key><arg_value>" + file +
                                    "</arg_value></tool_call>"),
            called("", "f", escaped))
      << "line breaks are the value's own";
  EXPECT_EQ(scan(CallForm::Seed, "<function=f><parameter=zip>" + file + "</parameter></function>"),
            called("", "f", escaped));
  for (const CallForm form : {CallForm::Coder, CallForm::Seed})
    EXPECT_EQ(
        scan(form,
             "<function=f><parameter=code>x = "
             "'</function>'</parameter>\n<parameter=b></func</function>"
             "<parameter=</parameter></function> <function=g></function> Done."),
        (Heard{"Done.",
               {{"f", R"({"code": "x = '</function>'", "b": "</func</function><parameter="})"},
                {"g", "{}"}}}))
        << "a marker inside of an argument is text";
  EXPECT_EQ(scan(CallForm::Glm,
                 "<tool_call>f<arg_key>zip</arg_key><arg_value>s = "
                 "'</tool_call>'</arg_value></tool_call> Done."),
            (Heard{"Done.", {{"f", R"({"zip": "s = '</tool_call>'"})"}}}));
  EXPECT_EQ(scan(CallForm::Glm, "<tool_call>now</tool_call>"), called("", "now", "{}"));
  EXPECT_EQ(scan(CallForm::Coder, "<tool_call><function=f><parameter=a>1").calls.size(), 0U)
      << "it is cut off";
  EXPECT_EQ(
      scan(CallForm::Functionary, "<function=f>{\"a\": 1}</function><function=g>{}</function>"),
      (Heard{"", {{"f", "{\"a\": 1}"}, {"g", "{}"}}}));
}

TEST(CallScanner, BareValuesAreWhatTheToolTakes) {
  const std::string tools =
      R"([{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {
          "a": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "b": {"type": ["string", "null"]},
          "c": {"type": ["string", "integer"]}, "d": {"type": "boolean"}, "e": {"type": "string"}}}}}])";
  const auto arguments = [&](const char* key, const char* value) {
    const Heard heard = scan(
        CallForm::Coder,
        std::string("<function=f><parameter=") + key + ">\n" + value + "\n</parameter></function>",
        tools);
    return heard.calls.size() == 1 ? heard.calls[0].second : "";
  };
  EXPECT_EQ(arguments("a", "12345"), R"({"a": "12345"})");
  EXPECT_EQ(arguments("a", "null"), R"({"a": null})");
  EXPECT_EQ(arguments("a", "None"), R"({"a": null})") << "models that learn from Python's texts";
  EXPECT_EQ(arguments("b", "true"), R"({"b": "true"})");
  EXPECT_EQ(arguments("c", "12345"), R"({"c": 12345})") << "an integer or a string";
  EXPECT_EQ(arguments("d", "True"), R"({"d": true})");
  EXPECT_EQ(arguments("d", "False"), R"({"d": false})");
  EXPECT_EQ(arguments("e", "True"), R"({"e": "True"})");
  EXPECT_EQ(arguments("e", "null"), R"({"e": "null"})");
  EXPECT_EQ(arguments("unknown", "[1, 2]"), R"({"unknown": [1, 2]})");
}

TEST(CallScanner, FormsWithMarkersOfTheirOwn) {
  EXPECT_EQ(
      scan(CallForm::Granite, "<|tool_call|>[{\"name\":\"f\",\"arguments\":{}}]<|/tool_call|>"),
      called("", "f", "{}"));
  EXPECT_EQ(scan(CallForm::CommandR,
                 "<|START_ACTION|>[\n  {\"tool_call_id\": \"0\", \"tool_name\": \"f\", "
                 "\"parameters\": {\"a\": 1}}\n]<|END_ACTION|>"),
            called("", "f", "{\"a\": 1}"));
  EXPECT_EQ(scan(CallForm::Apertus,
                 "Well. <|tools_prefix|>[{\"f\": {\"a\": 1.0}}, {\"g\": {}}]<|tools_suffix|>"),
            (Heard{"Well.", {{"f", "{\"a\": 1.0}"}, {"g", "{}"}}}));
  EXPECT_EQ(scan(CallForm::Apertus, "<|tools_prefix|>[{\"f\": 1}]<|tools_suffix|>").calls.size(),
            0U);
  EXPECT_EQ(scan(CallForm::DeepSeek,
                 "Hm. "
                 "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{"
                 "\"a\": 1}\n```"
                 "<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>g<｜tool▁sep｜>{}<｜tool▁call▁end｜><"
                 "｜tool▁calls▁end｜>"),
            (Heard{"Hm.", {{"f", "{\"a\": 1}"}, {"g", "{}"}}}));
  EXPECT_EQ(scan(CallForm::DeepSeek,
                 "<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"a\": "
                 "\"```sh\\nls\\n```\"}\n```"
                 "<｜tool▁call▁end｜>"),
            called("", "f", "{\"a\": \"```sh\\nls\\n```\"}"))
      << "code in an argument";
}

TEST(CallScanner, Gemma4) {
  const auto arguments = [](const std::string& text) {
    const Heard heard = scan(CallForm::Gemma, "<|tool_call>call:f" + text + "<tool_call|>");
    return heard.calls.size() == 1 ? heard.calls[0].second : heard.text;
  };
  EXPECT_EQ(
      scan(
          CallForm::Gemma,
          "I "
          "look.\n<|tool_call>call:f{a:<|\"|>x<|\"|>}<tool_call|><|tool_call>call:g{}<tool_call|>"),
      (Heard{"I look.", {{"f", R"({"a": "x"})"}, {"g", "{}"}}}));
  EXPECT_EQ(
      arguments(
          R"({city:<|"|>a, {b}: "c"<|"|>,n:-1.50,t:true,u:None,list:[1,<|"|>2<|"|>,[]],o:{k:{},l:[{}]}})"),
      R"({"city": "a, {b}: \"c\"", "n": -1.50, "t": true, "u": null, "list": [1, "2", []], "o": {"k": {}, "l": [{}]}})");
  EXPECT_EQ(arguments("{ a : 1 , \n<|\"|>b c<|\"|>: word }"), R"({"a": 1, "b c": "word"})");
  for (const char* text : {"", "{", "{a}", "{a:1", "{a:<|\"|>x}", "{a:[1}", "{a:1}}", "{a:1 {}}"})
    EXPECT_EQ(arguments(text), std::string("<|tool_call>call:f") + text + "<tool_call|>")
        << "no call";
  EXPECT_EQ(arguments("{a:" + std::string(200, '[') + std::string(200, ']') + "}").substr(0, 12),
            "<|tool_call>")
      << "nested too deeply";
}

CallForm named(std::string_view name) { return call_form_named(name).value(); }

TEST(CallScanner, FormatsKnownByNameOnly) {
  const std::string arguments = R"({"zip": "12", "n": 5})";
  const std::pair<const char*, const char*> cases[] = {
      {"minimax-m2",
       "Now.\n<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"zip\">12</parameter>\n"
       "<parameter name=\"n\">5</parameter>\n</invoke>\n</minimax:tool_call>"},
      {"deepseek-v3.2",
       "Now.\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter "
       "name=\"zip\" "
       "string=\"true\">12</｜DSML｜parameter>\n<｜DSML｜parameter name=\"n\" "
       "string=\"false\">5</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>"},
      {"kimi-k2",
       "Now.<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|"
       ">"
       "{\"zip\": \"12\", \"n\": 5}<|tool_call_end|><|tool_calls_section_end|>"},
      {"lfm2", "Now.<|tool_call_start|>[f(zip=\"12\", n=5)]<|tool_call_end|>"},
      {"olmo3", "Now.<function_calls>\nf(zip='12', n=5)\n</function_calls>"},
      {"tool-calls-list",
       "Now.\n<tool_calls>[{\"name\": \"f\", \"arguments\": {\"zip\": \"12\", \"n\": "
       "5}}]</tool_calls>"},
      {"gigachat",
       "Now.<|function_call|>{\"name\": \"f\", \"arguments\": {\"zip\": \"12\", \"n\": 5}}"},
      {"gigachat3",
       "Now.\n\nfunction call<|role_sep|>\n{\"name\": \"f\", \"arguments\": {\"zip\": \"12\", "
       "\"n\": 5}}"},
      {"functionary-v3.2", "all\nNow.>>>f\n{\"zip\": \"12\", \"n\": 5}"}};
  for (const auto& [name, text] : cases)
    EXPECT_EQ(scan(named(name), text, kTools), called("Now.", "f", arguments)) << name;
  EXPECT_EQ(scan(named("functionary-v3.2"), "f\n{\"n\": 1}>>>all\nDone.", kTools),
            called("Done.", "f", "{\"n\": 1}"));
  EXPECT_EQ(scan(named("functionary-v3.2"), "all\n>>> import os\nDone.", kTools),
            (Heard{">>> import os\nDone.", {}}))
      << "no tool of this name";
  EXPECT_EQ(
      scan(named("olmo3"), "<function_calls>\nf(n=1)\ng(a=[1, {'b': None}])\n</function_calls>"),
      (Heard{"", {{"f", "{\"n\": 1}"}, {"g", R"({"a": [1, {"b": null}]})"}}}));
  for (const char* const text : {"[{\"name\": \"f\", \"arguments\": {\"n\": 1}}]", "[f(n=1)]"})
    EXPECT_EQ(scan(CallForm::Llama, text, kTools), called("", "f", "{\"n\": 1}")) << text;
  EXPECT_EQ(scan(CallForm::Llama, "[1, 2] is a list.", kTools), (Heard{"[1, 2] is a list.", {}}));
  EXPECT_EQ(scan(CallForm::Functionary, "<function=f>{\"zip\": \"a </function> b\"}</function>"),
            called("", "f", "{\"zip\": \"a </function> b\"}"))
      << "a marker inside of a JSON string is text";
  EXPECT_EQ(scan(CallForm::Granite, "<tool_call>[{\"name\": \"f\", \"arguments\": {}}]"),
            called("", "f", "{}"))
      << "Granite 3.1";
}

TEST(CallScanner, ReadsPythonLiterals) {
  const std::string tools =
      R"([{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {
          "o": {"type": "object"}, "l": {"type": "array"}, "s": {"type": "string"}}}}}])";
  EXPECT_EQ(
      scan(CallForm::Coder,
           "<function=f><parameter=o>\n{'a': True, 'n': None, 'l': [1, 'x']}\n</parameter>"
           "<parameter=l>\n['use `x`', \"it's\", 'a\\nb']\n</parameter>"
           "<parameter=s>\n{'a': 1}\n</parameter></function>",
           tools),
      called("", "f",
             R"({"o": {"a": true, "n": null, "l": [1, "x"]}, "l": ["use `x`", "it's", "a\nb"], )"
             R"("s": "{'a': 1}"})"));
}

TEST(CallScanner, TypesOfArgumentsMayBeIndirect) {
  const std::string tools =
      R"([{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {
          "a": {"$ref": "#/$defs/Zip"}, "b": {"allOf": [{"type": "string"}]}, "c": {"enum": ["1", "2"]},
          "d": {"const": "7"}, "e": {"anyOf": [{"$ref": "#/$defs/Zip"}, {"type": "null"}]},
          "g": {"$ref": "#/$defs/Loop"}, "h": {"enum": [1, 2]}},
          "$defs": {"Zip": {"type": "string"}, "Loop": {"$ref": "#/$defs/Loop"}}}}}])";
  for (const char* const key : {"a", "b", "c", "d", "e"})
    EXPECT_EQ(
        scan(CallForm::Coder,
             std::string("<function=f><parameter=") + key + ">12</parameter></function>", tools),
        called("", "f", std::string("{\"") + key + "\": \"12\"}"));
  for (const char* const key : {"g", "h"})
    EXPECT_EQ(
        scan(CallForm::Coder,
             std::string("<function=f><parameter=") + key + ">12</parameter></function>", tools),
        called("", "f", std::string("{\"") + key + "\": 12}"));
}

TEST(CallScanner, ForgottenTagsEndWhereTheNextBegin) {
  EXPECT_EQ(scan(CallForm::Coder,
                 "<tool_call>\n<function=f>\n<parameter=zip>\nx\n<parameter=n>\n5\n</parameter>\n"
                 "</function>\n</tool_call>",
                 kTools),
            called("", "f", R"({"zip": "x", "n": 5})"));
  EXPECT_EQ(
      scan(CallForm::Coder,
           "<tool_call>\n<function=f>\n<parameter=zip>\nx\n</function>\n</tool_call>", kTools),
      called("", "f", R"({"zip": "x"})"));
  EXPECT_EQ(scan(CallForm::Coder,
                 "<tool_call>\n<function=f>\n<parameter=n>\n1\n</parameter>\n</tool_call>\n"
                 "<tool_call>\n<function=f>\n<parameter=n>\n2\n</parameter>",
                 kTools),
            (Heard{"", {{"f", "{\"n\": 1}"}, {"f", "{\"n\": 2}"}}}));
  EXPECT_EQ(
      scan(CallForm::Hermes, "<tool_call>{\"name\": \"f\", \"arguments\": {\"n\": 1}</tool_call>"),
      called("", "f", "{\"n\": 1}"))
      << "a bracket is missing";
}

/// Returns the format that is detected if a template writes `text` for a call, after the role.
CallForm rendered(const std::string& text) {
  return call_form_by_rendering([&](std::string_view) { return std::optional(text); });
}

TEST(CallScanner, FormatsAreKnownByWhatTemplatesRender) {
  const std::string call = R"({"name": "probe_tool", "arguments": {"probe_key": "probe value"}})";
  EXPECT_EQ(rendered("<tool_call>\n" + call + "\n</tool_call><|im_end|>"), CallForm::Hermes);
  EXPECT_EQ(rendered("<tool_calls>[" + call + "]</tool_calls>"), named("tool-calls-list"));
  EXPECT_EQ(rendered("[TOOL_CALLS][" + call + "]</s>"), CallForm::Mistral);
  EXPECT_EQ(rendered(call + "<|eot_id|>"), CallForm::Llama);
  EXPECT_EQ(rendered("[" + call + "]<|eot_id|>"), CallForm::Llama);
  EXPECT_EQ(rendered("<|weird|>" + call), CallForm::None);
  EXPECT_EQ(rendered("probe_tool(probe_key=\"probe value\")"), CallForm::None);
  const std::string coder =
      "<function=probe_tool>\n<parameter=probe_key>\nprobe value\n</parameter>\n</function>\n";
  EXPECT_EQ(rendered("<tool_call>\n" + coder + "</tool_call>"), CallForm::Coder);
  EXPECT_EQ(rendered("<seed:tool_call>\n" + coder + "</seed:tool_call>"), CallForm::Seed);
  EXPECT_EQ(rendered("<function=probe_tool>{\"probe_key\": \"probe value\"}</function>"),
            CallForm::Functionary);
  EXPECT_EQ(rendered("<function=probe_tool>{'probe_key': 'probe value'}</function>"),
            CallForm::Functionary);
  EXPECT_EQ(rendered("probe_tool\n{\"probe_key\": \"probe value\"}"), named("functionary-v3.2"));
  EXPECT_EQ(rendered("assistant to=functions.probe_tool<|channel|>"), CallForm::Channels);
}

TEST(CallScanner, FormsAreKnownFromTemplates) {
  EXPECT_EQ(call_form_of_template("<tool_call> {{ x }}"), CallForm::Hermes);
  EXPECT_EQ(call_form_of_template("<tool_call> <function= "), CallForm::Coder);
  EXPECT_EQ(call_form_of_template("<seed:tool_call> <function= "), CallForm::Seed);
  EXPECT_EQ(call_form_of_template("<tool_call> <arg_key>"), CallForm::Glm);
  EXPECT_EQ(call_form_of_template("'<|tool_call>call:' + name"), CallForm::Gemma);
  EXPECT_EQ(call_form_of_template("<|tools_prefix|>"), CallForm::Apertus);
  EXPECT_EQ(call_form_of_template("[TOOL_CALLS]"), CallForm::Mistral);
  EXPECT_EQ(call_form_of_template("<|start_header_id|> \"parameters\""), CallForm::Llama);
  EXPECT_EQ(call_form_of_template("<|channel|> to=functions."), CallForm::Channels);
  EXPECT_EQ(call_form_of_template("<|im_start|>"), CallForm::None);
  EXPECT_EQ(call_form_named("qwen3-coder"), CallForm::Coder);
  EXPECT_FALSE(call_form_named("x"));
  EXPECT_EQ(call_form_names().find("llama3"), call_form_names().rfind("llama3")) << "each once";
}

TEST(CallScanner, IdsDependOnWhatTheyAreMadeOf) {
  const std::string id = tool_call_id(7, 0, CallForm::Hermes);
  EXPECT_EQ(id, tool_call_id(7, 0, CallForm::Llama));
  EXPECT_EQ(id.size(), 29U);
  EXPECT_TRUE(id.starts_with("call_"));
  EXPECT_NE(id, tool_call_id(7, 1, CallForm::Hermes));
  EXPECT_NE(id, tool_call_id(8, 0, CallForm::Hermes));
  const std::string mistral = tool_call_id(7, 0, CallForm::Mistral);
  EXPECT_EQ(mistral.size(), 9U);
  for (const char c : mistral) EXPECT_TRUE(std::isalnum(static_cast<unsigned char>(c)));
}

}  // namespace
}  // namespace cria
