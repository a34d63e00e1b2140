// Runs of an automaton, made deterministic as they are met. A run's state is a set of stacks: of
// nodes, each with the set of stacks below it. Equal sets are the same number.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/constrain/automaton.h"

namespace cria {

/// Not for several threads at once.
class Runs {
 public:
  /// A set of stacks. kDead is the empty one.
  using State = std::uint32_t;
  static constexpr State kDead = 0;

  /// The automaton must outlive it.
  explicit Runs(const Automaton& automaton);

  [[nodiscard]] State start() const { return start_; }
  /// After one more symbol, by its class.
  State next(State state, std::uint16_t symbol_class) {
    const std::uint32_t row = sets_[state].row;
    if (row != kNoRow) {
      const State known = rows_[row * n_classes_ + symbol_class];
      if (known != kUnknown) return known;
    }
    return compute(state, symbol_class);
  }
  State next(State state, std::string_view bytes);
  /// True if the text is complete / if nothing can follow it.
  [[nodiscard]] bool whole(State state) const { return sets_[state].whole; }
  [[nodiscard]] bool finished(State state) const {
    return sets_[state].whole && sets_[state].count == 1;
  }
  /// The only byte that can follow an incomplete text, or -1.
  [[nodiscard]] int only_byte(State state);

  /// Calls it with the nodes on top of its stacks.
  template <class F>
  void for_nodes(State state, F&& f) const {
    const Set& set = sets_[state];
    for (std::uint32_t i = 0; i < set.count; ++i)
      if (const NodeId node = entries_[set.first + i].node; node != kBottom) f(node);
  }

  [[nodiscard]] const Automaton& automaton() const { return automaton_; }
  /// Bytes in use.
  [[nodiscard]] std::size_t memory() const;
  /// Allows further steps, up to the initial number (a fraction of a second). Finding states
  /// without steps left throws ConstraintError: a very ambiguous grammar must not delay other
  /// answers.
  void allow_steps(std::size_t n);
  /// Forgets all but these states, and gives them their new numbers. Not within a trial.
  void keep_only(std::span<State* const> states);

  /// Finds states with steps of its own while it lives, and restores everything on destruction:
  /// trying what may follow does not change later results. One at a time.
  class Trial {
   public:
    Trial(Runs& runs, std::size_t steps);
    ~Trial();
    Trial(const Trial&) = delete;
    Trial& operator=(const Trial&) = delete;

   private:
    friend class Runs;
    Runs& runs_;
    const std::size_t steps_, entries_, sets_, rows_;  // before it
    std::vector<std::size_t> slots_;                   // hash slots of the table
    std::vector<std::uint64_t> unions_;
    std::vector<std::pair<State, std::uint16_t>> nexts_;
  };

 private:
  struct Entry {
    NodeId node;  // kBottom: below the first rule
    State below;
    bool operator==(const Entry&) const = default;
    auto operator<=>(const Entry&) const = default;
  };
  struct Set {
    std::uint32_t first, count;
    std::uint32_t row;  // row of successors, or kNoRow
    bool whole;
  };
  static constexpr NodeId kBottom = 0xFFFFFFFF;
  static constexpr std::uint32_t kNoRow = 0xFFFFFFFF;
  static constexpr State kUnknown = 0xFFFFFFFF;

  static constexpr std::size_t kSteps = 10'000'000;
  static constexpr std::size_t kDeepest = 4096;  // limit for stacks that are merged

  void clear();
  void spend(std::size_t n);
  State compute(State state, std::uint16_t symbol_class);
  State intern(std::vector<Entry>& entries);
  State unite(State a, State b, std::size_t depth = 0);
  State merged(State a, State b, std::size_t depth);
  void add(NodeId node, State below);
  void visit(NodeId node, State below);
  State close();
  void grow_table();
  State copy(const Runs& from, State state, std::vector<State>& known);

  const Automaton& automaton_;
  std::size_t n_classes_;
  std::vector<Entry> entries_;
  std::vector<Set> sets_;
  std::vector<State> rows_;
  std::vector<State> table_;                         // table of hashes; kDead: free
  std::unordered_map<std::uint64_t, State> united_;  // by both sets
  State bottom_ = kDead, start_ = kDead;
  std::size_t steps_ = kSteps;
  Trial* trial_ = nullptr;
  // The closure under construction:
  std::vector<State> below_;  // by node
  std::vector<bool> member_;  // by node
  std::vector<NodeId> members_, work_;
  bool at_bottom_ = false;
};

}  // namespace cria
