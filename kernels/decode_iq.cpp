// The IQ types: indices into codebooks with signs. Indices have as many bits as their codebook needs, so no
// byte is out of range.
#include "kernels/decode_super256.h"
#include "kernels/iq_tables.h"

namespace cria {
namespace {

// Value g of a codebook entry, negative where bit g of signs is set.
int signed_value(std::uint64_t entry, int g, int signs) {
  const auto magnitude = static_cast<int>(entry >> (8 * g) & 255);
  return signs >> g & 1 ? -magnitude : magnitude;
}

// Eight values of two groups of four as one entry.
std::uint64_t join(std::uint32_t first, std::uint32_t second) {
  return first | static_cast<std::uint64_t>(second) << 32;
}

// Seven sign bits for each of four groups of eight and a four-bit scale.
int packed_signs(std::uint32_t signs_scale, int group) { return even_signs(signs_scale >> (7 * group)); }

// Value g of an IQ1 entry, which is eight times the grid, moved by the eighth that minus tells.
int shifted_value(std::uint64_t entry, int g, bool minus) {
  return static_cast<std::int8_t>(entry >> (8 * g) & 255) + (minus ? -1 : 1);
}

}  // namespace

void decode_iq2_xxs(const std::byte* block, Decoded256& out) {
  const auto b = load_block<BlockIQ2_XXS>(block);
  const auto q = [&](int i) {
    const auto& sub = b.sub[i / 32];
    return signed_value(kIq2xxsGrid[sub.index[i / 8 % 4]], i % 8, packed_signs(sub.signs_scale, i / 8 % 4));
  };
  fill_super256(out, f16_to_f32(b.d) / 8, q, [&](int j) { return 2 * (b.sub[j / 2].signs_scale >> 28) + 1; });
}

void decode_iq2_xs(const std::byte* block, Decoded256& out) {
  const auto b = load_block<BlockIQ2_XS>(block);
  const auto q = [&](int i) {
    const unsigned group = b.q[i / 8];
    return signed_value(kIq2xsGrid[group & 511], i % 8, even_signs(group >> 9));
  };
  fill_super256(out, f16_to_f32(b.d) / 8, q, [&](int j) { return 2 * nibble_at(b.scales, j) + 1; });
}

void decode_iq2_s(const std::byte* block, Decoded256& out) {
  const auto b = load_block<BlockIQ2_S>(block);
  const auto q = [&](int i) {
    const int group = i / 8;
    const unsigned high = b.index_hi[group / 4] >> (group % 4 * 2) & 3U;
    return signed_value(kIq2sGrid[b.index[group] | high << 8], i % 8, b.signs[group]);
  };
  fill_super256(out, f16_to_f32(b.d) / 8, q, [&](int j) { return 2 * nibble_at(b.scales, j) + 1; });
}

void decode_iq3_xxs(const std::byte* block, Decoded256& out) {
  const auto b = load_block<BlockIQ3_XXS>(block);
  const auto q = [&](int i) {
    const int group = i / 8;
    const std::uint64_t entry = join(kIq3xxsGrid[b.index[2 * group]], kIq3xxsGrid[b.index[2 * group + 1]]);
    return signed_value(entry, i % 8, packed_signs(b.signs_scale[i / 32], group % 4));
  };
  fill_super256(out, f16_to_f32(b.d) / 4, q, [&](int j) { return 2 * (b.signs_scale[j / 2] >> 28) + 1; });
}

void decode_iq3_s(const std::byte* block, Decoded256& out) {
  const auto b = load_block<BlockIQ3_S>(block);
  const auto index = [&](int four) { return b.index[four] | (b.index_hi[four / 8] >> (four % 8) & 1U) << 8; };
  const auto q = [&](int i) {
    const int group = i / 8;
    const std::uint64_t entry = join(kIq3sGrid[index(2 * group)], kIq3sGrid[index(2 * group + 1)]);
    return signed_value(entry, i % 8, b.signs[group]);
  };
  fill_super256(out, f16_to_f32(b.d), q, [&](int j) { return 2 * nibble_at(b.scales, j / 2) + 1; });
}

void decode_iq1_s(const std::byte* block, Decoded256& out) {
  const auto b = load_block<BlockIQ1_S>(block);
  const auto q = [&](int i) {
    const unsigned hi = b.hi[i / 32];
    const unsigned index = b.index[i / 8] | (hi >> (i / 8 % 4 * 3) & 7U) << 8;
    return shifted_value(kIq1Grid[index], i % 8, hi >> 15);
  };
  fill_super256(out, f16_to_f32(b.d) / 8, q, [&](int j) { return 2 * (b.hi[j / 2] >> 12 & 7) + 1; });
}

void decode_iq1_m(const std::byte* block, Decoded256& out) {
  const auto b = load_block<BlockIQ1_M>(block);
  const auto q = [&](int i) {
    const auto hi = static_cast<unsigned>(nibble_at(b.hi, i / 8));
    return shifted_value(kIq1Grid[b.index[i / 8] | (hi & 7U) << 8], i % 8, hi >> 3);
  };
  unsigned d = 0;
  for (int k = 0; k < 4; ++k) d |= (b.scales[k] >> 12 & 15U) << (4 * k);
  fill_super256(out, f16_to_f32(static_cast<F16Bits>(d)) / 8, q,
                [&](int j) { return 2 * (b.scales[j / 4] >> (j % 4 * 3) & 7) + 1; });
}

void decode_iq4_xs(const std::byte* block, Decoded256& out) {
  const auto b = load_block<BlockIQ4_XS>(block);
  const auto q = [&](int i) {
    const std::uint8_t byte = b.lo[i / 32 * 16 + i % 16];
    return kIq4Values[i % 32 < 16 ? byte & 15U : byte >> 4U];
  };
  const auto scale = [&](int j) {
    return (nibble_at(b.scales_lo, j / 2) | (b.scales_hi >> (j / 2 * 2) & 3) << 4) - 32;
  };
  fill_super256(out, f16_to_f32(b.d), q, scale);
}

}  // namespace cria
