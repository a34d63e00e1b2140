#include "engine/constrain/automaton.h"

#include <algorithm>

namespace cria {
namespace {

// Indices of a list's items by a key of theirs below n.
class GroupedItems {
 public:
  template <class Items, class Key>
  GroupedItems(std::size_t n, const Items& items, Key&& key) : begin_(n + 1), order_(items.size()) {
    for (const auto& item : items) ++begin_[key(item) + 1];
    for (std::size_t i = 0; i < n; ++i) begin_[i + 1] += begin_[i];
    std::vector<std::uint32_t> at(begin_.begin(), begin_.end() - 1);
    for (std::size_t i = 0; i < items.size(); ++i)
      order_[at[key(items[i])]++] = static_cast<std::uint32_t>(i);
  }
  [[nodiscard]] std::span<const std::uint32_t> of(std::size_t key) const {
    return std::span(order_).subspan(begin_[key], begin_[key + 1] - begin_[key]);
  }

 private:
  std::vector<std::uint32_t> begin_, order_;
};

// Classes of symbols: cut where an edge begins or ends.
void classify(Automaton& automaton) {
  std::array<bool, Automaton::kSymbols + 1> cut{};
  cut[0] = cut[256] = true;
  for (std::size_t s = 256; s < Automaton::kSymbols; ++s) cut[s] = true;
  for (const Automaton::Edge& edge : automaton.edges) cut[edge.low] = cut[edge.high + 1U] = true;
  for (std::size_t s = 0; s < Automaton::kSymbols; ++s) {
    if (cut[s]) automaton.class_symbols.push_back(static_cast<Symbol>(s));
    automaton.class_of[s] = static_cast<std::uint16_t>(automaton.class_symbols.size() - 1);
  }
}

// Finds a node on a cycle, depth first. graph: successors by node.
std::optional<RuleId> on_a_cycle(const std::vector<std::vector<RuleId>>& graph) {
  enum : std::uint8_t { kNew, kOpen, kDone };
  struct Visit {
    RuleId node;
    std::size_t next;
  };
  std::vector<std::uint8_t> mark(graph.size(), kNew);
  std::vector<Visit> path;
  for (std::size_t first = 0; first < graph.size(); ++first) {
    if (mark[first] != kNew) continue;
    path.push_back({static_cast<RuleId>(first), 0});
    mark[first] = kOpen;
    while (!path.empty()) {
      Visit& visit = path.back();
      if (visit.next == graph[visit.node].size()) {
        mark[visit.node] = kDone;
        path.pop_back();
        continue;
      }
      const RuleId next = graph[visit.node][visit.next++];
      if (mark[next] == kOpen) return next;
      if (mark[next] == kDone) continue;
      mark[next] = kOpen;
      path.push_back({next, 0});
    }
  }
  return std::nullopt;
}

}  // namespace

RuleId AutomatonBuilder::rule() {
  budget_.steps(8);
  budget_.bytes(sizeof(Rule));
  const NodeId start = node();
  rules_.push_back({start, node()});
  return static_cast<RuleId>(rules_.size() - 1);
}

NodeId AutomatonBuilder::node() {
  budget_.steps(4);
  budget_.bytes(sizeof(Automaton::Node) + 8);
  return n_nodes_++;
}

void AutomatonBuilder::edge(NodeId from, Symbol low, Symbol high, NodeId to) {
  budget_.steps(4);
  budget_.bytes(sizeof(Edge) + sizeof(Automaton::Edge));
  edges_.push_back({from, to, low, high});
}

void AutomatonBuilder::silent(NodeId from, NodeId to) {
  budget_.steps(4);
  budget_.bytes(sizeof(Silent) + sizeof(NodeId));
  if (from != to) silents_.push_back({from, to});
}

void AutomatonBuilder::call(NodeId from, RuleId rule, NodeId to) {
  budget_.steps(4);
  budget_.bytes(sizeof(Call) + sizeof(Automaton::Call));
  calls_.push_back({from, to, rule});
}

void AutomatonBuilder::text(NodeId from, std::string_view text, NodeId to) {
  if (text.empty()) return silent(from, to);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const NodeId next = i + 1 == text.size() ? to : node();
    const auto byte = static_cast<unsigned char>(text[i]);
    edge(from, byte, byte, next);
    from = next;
  }
}

void AutomatonBuilder::marker(NodeId from, const std::string& marker, NodeId to) {
  text(from, marker, to);
  control(from, marker, to);
}

Symbol AutomatonBuilder::control(NodeId from, const std::string& marker, NodeId to) {
  auto found = std::ranges::find(markers_, marker);
  if (found == markers_.end()) found = markers_.insert(found, marker);
  const auto index = static_cast<std::size_t>(found - markers_.begin());
  if (index >= Automaton::kMaxMarkers)
    throw ConstraintError("more than 8 control tokens are not supported", "");
  const auto symbol = static_cast<Symbol>(256 + index);
  edge(from, symbol, symbol, to);
  return symbol;
}

