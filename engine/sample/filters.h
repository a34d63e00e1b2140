// Filters: each removes tokens that must not be sampled.
#pragma once

#include <cstddef>
#include <vector>

#include "model/token_id.h"

namespace cria {

/// A token that may still be sampled, with its logit and, after softmax(), its probability.
struct Candidate {
  TokenId id;
  double logit;
  double p;
};

/// The order of all filters: descending logit; on a tie, the lower id first.
inline bool likelier(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

/// Each filter keeps at least one token. All but softmax, top_k, top_n_sigma and temperature take
/// candidates sorted by likelier(). Filters on probabilities expect softmax() before them and do
/// not normalize what they keep.
namespace filter {
/// Sets p to exp(logit) divided by the sum over all candidates; exact for infinite logits, too.
void softmax(std::vector<Candidate>& candidates);
/// Keeps the k most likely tokens (0: all) and sorts them.
void top_k(std::vector<Candidate>& candidates, std::size_t k);
/// Keeps the fewest tokens whose probabilities sum to at least p (Holtzman et al., arXiv
/// 1904.09751).
void top_p(std::vector<Candidate>& candidates, double p);
/// Keeps tokens at least p times as likely as the first (Nguyen et al., arXiv 2407.01082).
void min_p(std::vector<Candidate>& candidates, double p);
/// Keeps the fewest tokens, in order of |surprise - entropy|, whose probabilities sum to at least p
/// (locally typical sampling, Meister et al., arXiv 2202.00666). Leaves them sorted by logit.
void typical(std::vector<Candidate>& candidates, double p);
/// Keeps logits of at least the largest minus n standard deviations of the finite ones (Tang et
/// al., arXiv 2411.07641). Keeps the order.
void top_n_sigma(std::vector<Candidate>& candidates, double n);
/// Exclude top choices (P. E. Weidmann, 2024): of the tokens of at least this probability, keeps
/// only the least likely, and all tokens below it.
void xtc(std::vector<Candidate>& candidates, double threshold);
/// Divides logits by the temperature; 0 keeps only the most likely token.
void temperature(std::vector<Candidate>& candidates, double temperature);
/// Returns low + (high - low) · (H/H_max)^exponent, with the entropy H of the probabilities and the
/// largest possible one, H_max (entropy-based dynamic temperature, kalomaze, 2023). For a single
/// candidate it returns low.
double dynamic_temperature(const std::vector<Candidate>& candidates, double low, double high,
                           double exponent);
}  // namespace filter

}  // namespace cria
