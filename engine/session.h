// A conversation with a model: the public header of engine/. Ten lines chat:
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

struct ExpertRows;
/// What a session is made for: its context, threads and memory.
struct SessionOptions {
  std::uint32_t n_ctx =
      0;  ///< positions of the KV cache; 0: the model's training context, at most 4096
  /// The context for which RoPE factors are chosen where a model has several (longrope); 0: n_ctx,
  /// or the model's training context where that is 0. Not to be derived from a prompt: answers
  /// would depend on it.
  std::uint32_t rope_ctx = 0;
  std::uint32_t n_batch = 512;        ///< tokens per prefill chunk; more than 4096 are 4096
  std::uint32_t threads = 0;          ///< 0: physical cores; at most 1024
  std::uint32_t threads_prefill = 0;  ///< 0: as threads
  KvType kv_type{};                   ///< of cached keys and values; by default "f16"
  bool context_shift =
      false;  ///< when full: drop the oldest half after the kept prefix and go on; else stop
  const KernelSet* kernels =
      nullptr;  ///< null: the best that can run here, or what $CRIA_ISA names
  std::shared_ptr<const Model> draft =
      {};  ///< a smaller model with the same vocabulary, for guesses
};

/// Memory of a session, in bytes.
using SessionMemory = EngineMemory;
/// What a session would need; nothing is allocated.
SessionMemory session_memory(const Model& model, const SessionOptions& options);

/// What ended an answer.
enum class StopReason : std::uint8_t {
  EndOfGeneration,  ///< a token that ends answers, or a constraint that is complete
  StopString,       ///< one of GenerateOptions::stop
  Length,           ///< GenerateOptions::max_tokens
  ContextFull,
  Interrupted,  ///< by the sink, or by a flag
};
/// Its name in reports, such as "length".
std::string_view name(StopReason reason) noexcept;

/// Receives complete pieces of text; returning false stops. Empty: nobody listens.
using TextSink = std::function<bool(std::string_view)>;

/// Whether tokens are guessed and evaluated ahead. No answer depends on it.
enum class Speculate : std::uint8_t {
  Off,
  Auto,    ///< where it makes the answer faster, as far as can be measured
  Lookup,  ///< wherever the text has come by the same words before
};

/// What the model itself thought of a token that was drawn: natural logarithms of the softmax of
/// its logits, before bias, penalties and filters.
struct TokenLogprobs {
  TokenId id = 0;                              ///< that was drawn
  float logprob = 0;                           ///< its own
  std::vector<std::pair<TokenId, float>> top;  ///< the likeliest, lower id first among equals
};
/// How an answer is written, and what ends it.
struct GenerateOptions {
  SamplerOptions sampler;        ///< how tokens are drawn
  std::int64_t max_tokens = -1;  ///< -1: until something else stops it
  /// Texts that end the answer; not emitted, also when they arrive in pieces. Thinking may hold
  /// them.
  std::vector<std::string> stop;
  bool ignore_eos = false;  ///< end-of-generation tokens are never chosen
  /// What the answer has to be (engine/constrain/constraint.h); null: anything. Thinking comes
  /// before it. Inside of it stop texts are text; the answer ends where nothing can follow, and end
  /// tokens are drawn only where it is whole (with ignore_eos: not where it can go on).
  /// EndOfGeneration means that it is whole.
  std::shared_ptr<const class Constraint> constraint;
  Speculate speculate = Speculate::Auto;  ///< whether tokens are guessed ahead
  std::vector<TokenId>
      expected;  ///< a text that the answer may resemble: guesses are looked up there too
  std::size_t keep =
      0;  ///< tokens at the front that a context shift keeps; at least a leading BOS is kept
  std::optional<std::size_t>
      logprobs;  ///< log-probabilities of the answer's tokens, and so many likeliest
  /// Those of the prompt's tokens. All of the prompt is evaluated then, whatever is known of it.
  std::optional<std::size_t> prompt_logprobs;
  /// Gets each of these once the text is out that its token completes. Those of what then turns out
  /// to open the thinking are among them.
  std::function<void(const TokenLogprobs& token)> on_logprobs;
  /// Set it (from a signal handler, say) to stop after the current node of the graph.
  const std::atomic<bool>* interrupt = nullptr;
  /// Called while the prompt is read: tokens evaluated and tokens to evaluate, first with 0, then
  /// after every batch. Both are equal at the end, before the first text; an interrupted prompt has
  /// no such end.
  std::function<void(std::size_t done, std::size_t total)> progress;
  AnswerFormat format;  ///< what is thinking and what the answer; chat() knows it from the template
  bool thinking_opened = false;  ///< the prompt ends inside of thinking; chat() sees that
  TextSink on_thinking;          ///< gets the thinking; the other sink gets the answer alone
  std::uint64_t call_key = 0;  ///< ids of tool calls are made from it; chat() takes prompt and seed
  std::function<void(const ToolCall& call)>
      on_call;  ///< gets each call of a tool, once it is whole
};

