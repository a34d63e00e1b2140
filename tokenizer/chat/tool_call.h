// Tool calls, and the formats in which models write them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cria {
/// A tool call of an answer.
struct ToolCall {
  std::string id;         ///< id that the answer of the tool refers to
  std::string name;       ///< name of the tool
  std::string arguments;  ///< JSON as the model wrote it: an object, unless it broke the format
  /// True if all members are equal.
  bool operator==(const ToolCall&) const = default;
};

/// A piece of a tool call that is being written: its name first, then pieces of its arguments,
/// which joined are those of the call.
struct CallPiece {
  std::string_view name;       ///< of the call that begins, or ""
  std::string_view arguments;  ///< "" if a call begins
};

/// Formats of the table in call_format.cpp. Rows without an enumerator are known by name.
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

/// Returns the format by the words in the text of a template; None if it is unknown.
CallForm call_form_of_template(std::string_view source);
/// Returns the format with this name ("hermes", "qwen3-coder", …); nullopt for other names.
std::optional<CallForm> call_form_named(std::string_view name);
std::string call_form_names();  ///< "hermes, qwen3-coder, …"

/// Returns an id that depends only on the arguments: "call_" and 24 letters and digits; for Mistral
/// nine. request: a hash of prompt and seed. index: of the call in the answer.
std::string tool_call_id(std::uint64_t request, std::size_t index, CallForm form);

}  // namespace cria
