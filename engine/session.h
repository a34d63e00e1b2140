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
#include <vector>

#include "engine/graph.h"
#include "engine/sampler.h"
#include "kernels/attention.h"
#include "kernels/kernels.h"
#include "model/config.h"
#include "model/error.h"
#include "model/gguf.h"
#include "model/vocabulary.h"
#include "model/weights.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace cria {

/// A loaded model: file, hyper-parameters, weights, tokenizer, compute graph. Immutable; several sessions may
/// share it.
class Model {
 public:
  /// Throws Error for a bad file, a tensor type that active_kernels() cannot multiply by, or a CRIA_ISA that
  /// cannot run here.
  /// pre: the pre-tokenizer, if not the one that the file names.
  static std::shared_ptr<const Model> load(const std::string& path, const GgufOptions& options = {},
                                           std::string_view pre = {});
  [[nodiscard]] const GgufFile& file() const { return file_; }
  [[nodiscard]] const LlamaConfig& config() const { return config_; }
  [[nodiscard]] const LlamaWeights& weights() const { return weights_; }
  [[nodiscard]] const Vocabulary& vocabulary() const { return vocabulary_; }
  /// Throws Error if the vocabulary is of a kind that is not known: such a model runs on token ids only.
  [[nodiscard]] const Tokenizer& tokenizer() const;
  [[nodiscard]] const Graph& graph() const { return graph_; }  ///< for active_kernels()
  /// Whether the file lies in memory that the system cannot take back (mlock or no mmap).
  [[nodiscard]] bool pinned() const { return pinned_; }

 private:
  explicit Model(GgufFile file) : file_(std::move(file)) {}
  GgufFile file_;
  LlamaConfig config_;
  LlamaWeights weights_;
  Vocabulary vocabulary_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::optional<Error> no_tokenizer_;
  Graph graph_;
  bool pinned_ = false;
};

struct SessionOptions {
  std::uint32_t n_ctx = 0;      ///< positions of the KV cache; 0: the model's training context, at most 4096
  std::uint32_t n_batch = 512;  ///< tokens per prefill chunk
  std::uint32_t threads = 0;    ///< 0: physical cores
  std::uint32_t threads_prefill = 0;  ///< 0: as threads
  KvType kv_type = KvType::F16;
  bool context_shift = false;  ///< when full: drop the oldest half after the kept prefix and go on; else stop
  const KernelSet* kernels = nullptr;  ///< null: active_kernels()
};

/// Memory of a session, in bytes.
struct SessionMemory {
  std::size_t file = 0;       ///< the model's file, all of it (shared with other sessions)
  std::size_t kv = 0;         ///< KV cache of n_ctx positions
  std::size_t work = 0;       ///< intermediate values, at most 64 MiB; batches are cut as small as that needs
  std::size_t available = 0;  ///< what the system and the cgroup would give now
  std::size_t n_batch = 0;    ///< tokens per batch that fit into work
  [[nodiscard]] std::size_t total() const { return file + kv + work; }
};
/// What a session would need; nothing is allocated.
SessionMemory session_memory(const Model& model, const SessionOptions& options);

enum class StopReason : std::uint8_t { EndOfGeneration, StopString, Length, ContextFull, Interrupted };
std::string_view name(StopReason reason) noexcept;

struct GenerateOptions {
  SamplerOptions sampler;
  std::int64_t max_tokens = -1;   ///< -1: until something else stops it
  std::vector<std::string> stop;  ///< texts that end the answer; not emitted, also when they arrive in pieces
  bool ignore_eos = false;        ///< end-of-generation tokens are never chosen
  std::size_t keep = 0;  ///< tokens at the front that a context shift keeps; at least a leading BOS is kept
  const std::atomic<bool>* interrupt =
      nullptr;  ///< set it (from a signal handler, say) to stop after the current token
};

struct GenerateResult {
  StopReason reason = StopReason::EndOfGeneration;
  std::vector<TokenId> tokens;    ///< without the end-of-generation token
  std::string stop;               ///< the stop text met, if any
  std::size_t prompt_tokens = 0;  ///< prompt tokens evaluated now (cached ones are not)
  std::size_t cached_tokens = 0;  ///< prompt tokens that the KV cache held already
  std::size_t shifts = 0;         ///< how often the oldest half of the context was dropped
  double prompt_seconds = 0, decode_seconds = 0;
};

