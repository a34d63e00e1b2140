#include "tools/options/conversation.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "model/file/json.h"
#include "tokenizer/jinja/values/json.h"
#include "tools/cli/command_line.h"
#include "tools/options/values.h"
#include "tools/requests/messages.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {

namespace {

/// A message's content may be left out where it calls tools instead.
bool may_lack_content(const Json& message) { return message.contains("tool_calls"); }

/// Throws jinja::Failure for what a template cannot take.
std::string checked_text(const Json& json) {
  (void)jinja::from_json(json);
  return exact_json_text(json);
}

/// A content of text parts as one text; nothing for another one.
std::optional<std::string> joined_text(const Json& content) {
  std::string all;
  for (const Json& part : content) {
    const bool is_text = part.is_object() && part.value("type", Json()) == "text" &&
                         part.contains("text") && part["text"].is_string();
    if (!is_text) return std::nullopt;
    all += part["text"].get_ref<const std::string&>();
  }
  return all;
}

/// Gives an answer, as OpenAI and `cria serve` return it, the content that templates expect: a
/// refusal is its text, thoughts are left out, and nothing is "".
void fill_answer(Json& message) {
  Json content = message.value("content", Json());
  if (content.is_array()) {
    std::erase_if(content.get_ref<Json::array_t&>(), [](const Json& part) {
      return part.is_object() && part.value("type", Json()) == "thinking";
    });
    for (Json& part : content)
      if (part.is_object() && part.value("type", Json()) == "refusal")
        part = {{"type", "text"}, {"text", part.value("refusal", Json())}};
  }
  const Json refusal = message.value("refusal", Json());
  message.erase("refusal");
  if (refusal.is_string() && (content.is_null() || content == "")) content = refusal;
  if (content.is_null() && !may_lack_content(message)) content = "";
  if (!content.is_null()) message["content"] = std::move(content);
}

/// OpenAI's developer is the system, as for `cria serve`.
ChatMessage read_message(Json message, const std::string& path, std::size_t index) {
  const std::string where = "message " + std::to_string(index);
  if (!message.is_object())
    throw Error(path, std::string("expected an object, got ") + message.type_name(), where);
  if (message.value("role", Json()) == "assistant") fill_answer(message);
  const auto required = [&](const char* key) -> const Json& {
    const auto found = message.find(key);
    if (found == message.end()) throw Error(path, std::string("\"") + key + "\" is missing", where);
    return *found;
  };
  const auto wrong_type = [&](const char* key, const Json& value) {
    return Error(path, std::string("\"") + key + "\": expected a string, got " + value.type_name(),
                 where);
  };
  reject_lost_members(Fields(message, element_path("messages", index)));
  for (const char* const name : {"prefix", "partial"})
    if (const auto found = message.find(name); found != message.end() && *found == true)
      throw Error(path, '"' + std::string(name) + "\": only cria serve continues a message", where);
  ChatMessage out;
  const Json& role = required("role");
  if (!role.is_string()) throw wrong_type("role", role);
  out.role = role == "developer" ? "system" : role.get<std::string>();
  if (message.contains("content") || !may_lack_content(message)) {
    const Json& content = required("content");
    if (!content.is_string() && !content.is_null() && !content.is_array())
      throw wrong_type("content", content);
    if (content.is_string()) out.content = content;
  }
  const bool plain =
      message.size() == 2 && message.contains("content") && message["content"].is_string();
  if (plain) return out;
  Json whole = message;
  whole["role"] = out.role;
  if (whole.contains("content") && whole["content"].is_array())
    out.content = joined_text(whole["content"]).value_or("");
  out.json = checked_text(whole);
  return out;
}

Conversation convert(const Json& json, const std::string& path) {
  const Json* list = &json;
  Conversation out;
  if (json.is_object()) {
    const auto found = json.find("messages");
    if (found == json.end()) throw Error(path, "\"messages\" is missing");
    list = &*found;
    Json variables = json;
    variables.erase("messages");
    if (!variables.empty()) out.variables = checked_text(variables);
  }
  if (!list->is_array())
    throw Error(path, std::string("expected an array of messages, got ") + list->type_name());
  for (const Json& message : *list)
    out.messages.push_back(read_message(message, path, out.messages.size()));
  return out;
}

/// Returns the JSON of a text that `name` names in messages. A key must not stand twice.
Json parse_named(const std::string& text, const std::string& name) {
  try {
    return parse_exact_json(text);
  } catch (const Json::parse_error& error) {
    throw Error(name, "not JSON", json_fault(error));
  } catch (const Json::exception& error) {  // a number out of range
    throw Error(name, std::string("is not valid JSON: ") + error.what());
  } catch (const Error& repeated) {
    throw Error(name, repeated.what());
  }
}

/// True if an option's value is JSON rather than the name of a file.
bool is_json_text(const std::string& value) {
  return value.starts_with('[') || value.starts_with('{');
}

Json message_json(const ChatMessage& message) {
  if (!message.json.empty()) return parse_exact_json(message.json);
  return {{"role", message.role}, {"content", message.content}};
}

}  // namespace

