// Requests: conversations to prompts, choices, embeddings.
#include "engine/constrain/constraint.h"
#include "engine/model_parts.h"
#include "engine/scheduler.h"
#include "model/file/binary_file.h"
#include "model/plural.h"
#include "tokenizer/chat/transcript.h"

namespace cria {
namespace {

struct Prompt {
  std::string text;
  std::vector<TokenId> tokens;
};

RenderOptions render_options(const ChatOptions& how) {
  RenderOptions options;
  options.variables = how.variables;
  options.continue_last = how.continue_last;
  return options;
}

std::uint64_t text_hash(std::string_view text) {
  Hash hash;
  hash.add(text.data(), text.size());
  return hash.value();
}

bool has_system(const std::vector<ChatMessage>& messages) {
  return !messages.empty() && messages.front().role == "system";
}

// Number of messages in the oldest exchange, from after the system message to before the user's
// next message. It never includes the last message; 0 if it is the only one.
std::size_t oldest_exchange(const std::vector<ChatMessage>& messages) {
  const std::size_t first = has_system(messages) ? 1 : 0;
  if (messages.size() < first + 2) return 0;
  std::size_t end = first + 1;
  while (end + 1 < messages.size() && messages[end].role != "user") ++end;
  return end - first;
}

void drop_oldest(std::vector<ChatMessage>& messages, std::size_t count) {
  const auto first = messages.begin() + (has_system(messages) ? 1 : 0);
  messages.erase(first, first + static_cast<std::ptrdiff_t>(count));
}

// Constraint that makes tool calls in the text well-formed; null if their format has none.
std::shared_ptr<const Constraint> well_formed_calls(const AnswerFormat& format) {
  if (format.tools.empty() || !can_require_calls(format.calls)) return nullptr;
  try {
    return Constraint::tool_calls({format.calls, format.tools, "", true, true});
  } catch (const std::exception&) {  // invalid tools or schemas: passed to the model as they are
    return nullptr;
  }
}

// Turns one conversation into a prompt.
class Chat {
 public:
  Chat(const Model& model, std::size_t n_ctx, const ChatTemplate& chat_template,
       Transcript& transcript, const std::vector<ChatMessage>& messages, const ChatOptions& how)
      : model_(model),
        n_ctx_(n_ctx),
        template_(chat_template),
        transcript_(transcript),
        how_(how),
        messages_(messages) {}

  // Renders the messages, dropping the oldest exchanges if necessary.
  Prompt prompt() {
    const std::size_t limit = n_ctx_ - n_ctx_ / 4;
    Prompt out = render();
    while (how_.drop_oldest && out.tokens.size() > limit) {
      const std::size_t count = oldest_exchange(messages_);
      if (count == 0) break;
      drop_oldest(messages_, count);
      dropped_ += count;
      out = render();
    }
    if (out.tokens.size() >= n_ctx_) overflow(out.tokens.size());
    return out;
  }

  [[nodiscard]] GenerateOptions generate_options(const GenerateOptions& wanted,
                                                 const Prompt& prompt, bool shifts) const {
    GenerateOptions options = wanted;
    options.format = template_.answer_format(how_.variables);
    if (how_.calls && !options.format.tools.empty()) options.format.calls = *how_.calls;
    if (!options.constraint) options.constraint = well_formed_calls(options.format);
    options.call_key = text_hash(prompt.text) ^ wanted.sampler.seed.value_or(0);
    options.thinking_opened = options.format.opened_by(prompt.text);
    options.stop.insert(options.stop.end(), template_.stops().begin(), template_.stops().end());
    if (shifts)
      options.keep = std::max(options.keep, system_tokens(model_.tokenizer(), template_, messages_,
                                                          render_options(how_)));
    return options;
  }

  [[nodiscard]] std::size_t dropped() const { return dropped_; }

 private:
  Prompt render() {
    const jinja::Text text = template_.render(messages_, render_options(how_));
    return {text.bytes(), transcript_.encode(model_.tokenizer(), text)};
  }

  // Tokens of a conversation with only the last message; 0 if the template rejects that.
  std::size_t tokens_alone() {
    while (const std::size_t count = oldest_exchange(messages_)) drop_oldest(messages_, count);
    try {
      return template_.encode(model_.tokenizer(), messages_, render_options(how_)).size();
    } catch (const Error&) {
      return 0;
    }
  }

  [[noreturn]] void overflow(std::size_t tokens) {
    const std::size_t alone = tokens_alone();
    throw ContextOverflow(
        (alone >= n_ctx_
             ? "the message is too long: " + counted(alone, "token")
             : "the conversation is too long: " + counted(tokens, "token") + " with this message") +
            ", but the context holds " + std::to_string(n_ctx_) +
            ", one of which is for the answer",
        tokens, alone >= n_ctx_);
  }

  const Model& model_;
  const std::size_t n_ctx_;
  const ChatTemplate& template_;
  Transcript& transcript_;
  const ChatOptions& how_;
  std::vector<ChatMessage> messages_;
  std::size_t dropped_ = 0;
};

}  // namespace

AnswerRequest chat_request(const Model& model, std::size_t n_ctx,
                           const std::vector<ChatMessage>& messages, const GenerateOptions& options,
                           const ChatOptions& how, Transcript* transcript, bool context_shift) {
  Transcript none;
  Chat chat(model, n_ctx, *how.chat_template, transcript == nullptr ? none : *transcript, messages,
            how);
  Prompt prompt = chat.prompt();
  if (how.on_prompt) how.on_prompt(prompt.text, prompt.tokens);
  AnswerRequest request;
  request.options = chat.generate_options(options, prompt, context_shift);
  request.prompt = std::move(prompt.tokens);
  request.dropped = chat.dropped();
  return request;
}

AnswerRequest choice(const AnswerRequest& request, std::uint64_t index) {
  AnswerRequest one = request;
  if (!one.options.sampler.seed) return one;
  const std::uint64_t seed = *one.options.sampler.seed;
  one.options.sampler.seed = seed + index;
  one.options.call_key ^= seed ^ (seed + index);  // as in chat_request()
  return one;
}

std::size_t count_prompt_tokens(const Model& model, const std::vector<ChatMessage>& messages,
                                const ChatOptions& how) {
  const auto count = [&](const ChatTemplate& chat_template) {
    return chat_template.encode(model.tokenizer(), messages, render_options(how)).size();
  };
  return how.chat_template ? count(*how.chat_template)
                           : count(ChatTemplate::from_vocabulary(model.vocabulary()));
}

}  // namespace cria
