// Lanes of AVX-512 with several zmm registers that are worked on side by side, so that activations,
// constants and tables are loaded once for all. See simd/row_lanes.h.
#pragma once

#include "kernels/simd/avx512.h"
#include "kernels/simd/namespace.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

template <int n>
struct ZmmParts {
  __m512i part[n];
};
template <int n>
CRIA_INLINE inline void pin(ZmmParts<n>& v) {
  for (auto& part : v.part) pin(part);
}

/// n registers of RowLanes<Avx512>. Two: eight rows, row 2i + p of the group is lane i of part p.
/// More: `rows` holds eight pointers for each part, of which it reads every other.
template <int n>
struct RowLanes<Avx512Parts<n>> {
  using One = RowLanes<Avx512>;
  using Vec = ZmmParts<n>;
  using Float8 = One::Float8;
  using Int8 = One::Int8;
  using RowPtr = One::RowPtr;
  static constexpr std::size_t kLanes = n * One::kLanes, kPacks = 1;
  static constexpr int kRowsOfPart = n == 2 ? 1 : 8;  ///< between the pointers of two parts
  static constexpr bool kLongCode = n > 2;            ///< see lanes/iq.h
  static constexpr int kBias = One::kBias;
  static constexpr bool kPermutes = One::kPermutes, kNegates = One::kNegates;

  template <class F>
  CRIA_INLINE static Vec each(F f) {
    return [&]<int... p>(std::integer_sequence<int, p...>) CRIA_INLINE { return Vec{{f(p)...}}; }
    (std::make_integer_sequence<int, n>{});
  }
  CRIA_INLINE static Vec all(__m512i v) {
    return each([&](int) CRIA_INLINE { return v; });
  }

  CRIA_INLINE static Vec load(RowPtr rows, std::size_t offset) {
    return each([&](int p) CRIA_INLINE { return One::load(rows + kRowsOfPart * p, offset); });
  }
  CRIA_INLINE static Vec same(const void* p) { return all(One::same(p)); }
  CRIA_INLINE static Vec zero() { return all(One::zero()); }
  CRIA_INLINE static Vec splat8(int x) { return all(One::splat8(x)); }
  CRIA_INLINE static Vec splat16(int x) { return all(One::splat16(x)); }
  CRIA_INLINE static Vec pair_sums(const std::int16_t* p) { return all(One::pair_sums(p)); }

  CRIA_INLINE static Vec bit_and(Vec a, Vec b) { return map2<One::bit_and>(a, b); }
  CRIA_INLINE static Vec bit_or(Vec a, Vec b) { return map2<One::bit_or>(a, b); }
  CRIA_INLINE static Vec bit_xor(Vec a, Vec b) { return map2<One::bit_xor>(a, b); }
  CRIA_INLINE static Vec add8(Vec a, Vec b) { return map2<One::add8>(a, b); }
  CRIA_INLINE static Vec sub8(Vec a, Vec b) { return map2<One::sub8>(a, b); }
  CRIA_INLINE static Vec add16(Vec a, Vec b) { return map2<One::add16>(a, b); }
  CRIA_INLINE static Vec sub16(Vec a, Vec b) { return map2<One::sub16>(a, b); }
  CRIA_INLINE static Vec mul16(Vec a, Vec b) { return map2<One::mul16>(a, b); }
  CRIA_INLINE static Vec add32(Vec a, Vec b) { return map2<One::add32>(a, b); }
  CRIA_INLINE static Vec mul32(Vec a, Vec b) { return map2<One::mul32>(a, b); }
  CRIA_INLINE static Vec sum_bytes(Vec acc, Vec v) { return map2<One::sum_bytes>(acc, v); }
  CRIA_INLINE static Vec abs8(Vec v) { return map<One::abs8>(v); }
  template <int N>
  CRIA_INLINE static Vec shl32(Vec v) {
    return map<One::shl32<N>>(v);
  }
  CRIA_INLINE static Vec lookup(Vec table, Vec index) { return map2<One::lookup>(table, index); }
  CRIA_INLINE static Vec zip_low8(Vec a, Vec b) { return map2<One::zip_low8>(a, b); }
  CRIA_INLINE static Vec zip_high8(Vec a, Vec b) { return map2<One::zip_high8>(a, b); }
  CRIA_INLINE static Vec join_low(Vec a, Vec b) { return map2<One::join_low>(a, b); }
  CRIA_INLINE static Vec join_high(Vec a, Vec b) { return map2<One::join_high>(a, b); }
  CRIA_INLINE static Vec low_bytes(Vec a, Vec b) { return map2<One::low_bytes>(a, b); }
  CRIA_INLINE static Vec high_bytes(Vec a, Vec b) { return map2<One::high_bytes>(a, b); }
  CRIA_INLINE static Vec even_dwords(Vec a, Vec b) { return map2<One::even_dwords>(a, b); }
  CRIA_INLINE static Vec odd_dwords(Vec a, Vec b) { return map2<One::odd_dwords>(a, b); }
  CRIA_INLINE static Vec widen_low(Vec v) { return map<One::widen_low>(v); }
  CRIA_INLINE static Vec widen_high(Vec v) { return map<One::widen_high>(v); }
  CRIA_INLINE static Vec sevens(Vec v) { return map<One::sevens>(v); }
  template <int N>
  CRIA_INLINE static Vec take(Vec v, Vec mask) {
    return map2<One::take<N>>(v, mask);
  }
  template <int N>
  CRIA_INLINE static Vec shr16(Vec v) {
    return map<One::shr16<N>>(v);
  }
  template <int N>
  CRIA_INLINE static Vec shl16(Vec v) {
    return map<One::shl16<N>>(v);
  }
  CRIA_INLINE static Vec add_where(Vec w, Vec v, Vec bits, Vec x) {
    return each([&](int p) CRIA_INLINE {
      return One::add_where(w.part[p], v.part[p], bits.part[p], x.part[p]);
    });
  }
  CRIA_INLINE static Vec count_less(Vec v, Vec a, Vec b) {
    return each([&](int p)
                    CRIA_INLINE { return One::count_less(v.part[p], a.part[p], b.part[p]); });
  }

