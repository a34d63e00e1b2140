// What values a code can stand for, before its scale: the grids that encoders round to.
#pragma once

#include "kernels/formats/fp4.h"
#include "kernels/formats/iq_tables.h"
#include "kernels/simd/f32x16.h"

namespace cria {

/// The integers lo … hi.
template <class Isa, int lo, int hi>
struct IntegerGrid {
  using V = F32x16<Isa>;
  static constexpr float kBottom = lo, kTop = hi;

  /// The nearest value.
  [[gnu::always_inline]] static V nearest(const V& x) {
    return max(min(round(x), V::broadcast(kTop)), V::broadcast(kBottom));
  }
  /// Its code, from 0.
  [[gnu::always_inline]] static V code(const V& x) { return nearest(x) - V::broadcast(kBottom); }
};

/// The sixteen values of IQ4_NL and IQ4_XS, or those plus a number.
template <class Isa, int shift = 0>
struct Iq4Grid {
  using V = F32x16<Isa>;
  static constexpr float kBottom = kIq4Values[0] + shift, kTop = kIq4Values[15] + shift;

  [[gnu::always_inline]] static V nearest(const V& x) {
    V value = V::broadcast(kBottom);
    CRIA_UNROLL
    for (std::size_t i = 1; i < 16; ++i)
      value = select_less(V::broadcast(middle(i)), x, V::broadcast(kIq4Values[i] + shift), value);
    return value;
  }
  [[gnu::always_inline]] static V code(const V& x) {
    V code = V::broadcast(0);
    CRIA_UNROLL
    for (std::size_t i = 1; i < 16; ++i)
      code = select_less(V::broadcast(middle(i)), x, V::broadcast(static_cast<float>(i)), code);
    return code;
  }

 private:
  static constexpr float middle(std::size_t i) {
    return (static_cast<float>(kIq4Values[i - 1]) + static_cast<float>(kIq4Values[i])) / 2 + shift;
  }
};

/// Twice the numbers of E2M1: 0, 1, 2, 3, 4, 6, 8, 12 and their negatives.
template <class Isa>
struct E2m1Grid {
  using V = F32x16<Isa>;
  static constexpr float kBottom = -12, kTop = 12;

  [[gnu::always_inline]] static V nearest(const V& x) {
    const V size = abs(x);
    V value = V::broadcast(0);
    CRIA_UNROLL
    for (std::size_t i = 1; i < 8; ++i)
      value = select_less(V::broadcast(middle(i)), size, V::broadcast(kTwiceE2m1[i]), value);
    return select_less(x, V::broadcast(0), V::broadcast(0) - value, value);
  }
  /// Its nibble.
  [[gnu::always_inline]] static V code(const V& x) {
    const V size = abs(x);
    V code = V::broadcast(0);
    CRIA_UNROLL
    for (std::size_t i = 1; i < 8; ++i)
      code = select_less(V::broadcast(middle(i)), size, V::broadcast(static_cast<float>(i)), code);
    const V sign = select_less(V::broadcast(0), code, V::broadcast(8), V::broadcast(0));
    return select_less(x, V::broadcast(0), code + sign, code);
  }

 private:
  static constexpr float middle(std::size_t i) {
    return (static_cast<float>(kTwiceE2m1[i - 1]) + static_cast<float>(kTwiceE2m1[i])) / 2;
  }
};

}  // namespace cria
