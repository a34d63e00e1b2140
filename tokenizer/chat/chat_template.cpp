#include "tokenizer/chat/chat_template.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "model/error.h"
#include "model/vocabulary.h"
#include "tokenizer/chat/builtin_templates.h"
#include "tokenizer/chat/hermes_tools.h"
#include "tokenizer/chat/text_parts.h"
#include "tokenizer/jinja/template.h"
#include "tokenizer/jinja/values/json.h"

namespace cria {

namespace {

using jinja::Dict;
using jinja::List;
using jinja::Text;
using jinja::Value;

/// Templates write '<|' + role + '|>': these roles, whoever named them, are as good as
/// written by the template.
constexpr std::string_view kRoles[] = {"system", "user",    "assistant", "tool",        "developer",
                                       "model",  "ipython", "function",  "tool_results"};

Value role_text(const std::string& role) { return Text(role, std::ranges::count(kRoles, role) != 0); }

/// A content of several texts as one, for templates that know no parts.
Value joined_parts(const List& parts) {
  Text all;
  for (const Value& part : parts.items) {
    const Value* text = part.dict() == nullptr ? nullptr : part.dict()->find(std::string_view("text"));
    if (text == nullptr || text->text() == nullptr)
      throw Error("", "a message holds something other than text, which this chat template does not know");
    all.append(*text->text());
  }
  return all;
}

/// "": an empty object. what: for errors.
Dict parse_object(const std::string& json, const char* what) {
  if (json.empty()) return {};
  try {
    const Value value = jinja::parse_json(json);
    if (const Dict* dict = value.dict()) return *dict;
  } catch (const jinja::Failure& failure) {
    throw Error("", std::string(what) + ": " + failure.what());
  }
  throw Error("", std::string(what) + ": expected a JSON object");
}

/// What the model thought, where the template knows it by the name that gpt-oss has for it. There it is no
/// part of a message that has a content.
void rename_reasoning(Dict& message) {
  const Value* const thought = message.find(std::string_view("reasoning_content"));
  const Value* const content = message.find(std::string_view("content"));
  const bool silent = content == nullptr || content->text() == nullptr || content->text()->bytes().empty();
  if (thought != nullptr && silent) message.set("thinking", *thought);
}

/// The object that a call's arguments are in JSON. Nothing where they are no text, or not one that values of
/// templates can hold, a message and its list around them.
std::optional<Value> object_in(const Value* arguments) {
  constexpr int kDeepest = List::kDeepest - 8;
  if (arguments == nullptr || arguments->text() == nullptr) return std::nullopt;
  try {
    Value object = jinja::parse_json(arguments->text()->bytes(), jinja::LargeIntegers::Refuse);
    if (object.dict() != nullptr && object.extent().depth < kDeepest) return object;
  } catch (const jinja::Failure&) {
  }
  return std::nullopt;
}

/// Calls whose arguments are texts with a JSON object in them, as OpenAI has them, with these objects: most
/// templates print them as JSON. Whether there were any.
bool unpack_arguments(Dict& message) {
  const Value* const calls = message.find(std::string_view("tool_calls"));
  if (calls == nullptr || calls->list() == nullptr) return false;
  std::vector<Value> out = calls->list()->items;
  bool any = false;
  for (Value& call : out) {
    const Value* const inner =
        call.dict() == nullptr ? nullptr : call.dict()->find(std::string_view("function"));
    const Dict* const called = inner == nullptr ? call.dict() : inner->dict();
    if (called == nullptr) continue;
    const auto object = object_in(called->find(std::string_view("arguments")));
    if (!object) continue;
    Dict function = *called;
    function.set("arguments", *object);
    if (inner == nullptr) {
      call = std::move(function);
    } else {
      Dict changed = *call.dict();
      changed.set("function", std::move(function));
      call = std::move(changed);
    }
    any = true;
  }
  if (any) message.set("tool_calls", List(std::move(out)));
  return any;
}

/// A content for a message that only calls tools: most templates take it for a text, so that nothing is an error there, or
/// the word "None". Whether it had none.
bool fill_content(Dict& message) {
  const Value* const calls = message.find(std::string_view("tool_calls"));
  if (calls == nullptr || calls->list() == nullptr || calls->list()->items.empty()) return false;
  const Value* const content = message.find(std::string_view("content"));
  if (content != nullptr && !content->is_none()) return false;
  message.set("content", Text("", true));
  return true;
}

/// The messages with a change to some of them; nothing where there is none.
std::optional<std::vector<Value>> changed(const std::vector<Value>& messages, bool (*change)(Dict&)) {
  std::vector<Value> out;
  bool any = false;
  for (const Value& message : messages) {
    Dict dict = *message.dict();
    any |= change(dict);
    out.emplace_back(std::move(dict));
  }
  return any ? std::optional(std::move(out)) : std::nullopt;
}

/// Whether a template asks if a content is none: "message.content is none", "message['content'] is not none".
bool asks_for_no_content(std::string_view source) {
  for (const std::string_view name : {"content", "content']", "content\"]"})
    for (const std::string_view test : {" is none", " is not none", " == none", " != none"})
      if (source.find(std::string(name) + std::string(test)) != std::string_view::npos) return true;
  return false;
}

/// The tools among a template's variables as a JSON array, or "".
std::string tools_among(const std::string& variables) {
  if (variables.find("\"tools\"") == std::string::npos) return "";
  const auto json = nlohmann::ordered_json::parse(variables, nullptr, false);
  if (!json.is_object() || !json.contains("tools")) return "";
  const auto& tools = json["tools"];
  return tools.is_array() && !tools.empty() ? tools.dump() : "";
}

Value message_value(const ChatMessage& message, bool knows_parts, bool names_thinking) {
  Dict out;
  if (!message.json.empty()) {
    out = parse_object(message.json, "message");
    const Value* content = out.find(std::string_view("content"));
    if (content != nullptr && content->list() != nullptr && !knows_parts)
      out.set("content", joined_parts(*content->list()));
    if (names_thinking) rename_reasoning(out);
  } else {
    out.set("role", {});
    out.set("content", Text(message.content, false));
  }
  out.set("role", role_text(message.role));
  return out;
}

/// Some templates look at all later messages for every one (gpt-oss: for every call of a tool). 2000 messages may do so; more would
/// allow a hostile template too long a time.
jinja::Limits limits_for(std::size_t messages) {
  const std::uint64_t n = std::min<std::uint64_t>(messages, 2000);
  jinja::Limits limits;
  limits.steps += 8 * n * n;
  return limits;
}

std::string token_text(const Vocabulary& vocabulary, std::optional<TokenId> id) {
  return id ? std::string(vocabulary.tokens[static_cast<std::size_t>(*id)]) : "";
}

std::tm clock_now() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  return local;
}

}  // namespace

