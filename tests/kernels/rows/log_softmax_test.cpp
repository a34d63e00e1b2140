// Softmax in double: every instruction set against the scalar one
// bit for bit, that one against the C library.
#include <algorithm>
#include <cmath>

#include "tests/kernels/kernel_test.h"

namespace cria {
namespace {

std::vector<std::size_t> lengths() {
  std::vector<std::size_t> all;
  for (std::size_t n = 1; n <= 35; ++n) all.push_back(n);
  for (std::size_t n : {255, 256, 257, 4096, 32003}) all.push_back(n);
  return all;
}

long double exact_log_sum_exp(const Buffer<float>& x) {
  const long double top = *std::max_element(x.data(), x.data() + x.size());
  long double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += std::exp(x[i] - top);
  return top + std::log(sum);
}

TEST(LogSoftmax, SameBitsOnEveryIsaAndExactInDouble) {
  for (const std::size_t n : lengths()) {
    for (const float scale : {0.01F, 1.0F, 30.0F, 1e4F}) {
      Buffer<float> p(n), q(n);
      fill_random(p.data(), n, 1, scale);
      fill_random(q.data(), n, 2, scale);
      const double log_sum = scalar_kernels().log_sum_exp(p.data(), n);
      const double difference = scalar_kernels().mean_difference(p.data(), log_sum, q.data(), n);
      for (const KernelSet* set : available_kernels()) {
        for (const std::size_t offset : {0, 1, 7}) {
          const Buffer<float> p2 = copy_at(p, offset), q2 = copy_at(q, offset);
          ASSERT_EQ(set->log_sum_exp(p2.data(), n), log_sum) << set->isa << " n=" << n;
          ASSERT_EQ(set->mean_difference(p2.data(), log_sum, q2.data(), n), difference)
              << set->isa << " n=" << n;
        }
      }
      const long double exact = exact_log_sum_exp(p);
      // The sum of n terms takes n/8 + 3 steps, each term within 2 ulp. The logarithm turns that
      // into an absolute error. The last rounding is relative to the result.
      const double error = 0x1p-53 * (static_cast<double>(n) / 8 + 8 + 2 * std::abs(log_sum));
      EXPECT_NEAR(static_cast<double>(log_sum - exact), 0, error)
          << "n=" << n << " scale=" << scale;
      long double mean = 0, size = 0;
      for (std::size_t i = 0; i < n; ++i) {
        const long double term = std::exp(p[i] - exact) * (static_cast<long double>(p[i]) - q[i]);
        mean += term;
        size += std::abs(term);
      }
      // The error of log_sum and the rounding of p - log_sum are relative errors of the weights.
      const double weight_error = 0x1p-53 * (static_cast<double>(n) / 4 + 24 + 16.0 * scale);
      EXPECT_NEAR(static_cast<double>(difference - mean), 0,
                  weight_error * static_cast<double>(size))
          << "n=" << n << " scale=" << scale;
    }
  }
}

TEST(LogSoftmax, Extremes) {
  for (const KernelSet* set : available_kernels()) {
    const float one[] = {-123.25F};
    EXPECT_EQ(set->log_sum_exp(one, 1), -123.25) << set->isa;
    const float far[] = {1e38F, -1e38F, 0};
    EXPECT_EQ(set->log_sum_exp(far, 3), 1e38F) << set->isa;
    std::vector<float> same(1024, -7.5F);
    EXPECT_NEAR(set->log_sum_exp(same.data(), same.size()), -7.5 + std::log(1024.0), 1e-14)
        << set->isa;
    EXPECT_EQ(set->mean_difference(same.data(), 0, same.data(), same.size()), 0) << set->isa;
  }
}

}  // namespace
}  // namespace cria
