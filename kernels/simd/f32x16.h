// Sixteen float lanes, the unit in which every float kernel is written: one AVX-512 register, two
// AVX2, four NEON, or sixteen floats. Lane i is lane i everywhere and sums over lanes are one fixed
// tree, so the bits do not depend on the instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/simd/float_convert.h"
#include "kernels/simd/namespace.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

inline constexpr std::size_t kFloatLanes = 16;

/// Storage types that F32x16::load_as reads.
enum class Stored : std::uint8_t { F32, F16 };
constexpr std::size_t stored_bytes(Stored type) { return type == Stored::F32 ? 4 : 2; }

template <class Isa>
struct F32x16 {
  using Ops = FloatOps<Isa>;
  static_assert(IsFloatOps<Ops>);
  using Batch = typename Ops::Batch;
  static constexpr std::size_t kParts = kFloatLanes / Ops::kSize;

  Batch part[kParts];

  [[gnu::always_inline]] static F32x16 broadcast(float x) {
    return each([&](std::size_t) { return Ops::broadcast(x); });
  }
  [[gnu::always_inline]] static F32x16 load(const float* p) {
    return each([&](std::size_t i) { return Ops::load(p + i * Ops::kSize); });
  }
  /// Lane i = the i-th number at p, for any alignment.
  template <Stored type>
  [[gnu::always_inline]] static F32x16 load_as(const std::byte* p) {
    return each([&](std::size_t i) { return load_part_as<type>(p, i); });
  }
  /// Part i of that.
  template <Stored type>
  [[gnu::always_inline]] static Batch load_part_as(const std::byte* p, std::size_t i) {
    const std::byte* q = p + i * Ops::kSize * stored_bytes(type);
    if constexpr (type == Stored::F32) return Ops::load(reinterpret_cast<const float*>(q));
    if constexpr (type == Stored::F16) return Ops::load_f16(q);
  }
  /// The first n < 16 numbers, zeros after them; reads nothing beyond.
  template <Stored type>
  static F32x16 load_partial_as(const std::byte* p, std::size_t n) {
    alignas(64) std::byte padded[kFloatLanes * sizeof(float)] = {};
    __builtin_memcpy(padded, p, n * stored_bytes(type));
    return load_as<type>(padded);
  }
  static F32x16 load_partial(const float* p, std::size_t n) {
    return load_partial_as<Stored::F32>(reinterpret_cast<const std::byte*>(p), n);
  }

  /// One f16 at p, by this instruction set's own conversion.
  static void store_one_f16(std::byte* p, float x) {
    std::byte all[kFloatLanes * 2];
    broadcast(x).store_f16(all);
    __builtin_memcpy(p, all, 2);
  }

  [[gnu::always_inline]] void store(float* p) const {
    for (std::size_t i = 0; i < kParts; ++i) Ops::store(p + i * Ops::kSize, part[i]);
  }
  [[gnu::always_inline]] void store_f16(std::byte* p) const {
    for (std::size_t i = 0; i < kParts; ++i) Ops::store_f16(p + i * Ops::kSize * 2, part[i]);
  }
  [[gnu::always_inline]] void store_bf16(std::byte* p) const {
    for (std::size_t i = 0; i < kParts; ++i) Ops::store_bf16(p + i * Ops::kSize * 2, part[i]);
  }
  /// F32x16 hold integers in -128…127 or NaN, which becomes 0.
  [[gnu::always_inline]] void store_i8(std::int8_t* p) const {
    for (std::size_t i = 0; i < kParts; ++i) Ops::store_i8(p + i * Ops::kSize, part[i]);
  }
  void store_partial(float* p, std::size_t n) const {
    if constexpr (requires { Ops::store_partial(p, part[0], n); }) {
      Ops::store_partial(p, part[0], n);
    } else {
      alignas(64) float all[kFloatLanes];
      store(all);
      __builtin_memcpy(p, all, n * sizeof(float));
    }
  }