TemplateTokens TemplateTokens::of(const Vocabulary& vocabulary) {
  return {token_text(vocabulary, vocabulary.bos), token_text(vocabulary, vocabulary.eos)};
}

ChatTemplate ChatTemplate::from_vocabulary(const Vocabulary& vocabulary) {
  const TemplateTokens tokens = TemplateTokens::of(vocabulary);
  const std::string& source = vocabulary.chat_template;
  if (source.find_first_not_of(" \t\r\n") == std::string::npos) {
    ChatTemplate plain = *builtin("plain", tokens);
    plain.note_ = "the model has no chat template: plain text is used (--chat-template chooses one of " +
                  builtin_names() + ", or a file)";
    return plain;
  }
  if (auto named = builtin(source, tokens)) return *named;
  return parse(source, (vocabulary.file.empty() ? "" : vocabulary.file + ": ") + "chat template", tokens);
}

ChatTemplate ChatTemplate::parse(std::string_view source, std::string name, TemplateTokens tokens) {
  ChatTemplate out(std::make_shared<const jinja::Template>(jinja::Template::parse(source, std::move(name))),
                   std::move(tokens));
  out.source_ = std::make_shared<const std::string>(source);
  out.format_ = AnswerFormat::of_template(source);
  // Whoever goes through the parts of a content asks for their text.
  out.knows_parts_ = out.names("'text'") || out.names("\"text\"") || out.names(".text");
  out.knows_no_content_ = asks_for_no_content(source);
  return out;
}

std::optional<ChatTemplate> ChatTemplate::builtin(std::string_view name, TemplateTokens tokens) {
  const BuiltinTemplate* found = find_builtin_template(name);
  if (found == nullptr) return std::nullopt;
  ChatTemplate out = parse(found->source, "chat template " + std::string(name), std::move(tokens));
  if (!found->stop.empty()) out.stops_.emplace_back(found->stop);
  return out;
}

std::string ChatTemplate::builtin_names() {
  std::string names;
  for (const BuiltinTemplate& one : builtin_templates())
    names += (names.empty() ? "" : ", ") + std::string(one.name);
  return names;
}

