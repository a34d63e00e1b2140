// Matrix products of every type × instruction set × shapes of real models, one thread, kernels
// only. Each case is compared with the scalar kernel before it is timed. Rates are
// compared with the machine's limits, measured in the same run.
//
//   kernel_bench --benchmark_filter='Q4_K/avx512vnni/.*/tokens:1$'
#include <benchmark/benchmark.h>

#include <cstring>
#include <iostream>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "engine/execute/machine.h"
#include "engine/synthetic/synthetic.h"
#include "kernels/kernels.h"
#include "tools/report/roofline.h"

namespace {

using namespace cria;

constexpr std::size_t kBeyondCaches = std::size_t{256}
                                      << 20;  // decode is timed on weights that no cache holds
constexpr std::size_t kCheckedRows = 40;

struct Matrix {
  std::string name;
  std::size_t rows, cols;
};

/// The distinct matrices of a layer of a shape.
std::vector<Matrix> matrices(const ModelShape& shape) {
  const std::size_t q = std::size_t{shape.n_heads} * shape.head_dim;
  return {{shape.name + "/attn_q", q, shape.n_embd},
          {shape.name + "/ffn_up", shape.n_ff, shape.n_embd},
          {shape.name + "/ffn_down", shape.n_embd, shape.n_ff}};
}

/// Numbers in pages like the engine's: huge if available.
struct Floats {
  explicit Floats(std::size_t n = 0) : pages(n * sizeof(float)) {}
  [[nodiscard]] float* data() const { return reinterpret_cast<float*>(pages.data()); }
  [[nodiscard]] std::span<float> all() const { return {data(), pages.size() / sizeof(float)}; }
  SystemMemory pages;
};

/// One product: weights (several copies of the matrix, so that decoding streams from
/// memory), activations and results.
class Product {
 public:
  Product(const KernelSet& kernels, DType type, const Matrix& matrix, std::size_t tokens)
      : kernels_(kernels),
        kernel_(kernels.matmul(type)),
        packing_(kernel_.packing(tokens)),
        tokens_(tokens) {
    const std::size_t row_bytes = dtype_info(type).row_bytes(matrix.cols);
    matrix_bytes_ = row_bytes * matrix.rows;
    copies_ = tokens > 8 ? 1 : kBeyondCaches / matrix_bytes_ + 1;
    weights_ = SystemMemory(matrix_bytes_ * copies_);
    fill_random_weights(type, matrix.rows, matrix.cols, weights_.data(), 1);
    for (std::size_t i = 1; i < copies_; ++i)
      std::memcpy(weights_.data() + i * matrix_bytes_, weights_.data(), matrix_bytes_);
    x_ = Floats(tokens * matrix.cols);
    std::mt19937 generator(7);
    for (float& x : x_.all()) x = std::normal_distribution<float>()(generator);
    out_ = Floats(tokens * matrix.rows);
    if (packing_.run != nullptr) packed_ = SystemMemory(packing_.bytes(tokens, matrix.cols));
    scratch_ = SystemMemory(matmul_scratch_bytes(matrix.cols));
    job_ = {weights_.data(), row_bytes,   matrix.rows, matrix.cols,
            &acts_,          out_.data(), matrix.rows, nullptr};
    quantize(kernels_, kernel_.act);
  }

  void run(std::size_t rows) {
    job_.weights = weights_.data() + (turn_++ % copies_) * matrix_bytes_;
    if (packing_.run != nullptr) {
      packing_.run(acts_, 0, tokens_, packed_.data());
      job_.packed = packed_.data();
    }
    kernel_.run(job_, 0, rows, scratch_.data());
  }

  /// True if the first rows equal the scalar kernel's bit by bit (a machine's own bf16 unit:
  /// nearly).
  bool check(DType type) {
    const std::size_t rows = std::min(kCheckedRows, job_.rows);
    run(rows);
    const std::vector<float> got(out_.all().begin(), out_.all().end());
    const KernelSet& scalar = *available_kernels().back();
    quantize(scalar, scalar.matmul(type).act);
    job_.weights = weights_.data();
    scalar.matmul(type).run(job_, 0, rows, scratch_.data());
    const bool exact = !dtype_info(type).is_float() || kernels_.isa != "amx";
    bool good = true;
    for (std::size_t t = 0; t < tokens_ && good; ++t)
      for (std::size_t r = 0; r < rows && good; ++r) {
        const float a = got[t * job_.rows + r], b = out_.all()[t * job_.rows + r];
        good = exact ? std::memcmp(&a, &b, sizeof a) == 0
                     : std::abs(a - b) <= 1e-4F * std::sqrt(static_cast<float>(job_.cols));
      }
    quantize(kernels_, kernel_.act);
    return good;
  }

