#include "engine/calibrate/row_codes.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <stdexcept>
#include <type_traits>
#include <unordered_map>

#include "kernels/encode/iq.h"
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

// The codebook types' own description, as their encoders have it.
template <DType>
struct BookOf {
  using Format = void;
};
template <class IqFormat>
struct Book {
  using Format = IqFormat;
};
template <>
struct BookOf<DType::IQ2_XXS> : Book<Iq2xxsFormat> {};
template <>
struct BookOf<DType::IQ2_XS> : Book<Iq2xsFormat> {};
template <>
struct BookOf<DType::IQ2_S> : Book<Iq2sFormat> {};
template <>
struct BookOf<DType::IQ3_XXS> : Book<Iq3xxsFormat> {};
template <>
struct BookOf<DType::IQ3_S> : Book<Iq3sFormat> {};
template <>
struct BookOf<DType::IQ1_S> : Book<Iq1sFormat> {};
template <>
struct BookOf<DType::IQ1_M> : Book<Iq1mFormat> {};
template <DType type>
constexpr bool kHasBook = !std::is_void_v<typename BookOf<type>::Format>;

// Entries of IQ1_M carry their shift by an eighth: first plus, then minus.
template <class IqFormat>
void set_codebook(CodeFormat& f) {
  constexpr IqChoice kChoice = IqFormat::kChoice;
  f.group = IqFormat::kDims;
  f.grid.clear();
  for (const int shift : {1, -1}) {
    if (kChoice != IqChoice::GroupShift && shift < 0) continue;
    for (const auto& entry : IqFormat::kGrid)
      for (std::size_t i = 0; i < f.group; ++i)
        f.book.push_back(static_cast<std::int8_t>(static_cast<int>(entry_value(entry, i)) +
                                                  (kChoice == IqChoice::GroupShift ? shift : 0)));
  }
  f.has_shift = kChoice == IqChoice::BlockShift;
  f.even_signs = kChoice == IqChoice::EvenSigns || kChoice == IqChoice::EvenPairSigns;
  f.signs = f.even_signs || kChoice == IqChoice::Signs;
  f.scale_step = 2;
  f.unit = 1 / IqFormat::kFactor;
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
    if constexpr (kHasBook<t>) set_codebook<typename BookOf<t>::Format>(f);
    return 0;
  });
  if (f.block == 0) throw std::logic_error("code_format: not a block type");
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

// A nibble per weight: byte l has weights l and l + N.
template <std::size_t N, class Code>
void put_nibbles(std::uint8_t (&to)[N], Code code) {
  for (std::size_t l = 0; l < N; ++l) to[l] = byte((code(l) & 15) | (code(l + N) & 15) << 4);
}

int iq4_code(int value) {
  return static_cast<int>(std::ranges::lower_bound(kIq4Values, value) - kIq4Values.begin());
}
int e2m1_code(int twice) {
  return static_cast<int>(std::ranges::find(kTwiceE2m1, twice) - kTwiceE2m1.begin());
}
// A bit for each of n weights that is negative.
int negative(const std::int16_t* q, int n) {
  int bits = 0;
  for (int i = 0; i < n; ++i) bits |= (q[i] < 0 ? 1 : 0) << i;
  return bits;
}

template <class Block>
requires requires(Block b) {
  b.lo[15];
  b.d;
} &&(sizeof(Block) < 32) void pack(const Parts& p, Block& b, int low) {
  b.d = half(*p.d);
  if constexpr (requires { b.m; }) b.m = half(0 - *p.dmin);
  put_nibbles(b.lo, [&](std::size_t i) { return p.q[i] - low; });
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
  put_nibbles(b.lo, code);
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
  for (std::size_t i = 0; i < 16; ++i) b.bits[i] = byte(~negative(p.q + 8 * i, 8));
}
void pack(const Parts& p, BlockIQ4_NL& b) {
  b.d = half(*p.d);
  put_nibbles(b.lo, [&](std::size_t i) { return iq4_code(p.q[i]); });
}
void pack(const Parts& p, BlockMXFP4& b) {
  b.e = e8m0_of_half(*p.d);
  put_nibbles(b.lo, [&](std::size_t i) { return e2m1_code(p.q[i]); });
}
void pack(const Parts& p, BlockNVFP4& b) {
  for (std::size_t s = 0; s < 4; ++s) {
    b.e[s] = ue4m3_of_half(p.d[s]);
    put_nibbles(b.lo[s], [&](std::size_t i) { return e2m1_code(p.q[16 * s + i]); });
  }
}

// Super-blocks as their encoders pack them: codes are places in the grid.
template <class F>
void pack_super(const CodeFormat& f, const Parts& p, typename F::Block& b) {
  constexpr std::size_t kSubBlock = F::kTraits.sub_block;
  SuperCodes codes;
  for (std::size_t i = 0; i < 256; ++i) {
    const int value = p.q[i] - p.shift[i / kSubBlock];
    codes.q[i] = byte(static_cast<int>(std::ranges::lower_bound(f.grid, value) - f.grid.begin()));
  }
  for (std::size_t j = 0; j < 256 / kSubBlock; ++j) {
    codes.scales[j] = byte(p.scale[j] - F::kTraits.scale_min);
    codes.mins[j] = p.shift[j] != 0 ? 1 : byte(p.offset[j]);
  }
  if constexpr (requires { b.d; }) b.d = half(*p.d);
  if constexpr (requires { b.dmin; }) b.dmin = half(*p.dmin);
  pack<ScalarIsa>(codes, b);
}

template <class IqFormat>
void pack_entries(const Parts& p, typename IqFormat::Block& b) {
  constexpr std::size_t kPlain = 2048;  // entries of IQ1_M from here on have the negative shift
  IqCodes<IqFormat> codes;
  codes.d = half(*p.d / IqFormat::kFactor);
  for (std::size_t s = 0; s < codes.kSubs; ++s) codes.scale[s] = byte((p.scale[s] - 1) / 2);
  for (std::size_t g = 0; g < codes.kGroups; ++g) {
    codes.entry[g] = p.entry[g] % kPlain;
    codes.negative[g] = byte(negative(p.q + g * IqFormat::kDims, IqFormat::kDims));
    codes.minus[g] = p.entry[g] >= kPlain || p.shift[g / IqFormat::kSubGroups] < 0;
  }
  IqFormat::pack(codes, b);
}

template <DType type>
void pack_blocks(const CodeFormat& f, const RowCodes& codes, std::byte* to) {
  using F = Format<type>;
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
    if constexpr (kHasBook<type>)
      pack_entries<typename BookOf<type>::Format>(parts, block);
    else if constexpr (F::kClass == DotClass::Super256)
      pack_super<F>(f, parts, block);
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
      pack_blocks<t>(f, codes, row + kHeaderBytes<t>);
    }
    return 0;
  });
}

float rounded_scale(const CodeFormat& f, float d) {
  return f.row_scale ? d : f16_to_f32(f32_to_f16(d * f.unit)) / f.unit;
}

}  // namespace cria
