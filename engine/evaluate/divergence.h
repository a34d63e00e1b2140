// How far a model's predictions are from another's: Kullback-Leibler divergence and what goes with
// it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/evaluate/mean_variance.h"
#include "engine/session.h"

namespace cria {

/// The model compared with: logits, or numbers that differ from them by a constant per token.
class BaseLogits {
 public:
  virtual ~BaseLogits() = default;
  /// What distinguishes this base from others.
  [[nodiscard]] virtual std::uint64_t fingerprint() const = 0;
  [[nodiscard]] virtual std::size_t n_batch() const = 0;  ///< most tokens that forward() takes
  [[nodiscard]] virtual std::size_t logit_rows()
      const = 0;  ///< most tokens that logits() gives at once
  /// Then forward() and logits() as those of Session, for all tokens whose logits are wanted, in
  /// order.
  virtual void begin_window(std::size_t index) = 0;
  virtual void forward(std::span<const TokenId> tokens, std::size_t first_wanted) = 0;
  virtual std::span<const float> logits(std::size_t begin, std::size_t end) = 0;
};

/// Another model that evaluates the same tokens.
class SessionBase : public BaseLogits {
 public:
  explicit SessionBase(Session& session) : session_(session) {}
  [[nodiscard]] std::uint64_t fingerprint() const override;
  [[nodiscard]] std::size_t n_batch() const override { return session_.options().n_batch; }
  [[nodiscard]] std::size_t logit_rows() const override { return session_.logit_rows(); }
  void begin_window(std::size_t) override { session_.truncate(0); }
  void forward(std::span<const TokenId> tokens, std::size_t first_wanted) override {
    session_.forward(tokens, first_wanted);
  }
  std::span<const float> logits(std::size_t begin, std::size_t end) override {
    return session_.logits(begin, end);
  }

 private:
  Session& session_;
};

/// What two models say about one token: q the model, p its base.
struct TokenComparison {
  double log_q = 0, log_p = 0;  ///< of the token that the text has
  double divergence = 0;        ///< Σ p·(log p - log q) over the vocabulary
  bool same_top = false;        ///< whether the most probable tokens are the same
};
/// Of two rows of logits and their log_sum_exp; `token` is what the text has.
TokenComparison compare_token(const KernelSet& kernels, std::span<const float> q, double log_sum_q,
                              std::span<const float> p, std::size_t token);

/// A value, and how far chance could have moved it: its standard error.
struct Estimate {
  double value = 0, error = 0;
};
struct Quantile {
  double share, value;
};

struct DivergenceResult {
  Estimate base_ppl;
  Estimate ratio;          ///< ppl / base_ppl, token by token: much surer than either of them
  Estimate log_ratio;      ///< its logarithm
  double correlation = 0;  ///< between the two models' -log p(token)
  Estimate kld;
  std::vector<Quantile> kld_quantiles;
  Estimate same_top;  ///< share of tokens
  Estimate delta_p,
      delta_p_rms;  ///< of q - p for the token that the text has: mean, root mean square
  std::vector<Quantile> delta_p_quantiles;
};

/// Sums up comparisons. Keeps eight bytes per token, for the quantiles.
class Divergence {
 public:
  void add(const TokenComparison& token);
  [[nodiscard]] DivergenceResult result() const;

  /// For files (engine/evaluate/perplexity_state.cpp).
  struct Sums {
    MeanVariance base, model, log_ratio, kld, same_top, delta_p, delta_p_squared;
  };
  Sums sums;
  std::vector<float> klds, delta_ps;
};

/// Quantiles of values by linear interpolation between order statistics; none of no values.
std::vector<Quantile> quantiles(std::vector<float> values);

}  // namespace cria
