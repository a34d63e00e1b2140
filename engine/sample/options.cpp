#include "engine/sample/options.h"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <type_traits>

#include "model/error.h"
#include "model/gguf/writer.h"
#include "model/plural.h"

namespace cria {
namespace {

using Floats = float SamplerOptions::*;
using Integers = std::int32_t SamplerOptions::*;
using Steps = std::vector<SamplerStep> SamplerOptions::*;

[[noreturn]] void refuse_number(const SamplerOption& option, double got) {
  std::ostringstream text;
  text << option.name << ": expected a "
       << (std::holds_alternative<Integers>(option.member) ? "whole number" : "number") << " from "
       << option.low;
  if (option.high == kMaxSamplerCount)
    text << " on";
  else
    text << " to " << option.high;
  text << ", got " << number_text(static_cast<float>(got));
  throw Error("", text.str());
}

/// True if the option changes the result as the others are.
bool in_effect(const SamplerOptions& options, const SamplerOption& option) {
  using Effect = SamplerOption::Effect;
  const auto number = sampler_number(options, option);
  if (!number) return false;
  if (option.effect != Effect::Always && options.temperature == 0) return false;
  if (option.effect == Effect::Filter && options.mirostat != 0) return false;
  if (!option.needs.empty()) return in_effect(options, *find_sampler_option(option.needs));
  return *number != option.off && !(option.name == "top_k" && *number < 0);
}

std::string key_of(std::string_view name) { return "general.sampling." + std::string(name); }

/// Returns a number of any type. Throws Error for other types.
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

/// Other programs write -1 for a top-k that is off, and take a temperature below 0 for greedy.
void set_file_number(SamplerOptions& options, const SamplerOption& option, double value) {
  const bool off = value < 0 && (option.gguf == "top_k" || option.gguf == "temp");
  set_sampler_number(options, option, off ? 0 : value);
}

void set_from_file(SamplerOptions& options, const SamplerOption& option, const GgufFile& file,
                   const GgufValue& value) {
  const auto* const steps = std::get_if<Steps>(&option.member);
  if (steps == nullptr) return set_file_number(options, option, number_of(file, value));
  if (value.type != GgufType::String)
    throw Error("", "wrong type of a key: expected string, got " + std::string(name(value.type)));
  options.*(*steps) = parse_sampler_steps({reinterpret_cast<const char*>(value.data), value.bytes});
}

}  // namespace

const SamplerOption* find_sampler_option(std::string_view name) {
  const auto found = std::ranges::find_if(kSamplerOptions, [name](const SamplerOption& option) {
    return option.name == name || (!name.empty() && option.alias == name);
  });
  return found == std::end(kSamplerOptions) ? nullptr : &*found;
}

std::string sampler_flag(const SamplerOption& option) {
  std::string flag(option.flag.empty() ? option.name : option.flag);
  std::ranges::replace(flag, '_', '-');
  return flag;
}

std::optional<double> sampler_number(const SamplerOptions& options, const SamplerOption& option) {
  if (const auto* const real = std::get_if<Floats>(&option.member)) return options.*(*real);
  if (const auto* const whole = std::get_if<Integers>(&option.member)) return options.*(*whole);
  return std::nullopt;
}

void set_sampler_number(SamplerOptions& options, const SamplerOption& option, double value) {
  if (!(value >= option.low && value <= option.high)) refuse_number(option, value);
  if (const auto* const real = std::get_if<Floats>(&option.member)) {
    options.*(*real) = static_cast<float>(value);
    return;
  }
  if (value != std::trunc(value)) refuse_number(option, value);
  options.*std::get<Integers>(option.member) = static_cast<std::int32_t>(value);
}

void check(const SamplerOptions& options, std::size_t n_vocab) {
  SamplerOptions same = options;
  for (const SamplerOption& option : kSamplerOptions)
    if (const auto number = sampler_number(options, option))
      set_sampler_number(same, option, *number);
  for (const auto& [id, bias] : options.logit_bias) {
    if (id < 0 || static_cast<std::size_t>(id) >= n_vocab)
      throw Error("",
                  "logit_bias: expected a token of the vocabulary, got id " + std::to_string(id));
    if (!(bias < std::numeric_limits<float>::infinity()))
      throw Error("", "logit_bias: expected a number below infinity, got " + number_text(bias));
  }
}

void set_sampling_defaults(const GgufFile& file, SamplerOptions& options,
                           const std::function<bool(const SamplerOption&)>& may) {
  for (const SamplerOption& option : kSamplerOptions) {
    if (option.gguf.empty() || (may && !may(option))) continue;
    const GgufValue* const value = file.find(key_of(option.gguf));
    if (value == nullptr) continue;
    try {
      set_from_file(options, option, file, *value);
    } catch (const Error& error) {
      throw file.error(error.what(), "key " + key_of(option.gguf));
    }
  }
}

GgufData sampling_value(std::string_view gguf_key, double number) {
  SamplerOptions options;
  for (const SamplerOption& option : kSamplerOptions) {
    if (option.gguf != gguf_key || gguf_key.empty() || !sampler_number(options, option)) continue;
    set_file_number(options, option, number);
    if (const auto* const real = std::get_if<Floats>(&option.member)) return options.*(*real);
    return options.*std::get<Integers>(option.member);
  }
  throw Error("", "the key holds no number", "key " + key_of(gguf_key));
}

std::string sampling_text(const SamplerOptions& options, const GgufFile& file) {
  SamplerOptions written = options;
  set_sampling_defaults(file, written);
  std::string text, of_file;
  const auto add = [](std::string& list, const std::string& item) {
    list += (list.empty() ? "" : ", ") + item;
  };
  const auto add_option = [&](const SamplerOption& option, const std::string& value, bool same) {
    const std::string name(option.gguf.empty() ? option.name : option.gguf);
    add(text, name + " " + value);
    if (same && !option.gguf.empty() && file.find(key_of(option.gguf)) != nullptr)
      add(of_file, name);
  };
  for (const SamplerOption& option : kSamplerOptions) {
    if (std::holds_alternative<Steps>(option.member) && options.steps != default_sampler_steps())
      add_option(option, sampler_steps_text(options.steps), written.steps == options.steps);
    if (!in_effect(options, option)) continue;
    const double number = *sampler_number(options, option);
    add_option(option, number_text(static_cast<float>(number)),
               sampler_number(written, option) == number);
  }
  if (!options.logit_bias.empty())
    add(text, "logit_bias of " + counted(options.logit_bias.size(), "token"));
  return text + (of_file.empty() ? "" : " (the model's: " + of_file + ")");
}

}  // namespace cria