  [[gnu::always_inline]] friend F32x16 operator+(const F32x16& a, const F32x16& b) {
    return each([&](std::size_t i) { return a.part[i] + b.part[i]; });
  }
  [[gnu::always_inline]] friend F32x16 operator-(const F32x16& a, const F32x16& b) {
    return each([&](std::size_t i) { return a.part[i] - b.part[i]; });
  }
  [[gnu::always_inline]] friend F32x16 operator*(const F32x16& a, const F32x16& b) {
    return each([&](std::size_t i) { return a.part[i] * b.part[i]; });
  }
  [[gnu::always_inline]] friend F32x16 operator/(const F32x16& a, const F32x16& b) {
    return each([&](std::size_t i) { return Ops::div(a.part[i], b.part[i]); });
  }
  [[gnu::always_inline]] friend F32x16 fma(const F32x16& a, const F32x16& b, const F32x16& c) {
    return each([&](std::size_t i) { return Ops::fma(a.part[i], b.part[i], c.part[i]); });
  }
  /// a > b ? a : b
  [[gnu::always_inline]] friend F32x16 max(const F32x16& a, const F32x16& b) {
    return each([&](std::size_t i) { return Ops::max(a.part[i], b.part[i]); });
  }
  /// Bit i: lane i of a is less than lane i of b.
  [[gnu::always_inline]] friend std::uint32_t less_bits(const F32x16& a, const F32x16& b) {
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < kParts; ++i)
      bits |= Ops::less_bits(a.part[i], b.part[i]) << (i * Ops::kSize);
    return bits;
  }
  [[gnu::always_inline]] friend F32x16 abs(const F32x16& a) {
    return each([&](std::size_t i) { return Ops::abs(a.part[i]); });
  }
  /// Lanes 2i and 2i+1 exchanged.
  [[gnu::always_inline]] friend F32x16 swap_pairs(const F32x16& a) {
    return each([&](std::size_t i) {
      if constexpr (Ops::kSize == 1) {
        return a.part[i ^ 1];
      } else {
        return Ops::swap_pairs(a.part[i]);
      }
    });
  }
  /// The larger of numbers without sign; NaN counts as larger than infinity.
  [[gnu::always_inline]] friend F32x16 max_magnitude(const F32x16& a, const F32x16& b) {
    return each([&](std::size_t i) { return Ops::max_magnitude(a.part[i], b.part[i]); });
  }
  /// a < b ? a : b
  [[gnu::always_inline]] friend F32x16 min(const F32x16& a, const F32x16& b) {
    return each([&](std::size_t i) { return Ops::min(a.part[i], b.part[i]); });
  }
  /// a < b ? x : y
  [[gnu::always_inline]] friend F32x16 select_less(const F32x16& a, const F32x16& b,
                                                   const F32x16& x, const F32x16& y) {
    return each([&](std::size_t i) {
      return Ops::select_less(a.part[i], b.part[i], x.part[i], y.part[i]);
    });
  }
  /// To the nearest integer, ties to even, for |a| < 2^22.
  [[gnu::always_inline]] friend F32x16 round(const F32x16& a) {
    const Batch magic = Ops::broadcast(kRoundMagic);
    return each([&](std::size_t i) { return a.part[i] + magic - magic; });
  }
  /// a * 2^n, rounded once, for integers n of -252 … 254: in two factors, unless one instruction
  /// does it.
  [[gnu::always_inline]] friend F32x16 scale2(const F32x16& a, const F32x16& n) {
    return each([&](std::size_t i) {
      if constexpr (requires { Ops::scale2(a.part[i], n.part[i]); }) {
        return Ops::scale2(a.part[i], n.part[i]);
      } else {
        const Batch magic = Ops::broadcast(kRoundMagic);
        const Batch half = Ops::fma(n.part[i], Ops::broadcast(0.5F), magic);
        return a.part[i] * Ops::pow2(half) * Ops::pow2(n.part[i] - (half - magic) + magic);
      }
    });
  }

  /// The same for n of -160 … 0; bits: n + kRoundMagic. One factor is 2^-64, so that the other's
  /// exponent is in range.
  [[gnu::always_inline]] friend F32x16 scale2_down(const F32x16& a, const F32x16& n,
                                                   const F32x16& bits) {
    return each([&](std::size_t i) {
      if constexpr (requires { Ops::scale2(a.part[i], n.part[i]); }) {
        return Ops::scale2(a.part[i], n.part[i]);
      } else {
        return a.part[i] * Ops::pow2(bits.part[i] + Ops::broadcast(64)) * Ops::broadcast(0x1p-64F);
      }
    });
  }

  /// 2^n for integers n of -126 … 127; bits: n + kRoundMagic.
  [[gnu::always_inline]] friend F32x16 pow2(const F32x16& bits) {
    return each([&](std::size_t i) { return Ops::pow2(bits.part[i]); });
  }

  /// l[i] += l[i+8], then l[i+4], l[i+2], l[i+1].
  [[nodiscard]] float sum() const { return fold(add); }
  /// Largest lane, or magnitude of lanes without sign, by the same tree.
  [[nodiscard]] float max_lane() const { return fold(larger); }
  [[nodiscard]] float max_magnitude_lane() const { return fold(larger_magnitude); }
  /// out[i] = the sum, largest lane or largest magnitude of the i-th of four.
  static void sum4(const F32x16& a, const F32x16& b, const F32x16& c, const F32x16& d, float* out) {
    fold4(add, a, b, c, d, out);
  }
  static void max4(const F32x16& a, const F32x16& b, const F32x16& c, const F32x16& d, float* out) {
    fold4(larger, a, b, c, d, out);
  }
  static void max_magnitude4(const F32x16& a, const F32x16& b, const F32x16& c, const F32x16& d,
                             float* out) {
    fold4(larger_magnitude, a, b, c, d, out);
  }
  /// Lane i: the same of v(i), for sixteen.
  template <class F>
  [[gnu::always_inline]] static F32x16 sums(const F& v) {
    return fold16(add, v);
  }
  template <class F>
  [[gnu::always_inline]] static F32x16 maxima(const F& v) {
    return fold16(larger, v);
  }
  template <class F>
  [[gnu::always_inline]] static F32x16 max_magnitudes(const F& v) {
    return fold16(larger_magnitude, v);
  }

 private:
  static constexpr auto add = [](auto a, auto b) { return a + b; };
  static constexpr auto larger = [](auto a, auto b) { return Ops::max(a, b); };
  static constexpr auto larger_magnitude = [](auto a, auto b) { return Ops::max_magnitude(a, b); };
  template <class F>
  [[gnu::always_inline]] static F32x16 each(F f) {
    F32x16 r;
    for (std::size_t i = 0; i < kParts; ++i) r.part[i] = f(i);
    return r;
  }
  template <class Op>
  float fold(Op op) const {
    if constexpr (Ops::kSize == 1) {
      float l[kFloatLanes];
      store(l);
      for (std::size_t half = kFloatLanes / 2; half > 0; half /= 2)
        for (std::size_t i = 0; i < half; ++i) l[i] = op(l[i], l[i + half]);
      return l[0];
    } else {
      float all[4];
      Ops::fold4([&](Batch a, Batch b) -> Batch { return op(a, b); }, part, part, part, part, all);
      return all[0];
    }
  }
  template <class Op, class F>
  [[gnu::always_inline]] static F32x16 fold16(Op op, const F& v) {
    const auto of_batches = [&](Batch x, Batch y) -> Batch { return op(x, y); };
    if constexpr (requires { Ops::fold16(of_batches, [&](int i) { return v(i).part[0]; }); }) {
      F32x16 r;
      r.part[0] = Ops::fold16(of_batches, [&](int i) { return v(i).part[0]; });
      return r;
    } else {
      float all[kFloatLanes];
      for (int i = 0; i < static_cast<int>(kFloatLanes); i += 4)
        fold4(op, v(i), v(i + 1), v(i + 2), v(i + 3), all + i);
      return load(all);
    }
  }
  template <class Op>
  static void fold4(Op op, const F32x16& a, const F32x16& b, const F32x16& c, const F32x16& d,
                    float* out) {
    if constexpr (Ops::kSize == 1) {
      const F32x16* const four[] = {&a, &b, &c, &d};
      for (std::size_t i = 0; i < 4; ++i) out[i] = four[i]->fold(op);
    } else {
      Ops::fold4([&](Batch x, Batch y) -> Batch { return op(x, y); }, a.part, b.part, c.part,
                 d.part, out);
    }
  }
};

