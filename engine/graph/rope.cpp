#include "engine/graph/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "model/plural.h"

namespace cria {
namespace {

// YaRN (arXiv 2309.00071, section 3.2). Dimensions that turn more than beta_fast times over the
// original context keep their frequency. Dimensions below beta_slow turns are interpolated, with a
// ramp between. Its bounds are whole dimensions, as in the authors' code and in llama.cpp. gpt-oss
// was trained without rounding ("truncate": false in config.json), but no GGUF key says so; other
// programs round for it, too.
class YarnRamp {
 public:
  explicit YarnRamp(const RopeSpec& spec) {
    const auto dimension_turning = [&spec](double turns) {
      return spec.n_rot * std::log(spec.orig_ctx / (turns * 2 * std::numbers::pi)) /
             (2 * std::log(spec.base));
    };
    low_ = std::max(0.0, std::floor(dimension_turning(spec.beta_fast)));
    high_ = std::min(spec.n_rot - 1.0, std::ceil(dimension_turning(spec.beta_slow)));
  }
  // Returns the share of the original frequency that pair i keeps.
  [[nodiscard]] double keep(std::size_t i) const {
    return 1 -
           std::clamp((static_cast<double>(i) - low_) / std::max(0.001, high_ - low_), 0.0, 1.0);
  }

 private:
  double low_, high_;
};

std::vector<double> frequencies_of(const RopeSpec& spec, const std::vector<float>& divisors) {
  std::vector<double> frequencies(spec.n_rot / 2);
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    double frequency = std::pow(spec.base, -2.0 * static_cast<double>(i) / spec.n_rot);
    if (!divisors.empty()) frequency /= divisors[i];
    const double interpolated = frequency / spec.factor;
    if (spec.scaling == RopeScaling::Linear) frequency = interpolated;
    if (spec.scaling == RopeScaling::Yarn) {
      const double keep = YarnRamp(spec).keep(i);
      frequency = frequency * keep + interpolated * (1 - keep);
    }
    frequencies[i] = frequency;
  }
  return frequencies;
}

}  // namespace

RopeSpec RopeSpec::of(const ModelConfig& config) {
  RopeSpec spec;
  spec.n_rot = config.n_rot;
  spec.base = config.rope_base;
  spec.scaling = config.rope_scaling;
  spec.factor = config.rope_factor;
  spec.orig_ctx = config.rope_orig_ctx;
  spec.beta_fast = config.yarn_beta_fast;
  spec.beta_slow = config.yarn_beta_slow;
  spec.magnitude = config.rope_attn_factor;
  if (spec.scaling == RopeScaling::Yarn) {
    const double growth = 0.1 * std::log(spec.factor);
    spec.magnitude *= (1 + growth) / (1 + double{config.yarn_log_multiplier} * growth);
  }
  return spec;
}

RopeTable::RopeTable(const RopeSpec& spec)
    : spec_(spec),
      frequencies_(frequencies_of(spec, spec.divisors)),
      long_frequencies_(spec.long_divisors.empty() ? frequencies_
                                                   : frequencies_of(spec, spec.long_divisors)) {}

void RopeTable::fill(std::size_t position, std::size_t n_ctx, float* cos_sin) const {
  for (const double frequency : n_ctx > spec_.orig_ctx ? long_frequencies_ : frequencies_) {
    const double angle = static_cast<double>(position) * frequency;
    *cos_sin++ = static_cast<float>(std::cos(angle) * spec_.magnitude);
    *cos_sin++ = static_cast<float>(std::sin(angle) * spec_.magnitude);
  }
}

std::string RopeTable::to_string() const {
  const auto number = [](double value) { return number_text(static_cast<float>(value)); };
  std::string text = counted(spec_.n_rot, "value") + ", base " + number(spec_.base);
  if (spec_.scaling == RopeScaling::Linear) text += ", linear " + number(spec_.factor);
  if (spec_.scaling == RopeScaling::Yarn)
    text += ", yarn " + number(spec_.factor) + " over " + std::to_string(spec_.orig_ctx);
  if (!spec_.divisors.empty()) text += ", divided by factors";
  if (!spec_.long_divisors.empty()) text += ", others beyond " + std::to_string(spec_.orig_ctx);
  if (spec_.magnitude != 1) text += ", magnitude " + number(spec_.magnitude);
  return text;
}

}  // namespace cria
