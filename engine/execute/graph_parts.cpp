#include "engine/execute/graph_parts.h"

#include <algorithm>
#include <limits>

namespace cria {
namespace {

constexpr std::size_t kNobody = std::numeric_limits<std::size_t>::max();

/// Returns true if the node reads a value in quantized forms only.
bool reads_forms(const Node& node, ValueId id) {
  const std::vector<ValueId> reads = node.reads();
  return !node.matrices.empty() && node.in == id && std::ranges::count(reads, id) == 1 &&
         !node.facts.quantizes_input && std::ranges::all_of(node.matrices, [](const Matrix& m) {
           return m.kernel.act != ActType::F32;
         });
}

/// Returns true if the forms have fewer bytes than floats: there are at most two.
bool few(ActTypes forms) {
  return std::ranges::count_if(kQuantizedForms,
                               [forms](ActType type) { return forms.has(type); }) <= 2;
}

class Divider {
 public:
  Divider(const Graph& graph, const Shares& shares, std::size_t rank)
      : graph_(graph), shares_(shares), rank_(rank), parts_(graph.nodes.size()) {}

  std::vector<NodePart> nodes() {
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      parts_[i].own.end = graph_.nodes[i].facts.division.units;
      parts_[i].width = graph_.nodes[i].facts.division.width;
    }
    if (shares_.size() == 1) return std::move(parts_);
    const std::vector<bool> alike = computed_alike();
    for (std::size_t i = 0; i < parts_.size(); ++i)
      if (!alike[i]) cut(i);
    for_each_read([this](std::size_t reader, std::size_t writer, bool by_head) {
      if (by_head) cut_as_heads(writer, reader);
    });
    for_each_read([this](std::size_t reader, std::size_t writer, bool by_head) {
      if (parts_[writer].divided() && !(by_head && fits(writer, reader)))
        parts_[writer].gathered = true;
    });
    parts_.back().gathered = parts_.back().divided();
    choose_forms();
    return std::move(parts_);
  }

 private:
  /// Finds products whose gathering would take longer than they do: of routers, of gates, and of
  /// adapters' inner sides. Every rank computes them.
  std::vector<bool> computed_alike() const {
    std::vector<bool> alike(parts_.size());
    for_each_read([&](std::size_t reader, std::size_t writer, bool) {
      const Node& node = graph_.nodes[reader];
      const ValueId out = graph_.nodes[writer].out;
      const bool low = std::ranges::any_of(
          node.matrices, [out](const Matrix& m) { return m.lora && m.lora->low == out; });
      if (low || (node.facts.small_input && node.in == out)) alike[writer] = true;
    });
    return alike;
  }

  void cut(std::size_t index) {
    const Division& division = graph_.nodes[index].facts.division;
    const std::size_t together = division.groups >= shares_.size() ? division.together : 1;
    if (division.units != 0) set_bounds(parts_[index], divide(division.units, together, shares_));
  }

  void set_bounds(NodePart& part, std::vector<std::size_t> bounds) const {
    part.own = {bounds[rank_], bounds[rank_ + 1]};
    part.bounds = std::move(bounds);
  }

  /// Visits every node `reader` that reads what `writer`, which can be divided, wrote last.
  template <class Visit>
  void for_each_read(Visit&& visit) const {
    std::vector<std::size_t> writer(graph_.values.size(), kNobody);
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const Node& node = graph_.nodes[i];
      for (const ValueId id : node.reads())
        if (writer[id] != kNobody) visit(i, writer[id], node.facts.head_input == id);
      for (const ValueId id : node.writes())
        writer[id] = parts_[i].own.end != 0 || parts_[i].divided() ? i : kNobody;
    }
  }

  /// A product that is only read by head is divided as the heads are.
  void cut_as_heads(std::size_t writer, std::size_t reader) {
    if (graph_.nodes[writer].as<MatMulOp>() == nullptr || !parts_[writer].divided()) return;
    std::vector<std::size_t> bounds = parts_[reader].bounds;
    for (std::size_t& bound : bounds) bound *= graph_.nodes[reader].facts.head_columns;
    if (bounds.back() == parts_[writer].bounds.back())
      set_bounds(parts_[writer], std::move(bounds));
  }

