#include "kernels/dtype.h"

#include <algorithm>
#include <array>
#include <cassert>

#include "kernels/blocks.h"

namespace cria {
namespace {

using enum DotClass;

constexpr std::array kTable = {
    DTypeInfo{"F32", DType::F32, 1, 4, Float, nullptr},
    DTypeInfo{"F16", DType::F16, 1, 2, Float, nullptr},
    DTypeInfo{"Q4_0", DType::Q4_0, 32, sizeof(BlockQ4_0), Blocks32, nullptr},
    DTypeInfo{"Q4_1", DType::Q4_1, 32, sizeof(BlockQ4_1), Blocks32, nullptr},
    DTypeInfo{"Q5_0", DType::Q5_0, 32, sizeof(BlockQ5_0), Blocks32, nullptr},
    DTypeInfo{"Q5_1", DType::Q5_1, 32, sizeof(BlockQ5_1), Blocks32, nullptr},
    DTypeInfo{"Q8_0", DType::Q8_0, 32, sizeof(BlockQ8_0), Blocks32, nullptr},
    DTypeInfo{"Q8_1", DType::Q8_1, 32, sizeof(BlockQ8_1), None, nullptr},
    DTypeInfo{"Q2_K", DType::Q2_K, 256, sizeof(BlockQ2_K), Super256, nullptr},
    DTypeInfo{"Q3_K", DType::Q3_K, 256, sizeof(BlockQ3_K), Super256, nullptr},
    DTypeInfo{"Q4_K", DType::Q4_K, 256, sizeof(BlockQ4_K), Super256, nullptr},
    DTypeInfo{"Q5_K", DType::Q5_K, 256, sizeof(BlockQ5_K), Super256, nullptr},
    DTypeInfo{"Q6_K", DType::Q6_K, 256, sizeof(BlockQ6_K), Super256, nullptr},
    DTypeInfo{"Q8_K", DType::Q8_K, 256, sizeof(BlockQ8_K), None, nullptr},
    DTypeInfo{"IQ2_XXS", DType::IQ2_XXS, 256, sizeof(BlockIQ2_XXS), Super256, nullptr},
    DTypeInfo{"IQ2_XS", DType::IQ2_XS, 256, sizeof(BlockIQ2_XS), Super256, nullptr},
    DTypeInfo{"IQ3_XXS", DType::IQ3_XXS, 256, sizeof(BlockIQ3_XXS), Super256, nullptr},
    DTypeInfo{"IQ1_S", DType::IQ1_S, 256, sizeof(BlockIQ1_S), Super256, nullptr},
    DTypeInfo{"IQ4_NL", DType::IQ4_NL, 32, sizeof(BlockIQ4_NL), Blocks32, nullptr},
    DTypeInfo{"IQ3_S", DType::IQ3_S, 256, sizeof(BlockIQ3_S), Super256, nullptr},
    DTypeInfo{"IQ2_S", DType::IQ2_S, 256, sizeof(BlockIQ2_S), Super256, nullptr},
    DTypeInfo{"IQ4_XS", DType::IQ4_XS, 256, sizeof(BlockIQ4_XS), Super256, nullptr},
    DTypeInfo{"I8", DType::I8, 1, 1, None, nullptr},
    DTypeInfo{"I16", DType::I16, 1, 2, None, nullptr},
    DTypeInfo{"I32", DType::I32, 1, 4, None, nullptr},
    DTypeInfo{"I64", DType::I64, 1, 8, None, nullptr},
    DTypeInfo{"F64", DType::F64, 1, 8, None, nullptr},
    DTypeInfo{"IQ1_M", DType::IQ1_M, 256, sizeof(BlockIQ1_M), Super256, nullptr},
    DTypeInfo{"BF16", DType::BF16, 1, 2, Float, nullptr},
    DTypeInfo{"TQ1_0", DType::TQ1_0, 256, sizeof(BlockTQ1_0), Super256, nullptr},
    DTypeInfo{"TQ2_0", DType::TQ2_0, 256, sizeof(BlockTQ2_0), Super256, nullptr},
};

constexpr char upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

}  // namespace

const DTypeInfo* find_dtype(std::uint32_t gguf_id) noexcept {
  const auto* row = std::ranges::find(kTable, static_cast<DType>(gguf_id), &DTypeInfo::id);
  return row == kTable.end() ? nullptr : row;
}

const DTypeInfo* find_dtype(std::string_view name) noexcept {
  const auto* row = std::ranges::find_if(
      kTable, [&](const DTypeInfo& info) { return std::ranges::equal(info.name, name, {}, upper, upper); });
  return row == kTable.end() ? nullptr : row;
}

const DTypeInfo& dtype_info(DType type) noexcept {
  const DTypeInfo* row = find_dtype(static_cast<std::uint32_t>(type));
  assert(row);
  return *row;
}

}  // namespace cria
