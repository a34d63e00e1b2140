#include "engine/constrain/runs.h"

#include <algorithm>
#include <utility>

#include "engine/constrain/constraint_error.h"

namespace cria {
namespace {

[[noreturn]] void refuse_ways() {
  throw ConstraintError("the text can be read in too many ways to be followed", "");
}

}  // namespace

Runs::Runs(const Automaton& automaton)
    : automaton_(automaton),
      n_classes_(automaton.class_symbols.size()),
      below_(automaton.nodes.size()),
      member_(automaton.nodes.size()) {
  clear();
}

void Runs::clear() {
  entries_.clear();
  sets_.assign(1, {0, 0, kNoRow, false});
  rows_.clear();
  united_.clear();
  table_.assign(1024, kDead);
  std::vector<Entry> bottom{{kBottom, kDead}};
  bottom_ = intern(bottom);
  add(automaton_.start, bottom_);
  start_ = close();
}

void Runs::allow_steps(std::size_t n) { steps_ = std::min(kSteps, steps_ + n); }

// Throws if the steps are used up: discards the closure begun so far.
void Runs::spend(std::size_t n) {
  if (n <= steps_) {
    steps_ -= n;
    return;
  }
  for (const NodeId node : members_) member_[node] = false;
  members_.clear();
  work_.clear();
  at_bottom_ = false;
  refuse_ways();
}

Runs::State Runs::next(State state, std::string_view bytes) {
  for (const char byte : bytes) {
    if (state == kDead) break;
    state = next(state, automaton_.class_of[static_cast<unsigned char>(byte)]);
  }
  return state;
}

int Runs::only_byte(State state) {
  const Set& set = sets_[state];
  if (set.whole) return -1;
  spend(set.count);
  int only = -1;
  for (std::uint32_t i = 0; i < set.count; ++i) {
    for (const Automaton::Edge& edge : automaton_.edges_of(entries_[set.first + i].node)) {
      if (edge.low >= 256) continue;
      if (edge.low != edge.high || (only >= 0 && only != edge.low)) return -1;
      only = edge.low;
    }
  }
  return only;
}

Runs::State Runs::compute(State state, std::uint16_t symbol_class) {
  const Symbol symbol = automaton_.class_symbols[symbol_class];
  const Set set = sets_[state];
  spend(set.count);
  for (std::uint32_t i = 0; i < set.count; ++i) {
    const Entry entry = entries_[set.first + i];
    if (entry.node == kBottom) continue;
    for (const Automaton::Edge& edge : automaton_.edges_of(entry.node))
      if (edge.low <= symbol && symbol <= edge.high) add(edge.to, entry.below);
  }
  const State next = close();
  if (sets_[state].row == kNoRow) {
    sets_[state].row = static_cast<std::uint32_t>(rows_.size() / n_classes_);
    rows_.resize(rows_.size() + n_classes_, kUnknown);
  }
  if (trial_ != nullptr) trial_->nexts_.emplace_back(state, symbol_class);
  return rows_[sets_[state].row * n_classes_ + symbol_class] = next;
}

// A node of the closure, or one more set of stacks below it.
void Runs::add(NodeId node, State below) {
  spend(1);
  if (!member_[node]) {
    member_[node] = true;
    members_.push_back(node);
    below_[node] = below;
  } else {
    const State both = unite(below_[node], below);
    if (both == below_[node]) return;
    below_[node] = both;
  }
  work_.push_back(node);
}

void Runs::visit(NodeId node, State below) {
  for (const NodeId to : automaton_.silents_of(node)) add(to, below);
  for (const Automaton::Call& call : automaton_.calls_of(node)) {
    if (automaton_.only_ends(call.after)) {  // stacks of right recursion stay flat
      add(call.start, below);
      continue;
    }
    std::vector<Entry> frame{{call.after, below}};
    add(call.start, intern(frame));
  }
  if (!automaton_.nodes[node].ends) return;
  const Set set = sets_[below];
  for (std::uint32_t i = 0; i < set.count; ++i) {
    const Entry entry = entries_[set.first + i];
    if (entry.node == kBottom)
      at_bottom_ = true;
    else
      add(entry.node, entry.below);
  }
}

// Completes the closure that add() began: all nodes reachable without reading. Nodes that read
// nothing are omitted.
Runs::State Runs::close() {
  while (!work_.empty()) {
    const NodeId node = work_.back();
    work_.pop_back();
    visit(node, below_[node]);
  }
  std::vector<Entry> entries;
  for (const NodeId node : members_) {
    if (!automaton_.edges_of(node).empty()) entries.push_back({node, below_[node]});
    member_[node] = false;
  }
  members_.clear();
  if (std::exchange(at_bottom_, false)) entries.push_back({kBottom, kDead});
  return intern(entries);
}

Runs::State Runs::unite(State a, State b, std::size_t depth) {
  if (a == b || b == kDead) return a;
  if (a == kDead) return b;
  const std::uint64_t key = std::uint64_t{std::min(a, b)} << 32 | std::max(a, b);
  if (const auto known = united_.find(key); known != united_.end()) return known->second;
  const State both = united_[key] = merged(a, b, depth);
  if (trial_ != nullptr) trial_->unions_.push_back(key);
  return both;
}

Runs::State Runs::merged(State a, State b, std::size_t depth) {
  if (depth == kDeepest) spend(kSteps + 1);
  std::vector<Entry> merged;
  const Set left = sets_[a], right = sets_[b];
  constexpr std::size_t kSort =
      4;  // steps that an entry of a new set costs: it is sorted, and sought
  spend(kSort * (std::size_t{left.count} + right.count));
  std::uint32_t i = 0, j = 0;
  while (i < left.count || j < right.count) {
    const Entry* const x = i < left.count ? &entries_[left.first + i] : nullptr;
    const Entry* const y = j < right.count ? &entries_[right.first + j] : nullptr;
    if (x != nullptr && y != nullptr && x->node == y->node) {
      const Entry l = *x, r = *y;
      merged.push_back({l.node, unite(l.below, r.below, depth + 1)});
      ++i, ++j;
    } else if (y == nullptr || (x != nullptr && x->node < y->node)) {
      merged.push_back(*x), ++i;
    } else {
      merged.push_back(*y), ++j;
    }
  }
  return intern(merged);
}

// Nodes in it are different.
Runs::State Runs::intern(std::vector<Entry>& entries) {
  if (entries.empty()) return kDead;
  std::ranges::sort(entries);
  std::uint64_t hash = entries.size();
  for (const Entry& e : entries) {
    hash = (hash ^ (std::uint64_t{e.node} << 32 | e.below)) * 0x9E3779B97F4A7C15U;
    hash ^= hash >> 29;
  }
  if (2 * sets_.size() > table_.size()) {
    if (trial_ != nullptr) spend(kSteps + 1);  // its sets could not be taken out of a new table
    grow_table();
  }
  std::size_t at = hash & (table_.size() - 1);
  for (; table_[at] != kDead; at = (at + 1) & (table_.size() - 1)) {
    const Set& set = sets_[table_[at]];
    if (set.count == entries.size() &&
        std::equal(entries.begin(), entries.end(), entries_.begin() + set.first))
      return table_[at];
  }
  const auto id = static_cast<State>(sets_.size());
  sets_.push_back({static_cast<std::uint32_t>(entries_.size()),
                   static_cast<std::uint32_t>(entries.size()), kNoRow,
                   entries.back().node == kBottom});
  entries_.insert(entries_.end(), entries.begin(), entries.end());
  if (trial_ != nullptr) trial_->slots_.push_back(at);
  return table_[at] = id;
}

void Runs::grow_table() {
  table_.assign(2 * table_.size(), kDead);
  for (State id = 1; id < sets_.size(); ++id) {
    const Set& set = sets_[id];
    std::uint64_t hash = set.count;
    for (std::uint32_t i = 0; i < set.count; ++i) {
      const Entry& e = entries_[set.first + i];
      hash = (hash ^ (std::uint64_t{e.node} << 32 | e.below)) * 0x9E3779B97F4A7C15U;
      hash ^= hash >> 29;
    }
    std::size_t at = hash & (table_.size() - 1);
    while (table_[at] != kDead) at = (at + 1) & (table_.size() - 1);
    table_[at] = id;
  }
}

std::size_t Runs::memory() const {
  return entries_.size() * sizeof(Entry) + sets_.size() * sizeof(Set) +
         (rows_.size() + table_.size()) * sizeof(State) +
         united_.size() * 48;  // about, with its pointers
}

// Sets below a set are older than it: in ascending order all that a set needs is there.
Runs::State Runs::copy(const Runs& from, State state, std::vector<State>& known) {
  std::vector<State> pending{state};
  while (!pending.empty()) {
    const State next = pending.back();
    if (next == kDead || known[next] != kDead) {
      pending.pop_back();
      continue;
    }
    const std::size_t before = pending.size();
    std::vector<Entry> entries;
    const Set& set = from.sets_[next];
    for (std::uint32_t i = 0; i < set.count; ++i) {
      const Entry& e = from.entries_[set.first + i];
      if (e.below != kDead && known[e.below] == kDead) pending.push_back(e.below);
      entries.push_back({e.node, known[e.below]});
    }
    if (pending.size() != before) continue;
    known[next] = intern(entries);
    pending.pop_back();
  }
  return known[state];
}

void Runs::keep_only(std::span<State* const> states) {
  Runs fresh(automaton_);
  std::vector<State> known(sets_.size(), kDead);
  for (State* const state : states) *state = fresh.copy(*this, *state, known);
  entries_.swap(fresh.entries_);
  sets_.swap(fresh.sets_);
  rows_.swap(fresh.rows_);
  table_.swap(fresh.table_);
  united_.clear();
  bottom_ = fresh.bottom_;
  start_ = fresh.start_;
}

Runs::Trial::Trial(Runs& runs, std::size_t steps)
    : runs_(runs),
      steps_(std::exchange(runs.steps_, steps)),
      entries_(runs.entries_.size()),
      sets_(runs.sets_.size()),
      rows_(runs.rows_.size()) {
  runs_.trial_ = this;
}

Runs::Trial::~Trial() {
  for (const std::size_t slot : slots_) runs_.table_[slot] = kDead;
  for (const std::uint64_t key : unions_) runs_.united_.erase(key);
  for (const auto& [state, symbol_class] : nexts_) {
    std::uint32_t& row = runs_.sets_[state].row;
    const std::size_t begin = row * runs_.n_classes_;
    if (begin < rows_)
      runs_.rows_[begin + symbol_class] = kUnknown;
    else
      row = kNoRow;
  }
  runs_.entries_.resize(entries_);
  runs_.sets_.resize(sets_);
  runs_.rows_.resize(rows_);
  runs_.steps_ = steps_;
  runs_.trial_ = nullptr;
}

}  // namespace cria
