// Tiles of AMX, and the K types on them.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>

#include "kernels/gemm/panel.h"
#include "kernels/simd/namespace.h"
#include "kernels/simd/round.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

// Tiles of AMX: how they are configured, and what they hold.

/// Operand of ldtilecfg. Tiles 0–3 are sums; 4 and 5 hold activations, 6 and 7 weights; K types use
/// 5 as a sum, too. A group of 32 or 16 columns fills half or a quarter of a tile. They are
/// constants, since GCC 12 does not know how much the instruction reads.
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

/// A tile's sums in memory: tokens × rows of weights.
using AmxTile = std::int32_t[16][16];
/// Accumulators of a token and a panel.
using AmxAcc = float[kGemmRows];

/// The tokens that share one reading of a panel's tiles.
inline constexpr std::size_t kAmxTokens = 32;

template <PanelShape shape>
class AmxSuper {
 public:
  AmxSuper(const TokenSlice& x, GemmScratch& s, std::size_t n_panels)
      : x_(x), s_(s), n_panels_(n_panels), n_tiles_(divide_up(x.n_tokens, kAmxTokens)) {
    for (std::size_t t = 0; t < n_tiles_ * kAmxTokens; t += 2) fill(t);
    const std::size_t first = (n_tiles_ - 1) * kAmxTokens;
    if (first + kAmxTokens > x.n_tokens) {
      for (std::size_t t = 0; t < kAmxTokens; ++t)
        std::memcpy(padded_[t], x.q + std::min(first + t, x.n_tokens - 1) * x.q_stride, kGemmCols);
    }
    // GCC 12 does not know that tile loads read these, nor the panels.
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }

  void run(Ahead& ahead) {
    // Panels that are read again for each tile of tokens stay in L1, together with the tokens and
    // the sums.
    constexpr std::size_t kAtOnce = kDigits ? 1 : 2;
    Unit before{};
    for (std::size_t p = 0; p < n_panels_; p += kAtOnce) {
      const std::size_t n = std::min(kAtOnce, n_panels_ - p), units = n * kHalves;
      for (std::size_t t = 0; t < n_tiles_; ++t) {
        if (p + n == n_panels_) ahead.fetch();
        for (std::size_t u = 0; u < units; ++u) {
          const std::size_t panel = p + u / kHalves;
          const Unit now{.q = q_of(t),
                         .q_stride = stride_of(t),
                         .next = x_.q + (t + 1 < n_tiles_ ? t + 1 : 0) * kAmxTokens * x_.q_stride +
                                 kAmxTokens * u / units * x_.q_stride,
                         .prefetches = p == 0 ? kAmxTokens / 4 / units : 0,
                         .panel = &s_.panel[panel],
                         .half = u % kHalves,
                         .token = t * kAmxTokens,
                         .acc = s_.acc[panel] + t * kAmxTokens};
          if (before.panel != nullptr)
            multiply<true>(now, before);
          else
            multiply<false>(now, before);
          before = now;
        }
      }
    }
    _tile_stored(2, sums_[2], sizeof sums_[0][0]);
    _tile_stored(3, sums_[3], sizeof sums_[0][0]);
    for (std::size_t quarter = 0; quarter < 4; ++quarter) finish(before, quarter);
  }

 private:
  static constexpr bool kDigits = shape.bytes == PanelBytes::TwoBytes;
  static constexpr std::size_t kHalves = kDigits ? 2 : 1;  ///< units of a panel
  static constexpr std::size_t kMinTiles = kDigits ? 1 : 2;
  static constexpr std::size_t kStride = sizeof(Panel::q[0][0]), kSumStride = sizeof(AmxTile) / 16;

  struct Unit {
    const std::int8_t* q;
    std::size_t q_stride;
    const std::int8_t* next;  ///< tokens of the next tile, prefetched
    std::size_t prefetches;   ///< how many of them in each step
    const Panel* panel;
    std::size_t half, token;
    AmxAcc* acc;
  };

  const std::int8_t* q_of(std::size_t t) const {
    return in_place(t) ? x_.q + t * kAmxTokens * x_.q_stride : padded_[0];
  }
  std::size_t stride_of(std::size_t t) const {
    return in_place(t) ? x_.q_stride : sizeof padded_[0];
  }
  bool in_place(std::size_t t) const { return (t + 1) * kAmxTokens <= x_.n_tokens; }

