// Batched inference: many sequences of one model.
//
//   Engine     threads, work memory and the pool of KV-cache pages that its sequences share
//   Sequence   tokens at positions 0, 1, 2 … and the pages of their keys and values
//   Batch      tokens of several sequences, evaluated in one pass over the weights
//
// Logits are the same bits in any batch, on any pages, and with the prefix computed or found in the
// prefix cache. An engine, its sequences and its batches are used by one thread at a time.
// Session (session.h) is one sequence with all it needs for a conversation; Scheduler (scheduler.h)
// writes many answers at once.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "engine/model.h"
#include "model/error.h"
#include "model/token_id.h"

namespace cria {

struct ExpertRows;
struct KernelSet;
struct Node;
enum class KvType : std::uint8_t;  // kernels/attention/attention.h; use parse_kv_type()

/// Returns the type named "f16", "f32" or "q8_0"; throws Error for other names.
KvType parse_kv_type(std::string_view name);
/// The name that parse_kv_type() takes; valid forever.
std::string_view name(KvType type) noexcept;

inline constexpr std::uint32_t kDefaultContext = 4096;  ///< max context without n_ctx, in tokens

/// Options of an engine, and of a session.
struct EngineOptions {
  /// Max context per sequence, in tokens; 0: the training context, up to kDefaultContext.
  std::uint32_t n_ctx = 0;
  /// Context that selects the RoPE factors of models with several (longrope). 0: n_ctx, or the
  /// training context if that is 0. Never derive it from a prompt: answers would depend on it.
  std::uint32_t rope_ctx = 0;
  std::uint32_t n_batch = 512;         ///< max tokens per batch, up to 4096
  std::uint32_t threads = 0;           ///< up to 1024; 0: physical cores
  std::uint32_t threads_prefill = 0;   ///< for batches of more than one token; 0: as threads
  KvType kv_type{};                    ///< type of the KV cache; default: "f16"
  bool context_shift = false;          ///< full context: drop its oldest half instead of ending
  const KernelSet* kernels = nullptr;  ///< null: the best ISA here, or the one in $CRIA_ISA
  std::uint32_t sequences = 1;         ///< max live sequences, up to 1024; a session has one
  /// KV positions of all sequences and cached prefixes, in pages of 64; 0: n_ctx per sequence.
  std::uint64_t positions = 0;
  bool prefix_cache = true;  ///< keep KV pages for reuse until evicted; a session never does
  /// Extra memory of the prefix cache; Engine::options() adds the positions that it holds.
  std::uint64_t prefix_cache_bytes = 0;
  std::shared_ptr<const Model> draft = {};  ///< smaller model with the same vocabulary, or null
  /// Without a draft model, draft by the model's own prediction layer if it has one and runs on one
  /// rank.
  bool own_drafts = false;
};

/// Memory of an engine and its draft model, in bytes.
struct EngineMemory {
  std::size_t file = 0;       ///< model files, which engines share
  std::size_t kv = 0;         ///< KV cache of all positions
  std::size_t work = 0;       ///< intermediate values, up to 64 MiB; limits n_batch
  std::size_t available = 0;  ///< available now, by the system and the cgroup
  std::size_t n_batch = 0;    ///< tokens per batch that fit into `work`
  /// All of it, in bytes.
  [[nodiscard]] std::size_t total() const { return file + kv + work; }
};
/// Memory that an engine would need; allocates nothing.
EngineMemory engine_memory(const Model& model, const EngineOptions& options);
/// Memory of the KV cache divided by the available memory; on several ranks, the largest such
/// ratio of a machine. Allocates nothing.
double kv_fraction(const Model& model, const EngineOptions& options);

/// Time of one node of the graph, summed over all passes.
struct NodeTime {
  const Node* node;                  ///< belongs to the engine's graph
  double seconds;                    ///< on rank 0
  double gather_seconds = 0;         ///< part of `seconds` spent in allgather
  std::uint64_t gathers = 0;         ///< number of allgathers
  std::uint64_t gathered_bytes = 0;  ///< bytes of all ranks' parts
};
/// Called after a node with the floats that it wrote, one row of `width` per token.
using NodeCallback =
    std::function<void(const Node& node, std::span<const float> values, std::size_t width)>;

class Sequence;
/// Threads, work memory and the pool of KV-cache pages.
class Engine {
 public:
  struct State;  // engine/session/engine_state.h
  /// Allocates everything; throws Error if memory is short or the draft model has another
  /// vocabulary. Shares ownership of the models. On several ranks if the model was loaded so.
  Engine(const Model& model, const EngineOptions& options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// The model that it runs.
  [[nodiscard]] const Model& model() const noexcept;
  [[nodiscard]] const EngineOptions& options() const noexcept;  ///< with defaults filled in
  [[nodiscard]] std::size_t memory_bytes() const noexcept;      ///< KV cache + work memory
  /// The compute graph of the model.
  [[nodiscard]] const Graph& graph() const noexcept;
  [[nodiscard]] std::size_t logit_rows() const noexcept;  ///< max rows of Batch::logits()
  [[nodiscard]] std::size_t pages() const noexcept;       ///< pages of 64 positions in the pool
  /// Max pages that n positions of one sequence need.
  [[nodiscard]] static std::size_t pages_of(std::size_t n) noexcept { return (n + 63) / 64; }
  /// True if the caller must wait: the pool lacks `pages` pages or `more` sequences, and a running
  /// answer (Sequence::reserve()) will free some.
  [[nodiscard]] bool must_wait(std::size_t pages, std::size_t more = 1) const;

  /// Calls f(i) for every i in [0, n) on the prefill threads, in any order. f must not throw.
  void parallel(std::size_t n, const std::function<void(std::size_t i)>& f);
  /// Evaluates a sequence again and returns an Error that names the first node with NaN or
  /// infinity. Empties the sequence and invalidates the last batch's logits. position: of the bad
  /// logits; earlier ones are not computed. The Error names no node if the search was stopped.
  [[nodiscard]] Error not_finite(Sequence& sequence, std::size_t position);

  void profile(bool on);                                ///< starts or stops timing every node
  [[nodiscard]] std::vector<NodeTime> profile() const;  ///< times since it was started
  void observe(NodeCallback callback);                  ///< null: none
  /// Expert choices of the last routing node, for callbacks (engine/execute/executor.h).
  [[nodiscard]] ExpertRows expert_rows(std::size_t n_experts) const;

 private:
  friend struct StateAccess;
  explicit Engine(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// While it lives, passes end with EvaluationStopped once the flag is set (null: never). Restores
/// the engine's earlier flag.
class StopOn {
 public:
  /// Sets the flag.
  StopOn(Engine& engine, const std::atomic<bool>* flag);
  ~StopOn();
  StopOn(const StopOn&) = delete;
  StopOn& operator=(const StopOn&) = delete;

 private:
  Engine& engine_;
  const std::atomic<bool>* const before_;
};

/// True if no value is NaN or infinity.
bool all_finite(std::span<const float> values);

/// Must not outlive its engine.
class Sequence {
 public:
  struct State;
  /// scope: prefixes are shared with sequences of the same scope only (a user's, an adapter's).
  /// shared: false neither uses nor fills the prefix cache. adapters: scales of the model's
  /// adapters, one for each file; empty: those that it was loaded with. Prefixes are shared under
  /// the same scales only. Throws Error for another number of scales, NaN and infinity.
  explicit Sequence(Engine& engine, std::uint64_t scope = 0, bool shared = true,
                    std::vector<float> adapters = {});
  ~Sequence();
  Sequence(Sequence&&) noexcept;  ///< leaves the source unusable
  /// Frees its own pages first.
  Sequence& operator=(Sequence&&) noexcept;

  /// Tokens at the positions in use.
  [[nodiscard]] std::span<const TokenId> tokens() const noexcept;
  /// Throws Error for tokens that are not in the vocabulary or exceed the context.
  void check(std::span<const TokenId> added) const;
  /// Keeps the first n positions, or none if a sliding-window layer has evicted keys that position
  /// n needs. Recurrent layers keep as many as they have the state for: that of the last positions
  /// or of a snapshot. Returns the number of positions left.
  std::size_t truncate(std::size_t n);
  /// Copies the sequence; the copies share pages until either one changes them.
  [[nodiscard]] Sequence fork() const;
  /// Becomes the longest prefix of `tokens` whose KV pages this or another sequence or the prefix
  /// cache holds. Returns its length.
  std::size_t reuse(std::span<const TokenId> tokens);
  /// Says that another text may begin with the first n tokens, as a conversation's next prompt
  /// does with the last one. Models with recurrent layers then keep a snapshot before that
  /// position.
  void expect_departure(std::size_t n);
  /// Length of the prefix that reuse() would find elsewhere.
  [[nodiscard]] std::size_t known_prefix(std::span<const TokenId> tokens) const;
  /// Reserves pages for an answer that ends without further calls, so others may wait for it
  /// (Engine::must_wait()). 0: none.
  void reserve(std::size_t pages);
  /// Pages of reserve().
  [[nodiscard]] std::size_t reserved_pages() const noexcept;

 private:
  friend struct StateAccess;
  explicit Sequence(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Slices of sequences that are evaluated together. Its logits and hidden states are valid until
/// the engine's next forward(). Must not outlive its engine.
class Batch {
 public:
  struct State;
  explicit Batch(Engine& engine);  ///< empty
  ~Batch();
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  /// Removes all slices.
  void clear();
  [[nodiscard]] std::size_t size() const noexcept;           ///< tokens added
  [[nodiscard]] std::size_t capacity_left() const noexcept;  ///< tokens that may still be added
  /// Appends tokens to the sequence; requests logits from token first_wanted on
  /// (tokens.size(): none). Add a sequence once, and change it only after forward(). Throws Error
  /// for unknown tokens and a full context or pool, without changing the batch. Returns the index
  /// of the first requested row among all rows of the batch.
  std::size_t add(Sequence& sequence, std::span<const TokenId> tokens, std::size_t first_wanted);
  /// Evaluates the slices and appends their tokens to their sequences. After an Error, only
  /// clear() is allowed.
  void forward();
  /// Logits of requested rows [begin, end), at most Engine::logit_rows() of them:
  /// [end-begin][n_vocab], valid until the next call. They may contain NaN or infinity.
  std::span<const float> logits(std::size_t begin, std::size_t end);
  /// Calls f(row, logits) for requested rows [begin, end), in order.
  template <class F>
  void for_each_row(std::size_t begin, std::size_t end, F&& f) {
    for (std::size_t last = begin; begin < end; begin = last) {
      last = std::min(end, begin + logit_rows());
      const std::span<const float> rows = logits(begin, last);
      const std::size_t width = rows.size() / (last - begin);
      for (std::size_t i = begin; i < last; ++i) f(i, rows.subspan((i - begin) * width, width));
    }
  }
  /// Output of the last norm for requested rows [begin, end): [end-begin][n_embd].
  [[nodiscard]] std::span<const float> hidden(std::size_t begin, std::size_t end) const;

 private:
  friend struct StateAccess;
  [[nodiscard]] std::size_t logit_rows() const noexcept;
  std::unique_ptr<State> state_;
};

}  // namespace cria
