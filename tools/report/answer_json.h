// An answer as JSON: what `cria run --json` prints.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "engine/session.h"

namespace cria::tools {

/// Which answer of which model.
struct AnswerFacts {
  const Model& model;
  std::uint64_t seed = 0;
  bool chat = true;  ///< a message of a conversation; else a text that goes on
};

/// What answers cost, in tokens.
struct AnswerUsage {
  std::size_t prompt = 0;      ///< read, or found
  std::size_t cached = 0;      ///< of these: found
  std::size_t completion = 0;  ///< all that were drawn: the one that ended the answer too
  std::size_t reasoning = 0;   ///< of these: thinking

  static AnswerUsage of(const GenerateResult& result);
};
nlohmann::ordered_json usage_json(const AnswerUsage& usage);

/// {"role", "content", "reasoning_content", "tool_calls"}, the last two where there are any.
nlohmann::ordered_json answered_message(const GenerateResult& result);
/// {"id", "type", "function"}
nlohmann::ordered_json tool_call_json(const ToolCall& call);
/// {"token", "id", "logprob", "bytes", "top_logprobs"}
nlohmann::ordered_json token_logprobs_json(const Tokenizer& tokenizer, const TokenLogprobs& token);
/// As clients can read it: there is no negative infinity in JSON.
double finite_logprob(float logprob);

/// "stop", "length", or null where it was interrupted.
nlohmann::ordered_json finish_reason(StopReason reason);
/// Likewise "tool_calls" where it ended with calls of tools.
nlohmann::ordered_json finish_reason(const GenerateResult& result);

/// A chat.completion (or text_completion) as OpenAI has it, with choices and usage, and beside
/// these: text, reasoning_content (of models that think), tokens, stop_reason, seed, and seconds
/// and rates of prompt and answer.
nlohmann::ordered_json answer_json(const GenerateResult& result, const AnswerFacts& facts);

/// The same without times and without what was found in a cache: equal whenever and beside whatever
/// it was written.
nlohmann::ordered_json answer_json_without_timing(const GenerateResult& result,
                                                  const AnswerFacts& facts);

/// A piece of an answer or of thinking, as OpenAI's chunks.
nlohmann::ordered_json piece_json(AnswerPart part, std::string_view piece,
                                  const AnswerFacts& facts);

/// A call of a tool as a piece of an answer; index: among its calls.
nlohmann::ordered_json call_piece_json(const ToolCall& call, std::size_t index,
                                       const AnswerFacts& facts);

/// A call as a line for a person or a script: {"name": …, "arguments": …}
std::string call_line(const ToolCall& call);

}  // namespace cria::tools
