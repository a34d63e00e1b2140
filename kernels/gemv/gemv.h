// GEMV: products of up to four tokens (decoding). Eight rows are processed together, each in a
// 16-byte lane of the vectors, blocks in order. Every block's sum is an exact integer; floats
// follow in the order of kernels/README.md. Nothing outside a row is read.
#pragma once

#include <algorithm>
#include <type_traits>

#include "kernels/formats/formats.h"
#include "kernels/kernels.h"
#include "kernels/lanes/iq.h"
#include "kernels/lanes/iq4.h"
#include "kernels/simd/namespace.h"
#include "kernels/simd/prefetch.h"
#include "kernels/simd/row_lanes.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

/// Walks the blocks of 8 rows for T tokens.
template <class Isa, DType type, int T, PrefetchMode mode = PrefetchMode::InOrder>
class Gemv {
  using V = RowLanes<Isa>;
  using W = LaneType<V, type>;
  static_assert(IsRowLanes<V> && IsLaneType<W>);
  using Vec = typename V::Vec;
  using Float8 = typename V::Float8;
  static constexpr DecodeTraits kTraits = Format<type>::kTraits;
  static constexpr std::size_t kBlockValues = Format<type>::kBlockValues;
  static constexpr std::size_t kGroups =
      kBlockValues / Format<type>::kGroupValues;  ///< groups per block
  /// True if streams are prefetched by instructions; AVX2 leaves that to the hardware.
  static constexpr bool kStreams = mode == PrefetchMode::Streams && V::kPermutes;
  static constexpr bool kMagnitudes = V::kNegates && requires { W::kMagnitude; };
  static constexpr int kZero = kMagnitudes ? 0 : W::kZero;
  /// The largest sum in an int16 where a group's products are added up in such; 0: they are not.
  static constexpr int kNarrow = [] {
    if constexpr (requires { V::kNarrow; } && !W::kSuper && !W::kFull) {
      constexpr int kSum = Format<type>::kGroupValues / 8 * W::kMax * 127;
      return 2 * kSum <= V::kNarrow ? kSum : 0;
    }
    return 0;
  }();

 public:
  using Lanes = V;
  using Rows = const std::byte* [kRowGroup];
  static constexpr PrefetchMode kMode = mode;

  /// acc[t] lane r = the product of row r and token first + t. ahead: address to prefetch, for as
  /// much as the eight rows.
  static void run(const Rows& rows, const std::byte* ahead, const Activations& x, std::size_t first,
                  Float8 (&acc)[T]) {
    for (auto& a : acc) a = V::zero_float();
    add_blocks(rows, ahead, x, first, 0, x.cols / kBlockValues, acc);
  }
  /// Adds the products of the blocks [begin, end) of the rows.
  CRIA_INLINE static void add_blocks(const Rows& rows, const std::byte* ahead, const Activations& x,
                                     std::size_t first, std::size_t begin, std::size_t end,
                                     Float8 (&acc)[T]) {
    const std::int8_t* q[T];  // where the tokens begin: not to be looked for again in every block
    for (int t = 0; t < T; ++t) q[t] = x.q + (first + t) * x.q_stride();
    for (std::size_t b = begin; b < end; ++b) {
      const std::byte* next = ahead + b * kRowGroup * W::kBytes;
      if constexpr (W::kSuper) {
        super_block(rows, kHeaderBytes<type> + b * W::kBytes, next, x, q, first, b, acc);
      } else {
        block(rows, kHeaderBytes<type> + b * W::kBytes, next, x, q, first, b, acc);
      }
    }
  }

