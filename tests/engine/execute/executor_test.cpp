// The time of passes decides the prefetch mode of the next ones.
#include "engine/execute/executor.h"

#include <gtest/gtest.h>

#include <map>

namespace cria {
namespace {

constexpr PrefetchMode kModes[] = {PrefetchMode::InOrder, PrefetchMode::Streams};
using Seconds = std::map<PrefetchMode, double>;

/// Counts the passes per mode among the next n, if passes take `seconds`.
std::map<PrefetchMode, std::size_t> passes(PrefetchTuner& tuner, const Seconds& seconds,
                                           std::size_t n) {
  std::map<PrefetchMode, std::size_t> uses;
  for (std::size_t i = 0; i < n; ++i) {
    const PrefetchMode mode = tuner.mode();
    ++uses[mode];
    tuner.record(seconds.at(mode));
  }
  return uses;
}

constexpr std::size_t kTrial = std::size(kModes) * PrefetchTuner::kTried;

TEST(PrefetchTuner, TriesAllAndKeepsTheFastest) {
  for (const PrefetchMode fastest : kModes) {
    Seconds seconds;
    for (const PrefetchMode mode : kModes) seconds[mode] = mode == fastest ? 0.9 : 1;
    PrefetchTuner tuner(kModes);
    const auto tried = passes(tuner, seconds, kTrial);
    for (const PrefetchMode mode : kModes) EXPECT_EQ(tried.at(mode), PrefetchTuner::kTried);
    const auto kept = passes(tuner, seconds, PrefetchTuner::kKept);
    EXPECT_EQ(kept.size(), 1U);
    EXPECT_EQ(kept.at(fastest), PrefetchTuner::kKept);
  }
}

TEST(PrefetchTuner, ChangesItsMindWithTheMachine) {
  PrefetchTuner tuner(kModes);
  passes(tuner, {{kModes[0], 1}, {kModes[1], 2}}, kTrial);
  EXPECT_EQ(tuner.mode(), kModes[0]);
  const Seconds now = {{kModes[0], 2}, {kModes[1], 1}};
  passes(tuner, now, PrefetchTuner::kKept + kTrial);
  EXPECT_EQ(tuner.mode(), kModes[1]);
}

TEST(PrefetchTuner, OneSlowPassDecidesNothing) {
  PrefetchTuner tuner(kModes);
  tuner.record(100);  // the file came from disk
  passes(tuner, {{kModes[0], 1}, {kModes[1], 2}}, kTrial - 1);
  EXPECT_EQ(tuner.mode(), kModes[0]);
}

TEST(PrefetchTuner, HandlesASingleMode) {
  PrefetchTuner none({}), one(std::span<const PrefetchMode>(kModes).first(1));
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(none.mode(), PrefetchMode::InOrder);
    EXPECT_EQ(one.mode(), kModes[0]);
    none.record(1);
    one.record(1);
  }
}

}  // namespace
}  // namespace cria
