// Many sequences of one model at once: a public header of engine/, for whoever serves several
// answers. Session (session.h) is one sequence with everything around it.
//
//   Engine       threads, work memory and a pool of pages for keys and values, shared by its
//   sequences Sequence     tokens at positions 0, 1, 2 … and the pages of their keys and values
//   Batch        tokens of several sequences, evaluated in one pass over the weights
//
// A sequence's logits are the same bytes alone, in any batch, on any pages, and whether its prefix
// was computed by itself or found. An engine with its sequences and batches is used by one thread
// at a time.
#pragma once

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

struct KernelSet;
struct Node;
enum class KvType : std::uint8_t;  // kernels/attention/attention.h; parse_kv_type() gives its
                                   // values

/// "f16", "f32" or "q8_0"; throws Error for other names.
KvType parse_kv_type(std::string_view name);
/// What an engine is made for: its context, threads and memory.
struct EngineOptions {
  std::uint32_t n_ctx =
      0;  ///< positions of a sequence at most; 0: the model's training context, at most 4096
  /// The context for which RoPE factors are chosen where a model has several (longrope); 0: n_ctx,
  /// or the model's training context where that is 0. Not to be derived from a prompt: answers
  /// would depend on it.
  std::uint32_t rope_ctx = 0;
  std::uint32_t n_batch = 512;        ///< tokens of a batch
  std::uint32_t threads = 0;          ///< 0: physical cores
  std::uint32_t threads_prefill = 0;  ///< for batches of more than one token; 0: as threads
  KvType kv_type{};                   ///< of cached keys and values; by default "f16"
  const KernelSet* kernels =
      nullptr;                  ///< null: the best that can run here, or what $CRIA_ISA names
  std::uint32_t sequences = 1;  ///< that are alive together, at most 1024
  /// Positions of all sequences and kept prefixes together, in pages of 64; 0: n_ctx of each
  /// sequence.
  std::uint64_t positions = 0;
  /// What sequences have read stays for others with the same prefix until its place is needed.
  bool prefix_cache = true;
  /// Memory for what is kept beyond those positions; options() of the engine has the positions that
  /// it gives.
  std::uint64_t prefix_cache_bytes = 0;
};

/// Memory in bytes.
struct EngineMemory {
  std::size_t file = 0;  ///< the model's file, all of it (shared with other engines)
  std::size_t kv = 0;    ///< keys and values of all positions
  std::size_t work =
      0;  ///< intermediate values, at most 64 MiB; batches are cut as small as that needs
  std::size_t available = 0;  ///< what the system and the cgroup would give now
  std::size_t n_batch = 0;    ///< tokens per batch that fit into work
  [[nodiscard]] std::size_t total() const { return file + kv + work; }  ///< of the three
};
/// What an engine would need; nothing is allocated.
EngineMemory engine_memory(const Model& model, const EngineOptions& options);

/// Time of one node of the graph, in all passes.
struct NodeTime {
  const Node* node;                  ///< of the engine's graph
  double seconds;                    ///< here, on rank 0
  double gather_seconds = 0;         ///< several ranks: of these, until all had the others' parts
  std::uint64_t gathers = 0;         ///< how often they were gathered
  std::uint64_t gathered_bytes = 0;  ///< of all parts
};

