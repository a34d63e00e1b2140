#include "tools/serve/api/protocols.h"

#include <algorithm>
#include <set>
#include <utility>

#include "tools/serve/api/equal_request.h"
#include "tools/serve/api/replies.h"
#include "tools/serve/http/response.h"

namespace cria::serve {
namespace {

using tools::element_path;
using tools::refuse_type;
using tools::refuse_unsupported;
using tools::refuse_value;

std::string tool_name(const Fields& fields) {
  const std::string name = fields.require_text("name");
  const auto space = fields.text("namespace");
  return space ? *space + "__" + name : name;
}

/// Turns the items of "input" into messages. Neighbouring items of the assistant are one message.
class Items {
 public:
  Items(MessageList& messages, std::uint64_t scope, ResponseStore& store, bool json_parts)
      : messages_(messages), scope_(scope), store_(store), json_parts_(json_parts) {}

  void add(const Json& json, const std::string& path) {
    const Fields item(json, path);
    const std::string type = item.text("type").value_or("message");
    if (type == "item_reference")
      add_reference(item);
    else if (type == "message")
      add_message(item);
    else if (type == "reasoning")
      add_thoughts(item);
    else if (type == "function_call")
      add_call(item);
    else if (type == "function_call_output")
      add_result(item);
    else
      refuse_unsupported(item.path("type"), "items of this type are not supported here");
    messages_.finish(item);
  }

 private:
  void add_reference(const Fields& item) {
    const std::string id = item.require_text("id");
    const Json found = store_.find_item(scope_, id);
    if (found.is_null())
      throw RequestError("item_not_found", item.path("id"),
                         "\"" + item.path("id") +
                             "\": this item is not kept here; responses with "
                             "\"store\": false and old ones are not");
    add(found, item.path("id"));
  }
  void add_message(const Fields& item) {
    const std::string role = item.require_text("role");
    if (role != "user" && role != "assistant" && role != "system" && role != "developer")
      refuse_value(item.path("role"), R"("user", "assistant", "system" or "developer")", role);
    const std::string text = messages_.read_text_parts(
        item.require("content", "a string or an array of parts"), item.path("content"),
        {"input_text", "output_text", "text", "refusal", json_parts_ ? "input_json" : "text"});
    if (role == "assistant") {
      Json& message = assistant(item.path("content"));
      message["content"] =
          (message["content"].is_null() ? "" : message["content"].get<std::string>()) + text;
      return;
    }
    open_ = false;
    thoughts_.clear();
    messages_.add({{"role", role}, {"content", text}}, item.path("content"));
  }
  /// They belong to the assistant's message that follows.
  void add_thoughts(const Fields& item) {
    std::string text;
    for (const char* name : {"content", "summary"})
      if (const Json* const parts = item.array(name); parts != nullptr && text.empty())
        text = messages_.read_text_parts(*parts, item.path(name),
                                         {"reasoning_text", "summary_text", "text"});
    thoughts_ += text;
  }
  void add_call(const Fields& item) {
    const std::string name = tool_name(item), id = item.require_text("call_id");
    const std::string arguments = item.require_text("arguments");
    Json& message = assistant(item.path("arguments"));
    if (message["content"] == "") message["content"] = nullptr;
    message["tool_calls"].push_back({{"id", id},
                                     {"type", "function"},
                                     {"function", {{"name", name}, {"arguments", arguments}}}});
  }
  void add_result(const Fields& item) {
    const std::string id = item.require_text("call_id");
    const std::string text =
        messages_.read_text_parts(item.require("output", "a string or an array"),
                                  item.path("output"), {"input_text", "text"});
    open_ = false;
    thoughts_.clear();
    messages_.add({{"role", "tool"}, {"tool_call_id", id}, {"content", text}}, item.path("output"));
  }
  Json& assistant(const std::string& path) {
    if (!open_) messages_.add({{"role", "assistant"}, {"content", ""}}, path);
    open_ = true;
    Json& message = messages_.back();
    if (!thoughts_.empty())
      message["reasoning_content"] =
          message.value("reasoning_content", "") + std::exchange(thoughts_, {});
    return message;
  }

  MessageList& messages_;
  const std::uint64_t scope_;
  ResponseStore& store_;
  const bool json_parts_;
  bool open_ = false;  // the last message is the assistant's, and of this request
  std::string thoughts_;
};

/// Reads the tools, for the equal request and for the answer.
class ToolList {
 public:
  ToolList(EqualRequest& to, ResponsesForm& form) : to_(to), form_(form) {}

  void read(const Fields& body) {
    form_.told["tools"] = Json::array();
    const Json* const tools = body.array("tools");
    if (tools == nullptr) return;
    to_.body["tools"] = Json::array();
    for (std::size_t i = 0; i < tools->size(); ++i) add((*tools)[i], element_path("tools", i));
  }

