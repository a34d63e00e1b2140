// Prompts of requests, as the model reads them.
#pragma once

#include "tools/serve/api/reply.h"

namespace cria::serve {

/// The names of the repairs that the template needed (tools/requests/messages.h).
using Repairs = std::vector<std::string>;

/// Throw RequestError: "template_error" if the template refuses the conversation,
/// "context_length_exceeded" for a prompt of more than n_ctx - 1 tokens, "unsupported_parameter"
/// for tools that the model cannot call.
Prompts chat_prompt(const ServedModel& model, std::size_t n_ctx, const CompletionRequest& request);
Prompts text_prompts(const ServedModel& model, std::size_t n_ctx, const CompletionRequest& request);

/// Returns the text of a prompt, one piece per token.
std::vector<std::string> echo_pieces(const Tokenizer& tokenizer, const Prompt& prompt);

/// Returns the format of tool calls; None without tools. Throws RequestError if it is unknown.
CallForm call_form(const ServedModel& model, const CompletionRequest& request);

/// Renders the conversation with the template.
std::string rendered_prompt(const ServedModel& model, const CompletionRequest& request,
                            bool add_generation_prompt, Repairs& repairs);

/// A prompt that exceeds the context.
class PromptTooLong : public RequestError {
 public:
  PromptTooLong(const std::string& path, std::size_t tokens_, std::size_t n_ctx);
  std::size_t tokens, most;
};

/// Returns a piece of text as a string, or as an array of bytes if it is not UTF-8.
Json piece_json(const std::string& piece);

}  // namespace cria::serve
