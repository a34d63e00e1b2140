#include "tools/report/answer_json.h"

#include <nlohmann/json.hpp>

#include "model/config.h"

namespace cria::tools {
namespace {

using Json = nlohmann::ordered_json;

Json token_json(const Tokenizer& tokenizer, TokenId id, float logprob) {
  const std::string piece = tokenizer.piece(id, true);
  Json bytes = Json::array();
  for (const char byte : piece) bytes.push_back(static_cast<unsigned char>(byte));
  return {{"token", piece}, {"id", id}, {"logprob", logprob}, {"bytes", std::move(bytes)}};
}

/// Null where none were asked for.
Json logprobs_json(const Tokenizer& tokenizer, const GenerateResult& result) {
  if (result.logprobs.empty()) return nullptr;
  Json content = Json::array();
  for (const TokenLogprobs& token : result.logprobs) {
    Json entry = token_json(tokenizer, token.id, token.logprob), top = Json::array();
    for (const auto& [id, logprob] : token.top) top.push_back(token_json(tokenizer, id, logprob));
    entry["top_logprobs"] = std::move(top);
    content.push_back(std::move(entry));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

/// All tokens that were drawn: the one that ended the answer too.
std::size_t drawn_tokens(const GenerateResult& result) {
  return result.tokens.size() + (result.reason == StopReason::EndOfGeneration ? 1 : 0);
}

Json usage_json(const GenerateResult& result) {
  const std::size_t prompt = result.prompt_tokens + result.cached_tokens, drawn = drawn_tokens(result);
  Json usage = {{"prompt_tokens", prompt},
                {"completion_tokens", drawn},
                {"total_tokens", prompt + drawn},
                {"prompt_tokens_details", {{"cached_tokens", result.cached_tokens}}}};
  if (result.reasoning_tokens > 0)
    usage["completion_tokens_details"] = {{"reasoning_tokens", result.reasoning_tokens}};
  return usage;
}

Json call_json(const ToolCall& call) {
  return {{"id", call.id},
          {"type", "function"},
          {"function", {{"name", call.name}, {"arguments", call.arguments}}}};
}

Json answered_message(const GenerateResult& result) {
  Json message = {{"role", "assistant"}, {"content", result.text}};
  if (result.text.empty() && !result.tool_calls.empty()) message["content"] = nullptr;
  if (!result.reasoning.empty()) message["reasoning_content"] = result.reasoning;
  for (const ToolCall& call : result.tool_calls) message["tool_calls"].push_back(call_json(call));
  return message;
}

double rate(std::size_t n, double seconds) { return seconds > 0 ? static_cast<double>(n) / seconds : 0.0; }

}  // namespace

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
               {"tokens_per_second", rate(result.tokens.size(), result.decode_seconds)},
               {"choices", Json::array({std::move(choice)})},
               {"usage", usage_json(result)}});
  return json;
}

Json timeless_answer_json(const GenerateResult& result, const AnswerFacts& facts) {
  Json json = answer_json(result, facts);
  for (const char* key : {"prompt_tokens", "prompt_seconds", "prompt_tokens_per_second", "decode_seconds",
                          "tokens_per_second", "speculation"})
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
  said.update(call_json(call));
  piece["choices"][0]["delta"] = {{"tool_calls", Json::array({std::move(said)})}};
  return piece;
}

std::string call_line(const ToolCall& call) {
  Json line = {{"name", call.name}, {"arguments", Json::parse(call.arguments, nullptr, false)}};
  if (line["arguments"].is_discarded()) line["arguments"] = call.arguments;
  return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace cria::tools
