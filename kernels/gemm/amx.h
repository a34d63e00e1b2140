// The GEMM micro-kernel of AMX: tiles of 16 tokens × 64 columns of activations, straight from memory, times
// tiles of 64 columns × 16 rows of the panel. While the tiles of one unit multiply, AVX-512 brings the sums
// of the unit before into the floats.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "kernels/gemm/avx512.h"
#include "kernels/simd/avx512.h"

namespace cria {

template <>
struct RowLanes<Amx> : RowLanes<Avx512> {};

/// What ldtilecfg reads. Tiles 0–3 are sums, 4 and 5 activations, 6 and 7 weights; a group of 32 or 16 columns
/// fills half or a quarter of the latter four. Constants, since GCC 12 does not know how much the instruction reads.
struct alignas(64) TileConfig {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
inline constexpr TileConfig kTiles{};
inline constexpr TileConfig kTilesOf32{.row_bytes = {64, 64, 64, 64, 32, 32, 64, 64},
                                       .rows = {16, 16, 16, 16, 16, 16, 8, 8}};
inline constexpr TileConfig kTilesOf16{.row_bytes = {64, 64, 64, 64, 16, 16, 64, 64},
                                       .rows = {16, 16, 16, 16, 16, 16, 4, 4}};

template <>
struct GemmKernel<Amx> {
  using Wide = GemmKernel<Avx512>;
  static constexpr std::size_t kTokens = 32;
  static constexpr bool kSigned = true, kSumsInt16 = false;

  struct Session {
    explicit Session(PanelShape shape) {
      _tile_loadconfig(shape.group == 16 ? &kTilesOf16 : shape.group == 32 ? &kTilesOf32 : &kTiles);
    }
    ~Session() { _tile_release(); }
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;
  };

  static constexpr PanelBytes bytes(const DecodeTraits& t, bool) {
    const Range r = scaled_range(t);
    return r.max - r.min <= 255 ? PanelBytes::Scaled : PanelBytes::Digits;
  }
  static constexpr int scaled_zero(const DecodeTraits& t) { return std::min(0, 127 - scaled_range(t).max); }

  static void transpose(__m512i (&v)[4]) { Wide::transpose(v); }
  static void store(void* p, __m512i v) { Wide::store(p, v); }
  /// Pair c of the 16 or 8 mins, each as two bfloat16 (for the two digits of a sum) per 16 columns.
  template <int n>
  static void store_mins(Panel& panel, std::size_t c, std::size_t lane, __m512i pair) {
    const __m512i mins[2] = {_mm512_srai_epi32(_mm512_slli_epi32(pair, 16), 16), _mm512_srai_epi32(pair, 16)};
    constexpr std::size_t kRepeat = 16 / n;
    for (std::size_t i = 0; i < 2 * kRepeat; ++i) {
      const __m512i bits = _mm512_castps_si512(_mm512_cvtepi32_ps(mins[i / kRepeat]));
      store(panel.min[2 * kRepeat * c + i] + lane, _mm512_or_si512(bits, _mm512_srli_epi32(bits, 16)));
    }
  }

  template <PanelShape shape>
  static void run(const TokenSlice& x, GemmScratch& s, std::size_t n_panels, Ahead ahead) {
    // GCC 12 does not know that tile loads read the panel.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if constexpr (shape.groups())
      groups<shape>(x, s, n_panels, ahead);
    else
      super256<shape>(x, s, n_panels, ahead);
  }

 private:
  using Tile = std::int32_t[16][16];
  using Acc = float[kGemmRows];

  /// The tokens' side of 32 tokens, laid out for broadcasts. Tokens beyond the end repeat the last one.
  template <PanelShape shape>
  struct TokenTile {
    const std::int8_t* q;
    std::size_t q_stride;
    float d[kTokens][16];         ///< Super256: [0]; else one per group
    float d_sum[kTokens][8];      ///< groups of 32 with m: d * sum
    std::int32_t start[kTokens];  ///< Super256 with a zero: what the sums start from
    /// Super256 with mins: sums as two bfloat16, a multiple of 16 and the rest.
    alignas(64) std::uint32_t digits[kTokens][16];
    alignas(64) std::int8_t padded[kTokens][kGemmCols];

    void fill(const TokenSlice& x, std::size_t first) {
      q = x.q + first * x.q_stride;
      q_stride = x.q_stride;
      for (std::size_t t = 0; t < kTokens; ++t) {
        const std::size_t token = std::min(first + t, x.n_tokens - 1);
        if constexpr (shape.groups())
          fill_groups(x, token, t);
        else
          fill_super(x, token, t);
      }
      if (first + kTokens > x.n_tokens) pad(x, first);
    }

