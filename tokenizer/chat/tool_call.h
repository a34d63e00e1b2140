// Calls of tools, and the forms in which models write them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cria {
/// One call of a tool in an answer.
struct ToolCall {
  std::string id;         ///< what the tool's answer refers to
  std::string name;       ///< the tool's
  std::string arguments;  ///< JSON text as the model wrote it: an object, unless it did not keep to
                          ///< the form
  bool operator==(const ToolCall&) const = default;  ///< of all parts
};

enum class CallForm : std::uint8_t {
  None,
  Hermes,  ///< <tool_call>{"name": …, "arguments": {…}}</tool_call> (Hermes, Qwen)
  Coder,   ///< <tool_call><function=NAME><parameter=KEY>VALUE</parameter>…</function></tool_call>
           ///< (Qwen3-Coder)
  Seed,    ///< the same in <seed:tool_call> (Seed-OSS)
  Glm,     ///< <tool_call>NAME<arg_key>KEY</arg_key><arg_value>VALUE</arg_value>…</tool_call>
  Mistral,  ///< [TOOL_CALLS][{"name": …, "arguments": {…}}, …] or [TOOL_CALLS]NAME[ARGS]{…}
  DeepSeek,     ///< each call in markers of its own, within markers of them all
  Granite,      ///< <|tool_call|>[{"name": …, "arguments": {…}}, …] (Phi-4-mini too)
  CommandR,     ///< <|START_ACTION|>[{"tool_name": …, "parameters": {…}}, …]<|END_ACTION|>
  Gemma,        ///< <|tool_call>call:NAME{KEY:VALUE,…}<tool_call|>, texts between <|"|> (Gemma 4)
  Apertus,      ///< <|tools_prefix|>[{NAME: {…}}, …]<|tools_suffix|>
  Functionary,  ///< <function=NAME>{…}</function>
  Llama,  ///< the whole answer is {"name": …, "parameters": {…}}, several with ; between them
  Channels,  ///< a message to functions.NAME (gpt-oss)
};

/// By what a chat template names; None where that is nothing known.
CallForm call_form_of_template(std::string_view source);
/// "hermes", "qwen3-coder", …; nothing for other names.
std::optional<CallForm> call_form_named(std::string_view name);
std::string call_form_names();  ///< "hermes, qwen3-coder, …"

/// Depends on the arguments alone: "call_" and 24 letters and digits, or Mistral's 9 without it.
/// request: what stands for prompt and seed; index: of the call in the answer.
std::string tool_call_id(std::uint64_t request, std::size_t index, CallForm form);

}  // namespace cria