 private:
  void add(const Json& json, const std::string& path) {
    const Fields tool(json, path);
    const std::string type = tool.require_text("type");
    if (type == "custom")
      refuse_unsupported(tool.path("type"), "only tools with a JSON schema are supported here");
    if (type != "function" && type != "namespace")  // OpenAI's own
      return tools::add_ignored(to_.ignored, {type}, "tools.");
    form_.told["tools"].push_back(json);
    if (type == "function") return add_function(tool, "");
    const std::string space = tool.require_text("name");
    const Json* const inner = tool.array("tools");
    if (inner == nullptr) tools::refuse_missing(tool.path("tools"), "an array of tools");
    if (!tool.text("description").value_or("").empty())
      tools::add_ignored(to_.ignored, {"description"}, "tools.namespace.");
    for (std::size_t i = 0; i < inner->size(); ++i)
      add_function(Fields((*inner)[i], element_path(tool.path("tools"), i)), space);
  }
  void add_function(const Fields& tool, const std::string& space) {
    const std::string name = tool.require_text("name");
    const std::string full = space.empty() ? name : space + "__" + name;
    if (!space.empty()) form_.spaces[full] = {name, space};
    Json function = {{"name", full}};
    for (const char* member : {"description", "parameters", "strict"})
      if (const Json* const value = tool.find(member)) function[member] = *value;
    Json& all = to_.body["tools"];
    const std::string at = element_path("tools", all.size()), path = tool.path("");
    to_.paths.emplace_back(at, path.substr(0, path.size() - 1));
    to_.paths.emplace_back(at + ".function", path.substr(0, path.size() - 1));
    all.push_back({{"type", "function"}, {"function", std::move(function)}});
  }

