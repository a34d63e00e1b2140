// State of engines, sequences and batches, shared by the files that implement them.
#pragma once

#include <array>
#include <optional>

#include "engine/architectures/architecture.h"
#include "engine/cluster.h"
#include "engine/engine.h"
#include "engine/execute/executor.h"
#include "engine/model_parts.h"
#include "engine/session/draft_model.h"
#include "engine/session/prefix_cache.h"

namespace cria {

/// The only access to the private state, for this directory and tests.
struct StateAccess {
  static Engine::State& of(const Engine& engine) { return *engine.state_; }
  static Sequence::State& of(const Sequence& sequence) { return *sequence.state_; }
  static Batch::State& of(const Batch& batch) { return *batch.state_; }
  /// Opens an engine of a part of the model.
  static Engine open(const Model& model, const EngineOptions& options, GraphPart part);
};

/// Everything decided about an engine before anything is allocated.
struct EnginePlan {
  EngineOptions options;                                 ///< with defaults filled in
  std::uint32_t wanted_threads = 0, wanted_prefill = 0;  ///< as requested; 0: each rank's default
  Graph graph;
  GraphParts parts;  ///< computed by this rank
  WorkShape shape;
  KvShape kv;
  EngineMemory memory;  ///< without the draft model

  static EnginePlan of(const Model& model, const EngineOptions& wanted,
                       GraphPart part = GraphPart::Trunk);
  /// True if the model's own prediction layer drafts.
  [[nodiscard]] bool drafts_itself(const Model& model) const;
  /// Options of the draft model's engine; threads as requested, on every rank.
  [[nodiscard]] EngineOptions draft_options() const;
  /// Throws Error if memory is short.
  void check(const Model& model) const;
};

struct Engine::State {
  const std::shared_ptr<const Model> owner;  // keeps the model alive
  const Model& model;
  const EnginePlan plan;
  KvPool pool;
  std::optional<PrefixCache> prefix_cache;
  Executor executor;
  std::uint64_t cluster_engine = 0;  // number of this engine on all ranks; 0: not distributed
  std::optional<DraftModel> draft_model;
  NodeCallback observer;
  std::vector<Sequence::State*> sequences;  // alive
  const Batch::State* last = nullptr;       // owner of the values in work memory

  State(const Model& m, EnginePlan p);
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  /// Throws Error if memory is short. All ranks make their parts of it.
  static std::unique_ptr<State> open(const Model& model, const EngineOptions& options,
                                     GraphPart part = GraphPart::Trunk);

  void copy_page(std::size_t group, PageId from, PageId to);
  /// Takes a page with one reference, evicting cached prefixes. Throws Error if all are in use.
  PageId take_page(std::size_t group);
  /// True if a page is free, possibly after an eviction.
  [[nodiscard]] bool make_free(std::size_t group);
};

inline Engine StateAccess::open(const Model& model, const EngineOptions& options, GraphPart part) {
  return Engine(Engine::State::open(model, options, part));
}

struct Sequence::State {
  Engine::State& engine;
  const std::uint64_t scope;  // with the adapters' scales, if they are not the model's
  const bool shared;
  const AdapterScales adapters;          // null: the model's
  std::vector<TokenId> tokens;           // positions in use; its capacity is n_ctx
  PageTables tables;                     // pages of at least these positions
  std::vector<PrefixCache::Ref> prefix;  // full pages in the prefix cache
  std::size_t reserved_pages = 0;
  std::optional<DraftModel::Text> draft;  // the draft model's view of the same text

  // For a model with recurrent layers (sequence_states.cpp): the live state has seen positions
  // before state_end, rejected drafts included, and does not go back behind state_begin.
  std::size_t state_begin = 0, state_end = 0;
  std::array<std::size_t, 2> departures{};  // ends of pages where later texts may differ
  bool evaluating = false;                  // in a batch that has not been evaluated

  State(Engine::State& e, std::uint64_t s, bool shares, AdapterScales scales);
  State(const State& other);
  State& operator=(const State&) = delete;
  ~State();

  void check(std::span<const TokenId> added) const;
  /// Takes pages for n more positions. Throws Error, and takes none, if the pool lacks some.
  void make_room(std::size_t n);
  /// Frees pages taken for tokens that were not evaluated.
  void trim();
  /// Frees pages that position n and later ones never read.
  void drop_unseen(std::size_t n);
  /// Appends tokens whose keys and values have been written.
  void append(std::span<const TokenId> added);
  std::size_t truncate(std::size_t n);
  std::size_t reuse(std::span<const TokenId> wanted);

  /// Longest known prefix of some tokens: n positions in another sequence or the prefix cache.
  struct Found {
    std::size_t n = 0;
    const State* sequence = nullptr;  // null: cache entries only
    std::vector<PrefixCache::Ref> entries;
    std::size_t known = 0;  // tokens that some text begins with, at least n
  };
  [[nodiscard]] Found find(std::span<const TokenId> wanted) const;

  /// Keeps a snapshot of recurrent states at the last end of a page that a text of n tokens and one
  /// with another end have in common.
  void expect_departure(std::size_t n);
  /// Frees pages after a pass of n tokens that has failed, and the positions whose state is lost.
  void failed(std::size_t n);
  /// Copies the snapshot of the last position to the live state if it is still to be restored.
  void restore_state();

 private:
  [[nodiscard]] PrefixCache* cache() const {
    return shared && engine.prefix_cache ? &*engine.prefix_cache : nullptr;
  }
  void add_page(std::size_t page);
  void own_last_page(std::size_t group);
  void take_pages(std::size_t n);
  void release_from(std::size_t group, std::size_t page);
  [[nodiscard]] bool has_window(std::size_t n) const;
  [[nodiscard]] PageId page_of(const Found& found, std::size_t group, std::size_t page) const;
  void shorten_to_windows(Found& found) const;
  void become(const Found& found, std::span<const TokenId> wanted);
  void cut(std::size_t n);

  // The state behind n positions: live, or a snapshot, or neither.
  struct StatePages {
    PageId live = kNoPage, snapshot = kNoPage;
    [[nodiscard]] bool none() const { return live == kNoPage && snapshot == kNoPage; }
  };
  [[nodiscard]] bool has_states() const { return engine.pool.has_states(); }
  [[nodiscard]] std::vector<PageId>& live() { return tables[engine.pool.live_states()]; }
  [[nodiscard]] std::size_t first_state() const;
  [[nodiscard]] StatePages state_at(std::size_t n) const;
  [[nodiscard]] StatePages state_of(const Found& found, std::size_t n) const;
  [[nodiscard]] std::size_t state_before(std::size_t n) const;
  [[nodiscard]] bool keeps_snapshot(std::size_t page) const;
  void take_states(std::size_t n);
  void take_snapshot(std::size_t page);
  void share_states(const State& other);
  void become_state(const Found& found);
  void go_back(std::size_t n);
  void states_evaluated();
  void trim_states();
  void drop_restored();
  void release_states();
};

struct Batch::State {
  Engine::State& engine;
  BatchPlan plan;
  std::vector<Sequence::State*> sequences;  // sequences of the slices, until they are evaluated
  std::size_t n_wanted = 0;

  explicit State(Engine::State& e);
  ~State() { drop_sequences(); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  /// Frees the pages of slices that were not evaluated.
  void drop_sequences();
};

}  // namespace cria
