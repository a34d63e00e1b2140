#include "engine/constrain/code_points.h"

#include <algorithm>
#include <map>
#include <utility>

#include "engine/constrain/token_masks.h"

namespace cria {
namespace {

using RegexKind = RegexNode::Kind;

// The characters before and after a place in the text.
struct Surroundings {
  bool at_begin, at_end, word_before, word_after;
};

class RegexNfa {
 public:
  RegexNfa(const RegexNode& root, bool anywhere, Budget& budget) : budget_(budget) {
    const std::uint32_t start = node();
    end_ = node();
    if (anywhere) {
      const CodeSet all = all_codes();
      codes(start, all, start);
      codes(end_, all, end_);
      sink_ = true;
    }
    build(root, start, end_);
  }

  CharDfa determinized() {
    CharDfa out;
    number({{0}, true, false});
    for (std::size_t i = 0; i < kernels_.size(); ++i) {
      const Kernel kernel = kernels_[i];
      CharDfa::State state;
      state.accepts = accepts(kernel);
      if (!words_) {
        follow(kernel, all_codes(), false, state);
      } else {
        follow(kernel, complement(word_codes()), false, state);
        follow(kernel, word_codes(), true, state);
        std::ranges::sort(state.edges, {}, [](const CharDfa::Edge& e) { return e.codes.low; });
      }
      budget_.bytes(sizeof state + state.edges.size() * sizeof(CharDfa::Edge));
      out.states.push_back(std::move(state));
    }
    return trimmed(out, budget_);
  }

 private:
  struct Arc {
    RegexKind kind;  // Sequence: nothing is read
    std::uint32_t to;
    CodeSet codes;
  };
  // Nodes before what reads nothing is followed: that depends on the next character.
  struct Kernel {
    std::vector<std::uint32_t> nodes;
    bool at_begin, word_before;
    auto operator<=>(const Kernel&) const = default;
  };

  std::uint32_t node() {
    budget_.steps(4);
    budget_.bytes(sizeof(std::vector<Arc>));
    arcs_.emplace_back();
    return static_cast<std::uint32_t>(arcs_.size() - 1);
  }
  void arc(std::uint32_t from, RegexKind kind, std::uint32_t to, const CodeSet& set = {}) {
    budget_.steps(1 + set.size());
    budget_.bytes(sizeof(Arc) + set.size() * sizeof(CodeRange));
    arcs_[from].push_back({kind, to, set});
  }
  void codes(std::uint32_t from, const CodeSet& set, std::uint32_t to) {
    arc(from, RegexKind::Codes, to, set);
  }

  void build(const RegexNode& part, std::uint32_t from, std::uint32_t to) {
    switch (part.kind) {
      case RegexKind::Codes:
        return codes(from, part.codes, to);
      case RegexKind::Sequence:
        for (const RegexNode& one : part.parts) {
          const std::uint32_t next = node();
          build(one, from, next);
          from = next;
        }
        return arc(from, RegexKind::Sequence, to);
      case RegexKind::Choice:
        for (const RegexNode& one : part.parts) {
          const std::uint32_t begin = node();
          arc(from, RegexKind::Sequence, begin);
          build(one, begin, to);
        }
        return;
      case RegexKind::Repeat:
        return repeat(part, from, to);
      default:
        words_ = words_ || part.kind >= RegexKind::WordEdge;
        return arc(from, part.kind, to);
    }
  }

  void repeat(const RegexNode& part, std::uint32_t from, std::uint32_t to) {
    const auto step = [&] {
      const std::uint32_t next = node();
      build(part.parts.front(), from, next);
      from = next;
    };
    const std::uint32_t own = node();  // loops here do not reach `from`
    arc(from, RegexKind::Sequence, own);
    from = own;
    for (std::size_t i = 0; i < part.least; ++i) step();
    if (part.most == kNoLimit) {
      const std::uint32_t loop = node(), body = node();
      arc(from, RegexKind::Sequence, loop);
      build(part.parts.front(), loop, body);
      arc(body, RegexKind::Sequence, loop);
      return arc(loop, RegexKind::Sequence, to);
    }
    for (std::size_t i = part.least; i < part.most; ++i) {
      arc(from, RegexKind::Sequence, to);
      step();
    }
    arc(from, RegexKind::Sequence, to);
  }

  static bool holds(RegexKind kind, const Surroundings& around) {
    switch (kind) {
      case RegexKind::Begin:
        return around.at_begin;
      case RegexKind::End:
        return around.at_end;
      case RegexKind::WordEdge:
        return around.word_before != around.word_after;
      case RegexKind::NoWordEdge:
        return around.word_before == around.word_after;
      default:
        return kind == RegexKind::Sequence;
    }
  }

  std::vector<std::uint32_t> closure(const Kernel& kernel, bool at_end, bool word_after) {
    const Surroundings around{kernel.at_begin, at_end, kernel.word_before, word_after};
    std::vector<std::uint32_t> nodes = kernel.nodes;
    seen_.resize(arcs_.size());
    for (const std::uint32_t n : nodes) seen_[n] = true;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      budget_.steps(1 + arcs_[nodes[i]].size());
      for (const Arc& one : arcs_[nodes[i]]) {
        if (seen_[one.to] || !holds(one.kind, around)) continue;
        seen_[one.to] = true;
        nodes.push_back(one.to);
      }
    }
    for (const std::uint32_t n : nodes) seen_[n] = false;
    return nodes;
  }

