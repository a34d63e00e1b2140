// A conversation with a model. Ten lines chat:
//
//   auto model = cria::Model::load("model.gguf");
//   cria::Session session(*model, {});
//   std::vector<cria::ChatMessage> talk{{"user", "What is the capital of France?"}};
//   session.chat(talk, {}, [](std::string_view text) { std::cout << text; return true; });
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine/sample/options.h"
#include "model/error.h"
#include "tokenizer/chat/answer_format.h"
#include "tokenizer/chat/chat_template.h"

namespace cria {

/// A session ignores `sequences`, `positions` and the prefix cache: it has one sequence of n_ctx.
using SessionOptions = EngineOptions;
/// Memory that a session would need; allocates nothing.
EngineMemory session_memory(const Model& model, const SessionOptions& options);

/// Reason why an answer ended.
enum class StopReason : std::uint8_t {
  EndOfGeneration,  ///< an end token, or a complete constraint
  StopString,       ///< one of GenerateOptions::stop
  Length,           ///< GenerateOptions::max_tokens
  ContextFull,
  Interrupted,  ///< by the sink or a flag
};
/// Its name in reports, such as "length".
std::string_view name(StopReason reason) noexcept;

/// Receives complete pieces of text; returns false to stop. May be empty.
using TextSink = std::function<bool(std::string_view)>;

/// Speculative decoding. Never changes the output.
enum class Speculate : std::uint8_t {
  Off,
  Auto,    ///< when measurements show that it is faster
  Lookup,  ///< n-gram lookup: drafts what followed the longest earlier match
  Layers,  ///< in every pass by the model's own prediction layer, which it must have
};

/// Log-probabilities of a sampled token: natural logarithms of the softmax of the logits, before
/// bias, penalties and filters.
struct TokenLogprobs {
  TokenId id = 0;                              ///< sampled token
  float logprob = 0;                           ///< log-probability of `id`
  std::vector<std::pair<TokenId, float>> top;  ///< most likely tokens; on a tie, lower id first
};
/// A piece of a tool call. The first one of a call has no arguments.
struct ToolCallPiece {
  std::size_t index = 0;       ///< of the call in the answer
  std::string id, name;        ///< of the call; empty in later pieces
  std::string_view arguments;  ///< what the model wrote next
};
/// Options of one generation.
struct GenerateOptions {
  /// Sampling options.
  SamplerOptions sampler;
  std::int64_t max_tokens = -1;  ///< -1: no limit
  /// Stop strings: matched in the answer only, never emitted, even if split across tokens.
  std::vector<std::string> stop;
  bool ignore_eos = false;  ///< never sample end-of-generation tokens
  /// Score these tokens after the prompt instead of answering: GenerateResult::scores.
  std::vector<TokenId> scored;
  std::vector<TokenId> end_tokens;  ///< further tokens that end the answer, as the model's do
  /// Constraint on the answer after thinking (engine/constrain/constraint.h); null: none. Stop
  /// strings inside of it are ordinary text. The answer ends (EndOfGeneration) as soon as nothing
  /// can follow; end tokens are allowed only if it is complete, and with ignore_eos only if nothing
  /// else can follow.
  std::shared_ptr<const class Constraint> constraint;
  /// Speculative decoding.
  Speculate speculate = Speculate::Auto;
  std::vector<TokenId> expected;  ///< reference text: n-gram lookup searches it first
  /// Leading tokens that a context shift keeps; a leading BOS is always kept.
  std::size_t keep = 0;
  std::optional<std::size_t> logprobs;  ///< report log-probabilities and this many alternatives
  /// The same for the prompt's tokens. Disables prefix reuse for this prompt.
  std::optional<std::size_t> prompt_logprobs;
  /// Receives each entry of `logprobs` after the text that its token completes, including tokens of
  /// a marker that then turns out to open the thinking.
  std::function<void(const TokenLogprobs& token)> on_logprobs;
  /// Set it (from a signal handler, say) to stop after the current node of the graph.
  const std::atomic<bool>* interrupt = nullptr;
  /// Prefill progress in tokens: first (0, total), then after every batch. Both are equal before
  /// the first text, unless the prompt was interrupted.
  std::function<void(std::size_t done, std::size_t total)> progress;
  AnswerFormat format;           ///< markers of thinking and tool calls; chat() fills it in
  bool thinking_opened = false;  ///< the prompt ends inside of thinking; chat() fills it in
  std::function<void(std::size_t tokens)> on_token;  ///< gets the count after each sampled token
  TextSink on_thinking;                              ///< receives the thinking
  std::uint64_t call_key = 0;  ///< seed of tool-call ids; chat() takes prompt and sampler seed
  std::function<void(const ToolCall& call)> on_call;  ///< receives each complete tool call
  /// Receives the pieces of each tool call as it is written, before on_call.
  std::function<void(const ToolCallPiece& piece)> on_call_piece;
};

/// Options that turn a conversation into a prompt.
struct ChatOptions {
  std::shared_ptr<const ChatTemplate> chat_template;  ///< null: the model's own
  /// JSON object of further template variables. Tool calls are recognized only if it has "tools";
  /// they are constrained by the tools' schemas (Constraint::tool_calls()) unless the answer has
  /// another constraint.
  std::string variables;
  std::optional<CallForm> calls;  ///< tool-call format; default: known from the template
  bool drop_oldest = false;       ///< drop the oldest exchanges if the context is full
  bool continue_last = false;     ///< continue the last message, the assistant's
  /// Receives every prompt before it is evaluated.
  std::function<void(std::string_view text, std::span<const TokenId> tokens)> on_prompt;
};
/// A complete answer.
struct GenerateResult {
  /// Why the answer ended.
  StopReason reason = StopReason::EndOfGeneration;
  bool end_token = false;            ///< an end token was sampled; it is not in `tokens`
  std::string text;                  ///< answer, as the sink received it
  std::string reasoning;             ///< thinking, as on_thinking received it
  std::vector<ToolCall> tool_calls;  ///< in order; not part of `text`
  /// Calls after those whose text the end of the answer cut; the last may be incomplete.
  std::vector<ToolCall> cut_calls;
  std::vector<TokenId> tokens;          ///< thinking, answer and calls, without the end token
  std::size_t reasoning_tokens = 0;     ///< tokens of thinking, markers included
  std::vector<TokenLogprobs> logprobs;  ///< the answer's tokens, if requested
  std::vector<TokenLogprobs>
      prompt_logprobs;                    ///< the prompt's tokens after the first, if requested
  std::vector<float> embedding;           ///< the prompt's, as embed()'s, if requested
  std::vector<float> scores;              ///< log-probabilities of GenerateOptions::scored
  std::string stop;                       ///< stop string that was found, or ""
  std::size_t prompt_tokens = 0;          ///< prompt tokens evaluated
  std::size_t cached_tokens = 0;          ///< prompt tokens found in the KV cache
  std::size_t shifts = 0;                 ///< number of context shifts
  std::size_t dropped = 0;                ///< messages dropped by ChatOptions::drop_oldest
  std::size_t drafted = 0, accepted = 0;  ///< draft tokens evaluated, draft tokens accepted
  double prompt_seconds = 0;              ///< seconds of prefill
  double decode_seconds = 0;              ///< seconds of decoding
};

/// A conversation or a prompt that exceeds the context.
class ContextOverflow : public Error {
 public:
  ContextOverflow(std::string_view message, std::size_t tokens_, bool last_alone_)
      : Error("", message), tokens(tokens_), last_alone(last_alone_) {}
  std::size_t tokens;  ///< tokens of the prompt
  bool last_alone;     ///< the last message alone exceeds it
};

/// Counts the tokens of the prompt that chat() would make of all these messages.
std::size_t count_prompt_tokens(const Model& model, const std::vector<ChatMessage>& messages,
                                const ChatOptions& how = {});

/// Returns the note of a file that Session::save() wrote, unchecked; "" if it is not such a file.
std::string session_note(const std::string& path);

/// One conversation: an engine with one sequence. Used by one thread at a time. After an Error the
/// session holds the tokens that it held before the call, or fewer.
class Session {
 public:
  /// Allocates KV cache and work memory; throws Error if memory is short. Shares ownership of the
  /// model.
  Session(const Model& model, const SessionOptions& options);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Appends tokens in batches of n_batch. Returns the logits of the last one: [n_vocab], valid
  /// until the next call. Throws Error for unknown tokens, a full context and logits with NaN or
  /// infinity (naming the node). The division of tokens among calls never changes a bit.
  std::span<const float> eval(std::span<const TokenId> tokens);
  /// Like eval(), but passes the logits of every token to the sink, in order.
  void eval_all(std::span<const TokenId> tokens,
                const std::function<void(std::size_t index, std::span<const float> logits)>& sink);
  /// eval() in two steps. forward() appends at most options().n_batch tokens and requests logits
  /// from token first_wanted on (tokens.size(): none). logits() computes logits of tokens
  /// [begin, end) of that batch, at most logit_rows(): [end-begin][n_vocab], valid until the next
  /// call.
  void forward(std::span<const TokenId> tokens, std::size_t first_wanted);
  /// See forward().
  std::span<const float> logits(std::size_t begin, std::size_t end);
  /// See Engine.
  [[nodiscard]] std::size_t logit_rows() const noexcept;
  /// Calls f(i) for i in [0, n) on the engine's threads; see Engine.
  void parallel(std::size_t n, const std::function<void(std::size_t i)>& f);
  /// See Sequence.
  [[nodiscard]] std::span<const TokenId> tokens() const noexcept;
  /// See Sequence.
  std::size_t truncate(std::size_t n);

