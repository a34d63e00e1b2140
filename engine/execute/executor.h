// Runs a graph for batches of tokens.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "engine/execute/batch_plan.h"
#include "engine/execute/graph_parts.h"
#include "engine/execute/prefetch_tuner.h"
#include "engine/execute/row_chunks.h"
#include "engine/execute/team.h"
#include "engine/execute/work_memory.h"
#include "engine/graph/graph.h"
#include "engine/ranks/ranks.h"
#include "kernels/attention/attention.h"
#include "kernels/formats/round.h"

namespace cria {

/// The values of a float32 tensor.
inline const float* floats(const TensorView& tensor) {
  return reinterpret_cast<const float*>(tensor.data);
}

/// Sees the floats that a node has written: [n_tokens][width].
using NodeObserver =
    std::function<void(const Node& node, std::span<const float> values, std::size_t width)>;

/// How the rows of a node over experts lie: those of expert e are [begin[e], begin[e + 1]), each of
/// the token of the batch that token[] says.
struct ExpertRows {
  std::span<const std::uint32_t> begin, token;
};

struct Threads {
  unsigned decode = 1;   ///< for batches of one token
  unsigned prefill = 1;  ///< for larger ones
};

/// So many bytes of all ranks are gathered at once, or a row; and so many such pieces are under
/// way.
inline constexpr std::size_t kExchangeBytes = std::size_t{1} << 20, kExchanges = kMaxGathers;

/// Rows of a node's output that are gathered at once. forms: part.forms, or none.
std::size_t rows_together(const NodePart& part, ActTypes forms);

/// What it has cost to gather a node's output from all ranks.
struct GatherTotals {
  double seconds = 0;       ///< also waiting for ranks that still compute
  std::uint64_t times = 0;  ///< so many operations of Ranks
  std::uint64_t bytes = 0;  ///< of all ranks' parts together
};

/// Thrown where the flag of Executor::stop_on() is set.
struct EvaluationStopped {};

class Executor {
 public:
  /// All of these outlive the executor. Allocates the work memory. rope_ctx: the context length
  /// that decides between RoPE factors, where a model has several. ranks: who computes the other
  /// parts; null: nobody, parts are whole.
  Executor(const Graph& graph, const KernelSet& kernels, const KvPool& cache,
           const WorkShape& shape, Threads threads, std::size_t rope_ctx, const GraphParts& parts,
           Ranks* ranks);

  /// Evaluates a batch of at most shape().n_batch tokens; keys and values go into the cache.
  void forward(const BatchPlan& batch);
  /// Logits of rows [begin, end) of the wanted ones of the last batch, at most shape().logit_rows
  /// of them: [end-begin][n_vocab], valid until the next call.
  std::span<const float> logits(const BatchPlan& batch, std::size_t begin, std::size_t end);
  /// What the last node reads for these rows: [end-begin][width], valid until the next forward().
  [[nodiscard]] std::span<const float> hidden(const BatchPlan& batch, std::size_t begin,
                                              std::size_t end) const;

  /// f(i, seat) for i in [0, n) on the threads for prompts; see Team::run.
  template <class F>
  void parallel(std::size_t n, F&& f) {
    const auto evaluation = team_.begin(threads_.prefill);
    run_chunks(n, f);
  }

  [[nodiscard]] const WorkShape& shape() const { return shape_; }

