// One pass over the weights: the batch that it computes, planned as plain data, and the context in
// which operations run.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "engine/execute/gather.h"
#include "engine/execute/graph_parts.h"
#include "engine/execute/kv_pool.h"
#include "engine/execute/team.h"
#include "engine/execute/work_memory.h"
#include "engine/graph/graph.h"
#include "model/token_id.h"

namespace cria {

/// The scale of each adapter, by file; null: the graph's own scales.
using AdapterScales = std::shared_ptr<const std::vector<float>>;
/// Returns scales; null for none.
inline AdapterScales adapter_scales(std::vector<float> scales) {
  return scales.empty() ? nullptr : std::make_shared<const std::vector<float>>(std::move(scales));
}

/// Rows [begin, end) of a batch: neighbouring positions of one sequence, the first is first_pos.
struct BatchSlice {
  std::size_t begin, end, first_pos;
  const PageTables* pages;  ///< hold every page that these positions write and see
  AdapterScales adapters = {};
};

/// Rows [begin, end) of a slice whose attention is computed together.
struct QueryBlock {
  std::size_t slice, begin, end;
};

/// The rows [begin, end) that nodes compute.
struct BatchRows {
  std::size_t begin = 0, end = 0;
  std::vector<TokenId> tokens;         ///< by row
  std::vector<std::size_t> positions;  ///< by row
  std::vector<BatchSlice> slices;
  std::vector<QueryBlock> blocks;

  [[nodiscard]] std::size_t count() const { return end - begin; }
  void reserve(std::size_t n);
  void clear();
  void add_slice(const BatchSlice& slice);
};

/// A batch is a list of slices. Logits are requested for a suffix of each. From Graph::first_sparse
/// on, only these rows are computed; before that they are moved to the end, side by side.
struct BatchPlan {
  BatchRows all, wanted;
  /// Rows from … from+n-1 become rows to …. Moved in this order, each from its last row on, they
  /// overwrite nothing that is still needed.
  struct Move {
    std::size_t from, to, n;
  };
  std::vector<Move> moves;

  /// Reserves memory for n_batch tokens: nothing is allocated afterwards.
  explicit BatchPlan(std::size_t n_batch);
  void clear();
  /// Adds tokens at first_pos … of a sequence; logits are requested from first_wanted on.
  void add(std::span<const TokenId> tokens, std::size_t first_pos, std::size_t first_wanted,
           const PageTables& pages, AdapterScales adapters = {});
  /// Must be called after the last add().
  void finish();
  /// Returns the first token of a slice with requested logits, counted from the slice's first.
  [[nodiscard]] std::size_t first_wanted(std::size_t slice) const {
    return first_wanted_[slice] - all.slices[slice].begin;
  }

 private:
  std::vector<std::size_t> first_wanted_;  // row of each slice
};

/// Chunks of n rows or heads for Team::run. Each thread's share is cut into chunks of falling size
/// (6, 5, … 1: a guided schedule). Idle threads steal chunks of a late one, and all of them wait
/// only for a small chunk at the end (measured: bench/processors/zen5.md, "Ends of regions").
class RowChunks {
 public:
  /// Chunks of `step`; the last may be smaller.
  static RowChunks equal(std::size_t n, std::size_t step) {
    return {n, (n + step - 1) / step, 1, 1, step};
  }
  /// At most `most` chunks per thread, which begin at multiples of `unit` and have at least one.
  static RowChunks shrinking(std::size_t n, std::size_t threads, std::size_t most,
                             std::size_t unit) {
    std::size_t parts = most;
    while (parts > 1 && share(parts) * unit * threads > n) --parts;
    if (parts == 1)
      return equal(n, std::max((n + threads - 1) / threads + unit - 1, unit) / unit * unit);
    return {n, threads * parts, threads, parts, unit};
  }

  [[nodiscard]] std::size_t size() const { return chunks_; }
  [[nodiscard]] UnitRange operator[](std::size_t chunk) const {
    return {begin_of(chunk), begin_of(chunk + 1)};
  }

 private:
  /// A thread's share in smallest chunks: 6 + 5 + … + 1.
  static constexpr std::size_t share(std::size_t parts) { return parts * (parts + 1) / 2; }

  RowChunks(std::size_t n, std::size_t chunks, std::size_t threads, std::size_t parts,
            std::size_t unit)
      : n_(n), chunks_(chunks), threads_(threads), parts_(parts), unit_(unit) {}

  [[nodiscard]] std::size_t begin_of(std::size_t chunk) const {
    if (parts_ == 1) return std::min(n_, chunk * unit_);
    const std::size_t before =
        chunk / parts_ * share(parts_) + share(parts_) - share(parts_ - chunk % parts_);
    const std::size_t exact = n_ * before / (threads_ * share(parts_));
    return std::min(n_, (exact + unit_ - 1) / unit_ * unit_);
  }

