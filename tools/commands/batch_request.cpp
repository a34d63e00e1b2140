#include "tools/commands/batch_request.h"

#include <algorithm>

#include "model/file/json.h"
#include "tools/requests/request.h"

namespace cria::tools {
namespace {

/// Checks that a field, which only `cria serve` implements, asks for what a batch does anyway.
void accept_only(const Fields& body, const char* name, const Json& value) {
  const Json* const got = body.find(name);
  if (got != nullptr && *got != value) refuse_value(name, value.dump(), *got);
}

GenerateOptions read_batch_options(const Fields& body, const GenerateOptions& defaults) {
  accept_only(body, "n", 1);
  accept_only(body, "stream", false);
  accept_only(body, "echo", false);
  accept_only(body, "best_of", 1);
  for (const char* name : {"user", "store", "metadata", "service_tier", "stream_options"})
    (void)body.has(name);  // known, without effect on the answer
  CompletionRequest read = read_common(body, defaults, {});
  if (body.has("response_format") || read.constraint.kind != ConstraintFields::Kind::None)
    read.generate.constraint = compile(read.constraint);
  return std::move(read.generate);
}

/// Returns the tools for the template, or null. Calls are left to the model.
Json read_batch_tools(const Fields& body) {
  const Json* const choice = body.find("tool_choice");
  if (choice != nullptr && *choice != "none" && *choice != "auto")
    refuse_unsupported("tool_choice",
                       "calls cannot be required here; \"auto\" leaves them to the model");
  const Json* tools = body.find("tools");
  if (choice != nullptr && *choice == "none") tools = nullptr;
  if (body.flag("parallel_tool_calls") == false && tools != nullptr && !tools->empty())
    refuse_unsupported("parallel_tool_calls", "the model decides how many calls it makes here");
  return tools == nullptr ? Json() : *tools;
}

/// Reads the messages. The template gets chat_template_kwargs, the unknown fields and the tools.
Conversation read_batch_conversation(const Fields& body) {
  const Json* const messages = body.find("messages");
  if (messages == nullptr) throw Error("", "expected \"prompt\" or \"messages\"");
  Json all = template_arguments(body);
  const Json tools = read_batch_tools(body);
  reject_foreign_fields(body);
  reject_typing_errors(body);
  for (const std::string& name : body.unknown()) all[name] = body.json()[name];
  all["messages"] = *messages;
  if (!tools.is_null()) all["tools"] = tools;
  Conversation conversation = parse_conversation(exact_json_text(all), "");
  if (conversation.messages.empty()) throw Error("", "\"messages\" is empty");
  return conversation;
}

void read_batch_text(const Fields& body, BatchRequest& request) {
  if (const auto prompt = body.text("prompt")) {
    if (body.has("messages")) throw Error("", "expected one of \"prompt\" and \"messages\"");
    request.prompt = *prompt;
    reject_foreign_fields(body);
    reject_typing_errors(body);
    for (const std::string& name : body.unknown())
      throw Error("", "\"" + name + "\": unknown field of a prompt");
    return;
  }
  if (request.raw == true) throw Error("", "/v1/completions needs \"prompt\", not \"messages\"");
  request.conversation = read_batch_conversation(body);
}

/// Returns true if the url of a batch line continues a text; without a url, a prompt does.
bool is_completion(const std::string& url, const Fields& body) {
  if (url.empty()) return body.has("prompt");
  if (url.ends_with("/chat/completions")) return false;
  if (url.ends_with("/completions")) return true;
  refuse_value("url", "\"/v1/chat/completions\" or \"/v1/completions\"", url);
}

}  // namespace

BatchRequest parse_batch_request(const std::string& line, const GenerateOptions& defaults) {
  const std::size_t begin = line.find_first_not_of(" \t");
  if (begin == std::string::npos || std::string_view("{[\"").find(line[begin]) == std::string::npos)
    throw Error("", R"(not JSON: each line is an object, such as {"prompt": "…"}, got )" +
                        printable(line.substr(0, 40)));
  constexpr const char* kOnePerLine = "; jq -c '.[]' writes the requests of an array one per line";
  if (line.find_first_not_of(" \t\r", begin + 1) == std::string::npos)
    throw Error("", "not JSON: each line is a request" + std::string(kOnePerLine));
  const Json json = parse_request_json(line);
  if (!json.is_object())
    throw Error("", std::string("expected an object, got ") + json.type_name() +
                        (json.is_array() ? kOnePerLine : ""));
  const Fields outer(json);
  if (outer.object("params") != nullptr)
    refuse_unsupported("params", R"(use OpenAI's form, {"custom_id", "url", "body"})");
  BatchRequest request;
  request.custom_id = outer.text("custom_id").value_or("");
  const Json* const inner = outer.find("body");
  request.openai = inner != nullptr;
  if (inner != nullptr && !inner->is_object()) refuse_type("body", "an object", *inner);
  const Fields body(inner != nullptr ? *inner : json);
  if (request.openai) {
    request.raw = is_completion(outer.text("url").value_or(""), body);
  } else {
    (void)body.has("custom_id");
    if (body.has("id")) refuse_unsupported("id", R"(use "custom_id")");
    request.raw = body.flag("raw");
  }
  request.generate = read_batch_options(body, defaults);
  read_batch_text(body, request);
  return request;
}

BatchRequest identify_batch_request(const std::string& line) {
  BatchRequest request;
  const Json json = try_json(line);
  if (!json.is_object()) return request;
  request.openai = json.contains("body");
  if (json.contains("custom_id") && json["custom_id"].is_string())
    request.custom_id = json["custom_id"];
  return request;
}

}  // namespace cria::tools
