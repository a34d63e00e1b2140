#include "engine/constrain/token_masks.h"

#include <algorithm>

#include "engine/constrain/constraint_error.h"
#include "engine/constrain/json_text.h"

namespace cria {

PlainTokens::PlainTokens(PlainKind kind, std::span<const TextTrie::Text> texts,
                         std::size_t vocabulary_size) {
  std::array<std::vector<TextTrie::Text>, kMaxChars + 1> other;
  for (TokenBits& bits : whole) bits.resize((vocabulary_size + 63) / 64);
  for (const auto& [text, id] : texts) {
    std::string_view rest = text;
    std::size_t chars = 0;
    for (; chars < kMaxChars; ++chars) {
      const std::size_t bytes = plain_char(kind, rest);
      if (bytes == 0) break;
      rest.remove_prefix(bytes);
    }
    if (rest.empty())
      allow_token(whole[chars], id);
    else
      other[chars].emplace_back(rest, id);
  }
  for (std::size_t n = 0; n <= kMaxChars; ++n) {
    for (std::size_t word = 0; n > 0 && word < whole[n].size(); ++word)
      whole[n][word] |= whole[n - 1][word];
    rests[n] = TextTrie(std::move(other[n]));
  }
}

namespace {

constexpr std::size_t kStepsPerMask = 500'000;  // on the average; most states take none
constexpr std::size_t kStepsOfForced = 20'000;  // some 80 for each of 256 bytes
constexpr std::size_t kMaxRunBytes = std::size_t{64} << 20, kMaxMaskBytes = std::size_t{32} << 20;

}  // namespace

TokenMasks::TokenMasks(const Automaton& automaton, const TokenTrie& trie)
    : trie_(trie), runs_(automaton), path_(trie.deepest + 1U) {
  for (const auto& [id, text] : trie_.controls) {
    auto found = std::ranges::find(automaton.markers, text);
    if (found == automaton.markers.end())  // a grammar may name the token by its id
      found = std::ranges::find(automaton.markers, "<[" + std::to_string(id) + "]>");
    const auto symbol = found == automaton.markers.end()
                            ? Automaton::kOtherControl
                            : static_cast<Symbol>(256 + (found - automaton.markers.begin()));
    controls_.emplace_back(id, automaton.class_of[symbol]);
  }
  for (std::size_t i = 0; i < automaton.markers.size(); ++i)
    if (automaton.markers[i].starts_with("<[") &&
        std::ranges::none_of(controls_, [&](const auto& control) {
          return control.second == automaton.class_of[256 + i];
        }))
      throw ConstraintError("grammar: " + automaton.markers[i] +
                                " is not a control token of this model; tokens of text are "
                                "written as text",
                            "");
  for (std::size_t kind = 0; kind < kPlainKinds; ++kind)
    plain_edges_.emplace_back(automaton, static_cast<PlainKind>(kind));
}

// Returns the effect of a class of characters on all stacks of a state.
PlainEdges::Reads TokenMasks::reads(PlainKind kind, Runs::State state) {
  using Reads = PlainEdges::Reads;
  PlainEdges& edges = plain_edges_[static_cast<std::size_t>(kind)];
  Reads all = Reads::None;
  runs_.for_nodes(state, [&](NodeId node) {
    const Reads one = edges.of(node);
    if (one == Reads::Mixed || (one == Reads::All && all == Reads::None)) all = one;
  });
  return all;
}

// True if every text of plain characters leads back to the state.
bool TokenMasks::loops_plainly(Runs::State state) {
  if (state >= loops_.size()) loops_.resize(state + 1024, -1);
  if (loops_[state] < 0)
    loops_[state] = reads(PlainKind::JsonString, state) == PlainEdges::Reads::All &&
                    runs_.next(state, runs_.automaton().class_of[kPlainByte]) == state;
  return loops_[state] > 0;
}

// Walks the trie's tokens from a state of the chain. If a prefix cannot continue, neither can
// anything below it.
void TokenMasks::walk(const TextTrie& trie, std::size_t begin, TokenBits& bits) {
  const Automaton& automaton = runs_.automaton();
  const std::vector<TextTrie::Node>& nodes = trie.nodes;
  const bool whole_vocabulary = &trie == &trie_;
  path_[0] = chain_[begin];
  const auto end = static_cast<std::uint32_t>(nodes.size() - 1);
  std::uint32_t steps = 0;
  for (std::uint32_t n = 1; n < end;) {
    const TextTrie::Node& node = nodes[n];
    const Runs::State next = runs_.next(path_[node.depth - 1U], automaton.class_of[node.byte]);
    if (next == Runs::kDead) {
      n = node.end;
      continue;
    }
    path_[node.depth] = next;
    const bool all_below = whole_vocabulary && trie_.plain_below[n] && loops_plainly(next);
    const std::uint32_t after = all_below ? node.end : n + 1;
    for (std::uint32_t t = node.first_token; t < nodes[after].first_token; ++t)
      allow_token(bits, trie.tokens[t]);
    n = after;
    if ((++steps & 0xFFF) != 0 || runs_.memory() < kMaxRunBytes) continue;
    std::vector<Runs::State*> in_use;
    for (Runs::State& state : chain_) in_use.push_back(&state);
    for (std::size_t depth = 0; depth <= node.depth; ++depth) in_use.push_back(&path_[depth]);
    limit_memory(std::move(in_use));
  }
}

// Sets the mask from the state at the chain's beginning if any number of characters of a class have
// the same effect.
bool TokenMasks::find_plain(PlainKind kind, TokenBits& bits) {
  using Reads = PlainEdges::Reads;
  if (reads(kind, chain_[0]) != Reads::All) return false;
  std::size_t most = 0;
  for (; most < PlainTokens::kMaxChars; ++most) {
    const Reads next = reads(kind, chain_[most]);
    if (next == Reads::Mixed) return false;
    if (next == Reads::None) break;
    chain_[most + 1] = runs_.next(chain_[most], runs_.automaton().class_of[kPlainByte]);
  }
  const PlainTokens& tokens = trie_.plain_tokens(kind);
  bits = tokens.whole[most];
  for (std::size_t n = 0; n <= most; ++n) walk(tokens.rests[n], n, bits);
  return true;
}

void TokenMasks::limit_memory(std::vector<Runs::State*> also) {
  if (runs_.memory() < kMaxRunBytes) return;
  for (Run* const run : live_)
    if (std::ranges::find(also, &run->state_) == also.end()) also.push_back(&run->state_);
  runs_.keep_only(also);
  loops_.clear();
  kept_.clear();
  by_state_.clear();
}

// The first of the chain stays the state, also where states get other numbers.
std::shared_ptr<const TokenBits> TokenMasks::find(Runs::State& state) {
  const auto bits = std::make_shared<TokenBits>((trie_.vocabulary_size + 63) / 64);
  chain_.fill(Runs::kDead);
  chain_[0] = state;
  bool found = false;
  for (std::size_t kind = 0; kind < kPlainKinds && !found; ++kind)
    found = find_plain(static_cast<PlainKind>(kind), *bits);
  if (!found) walk(trie_, 0, *bits);
  for (const auto& [id, symbol] : controls_)
    if (runs_.next(chain_[0], symbol) != Runs::kDead) allow_token(*bits, id);
  if (runs_.whole(chain_[0]))
    for (const TokenId id : trie_.ends) allow_token(*bits, id);
  return bits;
}

std::size_t TokenMasks::memory() {
  const std::scoped_lock lock(mutex_);
  return runs_.memory() + kept_.size() * (trie_.vocabulary_size / 8);
}

std::shared_ptr<const TokenBits> TokenMasks::mask(Runs::State& state) {
  const std::scoped_lock lock(mutex_);
  runs_.allow_steps(kStepsPerMask);
  limit_memory({&state});
  if (const auto known = by_state_.find(state); known != by_state_.end()) {
    kept_.splice(kept_.begin(), kept_, known->second);
    return known->second->bits;
  }
  const auto bits = find(state);
  const std::size_t most = std::max<std::size_t>(16, kMaxMaskBytes / (8 * bits->size() + 1));
  if (kept_.size() >= most) {
    by_state_.erase(kept_.back().state);
    kept_.pop_back();
  }
  kept_.push_front({state, bits});
  by_state_[state] = kept_.begin();
  return bits;
}

Runs::State TokenMasks::after(Runs::State state, TokenId token) {
  if (token < 0 || static_cast<std::size_t>(token) >= trie_.vocabulary_size) return Runs::kDead;
  const std::string_view text = trie_.text(token);
  if (!text.empty()) return runs_.next(state, text);
  const auto control =
      std::ranges::find(controls_, token, &std::pair<TokenId, std::uint16_t>::first);
  return control != controls_.end() ? runs_.next(state, control->second) : Runs::kDead;
}

TokenMasks::Run::Run(std::shared_ptr<TokenMasks> masks, std::shared_ptr<const TokenTrie> trie)
    : masks_(std::move(masks)), trie_(std::move(trie)) {
  const std::scoped_lock lock(masks_->mutex_);
  masks_->live_.insert(this);
  state_ = masks_->runs_.start();
}

TokenMasks::Run::~Run() {
  const std::scoped_lock lock(masks_->mutex_);
  masks_->live_.erase(this);
}

std::shared_ptr<const TokenBits> TokenMasks::Run::mask() { return masks_->mask(state_); }

bool TokenMasks::Run::accept(TokenId token) {
  const std::scoped_lock lock(masks_->mutex_);
  const Runs::State next = masks_->after(state_, token);
  if (next == Runs::kDead) return false;
  state_ = next;
  return true;
}

void TokenMasks::Run::restart() {
  const std::scoped_lock lock(masks_->mutex_);
  state_ = masks_->runs_.start();
}

bool TokenMasks::Run::whole() const {
  const std::scoped_lock lock(masks_->mutex_);
  return masks_->runs_.whole(state_);
}

bool TokenMasks::Run::finished() const {
  const std::scoped_lock lock(masks_->mutex_);
  return masks_->runs_.finished(state_);
}

std::string TokenMasks::Run::forced(std::size_t most) {
  const std::scoped_lock lock(masks_->mutex_);
  Runs& runs = masks_->runs_;
  const Runs::Trial trial(runs, kStepsOfForced);
  std::string text;
  try {
    for (Runs::State state = state_; text.size() < most;) {
      const int byte = runs.only_byte(state);
      if (byte < 0) break;
      text += static_cast<char>(byte);
      state = runs.next(state, std::string_view(text).substr(text.size() - 1));
    }
  } catch (
      const ConstraintError&) {  // no steps are left: the mask will tell whether that is too much
  }
  return text;
}

// The masks must not keep the trie: a model that is gone takes them along.
std::shared_ptr<TokenMasks> Constraint::State::masks(const std::shared_ptr<const TokenTrie>& trie) {
  const std::scoped_lock lock(mutex_);
  std::erase_if(masks_, [](const auto& kept) { return kept.first.expired(); });
  for (const auto& [key, masks] : masks_)
    if (key.lock() == trie) return masks;
  masks_.emplace_back(trie, std::make_shared<TokenMasks>(automaton, *trie));
  return masks_.back().second;
}

std::size_t Constraint::State::memory() {
  const std::scoped_lock lock(mutex_);
  std::size_t bytes = automaton.memory();
  for (const auto& [key, masks] : masks_) bytes += masks->memory();
  return bytes;
}

Constraint::Constraint(std::unique_ptr<State> state) : state_(std::move(state)) {}
Constraint::~Constraint() = default;

std::shared_ptr<const Constraint> Constraint::any_object() {
  Budget budget;
  AutomatonBuilder builder(budget);
  JsonText json(builder);
  const RuleId root = builder.rule();
  json.any_object(builder.start(root), builder.end(root));
  return make_constraint(builder, root, "form");
}

bool Constraint::accepts(std::string_view text) const {
  Runs runs(state_->automaton);
  return runs.whole(runs.next(runs.start(), text));
}

std::size_t Constraint::memory() const { return state_->memory(); }

bool Constraint::begins(std::string_view text) const {
  Runs runs(state_->automaton);
  return runs.next(runs.start(), text) != Runs::kDead;
}

std::shared_ptr<const Constraint> make_constraint(const AutomatonBuilder& builder, RuleId root,
                                                  std::string_view what,
                                                  Constraint::State::Calls calls) {
  std::optional<Automaton> automaton = builder.finish(root);
  if (!automaton) throw ConstraintError("no text satisfies the " + std::string(what), "");
  return std::make_shared<const Constraint>(
      std::make_unique<Constraint::State>(*std::move(automaton), calls));
}

}  // namespace cria
