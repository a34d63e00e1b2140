#include "tokenizer/chat/call_parser.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "tokenizer/chat/bare_values.h"
#include "tokenizer/chat/gemma_arguments.h"
#include "tokenizer/chat/json_slices.h"
#include "tokenizer/chat/partial_marker.h"

namespace cria {
namespace {

using CallJson = nlohmann::ordered_json;

/// Without the line breaks next to the markers, which Qwen3-Coder writes there; for others they are
/// the value's own.
std::string_view without_breaks(std::string_view text) {
  if (text.starts_with('\n')) text.remove_prefix(1);
  if (text.ends_with('\n')) text.remove_suffix(1);
  return text;
}

/// What stands before the marker; the text goes on behind it. Nothing where the marker is not
/// there.
std::optional<std::string_view> cut_at(std::string_view& text, std::string_view marker) {
  const std::size_t at = text.find(marker);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view before = text.substr(0, at);
  text.remove_prefix(at + marker.size());
  return before;
}

/// Arguments that come one by one as bare texts.
class BareArguments {
 public:
  BareArguments(std::string_view tool, OfferedTools& tools) : tool_(tool), tools_(tools) {}

  void add(std::string_view key, std::string_view value) {
    json_ += (json_.empty() ? "" : ", ") + json_string(key) + ": " + json_of(key, value);
  }
  [[nodiscard]] ToolCall call() const { return {"", std::string(tool_), "{" + json_ + "}"}; }

 private:
  /// A text where the tool takes no other value, but null perhaps.
  [[nodiscard]] std::string json_of(std::string_view key, std::string_view value) const {
    const std::vector<std::string>& types = tools_.types(tool_, key);
    const auto n_texts = std::ranges::count(types, "string"),
               n_nulls = std::ranges::count(types, "null");
    const bool text = n_texts > 0 && n_texts + n_nulls == std::ssize(types);
    const auto json = bare_json(without_spaces(value));
    return json && (!text || (n_nulls > 0 && *json == "null")) ? *json : json_string(value);
  }

