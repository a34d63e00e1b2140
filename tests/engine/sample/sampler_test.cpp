// The sampler as a whole: order of its steps, seeds, what it refuses.
#include "engine/sample/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "tests/engine/demo.h"
#include "tests/engine/random.h"

namespace cria::test {
namespace {

std::vector<float> some_logits(std::size_t n, std::uint64_t seed) {
  Random random(seed);
  std::vector<float> logits(n);
  for (float& x : logits) x = static_cast<float>(random.uniform() * 10 - 5);
  return logits;
}

// Everything off.
SamplerOptions plain() {
  SamplerOptions options;
  options.temperature = 1;
  options.top_k = 0;
  options.top_p = 1;
  options.min_p = 0;
  options.seed = 1;
  return options;
}

TEST(Sampler, DrawsWithTheProbabilitiesOfTheTemperature) {
  const std::vector<float> logits = {1, 2, 0.5F, -1, 2};
  SamplerOptions options = plain();
  options.temperature = 0.7F;
  std::vector<float> scaled = logits;
  for (float& x : scaled) x /= options.temperature;
  double sum = 0;
  for (const float x : scaled) sum += std::exp(double{x});
  Sampler sampler(options, logits.size());
  std::vector<double> count(logits.size());
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) ++count[static_cast<std::size_t>(sampler.next(logits, {}))];
  for (std::size_t i = 0; i < count.size(); ++i) {
    const double p = std::exp(double{scaled[i]}) / sum;
    EXPECT_NEAR(count[i] / kDraws, p, 5 * std::sqrt(p * (1 - p) / kDraws)) << i;
  }
}

TEST(Sampler, GreedyTakesTheLowestIdAmongEquals) {
  SamplerOptions options;
  options.temperature = 0;
  const std::vector<float> logits = {1, 3, 2, 3};
  EXPECT_EQ(Sampler(options, 4).next(logits, {}), 1);
  // Ties follow the order of candidates, which is used with a mask, for any number of tokens. Some
  // tokens have a bias, one of them two.
  for (std::size_t n = 1; n < 64; ++n) {
    std::vector<float> coarse = some_logits(n, n);
    for (float& x : coarse) x = std::round(x);
    const std::uint64_t all[] = {(std::uint64_t{1} << n) - 1};
    Sampler sampler(options, n);
    EXPECT_EQ(sampler.next(coarse, {}), std::ranges::max_element(coarse) - coarse.begin()) << n;
    EXPECT_EQ(sampler.next(coarse, {}, all), std::ranges::max_element(coarse) - coarse.begin())
        << n;
    EXPECT_EQ(sampler.drawn(), 2U);
    SamplerOptions biased = options;
    for (std::size_t i = n % 3; i < n; i += 5)
      biased.logit_bias.emplace_back(static_cast<TokenId>(i),
                                     i % 2 == 0 ? -std::numeric_limits<float>::infinity() : 2.F);
    biased.logit_bias.emplace_back(static_cast<TokenId>(n / 2), 1.F);
    EXPECT_EQ(Sampler(biased, n).next(coarse, {}), Sampler(biased, n).next(coarse, {}, all)) << n;
  }
  // Many, none above zero, of which there are two.
  for (std::size_t n = 250; n < 1100; n += 7) {
    std::vector<float> coarse = some_logits(n, n);
    for (float& x : coarse)
      x = -std::abs(std::round(x * static_cast<float>(n % 3))) - static_cast<float>(n % 2);
    coarse[n - 1 - n % 11] = 0;
    EXPECT_EQ(Sampler(options, n).next(coarse, {}),
              std::ranges::max_element(coarse) - coarse.begin())
        << n;
  }
}

TEST(Sampler, SeedsReproduceAndDiffer) {
  const std::vector<float> logits = some_logits(100, 9);
  const auto run = [&](std::uint64_t seed) {
    SamplerOptions options = plain();
    options.seed = seed;
    Sampler sampler(options, logits.size());
    std::vector<TokenId> drawn;
    drawn.reserve(20);
    while (drawn.size() < 20) drawn.push_back(sampler.next(logits, {}));
    return drawn;
  };
  EXPECT_EQ(run(5), run(5));
  EXPECT_NE(run(5), run(6));
  SamplerOptions any = plain();
  any.seed.reset();
  const Sampler a(any, 1);
  const Sampler b(any, 1);
  EXPECT_NE(a.seed(), b.seed());
  EXPECT_EQ(run(a.seed()), run(a.seed()));
}

TEST(Sampler, BiasAndPenalties) {
  const std::vector<float> logits = {4, -2, 3, 1};
  const std::vector<TokenId> history = {3, 0, 0, 1, 0};
  const auto best = [&](SamplerOptions options) {
    options.temperature = 0;
    return Sampler(options, 4).next(logits, history);
  };
  SamplerOptions options;
  EXPECT_EQ(best(options), 0);
  options.logit_bias = {{1, 7.F}, {0, -std::numeric_limits<float>::infinity()}};
  EXPECT_EQ(best(options), 1);
  options = {};
  options.repeat_penalty = 1.3F;  // 4/1.3 = 3.08 > 3
  EXPECT_EQ(best(options), 0);
  options.repeat_penalty = 1.4F;  // 4/1.4 = 2.86 < 3
  EXPECT_EQ(best(options), 2);
  options.repeat_last_n = 0;
  EXPECT_EQ(best(options), 0);
}

// Presence and frequency penalties count sampled tokens only, not the prompt's.
TEST(Sampler, PresenceAndFrequencyCountTheAnswerOnly) {
  const std::vector<float> logits = {4, -2, 3, 1};
  const std::vector<TokenId> prompt = {0, 0, 0, 2};
  const auto sampled = [&](float presence, float frequency, int n) {
    SamplerOptions options;
    options.temperature = 0;
    options.presence_penalty = presence;
    options.frequency_penalty = frequency;
    options.repeat_last_n = 1;
    Sampler sampler(options, 4);
    std::vector<TokenId> tokens;
    for (int i = 0; i < n; ++i) tokens.push_back(sampler.next(logits, prompt));
    return tokens;
  };
  EXPECT_EQ(sampled(0, 0.4F, 4), (std::vector<TokenId>{0, 0, 0, 2}));  // 4, 3.6, 3.2, 2.8 < 3
  EXPECT_EQ(sampled(0.9F, 0, 3), (std::vector<TokenId>{0, 0, 0}));
  EXPECT_EQ(sampled(1.1F, 0, 4), (std::vector<TokenId>{0, 2, 0, 0}));
}

TEST(Sampler, RepeatPenaltyMakesNegativeLogitsSmaller) {
  SamplerOptions options;
  options.temperature = 0;
  options.repeat_penalty = 2;
  const std::vector<float> logits = {-1, -1.5F};
  const std::vector<TokenId> history = {0};
  EXPECT_EQ(Sampler(options, 2).next(logits, history), 1);
}

TEST(Sampler, FiltersAreApplied) {
  const std::vector<float> logits = some_logits(100, 3);
  const auto drawn = [&](const SamplerOptions& options) {
    Sampler sampler(options, logits.size());
    std::set<TokenId> seen;
    for (int i = 0; i < 3000; ++i) seen.insert(sampler.next(logits, {}));
    return seen;
  };
  const auto count = drawn(plain()).size();
  SamplerOptions k = plain();
  k.top_k = 3;
  EXPECT_EQ(drawn(k).size(), 3U);
  SamplerOptions top = plain();
  top.top_p = 0.5F;
  EXPECT_LT(drawn(top).size(), count);
  SamplerOptions min = plain();
  min.min_p = 0.5F;
  EXPECT_LT(drawn(min).size(), count);
  SamplerOptions typical = plain();
  typical.typical_p = 0.2F;
  EXPECT_LT(drawn(typical).size(), count);
}

// Draws 3000 times; the tokens seen.
std::set<TokenId> seen_with(const SamplerOptions& options, const std::vector<float>& logits) {
  Sampler sampler(options, logits.size());
  std::set<TokenId> seen;
  for (int i = 0; i < 3000; ++i) seen.insert(sampler.next(logits, {}));
  return seen;
}

TEST(Sampler, StepsAreTakenInTheirOrder) {
  // Probabilities 0.4, 0.3, 0.2, 0.1.
  const std::vector<float> logits = {std::log(4.F), std::log(3.F), std::log(2.F), 0};
  SamplerOptions options = plain();
  options.top_k = 2;
  options.top_p = 0.55F;
  EXPECT_EQ(seen_with(options, logits),
            (std::set<TokenId>{0}));  // among the top two, token 0 has probability 0.57
  options.steps = parse_sampler_steps("top_p;top_k");
  EXPECT_EQ(seen_with(options, logits), (std::set<TokenId>{0, 1}));
  options.steps = parse_sampler_steps("top_p");
  options.top_p = 0.75F;
  EXPECT_EQ(seen_with(options, logits), (std::set<TokenId>{0, 1, 2}));
  options.temperature = 4;  // nearly equal
  EXPECT_EQ(seen_with(options, logits), (std::set<TokenId>{0, 1, 2}));
  options.steps = parse_sampler_steps("temperature;top_p");
  EXPECT_EQ(seen_with(options, logits), (std::set<TokenId>{0, 1, 2}));
  options.top_p = 0.85F;
  EXPECT_EQ(seen_with(options, logits), (std::set<TokenId>{0, 1, 2, 3}));
  options.steps = {};
  EXPECT_EQ(seen_with(options, logits).size(), 4U);
}

TEST(Sampler, SkippedStepsChangeNothingAtTemperature0) {
  SamplerOptions options;
  options.temperature = 0;
  options.repeat_penalty = 5;
  const std::vector<float> logits = {2, 1};
  const std::vector<TokenId> history = {0};
  EXPECT_EQ(Sampler(options, 2).next(logits, history), 1);
  options.steps = parse_sampler_steps("top_k");
  EXPECT_EQ(Sampler(options, 2).next(logits, history), 0);
}

TEST(Sampler, XtcExcludesAsOftenAsItsProbability) {
  const std::vector<float> logits = {std::log(6.F), std::log(3.F), 0};  // 0.6, 0.3, 0.1
  SamplerOptions options = plain();
  options.xtc_threshold = 0.2F;
  options.xtc_probability = 0.25F;
  Sampler sampler(options, 3);
  std::vector<double> count(3);
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) ++count[static_cast<std::size_t>(sampler.next(logits, {}))];
  const double want[] = {0.75 * 0.6, 0.75 * 0.3 + 0.25 * 0.75, 0.75 * 0.1 + 0.25 * 0.25};
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_NEAR(count[i] / kDraws, want[i], 5 * std::sqrt(want[i] * (1 - want[i]) / kDraws)) << i;
}