// The project's own exponential: the same bits on every machine, which no libm promises.

/// e^r, x = n*ln2 + r.
template <class Isa>
[[gnu::always_inline]] inline F32x16<Isa> exp_of_rest(const F32x16<Isa>& x, const F32x16<Isa>& n) {
  using V = F32x16<Isa>;
  const auto c = [](float v) { return V::broadcast(v); };
  V r = fma(n, c(-0.693147182F), x);
  r = fma(n, c(1.90465421e-09F), r);
  V q = c(0.0013926184F);
  q = fma(q, r, c(0.00836317893F));
  q = fma(q, r, c(0.0416665561F));
  q = fma(q, r, c(0.166665763F));
  q = fma(q, r, c(0.5F));
  return fma(r * r, q, r) + c(1.0F);
}

/// e^x to about one unit in the last place, for every float: 0 below -104, infinity above 89, NaN
/// stays NaN.
///
/// x = n*ln2 + r with |r| <= ln2/2, ln2 in two pieces. e^r = 1 + r + r²·q(r), q of degree 4,
/// interpolated at Chebyshev nodes (relative error 1.1e-8). The final factor 2^n is rounded once,
/// so that subnormal results are rounded once and the largest do not overflow early.
template <class Isa>
[[gnu::always_inline]] inline F32x16<Isa> exp(const F32x16<Isa>& x) {
  using V = F32x16<Isa>;
  const V clamped =
      max(V::broadcast(-104.0F), min(V::broadcast(89.0F), x));  // NaN, the second, survives
  const V magic = V::broadcast(kRoundMagic),
          n = fma(clamped, V::broadcast(1.44269502F), magic) - magic;
  return scale2(exp_of_rest(clamped, n), n);
}

