// Unpacking rows into codes and packing them again restores every block type.
#include "engine/calibrate/row_codes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "kernels/formats/format.h"

namespace cria {
namespace {

constexpr std::size_t kRowColumns = 768;

std::vector<DType> block_types() {
  std::vector<DType> types;
#define CRIA_ADD(name, id) \
  if (has_code_format(DType::name)) types.push_back(DType::name);
  CRIA_DTYPES(CRIA_ADD)
#undef CRIA_ADD
  return types;
}

// Random bytes with scales that are finite: blocks as no encoder would make them.
std::vector<std::byte> random_row(const DTypeInfo& info, std::mt19937& random) {
  std::vector<std::byte> row(info.row_bytes(kRowColumns));
  for (std::byte& byte : row) byte = static_cast<std::byte>(random());
  for (std::size_t at = info.header_bytes; at < row.size(); at += info.block_bytes)
    set_block_scales(info.id, &row[at], 0.25F, -0.5F);
  set_row_scale(info.id, row.data(), 0.25F);
  return row;
}

TEST(RowCodes, PackingRestoresTheWeightsOfEveryType) {
  std::mt19937 random(1);
  for (const DType type : block_types()) {
    const DTypeInfo& info = dtype_info(type);
    const CodeFormat& format = code_format(type);
    for (int n = 0; n < 50; ++n) {
      std::vector<std::byte> row = random_row(info, random);
      if (type == DType::TQ2_0)  // its fourth code is never written
        for (std::byte& byte : row) byte &= std::byte{0x55};
      RowCodes codes;
      unpack_row(format, row.data(), kRowColumns, codes);
      std::vector<std::byte> again(row.size());
      pack_row(format, codes, again.data());
      std::vector<float> before(kRowColumns), after(kRowColumns);
      info.dequantize(row.data(), before.data(), kRowColumns);
      info.dequantize(again.data(), after.data(), kRowColumns);
      EXPECT_EQ(before, after) << info.name;
    }
  }
}

TEST(RowCodes, CodesAndScalesMeanTheWeights) {
  std::mt19937 random(2);
  for (const DType type : block_types()) {
    const DTypeInfo& info = dtype_info(type);
    const CodeFormat& format = code_format(type);
    const std::vector<std::byte> row = random_row(info, random);
    RowCodes codes;
    unpack_row(format, row.data(), kRowColumns, codes);
    std::vector<float> weights(kRowColumns);
    info.dequantize(row.data(), weights.data(), kRowColumns);
    for (std::size_t j = 0; j < kRowColumns; ++j) {
      const float meant = codes.factor(format, j) * codes.q[j] - codes.subtracted(format, j);
      EXPECT_NEAR(meant, weights[j], 1e-5F * (1 + std::abs(weights[j]))) << info.name;
    }
  }
}

TEST(RowCodes, RefusesTypesWithoutBlocks) {
  EXPECT_THROW(code_format(DType::F16), std::logic_error);
  EXPECT_THROW(code_format(DType::I32), std::logic_error);
}

}  // namespace
}  // namespace cria
