#include "tools/report/roofline.h"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include <sys/mman.h>

namespace cria::tools {
namespace {

constexpr std::size_t kReadBytes = std::size_t{512} << 20;  // far beyond any cache share of ours
constexpr int kRepetitions = 5;

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double peak_gmacs(unsigned threads, std::uint64_t (*loop)(std::uint64_t rounds)) {
  if (loop == nullptr) return 0;
  std::uint64_t rounds = 1000;
  double spent = 0;
  std::uint64_t macs = 0;
  while (spent < 0.03) {  // long enough for a clock, short enough for a user
    rounds *= 2;
    const double start = seconds();
    macs = loop(rounds);
    spent = seconds() - start;
  }
  return best_rate(threads, 1e-9 * static_cast<double>(macs) * threads, [&](unsigned) { loop(rounds); });
}

double read_gbytes(const KernelSet& kernels, unsigned threads) {
  void* memory = mmap(nullptr, kReadBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 0;
  madvise(memory, kReadBytes, MADV_HUGEPAGE);
  auto* bytes = static_cast<std::byte*>(memory);
  std::fill_n(bytes, kReadBytes, std::byte{1});
  const std::size_t share = kReadBytes / threads / 4096 * 4096;
  double best = 0;
  for (const auto read : {kernels.read_peak, kernels.read_streams_peak}) {
    if (read == nullptr) continue;
    best = std::max(best, best_rate(threads, 1e-9 * static_cast<double>(share * threads),
                                    [&](unsigned i) { read(bytes + i * share, share); }));
  }
  munmap(memory, kReadBytes);
  return best;
}

}  // namespace

double best_rate(unsigned threads, double units, const std::function<void(unsigned)>& work) {
  double best = 0;
  for (int repetition = 0; repetition < kRepetitions; ++repetition) {
    double start = 0;
    std::barrier line(threads, [&]() noexcept {
      if (start == 0) start = seconds();
    });
    {
      std::vector<std::jthread> team;
      for (unsigned i = 0; i < threads; ++i)
        team.emplace_back([&, i] {
          line.arrive_and_wait();
          work(i);
        });
    }
    best = std::max(best, units / (seconds() - start));
  }
  return best;
}

Roofline measure_roofline(const KernelSet& kernels, unsigned threads) {
  return {.read_gbytes = read_gbytes(kernels, threads),
          .int8_gmacs = peak_gmacs(threads, kernels.int8_peak),
          .matrix_gmacs = peak_gmacs(threads, kernels.matrix_peak),
          .float_gmacs = peak_gmacs(threads, kernels.float_peak),
          .bf16_gmacs = peak_gmacs(threads, kernels.bf16_peak)};
}

}  // namespace cria::tools
