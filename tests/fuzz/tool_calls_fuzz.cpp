// Answers with tool calls: a tool-call format, the tools, and the model's output.
#include <nlohmann/json.hpp>

#include "tests/fuzz/byte_source.h"
#include "tests/fuzz/target.h"
#include "tokenizer/chat/call_parser.h"
#include "tokenizer/chat/call_scanner.h"

namespace cria::fuzz {
namespace {

constexpr const char* kOfferedTools =
    R"([{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}}}}}])";

struct ReadAnswer {
  std::string text;
  std::vector<ToolCall> calls;
  bool operator==(const ReadAnswer&) const = default;
};

ReadAnswer read_answer(CallForm form, const std::string& tools, std::string_view answer,
                       Random* random) {
  ReadAnswer out;
  const CallScanner::Sink sink{[&](AnswerPart, std::string_view text) {
                                 require(!text.empty(), "an empty piece of text");
                                 out.text += text;
                               },
                               [&](const ToolCall& call) { out.calls.push_back(call); }};
  CallScanner scanner(form, tools);
  while (!answer.empty()) {
    const std::size_t n = random == nullptr ? answer.size() : 1 + (*random)() % 7;
    scanner.push(answer.substr(0, n), sink);
    answer.remove_prefix(std::min(n, answer.size()));
  }
  scanner.finish(sink);
  return out;
}

void run_tool_calls(std::string_view input) {
  ByteSource source(input);
  // 0 is None; the others are the rows of the table.
  const std::size_t row = source.number<std::uint8_t>() % (call_formats().size() + 1);
  const CallForm form = row == 0 ? CallForm::None : *call_form_named(call_formats()[row - 1].name);
  const std::string tools = source.flag() ? kOfferedTools : "";
  const std::string_view answer = source.rest();
  const ReadAnswer whole = read_answer(form, tools, answer, nullptr);
  require(whole.text.size() <= answer.size(), "more text than was written");
  require(form != CallForm::None || (whole.text == answer && whole.calls.empty()),
          "calls where no form is");
  for (const ToolCall& call : whole.calls) require(!call.name.empty(), "a call of nothing");
  Random random(static_cast<unsigned>(std::hash<std::string_view>{}(answer)));
  require(read_answer(form, tools, answer, &random) == whole, "something else in pieces");
  OfferedTools offered(tools);
  if (row > 0) (void)parse_calls(call_formats()[row - 1], answer, offered);
}

std::string answer_seed(std::string_view format, std::string_view answer) {
  const auto row = std::ranges::find(call_formats(), format, &CallFormat::name);
  const auto index = row == call_formats().end() ? -1 : row - call_formats().begin();
  return {static_cast<char>(index + 1) + std::string("\1") + std::string(answer)};
}

std::vector<std::string> tool_calls_seeds() {
  constexpr const char* kCall = R"({"name": "f", "arguments": {"a": "x\n", "b": 1}})";
  const std::string call = kCall;
  return {
      answer_seed("hermes", "Let me see.\n<tool_call>\n" + call + "\n</tool_call>\n<tool_call>" +
                                call + "</tool_call> Done."),
      answer_seed(
          "qwen3-coder",
          "<tool_call>\n<function=f>\n<parameter=a>\nx\n</parameter>\n<parameter=b>1</parameter></"
          "function>\n</tool_call>"),
      answer_seed("glm",
                  "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>x</arg_value></tool_call>"),
      answer_seed("mistral", "[TOOL_CALLS][" + call + "]"),
      answer_seed("mistral", "[TOOL_CALLS]f[ARGS]{\"a\": \"x\"}"),
      answer_seed(
          "deepseek",
          "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{}\n```<"
          "｜tool▁call▁end｜><｜tool▁calls▁end｜>"),
      answer_seed("granite", "<|tool_call|>[" + call + "]"),
      answer_seed("command-r",
                  "<|START_ACTION|>[{\"tool_name\": \"f\", \"parameters\": {}}]<|END_ACTION|>"),
      answer_seed("functionary", "<function=f>{\"a\": 1}</function>"),
      answer_seed(
          "llama3",
          R"(<|python_tag|>{"name": "f", "parameters": {"b": 1}}; {"name": "f", "parameters": {}})"),
      answer_seed("seed",
                  "<seed:tool_call>\n<function=f>\n<parameter=a>x</parameter>\n</function>\n</"
                  "seed:tool_call>"),
      answer_seed("qwen3-coder",
                  "<tool_call> x "
                  "<tool_call>\n<function=f>\n<parameter=a>'</function>'</parameter>\n</function>\n"
                  "</tool_call>\n<tool_call>\n<function=f><parameter=b></function></tool_call>"),
      answer_seed("gemma4", R"(<|tool_call>call:f{a:<|"|>x<|"|>,b:[1,{c:true}]}<tool_call|>)"),
      answer_seed("apertus", R"(<|tools_prefix|>[{"f": {"b": 1}}, {"f": {}}]<|tools_suffix|>)"),
      answer_seed("minimax-m2",
                  "<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"a\">x</parameter>\n"
                  "</invoke>\n</minimax:tool_call>"),
      answer_seed("kimi-k2",
                  "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{\"a\": \"x\"}"
                  "<|tool_call_end|>"),
      answer_seed("olmo3", "<function_calls>\nf(a='x', b=[1, {'c': None}])\n</function_calls>"),
      answer_seed("functionary-v3.2", "all\nHi>>>f\n{\"a\": \"x\"}"),
      answer_seed("", "text")};
}

std::vector<std::string> tool_calls_words() {
  return {"<tool_call>",    "</tool_call>",     "<function=",       "</function>",
          "<parameter=",    "</parameter>",     "<arg_key>",        "<arg_value>",
          "[TOOL_CALLS]",   "[ARGS]",           "<|tool_call|>",    "<|START_ACTION|>",
          "<|python_tag|>", "\"name\"",         "\"arguments\"",    "\"parameters\"",
          "{\"a\":",        "\\u00e9",          "```json",          "[[[[",
          "{{{{",           "<|tool_call>",     "<tool_call|>",     "<|\"|>",
          "call:",          "<|tools_prefix|>", "<seed:tool_call>", "</seed:tool_call>"};
}

}  // namespace

const Target kToolCalls{"tool_calls", run_tool_calls, tool_calls_seeds, nullptr, tool_calls_words};

}  // namespace cria::fuzz
