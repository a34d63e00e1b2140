#include "engine/sampler.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <limits>
#include <random>
#include <string>

#include "model/error.h"

namespace cria {
namespace {

constexpr std::uint64_t kRandomSeed = 0xFFFFFFFF;

std::uint64_t splitmix64(std::uint64_t& state) {
  std::uint64_t z = state += 0x9E3779B97F4A7C15;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
  z = (z ^ z >> 27) * 0x94D049BB133111EB;
  return z ^ z >> 31;
}

bool likelier(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

// Sums of huge biases and penalties may be infinite; what would be no number is a token that is never drawn.
void add(float& logit, float bias) {
  logit += bias;
  if (std::isnan(logit)) logit = -std::numeric_limits<float>::infinity();
}

void expect(bool good, std::string_view what, double got) {
  if (!good) throw Error("sampling: expected " + std::string(what) + ", got " + std::to_string(got));
}

void check(const SamplerOptions& o, std::size_t n_vocab) {
  expect(o.temperature >= 0 && std::isfinite(o.temperature), "a temperature of 0 or more", o.temperature);
  expect(o.top_k >= 0, "a top-k of 0 or more", o.top_k);
  expect(o.top_p > 0 && o.top_p <= 1, "a top-p above 0 and up to 1", o.top_p);
  expect(o.min_p >= 0 && o.min_p <= 1, "a min-p from 0 to 1", o.min_p);
  expect(o.typical_p > 0 && o.typical_p <= 1, "a typical-p above 0 and up to 1", o.typical_p);
  expect(o.repeat_penalty > 0 && std::isfinite(o.repeat_penalty), "a repeat penalty above 0",
         o.repeat_penalty);
  expect(o.repeat_last_n >= -1, "a repeat-last-n of -1 or more", o.repeat_last_n);
  expect(std::isfinite(o.presence_penalty), "a finite presence penalty", o.presence_penalty);
  expect(std::isfinite(o.frequency_penalty), "a finite frequency penalty", o.frequency_penalty);
  for (const auto& [id, bias] : o.logit_bias) {
    expect(id >= 0 && static_cast<std::size_t>(id) < n_vocab, "a logit bias of a token that exists", id);
    expect(bias < std::numeric_limits<float>::infinity(), "a logit bias below infinity", bias);
  }
}

}  // namespace

Random::Random(std::uint64_t seed) {
  for (std::uint64_t& word : state_) word = splitmix64(seed);
}

std::uint64_t Random::next() {
  auto& s = state_;
  const std::uint64_t result = std::rotl(s[1] * 5, 7) * 9;
  const std::uint64_t t = s[1] << 17;
  s[2] ^= s[0];
  s[3] ^= s[1];
  s[1] ^= s[2];
  s[0] ^= s[3];
  s[2] ^= t;
  s[3] = std::rotl(s[3], 45);
  return result;
}

namespace filter {

void softmax(std::vector<Candidate>& candidates, double temperature) {
  const float top = candidates.front().logit;
  double sum = 0;
  for (Candidate& c : candidates)
    sum += c.p = c.logit == top ? 1 : std::exp((double{c.logit} - top) / temperature);
  for (Candidate& c : candidates) c.p /= sum;
}

void top_k(std::vector<Candidate>& candidates, std::size_t k) {
  if (k > 0 && k < candidates.size()) {
    std::nth_element(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(k),
                     candidates.end(), likelier);
    candidates.resize(k);
  }
  std::sort(candidates.begin(), candidates.end(), likelier);
}

void top_p(std::vector<Candidate>& candidates, double p) {
  double sum = 0;
  std::size_t n = 0;
  while (n < candidates.size() && sum < p) sum += candidates[n++].p;
  candidates.resize(n);
}

void min_p(std::vector<Candidate>& candidates, double p) {
  const double least = candidates.front().p * p;
  std::size_t n = 1;
  while (n < candidates.size() && candidates[n].p >= least) ++n;
  candidates.resize(n);
}

void typical(std::vector<Candidate>& candidates, double p) {
  double entropy = 0;
  for (const Candidate& c : candidates) entropy -= c.p > 0 ? c.p * std::log(c.p) : 0;
  const auto distance = [entropy](const Candidate& c) { return std::abs(-std::log(c.p) - entropy); };
  std::sort(candidates.begin(), candidates.end(), [&](const Candidate& a, const Candidate& b) {
    const double da = distance(a);
    const double db = distance(b);
    return da != db ? da < db : likelier(a, b);
  });
  top_p(candidates, p);
  std::sort(candidates.begin(), candidates.end(), likelier);
}

}  // namespace filter

Sampler::Sampler(const SamplerOptions& options, std::size_t n_vocab)
    : options_(options),
      seed_(options.seed == kRandomSeed ? std::uint64_t{std::random_device{}()} << 32 | std::random_device{}()
                                        : options.seed),
      random_(seed_),
      counts_(n_vocab) {
  check(options, n_vocab);
  candidates_.reserve(n_vocab);
}

TokenId Sampler::next(std::span<const float> logits, std::span<const TokenId> history) {
  assert(logits.size() == counts_.size() && !logits.empty());
  load(logits);
  for (const auto& [id, bias] : options_.logit_bias)
    add(candidates_[static_cast<std::size_t>(id)].logit, bias);
  penalize(history);
  if (options_.temperature == 0) return greedy();
  filter::top_k(candidates_, static_cast<std::size_t>(options_.top_k));
  if (options_.typical_p < 1) {
    filter::softmax(candidates_);
    filter::typical(candidates_, options_.typical_p);
  }
  if (options_.top_p < 1) {
    filter::softmax(candidates_);
    filter::top_p(candidates_, options_.top_p);
  }
  if (options_.min_p > 0) {
    filter::softmax(candidates_);
    filter::min_p(candidates_, options_.min_p);
  }
  return draw();
}

void Sampler::load(std::span<const float> logits) {
  candidates_.resize(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) candidates_[i] = {static_cast<TokenId>(i), logits[i], 0};
}

// Repetition: logits above 0 are divided by the penalty, others multiplied (arXiv 1909.05858); frequency and
// presence are subtracted, once per occurrence and once.
void Sampler::penalize(std::span<const TokenId> history) {
  if (options_.repeat_penalty == 1 && options_.presence_penalty == 0 && options_.frequency_penalty == 0)
    return;
  const std::size_t n = options_.repeat_last_n < 0
                            ? history.size()
                            : std::min(history.size(), static_cast<std::size_t>(options_.repeat_last_n));
  const auto recent = history.last(n);
  for (const TokenId id : recent) ++counts_[static_cast<std::size_t>(id)];
  for (const TokenId id : recent) {
    const auto i = static_cast<std::size_t>(id);
    const std::int32_t count = std::exchange(counts_[i], 0);
    if (count == 0) continue;
    float& logit = candidates_[i].logit;
    logit = logit > 0 ? logit / options_.repeat_penalty : logit * options_.repeat_penalty;
    add(logit, -(static_cast<float>(count) * options_.frequency_penalty + options_.presence_penalty));
  }
}

TokenId Sampler::greedy() const {
  return std::min_element(candidates_.begin(), candidates_.end(), likelier)->id;
}

TokenId Sampler::draw() {
  filter::softmax(candidates_, options_.temperature);
  double left = random_.uniform();
  for (const Candidate& c : candidates_) {
    left -= c.p;
    if (left < 0) return c.id;
  }
  return candidates_.back().id;  // rounding left a trace
}

}  // namespace cria
