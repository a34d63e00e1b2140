#include "tools/report/answer_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "model/config.h"
#include "tools/report/generation.h"

namespace cria::tools {
namespace {

using Json = nlohmann::ordered_json;

Json token_json(const Tokenizer& tokenizer, TokenId id, float logprob) {
  const std::string piece = tokenizer.piece(id, true);
  Json bytes = Json::array();
  for (const char byte : piece) bytes.push_back(static_cast<unsigned char>(byte));
  return {{"token", piece},
          {"id", id},
          {"logprob", finite_logprob(logprob)},
          {"bytes", std::move(bytes)}};
}

/// Null where none were asked for.
Json logprobs_json(const Tokenizer& tokenizer, const GenerateResult& result) {
  if (result.logprobs.empty()) return nullptr;
  Json content = Json::array();
  for (const TokenLogprobs& token : result.logprobs)
    content.push_back(token_logprobs_json(tokenizer, token));
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

double rate(std::size_t n, double seconds) {
  return seconds > 0 ? static_cast<double>(n) / seconds : 0.0;
}

}  // namespace

double finite_logprob(float logprob) { return std::max(logprob, -9999.0F); }

Json token_logprobs_json(const Tokenizer& tokenizer, const TokenLogprobs& token) {
  Json entry = token_json(tokenizer, token.id, token.logprob), top = Json::array();
  for (const auto& [id, logprob] : token.top) top.push_back(token_json(tokenizer, id, logprob));
  entry["top_logprobs"] = std::move(top);
  return entry;
}

AnswerUsage AnswerUsage::of(const GenerateResult& result) {
  return {result.prompt_tokens + result.cached_tokens, result.cached_tokens,
          result.tokens.size() + (result.end_token ? 1 : 0), result.reasoning_tokens};
}

Json usage_json(const AnswerUsage& usage) {
  Json json = {{"prompt_tokens", usage.prompt},
               {"completion_tokens", usage.completion},
               {"total_tokens", usage.prompt + usage.completion},
               {"prompt_tokens_details", {{"cached_tokens", usage.cached}}}};
  if (usage.reasoning > 0)
    json["completion_tokens_details"] = {{"reasoning_tokens", usage.reasoning}};
  return json;
}

Json tool_call_json(const ToolCall& call) {
  return {{"id", call.id},
          {"type", "function"},
          {"function", {{"name", call.name}, {"arguments", call.arguments}}}};
}

Json answered_message(const GenerateResult& result) {
  Json message = {{"role", "assistant"}, {"content", result.text}, {"refusal", nullptr}};
  if (result.text.empty() && !result.tool_calls.empty()) message["content"] = nullptr;
  if (!result.reasoning.empty()) message["reasoning_content"] = result.reasoning;
  for (const ToolCall& call : result.tool_calls)
    message["tool_calls"].push_back(tool_call_json(call));
  return message;
}

Json finish_reason(StopReason reason) {
  switch (reason) {
    case StopReason::EndOfGeneration:
    case StopReason::StopString:
      return "stop";
    case StopReason::Length:
    case StopReason::ContextFull:
      return "length";
    case StopReason::Interrupted:
      break;
  }
  return nullptr;
}

Json finish_reason(const GenerateResult& result) {
  const bool called = result.reason == StopReason::EndOfGeneration && !result.tool_calls.empty();
  return called ? Json("tool_calls") : finish_reason(result.reason);
}

Json answer_json(const GenerateResult& result, const AnswerFacts& facts) {
  Json choice = {{"index", 0}};
  if (facts.chat)
    choice["message"] = answered_message(result);
  else
    choice["text"] = result.text;
  choice["logprobs"] = logprobs_json(facts.model.tokenizer(), result);
  choice["finish_reason"] = finish_reason(result);
  Json json = {{"object", facts.chat ? "chat.completion" : "text_completion"},
               {"model", facts.model.config().name},
               {"text", result.text}};
  if (!result.reasoning.empty()) json["reasoning_content"] = result.reasoning;
  json.update({{"tokens", result.tokens},
               {"stop_reason", name(result.reason)},
               {"seed", facts.seed},
               {"prompt_tokens", result.prompt_tokens},
               {"prompt_seconds", result.prompt_seconds},
               {"prompt_tokens_per_second", rate(result.prompt_tokens, result.prompt_seconds)},
               {"decode_seconds", result.decode_seconds},
               {"speculation", {{"drafted", result.drafted}, {"kept", result.kept}}},
               {"tokens_per_second", rate(decoded_tokens(result), result.decode_seconds)},
               {"choices", Json::array({std::move(choice)})},
               {"usage", usage_json(AnswerUsage::of(result))}});
  return json;
}

Json answer_json_without_timing(const GenerateResult& result, const AnswerFacts& facts) {
  Json json = answer_json(result, facts);
  for (const char* key : {"prompt_tokens", "prompt_seconds", "prompt_tokens_per_second",
                          "decode_seconds", "tokens_per_second", "speculation"})
    json.erase(key);
  json["usage"].erase("prompt_tokens_details");
  return json;
}

Json piece_json(AnswerPart part, std::string_view piece, const AnswerFacts& facts) {
  Json choice = {{"index", 0}};
  if (facts.chat)
    choice["delta"] = {{part == AnswerPart::Thinking ? "reasoning_content" : "content", piece}};
  else
    choice["text"] = piece;
  choice["finish_reason"] = nullptr;
  return {{"object", facts.chat ? "chat.completion.chunk" : "text_completion"},
          {"choices", Json::array({std::move(choice)})}};
}

Json call_piece_json(const ToolCall& call, std::size_t index, const AnswerFacts& facts) {
  Json piece = piece_json(AnswerPart::Answer, "", facts), said = {{"index", index}};
  said.update(tool_call_json(call));
  piece["choices"][0]["delta"] = {{"tool_calls", Json::array({std::move(said)})}};
  return piece;
}

std::string call_line(const ToolCall& call) {
  Json line = {{"name", call.name}, {"arguments", Json::parse(call.arguments, nullptr, false)}};
  if (line["arguments"].is_discarded()) line["arguments"] = call.arguments;
  return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace cria::tools
