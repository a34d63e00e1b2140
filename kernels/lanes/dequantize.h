// Blocks to values by vectors: eight blocks at a time are decoded in lanes, as rows are for a GEMV.
#pragma once

#include <algorithm>
#include <cstring>

#include "kernels/formats/formats.h"
#include "kernels/kernels.h"
#include "kernels/lanes/iq.h"
#include "kernels/simd/isa.h"
#include "kernels/simd/namespace.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

template <class V, DType type>
class Dequantizer {
  using F = Format<type>;
  using W = LaneType<V, type>;
  using Vec = typename V::Vec;
  static constexpr std::size_t kValues = F::kBlockValues, kSixteens = kValues / 16,
                               kGroups = kValues / F::kGroupValues,
                               kVecs = W::kScales == 16 ? 2 : 1;
  static constexpr bool kMin = F::kTraits.has_min;

 public:
  /// DTypeInfo::dequantize of the type.
  static void run(const std::byte* row, float* out, std::size_t n) {
    float row_d = 0;
    if constexpr (kHeaderBytes<type> != 0) row_d = load_block<typename F::Header>(row).scale();
    const std::byte* const blocks = row + kHeaderBytes<type>;
    Dequantizer decoded;
    for (std::size_t b = 0, n_blocks = n / kValues; b < n_blocks; b += kRowGroup) {
      const std::size_t here = std::min(kRowGroup, n_blocks - b);
      const std::byte* at[kRowGroup];
      for (std::size_t r = 0; r < kRowGroup; ++r)
        at[r] = blocks + (b + std::min(r, here - 1)) * W::kBytes;
      decoded.decode(at, row_d);
      for (std::size_t r = 0; r < here; ++r, out += kValues) decoded.write(r, out);
    }
  }

 private:
  /// Block r is lane r / V::kPacks of vector r % V::kPacks.
  void decode(typename V::RowPtr blocks, float row_d) {
    for (std::size_t k = 0; k < V::kPacks; ++k) {
      W::weights(blocks + k, 0, [&](int j, Vec w0, Vec w1) {
        std::memcpy(q_[k][2 * j], &w0, sizeof w0);
        std::memcpy(q_[k][2 * j + 1], &w1, sizeof w1);
      });
      if constexpr (W::kScales != 0) {
        Vec s[kVecs];
        W::scales(blocks + k, 0, s);
        std::memcpy(scale_[k], s, sizeof s);
        if constexpr (kMin) W::mins(blocks + k, 0, s);
        if constexpr (kMin) std::memcpy(min_[k], s, sizeof s);
      }
    }
    if constexpr (kHeaderBytes<type> != 0) {
      std::fill_n(d_[0], kGroups * kRowGroup, row_d);
    } else {
      typename V::Float8 d[kGroups];
      block_scales<V, W>(blocks, 0, d);
      for (std::size_t i = 0; i < kGroups; ++i) V::store(d_[i], d[i]);
    }
    if constexpr (kMin && W::kSuper) V::store(m_, W::dmin(blocks, 0));
    if constexpr (kMin && !W::kSuper) V::store(m_, W::offset_of(blocks, 0));
  }

  /// The values of block r, rounded as dtype.cpp rounds them.
  void write(std::size_t r, float* out) const {
    const std::size_t k = r % V::kPacks, lane = r / V::kPacks;
    for (std::size_t j = 0; j < kSixteens; ++j, out += 16) {
      float scale = d_[j * kGroups / kSixteens][r], more = 0;
      if constexpr (kMin) more = m_[r];
      if constexpr (W::kSuper && W::kScales != 0) {
        const std::size_t s = j * W::kScales / 16;
        scale *= scale_[k][s / 8][lane][s % 8];
        if constexpr (kMin) more *= min_[k][s / 8][lane][s % 8];
      }
      std::uint8_t bytes[16];  // a copy, which `out` cannot overlap: this loop vectorizes
      std::memcpy(bytes, q_[k][j][lane], sizeof bytes);
      float values[16];
      for (int i = 0; i < 16; ++i) {
        const int q =
            W::kFull && V::kBias == 0 ? static_cast<std::int8_t>(bytes[i]) : bytes[i] - W::kZero;
        values[i] = scale * static_cast<float>(q);
        if constexpr (kMin) values[i] = W::kSuper ? values[i] - more : values[i] + more;
      }
      std::memcpy(out, values, sizeof values);
    }
  }

  alignas(64) std::uint8_t q_[V::kPacks][kSixteens][V::kLanes][16];
  alignas(64) std::int16_t scale_[V::kPacks][kVecs][V::kLanes][8],
      min_[V::kPacks][kVecs][V::kLanes][8];
  alignas(64) float d_[kGroups][kRowGroup], m_[kRowGroup];
};

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria

namespace cria {

/// KernelSet::dequantize of an instruction set.
template <class Isa>
DequantizeFn dequantizer(DType type) {
  return with_dtype(type, [](auto t) -> DequantizeFn {
    if constexpr (is_integer(Format<t>::kClass) && !std::is_same_v<Isa, ScalarIsa>)
      return Dequantizer<RowLanes<Isa>, t>::run;
    else
      return dtype_info(t).dequantize;
  });
}

}  // namespace cria
