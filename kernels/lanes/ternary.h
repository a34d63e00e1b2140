// The ternary types in lanes.
#pragma once

#include "kernels/formats/ternary.h"
#include "kernels/lanes/k.h"

namespace cria {

template <class V>
struct LaneType<V, DType::TQ2_0> : LaneBlock256<V, BlockTQ2_0, 0> {
  static constexpr bool kBytewise = true;
  static constexpr int kZero = 1, kMax = 3;
  template <class F>
  CRIA_INLINE static void weights(typename V::RowPtr rows, std::size_t offset, F&& f) {
    two_bits<V>(rows, offset + offsetof(BlockTQ2_0, q),
                [&](int half, int j, auto w0, auto w1) CRIA_INLINE { f(4 * half + j, w0, w1); });
  }
};

/// A byte holds its trits as a fraction of 256: times three, the part above 256 is the next trit.
/// The bytes are kept less 128, which times three is again less 128 (modulo 256), so that signed
/// comparisons find the trit.
template <class V>
struct LaneType<V, DType::TQ1_0> : LaneBlock256<V, BlockTQ1_0, 0> {
  using Vec = typename V::Vec;
  static constexpr int kZero = 1, kMax = 2;
  template <class F>
  CRIA_INLINE static void weights(typename V::RowPtr rows, std::size_t offset, F&& f) {
    const Vec bias = V::splat8(0x80);
    const auto bytes = [&](std::size_t i) CRIA_INLINE {
      return V::bit_xor(V::load(rows, offset + offsetof(BlockTQ1_0, q) + i), bias);
    };
    Vec a = bytes(0), b = bytes(16), c = bytes(32);
    unroll<5>([&](auto n) CRIA_INLINE {
      f(n, trit(a), trit(b));
      a = thrice(a);
      b = thrice(b);
    });
    const Vec c1 = thrice(c), c2 = thrice(c1), c3 = thrice(c2), c4 = thrice(c3);
    f(5, trit(c), trit(c1));
    f(6, trit(c2), trit(c3));
    f(7, trit(c4), trit(V::bit_xor(last(rows, offset), bias)));
  }

 private:
  static Vec thrice(Vec v) { return V::add8(V::add8(v, v), v); }
  static Vec trit(Vec v) { return V::count_less(v, V::splat8(85 - 128), V::splat8(170 - 128)); }
  /// The four bytes qh times 1, 3, 9, 27.
  static Vec last(typename V::RowPtr rows, std::size_t offset) {
    static_assert(offsetof(BlockTQ1_0, qh) == sizeof(BlockTQ1_0) - 6);
    const Vec v = V::lookup(V::load(rows, offset + sizeof(BlockTQ1_0) - 16), V::same(&kQh)),
              low = V::splat16(0xFF);
    const Vec even = V::mul16(V::bit_and(v, low), V::same(&kPowers));
    const Vec odd = V::mul16(V::template shr16<8>(v), V::same(&kPowers));
    return V::bit_or(V::bit_and(even, low), V::template shl16<8>(odd));
  }
  static constexpr LaneConstant<std::uint8_t> kQh = {
      {10, 11, 12, 13, 10, 11, 12, 13, 10, 11, 12, 13, 10, 11, 12, 13}};
  static constexpr LaneConstant<std::uint16_t> kPowers = {{1, 1, 3, 3, 9, 9, 27, 27}};
};

}  // namespace cria
