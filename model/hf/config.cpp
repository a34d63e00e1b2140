#include "model/hf/config.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace cria {
namespace {

using Kind = HfRopeScaling::Kind;

/// By how much Llama 3.1 slows a frequency down: not at all where a wave is short beside the
/// original context, by the whole factor where it is long, and in between by a mean of both (the
/// models' own configuration).
double llama3_factor(const HfRopeScaling& scaling, double frequency) {
  const double wave = 2 * std::numbers::pi / frequency, context = scaling.original_context;
  if (wave < context / scaling.high_freq_factor) return 1;
  if (wave >= context / scaling.low_freq_factor) return scaling.factor;
  const double smooth = (context / wave - scaling.low_freq_factor) /
                        (scaling.high_freq_factor - scaling.low_freq_factor);
  return 1 / ((1 - smooth) / scaling.factor + smooth);
}

}  // namespace

// Two equal scales cancel out, and so does one alone; copy_mscale() refuses others.
double HfConfig::usual_magnitude() const {
  if (model_class->mscale && rope_scaling.log_multiplier != 0) return 1;
  return 1 + 0.1 * std::log(rope_scaling.factor);
}

// Latent attention multiplies scores instead.
double HfConfig::yarn_magnitude() const {
  if (model_class->latent) return 1;
  const double growth = 0.1 * std::log(rope_scaling.factor);
  return (1 + growth) / (1 + rope_scaling.log_multiplier * growth);
}

std::vector<float> HfConfig::rope_factors() const {
  std::vector<float> factors;
  if (rope_scaling.kind == Kind::Proportional) {
    factors.assign(n_rot / 2, HfRopeScaling::kNoRotation);
    std::fill_n(factors.begin(), static_cast<std::size_t>(rope_scaling.rotated_part * n_rot / 2),
                1.0F);
  }
  if (rope_scaling.kind != Kind::Llama3) return factors;
  for (std::uint32_t i = 0; i < n_rot / 2; ++i)
    factors.push_back(
        static_cast<float>(llama3_factor(rope_scaling, std::pow(rope_base, -2.0 * i / n_rot))));
  return factors;
}

double HfConfig::longrope_magnitude() const {
  if (rope_scaling.attention_factor) return *rope_scaling.attention_factor;
  const double factor = static_cast<double>(n_ctx) / rope_scaling.original_context;
  return factor <= 1 ? 1
                     : std::sqrt(1 + std::log(factor) / std::log(rope_scaling.original_context));
}

std::optional<MlxPacking> HfConfig::packing_of(std::string_view tensor) const {
  if (tensor.ends_with(".weight")) tensor.remove_suffix(7);
  const auto other = other_packing.find(tensor);
  return other != other_packing.end() ? other->second : packing;
}

}  // namespace cria
