// Mirostat against the algorithms of its paper, written down a second time.
#include "engine/sample/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "tests/engine/random.h"

namespace cria::test {
namespace {

struct Ranked {
  TokenId id;
  double p;
};

// Softmax, in descending order.
std::vector<Ranked> ranked(const std::vector<float>& logits) {
  std::vector<Ranked> list;
  double sum = 0;
  for (const float x : logits) sum += std::exp(double{x});
  for (std::size_t i = 0; i < logits.size(); ++i)
    list.push_back({static_cast<TokenId>(i), std::exp(double{logits[i]}) / sum});
  std::stable_sort(list.begin(), list.end(),
                   [](const Ranked& a, const Ranked& b) { return a.p > b.p; });
  return list;
}

// Algorithm 1: how many tokens are left.
std::size_t paper_k(const std::vector<Ranked>& list, double mu) {
  double above = 0, below = 0;
  for (std::size_t i = 1; i < std::min<std::size_t>(list.size(), 100); ++i) {
    const double t = std::log((static_cast<double>(i) + 1) / static_cast<double>(i));
    above += t * std::log(list[i - 1].p / list[i].p);
    below += t * t;
  }
  const double s = above / below, e = s - 1, n = static_cast<double>(list.size());
  const double k = std::pow(e * std::pow(2, mu) / (1 - std::pow(n, -e)), 1 / s);
  return std::clamp<std::size_t>(k < 1 ? 1 : static_cast<std::size_t>(k), 1, list.size());
}

// Algorithm 2: keep tokens with a surprise of up to mu bits.
std::size_t paper_cut(const std::vector<Ranked>& list, double mu) {
  std::size_t n = 1;
  while (n < list.size() && std::log2(1 / list[n].p) <= mu) ++n;
  return n;
}

class MirostatVersions : public testing::TestWithParam<int> {};

TEST_P(MirostatVersions, IsThePapersAlgorithm) {
  SamplerOptions options;
  options.temperature = 0.9F;
  options.mirostat = GetParam();
  options.mirostat_tau = 3;
  options.mirostat_eta = 0.2F;
  options.seed = 11;
  options.top_k = 1;  // does not count
  Sampler sampler(options, 400);
  double mu = 2 * 3.0;
  Random noise(5);
  std::size_t fewest = 400, most = 0;
  for (std::uint64_t i = 0; i < 200; ++i) {
    std::vector<float> logits(400), scaled(400);
    for (std::size_t j = 0; j < 400; ++j) {
      logits[j] = static_cast<float>(noise.uniform() -
                                     1.2 * std::log(static_cast<double>(1 + (j * 7) % 400)));
      scaled[j] = logits[j] / 0.9F;
    }
    std::vector<Ranked> list = ranked(scaled);
    list.resize(GetParam() == 1 ? paper_k(list, mu) : paper_cut(list, mu));
    fewest = std::min(fewest, list.size());
    most = std::max(most, list.size());
    double sum = 0;
    for (const Ranked& r : list) sum += r.p;
    double random = TokenRandom::of(11, i).draw;
    std::size_t at = 0;
    while (at + 1 < list.size() && (random -= list[at].p / sum) >= 0) ++at;
    ASSERT_EQ(sampler.next(logits, {}), list[at].id) << i;
    mu -= static_cast<double>(0.2F) * (-std::log2(list[at].p / sum) - 3);
  }
  EXPECT_LT(fewest, most / 2);  // mu moved
}

INSTANTIATE_TEST_SUITE_P(Both, MirostatVersions, testing::Values(1, 2));

TEST(Mirostat, OddDistributionsDraw) {
  for (const int version : {1, 2}) {
    SamplerOptions options;
    options.mirostat = version;
    options.seed = 3;
    const float low = -std::numeric_limits<float>::infinity();
    for (const std::vector<float>& logits : {std::vector<float>{1},
                                             {0, 0, 0, 0},
                                             {1, low, low},
                                             {low, low},
                                             {3e38F, -3e38F},
                                             {0, -1e-7F}}) {
      Sampler sampler(options, logits.size());
      for (int i = 0; i < 50; ++i) {
        const TokenId id = sampler.next(logits, {});
        ASSERT_TRUE(id >= 0 && static_cast<std::size_t>(id) < logits.size());
        if (logits[0] > 0) {
          EXPECT_EQ(id, 0);
        }
      }
    }
  }
}

TEST(Mirostat, GreedyStaysGreedy) {
  SamplerOptions options;
  options.temperature = 0;
  options.mirostat = 2;
  EXPECT_EQ(Sampler(options, 3).next(std::vector<float>{1, 4, 2}, {}), 1);
}

}  // namespace
}  // namespace cria::test
