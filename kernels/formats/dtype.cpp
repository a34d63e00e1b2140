#include "kernels/formats/dtype.h"

#include <algorithm>
#include <array>
#include <cassert>

#include "kernels/formats/formats.h"

namespace cria {
namespace {

template <DType type>
void decode(const std::byte* block, Decoded32& out) {
  Format<type>::decode(load_block<typename Format<type>::Block>(block), out);
}
template <DType type>
void decode(const std::byte* block, Decoded256& out) {
  Format<type>::decode(load_block<typename Format<type>::Block>(block), out);
}

// Products are exact (kernels/README.md), so only the offset can round. It is left out, not added as zero,
// where a type has none: -0 would become +0.

template <DType type>
void dequantize32(const std::byte* blocks, float* out, std::size_t n) {
  Decoded32 w;
  for (std::size_t b = 0; b < n / 32; ++b) {
    decode<type>(blocks + b * sizeof(typename Format<type>::Block), w);
    for (int i = 0; i < 32; ++i) {
      float value = w.d * w.q[i];
      if constexpr (Format<type>::kTraits.has_min) value += w.m;
      *out++ = value;
    }
  }
}

template <DType type>
void dequantize256(const std::byte* blocks, float* out, std::size_t n) {
  Decoded256 w;
  for (std::size_t b = 0; b < n / 256; ++b) {
    decode<type>(blocks + b * sizeof(typename Format<type>::Block), w);
    for (int i = 0; i < 256; ++i) {
      const int j = i / 16;
      float value = w.d * w.scale[j] * w.q[i];
      if constexpr (Format<type>::kTraits.has_min) value -= w.dmin * w.min[j];
      *out++ = value;
    }
  }
}

template <DType type>
void set_scales(std::byte* bytes, float d, float m) {
  using F = Format<type>;
  auto block = load_block<typename F::Block>(bytes);
  if constexpr (requires { F::set_scales(block, d, m); }) {
    F::set_scales(block, d, m);
  } else {
    block.d = f32_to_f16(d);
    if constexpr (requires { block.m; }) block.m = f32_to_f16(m);
    if constexpr (requires { block.dmin; }) block.dmin = f32_to_f16(m);
  }
  std::memcpy(bytes, &block, sizeof block);
}

struct Row {
  DTypeInfo info;
  Decode32Fn decode32 = nullptr;
  Decode256Fn decode256 = nullptr;
  void (*set_scales)(std::byte* block, float d, float m) = nullptr;
};

template <DType type>
constexpr Row make_row(std::string_view name) {
  using F = Format<type>;
  Row row{{name, type, F::kBlockValues, sizeof(typename F::Block), F::kClass, nullptr}};
  if constexpr (F::kClass == DotClass::Blocks32) {
    row.info.dequantize = dequantize32<type>;
    row.decode32 = decode<type>;
  } else if constexpr (F::kClass == DotClass::Super256) {
    row.info.dequantize = dequantize256<type>;
    row.decode256 = decode<type>;
  } else {
    row.info.dequantize = F::dequantize;
  }
  if constexpr (is_integer(F::kClass)) row.set_scales = set_scales<type>;
  return row;
}

constexpr std::array kTable = {
#define CRIA_ROW(name, id) make_row<DType::name>(#name),
    CRIA_DTYPES(CRIA_ROW)
#undef CRIA_ROW
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

void set_block_scales(DType type, std::byte* block, float d, float m) noexcept {
  const Row* row = find_row(type);
  assert(row && row->set_scales);
  row->set_scales(block, d, m);
}

}  // namespace cria
