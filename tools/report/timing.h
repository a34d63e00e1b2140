// Timing of repeated work, and the median of measurements.
#pragma once
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "tools/terminal/process.h"
#include "tools/terminal/progress.h"

namespace cria::tools {

/// Needs at least one value; an even number gives the mean of the middle two.
inline double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 != 0 ? values[half] : (values[half - 1] + values[half]) / 2;
}

/// Seconds that work(on_token) takes for n tokens, one figure per repetition after one run that is
/// not counted. Shows progress, and stops at Ctrl-C.
template <class Prepare, class Work>
std::vector<double> time_repetitions(const std::string& test, unsigned repetitions, std::size_t n,
                                     Prepare prepare, Work work) {
  const std::atomic<bool>& interrupted = catch_interrupts();
  Progress progress(test, "tokens", n * (repetitions + 1));
  std::vector<double> times;
  for (unsigned i = 0; i <= repetitions; ++i) {
    const auto show = [&](std::size_t done) {
      if (interrupted) throw Interrupted();
      progress.update(i * n + done,
                      "run " + std::to_string(i + 1) + " of " + std::to_string(repetitions + 1));
    };
    prepare();
    const auto start = std::chrono::steady_clock::now();
    work(show);
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    if (i > 0) times.push_back(spent.count());
    show(n);
  }
  return times;
}

}  // namespace cria::tools
