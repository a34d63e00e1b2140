#include "tools/report/roofline.h"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include <sys/mman.h>

namespace cria::tools {
namespace {

constexpr std::size_t kReadBytes = std::size_t{512} << 20;  // far beyond any cache share of ours
constexpr std::size_t kMinBytes = kReadBytes / 2, kPage = 4096;
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
  return best_rate(threads, 1e-9 * static_cast<double>(macs) * threads,
                   [&](unsigned) { loop(rounds); });
}

/// Memory of its own, written once, in huge pages where they are granted. Empty if there is none.
class FreshMemory {
 public:
  FreshMemory() {
    void* memory =
        mmap(nullptr, kReadBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return;
    madvise(memory, kReadBytes, MADV_HUGEPAGE);
    bytes_ = {static_cast<std::byte*>(memory), kReadBytes};
    std::ranges::fill(bytes_, std::byte{1});
  }
  ~FreshMemory() {
    if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
  }
  FreshMemory(const FreshMemory&) = delete;
  FreshMemory& operator=(const FreshMemory&) = delete;
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<std::byte> bytes_;
};

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

double read_gbytes(const KernelSet& kernels, unsigned threads, std::span<const std::byte> bytes) {
  if (bytes.empty()) {
    const FreshMemory memory;
    return memory.bytes().empty() ? 0 : read_gbytes(kernels, threads, memory.bytes());
  }
  const std::size_t share = bytes.size() / threads / kPage * kPage;
  double best = 0;
  for (const auto read : {kernels.read_peak, kernels.read_streams_peak}) {
    if (read == nullptr) continue;
    best = std::max(best, best_rate(threads, 1e-9 * static_cast<double>(share * threads),
                                    [&](unsigned i) { read(bytes.data() + i * share, share); }));
  }
  return best;
}

std::span<const std::byte> readable_weights(const GgufFile& file) {
  std::vector<std::span<const std::byte>> tensors;
  for (const TensorView& tensor : file.tensors()) tensors.emplace_back(tensor.data, tensor.bytes);
  const auto place = [](const std::byte* p) { return reinterpret_cast<std::uintptr_t>(p); };
  std::ranges::sort(tensors, {}, [&](const auto& tensor) { return place(tensor.data()); });
  std::span<const std::byte> run, longest;
  for (const auto& tensor : tensors) {
    const std::uintptr_t end = place(run.data() + run.size());
    if (run.empty() ||
        place(tensor.data()) >= end + kPage)  // between two files a page may not be there
      run = tensor;
    else
      run = {run.data(),
             std::max(run.size(), place(tensor.data() + tensor.size()) - place(run.data()))};
    if (run.size() > longest.size()) longest = run;
  }
  const std::size_t to_page = (kPage - place(longest.data()) % kPage) % kPage;
  if (longest.size() < kMinBytes + to_page) return {};
  longest = longest.subspan(to_page);
  return longest.first(std::min(longest.size(), kReadBytes));
}

Roofline measure_roofline(const KernelSet& kernels, unsigned threads,
                          std::span<const std::byte> weights) {
  return {.read_gbytes = read_gbytes(kernels, threads, weights),
          .int8_gmacs = peak_gmacs(threads, kernels.int8_peak),
          .matrix_gmacs = peak_gmacs(threads, kernels.matrix_peak),
          .float_gmacs = peak_gmacs(threads, kernels.float_peak),
          .bf16_gmacs = peak_gmacs(threads, kernels.bf16_peak)};
}

}  // namespace cria::tools
