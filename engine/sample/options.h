// Options of sampling, the table that describes them, and the steps.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "model/token_id.h"

namespace cria {

class GgufFile;
struct GgufData;

/// The steps of sampling, in their default order.
enum class SamplerStep : std::uint8_t {
  Penalties,
  Dry,
  TopNSigma,
  TopK,
  Typical,
  TopP,
  MinP,
  Xtc,
  Temperature,
};
std::vector<SamplerStep> default_sampler_steps();
/// Parses step names separated by ';' or ',' ('-' may stand for '_'), as llama.cpp writes them:
/// penalties, dry, top_n_sigma, top_k, typ_p (or typical, typical_p, typ), top_p (or nucleus),
/// min_p, xtc, temperature (or temp). "" means no step. Throws Error for an unknown name, and for
/// one that is given twice.
std::vector<SamplerStep> parse_sampler_steps(std::string_view text);
/// Returns the names, separated by ';'.
std::string sampler_steps_text(const std::vector<SamplerStep>& steps);

/// The initial values are the defaults of `cria run`. kSamplerOptions has ranges and help.
struct SamplerOptions {
  float temperature = 0.8F;             ///< 0: greedy
  float dynatemp_range = 0;             ///< temperature moves by this much with the entropy; 0: off
  float dynatemp_exponent = 1;          ///< power of the relative entropy
  std::int32_t top_k = 40;              ///< 0: off
  float top_p = 0.95F;                  ///< 1: off
  float min_p = 0.05F;                  ///< 0: off
  float typical_p = 1;                  ///< 1: off
  float top_n_sigma = 0;                ///< 0: off
  float xtc_probability = 0;            ///< 0: off
  float xtc_threshold = 0.1F;           ///< above 0.5: off
  float repeat_penalty = 1;             ///< 1: off
  std::int32_t repeat_last_n = 64;      ///< tokens that repeat_penalty looks at; -1: all
  float presence_penalty = 0;           ///< 0: off
  float frequency_penalty = 0;          ///< 0: off
  float dry_multiplier = 0;             ///< 0: off
  float dry_base = 1.75F;               ///< growth of the penalty per token
  std::int32_t dry_allowed_length = 2;  ///< shorter repetitions cost nothing
  std::int32_t dry_last_n = -1;         ///< tokens that DRY looks at; -1: all, 0: off
  std::vector<std::string> dry_sequence_breakers = {"\n", ":", "\"", "*"};  ///< need a tokenizer
  std::int32_t mirostat = 0;                                 ///< version 1 or 2; 0: off
  float mirostat_tau = 5;                                    ///< target surprise, in bits
  float mirostat_eta = 0.1F;                                 ///< learning rate
  std::vector<SamplerStep> steps = default_sampler_steps();  ///< steps in their order
  std::vector<std::pair<TokenId, float>> logit_bias;         ///< added to logits before all steps
  std::optional<std::uint64_t> seed;  ///< nullopt: a random seed for each answer
};

/// One option of sampling. The command line, the JSON of `cria serve` and `cria batch`, the C
/// interface, GGUF files, the help and check() all loop over these rows.
struct SamplerOption {
  /// Pointer to the option's member.
  using Member = std::variant<float SamplerOptions::*, std::int32_t SamplerOptions::*,
                              std::optional<std::uint64_t> SamplerOptions::*,
                              std::vector<SamplerStep> SamplerOptions::*,
                              std::vector<std::string> SamplerOptions::*,
                              std::vector<std::pair<TokenId, float>> SamplerOptions::*>;
  /// When an option has an effect.
  enum class Effect : std::uint8_t { Always, Sampled, Filter };

