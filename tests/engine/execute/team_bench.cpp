// Measures the overhead of a parallel region: team_bench [threads]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "engine/execute/machine.h"
#include "engine/execute/team.h"

namespace {

using Clock = std::chrono::steady_clock;

void work(std::chrono::nanoseconds time) {
  for (const auto start = Clock::now(); Clock::now() - start < time;) continue;
}

// Nanoseconds of a region in which every thread works for the given time, best of many.
double region_ns(cria::Team& team, std::chrono::nanoseconds time) {
  constexpr int kRegions = 300;
  double best = 1e9;
  for (int repeat = 0; repeat < 200; ++repeat) {
    const auto evaluation = team.begin(team.threads());
    const auto start = Clock::now();
    for (int i = 0; i < kRegions; ++i)
      team.run(team.threads(), [time](std::size_t, unsigned) { work(time); });
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count() / kRegions);
  }
  return best * 1e9;
}

}  // namespace

int main(int argc, char** argv) {
  const unsigned threads =
      argc > 1 ? static_cast<unsigned>(std::atoi(argv[1])) : cria::usable_cores();
  cria::Team team(threads);
  { const auto evaluation = team.begin(threads); }  // sets the number of threads
  cria::Team alone(1);
  for (const int ns : {1000, 5000, 20000}) {
    const std::chrono::nanoseconds time(ns);
    std::printf("%u threads, %5d ns of work each: %.0f ns more than the work\n", threads, ns,
                region_ns(team, time) - region_ns(alone, time));
  }
}
