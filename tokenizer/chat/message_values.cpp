#include "tokenizer/chat/message_values.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "model/error.h"
#include "tokenizer/chat/partial_marker.h"
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

Value role_text(const std::string& role) {
  return Text(role, std::ranges::count(kRoles, role) != 0);
}

/// A content of several texts as one, for templates that know no parts.
Value joined_parts(const List& parts) {
  Text all;
  for (const Value& part : parts.items) {
    const Value* text =
        part.dict() == nullptr ? nullptr : part.dict()->find(std::string_view("text"));
    if (text == nullptr || text->text() == nullptr)
      throw Error(
          "", "a message holds something other than text, which this chat template does not know");
    all.append(*text->text());
  }
  return all;
}

/// What the model thought, where the template knows it by the name that gpt-oss has for it. There
/// it is no part of a message that has a content.
void rename_reasoning(Dict& message) {
  const Value* const thought = message.find(std::string_view("reasoning_content"));
  const Value* const content = message.find(std::string_view("content"));
  const bool silent =
      content == nullptr || content->text() == nullptr || content->text()->bytes().empty();
  if (thought != nullptr && silent) message.set("thinking", *thought);
}

/// The object that a text is in JSON. Nothing where it is none, or not one that values of templates
/// can hold, a message and its list around it.
std::optional<Value> object_in(const Text& text) {
  constexpr int kMaxDepth = List::kDeepest - 8;
  try {
    Value object = jinja::parse_json(text.bytes(), jinja::LargeIntegers::Refuse);
    if (object.dict() != nullptr && object.extent().depth < kMaxDepth) return object;
  } catch (const jinja::Failure&) {
  }
  return std::nullopt;
}

/// Whether a call has none: clients leave them out, or write an empty text, where a tool takes
/// none.
bool no_arguments(const Value* arguments) {
  if (arguments == nullptr || arguments->is_none()) return true;
  return arguments->text() != nullptr && without_spaces(arguments->text()->bytes()).empty();
}

/// Arguments as an object, where they are none: most templates print them as JSON, or go through
/// them.
std::optional<Value> as_object(const Value* arguments) {
  if (no_arguments(arguments)) return Dict();
  return arguments->text() == nullptr ? std::nullopt : object_in(*arguments->text());
}

std::optional<Value> as_text(const Value* arguments) {
  return no_arguments(arguments) ? std::optional<Value>(Text("{}", false)) : std::nullopt;
}

/// Instead of a text that is no object: the arguments of an answer that was cut off, say.
std::optional<Value> as_no_arguments(const Value* arguments) {
  return arguments->text() == nullptr ? std::nullopt : std::optional<Value>(Dict());
}

/// Changes the arguments of each call where `change` has other ones. Whether there were any.
template <std::optional<Value> (*change)(const Value* arguments)>
bool change_arguments(Dict& message) {
  const Value* const calls = message.find(std::string_view("tool_calls"));
  if (calls == nullptr || calls->list() == nullptr) return false;
  std::vector<Value> out = calls->list()->items;
  bool any = false;
  for (Value& call : out) {
    const Value* const inner =
        call.dict() == nullptr ? nullptr : call.dict()->find(std::string_view("function"));
    const Dict* const called = inner == nullptr ? call.dict() : inner->dict();
    if (called == nullptr) continue;
    const auto other = change(called->find(std::string_view("arguments")));
    if (!other) continue;
    Dict function = *called;
    function.set("arguments", *other);
    if (inner == nullptr) {
      call = std::move(function);
    } else {
      Dict outer = *call.dict();
      outer.set("function", std::move(function));
      call = std::move(outer);
    }
    any = true;
  }
  if (any) message.set("tool_calls", List(std::move(out)));
  return any;
}

/// A content for a message that only calls tools: most templates take it for a text, so that
/// nothing is an error there, or the word "None". Whether it had none.
bool fill_content(Dict& message) {
  const Value* const calls = message.find(std::string_view("tool_calls"));
  if (calls == nullptr || calls->list() == nullptr || calls->list()->items.empty()) return false;
  const Value* const content = message.find(std::string_view("content"));
  if (content != nullptr && !content->is_none()) return false;
  message.set("content", Text("", true));
  return true;
}

/// The messages with a change to some of those that call tools; nothing where there is none.
std::optional<std::vector<Value>> changed(const std::vector<Value>& messages,
                                          bool (*change)(Dict&)) {
  std::optional<std::vector<Value>> out;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (messages[i].dict()->find(std::string_view("tool_calls")) == nullptr) continue;
    Dict dict = *messages[i].dict();
    if (!change(dict)) continue;
    if (!out) out = messages;
    (*out)[i] = std::move(dict);
  }
  return out;
}

/// Whether a template asks if a content is none: "message.content is none", "message['content'] is
/// not none".
bool asks_for_no_content(std::string_view source) {
  for (const std::string_view name : {"content", "content']", "content\"]"})
    for (const std::string_view test : {" is none", " is not none", " == none", " != none"})
      if (source.find(std::string(name) + std::string(test)) != std::string_view::npos) return true;
  return false;
}

/// What a template asks for in messages, by the words in its text.
struct TemplateAsks {
  bool parts;       ///< the parts of a content: whoever goes through them asks for their text
  bool no_content;  ///< whether there is a content, beside calls of tools
  bool thinking;    ///< what the model thought, by the name that gpt-oss has for it

  explicit TemplateAsks(std::string_view source) {
    const auto names = [&](std::string_view word) {
      return source.find(word) != std::string_view::npos;
    };
    parts = names("'text'") || names("\"text\"") || names(".text");
    no_content = asks_for_no_content(source);
    thinking = names("thinking") && !names("reasoning_content");
  }
};

Value message_value(const ChatMessage& message, const TemplateAsks& asks) {
  Dict out;
  if (!message.json.empty()) {
    out = json_object(message.json, "message");
    const Value* content = out.find(std::string_view("content"));
    if (content != nullptr && content->list() != nullptr && !asks.parts)
      out.set("content", joined_parts(*content->list()));
    if (asks.thinking) rename_reasoning(out);
  } else {
    out.set("role", {});
    out.set("content", Text(message.content, false));
  }
  out.set("role", role_text(message.role));
  return out;
}

}  // namespace

MessageForms message_forms(const std::vector<ChatMessage>& messages, std::string_view source) {
  const TemplateAsks asks(source);
  std::vector<Value> as_sent;
  for (const ChatMessage& message : messages) as_sent.push_back(message_value(message, asks));
  MessageForms forms;
  std::vector<Value> objects;
  const auto add = [&](std::vector<Value> form) {
    objects = form;
    if (auto unpacked = changed(form, change_arguments<as_object>)) {
      objects = std::move(*unpacked);
      forms.push_back(objects);
    }
    auto texts =
        changed(form, change_arguments<as_text>);  // for one that joins the arguments to a text
    forms.push_back(texts ? std::move(*texts) : std::move(form));
  };
  auto filled = changed(as_sent, fill_content);
  if (!filled || asks.no_content) add(std::move(as_sent));
  if (filled) add(std::move(*filled));
  if (auto emptied = changed(objects, change_arguments<as_no_arguments>))
    forms.push_back(std::move(*emptied));
  return forms;
}

Dict json_object(const std::string& json, const char* what) {
  if (json.empty()) return {};
  try {
    const Value value = jinja::parse_json(json);
    if (const Dict* dict = value.dict()) return *dict;
  } catch (const jinja::Failure& failure) {
    throw Error("", std::string(what) + ": " + failure.what());
  }
  throw Error("", std::string(what) + ": expected a JSON object");
}

}  // namespace cria