/// The same for x <= 0 or NaN, whose powers of two need no two factors that depend on x.
template <class Isa>
[[gnu::always_inline]] inline F32x16<Isa> exp_down(const F32x16<Isa>& x) {
  using V = F32x16<Isa>;
  const V clamped = max(V::broadcast(-104.0F), x);
  const V magic = V::broadcast(kRoundMagic), bits = fma(clamped, V::broadcast(1.44269502F), magic),
          n = bits - magic;
  return scale2_down(exp_of_rest(clamped, n), n, bits);
}

/// e^x for x <= 0 or NaN by three quarters of the multiplications: relative error below 2.5e-7 for
/// x > -20, 5e-7 for x > -87; below that, e^-87.
///
/// x = n*ln2 + r as above, ln2 in one piece; e^r of degree 5, its last four coefficients the best
/// for the relative error.
template <class Isa>
[[gnu::always_inline]] inline F32x16<Isa> exp_weight(const F32x16<Isa>& x) {
  using V = F32x16<Isa>;
  const auto c = [](float v) { return V::broadcast(v); };
  const V clamped = max(c(-87.0F), x), bits = fma(clamped, c(1.44269502F), c(kRoundMagic));
  const V r = fma(bits - c(kRoundMagic), c(-0.693147182F), clamped);
  V e = fma(c(0.00831252523F), r, c(0.0418901145F));
  e = fma(e, r, c(0.166671142F));
  e = fma(e, r, c(0.499992311F));
  e = fma(e, r, c(1.0F));
  return fma(e, r, c(1.0F)) * pow2(bits);
}

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
