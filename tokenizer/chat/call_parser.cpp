#include "tokenizer/chat/call_parser.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "model/file/json.h"
#include "tokenizer/chat/call_values.h"
#include "tokenizer/chat/partial_marker.h"

namespace cria {
namespace {

using Calls = std::vector<ToolCall>;

std::string_view without_line_breaks(std::string_view text) {
  if (text.starts_with('\n')) text.remove_prefix(1);
  if (text.ends_with('\n')) text.remove_suffix(1);
  return text;
}

/// Removes the text up to and including a marker, and returns the text before it; nullopt without
/// the marker.
std::optional<std::string_view> take_until(std::string_view& text, std::string_view marker) {
  const std::size_t at = text.find(marker);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view before = text.substr(0, at);
  text.remove_prefix(at + marker.size());
  return before;
}

/// Returns the text as JSON, also if it is a literal of Python or lacks closing brackets.
std::optional<std::string> lenient_json(std::string_view text) {
  if (is_json(text)) return std::string(text);
  if (auto closed = closed_json(text)) return closed;
  return python_json(text);
}

/// Returns a value that stands without quotes as JSON. It is a string if the tool takes nothing
/// else, but null perhaps.
std::string bare_argument(std::string_view value, const std::vector<std::string>& types) {
  const auto n_strings = std::ranges::count(types, "string"),
             n_nulls = std::ranges::count(types, "null");
  const bool string = n_strings > 0 && n_strings + n_nulls == std::ssize(types);
  auto json = bare_json(without_spaces(value));
  if (json && (!string || (n_nulls > 0 && *json == "null"))) return *json;
  const auto first = value.find_first_not_of(kTextSpace);
  const bool structure =
      first != std::string_view::npos && (value[first] == '{' || value[first] == '[');
  if (structure && n_strings == 0 && !types.empty() && (json = python_json(value))) return *json;
  return json_string(value);
}

/// Returns the arguments of a call: an object, or a string that holds one.
std::optional<std::string> arguments_of(std::string_view value) {
  if (value.starts_with('{')) return std::string(value);
  if (value.empty() || value == "null") return "{}";
  const Json text = try_json(value);
  if (!text.is_string() || !try_json(text.get<std::string>()).is_object()) return std::nullopt;
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
  const Json called = try_json(name);
  auto json = arguments_of(arguments);
  if (!called.is_string() || called.get<std::string>().empty() || !json) return std::nullopt;
  return ToolCall{"", called.get<std::string>(), std::move(*json)};
}

/// {"NAME": {…}}
std::optional<ToolCall> keyed_call(std::string_view object) {
  if (!object.starts_with('{')) return std::nullopt;
  const auto members = json_members(object);
  if (members.size() != 1 || !members[0].second.starts_with('{')) return std::nullopt;
  const auto name = Json::parse('"' + std::string(members[0].first) + '"').get<std::string>();
  if (name.empty()) return std::nullopt;
  return ToolCall{"", name, std::string(members[0].second)};
}

/// Reads one object or an array of objects; each must be a call.
Calls json_calls(std::string_view text, std::optional<ToolCall> (*read)(std::string_view)) {
  const auto json = lenient_json(text);
  if (!json) return {};
  std::vector<std::string_view> objects = {*json};
  if (json->starts_with('[')) {
    objects.clear();
    for (const auto& [key, value] : json_members(*json)) objects.push_back(value);
  }
  Calls calls;
  for (const std::string_view object : objects) {
    auto call = read(object);
    if (!call) return {};
    calls.push_back(std::move(*call));
  }
  return calls;
}

/// NAME, name_close, {…}. Older models of DeepSeek write "function", name_close, NAME and the
/// arguments as a block of code.
Calls named_call(const CallFormat& format, std::string_view text) {
  auto name = take_until(text, format.name_close);
  if (!name) return {};
  text = without_spaces(text);
  if (const auto tool =
          without_spaces(*name) == "function" ? take_until(text, "```json") : std::nullopt) {
    name = tool;
  }
  const std::string_view tool = bare_tool_name(format, without_spaces(*name));
  auto json = lenient_json(without_spaces(text));
  if (tool.empty() || !json || !try_json(*json).is_object()) return {};
  return {{"", std::string(tool), std::move(*json)}};
}

/// call:NAME{…}
Calls gemma_call(std::string_view text) {
  constexpr std::string_view kCall = "call:";
  const std::size_t open = text.find('{');
  if (!text.starts_with(kCall) || open == std::string_view::npos) return {};
  const std::string_view name = without_spaces(text.substr(kCall.size(), open - kCall.size()));
  auto arguments = json_of_gemma(text.substr(open));
  if (name.empty() || !arguments) return {};
  return {{"", std::string(name), std::move(*arguments)}};
}

Calls tagged_call(const CallFormat& format, std::string_view text, OfferedTools& tools) {
  std::optional<std::string_view> name;
  if (format.name_close.empty()) {
    name = text.substr(0, text.find(format.key_open));
    if (name->find_first_of("<{") != std::string_view::npos) return {};
  } else {
    name = take_until(text, format.name_close);
  }
  if (!name || without_spaces(*name).empty()) return {};
  const std::string_view tool = without_spaces(*name);
  std::string json;
  while (text.find(format.key_open) != std::string_view::npos) {
    const auto argument = take_tagged_argument(format, tool, text, tools);
    if (!argument) return {};
    json += (json.empty() ? "" : ", ") + *argument;
  }
  return {{"", std::string(tool), "{" + json + "}"}};
}

Calls python_tool_calls(std::string_view text) {
  Calls calls;
  for (auto& [name, arguments] : python_calls(text))
    calls.push_back({"", std::move(name), std::move(arguments)});
  return calls;
}

Calls parse_body(const CallFormat& format, std::string_view text, OfferedTools& tools) {
  switch (format.body) {
    case CallBody::JsonObject: {
      const bool named = !text.starts_with('[') && !text.starts_with('{');
      if (named && !format.name_close.empty()) return named_call(format, text);
      Calls calls = json_calls(text, json_call);
      return calls.empty() && format.unmarked ? python_tool_calls(text) : calls;
    }
    case CallBody::KeyedJson:
      return json_calls(text, keyed_call);
    case CallBody::Named:
      return named_call(format, text);
    case CallBody::Tagged:
      return tagged_call(format, text, tools);
    case CallBody::Python:
      return python_tool_calls(text);
    case CallBody::Gemma:
      return gemma_call(text);
    case CallBody::Channel:
      break;
  }
  return {};
}

}  // namespace

std::string_view bare_tool_name(const CallFormat& format, std::string_view name) {
  if (format.name_prefix.empty()) return name.substr(0, name.find("[CALL_ID]"));
  if (name.starts_with(format.name_prefix)) name.remove_prefix(format.name_prefix.size());
  const std::size_t colon = name.rfind(':');
  const bool numbered = colon != std::string_view::npos &&
                        name.find_first_not_of("0123456789", colon + 1) == std::string_view::npos;
  return numbered ? name.substr(0, colon) : name;
}

std::optional<std::string> take_tagged_argument(const CallFormat& format, std::string_view tool,
                                                std::string_view& text, OfferedTools& tools) {
  if (!take_until(text, format.key_open)) return std::nullopt;
  const auto key = take_until(text, format.key_close);
  const auto kind =
      format.value_open.empty() ? std::string_view() : take_until(text, format.value_open);
  if (!key || !kind) return std::nullopt;
  std::string_view value = take_tagged_value(format, tool, text, tools);
  if (format.trim_lines) value = without_line_breaks(value);
  const std::string_view argument = without_spaces(*key);
  const std::string json = *kind == "true"    ? json_string(value)
                           : *kind == "false" ? lenient_json(value).value_or(json_string(value))
                                              : bare_argument(value, tools.types(tool, argument));
  return json_string(argument) + ": " + json;
}

std::string_view take_tagged_value(const CallFormat& format, std::string_view tool,
                                   std::string_view& text, OfferedTools& tools) {
  std::size_t end = std::min(text.find(format.value_close), text.size()), next = end;
  const std::string next_line = "\n" + std::string(format.key_open);
  for (std::size_t at = 0; (at = text.find(next_line, at)) < end; ++at) {
    std::string_view rest = text.substr(at + next_line.size());
    const auto key = take_until(rest, format.key_close);
    if (!key || tools.types(tool, without_spaces(*key)).empty()) continue;
    end = next = at;
    break;
  }
  if (next == end && text.substr(end).starts_with(format.value_close))
    next += format.value_close.size();
  const std::string_view value = text.substr(0, end);
  text.remove_prefix(next);
  return value;
}

std::vector<ToolCall> parse_calls(const CallFormat& format, std::string_view text,
                                  OfferedTools& tools) {
  Calls calls = parse_body(format, without_spaces(text), tools);
  // Without markers any JSON with a name could be a call: it is one if the tool is offered.
  const bool all = !format.unmarked || std::ranges::all_of(calls, [&](const ToolCall& call) {
    return tools.may_call(call.name);
  });
  return all ? calls : Calls();
}

}  // namespace cria
