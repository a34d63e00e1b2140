#include "engine/sample/dry.h"

#include <algorithm>
#include <cmath>

#include "engine/sample/penalties.h"
#include "model/error.h"
#include "model/vocabulary.h"

namespace cria {
namespace {

// z[i]: how many tokens before and at text[n - 1 - i] equal those before and at the last one
// (Gusfield's Z algorithm, on the text read backwards).
void matches_of_end(std::span<const TokenId> text, std::vector<std::uint32_t>& z) {
  const std::size_t n = text.size();
  const auto at = [&](std::size_t i) { return text[n - 1 - i]; };
  z.assign(n, 0);
  for (std::size_t i = 1, left = 0, right = 0; i < n; ++i) {
    std::size_t length = i < right ? std::min<std::size_t>(right - i, z[i - left]) : 0;
    while (i + length < n && at(length) == at(i + length)) ++length;
    z[i] = static_cast<std::uint32_t>(length);
    if (i + length > right) {
      left = i;
      right = i + length;
    }
  }
}

}  // namespace

Dry::Dry(const SamplerOptions& options, std::size_t n_vocab, const Tokenizer* tokenizer)
    : multiplier_(options.dry_multiplier),
      base_(options.dry_base),
      allowed_(options.dry_allowed_length),
      last_n_(options.dry_last_n) {
  if (multiplier_ == 0) return;
  breakers_.resize(n_vocab);
  longest_.resize(n_vocab);
  if (options.dry_sequence_breakers.empty()) return;
  if (tokenizer == nullptr) throw Error("sampling: DRY's sequence breakers need a tokenizer");
  find_breakers(options.dry_sequence_breakers, *tokenizer);
}

void Dry::find_breakers(const std::vector<std::string>& texts, const Tokenizer& tokenizer) {
  const std::size_t n = std::min(breakers_.size(), tokenizer.vocabulary().tokens.size());
  for (std::size_t id = 0; id < n; ++id) {
    const std::string piece = tokenizer.piece(static_cast<TokenId>(id), true);
    breakers_[id] = std::ranges::any_of(texts, [&](const std::string& text) {
      return !text.empty() && piece.find(text) != std::string::npos;
    });
  }
  for (const std::string& text : texts) {
    const std::vector<TokenId> ids = tokenizer.encode("a" + text, false, true);
    if (!text.empty() && !ids.empty()) breakers_[static_cast<std::size_t>(ids.back())] = true;
  }
}

bool Dry::apply(std::vector<Candidate>& candidates, std::span<const TokenId> history) {
  if (multiplier_ == 0) return false;
  const auto text = last_n_ < 0
                        ? history
                        : history.last(std::min(history.size(), static_cast<std::size_t>(last_n_)));
  if (!find_repetitions(text)) return false;
  for (Candidate& c : candidates) {
    const std::uint32_t n = longest_[static_cast<std::size_t>(c.id)];
    if (n == 0 || n < static_cast<std::uint32_t>(allowed_)) continue;
    const double penalty = multiplier_ * std::pow(base_, static_cast<double>(n) - allowed_);
    c.logit = changed_logit(c.logit, -penalty);
  }
  for (const TokenId id : text) longest_[static_cast<std::size_t>(id)] = 0;
  return true;
}

bool Dry::find_repetitions(std::span<const TokenId> text) {
  const auto last_breaker =
      std::find_if(text.rbegin(), text.rend(), [this](TokenId id) { return is_breaker(id); });
  const auto limit = static_cast<std::uint32_t>(last_breaker - text.rbegin());
  if (limit == 0) return false;
  matches_of_end(text, before_);
  for (std::size_t i = 1; i < text.size(); ++i) {
    const TokenId next = text[text.size() - i];
    if (is_breaker(next)) continue;
    std::uint32_t& longest = longest_[static_cast<std::size_t>(next)];
    longest = std::max(longest, std::min(before_[i], limit));
  }
  return true;
}

}  // namespace cria
