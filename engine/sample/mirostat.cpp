#include "engine/sample/mirostat.h"

#include <algorithm>
#include <cmath>

namespace cria {

const Candidate& draw(const std::vector<Candidate>& candidates, double random) {
  for (const Candidate& c : candidates) {
    random -= c.p;
    if (random < 0) return c;
  }
  // Rounding left a trace: the last that may come.
  const auto last = std::find_if(candidates.rbegin(), candidates.rend(),
                                 [](const Candidate& c) { return c.p > 0; });
  return last == candidates.rend() ? candidates.back() : *last;
}

Mirostat::Mirostat(const SamplerOptions& options, std::size_t n_vocab)
    : version_(options.mirostat),
      tau_(options.mirostat_tau),
      eta_(options.mirostat_eta),
      mu_(2 * tau_),
      n_vocab_(static_cast<double>(n_vocab)) {}

TokenId Mirostat::draw(std::vector<Candidate>& candidates, double random) {
  filter::softmax(candidates);
  if (version_ == 1) {
    candidates.resize(zipf_k(candidates));
  } else {
    const auto too_surprising = [this](const Candidate& c) { return -std::log2(c.p) > mu_; };
    candidates.erase(std::find_if(candidates.begin() + 1, candidates.end(), too_surprising),
                     candidates.end());
  }
  filter::softmax(candidates);
  const Candidate& drawn = cria::draw(candidates, random);
  mu_ -= eta_ * (-std::log2(drawn.p) - tau_);
  return drawn.id;
}

// Version 1 takes the probabilities for Zipf's law: the exponent s is estimated from the 100
// likeliest tokens by least squares on the logarithms of neighbours' ratios, and k is that for
// which the expected surprise is mu: k = (e 2^mu / (1 - N^-e))^(1/s) with e = s - 1; in the limit e
// = 0 the fraction is 2^mu / ln N.
std::size_t Mirostat::zipf_k(const std::vector<Candidate>& candidates) const {
  constexpr std::size_t kMost = 100;
  double products = 0, squares = 0;
  for (std::size_t i = 0; i + 1 < std::min(candidates.size(), kMost) && candidates[i + 1].p > 0;
       ++i) {
    const double t = std::log(static_cast<double>(i + 2) / static_cast<double>(i + 1));
    products += t * std::log(candidates[i].p / candidates[i + 1].p);
    squares += t * t;
  }
  if (squares == 0) return 1;
  const double s = products / squares;
  const double e = s - 1;
  const double scale =
      std::abs(e) < 1e-9 ? 1 / std::log(n_vocab_) : e / (1 - std::pow(n_vocab_, -e));
  const double k = std::pow(scale * std::exp2(mu_), 1 / s);
  if (!(k >= 1)) return 1;
  return k < static_cast<double>(candidates.size()) ? static_cast<std::size_t>(k)
                                                    : candidates.size();
}

}  // namespace cria