  /// Sends quantized forms instead of floats if only products read them. (The input of the last
  /// node is also read as hidden states.)
  void choose_forms() {
    for (std::size_t i = 0; i + 1 < parts_.size(); ++i)
      if (parts_[i].gathered && few(graph_.nodes[i].acts)) parts_[i].forms = graph_.nodes[i].acts;
    for_each_read([this](std::size_t reader, std::size_t writer, bool) {
      const Node& node = graph_.nodes[reader];
      if (reader + 1 == parts_.size() || !reads_forms(node, graph_.nodes[writer].out))
        parts_[writer].forms = {};
    });
  }

  bool fits(std::size_t writer, std::size_t reader) const {
    const NodePart &from = parts_[writer], &to = parts_[reader];
    const std::size_t columns = graph_.nodes[reader].facts.head_columns;
    return std::ranges::equal(from.bounds, to.bounds, [&](std::size_t a, std::size_t b) {
      return a * from.width == b * columns;
    });
  }

  const Graph& graph_;
  const Shares& shares_;
  const std::size_t rank_;
  std::vector<NodePart> parts_;
};

/// Returns, by cache, the KV heads that the rank's query heads read.
std::vector<UnitRange> cache_heads(const Graph& graph, const std::vector<NodePart>& nodes) {
  std::vector<UnitRange> caches(graph.caches.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const auto* const op = graph.nodes[i].as<AttentionOp>();
    if (op == nullptr || nodes[i].own.size() == 0) continue;
    const CacheSpec& cache = graph.caches[op->cache];
    const std::size_t together = cache.latent ? op->n_heads : op->heads_together(cache);
    const UnitRange seen{nodes[i].own.begin / together,
                         (nodes[i].own.end + together - 1) / together};
    UnitRange& all = caches[op->cache];
    all = all.size() == 0 ? seen
                          : UnitRange{std::min(all.begin, seen.begin), std::max(all.end, seen.end)};
  }
  return caches;
}

}  // namespace

GraphParts GraphParts::of(const Graph& graph, const Shares& shares, std::size_t rank) {
  GraphParts parts;
  parts.nodes = Divider(graph, shares, rank).nodes();
  parts.caches = cache_heads(graph, parts.nodes);
  return parts;
}

std::vector<std::size_t> GraphParts::head_counts() const {
  std::vector<std::size_t> counts;
  for (const UnitRange& heads : caches) counts.push_back(heads.size());
  return counts;
}

std::vector<std::size_t> most_heads(const Graph& graph, const Shares& shares) {
  std::vector<std::size_t> most(graph.caches.size(), 0);
  for (std::size_t rank = 0; rank < shares.size(); ++rank) {
    const std::vector<std::size_t> heads = GraphParts::of(graph, shares, rank).head_counts();
    for (std::size_t i = 0; i < most.size(); ++i) most[i] = std::max(most[i], heads[i]);
  }
  return most;
}

void GraphParts::for_each_weight(const Graph& graph,
                                 const std::function<void(const TensorView& rows)>& visit) const {
  const RowsVisitor rows = [&](const Matrix& m, std::size_t begin, std::size_t end) {
    if (m.multiplies() && begin < end) visit(rows_of(m, begin, end - begin).weight);
  };
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (!nodes[i].divided()) {
      for (const Matrix& m : node.matrices) rows(m, 0, m.weight.rows());
      continue;
    }
    const auto* const heads = node.as<HeadsOp>();
    const UnitRange kv = heads == nullptr ? UnitRange{} : kv_heads(*heads);
    node.visit([&](const auto& o) { o.own_rows(node, nodes[i].own, kv, rows); });
  }
}

std::size_t GraphParts::weight_bytes(const Graph& graph) const {
  std::size_t sum = 0;
  for_each_weight(graph, [&sum](const TensorView& rows) { sum += rows.bytes; });
  return sum;
}

}  // namespace cria
