#include "engine/execute/graph_parts.h"

#include <algorithm>
#include <limits>
#include <optional>

namespace cria {
namespace {

constexpr std::size_t kNobody = std::numeric_limits<std::size_t>::max();

/// The values that are read by head: a rank that has computed a head's part needs no other one.
std::optional<ValueId> read_by_head(const Node& node) {
  if (node.op == Op::Attention || node.op == Op::HeadProducts) return node.in;
  if (node.op == Op::Heads && !node.heads.q_matrix) return node.heads.q;
  return std::nullopt;
}

/// Columns that a head has in what read_by_head() names.
std::size_t columns_read(const Graph& graph, const Node& node) {
  if (node.op == Op::HeadProducts) return node.products.in_stride;
  return node.op == Op::Heads ? node.heads.dim_k : graph.caches[node.cache].dim_k;
}

/// Whether what the node reads of a value are quantized forms alone.
bool reads_forms(const Node& node, ValueId id) {
  const bool product = node.op == Op::MatMul || node.op == Op::FeedForward ||
                       node.op == Op::ExpertsUp || node.op == Op::ExpertsDown ||
                       node.op == Op::Heads;
  const std::vector<ValueId> reads = node.reads();
  return product && node.in == id && std::ranges::count(reads, id) == 1 &&
         std::ranges::all_of(node.matrices,
                             [](const Matrix& m) { return m.kernel.act != ActType::F32; });
}

/// Two forms have fewer bytes than floats.
bool few(ActTypes forms) {
  return std::ranges::count_if(kQuantizedForms,
                               [forms](ActType type) { return forms.has(type); }) <= 2;
}

std::size_t values_per_block(ActType type) {
  if (type == ActType::BF16) return 2;
  Activations acts;
  acts.type = type;
  return acts.values_per_d();
}

class Divider {
 public:
  Divider(const Graph& graph, const Shares& shares, std::size_t rank)
      : graph_(graph), shares_(shares), rank_(rank), parts_(graph.nodes.size()) {}

  std::vector<NodePart> nodes() {
    for (std::size_t i = 0; i < parts_.size(); ++i) parts_[i] = whole(graph_.nodes[i]);
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
  NodePart whole(const Node& node) const {
    NodePart part;
    switch (node.op) {
      case Op::MatMul:
      case Op::FeedForward:
      case Op::ExpertsUp:
      case Op::ExpertsDown:
        part.own.end = graph_.values[node.out].width;
        break;
      case Op::Heads:
        part.own.end = node.heads.n_heads;
        part.width = node.heads.dim_k;
        break;
      case Op::Attention:
        part.own.end = node.attention.n_heads;
        part.width = graph_.caches[node.cache].dim_v;
        break;
      case Op::HeadProducts:
        part.own.end = node.products.n_heads;
        part.width = node.products.out_stride;
        break;
      default:  // of whole rows, and cheap
        break;
    }
    return part;
  }

  /// Small products whose gathering would take longer than they: of routers, of gates, of adapters'
  /// inner side.
  std::vector<bool> computed_alike() const {
    std::vector<bool> alike(parts_.size());
    for_each_read([&](std::size_t reader, std::size_t writer, bool) {
      const Node& node = graph_.nodes[reader];
      const ValueId out = graph_.nodes[writer].out;
      const bool low = std::ranges::any_of(
          node.matrices, [out](const Matrix& m) { return m.lora && m.lora->low == out; });
      const bool gate = node.op == Op::Gate && node.in == out;
      if (node.op == Op::Route || gate || low) alike[writer] = true;
    });
    return alike;
  }

  void cut(std::size_t index) {
    NodePart& part = parts_[index];
    if (part.own.end == 0) return;
    set_bounds(part, divide(part.own.end, together(graph_.nodes[index]), shares_));
  }

  void set_bounds(NodePart& part, std::vector<std::size_t> bounds) const {
    part.own = {bounds[rank_], bounds[rank_ + 1]};
    part.bounds = std::move(bounds);
  }

  /// Heads that share keys stay together as long as every rank gets some.
  std::size_t together(const Node& node) const {
    if (node.op == Op::MatMul || node.op == Op::FeedForward || node.op == Op::ExpertsUp ||
        node.op == Op::ExpertsDown)
      return kRowTile;
    std::size_t heads = 1, kv_heads = 1;
    if (node.op == Op::Heads) {
      heads = node.heads.n_heads;
      kv_heads = node.heads.n_kv_heads;
    } else if (node.op == Op::Attention) {
      heads = node.attention.n_heads;
      kv_heads = graph_.caches[node.cache].n_kv_heads;
    }
    return kv_heads >= shares_.size() ? heads / kv_heads : 1;
  }

  /// visit(reader, writer, by_head) for every node `reader` that reads what `writer`, which can be
  /// divided, wrote last.
  template <class Visit>
  void for_each_read(Visit&& visit) const {
    std::vector<std::size_t> writer(graph_.values.size(), kNobody);
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const Node& node = graph_.nodes[i];
      for (const ValueId id : node.reads())
        if (writer[id] != kNobody) visit(i, writer[id], read_by_head(node) == id);
      for (const ValueId id : node.writes())
        writer[id] = parts_[i].own.end != 0 || parts_[i].divided() ? i : kNobody;
    }
  }

