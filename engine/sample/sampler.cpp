#include "engine/sample/sampler.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <iterator>
#include <limits>
#include <optional>
#include <random>

#include "model/error.h"

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

/// True if no step changes the logits at temperature 0.
bool no_step_changes_logits(const SamplerOptions& options) {
  return options.repeat_penalty == 1 && options.presence_penalty == 0 &&
         options.frequency_penalty == 0 && options.dry_multiplier == 0;
}

/// Maps finite floats to integers in the same order (both zeros to one): compilers vectorize their
/// maximum.
std::int32_t ordered(float value) {
  const auto bits = std::bit_cast<std::int32_t>(value + 0.0F);
  return bits ^ (bits >> 31 & 0x7FFFFFFF);
}

/// Returns the index of the first maximum. It searches blocks first, since the search takes
/// noticeable time with a small model.
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

/// Returns the most likely token. The biases are sorted by token.
TokenId most_likely(std::span<const float> logits,
                    std::span<const std::pair<TokenId, float>> bias) {
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

/// A step of sampling: one row, and one function.
struct SamplerStepRow {
  using Names = std::array<std::string_view, 4>;
  using History = std::span<const TokenId>;
  SamplerStep step;
  Names names;          ///< the first is written; the others are read too
  bool changes_logits;  ///< also applied at temperature 0 and with mirostat
  void (*apply)(Sampler& sampler, History history, double random);

  static const std::array<SamplerStepRow, 9> kAll;
};

constexpr std::array<SamplerStepRow, 9> SamplerStepRow::kAll = {{
    {SamplerStep::Penalties,
     {"penalties"},
     true,
     [](Sampler& s, History history, double) {
       if (s.penalties_.apply(s.candidates_, history)) s.sorted_ = false;
     }},
    {SamplerStep::Dry,
     {"dry"},
     true,
     [](Sampler& s, History history, double) {
       if (s.dry_.apply(s.candidates_, history)) s.sorted_ = false;
     }},
    {SamplerStep::TopNSigma,
     {"top_n_sigma"},
     false,
     [](Sampler& s, History, double) {
       const float n = s.options_.top_n_sigma;
       if (n > 0) filter::top_n_sigma(s.candidates_, n);
     }},
    {SamplerStep::TopK,
     {"top_k"},
     false,
     [](Sampler& s, History, double) {
       if (s.options_.top_k <= 0) return;
       filter::top_k(s.candidates_, static_cast<std::size_t>(s.options_.top_k));
       s.sorted_ = true;
     }},
    {SamplerStep::Typical,
     {"typ_p", "typical", "typical_p", "typ"},
     false,
     [](Sampler& s, History, double) {
       if (s.options_.typical_p == 1) return;
       s.sort_and_normalize();
       filter::typical(s.candidates_, s.options_.typical_p);
     }},
    {SamplerStep::TopP,
     {"top_p", "nucleus"},
     false,
     [](Sampler& s, History, double) {
       if (s.options_.top_p == 1) return;
       s.sort_and_normalize();
       filter::top_p(s.candidates_, s.options_.top_p);
     }},
    {SamplerStep::MinP,
     {"min_p"},
     false,
     [](Sampler& s, History, double) {
       if (s.options_.min_p == 0) return;
       s.sort_and_normalize();
       filter::min_p(s.candidates_, s.options_.min_p);
     }},
    {SamplerStep::Xtc,
     {"xtc"},
     false,
     [](Sampler& s, History, double random) {
       if (random >= s.options_.xtc_probability || s.options_.xtc_threshold > 0.5F) return;
       s.sort_and_normalize();
       filter::xtc(s.candidates_, s.options_.xtc_threshold);
     }},
    {SamplerStep::Temperature,
     {"temperature", "temp"},
     false,
     [](Sampler& s, History, double) { s.scale(); }},
}};

namespace {

const SamplerStepRow& row_of(SamplerStep step) {
  return *std::ranges::find(SamplerStepRow::kAll, step, &SamplerStepRow::step);
}

SamplerStep step_named(std::string_view text) {
  std::string wanted(text);
  std::ranges::replace(wanted, '-', '_');
  for (const SamplerStepRow& row : SamplerStepRow::kAll)
    if (!wanted.empty() && std::ranges::count(row.names, wanted) != 0) return row.step;
  throw Error("", "unknown sampler: expected some of " +
                      sampler_steps_text(default_sampler_steps()) + ", got " + std::string(text));
}

}  // namespace

std::vector<SamplerStep> default_sampler_steps() {
  std::vector<SamplerStep> steps;
  for (const SamplerStepRow& row : SamplerStepRow::kAll) steps.push_back(row.step);
  return steps;
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
    text += (text.empty() ? "" : ";") + std::string(row_of(step).names.front());
  return text;
}

const Candidate& draw(const std::vector<Candidate>& candidates, double random) {
  for (const Candidate& c : candidates) {
    random -= c.p;
    if (random < 0) return c;
  }
  // Rounding left a remainder: take the last candidate that is possible.
  const auto last = std::find_if(candidates.rbegin(), candidates.rend(),
                                 [](const Candidate& c) { return c.p > 0; });
  return last == candidates.rend() ? candidates.back() : *last;
}

Mirostat::Mirostat(const SamplerOptions& options, std::size_t n_vocab)
    : version_(options.mirostat),
      tau_(options.mirostat_tau),
      eta_(options.mirostat_eta),
      mu_(2 * tau_),
      n_vocab_(static_cast<double>(n_vocab)) {}

TokenId Mirostat::draw(std::vector<Candidate>& candidates, double random) {
  filter::softmax(candidates);
  if (version_ == 1) {
    candidates.resize(zipf_k(candidates));
  } else {
    const auto too_surprising = [this](const Candidate& c) { return -std::log2(c.p) > mu_; };
    candidates.erase(std::find_if(candidates.begin() + 1, candidates.end(), too_surprising),
                     candidates.end());
  }
  filter::softmax(candidates);
  const Candidate& drawn = cria::draw(candidates, random);
  mu_ -= eta_ * (-std::log2(drawn.p) - tau_);
  return drawn.id;
}

// Version 1 assumes Zipf's law. It estimates the exponent s from the 100 most likely tokens, by
// least squares on the logarithms of ratios of neighbours. The expected surprise mu gives k = (e
// 2^mu / (1 - N^-e))^(1/s) with e = s - 1. In the limit e = 0 the fraction is 2^mu / ln N.
std::size_t Mirostat::zipf_k(const std::vector<Candidate>& candidates) const {
  constexpr std::size_t kMaxRatios = 100;
  double products = 0, squares = 0;
  for (std::size_t i = 0;
       i + 1 < std::min(candidates.size(), kMaxRatios) && candidates[i + 1].p > 0; ++i) {
    const double t = std::log(static_cast<double>(i + 2) / static_cast<double>(i + 1));
    products += t * std::log(candidates[i].p / candidates[i + 1].p);
    squares += t * t;
  }
  if (squares == 0) return 1;
  const double s = products / squares;
  const double e = s - 1;
  const double scale =
      std::abs(e) < 1e-9 ? 1 / std::log(n_vocab_) : e / (1 - std::pow(n_vocab_, -e));
  const double k = std::pow(scale * std::exp2(mu_), 1 / s);
  if (!(k >= 1)) return 1;
  return k < static_cast<double>(candidates.size()) ? static_cast<std::size_t>(k)
                                                    : candidates.size();
}

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
  const TokenId token = choose(logits, history, allowed);
  penalties_.sampled(token);
  ++drawn_;
  return token;
}

TokenId Sampler::choose(std::span<const float> logits, std::span<const TokenId> history,
                        TokenMask allowed) {
  const bool greedy = options_.temperature == 0;
  if (greedy && allowed.empty() && no_step_changes_logits(options_))
    return most_likely(logits, bias_);
  load(logits, allowed);
  assert(!candidates_.empty());
  const TokenRandom random = TokenRandom::of(seed_, drawn_);
  for (const SamplerStep step : options_.steps) {
    const SamplerStepRow& row = row_of(step);
    if (row.changes_logits || (!greedy && options_.mirostat == 0))
      row.apply(*this, history, random.exclude);
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

void Sampler::sort_and_normalize() {
  sort();
  filter::softmax(candidates_);
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