 private:
  static void block(const Rows& rows, std::size_t offset, const std::byte* ahead,
                    const Activations& x, const std::int8_t* const (&tokens)[T], std::size_t first,
                    std::size_t b, Float8 (&acc)[T]) {
    if constexpr (mode == PrefetchMode::InOrder) prefetch_far<kRowGroup * W::kBytes, 1>(ahead, 0);
    if constexpr (kStreams)
      for (const std::byte* row : rows) prefetch_stream<W::kBytes>(row + offset, stream_distance());
    Vec sums[T][kGroups][V::kPacks];
    for (std::size_t k = 0; k < V::kPacks; ++k) {
      W::weights(rows + k, offset, [&](int j, Vec w0, Vec w1) CRIA_INLINE {
        for (int t = 0; t < T; ++t) {
          const std::int8_t* q = tokens[t] + b * kBlockValues + 32 * j;
          const Vec a0 = V::same(q), a1 = V::same(q + 16);
          if constexpr (kNarrow != 0 && Format<type>::kGroupValues == 16) {
            sums[t][2 * j][k] = V::products(w0, a0);
            sums[t][2 * j + 1][k] = V::products(w1, a1);
          } else if constexpr (kNarrow != 0) {
            sums[t][j][k] = V::add16(V::products(w0, a0), V::products(w1, a1));
          } else if constexpr (Format<type>::kGroupValues == 16) {
            sums[t][2 * j][k] = V::template dot<W::kMax>(V::zero(), w0, a0);
            sums[t][2 * j + 1][k] = V::template dot<W::kMax>(V::zero(), w1, a1);
          } else if constexpr (W::kFull) {
            sums[t][j][k] = V::dot_full(V::zero(), w0, a0, w1, a1);
          } else {
            sums[t][j][k] = V::template dot<W::kMax>(V::zero(), w0, a0, w1, a1);
          }
        }
      });
    }
    Float8 d[kGroups];
    block_scales<V, W>(rows, offset, d);
    const std::size_t n_groups =
        x.cols / Format<type>::kGroupValues;  // x.d_stride(), of a type known here
    for (int t = 0; t < T; ++t) {
      for (std::size_t group = 0; group < kGroups; ++group) {
        const std::size_t i = (first + t) * n_groups + b * kGroups + group;
        const auto sum = V::sub_all(sum_rows(sums[t][group]), W::kZero * x.sum[i]);
        acc[t] = V::fma(V::mul(d[group], V::splat_float(x.d[i])), V::to_float(sum), acc[t]);
        if constexpr (kTraits.has_min)
          acc[t] = V::fma(W::offset_of(rows, offset),
                          V::splat_float(x.d[i] * static_cast<float>(x.sum[i])), acc[t]);
      }
    }
  }

  CRIA_INLINE static auto sum_rows(const Vec (&v)[V::kPacks]) {
    if constexpr (kNarrow != 0) return V::template sum_narrow_rows<kNarrow>(v);
    return V::sum_rows(v);
  }

  /// Sums of the activations of a block as the scales want them: of 16 values (two vectors) or
  /// of 32.
  static void load_sums(const std::int16_t* sum, Vec (&out)[W::kScales == 16 ? 2 : 1]) {
    if constexpr (W::kScales == 16) {
      out[0] = V::same(sum);
      out[1] = V::same(sum + 8);
    } else {
      out[0] = V::pair_sums(sum);
    }
  }

