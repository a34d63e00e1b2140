// Every chunk is computed exactly once, by whichever worker takes it.
#include "engine/execute/team.h"

#include <gtest/gtest.h>
#include <oneapi/tbb/global_control.h>

#include <array>
#include <chrono>
#include <thread>
#include <vector>

namespace cria {
namespace {

// Regions of many sizes in quick succession; plain ints would race if a chunk ran twice or
// a region ended early.
void run_regions(unsigned threads, int evaluations) {
  Team team(threads);
  std::vector<int> count(300);
  for (int e = 0; e < evaluations; ++e) {
    const auto evaluation = team.begin(1 + static_cast<unsigned>(e) % threads);
    for (std::size_t chunks = 0; chunks <= count.size(); chunks = chunks * 2 + 1) {
      std::fill(count.begin(), count.end(), 0);
      team.run(chunks, [&](std::size_t chunk, unsigned worker) {
        ASSERT_LT(worker, team.threads());
        ++count[chunk];
      });
      for (std::size_t i = 0; i < count.size(); ++i)
        ASSERT_EQ(count[i], i < chunks ? 1 : 0) << i << " of " << chunks;
    }
  }
}

TEST(Team, ComputesEveryChunkOnce) {
  for (const unsigned threads : {1U, 2U, 3U, 16U}) run_regions(threads, 400);
}

TEST(Team, NeedsNoWorkers) {
  const tbb::global_control one(tbb::global_control::max_allowed_parallelism, 1);
  run_regions(4, 50);
}

TEST(Team, WorkersAreNeverShared) {
  Team team(4);
  std::array<std::atomic<int>, 4> busy{};
  const auto evaluation = team.begin(4);
  for (int i = 0; i < 500; ++i) {
    team.run(20, [&](std::size_t, unsigned worker) {
      EXPECT_EQ(busy[worker].fetch_add(1), 0);
      busy[worker].fetch_sub(1);
    });
  }
}

// A worker does come: it must, if the first chunk waits for the last.
TEST(Team, WorkersComeBackAfterAPause) {
  const tbb::global_control two(tbb::global_control::max_allowed_parallelism,
                                2);  // also on one core
  Team team(2);
  for (int i = 0; i < 5; ++i) {
    const auto evaluation = team.begin(2);
    std::atomic<bool> last{false}, given_up{false};
    team.run(2, [&](std::size_t chunk, unsigned) {
      if (chunk == 1) last = true;
      const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
      while (!last && !given_up) {
        std::this_thread::yield();
        given_up = std::chrono::steady_clock::now() > limit;
      }
    });
    ASSERT_FALSE(given_up) << "one thread was alone for 30 seconds, evaluation " << i;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

}  // namespace
}  // namespace cria
