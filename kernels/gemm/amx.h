// The GEMM micro-kernel of AMX: tiles of 16 tokens × 64 columns of activations, straight from
// memory, times tiles of 64 columns × 16 rows of the panel.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "kernels/gemm/amx_super.h"
#include "kernels/gemm/avx512.h"
#include "kernels/gemm/panel.h"
#include "kernels/simd/avx512.h"
#include "kernels/simd/namespace.h"
#include "kernels/simd/round.h"
#include "kernels/simd/row_lanes.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

// Types with a float scale for every 32 or 16 columns on AMX: 16 tokens × 16 rows, with
// accumulators in registers. While the tiles of one group of columns multiply, the sums of the
// previous group are stored, and the sums of the one before are added. This pipeline also runs
// across units.

/// The tokens' side of 32 tokens. Tokens beyond the end repeat the last one.
template <PanelShape shape>
struct AmxGroupTokens {
  const std::int8_t* q;
  std::size_t q_stride;
  float d[kAmxTokens][16];     ///< one for every group
  float d_sum[kAmxTokens][8];  ///< types with m: d * sum

  void fill(const TokenSlice& x, std::size_t first) {
    q = x.q + first * x.q_stride;
    q_stride = x.q_stride;
    for (std::size_t t = 0; t < kAmxTokens; ++t)
      fill_token(x, std::min(first + t, x.n_tokens - 1), t);
    if (first + kAmxTokens > x.n_tokens) pad(x, first);
  }

 private:
  void fill_token(const TokenSlice& x, std::size_t token, std::size_t t) {
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
      _mm256_storeu_ps(d_sum[t],
                       _mm256_mul_ps(scale, _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(sums))));
    }
  }
  void pad(const TokenSlice& x, std::size_t first) {
    for (std::size_t t = 0; t < kAmxTokens; ++t)
      std::memcpy(padded[t], x.q + std::min(first + t, x.n_tokens - 1) * x.q_stride, x.cols);
    q = padded[0];
    q_stride = sizeof padded[0];
    std::atomic_signal_fence(
        std::memory_order_seq_cst);  // GCC 12 does not know that tile loads read it
  }
  alignas(64) std::int8_t padded[kAmxTokens][kGemmCols];
};

template <PanelShape shape>
class AmxGroups {
 public:
  AmxGroups(const TokenSlice& x, GemmScratch& s, std::size_t n_panels, Ahead& ahead)
      : x_(x),
        s_(s),
        ahead_(ahead),
        per_tile_(4 * n_panels),
        n_units_((x.n_tokens + 15) / 16 * 2 * n_panels),
        n_(x.cols / kGroup),
        steps_((n_ + 3) / 4 * 4) {
    // An odd number of sixteen tokens: the last unit of a tile is computed but not used.
    n_units_ = round_up(n_units_, per_tile_);
  }

  void run() {
    begin(0);
    multiply<0>();
    multiply<1>();
    store<0>();
    for (std::size_t unit = 0; unit < n_units_; ++unit) {
      const Place at(unit, per_tile_);
      const Tokens& x = tokens_[at.tile % 2];
      AmxAcc* const out = s_.acc[at.panel] + at.tile * kAmxTokens + at.token;
      fetch(unit);
      __m512 acc[16];
      unroll<16>([&](int t) CRIA_INLINE { acc[t] = _mm512_load_ps(out[t] + at.row); });
      for (std::size_t b = 0; b < steps_; b += 4) {
        unroll<4>([&](auto j) CRIA_INLINE {
          multiply<(j + 2) % 4>();
          store<(j + 1) % 4>();
          if (b + j < n_) add(x, at, b + j, sums_[j], acc);
        });
      }
      unroll<16>([&](int t) CRIA_INLINE { _mm512_store_ps(out[t] + at.row, acc[t]); });
    }
  }

 private:
  using Tokens = AmxGroupTokens<shape>;
  static constexpr std::size_t kGroup = shape.group, kSumStride = sizeof(AmxTile) / 16;

  /// The work of a unit: both halves of a tile of tokens in turn, then the next sixteen rows.
  struct Place {
    std::size_t tile, panel, row, token;
    Place(std::size_t unit, std::size_t per_tile)
        : tile(unit / per_tile),
          panel(unit % per_tile / 4),
          row(unit % per_tile / 2 % 2 * 16),
          token(unit % 2 * 16) {}
  };

  /// The unit that is multiplied from now on.
  void begin(std::size_t unit) {
    next_unit_ = unit + 1;
    group_ = 0;
    const Place at(unit, per_tile_);
    Tokens& x = tokens_[at.tile % 2];
    if (unit % per_tile_ == 0) {
      x.fill(x_, at.tile * kAmxTokens);
      ahead_.fetch();
    }
    q_ = x.q + at.token * x.q_stride;
    q_stride_ = x.q_stride;
    panel_ = s_.panel[at.panel].q[0][0][at.row];
  }

