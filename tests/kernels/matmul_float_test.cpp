// Products with F32, F16 and BF16 weights: every instruction set, batch size and split of rows against the
// order of operations that kernels/README.md prescribes, bit for bit.
#include <bit>
#include <cmath>

#include "kernel_test.h"
#include "kernels/f16.h"

namespace cria {
namespace {

constexpr DType kFloatTypes[] = {DType::F32, DType::F16, DType::BF16};

std::size_t bytes_of(DType type) { return type == DType::F32 ? 4 : 2; }

/// Weights as bytes in the file's form, and the floats they stand for.
struct Weights {
  std::vector<std::byte> bytes;
  std::vector<float> values;
};
Weights random_weights(DType type, std::size_t n, std::uint32_t seed) {
  Weights w{std::vector<std::byte>(n * bytes_of(type)), std::vector<float>(n)};
  fill_random(w.values.data(), n, seed);
  for (std::size_t i = 0; i < n; ++i) {
    std::uint32_t bits = std::bit_cast<std::uint32_t>(w.values[i]);
    if (type == DType::F16) bits = f32_to_f16(w.values[i]);
    if (type == DType::BF16) bits >>= 16;
    std::memcpy(&w.bytes[i * bytes_of(type)], &bits, bytes_of(type));
    if (type == DType::F16) w.values[i] = f16_to_f32(static_cast<std::uint16_t>(bits));
    if (type == DType::BF16) w.values[i] = std::bit_cast<float>(bits << 16);
  }
  return w;
}

float dot_as_prescribed(const float* w, const float* x, std::size_t n) {
  float lane[16] = {};
  for (std::size_t i = 0; i < (n + 15) / 16 * 16; ++i)
    lane[i % 16] = std::fma(i < n ? w[i] : 0.0F, i < n ? x[i] : 0.0F, lane[i % 16]);
  for (std::size_t half : {8, 4, 2, 1})
    for (std::size_t i = 0; i < half; ++i) lane[i] += lane[i + half];
  return lane[0];
}

void expect_prescribed(DType type, std::size_t rows, std::size_t cols, std::size_t tokens, bool residual) {
  const Weights w = random_weights(type, rows * cols, 1);
  Buffer<float> x(tokens * (cols + 3), 1), base(tokens * rows);
  fill_random(x.data(), x.size(), 2);
  fill_random(base.data(), base.size(), 3);
  Buffer<float> expected(tokens * rows);
  for (std::size_t t = 0; t < tokens; ++t)
    for (std::size_t r = 0; r < rows; ++r) {
      const float dot = dot_as_prescribed(&w.values[r * cols], &x[t * (cols + 3)], cols);
      expected[t * rows + r] = residual ? base[t * rows + r] + dot : dot;
    }
  Activations acts;
  acts.type = ActType::F32;
  acts.n_tokens = tokens;
  acts.cols = cols;
  acts.f32 = x.data();
  acts.f32_stride = cols + 3;
  Buffer<std::byte> bytes(w.bytes.size(), 2);  // two bytes off any alignment that floats would like
  std::memcpy(bytes.data(), w.bytes.data(), w.bytes.size());
  Buffer<std::byte> scratch(matmul_scratch_bytes(cols));
  for (const KernelSet* set : available_kernels()) {
    Buffer<float> out = copy_at(base, 0);
    const MatMulKernel kernel = set->matmul(type);
    ASSERT_EQ(kernel.act, ActType::F32);
    const MatMulJob job{bytes.data(), cols * bytes_of(type),          rows, cols, &acts, out.data(),
                        rows,         residual ? out.data() : nullptr};
    const std::size_t split = rows / 3;
    kernel.run(job, split, rows, scratch.data());
    kernel.run(job, 0, split, scratch.data());
    EXPECT_TRUE(out == expected) << set->isa << ' ' << name(type) << ' ' << rows << 'x' << cols
                                 << " tokens=" << tokens;
  }
}

TEST(MatMulFloat, EveryLength) {
  for (const DType type : kFloatTypes) {
    for (std::size_t cols = 1; cols <= 50; ++cols) expect_prescribed(type, 9, cols, 1, false);
    for (const std::size_t cols : {511, 512, 513, 1024, 1040, 2049})
      for (const std::size_t tokens : {1, 9}) expect_prescribed(type, 7, cols, tokens, false);
  }
}

TEST(MatMulFloat, EveryBatchSize) {
  for (const DType type : kFloatTypes)
    for (std::size_t tokens = 1; tokens <= 26; ++tokens)
      expect_prescribed(type, 11, 48, tokens, tokens % 2 == 0);
}

TEST(MatMulFloat, MoreRowsThanAPanel) {
  for (const DType type : kFloatTypes) {
    expect_prescribed(type, 103, 67, 13, true);
    expect_prescribed(type, 103, 67, 2, true);
    expect_prescribed(type, 21, 9000, 11, false);  // panels of fewer rows
  }
}

}  // namespace
}  // namespace cria
