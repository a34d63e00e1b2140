// Activation quantization: every instruction set against the scalar
// one, the scalar one against its definition.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "tests/kernels/kernel_test.h"

namespace cria {
namespace {

struct Quantized {
  Buffer<std::int8_t> q;
  Buffer<float> d;
  Buffer<std::int16_t> sum;
};

/// In ranges of `step` columns.
Quantized run(const KernelSet& kernels, ActType type, const Buffer<float>& x, std::size_t tokens,
              std::size_t cols, std::size_t step) {
  Activations acts;
  acts.type = type;
  acts.n_tokens = tokens;
  acts.cols = cols;
  Quantized out{Buffer<std::int8_t>(tokens * acts.q_stride()),
                Buffer<float>(tokens * acts.d_stride()),
                Buffer<std::int16_t>(tokens * acts.sum_stride())};
  acts.q = out.q.data();
  acts.d = out.d.data();
  acts.sum = out.sum.data();
  for (std::size_t begin = 0; begin < cols; begin += step) {
    kernels.quantize(x.data(), cols, acts, 0, tokens / 2, begin, std::min(cols, begin + step));
    kernels.quantize(x.data(), cols, acts, tokens / 2, tokens, begin, std::min(cols, begin + step));
  }
  return out;
}
Quantized run(const KernelSet& kernels, ActType type, const Buffer<float>& x, std::size_t tokens,
              std::size_t cols) {
  return run(kernels, type, x, tokens, cols, cols);
}

Buffer<float> awkward_values(std::size_t n) {
  Buffer<float> x(n, 3);
  fill_random(x.data(), n, 21, 10);
  for (std::size_t i = 0; i < 256; ++i) x[i] = 0;          // a block of zeros
  for (std::size_t i = 256; i < 512; ++i) x[i] *= 1e-42F;  // subnormals
  for (std::size_t i = 512; i < 768; ++i)
    x[i] = static_cast<float>(i % 255) - 127.0F + 0.5F;    // ties
  for (std::size_t i = 768; i < 1024; ++i) x[i] *= 1e36F;  // 127/amax is subnormal
  x[1030] = std::numeric_limits<float>::quiet_NaN();
  x[1300] = std::numeric_limits<float>::infinity();
  return x;
}

void expect_equal(const Quantized& got, const Quantized& expected, std::string_view isa) {
  EXPECT_TRUE(got.q == expected.q) << isa;
  EXPECT_TRUE(got.sum == expected.sum) << isa;
  for (std::size_t i = 0; i < got.d.size(); ++i)  // the sign of a NaN is the machine's
    EXPECT_TRUE(got.d[i] == expected.d[i] || (std::isnan(got.d[i]) && std::isnan(expected.d[i])))
        << isa << ' ' << i;
}

TEST(Quantize, SameBitsOnEveryIsa) {
  const std::size_t tokens = 5, cols = 512;
  const Buffer<float> x = awkward_values(tokens * cols);
  for (const ActType type : {ActType::Q8x16, ActType::Q8x32, ActType::Q8x256}) {
    const Quantized expected = run(scalar_kernels(), type, x, tokens, cols);
    for (const KernelSet* set : available_kernels())
      expect_equal(run(*set, type, x, tokens, cols), expected, set->isa);
  }
}

TEST(Quantize, SameBitsInAnyRangesOfColumns) {
  const std::size_t tokens = 13, cols = 1792;
  const Buffer<float> x = awkward_values(tokens * cols);
  for (const ActType type : {ActType::Q8x16, ActType::Q8x32, ActType::Q8x256}) {
    const Quantized expected = run(scalar_kernels(), type, x, tokens, cols);
    for (const KernelSet* set : available_kernels())
      for (const std::size_t step : {256, 768, 1024})
        expect_equal(run(*set, type, x, tokens, cols, step), expected, set->isa);
  }
}

/// The blocks of one row as the rows of several tokens.
Quantized in_rows(const Quantized& row, ActType type, std::size_t tokens, std::size_t cols) {
  Activations form;
  form.type = type;
  form.cols = cols;
  Quantized out{Buffer<std::int8_t>(tokens * form.q_stride()), row.d, row.sum};
  for (std::size_t t = 0; t < tokens; ++t)
    std::memcpy(&out.q[t * form.q_stride()], &row.q[t * cols], cols);
  return out;
}

TEST(Quantize, SameBitsOfAFewBlocksAtOnce) {
  const Buffer<float> x = awkward_values(2080);
  for (const ActType type : {ActType::Q8x16, ActType::Q8x32}) {
    const std::size_t block = type == ActType::Q8x16 ? 16 : 32;
    for (const std::size_t cols : {32, 96, 160}) {  // 1 to 10 blocks
      const std::size_t tokens = x.size() / cols;
      const Quantized row = run(scalar_kernels(), type, x, 1, tokens * cols);
      const Quantized expected = in_rows(row, type, tokens, cols);
      for (const KernelSet* set : available_kernels())
        for (const std::size_t step : {block, cols})
          expect_equal(run(*set, type, x, tokens, cols, step), expected, set->isa);
    }
  }
}

/// The bfloat16 of three tokens of n values, and what lies between the rows.
Buffer<std::byte> as_bf16(const KernelSet& kernels, const Buffer<float>& x, std::size_t n) {
  constexpr std::size_t kTokens = 3;
  Buffer<std::byte> memory(Activations::bytes(ActType::BF16, kTokens, n));
  std::fill(memory.begin(), memory.end(), std::byte{0xAA});
  Activations acts = Activations::place(ActType::BF16, kTokens, n, memory.data());
  kernels.quantize(x.data(), x.size() / kTokens, acts, 0, 1, 0, n);
  kernels.quantize(x.data(), x.size() / kTokens, acts, 1, kTokens, 0, n);
  return memory;
}

TEST(Quantize, RoundsToTheNearestBfloat16) {
  for (std::size_t n = 1; n <= 50; ++n) {
    const std::size_t stride = n + 3;
    Buffer<float> x(3 * stride, 1);
    fill_random(x.data(), x.size(), 22, 10);
    const Buffer<std::byte> expected = as_bf16(scalar_kernels(), x, n);
    const std::size_t row = expected.size() / 3;
    for (std::size_t t = 0; t < 3; ++t) {
      for (std::size_t i = 0; i < row / 2; ++i) {
        std::uint16_t bits;
        std::memcpy(&bits, &expected[t * row + 2 * i], sizeof bits);
        if (i >= n) {
          EXPECT_EQ(bits, i < n + n % 2 ? 0 : 0xAAAA);
          continue;
        }
        // Eight bits of it are kept, so half a step is at most 2^-8 of it.
        const float value = std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16),
                    from = x[t * stride + i];
        EXPECT_NEAR(value, from, std::abs(from) * 0x1p-8F);
      }
    }
    for (const KernelSet* set : available_kernels())
      EXPECT_TRUE(as_bf16(*set, x, n) == expected) << set->isa << ' ' << n;
  }
}

/// Squared error of a block quantized in steps of amax/steps.
double squared_error(const float* values, std::size_t n, float amax, float steps) {
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const float q = std::nearbyint(values[i] * (amax > 0 ? steps / amax : 0.0F));
    sum += std::pow(static_cast<double>(values[i]) - static_cast<double>(q) * (amax / steps), 2);
  }
  return sum;
}