  std::size_t n_, chunks_, threads_, parts_, unit_;
};

/// Returns the values of a float32 tensor.
inline const float* floats(const TensorView& tensor) {
  return reinterpret_cast<const float*>(tensor.data);
}

/// The context in which operations run, as chunks of the team. A chunk writes what no other chunk
/// of its region writes, and its arithmetic does not depend on the size of chunks.
class Pass {
 public:
  const Graph& graph;
  const KernelSet& kernels;
  const KvPool& cache;
  const GraphParts& parts;
  WorkMemory& work;
  Team& team;
  Gatherer& gatherer;
  std::size_t rope_ctx = 0;          ///< context length that decides between RoPE factors
  const BatchRows* batch = nullptr;  ///< the rows that nodes compute
  std::size_t begin = 0, end = 0;    ///< the rows that are computed now
  PrefetchMode prefetch = PrefetchMode::InOrder;
  const MatMulKernel* packed = nullptr;  ///< kernel whose packed input is in work.packed
  bool adapted = false;                  ///< a scale of an adapter is not 0 in the batch
  /// Logits from this one on are not computed.
  std::size_t end_logit = std::numeric_limits<std::size_t>::max();

  [[nodiscard]] std::size_t count() const { return end - begin; }
  [[nodiscard]] std::size_t index_of(const Node& node) const {
    return static_cast<std::size_t>(&node - graph.nodes.data());
  }
  [[nodiscard]] const NodePart& part_of(const Node& node) const {
    return parts.nodes[index_of(node)];
  }
  /// Returns the scales of adapters for a slice, by file.
  [[nodiscard]] const std::vector<float>& scales_of(const BatchSlice& slice) const {
    return slice.adapters ? *slice.adapters : graph.adapter_scales;
  }
  /// Returns the first row of a value that is computed now. Logits have rows of their own.
  [[nodiscard]] std::size_t first_row(ValueId value) const {
    return value == graph.logits ? 0 : begin;
  }
  [[nodiscard]] std::byte* scratch(unsigned worker) const {
    return work.scratch + worker * work.scratch_stride;
  }
  /// Returns a worker's scratch behind that of products with `cols` columns.
  [[nodiscard]] std::byte* scratch_behind(unsigned worker, std::size_t cols) const;

  /// f(token) for every token, one per chunk.
  template <class F>
  void for_each_token(F&& f) {
    team.run(count(), [&](std::size_t chunk, unsigned) { f(begin + chunk); });
  }
  /// Runs f(rows, next, worker) for chunks of the node's own rows. next: the weights to prefetch at
  /// the end of the chunk.
  template <class F>
  void for_each_chunk(const Node& node, F&& f) {
    const RowChunks chunks = chunks_of(node);
    team.run(chunks.size(), [&](std::size_t chunk, unsigned worker) {
      const std::byte* const next = weights_after(node, chunk, worker);
      part_of(node).own.for_each(chunks[chunk],
                                 [&](UnitRange rows, auto) { f(rows, next, worker); });
    });
  }

  /// Packs a dense node's input once for all rows, if kernels want that.
  void pack_input(const Node& node);
  /// rows of out = residual + W·in·scale + bias for the current tokens. A product with a scale
  /// takes no residual (ModelBuilder::join). next: the weights to prefetch behind these rows.
  void multiply(const Matrix& m, ValueId in, ValueId out, const float* residual, UnitRange rows,
                unsigned worker, const std::byte* next) const;
  /// The same with rows of W·x·scale + bias; the first goes to out[0].
  void multiply(const Matrix& m, const Activations& x, float* out, std::size_t out_stride,
                UnitRange rows, unsigned worker, const std::byte* next) const;
  /// Makes the quantized forms of a row of out that later nodes need.
  void quantize_row(const Node& node, std::size_t row) const;
  /// Completes the output of a node after its own part: gathers it, and quantizes what is needed.
  void finish(const Node& node);

  [[nodiscard]] RowChunks chunks_of(const Node& node) const;
  /// Rows of equal chunks: whole kernel tiles, several chunks per thread; at least one row.
  [[nodiscard]] std::size_t rows_per_chunk(std::size_t rows) const;
  /// Returns what the worker reads after this chunk of the node unless it steals another: its next
  /// chunk, or the first chunk of the next node. The last node is followed by the first of the next
  /// token. Kernels prefetch it during the last rows of the chunk, so that memory is busy between
  /// chunks and nodes.
  [[nodiscard]] const std::byte* weights_after(const Node& node, std::size_t chunk,
                                               unsigned worker) const;

 private:
  MatMulJob job_for(const Matrix& m, const Activations& x, float* out, std::size_t out_stride,
                    const std::byte* next) const;
  void scale_products(const Matrix& m, float* out, std::size_t out_stride, std::size_t n_tokens,
                      UnitRange rows) const;
  void add_bias(const Matrix& m, float* out, std::size_t out_stride, std::size_t n_tokens,
                UnitRange rows) const;
};

}  // namespace cria
