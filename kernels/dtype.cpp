#include "kernels/dtype.h"

#include <algorithm>
#include <array>
#include <cassert>

#include "kernels/blocks.h"
#include "kernels/dequantize.h"
#include "kernels/f16.h"

namespace cria {
namespace {

struct Row {
  DTypeInfo info;
  Decode32Fn decode32 = nullptr;
  Decode256Fn decode256 = nullptr;
};

template <class Stored, float (*to_float)(Stored)>
constexpr Row plain(std::string_view name, DType type, DotClass dot) {
  return {{name, type, 1, sizeof(Stored), dot, convert<Stored, to_float>}};
}

template <class Block>
constexpr Row int8_blocks(std::string_view name, DType type) {
  return {{name, type, sizeof(Block::q), sizeof(Block), DotClass::None, dequantize_int8<Block>}};
}

template <DType type, class Block, Decode32Fn decode>
constexpr Row blocks32(std::string_view name) {
  return {{name, type, 32, sizeof(Block), DotClass::Blocks32, dequantize32<type, Block, decode>},
          decode,
          nullptr};
}

template <DType type, class Block, Decode256Fn decode>
constexpr Row super256(std::string_view name) {
  return {{name, type, 256, sizeof(Block), DotClass::Super256, dequantize256<type, Block, decode>},
          nullptr,
          decode};
}

constexpr std::array kTable = {
    plain<float, number_to_float<float>>("F32", DType::F32, DotClass::Float),
    plain<F16Bits, f16_by_scaling>("F16", DType::F16, DotClass::Float),
    blocks32<DType::Q4_0, BlockQ4_0, decode_q4_0>("Q4_0"),
    blocks32<DType::Q4_1, BlockQ4_1, decode_q4_1>("Q4_1"),
    blocks32<DType::Q5_0, BlockQ5_0, decode_q5_0>("Q5_0"),
    blocks32<DType::Q5_1, BlockQ5_1, decode_q5_1>("Q5_1"),
    blocks32<DType::Q8_0, BlockQ8_0, decode_q8_0>("Q8_0"),
    int8_blocks<BlockQ8_1>("Q8_1", DType::Q8_1),
    super256<DType::Q2_K, BlockQ2_K, decode_q2_k>("Q2_K"),
    super256<DType::Q3_K, BlockQ3_K, decode_q3_k>("Q3_K"),
    super256<DType::Q4_K, BlockQ4_K, decode_q4_k>("Q4_K"),
    super256<DType::Q5_K, BlockQ5_K, decode_q5_k>("Q5_K"),
    super256<DType::Q6_K, BlockQ6_K, decode_q6_k>("Q6_K"),
    int8_blocks<BlockQ8_K>("Q8_K", DType::Q8_K),
    super256<DType::IQ2_XXS, BlockIQ2_XXS, decode_iq2_xxs>("IQ2_XXS"),
    super256<DType::IQ2_XS, BlockIQ2_XS, decode_iq2_xs>("IQ2_XS"),
    super256<DType::IQ3_XXS, BlockIQ3_XXS, decode_iq3_xxs>("IQ3_XXS"),
    super256<DType::IQ1_S, BlockIQ1_S, decode_iq1_s>("IQ1_S"),
    blocks32<DType::IQ4_NL, BlockIQ4_NL, decode_iq4_nl>("IQ4_NL"),
    super256<DType::IQ3_S, BlockIQ3_S, decode_iq3_s>("IQ3_S"),
    super256<DType::IQ2_S, BlockIQ2_S, decode_iq2_s>("IQ2_S"),
    super256<DType::IQ4_XS, BlockIQ4_XS, decode_iq4_xs>("IQ4_XS"),
    plain<std::int8_t, number_to_float<std::int8_t>>("I8", DType::I8, DotClass::None),
    plain<std::int16_t, number_to_float<std::int16_t>>("I16", DType::I16, DotClass::None),
    plain<std::int32_t, number_to_float<std::int32_t>>("I32", DType::I32, DotClass::None),
    plain<std::int64_t, number_to_float<std::int64_t>>("I64", DType::I64, DotClass::None),
    plain<double, number_to_float<double>>("F64", DType::F64, DotClass::None),
    super256<DType::IQ1_M, BlockIQ1_M, decode_iq1_m>("IQ1_M"),
    plain<std::uint16_t, bf16_to_f32>("BF16", DType::BF16, DotClass::FloatPairs),
    super256<DType::TQ1_0, BlockTQ1_0, decode_tq1_0>("TQ1_0"),
    super256<DType::TQ2_0, BlockTQ2_0, decode_tq2_0>("TQ2_0"),
};

constexpr char upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

template <class Predicate>
const Row* find_row(Predicate predicate) noexcept {
  const auto* row = std::ranges::find_if(kTable, predicate, &Row::info);
  return row == kTable.end() ? nullptr : row;
}

const Row* find_row(DType type) noexcept {
  return find_row([=](const DTypeInfo& info) { return info.id == type; });
}

}  // namespace

const DTypeInfo* find_dtype(std::uint32_t gguf_id) noexcept {
  const Row* row = find_row(static_cast<DType>(gguf_id));
  return row ? &row->info : nullptr;
}

const DTypeInfo* find_dtype(std::string_view name) noexcept {
  const Row* row =
      find_row([=](const DTypeInfo& info) { return std::ranges::equal(info.name, name, {}, upper, upper); });
  return row ? &row->info : nullptr;
}

const DTypeInfo& dtype_info(DType type) noexcept {
  const Row* row = find_row(type);
  assert(row);
  return row->info;
}

Decode32Fn scalar_decode32(DType type) noexcept {
  const Row* row = find_row(type);
  return row ? row->decode32 : nullptr;
}

Decode256Fn scalar_decode256(DType type) noexcept {
  const Row* row = find_row(type);
  return row ? row->decode256 : nullptr;
}

}  // namespace cria
