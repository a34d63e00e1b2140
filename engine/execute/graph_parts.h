// Which part of every node one of several ranks computes. A part is some rows of matrices, or some
// heads; never a part of a sum, so that a row's or a head's bits are those of one machine.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "engine/graph/graph.h"
#include "engine/ranks/shares.h"

namespace cria {

struct UnitRange {
  std::size_t begin = 0, end = 0;
  [[nodiscard]] std::size_t size() const { return end - begin; }
};

/// Of one node. A unit is a row of its matrices and a column of its output; of heads: a query head.
struct NodePart {
  UnitRange own;          ///< what this rank computes; with one rank all
  std::size_t width = 1;  ///< columns of the output that a unit has
  std::vector<std::size_t>
      bounds;  ///< by rank: [bounds[r], bounds[r + 1]) is its own; empty: each rank computes all
  bool gathered =
      false;  ///< afterwards every rank has the whole output; else only who computed it reads it
  ActTypes
      forms;  ///< gathered: in these quantized forms, which are all that is read; none: as floats

  [[nodiscard]] bool divided() const { return !bounds.empty(); }
};

/// Columns of a node's output that one rank computes, and those among them that travel quantized:
/// whole blocks of every form.
struct RankColumns {
  UnitRange all, blocks;

  /// forms: part.forms, or none.
  RankColumns(const NodePart& part, ActTypes forms, std::size_t rank);
  /// Bytes in which they travel, of one row.
  [[nodiscard]] std::size_t bytes(ActTypes forms) const;
};

/// Of a row of a gathered output, all ranks' columns. forms: part.forms, or none.
std::size_t gathered_bytes(const NodePart& part, ActTypes forms);

struct GraphParts {
  std::vector<NodePart> nodes;  ///< as Graph::nodes
  std::vector<UnitRange>
      caches;  ///< as Graph::caches: the kv heads that lie here. Ranks may share one.

  /// Of rank `rank` of shares.size(). One rank: everything.
  static GraphParts of(const Graph& graph, const Shares& shares, std::size_t rank);
  static GraphParts whole(const Graph& graph) { return of(graph, {1}, 0); }

  /// The kv heads that a node of Op::Heads computes.
  [[nodiscard]] UnitRange kv_heads(const Node& node) const {
    return node.heads.k == kNoValue ? UnitRange{} : caches[node.cache];
  }
  /// Of each cache, how many kv heads lie here: KvShape::heads.
  [[nodiscard]] std::vector<std::size_t> head_counts() const;
  /// visit(tensor) for the rows of every matrix that the rank reads: its own, and of what all
  /// compute everything.
  void for_each_weight(const Graph& graph,
                       const std::function<void(const TensorView& rows)>& visit) const;
  /// Bytes of these.
  [[nodiscard]] std::size_t weight_bytes(const Graph& graph) const;
};

/// Of each cache, the kv heads of the rank that has most of them.
std::vector<std::size_t> most_heads(const Graph& graph, const Shares& shares);

/// How many of an attention's query heads read the same keys.
std::size_t heads_together(const AttentionSpec& attention, const CacheSpec& cache);

}  // namespace cria