   private:
    void fill_super(const TokenSlice& x, std::size_t token, std::size_t t) {
      d[t][0] = x.d[token * x.d_stride];
      const __m256i sums = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x.sum + token * x.sum_stride));
      if constexpr (shape.zero != 0) {
        const __m256i pairs = _mm256_madd_epi16(sums, _mm256_set1_epi16(static_cast<short>(-shape.zero)));
        start[t] = _mm512_reduce_add_epi32(_mm512_zextsi256_si512(pairs));
      }
      if constexpr (shape.mins != 0) {
        const __m512i sum = _mm512_cvtepi16_epi32(sums);
        const __m512i low = _mm512_and_si512(sum, _mm512_set1_epi32(15));
        const __m512i low_bits = _mm512_castps_si512(_mm512_cvtepi32_ps(low));
        const __m512i high_bits = _mm512_castps_si512(_mm512_cvtepi32_ps(_mm512_sub_epi32(sum, low)));
        _mm512_store_si512(digits[t], _mm512_or_si512(high_bits, _mm512_srli_epi32(low_bits, 16)));
      }
    }
    void fill_groups(const TokenSlice& x, std::size_t token, std::size_t t) {
      if constexpr (shape.group == 16) {
        const auto all = static_cast<__mmask16>((1U << x.cols / 16) - 1);
        _mm512_storeu_ps(d[t], _mm512_maskz_loadu_ps(all, x.d + token * x.d_stride));
        return;
      }
      const auto blocks = static_cast<__mmask8>((1U << x.cols / 32) - 1);
      const __m256 scale = _mm256_maskz_loadu_ps(blocks, x.d + token * x.d_stride);
      _mm256_storeu_ps(d[t], scale);
      if constexpr (shape.mins != 0) {
        const __m128i sums = _mm_maskz_loadu_epi16(blocks, x.sum + token * x.sum_stride);
        _mm256_storeu_ps(d_sum[t], _mm256_mul_ps(scale, _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(sums))));
      }
    }
    void pad(const TokenSlice& x, std::size_t first) {
      for (std::size_t t = 0; t < kTokens; ++t)
        std::memcpy(padded[t], x.q + std::min(first + t, x.n_tokens - 1) * x.q_stride, x.cols);
      q = padded[0];
      q_stride = sizeof padded[0];
      std::atomic_signal_fence(std::memory_order_seq_cst);
    }
  };

  struct Sums {
    Tile q[4];
    Tile min[4];  ///< floats
  };

  template <PanelShape shape>
  static constexpr bool kDigits = shape.bytes == PanelBytes::Digits;

  /// One unit is 32 tokens × 32 rows, or 32 tokens × 16 rows in two digits: tile 2i + j has the tokens from
  /// 16i on, and half j of the rows or digit j. The sums of a unit
  /// become floats while the next one multiplies.
  template <PanelShape shape>
  static void super256(const TokenSlice& x, GemmScratch& s, std::size_t n_panels, Ahead& ahead) {
    constexpr std::size_t kHalves = kDigits<shape> ? 2 : 1;
    alignas(64) Sums sums[2];
    TokenTile<shape> tiles[2];
    const std::size_t per_tile = n_panels * kHalves, n = (x.n_tokens + kTokens - 1) / kTokens * per_tile;
    const auto add = [&](std::size_t unit, std::size_t step) {
      const std::size_t t = unit / per_tile, p = unit % per_tile / kHalves;
      finish<shape>(tiles[t % 2], s.panel[p], unit % kHalves, step, sums[unit % 2], s.acc[p] + t * kTokens);
    };
    for (std::size_t unit = 0; unit < n; ++unit) {
      const std::size_t t = unit / per_tile;
      if (unit % per_tile == 0) {
        tiles[t % 2].fill(x, t * kTokens);
        ahead.fetch();
      }
      multiply(tiles[t % 2], s.panel[unit % per_tile / kHalves], unit % kHalves, sums[unit % 2],
               [&](std::size_t step) {
                 if (unit > 0) add(unit - 1, step);
               });
    }
    for (std::size_t step = 0; step < 4; ++step) add(n - 1, step);
  }

  template <PanelShape shape, class Between>
  [[gnu::always_inline]] static void multiply(const TokenTile<shape>& x, const Panel& panel, std::size_t half,
                                              Sums& sums, Between&& between) {
    constexpr std::size_t kStride = sizeof panel.q[0][0];
    if constexpr (shape.mins != 0) multiply_mins(x, panel, half, sums);
    zero_sums();
    for (std::size_t step = 0; step < 4; ++step) {
      _tile_loadd(4, x.q + 64 * step, x.q_stride);
      _tile_loadd(6, panel.q[0][16 * step][16 * half], kStride);
      _tile_loadd(7, kDigits<shape> ? panel.q[1][16 * step][16 * half] : panel.q[0][16 * step][16], kStride);
      _tile_dpbssd(0, 4, 6);
      _tile_dpbssd(1, 4, 7);
      _tile_loadd(5, x.q + 16 * x.q_stride + 64 * step, x.q_stride);
      _tile_dpbssd(2, 5, 6);
      _tile_dpbssd(3, 5, 7);
      between(step);
    }
    store_sums(sums.q);
  }
  template <PanelShape shape>
  [[gnu::always_inline]] static void multiply_mins(const TokenTile<shape>& x, const Panel& panel,
                                                   std::size_t half, Sums& sums) {
    constexpr std::size_t kStride = sizeof panel.min[0];
    std::atomic_signal_fence(std::memory_order_seq_cst);
    _tile_zero(0);
    _tile_zero(2);
    _tile_loadd(4, x.digits[0], sizeof x.digits[0]);
    _tile_loadd(5, x.digits[16], sizeof x.digits[0]);
    _tile_loadd(6, panel.min[0] + 16 * half, kStride);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(2, 5, 6);
    if constexpr (!kDigits<shape>) {
      _tile_zero(1);
      _tile_zero(3);
      _tile_loadd(7, panel.min[0] + 16, kStride);
      _tile_dpbf16ps(1, 4, 7);
      _tile_dpbf16ps(3, 5, 7);
      _tile_stored(1, sums.min[1], sizeof sums.min[0][0]);
      _tile_stored(3, sums.min[3], sizeof sums.min[0][0]);
    }
    _tile_stored(0, sums.min[0], sizeof sums.min[0][0]);
    _tile_stored(2, sums.min[2], sizeof sums.min[0][0]);
  }
  [[gnu::always_inline]] static void zero_sums() {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  [[gnu::always_inline]] static void store_sums(Tile (&sums)[4]) {
    _tile_stored(0, sums[0], sizeof sums[0][0]);
    _tile_stored(1, sums[1], sizeof sums[0][0]);
    _tile_stored(2, sums[2], sizeof sums[0][0]);
    _tile_stored(3, sums[3], sizeof sums[0][0]);
  }

  /// Adds a quarter of a unit's sums to the accumulators.
  template <PanelShape shape>
  [[gnu::always_inline]] static void finish(const TokenTile<shape>& x, const Panel& panel, std::size_t half,
                                            std::size_t quarter, const Sums& sums, Acc* acc) {
    const auto add = [&](const Tile& isums, const Tile* highs, const Tile& mins, std::size_t h) {
      const __m512 d = _mm512_load_ps(panel.d[0] + 16 * h), dmin = _mm512_load_ps(panel.m[0] + 16 * h);
#pragma GCC unroll 8
      for (std::size_t i = 0; i < 8; ++i) {
        const std::size_t t = 8 * quarter + i, row = t % 16;
        __m512i isum = _mm512_load_si512(isums[row]);
        if constexpr (kDigits<shape>)
          isum = _mm512_add_epi32(_mm512_slli_epi32(_mm512_load_si512((*highs)[row]), 8), isum);
        if constexpr (shape.zero != 0) isum = _mm512_add_epi32(isum, _mm512_set1_epi32(x.start[t]));
        const __m512 da = _mm512_set1_ps(x.d[t][0]);
        __m512 sum =
            _mm512_fmadd_ps(_mm512_mul_ps(d, da), _mm512_cvtepi32_ps(isum), _mm512_load_ps(acc[t] + 16 * h));
        if constexpr (shape.mins != 0)
          sum = _mm512_fnmadd_ps(_mm512_mul_ps(dmin, da), _mm512_load_ps(mins[row]), sum);
        _mm512_store_ps(acc[t] + 16 * h, sum);
      }
    };
    const std::size_t tile = quarter / 2 * 2;
    if constexpr (kDigits<shape>) {
      add(sums.q[tile], &sums.q[tile + 1], sums.min[tile], half);
    } else {
      add(sums.q[tile], nullptr, sums.min[tile], 0);
      add(sums.q[tile + 1], nullptr, sums.min[tile + 1], 1);
    }
  }

  /// 16 tokens × 16 rows with their accumulators in registers, two blocks at a time; the next two multiply
  /// while the sums of these are added.
  template <PanelShape shape>
  static void groups(const TokenSlice& x, GemmScratch& s, std::size_t n_panels, Ahead& ahead) {
    constexpr std::size_t kGroup = shape.group;
    alignas(64) Tile sums[2][2];
    TokenTile<shape> tiles[2];
    const std::size_t halves = 2 * n_panels;  // of panels
    const std::size_t n = x.cols / kGroup, n_pairs = (n + 1) / 2, n_units = (x.n_tokens + 15) / 16 * halves;
    const auto multiply = [&](std::size_t unit, std::size_t pair, Tile(&out)[2]) {
      const std::size_t t = unit / halves, h = unit % halves;
      TokenTile<shape>& tile = tiles[t / 2 % 2];
      if (pair == 0 && h == 0 && t % 2 == 0) {
        tile.fill(x, t * 16);
        ahead.fetch();
      }
      multiply_pair<kGroup>(tile.q + t % 2 * 16 * tile.q_stride + 2 * kGroup * pair, tile.q_stride,
                            &s.panel[h / 2].q[0][kGroup / 2 * pair][16 * (h % 2)], out);
    };
    std::size_t buffer = 0;
    multiply(0, 0, sums[0]);
    for (std::size_t unit = 0; unit < n_units; ++unit) {
      const std::size_t t = unit / halves, p = unit % halves / 2, h = unit % 2;
      Acc* const out = s.acc[p] + 16 * t;
      __m512 acc[16];
#pragma GCC unroll 16
      for (std::size_t i = 0; i < 16; ++i) acc[i] = _mm512_load_ps(out[i] + 16 * h);
      for (std::size_t pair = 0; pair < n_pairs; ++pair, buffer ^= 1) {
        if (pair + 1 < n_pairs)
          multiply(unit, pair + 1, sums[buffer ^ 1]);
        else if (unit + 1 < n_units)
          multiply(unit + 1, 0, sums[buffer ^ 1]);
        for (std::size_t b = 2 * pair; b < std::min(n, 2 * pair + 2); ++b)
          add_block<shape>(tiles[t / 2 % 2], t % 2 * 16, b, sums[buffer][b % 2], s.panel[p], h, acc);
      }
#pragma GCC unroll 16
      for (std::size_t i = 0; i < 16; ++i) _mm512_store_ps(out[i] + 16 * h, acc[i]);
    }
  }

  /// The sums of two groups of columns.
  template <std::size_t group>
  [[gnu::always_inline]] static void multiply_pair(const std::int8_t* q, std::size_t q_stride,
                                                   const std::uint8_t (*panel)[4], Tile (&sums)[2]) {
    constexpr std::size_t kStride = sizeof(Panel::q[0][0]);
    _tile_zero(0);
    _tile_loadd(4, q, q_stride);
    _tile_loadd(6, panel, kStride);
    _tile_dpbssd(0, 4, 6);
    _tile_zero(1);
    _tile_loadd(5, q + group, q_stride);
    _tile_loadd(7, panel + group / 4 * kGemmRows, kStride);
    _tile_dpbssd(1, 5, 7);
    _tile_stored(0, sums[0], sizeof sums[0][0]);
    _tile_stored(1, sums[1], sizeof sums[0][0]);
  }

  template <PanelShape shape>
  [[gnu::always_inline]] static void add_block(const TokenTile<shape>& x, std::size_t token, std::size_t b,
                                               const Tile& sums, const Panel& panel, std::size_t h,
                                               __m512 (&acc)[16]) {
    const __m512 d = _mm512_load_ps(panel.d[b] + 16 * h);
#pragma GCC unroll 16
    for (std::size_t t = 0; t < 16; ++t) {
      const __m512 scale = _mm512_mul_ps(d, _mm512_set1_ps(x.d[token + t][b]));
      acc[t] = _mm512_fmadd_ps(scale, _mm512_cvtepi32_ps(_mm512_load_si512(sums[t])), acc[t]);
      if constexpr (shape.mins != 0)
        acc[t] = _mm512_fmadd_ps(_mm512_load_ps(panel.m[b] + 16 * h), _mm512_set1_ps(x.d_sum[token + t][b]),
                                 acc[t]);
    }
  }
};

}  // namespace cria