  /// From now on forward() throws EvaluationStopped before the next node once the flag is set. The
  /// batch is not evaluated then: positions before it keep their keys and values. Null: nothing
  /// stops it. Where several ranks compute, they all end the batch that they have begun; who wants
  /// to stop asks stopped() before. Returns the flag until now.
  const std::atomic<bool>* stop_on(const std::atomic<bool>* flag) {
    return std::exchange(stop_, flag);
  }
  [[nodiscard]] bool stopped() const {
    return stop_ != nullptr && stop_->load(std::memory_order_relaxed);
  }
  /// Called after every node; empty: none.
  void observe(NodeObserver observer) { observer_ = std::move(observer); }
  [[nodiscard]] bool observed() const { return observer_ != nullptr; }
  /// Every rank gathers what every node computes, for the observer of one of them.
  void gather_all(bool on) { gather_all_ = on; }
  /// Of the last node that chose experts.
  [[nodiscard]] ExpertRows expert_rows(std::size_t n_experts) const {
    return {{work_.routing.begin, n_experts + 1},
            {work_.routing.token, work_.routing.begin[n_experts]}};
  }
  /// Seconds per node, summed up while profiling is on; in the order of the graph. Of these,
  /// gathering took those of gathers().
  void profile(bool on);
  [[nodiscard]] std::span<const double> node_seconds() const { return seconds_; }
  [[nodiscard]] std::span<const GatherTotals> gathers() const { return gathers_; }

 private:
  using Clock = std::chrono::steady_clock;

  /// What is gathered and lies elsewhere.
  struct Exchange {
    std::vector<std::byte> bytes;
    std::vector<std::size_t> begin;  ///< [ranks + 1]

    /// Of row i of n, of that rank's columns.
    [[nodiscard]] std::byte* place(std::size_t rank, std::size_t i, std::size_t n) {
      return bytes.data() + begin[rank] + (begin[rank + 1] - begin[rank]) / n * i;
    }
  };

  /// How an attention node is divided in a batch: blocks of tokens, each by groups of heads, each
  /// by segments of keys.
  struct AttentionChunks {
    AttentionJob shared{};
    std::size_t heads = 0, first_group = 0, groups = 0;  ///< query heads of a group
    std::size_t segments = 1;                            ///< 1: all keys together
    std::size_t state_floats = 0;                        ///< of a group and segment, at most
  };

  void run(const Node& node);
  void dispatch(const Node& node);
  void embed(const Node& node);
  void norm(const Node& node);
  void heads(const Node& node);
  void head_products(const Node& node);
  void head_product(const Node& node, std::size_t head, std::size_t begin, std::size_t end,
                    unsigned worker, const std::byte* next);
  void select_heads(AttentionJob& job, const Node& node, std::size_t kv_group,
                    UnitRange heads) const;
  [[nodiscard]] AttentionChunks attention_chunks(const Node& node) const;
  [[nodiscard]] AttentionJob attention_job(const Node& node, const AttentionChunks& chunks,
                                           std::size_t block, std::size_t group) const;
  bool attend(const Node& node, const AttentionChunks& chunks, std::size_t block, std::size_t group,
              std::size_t segment, unsigned worker);
  void attention(const Node& node);
  void matmul(const Node& node);
  void feed_forward(const Node& node);
  void feed_forward(const Node& node, std::size_t row_begin, std::size_t row_end, unsigned worker,
                    const std::byte* next);
  void route(const Node& node);
  void route_token(const ExpertsSpec& spec, float* products, std::size_t token);
  void fill_slots(const ExpertsSpec& spec);
  void experts_up(const Node& node);
  void experts_up(const Node& node, std::size_t expert, std::size_t row_begin, std::size_t row_end,
                  const std::byte* next, unsigned worker);
  void experts_down(const Node& node);
  void experts_down(const Node& node, std::size_t row_begin, std::size_t row_end, unsigned worker,
                    const std::byte* next);
  void rows(const Node& node);

