// Interleaved types to plain ones: the codes and scales of each row, packed as encoders pack them.
#include "kernels/formats/interleaved.h"

#include <vector>

#include "kernels/encode/pack.h"
#include "kernels/formats/formats.h"

namespace cria {
namespace {

// The place of a column in a block (see the header).
struct Place {
  int k, b, m, i;
  [[nodiscard]] int half() const { return m / 4; }
};

int nibble(const std::uint8_t (&q)[512], Place p) {
  const int byte = 64 * p.b + 16 * (2 * (p.m % 2) + p.half()) + 4 * p.k + p.i;
  return q[byte] >> (4 * (p.m / 2 % 2)) & 15;
}
int two_bits_of(const std::uint8_t (&q)[256], Place p, int shift) {
  return q[32 * p.b + 16 * p.half() + 4 * p.k + p.i] >> shift & 3;
}
template <class Block>
int top_bit(const Block& block, Place p) {
  return block.hi[16 * p.b + 4 * p.k + p.i] >> Block::bit_of(p.m) & 1;
}

template <class Block>
int code_of(const Block& block, Place p) {
  int code;
  if constexpr (sizeof(block.q) == 512)
    code = nibble(block.q, p);
  else
    code = two_bits_of(block.q, p, 2 * (p.m % 4));
  if constexpr (std::is_same_v<Block, BlockQ6_K_R4>)
    code |= two_bits_of(block.hi, p, 4 * (p.m % 2) + 2 * (p.m / 2 % 2)) << 4;
  else if constexpr (requires { block.hi; })
    code |= top_bit(block, p) << (sizeof(block.q) == 512 ? 4 : 2);
  return code;
}

std::uint8_t byte(int value) { return static_cast<std::uint8_t>(value); }

int nibble_of_scale(const std::uint8_t (&scales)[32], int z) {
  return scales[z % 32] >> (4 * (z / 32)) & 15;
}

// Scale and shift of the half at z, as encoders give them to pack().
struct HalfScale {
  int scale, shift = 0;
};
HalfScale half_scale(const BlockIQ2_K_R4& block, int z) {
  return {nibble_of_scale(block.scales, z)};
}
HalfScale half_scale(const BlockIQ3_K_R4& block, int z) {
  const int size = 2 * nibble_of_scale(block.scales, z) + 1;
  const bool negative = (block.signs[z % 8] >> (z / 8) & 1) != 0;
  return {(negative ? -size : size) - Format<DType::IQ3_K>::kTraits.scale_min};
}
template <class Block>
requires requires(Block block) { block.scales_hi; }
HalfScale half_scale(const Block& block, int z) {
  const int top = block.scales_hi[z % 16] >> (2 * (z / 16)) & 3;
  return {nibble_of_scale(block.scales, z) | top << 4};
}
HalfScale half_scale(const BlockQ6_K_R4& block, int z) {
  return {block.scales[z] - Format<DType::Q6_K>::kTraits.scale_min};
}

// Scale and shift, or minimum, of sub-block b of row k.
template <class Block>
HalfScale sub_block_scale(const Block& block, int b, int k) {
  const int y = 4 * b + k;
  if constexpr (requires { block.tops; }) {
    const int tops = block.tops[y % 16] >> (4 * (y / 16));
    return {(block.scales[y] & 15) | (tops & 3) << 4, block.scales[y] >> 4 | (tops >> 2 & 3) << 4};
  } else {
    return {block.scales[y] & 254, block.scales[y] & 1};
  }
}

template <class Block>
SuperCodes codes_of(const Block& block, int k) {
  SuperCodes codes;
  for (int c = 0; c < 256; ++c) codes.q[c] = byte(code_of(block, {k, c / 32, c % 32 / 4, c % 4}));
  const auto set = [&](int j, HalfScale s) {
    codes.scales[j] = byte(s.scale);
    codes.mins[j] = byte(s.shift);
  };
  for (int b = 0; b < 8; ++b) {
    if constexpr (requires { half_scale(block, 0); }) {
      for (int h = 0; h < 2; ++h) {
        HalfScale s = half_scale(block, 8 * b + 4 * h + k);
        if constexpr (requires { block.extra; }) s.shift = block.extra[k + 4 * h] >> b & 1;
        set(2 * b + h, s);
      }
    } else {
      set(b, sub_block_scale(block, b, k));
    }
  }
  return codes;
}

// Fills the block of row k from that of all rows, but for a d that is the row's.
template <class Block, class Together>
void put_in_order(const Together& together, int k, Block& block) {
  if constexpr (requires { block.d; }) block.d = together.d[k];
  if constexpr (requires { block.dmin; }) block.dmin = together.dmin[k];
  pack<ScalarIsa>(codes_of(together, k), block);
}
void put_in_order(const BlockQ8_0_R8& together, int k, BlockQ8_0& block) {
  block.d = together.d[k];
  for (int c = 0; c < 32; ++c)
    block.q[c] = together.q[128 * (c / 16) + 32 * (c / 4 % 4) + 4 * k + c % 4];
}
void put_in_order(const BlockIQ1_S_R4& together, int k, BlockIQ1_S& block) {
  for (int b = 0; b < 8; ++b) {
    const auto& sub = together.sub[b];
    for (int g = 0; g < 4; ++g) block.index[4 * b + g] = sub.index[4 * g + k];
    block.hi[b] = sub.hi[k];
  }
}
void put_in_order(const BlockIQ1_M_R4& together, int k, BlockIQ1_M_R1& block) {
  for (int b = 0; b < 8; ++b) {
    const auto& sub = together.sub[b];
    for (int g = 0; g < 4; ++g) block.index[4 * b + g] = sub.index[4 * g + k];
    for (int h = 0; h < 2; ++h) block.hi[2 * b + h] = sub.hi[4 * h + k];
    block.scales[b] = sub.scales[k];
  }
}
void put_in_order(const BlockIQ1_BN& together, int /*k*/, BlockIQ2_BN& block) {
  constexpr int kPowers[] = {81, 27, 9, 3, 1};
  for (int i = 0; i < 16; ++i) {
    int codes = 0;
    for (int r = 0; r < 4; ++r) {
      const int digits = together.digits[i < 15 ? 3 * r + i / 5 : 12];
      codes |= (digits * kPowers[i < 15 ? i % 5 : r] % 256 * 3 >> 8) << (2 * r);
    }
    block.q[i] = byte(codes);
  }
}

// The header of a row in place of that of type `Stored`.
template <class Stored, class Header>
void put_header(const std::byte* stored, std::byte* row) {
  if constexpr (sizeof(Stored) == sizeof(Header)) {
    std::memcpy(row, stored, sizeof(Header));
  } else {
    Header header;
    header.set(load_block<Stored>(stored).scale());
    std::memcpy(row, &header, sizeof header);
  }
}

}  // namespace

template <DType type>
void deinterleave(const std::byte* unit, std::size_t cols, std::byte* rows) {
  using F = Format<type>;
  using Plain = Format<F::kPlain>;
  constexpr std::size_t kHeader = kHeaderBytes<type>, kPlainHeader = kHeaderBytes<F::kPlain>;
  const std::size_t row_bytes = dtype_info(F::kPlain).row_bytes(cols);
  if constexpr (kPlainHeader != 0)
    for (std::size_t k = 0; k < F::kRows; ++k)
      put_header<typename F::Header, typename Plain::Header>(unit + k * kHeader,
                                                             rows + k * row_bytes);
  for (std::size_t b = 0; b < cols / F::kBlockValues; ++b) {
    const auto together = load_block<typename F::Together>(unit + F::kRows * kHeader +
                                                           b * sizeof(typename F::Together));
    for (std::size_t k = 0; k < F::kRows; ++k) {
      typename Plain::Block block;
      put_in_order(together, static_cast<int>(k), block);
      if constexpr (kHeader != 0 && kPlainHeader == 0)
        block.d = load_block<typename F::Header>(unit + k * kHeader).d;
      std::memcpy(rows + k * row_bytes + kPlainHeader + b * sizeof block, &block, sizeof block);
    }
  }
}

template <DType type>
void dequantize_unit(const std::byte* unit, float* out, std::size_t n) {
  using F = Format<type>;
  const DTypeInfo& plain = dtype_info(F::kPlain);
  const std::size_t cols = n / F::kRows;
  std::vector<std::byte> rows(F::kRows * plain.row_bytes(cols));
  deinterleave<type>(unit, cols, rows.data());
  plain.dequantize_rows(rows.data(), out, F::kRows, cols);
}

#define CRIA_INSTANTIATE(name, plain, rows)                                                        \
  template void deinterleave<DType::name>(const std::byte* unit, std::size_t cols, std::byte* to); \
  template void dequantize_unit<DType::name>(const std::byte* unit, float* out, std::size_t n);
CRIA_INTERLEAVED_TYPES(CRIA_INSTANTIATE)
#undef CRIA_INSTANTIATE

}  // namespace cria
