#include "engine/architectures/hf_keys.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

namespace cria {

using Json = nlohmann::json;

HfKeys::HfKeys(const Json& json, std::string file, HfConfig& model_config, GgufWriter& writer)
    : config(model_config), json_(&json), file_(std::move(file)), writer_(&writer) {}

HfKeys::HfKeys(const GgufFile& file, Keys& keys, HfConfig& model_config,
               nlohmann::ordered_json& out)
    : config(model_config), gguf_(&file), keys_(&keys), out_(&out) {}

const Json* HfKeys::find(std::string_view key) const {
  const auto found = json_->find(key);
  return found == json_->end() || found->is_null() ? nullptr : &*found;
}

bool HfKeys::says_null(std::string_view key) const {
  const auto found = json_->find(key);
  return found != json_->end() && found->is_null();
}

void HfKeys::fail(std::string_view key, const std::string& message) const {
  if (exporting()) keys_->fail(key, "cannot be said in config.json: " + message);
  throw Error(file_, message, "key " + std::string(key));
}

std::uint32_t HfKeys::uint(std::string_view key, std::uint64_t high) const {
  const Json* const value = find(key);
  if (value == nullptr) fail(key, "missing key");
  if (!value->is_number_unsigned())
    fail(key, "wrong type: expected a number, got " + value->dump());
  if (value->get<std::uint64_t>() > high)
    fail(key, "out of range: expected 0 to " + std::to_string(high) + ", got " + value->dump());
  return value->get<std::uint32_t>();
}

std::uint32_t HfKeys::uint_or(std::string_view key, std::uint32_t fallback,
                              std::uint64_t high) const {
  return has(key) ? uint(key, high) : fallback;
}

double HfKeys::number(std::string_view key) const {
  const Json* const value = find(key);
  if (value == nullptr || !value->is_number()) fail(key, "missing, or no number");
  const double number = value->get<double>();
  if (!std::isfinite(static_cast<float>(number))) fail(key, "bad number: expected a finite number");
  return number;
}

double HfKeys::number_or(std::string_view key, double fallback) const {
  return has(key) ? number(key) : fallback;
}

bool HfKeys::flag_or(std::string_view key, bool fallback) const {
  const Json* const value = find(key);
  if (value != nullptr && !value->is_boolean()) fail(key, "wrong type: expected true or false");
  return value == nullptr ? fallback : value->get<bool>();
}

std::string HfKeys::text_or(std::string_view key, std::string fallback) const {
  const Json* const value = find(key);
  if (value != nullptr && !value->is_string()) fail(key, "wrong type: expected a string");
  return value == nullptr ? std::move(fallback) : value->get<std::string>();
}

double HfKeys::rope_number_or(std::string_view key, double fallback) const {
  for (const char* object : {"rope_parameters", "rope_scaling"}) {
    const Json* rope = find(object);
    if (rope != nullptr && rope->is_object() && rope->contains("full_attention"))
      rope = &(*rope)["full_attention"];
    if (rope != nullptr && rope->is_object() && rope->contains(key))
      return number_within(*rope, object, key, fallback);
  }
  return fallback;
}

double HfKeys::windowed_rope_base_or(double fallback) const {
  constexpr std::string_view kObject = "rope_parameters";
  const Json* const types = find(kObject);
  if (types == nullptr || !types->is_object() || !types->contains("sliding_attention"))
    return fallback;
  const double base = number_within((*types)["sliding_attention"], kObject, "rope_theta", fallback);
  if (base <= 0) fail(kObject, "rope_theta: expected a number above 0");
  return base;
}

double HfKeys::number_within(const Json& object, std::string_view name, std::string_view key,
                             double fallback) const {
  const auto found = object.find(key);
  if (found == object.end()) return fallback;
  if (!found->is_number() || !std::isfinite(found->get<float>()))
    fail(name, std::string(key) + ": expected a finite number");
  return found->get<double>();
}

std::vector<std::uint32_t> HfKeys::list(std::string_view key, std::uint64_t high) const {
  const Json* const value = find(key);
  if (value == nullptr) return {};
  if (value->is_number()) return std::vector(config.n_layers, uint(key, high));
  std::vector<std::uint32_t> out;
  if (!value->is_array() || value->size() != config.n_layers)
    fail(key,
         "expected a list of a number for each of " + std::to_string(config.n_layers) + " layers");
  for (const Json& item : *value) {
    if (!item.is_number_unsigned() || item.get<std::uint64_t>() > high)
      fail(key, "expected numbers from 0 to " + std::to_string(high) + ", got " + item.dump());
    out.push_back(item.get<std::uint32_t>());
  }
  return out;
}

void HfKeys::set(std::string_view suffix, GgufData value) {
  writer_->set(std::string(config.model_class->arch) + "." + std::string(suffix), std::move(value));
}

nlohmann::ordered_json HfKeys::unscaled(float value, double factor) {
  const double exact = value / factor, shortest = shortest_decimal(static_cast<float>(exact));
  const double number = static_cast<float>(shortest * factor) == value ? shortest : exact;
  if (factor != 1 && number == std::floor(number) && std::abs(number) < 1e9)
    return static_cast<std::int64_t>(number);
  return number;
}

void HfKeys::copy_number(std::string_view suffix, std::string_view key, std::optional<float> usual,
                         double factor) {
  if (!exporting()) return set(suffix, static_cast<float>(number(key) * factor));
  if (!usual && !keys_->has(suffix)) fail(suffix, "missing key");
  say(key, unscaled(keys_->number_or(suffix, usual.value_or(0)), factor));
}

void HfKeys::copy_number_or(std::string_view suffix, std::string_view key, float usual) {
  if (exporting()) return copy_number(suffix, key, usual);
  set(suffix, static_cast<float>(number_or(key, double{usual})));
}

void HfKeys::copy_scale(std::string_view suffix, std::string_view key, float usual, double factor) {
  if (!exporting()) return copy_number(suffix, key, usual, factor);
  const float scale = keys_->number_or(suffix, 0);
  say(key, unscaled(scale == 0 ? usual : scale, factor));
}

void HfKeys::copy_quotient(std::string_view suffix, std::string_view key, float usual,
                           double dividend) {
  if (!exporting()) return set(suffix, static_cast<float>(dividend / number(key)));
  const float quotient = keys_->number_or(suffix, 0);
  const double value = dividend / double{quotient == 0 ? usual : quotient};
  if (value == std::floor(value) && value < 1e9) return say(key, static_cast<std::int64_t>(value));
  say(key, value);
}

void HfKeys::copy_cap(std::string_view suffix, std::string_view key, float usual) {
  if (!exporting()) return set(suffix, static_cast<float>(number_or(key, 0)));
  const float cap = keys_->number_or(suffix, usual);
  say(key, cap == 0 ? nlohmann::ordered_json() : unscaled(cap, 1));
}

void HfKeys::copy_uint(std::string_view suffix, std::string_view key, std::uint64_t high) {
  if (exporting()) return say(key, keys_->get(suffix, 0, high));
  set(suffix, uint(key, high));
}

void HfKeys::copy_uint_if_there(std::string_view suffix, std::string_view key, std::uint64_t high) {
  if (exporting() ? keys_->has(suffix) : has(key)) copy_uint(suffix, key, high);
}

void HfKeys::copy_uint_or(std::string_view suffix, std::string_view key, std::uint32_t usual,
                          std::uint64_t high) {
  if (exporting()) return say(key, keys_->get_or(suffix, usual, 0, high));
  set(suffix, uint_or(key, usual, high));
}

void HfKeys::copy_flag_or(std::string_view suffix, std::string_view key, bool usual) {
  if (exporting()) return say(key, keys_->flag_or(suffix, usual));
  set(suffix, flag_or(key, usual));
}

std::uint64_t HfKeys::cols_of(const std::string& name) const {
  for (std::uint32_t i = 0; i < config.n_layers; ++i)
    if (const TensorView* const tensor =
            gguf_->tensor("blk." + std::to_string(i) + "." + name + ".weight"))
      return tensor->cols();
  return 0;
}

void HfKeys::only(std::string_view key, bool value, bool missing) {
  if (exporting()) return say(key, value);
  if (flag_or(key, missing) != value)
    fail(key, std::string("not supported here: expected ") + (value ? "true" : "false"));
}

void HfKeys::only_on(std::string_view key) {
  if (exporting()) return say(key, true);
  const Json* const value = find(key);
  if (value != nullptr && (*value == false || *value == 0))
    fail(key, "not supported here: expected true");
}

void HfKeys::only(std::string_view key, double value) {
  if (exporting()) return say(key, unscaled(static_cast<float>(value), 1));
  if (static_cast<float>(number_or(key, value)) != static_cast<float>(value))
    fail(key, "not supported here: expected " + number_text(static_cast<float>(value)) + ", got " +
                  find(key)->dump());
}

}  // namespace cria
