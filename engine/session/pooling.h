// One vector for a whole text, from the hidden states of its tokens.
#pragma once

#include <span>
#include <vector>

#include "engine/scheduler.h"

namespace cria {

class PooledStates {
 public:
  PooledStates(Pooling pooling, std::size_t width) : pooling_(pooling), sum_(width) {}

  /// Rows of the text, in their order: [n][width].
  void add(std::span<const float> rows);
  /// Of length 1, or zeros where the mean is zero.
  [[nodiscard]] std::vector<float> unit() const;

 private:
  const Pooling pooling_;
  std::vector<double> sum_;
};

}  // namespace cria
