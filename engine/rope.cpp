#include "engine/rope.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

namespace cria {
namespace {

// YaRN (arXiv 2309.00071, section 3.2): dimensions that turn more than beta_fast times over the original
// context keep their frequency, those that turn less than beta_slow times are interpolated, with a ramp
// between.
class YarnRamp {
 public:
  explicit YarnRamp(const LlamaConfig& c) {
    const auto dimension_turning = [&c](double turns) {
      return c.n_rot * std::log(c.rope_orig_ctx / (turns * 2 * std::numbers::pi)) /
             (2 * std::log(double{c.rope_base}));
    };
    low_ = std::max(0.0, std::floor(dimension_turning(c.yarn_beta_fast)));
    high_ = std::min(c.n_rot - 1.0, std::ceil(dimension_turning(c.yarn_beta_slow)));
  }
  // Share of the original frequency that pair i keeps.
  [[nodiscard]] double keep(std::size_t i) const {
    return 1 - std::clamp((static_cast<double>(i) - low_) / std::max(0.001, high_ - low_), 0.0, 1.0);
  }

 private:
  double low_, high_;
};

}  // namespace

RopeTable::RopeTable(const LlamaConfig& config, const LlamaWeights& weights)
    : frequencies_(config.n_rot / 2) {
  for (std::size_t i = 0; i < frequencies_.size(); ++i) {
    double frequency = std::pow(double{config.rope_base}, -2.0 * static_cast<double>(i) / config.n_rot);
    if (weights.rope_freqs != nullptr) {
      float divisor = 1;
      std::memcpy(&divisor, weights.rope_freqs->data + i * sizeof divisor, sizeof divisor);
      frequency /= divisor;
    }
    const double interpolated = frequency / config.rope_factor;
    if (config.rope_scaling == RopeScaling::Linear) frequency = interpolated;
    if (config.rope_scaling == RopeScaling::Yarn) {
      const double keep = YarnRamp(config).keep(i);
      frequency = frequency * keep + interpolated * (1 - keep);
    }
    frequencies_[i] = frequency;
  }
  if (config.rope_scaling == RopeScaling::Yarn) {
    magnitude_ = config.rope_attn_factor * (1 + 0.1 * std::log(double{config.rope_factor}));
  }
}

void RopeTable::fill(std::size_t position, float* cos_sin) const {
  for (const double frequency : frequencies_) {
    const double angle = static_cast<double>(position) * frequency;
    *cos_sin++ = static_cast<float>(std::cos(angle) * magnitude_);
    *cos_sin++ = static_cast<float>(std::sin(angle) * magnitude_);
  }
}

}  // namespace cria