  struct Signs {
    One::Signs part[n];
  };
  CRIA_INLINE static Signs signs(Vec v) {
    Signs s;
    unroll<n>([&](int p) CRIA_INLINE { s.part[p] = One::signs(v.part[p]); });
    return s;
  }
  template <int i>
  CRIA_INLINE static Vec with_signs(Vec w, const Signs& signs, Vec offset) {
    return each([&](int p) CRIA_INLINE {
      return One::with_signs<i>(w.part[p], signs.part[p], offset.part[p]);
    });
  }

  template <class Book, std::size_t N, class F>
  CRIA_INLINE static void look_up(const Vec (&index)[N], const Vec (&top)[N], F&& f) {
    One::CodesOf<Book, N> codes[n];
    for (std::size_t v = 0; v < N; ++v)
      One::find_codes<n>(
          v, [&](int p) CRIA_INLINE -> auto& { return codes[p]; },
          [&](int p) CRIA_INLINE { return index[v].part[p]; },
          [&](int p) CRIA_INLINE { return top[v].part[p]; });
    unroll<4>([&](auto j) CRIA_INLINE {
      f(j, each([&](int p) CRIA_INLINE { return codes[p].template entries<2 * j>(); }),
        each([&](int p) CRIA_INLINE { return codes[p].template entries<2 * j + 1>(); }));
    });
  }
  class Indices {
   public:
    CRIA_INLINE void take(Vec v) {
      unroll<n>([&](int p) CRIA_INLINE { part_[p].take(v.part[p]); });
    }
    [[nodiscard]] CRIA_INLINE std::size_t at(int lane, int i) const {
      return part_[lane % n].at(lane / n, i);
    }

   private:
    One::Indices part_[n];
  };
  template <class F>
  CRIA_INLINE static Vec entries(const std::uint64_t* table, F index) {
    return each([&](int p) CRIA_INLINE {
      return One::entries(table,
                          [&](int lane, int i) CRIA_INLINE { return index(n * lane + p, i); });
    });
  }

