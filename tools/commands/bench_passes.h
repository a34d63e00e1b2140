// Timing of repeated work, and passes of `cria bench` with more than one token: verifying drafts of
// one sequence, and several sequences at once.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "engine/session.h"
#include "tools/commands/bench_report.h"
#include "tools/report/roofline.h"
#include "tools/terminal/terminal.h"

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

struct PassBench {
  std::string label;             ///< the model's name
  std::string dtype;             ///< the type that most of its weights have
  unsigned threads = 1;          ///< threads of rank 0
  bool default_threads = false;  ///< other ranks use their own default
  unsigned repetitions = 1;
  std::uint32_t batch = 512;
  KvType kv_type{};
  std::size_t depth = 0, prompt = 512, decode = 128;
};

/// One pass of `n` tokens with logits for each, compared with the machine's limit. Throws Error if
/// the engine takes fewer at once.
FiguresTable verify_table();
void bench_verify(const Model& model, const PassBench& how, const std::vector<std::size_t>& tokens,
                  const PassLimit& limit, FiguresTable& table);

/// Several sequences at once: their prompts (shared: one that all continue), then one token of each
/// per pass.
FiguresTable parallel_table();
void bench_parallel(const Model& model, const PassBench& how,
                    const std::vector<std::size_t>& sequences, bool shared, FiguresTable& table);

/// Decoding with drafts of a given acceptance rate in percent, compared with decoding without.
FiguresTable speculate_table();
void bench_speculate(const Model& model, const PassBench& how,
                     const std::vector<std::size_t>& rates, FiguresTable& table);

/// Tokens of no meaning with ids below `end`, the same each time.
std::vector<TokenId> random_tokens(const Model& model, std::size_t n,
                                   std::uint32_t end = std::numeric_limits<std::uint32_t>::max());

}  // namespace cria::tools
