#include "tools/serve/api/prompts.h"

#include <utility>

#include "model/file/utf8.h"
#include "model/plural.h"
#include "model/vocabulary.h"
#include "tokenizer/jinja/template.h"
#include "tokenizer/jinja/values/text.h"
#include "tools/requests/messages.h"

namespace cria::serve {
namespace {

using tools::element_path;

/// Returns the text of each token; "" for a BOS in front.
std::vector<std::string> pieces_of(const Tokenizer& tokenizer, std::span<const TokenId> ids) {
  const bool has_bos = !ids.empty() && tokenizer.vocabulary().bos == ids.front();
  std::vector<std::string> pieces;
  std::string joined;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    pieces.push_back(i == 0 && has_bos ? "" : tokenizer.piece(ids[i], true));
    joined += pieces.back();
  }
  const std::size_t first = has_bos ? 1 : 0;
  // The tokenizer put a space before the text.
  if (joined == " " + tokenizer.decode(ids.subspan(first), true)) pieces[first].erase(0, 1);
  return pieces;
}

Prompt text_prompt(const Tokenizer& tokenizer, std::size_t n_ctx, const PromptText& said,
                   const std::string& path, bool echo) {
  Prompt prompt;
  if (const auto* ids = std::get_if<std::vector<TokenId>>(&said)) {
    prompt.tokens = *ids;
  } else {
    const auto& text = std::get<std::string>(said);
    prompt.tokens = tokenizer.encode(text, true, true);
    if (echo) prompt.text = text;
  }
  const std::size_t n = prompt.tokens.size();
  if (n >= n_ctx) throw PromptTooLong(path, n, n_ctx);
  if (n == 0)
    throw RequestError(
        "invalid_value", path,
        "\"" + path + "\": expected a non-empty string, as this model has no BOS token");
  return prompt;
}

/// Returns the prompt that asks to fill a gap.
Prompt fill_prompt_of(const Tokenizer& tokenizer, std::size_t n_ctx,
                      const CompletionRequest& request) {
  if (!tokenizer.vocabulary().fim.complete())
    throw RequestError("unsupported_model", "model",
                       "the model cannot fill in the middle: its file names no FIM tokens "
                       "(tokenizer.ggml.fim_pre_token_id, fim_suf_token_id, fim_mid_token_id)");
  std::size_t limit = n_ctx - 1;
  if (request.cut_prompt) {
    const auto wanted = static_cast<std::size_t>(request.generate.max_tokens);
    const std::size_t answer = wanted < n_ctx ? std::max<std::size_t>(wanted, 1) : n_ctx / 4;
    limit = n_ctx - std::min(n_ctx, answer);
  }
  FillPrompt filled = fill_prompt(tokenizer, *request.fill, request.cut_prompt ? limit : SIZE_MAX);
  if (filled.tokens.size() > limit) throw PromptTooLong("prompt", filled.tokens.size(), limit + 1);
  return {std::move(filled.tokens), std::nullopt, filled.cut};
}

}  // namespace

CallForm call_form(const ServedModel& model, const CompletionRequest& request) {
  if (!request.tools.offered()) return CallForm::None;
  const CallForm form =
      model.calls ? *model.calls : model.chat_template->answer_format(request.variables).calls;
  if (form == CallForm::None)
    tools::refuse_unsupported(
        "tools",
        "the tool-call format of this model is unknown; start cria serve with --tool-format");
  return form;
}

PromptTooLong::PromptTooLong(const std::string& path, std::size_t tokens_, std::size_t n_ctx)
    : RequestError("context_length_exceeded", path,
                   "\"" + path + "\": expected at most " + counted(n_ctx - 1, "token") +
                       " (the context of " + std::to_string(n_ctx) +
                       " less one of the answer), got " + std::to_string(tokens_)),
      tokens(tokens_),
      most(n_ctx - 1) {}

Json piece_json(const std::string& piece) {
  if (is_utf8(piece)) return piece;
  Json bytes = Json::array();
  for (const char byte : piece) bytes.push_back(static_cast<unsigned char>(byte));
  return bytes;
}

