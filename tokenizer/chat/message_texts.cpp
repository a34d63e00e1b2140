#include "tokenizer/chat/message_texts.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "model/error.h"
#include "model/file/json.h"
#include "tokenizer/chat/partial_marker.h"

namespace cria {

namespace {

Json fields_of(const ChatMessage& message) {
  return message.json.empty() ? Json::object() : parse_exact_json(message.json, false);
}

/// A content of several texts as one.
std::string content_text(const ChatMessage& message, const Json& fields) {
  if (!fields.is_object() || !fields.contains("content")) return message.content;
  if (fields["content"].is_string()) return fields["content"].get<std::string>();
  if (!fields["content"].is_array()) return message.content;
  std::string text;
  for (const Json& part : fields["content"]) {
    if (!part.is_object() || !part.contains("text") || !part["text"].is_string())
      throw Error(
          "", "a message contains something other than text, which this chat template cannot show");
    text += part["text"].get_ref<const std::string&>();
  }
  return text;
}

char lower_ascii(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; }

constexpr std::size_t kMaxSearches = 16;  // a search in a long text takes long

/// The longest runs of ASCII letters and digits.
std::vector<std::string_view> longest_words(std::string_view text) {
  constexpr std::size_t kWords = 3;
  std::vector<std::string_view> words;
  for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end + 1) {
    for (end = begin; end < text.size(); ++end) {
      const char c = lower_ascii(text[end]);
      if ((c < 'a' || c > 'z') && (c < '0' || c > '9')) break;
    }
    if (end == begin || (words.size() == kWords && end - begin <= words.back().size())) continue;
    if (words.size() == kWords) words.pop_back();
    words.push_back(text.substr(begin, end - begin));
    std::ranges::sort(words, std::greater(), &std::string_view::size);
  }
  return words;
}

bool has_word(std::string_view text, std::string_view word) {
  const auto equal = [](char a, char b) { return lower_ascii(a) == lower_ascii(b); };
  return std::search(text.begin(), text.end(), word.begin(), word.end(), equal) != text.end();
}

/// The text of a message; "" if it has pictures.
std::string plain_text(const ChatMessage& message, const Json& fields) {
  try {
    return content_text(message, fields);
  } catch (const Error&) {
    return "";
  }
}

// Short: small models have small contexts, and a tool's parameters say what it does.
std::string told_tools(const std::string& tools) {
  std::string text = "You can call these tools:\n<tools>\n";
  for (const Json& tool : parse_exact_json(tools, false)) text += exact_json_text(tool) + "\n";
  return text +
         "</tools>\nTo call one, write:\n"
         "<tool_call>\n{\"name\": NAME, \"arguments\": {…}}\n</tool_call>";
}

/// Parses the text as JSON. Returns the text itself if it is not JSON, as where an answer was cut,
/// or too large. The library's ordered objects compare each new key with all earlier ones, and
/// print recursively.
Json parsed_arguments(const std::string& text) {
  try {
    (void)parse_json(text, "", {.bytes = text.size(), .depth = 100, .values = 4'000});
    return parse_exact_json(text);
  } catch (const Error&) {
    return without_spaces(text).empty() ? Json::object() : Json(text);
  }
}

/// A call may have "function" around its name and arguments.
const Json& function_of(const Json& call) {
  return call.is_object() && call.contains("function") ? call["function"] : call;
}

std::string called_tools(const Json& calls, CallForm form) {
  std::string text;
  Json list = Json::array();
  for (const Json& call : calls) {
    const Json& function = function_of(call);
    if (!function.is_object() || !function.contains("name") || !function["name"].is_string())
      throw Error("", R"(a call of a tool: expected {"function": {"name": …, "arguments": …}})");
    Json arguments = function.value("arguments", Json::object());
    if (arguments.is_null()) arguments = Json::object();
    if (arguments.is_string())
      arguments = parsed_arguments(arguments.get_ref<const std::string&>());
    const Json said = {{"name", function["name"]}, {"arguments", std::move(arguments)}};
    list.push_back(said);
    text += form == CallForm::Hermes ? "\n<tool_call>\n" + exact_json_text(said) + "\n</tool_call>"
                                     : "\n" + exact_json_text(said);
  }
  if (form == CallForm::Granite) return "\n<|tool_call|>" + exact_json_text(list);
  if (form == CallForm::Mistral) return "\n[TOOL_CALLS]" + exact_json_text(list);
  return text;
}

bool has_calls(const Json& fields) {
  return fields.is_object() && fields.contains("tool_calls") && fields["tool_calls"].is_array();
}

/// Returns the name in a call; "" if it has none.
std::string name_of_call(const Json& call) {
  const Json& function = function_of(call);
  return function.is_object() && function.contains("name") && function["name"].is_string()
             ? function["name"].get<std::string>()
             : "";
}

/// Returns the fields of an assistant's message that has both text and calls; else null.
Json text_and_calls(const ChatMessage& message) {
  if (message.role != "assistant") return {};
  Json fields = fields_of(message);
  if (!has_calls(fields) || fields["tool_calls"].empty() ||
      without_spaces(plain_text(message, fields)).empty())
    return {};
  return fields;
}

/// In the system message, which is the first one, or in front of the first user's.
void tell_tools(const std::string& tools, const std::string& role,
                std::vector<ChatMessage>& messages) {
  const bool as_system = role == "system";
  const auto at =
      as_system ? messages.begin() : std::ranges::find(messages, role, &ChatMessage::role);
  if (at == messages.end() || at->role != role) {
    messages.insert(messages.begin(), {role, told_tools(tools)});
    return;
  }
  const std::string own = content_text(*at, fields_of(*at)), told = told_tools(tools);
  *at = {role, as_system ? own + "\n\n" + told : told + "\n\n" + own};
}

}  // namespace

bool omits(std::string_view text, const ChatMessage& message) {
  const std::string content = plain_text(message, fields_of(message));
  const std::vector<std::string_view> words = longest_words(content);
  return !words.empty() &&
         std::ranges::none_of(words, [&](std::string_view word) { return has_word(text, word); });
}

std::string omitted_message(const std::vector<ChatMessage>& messages, const ContentForms& contents,
                            std::string_view text) {
  if (messages.empty()) return "";
  const ChatMessage &first = messages.front(), &last = messages.back();
  if (last.role == "user" && contents.user != ContentForm::Unknown && omits(text, last))
    return "the text of the last message";
  if (last.role == "tool" && omits(text, last)) return "the tool's result";
  if (first.role == "system" && omits(text, first)) return "the system message";
  std::size_t checked = 0;
  for (std::size_t i = messages.size(); i-- > 0 && checked < kMaxSearches;) {
    const std::string& role = messages[i].role;
    if (role == "user" || role == "assistant" || role == "tool") continue;
    ++checked;
    if (omits(text, messages[i]))
      return role == "system" ? "the system's message " + std::to_string(i)
                              : "message " + std::to_string(i) + ", of the role \"" + role + "\"";
  }
  return "";
}

bool has_tool_calls(const std::vector<ChatMessage>& messages) {
  return std::ranges::any_of(
      messages, [](const ChatMessage& message) { return has_calls(fields_of(message)); });
}

bool omits_beside_calls(std::string_view text, const std::vector<ChatMessage>& messages) {
  std::size_t checked = 0;
  for (auto message = messages.rbegin(); message != messages.rend() && checked < kMaxSearches;
       ++message) {
    const Json fields = text_and_calls(*message);
    if (fields.is_null()) continue;
    ++checked;
    const std::string content = plain_text(*message, fields);
    for (const std::string_view word : longest_words(content))
      if (!has_word(text, word)) return true;
    for (const Json& call : fields["tool_calls"])
      if (const std::string name = name_of_call(call); text.find(name) == std::string_view::npos)
        return true;
  }
  return false;
}

std::vector<ChatMessage> with_calls_apart(const std::vector<ChatMessage>& messages) {
  std::vector<ChatMessage> out;
  for (const ChatMessage& message : messages) {
    Json fields = text_and_calls(message);
    out.push_back(message);
    if (fields.is_null()) continue;
    Json calls = {{"role", message.role},
                  {"content", nullptr},
                  {"tool_calls", std::move(fields["tool_calls"])}};
    fields.erase("tool_calls");
    out.back().json = exact_json_text(fields);
    out.push_back({message.role, ""});
    out.back().json = exact_json_text(calls);
  }
  return out;
}

std::vector<ChatMessage> with_tools_as_text(const std::vector<ChatMessage>& messages,
                                            const std::string& tools, const std::string& role,
                                            const ToolTexts& texts) {
  std::vector<ChatMessage> out;
  bool after_result = false;
  for (const ChatMessage& message : messages) {
    const Json fields = fields_of(message);
    const bool is_result = message.role == "tool" && !texts.keep_results;
    ChatMessage as_text = message;
    if (is_result) {
      as_text = {"user",
                 "<tool_response>\n" + content_text(message, fields) + "\n</tool_response>"};
    } else if (has_calls(fields)) {
      const std::string said = content_text(message, fields),
                        calls = called_tools(fields["tool_calls"], texts.form);
      as_text = {message.role, said + calls.substr(said.empty() && !calls.empty() ? 1 : 0)};
    }
    if (is_result && after_result)  // many templates refuse two messages of a user in a row
      out.back().content += "\n" + as_text.content;
    else
      out.push_back(std::move(as_text));
    after_result = is_result;
  }
  if (!tools.empty()) tell_tools(tools, role, out);
  return out;
}

}  // namespace cria
