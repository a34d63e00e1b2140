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

// Divides nodes in three steps. From the first node on: nodes with units by the shares, and those
// that follow them. From the last node on: where all readers need only some columns, the units that
// write these; other outputs are gathered. Then the forms that travel.
class Divider {
 public:
  Divider(const Graph& graph, const Shares& shares, std::size_t rank)
      : graph_(graph),
        shares_(shares),
        rank_(rank),
        parts_(graph.nodes.size()),
        needs_(graph.values.size()) {}

  std::vector<NodePart> nodes() {
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      parts_[i].division = graph_.nodes[i].facts.division;
      parts_[i].own = UnitRange{0, parts_[i].division.units};
    }
    if (shares_.size() == 1) return std::move(parts_);
    const std::vector<bool> alike = computed_alike();
    for_each_node([&](std::size_t i, const std::vector<std::size_t>& writers) {
      if (!alike[i]) cut(i, writers);
    });
    needs_[graph_.nodes.back().out].whole = true;
    if (graph_.hidden != kNoValue) needs_[graph_.hidden].whole = true;
    for (std::size_t i = parts_.size(); i-- > 0;) {
      settle(i);
      add_needs(i);
    }
    choose_forms();
    return std::move(parts_);
  }

 private:
  /// The columns of a value that nodes read before it is written again.
  struct Need {
    bool whole = false;
    std::vector<UnitRanges> columns;  ///< by rank; empty: no node reads the value

    [[nodiscard]] bool partial() const { return !whole && !columns.empty(); }
  };

  /// Finds products whose gathering would take longer than they do: of routers and of gates. Every
  /// rank computes them.
  std::vector<bool> computed_alike() const {
    std::vector<bool> alike(parts_.size());
    for_each_read([&](std::size_t reader, std::size_t writer) {
      const Node& node = graph_.nodes[reader];
      if (node.facts.small_input && node.in == graph_.nodes[writer].out) alike[writer] = true;
    });
    return alike;
  }

  /// visit(node, the last writer of each value before it, or kNobody)
  template <class Visit>
  void for_each_node(Visit&& visit) const {
    std::vector<std::size_t> writers(graph_.values.size(), kNobody);
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      visit(i, writers);
      for (const ValueId id : graph_.nodes[i].writes()) writers[id] = i;
    }
  }

  /// visit(reader, writer) for every value that a node reads.
  template <class Visit>
  void for_each_read(Visit&& visit) const {
    for_each_node([&](std::size_t i, const std::vector<std::size_t>& writers) {
      for (const ValueId id : graph_.nodes[i].reads())
        if (writers[id] != kNobody) visit(i, writers[id]);
    });
  }

  void cut(std::size_t index, const std::vector<std::size_t>& writers) {
    NodePart& part = parts_[index];
    const Division& d = part.division;
    if (d.of_rank == UnitsOfRank::All) return;
    if (d.of_rank == UnitsOfRank::Follows) {
      for (const UnitRead& read : graph_.nodes[index].facts.unit_reads)
        if (const std::size_t writer = writers[read.value];
            writer != kNobody && graph_.nodes[writer].out == read.value)
          follow(part, read, parts_[writer]);
      return;
    }
    const std::size_t together = d.groups >= shares_.size() ? d.together : 1;
    const std::vector<std::size_t> bounds = divide(d.units, together, shares_);
    std::vector<UnitRanges> units;
    for (std::size_t r = 0; r < shares_.size(); ++r)
      units.emplace_back(UnitRange{bounds[r], bounds[r + 1]});
    set_units(part, std::move(units));
  }

  /// Takes the units that read what a rank has of a value, if all ranks together have all units.
  void follow(NodePart& part, const UnitRead& read, const NodePart& writer) const {
    if (part.divided() || !writer.divided() || writer.division.of_rank == UnitsOfRank::Free) return;
    std::vector<UnitRanges> units;
    std::size_t sum = 0;
    for (const UnitRanges& theirs : writer.units) {
      const UnitRange columns = writer.columns(theirs.range());
      if (columns.begin % read.width != 0 || columns.end % read.width != 0) return;
      sum += units.emplace_back(UnitRange{columns.begin / read.width, columns.end / read.width})
                 .size();
      if (read.columns(units.back()) != UnitRanges(columns)) return;
    }
    if (sum == part.division.units) set_units(part, std::move(units));
  }

  void set_units(NodePart& part, std::vector<UnitRanges> units) const {
    part.own = units[rank_];
    part.units = std::move(units);
  }
  static void make_whole(NodePart& part) {
    part.own = UnitRange{0, part.division.units};
    part.units.clear();
  }

  /// Returns true if the node leaves some columns of its output as they are.
  [[nodiscard]] bool keeps_columns(std::size_t index) const {
    const Node& node = graph_.nodes[index];
    const Division& d = parts_[index].division;
    return d.of_rank != UnitsOfRank::All && node.facts.changes_out &&
           d.units * d.width != graph_.values[node.out].width;
  }

  /// Gives ranks the units that later nodes need, or gathers the node's output.
  void settle(std::size_t index) {
    NodePart& part = parts_[index];
    const std::vector<ValueId> writes = graph_.nodes[index].writes();
    const bool some = std::ranges::all_of(writes, [&](ValueId id) { return needs_[id].partial(); });
    if (part.division.of_rank >= UnitsOfRank::Free && some) {
      std::vector<UnitRanges> units(shares_.size());
      for (const ValueId id : writes)
        for (std::size_t r = 0; r < units.size(); ++r)
          units[r].add(writers_of(part.division, needs_[id].columns[r]));
      set_units(part, std::move(units));
    } else if (part.divided()) {
      const Need& need = needs_[graph_.nodes[index].out];
      part.gathered = !need.partial();
      for (std::size_t r = 0; !part.gathered && r < shares_.size(); ++r)
        part.gathered = !part.units[r].contain(writers_of(part.division, need.columns[r]));
    }
    if (part.gathered &&
        part.division.units * part.division.width != graph_.values[graph_.nodes[index].out].width) {
      make_whole(part);
      part.gathered = false;
    }
  }

  /// Returns the units that write some columns.
  static UnitRanges writers_of(const Division& d, const UnitRanges& columns) {
    UnitRanges units;
    for (const UnitRange& range : columns) {
      const std::size_t begin = std::max(range.begin, d.offset) - d.offset,
                        end = std::max(range.end, d.offset) - d.offset;
      units.add({begin / d.width, std::min((end + d.width - 1) / d.width, d.units)});
    }
    return units;
  }

  /// Adds what the node reads to the needs of values.
  void add_needs(std::size_t index) {
    const Node& node = graph_.nodes[index];
    const NodePart& part = parts_[index];
    const bool keeps = keeps_columns(index);
    for (const ValueId id : node.writes())
      if (!keeps) needs_[id] = {};
    for (const ValueId id : node.reads()) {
      Need& need = needs_[id];
      bool by_unit = false;
      for (const UnitRead& read : node.facts.unit_reads) {
        if (read.value != id || !part.divided()) continue;
        by_unit = true;
        need.columns.resize(shares_.size());
        for (std::size_t r = 0; r < shares_.size(); ++r)
          need.columns[r].add(read.columns(part.units[r]));
      }
      if (!by_unit && !(keeps && id == node.out)) need.whole = true;
    }
  }

  /// Sends quantized forms instead of floats if only products read them. (The input of the last
  /// node is also read as hidden states.)
  void choose_forms() {
    for (std::size_t i = 0; i + 1 < parts_.size(); ++i)
      if (parts_[i].gathered && few(graph_.nodes[i].acts)) parts_[i].forms = graph_.nodes[i].acts;
    for_each_read([this](std::size_t reader, std::size_t writer) {
      const Node& node = graph_.nodes[reader];
      if (reader + 1 == parts_.size() || !reads_forms(node, graph_.nodes[writer].out))
        parts_[writer].forms = {};
    });
  }

  const Graph& graph_;
  const Shares& shares_;
  const std::size_t rank_;
  std::vector<NodePart> parts_;
  std::vector<Need> needs_;  // by value
};