TEST(Sampler, DynamicTemperatureScalesTheDraw) {
  const std::vector<float> logits = {std::log(9.F), 0};  // 0.9, 0.1
  SamplerOptions options = plain();
  options.dynatemp_range = 0.5F;
  Sampler sampler(options, 2);
  const double share = -(0.9 * std::log2(0.9) + 0.1 * std::log2(0.1));
  const double power = std::pow(9, 1 / (0.5 + share));
  const double p = power / (power + 1);
  int count = 0;
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) count += sampler.next(logits, {}) == 0;
  EXPECT_NEAR(count / double{kDraws}, p, 5 * std::sqrt(p * (1 - p) / kDraws));
}

TEST(Sampler, OnlyAllowedTokensAreDrawn) {
  const std::vector<float> logits = some_logits(130, 4);
  const std::vector<std::uint64_t> allowed = {1ULL << 3 | 1ULL << 63, 0, 1ULL << 1};
  SamplerOptions options = plain();
  for (const TokenId id : {3, 63, 129})
    options.logit_bias.emplace_back(id, -logits[static_cast<std::size_t>(id)]);
  options.logit_bias.emplace_back(4, 99.F);
  Sampler sampler(options, logits.size());
  std::set<TokenId> seen;
  for (int i = 0; i < 3000; ++i) seen.insert(sampler.next(logits, {}, allowed));
  EXPECT_EQ(seen, (std::set<TokenId>{3, 63, 129}));
  options.temperature = 0;
  options.logit_bias = {};
  TokenId best = 3;
  for (const TokenId id : {63, 129})
    if (logits[static_cast<std::size_t>(id)] > logits[static_cast<std::size_t>(best)]) best = id;
  EXPECT_EQ(Sampler(options, logits.size()).next(logits, {}, allowed), best);
}

