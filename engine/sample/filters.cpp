#include "engine/sample/filters.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "model/error.h"
#include "model/vocabulary.h"

namespace cria::filter {
namespace {

double entropy(const std::vector<Candidate>& candidates) {
  double sum = 0;
  for (const Candidate& c : candidates) sum -= c.p > 0 ? c.p * std::log(c.p) : 0;
  return sum;
}

}  // namespace

void softmax(std::vector<Candidate>& candidates) {
  const double top = std::ranges::max_element(candidates, {}, &Candidate::logit)->logit;
  double sum = 0;
  for (Candidate& c : candidates) sum += c.p = c.logit == top ? 1 : std::exp(c.logit - top);
  for (Candidate& c : candidates) c.p /= sum;
}

void top_k(std::vector<Candidate>& candidates, std::size_t k) {
  if (k > 0 && k < candidates.size()) {
    std::nth_element(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(k),
                     candidates.end(), likelier);
    candidates.resize(k);
  }
  std::sort(candidates.begin(), candidates.end(), likelier);
}

void top_p(std::vector<Candidate>& candidates, double p) {
  double sum = candidates.front().p;
  std::size_t n = 1;
  while (n < candidates.size() && sum < p) sum += candidates[n++].p;
  candidates.resize(n);
}

void min_p(std::vector<Candidate>& candidates, double p) {
  const double least = candidates.front().p * p;
  std::size_t n = 1;
  while (n < candidates.size() && candidates[n].p >= least) ++n;
  candidates.resize(n);
}

void typical(std::vector<Candidate>& candidates, double p) {
  const double expected = entropy(candidates);
  const auto distance = [expected](const Candidate& c) {
    return std::abs(-std::log(c.p) - expected);
  };
  std::sort(candidates.begin(), candidates.end(), [&](const Candidate& a, const Candidate& b) {
    const double da = distance(a);
    const double db = distance(b);
    return da != db ? da < db : likelier(a, b);
  });
  top_p(candidates, p);
  std::sort(candidates.begin(), candidates.end(), likelier);
}

void top_n_sigma(std::vector<Candidate>& candidates, double n) {
  const double top = std::ranges::max_element(candidates, {}, &Candidate::logit)->logit;
  double count = 0, mean = 0, squares = 0;  // Welford's sums: logits may be huge
  for (const Candidate& c : candidates) {
    if (!std::isfinite(c.logit)) continue;
    const double from_mean = c.logit - mean;
    mean += from_mean / ++count;
    squares += from_mean * (c.logit - mean);
  }
  if (count == 0 || !std::isfinite(top)) return;
  const double least = top - n * std::sqrt(squares / count);
  std::erase_if(candidates, [least](const Candidate& c) { return c.logit < least; });
}

void xtc(std::vector<Candidate>& candidates, double threshold) {
  // A token without probability is not likely: a banned token must not be the only one left.
  const double least = std::max(threshold, std::numeric_limits<double>::denorm_min());
  std::size_t likely = 0;
  while (likely < candidates.size() && candidates[likely].p >= least) ++likely;
  if (likely > 1)
    candidates.erase(candidates.begin(),
                     candidates.begin() + static_cast<std::ptrdiff_t>(likely - 1));
}

void temperature(std::vector<Candidate>& candidates, double temperature) {
  if (temperature == 0) {
    candidates.front() = *std::ranges::min_element(candidates, likelier);
    candidates.resize(1);
  }
  for (Candidate& c : candidates) c.logit /= temperature == 0 ? 1 : temperature;
}

double dynamic_temperature(const std::vector<Candidate>& candidates, double low, double high,
                           double exponent) {
  if (candidates.size() < 2) return low;
  const double share = entropy(candidates) / std::log(static_cast<double>(candidates.size()));
  return low + (high - low) * std::pow(std::clamp(share, 0.0, 1.0), exponent);
}

}  // namespace cria::filter

namespace cria {
namespace {

/// Sets z[i] to the number of tokens up to text[n - 1 - i] that equal those up to the last one
/// (Gusfield's Z algorithm on the reversed text).
void match_suffix(std::span<const TokenId> text, std::vector<std::uint32_t>& z) {
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

std::span<const TokenId> last_tokens(std::span<const TokenId> history, std::int32_t n) {
  return n < 0 ? history : history.last(std::min(history.size(), static_cast<std::size_t>(n)));
}

}  // namespace

double changed_logit(double logit, double change) {
  const double sum = logit + change;
  return std::isnan(sum) ? -std::numeric_limits<double>::infinity() : sum;
}

Penalties::Penalties(const SamplerOptions& options, std::size_t n_vocab)
    : repeat_(options.repeat_penalty),
      presence_(options.presence_penalty),
      frequency_(options.frequency_penalty),
      last_n_(options.repeat_last_n),
      recent_(repeat_ == 1 ? 0 : n_vocab),
      sampled_(presence_ == 0 && frequency_ == 0 ? 0 : n_vocab) {}

bool Penalties::apply(std::vector<Candidate>& candidates, std::span<const TokenId> history) {
  if (recent_.empty() && sampled_.empty()) return false;
  const auto recent = recent_.empty() ? history.first(0) : last_tokens(history, last_n_);
  for (const TokenId id : recent) recent_[static_cast<std::size_t>(id)] = true;
  for (Candidate& c : candidates) {
    const auto id = static_cast<std::size_t>(c.id);
    const bool repeated = !recent_.empty() && recent_[id];
    const std::int32_t count = sampled_.empty() ? 0 : sampled_[id];
    if (!repeated && count == 0) continue;
    auto logit = static_cast<float>(c.logit);  // the arithmetic is float, as the logits are
    if (repeated) logit = logit > 0 ? logit / repeat_ : logit * repeat_;
    const float penalty = count == 0 ? 0 : static_cast<float>(count) * frequency_ + presence_;
    c.logit = static_cast<float>(changed_logit(logit, -penalty));
  }
  for (const TokenId id : recent) recent_[static_cast<std::size_t>(id)] = false;
  return true;
}

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

void Dry::find_breakers(const std::vector<std::string>& strings, const Tokenizer& tokenizer) {
  const std::size_t n = std::min(breakers_.size(), tokenizer.vocabulary().tokens.size());
  for (std::size_t id = 0; id < n; ++id) {
    const std::string piece = tokenizer.piece(static_cast<TokenId>(id), true);
    breakers_[id] = std::ranges::any_of(strings, [&](const std::string& string) {
      return !string.empty() && piece.find(string) != std::string::npos;
    });
  }
  for (const std::string& string : strings) {
    const std::vector<TokenId> ids = tokenizer.encode("a" + string, false, true);
    if (!string.empty() && !ids.empty()) breakers_[static_cast<std::size_t>(ids.back())] = true;
  }
}

bool Dry::apply(std::vector<Candidate>& candidates, std::span<const TokenId> history) {
  if (multiplier_ == 0) return false;
  const auto text = last_tokens(history, last_n_);
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
  match_suffix(text, before_);
  for (std::size_t i = 1; i < text.size(); ++i) {
    const TokenId next = text[text.size() - i];
    if (is_breaker(next)) continue;
    std::uint32_t& longest = longest_[static_cast<std::size_t>(next)];
    longest = std::max(longest, std::min(before_[i], limit));
  }
  return true;
}

}  // namespace cria