Conversation read_conversation(const std::string& path) {
  if (is_json_text(path)) return parse_conversation(path, "--messages");
  const std::string json = read_file(path);
  if (json.find('\0') != std::string::npos)
    throw Error(input_name(path),
                "not JSON but binary; cria chat --session FILE continues a session file");
  return parse_conversation(json, input_name(path));
}

Conversation parse_conversation(const std::string& json, const std::string& path) {
  try {
    return convert(parse_named(json, path), path);
  } catch (const jinja::Failure& failure) {
    throw Error(path, failure.what());
  }
}

std::vector<std::string> unused_names(const std::string& variables,
                                      const ChatTemplate& chat_template) {
  std::vector<std::string> names;
  if (variables.empty()) return names;
  const Json all = parse_exact_json(variables);
  for (const auto& [name, value] : all.items())
    if (!chat_template.names(name) && name != "tools") names.push_back(name);
  return names;
}

std::vector<std::string> unused_names(const Conversation& talk, const ChatTemplate& chat_template) {
  std::vector<std::string> names = unused_names(talk.variables, chat_template);
  for (const ChatMessage& message : talk.messages) {
    if (message.json.empty()) continue;
    const Json members = parse_exact_json(message.json);
    for (const auto& [name, value] : members.items())
      if (!is_known_member(name) && !chat_template.names(name) &&
          std::ranges::count(names, name) == 0)
        names.push_back(name);
  }
  return names;
}

bool has_system_message(const std::vector<ChatMessage>& messages) {
  return !messages.empty() && messages.front().role == "system";
}

void set_system_message(std::vector<ChatMessage>& messages, const std::string& text) {
  if (has_system_message(messages)) messages.erase(messages.begin());
  if (!text.empty()) messages.insert(messages.begin(), {"system", text});
}

bool set_system_option(std::vector<ChatMessage>& messages, const std::string& text,
                       const Command& command) {
  const bool has_own = text.empty() || has_system_message(messages);
  if (has_own && !command.typed("--system")) {
    if (!text.empty() && messages.front().content != text)
      print_note("the conversation has its own system message: that of " +
                 command.find("--system")->source + " is not used");
    return false;
  }
  set_system_message(messages, text);
  return true;
}

ChatMessage answer_message(const GenerateResult& answer) {
  ChatMessage message{"assistant", answer.text};
  if (answer.reasoning.empty()) return message;
  const Json json = {
      {"role", message.role}, {"content", answer.text}, {"reasoning_content", answer.reasoning}};
  message.json = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  return message;
}

std::string conversation_json(const Conversation& conversation) {
  Json list = Json::array();
  for (const ChatMessage& message : conversation.messages) list.push_back(message_json(message));
  Json all = std::move(list);
  if (!conversation.variables.empty()) {
    Json object = parse_exact_json(conversation.variables);
    object["messages"] = std::move(all);
    all = std::move(object);
  }
  return exact_json_text(all, 1) + "\n";
}

void write_conversation(const std::string& path, const Conversation& conversation) {
  OutputFile file(path);
  file.write(conversation_json(conversation));
  file.finish();
}

namespace {

// The names of templates' switch for thinking.
constexpr const char* kThinkingSwitches[] = {"enable_thinking", "thinking"};

void check_object(const std::string& text) {
  if (!parse_named(text, "").is_object()) throw Error("", "expected a JSON object, got " + text);
}

void check_call_form(const std::string& name) {
  if (!call_form_named(name))
    throw Error("", "expected one of " + call_form_names() + ", got " + name);
}

/// An array of tools, or an object that has it as "tools"; each {"type": "function", "function":
/// {…}}, or only the inner object.
Json read_tools(const std::string& path) {
  const bool is_text = is_json_text(path);
  const std::string name = is_text ? "--tools" : input_name(path);
  Json list = parse_named(is_text ? path : read_file(path), name);
  if (list.is_object() && list.contains("tools")) list = Json(list["tools"]);
  if (!list.is_array())
    throw Error(name, std::string("expected an array of tools, got ") + list.type_name());
  for (std::size_t i = 0; i < list.size(); ++i) {
    Json& tool = list[i];
    if (tool.is_object() && !tool.contains("function") && tool.contains("name"))
      tool = {{"type", "function"}, {"function", Json(tool)}};
    const bool good = tool.is_object() && tool.contains("function") &&
                      tool["function"].is_object() &&
                      tool["function"].value("name", Json()).is_string();
    if (!good)
      throw Error(name, "expected {\"type\": \"function\", \"function\": {\"name\": …}}",
                  "tool " + std::to_string(i));
  }
  return list;
}

}  // namespace

Flag template_flag(std::string& wanted) {
  return {"--chat-template", "FILE|TEXT",
          "Jinja2 template, its file, or the name of a built-in template: " +
              ChatTemplate::builtin_names() + " (default: the model's own)",
          into::text(wanted)};
}