  CRIA_INLINE static Vec madd16(Vec acc, Vec a, Vec b) {
    return each([&](int p) CRIA_INLINE { return One::madd16(acc.part[p], a.part[p], b.part[p]); });
  }
  CRIA_INLINE static Vec dot_full(Vec acc, Vec w0, Vec a0, Vec w1, Vec a1) {
    return each([&](int p) CRIA_INLINE {
      return One::dot_full(acc.part[p], w0.part[p], a0.part[p], w1.part[p], a1.part[p]);
    });
  }
  template <int Max>
  CRIA_INLINE static Vec dot(Vec acc, Vec w0, Vec a0, Vec w1, Vec a1) {
    return dot_full(acc, w0, a0, w1, a1);
  }
  template <int Max>
  CRIA_INLINE static Vec dot(Vec acc, Vec w, Vec a) {
    return each([&](int p)
                    CRIA_INLINE { return One::dot<Max>(acc.part[p], w.part[p], a.part[p]); });
  }
  CRIA_INLINE static Vec scale(Vec s, int j) {
    return each([&](int p) CRIA_INLINE { return One::scale(s.part[p], j); });
  }
  template <int Max>
  CRIA_INLINE static Vec scaled_dot(Vec acc, Vec w, Vec a, Vec s) {
    return each([&](int p) CRIA_INLINE {
      return One::scaled_dot<Max>(acc.part[p], w.part[p], a.part[p], s.part[p]);
    });
  }
  template <int Max>
  CRIA_INLINE static Vec scaled_dot(Vec acc, Vec w0, Vec a0, Vec w1, Vec a1, Vec s) {
    return each([&](int p) CRIA_INLINE {
      return One::scaled_dot<Max>(acc.part[p], w0.part[p], a0.part[p], w1.part[p], a1.part[p],
                                  s.part[p]);
    });
  }
  CRIA_INLINE static Vec scaled_dot_full(Vec acc, Vec w0, Vec a0, Vec w1, Vec a1, Vec s) {
    return each([&](int p) CRIA_INLINE {
      return One::scaled_dot_full(acc.part[p], w0.part[p], a0.part[p], w1.part[p], a1.part[p],
                                  s.part[p]);
    });
  }
  CRIA_INLINE static Vec scaled_dot_full(Vec acc, Vec w, Vec a, Vec s) {
    return each([&](int p) CRIA_INLINE {
      return One::scaled_dot_full(acc.part[p], w.part[p], a.part[p], s.part[p]);
    });
  }

  CRIA_INLINE static Int8 sum_rows(const Vec (&v)[kPacks]) { return One::sum_rows(v[0].part); }
  CRIA_INLINE static Int8 sub_all(Int8 v, int x) { return One::sub_all(v, x); }
  CRIA_INLINE static Float8 to_float(Int8 v) { return One::to_float(v); }
  CRIA_INLINE static Float8 zero_float() { return One::zero_float(); }
  CRIA_INLINE static Float8 splat_float(float x) { return One::splat_float(x); }
  CRIA_INLINE static Float8 mul(Float8 a, Float8 b) { return One::mul(a, b); }
  CRIA_INLINE static Float8 fma(Float8 a, Float8 b, Float8 c) { return One::fma(a, b, c); }
  CRIA_INLINE static Float8 fnma(Float8 a, Float8 b, Float8 c) { return One::fnma(a, b, c); }
  CRIA_INLINE static void store(float* p, Float8 v) { One::store(p, v); }
  template <std::size_t word>
  CRIA_INLINE static Float8 f16_of_lanes(const Vec (&v)[kPacks]) {
    return One::f16_of_lanes<word>(v[0].part);
  }
  template <std::size_t Bytes, std::size_t At>
  CRIA_INLINE static Int8 load_u8(RowPtr rows, std::size_t offset) {
    return One::load_u8<Bytes, At>(rows, offset);
  }
  CRIA_INLINE static Int8 load_u32(RowPtr rows, std::size_t offset) {
    return One::load_u32(rows, offset);
  }
  template <int N>
  CRIA_INLINE static Int8 byte(Int8 v) {
    return One::byte<N>(v);
  }
  CRIA_INLINE static Float8 load_f32(RowPtr rows, std::size_t offset) {
    return One::load_f32(rows, offset);
  }
  CRIA_INLINE static Float8 half_of_e8m0(Int8 e) { return One::half_of_e8m0(e); }
  CRIA_INLINE static Float8 half_of_ue4m3(Int8 e) { return One::half_of_ue4m3(e); }
  template <std::size_t Bytes, std::size_t At, bool Shared = true>
  CRIA_INLINE static Float8 load_f16(RowPtr rows, std::size_t offset) {
    return One::load_f16<Bytes, At, Shared>(rows, offset);
  }

 private:
  template <auto f>
  CRIA_INLINE static Vec map(Vec v) {
    return each([&](int p) CRIA_INLINE { return f(v.part[p]); });
  }
  template <auto f>
  CRIA_INLINE static Vec map2(Vec a, Vec b) {
    return each([&](int p) CRIA_INLINE { return f(a.part[p], b.part[p]); });
  }
};

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