  void compute(const BatchRows& rows);
  void move_rows(const BatchPlan& batch);
  /// As Team::run, for any number of chunks.
  template <class F>
  void run_chunks(std::size_t n, F&& f) {
    for (std::size_t done = 0; done < n; done += Team::kMaxChunks) {
      team_.run(std::min(Team::kMaxChunks, n - done),
                [&](std::size_t i, unsigned worker) { f(done + i, worker); });
    }
  }
  [[nodiscard]] std::size_t count() const { return end_ - begin_; }
  [[nodiscard]] std::size_t index_of(const Node& node) const {
    return static_cast<std::size_t>(&node - graph_.nodes.data());
  }
  [[nodiscard]] const NodePart& part_of(const Node& node) const {
    return parts_.nodes[index_of(node)];
  }
  [[nodiscard]] UnitRange rows_of_out(const Node& node) const;
  bool complete(const Node& node);
  void gather(const Node& node, bool forms);
  void make_exchange();
  void begin_gather(std::byte* data, const std::vector<std::size_t>& begin);
  void gather_in_place(const Node& node, std::size_t row);
  void send(const Node& node, ActTypes forms, UnitRange rows, Exchange& exchange);
  void receive(const Node& node, ActTypes forms, UnitRange rows, Exchange& exchange);
  void quantize_between(const Node& node, std::size_t row);
  [[nodiscard]] std::byte* scratch(unsigned worker) const {
    return work_.scratch + worker * work_.scratch_stride;
  }
  [[nodiscard]] std::size_t rows_per_chunk(std::size_t rows) const;
  [[nodiscard]] RowChunks weight_chunks(const Node& node) const;
  [[nodiscard]] const std::byte* first_weights(const Node& node, std::size_t chunk) const;
  [[nodiscard]] const std::byte* weights_after(const Node& node, std::size_t chunk,
                                               unsigned worker) const;
  [[nodiscard]] std::size_t first_row(ValueId value) const {
    return value == graph_.nodes.back().out ? 0 : begin_;
  }
  void scale_products(const Matrix& m, float* out, std::size_t out_stride, std::size_t n_tokens,
                      std::size_t row_begin, std::size_t row_end) const;
  void lay_out(const Node& node);
  void multiply(const Matrix& m, ValueId in, ValueId out, const float* residual,
                std::size_t row_begin, std::size_t row_end, unsigned worker, const std::byte* next);
  void multiply(const Matrix& m, const Activations& x, float* out, std::size_t out_stride,
                std::size_t row_begin, std::size_t row_end, std::byte* scratch,
                const std::byte* next);
  void norm_row(const NormSpec& spec, std::size_t run, const float* in, float* out);
  void prepare_head(const Node& node, ValueId value, const std::optional<NormSpec>& norm,
                    std::size_t head, std::size_t dim, bool query);
  void rotate(const HeadsSpec& spec, ValueId value, std::size_t head);
  void store_kv(const Node& node, std::size_t head);
  void quantize_token(const Node& node, std::size_t row);
  void quantize_columns(const Node& node, UnitRange rows, std::size_t col_begin,
                        std::size_t col_end);
  void quantize_all(const Node& node);

  const Graph& graph_;
  const KernelSet& kernels_;
  const KvPool& cache_;
  const WorkShape shape_;
  const Threads threads_;
  const std::size_t rope_ctx_;
  const GraphParts& parts_;
  Ranks* const ranks_;
  std::array<Exchange, kExchanges> exchanges_;
  bool gather_all_ = false;
  SystemMemory memory_;
  WorkMemory work_;
  Team team_;

  std::vector<ValueId> live_;  // computed before Graph::first_sparse and read from there on
  // What nodes compute now.
  const BatchRows* batch_ = nullptr;
  std::size_t begin_ = 0, end_ = 0;
  FetchAhead fetch_ = FetchAhead::Far;
  FetchChoice fetches_;
  const MatMulKernel* laid_out_ =
      nullptr;  // whose layout of the node's input is in WorkMemory::laid_out

  const std::atomic<bool>* stop_ = nullptr;
  NodeObserver observer_;
  bool profiling_ = false;
  std::vector<double> seconds_;
  std::vector<GatherTotals> gathers_;
  GatherTotals* gathering_ = nullptr;  // of the node that is gathered, while profiling is on
};

}  // namespace cria
