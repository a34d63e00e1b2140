// The cost of compiling a constraint, counted and not timed, so that the limit is the same on every
// machine.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/constrain/constraint_error.h"

namespace cria {

/// Bytes of a schema, a grammar or an expression, at most.
inline constexpr std::size_t kMaxConstraintText = 256 << 10;

class Budget {
 public:
  static constexpr std::size_t kSteps = 20'000'000;

  explicit Budget(std::size_t steps = kSteps) : steps_left_(steps) {}

  /// Throws ConstraintError if no steps are left.
  void steps(std::size_t n = 1) {
    const bool enough = n <= steps_left_;
    steps_left_ = enough ? steps_left_ - n : 0;
    if (!enough) throw ConstraintError("costs too much to compile: too many steps", "");
  }
  [[nodiscard]] std::size_t steps_left() const { return steps_left_; }
  /// The same for bytes of memory that is kept.
  void bytes(std::size_t n) {
    bytes_ += n;
    if (bytes_ > kBytes) throw ConstraintError("costs too much to compile: more than 64 MiB", "");
  }

 private:
  friend class HeldBytes;
  static constexpr std::size_t kBytes = std::size_t{64} << 20;
  std::size_t steps_left_, bytes_ = 0;
};

/// Bytes that are given back on destruction; a copy takes the same amount again.
class HeldBytes {
 public:
  HeldBytes() = default;
  /// The budget must outlive it.
  HeldBytes(Budget& budget, std::size_t n) : budget_(&budget), n_(n) { budget.bytes(n); }
  HeldBytes(const HeldBytes& other) : budget_(other.budget_), n_(other.n_) {
    if (budget_ != nullptr) budget_->bytes(n_);
  }
  HeldBytes(HeldBytes&& other) noexcept : budget_(other.budget_), n_(std::exchange(other.n_, 0)) {}
  HeldBytes& operator=(HeldBytes other) noexcept {
    std::swap(budget_, other.budget_);
    std::swap(n_, other.n_);
    return *this;
  }
  ~HeldBytes() {
    if (budget_ != nullptr) budget_->bytes_ -= n_;
  }

 private:
  Budget* budget_ = nullptr;
  std::size_t n_ = 0;
};

// The one form of all constraints: an automaton over bytes with a stack. Rules are parts of it that
// call each other.

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
        silents;  ///< index of its first silent edge; the next node's follow
    bool ends;    ///< the rule may return here
  };

  std::vector<Node> nodes;  ///< and one more
  std::vector<Edge> edges;
  std::vector<Call> calls;
  std::vector<NodeId> silents;
  NodeId start = 0;
  std::vector<std::string> markers;  ///< symbol 256 is the first
  static constexpr std::size_t kMaxMarkers = 8;
  /// Stands for all control tokens that are not markers.
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
  /// True if the node can only return.
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
  /// Adds a text's bytes on new nodes; a silent edge if it is empty.
  void text(NodeId from, std::string_view text, NodeId to);
  /// A text that may be written in bytes or be one control token.
  void marker(NodeId from, const std::string& text, NodeId to);
  /// Adds an edge that reads only this control token. Returns its symbol.
  Symbol control(NodeId from, const std::string& text, NodeId to);
  /// Adds an edge for each byte; next(byte) is where it leads.
  template <class Next>
  void all_bytes(NodeId from, Next&& next) {
    for (int low = 0; low < 256;) {
      int high = low;
      while (high + 1 < 256 && next(high + 1) == next(low)) ++high;
      edge(from, static_cast<Symbol>(low), static_cast<Symbol>(high), next(low));
      low = high + 1;
    }
  }
  /// Adds edges for all control tokens but one.
  void other_controls(NodeId from, Symbol but, NodeId to);
  /// Adds any text, complete at `end` everywhere, until the marker or its control token leads to
  /// `marked`. Without `marked`, neither can follow. A marker "<[ID]>" is only a control token.
  /// may_be_empty: `from` becomes part of the text; else the text is not complete there.
  void text_until(NodeId from, const std::string& marker, std::optional<NodeId> marked, NodeId end,
                  bool may_be_empty = true);

  /// A rule that may call itself before it has read anything.
  [[nodiscard]] std::optional<RuleId> left_recursive() const;
  /// For each rule, true if any text leads from its start to its end.
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
