// Requests as prompts: what the model reads.
#pragma once

#include "tools/serve/api/reply.h"

namespace cria::serve {

/// Throw RequestError "template_error" where the template refuses the conversation,
/// "context_length_exceeded" where a prompt has more than n_ctx - 1 tokens, and where tools or a
/// form of the answer are asked for that cannot be.
Prompts chat_prompt(const ServedModel& model, std::size_t n_ctx, const CompletionRequest& request);
Prompts text_prompts(const ServedModel& model, std::size_t n_ctx, const CompletionRequest& request);

/// A prompt's text, a piece for each of its tokens.
std::vector<std::string> echo_pieces(const Tokenizer& tokenizer, const Prompt& prompt);

/// How the request's tools are called; None: it offers none. Throws RequestError where that is not
/// known.
CallForm call_form(const ServedModel& model, const CompletionRequest& request);

/// The conversation as the template renders it.
std::string rendered_prompt(const ServedModel& model, const CompletionRequest& request,
                            bool add_generation_prompt);

RequestError too_long(const std::string& path, std::size_t tokens, std::size_t n_ctx);
RequestError unknown_model(const std::string& wanted, const std::string& there);

/// A piece of a text; what is no UTF-8 as an array of bytes.
RequestJson piece_json(const std::string& piece);

}  // namespace cria::serve
