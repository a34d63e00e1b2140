#include "tools/commands/chat_session.h"

#include <algorithm>

#include "engine/sample/options.h"
#include "model/plural.h"
#include "tools/options/conversation.h"
#include "tools/report/answer.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {

ChatSession::ChatSession(const Model& model, Session& session, const ChatArguments& arguments,
                         const GenerateOptions& generate, bool forget)
    : model_(model), session_(session), variables_(arguments.variables), generate_(generate) {
  how_.chat_template = std::make_shared<const ChatTemplate>(
      arguments.no_template
          ? ChatTemplate::parse("{% for message in messages %}{{ message.content }}{% endfor %}",
                                "--no-template", TemplateTokens::of(model.vocabulary()))
          : choose_template(arguments.chat_template, model.vocabulary()));
  how_.drop_oldest = forget || arguments.model.session.context_shift;
  notes_ = {how_.chat_template->note(), variables_.note(*how_.chat_template)};
  set_system(arguments.system);
}

GenerateResult ChatSession::answer(const std::string& message, const TextSink& sink) {
  talk_.messages.push_back({"user", message});
  retries_ = 0;
  try {
    return answer_last(generate_, sink);
  } catch (const ContextOverflow& overflow) {
    talk_.messages.pop_back();
    throw Error("", std::string(overflow.what()) +
                        (overflow.last_alone ? larger_context_text() : "; " + full_text()));
  } catch (const Error&) {  // the template refuses it, or the model cannot continue
    talk_.messages.pop_back();
    throw;
  }
}

/// Answers the message that ends the conversation.
GenerateResult ChatSession::answer_last(const GenerateOptions& options, const TextSink& sink) {
  how_.variables = variables_.over(talk_.variables);
  GenerateOptions wanted = options;
  wanted.progress = reading_progress();
  wanted.on_thinking = on_thinking_;
  last_ = session_.chat(talk_.messages, wanted, sink, how_);
  const auto oldest = talk_.messages.begin() + (has_system() ? 1 : 0);
  talk_.messages.erase(oldest, oldest + static_cast<std::ptrdiff_t>(last_->dropped));
  evaluated_ += last_->prompt_tokens + decoded_tokens(*last_);
  evaluated_all_ = true;
  if (last_->text.empty() && last_->reason == StopReason::Interrupted)
    talk_.messages.pop_back();
  else
    talk_.messages.push_back(answer_message(*last_));
  return *last_;
}

/// Returns the index of the user's last message. Throws Error without one.
std::size_t ChatSession::last_question() const {
  std::size_t at = talk_.messages.size();
  while (at > 0) {
    if (talk_.messages[--at].role == "user") return at;
  }
  throw Error("", "the conversation is empty");
}

GenerateResult ChatSession::retry(const TextSink& sink) {
  const std::size_t question = last_question();
  const std::vector<ChatMessage> before = talk_.messages;
  talk_.messages.resize(question + 1);
  GenerateOptions wanted = generate_;
  if (wanted.sampler.seed) *wanted.sampler.seed += ++retries_;
  try {
    const GenerateResult result = answer_last(wanted, sink);
    if (result.text.empty() && result.reason == StopReason::Interrupted) talk_.messages = before;
    return result;
  } catch (const Error&) {
    talk_.messages = before;
    throw;
  }
}

std::string ChatSession::undo() {
  const std::size_t question = last_question();
  std::string text = talk_.messages[question].content;
  talk_.messages.resize(question);
  retries_ = 0;
  evaluated_all_ = false;
  return text;
}

std::size_t ChatSession::compact() {
  const std::size_t before = talk_.messages.size();
  while (tokens() > session_.options().n_ctx / 2) {
    const auto first = talk_.messages.begin() + (has_system() ? 1 : 0);
    if (first == talk_.messages.end()) break;
    const auto next = std::find_if(first + 1, talk_.messages.end(), [](const ChatMessage& message) {
      return message.role == "user";
    });
    talk_.messages.erase(first, next);
    evaluated_all_ = false;
  }
  return before - talk_.messages.size();
}

