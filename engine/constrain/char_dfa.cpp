#include "engine/constrain/code_points.h"

#include <algorithm>
#include <map>
#include <optional>

#include "model/file/utf8.h"

namespace cria {
namespace {

// Counts the memory of a state.
void count_state(const CharDfa::State& state, Budget& budget) {
  budget.bytes(sizeof state + state.edges.size() * sizeof(CharDfa::Edge));
}

// Length of the longest text; nullopt if it is unlimited.
std::optional<std::size_t> longest_text(const CharDfa& dfa) {
  std::vector<std::size_t> incoming(dfa.states.size()), depth(dfa.states.size());
  for (const auto& state : dfa.states)
    for (const auto& edge : state.edges) ++incoming[edge.to];
  if (dfa.states.empty() || incoming[0] != 0) return std::nullopt;
  std::vector<std::uint32_t> work{0};
  std::size_t done = 0, longest = 0;
  while (!work.empty()) {
    const std::uint32_t s = work.back();
    work.pop_back();
    ++done;
    longest = std::max(longest, depth[s]);
    for (const auto& edge : dfa.states[s].edges) {
      depth[edge.to] = std::max(depth[edge.to], depth[s] + 1);
      if (--incoming[edge.to] == 0) work.push_back(edge.to);
    }
  }
  return done == dfa.states.size() ? std::optional(longest) : std::nullopt;
}

// The automaton of all other texts.
CharDfa all_others(const CharDfa& dfa, Budget& budget) {
  CharDfa out;
  const auto any = static_cast<std::uint32_t>(dfa.states.size());
  for (const CharDfa::State& state : dfa.states) {
    CharDfa::State other;
    other.accepts = !state.accepts;
    char32_t next = 0;
    for (const CharDfa::Edge& edge : state.edges) {
      if (edge.codes.low > next) other.edges.push_back({{next, edge.codes.low - 1}, any});
      other.edges.push_back(edge);
      next = edge.codes.high + 1;
    }
    if (next <= kLastCode) other.edges.push_back({{next, kLastCode}, any});
    budget.steps(1 + other.edges.size());
    count_state(other, budget);
    out.states.push_back(std::move(other));
  }
  out.states.push_back({{{{0, kLastCode}, any}}, true});
  return out;
}

}  // namespace

bool CharDfa::accepts(std::string_view utf8) const {
  std::uint32_t at = 0;
  if (states.empty()) return false;
  while (!utf8.empty()) {
    const Utf8Char c = first_char(utf8);
    if (!c.valid) return false;
    utf8.remove_prefix(c.bytes);
    const auto& edges = states[at].edges;
    const auto found = std::ranges::lower_bound(edges, c.code_point, {},
                                                [](const Edge& e) { return e.codes.high; });
    if (found == edges.end() || found->codes.low > c.code_point) return false;
    at = found->to;
  }
  return states[at].accepts;
}

CharDfa trimmed(const CharDfa& dfa, Budget& budget) {
  std::vector<std::vector<std::uint32_t>> into(dfa.states.size());
  std::vector<bool> useful(dfa.states.size());
  std::vector<std::uint32_t> work;
  for (std::uint32_t s = 0; s < dfa.states.size(); ++s) {
    budget.steps(1 + dfa.states[s].edges.size());
    for (const auto& edge : dfa.states[s].edges) into[edge.to].push_back(s);
    if (dfa.states[s].accepts) useful[s] = true, work.push_back(s);
  }
  while (!work.empty()) {
    const std::uint32_t s = work.back();
    work.pop_back();
    for (const std::uint32_t before : into[s]) {
      if (!useful[before]) work.push_back(before);
      useful[before] = true;
    }
  }
  CharDfa out;
  if (dfa.states.empty() || !useful[0]) return out;
  std::vector<std::uint32_t> number(dfa.states.size());
  std::uint32_t n = 0;
  for (std::uint32_t s = 0; s < dfa.states.size(); ++s)
    if (useful[s]) number[s] = n++;
  for (std::uint32_t s = 0; s < dfa.states.size(); ++s) {
    if (!useful[s]) continue;
    out.states.emplace_back().accepts = dfa.states[s].accepts;
    for (const auto& edge : dfa.states[s].edges)
      if (useful[edge.to]) out.states.back().edges.push_back({edge.codes, number[edge.to]});
  }
  return out;
}

CharDfa product(const CharDfa& a, const CharDfa& b, Budget& budget) {
  CharDfa out;
  if (a.states.empty() || b.states.empty()) return out;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> numbers;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs;
  const auto number = [&](std::uint32_t x, std::uint32_t y) {
    const auto [found, is_new] =
        numbers.try_emplace({x, y}, static_cast<std::uint32_t>(pairs.size()));
    if (is_new) pairs.emplace_back(x, y);
    return found->second;
  };
  number(0, 0);
  for (std::size_t p = 0; p < pairs.size(); ++p) {
    const auto& left = a.states[pairs[p].first];
    const auto& right = b.states[pairs[p].second];
    CharDfa::State state;
    state.accepts = left.accepts && right.accepts;
    for (std::size_t i = 0, j = 0; i < left.edges.size() && j < right.edges.size();) {
      budget.steps(8);
      const auto &l = left.edges[i], &r = right.edges[j];
      const CodeRange both{std::max(l.codes.low, r.codes.low),
                           std::min(l.codes.high, r.codes.high)};
      if (both.low <= both.high) state.edges.push_back({both, number(l.to, r.to)});
      (l.codes.high < r.codes.high ? i : j) += 1;
    }
    count_state(state, budget);
    out.states.push_back(std::move(state));
  }
  return trimmed(out, budget);
}

CharDfa complement(const CharDfa& dfa, Budget& budget) {
  return trimmed(all_others(dfa, budget), budget);
}

CharDfa with_length(const CharDfa& dfa, std::size_t least, std::size_t most, Budget& budget) {
  if (const auto longest = longest_text(dfa); longest && *longest <= most) most = kNoLimit;
  if (least == 0 && most == kNoLimit) return dfa;
  // A chain that counts; without a limit its last state has no end.
  const std::size_t length = most == kNoLimit ? least : most;
  CharDfa counter;
  for (std::size_t i = 0; i <= length; ++i) {
    CharDfa::State state;
    state.accepts = i >= least;
    if (i < length || most == kNoLimit) {
      const auto to = static_cast<std::uint32_t>(std::min(i + 1, length));
      state.edges = {{{0, kLastCode}, to}};
    }
    budget.steps();
    count_state(state, budget);
    counter.states.push_back(std::move(state));
  }
  return product(dfa, counter, budget);
}

CharDfa all_but(std::span<const std::string_view> texts, Budget& budget) {
  struct Branch {
    std::map<char32_t, std::uint32_t> next;
    bool ends = false;
  };
  std::vector<Branch> tree(1);
  for (const std::string_view text : texts) {
    std::uint32_t at = 0;
    each_char(text, [&](const Utf8Char& c, std::size_t) {
      const auto [found, is_new] =
          tree[at].next.try_emplace(c.code_point, static_cast<std::uint32_t>(tree.size()));
      at = found->second;
      if (is_new) tree.emplace_back();
    });
    tree[at].ends = true;
  }
  CharDfa those;
  for (const Branch& branch : tree) {
    CharDfa::State& state = those.states.emplace_back();
    state.accepts = branch.ends;
    for (const auto& [code, to] : branch.next) state.edges.push_back({{code, code}, to});
  }
  return all_others(those, budget);
}

void text_edges(AutomatonBuilder& builder, NodeId from, const CharDfa& dfa, bool json, NodeId to) {
  constexpr std::size_t kMaxInlineRanges = 16;
  std::map<CodeSet, RuleId> rules;  // rules of larger sets, which take thousands of edges
  const auto read = [&](NodeId begin, const CodeSet& codes, NodeId end) {
    (json ? json_char_edges : utf8_edges)(builder, begin, codes, end);
  };
  std::vector<NodeId> nodes;
  for (std::size_t s = 0; s < dfa.states.size(); ++s) nodes.push_back(builder.node());
  if (!nodes.empty()) builder.silent(from, nodes[0]);
  for (std::size_t s = 0; s < dfa.states.size(); ++s) {
    if (dfa.states[s].accepts) builder.silent(nodes[s], to);
    std::map<std::uint32_t, std::vector<CodeRange>> by_target;
    for (const auto& edge : dfa.states[s].edges) by_target[edge.to].push_back(edge.codes);
    for (const auto& [target, ranges] : by_target) {
      builder.budget().steps(8 * ranges.size());
      const CodeSet codes = normalized(ranges);
      if (codes.size() <= kMaxInlineRanges) {
        read(nodes[s], codes, nodes[target]);
        continue;
      }
      const auto [rule, is_new] = rules.try_emplace(codes, 0);
      if (is_new) {
        rule->second = builder.rule();
        read(builder.start(rule->second), codes, builder.end(rule->second));
      }
      builder.call(nodes[s], rule->second, nodes[target]);
    }
  }
}

}  // namespace cria