/// How a conversation becomes a prompt.
struct ChatOptions {
  std::shared_ptr<const ChatTemplate> chat_template;  ///< null: the model's own
  /// A JSON object of what else the template may ask for: documents … Only where there are "tools",
  /// calls of tools are told from the answer's text; they are held to the tools' schemas, as
  /// Constraint::tool_calls() has it, unless the answer has another constraint.
  std::string variables;
  std::optional<CallForm> calls;  ///< the form of calls; default: known from the template
  bool drop_oldest =
      false;  ///< a conversation that outgrows the context loses its oldest exchanges
  /// Called with every prompt before it is evaluated: its text and its tokens.
  std::function<void(std::string_view text, std::span<const TokenId> tokens)> on_prompt;
};
/// An answer at its end, and how it came about.
struct GenerateResult {
  StopReason reason = StopReason::EndOfGeneration;  ///< what ended it
  bool end_token = false;  ///< a token that ends generation was drawn: one more than `tokens`
  std::string text;        ///< the answer: all that the sink was given
  std::string reasoning;   ///< what the model thought before it: all that on_thinking was given
  std::vector<ToolCall> tool_calls;  ///< in their order; they are no part of the text
  std::vector<TokenId>
      tokens;  ///< of thinking, answer and calls, without the end-of-generation token
  std::size_t reasoning_tokens = 0;     ///< how many of these are thinking, its markers included
  std::vector<TokenLogprobs> logprobs;  ///< of the tokens of the answer, if they were asked for
  std::vector<TokenLogprobs>
      prompt_logprobs;            ///< of the prompt's tokens but the first, if they were asked for
  std::vector<float> embedding;   ///< of the prompt, if a scheduler was asked for it: [n_embd]
  std::string stop;               ///< the stop text met, if any
  std::size_t prompt_tokens = 0;  ///< prompt tokens evaluated now (cached ones are not)
  std::size_t cached_tokens = 0;  ///< prompt tokens that the KV cache held already
  std::size_t shifts = 0;         ///< how often the oldest half of the context was dropped
  std::size_t dropped = 0;  ///< messages after the system message that chat() left out, the oldest
  std::size_t drafted = 0,
              kept = 0;  ///< tokens that were guessed and evaluated ahead, and that were drawn
  double prompt_seconds = 0, decode_seconds = 0;  ///< of reading, and of writing
};

/// A conversation or a prompt that does not fit into the context.
class ContextOverflow : public Error {
 public:
  ContextOverflow(std::string_view message, std::size_t tokens_, bool last_alone_)
      : Error("", message), tokens(tokens_), last_alone(last_alone_) {}
  std::size_t tokens;  ///< of the prompt
  bool last_alone;     ///< the last message would not fit without the others either
};

/// The tokens of the prompt that chat() would make of all these messages.
std::size_t count_prompt_tokens(const Model& model, const std::vector<ChatMessage>& messages,
                                const ChatOptions& how = {});