void AutomatonBuilder::other_controls(NodeId from, Symbol but, NodeId to) {
  if (but > 256) edge(from, 256, static_cast<Symbol>(but - 1), to);
  edge(from, static_cast<Symbol>(but + 1), Automaton::kOtherControl, to);
}

// nodes[n]: the text so far ends with n bytes of the marker, and with no more of it.
void AutomatonBuilder::text_until(NodeId from, const std::string& marker,
                                  std::optional<NodeId> marked, NodeId end, bool may_be_empty) {
  const std::string text = marker.starts_with("<[") ? "" : marker;
  const NodeId last = marked ? *marked : node();  // or nowhere
  std::vector<NodeId> nodes{may_be_empty ? from : node()};
  while (nodes.size() < text.size()) nodes.push_back(node());
  nodes.push_back(last);
  const auto follow = [&](NodeId at, std::size_t n) {
    other_controls(at, control(at, marker, last), nodes[n]);
    all_bytes(at, [&](int byte) {
      const std::string seen = text.substr(0, n) + static_cast<char>(byte);
      std::size_t length = std::min(seen.size(), text.size());
      while (!seen.ends_with(text.substr(0, length))) --length;
      return nodes[length];
    });
  };
  if (!may_be_empty) follow(from, 0);
  for (std::size_t n = 0; n + 1 < nodes.size(); ++n) {
    silent(nodes[n], end);
    follow(nodes[n], n);
  }
}

// The rules that match the empty text. `reached`: nodes reachable from a rule's start without
// reading.
std::vector<bool> AutomatonBuilder::empty_rules() const {
  budget_.steps(4 * (n_nodes_ + calls_.size() + silents_.size()));
  const GroupedItems silents(n_nodes_, silents_, [](const Silent& s) { return s.from; });
  const GroupedItems calls(n_nodes_, calls_, [](const Call& c) { return c.from; });
  const GroupedItems callers(rules_.size(), calls_, [](const Call& c) { return c.rule; });
  std::vector<bool> empty(rules_.size()), reached(n_nodes_);
  std::vector<NodeId> work;
  const auto reach = [&](NodeId n) {
    if (!reached[n]) work.push_back(n);
    reached[n] = true;
  };
  std::vector<RuleId> rule_of_end(n_nodes_, static_cast<RuleId>(rules_.size()));
  for (std::size_t r = 0; r < rules_.size(); ++r) {
    rule_of_end[rules_[r].end] = static_cast<RuleId>(r);
    reach(rules_[r].start);
  }
  while (!work.empty()) {
    const NodeId n = work.back();
    work.pop_back();
    for (const std::uint32_t s : silents.of(n)) reach(silents_[s].to);
    for (const std::uint32_t c : calls.of(n))
      if (empty[calls_[c].rule]) reach(calls_[c].to);
    const RuleId ended = rule_of_end[n];
    if (ended == rules_.size() || empty[ended]) continue;
    empty[ended] = true;
    for (const std::uint32_t c : callers.of(ended))
      if (reached[calls_[c].from]) reach(calls_[c].to);
  }
  return empty;
}

// Returns, for each rule, the rules that it may call before it has read anything. Cycles within a
// rule are loops, not recursion.
std::vector<std::vector<RuleId>> AutomatonBuilder::first_calls() const {
  const std::vector<bool> empty = empty_rules();
  const GroupedItems silents(n_nodes_, silents_, [](const Silent& s) { return s.from; });
  const GroupedItems calls(n_nodes_, calls_, [](const Call& c) { return c.from; });
  std::vector<std::vector<RuleId>> called(rules_.size());
  std::vector<bool> seen(n_nodes_);
  for (std::size_t r = 0; r < rules_.size(); ++r) {
    std::vector<NodeId> nodes{rules_[r].start};  // without reading; those from i on are pending
    seen[rules_[r].start] = true;
    const auto see = [&](NodeId n) {
      if (!seen[n]) nodes.push_back(n);
      seen[n] = true;
    };
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const NodeId n = nodes[i];
      budget_.steps(1 + calls.of(n).size());
      for (const std::uint32_t s : silents.of(n)) see(silents_[s].to);
      for (const std::uint32_t c : calls.of(n)) {
        called[r].push_back(calls_[c].rule);
        if (empty[calls_[c].rule]) see(calls_[c].to);
      }
    }
    for (const NodeId n : nodes) seen[n] = false;
  }
  return called;
}

std::optional<RuleId> AutomatonBuilder::left_recursive() const { return on_a_cycle(first_calls()); }

