#include "tools/options/conversation.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <random>

#include "engine/constrain/constraint.h"
#include "engine/sample/options.h"
#include "tools/options/values.h"
#include "tools/terminal/terminal.h"

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
  throw UsageError("--logit-bias", "expected ID+BIAS or ID-BIAS (15-2.5, 15-inf), got " + text);
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
  throw Error("", "expected -1 or a whole number up to 18446744073709551615, got " + text);
}

/// Adds a space after each semicolon, so that lines can break there.
std::string breakable(std::string text) {
  for (std::size_t at = 0; (at = text.find(';', at)) != std::string::npos; at += 2)
    text.replace(at, 1, "; ");
  return text;
}

/// Returns the text itself, or the content of the file that it names.
std::string file_or_text(const std::string& argument, bool is_text) {
  return is_text ? argument : read_file(argument);
}

/// The flag of a row of kSamplerOptions, by the type of its member.
struct SamplerFlag {
  SamplingOptions& sampling;
  const SamplerOption& option;
  std::string name = "--" + sampler_flag(option);
  std::string help = std::string(option.help);
  SamplerOptions& values = sampling.generate.sampler;

  Flag operator()(float SamplerOptions::*member) const {
    Target target = into::number(values.*member, option.low, option.high);
    if (option.minus_one)
      target.set = [set = std::move(target.set)](const Words& given) {
        set({std::strtod(given.back().c_str(), nullptr) == -1 ? "0" : given.back()});
      };
    return {name, "X", help, std::move(target)};
  }
  Flag operator()(std::int32_t SamplerOptions::*member) const {
    return {name, "N", help, into::number(values.*member, option.low, option.high)};
  }
  Flag operator()(std::vector<std::string> SamplerOptions::*member) const {
    return {name, "TEXT", help, into::each(values.*member)};
  }
  Flag operator()(std::vector<std::pair<TokenId, float>> SamplerOptions::*) const {
    return {name, "ID+BIAS", help, into::each(sampling.biases)};
  }
  Flag operator()(std::optional<std::uint64_t> SamplerOptions::*member) const {
    return {name, "N", help, into::call([&target = values.*member](const std::string& text) {
              target = parse_seed(text);
            })};
  }
  Flag operator()(std::vector<SamplerStep> SamplerOptions::*member) const {
    return {name, "ORDER",
            help + " (default: " + breakable(sampler_steps_text(values.*member)) + ")",
            into::call([&target = values.*member](const std::string& text) {
              target = parse_sampler_steps(text);
            })};
  }
};

/// llama.cpp takes \n in these texts for a newline.
void note_newlines(const std::string& flag, const std::vector<std::string>& texts) {
  for (const std::string& text : texts)
    if (text.find("\\n") != std::string::npos)
      print_note("\\n in " + flag + " is two characters; " + flag + " $'\\n' is a newline in bash");
}

}  // namespace

Flags SamplingOptions::constraint_flags() {
  const auto compiled = [this](auto compile) {
    return into::call(
        [this, compile](const std::string& text) { generate.constraint = compile(text); });
  };
  return in_group(
      {{"--json-schema",
        "FILE|TEXT",
        "the answer is JSON that matches this schema",
        compiled([](const std::string& text) {
          return Constraint::json_schema(file_or_text(text, text.find('{') != std::string::npos));
        }),
        {.excludes = "--grammar,--regex"}},
       {"--grammar",
        "FILE|TEXT",
        "the answer follows this grammar (GBNF, with a rule root)",
        compiled([](const std::string& text) {
          return Constraint::gbnf(file_or_text(text, text.find("::=") != std::string::npos));
        }),
        {.excludes = "--regex"}},
       {"--regex", "RE", "the whole answer matches this regular expression (ECMA 262)",
        compiled([](const std::string& text) { return Constraint::regex(text); })}},
      "Form of the answer");
}

Flags SamplingOptions::flags() {
  Flags rows = {{"-n,--max-tokens", "N", "at most N tokens per answer; -1: no limit",
                 into::number(generate.max_tokens, -1, 1 << 30)},
                {"--stop", "TEXT", "a string that ends the answer; may be repeated",
                 into::each(generate.stop)},
                {"--ignore-eos", "", "continue where the model would end its answer",
                 into::flag(generate.ignore_eos)}};
  for (const SamplerOption& option : kSamplerOptions)
    rows.push_back(std::visit(SamplerFlag{*this, option}, option.member));
  return in_group(std::move(rows), "Sampling");
}

void SamplingOptions::follow(const GgufFile& file, SamplerOptions& sampler) const {
  set_sampling_defaults(file, sampler, [&](const SamplerOption& option) {
    return command == nullptr || !command->given("--" + sampler_flag(option));
  });
}

GenerateOptions SamplingOptions::resolve() const {
  GenerateOptions options = generate;
  if (options.sampler.dry_sequence_breakers == std::vector<std::string>{"none"})
    options.sampler.dry_sequence_breakers.clear();
  note_newlines("--stop", options.stop);
  note_newlines("--dry-sequence-breaker", options.sampler.dry_sequence_breakers);
  for (const std::string& bias : biases) options.sampler.logit_bias.push_back(parse_bias(bias));
  try {
    check(options.sampler, std::numeric_limits<std::size_t>::max());
  } catch (const Error& error) {  // NaN, which the options' ranges let through
    throw UsageError(error.what());
  }
  if (!options.sampler.seed) options.sampler.seed = random_seed();
  return options;
}

}  // namespace cria::tools
