#include "engine/calibrate/row_codes.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <stdexcept>
#include <unordered_map>

#include "kernels/encode/pack.h"
#include "kernels/formats/formats.h"

namespace cria {
namespace {

// A format, and for codebook types the index of each entry by its bytes.
struct Known {
  CodeFormat format;
  std::unordered_map<std::uint64_t, std::uint16_t> index;
};

std::uint64_t key_of(const std::int8_t* values, std::size_t n) {
  std::uint64_t key = 0;
  std::memcpy(&key, values, n);
  return key;
}

template <class Table>
void set_book(CodeFormat& f, const Table& table) {
  f.group = sizeof(table[0]);
  f.grid.clear();
  f.book.resize(table.size() * f.group);
  std::memcpy(f.book.data(), table.data(), f.book.size());
}

// Entries of IQ1_M carry their shift by an eighth: first plus, then minus.
void set_shifted_book(CodeFormat& f) {
  set_book(f, kIq1Grid);
  const std::vector<std::int8_t> plain = f.book;
  for (const int shift : {1, -1})
    for (std::size_t i = 0; i < plain.size(); ++i) {
      const auto value = static_cast<std::int8_t>(plain[i] + shift);
      if (shift > 0)
        f.book[i] = value;
      else
        f.book.push_back(value);
    }
}

void set_codebook(CodeFormat& f) {
  switch (f.type) {
    case DType::IQ2_XXS:
      set_book(f, kIq2xxsGrid);
      break;
    case DType::IQ2_XS:
      set_book(f, kIq2xsGrid);
      break;
    case DType::IQ2_S:
      set_book(f, kIq2sGrid);
      break;
    case DType::IQ3_XXS:
      set_book(f, kIq3xxsGrid);
      break;
    case DType::IQ3_S:
      set_book(f, kIq3sGrid);
      break;
    case DType::IQ1_S:
      set_book(f, kIq1Grid);
      f.has_shift = true;
      break;
    case DType::IQ1_M:
      set_shifted_book(f);
      break;
    default:
      return;
  }
  f.signs = !f.has_shift && f.type != DType::IQ1_M;
  f.even_signs = f.type == DType::IQ2_XXS || f.type == DType::IQ2_XS || f.type == DType::IQ3_XXS;
  f.scale_step = 2;
  f.unit = f.type == DType::IQ3_S ? 1 : f.type == DType::IQ3_XXS ? 4 : 8;
}

// False for types whose codes cannot be chosen one by one, or not at all.
template <DType type>
constexpr bool kHasCodes = is_integer(Format<type>::kClass) &&
                           !kDecodesOnly<type> && type != DType::IQ4_KSS && type != DType::IQ2_KL;

// Blocks of tables whose values may be shifted.
template <class Block>
concept IsTable = requires {
  Block::kShift;
};

void set_grid(CodeFormat& f, const DecodeTraits& traits) {
  with_dtype(f.type, [&](auto t) {
    if constexpr (kHasCodes<t> && IsTable<typename Format<t>::Block>) {
      using Block = typename Format<t>::Block;
      f.grid.assign(Block::kValues.begin(), Block::kValues.end());
      f.has_shift = true;
      f.row_scale = kHeaderBytes<t> != 0;
      const bool odd = Format<t>::kTraits.scale_min == -Format<t>::kTraits.scale_max;
      if (odd) f.scale_step = 2;
    }
    return 0;
  });
  if (f.has_shift) return;
  switch (f.type) {
    case DType::IQ4_NL:
    case DType::IQ4_XS:
      f.grid.assign(kIq4Values.begin(), kIq4Values.end());
      return;
    case DType::MXFP4:
    case DType::NVFP4:
      f.grid.assign(kTwiceE2m1.begin(), kTwiceE2m1.end());
      std::ranges::sort(f.grid);
      f.grid.erase(std::unique(f.grid.begin(), f.grid.end()), f.grid.end());
      f.refits = false;
      return;
    case DType::Q1_0:
      f.grid = {-1, 1};
      return;
    case DType::TQ2_0:
      f.grid = {-1, 0, 1};  // 2 can be stored, but ternary weights do without
      return;
    default:
      for (int q = traits.q_min; q <= traits.q_max; ++q)
        f.grid.push_back(static_cast<std::int16_t>(q));
  }
}

Known make_known(DType type) {
  Known known;
  CodeFormat& f = known.format;
  f.type = type;
  with_dtype(type, [&](auto t) {
    if constexpr (is_integer(Format<t>::kClass)) {
      const DecodeTraits& traits = Format<t>::kTraits;
      constexpr bool super = Format<t>::kClass == DotClass::Super256;
      f.block = super                                     ? 256
                : Format<t>::kClass == DotClass::Blocks16 ? 16
                                                          : Format<t>::kBlockValues;
      f.sub_block = super ? static_cast<std::size_t>(traits.sub_block) : f.block;
      f.scale_min = traits.scale_min;
      f.scale_max = traits.scale_max;
      f.float_offset = !super && traits.has_min;
      if (super && traits.has_min) f.offset_max = traits.scale_max;
      set_grid(f, traits);
    }
    return 0;
  });
  if (f.block == 0) throw std::logic_error("code_format: not a block type");
  set_codebook(f);
  for (std::size_t i = 0; i < f.entries() && !f.book.empty(); ++i)
    known.index.emplace(key_of(&f.book[i * f.group], f.group), static_cast<std::uint16_t>(i));
  return known;
}

const Known& known(DType type) {
  static const std::map<DType, Known> all = [] {
    std::map<DType, Known> map;
#define CRIA_ADD(name, id) \
  if (kHasCodes<DType::name>) map.emplace(DType::name, make_known(DType::name));
    CRIA_DTYPES(CRIA_ADD)
#undef CRIA_ADD
    return map;
  }();
  const auto found = all.find(type);
  if (found == all.end()) throw std::logic_error("code_format: not a block type");
  return found->second;
}

void resize(const CodeFormat& f, std::size_t cols, RowCodes& out) {
  out.q.resize(cols);
  out.entry.resize(f.book.empty() ? 0 : cols / f.group);
  out.scale.assign(cols / f.sub_block, 1);
  out.offset.assign(cols / f.sub_block, f.float_offset ? 1 : 0);
  out.shift.assign(cols / f.sub_block, 0);
  out.d.resize(cols / f.block);
  out.dmin.assign(cols / f.block, 0);
}

template <class Decoded, class Decode>
void unpack_groups(const CodeFormat& f, const std::byte* row, Decode decode, RowCodes& out) {
  constexpr std::size_t n = sizeof(Decoded::q);
  Decoded group;
  for (std::size_t i = 0; i < out.q.size() / n; ++i) {
    decode(row, i, group);
    std::copy_n(group.q, n, out.q.begin() + static_cast<std::ptrdiff_t>(i * n));
    out.d[i * n / f.block] = group.d;
    out.dmin[i * n / f.block] = 0 - group.m;
  }
}

void unpack_super(const CodeFormat& f, const std::byte* row, RowCodes& out) {
  const Decode256Fn decode = scalar_decode256(f.type);
  const std::size_t subs = 256 / f.sub_block;
  Decoded256 group;
  for (std::size_t i = 0; i < out.d.size(); ++i) {
    decode(row, i, group);
    std::copy_n(group.q, 256, out.q.begin() + static_cast<std::ptrdiff_t>(i * 256));
    for (std::size_t s = 0; s < subs; ++s) {
      out.scale[i * subs + s] = group.scale[s * f.sub_block / 16];
      out.offset[i * subs + s] = group.min[s * f.sub_block / 16];
    }
    out.d[i] = group.d;
    out.dmin[i] = group.dmin;
  }
}

// The shifts of sub-blocks of IQ1_S and of tables.
void unpack_shifts(const CodeFormat& f, const std::byte* row, RowCodes& out) {
  with_dtype(f.type, [&](auto t) {
    using Block = typename Format<t>::Block;
    const std::size_t subs = f.block / f.sub_block;
    for (std::size_t s = 0; s < out.shift.size(); ++s) {
      if constexpr (t == DType::IQ1_S) {
        out.shift[s] = (out.q[s * f.sub_block] & 7) == 1 ? 1 : -1;
      } else if constexpr (IsTable<Block> && kHasCodes<t>) {
        const auto b = load_block<Block>(row + kHeaderBytes<t> + s / subs * sizeof(Block));
        int bit;
        if constexpr (requires { b.shifts; })
          bit = b.shifts >> (s % subs) & 1;
        else if constexpr (kHeaderBytes<t> != 0)
          bit = b.scales[s % subs] & 1;
        else
          bit = b.extra >> (s % subs) & 1;
        out.shift[s] = static_cast<std::int16_t>(bit * Block::kShift);
      }
    }
    return 0;
  });
}

// Data of one block, from which the functions below write it.
struct Parts {
  const std::int16_t* q;
  const std::uint16_t* entry;
  const std::int16_t *scale, *offset, *shift;
  const float *d, *dmin;
};

F16Bits half(float value) { return f32_to_f16(value); }
std::uint8_t byte(int value) { return static_cast<std::uint8_t>(value); }

// Code i of a nibble per weight: the values of each run of 2·apart weights share apart bytes.
template <std::size_t N, class Code>
void put_nibbles(std::uint8_t (&to)[N], std::size_t apart, Code code) {
  for (std::size_t l = 0; l < N; ++l) {
    const std::size_t first = l / apart * 2 * apart + l % apart;
    to[l] = byte((code(first) & 15) | (code(first + apart) & 15) << 4);
  }
}
// Two bits per weight: four runs of 32 weights share 32 bytes.
template <class Code>
void put_two_bits(std::uint8_t (&to)[64], Code code) {
  for (std::size_t l = 0; l < 64; ++l) {
    int bits = 0;
    for (std::size_t j = 0; j < 4; ++j)
      bits |= (code(l / 32 * 128 + 32 * j + l % 32) & 3) << (2 * j);
    to[l] = byte(bits);
  }
}
// A bit per weight: eight runs of 32 weights share 32 bytes.
template <class Code>
void put_bit_plane(std::uint8_t (&to)[32], Code code) {
  for (std::size_t l = 0; l < 32; ++l) {
    int bits = 0;
    for (std::size_t j = 0; j < 8; ++j) bits |= (code(32 * j + l) & 1) << j;
    to[l] = byte(bits);
  }
}
void put_scales_and_offsets(std::uint8_t (&to)[12], const Parts& p) {
  for (std::size_t j = 0; j < 4; ++j) {
    const int s = p.scale[j + 4], m = p.offset[j + 4];
    to[j] = byte(p.scale[j] | s >> 4 << 6);
    to[j + 4] = byte(p.offset[j] | m >> 4 << 6);
    to[j + 8] = byte((s & 15) | (m & 15) << 4);
  }
}
template <std::size_t N>
void put_scale_nibbles(std::uint8_t (&to)[N], const Parts& p) {
  for (std::size_t j = 0; j < N; ++j)
    to[j] = byte((p.scale[2 * j] - 1) / 2 | (p.scale[2 * j + 1] - 1) / 2 << 4);
}

int iq4_code(int value) {
  return static_cast<int>(std::ranges::lower_bound(kIq4Values, value) - kIq4Values.begin());
}
int e2m1_code(int twice) {
  return static_cast<int>(std::ranges::find(kTwiceE2m1, twice) - kTwiceE2m1.begin());
}
// A bit for each of eight weights that is negative.
int negative(const std::int16_t* q) {
  int bits = 0;
  for (int i = 0; i < 8; ++i) bits |= (q[i] < 0 ? 1 : 0) << i;
  return bits;
}
// Four groups' seven bits of sign and the sub-block's scale.
std::uint32_t signs_and_scale(const Parts& p, std::size_t sub) {
  auto bits = static_cast<std::uint32_t>((p.scale[sub] - 1) / 2) << 28;
  for (std::size_t g = 0; g < 4; ++g)
    bits |= static_cast<std::uint32_t>(negative(p.q + sub * 32 + g * 8) & 127) << (7 * g);
  return bits;
}

template <class Block>
requires requires(Block b) {
  b.lo[15];
  b.d;
} &&(sizeof(Block) < 32) void pack(const Parts& p, Block& b, int low) {
  b.d = half(*p.d);
  if constexpr (requires { b.m; }) b.m = half(0 - *p.dmin);
  put_nibbles(b.lo, 16, [&](std::size_t i) { return p.q[i] - low; });
  if constexpr (requires { b.hi; }) {
    b.hi = 0;
    for (std::size_t i = 0; i < 32; ++i)
      b.hi |= static_cast<std::uint32_t>((p.q[i] - low) >> 4 & 1) << i;
  }
}
void pack(const Parts& p, BlockQ4_0& b) { pack(p, b, -8); }
void pack(const Parts& p, BlockQ4_1& b) { pack(p, b, 0); }
void pack(const Parts& p, BlockQ5_0& b) { pack(p, b, -16); }
void pack(const Parts& p, BlockQ5_1& b) { pack(p, b, 0); }
void pack(const Parts& p, BlockQ6_0& b) {
  const auto code = [&](std::size_t i) { return p.q[i] + 32; };
  b.d = half(*p.d);
  put_nibbles(b.lo, 16, code);
  for (std::size_t i = 0; i < 8; ++i)
    b.hi[i] = byte(code(i) >> 4 | code(i + 16) >> 4 << 2 | code(i + 8) >> 4 << 4 |
                   code(i + 24) >> 4 << 6);
}
void pack(const Parts& p, BlockQ8_0& b) {
  b.d = half(*p.d);
  for (std::size_t i = 0; i < 32; ++i) b.q[i] = static_cast<std::int8_t>(p.q[i]);
}
void pack(const Parts& p, BlockQ1_0& b) {
  b.d = half(*p.d);
  for (std::size_t i = 0; i < 16; ++i) b.bits[i] = byte(~negative(p.q + 8 * i));
}
void pack(const Parts& p, BlockIQ4_NL& b) {
  b.d = half(*p.d);
  put_nibbles(b.lo, 16, [&](std::size_t i) { return iq4_code(p.q[i]); });
}
void pack(const Parts& p, BlockMXFP4& b) {
  b.e = e8m0_of_half(*p.d);
  put_nibbles(b.lo, 16, [&](std::size_t i) { return e2m1_code(p.q[i]); });
}
void pack(const Parts& p, BlockNVFP4& b) {
  for (std::size_t s = 0; s < 4; ++s) {
    b.e[s] = ue4m3_of_half(p.d[s]);
    put_nibbles(b.lo[s], 8, [&](std::size_t i) { return e2m1_code(p.q[16 * s + i]); });
  }
}
void pack(const Parts& p, BlockQ2_K& b) {
  b.d = half(*p.d);
  b.dmin = half(*p.dmin);
  for (std::size_t j = 0; j < 16; ++j) b.scales[j] = byte(p.scale[j] | p.offset[j] << 4);
  put_two_bits(b.q, [&](std::size_t i) { return p.q[i]; });
}
void pack(const Parts& p, BlockQ3_K& b) {
  b.d = half(*p.d);
  put_two_bits(b.lo, [&](std::size_t i) { return p.q[i] + 4; });
  put_bit_plane(b.hi, [&](std::size_t i) { return (p.q[i] + 4) >> 2; });
  std::memset(b.scales, 0, sizeof b.scales);
  for (std::size_t j = 0; j < 16; ++j) {
    const int s = p.scale[j] + 32;
    b.scales[j % 8] |= byte((s & 15) << (j / 8 * 4));
    b.scales[8 + j % 4] |= byte(s >> 4 << (j / 4 * 2));
  }
}
void pack(const Parts& p, BlockQ4_K& b) {
  b.d = half(*p.d);
  b.dmin = half(*p.dmin);
  put_scales_and_offsets(b.scales, p);
  put_nibbles(b.lo, 32, [&](std::size_t i) { return p.q[i]; });
}
void pack(const Parts& p, BlockQ5_K& b) {
  b.d = half(*p.d);
  b.dmin = half(*p.dmin);
  put_scales_and_offsets(b.scales, p);
  put_nibbles(b.lo, 32, [&](std::size_t i) { return p.q[i]; });
  put_bit_plane(b.hi, [&](std::size_t i) { return p.q[i] >> 4; });
}
void pack(const Parts& p, BlockQ6_K& b) {
  b.d = half(*p.d);
  put_nibbles(b.lo, 64, [&](std::size_t i) { return p.q[i] + 32; });
  put_two_bits(b.hi, [&](std::size_t i) { return (p.q[i] + 32) >> 4; });
  for (std::size_t j = 0; j < 16; ++j) b.scales[j] = static_cast<std::int8_t>(p.scale[j]);
}
void pack(const Parts& p, BlockIQ4_XS& b) {
  b.d = half(*p.d);
  int high = 0;
  for (std::size_t j = 0; j < 8; ++j) high |= (p.scale[j] + 32) >> 4 << (2 * j);
  b.scales_hi = static_cast<std::uint16_t>(high);
  for (std::size_t j = 0; j < 4; ++j)
    b.scales_lo[j] = byte(((p.scale[2 * j] + 32) & 15) | ((p.scale[2 * j + 1] + 32) & 15) << 4);
  put_nibbles(b.lo, 16, [&](std::size_t i) { return iq4_code(p.q[i]); });
}
void pack(const Parts& p, BlockTQ2_0& b) {
  b.d = half(*p.d);
  put_two_bits(b.q, [&](std::size_t i) { return p.q[i] + 1; });
}
// Five trits are the digits of a base-3 fraction of 256, rounded up.
void pack(const Parts& p, BlockTQ1_0& b) {
  const auto trits = [&](std::size_t first, std::size_t apart, std::size_t n) {
    int number = 0;
    for (std::size_t i = 0; i < 5; ++i)
      number = 3 * number + (i < n ? p.q[first + i * apart] + 1 : 0);
    return byte((number * 256 + 242) / 243);
  };
  b.d = half(*p.d);
  for (std::size_t l = 0; l < 32; ++l) b.q[l] = trits(l, 32, 5);
  for (std::size_t l = 0; l < 16; ++l) b.q[32 + l] = trits(160 + l, 16, 5);
  for (std::size_t l = 0; l < 4; ++l) b.qh[l] = trits(240 + l, 4, 4);
}
void pack(const Parts& p, BlockIQ2_XXS& b) {
  b.d = half(*p.d * 8);
  for (std::size_t s = 0; s < 8; ++s) {
    for (std::size_t g = 0; g < 4; ++g) b.sub[s].index[g] = byte(p.entry[4 * s + g]);
    b.sub[s].signs_scale = signs_and_scale(p, s);
  }
}
void pack(const Parts& p, BlockIQ2_XS& b) {
  b.d = half(*p.d * 8);
  for (std::size_t g = 0; g < 32; ++g)
    b.q[g] = static_cast<std::uint16_t>(p.entry[g] | (negative(p.q + 8 * g) & 127) << 9);
  put_scale_nibbles(b.scales, p);
}
void pack(const Parts& p, BlockIQ2_S& b) {
  b.d = half(*p.d * 8);
  std::memset(b.index_hi, 0, sizeof b.index_hi);
  for (std::size_t g = 0; g < 32; ++g) {
    b.index[g] = byte(p.entry[g] & 255);
    b.index_hi[g / 4] |= byte(p.entry[g] >> 8 << (g % 4 * 2));
    b.signs[g] = byte(negative(p.q + 8 * g));
  }
  put_scale_nibbles(b.scales, p);
}
void pack(const Parts& p, BlockIQ3_XXS& b) {
  b.d = half(*p.d * 4);
  for (std::size_t g = 0; g < 64; ++g) b.index[g] = byte(p.entry[g]);
  for (std::size_t s = 0; s < 8; ++s) b.signs_scale[s] = signs_and_scale(p, s);
}
void pack(const Parts& p, BlockIQ3_S& b) {
  b.d = half(*p.d);
  std::memset(b.index_hi, 0, sizeof b.index_hi);
  for (std::size_t g = 0; g < 64; ++g) {
    b.index[g] = byte(p.entry[g] & 255);
    b.index_hi[g / 8] |= byte(p.entry[g] >> 8 << (g % 8));
  }
  for (std::size_t g = 0; g < 32; ++g) b.signs[g] = byte(negative(p.q + 8 * g));
  put_scale_nibbles(b.scales, p);
}
void pack(const Parts& p, BlockIQ1_S& b) {
  b.d = half(*p.d * 8);
  for (std::size_t s = 0; s < 8; ++s) {
    unsigned hi =
        static_cast<unsigned>((p.scale[s] - 1) / 2) << 12 | (p.shift[s] < 0 ? 0x8000U : 0);
    for (std::size_t g = 0; g < 4; ++g) {
      b.index[4 * s + g] = byte(p.entry[4 * s + g] & 255);
      hi |= static_cast<unsigned>(p.entry[4 * s + g] >> 8) << (3 * g);
    }
    b.hi[s] = static_cast<std::uint16_t>(hi);
  }
}
void pack(const Parts& p, BlockIQ1_M& b) {
  const F16Bits d = half(*p.d * 8);
  std::memset(b.hi, 0, sizeof b.hi);
  for (std::size_t g = 0; g < 32; ++g) {
    b.index[g] = byte(p.entry[g] & 255);  // entries from 2048 on have the negative shift
    b.hi[g / 2] |= byte((p.entry[g] >> 8 & 15) << (g % 2 * 4));
  }
  for (std::size_t k = 0; k < 4; ++k) {
    unsigned bits = static_cast<unsigned>(d >> (4 * k) & 15) << 12;
    for (std::size_t j = 0; j < 4; ++j)
      bits |= static_cast<unsigned>((p.scale[4 * k + j] - 1) / 2) << (3 * j);
    b.scales[k] = static_cast<std::uint16_t>(bits);
  }
}

// Tables whose values may be shifted, as the encoders pack them.
template <class F>
void pack_table(const Parts& p, typename F::Block& b) {
  using Block = typename F::Block;
  constexpr std::size_t kSubBlock = F::kTraits.sub_block;
  SuperCodes codes;
  for (std::size_t i = 0; i < 256; ++i) {
    const int value = p.q[i] - p.shift[i / kSubBlock];
    codes.q[i] = byte(
        static_cast<int>(std::ranges::lower_bound(Block::kValues, value) - Block::kValues.begin()));
  }
  for (std::size_t j = 0; j < 256 / kSubBlock; ++j) {
    codes.scales[j] = byte(p.scale[j] - F::kTraits.scale_min);
    codes.mins[j] = p.shift[j] != 0 ? 1 : 0;
  }
  if constexpr (requires { b.d; }) b.d = half(*p.d);
  pack<ScalarIsa>(codes, b);
}

template <class F>
void pack_blocks(const CodeFormat& f, const RowCodes& codes, std::byte* to) {
  using Block = typename F::Block;
  constexpr std::size_t values = F::kBlockValues;
  for (std::size_t first = 0; first < codes.q.size(); first += values, to += sizeof(Block)) {
    const std::size_t sub = first / f.sub_block;
    const Parts parts{&codes.q[first],
                      codes.entry.empty() ? nullptr : &codes.entry[first / f.group],
                      &codes.scale[sub],
                      &codes.offset[sub],
                      &codes.shift[sub],
                      &codes.d[first / f.block],
                      &codes.dmin[first / f.block]};
    Block block{};
    if constexpr (IsTable<Block>)
      pack_table<F>(parts, block);
    else
      pack(parts, block);
    std::memcpy(to, &block, sizeof block);
  }
}

}  // namespace

bool has_code_format(DType type) {
  return with_dtype(type, [](auto t) { return kHasCodes<t>; });
}

const CodeFormat& code_format(DType type) { return known(type).format; }

void unpack_row(const CodeFormat& f, const std::byte* row, std::size_t cols, RowCodes& out) {
  resize(f, cols, out);
  const DotClass dot = dtype_info(f.type).dot;
  if (dot == DotClass::Super256)
    unpack_super(f, row, out);
  else if (dot == DotClass::Blocks16)
    unpack_groups<Decoded16>(f, row, scalar_decode16(f.type), out);
  else
    unpack_groups<Decoded32>(f, row, scalar_decode32(f.type), out);
  if (f.has_shift) unpack_shifts(f, row, out);
  const auto& index = known(f.type).index;
  for (std::size_t g = 0; g < out.entry.size(); ++g) {
    std::int8_t values[8] = {};
    for (std::size_t i = 0; i < f.group; ++i) {
      const int q = out.q[g * f.group + i] - out.shift[g * f.group / f.sub_block];
      values[i] = static_cast<std::int8_t>(f.signs ? std::abs(q) : q);
    }
    out.entry[g] = index.at(key_of(values, f.group));
  }
}

void pack_row(const CodeFormat& f, const RowCodes& codes, std::byte* row) {
  with_dtype(f.type, [&](auto t) {
    if constexpr (kHasCodes<t>) {
      if constexpr (kHeaderBytes<t> != 0) {
        typename Format<t>::Header header;
        header.set(codes.d.front());
        std::memcpy(row, &header, sizeof header);
      }
      pack_blocks<Format<t>>(f, codes, row + kHeaderBytes<t>);
    }
    return 0;
  });
}

float rounded_scale(const CodeFormat& f, float d) {
  return f.row_scale ? d : f16_to_f32(f32_to_f16(d * f.unit)) / f.unit;
}

}  // namespace cria