AnswerFormat ChatTemplate::answer_format(const std::string& variables) const {
  AnswerFormat format = format_;
  format.tools = tools_among(variables);
  if (format.tools.empty())
    format.calls = CallForm::None;
  else if (!names("tools"))
    format.calls = CallForm::Hermes;
  return format;
}

Text ChatTemplate::render(const std::vector<ChatMessage>& messages, const RenderOptions& options) const {
  const std::string tools = names("tools") ? "" : tools_among(options.variables);
  if (tools.empty() && (names("tool_calls") || !has_tool_calls(messages)))
    return render_messages(messages, options);
  const auto with_tools_told_by = [&](const char* role) {
    return render_messages(with_tools_as_text(messages, tools, role), options);
  };
  try {
    return with_tools_told_by("system");
  } catch (const Error&) {
    if (tools.empty() || (!messages.empty() && messages.front().role == "system")) throw;
    try {  // many templates refuse a system message
      return with_tools_told_by("user");
    } catch (const Error&) {
    }
    throw;
  }
}

Text ChatTemplate::render_messages(const std::vector<ChatMessage>& messages,
                                   const RenderOptions& options) const {
  const bool names_thinking = names("thinking") && !names("reasoning_content");
  std::vector<Value> as_sent;
  for (const ChatMessage& message : messages)
    as_sent.push_back(message_value(message, knows_parts_, names_thinking));
  std::vector<std::vector<Value>> forms;  // the first that the template takes counts
  const auto add = [&forms](const std::vector<Value>& form) {
    if (auto unpacked = changed(form, unpack_arguments)) forms.push_back(std::move(*unpacked));
    forms.push_back(form);  // for one that joins the arguments to a text
  };
  const auto filled = changed(as_sent, fill_content);
  if (!filled || knows_no_content_) add(as_sent);
  if (filled) add(*filled);
  for (std::size_t i = 0; i + 1 < forms.size(); ++i) {
    try {
      return render_values(std::move(forms[i]), options);
    } catch (const Error&) {
    }
  }
  return render_values(std::move(forms.back()), options);
}

Text ChatTemplate::render_values(std::vector<Value> messages, const RenderOptions& options) const {
  const jinja::Limits limits = limits_for(messages.size());
  Dict variables = parse_object(options.variables, "variables of the template");
  try {
    variables.set("messages", List(std::move(messages)));
  } catch (const jinja::Failure& failure) {
    throw Error("", std::string("messages: ") + failure.what());
  }
  variables.set("add_generation_prompt", options.add_generation_prompt);
  variables.set("bos_token", Text(tokens_.bos, true));
  variables.set("eos_token", Text(tokens_.eos, true));
  return template_->render(variables, options.now ? *options.now : clock_now(), limits);
}

std::vector<TokenId> ChatTemplate::encode(const Tokenizer& tokenizer,
                                          const std::vector<ChatMessage>& messages,
                                          const RenderOptions& options) const {
  return encode_rendered(tokenizer, render(messages, options));
}

std::vector<TokenId> encode_rendered(const Tokenizer& tokenizer, const Text& rendered) {
  const Vocabulary& vocabulary = tokenizer.vocabulary();
  std::vector<TokenId> ids = tokenizer.encode_parts(text_parts(rendered));
  if (vocabulary.add_bos && (ids.empty() || ids.front() != *vocabulary.bos))
    ids.insert(ids.begin(), *vocabulary.bos);
  return ids;
}

// The tokens that do not depend on what follows. Many templates refuse a system message without a question,
// so two conversations are compared whose questions have nothing in common.
std::size_t system_tokens(const Tokenizer& tokenizer, const ChatTemplate& chat_template,
                          const std::vector<ChatMessage>& messages, const RenderOptions& options) {
  if (messages.empty() || messages.front().role != "system") return 0;
  const auto with_question = [&](const char* question) {
    return chat_template.encode(tokenizer, {messages.front(), {"user", question}}, options);
  };
  const std::vector<TokenId> a = with_question("0"), b = with_question("?");
  // Without a question a template may leave the system message out.
  const std::vector<TokenId> whole = chat_template.encode(tokenizer, messages, options);
  return static_cast<std::size_t>(
      std::min(std::ranges::mismatch(a, b).in1 - a.begin(), std::ranges::mismatch(a, whole).in1 - a.begin()));
}

}  // namespace cria
