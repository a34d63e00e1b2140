#include "tokenizer/chat/template_messages.h"

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

/// Templates write '<|' + role + '|>': these roles count as written by the template.
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

/// Copies the reasoning to "thinking", its name in gpt-oss's templates. There it is not part of a
/// message that has content.
void rename_reasoning(Dict& message) {
  const Value* const thought = message.find(std::string_view("reasoning_content"));
  const Value* const content = message.find(std::string_view("content"));
  const bool silent =
      content == nullptr || content->text() == nullptr || content->text()->bytes().empty();
  if (thought != nullptr && silent) message.set("thinking", *thought);
}

/// Parses a text as a JSON object; nullopt if it is not one, or too deeply nested for a template's
/// values inside a message and its list.
std::optional<Value> object_in(const Text& text) {
  constexpr int kMaxDepth = List::kDeepest - 8;
  try {
    Value object = jinja::parse_json(text.bytes());
    if (object.dict() != nullptr && object.extent().depth < kMaxDepth) return object;
  } catch (const jinja::Failure&) {
  }
  return std::nullopt;
}

/// True if a call has no arguments: clients omit them, or send an empty text.
bool no_arguments(const Value* arguments) {
  if (arguments == nullptr || arguments->is_none()) return true;
  return arguments->text() != nullptr && without_spaces(arguments->text()->bytes()).empty();
}

/// Returns arguments as an object if they are not one: most templates print them as JSON or iterate
/// over them.
std::optional<Value> as_object(const Value* arguments) {
  if (no_arguments(arguments)) return Dict();
  return arguments->text() == nullptr ? std::nullopt : object_in(*arguments->text());
}

std::optional<Value> as_text(const Value* arguments) {
  if (no_arguments(arguments)) return Text("{}", false);
  if (arguments->dict() == nullptr) return std::nullopt;
  jinja::Budget budget({}, 0);
  jinja::Context context{budget, {}};
  try {
    return Text(jinja::json_text(context, *arguments, {}).bytes(), false);
  } catch (const jinja::Failure&) {
    return std::nullopt;
  }
}

/// An object with a text that is not one, such as the arguments of an answer that was cut.
std::optional<Value> as_one_argument(const Value* arguments) {
  if (arguments->text() == nullptr) return std::nullopt;
  Dict object;
  object.set("arguments", *arguments);
  return object;
}

/// Replaces the arguments of each call for which `change` returns others. True if there were any.
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

/// Sets the content of a message that only calls tools to "": most templates expect a text and
/// would fail, or print "None". True if it had none.
bool fill_content(Dict& message) {
  const Value* const calls = message.find(std::string_view("tool_calls"));
  if (calls == nullptr || calls->list() == nullptr || calls->list()->items.empty()) return false;
  const Value* const content = message.find(std::string_view("content"));
  if (content != nullptr && !content->is_none()) return false;
  message.set("content", Text("", true));
  return true;
}

/// Returns the messages with `change` applied to those that call tools; nullopt if nothing changed.
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

/// True if the template tests for missing content, as in "message.content is none".
bool asks_for_no_content(std::string_view source) {
  for (const std::string_view name : {"content", "content']", "content\"]"})
    for (const std::string_view test : {" is none", " is not none", " == none", " != none"})
      if (source.find(std::string(name) + std::string(test)) != std::string_view::npos) return true;
  return false;
}

/// The members of messages that a template reads, known by the words in its source.
struct TemplateAsks {
  bool parts;       ///< parts of a content: a template that iterates over them names their text
  bool no_content;  ///< tests for missing content of tool calls
  bool thinking;    ///< reasoning under the name that gpt-oss uses

  explicit TemplateAsks(std::string_view source) {
    const auto names = [&](std::string_view word) {
      return source.find(word) != std::string_view::npos;
    };
    parts = names("'text'") || names("\"text\"") || names(".text");
    no_content = asks_for_no_content(source);
    thinking = names("thinking") && !names("reasoning_content");
  }
};

Value one_part(const Value& text) {
  Dict part;
  part.set("type", "text");
  part.set("text", text);
  return List({part});
}

Value message_value(const ChatMessage& message, const TemplateAsks& asks, ContentForm form) {
  const bool takes_parts = form == ContentForm::Unknown ? asks.parts : form >= ContentForm::Parts;
  Dict out;
  if (!message.json.empty()) {
    out = json_object(message.json, "message");
    const Value* content = out.find(std::string_view("content"));
    if (content != nullptr && content->list() != nullptr && !takes_parts)
      out.set("content", joined_parts(*content->list()));
    else if (content != nullptr && content->text() != nullptr && form == ContentForm::Parts)
      out.set("content", one_part(*content));
    if (asks.thinking) rename_reasoning(out);
  } else {
    out.set("role", {});
    const Value content = Text(message.content, false);
    out.set("content", form == ContentForm::Parts ? one_part(content) : content);
  }
  out.set("role", role_text(message.role));
  return out;
}