  std::string_view name;        ///< in JSON and C; '-' for '_' on the command line
  std::string_view flag = {};   ///< on the command line, if it has another name there
  std::string_view alias = {};  ///< a second name in JSON and C
  std::string_view gguf = {};   ///< the key of a GGUF file, after "general.sampling."
  std::string_view hf = {};     ///< the name in generation_config.json
  Member member;                ///< the value in SamplerOptions
  double low = 0, high = 0;     ///< limits of a number
  double openai = std::numeric_limits<double>::infinity();  ///< |x| at most, in OpenAI's requests
  double off = std::numeric_limits<double>::quiet_NaN();    ///< the value without effect
  bool minus_one = false;          ///< requests and options may say -1 for off, as llama.cpp does
  Effect effect = Effect::Filter;  ///< Sampled: not at temperature 0; Filter: nor with mirostat
  std::string_view needs = {};     ///< the option without which this one has no effect
  std::string_view help = {};      ///< one line
};

inline constexpr double kMaxSamplerCount = std::numeric_limits<std::int32_t>::max();

inline constexpr SamplerOption kSamplerOptions[] = {
    {.name = "seed",
     .member = &SamplerOptions::seed,
     .help = "the same seed gives the same answer; -1: a random seed, which is shown (default: a "
             "random one)"},
    {.name = "temperature",
     .flag = "temp",
     .gguf = "temp",
     .hf = "temperature",
     .member = &SamplerOptions::temperature,
     .high = 1e6,
     .openai = 2,
     .effect = SamplerOption::Effect::Always,
     .help = "temperature; 0: always the most likely token"},
    {.name = "dynatemp_range",
     .member = &SamplerOptions::dynatemp_range,
     .high = 1e6,
     .off = 0,
     .effect = SamplerOption::Effect::Sampled,
     .help = "dynamic temperature: --temp minus this if the model is sure, plus this if it is "
             "not; 0: off"},
    {.name = "dynatemp_exponent",
     .flag = "dynatemp-exp",
     .member = &SamplerOptions::dynatemp_exponent,
     .high = 100,
     .effect = SamplerOption::Effect::Sampled,
     .needs = "dynatemp_range",
     .help = "dynamic temperature: exponent applied to the normalized entropy"},
    {.name = "top_k",
     .gguf = "top_k",
     .hf = "top_k",
     .member = &SamplerOptions::top_k,
     .low = -1,
     .high = kMaxSamplerCount,
     .off = 0,
     .help = "only the N most likely tokens; 0 or -1: off"},
    {.name = "top_p",
     .gguf = "top_p",
     .hf = "top_p",
     .member = &SamplerOptions::top_p,
     .high = 1,
     .off = 1,
     .help = "only the most likely tokens that together have this probability; 1: off"},
    {.name = "min_p",
     .gguf = "min_p",
     .hf = "min_p",
     .member = &SamplerOptions::min_p,
     .high = 1,
     .off = 0,
     .help = "only tokens at least this fraction as likely as the most likely; 0: off"},
    {.name = "typical_p",
     .flag = "typical",
     .alias = "typ_p",
     .member = &SamplerOptions::typical_p,
     .high = 1,
     .off = 1,
     .help = "locally typical sampling: only the most typical tokens that together have this "
             "probability; 1: off"},
    {.name = "top_n_sigma",
     .member = &SamplerOptions::top_n_sigma,
     .high = 1e6,
     .off = 0,
     .minus_one = true,
     .help = "only tokens whose logit is within this many standard deviations of the largest; 0: "
             "off"},
    {.name = "xtc_probability",
     .gguf = "xtc_probability",
     .member = &SamplerOptions::xtc_probability,
     .high = 1,
     .off = 0,
     .help = "XTC: chance of excluding all likely tokens except the least likely of them; 0: off"},
    {.name = "xtc_threshold",
     .gguf = "xtc_threshold",
     .member = &SamplerOptions::xtc_threshold,
     .high = 1,
     .needs = "xtc_probability",
     .help = "XTC: probability from which a token counts as likely; above 0.5: off"},
    {.name = "mirostat",
     .gguf = "mirostat",
     .member = &SamplerOptions::mirostat,
     .high = 2,
     .off = 0,
     .effect = SamplerOption::Effect::Sampled,
     .help = "1 or 2: keep the surprise near a target, instead of the filters; 0: off"},
    {.name = "mirostat_tau",
     .flag = "mirostat-ent",
     .gguf = "mirostat_tau",
     .member = &SamplerOptions::mirostat_tau,
     .high = 100,
     .effect = SamplerOption::Effect::Sampled,
     .needs = "mirostat",
     .help = "mirostat: the target surprise, in bits (tau)"},
    {.name = "mirostat_eta",
     .flag = "mirostat-lr",
     .gguf = "mirostat_eta",
     .member = &SamplerOptions::mirostat_eta,
     .high = 100,
     .effect = SamplerOption::Effect::Sampled,
     .needs = "mirostat",
     .help = "mirostat: learning rate (eta)"},
    {.name = "samplers",
     .alias = "steps",
     .gguf = "sequence",
     .member = &SamplerOptions::steps,
     .help = "the sampling steps in their order, separated by semicolons"},
    {.name = "repeat_penalty",
     .alias = "repetition_penalty",
     .gguf = "penalty_repeat",
     .hf = "repetition_penalty",
     .member = &SamplerOptions::repeat_penalty,
     .low = 1e-3,
     .high = 1e3,
     .off = 1,
     .effect = SamplerOption::Effect::Always,
     .help = "makes tokens that have occurred in prompt or answer less likely: divides positive "
             "logits by this, multiplies negative ones; 1: off"},
    {.name = "repeat_last_n",
     .gguf = "penalty_last_n",
     .member = &SamplerOptions::repeat_last_n,
     .low = -1,
     .high = kMaxSamplerCount,
     .effect = SamplerOption::Effect::Always,
     .needs = "repeat_penalty",
     .help = "--repeat-penalty considers the last N tokens; -1: all"},
    {.name = "presence_penalty",
     .member = &SamplerOptions::presence_penalty,
     .low = -1e3,
     .high = 1e3,
     .openai = 2,
     .off = 0,
     .effect = SamplerOption::Effect::Always,
     .help = "subtracted from the logits of tokens that have occurred in the answer"},
    {.name = "frequency_penalty",
     .member = &SamplerOptions::frequency_penalty,
     .low = -1e3,
     .high = 1e3,
     .openai = 2,
     .off = 0,
     .effect = SamplerOption::Effect::Always,
     .help = "subtracted from the logit of a token, once for each time it has occurred in the "
             "answer"},
    {.name = "dry_multiplier",
     .member = &SamplerOptions::dry_multiplier,
     .high = 1e3,
     .off = 0,
     .effect = SamplerOption::Effect::Always,
     .help = "DRY: penalty on a token that continues a repetition; 0: off"},
    {.name = "dry_base",
     .member = &SamplerOptions::dry_base,
     .low = 1,
     .high = 1e3,
     .effect = SamplerOption::Effect::Always,
     .needs = "dry_multiplier",
     .help = "DRY: the penalty grows by this factor with each further token of the repetition"},
    {.name = "dry_allowed_length",
     .member = &SamplerOptions::dry_allowed_length,
     .high = kMaxSamplerCount,
     .effect = SamplerOption::Effect::Always,
     .needs = "dry_multiplier",
     .help = "DRY: repetitions shorter than this cost nothing"},
    {.name = "dry_last_n",
     .flag = "dry-penalty-last-n",
     .alias = "dry_penalty_last_n",
     .member = &SamplerOptions::dry_last_n,
     .low = -1,
     .high = kMaxSamplerCount,
     .effect = SamplerOption::Effect::Always,
     .needs = "dry_multiplier",
     .help = "DRY: considers the last N tokens; -1: all, 0: none"},
    {.name = "dry_sequence_breakers",
     .flag = "dry-sequence-breaker",
     .member = &SamplerOptions::dry_sequence_breakers,
     .help = "DRY: a string that ends repetitions, instead of newline, :, \" and *; may be "
             "repeated; none: no string"},
    {.name = "logit_bias",
     .member = &SamplerOptions::logit_bias,
     .help = "adds BIAS to the logit of token ID; may be repeated"},
};

/// Returns the row with this name or alias, or null.
const SamplerOption* find_sampler_option(std::string_view name);
/// Returns the name on the command line, without "--".
std::string sampler_flag(const SamplerOption& option);
/// Returns the value of a row whose member is a number; nullopt for other rows.
std::optional<double> sampler_number(const SamplerOptions& options, const SamplerOption& option);
/// Sets a number. Throws Error if it is out of range, or a fraction for a whole number.
void set_sampler_number(SamplerOptions& options, const SamplerOption& option, double value);

/// Throws Error for a number out of range (or NaN), and for a bias of a token that does not exist.
void check(const SamplerOptions& options, std::size_t n_vocab);

/// Sets the options that the file has keys for, as far as may(row) allows (empty: all). Throws
/// Error that names the key for a value of a wrong type or out of range.
void set_sampling_defaults(const GgufFile& file, SamplerOptions& options,
                           const std::function<bool(const SamplerOption&)>& may = {});
/// Returns a number as a GGUF file stores it (f32 or i32). Throws Error, which names no file, for a
/// key that holds no number and for a number out of range.
GgufData sampling_value(std::string_view gguf_key, double number);
/// Returns the options in force, "temp 0.2, top_k 40, …", without those that are off, and says
/// which of them the file sets.
std::string sampling_text(const SamplerOptions& options, const GgufFile& file);

}  // namespace cria