  static void super_block(const Rows& rows, std::size_t offset, const std::byte* ahead,
                          const Activations& x, const std::int8_t* const (&tokens)[T],
                          std::size_t first, std::size_t b, Float8 (&acc)[T]) {
    constexpr int kScaleVecs = W::kScales == 16 ? 2 : 1;
    Vec sums[T][V::kPacks], mins[T][V::kPacks], a[T][kScaleVecs];
    const std::int8_t* values[T];
    for (int t = 0; t < T; ++t) {
      values[t] = tokens[t] + b * 256;
      if constexpr (kZero != 0 || kTraits.has_min)
        load_sums(x.sum + (first + t) * x.sum_stride() + b * 16, a[t]);
    }
    for (std::size_t k = 0; k < V::kPacks; ++k) {
      Vec scale[kScaleVecs], correction[kScaleVecs], min[kScaleVecs];
      if constexpr (W::kScales == 0) {
        correction[0] = V::splat16(-kZero);
      } else {
        W::scales(rows + k, offset, scale);
        for (int i = 0; i < kScaleVecs && kZero != 0; ++i)
          correction[i] = V::mul16(scale[i], V::splat16(-kZero));
      }
      if constexpr (kTraits.has_min) W::mins(rows + k, offset, min);
      Vec sum[T];
      for (int t = 0; t < T; ++t) {
        sum[t] = V::zero();
        for (int i = 0; i < kScaleVecs && kZero != 0; ++i)
          sum[t] = V::madd16(sum[t], correction[i], a[t][i]);
        if constexpr (kTraits.has_min) {
          mins[t][k] = V::zero();
          for (int i = 0; i < kScaleVecs; ++i) mins[t][k] = V::madd16(mins[t][k], min[i], a[t][i]);
        }
      }
      const auto add = [&](int j, Vec w0, Vec w1, auto sign) CRIA_INLINE {
        constexpr std::size_t kPack = kRowGroup * W::kBytes / V::kPacks;
        const bool own = static_cast<std::size_t>(j) % V::kPacks == k;  // each row once
        if constexpr (mode == PrefetchMode::InOrder) {
          prefetch_far<kPack, 8>(ahead + k * kPack, j, [&]() CRIA_INLINE {
            if (own) prefetch_near<W::kBytes>(rows[j] + offset);
          });
        } else if constexpr (kStreams) {
          if (own) prefetch_stream<W::kBytes>(rows[j] + offset, stream_distance());
        }
        for (int t = 0; t < T; ++t) {
          const std::int8_t* q = values[t] + 32 * j;
          sum[t] =
              add_products(sum[t], j, w0, sign(0, V::same(q)), w1, sign(1, V::same(q + 16)), scale);
          pin(sum[t]);
        }
      };
      if constexpr (kMagnitudes) {
        W::magnitudes(rows + k, offset,
                      [&](int j, Vec w0, Vec negative0, Vec w1, Vec negative1) CRIA_INLINE {
                        add(j, w0, w1, [&](int i, Vec q) CRIA_INLINE {
                          return V::negate(q, i == 0 ? negative0 : negative1);
                        });
                      });
      } else {
        W::weights(rows + k, offset, [&](int j, Vec w0, Vec w1) CRIA_INLINE {
          add(j, w0, w1, [](int, Vec q) CRIA_INLINE { return q; });
        });
      }
      for (int t = 0; t < T; ++t) sums[t][k] = sum[t];
    }
    const Float8 d = W::d(rows, offset);
    for (int t = 0; t < T; ++t) {
      const Float8 da = V::splat_float(x.d[(first + t) * x.d_stride() + b]);
      acc[t] = V::fma(V::mul(d, da), V::to_float(V::sum_rows(sums[t])), acc[t]);
      if constexpr (kTraits.has_min)
        acc[t] =
            V::fnma(V::mul(W::dmin(rows, offset), da), V::to_float(V::sum_rows(mins[t])), acc[t]);
    }
  }

  static constexpr int kMax = [] {
    if constexpr (kMagnitudes) return W::kMagnitude;
    return W::kMax;
  }();
  /// sum + the products of 32 weights times their scale or scales.
  static Vec add_products(Vec sum, int j, Vec w0, Vec a0, Vec w1, Vec a1, const Vec* scale) {
    if constexpr (W::kScales == 16 && W::kFull) {
      const Vec s = scale[j / 4];
      sum = V::scaled_dot_full(sum, w0, a0, V::scale(s, 2 * j % 8));
      return V::scaled_dot_full(sum, w1, a1, V::scale(s, 2 * j % 8 + 1));
    } else if constexpr (W::kScales == 16) {
      const Vec s = scale[j / 4];
      sum = V::template scaled_dot<kMax>(sum, w0, a0, V::scale(s, 2 * j % 8));
      return V::template scaled_dot<kMax>(sum, w1, a1, V::scale(s, 2 * j % 8 + 1));
    } else if constexpr (W::kScales == 8 && W::kFull) {
      return V::scaled_dot_full(sum, w0, a0, w1, a1, V::scale(scale[0], j));
    } else if constexpr (W::kScales == 8) {
      return V::template scaled_dot<kMax>(sum, w0, a0, w1, a1, V::scale(scale[0], j));
    } else {
      return V::template dot<kMax>(sum, w0, a0, w1, a1);
    }
  }
};

