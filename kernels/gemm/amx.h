// The GEMM micro-kernel of AMX: tiles of 16 tokens × 64 columns of activations, straight from
// memory, times tiles of 64 columns × 16 rows of the panel.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <atomic>

#include "kernels/gemm/amx_groups.h"
#include "kernels/gemm/amx_super.h"
#include "kernels/gemm/amx_tiles.h"
#include "kernels/gemm/avx512.h"
#include "kernels/simd/avx512.h"

namespace cria {

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
    return r.max - r.min <= 255 ? PanelBytes::Scaled : PanelBytes::Digits;
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

}  // namespace cria
