#include "tools/requests/messages.h"

#include <algorithm>
#include <bit>

#include "model/file/json.h"
#include "tools/requests/fields.h"

namespace cria::tools {
namespace {

using Messages = std::vector<ChatMessage>;

void set_content(ChatMessage& message, std::string text) {
  if (!message.json.empty()) {
    Json json = parse_exact_json(message.json);
    json["content"] = text;
    message.json = exact_json_text(json);
  }
  message.content = std::move(text);
}

/// Adds text after an empty line.
void append(ChatMessage& message, const std::string& text) {
  set_content(message, message.content + "\n\n" + text);
}

void fill(TemplateInput& input) {
  if (input.variables.empty()) return;
  Json variables = parse_exact_json(input.variables);
  if (!variables.contains("tools") || !variables["tools"].is_array()) return;
  for (Json& tool : variables["tools"]) {
    if (!tool.is_object() || !tool.contains("function") || !tool["function"].is_object()) continue;
    Json& function = tool["function"];
    if (!function.contains("description") || function["description"].is_null())
      function["description"] = "";
    if (!function.contains("parameters") || function["parameters"].is_null())
      function["parameters"] = {{"type", "object"}, {"properties", Json::object()}};
  }
  input.variables = exact_json_text(variables);
}

void join(TemplateInput& input) {
  Messages out;
  for (ChatMessage& message : input.messages) {
    const bool joins = !out.empty() && out.back().role == message.role &&
                       (message.role == "system" || message.role == "user");
    if (joins)
      append(out.back(), message.content);
    else
      out.push_back(std::move(message));
  }
  input.messages = std::move(out);
}

void move_up(TemplateInput& input) {
  Messages out;
  std::size_t systems = 0;
  for (ChatMessage& message : input.messages) {
    if (message.role != "system") {
      out.push_back(std::move(message));
    } else if (systems++ == 0) {
      out.insert(out.begin(), std::move(message));
    } else {
      append(out.front(), message.content);
    }
  }
  input.messages = std::move(out);
}

void fold(TemplateInput& input) {
  std::string system;
  Messages out;
  for (ChatMessage& message : input.messages) {
    if (message.role == "system")
      system += (system.empty() ? "" : "\n\n") + message.content;
    else
      out.push_back(std::move(message));
  }
  if (!system.empty()) {
    const auto user = std::ranges::find(out, "user", &ChatMessage::role);
    if (user == out.end())
      out.insert(out.begin(), {"user", system});
    else
      set_content(*user, system + "\n\n" + user->content);
  }
  input.messages = std::move(out);
}

/// Returns the tool calls of a message.
std::vector<Json> calls_of(const ChatMessage& message) {
  if (message.role != "assistant" || message.json.empty()) return {};
  const Json json = parse_exact_json(message.json);
  const auto calls = json.find("tool_calls");
  return calls != json.end() && calls->is_array() ? std::vector<Json>(calls->begin(), calls->end())
                                                  : std::vector<Json>();
}

std::string text_member(const Json& json, const char* name) {
  return json.is_object() && json.contains(name) && json[name].is_string()
             ? json[name].get<std::string>()
             : "";
}

/// The messages of one assistant's message with several calls: only the first keeps its text.
void split_calls(const ChatMessage& message, const std::vector<Json>& calls, Messages results,
                 Messages& out) {
  for (std::size_t i = 0; i < calls.size(); ++i) {
    ChatMessage one = message;
    Json json = parse_exact_json(message.json);
    json["tool_calls"] = Json::array({calls[i]});
    if (i > 0) {
      json.erase("reasoning_content");
      json["content"] = nullptr;
      one.content.clear();
    }
    one.json = exact_json_text(json);
    out.push_back(std::move(one));
    const std::string id = text_member(calls[i], "id");
    const auto is_result = [&](const ChatMessage& result) {
      const Json told = parse_exact_json(result.json, false);
      return text_member(told, "tool_call_id") == id;
    };
    const auto result = std::ranges::find_if(results, is_result);
    if (result == results.end()) continue;
    out.push_back(std::move(*result));
    results.erase(result);
  }
  std::ranges::move(results, std::back_inserter(out));
}

void split(TemplateInput& input) {
  Messages out;
  Messages& all = input.messages;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::vector<Json> calls = calls_of(all[i]);
    if (calls.size() < 2) {
      out.push_back(std::move(all[i]));
      continue;
    }
    std::size_t end = i + 1;
    while (end < all.size() && all[end].role == "tool") ++end;
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(i);
    split_calls(*begin, calls, Messages(begin + 1, all.begin() + static_cast<std::ptrdiff_t>(end)),
                out);
    i = end - 1;
  }
  all = std::move(out);
}

struct Repair {
  const char* name;
  void (*apply)(TemplateInput& input);
};
constexpr Repair kRepairs[] = {
    {"fill", fill}, {"join", join}, {"move", move_up}, {"fold", fold}, {"split", split}};

bool same(const TemplateInput& a, const TemplateInput& b) {
  return a.variables == b.variables &&
         std::ranges::equal(a.messages, b.messages, [](const auto& x, const auto& y) {
           return x.role == y.role && x.content == y.content && x.json == y.json;
         });
}

}  // namespace

std::vector<std::string> repair(TemplateInput& input,
                                const std::function<bool(const TemplateInput&)>& renders) {
  std::vector<unsigned> sets;
  for (unsigned set = 1; set < 1U << std::size(kRepairs); ++set) sets.push_back(set);
  std::ranges::stable_sort(sets, {}, [](unsigned set) { return std::popcount(set); });
  for (const unsigned set : sets) {
    TemplateInput changed = input;
    std::vector<std::string> names;
    bool each_changes = true;
    for (std::size_t i = 0; i < std::size(kRepairs) && each_changes; ++i) {
      if ((set >> i & 1U) == 0) continue;
      const TemplateInput before = changed;
      kRepairs[i].apply(changed);
      each_changes = !same(before, changed);
      names.emplace_back(kRepairs[i].name);
    }
    if (!each_changes || !renders(changed)) continue;
    input = std::move(changed);
    return names;
  }
  return {};
}

}  // namespace cria::tools