/// Renders short conversations to find out how contents reach the text.
class Prober {
 public:
  explicit Prober(const jinja::Template& parsed) : template_(parsed) {}

  ContentForms probe() {
    ContentForms forms{};
    forms.user = form({}, "user", {});
    if (forms.user == ContentForm::Unknown) forms.user = form({{"system", "a"}}, "user", {});
    const auto user = [&](const char* text) { return Message{"user", content(text, forms.user)}; };
    forms.system = form({}, "system", {user("a")});
    forms.assistant = form({user("a")}, "assistant", {user("b")});
    forms.tool = form({user("a"), {"assistant", content("b", forms.assistant)}}, "tool", {});
    return forms;
  }

 private:
  using Message = std::pair<const char*, Value>;
  static constexpr std::string_view kNeedle = "NeedleOfCria";

  static Value content(const char* text, ContentForm form) {
    return form == ContentForm::Parts ? one_part(text) : Value(text);
  }
  ContentForm form(const std::vector<Message>& before, const char* role,
                   const std::vector<Message>& after) {
    const Value needle = Text(std::string(kNeedle), false);
    const auto arrives = [&](Value content) {
      if (runs_too_long_) return false;
      std::vector<Message> all = before;
      all.emplace_back(role, std::move(content));
      all.insert(all.end(), after.begin(), after.end());
      return shows_needle(rendered(all));
    };
    const bool text = arrives(needle), parts = arrives(one_part(needle));
    return text && parts ? ContentForm::Both
           : text        ? ContentForm::Text
           : parts       ? ContentForm::Parts
                         : ContentForm::Unknown;
  }
  [[nodiscard]] std::string rendered(const std::vector<Message>& messages) {
    std::vector<Value> list;
    for (const auto& [role, content] : messages) {
      Dict message;
      message.set("role", role);
      message.set("content", content);
      list.emplace_back(std::move(message));
    }
    Dict variables;
    variables.set("messages", List(std::move(list)));
    variables.set("add_generation_prompt", false);
    variables.set("bos_token", "");
    variables.set("eos_token", "");
    try {
      return template_.render(variables, {}, {.steps = 200'000, .bytes = 4 << 20}).bytes();
    } catch (const jinja::LimitError&) {
      runs_too_long_ = true;
    } catch (const Error&) {
    }
    return "";
  }
  /// Not in quotes: a list of parts that is printed as a whole is of no use.
  static bool shows_needle(std::string_view text) {
    const std::size_t at = text.find(kNeedle), end = at + kNeedle.size();
    if (at == std::string_view::npos) return false;
    const auto is_quote = [](char c) { return c == '\'' || c == '"'; };
    return at == 0 || end == text.size() || !is_quote(text[at - 1]) || !is_quote(text[end]);
  }

  const jinja::Template& template_;
  bool runs_too_long_ = false;
};

}  // namespace

ContentForms ContentForms::probe(const jinja::Template& parsed) { return Prober(parsed).probe(); }

ContentForm ContentForms::of(std::string_view role) const {
  return role == "system" || role == "developer" ? system
         : role == "user"                        ? user
         : role == "assistant"                   ? assistant
         : role == "tool"                        ? tool
                                                 : ContentForm::Unknown;
}

MessageForms message_forms(const std::vector<ChatMessage>& messages, std::string_view source,
                           const ContentForms& contents) {
  const TemplateAsks asks(source);
  std::vector<Value> as_sent;
  for (const ChatMessage& message : messages)
    as_sent.push_back(message_value(message, asks, contents.of(message.role)));
  MessageForms forms;
  std::vector<Value> objects;
  const auto add = [&](std::vector<Value> form) {
    auto unpacked = changed(form, change_arguments<as_object>);
    auto texts =
        changed(form, change_arguments<as_text>);  // for one that joins the arguments to a text
    objects = unpacked ? std::move(*unpacked) : form;
    if (unpacked || texts) forms.push_back(objects);
    forms.push_back(texts ? std::move(*texts) : std::move(form));
  };
  auto filled = changed(as_sent, fill_content);
  if (!filled || asks.no_content) add(std::move(as_sent));
  if (filled) add(std::move(*filled));
  if (auto wrapped = changed(objects, change_arguments<as_one_argument>))
    forms.push_back(std::move(*wrapped));
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