class Sequence;
/// Threads, work memory and a pool of pages for keys and values.
class Engine {
 public:
  struct State;  // engine/session/engine_state.h
  /// Allocates the pool and the work memory; throws Error if the machine has not enough. Shares the
  /// ownership of the model.
  Engine(const Model& model, const EngineOptions& options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  [[nodiscard]] const Model& model() const noexcept;            ///< that it runs
  [[nodiscard]] const EngineOptions& options() const noexcept;  ///< with the defaults filled in
  [[nodiscard]] std::size_t memory_bytes() const noexcept;      ///< pool + work memory
  [[nodiscard]] const Graph& graph() const noexcept;            ///< what this engine runs
  [[nodiscard]] std::size_t logit_rows() const noexcept;        ///< see Batch::logits()
  /// Pages of 64 positions: of the pool, and what n positions of one sequence may need at most.
  [[nodiscard]] std::size_t pages() const noexcept;
  [[nodiscard]] static std::size_t pages_of(std::size_t n) noexcept {
    return (n + 63) / 64;
  }  ///< of n

  /// f(i) for every i in [0, n), on the threads for prompts, in any order; returns when all are
  /// done. f must not throw.
  void parallel(std::size_t n, const std::function<void(std::size_t i)>& f);
  /// The Error that names the node that first computes a value that is no finite number for this
  /// sequence, by evaluating it again: the sequence is empty afterwards, and the last batch's
  /// logits are gone. position: whose logits the caller has seen not to be finite; those of earlier
  /// ones are not computed. What stops evaluations stops this, too: then the Error names no node.
  [[nodiscard]] Error not_finite(Sequence& sequence, std::size_t position);

  /// Sums up the time of every node from now on.
  void profile(bool on);
  [[nodiscard]] std::vector<NodeTime> profile() const;  ///< since it was switched on
  /// Called after every node with the floats that it wrote, one row per token; empty: none.
  void observe(
      std::function<void(const Node& node, std::span<const float> values, std::size_t width)>
          observer);

  [[nodiscard]] State& state() const noexcept { return *state_; }  ///< for this room

 private:
  std::unique_ptr<State> state_;
};

/// Whether every value is a finite number.
bool all_finite(std::span<const float> values);

/// The engine outlives it.
class Sequence {
 public:
  struct State;
  /// A prefix is found by sequences of the same scope only (a user's, an adapter's). Not shared: it
  /// finds none, and nobody finds what it reads.
  explicit Sequence(Engine& engine, std::uint64_t scope = 0, bool shared = true);
  ~Sequence();
  Sequence(Sequence&&) noexcept;             ///< the other is of no use afterwards
  Sequence& operator=(Sequence&&) noexcept;  ///< likewise; lets go of what it held

  /// Positions in use, and their tokens.
  [[nodiscard]] std::span<const TokenId> tokens() const noexcept;
  /// Forgets everything after the first n positions, or everything where a layer's window has let
  /// go of keys that position n would look at. Returns how many positions are left.
  std::size_t truncate(std::size_t n);
  /// Another sequence with the same tokens, on the same pages; each gets pages of its own where it
  /// goes on.
  [[nodiscard]] Sequence fork() const;
  /// Becomes the longest prefix of these tokens that it is already, that another sequence holds now
  /// or that is kept; where layers have windows, one whose windows are there still. Returns how
  /// many positions that are.
  std::size_t reuse(std::span<const TokenId> tokens);

  [[nodiscard]] State& state() const noexcept { return *state_; }  ///< for this room

 private:
  explicit Sequence(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Slices of sequences that are evaluated together. What lies between forward() and logits() or
/// hidden() belongs to the batch; it is gone when another batch of the engine goes forward. The
/// engine outlives it.
class Batch {
 public:
  struct State;
  explicit Batch(Engine& engine);  ///< empty
  ~Batch();
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  void clear();  ///< takes all slices out
  /// Tokens that are in it.
  [[nodiscard]] std::size_t size() const noexcept;
  [[nodiscard]] std::size_t room() const noexcept;  ///< tokens that may still be added
  /// These tokens are to follow the sequence's; logits are wanted of those from first_wanted on
  /// (none if it is tokens.size()). Not twice of one sequence, nor one that changes before
  /// forward(). Throws Error for a token that the vocabulary has not, for more tokens than
  /// positions are left to the sequence or the pool; the batch is as before then. Returns the index
  /// of the first wanted token among all that are wanted.
  std::size_t add(Sequence& sequence, std::span<const TokenId> tokens, std::size_t first_wanted);
  /// Evaluates the slices and appends their tokens to their sequences. After an Error it can only
  /// be cleared.
  void forward();
  /// Logits of the wanted tokens [begin, end), counted through all slices, at most
  /// Engine::logit_rows() of them: [end-begin][n_vocab], valid until the next call or batch. They
  /// may not be finite (all_finite()).
  std::span<const float> logits(std::size_t begin, std::size_t end);
  /// What logits are computed from: the last norm's output for wanted tokens [begin, end), any
  /// number of them: [end-begin][n_embd], valid until another batch of the engine goes forward.
  [[nodiscard]] std::span<const float> hidden(std::size_t begin, std::size_t end) const;

  [[nodiscard]] State& state() const noexcept { return *state_; }  ///< for this room

 private:
  std::unique_ptr<State> state_;
};

}  // namespace cria
