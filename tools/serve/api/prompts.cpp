#include "tools/serve/api/prompts.h"

#include "model/plural.h"
#include "model/vocabulary.h"
#include "tokenizer/jinja/values/text.h"

namespace cria::serve {
namespace {

using tools::element_path;

/// Pieces of the text, one for each token. A BOS in front is no part of it.
std::vector<std::string> echo_pieces(const Tokenizer& tokenizer, std::span<const TokenId> ids) {
  const bool has_bos = !ids.empty() && tokenizer.vocabulary().bos == ids.front();
  std::vector<std::string> pieces;
  std::string joined;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    pieces.push_back(i == 0 && has_bos ? "" : tokenizer.piece(ids[i], true));
    joined += pieces.back();
  }
  const std::size_t first = has_bos ? 1 : 0;
  // The blank that a text is given in front to be tokenized.
  if (joined == " " + tokenizer.decode(ids.subspan(first), true)) pieces[first].erase(0, 1);
  return pieces;
}

std::vector<std::string> echo_pieces(std::string_view text, std::span<const std::size_t> ends) {
  std::vector<std::string> pieces;
  for (std::size_t begin = 0; const std::size_t end : ends) {
    pieces.emplace_back(text.substr(begin, end - begin));
    begin = end;
  }
  return pieces;
}

}  // namespace

CallForm call_form(const ServedModel& model, const CompletionRequest& request) {
  if (!request.tools.offered()) return CallForm::None;
  const CallForm form =
      model.calls ? *model.calls : model.chat_template->answer_format(request.variables).calls;
  if (form == CallForm::None)
    tools::refuse_unsupported(
        "tools", "how this model calls tools is not known (--tool-format or --chat-template says it)");
  return form;
}

RequestError too_long(const std::string& path, std::size_t tokens, std::size_t n_ctx) {
  return {"context_length_exceeded", path,
          "\"" + path + "\": expected at most " + counted(n_ctx - 1, "token") + " (the context of " +
              std::to_string(n_ctx) + " less one of the answer), got " + std::to_string(tokens)};
}

RequestError unknown_model(const std::string& wanted, const std::string& there) {
  return {"model_not_found", "model",
          "there is no model \"" + wanted.substr(0, 100) + "\" here, only \"" + there + "\"", 404};
}

RequestJson piece_json(const std::string& piece) {
  const RequestJson text = piece;
  using Invalid = RequestJson::error_handler_t;
  if (text.dump(-1, ' ', false, Invalid::ignore) == text.dump(-1, ' ', false, Invalid::replace)) return text;
  RequestJson bytes = RequestJson::array();
  for (const char byte : piece) bytes.push_back(static_cast<unsigned char>(byte));
  return bytes;
}

Prompt chat_prompt(const ServedModel& model, std::size_t n_ctx, const CompletionRequest& request) {
  ChatOptions how;
  how.chat_template = model.chat_template;
  how.variables = request.variables;
  if (request.tools.offered()) how.calls = call_form(model, request);
  try {
    return {chat_request(*model.model, n_ctx, request.messages, request.generate, how), {}};
  } catch (const ContextOverflow& overflow) {
    throw too_long("messages", overflow.tokens, n_ctx);
  } catch (const Error& error) {
    throw RequestError("template_error", "messages", error.what());
  }
}

Prompt text_prompt(const ServedModel& model, std::size_t n_ctx, const CompletionRequest& request,
                   std::size_t index) {
  const std::string path = request.one_prompt ? "prompt" : element_path("prompt", index);
  const Tokenizer& tokenizer = model.model->tokenizer();
  const PromptText& said = request.prompts[index];
  Prompt prompt;
  prompt.request.options = request.generate;
  if (const auto* ids = std::get_if<std::vector<TokenId>>(&said)) {
    prompt.request.prompt = *ids;
    if (request.echo) prompt.echo = echo_pieces(tokenizer, *ids);
  } else {
    const auto& text = std::get<std::string>(said);
    std::vector<std::size_t> ends;
    prompt.request.prompt = tokenizer.encode(text, true, true, &ends);
    if (request.echo) prompt.echo = echo_pieces(text, ends);
  }
  const std::size_t n = prompt.request.prompt.size();
  if (n >= n_ctx) throw too_long(path, n, n_ctx);
  if (n == 0)
    throw RequestError(
        "invalid_value", path,
        "\"" + path + "\": expected a text, as this model has no token to begin with, got an empty one");
  return prompt;
}

std::string rendered_prompt(const ServedModel& model, const CompletionRequest& request,
                            bool add_generation_prompt) {
  (void)call_form(model, request);
  RenderOptions options;
  options.add_generation_prompt = add_generation_prompt;
  options.variables = request.variables;
  try {
    return model.chat_template->render(request.messages, options).bytes();
  } catch (const Error& error) {
    throw RequestError("template_error", "messages", error.what());
  }
}

}  // namespace cria::serve
