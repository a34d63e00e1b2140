// Products with F32, F16 and BF16 weights: every instruction set, batch size and split of rows
// against the order of operations that kernels/README.md prescribes, bit for bit.
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/isa/instruction_set.h"
#include "kernels/matmul/float_blocks.h"
#include "kernels/simd/float_mode.h"
#include "kernels/simd/round.h"
#include "tests/kernels/kernel_test.h"

namespace cria {
namespace {

/// Min tokens for rows in lanes on every instruction set that has them
/// (kernels/matmul/float_tiles.h); for F16 and BF16 with a large L1.
constexpr std::size_t kTiledTokens = 128;

constexpr DType kFloatTypes[] = {DType::F32, DType::F16, DType::BF16};

std::size_t bytes_of(DType type) { return type == DType::F32 ? 4 : 2; }

/// Weights as bytes in the file's form, and the floats they stand for.
struct Weights {
  std::vector<std::byte> bytes;
  std::vector<float> values;
};

/// Distribution of the operands of a product.
struct Numbers {
  float deviation = 1, residual = 1;  ///< weights and activations; residual
  bool wild = false;                  ///< some infinite, NaN, or the largest

  void fill(float* p, std::size_t n, std::uint32_t seed) const {
    constexpr float kInfinity = std::numeric_limits<float>::infinity(), kMost = 3.3e38F;
    constexpr float kWild[] = {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN(),
                               kMost, -kMost};
    fill_random(p, n, seed, deviation);
    std::mt19937 random(seed);
    for (std::size_t i = 0; wild && i < n; ++i)
      if (random() % 300 == 0) p[i] = kWild[random() % std::size(kWild)];
  }
};

Weights random_weights(DType type, std::size_t n, std::uint32_t seed, const Numbers& numbers) {
  Weights w{std::vector<std::byte>(n * bytes_of(type)), std::vector<float>(n)};
  numbers.fill(w.values.data(), n, seed);
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

/// The lanes of one dot product and their tree; pairs: two columns to a lane, the second first.
float walk(const float* w, const float* x, std::size_t n, bool pairs) {
  float lane[16] = {};
  const std::size_t step = pairs ? 32 : 16;
  for (std::size_t k = 0; k < (n + step - 1) / step * step; ++k) {
    const std::size_t i = pairs ? k ^ 1 : k, l = pairs ? k / 2 % 16 : k % 16;
    lane[l] = std::fma(i < n ? w[i] : 0.0F, i < n ? x[i] : 0.0F, lane[l]);
  }
  for (std::size_t half : {8, 4, 2, 1})
    for (std::size_t i = 0; i < half; ++i) lane[i] += lane[i + half];
  return lane[0];
}

/// residual: may be null.
float as_prescribed(DType type, const float* w, const float* x, std::size_t n,
                    const float* residual) {
  const auto result = [&](bool pairs) {
    const float dot = walk(w, x, n, pairs), sum = residual == nullptr ? dot : *residual + dot;
    return std::isnan(sum) ? std::numeric_limits<float>::quiet_NaN()
                           : sum;  // NaN's bits are the machine's
  };
  if (type != DType::BF16) return result(false);
  const SubnormalsAsZero mode;
  return result(true);
}

/// The activations of a product and the floats that it multiplies.
struct Inputs {
  Buffer<float> x;
  Buffer<std::byte> rounded;
  Activations acts;
  std::size_t stride;

  Inputs(DType type, std::size_t tokens, std::size_t cols, const Numbers& numbers)
      : x(tokens * (cols + 3), 1),
        rounded(Activations::bytes(ActType::BF16, tokens, cols)),
        stride(cols + 3) {
    numbers.fill(x.data(), x.size(), 2);
    if (type == DType::BF16) {
      acts = Activations::place(ActType::BF16, tokens, cols, rounded.data());
      available_kernels().back()->quantize(x.data(), stride, acts, 0, tokens, 0, acts.cols);
      for (std::size_t t = 0; t < tokens; ++t)
        for (std::size_t i = 0; i < cols; ++i) x[t * stride + i] = rounded_at(t, i);
    } else {
      acts.type = ActType::F32;
      acts.n_tokens = tokens;
      acts.cols = cols;
      acts.f32 = x.data();
      acts.f32_stride = stride;
    }
  }
  [[nodiscard]] float rounded_at(std::size_t t, std::size_t i) const {
    std::uint16_t bits;
    std::memcpy(&bits, acts.q + t * acts.q_stride() + 2 * i, sizeof bits);
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
};

/// All supported sets, and AVX-512 without the dot product of bfloat16 pairs.
std::vector<KernelSet> float_sets() {
  std::vector<KernelSet> sets;
  for (const KernelSet* set : available_kernels()) sets.push_back(*set);
#if defined(CRIA_HAS_AVX512)
  if (runs_here<Avx512>()) sets.push_back(kernels_of<Avx512>());
#endif
  return sets;
}

constexpr std::size_t kMaxStreamed = 25;  ///< tokens that look at MatMulJob::prefetch, and one more

/// Rows lie `gap` bytes apart.
void expect_prescribed(DType type, std::size_t rows, std::size_t cols, std::size_t tokens,
                       bool residual, const Numbers& numbers = {}, std::size_t gap = 0) {
  const Weights w = random_weights(type, rows * cols, 1, numbers);
  const Inputs in(type, tokens, cols, numbers);
  Buffer<float> base((tokens + 1) * rows);  // one more token, which must stay unchanged
  fill_random(base.data(), base.size(), 3, numbers.residual);
  Buffer<float> expected = copy_at(base, 0);
  for (std::size_t t = 0; t < tokens; ++t)
    for (std::size_t r = 0; r < rows; ++r)
      expected[t * rows + r] = as_prescribed(type, &w.values[r * cols], &in.x[t * in.stride], cols,
                                             residual ? &base[t * rows + r] : nullptr);
  const std::size_t own_bytes = cols * bytes_of(type), row_bytes = own_bytes + gap;
  Buffer<std::byte> bytes(rows * row_bytes - gap,
                          2);  // two bytes off any alignment that floats would like
  std::fill(bytes.begin(), bytes.end(), std::byte{0xFF});  // NaN between the rows
  for (std::size_t r = 0; r < rows; ++r)
    std::memcpy(bytes.data() + r * row_bytes, w.bytes.data() + r * own_bytes, own_bytes);
  Buffer<std::byte>& scratch = kept_buffer(matmul_scratch_bytes(cols));
  for (const KernelSet& set : float_sets()) {
    const MatMulKernel kernel = set.matmul(type);
    ASSERT_EQ(kernel.act, in.acts.type);
    const auto run = [&](const std::byte* packed, PrefetchMode prefetch = PrefetchMode::InOrder) {
      Buffer<float> out = copy_at(base, 0);
      MatMulJob job{bytes.data(), row_bytes,  rows, cols,
                    &in.acts,     out.data(), rows, residual ? out.data() : nullptr};
      job.packed = packed;
      job.prefetch = prefetch;
      if (residual) job.next_weights = bytes.data();
      const std::size_t split = rows / 3;
      kernel.run(job, split, rows, scratch.data());
      kernel.run(job, 0, split, scratch.data());
      for (float& result : out)
        if (std::isnan(result)) result = std::numeric_limits<float>::quiet_NaN();
      EXPECT_TRUE(out == expected) << set.isa << ' ' << name(type) << ' ' << rows << 'x' << cols
                                   << " tokens=" << tokens << (packed == nullptr ? "" : ", packed")
                                   << ", prefetch mode " << static_cast<int>(prefetch);
    };
    run(nullptr);
    if (tokens <= kMaxStreamed)
      for (const PrefetchMode other : set.prefetch_modes) run(nullptr, other);
    const PackActivations packing = kernel.packing(tokens);
    if (packing.run == nullptr) continue;
    Buffer<std::byte> packed(packing.bytes(tokens, cols));
    packing.run(in.acts, tokens / 3, tokens, packed.data());
    packing.run(in.acts, 0, tokens / 3, packed.data());
    run(packed.data());
  }
}

/// Enough tokens for tiles of F16 and BF16 on every processor.
TEST(MatMulFloat, MoreTokensThanMeetTheFileAnywhere) {
  for (const DType type : kFloatTypes) {
    expect_prescribed(type, 37, 48, kMaxDirectSmall + 2, true);
    expect_prescribed(type, 33, 2066, kMaxDirectSmall + 1, false);
  }
}

TEST(MatMulFloat, EveryLength) {
  for (const DType type : kFloatTypes) {
    for (std::size_t cols = 1; cols <= 50; ++cols)
      for (const std::size_t tokens : {std::size_t{1}, std::size_t{9}, kTiledTokens + 1})
        expect_prescribed(type, 9, cols, tokens, false);
    for (const std::size_t cols : {511, 512, 513, 1024, 1040, 2049})
      for (const std::size_t tokens : {std::size_t{1}, std::size_t{9}, kTiledTokens})
        expect_prescribed(type, 7, cols, tokens, false);
  }
}

TEST(MatMulFloat, NumbersNearTheSmallest) {
  for (const DType type : {DType::F32, DType::BF16})
    for (const float deviation : {1e-19F, 1e-20F, 1e-38F, 1e-39F})
      for (const std::size_t tokens : {std::size_t{1}, std::size_t{9}, kTiledTokens + 2})
        for (const std::size_t cols : {320, 33})
          for (const bool residual : {false, true})
            expect_prescribed(type, 8, cols, tokens, residual, {deviation, 1e-38F});
}

TEST(MatMulFloat, SubnormalHalves) {
  for (const float deviation : {3e-5F, 1e-6F, 1e-7F})
    for (const std::size_t tokens : {std::size_t{1}, std::size_t{9}, kTiledTokens + 2})
      expect_prescribed(DType::F16, 8, 320, tokens, tokens == 9, {deviation, 1e-10F});
}

/// Infinite and no numbers, and products that are infinite unless they are added before they are
/// rounded.
TEST(MatMulFloat, NumbersNearTheLargest) {
  for (const DType type : kFloatTypes)
    for (const float deviation : {1.0F, 100.0F, 1.5e19F})
      for (const std::size_t tokens :
           {std::size_t{1}, std::size_t{5}, std::size_t{30}, kTiledTokens + 2})
        for (const std::size_t cols : {64, 33, 18})
          expect_prescribed(type, 23, cols, tokens, tokens == 5, {deviation, 1, true});
}

TEST(MatMulFloat, RoundsToBfloat16) {
  // Ties go to even; a NaN stays one; an odd number of values is followed by a zero.
  const float x[] = {1.0F, 1.00390625F, 1.01171875F, 3.3895e38F, std::nanf(""), -1e-40F, 0.3F};
  const std::uint16_t expected[] = {0x3F80, 0x3F80, 0x3F82, 0x7F7F, 0x7FC0, 0x8001, 0x3E9A, 0};
  for (const KernelSet* set : available_kernels()) {
    Buffer<std::byte> memory(Activations::bytes(ActType::BF16, 1, std::size(x)));
    Activations acts = Activations::place(ActType::BF16, 1, std::size(x), memory.data());
    std::memset(memory.data(), 0xAA, memory.size());
    set->quantize(x, std::size(x), acts, 0, 1, 0, acts.cols);
    EXPECT_EQ(std::memcmp(acts.q, expected, sizeof expected), 0) << set->isa;
  }
}

TEST(MatMulFloat, EveryBatchSize) {
  for (const DType type : kFloatTypes)
    for (std::size_t tokens = 1; tokens <= 36; ++tokens) {
      expect_prescribed(type, 11, 48, tokens, tokens % 2 == 0);
      expect_prescribed(type, 37, 48, kTiledTokens - 3 + tokens,
                        tokens % 2 == 0);  // waves that are full, and not
    }
}

TEST(MatMulFloat, LongRowsInPieces) {
  for (const DType type : kFloatTypes)
    for (const std::size_t cols : {1025, 2100, 4610})
      for (const std::size_t tokens : {7, 34, 48, 127, 130})
        expect_prescribed(type, 31, cols, tokens, cols == 2100);
}

TEST(MatMulFloat, MoreRowsThanAWaveOfTokensMeets) {
  for (const DType type : kFloatTypes) expect_prescribed(type, 290, 5640, 48, false);
}

TEST(MatMulFloat, MoreRowsThanAPanel) {
  for (const DType type : kFloatTypes) {
    expect_prescribed(type, 103, 67, 13, true);
    expect_prescribed(type, 103, 67, 2, true);
    expect_prescribed(type, 21, 9000, 11, false);  // panels of fewer rows
    expect_prescribed(type, 27, 40000, kTiledTokens + 1, false);
  }
}

TEST(MatMulFloat, RowsWithGaps) {
  for (const DType type : kFloatTypes)
    for (const std::size_t tokens : {1, 2, 5, 13, 26, 48, 70, 130})
      expect_prescribed(type, 67, 50, tokens, tokens % 2 == 0, {}, 6);
}

TEST(MatMulFloat, NoTokens) {
  for (const DType type : kFloatTypes) expect_prescribed(type, 19, 50, 0, true);
}

}  // namespace
}  // namespace cria