  /// Fills scales and sums of two tokens, in places t and t + 1.
  void fill(std::size_t t) {
    const std::size_t last = x_.n_tokens - 1, token[2] = {std::min(t, last), std::min(t + 1, last)};
    const __m256i* sums[2];
    for (std::size_t i = 0; i < 2; ++i) {
      d_[t + i] = x_.d[token[i] * x_.d_stride];
      sums[i] = reinterpret_cast<const __m256i*>(x_.sum + token[i] * x_.sum_stride);
    }
    const __m512i both = _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_loadu_si256(sums[0])),
                                            _mm256_loadu_si256(sums[1]), 1);
    if constexpr (shape.zero != 0) {
      const __m512i pairs =
          _mm512_madd_epi16(both, _mm512_set1_epi16(static_cast<short>(-shape.zero)));
      start_[t] = _mm512_mask_reduce_add_epi32(0x00FF, pairs);
      start_[t + 1] = _mm512_mask_reduce_add_epi32(0xFF00, pairs);
    }
    if constexpr (shape.mins == 8) {
      const __m512i pairs = digits<31>(_mm512_madd_epi16(both, _mm512_set1_epi16(1)));
      _mm512_store_si512(digits_[t], _mm512_zextsi256_si512(_mm512_castsi512_si256(pairs)));
      _mm512_store_si512(digits_[t + 1],
                         _mm512_zextsi256_si512(_mm512_extracti64x4_epi64(pairs, 1)));
    } else if constexpr (shape.mins == 16) {
      for (std::size_t i = 0; i < 2; ++i)
        _mm512_store_si512(digits_[t + i],
                           digits<15>(_mm512_cvtepi16_epi32(_mm256_loadu_si256(sums[i]))));
    }
  }
  /// Sums as two bfloat16 each: what is below a power of two, and the rest; low: that power less
  /// one.
  template <int low>
  static __m512i digits(__m512i sums) {
    const __m512i rest = _mm512_and_si512(sums, _mm512_set1_epi32(low));
    const __m512i low_bits = _mm512_castps_si512(_mm512_cvtepi32_ps(rest));
    const __m512i high_bits = _mm512_castps_si512(_mm512_cvtepi32_ps(_mm512_sub_epi32(sums, rest)));
    return _mm512_or_si512(high_bits, _mm512_srli_epi32(low_bits, 16));
  }

  /// Tile 2i + j has the tokens from 16i on, and half j of the rows or digit j.
  template <bool has_before>
  [[gnu::always_inline]] void multiply(const Unit& u, const Unit& before) {
    const auto* const w0 = &u.panel->q[0][0][16 * u.half];
    const auto* const w1 = kDigits ? &u.panel->q[1][0][16 * u.half] : &u.panel->q[0][0][16];
    const std::int8_t* const q0 = u.q;
    const std::int8_t* const q1 = u.q + 16 * u.q_stride;
    const auto between = [&](std::size_t step) {
      fetch(u, step);
      if constexpr (has_before) finish(before, step);
    };
    constexpr std::size_t kRows = 16 * kGemmRows;  // panel rows (of four columns) in 64 columns

    _tile_loadd(4, q0, u.q_stride);
    _tile_loadd(6, w0, kStride);
    _tile_zero(0);
    _tile_dpbssd(0, 4, 6);
    if constexpr (has_before) _tile_stored(2, sums_[2], kSumStride);
    _tile_loadd(7, w1, kStride);
    _tile_zero(1);
    _tile_dpbssd(1, 4, 7);
    if constexpr (has_before) _tile_stored(3, sums_[3], kSumStride);
    _tile_loadd(4, q1, u.q_stride);
    _tile_zero(2);
    _tile_dpbssd(2, 4, 6);
    _tile_zero(3);
    _tile_dpbssd(3, 4, 7);
    between(0);

    step(q0 + 64, q1 + 64, u.q_stride, w0 + kRows, w1 + kRows);
    between(1);

    begin_mins(u, 0, 0);
    step(q0 + 128, q1 + 128, u.q_stride, w0 + 2 * kRows, w1 + 2 * kRows);
    end_mins(0, 0);
    if constexpr (kMinTiles == 2) begin_mins(u, 0, 1);
    between(2);

    _tile_loadd(4, q0 + 192, u.q_stride);
    _tile_loadd(6, w0 + 3 * kRows, kStride);
    _tile_dpbssd(0, 4, 6);
    if constexpr (kMinTiles == 2) end_mins(0, 1);
    _tile_loadd(7, w1 + 3 * kRows, kStride);
    _tile_dpbssd(1, 4, 7);
    _tile_loadd(4, q1 + 192, u.q_stride);
    _tile_dpbssd(2, 4, 6);
    _tile_stored(0, sums_[0], kSumStride);
    _tile_dpbssd(3, 4, 7);
    begin_mins(u, 1, 0);
    _tile_stored(1, sums_[1], kSumStride);
    between(3);
    end_mins(1, 0);
    if constexpr (kMinTiles == 2) {
      begin_mins(u, 1, 1);
      end_mins(1, 1);
    }
  }

  [[gnu::always_inline]] static void step(const std::int8_t* q0, const std::int8_t* q1,
                                          std::size_t q_stride, const void* w0, const void* w1) {
    _tile_loadd(4, q0, q_stride);
    _tile_loadd(6, w0, kStride);
    _tile_dpbssd(0, 4, 6);
    _tile_loadd(7, w1, kStride);
    _tile_dpbssd(1, 4, 7);
    _tile_loadd(4, q1, q_stride);
    _tile_dpbssd(2, 4, 6);
    _tile_dpbssd(3, 4, 7);
  }

  /// The mins' product of tile 2i + j, in tile 5.
  [[gnu::always_inline]] void begin_mins(const Unit& u, std::size_t i, std::size_t j) {
    if constexpr (shape.mins != 0) {
      _tile_loadd(4, digits_[u.token + 16 * i], sizeof digits_[0]);
      _tile_loadd(6, u.panel->min[0] + 16 * (kDigits ? u.half : j), sizeof u.panel->min[0]);
      _tile_zero(5);
      _tile_dpbf16ps(5, 4, 6);
    }
  }
  [[gnu::always_inline]] void end_mins(std::size_t i, std::size_t j) {
    if constexpr (shape.mins != 0) _tile_stored(5, mins_[kMinTiles * i + j], kSumStride);
  }

  [[gnu::always_inline]] void fetch(const Unit& u, std::size_t step) const {
    for (std::size_t i = 0; i < u.prefetches; ++i) {
      const std::int8_t* const line = u.next + (step * u.prefetches + i) * x_.q_stride;
      for (std::size_t c = 0; c < kGemmCols; c += 64) __builtin_prefetch(line + c, 0, 3);
    }
  }

  /// Adds a quarter of a unit's sums to the accumulators.
  [[gnu::always_inline]] void finish(const Unit& u, std::size_t quarter) const {
    for (std::size_t j = 0; j < kMinTiles; ++j) {
      const std::size_t h = 16 * (kDigits ? u.half : j), tile = quarter / 2;
      const __m512 d = _mm512_load_ps(u.panel->d[0] + h), dmin = _mm512_load_ps(u.panel->m[0] + h);
#pragma GCC unroll 8
      for (std::size_t i = 0; i < 8; ++i) {
        const std::size_t row = quarter % 2 * 8 + i, t = 16 * tile + row;
        __m512i isum = _mm512_load_si512(sums_[2 * tile + (kDigits ? 0 : j)][row]);
        if constexpr (kDigits)
          isum = _mm512_add_epi32(_mm512_slli_epi32(_mm512_load_si512(sums_[2 * tile + 1][row]), 8),
                                  isum);
        if constexpr (shape.zero != 0)
          isum = _mm512_add_epi32(isum, _mm512_set1_epi32(start_[u.token + t]));
        const __m512 da = _mm512_set1_ps(d_[u.token + t]);
        float* const to = u.acc[t] + h;
        __m512 sum =
            _mm512_fmadd_ps(_mm512_mul_ps(d, da), _mm512_cvtepi32_ps(isum), _mm512_load_ps(to));
        if constexpr (shape.mins != 0)
          sum = _mm512_fnmadd_ps(_mm512_mul_ps(dmin, da),
                                 _mm512_load_ps(mins_[kMinTiles * tile + j][row]), sum);
        _mm512_store_ps(to, sum);
      }
    }
  }

  static constexpr std::size_t kMost = kGemmTokens + kAmxTokens;
  const TokenSlice& x_;
  GemmScratch& s_;
  std::size_t n_panels_, n_tiles_;
  alignas(64) AmxTile sums_[4];
  float mins_[2 * kMinTiles][16][16];
  float d_[kMost];
  std::int32_t start_[shape.zero != 0 ? kMost : 1];  ///< initial sums
  /// Types with mins: sums of 32 or 16 columns as two bfloat16.
  alignas(64) std::uint32_t digits_[shape.mins != 0 ? kMost : 1][16];
  alignas(64) std::int8_t padded_[kAmxTokens][kGemmCols];
};

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
