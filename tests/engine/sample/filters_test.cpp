// The sampler's filters against what their definitions say, computed by brute force.
#include "engine/sample/filters.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "tests/engine/random.h"

namespace cria::test {
namespace {

// Logits in steps of 1/8, so that there are ties.
std::vector<float> random_logits(std::size_t n, std::uint64_t seed) {
  Random random(seed);
  std::vector<float> logits(n);
  for (float& x : logits) x = static_cast<float>(static_cast<int>(random.uniform() * 80)) / 8 - 5;
  return logits;
}

std::vector<Candidate> candidates(const std::vector<float>& logits) {
  std::vector<Candidate> list;
  for (std::size_t i = 0; i < logits.size(); ++i)
    list.push_back({static_cast<TokenId>(i), logits[i], 0});
  filter::top_k(list, 0);
  filter::softmax(list);
  return list;
}

std::vector<double> probabilities(const std::vector<float>& logits) {
  std::vector<double> p(logits.size());
  double sum = 0;
  for (const float x : logits) sum += std::exp(double{x});
  for (std::size_t i = 0; i < p.size(); ++i) p[i] = std::exp(double{logits[i]}) / sum;
  return p;
}

std::set<TokenId> ids(const std::vector<Candidate>& list) {
  std::set<TokenId> set;
  for (const Candidate& c : list) set.insert(c.id);
  return set;
}

// True if a comes before b in the order of all filters.
bool before(const std::vector<float>& logits, TokenId a, TokenId b) {
  const float x = logits[static_cast<std::size_t>(a)];
  const float y = logits[static_cast<std::size_t>(b)];
  return x > y || (x == y && a < b);
}

class Filters : public testing::TestWithParam<std::uint64_t> {
 protected:
  const std::vector<float> logits = random_logits(200, GetParam());
  const std::vector<double> p = probabilities(logits);
};

TEST_P(Filters, SoftmaxIsTheDefinition) {
  for (const Candidate& c : candidates(logits))
    EXPECT_NEAR(c.p, p[static_cast<std::size_t>(c.id)], 1e-15);
}

TEST_P(Filters, TopKKeepsTheFirstK) {
  for (const std::size_t k : {1, 2, 10, 199, 200, 500}) {
    std::set<TokenId> want;
    for (TokenId a = 0; a < 200; ++a) {
      std::size_t ahead = 0;
      for (TokenId b = 0; b < 200; ++b) ahead += before(logits, b, a);
      if (ahead < k) want.insert(a);
    }
    auto list = candidates(logits);
    std::reverse(list.begin(), list.end());
    filter::top_k(list, k);
    EXPECT_EQ(ids(list), want) << k;
    EXPECT_TRUE(std::is_sorted(
        list.begin(), list.end(),
        [&](const Candidate& a, const Candidate& b) { return before(logits, a.id, b.id); }));
  }
}

TEST_P(Filters, TopPKeepsTokensUntilTheSumReachesP) {
  for (const double limit : {0.001, 0.1, 0.5, 0.9, 0.99}) {
    std::set<TokenId> want;
    for (TokenId a = 0; a < 200; ++a) {
      double ahead = 0;
      for (TokenId b = 0; b < 200; ++b)
        ahead += before(logits, b, a) ? p[static_cast<std::size_t>(b)] : 0;
      if (ahead < limit) want.insert(a);
    }
    auto list = candidates(logits);
    filter::top_p(list, limit);
    EXPECT_EQ(ids(list), want) << limit;
  }
}

TEST_P(Filters, MinPKeepsTokensNearTheMostLikely) {
  const double best = *std::max_element(p.begin(), p.end());
  for (const double limit : {0.07, 0.3, 0.93, 1.0}) {
    std::set<TokenId> want;
    for (TokenId a = 0; a < 200; ++a) {
      if (p[static_cast<std::size_t>(a)] >= best * limit * (1 - 1e-12)) want.insert(a);
    }
    auto list = candidates(logits);
    filter::min_p(list, limit);
    EXPECT_EQ(ids(list), want) << limit;
  }
}

TEST_P(Filters, TypicalKeepsTokensNearestToTheEntropy) {
  double entropy = 0;
  for (const double q : p) entropy -= q * std::log(q);
  // Equal logits have equal distances: the lower id goes first. Distances of other pairs must not
  // be close for this test to be sharp.
  const auto distance = [&](TokenId id) {
    return std::abs(-std::log(p[static_cast<std::size_t>(id)]) - entropy);
  };
  for (const double limit : {0.05, 0.3, 0.8}) {
    std::set<TokenId> want;
    for (TokenId a = 0; a < 200; ++a) {
      double ahead = 0;
      for (TokenId b = 0; b < 200; ++b) {
        const bool tie = logits[static_cast<std::size_t>(a)] == logits[static_cast<std::size_t>(b)];
        if (tie ? b < a : distance(b) < distance(a)) ahead += p[static_cast<std::size_t>(b)];
      }
      if (ahead < limit) want.insert(a);
    }
    auto list = candidates(logits);
    filter::typical(list, limit);
    EXPECT_EQ(ids(list), want) << limit;
    EXPECT_TRUE(std::is_sorted(
        list.begin(), list.end(),
        [&](const Candidate& a, const Candidate& b) { return before(logits, a.id, b.id); }));
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, Filters, testing::Values(1, 2, 3, 4, 5));

TEST_P(Filters, TopNSigmaKeepsTokensWithinNDeviationsOfTheMaximum) {
  double mean = 0, square = 0;
  for (const float x : logits) mean += x / 200.0;
  for (const float x : logits) square += (x - mean) * (x - mean) / 200;
  const double top = *std::max_element(logits.begin(), logits.end());
  for (const double n : {0.25, 1.0, 1.7, 10.0}) {
    std::set<TokenId> want;
    for (TokenId a = 0; a < 200; ++a) {
      if (logits[static_cast<std::size_t>(a)] >= top - n * std::sqrt(square)) want.insert(a);
    }
    auto list = candidates(logits);
    list.push_back({200, -std::numeric_limits<double>::infinity(), 0});  // must be ignored
    filter::top_n_sigma(list, n);
    EXPECT_EQ(ids(list), want) << n;
  }
}

TEST_P(Filters, XtcKeepsTheLeastLikelyOfTheLikelyAndTheRest) {
  for (const double threshold : {0.0, 0.005, 0.02, 0.05, 0.5}) {
    const auto is_likely = [&](TokenId id) {
      const double of_it = p[static_cast<std::size_t>(id)];
      return of_it > 0 && of_it >= threshold;
    };
    std::set<TokenId> want;
    for (TokenId a = 0; a < 200; ++a) {
      bool last = true;  // no likely token comes after it
      for (TokenId b = 0; b < 200; ++b) last &= !(before(logits, a, b) && is_likely(b));
      if (!is_likely(a) || last) want.insert(a);
    }
    auto list = candidates(logits);
    filter::xtc(list, threshold);
    EXPECT_EQ(ids(list), want) << threshold;
  }
}

TEST_P(Filters, TemperatureDividesLogits) {
  auto list = candidates(logits);
  filter::temperature(list, 0.7);
  for (const Candidate& c : list) EXPECT_EQ(c.logit, logits[static_cast<std::size_t>(c.id)] / 0.7);
  filter::temperature(list, 0);
  ASSERT_EQ(list.size(), 1U);
  for (TokenId a = 0; a < 200; ++a) EXPECT_FALSE(before(logits, a, list[0].id));
}

TEST_P(Filters, DynamicTemperatureFollowsTheEntropy) {
  double entropy = 0;
  for (const double q : p) entropy -= q * std::log2(q);
  for (const double exponent : {0.5, 1.0, 3.0}) {
    const double want = 0.3 + 1.4 * std::pow(entropy / std::log2(200.0), exponent);
    EXPECT_NEAR(filter::dynamic_temperature(candidates(logits), 0.3, 1.7, exponent), want, 1e-12);
  }
}

TEST(FilterLimits, DynamicTemperatureOfOneAndOfEqualTokens) {
  EXPECT_EQ(filter::dynamic_temperature({{0, 1, 1}}, 0.3, 1.7, 1), 0.3);
  EXPECT_NEAR(filter::dynamic_temperature({{0, 1, 0.5}, {1, 1, 0.5}}, 0.3, 1.7, 2), 1.7, 1e-15);
  EXPECT_NEAR(filter::dynamic_temperature({{0, 1, 1}, {1, -900, 0}}, 0.3, 1.7, 1), 0.3, 1e-15);
}

TEST(FilterLimits, XtcCountsNoBannedTokenAsLikely) {
  std::vector<Candidate> list = {
      {0, 3, 0.75}, {1, 2, 0.25}, {2, -2000, 0}, {3, -std::numeric_limits<double>::infinity(), 0}};
  filter::xtc(list, 0);
  EXPECT_EQ(list.size(), 3U);
  EXPECT_EQ(list.front().id, 1);
}

TEST(FilterLimits, OneTokenIsAlwaysKept) {
  for (const double none : {0.0, 1.0}) {
    std::vector<Candidate> list = {{0, 2, 0.5}, {1, 2, 0.5}};
    filter::top_p(list, 0);
    EXPECT_EQ(list.size(), 1U);
    list = {{4, -std::numeric_limits<double>::infinity(), none}};
    filter::softmax(list);
    filter::top_n_sigma(list, 0.1);
    filter::xtc(list, 0);
    filter::typical(list, 0);
    filter::min_p(list, 1);
    EXPECT_EQ(list.size(), 1U);
  }
}

}  // namespace
}  // namespace cria::test