// The nodes from which their rule's end is reachable, found backwards from the ends.
std::vector<bool> AutomatonBuilder::useful_nodes() const {
  budget_.steps(4 * (n_nodes_ + edges_.size() + calls_.size() + silents_.size()));
  const GroupedItems edges(n_nodes_, edges_, [](const Edge& e) { return e.to; });
  const GroupedItems silents(n_nodes_, silents_, [](const Silent& s) { return s.to; });
  const GroupedItems calls(n_nodes_, calls_, [](const Call& c) { return c.to; });
  const GroupedItems callers(rules_.size(), calls_, [](const Call& c) { return c.rule; });
  const GroupedItems started(n_nodes_, rules_, [](const Rule& r) { return r.start; });
  std::vector<bool> useful(n_nodes_);
  std::vector<NodeId> work;
  const auto use = [&](NodeId n) {
    if (!useful[n]) work.push_back(n);
    useful[n] = true;
  };
  for (const Rule& rule : rules_) use(rule.end);
  while (!work.empty()) {
    const NodeId n = work.back();
    work.pop_back();
    for (const std::uint32_t e : edges.of(n)) use(edges_[e].from);
    for (const std::uint32_t s : silents.of(n)) use(silents_[s].from);
    for (const std::uint32_t c : calls.of(n))
      if (useful[rules_[calls_[c].rule].start]) use(calls_[c].from);
    for (const std::uint32_t r : started.of(n))
      for (const std::uint32_t c : callers.of(r))
        if (useful[calls_[c].to]) use(calls_[c].from);
  }
  return useful;
}

std::vector<bool> AutomatonBuilder::productive() const {
  const std::vector<bool> useful = useful_nodes();
  std::vector<bool> out;
  for (const Rule& rule : rules_) out.push_back(useful[rule.start]);
  return out;
}

// The nodes that can only return: ends of rules, and nodes that only lead there without reading.
std::vector<bool> AutomatonBuilder::returning_nodes() const {
  budget_.steps(4 * (n_nodes_ + edges_.size() + calls_.size() + silents_.size()));
  const GroupedItems silents(n_nodes_, silents_, [](const Silent& s) { return s.to; });
  std::vector<std::size_t> ways(n_nodes_);  // known ways that do not return
  for (const Edge& e : edges_) ++ways[e.from];
  for (const Call& c : calls_) ++ways[c.from];
  for (const Silent& s : silents_) ++ways[s.from];
  std::vector<bool> returning(n_nodes_);
  std::vector<NodeId> work;
  const auto note = [&](NodeId n) {
    if (!returning[n]) work.push_back(n);
    returning[n] = true;
  };
  for (const Rule& rule : rules_)
    if (ways[rule.end] == 0) note(rule.end);
  while (!work.empty()) {
    const NodeId n = work.back();
    work.pop_back();
    for (const std::uint32_t s : silents.of(n))
      if (--ways[silents_[s].from] == 0) note(silents_[s].from);
  }
  return returning;
}

std::optional<Automaton> AutomatonBuilder::finish(RuleId root) const {
  const std::vector<bool> useful = useful_nodes();
  if (!useful[rules_[root].start]) return std::nullopt;
  Automaton out;
  out.start = rules_[root].start;
  out.markers = markers_;
  const GroupedItems edges(n_nodes_, edges_, [](const Edge& e) { return e.from; });
  const GroupedItems silents(n_nodes_, silents_, [](const Silent& s) { return s.from; });
  const GroupedItems calls(n_nodes_, calls_, [](const Call& c) { return c.from; });
  const std::vector<bool> returning = returning_nodes();
  std::vector<bool> ends = returning;
  for (const Rule& rule : rules_) ends[rule.end] = true;
  const auto size = [](const auto& list) { return static_cast<std::uint32_t>(list.size()); };
  out.nodes.reserve(n_nodes_ + 1);
  for (NodeId n = 0; n < n_nodes_; ++n) {
    out.nodes.push_back({size(out.edges), size(out.calls), size(out.silents), ends[n]});
    for (const std::uint32_t e : edges.of(n))
      if (useful[edges_[e].to]) out.edges.push_back({edges_[e].low, edges_[e].high, edges_[e].to});
    for (const std::uint32_t c : calls.of(n)) {
      const NodeId start = rules_[calls_[c].rule].start;
      if (useful[start] && useful[calls_[c].to]) out.calls.push_back({start, calls_[c].to});
    }
    if (returning[n]) continue;  // at once, so that a call before it needs no place on the stack
    for (const std::uint32_t s : silents.of(n))
      if (useful[silents_[s].to]) out.silents.push_back(silents_[s].to);
  }
  out.nodes.push_back({size(out.edges), size(out.calls), size(out.silents), false});
  classify(out);
  return out;
}

}  // namespace cria
