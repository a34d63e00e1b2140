#include "engine/sample/defaults.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "model/error.h"
#include "model/plural.h"

namespace cria {
namespace {

constexpr std::string_view kPrefix = "general.sampling.", kSequence = "sequence";

struct NumberKey {
  std::string_view end;
  std::variant<float SamplerOptions::*, std::int32_t SamplerOptions::*> field;
  double off;  ///< the value that does nothing
};
constexpr std::array kNumbers = {
    NumberKey{"temp", &SamplerOptions::temperature, -1},
    NumberKey{"top_k", &SamplerOptions::top_k, 0},
    NumberKey{"top_p", &SamplerOptions::top_p, 1},
    NumberKey{"min_p", &SamplerOptions::min_p, 0},
    NumberKey{"xtc_probability", &SamplerOptions::xtc_probability, 0},
    NumberKey{"xtc_threshold", &SamplerOptions::xtc_threshold, 1},
    NumberKey{"penalty_last_n", &SamplerOptions::repeat_last_n, 0},
    NumberKey{"penalty_repeat", &SamplerOptions::repeat_penalty, 1},
    NumberKey{"mirostat", &SamplerOptions::mirostat, 0},
    NumberKey{"mirostat_tau", &SamplerOptions::mirostat_tau, -1},
    NumberKey{"mirostat_eta", &SamplerOptions::mirostat_eta, -1},
};

/// What no key of a file says.
struct OtherNumber {
  std::string_view name;
  float SamplerOptions::*field;
  float off;
  bool greedy, mirostat;  ///< whether it has an effect then
};
constexpr std::array kOthers = {
    OtherNumber{"typical_p", &SamplerOptions::typical_p, 1, false, false},
    OtherNumber{"top_n_sigma", &SamplerOptions::top_n_sigma, 0, false, false},
    OtherNumber{"dynatemp_range", &SamplerOptions::dynatemp_range, 0, false, true},
    OtherNumber{"presence_penalty", &SamplerOptions::presence_penalty, 0, true, true},
    OtherNumber{"frequency_penalty", &SamplerOptions::frequency_penalty, 0, true, true},
    OtherNumber{"dry_multiplier", &SamplerOptions::dry_multiplier, 0, true, true},
};

std::string key_of(std::string_view end) { return std::string(kPrefix) + std::string(end); }

/// A number of any type as a double; Error for what is none.
double number_of(const GgufFile& file, const GgufValue& value) {
  const GgufData data = copy_value(file, value);
  return std::visit(
      [&](const auto& v) -> double {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>)
          return static_cast<double>(v);
        else
          throw Error(
              "", "wrong type of a key: expected a number, got " + std::string(name(value.type)));
      },
      static_cast<const GgufDataVariant&>(data));
}

void set_number(SamplerOptions& options, const NumberKey& key, double number) {
  // Others write -1 for a top-k that is off, and take a temperature below 0 for greedy.
  if ((key.end == "top_k" || key.end == "temp") && number < 0) number = 0;
  std::visit(
      [&](auto field) {
        using T = std::decay_t<decltype(options.*field)>;
        if constexpr (std::is_integral_v<T>) {
          if (!(number >= INT32_MIN && number <= INT32_MAX) || number != std::floor(number))
            throw Error("", "expected a whole number of 32 bits, got " +
                                number_text(static_cast<float>(number)));
        }
        options.*field = static_cast<T>(number);
      },
      key.field);
  check(options, std::numeric_limits<std::size_t>::max());
}

double number_in(const SamplerOptions& options, const NumberKey& key) {
  return std::visit([&](auto field) { return static_cast<double>(options.*field); }, key.field);
}

/// Whether it has an effect as things stand.
bool counts(const SamplerOptions& options, const NumberKey& key) {
  if (key.end == "temp") return true;
  if (key.end == "penalty_last_n")
    return options.repeat_penalty != 1 || options.presence_penalty != 0 ||
           options.frequency_penalty != 0;
  if (options.temperature == 0) return key.end == "penalty_repeat" && options.repeat_penalty != 1;
  if (key.end.starts_with("mirostat")) return options.mirostat != 0;
  if (options.mirostat != 0 && key.end != "penalty_repeat") return false;
  if (key.end == "xtc_threshold") return options.xtc_probability != 0;
  return number_in(options, key) != key.off;
}

bool counts(const SamplerOptions& options, const OtherNumber& other) {
  return options.*other.field != other.off && (other.greedy || options.temperature != 0) &&
         (other.mirostat || options.mirostat == 0);
}

}  // namespace

std::vector<std::string_view> sampling_keys() {
  std::vector<std::string_view> keys;
  for (const NumberKey& key : kNumbers) keys.push_back(key.end);
  keys.push_back(kSequence);
  return keys;
}

void set_sampling_defaults(const GgufFile& file, SamplerOptions& options,
                           const std::function<bool(std::string_view)>& may) {
  const auto with = [&](std::string_view end, const auto& set) {
    const GgufValue* const value = may && !may(end) ? nullptr : file.find(key_of(end));
    if (value == nullptr) return;
    try {
      set(*value);
    } catch (const Error& error) {
      throw file.error(error.what(), "key " + key_of(end));
    }
  };
  for (const NumberKey& key : kNumbers)
    with(key.end,
         [&](const GgufValue& value) { set_number(options, key, number_of(file, value)); });
  with(kSequence, [&](const GgufValue& value) {
    if (value.type != GgufType::String)
      throw Error("", "wrong type of a key: expected string, got " + std::string(name(value.type)));
    options.steps = parse_sampler_steps({reinterpret_cast<const char*>(value.data), value.bytes});
  });
}

GgufData sampling_value(std::string_view end, double number) {
  const auto* const key = std::ranges::find(kNumbers, end, &NumberKey::end);
  if (key == kNumbers.end()) throw Error("", "no key of a number", "key " + key_of(end));
  SamplerOptions options;
  set_number(options, *key, number);
  return std::visit([&](auto field) -> GgufData { return options.*field; }, key->field);
}

std::string sampling_text(const SamplerOptions& options, const GgufFile& file) {
  SamplerOptions said = options;
  set_sampling_defaults(file, said);
  std::string text, of_file;
  const auto add = [](std::string& list, const std::string& item) {
    list += (list.empty() ? "" : ", ") + item;
  };
  for (const NumberKey& key : kNumbers) {
    if (!counts(options, key)) continue;
    add(text,
        std::string(key.end) + " " + number_text(static_cast<float>(number_in(options, key))));
    if (file.find(key_of(key.end)) != nullptr && number_in(said, key) == number_in(options, key))
      add(of_file, std::string(key.end));
  }
  for (const OtherNumber& other : kOthers)
    if (counts(options, other))
      add(text, std::string(other.name) + " " + number_text(options.*other.field));
  if (!options.logit_bias.empty())
    add(text, "logit_bias of " + counted(options.logit_bias.size(), "token"));
  if (options.steps != default_sampler_steps()) {
    add(text, "sequence " + sampler_steps_text(options.steps));
    if (file.find(key_of(kSequence)) != nullptr && said.steps == options.steps)
      add(of_file, std::string(kSequence));
  }
  return text + (of_file.empty() ? "" : " (the model's: " + of_file + ")");
}

}  // namespace cria