/// Returns, by cache, the KV heads that the rank's query heads read.
std::vector<UnitRange> cache_heads(const Graph& graph, const std::vector<NodePart>& nodes) {
  std::vector<UnitRange> caches(graph.caches.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const auto* const op = graph.nodes[i].as<AttentionOp>();
    if (op == nullptr || nodes[i].own.size() == 0) continue;
    const CacheSpec& cache = graph.caches[op->cache];
    const std::size_t together = cache.latent ? op->n_heads : op->heads_together(cache);
    const UnitRange own = nodes[i].own.range(),
                    seen{own.begin / together, (own.end + together - 1) / together};
    UnitRange& all = caches[op->cache];
    all = all.size() == 0 ? seen
                          : UnitRange{std::min(all.begin, seen.begin), std::max(all.end, seen.end)};
  }
  return caches;
}

}  // namespace

double NodePart::share(std::size_t rank) const {
  if (!divided()) return 1;
  return static_cast<double>(units[rank].size()) / static_cast<double>(division.units);
}

GraphParts GraphParts::of(const Graph& graph, const Shares& shares, std::size_t rank) {
  GraphParts parts;
  parts.nodes = Divider(graph, shares, rank).nodes();
  parts.caches = cache_heads(graph, parts.nodes);
  for (const UnitRange& heads : parts.caches) parts.held.heads.push_back(heads.size());
  parts.held.states.resize(graph.states.size());
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    if (const std::uint32_t state = graph.nodes[i].facts.state; state != kNoIndex)
      parts.held.states[state] = parts.nodes[i].own.size();
  return parts;
}

HeldUnits most_held(const Graph& graph, const Shares& shares) {
  HeldUnits most{std::vector<std::size_t>(graph.caches.size()),
                 std::vector<std::size_t>(graph.states.size())};
  const auto raise = [](std::vector<std::size_t>& to, const std::vector<std::size_t>& from) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = std::max(to[i], from[i]);
  };
  for (std::size_t rank = 0; rank < shares.size(); ++rank) {
    const HeldUnits held = GraphParts::of(graph, shares, rank).held;
    raise(most.heads, held.heads);
    raise(most.states, held.states);
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
