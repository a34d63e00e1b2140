#include "tools/options/sampling.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <random>

#include "engine/constrain/constraint.h"
#include "engine/sample/options.h"
#include "tools/options/command.h"
#include "tools/options/input.h"
#include "tools/terminal/messages.h"

namespace cria::tools {
namespace {

/// Returns a seed short enough to be typed again.
std::uint64_t random_seed() { return std::random_device{}() & 0x7FFFFFFF; }

std::pair<TokenId, float> parse_bias(const std::string& text) {
  TokenId id = 0;
  const char* const end = text.data() + text.size();
  const auto [sign, bad] = std::from_chars(text.data(), end, id);
  if (bad == std::errc() && id >= 0 && sign != end && (*sign == '+' || *sign == '-')) {
    char* rest = nullptr;
    const float bias = std::strtof(sign, &rest);
    if (rest == end && rest != sign) return {id, bias};
  }
  throw CLI::ValidationError("--logit-bias",
                             "expected ID+BIAS or ID-BIAS (15-2.5, 15-inf), got " + text);
}

/// Parses --seed. -1 is a random seed, which is printed so that the answer can be repeated.
std::uint64_t parse_seed(const std::string& text) {
  if (text == "-1") {
    const std::uint64_t seed = random_seed();
    print_note("the seed is " + std::to_string(seed));
    return seed;
  }
  std::uint64_t seed = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, bad] = std::from_chars(text.data(), end, seed);
  if (bad == std::errc() && rest == end) return seed;
  throw CLI::ValidationError(
      "--seed", "expected -1 or a whole number up to 18446744073709551615, got " + text);
}

std::vector<SamplerStep> parse_steps(const std::string& text) {
  try {
    return parse_sampler_steps(text);
  } catch (const Error& error) {
    throw CLI::ValidationError("--samplers", error.what());
  }
}

constexpr const char* kGroup = "Sampling";

/// An option whose help shows its default.
template <typename T>
CLI::Option* add_number(CLI::App& command, const std::string& name, T& value,
                        const std::string& help, T low, T high) {
  return command.add_option(name, value, help)
      ->check(range(low, high))
      ->type_name(std::is_integral_v<T> ? "N" : "X")
      ->group(kGroup)
      ->capture_default_str();
}

CLI::Option* add_strings(CLI::App& command, const std::string& name,
                         std::vector<std::string>& strings, const std::string& help) {
  return command.add_option(name, strings, help)
      ->type_name("TEXT")
      ->allow_extra_args(false)
      ->group(kGroup);
}

/// What ends an answer.
void add_ends(CLI::App& command, GenerateOptions& generate) {
  add_number<std::int64_t>(command, "-n,--max-tokens", generate.max_tokens,
                           "at most N tokens per answer; -1: no limit", -1, 1 << 30);
  add_strings(command, "--stop", generate.stop, "a string that ends the answer; may be repeated");
  command
      .add_flag("--ignore-eos", generate.ignore_eos,
                "continue where the model would end its answer")
      ->group(kGroup);
}

/// Adds a space after each semicolon, so that lines can break there.
std::string breakable(std::string text) {
  for (std::size_t at = 0; (at = text.find(';', at)) != std::string::npos; at += 2)
    text.replace(at, 1, "; ");
  return text;
}

/// Returns a schema given on the command line, or in the file that it names.
std::string schema_text(const std::string& argument) {
  const std::size_t first = argument.find_first_not_of(" \t\r\n");
  const bool is_text = first != std::string::npos && argument[first] == '{';
  return is_text ? argument : read_file(argument);
}

/// Declares the option of one row, by the type of its member.
struct OptionDeclaration {
  CLI::App& command;
  SamplingOptions& sampling;
  const SamplerOption& option;
  std::string flag = "--" + sampler_flag(option);
  std::string help = std::string(option.help);
  SamplerOptions& values = sampling.generate.sampler;

  void operator()(float SamplerOptions::*member) const {
    add_number<float>(command, flag, values.*member, help, static_cast<float>(option.low),
                      static_cast<float>(option.high));
  }
  void operator()(std::int32_t SamplerOptions::*member) const {
    add_number<std::int32_t>(command, flag, values.*member, help,
                             static_cast<std::int32_t>(option.low),
                             static_cast<std::int32_t>(option.high));
  }
  void operator()(std::vector<std::string> SamplerOptions::*member) const {
    add_strings(command, flag, values.*member, help);
  }
  void operator()(std::vector<std::pair<TokenId, float>> SamplerOptions::*) const {
    add_strings(command, flag, sampling.biases, help)->type_name("ID+BIAS");
  }
  void operator()(std::optional<std::uint64_t> SamplerOptions::*member) const {
    command
        .add_option_function<std::string>(
            flag,
            [&target = values.*member](const std::string& text) { target = parse_seed(text); },
            help)
        ->type_name("N")
        ->group(kGroup);
  }
  void operator()(std::vector<SamplerStep> SamplerOptions::*member) const {
    const std::string usual = breakable(sampler_steps_text(values.*member));
    command
        .add_option_function<std::string>(
            flag,
            [&target = values.*member](const std::string& text) { target = parse_steps(text); },
            help + " (default: " + usual + ")")
        ->type_name("ORDER")
        ->group(kGroup);
  }
};

}  // namespace

void SamplingOptions::add_constraint_to(CLI::App& command) {
  const auto add = [&](const char* name, const char* type, const char* what, auto compile) {
    return command
        .add_option_function<std::string>(
            name,
            [this, name, compile](const std::string& text) {
              try {
                generate.constraint = compile(text);
              } catch (const Error& error) {
                throw CLI::ValidationError(name, error.what());
              }
            },
            what)
        ->type_name(type)
        ->group("Form of the answer");
  };
  CLI::Option* const schema =
      add("--json-schema", "FILE|TEXT", "the answer is JSON that matches this schema",
          [](const std::string& text) { return Constraint::json_schema(schema_text(text)); });
  CLI::Option* const grammar =
      add("--grammar", "FILE", "the answer follows this grammar (GBNF, with a rule root)",
          [](const std::string& path) { return Constraint::gbnf(read_file(path)); });
  CLI::Option* const regex =
      add("--regex", "RE", "the whole answer matches this regular expression (ECMA 262)",
          [](const std::string& text) { return Constraint::regex(text); });
  schema->excludes(grammar)->excludes(regex);
  grammar->excludes(regex);
}

void SamplingOptions::add_to(CLI::App& command) {
  command_ = &command;
  add_ends(command, generate);
  for (const SamplerOption& option : kSamplerOptions)
    std::visit(OptionDeclaration{command, *this, option}, option.member);
}

void SamplingOptions::follow(const GgufFile& file, SamplerOptions& sampler) const {
  set_sampling_defaults(file, sampler, [&](const SamplerOption& option) {
    return command_->count("--" + sampler_flag(option)) == 0;
  });
}

GenerateOptions SamplingOptions::resolve() const {
  GenerateOptions options = generate;
  if (options.sampler.dry_sequence_breakers == std::vector<std::string>{"none"})
    options.sampler.dry_sequence_breakers.clear();
  for (const std::string& bias : biases) options.sampler.logit_bias.push_back(parse_bias(bias));
  try {
    check(options.sampler, std::numeric_limits<std::size_t>::max());
  } catch (const Error& error) {  // NaN, which the options' ranges let through
    throw CLI::ValidationError(std::string(error.what()));
  }
  if (!options.sampler.seed) options.sampler.seed = random_seed();
  return options;
}

}  // namespace cria::tools