void ChatSession::reset() {
  talk_.messages.erase(talk_.messages.begin() + (has_system() ? 1 : 0), talk_.messages.end());
  evaluated_all_ = false;
}

void ChatSession::set_system(const std::string& text) {
  set_system_message(talk_.messages, text);
  evaluated_all_ = false;
}

bool ChatSession::set_system_option(const std::string& text, const Command& command) {
  const bool taken = tools::set_system_option(talk_.messages, text, command);
  if (taken) evaluated_all_ = false;
  return taken;
}

void ChatSession::save(const std::string& path) const { write_conversation(path, talk_); }

std::vector<std::string> ChatSession::load(const std::string& path) {
  Conversation loaded = read_conversation(path);
  std::vector<std::string> notes;
  for (const std::string& name : unused_names(loaded, *how_.chat_template))
    notes.push_back('"' + name + "\" in it changes nothing: the chat template does not use it");
  if (has_system() && has_system_message(loaded.messages)) {
    notes.emplace_back("its system message replaces the one before");
  } else if (has_system()) {
    loaded.messages.insert(loaded.messages.begin(), talk_.messages.front());
    notes.emplace_back("it has no system message: the one before stays");
  }
  talk_ = std::move(loaded);
  last_.reset();
  evaluated_all_ = false;
  return notes;
}

void ChatSession::keep(const std::string& path) const {
  session_.save(path, conversation_json(talk_));
}

void ChatSession::resume(const std::string& path) {
  const std::string note = session_.load(path);
  if (note.empty()) throw Error(path, "holds no conversation: it was not saved by cria chat");
  talk_ = parse_conversation(note, path);
  evaluated_all_ = true;
}

/// Tokens of the conversation. Counts its prompt if the session holds another conversation.
std::size_t ChatSession::tokens() const {
  if (evaluated_all_) return session_.tokens().size();
  ChatOptions how = how_;
  how.variables = variables_.over(talk_.variables);
  const bool empty = talk_.messages.size() == (has_system() ? 1U : 0U);  // templates want a message
  return empty ? 0 : count_prompt_tokens(model_, talk_.messages, how);
}

std::string ChatSession::context_text() const {
  return std::to_string(tokens()) + " of " + counted(session_.options().n_ctx, "token");
}

std::string ChatSession::greeting() const {
  const std::string& name = model_.config().name;
  const std::string demo =
      name == "cria-demo"
          ? "\nThings to ask it: What is the capital of Japan? What colour is grass?\n"
            "Say \"My name is Ana.\", then ask: What is my name?"
          : "";
  return (name.empty() ? "unnamed model" : without_controls(name)) + ", context of " +
         counted(session_.options().n_ctx, "token") + "; /help lists the commands, Ctrl-D ends" +
         demo;
}

std::string ChatSession::stats() const {
  return (last_ ? speed_line(*last_) : std::string("no answer yet")) +
         "; context: " + context_text() + ", " + std::to_string(evaluated_) +
         " evaluated in all; sampling: " + sampling_text(generate_.sampler, model_.file());
}

std::string ChatSession::full_text() const {
  return "the context of " + counted(session_.options().n_ctx, "token") +
         " is full: /compact forgets the oldest half, /shift does so from now on whenever it is "
         "full, "
         "/reset starts a new one" +
         larger_context_text();
}

std::string ChatSession::forgotten_text() const {
  return "the context of " + counted(session_.options().n_ctx, "token") +
         " is full: from here on, the oldest messages are forgotten" + larger_context_text();
}

std::string ChatSession::larger_context_text() const {
  const std::uint32_t trained = model_.config().n_ctx_train;
  if (session_.options().n_ctx >= trained) return "";
  return ", -c makes it larger (to " + std::to_string(trained) + ")";
}

}  // namespace cria::tools
