#include "tokenizer/chat/call_format.h"

#include <algorithm>

#include "model/vocabulary.h"
#include "tokenizer/chat/call_scanner.h"

namespace cria {
namespace {

// Formats documented by the models' makers.
constexpr CallFormat kFormats[] = {
    {.form = CallForm::Channels,
     .name = "gpt-oss",
     .signs = {"<|channel|>", "functions."},
     .body = CallBody::Channel},
    {.form = CallForm::Glm,
     .name = "glm",
     .signs = {"<tool_call>", "<arg_key>"},
     .body = CallBody::Tagged,
     .open = "<tool_call>",
     .close = "</tool_call>",
     .key_open = "<arg_key>",
     .key_close = "</arg_key>",
     .value_open = "<arg_value>",
     .value_close = "</arg_value>"},
    {.form = CallForm::Coder,
     .name = "qwen3-coder",
     .signs = {"<tool_call>", "<function="},
     .body = CallBody::Tagged,
     .open = "<function=",
     .close = "</function>",
     .section_open = "<tool_call>",
     .section_close = "</tool_call>",
     .name_close = ">",
     .key_open = "<parameter=",
     .key_close = ">",
     .value_close = "</parameter>",
     .trim_lines = true},
    {.form = CallForm::Seed,
     .name = "seed",
     .signs = {"<seed:tool_call>", "<function="},
     .body = CallBody::Tagged,
     .open = "<function=",
     .close = "</function>",
     .section_open = "<seed:tool_call>",
     .section_close = "</seed:tool_call>",
     .name_close = ">",
     .key_open = "<parameter=",
     .key_close = ">",
     .value_close = "</parameter>"},
    {.name = "minimax-m2",
     .signs = {"<minimax:tool_call>", "<invoke"},
     .body = CallBody::Tagged,
     .open = "<invoke name=\"",
     .close = "</invoke>",
     .section_open = "<minimax:tool_call>",
     .section_close = "</minimax:tool_call>",
     .name_close = "\">",
     .key_open = "<parameter name=\"",
     .key_close = "\">",
     .value_close = "</parameter>"},
    {.name = "deepseek-v3.2",
     .signs = {"<｜DSML｜function_calls>", ""},
     .body = CallBody::Tagged,
     .open = "<｜DSML｜invoke name=\"",
     .close = "</｜DSML｜invoke>",
     .section_open = "<｜DSML｜function_calls>",
     .section_close = "</｜DSML｜function_calls>",
     .name_close = "\">",
     .key_open = "<｜DSML｜parameter name=\"",
     .key_close = "\" string=\"",
     .value_open = "\">",
     .value_close = "</｜DSML｜parameter>"},
    {.name = "deepseek-v4",
     .signs = {"<｜DSML｜tool_calls>", ""},
     .body = CallBody::Tagged,
     .open = "<｜DSML｜invoke name=\"",
     .close = "</｜DSML｜invoke>",
     .section_open = "<｜DSML｜tool_calls>",
     .section_close = "</｜DSML｜tool_calls>",
     .name_close = "\">",
     .key_open = "<｜DSML｜parameter name=\"",
     .key_close = "\" string=\"",
     .value_open = "\">",
     .value_close = "</｜DSML｜parameter>"},
    {.name = "kimi-k2",
     .signs = {"<|tool_call_begin|>", "<|tool_call_argument_begin|>"},
     .body = CallBody::Named,
     .open = "<|tool_call_begin|>",
     .close = "<|tool_call_end|>",
     .section_open = "<|tool_calls_section_begin|>",
     .section_close = "<|tool_calls_section_end|>",
     .name_prefix = "functions.",
     .name_close = "<|tool_call_argument_begin|>"},
    {.name = "lfm2",
     .signs = {"<|tool_call_start|>", ""},
     .body = CallBody::Python,
     .open = "<|tool_call_start|>",
     .close = "<|tool_call_end|>"},
    {.name = "olmo3",
     .signs = {"<function_calls>", "</function_calls>"},
     .body = CallBody::Python,
     .open = "<function_calls>",
     .close = "</function_calls>"},
    {.form = CallForm::Hermes,
     .name = "hermes",
     .signs = {"<tool_call>", ""},
     .open = "<tool_call>",
     .close = "</tool_call>",
     .grammar = {.arguments_key = "arguments", .lead = "\n", .tail = "\n", .between = "\n"}},
    {.name = "tool-calls-list",
     .signs = {"<tool_calls>", ""},
     .open = "<tool_calls>",
     .close = "</tool_calls>"},
    {.form = CallForm::Mistral,
     .name = "mistral",
     .signs = {"[TOOL_CALLS]", ""},
     .open = "[TOOL_CALLS]",
     .name_close = "[ARGS]",
     .grammar =
         {.arguments_key = "arguments", .between = ", ", .list_open = "[", .list_close = "]"}},
    {.form = CallForm::DeepSeek,
     .name = "deepseek",
     .signs = {"<｜tool▁call▁begin｜>", ""},
     .body = CallBody::Named,
     .open = "<｜tool▁call▁begin｜>",
     .close = "<｜tool▁call▁end｜>",
     .section_open = "<｜tool▁calls▁begin｜>",
     .section_close = "<｜tool▁calls▁end｜>",
     .name_close = "<｜tool▁sep｜>"},
    {.form = CallForm::Granite,
     .name = "granite",
     .signs = {"<|tool_call|>", ""},
     .open = "<|tool_call|>",
     .other_open = "<tool_call>",  // Granite 3.1 writes this
     .close = "<|/tool_call|>"},
    {.form = CallForm::CommandR,
     .name = "command-r",
     .signs = {"<|START_ACTION|>", ""},
     .open = "<|START_ACTION|>",
     .close = "<|END_ACTION|>"},
    {.form = CallForm::Gemma,
     .name = "gemma4",
     .signs = {"<|tool_call>", "call:"},
     .body = CallBody::Gemma,
     .open = "<|tool_call>",
     .close = "<tool_call|>"},
    {.form = CallForm::Apertus,
     .name = "apertus",
     .signs = {"<|tools_prefix|>", ""},
     .body = CallBody::KeyedJson,
     .open = "<|tools_prefix|>",
     .close = "<|tools_suffix|>"},
    {.name = "gigachat", .signs = {"<|function_call|>", ""}, .open = "<|function_call|>"},
    {.name = "gigachat3",  // a message of another role
     .signs = {"function call", "<|role_sep|>"},
     .open = "function call<|role_sep|>"},
    {.form = CallForm::Functionary,
     .name = "functionary",
     .signs = {"<function=", ""},
     .body = CallBody::Named,
     .open = "<function=",
     .close = "</function>",
     .name_close = ">"},
    {.name = "functionary-v3.2",
     .signs = {">>>all", ""},
     .body = CallBody::Named,
     .open = ">>>",
     .name_close = "\n",
     .unmarked = true,
     .unmarked_text = "all"},
    {.form = CallForm::Llama,
     .name = "llama3",
     .signs = {"<|python_tag|>", ""},
     .open = "<|python_tag|>",
     .other_open = "<|python_start|>",
     .close = "<|python_end|>",
     .unmarked = true,
     .grammar = {.arguments_key = "parameters", .between = "; "}},
};

/// Templates that name none of Llama's markers, but its way to write calls.
constexpr std::array<std::string_view, 2> kLlamaSigns[] = {
    {"<|start_header_id|>", "\"parameters\""}, {"<|header_start|>", "\"parameters\""}};

/// Returns the form of a row: the given one, or a unique one.
CallForm form_of(const CallFormat& format) {
  constexpr std::ptrdiff_t kFirstUnnamed = 100;
  if (format.form != CallForm::None) return format.form;
  return static_cast<CallForm>(kFirstUnnamed + (&format - kFormats));
}

bool has_signs(std::string_view source, const std::array<std::string_view, 2>& signs) {
  return std::ranges::all_of(signs, [source](std::string_view sign) {
    return source.find(sign) != std::string_view::npos;
  });
}

struct ProbeResult {
  bool found = false;
  std::size_t left = 0;  ///< bytes of other text
};

/// Reads a rendered message in one format.
ProbeResult read_probe(CallForm form, std::string_view rendered) {
  ProbeResult result;
  CallScanner scanner(form, "");
  const CallScanner::Sink sink = {
      [&](AnswerPart, std::string_view text) { result.left += text.size(); },
      [&](const ToolCall& call) {
        result.found = result.found || (call.name == kProbeTool &&
                                        call.arguments.find(kProbeKey) != std::string::npos &&
                                        call.arguments.find(kProbeValue) != std::string::npos);
      }};
  scanner.push(rendered, sink);
  scanner.finish(sink);
  return result;
}

}  // namespace

std::span<const CallFormat> call_formats() { return kFormats; }

const CallFormat* call_format(CallForm form) {
  const auto* const found = std::ranges::find(kFormats, form, form_of);
  return found == std::end(kFormats) ? nullptr : found;
}

CallForm call_form_by_rendering(
    const std::function<std::optional<std::string>(std::string_view id)>& render) {
  // Kimi K2 puts the tool's name into the id; Mistral accepts only ids of nine letters and digits.
  for (const std::string_view id : {"functions.probe_tool:0", "probe0123"}) {
    const std::optional<std::string> rendered = render(id);
    if (!rendered) continue;
    if (rendered->find("to=functions." + std::string(kProbeTool)) != std::string::npos)
      return CallForm::Channels;
    const CallFormat* best = nullptr;
    std::size_t left = 0;
    for (const CallFormat& format : kFormats) {
      const ProbeResult result = read_probe(form_of(format), *rendered);
      if (!result.found || (best != nullptr && result.left >= left)) continue;
      best = &format;
      left = result.left;
    }
    if (best != nullptr) return form_of(*best);
  }
  return CallForm::None;
}

CallForm call_form_of_template(std::string_view source) {
  for (const CallFormat& format : kFormats)
    if (has_signs(source, format.signs)) return form_of(format);
  for (const auto& signs : kLlamaSigns)
    if (has_signs(source, signs)) return CallForm::Llama;
  return CallForm::None;
}

CallForm call_form_of_vocabulary(const Vocabulary& vocabulary) {
  const auto is_marker = [&](const CallFormat& format) {
    for (std::size_t id = 0; id < vocabulary.types.size(); ++id)
      if ((vocabulary.types[id] == TokenType::Control ||
           vocabulary.types[id] == TokenType::UserDefined) &&
          vocabulary.tokens[id] == format.open)
        return true;
    return false;
  };
  const auto* const found = std::ranges::find_if(kFormats, is_marker);
  return found == std::end(kFormats) ? CallForm::None : form_of(*found);
}

std::optional<CallForm> call_form_named(std::string_view name) {
  const auto* const found = std::ranges::find(kFormats, name, &CallFormat::name);
  return found == std::end(kFormats) ? std::nullopt : std::optional(form_of(*found));
}

std::string call_form_names() {
  std::string names;
  for (const CallFormat& format : kFormats)
    names += (names.empty() ? "" : ", ") + std::string(format.name);
  return names;
}

std::string tool_call_id(std::uint64_t request, std::size_t index, CallForm form) {
  constexpr std::string_view kLetters =
      "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  const bool alone = form == CallForm::Mistral;
  std::string id = alone ? "" : "call_";
  std::uint64_t state = request + 0x9E3779B97F4A7C15U * (index + 1);
  for (std::size_t n = alone ? 9 : 24; n > 0; --n) {  // splitmix64
    state += 0x9E3779B97F4A7C15U;
    std::uint64_t z = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    id += kLetters[(z ^ (z >> 31)) % kLetters.size()];
  }
  return id;
}

}  // namespace cria