  bool accepts(const Kernel& kernel) {
    const std::vector<std::uint32_t> nodes = closure(kernel, true, false);
    return std::ranges::find(nodes, end_) != nodes.end();
  }

  // Edges of a state for the characters of `among`.
  void follow(const Kernel& kernel, const CodeSet& among, bool are_words, CharDfa::State& state) {
    std::vector<std::pair<CodeRange, std::uint32_t>> moves;
    std::vector<char32_t> cuts;
    for (const std::uint32_t n : closure(kernel, false, are_words)) {
      for (const Arc& one : arcs_[n]) {
        if (one.kind != RegexKind::Codes) continue;
        for (const CodeRange& range : intersection(one.codes, among)) {
          moves.push_back({range, one.to});
          cuts.insert(cuts.end(), {range.low, range.high + 1});
        }
      }
    }
    std::ranges::sort(cuts);
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    std::ranges::sort(moves, {}, [](const auto& move) { return move.first.low; });
    budget_.steps(8 * moves.size());
    std::vector<std::pair<CodeRange, std::uint32_t>> open;
    std::size_t next = 0;
    for (std::size_t c = 0; c + 1 < cuts.size(); ++c) {
      std::erase_if(open, [&](const auto& move) { return move.first.high < cuts[c]; });
      while (next < moves.size() && moves[next].first.low == cuts[c]) open.push_back(moves[next++]);
      if (open.empty()) continue;
      budget_.steps(2 * open.size());
      Kernel target{{}, false, are_words && words_};
      for (const auto& move : open) target.nodes.push_back(move.second);
      add_edge(state, {cuts[c], cuts[c + 1] - 1}, number(std::move(target)));
    }
  }

  static void add_edge(CharDfa::State& state, CodeRange codes, std::uint32_t to) {
    if (!state.edges.empty() && state.edges.back().to == to &&
        state.edges.back().codes.high + 1 == codes.low)
      state.edges.back().codes.high = codes.high;
    else
      state.edges.push_back({codes, to});
  }

  std::uint32_t number(Kernel kernel) {
    std::ranges::sort(kernel.nodes);
    kernel.nodes.erase(std::unique(kernel.nodes.begin(), kernel.nodes.end()), kernel.nodes.end());
    if (sink_ && std::ranges::binary_search(kernel.nodes, end_)) kernel = {{end_}, false, false};
    const auto [found, is_new] =
        numbers_.try_emplace(kernel, static_cast<std::uint32_t>(kernels_.size()));
    if (is_new) {
      budget_.steps(8 * kernel.nodes.size());
      budget_.bytes(2 * (sizeof kernel + kernel.nodes.size() * sizeof(std::uint32_t)));
      kernels_.push_back(std::move(kernel));
    }
    return found->second;
  }

  Budget& budget_;
  std::vector<std::vector<Arc>> arcs_;
  std::uint32_t end_ = 0;
  bool sink_ = false, words_ = false;  // the end takes any text; \b is used
  std::vector<bool> seen_;
  std::map<Kernel, std::uint32_t> numbers_;
  std::vector<Kernel> kernels_;
};

// Returns the end of the group that starts the text, or (outer) the first | outside of groups; npos
// without one.
std::size_t find_end(std::string_view text, bool outer) {
  std::size_t depth = 0;
  bool in_bracket = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\\')
      ++i;
    else if (in_bracket || c == '[')
      in_bracket = c != ']';
    else if (c == '(')
      ++depth;
    else if (c == ')' && --depth == 0 && !outer)
      return i + 1;
    else if (c == '|' && depth == 0 && outer)
      return i;
  }
  return std::string_view::npos;
}

}  // namespace

// Look-ahead at the beginning is a condition on the whole text: that it does or does not begin with
// a match.
CharDfa regex_dfa(std::string_view expression, bool anywhere, Budget& budget) {
  std::vector<CharDfa> conditions;
  std::string_view rest = expression;
  if (rest.starts_with('^')) {
    rest.remove_prefix(1);
    while (rest.starts_with("(?=") || rest.starts_with("(?!")) {
      const std::size_t end = find_end(rest, false);
      if (end == std::string_view::npos) break;
      const std::string inner(rest.substr(3, end - 4));
      CharDfa begins = regex_dfa("^(?:" + inner + ")", true, budget);
      conditions.push_back(rest[2] == '=' ? std::move(begins) : complement(begins, budget));
      rest.remove_prefix(end);
    }
  }
  if (!conditions.empty() && find_end(rest, true) == std::string_view::npos) {
    CharDfa dfa = regex_dfa("^" + std::string(rest), anywhere, budget);
    for (const CharDfa& condition : conditions) dfa = product(dfa, condition, budget);
    return dfa;
  }
  return RegexNfa(parse_regex(expression, budget), anywhere, budget).determinized();
}

std::shared_ptr<const Constraint> Constraint::regex(std::string_view expression) {
  if (expression.size() > kMaxConstraintText)
    throw ConstraintError("regular expression: expected at most 256 KiB", "");
  Budget budget;
  AutomatonBuilder builder(budget);
  const RuleId root = builder.rule();
  text_edges(builder, builder.start(root), regex_dfa(expression, false, budget), false,
             builder.end(root));
  return make_constraint(builder, root, "regular expression");
}

}  // namespace cria
