// Q4_0 and Q5_0: 32 weights d·q with q from -half to half - 1.
#pragma once

#include "kernels/encode_lanes.h"

namespace cria {

/// The search for d, sixteen blocks in lanes. A start puts the weight of the largest magnitude at a place
/// ("steps") on the grid, of either sign and a little inside or outside of it; its codes give the d of least
/// squares. The best of them, once more rounded and fitted, is the answer.
template <class Isa, int bits, bool weighted>
class Symmetric32 {
  using V = F32x16<Isa>;
  static constexpr int kHalf = 1 << (bits - 1);
  static constexpr std::size_t kValues = 32;

 public:
  Symmetric32(const float* x, const float* importance, std::size_t n_blocks)
      : block_(x, importance, n_blocks) {
    const V peak = find_peak(), inverse = inverse_or_0(peak);
    for (int i = 0; i < 8; ++i) {
      const float beyond = -0.6F + 0.25F * static_cast<float>(i);
      consider(V::broadcast(-static_cast<float>(kHalf) - beyond) * inverse);
      consider(V::broadcast(static_cast<float>(kHalf) - 1 + beyond) * inverse);
    }
    consider(inverse_or_0(d_));
    d_ = to_f16_and_back(d_);
    factor_ = inverse_or_0(d_);
  }
  [[nodiscard]] V d() const { return d_; }
  /// q + half, so from 0 on.
  [[gnu::always_inline]] V code(std::size_t i) const {
    return quantized(block_.x(i), factor_) + V::broadcast(static_cast<float>(kHalf));
  }

 private:
  [[gnu::always_inline]] static V quantized(const V& x, const V& factor) {
    const V top = V::broadcast(static_cast<float>(kHalf) - 1),
            bottom = V::broadcast(static_cast<float>(-kHalf));
    return max(min(round(x * factor), top), bottom);
  }
  V find_peak() const {
    V peak = block_.x(0);
    for (std::size_t i = 1; i < kValues; ++i)
      peak = select_less(abs(peak), abs(block_.x(i)), block_.x(i), peak);
    return peak;
  }
  /// Codes x·factor, fits d and keeps it if it leaves less error: Σw(x - d·q)² = Σwx² - (Σwxq)²/Σwq².
  void consider(const V& factor) {
    V xq = V::broadcast(0), qq = V::broadcast(0);
    for (std::size_t i = 0; i < kValues; ++i) {
      const V x = block_.x(i), q = quantized(x, factor), wq = block_.weigh(i, q);
      xq = fma(x, wq, xq);
      qq = fma(q, wq, qq);
    }
    const V d = xq / qq, gain = xq * d;  // NaN where all codes are 0: no gain
    d_ = select_less(gain_, gain, d, d_);
    gain_ = select_less(gain_, gain, gain, gain_);
  }

  BlockLanes<Isa, kValues, weighted> block_;
  V d_ = V::broadcast(0), gain_ = V::broadcast(0), factor_;
};

template <class Isa, class Block, int bits, bool weighted>
void encode_symmetric32(const float* x, const float* importance, std::size_t n_blocks, std::byte* out) {
  const Symmetric32<Isa, bits, weighted> found(x, importance, n_blocks);
  using V = F32x16<Isa>;
  ByteLanes<Isa, 16> lo;
  for (std::size_t i = 0; i < 16; ++i) lo.set(i, fma(found.code(i + 16), V::broadcast(16), found.code(i)));
  std::byte d[2 * kFloatLanes];
  found.d().store_f16(d);
  for (std::size_t b = 0; b < n_blocks; ++b) {
    Block block;
    __builtin_memcpy(&block.d, d + 2 * b, 2);
    lo.copy(b, 0, 16, block.lo);
    __builtin_memcpy(out + b * sizeof block, &block, sizeof block);
  }
}

/// EncodeFn of Q4_0.
template <class Isa, class Block, int bits>
void encode_symmetric32(const float* x, const float* importance, std::size_t n, std::byte* blocks) {
  each_batch<Block, 32, kFloatLanes>(
      x, importance, n, blocks, [](const float* some, const float* w, std::size_t n_blocks, std::byte* out) {
        if (w == nullptr)
          encode_symmetric32<Isa, Block, bits, false>(some, w, n_blocks, out);
        else
          encode_symmetric32<Isa, Block, bits, true>(some, w, n_blocks, out);
      });
}

}  // namespace cria
