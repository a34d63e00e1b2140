// The integer products of avxvnni, emulated on processors without AVX-VNNI, at a few shapes.
// (Processors with it run the tests of all sets.)
#include "kernels/isa/instruction_set.h"
#include "tests/kernels/isa/emulated_avxvnni.h"
#include "tests/kernels/matmul/int_product_test.h"

namespace cria {
namespace {

class AvxVnniEmulated : public IntProduct {
 protected:
  void SetUp() override { emulated_kernels() = &kernels_; }
  void TearDown() override { emulated_kernels() = nullptr; }

 private:
  const KernelSet kernels_ = kernels_of<AvxVnni>();
  const EmulatedAvxVnni emulation_;
};

TEST_P(AvxVnniEmulated, SmallBatches) {
  for (const std::size_t tokens : {1, 2, 4})
    expect_equal(GetParam(), {11, 3, tokens}, tokens % 2 == 0, tokens == 2, random_blocks(),
                 random_values());
}

TEST_P(AvxVnniEmulated, MoreTokens) {
  for (const std::size_t blocks : {1, 3, 9})
    expect_equal(GetParam(), {35, blocks, 13}, blocks == 1, blocks == 3, random_blocks(),
                 random_values());
}

TEST_P(AvxVnniEmulated, ManyTokens) {
  for (const std::size_t blocks : {1, 2})
    expect_equal(GetParam(), {18, blocks, 67}, blocks == 1, blocks == 2, random_blocks(),
                 random_values());
}

TEST_P(AvxVnniEmulated, ExtremeBytesAndActivations) {
  for (const std::size_t tokens : {1, 9, 65}) {
    for (const int byte : {0x00, 0x7F, 0x80, 0xFF, 0x55}) {
      expect_equal(GetParam(), {9, 2, tokens}, true, false, same_blocks(byte, 0x7BFF),
                   [](std::size_t) { return 127; });
      expect_equal(GetParam(), {9, 2, tokens}, true, false, same_blocks(byte, 0xFBFF),
                   [](std::size_t i) { return i % 2 ? 127 : -127; });
    }
  }
}

std::vector<DType> types_to_emulate() {
  return runs_here<Avx2>() ? types_where(is_integer)
                           : std::vector<DType>{};  // the rest of the set is AVX2
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(AvxVnniEmulated);
INSTANTIATE_TEST_SUITE_P(Types, AvxVnniEmulated, testing::ValuesIn(types_to_emulate()),
                         [](const auto& test) { return std::string(name(test.param)); });

}  // namespace
}  // namespace cria