/// The GEMV of T tokens: GemvOf<Isa, type>::Kernel<T, mode>. Every instruction set defines it
/// (isa/NAME_gemv.cpp or a header included there), so that none uses a slower one by mistake.
/// kStreams: whether PrefetchMode::Streams pays for one token.
template <class Isa, DType type>
struct GemvOf;

/// Max tokens for which weights are decoded once: 4 (and 2), or 3 (and 2).
template <class Isa>
inline constexpr std::size_t kMostTogether = 4;

/// Rows [row_begin, row_end) of a job for tokens [first, first + T) by a Gemv.
template <class Kernel, int T>
CRIA_FLATTEN void gemv_tokens(const MatMulJob& job, std::size_t row_begin, std::size_t row_end,
                              std::size_t first) {
  using V = typename Kernel::Lanes;
  const std::byte* const end = job.weights + row_end * job.row_bytes;
  const std::size_t least = kSmallL1Cache ? kPrefetchFar : kPrefetchNear;
  const RowGroups groups(row_begin, row_end, kRowGroup,
                         Kernel::kMode == PrefetchMode::InOrder ? 0 : job.row_bytes);
  for (std::size_t group = 0; group < groups.size(); ++group) {
    const auto [r, n, apart] = groups[group];
    const std::byte* rows[kRowGroup];
    for (std::size_t i = 0; i < kRowGroup; ++i)
      rows[i] = job.weights + (r + std::min(i, n - 1) * apart) * job.row_bytes;
    typename V::Float8 acc[T];
    Kernel::run(rows,
                prefetch_address(rows[0], kRowGroup * job.row_bytes, end, job.next_weights, least),
                *job.x, first, acc);
    for (int t = 0; t < T; ++t) {
      float result[kRowGroup];
      V::store(result, acc[t]);
      const std::size_t at = (first + t) * job.out_stride + r;
      for (std::size_t i = 0; i < n; ++i)
        job.out[at + i * apart] =
            job.residual ? job.residual[at + i * apart] + result[i] : result[i];
    }
  }
}

/// False for types that lose in streams with a distance of 1 KiB (Zen 5; why is not known:
/// bench/processors/zen5.md).
template <DType type>
bool streams_pay() {
  return kSmallL1Cache || (type != DType::Q3_K && type != DType::Q6_K);
}

/// A MatMulFn for several tokens: weights are decoded once for up to kMostTogether of them.
template <class Isa, DType type>
void gemv(const MatMulJob& job, std::size_t row_begin, std::size_t row_end,
          std::byte* /*scratch*/) {
  using Of = GemvOf<Isa, type>;
  constexpr PrefetchMode kInOrder = PrefetchMode::InOrder;
  constexpr int kMost = kMostTogether<Isa>;
  const std::size_t n = job.x->n_tokens;
  if constexpr (Of::kStreams) {
    constexpr PrefetchMode kStreams = PrefetchMode::Streams;
    if (n == 1 && job.prefetch == kStreams && streams_pay<type>())
      return gemv_tokens<typename Of::template Kernel<1, kStreams>, 1>(job, row_begin, row_end, 0);
  }
  std::size_t t = 0;
  const auto together = [&](auto tokens) {
    for (; t + tokens <= n; t += tokens)
      gemv_tokens<typename Of::template Kernel<tokens, kInOrder>, tokens>(job, row_begin, row_end,
                                                                          t);
  };
  together(std::integral_constant<int, kMost>{});
  together(std::integral_constant<int, 2>{});
  together(std::integral_constant<int, 1>{});
}

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria

namespace cria {

/// The GEMV of a type of integers in blocks, else null. Instantiated by isa/NAME_gemv.cpp.
template <class Isa>
MatMulFn gemv_kernel(DType type) {
  return with_dtype(type, [](auto t) -> MatMulFn {
    if constexpr (is_integer(Format<t>::kClass)) return gemv<Isa, t>;
    return nullptr;
  });
}

}  // namespace cria
