// KernelSet::dequantize of every instruction set gives the values of DTypeInfo::dequantize.
#include "kernels/kernels.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "tests/kernels/kernel_test.h"

namespace cria {
namespace {

// Rows of any bytes: less than the eight blocks that are decoded together, more, and not aligned.
TEST(Dequantize, GivesTheValuesThatDefineATypeBitForBit) {
  std::mt19937 random(5);
  for (const DType type : types_where(is_integer)) {
    const DTypeInfo& info = dtype_info(type);
    for (const std::size_t n_blocks : {1, 8, 19}) {
      const std::size_t n = n_blocks * info.block_values;
      std::vector<std::byte> bytes(info.row_bytes(n) + 1);
      for (std::byte& b : bytes) b = static_cast<std::byte>(random() & 255);
      std::byte* const row = bytes.data() + 1;
      for (std::size_t b = 0; b < n_blocks; ++b)
        set_block_scales(type, row + info.header_bytes + b * info.block_bytes,
                         0.01F * static_cast<float>(b + 1), 0.3F);
      set_row_scale(type, row, 0.07F);
      std::vector<float> expected(n), got(n + 1, -1.0F);
      info.dequantize(row, expected.data(), n);
      for (const KernelSet* set : tested_kernels()) {
        set->dequantize(type)(row, got.data(), n);
        EXPECT_EQ(std::memcmp(got.data(), expected.data(), n * sizeof(float)), 0)
            << set->isa << ", " << info.name << ", " << n_blocks << " blocks";
        EXPECT_EQ(got[n], -1.0F) << info.name;
        std::fill_n(got.begin(), n, -1.0F);
      }
    }
  }
}

}  // namespace
}  // namespace cria
