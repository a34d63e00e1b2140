#include "tokenizer/chat/chat_template.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "model/error.h"
#include "model/file/json.h"
#include "model/vocabulary.h"
#include "tokenizer/chat/call_format.h"
#include "tokenizer/chat/message_texts.h"
#include "tokenizer/chat/partial_marker.h"
#include "tokenizer/chat/template_messages.h"
#include "tokenizer/chat/transcript.h"
#include "tokenizer/jinja/template.h"
#include "tokenizer/jinja/values/json.h"

namespace cria {

namespace {

using jinja::Text;

/// The tools among a template's variables as a JSON array, or "".
std::string tools_among(const std::string& variables) {
  if (variables.find("\"tools\"") == std::string::npos) return "";
  const auto json = parse_exact_json(variables, false);
  if (!json.is_object() || !json.contains("tools")) return "";
  const auto& tools = json["tools"];
  return tools.is_array() && !tools.empty() ? exact_json_text(tools) : "";
}

/// Some templates look at all other messages for every one (Gemma 4, gpt-oss). Requests have up to
/// 4096 messages.
jinja::Limits limits_for(std::size_t messages) {
  const std::uint64_t n = std::min<std::uint64_t>(messages, 4096);
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

/// Returns the format in which the template writes a call, by rendering one.
CallForm rendered_call_form(const ChatTemplate& chat) {
  const auto render = [&chat](const ChatMessage& answer) -> std::optional<std::string> {
    RenderOptions options;
    options.add_generation_prompt = false;
    options.variables = R"({"tools": [{"type": "function", "function": {"name": "probe_tool",
        "description": "probe", "parameters": {"type": "object", "properties":
        {"probe_key": {"type": "string", "description": "probe"}}, "required": ["probe_key"]}}}]})";
    try {
      return chat.render({{"user", "probe"}, answer}, options).bytes();
    } catch (const Error&) {
      return std::nullopt;
    }
  };
  const std::string plain = render({"assistant", "~"}).value_or("");
  return call_form_by_rendering([&](std::string_view id) {
    ChatMessage call{"assistant", ""};
    call.json = R"({"role": "assistant", "content": "", "tool_calls": [{"type": "function",
        "function": {"name": "probe_tool", "arguments": {"probe_key": "probe value"}}, "id": ")" +
                std::string(id) + "\"}]}";
    std::optional<std::string> text = render(call);
    if (text)
      text->erase(
          0, static_cast<std::size_t>(std::ranges::mismatch(*text, plain).in1 - text->begin()));
    return text;
  });
}

}  // namespace

TemplateTokens TemplateTokens::of(const Vocabulary& vocabulary) {
  return {token_text(vocabulary, vocabulary.bos), token_text(vocabulary, vocabulary.eos),
          token_text(vocabulary, vocabulary.unk), token_text(vocabulary, vocabulary.pad),
          token_text(vocabulary, vocabulary.sep)};
}

ChatTemplate ChatTemplate::from_vocabulary(const Vocabulary& vocabulary) {
  const TemplateTokens tokens = TemplateTokens::of(vocabulary);
  const std::string& source = vocabulary.chat_template;
  if (source.find_first_not_of(" \t\r\n") == std::string::npos) {
    ChatTemplate plain = *builtin("plain", tokens);
    plain.note_ =
        "the model has no chat template: plain text is used (--chat-template chooses one of " +
        builtin_names() + ", or a file)";
    return plain;
  }
  if (auto named = builtin(source, tokens)) return *named;
  const std::string name =
      (vocabulary.file.empty() ? "" : vocabulary.file + ": ") + "chat template";
  ChatTemplate out = parse(source, name, tokens);
  if (out.format_.calls == CallForm::None && out.template_->reads("tools"))
    out.format_.calls = call_form_of_vocabulary(vocabulary);
  if (!vocabulary.tool_template.empty())
    out.tool_template_ = std::make_shared<const ChatTemplate>(
        parse(vocabulary.tool_template, name + " for tools", tokens));
  return out;
}

