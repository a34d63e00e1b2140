#include "tools/report/pass_limit.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <tuple>
#include <vector>

#include "engine/model_parts.h"

namespace cria::tools {
namespace {

constexpr std::size_t kPieceBytes = 256 << 10;  // a part of any second-level cache
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
    std::uint64_t all = 0;  // of mixtures, all experts: a token is multiplied with some
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
