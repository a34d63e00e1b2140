// The part of every node that one of several ranks computes: some rows of matrices, some heads,
// some channels. Sums are never divided, so that these have the bits of one machine. What only some
// heads of a rank read is computed there, possibly by several ranks, and does not travel.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "engine/graph/graph.h"
#include "engine/ranks/ranks.h"

namespace cria {

/// A rank's part of one node, in units (Division).
struct NodePart {
  Division division;              ///< the node's
  UnitRanges own;                 ///< this rank's units; all if not divided
  std::vector<UnitRanges> units;  ///< by rank; empty: not divided
  /// Every rank gets the whole output; then ranks have one range each, in order. Else only its own
  /// part, and ranks may share units.
  bool gathered = false;
  ActTypes forms;  ///< gathered: in these quantized forms, which alone are read; none: as floats

  [[nodiscard]] bool divided() const { return !units.empty(); }
  /// Returns the columns of the output that units write.
  [[nodiscard]] UnitRange columns(UnitRange range) const {
    return {division.offset + range.begin * division.width,
            division.offset + range.end * division.width};
  }
  /// Returns the part of the node that a rank computes, from 0 to 1.
  [[nodiscard]] double share(std::size_t rank) const;
};

struct GraphParts {
  std::vector<NodePart> nodes;    ///< in the order of Graph::nodes
  std::vector<UnitRange> caches;  ///< by cache: the KV heads of this rank; ranks may share one
  HeldUnits held;                 ///< by cache and state, the numbers of this rank's

  /// Returns the parts of a rank of shares.size(). One rank has everything.
  static GraphParts of(const Graph& graph, const Shares& shares, std::size_t rank);
  static GraphParts whole(const Graph& graph) { return of(graph, {1}, 0); }

  /// Returns the KV heads that a node computes.
  [[nodiscard]] UnitRange kv_heads(const HeadsOp& op) const {
    return op.k == kNoValue ? UnitRange{} : caches[op.cache];
  }
  /// Visits the rows of every matrix that the rank reads.
  void for_each_weight(const Graph& graph,
                       const std::function<void(const TensorView& rows)>& visit) const;
  /// Returns the sum of their bytes.
  [[nodiscard]] std::size_t weight_bytes(const Graph& graph) const;
};

/// Returns, by cache and state, the largest numbers of any rank.
HeldUnits most_held(const Graph& graph, const Shares& shares);

}  // namespace cria
