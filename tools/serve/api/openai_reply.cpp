#include "tools/serve/api/replies.h"

#include <utility>

#include "tools/serve/api/prompts.h"

namespace cria::serve {
namespace {

std::string joined(std::span<const TextToken> tokens) {
  std::string text;
  for (const TextToken& token : tokens) text += token.text;
  return text;
}

}  // namespace

OpenAiReply::OpenAiReply(ReplyParts parts)
    : Reply(std::move(parts)), id_(fresh_id(request_.chat ? "chatcmpl-" : "cmpl-")) {}

// ------------------------------------------------------------ streams

// Sends the first chunk of a choice: the role of a chat, or the echoed prompt.
void OpenAiReply::begin_choice(Choice& choice, bool call) {
  if (std::exchange(choice.begun, true)) return;
  Json first = {{"index", choice.index}};
  if (request_.chat) {
    first["delta"] = {{"role", "assistant"}, {"content", call ? Json() : Json("")}};
    first["logprobs"] = nullptr;
  } else if (request_.echo) {
    const std::vector<TextToken> echo = echo_tokens(choice);
    first["text"] = joined(echo);
    first["logprobs"] = wants_logprobs() ? logprobs(choice, echo) : Json(nullptr);
  } else {
    return;
  }
  first["finish_reason"] = nullptr;
  send(choice, std::move(first));
}

void OpenAiReply::write_text(Choice& choice, const std::string& text,
                             std::span<const TextToken> tokens) {
  begin_choice(choice);
  Json chunk = {{"index", choice.index}};
  if (request_.chat)
    chunk["delta"] = {{"content", text}};
  else
    chunk["text"] = text;
  chunk["logprobs"] = wants_logprobs() ? logprobs(choice, tokens) : Json(nullptr);
  chunk["finish_reason"] = nullptr;
  send(choice, std::move(chunk));
}

void OpenAiReply::write_thinking(Choice& choice, std::string_view piece) {
  begin_choice(choice);
  send_delta(choice, {{"reasoning_content", piece}});
}

void OpenAiReply::write_call(Choice& choice, const ToolCallPiece& piece) {
  begin_choice(choice, true);
  Json call = {{"index", piece.index}};
  if (piece.name.empty())
    call["function"] = {{"arguments", piece.arguments}};
  else
    call.update(tools::tool_call_json({piece.id, piece.name, ""}));
  send_delta(choice, {{"tool_calls", Json::array({std::move(call)})}});
}

void OpenAiReply::write_progress(Choice& choice, std::size_t processed) {
  Json chunk = head(true);
  chunk["choices"] = Json::array();
  if (request_.include_usage) chunk["usage"] = nullptr;
  chunk["prompt_progress"] = {
      {"total", choice.prompt.tokens.size()},
      {"cache", choice.cached},
      {"processed", processed},
      {"time_ms", std::chrono::duration<double, std::milli>(Clock::now() - choice.since).count()}};
  exchange_->event(json_text(chunk));
}

void OpenAiReply::send_delta(Choice& choice, Json delta) {
  send(choice, {{"index", choice.index},
                {"delta", std::move(delta)},
                {"logprobs", nullptr},
                {"finish_reason", nullptr}});
}

void OpenAiReply::send(const Choice& choice, Json json, bool last) {
  Json chunk = head(true);
  chunk["choices"] = Json::array({std::move(json)});
  if (request_.include_usage) chunk["usage"] = nullptr;
  if (last || request_.timings_per_token) chunk["timings"] = timings(choice);
  exchange_->event(json_text(chunk));
}

void OpenAiReply::end_choice(Choice& choice) {
  begin_choice(choice);
  Json last = {{"index", choice.index}};
  last[request_.chat ? "delta" : "text"] = request_.chat ? Json::object() : Json("");
  last["logprobs"] = nullptr;
  last["finish_reason"] = tools::finish_reason(choice.result);
  send(choice, std::move(last), true);
}

void OpenAiReply::end_stream() {
  if (request_.include_usage) {
    Json chunk = head(true);
    chunk["choices"] = Json::array();
    chunk["usage"] = tools::usage_json(usage());
    exchange_->event(json_text(chunk));
  }
  exchange_->event("[DONE]");
}

// ------------------------------------------------------------ whole answers

std::string OpenAiReply::whole() {
  const Json first = head(false);
  ObjectText json;
  for (const auto& [name, value] : first.items()) json.add(name, value);
  json.add_list("choices", choices_.size(), [this](std::string& text, std::size_t index) {
    text += json_text(whole_choice(choices_[index]));
  });
  json.add("usage", tools::usage_json(usage()));
  json.add("timings", timings(choices_.front()));
  return json.take();
}

Json OpenAiReply::whole_choice(Choice& choice) {
  Json json = {{"index", choice.index}};
  std::vector<TextToken> tokens;
  if (request_.echo) tokens = echo_tokens(choice);
  if (request_.chat)
    json["message"] = tools::answered_message(choice.result);
  else
    json["text"] = joined(tokens) + choice.result.text;
  json["logprobs"] = nullptr;
  if (wants_logprobs()) {
    std::ranges::move(all_tokens(choice), std::back_inserter(tokens));
    json["logprobs"] = logprobs(choice, tokens);
  }
  json["finish_reason"] = tools::finish_reason(choice.result);
  return json;
}

// ------------------------------------------------------------ parts of both

Json OpenAiReply::head(bool chunk) const {
  const char* const kind = !request_.chat ? "text_completion"
                           : chunk        ? "chat.completion.chunk"
                                          : "chat.completion";
  return {{"id", id_},
          {"object", kind},
          {"created", created_},
          {"model", model_.id},
          {"system_fingerprint", model_.fingerprint},
          {"seed", request_.seed()}};
}

Json OpenAiReply::logprobs(Choice& choice, std::span<const TextToken> tokens) const {
  return request_.chat ? chat_logprobs(tokenizer(), tokens)
                       : completion_logprobs(tokenizer(), tokens, choice.offset);
}

// The prompt's.
std::vector<TextToken> OpenAiReply::echo_tokens(Choice& choice) const {
  std::vector<TextToken> tokens;
  for (std::string& piece : echo_pieces(tokenizer(), choice.prompt)) {
    const std::size_t i = tokens.size();
    tokens.push_back({std::move(piece), std::nullopt});
    if (i > 0 && i <= choice.result.prompt_logprobs.size())
      tokens.back().logprobs = std::move(choice.result.prompt_logprobs[i - 1]);
  }
  return tokens;
}

}  // namespace cria::serve
