// The part of every node that one of several ranks computes: some rows of matrices, or some heads.
// Sums are never divided, so that rows and heads have the bits of one machine.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "engine/graph/graph.h"
#include "engine/ranks/ranks.h"

namespace cria {

/// A rank's part of one node, in units (Division).
struct NodePart {
  UnitRange own;                    ///< this rank's units; all if there is one rank
  std::size_t width = 1;            ///< columns of the output per unit
  std::vector<std::size_t> bounds;  ///< rank r has [bounds[r], bounds[r + 1]); empty: not divided
  bool gathered = false;            ///< every rank gets the whole output; else only its own part
  ActTypes forms;  ///< gathered: in these quantized forms, which alone are read; none: as floats

  [[nodiscard]] bool divided() const { return !bounds.empty(); }
};

struct GraphParts {
  std::vector<NodePart> nodes;    ///< in the order of Graph::nodes
  std::vector<UnitRange> caches;  ///< by cache: the KV heads of this rank; ranks may share one

  /// Returns the parts of a rank of shares.size(). One rank has everything.
  static GraphParts of(const Graph& graph, const Shares& shares, std::size_t rank);
  static GraphParts whole(const Graph& graph) { return of(graph, {1}, 0); }

  /// Returns the KV heads that a node computes.
  [[nodiscard]] UnitRange kv_heads(const HeadsOp& op) const {
    return op.k == kNoValue ? UnitRange{} : caches[op.cache];
  }
  /// Returns the number of KV heads by cache: KvShape::heads.
  [[nodiscard]] std::vector<std::size_t> head_counts() const;
  /// Visits the rows of every matrix that the rank reads.
  void for_each_weight(const Graph& graph,
                       const std::function<void(const TensorView& rows)>& visit) const;
  /// Returns the sum of their bytes.
  [[nodiscard]] std::size_t weight_bytes(const Graph& graph) const;
};

/// Returns, by cache, the largest number of KV heads of any rank.
std::vector<std::size_t> most_heads(const Graph& graph, const Shares& shares);

}  // namespace cria
