// What engines, sequences and batches hold; shared by the files that implement them.
#pragma once

#include <optional>

#include "engine/distribute/distributed_engine.h"
#include "engine/engine.h"
#include "engine/execute/executor.h"
#include "engine/model_parts.h"
#include "engine/session/prefix_cache.h"

namespace cria {

/// Everything decided about an engine before anything is allocated.
struct EnginePlan {
  EngineOptions options;  ///< with the defaults filled in
  std::uint32_t wanted_threads = 0,
                wanted_prefill = 0;  ///< what was asked for; 0: each rank's default
  Graph graph;
  GraphParts parts;  ///< what is computed here
  WorkShape shape;
  KvShape kv;
  EngineMemory memory;

  static EnginePlan of(const Model& model, const EngineOptions& wanted);
  /// The options, but threads as they were asked for: of an engine that works beside this one, on
  /// every rank.
  [[nodiscard]] EngineOptions beside() const;
  /// Throws Error if the machine has not enough memory.
  void check(const Model& model) const;
};

struct Engine::State {
  const std::shared_ptr<const Model> owner;  // keeps the model alive
  const Model& model;
  const EnginePlan plan;
  KvPool pool;
  std::optional<PrefixCache> index;  // where prefixes are kept
  Executor executor;
  std::optional<DistributedEngine> led;  // where other ranks compute, too
  NodeObserver observer;
  std::vector<Sequence::State*> sequences;  // that are alive
  const Batch::State* last = nullptr;       // whose values the work memory holds

  State(const Model& m, EnginePlan p, Ranks* ranks);
  /// Throws Error if the machine has not enough memory. Where there are other ranks, they make
  /// their parts of it.
  static std::unique_ptr<State> open(const Model& model, const EngineOptions& options);

  void forward(const BatchPlan& batch);
  std::span<const float> logits(const BatchPlan& batch, std::size_t begin, std::size_t end);
  void copy_page(std::size_t group, PageId from, PageId to);

  /// A page with one reference; kept prefixes make room. Throws Error if all are in use.
  PageId take_page(std::size_t group);
  /// Whether a page would be free, where kept prefixes make room.
  [[nodiscard]] bool make_free(std::size_t group);
  /// Whether who wants so many pages, and so many sequences, more has to wait for others that end
  /// by themselves. Where there are none, to wait would be of no use.
  [[nodiscard]] bool must_wait(std::size_t pages, std::size_t more = 1) const;
};

struct Sequence::State {
  Engine::State& engine;
  const std::uint64_t scope;
  const bool shared;
  std::vector<TokenId> tokens;           // positions in use; capacity n_ctx from the start
  PageTables tables;                     // pages of at least these positions
  std::vector<PrefixCache::Ref> prefix;  // of full pages, where prefixes are kept
  std::size_t reserved_pages =
      0;  // pages: of one that ends by itself (an answer's, a scored text's); else 0

  State(Engine::State& e, std::uint64_t s, bool shares);
  State(const State& other);
  State& operator=(const State&) = delete;
  ~State();

  /// Throws Error for tokens that the vocabulary has not or that do not fit into the context.
  void check(std::span<const TokenId> added) const;
  /// Pages of its own for n positions more. Throws Error if the pool has not enough; it has none of
  /// them then.
  void make_room(std::size_t n);
  /// Gives pages back that were taken for tokens which have not been evaluated.
  void trim();
  /// Lets go of the pages that position n and those behind it never look at.
  void drop_unseen(std::size_t n);
  /// Their keys and values have been written.
  void append(std::span<const TokenId> added);
  std::size_t truncate(std::size_t n);
  std::size_t reuse(std::span<const TokenId> wanted);

  /// Where the longest prefix of some tokens lies: n positions, in another sequence's pages or the
  /// index's.
  struct Found {
    std::size_t n = 0;
    const State* sequence = nullptr;  // null: entries alone
    std::vector<PrefixCache::Ref> entries;
  };
  [[nodiscard]] Found find(std::span<const TokenId> wanted) const;

 private:
  [[nodiscard]] PrefixCache* index() const {
    return shared && engine.index ? &*engine.index : nullptr;
  }
  void own_last_page(std::size_t group);
  void take_pages(std::size_t n);
  void release_from(std::size_t group, std::size_t page);
  void keep();
  [[nodiscard]] bool has_window(std::size_t n) const;
  [[nodiscard]] PageId page_of(const Found& found, std::size_t group, std::size_t page) const;
  void shorten_to_windows(Found& found) const;
  void become(const Found& found, std::span<const TokenId> wanted);
};

struct Batch::State {
  Engine::State& engine;
  BatchPlan plan;
  std::vector<Sequence::State*> sequences;  // of the slices, until these are evaluated
  std::size_t n_wanted = 0;

  explicit State(Engine::State& e);
  ~State() { drop_sequences(); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  /// What has not been evaluated will not be: it needs no pages.
  void drop_sequences();
};

}  // namespace cria
