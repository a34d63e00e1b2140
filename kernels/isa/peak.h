// The machine's own limits in the instructions that the kernels use: loops out of registers, and a
// streaming read. `cria bench --roofline` and bench/ time them; the kernels are held against them.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <xsimd/xsimd.hpp>

#include "kernels/kernels.h"
#include "kernels/simd/float_convert.h"
#include "kernels/simd/isa.h"
#include "kernels/simd/namespace.h"
#include "kernels/simd/row_lanes.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

/// Independent accumulators: enough to hide the latency, few enough for 16 registers.
inline constexpr int kPeakChains = 12;

/// int8 multiply-adds per instruction group of an instruction set; specialised below.
template <class Isa>
struct DotUnit;

#if defined(__AVX512VNNI__)
template <>
struct DotUnit<Avx512> {
  using Acc = __m512i;
  static constexpr int kMacs = 64;
  static Acc zero() { return _mm512_setzero_si512(); }
  static Acc step(Acc acc, Acc a) { return _mm512_dpbusd_epi32(acc, a, a); }
};
#elif defined(__AVXVNNI__)
template <>
struct DotUnit<AvxVnni> {
  using Acc = __m256i;
  static constexpr int kMacs = 32;
  static Acc zero() { return _mm256_setzero_si256(); }
  static Acc step(Acc acc, Acc a) { return _mm256_dpbusd_avx_epi32(acc, a, a); }
};
#elif defined(__AVX2__)
template <>
struct DotUnit<Avx2> {
  using Acc = __m256i;
  static constexpr int kMacs = 32;
  static Acc zero() { return _mm256_setzero_si256(); }
  static Acc step(Acc acc, Acc a) {
    return _mm256_add_epi32(acc, _mm256_madd_epi16(_mm256_maddubs_epi16(a, a), a));
  }
};
#elif defined(__ARM_FEATURE_DOTPROD)
template <>
struct DotUnit<Neon> {
  using Acc = int32x4_t;
  static constexpr int kMacs = 16;
  static Acc zero() { return vdupq_n_s32(0); }
  static Acc step(Acc acc, Acc a) {
    return vdotq_s32(acc, vreinterpretq_s8_s32(a), vreinterpretq_s8_s32(a));
  }
};
#endif

/// Runs the int8 dot loop; returns the multiply-adds done.
template <class Isa>
std::uint64_t int8_peak(std::uint64_t rounds) {
  using Unit = DotUnit<Isa>;
  typename Unit::Acc acc[kPeakChains];
  unroll<kPeakChains>([&](int c) CRIA_INLINE { acc[c] = Unit::zero(); });
  auto operand = Unit::zero();
  for (std::uint64_t i = 0; i < rounds; ++i) {
    unroll<kPeakChains>([&](int c) CRIA_INLINE {
      pin(operand);  // else its products are the same every time
      acc[c] = Unit::step(acc[c], operand);
      pin(acc[c]);  // one chain after the other: GCC would begin them all and spill
    });
  }
  return rounds * kPeakChains * Unit::kMacs;
}

/// Runs a loop of fused multiply-adds of the float lanes of Ops, macs_per_lane each; returns
/// their number.
template <class Isa, class Ops = FloatOps<Isa>, int macs_per_lane = 1>
std::uint64_t float_peak(std::uint64_t rounds) {
  using Batch = xsimd::batch<float, typename Isa::Arch>;
  Batch acc[kPeakChains];
  unroll<kPeakChains>([&](int c) CRIA_INLINE { acc[c] = Batch(0.F); });
  auto operand = Batch(0.F).data;
  for (std::uint64_t i = 0; i < rounds; ++i) {
    pin(operand);
    unroll<kPeakChains>([&](int c) CRIA_INLINE {
      acc[c] = Ops::fma(Batch(operand), Batch(operand), acc[c]);
      pin(acc[c].data);
    });
  }
  return rounds * kPeakChains * Batch::size * macs_per_lane;
}

/// Reads bytes (64-byte aligned, a multiple of 4096 long) once, as a streaming kernel does: four
/// lines at a time, prefetched ahead.
template <class Isa>
void read_peak(const std::byte* bytes, std::size_t n) {
  using Batch = xsimd::batch<std::uint8_t, typename Isa::Arch>;
  constexpr std::size_t kStep = 256, kAhead = 4096;
  Batch acc[4] = {Batch(std::uint8_t{0}), Batch(std::uint8_t{0}), Batch(std::uint8_t{0}),
                  Batch(std::uint8_t{0})};
  for (std::size_t i = 0; i < n; i += kStep) {
    for (std::size_t line = 0; line < kStep; line += 64)
      __builtin_prefetch(bytes + i + line + kAhead);
    for (std::size_t j = 0; j < kStep; j += Batch::size)
      acc[j / Batch::size % 4] =
          acc[j / Batch::size % 4] ^
          Batch::load_aligned(reinterpret_cast<const std::uint8_t*>(bytes + i + j));
  }
  for (auto& a : acc) pin(a.data);
}

/// Reads n bytes (except up to a few thousand at the end), n >= kMinOfStreams, as eight streams
/// that hardware prefetchers follow, like the GEMV in PrefetchMode::Streams. Distances of streams
/// are not multiples of a page, or they would evict each other from the caches.
template <class Isa>
void read_streams_peak(const std::byte* bytes, std::size_t n) {
  using Batch = xsimd::batch<std::uint8_t, typename Isa::Arch>;
  constexpr std::size_t kStreams = 8, kLine = 64, kPage = 4096;
  static_assert(kMinOfStreams == kStreams * kPage);
  assert(n >= kMinOfStreams);
  const std::size_t apart = n / kMinOfStreams * kPage - kPage / kStreams;
  Batch acc[kStreams];
  for (auto& a : acc) a = Batch(std::uint8_t{0});
  for (std::size_t i = 0; i < apart; i += kLine) {
    unroll<kStreams>([&](int s) CRIA_INLINE {
      const std::byte* const line = bytes + s * apart + i;
      for (std::size_t j = 0; j < kLine; j += Batch::size)
        acc[s] = acc[s] ^ Batch::load_aligned(reinterpret_cast<const std::uint8_t*>(line + j));
    });
  }
  for (auto& a : acc) pin(a.data);
}

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