TEST(Sampler, NeverSamplesSuppressedTokens) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  const std::vector<float> logits = some_logits(130, 4);
  const std::vector<std::uint64_t> allowed = {1ULL << 3, 0, 1ULL << 1}, short_mask = {1ULL << 3};
  SamplerOptions options = plain();
  options.logit_bias = {{129, kNever}, {5, kNever}, {129, 1.F}, {129, kNever}};
  Sampler one(options, logits.size());
  EXPECT_TRUE(one.can_draw());
  EXPECT_TRUE(one.can_draw(allowed));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(one.next(logits, {}, allowed), 3);
  options.logit_bias.emplace_back(3, kNever);
  const Sampler none(options, logits.size());
  EXPECT_TRUE(none.can_draw());
  EXPECT_FALSE(none.can_draw(allowed));
  EXPECT_FALSE(none.can_draw(short_mask));
  for (TokenId id = 0; id < 130; ++id) options.logit_bias.emplace_back(id, kNever);
  EXPECT_FALSE(Sampler(options, logits.size()).can_draw());
  EXPECT_EQ(draw({{4, 1, 0.5}, {5, 1, 0.25}, {6, kNever, 0}}, 0.875).id, 5)
      << "as if rounding had lost a quarter";
}

// The random number belongs to the token's index: what the logits were before does not matter.
TEST(Sampler, RandomNumbersBelongToPositions) {
  const std::vector<float> a = some_logits(50, 1), b = some_logits(50, 2), narrow = {5};
  Sampler one(plain(), 50), other(plain(), 50);
  for (int i = 0; i < 20; ++i) {
    (void)one.next(a, {});
    (void)other.next(b, {});
    EXPECT_EQ(one.next(a, {}), other.next(a, {}));
  }
  EXPECT_EQ(one.drawn(), 40U);
}

