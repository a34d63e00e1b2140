#include "engine/distribute/read_rates.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <exception>
#include <thread>

#include "engine/distribute/default_threads.h"
#include "kernels/kernels.h"

namespace cria {
namespace {

using RateClock = std::chrono::steady_clock;

constexpr std::size_t kRateBytes = std::size_t{256} << 20;  // beyond the caches
constexpr std::size_t kRatePiece = std::size_t{1} << 20;
constexpr std::chrono::milliseconds kRateTime(150);

/// Memory that is really there.
class Touched {
 public:
  Touched()
      : data_(
            mmap(nullptr, kRateBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    if (data_ == MAP_FAILED) return;
    madvise(data_, kRateBytes, MADV_HUGEPAGE);
    std::fill_n(data(), kRateBytes, std::byte{1});
  }
  ~Touched() {
    if (data_ != MAP_FAILED) munmap(data_, kRateBytes);
  }
  Touched(const Touched&) = delete;
  Touched& operator=(const Touched&) = delete;
  [[nodiscard]] bool there() const { return data_ != MAP_FAILED; }
  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  void* data_;
};

// Without kernels (a CRIA_ISA that cannot run here) no model is loaded either, which says why.
double read_rate(const Touched& memory, unsigned threads) {
  const KernelSet* const kernels = active_kernels();
  if (!memory.there() || kernels == nullptr || kernels->read_peak == nullptr) return 1;
  std::atomic<std::size_t> pieces{0};
  const auto begin = RateClock::now();
  {
    const auto read = [&] {
      while (RateClock::now() - begin < kRateTime)
        kernels->read_peak(memory.data() + pieces++ * kRatePiece % kRateBytes, kRatePiece);
    };
    std::vector<std::jthread> team;
    try {
      for (unsigned i = 0; i < threads; ++i) team.emplace_back(read);
    } catch (const std::exception&) {  // with those that there are: the others wait for this rank
    }
  }
  const double seconds = std::chrono::duration<double>(RateClock::now() - begin).count();
  return 1e-9 * static_cast<double>(pieces * kRatePiece) / seconds;
}

}  // namespace

std::vector<double> exchange_read_rates(Ranks& ranks, std::uint32_t threads) {
  std::vector<double> rates(ranks.size(), 0);
  std::vector<std::size_t> begin;
  for (std::size_t r = 0; r <= rates.size(); ++r) begin.push_back(r * sizeof(double));
  const auto meet = [&] {
    ranks.gather(reinterpret_cast<std::byte*>(rates.data()), begin, Timeout::Loading);
  };
  const Touched memory;
  meet();
  rates[ranks.rank()] = read_rate(memory, threads != 0 ? threads : default_threads(&ranks));
  meet();
  return rates;
}

Shares shares_of(const std::vector<double>& rates) {
  constexpr double kMost = 10;
  const double fastest = *std::ranges::max_element(rates);
  Shares shares;
  for (const double rate : rates)
    shares.push_back(static_cast<unsigned>(std::max(1.0, std::round(kMost * rate / fastest))));
  return shares;
}

}  // namespace cria
