// The filters: each takes away tokens that shall not be drawn.
#pragma once

#include <cstddef>
#include <vector>

#include "model/token_id.h"

namespace cria {

/// A token that may still be drawn, with its logit and, after softmax, its probability.
struct Candidate {
  TokenId id;
  double logit;
  double p;
};

/// The order of all filters: falling logit, lower id first among equals.
inline bool likelier(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

/// Each keeps at least one token. All but softmax, top_k, top_n_sigma and temperature take
/// candidates sorted by likelier(); those that look at probabilities expect softmax() before and
/// leave probabilities of the smaller set to the next softmax().
namespace filter {
/// p = exp(logit) over their sum, exact also where logits are infinite.
void softmax(std::vector<Candidate>& candidates);
/// Keeps the k likeliest (all if k is 0) and sorts them.
void top_k(std::vector<Candidate>& candidates, std::size_t k);
/// Keeps the fewest whose probabilities sum up to at least p (Holtzman et al., arXiv 1904.09751).
void top_p(std::vector<Candidate>& candidates, double p);
/// Keeps those at least p times as likely as the first (Nguyen et al., arXiv 2407.01082).
void min_p(std::vector<Candidate>& candidates, double p);
/// Keeps the fewest, in the order of |surprise - entropy|, whose probabilities sum up to at least p
/// (locally typical sampling, Meister et al., arXiv 2202.00666), and leaves them sorted by logit.
void typical(std::vector<Candidate>& candidates, double p);
/// Keeps logits at least as large as the largest less n standard deviations of all finite ones
/// (Tang et al., arXiv 2411.07641). Keeps the order.
void top_n_sigma(std::vector<Candidate>& candidates, double n);
/// Exclude top choices (P. E. Weidmann, 2024): of the tokens of at least this probability only the
/// least likely is kept, with the less likely ones.
void xtc(std::vector<Candidate>& candidates, double threshold);
/// Divides logits by the temperature; 0 keeps the likeliest alone.
void temperature(std::vector<Candidate>& candidates, double temperature);
/// The temperature between low and high for these probabilities: low + (high - low) ·
/// (H/H_max)^exponent with their entropy H and that of as many equal ones (entropy-based dynamic
/// temperature, kalomaze, 2023). For a single candidate it is low.
double dynamic_temperature(const std::vector<Candidate>& candidates, double low, double high,
                           double exponent);
}  // namespace filter

}  // namespace cria
