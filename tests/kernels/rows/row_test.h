// Helpers of the tests of row kernels: rows of all lengths, every instruction set compared with the
// scalar one.
#pragma once

#include "tests/kernels/kernel_test.h"

namespace cria {

inline constexpr double kHalfUlp = 0x1p-24;  ///< relative error of one float operation

inline std::vector<std::size_t> row_lengths() {
  std::vector<std::size_t> all;
  for (std::size_t n = 1; n <= 50; ++n) all.push_back(n);
  for (std::size_t n : {63, 64, 65, 255, 256, 257, 2048, 5632}) all.push_back(n);
  return all;
}

/// Runs a kernel in every set on copies of the same rows at several alignments; f(set, y, x)
/// changes y.
template <class F>
void expect_same_bits(F f) {
  for (const std::size_t n : row_lengths()) {
    Buffer<float> y(n), x(n);
    fill_random(y.data(), n, 1, 3);
    fill_random(x.data(), n, 2);
    Buffer<float> expected = copy_at(y, 0);
    f(scalar_kernels(), expected, x);
    for (const KernelSet* set : available_kernels()) {
      for (const std::size_t offset : {0, 1, 7}) {
        Buffer<float> got = copy_at(y, offset);
        f(*set, got, copy_at(x, offset));
        ASSERT_TRUE(got == expected) << set->isa << " n=" << n << " offset=" << offset;
      }
    }
  }
}

}  // namespace cria