namespace {

RenderOptions render_options(const CompletionRequest& request, const std::string& variables,
                             bool add_generation_prompt) {
  RenderOptions options;
  options.add_generation_prompt = add_generation_prompt;
  options.variables = variables;
  options.continue_last = request.continue_last;
  return options;
}

/// Throws RequestError if thinking shall be off but the template has no switch for it.
void check_thinking(const ServedModel& model, const CompletionRequest& request) {
  const ChatTemplate& chat = *model.chat_template;
  const bool has_switch = chat.reads("enable_thinking") || chat.reads("thinking");
  if (request.think == false && !has_switch && chat.answer_format(request.variables).thinks())
    tools::refuse_unsupported(request.think_path,
                              "the template of this model cannot turn thinking off");
}

/// Calls make(messages, variables), again with a repaired conversation if the template refuses it.
template <class Make>
auto with_repairs(const ServedModel& model, const CompletionRequest& request,
                  bool add_generation_prompt, Repairs& repairs, Make&& make) {
  check_thinking(model, request);
  tools::TemplateInput input{request.messages, request.variables};
  std::string refusal;
  try {
    return make(input.messages, input.variables);
  } catch (const ContextOverflow&) {
    throw;
  } catch (const jinja::LimitError& error) {
    throw RequestError("template_error", "messages", error.what());
  } catch (const Error& error) {
    refusal = error.what();
  }
  repairs = tools::repair(input, [&](const tools::TemplateInput& changed) {
    try {
      (void)model.chat_template->render(
          changed.messages, render_options(request, changed.variables, add_generation_prompt));
      return true;
    } catch (const jinja::LimitError& error) {
      throw RequestError("template_error", "messages", error.what());
    } catch (const Error&) {
      return false;
    }
  });
  if (repairs.empty()) throw RequestError("template_error", "messages", refusal);
  return make(input.messages, input.variables);
}

}  // namespace

Prompts chat_prompt(const ServedModel& model, std::size_t n_ctx, const CompletionRequest& request) {
  ChatOptions how;
  how.chat_template = model.chat_template;
  how.continue_last = request.continue_last;
  if (request.tools.offered()) how.calls = call_form(model, request);
  Repairs repairs;
  const auto make = [&](const std::vector<ChatMessage>& messages, const std::string& variables) {
    how.variables = variables;
    return chat_request(*model.model, n_ctx, messages, request.generate, how);
  };
  try {
    Prompts out{with_repairs(model, request, true, repairs, make), {}};
    out.all.push_back({std::exchange(out.request.prompt, {}), std::nullopt});
    return out;
  } catch (const ContextOverflow& overflow) {
    throw PromptTooLong("messages", overflow.tokens, n_ctx);
  }
}

Prompts text_prompts(const ServedModel& model, std::size_t n_ctx,
                     const CompletionRequest& request) {
  Prompts out;
  out.request.options = request.generate;
  if (request.fill) {
    out.request.options.end_tokens = model.model->vocabulary().fim.all();
    out.all.push_back(fill_prompt_of(model.model->tokenizer(), n_ctx, request));
    return out;
  }
  for (std::size_t i = 0; i < request.prompts.size(); ++i)
    out.all.push_back(text_prompt(model.model->tokenizer(), n_ctx, request.prompts[i],
                                  request.one_prompt ? "prompt" : element_path("prompt", i),
                                  request.echo));
  return out;
}

// Computed when needed: it would take much more memory than the prompt while an answer waits.
std::vector<std::string> echo_pieces(const Tokenizer& tokenizer, const Prompt& prompt) {
  if (!prompt.text) return pieces_of(tokenizer, prompt.tokens);
  std::vector<std::size_t> ends;
  (void)tokenizer.encode(*prompt.text, true, true, &ends);
  std::vector<std::string> pieces;
  for (std::size_t begin = 0; const std::size_t end : ends) {
    pieces.push_back(prompt.text->substr(begin, end - begin));
    begin = end;
  }
  return pieces;
}

std::string rendered_prompt(const ServedModel& model, const CompletionRequest& request,
                            bool add_generation_prompt, Repairs& repairs) {
  (void)call_form(model, request);
  return with_repairs(model, request, add_generation_prompt, repairs,
                      [&](const std::vector<ChatMessage>& messages, const std::string& variables) {
                        return model.chat_template
                            ->render(messages,
                                     render_options(request, variables, add_generation_prompt))
                            .bytes();
                      });
}

}  // namespace cria::serve
