#include "tools/options/batch_request.h"

#include <utility>

#include "tools/options/answer_fields.h"
#include "tools/options/constraint_fields.h"

namespace cria::tools {
namespace {

/// Takes keys out of an object; what is left at the end was not understood.
class Keys {
 public:
  explicit Keys(RequestJson object) : object_(std::move(object)) {}

  [[nodiscard]] Fields fields() const { return {object_}; }
  /// Null and absent are the same.
  std::optional<RequestJson> take(std::string_view key) {
    const auto found = object_.find(std::string(key));
    if (found == object_.end()) return std::nullopt;
    RequestJson value = std::move(*found);
    object_.erase(found);
    return value.is_null() ? std::nullopt : std::optional(std::move(value));
  }
  std::optional<std::string> take_text(std::string_view key) {
    auto text = fields().text(key);
    take(key);
    return text;
  }
  std::optional<bool> take_flag(std::string_view key) {
    const auto flag = fields().flag(key);
    take(key);
    return flag;
  }
  [[nodiscard]] const RequestJson& rest() const { return object_; }

 private:
  RequestJson object_;
};

/// What the answer has to be; without such a field, what the command line says.
void take_constraint(Keys& keys, GenerateOptions& options) {
  const bool said = keys.fields().find("response_format") != nullptr;
  const ConstraintFields wanted = read_constraint_fields(keys.fields());
  if (said || wanted.kind != ConstraintFields::Kind::None) options.constraint = compile(wanted);
  keys.take("response_format");
  keys.take("grammar");
}

void take_options(Keys& keys, GenerateOptions& options) {
  reject_unsupported_fields(keys.fields());
  keys.take("modalities");
  read_answer_fields(keys.fields(), {}, options);
  for (const std::string_view name : answer_field_names()) keys.take(name);
  take_constraint(keys, options);
}

/// What says nothing about the answer, or only what is done anyway.
void take_ignored(Keys& keys) {
  for (const char* key : {"model", "user", "store", "metadata", "service_tier", "stream_options"})
    keys.take(key);
  const auto only = [&](const char* key, const RequestJson& value) {
    const auto got = keys.take(key);
    if (got && *got != value) refuse_value(key, value.dump(), *got);
  };
  only("n", 1);
  only("stream", false);
  only("echo", false);
  only("best_of", 1);
}

/// Whether tools are called, and how often, is left to the model.
void take_tool_choice(Keys& keys) {
  const auto choice = keys.take("tool_choice");
  if (choice && *choice != "none" && *choice != "auto")
    refuse_unsupported("tool_choice",
                       "calls cannot be required here; \"auto\" leaves them to the model");
  if (choice && *choice == "none") keys.take("tools");
  const bool has_tools = keys.fields().has("tools") && !keys.fields().json()["tools"].empty();
  if (keys.take_flag("parallel_tool_calls") == false && has_tools)
    refuse_unsupported("parallel_tool_calls", "how many calls there are is left to the model here");
}

/// As `cria serve` reads them: what the template may ask for stands in "chat_template_kwargs", too.
RequestJson conversation_of(RequestJson request) {
  if (const RequestJson* const found = Fields(request).object("chat_template_kwargs")) {
    RequestJson more = *found;
    for (const char* key : {"messages", "tools"}) more.erase(key);
    more.update(request);
    request = std::move(more);
  }
  request.erase("chat_template_kwargs");
  return request;
}

/// The prompt, or the messages with what is left of the keys for the template.
void take_text(Keys& keys, BatchRequest& request) {
  if (const auto prompt = keys.take_text("prompt")) {
    request.prompt = *prompt;
    for (const auto& [key, value] : keys.rest().items())
      throw Error("", "\"" + key + "\" is no key of a prompt");
    return;
  }
  if (!keys.rest().contains("messages")) throw Error("", "expected \"prompt\" or \"messages\"");
  if (request.raw == true) throw Error("", "a text that goes on has a \"prompt\", no \"messages\"");
  take_tool_choice(keys);
  request.conversation = parse_conversation(conversation_of(keys.rest()).dump(), "");
  if (request.conversation.messages.empty()) throw Error("", "\"messages\" is empty");
}

RequestJson parse_line(const std::string& line) {
  RequestJson json = parse_request_json(line);
  if (!json.is_object())
    throw Error("", std::string("expected an object, got ") + json.type_name());
  return json;
}

}  // namespace

BatchRequest parse_batch_request(const std::string& line, const GenerateOptions& defaults) {
  BatchRequest request;
  request.generate = defaults;
  Keys outer(parse_line(line));
  request.custom_id = outer.take_text("custom_id").value_or("");
  std::optional<RequestJson> body = outer.take("body");
  request.openai = body.has_value();
  Keys keys = body ? Keys(std::move(*body)) : std::move(outer);
  if (request.openai) {
    if (!keys.rest().is_object()) refuse_type("body", "an object", keys.rest());
    const std::string url = outer.take_text("url").value_or("");
    const bool chat = url.ends_with("/chat/completions");
    if (!url.empty() && !chat && !url.ends_with("/completions"))
      refuse_value("url", "\"/v1/chat/completions\" or \"/v1/completions\"", url);
    request.raw = url.empty() ? keys.rest().contains("prompt") : !chat;
  } else {
    request.raw = keys.take_flag("raw");
  }
  take_options(keys, request.generate);
  take_ignored(keys);
  take_text(keys, request);
  return request;
}

BatchRequest identify_batch_request(const std::string& line) {
  BatchRequest request;
  const RequestJson json = RequestJson::parse(line, nullptr, false);
  if (!json.is_object()) return request;
  request.openai = json.contains("body");
  if (json.contains("custom_id") && json["custom_id"].is_string())
    request.custom_id = json["custom_id"];
  return request;
}

}  // namespace cria::tools
