#include "engine/sample/options.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "model/error.h"

namespace cria {
namespace {

struct StepName {
  std::string_view name;
  SamplerStep step;
};
// The first name of a step is the one that is written.
constexpr std::array kStepNames = {
    StepName{"penalties", SamplerStep::Penalties},
    StepName{"dry", SamplerStep::Dry},
    StepName{"top_n_sigma", SamplerStep::TopNSigma},
    StepName{"top_k", SamplerStep::TopK},
    StepName{"typ_p", SamplerStep::Typical},
    StepName{"typical", SamplerStep::Typical},
    StepName{"typical_p", SamplerStep::Typical},
    StepName{"typ", SamplerStep::Typical},
    StepName{"top_p", SamplerStep::TopP},
    StepName{"nucleus", SamplerStep::TopP},
    StepName{"min_p", SamplerStep::MinP},
    StepName{"xtc", SamplerStep::Xtc},
    StepName{"temperature", SamplerStep::Temperature},
    StepName{"temp", SamplerStep::Temperature},
};

SamplerStep step_named(std::string_view text) {
  std::string wanted(text);
  std::ranges::replace(wanted, '-', '_');
  const auto found = std::ranges::find(kStepNames, wanted, &StepName::name);
  if (found != kStepNames.end()) return found->step;
  throw Error("", "no such sampler: expected some of " +
                      sampler_steps_text(default_sampler_steps()) + ", got " + std::string(text));
}

void expect(bool good, std::string_view what, double got) {
  if (good) return;
  const bool whole = std::abs(got) < 0x1p53 && got == std::floor(got);  // all digits of a token
  throw Error("sampling: expected " + std::string(what) + ", got " +
              (whole ? std::to_string(static_cast<std::int64_t>(got))
                     : number_text(static_cast<float>(got))));
}

bool within(double value, double low, double high) {
  return value >= low && value <= high;
}  // NaN: no

}  // namespace

std::vector<SamplerStep> default_sampler_steps() {
  using enum SamplerStep;
  return {Penalties, Dry, TopNSigma, TopK, Typical, TopP, MinP, Xtc, Temperature};
}

std::vector<SamplerStep> parse_sampler_steps(std::string_view text) {
  std::vector<SamplerStep> steps;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(";,"), text.size());
    const SamplerStep step = step_named(text.substr(0, end));
    if (std::ranges::count(steps, step) != 0)
      throw Error(
          "", "sampler given twice: expected each once, got " + std::string(text.substr(0, end)));
    steps.push_back(step);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return steps;
}

std::string sampler_steps_text(const std::vector<SamplerStep>& steps) {
  std::string text;
  for (const SamplerStep step : steps)
    text += (text.empty() ? "" : ";") +
            std::string(std::ranges::find(kStepNames, step, &StepName::step)->name);
  return text;
}

void check(const SamplerOptions& o, std::size_t n_vocab) {
  constexpr double kMost = std::numeric_limits<float>::max();
  expect(within(o.temperature, 0, kMost), "a temperature of 0 or more", o.temperature);
  expect(within(o.dynatemp_range, 0, kMost), "a dynamic temperature's range of 0 or more",
         o.dynatemp_range);
  expect(within(o.dynatemp_exponent, 0, 100), "a dynamic temperature's exponent from 0 to 100",
         o.dynatemp_exponent);
  expect(o.top_k >= 0, "a top-k of 0 or more", o.top_k);
  expect(within(o.top_p, 0, 1), "a top-p from 0 to 1", o.top_p);
  expect(within(o.min_p, 0, 1), "a min-p from 0 to 1", o.min_p);
  expect(within(o.typical_p, 0, 1), "a typical-p from 0 to 1", o.typical_p);
  expect(within(o.top_n_sigma, 0, kMost), "a top-n-sigma of 0 or more", o.top_n_sigma);
  expect(within(o.xtc_probability, 0, 1), "an XTC probability from 0 to 1", o.xtc_probability);
  expect(within(o.xtc_threshold, 0, 1), "an XTC threshold from 0 to 1", o.xtc_threshold);
  expect(o.repeat_penalty > 0 && o.repeat_penalty <= kMost, "a repeat penalty above 0",
         o.repeat_penalty);
  expect(o.repeat_last_n >= -1, "a repeat-last-n of -1 or more", o.repeat_last_n);
  expect(std::isfinite(o.presence_penalty), "a finite presence penalty", o.presence_penalty);
  expect(std::isfinite(o.frequency_penalty), "a finite frequency penalty", o.frequency_penalty);
  expect(within(o.dry_multiplier, 0, kMost), "a DRY multiplier of 0 or more", o.dry_multiplier);
  expect(within(o.dry_base, 1, kMost), "a DRY base of 1 or more", o.dry_base);
  expect(o.dry_allowed_length >= 0, "a DRY allowed length of 0 or more", o.dry_allowed_length);
  expect(o.dry_last_n >= -1, "a DRY last-n of -1 or more", o.dry_last_n);
  expect(o.mirostat >= 0 && o.mirostat <= 2, "mirostat 0, 1 or 2", o.mirostat);
  expect(within(o.mirostat_tau, 0, 100), "a mirostat tau from 0 to 100", o.mirostat_tau);
  expect(within(o.mirostat_eta, 0, 100), "a mirostat eta from 0 to 100", o.mirostat_eta);
  for (const auto& [id, bias] : o.logit_bias) {
    expect(id >= 0 && static_cast<std::size_t>(id) < n_vocab, "a logit bias of a token that exists",
           id);
    expect(bias < std::numeric_limits<float>::infinity(), "a logit bias below infinity", bias);
  }
}

}  // namespace cria
