#include "kernels/formats/dtype.h"

#include <algorithm>
#include <array>
#include <cassert>

#include "kernels/formats/formats.h"

namespace cria {
namespace {

// Products are exact (kernels/README.md), so only the offset can round. Types without an offset
// must not add zero: -0 would become +0. (With a float32 d they are rounded twice, in this order.)

template <DType type>
void dequantize_groups(const std::byte* row, float* out, std::size_t n) {
  constexpr int kValues = Format<type>::kGroupValues;
  DecodedGroup<kValues> w;
  for (std::size_t g = 0; g < n / kValues; ++g) {
    decode_group<type>(row, g, w);
    for (int i = 0; i < kValues; ++i) {
      float value = w.d * w.q[i];
      if constexpr (Format<type>::kTraits.has_min) value += w.m;
      *out++ = value;
    }
  }
}

template <DType type>
void dequantize256(const std::byte* row, float* out, std::size_t n) {
  Decoded256 w;
  for (std::size_t b = 0; b < n / 256; ++b) {
    decode_group<type>(row, b, w);
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
  if constexpr (kHeaderBytes<type> != 0) {
    return;
  } else if constexpr (requires { F::set_scales(block, d, m); }) {
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
  Decode16Fn decode16 = nullptr;
  Decode32Fn decode32 = nullptr;
  Decode256Fn decode256 = nullptr;
  void (*set_scales)(std::byte* block, float d, float m) = nullptr;
};

template <DType type>
constexpr Row make_row(std::string_view name) {
  using F = Format<type>;
  static_assert(IsFormat<F>);
  Row row{{name, type, F::kBlockValues, sizeof(typename F::Block), kHeaderBytes<type>, F::kClass,
           nullptr}};
  if constexpr (F::kClass == DotClass::Blocks16) {
    row.info.dequantize = dequantize_groups<type>;
    row.decode16 = decode_group<type>;
  } else if constexpr (F::kClass == DotClass::Blocks32) {
    row.info.dequantize = dequantize_groups<type>;
    row.decode32 = decode_group<type>;
  } else if constexpr (F::kClass == DotClass::Super256) {
    row.info.dequantize = dequantize256<type>;
    row.decode256 = decode_group<type>;
  } else {
    row.info.dequantize = F::dequantize;
  }
  if constexpr (requires { F::kPlain; }) {
    row.info.plain = F::kPlain;
    row.info.interleaved_rows = F::kRows;
    row.info.deinterleave = deinterleave<type>;
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
  const Row* row = find_row(
      [=](const DTypeInfo& info) { return std::ranges::equal(info.name, name, {}, upper, upper); });
  return row ? &row->info : nullptr;
}

const DTypeInfo& dtype_info(DType type) noexcept {
  const Row* row = find_row(type);
  assert(row);
  return row->info;
}

Decode16Fn scalar_decode16(DType type) noexcept {
  const Row* row = find_row(type);
  return row ? row->decode16 : nullptr;
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

void set_row_scale(DType type, std::byte* row, float d) noexcept {
  with_dtype(type, [&](auto t) {
    if constexpr (kHeaderBytes<t> != 0) {
      typename Format<t>::Header header;
      header.set(d);
      std::memcpy(row, &header, sizeof header);
    }
    return 0;
  });
}

}  // namespace cria
