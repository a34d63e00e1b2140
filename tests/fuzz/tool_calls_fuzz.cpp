// Answers with tool calls: a tool-call format, the tools, and the model's output.
#include <nlohmann/json.hpp>

#include "tests/fuzz/byte_source.h"
#include "tests/fuzz/target.h"
#include "tokenizer/chat/call_parser.h"
#include "tokenizer/chat/call_scanner.h"

namespace cria::fuzz {
namespace {

// CallScanner's: those with markers in the text, and none.
constexpr CallForm kScannedForms[] = {CallForm::None,    CallForm::Hermes,   CallForm::Coder,
                                      CallForm::Glm,     CallForm::Mistral,  CallForm::DeepSeek,
                                      CallForm::Granite, CallForm::CommandR, CallForm::Functionary,
                                      CallForm::Llama,   CallForm::Seed,     CallForm::Gemma,
                                      CallForm::Apertus};

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
  const CallScanner::Sink sink{[&](std::string_view text) {
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
  const CallForm form = kScannedForms[source.number<std::uint8_t>() % std::size(kScannedForms)];
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
  (void)parse_calls(form, answer, offered);
}

std::string answer_seed(char form, std::string_view answer) {
  return {form + std::string("\1") + std::string(answer)};
}

std::vector<std::string> tool_calls_seeds() {
  constexpr const char* kCall = R"({"name": "f", "arguments": {"a": "x\n", "b": 1}})";
  const std::string call = kCall;
  return {
      answer_seed(1, "Let me see.\n<tool_call>\n" + call + "\n</tool_call>\n<tool_call>" + call +
                         "</tool_call> Done."),
      answer_seed(
          2,
          "<tool_call>\n<function=f>\n<parameter=a>\nx\n</parameter>\n<parameter=b>1</parameter></"
          "function>\n</tool_call>"),
      answer_seed(3, "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>x</arg_value></tool_call>"),
      answer_seed(4, "[TOOL_CALLS][" + call + "]"),
      answer_seed(4, "[TOOL_CALLS]f[ARGS]{\"a\": \"x\"}"),
      answer_seed(
          5,
          "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{}\n```<"
          "｜tool▁call▁end｜><｜tool▁calls▁end｜>"),
      answer_seed(6, "<|tool_call|>[" + call + "]"),
      answer_seed(7, "<|START_ACTION|>[{\"tool_name\": \"f\", \"parameters\": {}}]<|END_ACTION|>"),
      answer_seed(8, "<function=f>{\"a\": 1}</function>"),
      answer_seed(
          9,
          R"(<|python_tag|>{"name": "f", "parameters": {"b": 1}}; {"name": "f", "parameters": {}})"),
      answer_seed(10,
                  "<seed:tool_call>\n<function=f>\n<parameter=a>x</parameter>\n</function>\n</"
                  "seed:tool_call>"),
      answer_seed(2,
                  "<tool_call> x "
                  "<tool_call>\n<function=f>\n<parameter=a>'</function>'</parameter>\n</function>\n"
                  "</tool_call>\n<tool_call>\n<function=f><parameter=b></function></tool_call>"),
      answer_seed(11, R"(<|tool_call>call:f{a:<|"|>x<|"|>,b:[1,{c:true}]}<tool_call|>)"),
      answer_seed(12, R"(<|tools_prefix|>[{"f": {"b": 1}}, {"f": {}}]<|tools_suffix|>)"),
      answer_seed(0, "text")};
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