  std::string_view tool_;
  OfferedTools& tools_;
  std::string json_;
};

/// Of a JSON value: an object, or a text that holds one.
std::optional<std::string> arguments_of(std::string_view value) {
  if (value.starts_with('{')) return std::string(value);
  if (value.empty() || value == "null") return "{}";
  const CallJson text = CallJson::parse(value, nullptr, false);
  if (!text.is_string() || !CallJson::parse(text.get<std::string>(), nullptr, false).is_object())
    return std::nullopt;
  return text.get<std::string>();
}

std::optional<ToolCall> json_call(std::string_view object) {
  if (!object.starts_with('{')) return std::nullopt;
  std::string_view name, arguments;
  for (const auto& [key, value] : json_members(object)) {
    if (key == "function" && value.starts_with('{')) return json_call(value);
    if (key == "name" || key == "tool_name") name = value;
    if (key == "arguments" || key == "parameters") arguments = value;
  }
  const CallJson said = CallJson::parse(name, nullptr, false);
  auto json = arguments_of(arguments);
  if (!said.is_string() || said.get<std::string>().empty() || !json) return std::nullopt;
  return ToolCall{"", said.get<std::string>(), std::move(*json)};
}

/// {"NAME": {…}}
std::optional<ToolCall> keyed_call(std::string_view object) {
  if (!object.starts_with('{')) return std::nullopt;
  const auto members = json_members(object);
  if (members.size() != 1 || !members[0].second.starts_with('{')) return std::nullopt;
  const auto name = CallJson::parse('"' + std::string(members[0].first) + '"').get<std::string>();
  if (name.empty()) return std::nullopt;
  return ToolCall{"", name, std::string(members[0].second)};
}

/// One object, or an array of them, all of which are calls.
std::vector<ToolCall> json_calls(std::string_view text,
                                 std::optional<ToolCall> (*call_of)(std::string_view) = json_call) {
  if (!CallJson::accept(text)) return {};
  std::vector<std::string_view> objects = {text};
  if (text.starts_with('[')) {
    objects.clear();
    for (const auto& [key, value] : json_members(text)) objects.push_back(value);
  }
  std::vector<ToolCall> calls;
  for (const std::string_view object : objects) {
    auto call = call_of(object);
    if (!call) return {};
    calls.push_back(std::move(*call));
  }
  return calls;
}

/// Without a marker before it any JSON with a name in it could be a call: it is one where the tool
/// is there.
std::vector<ToolCall> unmarked_calls(std::string_view text, OfferedTools& tools) {
  std::vector<ToolCall> calls = json_calls(text);
  const bool all =
      std::ranges::all_of(calls, [&](const ToolCall& call) { return tools.may_call(call.name); });
  return all ? calls : std::vector<ToolCall>();
}

/// NAME, a marker, {…}
std::vector<ToolCall> named_call(std::string_view text, std::string_view marker) {
  const auto before = cut_at(text, marker);
  if (!before) return {};
  const std::string_view name = without_spaces(before->substr(0, before->find("[CALL_ID]")));
  const std::string_view json = without_spaces(text);
  if (name.empty() || !CallJson::parse(json, nullptr, false).is_object()) return {};
  return {{"", std::string(name), std::string(json)}};
}

/// "NAME<sep>{…}", or of older models "function<sep>NAME" and the arguments as a block of code.
std::vector<ToolCall> deepseek_call(std::string_view text) {
  constexpr std::string_view kSeparator = "<｜tool▁sep｜>";
  std::string_view rest = text;
  const auto first = cut_at(rest, kSeparator);
  if (!first || without_spaces(*first) != "function") return named_call(text, kSeparator);
  const auto name = cut_at(rest, "```json");
  const std::size_t end = rest.rfind("```");  // there may be code in the arguments
  if (!name || end == std::string_view::npos) return {};
  return named_call(std::string(without_spaces(*name)) + std::string(kSeparator) +
                        std::string(rest.substr(0, end)),
                    kSeparator);
}

/// call:NAME{…}
std::vector<ToolCall> gemma_call(std::string_view text) {
  constexpr std::string_view kCall = "call:";
  const std::size_t open = text.find('{');
  if (!text.starts_with(kCall) || open == std::string_view::npos) return {};
  const std::string_view name = without_spaces(text.substr(kCall.size(), open - kCall.size()));
  auto arguments = json_of_gemma(text.substr(open));
  if (name.empty() || !arguments) return {};
  return {{"", std::string(name), std::move(*arguments)}};
}

/// layout: line breaks next to the markers are none of the values.
std::vector<ToolCall> coder_call(std::string_view text, OfferedTools& tools, bool layout) {
  const auto name = cut_at(text, ">");
  if (!name || without_spaces(*name).empty()) return {};
  BareArguments arguments(without_spaces(*name), tools);
  while (cut_at(text, "<parameter=")) {
    const auto key = cut_at(text, ">");
    const auto value = cut_at(text, "</parameter>");
    if (!key || !value) return {};
    arguments.add(without_spaces(*key), layout ? without_breaks(*value) : *value);
  }
  return {arguments.call()};
}

std::vector<ToolCall> glm_call(std::string_view text, OfferedTools& tools) {
  const std::string_view name = without_spaces(text.substr(0, text.find("<arg_key>")));
  if (name.empty() || name.find_first_of("<{") != std::string_view::npos) return {};
  BareArguments arguments(name, tools);
  while (cut_at(text, "<arg_key>")) {
    const auto key = cut_at(text, "</arg_key>");
    const auto space = cut_at(text, "<arg_value>");
    const auto value = cut_at(text, "</arg_value>");
    if (!key || !space || !value) return {};
    arguments.add(without_spaces(*key), *value);
  }
  return {arguments.call()};
}

}  // namespace

std::vector<ToolCall> parse_calls(CallForm form, std::string_view text, OfferedTools& tools) {
  text = without_spaces(text);
  switch (form) {
    case CallForm::Coder:
    case CallForm::Seed:
      return coder_call(text, tools, form == CallForm::Coder);
    case CallForm::Glm:
      return glm_call(text, tools);
    case CallForm::DeepSeek:
      return deepseek_call(text);
    case CallForm::Gemma:
      return gemma_call(text);
    case CallForm::Apertus:
      return json_calls(text, keyed_call);
    case CallForm::Functionary:
      return named_call(text, ">");
    case CallForm::Mistral:
      if (!text.starts_with('[') && !text.starts_with('{')) return named_call(text, "[ARGS]");
      [[fallthrough]];
    case CallForm::Hermes:
    case CallForm::Granite:
    case CallForm::CommandR:
      return json_calls(text);
    case CallForm::Llama:
      return unmarked_calls(text, tools);
    case CallForm::Channels:
    case CallForm::None:
      break;
  }
  return {};
}

}  // namespace cria