  template <int tile>
  CRIA_INLINE void multiply() {
    if (group_ == steps_ && next_unit_ < n_units_) begin(next_unit_);
    const std::size_t b = std::min(group_++, n_ - 1);
    const std::int8_t* const q = q_ + b * kGroup;
    const std::uint8_t* const w = panel_ + b * (kGroup / 4 * sizeof(Panel::q[0][0]));
    constexpr std::size_t kStride = sizeof(Panel::q[0][0]);
    if constexpr (tile % 2 == 0) {
      _tile_loadd(4, q, q_stride_);
      _tile_loadd(6, w, kStride);
    } else {
      _tile_loadd(5, q, q_stride_);
      _tile_loadd(7, w, kStride);
    }
    if constexpr (tile == 0) {
      _tile_zero(0);
      _tile_dpbssd(0, 4, 6);
    } else if constexpr (tile == 1) {
      _tile_zero(1);
      _tile_dpbssd(1, 5, 7);
    } else if constexpr (tile == 2) {
      _tile_zero(2);
      _tile_dpbssd(2, 4, 6);
    } else {
      _tile_zero(3);
      _tile_dpbssd(3, 5, 7);
    }
  }

  template <int tile>
  CRIA_INLINE void store() {
    if constexpr (tile == 0) _tile_stored(0, sums_[0], kSumStride);
    if constexpr (tile == 1) _tile_stored(1, sums_[1], kSumStride);
    if constexpr (tile == 2) _tile_stored(2, sums_[2], kSumStride);
    if constexpr (tile == 3) _tile_stored(3, sums_[3], kSumStride);
  }

  CRIA_INLINE void add(const Tokens& x, const Place& at, std::size_t b, const AmxTile& sums,
                       __m512 (&acc)[16]) const {
    const Panel& panel = s_.panel[at.panel];
    const __m512 d = _mm512_load_ps(panel.d[b] + at.row);
    const float* const da = &x.d[at.token][b];
    unroll<16>([&](int t) CRIA_INLINE {
      const __m512 scale = _mm512_mul_ps(d, _mm512_set1_ps(da[t * 16]));
      acc[t] = _mm512_fmadd_ps(scale, _mm512_cvtepi32_ps(_mm512_load_si512(sums[t])), acc[t]);
    });
    if constexpr (shape.mins != 0) {
      const __m512 m = _mm512_load_ps(panel.m[b] + at.row);
      const float* const d_sum = &x.d_sum[at.token][b];
      unroll<16>([&](int t) CRIA_INLINE {
        acc[t] = _mm512_fmadd_ps(m, _mm512_set1_ps(d_sum[t * 8]), acc[t]);
      });
    }
  }

  /// A part of the next tile of tokens.
  CRIA_INLINE void fetch(std::size_t unit) const {
    const std::size_t first = (unit / per_tile_ + 1) * kAmxTokens, part = kAmxTokens / per_tile_;
    for (std::size_t i = 0; i < part; ++i) {
      const std::int8_t* const q = x_.q + (first + unit % per_tile_ * part + i) * x_.q_stride;
      for (std::size_t c = 0; c < kGemmCols; c += 64) __builtin_prefetch(q + c, 0, 3);
    }
  }

  const TokenSlice& x_;
  GemmScratch& s_;
  Ahead& ahead_;
  std::size_t per_tile_, n_units_, n_, steps_;
  std::size_t next_unit_ = 0, group_ = 0, q_stride_ = 0;
  const std::int8_t* q_ = nullptr;
  const std::uint8_t* panel_ = nullptr;
  alignas(64) AmxTile sums_[4];
  Tokens tokens_[2];
};

template <>
struct RowLanes<Amx> : RowLanes<Avx512> {};

template <>
struct GemmKernel<Amx> {
  using Wide = GemmKernel<Avx512>;
  static constexpr std::size_t kTokens = kAmxTokens;
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
    return r.max - r.min <= 255 ? PanelBytes::Scaled : PanelBytes::TwoBytes;
  }
  static constexpr int scaled_zero(const DecodeTraits& t) {
    return std::min(0, 127 - scaled_range(t).max);
  }

  static void transpose(__m512i (&v)[4]) { Wide::transpose(v); }
  static void store(void* p, __m512i v) { Wide::store(p, v); }
  /// Pair c of the 16 or 8 mins, each as two bfloat16, for the two digits of a sum.
  template <int n>
  static void store_mins(Panel& panel, std::size_t c, std::size_t lane, __m512i pair) {
    const __m512i mins[2] = {_mm512_srai_epi32(_mm512_slli_epi32(pair, 16), 16),
                             _mm512_srai_epi32(pair, 16)};
    for (std::size_t i = 0; i < 2; ++i) {
      const __m512i bits = _mm512_castps_si512(_mm512_cvtepi32_ps(mins[i]));
      store(panel.min[2 * c + i] + lane, _mm512_or_si512(bits, _mm512_srli_epi32(bits, 16)));
      if constexpr (n == 8) store(panel.min[2 * c + i + 8] + lane, _mm512_setzero_si512());
    }
  }

  template <PanelShape shape>
  static void run(const TokenSlice& x, GemmScratch& s, std::size_t n_panels, Ahead ahead) {
    // GCC 12 does not know that tile loads read the panel.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if constexpr (shape.groups())
      AmxGroups<shape>(x, s, n_panels, ahead).run();
    else
      AmxSuper<shape>(x, s, n_panels).run(ahead);
  }
};

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
