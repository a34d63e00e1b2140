// RoPE frequencies of a model, and the cos/sin table of a position.
#pragma once

#include <vector>

#include "model/weights.h"

namespace cria {

class RopeTable {
 public:
  RopeTable(const LlamaConfig& config, const LlamaWeights& weights);
  /// Floats that a position needs: n_rot/2 pairs (cos, sin).
  [[nodiscard]] std::size_t width() const { return 2 * frequencies_.size(); }
  /// Writes the pairs of a position, computed in double.
  void fill(std::size_t position, float* cos_sin) const;

 private:
  std::vector<double> frequencies_;
  double magnitude_ = 1;
};

}  // namespace cria
