// Eight rows in lanes by transposition, for decoders that do the same to every byte.
#pragma once

#include "kernels/gemm/transpose256.h"
#include "kernels/lanes/lanes.h"
#include "kernels/simd/avx2.h"

namespace cria {

/// Sixteen columns of eight rows, transposed where they are loaded: part c holds columns 4c … 4c + 3 of all rows.
/// For decoders that do the same to every byte, which then meet vectors before they are spread.
struct Avx2Columns {};
template <>
struct RowLanes<Avx2Columns> {
  using One = RowLanes<Avx2>;
  struct Vec {
    __m256i part[4];
  };
  using RowPtr = One::RowPtr;
  using Float8 = One::Float8;
  static constexpr int kBias = One::kBias;

  template <class F>
  CRIA_INLINE static Vec each(F f) {
    return {{f(0), f(1), f(2), f(3)}};
  }
  CRIA_INLINE static Vec load(RowPtr rows, std::size_t offset) {
    Vec v = each([&](int k) CRIA_INLINE { return One::load(rows + k, offset); });
    Transpose256<Avx2>::transpose(v.part);
    return v;
  }
  CRIA_INLINE static Vec same(const void* p) { return all(One::same(p)); }
  CRIA_INLINE static Vec zero() { return all(One::zero()); }
  CRIA_INLINE static Vec splat8(int x) { return all(One::splat8(x)); }
  CRIA_INLINE static Vec bit_and(Vec a, Vec b) { return map<One::bit_and>(a, b); }
  CRIA_INLINE static Vec bit_or(Vec a, Vec b) { return map<One::bit_or>(a, b); }
  CRIA_INLINE static Vec add8(Vec a, Vec b) { return map<One::add8>(a, b); }
  CRIA_INLINE static Vec lookup(Vec table, Vec index) { return map<One::lookup>(table, index); }
  template <int N>
  CRIA_INLINE static Vec take(Vec v, Vec mask) {
    return map<One::take<N>>(v, mask);
  }
  /// Eight columns of a, then those of b.
  CRIA_INLINE static Vec join_low(Vec a, Vec b) { return {{a.part[0], a.part[1], b.part[0], b.part[1]}}; }
  CRIA_INLINE static Vec join_high(Vec a, Vec b) { return {{a.part[2], a.part[3], b.part[2], b.part[3]}}; }

 private:
  CRIA_INLINE static Vec all(__m256i v) { return {{v, v, v, v}}; }
  template <auto f>
  CRIA_INLINE static Vec map(Vec a, Vec b) {
    return each([&](int p) CRIA_INLINE { return f(a.part[p], b.part[p]); });
  }
};

}  // namespace cria
