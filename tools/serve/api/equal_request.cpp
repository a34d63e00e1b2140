#include "tools/serve/api/equal_request.h"

#include <algorithm>

#include "model/file/json.h"
#include "tools/requests/answer_fields.h"
#include "tools/requests/messages.h"

namespace cria::serve {

using tools::element_path;

Json& MessageList::add(Json message, const std::string& path) {
  to_.paths.emplace_back(element_path("messages", size()), path);
  to_.body["messages"].push_back(std::move(message));
  return back();
}

void MessageList::continue_last() {
  if (!empty() && back()["role"] == "assistant" && !back().contains("tool_calls"))
    to_.body["continue_final_message"] = true;
}

void copy_own_fields(const Fields& from, EqualRequest& to, const std::string& prefix) {
  // These protocols have one answer, and streams of their own.
  constexpr std::string_view kForeign[] = {"n",      "best_of",        "echo",
                                           "prompt", "stream_options", "return_progress",
                                           "system", "instructions",   "input"};
  for (const std::string& name : from.unknown()) {
    if (to.body.contains(name) || std::ranges::count(kForeign, name) != 0) {
      tools::reject_foreign_field(from, name);
      continue;
    }
    to.body[name] = from.json()[name];
    if (!prefix.empty()) to.paths.emplace_back(name, prefix + name);
  }
}

void end_with_context(EqualRequest& to) {
  for (const std::string_view name : tools::kMaxTokensNames) {
    const auto found = to.body.find(std::string(name));
    if (found != to.body.end() && !found->is_null() && *found != -1) return;
  }
  to.body["max_tokens"] = 1 << 30;
}

void copy_field(const Fields& from, const std::string& name, EqualRequest& to,
                const std::string& equal) {
  const Json* const value = from.find(name);
  if (value == nullptr) return;
  to.body[equal] = *value;
  to.paths.emplace_back(equal, from.path(name));
}

void MessageList::finish(const Fields& read) {
  tools::reject_lost_members(read);
  for (const std::string& name : read.unknown())
    if (!tools::changes_nothing(name)) tools::add_ignored(to_.ignored, {name}, path_ + ".");
}

std::string MessageList::read_text_part(const Json& json, const std::string& path,
                                        std::initializer_list<std::string_view> types) {
  const Fields part(json, path);
  const std::string type = part.require_text("type");
  if (std::ranges::count(types, type) == 0)
    tools::refuse_unsupported(part.path("type"), "only text is supported here");
  std::string text = type == "input_json"
                         ? exact_json_text(part.require("data", "an object or an array"))
                         : part.require_text(type == "refusal" ? "refusal" : "text");
  finish(part);
  return text;
}

std::string MessageList::read_text_parts(const Json& content, const std::string& path,
                                         std::initializer_list<std::string_view> types,
                                         std::string_view between) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) tools::refuse_type(path, "a string or an array of parts", content);
  if (content.size() > 4096) tools::refuse_value(path, "at most 4096 parts", content.size());
  std::string all;
  for (std::size_t i = 0; i < content.size(); ++i) {
    if (i > 0) all += between;
    all += read_text_part(content[i], element_path(path, i), types);
  }
  return all;
}

}  // namespace cria::serve
