#include <algorithm>
#include <utility>

#include "model/file/json.h"
#include "tokenizer/chat/tool_call.h"
#include "tools/serve/api/equal_request.h"
#include "tools/serve/api/protocols.h"
#include "tools/serve/api/replies.h"

namespace cria::serve {
namespace {

using tools::element_path;
using tools::refuse_type;
using tools::refuse_unsupported;
using tools::refuse_value;

void refuse_set(const Fields& fields, const char* name,
                const char* why = "this is not supported here") {
  tools::reject_foreign_field(fields, name);
  const Json* const value = fields.find(name);
  if (value != nullptr && *value != false && !value->empty())
    refuse_unsupported(fields.path(name), why);
}

/// Turns Ollama's messages into OpenAI's. Calls may lack ids there: results follow their order.
class Talk {
 public:
  explicit Talk(MessageList& messages) : messages_(messages) {}

  void add(const Json& json, const std::string& path) {
    const Fields message(json, path);
    const std::string role = message.require_text("role");
    if (role != "system" && role != "user" && role != "assistant" && role != "tool")
      refuse_value(message.path("role"), R"("system", "user", "assistant" or "tool")", role);
    refuse_set(message, "images");
    Json out = {{"role", role}, {"content", message.text("content").value_or("")}};
    if (const auto thoughts = message.text("thinking")) out["reasoning_content"] = *thoughts;
    if (role == "assistant") add_calls(message, out);
    if (role == "tool") out["tool_call_id"] = take_id(message);
    messages_.finish(message);
    messages_.add(std::move(out), path);
  }

 private:
  struct Call {
    std::string id, name;
  };

  void add_calls(const Fields& message, Json& out) {
    const Json* const calls = message.array("tool_calls");
    if (calls == nullptr || calls->empty()) return;
    open_.clear();
    for (std::size_t i = 0; i < calls->size(); ++i) {
      const Fields call((*calls)[i], element_path(message.path("tool_calls"), i));
      const Fields function(call.require("function", "an object"), call.path("function"));
      const std::string name = function.require_text("name");
      const Json* const arguments = function.object("arguments");
      const std::string id = call.text("id").value_or(tool_call_id(0, count_++, CallForm::None));
      open_.push_back({id, name});
      out["tool_calls"].push_back(
          {{"id", id},
           {"type", "function"},
           {"function",
            {{"name", name},
             {"arguments", arguments == nullptr ? "{}" : exact_json_text(*arguments)}}}});
    }
    if (out["content"] == "") out["content"] = nullptr;
  }
  /// Returns the id of the call that a result answers.
  std::string take_id(const Fields& message) {
    if (const auto id = message.text("tool_call_id")) return *id;
    const auto name = message.text("tool_name");
    auto found = open_.begin();
    if (name) found = std::ranges::find(open_, *name, &Call::name);
    if (found == open_.end()) return tool_call_id(0, count_++, CallForm::None);
    std::string id = std::move(found->id);
    open_.erase(found);
    return id;
  }