/// Receives complete pieces of text; returning false stops.
using TextSink = std::function<bool(std::string_view)>;

/// Time of one node of the graph.
struct NodeTime {
  const Node* node;
  double seconds;
};

/// One conversation: positions 0, 1, 2 … with their keys and values. Not for several threads at once. After
/// an Error the session holds the tokens it held before the call, or fewer.
class Session {
 public:
  struct State;  // engine/session_state.h
  /// Allocates KV cache and work memory; throws Error if the machine has not enough. The model must outlive
  /// the session.
  Session(const Model& model, const SessionOptions& options);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Appends tokens at the current position, in chunks of n_batch. Returns the logits of the last token
  /// (n_vocab floats, valid until the next call). Throws Error for a token that the vocabulary has not, for
  /// more tokens than positions are left, and for logits that are not finite (naming the node that was first
  /// to compute such a value). How tokens are divided among calls never changes a bit.
  std::span<const float> eval(std::span<const TokenId> tokens);
  /// As eval, but sink gets the logits of every token, in order.
  void eval_all(std::span<const TokenId> tokens,
                const std::function<void(std::size_t index, std::span<const float> logits)>& sink);
  /// The same in two steps, for whoever wants the logits of some tokens only, in pieces of his own: forward()
  /// appends at most options().n_batch tokens, of which those from first_wanted on (none if it is
  /// tokens.size()) can be asked for their logits; logits() computes those of tokens [begin, end) of that
  /// batch, at most logit_rows() of them: [end-begin][n_vocab], valid until the next call. Errors as eval.
  void forward(std::span<const TokenId> tokens, std::size_t first_wanted);
  std::span<const float> logits(std::size_t begin, std::size_t end);
  [[nodiscard]] std::size_t logit_rows() const noexcept;
  /// f(i) for every i in [0, n), on the threads for prompts, in any order; returns when all are done. f must
  /// not throw.
  void parallel(std::size_t n, const std::function<void(std::size_t i)>& f);
  /// Positions in use, and their tokens.
  [[nodiscard]] std::span<const TokenId> tokens() const noexcept;
  /// Forgets everything after the first n positions.
  void truncate(std::size_t n);

  /// Continues from prompt tokens (a prefix already in the cache is reused). Throws Error if the prompt does
  /// not fit into the context, unless options().context_shift.
  GenerateResult generate(std::span<const TokenId> prompt, const GenerateOptions& options,
                          const TextSink& sink);
  /// Renders the conversation with the model's template and answers it. Where it goes on from the last one
  /// and its answer, only what is new is evaluated. A context shift keeps the leading system message. Throws
  /// Error where the template fails.
  GenerateResult chat(const std::vector<ChatMessage>& messages, const GenerateOptions& options,
                      const TextSink& sink);

  /// Writes tokens and KV cache / reads them back; the target is replaced whole or not at all. note: bytes of
  /// the caller's own that belong to them, at most 64 MiB; load() returns them. Throws Error: for what is no
  /// such file or damaged, was saved with another model or KV type, or does not fit into the context. After a
  /// checksum that is wrong the session is empty, after everything else as it was.
  void save(const std::string& path, std::string_view note = {}) const;
  std::string load(const std::string& path);

  [[nodiscard]] const Model& model() const noexcept;
  [[nodiscard]] const SessionOptions& options() const noexcept;  ///< with the defaults filled in
  [[nodiscard]] std::size_t memory_bytes() const noexcept;       ///< KV cache + work memory
  [[nodiscard]] const Graph& graph() const noexcept;             ///< what this session runs

  /// Sums up the time of every node from now on.
  void profile(bool on);
  [[nodiscard]] std::vector<NodeTime> profile() const;
  /// Called after every node with the floats that it wrote, one row per token; empty: none.
  void observe(
      std::function<void(const Node& node, std::span<const float> values, std::size_t width)> observer);

 private:
  std::unique_ptr<State> state_;
};

}  // namespace cria