TEST(Quantize, TakesTheBestStep) {
  const Buffer<float> x = awkward_values(2656);
  for (const ActType type : {ActType::Q8x16, ActType::Q8x32, ActType::Q8x256}) {
    Activations form;
    form.type = type;
    const std::size_t block = form.values_per_d(), sub = form.values_per_sum();
    const std::size_t n =
        x.size() / block * block;  // the last blocks are fewer than four, or than sixteen
    const Quantized got = run(scalar_kernels(), type, x, 1, n);
    for (std::size_t b = 0; b < n / block; ++b) {
      const float* values = x.data() + b * block;
      const bool finite =
          std::all_of(values, values + block, [](float v) { return std::isfinite(v); });
      float amax = 0;
      for (std::size_t i = 0; i < block; ++i) amax = std::max(amax, std::abs(values[i]));
      if (std::isinf(127.0F / amax)) amax = 0;
      float steps = 127;
      for (const float tried : {126.5F, 126.0F})
        if (got.d[b] == amax / tried && amax > 0) steps = tried;
      if (!finite) {
        EXPECT_TRUE(std::isnan(got.d[b]));
      } else {
        EXPECT_EQ(got.d[b], amax / steps);
      }
      const float scale = finite && amax > 0 ? steps / amax : 0.0F;
      for (std::size_t i = 0; i < block; ++i)
        EXPECT_EQ(got.q[b * block + i], finite ? std::nearbyint(values[i] * scale) : 0)
            << b << ' ' << i;
      const double error = squared_error(values, block, amax, steps);
      if (!finite || amax > 1e18F) continue;  // squares that overflow in float32 leave 127
      for (const float tried :
           {127.0F, 126.5F, 126.0F})  // 1e-4: far above the float32 sum's own rounding
        EXPECT_LE(error, squared_error(values, block, amax, tried) * (1 + 1e-4))
            << b << ' ' << tried;
    }
    for (std::size_t s = 0; s < n / sub; ++s) {
      int sum = 0;
      for (std::size_t i = 0; i < sub; ++i) sum += got.q[s * sub + i];
      EXPECT_EQ(got.sum[s], sum);
    }
  }
}

}  // namespace
}  // namespace cria
