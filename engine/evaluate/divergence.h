// Compares the predictions of two models: Kullback-Leibler divergence and related figures.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/session.h"
#include "model/file/binary_file.h"

namespace cria {

/// Mean and variance of a stream of numbers by Welford's recurrence (Technometrics 4, 1962). Equal
/// streams give equal bits.
struct MeanVariance {
  std::uint64_t n = 0;
  double mean = 0;
  double squares = 0;  ///< Σ (x - mean)²

  void add(double x) {
    ++n;
    const double before = x - mean;
    mean += before / static_cast<double>(n);
    squares += before * (x - mean);
  }
  /// Standard error of the mean, from the sample's variance; 0 for fewer than two numbers.
  [[nodiscard]] double error() const {
    return n < 2 ? 0 : std::sqrt(squares / (static_cast<double>(n) * static_cast<double>(n - 1)));
  }
};

/// Identifies a session's model and all else that the bits of its logits depend on.
Hash session_hash(const Session& session);

/// The reference model's logits, up to a constant per token.
class BaseLogits {
 public:
  virtual ~BaseLogits() = default;
  /// Identifies the reference.
  [[nodiscard]] virtual std::uint64_t fingerprint() const = 0;
  [[nodiscard]] virtual std::size_t n_batch() const = 0;     ///< max tokens of forward()
  [[nodiscard]] virtual std::size_t logit_rows() const = 0;  ///< max tokens of logits()
  /// Begins a window. forward() and logits() follow as in Session, for all scored tokens in order.
  virtual void begin_window(std::size_t index) = 0;
  virtual void forward(std::span<const TokenId> tokens, std::size_t first_wanted) = 0;
  virtual std::span<const float> logits(std::size_t begin, std::size_t end) = 0;
};

/// A reference model that evaluates the same tokens.
class SessionBase : public BaseLogits {
 public:
  explicit SessionBase(Session& session) : session_(session) {}
  [[nodiscard]] std::uint64_t fingerprint() const override {
    return session_hash(session_).value();
  }
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

/// Two models' predictions of one token: q the model, p the reference.
struct TokenComparison {
  double log_q = 0, log_p = 0;  ///< log-probabilities of the token in the text
  double divergence = 0;        ///< Σ p·(log p - log q) over the vocabulary
  bool same_top = false;        ///< the most likely tokens are equal
};
/// Compares two rows of logits, given their log_sum_exp; `token` is the token in the text.
TokenComparison compare_token(const KernelSet& kernels, std::span<const float> q, double log_sum_q,
                              std::span<const float> p, std::size_t token);

/// A value and its standard error.
struct Estimate {
  double value = 0, error = 0;
};
struct Quantile {
  double share, value;
};

struct DivergenceResult {
  Estimate base_ppl;
  Estimate ratio;          ///< ppl / base_ppl, paired by token: much less noise than either
  Estimate log_ratio;      ///< its logarithm
  double correlation = 0;  ///< between the two models' -log p(token)
  Estimate kld;
  std::vector<Quantile> kld_quantiles;
  Estimate same_top;              ///< share of tokens
  Estimate delta_p, delta_p_rms;  ///< q - p of the token in the text: mean, root mean square
  std::vector<Quantile> delta_p_quantiles;
};

/// Accumulates comparisons. Keeps eight bytes per token for the quantiles.
class Divergence {
 public:
  void add(const TokenComparison& token);
  [[nodiscard]] DivergenceResult result() const;

  /// The state, for Perplexity::save().
  struct Sums {
    MeanVariance base, model, log_ratio, kld, same_top, delta_p, delta_p_squared;
  };
  Sums sums;
  std::vector<float> klds, delta_ps;
};

/// Quantiles by linear interpolation between order statistics; empty without values.
std::vector<Quantile> quantiles(std::vector<float> values);

}  // namespace cria