  MessageList& messages_;
  std::vector<Call> open_;
  std::size_t count_ = 0;
};

void read_ollama_format(const Fields& body, EqualRequest& to) {
  const Json* const format = body.find("format");
  if (format == nullptr || *format == "") return;
  to.paths.emplace_back("response_format", "format");
  to.paths.emplace_back("response_format.json_schema.schema", "format");
  if (*format == "json")
    to.body["response_format"] = {{"type", "json_object"}};
  else if (format->is_object())
    to.body["response_format"] = {{"type", "json_schema"},
                                  {"json_schema", {{"name", "format"}, {"schema", *format}}}};
  else
    refuse_value("format", "\"json\" or a JSON schema", *format);
}

void read_ollama_think(const Fields& body, EqualRequest& to) {
  constexpr std::string_view kEfforts[] = {"low", "medium", "high", "max"};
  const Json* const think = body.find("think");
  if (think == nullptr) return;
  const bool effort =
      think->is_string() && std::ranges::count(kEfforts, think->get_ref<const std::string&>()) != 0;
  if (!think->is_boolean() && !effort)
    refuse_value("think", R"(true, false, "low", "medium", "high" or "max")", *think);
  to.body["enable_thinking"] = effort || think->get<bool>();
  to.paths.emplace_back("enable_thinking", "think");
  if (effort) to.body["reasoning_effort"] = *think;
}

/// A completion has one field for log-probabilities: the number of alternatives.
void read_raw_logprobs(const Fields& body, EqualRequest& to) {
  constexpr std::int64_t kMaxAlternatives = 5;
  const auto alternatives = body.integer("top_logprobs", 0, kMaxAlternatives);
  if (body.flag("logprobs").value_or(false)) to.body["logprobs"] = alternatives.value_or(0);
}

/// Fields that all protocols share, and the number of tokens.
void read_ollama_options(const Fields& body, EqualRequest& to) {
  const Json* const json = body.object("options");
  if (json == nullptr) return;
  Json own = *json;
  for (const char* name :
       {"num_ctx", "num_keep", "num_batch", "num_gpu", "main_gpu", "num_thread", "use_mmap",
        "use_mlock", "low_vram", "numa", "draft_num_predict", "penalize_newline", "num_predict"})
    own.erase(name);
  if (const auto n = Fields(*json, "options").integer("num_predict", -2); n && *n >= 0) {
    to.body["n_predict"] = *n;
    to.paths.emplace_back("n_predict", "options.num_predict");
  }
  copy_own_fields(Fields(own, "options"), to, "options.");
}

EqualRequest read_ollama_common(const Fields& body, bool chat, bool generate) {
  EqualRequest to;
  to.chat = chat;
  to.body = Json::object();
  std::string model = body.text("model").value_or("");
  if (model.ends_with(":latest")) model.resize(model.size() - std::string_view(":latest").size());
  to.body["model"] = std::move(model);
  to.body["stream"] = body.flag("stream").value_or(true);
  for (const char* name : {"template", "images"}) refuse_set(body, name);
  refuse_set(body, "context",
             generate ? "send the earlier messages to /api/chat"
                      : R"(put the earlier messages into "messages")");
  for (const char* name : {"shift", "truncate"})
    refuse_set(body, name, "what does not fit into the context is an error");
  copy_field(body, "keep_alive", to, "keep_alive");
  to.reply = [generate](ReplyParts parts) {
    return std::make_shared<OllamaReply>(std::move(parts), generate);
  };
  return to;
}

void finish_ollama(const Fields& body, EqualRequest& to) {
  read_ollama_format(body, to);
  if (to.chat) read_ollama_think(body, to);
  read_ollama_options(body, to);
  copy_own_fields(body, to);
  if (!to.chat) end_with_context(to);
}

}  // namespace

EqualRequest read_ollama_chat(const Json& json) {
  const Fields body(json);
  EqualRequest to = read_ollama_common(body, true, false);
  MessageList messages(to);
  Talk talk(messages);
  (void)body.require("messages", "an array of messages");
  const Json& list = *body.array("messages");
  for (std::size_t i = 0; i < list.size(); ++i) talk.add(list[i], element_path("messages", i));
  messages.continue_last();
  copy_field(body, "tools", to, "tools");
  finish_ollama(body, to);
  return to;
}

EqualRequest read_ollama_generate(const Json& json) {
  const Fields body(json);
  const std::string suffix = body.text("suffix").value_or("");
  const bool raw = body.flag("raw").value_or(false) || !suffix.empty();
  const std::string prompt =
      suffix.empty() ? body.require_text("prompt") : body.text("prompt").value_or("");
  EqualRequest to = read_ollama_common(body, !raw, true);
  const auto system = body.text("system");
  if (raw) {
    if (system && !system->empty())
      refuse_unsupported("system", R"(no template shows it here; put it into "prompt")");
    to.body["prompt"] = prompt;
    if (!suffix.empty()) to.body["suffix"] = suffix;
    (void)body.has("think");
    read_raw_logprobs(body, to);
  } else {
    MessageList messages(to, "prompt");
    if (system && !system->empty())
      messages.add({{"role", "system"}, {"content", *system}}, "system");
    messages.add({{"role", "user"}, {"content", prompt}}, "prompt");
  }
  finish_ollama(body, to);
  return to;
}

}  // namespace cria::serve
