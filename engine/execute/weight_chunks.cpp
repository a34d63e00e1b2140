// How nodes with matrices are divided into chunks, and which weights a thread reads after a
// chunk's: its kernel fetches them during the last rows of the chunk, so that memory does not rest
// between chunks, nor between nodes.
#include <algorithm>

#include "engine/execute/executor.h"

#include "kernels/formats/round.h"

namespace cria {

// Rows of a chunk, where chunks are equal: whole kernel tiles, several chunks per thread. At least
// one, also of no rows.
std::size_t Executor::rows_per_chunk(std::size_t rows) const {
  const std::size_t chunks = std::min(team_.threads() * kChunksPerThread, Team::kMaxChunks);
  return round_up(divide_up(std::max<std::size_t>(rows, 1), chunks), kRowTile);
}

// Of a node's own rows or heads, where they are known before its chunks run.
RowChunks Executor::weight_chunks(const Node& node) const {
  const std::size_t own = part_of(node).own.size();
  if (node.op == Op::HeadProducts) return RowChunks::equal(own, 1);
  if (node.op == Op::Heads) return RowChunks::equal(parts_.kv_heads(node).size() + own, 1);
  if (node.op == Op::ExpertsDown)
    return RowChunks::equal(own, std::min(kExpertRows, rows_per_chunk(own)));
  return RowChunks::shrinking(own, team_.threads(), kChunksPerThread, kRowTile);
}

// What a chunk reads first; null: it reads nothing, or what it reads is not known yet.
const std::byte* Executor::first_weights(const Node& node, std::size_t chunk) const {
  const RowChunks chunks = weight_chunks(node);
  if (node.op == Op::ExpertsUp || chunk >= chunks.size()) return nullptr;
  const UnitRange own = part_of(node).own;
  const std::size_t first = own.begin + chunks[chunk].begin;
  if (node.op == Op::HeadProducts) return node.matrices[first].row(0);
  if (node.op == Op::ExpertsDown) return node.matrices[work_.routing.active[0]].row(first);
  if (node.op != Op::Heads) return node.matrices[0].row(first);
  const UnitRange kv = parts_.kv_heads(node);
  const auto [q, k, v] = node.projections();
  const bool query = chunk >= kv.size();
  const Matrix* const m = query ? q : k != nullptr ? k : v;
  const std::size_t head = query ? own.begin + chunk - kv.size() : kv.begin + chunk;
  return m == nullptr ? nullptr : m->row(head * (m == v ? node.heads.dim_v : node.heads.dim_k));
}

// What the seat reads after this chunk of the node, if nobody takes a chunk of another: the next
// chunk, or behind the last one of its own what it begins the next node with. After the last node
// comes the first of the next token.
const std::byte* Executor::weights_after(const Node& node, std::size_t chunk,
                                         unsigned worker) const {
  const std::size_t chunks = weight_chunks(node).size(), n = graph_.nodes.size();
  if (!team_.is_first_chunk(chunks, chunk + 1)) return first_weights(node, chunk + 1);
  for (std::size_t i = 1; i < n; ++i) {
    const Node& other = graph_.nodes[(index_of(node) + i) % n];
    if (other.matrices.empty() || other.op == Op::Embed) continue;
    return first_weights(other, team_.first_chunk(weight_chunks(other).size(), worker));
  }
  return nullptr;
}

}  // namespace cria