TEST(Sampler, StepNames) {
  EXPECT_EQ(sampler_steps_text(default_sampler_steps()),
            "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature");
  EXPECT_EQ(parse_sampler_steps(sampler_steps_text(default_sampler_steps())),
            default_sampler_steps());
  EXPECT_EQ(sampler_steps_text(parse_sampler_steps("temp,top-k,typical")),
            "temperature;top_k;typ_p");
  EXPECT_TRUE(parse_sampler_steps("").empty());
  EXPECT_NE(error_of([] { parse_sampler_steps("top_k;magic"); }).find("got magic"),
            std::string::npos);
  EXPECT_NE(error_of([] { parse_sampler_steps("top_k;;temp"); }), "");
  EXPECT_NE(error_of([] { parse_sampler_steps("temp;temperature"); }).find("twice"),
            std::string::npos);
}

TEST(Sampler, RefusesBadOptions) {
  const auto refused = [](auto&& change) {
    SamplerOptions options;
    change(options);
    return !error_of([&] { Sampler(options, 10); }).empty();
  };
  EXPECT_FALSE(refused([](SamplerOptions&) {}));
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  using Field = float SamplerOptions::*;
  using S = SamplerOptions;
  for (const Field field :
       {&S::temperature, &S::dynatemp_range, &S::dynatemp_exponent, &S::top_p, &S::min_p,
        &S::typical_p, &S::top_n_sigma, &S::xtc_probability, &S::xtc_threshold, &S::repeat_penalty,
        &S::dry_multiplier, &S::dry_base, &S::mirostat_tau, &S::mirostat_eta}) {
    for (const float bad : {kNan, kInfinity, -kInfinity, -1.F})
      EXPECT_TRUE(refused([&](S& o) { o.*field = bad; })) << bad;
  }
  for (const Field field : {&S::presence_penalty, &S::frequency_penalty}) {
    for (const float bad : {kNan, kInfinity, -kInfinity})
      EXPECT_TRUE(refused([&](S& o) { o.*field = bad; })) << bad;
    EXPECT_FALSE(refused([&](S& o) { o.*field = -2; }));
  }
  for (const Field field :
       {&S::top_p, &S::min_p, &S::typical_p, &S::xtc_probability, &S::xtc_threshold}) {
    EXPECT_TRUE(refused([&](S& o) { o.*field = 1.5F; }));
    EXPECT_FALSE(refused([&](S& o) { o.*field = 0; }));
    EXPECT_FALSE(refused([&](S& o) { o.*field = 1; }));
  }
  EXPECT_TRUE(refused([](S& o) { o.repeat_penalty = 0; }));
  EXPECT_TRUE(refused([](S& o) { o.dry_base = 0.5F; }));
  EXPECT_FALSE(refused([](S& o) { o.top_k = -1; }));
  EXPECT_TRUE(refused([](S& o) { o.top_k = -2; }));
  EXPECT_TRUE(refused([](S& o) { o.repeat_last_n = -2; }));
  EXPECT_TRUE(refused([](S& o) { o.dry_last_n = -2; }));
  EXPECT_TRUE(refused([](S& o) { o.dry_allowed_length = -1; }));
  EXPECT_TRUE(refused([](S& o) { o.mirostat = 3; }));
  EXPECT_TRUE(refused([](S& o) { o.mirostat = -1; }));
  EXPECT_TRUE(refused([](S& o) { o.dry_multiplier = 1; }));  // breakers, but no tokenizer
  EXPECT_TRUE(refused([](S& o) { o.logit_bias = {{10, 1.F}}; }));
  EXPECT_TRUE(refused([](S& o) { o.logit_bias = {{-1, 1.F}}; }));
  EXPECT_TRUE(refused([&](S& o) { o.logit_bias = {{1, kNan}}; }));
  EXPECT_TRUE(refused([&](S& o) { o.logit_bias = {{1, kInfinity}}; }));
}

}  // namespace
}  // namespace cria::test