  /// Continues a prompt; reuses the prefix that the session holds. tokens() ends before a last
  /// token whose logits would not be read. Throws Error if the prompt exceeds the context, unless
  /// options().context_shift.
  GenerateResult generate(std::span<const TokenId> prompt, const GenerateOptions& options,
                          const TextSink& sink = {});
  /// Renders the conversation with the template and answers it; evaluates only what is new since
  /// the last call. With how.drop_oldest, drops the oldest exchanges after the system message until
  /// a quarter of the context is free. A context shift keeps the system message. Throws
  /// ContextOverflow if the last message and one token do not fit, Error if the template fails.
  GenerateResult chat(const std::vector<ChatMessage>& messages, const GenerateOptions& options,
                      const TextSink& sink = {}, const ChatOptions& how = {});

  /// Writes tokens, KV cache and a note of up to 64 MiB of the caller's; the file is replaced
  /// atomically.
  void save(const std::string& path, std::string_view note = {}) const;
  /// Reads them back and returns the note. Throws Error if the file is damaged, was saved with
  /// another model, KV type or RoPE factors, or exceeds the context. After a wrong checksum or an
  /// unknown token the session is empty, after other errors unchanged.
  std::string load(const std::string& path);

  /// The model that it runs.
  [[nodiscard]] const Model& model() const noexcept;
  [[nodiscard]] const SessionOptions& options() const noexcept;  ///< with defaults filled in
  [[nodiscard]] std::size_t memory_bytes() const noexcept;       ///< KV cache + work memory
  /// See Engine.
  [[nodiscard]] const Graph& graph() const noexcept;
  /// See Engine.
  void profile(bool on);
  /// See Engine.
  [[nodiscard]] std::vector<NodeTime> profile() const;
  /// See Engine.
  void observe(NodeCallback callback);
  /// See Engine.
  [[nodiscard]] ExpertRows expert_rows(std::size_t n_experts) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cria
