#include "tools/sampling_options.h"

#include <charconv>
#include <cstdlib>
#include <random>

#include "tools/common.h"

namespace cria::tools {
namespace {

std::pair<TokenId, float> parse_bias(const std::string& text) {
  TokenId id = 0;
  const char* const end = text.data() + text.size();
  const auto [sign, bad] = std::from_chars(text.data(), end, id);
  if (bad == std::errc() && id >= 0 && sign != end && (*sign == '+' || *sign == '-')) {
    char* rest = nullptr;
    const float bias = std::strtof(sign, &rest);
    if (rest == end && rest != sign) return {id, bias};
  }
  throw CLI::ValidationError("--logit-bias", "expected ID+BIAS or ID-BIAS (15-2.5, 15-inf), got " + text);
}

}  // namespace

void SamplingOptions::add_to(CLI::App& command) {
  SamplerOptions& s = generate.sampler;
  const std::string group = "Sampling";
  const auto number = [&](const char* name, auto& value, const char* what) {
    return command.add_option(name, value, what)->type_name("X")->group(group)->capture_default_str();
  };
  const CLI::Validator share = range(0.0, 1.0);
  command.add_option("-n,--max-tokens", generate.max_tokens, "tokens of an answer at most; -1: no limit")
      ->type_name("N")
      ->check(range(-1, 1 << 30))
      ->group(group)
      ->capture_default_str();
  command.add_option("--seed", s.seed, "the same seed gives the same answer (default: another each time)")
      ->type_name("N")
      ->group(group);
  number("--temp", s.temperature, "temperature; 0: always the likeliest token")->check(range(0.0, 1e6));
  number("--top-k", s.top_k, "only the K likeliest; 0: off")->type_name("K")->check(range(0, 1 << 30));
  number("--top-p", s.top_p, "only the likeliest that make up this share; 1: off")->check(share);
  number("--min-p", s.min_p, "only those at least this likely beside the likeliest; 0: off")->check(share);
  number("--typical", s.typical_p, "only those of typical information, of this share; 1: off")->check(share);
  number("--repeat-penalty", s.repeat_penalty, "divides the logits of tokens seen; 1: off")
      ->check(range(1e-3, 1e3));
  number("--repeat-last-n", s.repeat_last_n, "tokens that penalties look back at; -1: all")
      ->type_name("N")
      ->check(range(-1, 1 << 30));
  number("--presence-penalty", s.presence_penalty, "taken from the logits of tokens seen")
      ->check(range(-1e3, 1e3));
  number("--frequency-penalty", s.frequency_penalty, "likewise, once for each time seen")
      ->check(range(-1e3, 1e3));
  command.add_option("--logit-bias", biases, "adds to the logit of a token; may be repeated")
      ->type_name("ID+BIAS")
      ->allow_extra_args(false)
      ->group(group);
  command.add_option("--stop", generate.stop, "a text that ends the answer; may be repeated")
      ->type_name("TEXT")
      ->allow_extra_args(false)
      ->group(group);
  command.add_flag("--ignore-eos", generate.ignore_eos, "goes on where the model would end")->group(group);
}

GenerateOptions SamplingOptions::resolve() const {
  GenerateOptions options = generate;
  for (const std::string& bias : biases) options.sampler.logit_bias.push_back(parse_bias(bias));
  if (options.sampler.seed == SamplerOptions{}.seed)
    options.sampler.seed = std::random_device{}() & 0x7FFFFFFF;
  return options;
}

}  // namespace cria::tools