  [[nodiscard]] std::size_t matrix_bytes() const { return matrix_bytes_; }
  [[nodiscard]] double macs() const { return static_cast<double>(job_.rows * job_.cols * tokens_); }
  [[nodiscard]] std::size_t rows() const { return job_.rows; }

 private:
  void quantize(const KernelSet& set, ActType act) {
    memory_ = SystemMemory(Activations::bytes(act, tokens_, job_.cols));
    acts_ = Activations::place(act, tokens_, job_.cols, memory_.data());
    if (act == ActType::F32) {
      acts_.f32 = x_.data();
      acts_.f32_stride = job_.cols;
    } else {
      set.quantize(x_.data(), job_.cols, acts_, 0, tokens_, 0, job_.cols);
    }
  }

  const KernelSet& kernels_;
  MatMulKernel kernel_;
  PackActivations packing_;
  std::size_t tokens_, matrix_bytes_ = 0, copies_ = 1, turn_ = 0;
  SystemMemory weights_, memory_, packed_, scratch_;
  Floats x_, out_;
  Activations acts_;
  MatMulJob job_{};
};

/// The machine's limits on one thread, whatever instruction set is timed against them.
const tools::Roofline& roofline() {
  static const tools::Roofline limit = tools::measure_roofline(*available_kernels().front(), 1);
  return limit;
}

void bench_product(benchmark::State& state, const KernelSet& kernels, DType type,
                   const Matrix& matrix, std::size_t tokens) {
  Product product(kernels, type, matrix, tokens);
  if (!product.check(type)) {
    state.SkipWithError("the result differs from the scalar kernel's");
    return;
  }
  for (auto _ : state) product.run(product.rows());
  const auto runs = static_cast<double>(state.iterations());
  const tools::Roofline& limit = roofline();
  using benchmark::Counter;
  if (tokens <= 8) {
    const double gbytes = 1e-9 * runs * static_cast<double>(product.matrix_bytes());
    state.counters["GB/s"] = Counter(gbytes, Counter::kIsRate);
    state.counters["of_read"] = Counter(gbytes / limit.read_gbytes, Counter::kIsRate);
  } else {
    const double gmacs = 1e-9 * runs * product.macs();
    state.counters["GMAC/s"] = Counter(gmacs, Counter::kIsRate);
    state.counters["of_peak"] = Counter(gmacs / limit.peak(dtype_info(type)), Counter::kIsRate);
  }
}

void register_all(const std::string& shape) {
  for (const KernelSet* set : available_kernels()) {
    for (std::uint32_t id = 0; id < 64; ++id) {
      const DTypeInfo* type = find_dtype(id);
      if (type == nullptr || type->dot == DotClass::None) continue;
      for (const Matrix& matrix : matrices(find_shape(shape))) {
        if (matrix.cols % type->block_values != 0) continue;
        for (const std::size_t tokens : {1, 2, 3, 4, 8, 512}) {
          if (set->isa == "scalar" && tokens > 4) continue;  // minutes per case
          const std::string name = std::string(type->name) + "/" + std::string(set->isa) + "/" +
                                   matrix.name + "/tokens:" + std::to_string(tokens);
          benchmark::RegisterBenchmark(name.c_str(),
                                       [=, dtype = type->id](benchmark::State& state) {
                                         bench_product(state, *set, dtype, matrix, tokens);
                                       });
        }
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  register_all(argc > 1 ? argv[1] : "1.1b");  // any name of bench/shapes.txt
  std::cerr << available_kernels().front()->isa << ": read " << roofline().read_gbytes
            << " GB/s, int8 " << roofline().int8_gmacs << " GMAC/s, float32 "
            << roofline().float_gmacs << " GMAC/s\n";
  benchmark::RunSpecifiedBenchmarks();
}