  /// A product that is only read by head is divided as the heads are.
  void cut_as_heads(std::size_t writer, std::size_t reader) {
    if (graph_.nodes[writer].op != Op::MatMul || !parts_[writer].divided()) return;
    std::vector<std::size_t> bounds = parts_[reader].bounds;
    for (std::size_t& bound : bounds) bound *= columns_read(graph_, graph_.nodes[reader]);
    if (bounds.back() == parts_[writer].bounds.back())
      set_bounds(parts_[writer], std::move(bounds));
  }

  /// Nobody needs the floats of what only products of quantized values read. (Those that the last
  /// node reads are shown.)
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
    const std::size_t columns = columns_read(graph_, graph_.nodes[reader]);
    return std::ranges::equal(from.bounds, to.bounds, [&](std::size_t a, std::size_t b) {
      return a * from.width == b * columns;
    });
  }

  const Graph& graph_;
  const Shares& shares_;
  const std::size_t rank_;
  std::vector<NodePart> parts_;
};

/// The kv heads that the rank's query heads look at.
std::vector<UnitRange> cache_heads(const Graph& graph, const std::vector<NodePart>& nodes) {
  std::vector<UnitRange> caches(graph.caches.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (node.op != Op::Attention || nodes[i].own.size() == 0) continue;
    const CacheSpec& cache = graph.caches[node.cache];
    const std::size_t together =
        cache.latent ? node.attention.n_heads : heads_together(node.attention, cache);
    const UnitRange seen{nodes[i].own.begin / together,
                         (nodes[i].own.end + together - 1) / together};
    UnitRange& all = caches[node.cache];
    all = all.size() == 0 ? seen
                          : UnitRange{std::min(all.begin, seen.begin), std::max(all.end, seen.end)};
  }
  return caches;
}

}  // namespace

std::size_t heads_together(const AttentionSpec& attention, const CacheSpec& cache) {
  return attention.n_heads / (cache.latent ? attention.kv_groups : cache.n_kv_heads);
}

RankColumns::RankColumns(const NodePart& part, ActTypes forms, std::size_t rank)
    : all{part.bounds[rank] * part.width, part.bounds[rank + 1] * part.width},
      blocks{all.end, all.end} {
  std::size_t unit = 0;
  for (const ActType type : kQuantizedForms)
    if (forms.has(type)) unit = std::max(unit, values_per_block(type));
  if (unit == 0) return;
  const UnitRange whole{(all.begin + unit - 1) / unit * unit, all.end / unit * unit};
  if (whole.begin < whole.end) blocks = whole;
}

std::size_t RankColumns::bytes(ActTypes forms) const {
  std::size_t sum = (all.size() - blocks.size()) * sizeof(float);
  for (const ActType type : kQuantizedForms) {
    if (!forms.has(type)) continue;
    Activations acts;
    acts.type = type;
    acts.cols = blocks.size();
    sum += acts.cols * acts.value_bytes();
    if (type != ActType::BF16)
      sum += acts.d_stride() * sizeof *acts.d + acts.sum_stride() * sizeof *acts.sum;
  }
  return sum;
}

std::size_t gathered_bytes(const NodePart& part, ActTypes forms) {
  std::size_t sum = 0;
  for (std::size_t r = 0; r + 1 < part.bounds.size(); ++r)
    sum += RankColumns(part, forms, r).bytes(forms);
  return sum;
}

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
  const auto rows = [&](const Matrix& m, std::size_t begin, std::size_t end) {
    if (m.kernel.run != nullptr && begin < end) visit(rows_of(m, begin, end - begin).weight);
  };
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    const UnitRange own = nodes[i].own;
    if (!nodes[i].divided()) {
      for (const Matrix& m : node.matrices) rows(m, 0, m.weight.rows());
    } else if (node.op == Op::Heads) {
      const HeadsSpec& spec = node.heads;
      const auto [q, k, v] = node.projections();
      const UnitRange kv = kv_heads(node);
      if (q != nullptr) rows(*q, own.begin * spec.dim_k, own.end * spec.dim_k);
      if (k != nullptr) rows(*k, kv.begin * spec.dim_k, kv.end * spec.dim_k);
      if (v != nullptr) rows(*v, kv.begin * spec.dim_v, kv.end * spec.dim_v);
    } else if (node.op == Op::HeadProducts) {
      for (std::size_t head = own.begin; head < own.end; ++head)
        rows(node.matrices[head], 0, node.matrices[head].weight.rows());
    } else {
      for (const Matrix& m : node.matrices) rows(m, own.begin, own.end);
    }
  }
}

std::size_t GraphParts::weight_bytes(const Graph& graph) const {
  std::size_t sum = 0;
  for_each_weight(graph, [&sum](const TensorView& rows) { sum += rows.bytes; });
  return sum;
}

}  // namespace cria
