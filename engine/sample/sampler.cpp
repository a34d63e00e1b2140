#include "engine/sample/sampler.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <iterator>
#include <limits>
#include <optional>
#include <random>

#include "engine/sample/random.h"

namespace cria {
namespace {

std::uint64_t random_seed() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

const SamplerOptions& checked(const SamplerOptions& options, std::size_t n_vocab) {
  check(options, n_vocab);
  return options;
}

bool changes_logits(SamplerStep step) {
  return step == SamplerStep::Penalties || step == SamplerStep::Dry;
}

/// Whether no step changes the logits at temperature 0.
bool no_step_changes_logits(const SamplerOptions& options) {
  return options.repeat_penalty == 1 && options.presence_penalty == 0 &&
         options.frequency_penalty == 0 && options.dry_multiplier == 0;
}

/// Integers in the order of finite floats, whose maximum compilers find in vectors; both zeros are
/// one.
std::int32_t ordered(float value) {
  const auto bits = std::bit_cast<std::int32_t>(value + 0.0F);
  return bits ^ (bits >> 31 & 0x7FFFFFFF);
}

/// The index of the first of the highest. Of blocks first: beside a small model the search is not
/// free.
std::size_t first_highest(std::span<const float> values) {
  constexpr std::size_t kBlock = 256;
  std::size_t at = 0;
  std::int32_t highest = std::numeric_limits<std::int32_t>::min();
  for (std::size_t begin = 0; begin < values.size(); begin += kBlock) {
    const auto block = values.subspan(begin, std::min(kBlock, values.size() - begin));
    const float* const value = block.data();
    std::int32_t here = highest;
    for (std::size_t i = 0; i < block.size(); ++i) here = std::max(here, ordered(value[i]));
    if (here > highest) at = begin;
    highest = here;
  }
  while (ordered(values[at]) != highest) ++at;
  return at;
}

/// The likeliest token; bias: of some tokens, sorted by them.
TokenId likeliest(std::span<const float> logits, std::span<const std::pair<TokenId, float>> bias) {
  std::optional<std::size_t> best;
  float most = 0;
  const auto offer = [&](std::size_t id, float logit) {
    if (best && !(logit > most)) return;
    best = id;
    most = logit;
  };
  std::size_t begin = 0;
  for (auto next = bias.begin();;) {
    const std::size_t end =
        next == bias.end() ? logits.size() : static_cast<std::size_t>(next->first);
    if (begin < end) {
      const std::size_t id = begin + first_highest(logits.subspan(begin, end - begin));
      offer(id, logits[id]);
    }
    if (next == bias.end()) return static_cast<TokenId>(*best);
    float logit = logits[end];
    for (; next != bias.end() && static_cast<std::size_t>(next->first) == end; ++next)
      logit = static_cast<float>(changed_logit(logit, next->second));
    offer(end, logit);
    begin = end + 1;
  }
}

}  // namespace

Sampler::Sampler(const SamplerOptions& options, std::size_t n_vocab, const Tokenizer* tokenizer)
    : options_(checked(options, n_vocab)),
      n_vocab_(n_vocab),
      seed_(options.seed ? *options.seed : random_seed()),
      bias_(options.logit_bias),
      penalties_(options, n_vocab),
      dry_(options, n_vocab, tokenizer),
      mirostat_(options, n_vocab) {
  std::ranges::stable_sort(bias_, {}, &std::pair<TokenId, float>::first);
  for (const auto& [id, bias] : bias_)
    if (bias == -std::numeric_limits<float>::infinity() && (never_.empty() || never_.back() != id))
      never_.push_back(id);
  candidates_.reserve(n_vocab);
}

bool Sampler::can_draw(TokenMask allowed) const {
  if (never_.empty()) return true;
  if (allowed.empty()) return never_.size() < n_vocab_;
  std::ptrdiff_t left =
      -std::ranges::count_if(never_, [&](TokenId id) { return allows(allowed, id); });
  for (const std::uint64_t word : allowed) left += std::popcount(word);
  return left > 0;
}

TokenId Sampler::next(std::span<const float> logits, std::span<const TokenId> history,
                      TokenMask allowed) {
  if (options_.temperature == 0 && allowed.empty() && no_step_changes_logits(options_)) {
    ++drawn_;
    return likeliest(logits, bias_);
  }
  load(logits, allowed);
  assert(!candidates_.empty());
  const TokenRandom random = TokenRandom::of(seed_, drawn_++);
  const bool greedy = options_.temperature == 0;
  for (const SamplerStep step : options_.steps) {
    const bool taken = changes_logits(step) || (!greedy && options_.mirostat == 0);
    if (taken) take(step, history, random.exclude);
  }
  if (greedy) return std::ranges::min_element(candidates_, likelier)->id;
  if (options_.mirostat != 0) {
    scale();
    sort();
    return mirostat_.draw(candidates_, random.draw);
  }
  filter::softmax(candidates_);
  return draw(candidates_, random.draw).id;
}

void Sampler::load(std::span<const float> logits, TokenMask allowed) {
  sorted_ = false;
  const auto candidate = [&](std::size_t i) {
    return Candidate{static_cast<TokenId>(i), logits[i], 0};
  };
  if (allowed.empty()) {
    candidates_.resize(logits.size());
    for (std::size_t i = 0; i < logits.size(); ++i) candidates_[i] = candidate(i);
  } else {
    candidates_.clear();
    for (std::size_t word = 0; word < allowed.size(); ++word) {
      for (std::uint64_t left = allowed[word]; left != 0; left &= left - 1)
        candidates_.push_back(
            candidate(word * 64 + static_cast<std::size_t>(std::countr_zero(left))));
    }
  }
  auto at = candidates_.begin();
  for (const auto& [id, bias] : bias_) {
    at = std::ranges::lower_bound(at, candidates_.end(), id, {}, &Candidate::id);
    if (at == candidates_.end()) break;
    if (at->id == id) at->logit = static_cast<float>(changed_logit(at->logit, bias));
  }
}

void Sampler::sort() {
  if (!sorted_) filter::top_k(candidates_, 0);
  sorted_ = true;
}

void Sampler::take(SamplerStep step, std::span<const TokenId> history, double random) {
  const auto sorted_softmax = [this] {
    sort();
    filter::softmax(candidates_);
  };
  switch (step) {
    case SamplerStep::Penalties:
      if (penalties_.apply(candidates_, history)) sorted_ = false;
      return;
    case SamplerStep::Dry:
      if (dry_.apply(candidates_, history)) sorted_ = false;
      return;
    case SamplerStep::TopNSigma:
      if (options_.top_n_sigma > 0) filter::top_n_sigma(candidates_, options_.top_n_sigma);
      return;
    case SamplerStep::TopK:
      if (options_.top_k == 0) return;
      filter::top_k(candidates_, static_cast<std::size_t>(options_.top_k));
      sorted_ = true;
      return;
    case SamplerStep::Typical:
      if (options_.typical_p == 1) return;
      sorted_softmax();
      return filter::typical(candidates_, options_.typical_p);
    case SamplerStep::TopP:
      if (options_.top_p == 1) return;
      sorted_softmax();
      return filter::top_p(candidates_, options_.top_p);
    case SamplerStep::MinP:
      if (options_.min_p == 0) return;
      sorted_softmax();
      return filter::min_p(candidates_, options_.min_p);
    case SamplerStep::Xtc:
      if (random >= options_.xtc_probability || options_.xtc_threshold > 0.5F) return;
      sorted_softmax();
      return filter::xtc(candidates_, options_.xtc_threshold);
    case SamplerStep::Temperature:
      return scale();
  }
}

void Sampler::scale() {
  double temperature = options_.temperature;
  if (const double range = options_.dynatemp_range; range > 0) {
    filter::softmax(candidates_);
    temperature = filter::dynamic_temperature(candidates_, std::max(0.0, temperature - range),
                                              temperature + range, options_.dynatemp_exponent);
  }
  filter::temperature(candidates_, temperature);
}

}  // namespace cria
