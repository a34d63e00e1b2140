#include "engine/constrain/token_masks.h"

#include <algorithm>

namespace cria {
namespace {

constexpr std::size_t kMostRunBytes = std::size_t{64} << 20, kMostMaskBytes = std::size_t{32} << 20;

void allow(TokenBits& bits, TokenId token) {
  const auto id = static_cast<std::size_t>(token);
  bits[id / 64] |= std::uint64_t{1} << id % 64;
}

}  // namespace

TokenMasks::TokenMasks(const Automaton& automaton, const TokenTrie& trie)
    : trie_(trie), runs_(automaton), place_of_(trie_.vocabulary_size) {
  for (const auto& [id, text] : trie_.controls) {
    const auto found = std::ranges::find(automaton.markers, text);
    const auto symbol = found == automaton.markers.end()
                            ? Automaton::kOtherControl
                            : static_cast<Symbol>(256 + (found - automaton.markers.begin()));
    controls_.emplace_back(id, automaton.class_of[symbol]);
  }
  parent_.resize(trie_.nodes.size());
  std::size_t deepest = 0;
  std::vector<std::uint32_t> path;
  for (std::uint32_t n = 0; n + 1 < trie_.nodes.size(); ++n) {
    const TokenTrie::Node& node = trie_.nodes[n];
    deepest = std::max<std::size_t>(deepest, node.depth);
    path.resize(node.depth + 1U);
    path[node.depth] = n;
    if (node.depth > 0) parent_[n] = path[node.depth - 1U];
    for (std::uint32_t t = node.first_token; t < trie_.nodes[n + 1].first_token; ++t)
      place_of_[static_cast<std::size_t>(trie_.tokens[t])] = n;
  }
  path_.resize(deepest + 1);
}

// Of the whole trie. What a prefix cannot go on with, nothing below it can.
void TokenMasks::walk(Runs::State& state, TokenBits& bits) {
  const Automaton& automaton = runs_.automaton();
  const std::vector<TokenTrie::Node>& nodes = trie_.nodes;
  path_[0] = state;
  const auto end = static_cast<std::uint32_t>(nodes.size() - 1);
  std::uint32_t steps = 0;
  for (std::uint32_t n = 1; n < end;) {
    const TokenTrie::Node& node = nodes[n];
    const Runs::State next = runs_.next(path_[node.depth - 1U], automaton.class_of[node.byte]);
    if (next == Runs::kDead) {
      n = node.end;
      continue;
    }
    path_[node.depth] = next;
    for (std::uint32_t t = node.first_token; t < nodes[n + 1].first_token; ++t) allow(bits, trie_.tokens[t]);
    ++n;
    if ((++steps & 0xFFF) != 0 || runs_.memory() < kMostRunBytes) continue;
    std::vector<Runs::State*> in_use{&state};
    for (std::size_t depth = 0; depth <= node.depth; ++depth) in_use.push_back(&path_[depth]);
    limit_memory(std::move(in_use));
  }
}

void TokenMasks::limit_memory(std::vector<Runs::State*> also) {
  if (runs_.memory() < kMostRunBytes) return;
  for (Run* const run : live_)
    if (std::ranges::find(also, &run->state_) == also.end()) also.push_back(&run->state_);
  runs_.keep_only(also);
  kept_.clear();
  by_state_.clear();
}

std::shared_ptr<const TokenBits> TokenMasks::find(Runs::State& state) {
  const auto bits = std::make_shared<TokenBits>((trie_.vocabulary_size + 63) / 64);
  walk(state, *bits);
  for (const auto& [id, symbol] : controls_)
    if (runs_.next(state, symbol) != Runs::kDead) allow(*bits, id);
  if (runs_.whole(state))
    for (const TokenId id : trie_.ends) allow(*bits, id);
  return bits;
}

std::shared_ptr<const TokenBits> TokenMasks::mask(Runs::State& state) {
  const std::scoped_lock lock(mutex_);
  limit_memory({&state});
  if (const auto known = by_state_.find(state); known != by_state_.end()) {
    kept_.splice(kept_.begin(), kept_, known->second);
    return known->second->bits;
  }
  const auto bits = find(state);
  const std::size_t most = std::max<std::size_t>(16, kMostMaskBytes / (8 * bits->size() + 1));
  if (kept_.size() >= most) {
    by_state_.erase(kept_.back().state);
    kept_.pop_back();
  }
  kept_.push_front({state, bits});
  by_state_[state] = kept_.begin();
  return bits;
}

Runs::State TokenMasks::after(Runs::State state, TokenId token) {
  const auto id = static_cast<std::size_t>(token);
  if (token < 0 || id >= place_of_.size()) return Runs::kDead;
  const auto control = std::ranges::find(controls_, token, &std::pair<TokenId, std::uint16_t>::first);
  if (control != controls_.end()) return runs_.next(state, control->second);
  std::string bytes;
  for (std::uint32_t n = place_of_[id]; n != 0; n = parent_[n])
    bytes += static_cast<char>(trie_.nodes[n].byte);
  std::ranges::reverse(bytes);
  return bytes.empty() ? Runs::kDead : runs_.next(state, bytes);
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
  std::string text;
  Runs::State state = state_;
  while (text.size() < most) {
    const int byte = masks_->runs_.only_byte(state);
    if (byte < 0) break;
    text += static_cast<char>(byte);
    state = masks_->runs_.next(state, std::string_view(text).substr(text.size() - 1));
  }
  return text;
}

}  // namespace cria
