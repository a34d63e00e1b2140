// An answer as JSON, and what commands print about it: progress, speed, profile.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "engine/session.h"
#include "model/file/json.h"

namespace cria::tools {

/// Facts about an answer.
struct AnswerFacts {
  const Model& model;
  std::uint64_t seed = 0;
  bool chat = true;  ///< a message of a conversation; else a continued text
};

/// Usage of answers, in tokens.
struct AnswerUsage {
  std::size_t prompt = 0;      ///< read, or found
  std::size_t cached = 0;      ///< prompt tokens found
  std::size_t completion = 0;  ///< all that were drawn: the one that ended the answer too
  std::size_t reasoning = 0;   ///< completion tokens of thinking

  static AnswerUsage of(const GenerateResult& result);
};
Json usage_json(const AnswerUsage& usage);

/// {"role", "content", "reasoning_content", "tool_calls"}, the last two if present.
Json answered_message(const GenerateResult& result);
/// {"id", "type", "function"}
Json tool_call_json(const ToolCall& call);
/// {"token", "id", "logprob", "bytes", "top_logprobs"}
Json token_logprobs_json(const Tokenizer& tokenizer, const TokenLogprobs& token);
/// A finite stand-in for negative infinity, which JSON lacks.
double finite_logprob(float logprob);

/// "stop", "length", or null where it was interrupted.
Json finish_reason(StopReason reason);
/// Also "tool_calls" if it ended with tool calls.
Json finish_reason(const GenerateResult& result);

/// A chat.completion (or text_completion) as OpenAI has it, with choices and usage, plus text,
/// reasoning_content (thinking models), tokens, stop_reason, seed, and seconds and rates of prompt
/// and answer.
Json answer_json(const GenerateResult& result, const AnswerFacts& facts);

/// The same without times and cache figures, so that equal answers give equal bytes.
Json answer_json_without_timing(const GenerateResult& result, const AnswerFacts& facts);

/// A piece of an answer or of thinking, as OpenAI's chunks.
Json piece_json(AnswerPart part, std::string_view piece, const AnswerFacts& facts);

/// A tool call as a piece of an answer; index: its position among the calls.
Json call_piece_json(const ToolCall& call, std::size_t index, const AnswerFacts& facts);

/// A call as a line for a person or a script: {"name": …, "arguments": …}
std::string call_line(const ToolCall& call);

/// Prints the text as the model gets it on stderr, then its ids.
void print_prompt(std::string_view text, std::span<const TokenId> tokens);
/// For GenerateOptions::progress: a bar on a terminal while a long prompt is read. The bar is wiped
/// at the end, or with the last copy of what is returned.
std::function<void(std::size_t done, std::size_t total)> reading_progress();
/// Tokens that were evaluated, and drawn, in the answer's decode_seconds: the first is drawn from
/// what reading gives, and what is drawn last is not evaluated.
std::size_t decoded_tokens(const GenerateResult& result);
/// "12 tokens, 80.1 tokens/s; prompt 20 tokens, 400 tokens/s (and 100 evaluated before)"
std::string speed_line(const GenerateResult& result);
/// Why an answer has thinking and nothing else.
std::string no_answer_note(const GenerateResult& result);
/// "blk.*.attn_q" of "blk.3.attn_q": the same node in every layer.
std::string name_of_all_layers(const std::string& node);
/// Prints the time table of --profile on stderr, if `wanted`.
void print_profile(const std::vector<NodeTime>& times, bool wanted);

}  // namespace cria::tools