ChatTemplate ChatTemplate::parse(std::string_view source, std::string name, TemplateTokens tokens) {
  ChatTemplate out(
      std::make_shared<const jinja::Template>(jinja::Template::parse(source, std::move(name))),
      std::move(tokens));
  out.source_ = std::make_shared<const std::string>(source);
  out.format_ = AnswerFormat::of_template(source);
  out.contents_ = std::make_shared<const ContentForms>(ContentForms::probe(*out.template_));
  if (out.template_->reads("tools") && out.template_->reads_member("tool_calls"))
    if (const CallForm form = rendered_call_form(out); form != CallForm::None)
      out.format_.calls = form;
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

void ChatTemplate::set_tokens(TemplateTokens tokens) {
  if (tool_template_ != nullptr) {
    ChatTemplate for_tools = *tool_template_;
    for_tools.set_tokens(tokens);
    tool_template_ = std::make_shared<const ChatTemplate>(std::move(for_tools));
  }
  tokens_ = std::move(tokens);
}

const ChatTemplate& ChatTemplate::chosen(const std::string& variables) const {
  return tool_template_ == nullptr || tools_among(variables).empty() ? *this : *tool_template_;
}

AnswerFormat ChatTemplate::answer_format(const std::string& variables) const {
  if (const ChatTemplate& other = chosen(variables); &other != this)
    return other.answer_format(variables);
  AnswerFormat format = format_;
  format.tools = tools_among(variables);
  if (format.tools.empty())
    format.calls = CallForm::None;
  else if (!template_->reads("tools"))
    format.calls = CallForm::Hermes;
  return format;
}

namespace {

/// Returns a rendered conversation up to the end of its last message's content.
Text left_open(const Text& rendered, std::string_view content) {
  for (const std::string_view shown : {content, without_spaces(content)}) {
    for (std::string_view before = rendered.bytes(); !shown.empty();) {
      const std::size_t at = jinja::find_last(before, shown);
      if (at == std::string_view::npos) break;
      if (!rendered.trusted_at(at)) return rendered.part(0, at + shown.size());
      before = before.substr(0, at + shown.size() - 1);
    }
  }
  throw Error("", "the chat template does not show the last message, which the answer continues");
}

}  // namespace

bool ChatTemplate::reads(std::string_view variable) const { return template_->reads(variable); }

Text ChatTemplate::render(const std::vector<ChatMessage>& messages,
                          const RenderOptions& options) const {
  if (options.continue_last && !messages.empty()) {
    RenderOptions closed = options;
    closed.continue_last = false;
    std::vector<ChatMessage> all = messages;
    const std::string content = all.back().content;
    closed.add_generation_prompt = without_spaces(content).empty();
    if (closed.add_generation_prompt) {  // nothing to continue
      all.pop_back();
      return render(all, closed);
    }
    return left_open(render(all, closed), content);
  }
  const ChatTemplate& used = chosen(options.variables);
  Text text = used.render_with_tools(messages, options);
  const std::string omitted = omitted_message(messages, *used.contents_, text.bytes());
  if (options.omitted != nullptr)
    *options.omitted = omitted;
  else if (!omitted.empty())
    throw Error("", "the chat template leaves out " + omitted);
  if (options.omitted == nullptr && omits_beside_calls(text.bytes(), messages))
    if (auto apart = used.rendered_apart(messages, options)) return std::move(*apart);
  return text;
}

// Many templates show either the text of a message or its calls. Nothing if this one cannot show
// them in two messages either.
std::optional<Text> ChatTemplate::rendered_apart(const std::vector<ChatMessage>& messages,
                                                 const RenderOptions& options) const {
  const std::vector<ChatMessage> apart = with_calls_apart(messages);
  try {
    Text text = render_with_tools(apart, options);
    if (omitted_message(apart, *contents_, text.bytes()).empty() &&
        !omits_beside_calls(text.bytes(), messages))
      return text;
  } catch (const Error&) {
  }
  return std::nullopt;
}

Text ChatTemplate::render_with_tools(const std::vector<ChatMessage>& messages,
                                     const RenderOptions& options) const {
  const std::string tools = template_->reads("tools") ? "" : tools_among(options.variables);
  const bool omits_results =
      contents_->tool == ContentForm::Unknown &&
      std::ranges::any_of(messages, [](const ChatMessage& m) { return m.role == "tool"; });
  if (tools.empty() &&
      (template_->reads_member("tool_calls") || (!has_tool_calls(messages) && !omits_results)))
    return render_messages(messages, options);
  ToolTexts texts;
  if (template_->reads("tools")) texts = {format_.calls, contents_->tool != ContentForm::Unknown};
  const auto with_tools_told_by = [&](const char* role) {
    const std::vector<ChatMessage> told = with_tools_as_text(messages, tools, role, texts);
    Text text = render_messages(told, options);
    if (!tools.empty() && omits(text.bytes(), told.front()))
      throw Error("", "the chat template leaves out the tools");
    return text;
  };
  try {
    return with_tools_told_by("system");
  } catch (const jinja::LimitError&) {
    throw;
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
  MessageForms forms = message_forms(messages, *source_, *contents_);
  for (std::size_t i = 0; i + 1 < forms.size(); ++i) {
    try {
      return render_values(std::move(forms[i]), options);
    } catch (const jinja::LimitError&) {
      throw;
    } catch (const Error&) {
    }
  }
  return render_values(std::move(forms.back()), options);
}

Text ChatTemplate::render_values(std::vector<jinja::Value> messages,
                                 const RenderOptions& options) const {
  const jinja::Limits limits = limits_for(messages.size());
  jinja::Dict variables = json_object(options.variables, "variables of the template");
  try {
    variables.set("messages", jinja::List(std::move(messages)));
  } catch (const jinja::Failure& failure) {
    throw Error("", std::string("messages: ") + failure.what());
  }
  variables.set("add_generation_prompt", options.add_generation_prompt);
  variables.set("bos_token", Text(tokens_.bos, true));
  variables.set("eos_token", Text(tokens_.eos, true));
  for (const auto& [name, text] :
       {std::pair<const char*, const std::string&>("unk_token", tokens_.unk),
        {"pad_token", tokens_.pad},
        {"sep_token", tokens_.sep}})
    if (!text.empty()) variables.set(name, Text(text, true));
  return template_->render(variables, options.now ? *options.now : clock_now(), limits);
}

std::vector<TokenId> ChatTemplate::encode(const Tokenizer& tokenizer,
                                          const std::vector<ChatMessage>& messages,
                                          const RenderOptions& options) const {
  return encode_rendered(tokenizer, render(messages, options));
}

// The tokens that do not depend on what follows. Many templates refuse a system message without a
// question, so two conversations are compared whose questions have nothing in common.
std::size_t system_tokens(const Tokenizer& tokenizer, const ChatTemplate& chat_template,
                          const std::vector<ChatMessage>& messages, const RenderOptions& options) {
  if (messages.empty() || messages.front().role != "system") return 0;
  const auto with_question = [&](const char* question) {
    return chat_template.encode(tokenizer, {messages.front(), {"user", question}}, options);
  };
  const std::vector<TokenId> a = with_question("0"), b = with_question("?");
  // Without a question a template may leave the system message out.
  const std::vector<TokenId> whole = chat_template.encode(tokenizer, messages, options);
  return static_cast<std::size_t>(std::min(std::ranges::mismatch(a, b).in1 - a.begin(),
                                           std::ranges::mismatch(a, whole).in1 - a.begin()));
}

}  // namespace cria
