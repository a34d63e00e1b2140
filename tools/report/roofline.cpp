#include "tools/report/roofline.h"

#include <sys/mman.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <thread>
#include <tuple>
#include <vector>

#include "engine/model_parts.h"

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

/// A buffer written once, in huge pages if granted. Empty if memory is too small.
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

namespace {

constexpr std::size_t kPieceBytes = 256 << 10;  // fits into any L2
constexpr std::size_t kManyTokens = 512;

struct Free {
  void operator()(std::byte* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<std::byte[], Free>;
Memory aligned(std::size_t bytes) {
  return Memory(static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 127) / 64 * 64)));
}

/// Products of some rows of a matrix with random tokens, for one thread.
class Piece {
 public:
  Piece(const Matrix& matrix, const KernelSet& kernels, std::size_t tokens)
      : matrix_(matrix),
        rows_(std::clamp<std::size_t>(kPieceBytes / matrix.weight.row_bytes() / kRowTile * kRowTile,
                                      1, matrix.weight.rows())),
        x_(tokens * matrix.weight.cols()),
        out_(tokens * rows_),
        scratch_(aligned(matmul_scratch_bytes(matrix.weight.cols()))) {
    const std::size_t cols = matrix.weight.cols();
    std::mt19937 random(1);
    for (float& x : x_) x = static_cast<float>(random() % 2001) / 1000 - 1;
    memory_ = aligned(Activations::bytes(matrix.kernel.act, tokens, cols));
    acts_ = Activations::place(matrix.kernel.act, tokens, cols, memory_.get());
    if (acts_.type == ActType::F32) {
      acts_.f32 = x_.data();
      acts_.f32_stride = cols;
    } else {
      kernels.quantize(x_.data(), cols, acts_, 0, tokens, 0, cols);
    }
  }
  void run() {
    const TensorView& w = matrix_.weight;
    matrix_.kernel.run({w.data, w.row_bytes(), rows_, w.cols(), &acts_, out_.data(), rows_}, 0,
                       rows_, scratch_.get());
  }
  [[nodiscard]] std::size_t rows() const { return rows_; }

 private:
  const Matrix& matrix_;
  std::size_t rows_;
  std::vector<float> x_, out_;
  Memory memory_, scratch_;
  Activations acts_;
};

/// Seconds that all threads together take for a row and these tokens.
double row_seconds(const Matrix& matrix, const KernelSet& kernels, std::size_t tokens,
                   unsigned threads) {
  std::vector<std::unique_ptr<Piece>> pieces;
  for (unsigned i = 0; i < threads; ++i)
    pieces.push_back(std::make_unique<Piece>(matrix, kernels, tokens));
  const std::size_t repetitions = tokens == 1 ? 100 : 1;
  pieces[0]->run();
  return 1 / best_rate(threads, static_cast<double>(pieces[0]->rows() * repetitions * threads),
                       [&](unsigned i) {
                         for (std::size_t k = 0; k < repetitions; ++k) pieces[i]->run();
                       });
}

}  // namespace

PassLimit measure_pass_limit(const Model& model, const KernelSet& kernels, double read_gbytes,
                             unsigned threads) {
  struct RowSeconds {
    double first, token;
  };
  std::map<std::tuple<DType, std::uint64_t>, RowSeconds> known;
  PassLimit limit;
  for (const Node& node : model.graph().nodes) {
    limit.read += static_cast<double>(node.weight_bytes()) / (1e9 * read_gbytes);
    std::uint64_t all = 0;  // all experts; a token uses some
    for (const Matrix& m : node.matrices)
      if (m.kernel.run != nullptr) all += m.weight.rows() * m.weight.cols();
    for (const Matrix& m : node.matrices) {
      if (m.kernel.run == nullptr) continue;
      const auto [at, added] = known.try_emplace({m.weight.dtype, m.weight.cols()});
      if (added)
        at->second = {row_seconds(m, kernels, 1, threads),
                      row_seconds(m, kernels, kManyTokens, threads) / kManyTokens};
      const double rows = static_cast<double>(m.weight.rows()) * static_cast<double>(node.macs()) /
                          static_cast<double>(all);
      limit.first += rows * at->second.first;
      limit.token += rows * at->second.token;
    }
  }
  return limit;
}

}  // namespace cria::tools
