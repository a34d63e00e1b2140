// Pools the hidden states of a text, batch by batch.
#pragma once

#include <span>
#include <vector>

#include "engine/vectors.h"

namespace cria {

class PooledStates {
 public:
  /// width: values of a row.
  PooledStates(Pooling pooling, std::size_t width) : pooling_(pooling), width_(width) {}

  /// True if rows of all tokens are needed, not only the last one's.
  [[nodiscard]] static bool needs_all(Pooling pooling, bool causal) {
    return pooling != Pooling::Last && (pooling != Pooling::Rank || !causal);
  }
  /// Adds rows of the text, in order: [n][width].
  void add(std::span<const float> rows);
  /// Sets the classifier's outputs, the result of Rank.
  void set_labels(std::span<const float> labels) { sum_.assign(labels.begin(), labels.end()); }
  /// Returns vectors of length 1, or zeros if all values are 0. Rank: returns the outputs.
  [[nodiscard]] std::vector<float> result() const;

 private:
  const Pooling pooling_;
  const std::size_t width_;
  std::vector<double> sum_;
};

}  // namespace cria
