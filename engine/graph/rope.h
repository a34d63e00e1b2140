// RoPE frequencies, and the cos/sin table of a position.
#pragma once

#include <string>
#include <vector>

#include "model/config.h"

namespace cria {

/// Parameters of a table. A model may have several: sliding-window layers often have their own
/// base.
struct RopeSpec {
  std::uint32_t n_rot = 0;  ///< rotated values of a head
  double base = 10000;
  RopeScaling scaling = RopeScaling::None;
  double factor = 1;
  std::uint32_t orig_ctx = 0;
  double beta_fast = 32, beta_slow = 1;  ///< YaRN
  double magnitude = 1;
  std::vector<float> divisors = {};  ///< [n_rot/2] divisors of frequencies; empty: none
  /// The same for contexts longer than orig_ctx; empty: as divisors.
  std::vector<float> long_divisors = {};

  /// Reads the file's keys, and computes YaRN's magnitude.
  static RopeSpec of(const ModelConfig& config);
  bool operator==(const RopeSpec&) const = default;
};

class RopeTable {
 public:
  explicit RopeTable(const RopeSpec& spec);
  /// Returns the floats of a position: n_rot/2 pairs (cos, sin).
  [[nodiscard]] std::size_t width() const { return 2 * frequencies_.size(); }
  /// Writes the pairs of a position, computed in double. n_ctx: the context length that
  /// decides between the divisors.
  void fill(std::size_t position, std::size_t n_ctx, float* cos_sin) const;
  [[nodiscard]] const RopeSpec& spec() const { return spec_; }
  [[nodiscard]] std::string to_string() const;  ///< "64 values, base 10000, linear 8"

 private:
  RopeSpec spec_;
  std::vector<double> frequencies_, long_frequencies_;
};

}  // namespace cria
