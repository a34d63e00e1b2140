#include "tools/chat_session.h"

#include <algorithm>

#include "tools/template_options.h"
#include "tools/terminal.h"

namespace cria::tools {

ChatSession::ChatSession(const Model& model, Session& session, const ChatOptions& options,
                         const GenerateOptions& generate, bool forget)
    : model_(model),
      session_(session),
      generate_(generate),
      forget_(forget || options.model.session.context_shift) {
  if (!options.no_template) {
    template_ = choose_template(options.chat_template, model.vocabulary());
    note_ = template_->note();
    generate_.stop.insert(generate_.stop.end(), template_->stops().begin(), template_->stops().end());
  }
  set_system(options.system);
}

RenderOptions ChatSession::render_options() const {
  RenderOptions options;
  options.variables = talk_.variables;
  return options;
}

ChatSession::Prompt ChatSession::prompt() {
  jinja::Text text;
  if (template_) {
    text = template_->render(talk_.messages, render_options());
  } else {
    for (const ChatMessage& message : talk_.messages) text.append(message.content, false);
  }
  return {text.bytes(), transcript_.encode(model_.tokenizer(), text)};
}

/// Drops the oldest exchange (a message and its answer), never the last message. False: there is none to
/// drop.
bool ChatSession::forget_oldest() {
  const auto first = talk_.messages.begin() + (has_system() ? 1 : 0);
  if (talk_.messages.end() - first < 2) return false;
  auto end = first + 1;
  while (talk_.messages.end() - end > 1 && end->role != "user") ++end;
  talk_.messages.erase(first, end);
  return true;
}

GenerateResult ChatSession::answer(const std::string& message, const TextSink& sink) {
  const std::size_t before = talk_.messages.size();
  talk_.messages.push_back({"user", message});
  const std::size_t n_ctx = session_.options().n_ctx;
  const std::size_t room = forget_ ? n_ctx - n_ctx / 4 : n_ctx - 1;  // leave some for the answer
  Prompt asked;
  try {
    asked = prompt();
  } catch (const Error&) {  // the template refuses it
    talk_.messages.resize(before);
    throw;
  }
  while (asked.tokens.size() > room && forget_ && forget_oldest()) asked = prompt();
  const std::vector<TokenId>& tokens = asked.tokens;
  if (tokens.size() >= n_ctx) {
    talk_.messages.pop_back();
    throw Error("", "no room for this message: with the conversation it has " +
                        std::to_string(tokens.size()) + " tokens; " + full_text());
  }
  std::string text;
  if (observer_) observer_(asked.text, tokens);
  generate_.keep =
      template_ ? system_tokens(model_.tokenizer(), *template_, talk_.messages, render_options()) : 0;
  try {
    last_ = generate(session_, tokens, generate_, [&](std::string_view piece) {
      text += piece;
      return sink(piece);
    });
  } catch (const Error&) {  // the model cannot go on
    talk_.messages.pop_back();
    throw;
  }
  evaluated_ += last_->prompt_tokens + last_->tokens.size();
  transcript_.answered(model_.tokenizer(), last_->tokens, text);
  talk_.messages.push_back({"assistant", text});
  return *last_;
}

void ChatSession::reset() {
  talk_.messages.erase(talk_.messages.begin() + (has_system() ? 1 : 0), talk_.messages.end());
}

void ChatSession::set_system(const std::string& text) {
  if (has_system()) talk_.messages.erase(talk_.messages.begin());
  if (!text.empty()) talk_.messages.insert(talk_.messages.begin(), {"system", text});
}

void ChatSession::save(const std::string& path) const { write_conversation(path, talk_); }
void ChatSession::load(const std::string& path) { talk_ = read_conversation(path); }

void ChatSession::keep(const std::string& path) const { session_.save(path, conversation_json(talk_)); }

void ChatSession::resume(const std::string& path) {
  const std::string note = session_.load(path);
  if (note.empty()) throw Error(path, "holds no conversation: it was not saved by cria chat");
  talk_ = parse_conversation(note, path);
}

std::string ChatSession::greeting() const {
  const std::string& name = model_.config().name;
  return (name.empty() ? "unnamed model" : without_controls(name)) + ", context of " +
         std::to_string(session_.options().n_ctx) + " tokens; /help lists the commands, Ctrl-D ends";
}

std::string ChatSession::stats() const {
  return (last_ ? speed_line(*last_) : std::string("no answer yet")) +
         "; context: " + std::to_string(session_.tokens().size()) + " of " +
         std::to_string(session_.options().n_ctx) + " tokens, " + std::to_string(evaluated_) +
         " evaluated in all";
}

std::string ChatSession::full_text() const {
  const std::uint32_t trained = model_.config().n_ctx_train, n_ctx = session_.options().n_ctx;
  return "the context of " + std::to_string(n_ctx) +
         " tokens is full: /reset begins anew, --context-shift forgets the oldest part" +
         (n_ctx < trained ? ", -c makes it larger (to " + std::to_string(trained) + ")" : "");
}

}  // namespace cria::tools
