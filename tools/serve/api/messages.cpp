#include "tools/serve/api/protocols.h"

#include <utility>

#include "model/file/json.h"
#include "tools/serve/api/embeddings.h"
#include "tools/serve/api/equal_request.h"
#include "tools/serve/api/prompts.h"
#include "tools/serve/api/replies.h"
#include "tools/serve/http/response.h"

namespace cria::serve {
namespace {

using tools::element_path;
using tools::refuse_type;
using tools::refuse_unsupported;
using tools::refuse_value;

/// Clients' identifiers for billing change with each request and would spoil the prefix cache.
bool is_billing(const std::string& text) { return text.starts_with("x-anthropic-"); }

void read_system(const Fields& body, MessageList& messages) {
  const Json* const system = body.find("system");
  if (system == nullptr) return;
  std::string all;
  if (system->is_array()) {
    for (std::size_t i = 0; i < system->size(); ++i) {
      const std::string text =
          messages.read_text_part((*system)[i], element_path("system", i), {"text"});
      if (!is_billing(text)) all += (all.empty() ? "" : "\n\n") + text;
    }
  } else {
    all = messages.read_text_parts(*system, "system", {"text"});
  }
  if (!all.empty()) messages.add({{"role", "system"}, {"content", all}}, "system");
}

/// Turns the blocks of one message into messages: results of tools come first.
class Blocks {
 public:
  Blocks(std::string role, MessageList& messages) : role_(std::move(role)), messages_(messages) {}

  void add(const Json& json, const std::string& path) {
    const Fields block(json, path);
    const std::string type = block.require_text("type");
    const bool assistant = role_ == "assistant";
    if (type == "text")
      text_ += block.require_text("text");
    else if (assistant && type == "thinking")
      thoughts_ += block.require_text("thinking");
    else if (assistant && type == "tool_use")
      add_call(block);
    else if (role_ == "user" && type == "tool_result")
      add_result(block);
    else if (!assistant || type != "redacted_thinking")
      refuse(block.path("type"), type);
    has_text_ = has_text_ || type != "tool_result";
    if (type != "redacted_thinking") messages_.finish(block);
  }
  void finish(const std::string& path) {
    if (!has_text_ && results_ > 0) return;
    Json message = {{"role", role_}, {"content", text_}};
    if (!thoughts_.empty()) message["reasoning_content"] = thoughts_;
    if (!calls_.empty()) {
      message["tool_calls"] = calls_;
      if (text_.empty()) message["content"] = nullptr;
    }
    messages_.add(std::move(message), path);
  }

 private:
  [[noreturn]] static void refuse(const std::string& path, const std::string& type) {
    const char* const why =
        type == "tool_use"      ? "only the assistant's messages have calls"
        : type == "tool_result" ? "only the user's messages have results of tools"
        : type == "document"    ? "only text is read: put a document into a text block"
                                : "only text, thoughts, calls and their results are read";
    refuse_unsupported(path, why);
  }
  void add_call(const Fields& block) {
    const Json* const input = block.object("input");
    calls_.push_back({{"id", block.require_text("id")},
                      {"type", "function"},
                      {"function",
                       {{"name", block.require_text("name")},
                        {"arguments", input == nullptr ? "{}" : exact_json_text(*input)}}}});
  }
  void add_result(const Fields& block) {
    const Json* const content = block.find("content");
    const std::string id = block.require_text("tool_use_id");
    std::string text = content == nullptr
                           ? ""
                           : messages_.read_text_parts(*content, block.path("content"), {"text"});
    if (block.flag("is_error").value_or(false)) text = "Error: " + text;
    messages_.add({{"role", "tool"}, {"tool_call_id", id}, {"content", std::move(text)}},
                  block.path("content"));
    ++results_;
  }

