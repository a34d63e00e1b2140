#include "tools/chat_session.h"

#include <algorithm>

#include "tools/conversation.h"
#include "tools/terminal.h"

namespace cria::tools {

ChatSession::ChatSession(const Model& model, Session& session, const ChatOptions& options,
                         const GenerateOptions& generate, bool forget)
    : model_(model),
      session_(session),
      generate_(generate),
      forget_(forget || options.model.session.context_shift) {
  if (!options.no_template) template_ = ChatTemplate::from_vocabulary(model.vocabulary());
  set_system(options.system);
}

std::vector<TokenId> ChatSession::prompt() const {
  if (template_) return template_->encode(model_.tokenizer(), messages_, true);
  std::string text;
  for (const ChatMessage& message : messages_) text += message.content;
  return model_.tokenizer().encode(text, true, false);
}

/// Drops the oldest exchange (a message and its answer), never the last message. False: there is none to
/// drop.
bool ChatSession::forget_oldest() {
  const auto first = messages_.begin() + (has_system() ? 1 : 0);
  if (messages_.end() - first < 2) return false;
  auto end = first + 1;
  while (messages_.end() - end > 1 && end->role != "user") ++end;
  messages_.erase(first, end);
  return true;
}

GenerateResult ChatSession::answer(const std::string& message, const TextSink& sink) {
  messages_.push_back({"user", message});
  const std::size_t n_ctx = session_.options().n_ctx;
  const std::size_t room = forget_ ? n_ctx - n_ctx / 4 : n_ctx - 1;  // leave some for the answer
  std::vector<TokenId> tokens = prompt();
  while (tokens.size() > room && forget_ && forget_oldest()) tokens = prompt();
  if (tokens.size() >= n_ctx) {
    messages_.pop_back();
    throw Error("", "no room for this message: with the conversation it has " +
                        std::to_string(tokens.size()) + " tokens; " + full_text());
  }
  std::string text;
  generate_.keep = template_ ? system_tokens(model_, *template_, messages_) : 0;
  last_ = generate(session_, tokens, generate_, [&](std::string_view piece) {
    text += piece;
    return sink(piece);
  });
  messages_.push_back({"assistant", text});
  return *last_;
}

void ChatSession::reset() { messages_.erase(messages_.begin() + (has_system() ? 1 : 0), messages_.end()); }

void ChatSession::set_system(const std::string& text) {
  if (has_system()) messages_.erase(messages_.begin());
  if (!text.empty()) messages_.insert(messages_.begin(), {"system", text});
}

void ChatSession::save(const std::string& path) const { write_messages(path, messages_); }
void ChatSession::load(const std::string& path) { messages_ = read_messages(path); }

std::string ChatSession::greeting() const {
  const std::string& name = model_.config().name;
  return (name.empty() ? "unnamed model" : without_controls(name)) + ", context of " +
         std::to_string(session_.options().n_ctx) + " tokens; /help lists the commands, Ctrl-D ends";
}

std::string ChatSession::stats() const {
  return (last_ ? speed_line(*last_) : std::string("no answer yet")) +
         "; context: " + std::to_string(session_.tokens().size()) + " of " +
         std::to_string(session_.options().n_ctx) + " tokens";
}

std::string ChatSession::full_text() const {
  const std::uint32_t trained = model_.config().n_ctx_train, n_ctx = session_.options().n_ctx;
  return "the context of " + std::to_string(n_ctx) +
         " tokens is full: /reset begins anew, --context-shift forgets the oldest part" +
         (n_ctx < trained ? ", -c makes it larger (to " + std::to_string(trained) + ")" : "");
}

}  // namespace cria::tools
