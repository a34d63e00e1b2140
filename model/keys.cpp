#include "model/keys.h"

#include <algorithm>
#include <cmath>

#include "model/limits.h"

namespace cria {
namespace {

/// Keys that change the text, except at their neutral values.
struct Decisive {
  std::string_view suffix;
  double neutral, also_neutral;
};
constexpr Decisive kDecisive[] = {
    {"expert_count", 0, 1},
    {"expert_group_count", 0, 1},
    {"embedding_scale", 0, 1},
    {"residual_scale", 0, 1},
    {"logit_scale", 0, 1},
    {"attention.scale", 0, 0},
    {"attention.clamp_kqv", 0, 0},
    {"attention.max_alibi_bias", 0, 0},
    {"attention.temperature_scale", 0, 0},
    {"attention.shared_kv_layers", 0, 0},
    {"attention.kv_lora_rank", 0, 0},
    {"attn_logit_softcapping", 0, 0},
    {"final_logit_softcapping", 0, 0},
    {"router_logit_softcapping", 0, 0},
    {"embedding_length_per_layer_input", 0, 0},
    {"nextn_predict_layers", 0, 0},
    {"attention.causal", 1, 1},
    {"attention.value_scale", 0, 1},
    {"attention.output_scale", 0, 1},
    {"expert_weights_scale", 0, 1},
    {"rope.scaling.yarn_ext_factor", 1, -1},
    {"rope.scaling.alpha", 0, 1},
    {"altup.num_inputs", 0, 1},
    {"ssm.dt_b_c_rms", 0, 0},
    {"moe_latent_size", 0, 0},
};

}  // namespace

Keys::Keys(const GgufFile& file)
    : file_(file), architecture_(file.get_string("general.architecture")) {}

std::string Keys::key(std::string_view suffix) const {
  return architecture_ + "." + std::string(suffix);
}

void Keys::fail(std::string_view suffix, const std::string& message) const {
  throw file_.error(message, "key " + key(suffix));
}

bool Keys::has(std::string_view suffix) const {
  read_.emplace(suffix);
  return file_.find(key(suffix)) != nullptr;
}

std::uint32_t Keys::in_range(std::string_view suffix, std::uint64_t value, std::uint64_t low,
                             std::uint64_t high) const {
  if (value < low || value > high) {
    fail(suffix, "out of range: expected " + std::to_string(low) + " to " + std::to_string(high) +
                     ", got " + std::to_string(value));
  }
  return static_cast<std::uint32_t>(value);
}

std::uint32_t Keys::get(std::string_view suffix, std::uint64_t low, std::uint64_t high) const {
  read_.emplace(suffix);
  return in_range(suffix, file_.get_uint(key(suffix)), low, high);
}

std::uint32_t Keys::get_or(std::string_view suffix, std::uint32_t fallback, std::uint64_t low,
                           std::uint64_t high) const {
  return has(suffix) ? get(suffix, low, high) : fallback;
}

float Keys::finite(std::string_view suffix, double value) const {
  const auto number = static_cast<float>(value);
  if (!std::isfinite(number))
    fail(suffix, "bad number: expected a finite number, got " + number_text(number));
  return number;
}

float Keys::number_or(std::string_view suffix, float fallback) const {
  return has(suffix) ? finite(suffix, file_.get_float(key(suffix))) : fallback;
}

float Keys::positive(std::string_view suffix) const {
  read_.emplace(suffix);
  const auto value = static_cast<float>(file_.get_float(key(suffix)));
  if (!std::isfinite(value) || value <= 0)
    fail(suffix, "bad number: expected a finite number above 0, got " + number_text(value));
  return value;
}

float Keys::positive_or(std::string_view suffix, float fallback) const {
  return has(suffix) ? positive(suffix) : fallback;
}

bool Keys::flag_or(std::string_view suffix, bool fallback) const {
  read_.emplace(suffix);
  return file_.find_bool(key(suffix)).value_or(fallback);
}

bool Keys::any(std::string_view suffix) const {
  read_.emplace(suffix);
  const GgufValue* const value = file_.find(key(suffix));
  if (value == nullptr) return false;
  if (value->type != GgufType::Array) return file_.get_uint(key(suffix)) != 0;
  const auto numbers = *file_.find_ints(key(suffix));
  return std::ranges::any_of(numbers, [](std::int64_t number) { return number != 0; });
}

// Some converters count the blocks that predict further tokens as layers, but write arrays without
// them.
bool Keys::is_one_per_layer(std::size_t length) const {
  const std::uint64_t predicting = file_.find_uint(key("nextn_predict_layers")).value_or(0);
  return length == n_layers_ || (predicting < n_layers_ && length == n_layers_ - predicting);
}

std::vector<std::uint32_t> Keys::per_layer(std::string_view suffix, std::uint64_t low,
                                           std::uint64_t high) const {
  read_.emplace(suffix);
  const GgufValue* const value = file_.find(key(suffix));
  if (value == nullptr || value->type != GgufType::Array)
    return std::vector(n_layers_, get(suffix, low, high));
  const auto numbers = *file_.find_ints(key(suffix));
  if (!is_one_per_layer(numbers.size())) {
    fail(suffix, "wrong length of an array: expected one number per layer, " +
                     std::to_string(n_layers_) + ", got " + std::to_string(numbers.size()));
  }
  std::vector<std::uint32_t> out;
  out.reserve(numbers.size());
  for (const std::int64_t n : numbers) {
    if (n < 0)
      fail(suffix, "out of range: expected " + std::to_string(low) + " to " + std::to_string(high) +
                       ", got " + std::to_string(n));
    out.push_back(in_range(suffix, static_cast<std::uint64_t>(n), low, high));
  }
  out.resize(n_layers_, out.back());
  return out;
}

std::vector<float> Keys::numbers_per_layer(const std::string& whole, bool none_allowed) const {
  const GgufValue* const value = file_.find(whole);
  std::vector<float> numbers;
  if (value != nullptr && value->type == GgufType::Array) {
    numbers = *file_.find_floats(whole);
  } else {
    numbers.assign(n_layers_, static_cast<float>(file_.get_float(whole)));
  }
  if (numbers.size() != n_layers_)
    throw file_.error("wrong length of an array: expected one number per layer, " +
                          std::to_string(n_layers_) + ", got " + std::to_string(numbers.size()),
                      "key " + whole);
  for (const float number : numbers)
    if (!std::isfinite(number) && !(none_allowed && std::isinf(number) && number < 0))
      throw file_.error("bad number: expected a finite number, got " + number_text(number),
                        "key " + whole);
  return numbers;
}

std::vector<bool> Keys::flags_per_layer(std::string_view suffix) const {
  read_.emplace(suffix);
  const GgufValue* const value = file_.find(key(suffix));
  if (value == nullptr || value->type != GgufType::Array) return {};
  std::vector<bool> flags;
  if (value->element == GgufType::Bool) {
    flags = *file_.find_bools(key(suffix));
  } else {
    const auto numbers = *file_.find_ints(key(suffix));
    for (const std::int64_t number : numbers) flags.push_back(number != 0);
  }
  if (!is_one_per_layer(flags.size()))
    fail(suffix, "wrong length of an array: expected one value per layer, " +
                     std::to_string(n_layers_) + ", got " + std::to_string(flags.size()));
  flags.resize(n_layers_);
  return flags;
}

void Keys::expect(std::string_view suffix, double value, double other) const {
  const GgufValue* const found = file_.find(key(suffix));
  if (found == nullptr || read_.contains(suffix)) return;
  const bool real = found->type == GgufType::F32 || found->type == GgufType::F64;
  const double number = real ? *file_.find_float(key(suffix))
                        : found->type == GgufType::Bool
                            ? static_cast<double>(*file_.find_bool(key(suffix)))
                            : static_cast<double>(file_.get_uint(key(suffix)));
  if (number != value && number != other)
    fail(suffix, "unknown for this architecture: expected the key to be absent, got " +
                     number_text(static_cast<float>(number)));
}

void Keys::refuse_unread() const {
  for (const Decisive& decisive : kDecisive)
    expect(decisive.suffix, decisive.neutral, decisive.also_neutral);
}

std::vector<bool> windowed_layers(const Keys& keys, std::uint32_t n_layers, std::uint32_t period) {
  std::vector<bool> windows = keys.flags_per_layer("attention.sliding_window_pattern");
  if (!windows.empty()) {
    windows.resize(n_layers);
    return windows;
  }
  const std::uint32_t every =
      keys.get_or("attention.sliding_window_pattern", period, 1, limits::kLayers);
  for (std::uint32_t i = 0; i < n_layers; ++i) windows.push_back(i % every < every - 1);
  return windows;
}

}  // namespace cria