  const std::string role_;
  MessageList& messages_;
  std::string text_, thoughts_;
  Json calls_ = Json::array();
  std::size_t results_ = 0;
  bool has_text_ = false;
};

void read_message(const Json& json, const std::string& path, MessageList& messages) {
  const Fields message(json, path);
  const std::string role = message.require_text("role");
  if (role != "user" && role != "assistant" && role != "system")
    refuse_value(message.path("role"), R"("user", "assistant" or "system")", role);
  const Json& content = message.require("content", "a string or an array of blocks");
  const std::string at = message.path("content");
  messages.finish(message);
  if (content.is_string()) {
    messages.add({{"role", role}, {"content", content}}, path);
    return;
  }
  if (!content.is_array()) refuse_type(at, "a string or an array of blocks", content);
  if (content.size() > 4096) refuse_value(at, "at most 4096 blocks", content.size());
  Blocks blocks(role, messages);
  for (std::size_t i = 0; i < content.size(); ++i) blocks.add(content[i], element_path(at, i));
  blocks.finish(path);
}

void read_conversation(const Fields& body, EqualRequest& to) {
  MessageList messages(to);
  read_system(body, messages);
  (void)body.require("messages", "an array of messages");
  const Json& list = *body.array("messages");
  if (list.empty() || list.size() > 4096)
    refuse_value("messages", "an array of 1 to 4096 messages",
                 list.empty() ? list : Json(list.size()));
  for (std::size_t i = 0; i < list.size(); ++i)
    read_message(list[i], element_path("messages", i), messages);
  if (messages.empty()) refuse_value("messages", "a message with text", list);
  messages.continue_last();
}

/// Adds examples of a tool's input to its description.
void add_examples(const Json& examples, const Fields& tool, Json& function) {
  std::string text = tool.text("description").value_or("");
  text += text.empty() ? "Examples of input:" : "\n\nExamples of input:";
  for (const Json& example : examples) text += "\n" + exact_json_text(example);
  function["description"] = std::move(text);
}

/// Tools without a schema are Anthropic's own: left out.
void read_tools(const Fields& body, EqualRequest& to) {
  const Json* const tools = body.array("tools");
  if (tools == nullptr) return;
  Json all = Json::array();
  for (std::size_t i = 0; i < tools->size(); ++i) {
    const Fields tool((*tools)[i], element_path("tools", i));
    const Json* const schema = tool.object("input_schema");
    if (schema == nullptr) {
      for (const char* const other : {"inputSchema", "parameters", "function"})
        if (tool.has(other)) refuse_unsupported(tool.path(other), R"(use "input_schema")");
      tools::add_ignored(to.ignored, {tool.text("type").value_or("")}, "tools.");
      continue;
    }
    Json function = {{"name", tool.require_text("name")}};
    if (const Json* const text = tool.find("description")) function["description"] = *text;
    if (const Json* const examples = tool.array("input_examples"); examples && !examples->empty())
      add_examples(*examples, tool, function);
    function["parameters"] = *schema;
    if (const Json* const strict = tool.find("strict")) function["strict"] = *strict;
    const std::string at = element_path("tools", all.size());
    to.paths.emplace_back(at, element_path("tools", i));
    to.paths.emplace_back(at + ".function", element_path("tools", i));
    to.paths.emplace_back(at + ".function.parameters", tool.path("input_schema"));
    all.push_back({{"type", "function"}, {"function", std::move(function)}});
  }
  to.body["tools"] = std::move(all);
}

void read_tool_choice(const Fields& body, EqualRequest& to) {
  const Json* const json = body.object("tool_choice");
  if (json == nullptr) return;
  const Fields choice(*json, "tool_choice");
  const std::string type = choice.require_text("type");
  if (type == "tool") {
    to.body["tool_choice"] = {{"type", "function"},
                              {"function", {{"name", choice.require_text("name")}}}};
    to.paths.emplace_back("tool_choice.function", "tool_choice");
  } else if (type == "auto" || type == "any" || type == "none") {
    to.body["tool_choice"] = type;
  } else {
    refuse_value("tool_choice.type", R"("auto", "any", "tool" or "none")", type);
  }
  if (choice.flag("disable_parallel_tool_use").value_or(false))
    to.body["parallel_tool_calls"] = false;
}

/// {"type": "json_schema", "schema": …}
void read_format(const Fields& holder, const char* name, EqualRequest& to) {
  const Json* const json = holder.object(name);
  if (json == nullptr) return;
  const Fields format(*json, holder.path(name));
  if (const std::string type = format.require_text("type"); type != "json_schema")
    refuse_value(format.path("type"), "\"json_schema\"", type);
  to.body["response_format"] = {
      {"type", "json_schema"},
      {"json_schema", {{"name", "format"}, {"schema", format.require("schema", "a JSON schema")}}}};
  to.paths.emplace_back("response_format", holder.path(name));
  to.paths.emplace_back("response_format.json_schema.schema", format.path("schema"));
}

void read_thinking(const Fields& body, EqualRequest& to) {
  copy_field(body, "thinking", to, "thinking");
  if (const Json* const json = body.object("output_config")) {
    const Fields config(*json, "output_config");
    if (const auto effort = config.text("effort")) to.body["reasoning_effort"] = *effort;
    to.paths.emplace_back("reasoning_effort", "output_config.effort");
    read_format(config, "format", to);
  }
  read_format(body, "output_format", to);
}

}  // namespace

EqualRequest read_messages_request(const Json& json) {
  const Fields body(json);
  EqualRequest to;
  to.body = Json::object();
  if (body.has("thread"))
    throw RequestError("thread_unsupported_request", "thread",
                       "\"thread\": threads are not kept here; send the whole conversation");
  for (const char* name : {"container", "mcp_servers", "logprobs", "top_logprobs"})
    if (body.has(name)) refuse_unsupported(name, "this is not supported here");
  for (const char* name : {"cache_control", "metadata", "service_tier", "context_management"})
    (void)body.has(name);
  read_conversation(body, to);
  read_tools(body, to);
  read_tool_choice(body, to);
  read_thinking(body, to);
  copy_field(body, "stop_sequences", to, "stop");
  copy_own_fields(body, to);
  to.reply = [](ReplyParts parts) { return std::make_shared<MessagesReply>(std::move(parts)); };
  return to;
}

std::vector<Route> messages_routes(Api& api) {
  std::vector<Route> routes;
  for (const std::string prefix : {"/v1", ""}) {
    routes.push_back(
        api.post_route(prefix + "/messages",
                       [&api](const auto& exchange, const Json& body, const ModelLease& model) {
                         api.ask(exchange, model, read_messages_request(body));
                       }));
    routes.back().endpoint = "/v1/messages";
    routes.push_back(api.post_route(
        prefix + "/messages/count_tokens",
        [&api](const auto& exchange, const Json& body, const ModelLease& model) {
          const std::size_t n = api.count_tokens(*exchange, *model, read_messages_request(body));
          exchange->answer(200, kJsonType, json_text({{"input_tokens", n}}));
        }));
    routes.back().endpoint = "/v1/messages/count_tokens";
  }
  return routes;
}

}  // namespace cria::serve