  EqualRequest& to_;
  ResponsesForm& form_;
};

Json function_choice(const Fields& tool) {
  if (const std::string type = tool.require_text("type"); type != "function")
    refuse_value(tool.path("type"), "\"function\"", type);
  return {{"type", "function"}, {"function", {{"name", tool_name(tool)}}}};
}

void read_response_choice(const Fields& body, EqualRequest& to) {
  const Json* const json = body.find("tool_choice");
  if (json == nullptr) return;
  Json& choice = to.body["tool_choice"];
  choice = *json;
  if (!json->is_object()) return;
  const Fields fields(*json, "tool_choice");
  to.paths.emplace_back("tool_choice.function", "tool_choice");
  if (fields.require_text("type") != "allowed_tools") {
    choice = function_choice(fields);
    return;
  }
  Json allowed = {{"mode", fields.require_text("mode")}, {"tools", Json::array()}};
  if (const Json* const tools = fields.array("tools"))
    for (std::size_t i = 0; i < tools->size(); ++i)
      allowed["tools"].push_back(
          function_choice(Fields((*tools)[i], element_path("tool_choice.tools", i))));
  choice = {{"type", "allowed_tools"}, {"allowed_tools", std::move(allowed)}};
  to.paths.emplace_back("tool_choice.allowed_tools", "tool_choice");
}

void read_text_format(const Fields& body, EqualRequest& to) {
  const Json* const text = body.object("text");
  if (text == nullptr) return;
  const Fields fields(*text, "text");
  const Json* const json = fields.object("format");
  if (json == nullptr) return;
  const Fields format(*json, "text.format");
  Json& out = to.body["response_format"];
  to.paths.emplace_back("response_format", "text.format");
  out = {{"type", format.require_text("type")}};
  if (out["type"] != "json_schema") return;
  Json schema = *json;
  schema.erase("type");
  out["json_schema"] = std::move(schema);
  to.paths.emplace_back("response_format.json_schema", "text.format");
}

/// Either asks for log-probabilities.
void read_logprobs(const Fields& body, EqualRequest& to) {
  const Json* const include = body.array("include");
  const bool included =
      include != nullptr && std::ranges::count(*include, "message.output_text.logprobs") != 0;
  if (body.has("top_logprobs") || included) to.body["logprobs"] = true;
  copy_field(body, "top_logprobs", to, "top_logprobs");
}

void refuse_foreign(const Fields& body) {
  for (const char* name : {"background", "conversation", "prompt", "context_management"}) {
    const Json* const value = body.find(name);
    if (value != nullptr && *value != false && !value->empty())
      refuse_unsupported(name, "this is not supported here");
  }
  if (const auto truncation = body.text("truncation"); truncation && *truncation != "disabled")
    refuse_unsupported("truncation", "nothing is cut here; only \"disabled\" is supported");
}

/// The members of the answer that repeat the request.
void tell(const Fields& body, ResponsesForm& form) {
  const auto copy = [&](const char* name, Json absent) {
    const Json* const value = body.find(name);
    form.told[name] = value != nullptr ? *value : std::move(absent);
  };
  copy("instructions", nullptr);
  copy("max_output_tokens", nullptr);
  copy("metadata", Json::object());
  copy("parallel_tool_calls", true);
  copy("previous_response_id", nullptr);
  form.told["reasoning"] = {{"effort", nullptr}, {"summary", nullptr}};
  if (const Json* const reasoning = body.object("reasoning")) {
    const Fields fields(*reasoning, "reasoning");
    for (const char* name : {"effort", "summary"})
      if (const auto value = fields.text(name)) form.told["reasoning"][name] = *value;
    if (!form.told["reasoning"]["summary"].is_null()) form.summary = true;
  }
  form.told["store"] = body.flag("store").value_or(true);
  copy("text", Json::object());
  if (!form.told["text"].contains("format")) form.told["text"]["format"] = {{"type", "text"}};
  copy("tool_choice", "auto");
  form.told["truncation"] = "disabled";
}

}  // namespace

// The order of the conversation: instructions, the previous response, then the input.
void read_response_input(const Fields& body, std::uint64_t scope, ResponseStore& store,
                         EqualRequest& to, bool json_parts) {
  MessageList messages(to, "input");
  if (const auto text = body.text("instructions"))
    messages.add({{"role", "system"}, {"content", *text}}, "instructions");
  const auto previous = body.text("previous_response_id");
  if (previous) {
    const auto kept = store.find(scope, *previous);
    if (kept == nullptr)
      throw RequestError("previous_response_not_found", "previous_response_id",
                         "\"previous_response_id\": this response is not kept here");
    for (const Json& message : kept->conversation) messages.add(message, "previous_response_id");
  }
  const Json* const input = body.find("input");
  if (input == nullptr && previous) return;
  if (input == nullptr) tools::refuse_missing("input", "a string or an array of items");
  if (input->is_string()) {
    messages.add({{"role", "user"}, {"content", *input}}, "input");
    return;
  }
  if (!input->is_array()) refuse_type("input", "a string or an array of items", *input);
  if (input->empty() || input->size() > 4096)
    refuse_value("input", "1 to 4096 items", input->empty() ? *input : Json(input->size()));
  Items items(messages, scope, store, json_parts);
  for (std::size_t i = 0; i < input->size(); ++i) items.add((*input)[i], element_path("input", i));
  if (messages.empty()) refuse_value("input", "an item with text", *input);
}

EqualRequest read_responses_request(const Json& json, std::uint64_t scope, ResponseStore& store) {
  const Fields body(json);
  EqualRequest to;
  to.body = Json::object();
  auto form = std::make_shared<ResponsesForm>();
  refuse_foreign(body);
  read_response_input(body, scope, store, to);
  ToolList(to, *form).read(body);
  read_response_choice(body, to);
  read_text_format(body, to);
  read_logprobs(body, to);
  copy_field(body, "max_output_tokens", to, "max_completion_tokens");
  for (const char* name : {"parallel_tool_calls", "metadata", "reasoning"})
    copy_field(body, name, to, name);
  tell(body, *form);
  copy_own_fields(body, to);
  form->conversation = to.body["messages"];
  if (body.has("instructions")) form->conversation.erase(0);  // not inherited
  to.change = [form, &store](const CompletionRequest& request) {
    form->told["temperature"] = request.generate.sampler.temperature;
    form->told["top_p"] = request.generate.sampler.top_p;
    if (!store.keeps(json_text(form->conversation).size())) form->told["store"] = false;
  };
  form->keep = [scope, &store](Json& response, Json conversation) {
    return store.add(scope, response, std::move(conversation));
  };
  to.reply = [form](ReplyParts parts) {
    return std::make_shared<ResponsesReply>(std::move(parts), std::move(*form));
  };
  return to;
}

std::vector<Route> responses_routes(Api& api, ResponseStore& store) {
  std::vector<Route> routes;
  const auto add = [&routes](Route route, const char* endpoint) {
    route.endpoint = endpoint;
    routes.push_back(std::move(route));
  };
  const auto missing = [](Exchange& exchange) {
    exchange.fail(
        404, error_body(exchange.request(), 404, "this response is not kept here", "not_found"));
  };
  for (const std::string prefix : {"/v1", ""}) {
    add(api.post_route(prefix + "/responses",
                       [&](const auto& exchange, const Json& body, const ModelLease& model) {
                         api.ask(exchange, model,
                                 read_responses_request(body, exchange->request().scope, store));
                       }),
        "/v1/responses");
    add(api.post_route(prefix + "/responses/input_tokens",
                       [&](const auto& exchange, const Json& body, const ModelLease& model) {
                         const std::size_t n = api.count_tokens(
                             *exchange, *model,
                             read_responses_request(body, exchange->request().scope, store));
                         exchange->answer(
                             200, kJsonType,
                             json_text({{"object", "response.input_tokens"}, {"input_tokens", n}}));
                       }),
        "/v1/responses/input_tokens");
    const std::string one = prefix + "/responses/<id>";
    add({"GET", one,
         [&store, missing](const std::shared_ptr<Exchange>& exchange) {
           const Request& request = exchange->request();
           const auto kept = store.find(request.scope, request.parameter);
           if (kept == nullptr) return missing(*exchange);
           exchange->answer(200, kJsonType, json_text(kept->response));
         }},
        "/v1/responses/{id}");
    add({"DELETE", one,
         [&store, missing](const std::shared_ptr<Exchange>& exchange) {
           const Request& request = exchange->request();
           if (!store.remove(request.scope, request.parameter)) return missing(*exchange);
           exchange->answer(
               200, kJsonType,
               json_text({{"id", request.parameter}, {"object", "response"}, {"deleted", true}}));
         }},
        "/v1/responses/{id}");
  }
  return routes;
}

}  // namespace cria::serve
