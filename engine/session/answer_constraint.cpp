#include "engine/session/answer_constraint.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "engine/constrain/token_masks.h"
#include "engine/model_parts.h"

namespace cria {
namespace {

constexpr std::string_view kLineBreaks = "\n\n";

void set_bit(TokenBits& bits, TokenId token, bool value) {
  const auto id = static_cast<std::size_t>(token);
  const std::uint64_t bit = std::uint64_t{1} << id % 64;
  bits[id / 64] = value ? bits[id / 64] | bit : bits[id / 64] & ~bit;
}

bool has_bit(const TokenBits& bits, TokenId token) {
  const auto id = static_cast<std::size_t>(token);
  return (bits[id / 64] >> id % 64 & 1) != 0;
}

}  // namespace

AnswerConstraint::AnswerConstraint(const Model& model, const GenerateOptions& options)
    : tokenizer_(model.tokenizer()), format_(options.format) {
  if (!options.constraint) return;
  trie_ = model.token_trie();
  Constraint::State& state = options.constraint->state();
  verbatim_ = state.calls == Constraint::State::Calls::None;
  free_text_ = state.calls == Constraint::State::Calls::AfterText;
  run_.emplace(state.masks(trie_), trie_);
  if (free_text_) {
    phase_ = options.thinking_opened ? Phase::Free : Phase::Inside;
    return;
  }
  if (!format_.thinks()) {
    phase_ = verbatim_ ? Phase::Begin : Phase::Inside;
    return;
  }
  phase_ = options.thinking_opened ? Phase::Free : Phase::Begin;
  may_open_ = true;
  opening_ = format_.open;
}

TokenMask AnswerConstraint::checked(TokenMask mask) {
  stuck_ = std::ranges::none_of(mask, [](std::uint64_t word) { return word != 0; });
  return mask;
}

TokenMask AnswerConstraint::mask() {
  if (!run_) return {};
  if (free_text_) return text_mask();
  if (phase_ == Phase::Free) {
    bits_.assign((trie_->vocabulary_size + 63) / 64, ~std::uint64_t{0});
    if (const std::size_t rest = trie_->vocabulary_size % 64; rest != 0)
      bits_.back() = (std::uint64_t{1} << rest) - 1;
    for (const TokenId id : trie_->ends) set_bit(bits_, id, false);
    return checked(bits_);
  }
  inside_ = run_->mask();
  if (phase_ == Phase::Inside || (!may_open_ && line_breaks_ == 0)) return checked(*inside_);
  bits_ = *inside_;
  open_masks();
  return checked(bits_);
}

// Outside of calls, all tokens are allowed except those that begin a call and continue it wrongly.
TokenMask AnswerConstraint::text_mask() {
  if (phase_ == Phase::Free) return {};
  inside_ = run_->mask();
  if (!run_->whole()) return checked(*inside_);
  bits_ = *inside_;
  const auto unknown = tokenizer_.vocabulary().unk;
  if (unknown && static_cast<std::size_t>(*unknown) < trie_->vocabulary_size)
    set_bit(bits_, *unknown, true);
  const auto allowed = std::accumulate(bits_.begin(), bits_.end(), std::size_t{0},
                                       [](std::size_t n, std::uint64_t word) {
                                         return n + static_cast<std::size_t>(std::popcount(word));
                                       });
  return allowed == trie_->vocabulary_size ? TokenMask{} : TokenMask{bits_};
}

// Adds tokens of the marker that opens thinking, and of line breaks after it.
void AnswerConstraint::open_masks() {
  const bool begun = may_open_ && opening_.size() < format_.open.size();
  if (begun) std::ranges::fill(bits_, 0);
  if (line_breaks_ > 0) add_text_openers(kLineBreaks.substr(0, line_breaks_));
  if (!may_open_) return;
  if (format_.kind == AnswerFormat::Kind::Block) add_text_openers(opening_);
  for (const auto& [id, text] : trie_->controls) {
    const bool opens =
        format_.kind == AnswerFormat::Kind::Block ? !begun && text == format_.open : true;
    if (opens) set_bit(bits_, id, true);
  }
}

// Adds tokens that are a prefix of the text.
void AnswerConstraint::add_text_openers(std::string_view text) {
  const std::vector<TokenTrie::Node>& nodes = trie_->nodes;
  std::uint32_t at = 0;
  for (const char byte : text) {
    std::uint32_t child = at + 1;
    while (child < nodes[at].end && nodes[child].byte != static_cast<std::uint8_t>(byte))
      child = nodes[child].end;
    if (child >= nodes[at].end) return;
    at = child;
    for (std::uint32_t t = nodes[at].first_token; t < nodes[at + 1].first_token; ++t)
      set_bit(bits_, trie_->tokens[t], true);
  }
}

void AnswerConstraint::drawn(TokenId token, AnswerOutput& output) {
  if (!run_ || phase_ == Phase::Free) return;
  const bool begun = may_open_ && opening_.size() < format_.open.size();
  if (phase_ == Phase::Inside) {
    run_->accept(token);
    return;
  }
  const std::string text = tokenizer_.piece(token);
  const bool control = text.empty();
  if (may_open_ && (begun || control || !has_bit(*inside_, token))) {
    const bool continues =
        !control && format_.open.ends_with(opening_) && opening_.starts_with(text);
    if (continues) opening_.erase(0, text.size());
    if (control || (continues && opening_.empty())) phase_ = Phase::Free;
    if (control || continues) return;
  }
  if (!has_bit(*inside_, token)) {
    line_breaks_ -= std::min(line_breaks_, text.size());
    return;
  }
  phase_ = Phase::Inside;
  if (verbatim_) output.begin_verbatim();
  run_->accept(token);
}

// Detects the end of thinking.
void AnswerConstraint::shown(TokenId token, const AnswerOutput& output) {
  if (run_ && free_text_) {
    const bool thought = phase_ == Phase::Free;
    phase_ = output.thinking() ? Phase::Free : Phase::Inside;
    if (thought && phase_ == Phase::Inside) run_->restart();
    return;
  }
  if (!run_ || phase_ != Phase::Free || !output.answer_next()) return;
  phase_ = Phase::Begin;
  const bool block = format_.kind == AnswerFormat::Kind::Block;
  may_open_ = !block && tokenizer_.piece(token, true) != "<|message|>";
  line_breaks_ = block ? kLineBreaks.size() : 0;
}

}  // namespace cria
