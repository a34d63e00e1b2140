#include "engine/sample/penalties.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace cria {

double changed_logit(double logit, double change) {
  const double sum = logit + change;
  return std::isnan(sum) ? -std::numeric_limits<double>::infinity() : sum;
}

Penalties::Penalties(const SamplerOptions& options, std::size_t n_vocab)
    : repeat_(options.repeat_penalty),
      presence_(options.presence_penalty),
      frequency_(options.frequency_penalty),
      last_n_(options.repeat_last_n),
      counts_(n_vocab) {}

bool Penalties::apply(std::vector<Candidate>& candidates, std::span<const TokenId> history) {
  if (repeat_ == 1 && presence_ == 0 && frequency_ == 0) return false;
  const std::size_t n =
      last_n_ < 0 ? history.size() : std::min(history.size(), static_cast<std::size_t>(last_n_));
  const auto recent = history.last(n);
  for (const TokenId id : recent) ++counts_[static_cast<std::size_t>(id)];
  for (Candidate& c : candidates) {
    const std::int32_t count = counts_[static_cast<std::size_t>(c.id)];
    if (count == 0) continue;
    // In float, as the logits are.
    auto logit = static_cast<float>(c.logit);
    logit = logit > 0 ? logit / repeat_ : logit * repeat_;
    c.logit = static_cast<float>(
        changed_logit(logit, -(static_cast<float>(count) * frequency_ + presence_)));
  }
  for (const TokenId id : recent) counts_[static_cast<std::size_t>(id)] = 0;
  return true;
}

}  // namespace cria