/// One conversation: positions 0, 1, 2 … with their keys and values. Not for several threads at
/// once. After an Error the session holds the tokens it held before the call, or fewer.
class Session {
 public:
  struct State;  // engine/session/state.h
  /// Allocates KV cache and work memory; throws Error if the machine has not enough. The session
  /// shares the ownership of the model.
  Session(const Model& model, const SessionOptions& options);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Appends tokens at the current position, in chunks of n_batch. Returns the logits of the last
  /// token (n_vocab floats, valid until the next call). Throws Error for a token that the
  /// vocabulary has not, for more tokens than positions are left, and for logits that are not
  /// finite (naming the node that was first to compute such a value). How tokens are divided among
  /// calls never changes a bit.
  std::span<const float> eval(std::span<const TokenId> tokens);
  /// As eval, but sink (if not empty) gets the logits of every token, in order.
  void eval_all(std::span<const TokenId> tokens,
                const std::function<void(std::size_t index, std::span<const float> logits)>& sink);
  /// The same in two steps, for whoever wants the logits of some tokens only, in pieces of his own:
  /// forward() appends at most options().n_batch tokens, of which those from first_wanted on (none
  /// if it is tokens.size()) can be asked for their logits; logits() computes those of tokens
  /// [begin, end) of that batch, at most logit_rows() of them: [end-begin][n_vocab], valid until
  /// the next call. Errors as eval.
  void forward(std::span<const TokenId> tokens, std::size_t first_wanted);
  std::span<const float> logits(std::size_t begin, std::size_t end);  ///< of the last forward()
  [[nodiscard]] std::size_t logit_rows()
      const noexcept;  ///< that logits() computes at once, at most
  /// f(i) for every i in [0, n), on the threads for prompts, in any order; returns when all are
  /// done. f must not throw.
  void parallel(std::size_t n, const std::function<void(std::size_t i)>& f);
  /// Positions in use, and their tokens.
  [[nodiscard]] std::span<const TokenId> tokens() const noexcept;
  /// Forgets everything after the first n positions, or everything where a layer's window has let
  /// go of keys that position n would look at. Returns how many positions are left.
  std::size_t truncate(std::size_t n);

  /// Continues from prompt tokens (a prefix already in the cache is reused). A last token whose
  /// logits nobody would read is not evaluated: tokens() ends before it. Throws Error if the prompt
  /// does not fit into the context, unless options().context_shift.
  GenerateResult generate(std::span<const TokenId> prompt, const GenerateOptions& options,
                          const TextSink& sink = {});
  /// Renders the conversation with the template and answers it. Where it goes on from the last one
  /// and its answer, only what is new is evaluated. With how.drop_oldest, exchanges after the
  /// system message are left out, the oldest first, until a quarter of the context is free for the
  /// answer. A context shift keeps the system message. How the template's models write thinking and
  /// answer is known from it. Throws ContextOverflow where there is no room for the last message
  /// and a token of its answer, Error where the template fails.
  GenerateResult chat(const std::vector<ChatMessage>& messages, const GenerateOptions& options,
                      const TextSink& sink = {}, const ChatOptions& how = {});

  /// Writes tokens and KV cache / reads them back; the target is replaced whole or not at all.
  /// note: bytes of the caller's own that belong to them, at most 64 MiB; load() returns them.
  /// Throws Error: for what is no such file or damaged, was saved with another model, KV type or
  /// RoPE factors, or does not fit into the context. After a checksum that is wrong, or a token
  /// that is none of the model's, the session is empty, after everything else as it was.
  void save(const std::string& path, std::string_view note = {}) const;
  std::string load(const std::string& path);  ///< returns the note

  [[nodiscard]] const Model& model() const noexcept;             ///< that it runs
  [[nodiscard]] const SessionOptions& options() const noexcept;  ///< with the defaults filled in
  [[nodiscard]] std::size_t memory_bytes() const noexcept;       ///< KV cache + work memory
  [[nodiscard]] const Graph& graph() const noexcept;             ///< what this session runs

  /// Sums up the time of every node from now on.
  void profile(bool on);
  [[nodiscard]] std::vector<NodeTime> profile() const;  ///< since it was switched on
  /// Called after every node with the floats that it wrote, one row per token; empty: none.
  void observe(
      std::function<void(const Node& node, std::span<const float> values, std::size_t width)>
          observer);
  /// Of the last node that chose experts, so many of them; for observers
  /// (engine/execute/executor.h).
  [[nodiscard]] ExpertRows expert_rows(std::size_t n_experts) const;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace cria
