// How the next token is drawn: every knob, its range and what it is when off.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/token_id.h"

namespace cria {

/// The steps of sampling, in the order in which they are taken where nothing else is asked for.
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
/// All of them in that order.
std::vector<SamplerStep> default_sampler_steps();
/// Names of steps separated by ';' or ',', as llama.cpp writes them: penalties, dry, top_n_sigma,
/// top_k, typ_p (or typical, typical_p, typ), top_p (or nucleus), min_p, xtc, temperature (or
/// temp); '-' may stand for '_'. "" is no step at all. Throws Error for a name that is none (it
/// lists them) and for one given twice.
std::vector<SamplerStep> parse_sampler_steps(std::string_view text);
/// The names again, separated by ';'.
std::string sampler_steps_text(const std::vector<SamplerStep>& steps);
/// How tokens are drawn; the defaults are those of `cria run`.
struct SamplerOptions {
  /// 0: greedy, the likeliest token (lowest id among equals) after bias, penalties and DRY; nothing
  /// is random.
  float temperature = 0.8F;
  /// Above 0 the temperature is between temperature - range (at least 0) and temperature + range,
  /// by the entropy of the tokens that are left, divided by the largest there can be, to this
  /// power.
  float dynatemp_range = 0, dynatemp_exponent = 1;  ///< range 0: off
  std::int32_t top_k = 40;                          ///< 0: off
  float top_p = 0.95F;                              ///< 1: off; 0: only the likeliest
  float min_p = 0.05F;                              ///< 0: off
  float typical_p = 1;                              ///< 1: off
  float top_n_sigma = 0;                            ///< 0: off
  float xtc_probability = 0;  ///< how often likely tokens are excluded; 0: off
  float xtc_threshold =
      0.1F;  ///< the probability from which a token counts as likely; above 0.5: off
  float repeat_penalty = 1;         ///< 1: off
  std::int32_t repeat_last_n = 64;  ///< tokens that the three penalties look back at; -1: all
  float presence_penalty = 0, frequency_penalty = 0;  ///< 0: off
  float dry_multiplier = 0;                           ///< 0: off
  float dry_base = 1.75F;                             ///< at least 1
  std::int32_t dry_allowed_length = 2;  ///< repetitions shorter than this cost nothing
  std::int32_t dry_last_n = -1;         ///< tokens that DRY looks back at; -1: all, 0: off
  /// Texts that no repetition is followed across; needs a tokenizer.
  std::vector<std::string> dry_sequence_breakers = {"\n", ":", "\"", "*"};
  /// 1 or 2: in place of all steps but penalties, DRY and temperature; 0: off.
  std::int32_t mirostat = 0;
  float mirostat_tau = 5,
        mirostat_eta = 0.1F;  ///< surprise aimed at, in bits; how fast it is learnt
  std::vector<SamplerStep> steps =
      default_sampler_steps();                        ///< a step that is not here is not taken
  std::vector<std::pair<TokenId, float>> logit_bias;  ///< added before everything else
  std::optional<std::uint64_t> seed;                  ///< none: another each time
};

/// Throws Error for what is out of range (NaN, a negative temperature, a bias of a token that is
/// not there …).
void check(const SamplerOptions& options, std::size_t n_vocab);

}  // namespace cria
