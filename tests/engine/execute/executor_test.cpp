// What passes took decides how the next ones fetch weights.
#include "engine/execute/executor.h"

#include <gtest/gtest.h>

#include <map>

namespace cria {
namespace {

constexpr FetchAhead kWays[] = {FetchAhead::Near, FetchAhead::Far, FetchAhead::Streams};
using Seconds = std::map<FetchAhead, double>;

/// What the next n passes use, if they take so long.
std::map<FetchAhead, std::size_t> passes(FetchChoice& choice, const Seconds& seconds,
                                         std::size_t n) {
  std::map<FetchAhead, std::size_t> uses;
  for (std::size_t i = 0; i < n; ++i) {
    const FetchAhead way = choice.now();
    ++uses[way];
    choice.took(seconds.at(way));
  }
  return uses;
}

constexpr std::size_t kTrial = std::size(kWays) * FetchChoice::kTried;

TEST(FetchChoice, TriesAllAndKeepsTheFastest) {
  for (const FetchAhead fastest : kWays) {
    Seconds seconds;
    for (const FetchAhead way : kWays) seconds[way] = way == fastest ? 0.9 : 1;
    FetchChoice choice(kWays);
    const auto tried = passes(choice, seconds, kTrial);
    for (const FetchAhead way : kWays) EXPECT_EQ(tried.at(way), FetchChoice::kTried);
    const auto kept = passes(choice, seconds, FetchChoice::kKept);
    EXPECT_EQ(kept.size(), 1U);
    EXPECT_EQ(kept.at(fastest), FetchChoice::kKept);
  }
}

TEST(FetchChoice, ChangesItsMindWithTheMachine) {
  FetchChoice choice(kWays);
  passes(choice, {{kWays[0], 1}, {kWays[1], 2}, {kWays[2], 2}}, kTrial);
  EXPECT_EQ(choice.now(), kWays[0]);
  const Seconds now = {{kWays[0], 2}, {kWays[1], 2}, {kWays[2], 1}};
  passes(choice, now, FetchChoice::kKept + kTrial);
  EXPECT_EQ(choice.now(), kWays[2]);
}

TEST(FetchChoice, OneSlowPassDecidesNothing) {
  FetchChoice choice(kWays);
  choice.took(100);  // the file came from disk
  passes(choice, {{kWays[0], 1}, {kWays[1], 2}, {kWays[2], 2}}, kTrial - 1);
  EXPECT_EQ(choice.now(), kWays[0]);
}

TEST(FetchChoice, HandlesASingleMode) {
  FetchChoice none({}), one(std::span<const FetchAhead>(kWays).first(1));
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(none.now(), FetchAhead::Far);
    EXPECT_EQ(one.now(), kWays[0]);
    none.took(1);
    one.took(1);
  }
}

}  // namespace
}  // namespace cria