Flag show_prompt_flag(bool& shown) {
  return {"--show-prompt", "", "print the exact text and token ids of every prompt to stderr",
          into::flag(shown)};
}

Flags TemplateVariables::flags() {
  return {{"--think",
           "",
           "let the model think before it answers, if its template has a switch for that",
           into::flag(think),
           {.excludes = "--no-think"}},
          {"--no-think", "",
           "let the model answer without thinking, if its template has a switch for that",
           into::flag(no_think)},
          {"--reasoning-effort",
           "LEVEL",
           "how much the model thinks, if its template has that setting",
           into::choice(effort, {"low", "medium", "high"}),
           {.other = "--no-think turns thinking off"}},
          {"--chat-template-kwargs", "JSON",
           "further variables for the chat template: a JSON object, for example "
           "'{\"enable_thinking\": false}'",
           into::each(others, check_object)}};
}

Flag call_form_flag(std::string& call_form) {
  return {
      "--tool-format", "NAME",
      "how the model writes tool calls: " + call_form_names() + " (default: as its template does)",
      into::text(call_form, check_call_form)};
}

Flag TemplateVariables::tools_flag() {
  return {"--tools", "FILE|TEXT",
          "tools that the model may call: a JSON array in OpenAI's form, [{\"type\": \"function\", "
          "…}], or its file (-: stdin)",
          into::once(into::text(tools))};
}

std::optional<CallForm> TemplateVariables::calls(const ChatTemplate& chat_template,
                                                 const std::string& all) const {
  if (!call_form.empty()) return call_form_named(call_form);
  const bool offered = !tools.empty() && !all.empty() && parse_exact_json(all).contains("tools");
  if (offered && chat_template.answer_format(all).calls == CallForm::None)
    throw Error(
        tools,
        "the chat template does not show how this model calls tools; --tool-format names the form");
  return std::nullopt;
}

std::string TemplateVariables::over(const std::string& own) const {
  Json all = own.empty() ? Json::object() : parse_exact_json(own);
  for (const std::string& some : others) all.update(parse_exact_json(some));
  if (!tools.empty())
    if (Json list = read_tools(tools); !list.empty()) {
      if (all.contains("tools")) print_note("--tools replaces the tools of the conversation");
      all["tools"] = std::move(list);
    }
  if (think || no_think) {
    for (const char* const name : kThinkingSwitches) all[name] = think;
  }
  if (!effort.empty()) all["reasoning_effort"] = effort;
  return all.empty() ? "" : exact_json_text(all);
}

std::string TemplateVariables::note(const ChatTemplate& chat_template) const {
  const bool has_switch = std::ranges::any_of(
      kThinkingSwitches, [&](const char* name) { return chat_template.names(name); });
  if ((think || no_think) && !has_switch)
    return std::string(think ? "--think" : "--no-think") +
           " changes nothing: the chat template has no switch for thinking";
  if (!effort.empty() && !chat_template.names("reasoning_effort"))
    return "--reasoning-effort changes nothing: the chat template does not ask for it";
  for (const std::string& some : others)
    for (const std::string& name : unused_names(some, chat_template))
      return '"' + name +
             "\" in --chat-template-kwargs changes nothing: the chat template does not use it";
  return "";
}

std::string TemplateVariables::note_without_template() const {
  const std::pair<bool, const char*> given[] = {{think, "--think"},
                                                {no_think, "--no-think"},
                                                {!effort.empty(), "--reasoning-effort"},
                                                {!others.empty(), "--chat-template-kwargs"},
                                                {!call_form.empty(), "--tool-format"}};
  const auto* const first = std::ranges::find(given, true, &std::pair<bool, const char*>::first);
  if (first == std::end(given)) return "";
  return std::string(first->second) +
         " changes nothing: this model has no chat template (--chat uses a plain one)";
}

std::vector<std::string> builtin_template_names() {
  return parts_of(ChatTemplate::builtin_names());
}

ChatTemplate named_template(const std::string& wanted, const TemplateTokens& tokens) {
  if (auto builtin = ChatTemplate::builtin(wanted, tokens)) return *builtin;
  if (wanted.find("{{") != std::string::npos || wanted.find("{%") != std::string::npos)
    return ChatTemplate::parse(wanted, "the chat template", tokens);
  std::error_code error;
  if (wanted != "-" && !std::filesystem::exists(wanted, error))
    throw Error(wanted, "is neither a file nor a built-in template" +
                            suggestion(wanted, builtin_template_names()));
  return ChatTemplate::parse(read_file(wanted), input_name(wanted), tokens);
}

ChatTemplate choose_template(const std::string& wanted, const Vocabulary& vocabulary) {
  if (wanted.empty()) return ChatTemplate::from_vocabulary(vocabulary);
  return named_template(wanted, TemplateTokens::of(vocabulary));
}

void print_and_clear(std::string& note) {
  if (!note.empty()) print_note(note);
  note.clear();
}

}  // namespace cria::tools
