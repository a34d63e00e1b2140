#include "tools/report/answer.h"

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "engine/model_parts.h"
#include "model/config.h"
#include "model/plural.h"
#include "tools/report/table.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {

namespace {

Json token_json(const Tokenizer& tokenizer, TokenId id, float logprob) {
  const std::string piece = tokenizer.piece(id, true);
  Json bytes = Json::array();
  for (const char byte : piece) bytes.push_back(static_cast<unsigned char>(byte));
  return {{"token", piece},
          {"id", id},
          {"logprob", finite_logprob(logprob)},
          {"bytes", std::move(bytes)}};
}

/// Null unless requested.
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
               {"speculation", {{"drafted", result.drafted}, {"kept", result.accepted}}},
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
  Json line = {{"name", call.name}, {"arguments", try_json(call.arguments)}};
  if (line["arguments"].is_discarded()) line["arguments"] = call.arguments;
  return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string name_of_all_layers(const std::string& node) {
  if (!node.starts_with("blk.")) return node;
  return "blk.*" + node.substr(std::min(node.find('.', 4), node.size()));
}

void print_profile(const std::vector<NodeTime>& times, bool wanted) {
  if (!wanted) return;
  std::vector<std::pair<std::string, double>> sums;  // in the graph's order, layers taken together
  double total = 0;
  for (const NodeTime& time : times) {
    const Node* const node = time.node;
    const double seconds = time.seconds;
    const std::string label =
        name_of_all_layers(node->name) + " (" + std::string(name(node->op)) + ")";
    const auto found =
        std::find_if(sums.begin(), sums.end(), [&](const auto& sum) { return sum.first == label; });
    if (found == sums.end())
      sums.emplace_back(label, seconds);
    else
      found->second += seconds;
    total += seconds;
  }
  Table table({"node", ">ms", ">%"});
  for (const auto& [label, seconds] : sums)
    table.add({label, fixed(1e3 * seconds, 2), fixed(100 * seconds / total, 1)});
  table.add({"all", fixed(1e3 * total, 2), "100.0"});
  std::fputs(table.text(stderr).c_str(), stderr);
}

std::size_t decoded_tokens(const GenerateResult& result) {
  const std::size_t drawn = result.tokens.size() + (result.end_token ? 1 : 0);
  return drawn - std::min<std::size_t>(drawn, 1);
}

std::string speed_line(const GenerateResult& result) {
  const auto part = [](std::size_t n, std::size_t timed, double seconds) {
    const bool known = timed > 0 && seconds > 0;
    return counted(n, "token") +
           (known ? ", " + fixed(static_cast<double>(timed) / seconds, 1) + " tokens/s" : "");
  };
  return part(result.tokens.size(), decoded_tokens(result), result.decode_seconds) + "; prompt " +
         part(result.prompt_tokens, result.prompt_tokens, result.prompt_seconds) +
         (result.cached_tokens > 0
              ? " (and " + std::to_string(result.cached_tokens) + " evaluated before)"
              : "") +
         (result.drafted > 0 ? "; " + std::to_string(result.accepted) + " of " +
                                   counted(result.drafted, "drafted token") + " kept"
                             : "");
}

std::string no_answer_note(const GenerateResult& result) {
  const bool cut = result.reason == StopReason::Length;
  return "cria: note: the answer is empty: the model was still thinking when it stopped" +
         std::string(cut ? " (-n N allows more tokens, --no-think may make it answer at once)"
                         : "");
}

void print_prompt(std::string_view text, std::span<const TokenId> tokens) {
  std::string ids;
  for (const TokenId token : tokens) ids += (ids.empty() ? "" : " ") + std::to_string(token);
  print_line("prompt of " + counted(tokens.size(), "token") + ":");
  std::cerr << for_stream(stderr, text) << (text.ends_with('\n') ? "" : "\n");
  print_line("ids: " + ids);
}

std::function<void(std::size_t done, std::size_t total)> reading_progress() {
  return [bar = std::make_shared<std::optional<Progress>>()](std::size_t done, std::size_t total) {
    if (!*bar) bar->emplace("reading", "tokens", total);
    (*bar)->update(done);
    if (done == total) bar->reset();
  };
}

}  // namespace cria::tools
