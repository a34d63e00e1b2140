// The one form of all constraints: an automaton over bytes with a stack. Rules are parts of it that
// call each other.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/constrain/budget.h"

namespace cria {

using NodeId = std::uint32_t;
using RuleId = std::uint32_t;
/// A byte, or from 256 on a marker: a text that may also be one control token.
using Symbol = std::uint16_t;

/// Immutable. What is in it can be completed: every node leads to its rule's end.
struct Automaton {
  struct Edge {
    Symbol low, high;
    NodeId to;
  };
  struct Call {
    NodeId start, after;
  };
  struct Node {
    std::uint32_t edges, calls,
        silents;  ///< where its own begin; those of the next node follow them
    bool ends;    ///< the rule may return here
  };

  std::vector<Node> nodes;  ///< and one more
  std::vector<Edge> edges;
  std::vector<Call> calls;
  std::vector<NodeId> silents;
  NodeId start = 0;
  std::vector<std::string> markers;  ///< symbol 256 is the first
  static constexpr std::size_t kMaxMarkers = 8;
  /// Stands for control tokens that are no marker.
  static constexpr Symbol kOtherControl = 256 + kMaxMarkers;
  static constexpr std::size_t kSymbols = kOtherControl + 1;
  /// Symbols of one class are on the same edges.
  std::array<std::uint16_t, kSymbols> class_of{};
  std::vector<Symbol> class_symbols;  ///< one of each class

  [[nodiscard]] std::span<const Edge> edges_of(NodeId n) const {
    return std::span(edges).subspan(nodes[n].edges, nodes[n + 1].edges - nodes[n].edges);
  }
  [[nodiscard]] std::span<const Call> calls_of(NodeId n) const {
    return std::span(calls).subspan(nodes[n].calls, nodes[n + 1].calls - nodes[n].calls);
  }
  [[nodiscard]] std::span<const NodeId> silents_of(NodeId n) const {
    return std::span(silents).subspan(nodes[n].silents, nodes[n + 1].silents - nodes[n].silents);
  }
  /// Bytes that it takes.
  [[nodiscard]] std::size_t memory() const {
    return sizeof *this + nodes.capacity() * sizeof(Node) + edges.capacity() * sizeof(Edge) +
           calls.capacity() * sizeof(Call) + silents.capacity() * sizeof(NodeId);
  }
  /// Whether all that is left for it is to return.
  [[nodiscard]] bool only_ends(NodeId n) const {
    return nodes[n].ends && edges_of(n).empty() && calls_of(n).empty() && silents_of(n).empty();
  }
};

class AutomatonBuilder {
 public:
  explicit AutomatonBuilder(Budget& budget) : budget_(budget) {}

  /// A rule is all that leads from its start to its end; no node belongs to two.
  RuleId rule();
  [[nodiscard]] NodeId start(RuleId rule) const { return rules_[rule].start; }
  [[nodiscard]] NodeId end(RuleId rule) const { return rules_[rule].end; }

  NodeId node();
  void edge(NodeId from, Symbol low, Symbol high, NodeId to);
  void silent(NodeId from, NodeId to);
  void call(NodeId from, RuleId rule, NodeId to);
  /// The bytes of a text, on nodes of their own; silent where it is empty.
  void text(NodeId from, std::string_view text, NodeId to);
  /// A text that may be written in bytes or be one control token.
  void marker(NodeId from, const std::string& text, NodeId to);
  /// That control token alone. Returns its symbol.
  Symbol control(NodeId from, const std::string& text, NodeId to);

  /// A rule that may call itself before it has read anything.
  [[nodiscard]] std::optional<RuleId> left_recursive() const;
  /// By rule: whether any text gets from its start to its end.
  [[nodiscard]] std::vector<bool> productive() const;
  /// Nothing where no text gets from the root's start to its end. No rule is left recursive.
  [[nodiscard]] std::optional<Automaton> finish(RuleId root) const;
  [[nodiscard]] Budget& budget() const { return budget_; }

 private:
  struct Rule {
    NodeId start, end;
  };
  struct Edge {
    NodeId from, to;
    Symbol low, high;
  };
  struct Silent {
    NodeId from, to;
  };
  struct Call {
    NodeId from, to;
    RuleId rule;
  };
  [[nodiscard]] std::vector<bool> useful_nodes() const;
  [[nodiscard]] std::vector<bool> returning_nodes() const;
  [[nodiscard]] std::vector<bool> empty_rules() const;
  [[nodiscard]] std::vector<std::vector<RuleId>> first_calls() const;

  Budget& budget_;
  std::vector<Rule> rules_;
  NodeId n_nodes_ = 0;
  std::vector<Edge> edges_;
  std::vector<Silent> silents_;
  std::vector<Call> calls_;
  std::vector<std::string> markers_;
};

}  // namespace cria
