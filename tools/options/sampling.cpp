#include "tools/options/sampling.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <random>

#include "engine/constrain/constraint.h"
#include "engine/sample/defaults.h"
#include "tools/options/command.h"
#include "tools/options/input.h"
#include "tools/terminal/messages.h"

namespace cria::tools {
namespace {

/// Small enough to be typed again.
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

/// -1: a random one, which is told so that the answer can be had again.
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

/// An option that is a number, its default in the help.
template <typename T>
CLI::Option* add_number(CLI::App& command, const char* name, T& value, const char* what) {
  return command.add_option(name, value, what)
      ->type_name(std::is_integral_v<T> ? "N" : "X")
      ->group(kGroup)
      ->capture_default_str();
}

/// Where the answer ends.
void add_ends(CLI::App& command, GenerateOptions& generate) {
  add_number(command, "-n,--max-tokens", generate.max_tokens,
             "at most N tokens per answer; -1: no limit")
      ->check(range(-1, 1 << 30));
  command.add_option("--stop", generate.stop, "a text that ends the answer; may be repeated")
      ->type_name("TEXT")
      ->allow_extra_args(false)
      ->group(kGroup);
  command
      .add_flag("--ignore-eos", generate.ignore_eos,
                "continue where the model would end its answer")
      ->group(kGroup);
}

/// The option that says what the key general.sampling.KEY says.
std::string flag_of(std::string_view key) {
  constexpr std::pair<std::string_view, std::string_view> kOtherNames[] = {
      {"penalty_repeat", "--repeat-penalty"},
      {"penalty_last_n", "--repeat-last-n"},
      {"mirostat_tau", "--mirostat-ent"},
      {"mirostat_eta", "--mirostat-lr"},
      {"sequence", "--samplers"}};
  for (const auto& [name, flag] : kOtherNames)
    if (name == key) return std::string(flag);
  std::string flag = "--" + std::string(key);
  std::ranges::replace(flag, '_', '-');
  return flag;
}

/// What takes tokens away, and the temperature.
void add_filters(CLI::App& command, SamplerOptions& s) {
  const CLI::Validator share = range(0.0, 1.0);
  add_number(command, "--temp", s.temperature, "temperature; 0: always the likeliest token")
      ->check(range(0.0, 1e6));
  add_number(command, "--dynatemp-range", s.dynatemp_range,
             "dynamic temperature: --temp minus this where the model is sure, plus this where it "
             "is not; 0: off")
      ->check(range(0.0, 1e6));
  add_number(command, "--dynatemp-exp", s.dynatemp_exponent,
             "dynamic temperature: exponent applied to the normalized entropy")
      ->check(range(0.0, 100.0));
  add_number(command, "--top-k", s.top_k, "only the N likeliest tokens; 0: off")
      ->check(range(0, 1 << 30));
  add_number(command, "--top-p", s.top_p,
             "only the likeliest tokens that together have this probability; 1: off")
      ->check(share);
  add_number(command, "--min-p", s.min_p,
             "only tokens at least this fraction as likely as the likeliest; 0: off")
      ->check(share);
  add_number(command, "--typical", s.typical_p,
             "locally typical sampling: only the most typical tokens that together have this "
             "probability; 1: off")
      ->check(share);
  add_number(
      command, "--top-n-sigma", s.top_n_sigma,
      "only tokens whose logit is within this many standard deviations of the largest; 0: off")
      ->check(range(0.0, 1e6));
  add_number(command, "--xtc-probability", s.xtc_probability,
             "XTC: chance of excluding all likely tokens except the least likely of them; 0: off")
      ->check(share);
  add_number(command, "--xtc-threshold", s.xtc_threshold,
             "XTC: probability from which a token counts as likely; above 0.5: off")
      ->check(share);
  add_number(command, "--mirostat", s.mirostat,
             "1 or 2: keep the surprise near a target, instead of the filters; 0: off")
      ->check(range(0, 2));
  add_number(command, "--mirostat-ent", s.mirostat_tau,
             "mirostat: the target surprise, in bits (tau)")
      ->check(range(0.0, 100.0));
  add_number(command, "--mirostat-lr", s.mirostat_eta, "mirostat: learning rate (eta)")
      ->check(range(0.0, 100.0));
}

/// What makes logits smaller or larger.
void add_penalties(CLI::App& command, SamplerOptions& s, std::vector<std::string>& biases) {
  add_number(
      command, "--repeat-penalty", s.repeat_penalty,
      "makes tokens that have occurred less likely: divides positive logits by this, multiplies "
      "negative ones; 1: off")
      ->check(range(1e-3, 1e3));
  add_number(command, "--repeat-last-n", s.repeat_last_n,
             "penalties consider the last N tokens; -1: all")
      ->check(range(-1, 1 << 30));
  add_number(command, "--presence-penalty", s.presence_penalty,
             "subtracted from the logits of tokens that have occurred")
      ->check(range(-1e3, 1e3));
  add_number(command, "--frequency-penalty", s.frequency_penalty,
             "subtracted from the logit of a token, once for each time it has occurred")
      ->check(range(-1e3, 1e3));
  add_number(command, "--dry-multiplier", s.dry_multiplier,
             "DRY: penalty on a token that continues a repetition; 0: off")
      ->check(range(0.0, 1e3));
  add_number(command, "--dry-base", s.dry_base,
             "DRY: the penalty grows by this factor with each further token of the repetition")
      ->check(range(1.0, 1e3));
  add_number(command, "--dry-allowed-length", s.dry_allowed_length,
             "DRY: repetitions shorter than this cost nothing")
      ->check(range(0, 1 << 30));
  add_number(command, "--dry-penalty-last-n", s.dry_last_n,
             "DRY: considers the last N tokens; -1: all, 0: none")
      ->check(range(-1, 1 << 30));
  command
      .add_option(
          "--dry-sequence-breaker", s.dry_sequence_breakers,
          "DRY: a text that ends repetitions, instead of newline, :, \" and *; may be repeated; "
          "none: no text")
      ->type_name("TEXT")
      ->allow_extra_args(false)
      ->group(kGroup);
  command.add_option("--logit-bias", biases, "adds BIAS to the logit of token ID; may be repeated")
      ->type_name("ID+BIAS")
      ->allow_extra_args(false)
      ->group(kGroup);
}

/// With a blank after each semicolon, where a line may end.
std::string breakable(std::string text) {
  for (std::size_t at = 0; (at = text.find(';', at)) != std::string::npos; at += 2)
    text.replace(at, 1, "; ");
  return text;
}

/// A schema as it stands on the command line, or the file that holds it.
std::string schema_text(const std::string& argument) {
  const std::size_t first = argument.find_first_not_of(" \t\r\n");
  const bool is_text = first != std::string::npos && argument[first] == '{';
  return is_text ? argument : read_file(argument);
}

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
  SamplerOptions& s = generate.sampler;
  add_ends(command, generate);
  command
      .add_option_function<std::string>(
          "--seed", [&s](const std::string& text) { s.seed = parse_seed(text); },
          "the same seed gives the same answer; -1: a random seed, which is shown (default: a "
          "random one)")
      ->type_name("N")
      ->group(kGroup);
  add_filters(command, s);
  command
      .add_option_function<std::string>(
          "--samplers", [&s](const std::string& text) { s.steps = parse_steps(text); },
          "the sampling steps in their order, separated by semicolons (default: " +
              breakable(sampler_steps_text(s.steps)) + ")")
      ->type_name("ORDER")
      ->group(kGroup);
  add_penalties(command, s, biases);
}

void SamplingOptions::follow(const GgufFile& file, SamplerOptions& sampler) const {
  set_sampling_defaults(file, sampler,
                        [&](std::string_view key) { return command_->count(flag_of(key)) == 0; });
}

GenerateOptions SamplingOptions::resolve() const {
  GenerateOptions options = generate;
  if (options.sampler.dry_sequence_breakers == std::vector<std::string>{"none"})
    options.sampler.dry_sequence_breakers.clear();
  for (const std::string& bias : biases) options.sampler.logit_bias.push_back(parse_bias(bias));
  try {
    check(options.sampler, std::numeric_limits<std::size_t>::max());
  } catch (const Error& error) {  // what the options' own ranges let through: NaN
    throw CLI::ValidationError(std::string(error.what()));
  }
  if (!options.sampler.seed) options.sampler.seed = random_seed();
  return options;
}

}  // namespace cria::tools
