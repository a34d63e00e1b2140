// Runs a graph for batches of tokens.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "engine/execute/machine.h"
#include "engine/execute/pass.h"
#include "engine/graph/graph.h"
#include "engine/ranks/ranks.h"

namespace cria {

/// Observes the floats that a node has written: [n_tokens][width].
using NodeObserver =
    std::function<void(const Node& node, std::span<const float> values, std::size_t width)>;

/// The rows of a node over experts: [begin[e], begin[e + 1]) are expert e's; token[row] is the
/// token of the batch.
struct ExpertRows {
  std::span<const std::uint32_t> begin, token;
};

struct Threads {
  unsigned decode = 1;   ///< for batches of one token
  unsigned prefill = 1;  ///< for larger batches
};

/// Thrown when the flag of Executor::stop_on() is set.
struct EvaluationStopped {};

/// Chooses the fastest prefetch mode. Tries each for a few passes of one token, then keeps the
/// fastest for a while: processors differ, and virtual ones move while a process runs. Results do
/// not depend on the mode.
class PrefetchTuner {
 public:
  static constexpr std::size_t kTried = 3, kKept = 128;  ///< passes: of each mode; of the fastest

  /// modes: KernelSet::prefetch_modes, which must outlive this.
  explicit PrefetchTuner(std::span<const PrefetchMode> modes)
      : modes_(modes.first(std::min(modes.size(), kMaxModes))) {
    try_first();
  }

  /// Returns the mode of the next pass.
  [[nodiscard]] PrefetchMode mode() const {
    return modes_.empty() ? PrefetchMode::InOrder : modes_[mode_];
  }
  /// Records the time of that pass. A mode's shortest pass counts: the others were disturbed.
  void record(double seconds);

 private:
  static constexpr std::size_t kMaxModes = 2;

  void try_first();

  std::span<const PrefetchMode> modes_;
  std::array<double, kMaxModes> least_{};
  std::size_t mode_ = 0, left_ = 0;
  bool trying_ = true;
};

class Executor {
 public:
  /// The references must outlive the executor. Allocates the work memory. rope_ctx: the context
  /// length that decides between RoPE factors if a model has several. ranks: the processes that
  /// compute the other parts; null if parts are whole.
  Executor(const Graph& graph, const KernelSet& kernels, const KvPool& cache,
           const WorkShape& shape, Threads threads, std::size_t rope_ctx, const GraphParts& parts,
           Ranks* ranks);
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// Evaluates a batch of at most shape().n_batch tokens; keys and values go into the cache.
  void forward(const BatchPlan& batch);
  /// Returns logits of rows [begin, end) of the last batch's requested ones, at most
  /// shape().logit_rows of them: [end-begin][n_vocab], valid until the next call.
  std::span<const float> logits(const BatchPlan& batch, std::size_t begin, std::size_t end);
  /// Makes logits() compute the first n of each row only; the others are arbitrary. One rank.
  void limit_logits(std::size_t n) { pass_.end_logit = n; }
  /// Returns what the last node reads for these rows: [end-begin][width], valid until the next
  /// forward().
  [[nodiscard]] std::span<const float> hidden(const BatchPlan& batch, std::size_t begin,
                                              std::size_t end) const;

  /// Runs nodes [begin, end) for all rows of a batch. Their inputs must have been computed, or
  /// written to value().
  void run_nodes(const BatchPlan& batch, std::size_t begin, std::size_t end);
  /// Returns the floats of a value for the batch: [rows][width].
  [[nodiscard]] float* value(ValueId id) { return work_[id].f32; }

  /// f(i, worker) for i in [0, n) on the threads for prompts; see Team::run.
  template <class F>
  void parallel(std::size_t n, F&& f) {
    const auto evaluation = team_.begin(threads_.prefill);
    team_.run_any(n, f);
  }

  [[nodiscard]] const WorkShape& shape() const { return shape_; }

  /// Makes forward() throw EvaluationStopped before the next node once the flag is set; null:
  /// never. The batch is then not evaluated, and positions before it keep their keys and values.
  /// Several ranks always end a batch that they have begun: ask stopped() before it. Returns the
  /// old flag.
  const std::atomic<bool>* stop_on(const std::atomic<bool>* flag) {
    return std::exchange(stop_, flag);
  }
  [[nodiscard]] bool stopped() const {
    return stop_ != nullptr && stop_->load(std::memory_order_relaxed);
  }
  /// Sets the function to call after every node; empty: none.
  void observe(NodeObserver observer) { observer_ = std::move(observer); }
  [[nodiscard]] bool observed() const { return observer_ != nullptr; }
  /// On: every rank gathers what every node computes, for the observer of one of them.
  void gather_all(bool on) { gatherer_.gather_all(on); }
  /// Returns the rows of the last node that chose experts.
  [[nodiscard]] ExpertRows expert_rows(std::size_t n_experts) const {
    return {{work_.routing.begin, n_experts + 1},
            {work_.routing.token, work_.routing.begin[n_experts]}};
  }
  /// Sets all times to 0; measures while on.
  void profile(bool on);
  /// Seconds per node, in the order of the graph; they include the seconds of gathers().
  [[nodiscard]] std::span<const double> node_seconds() const { return seconds_; }
  [[nodiscard]] std::span<const GatherTotals> gathers() const { return gatherer_.totals(); }

 private:
  void compute(const BatchRows& rows);
  void move_rows(const BatchPlan& batch);
  void run(const Node& node);

  const Graph& graph_;
  const WorkShape shape_;
  const Threads threads_;
  Ranks* const ranks_;
  SystemMemory memory_;
  WorkMemory work_;
  Team team_;
  Pass pass_;
  Gatherer gatherer_;

  std::vector<ValueId> live_;  // computed before Graph::first_sparse and read from there on
  PrefetchTuner prefetch_tuner_;
  const std::atomic<bool>* stop_ = nullptr;
  NodeObserver observer_;
  bool profiling_ = false;
  std::vector<double> seconds_;
};

}  // namespace cria
