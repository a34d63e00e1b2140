// Attention of one kv head: tiles of 64 keys with a running maximum and sum. Contract: attention.h;
// numerics: kernels/README.md.
#pragma once

#include <algorithm>
#include <cstddef>

#include "kernels/attention/int_tiles.h"
#include "kernels/attention/queries.h"
#include "kernels/simd/namespace.h"
#include "kernels/simd/outer_product.h"
#include "kernels/simd/round.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

/// Up to this many queries (the usual number of heads per kv head) read an f16 tile in place.
inline constexpr std::size_t kDirectQueries = 8;

/// Per-thread work memory behind AttentionScratch: a tile in float32, and its weights.
struct FloatAttentionScratch {
  float *keys, *values;       ///< [head_dim][kKeyTile], [kKeyTile][value_dim rounded up]
  float (*scores)[kKeyTile];  ///< by slot

  static constexpr std::size_t bytes(std::size_t head_dim, std::size_t value_dim) {
    return kKeyTile * (head_dim + AttentionScratch::padded_values(value_dim) + kQueryChunk) *
           sizeof(float);
  }
  FloatAttentionScratch(std::byte* memory, std::size_t head_dim, std::size_t value_dim)
      : keys(reinterpret_cast<float*>(memory)),
        values(keys + kKeyTile * head_dim),
        scores(reinterpret_cast<float (*)[kKeyTile]>(
            values + kKeyTile * AttentionScratch::padded_values(value_dim))) {}
};

/// A tile as the inner loops read it.
struct KvTile {
  Stored type;
  const std::byte *keys, *values;
  std::size_t key_stride,
      value_stride;  ///< bytes from one dim to the next, from one position to the next
};

/// Attention in float32, over a cache of F16 or F32.
template <class Isa>
class Attention : AttentionQueries<Isa> {
  using Base = AttentionQueries<Isa>;
  using Base::job_, Base::scratch_, Base::stride_, Base::out_groups_, Base::fetch_;
  using V = F32x16<Isa>;

 public:
  Attention(const AttentionJob& job, std::size_t kv_head, std::size_t token_begin,
            std::byte* scratch)
      : Base(job, kv_head, token_begin, scratch),
        work_(scratch_.work, job.head_dim, job.value_dim) {}

  /// Queries of a call of run, which share a converted tile.
  static std::size_t chunk(const AttentionJob& job) {
    return AttentionScratch::most(std::max(job.head_dim, job.value_dim));
  }

  /// Queries [begin, end), at most chunk().
  void run(std::size_t begin, std::size_t end) {
    const std::size_t n = end - begin, blocks = divide_up(n, kBlockQueries);
    const std::size_t keys = job_.end_key(this->position(end - 1));
    this->start(begin, n);
    const auto bound = [&](std::size_t b) { return n * b / blocks; };
    BlockRanges ranges[kQueryChunk / kBlockQueries];
    this->walk(fetches(n, blocks), [&](std::size_t tile) CRIA_INLINE {
      const KvTile kv = load_tile(tile, in_place(n), keys - tile * kKeyTile);
      // All keys, then all values: each fits in an L1 of 32 KiB together with the queries.
      for (std::size_t b = 0; b < blocks; ++b) {
        if (n > kDirectQueries) fetch_.some();
        score(kv, tile, bound(b), bound(b + 1), ranges[b]);
      }
      for (std::size_t b = 0; b < blocks; ++b)
        if (!ranges[b].all.empty()) accumulate(kv, ranges[b], bound(b + 1) - bound(b), bound(b));
    });
  }

 private:
  /// The tile where it lies, or f16 converted to float32. n_keys: positions in use from its start.
  KvTile load_tile(std::size_t tile, bool in_place, std::size_t n_keys) {
    const auto [keys, values] = this->find_tile(tile);
    const std::size_t rows = n_keys < kKeyTile ? n_keys : kKeyTile;
    if (values == nullptr) return load_latent_tile(keys, rows);
    const std::size_t row_bytes = value_row_bytes(job_.kv_type, job_.value_dim);
    if (job_.kv_type == KvType::F32)
      return {Stored::F32, keys, values, kKeyTile * sizeof(float), row_bytes};
    if (in_place) return {Stored::F16, keys, values, kKeyTile * sizeof(F16Bits), row_bytes};
    convert_f16(keys, work_.keys, job_.head_dim * kKeyTile);
    for (std::size_t i = 0; i < rows; ++i)
      convert_f16(values + i * row_bytes, work_.values + i * stride_, out_groups_ * kFloatLanes);
    return converted();
  }

  /// True if n queries read f16 in place.
  [[nodiscard]] bool in_place(std::size_t n) const {
    return job_.kv_type == KvType::F16 && job_.v != nullptr && n <= kDirectQueries;
  }
  /// Prefetch calls per tile while n queries in `blocks` blocks are processed.
  [[nodiscard]] std::size_t fetches(std::size_t n, std::size_t blocks) const {
    if (!in_place(n)) return blocks;
    const std::size_t steps = job_.head_dim + kKeyTile * ((out_groups_ + 3) / 4);
    return divide_up(n, kMaxQueries) * (steps / kPrefetchSteps);
  }

  [[nodiscard]] KvTile converted() const {
    return {Stored::F32, reinterpret_cast<const std::byte*>(work_.keys),
            reinterpret_cast<const std::byte*>(work_.values), kKeyTile * sizeof(float),
            stride_ * sizeof(float)};
  }

  /// Keys in float32, and their first dimensions transposed back as the values of `rows` positions.
  KvTile load_latent_tile(const std::byte* keys, std::size_t rows) {
    if (job_.kv_type == KvType::F16) {
      convert_f16(keys, work_.keys, job_.head_dim * kKeyTile);
    } else {
      __builtin_memcpy(work_.keys, keys, job_.head_dim * kKeyTile * sizeof(float));
    }
    for (std::size_t d = 0; d < job_.value_dim; d += kFloatLanes) {
      const std::size_t dims = job_.value_dim - d < kFloatLanes ? job_.value_dim - d : kFloatLanes;
      for (std::size_t i = 0; i < rows; ++i) {
        float* const to = work_.values + i * stride_ + d;
        for (std::size_t j = 0; j < dims; ++j) to[j] = work_.keys[(d + j) * kKeyTile + i];
        for (std::size_t j = dims; j < kFloatLanes; ++j) to[j] = 0;
      }
    }
    return converted();
  }

  static void convert_f16(const std::byte* from, float* to, std::size_t n) {
    for (std::size_t i = 0; i < n; i += kFloatLanes)
      V::template load_as<Stored::F16>(from + i * sizeof(F16Bits)).store(to + i);
  }
  /// Multiplies for up to kBlockQueries queries, in equal parts that fit in registers.
  static void outer_product(const KvTile& kv, std::size_t n_queries, OuterProduct product,
                            std::size_t begin, std::size_t end) {
    const std::size_t times = divide_up(n_queries, kMaxQueries);
    for (std::size_t left = times; left > 0; --left) {
      const std::size_t n = left == 1 ? n_queries : (n_queries + 1) / 2;
      if (kv.type == Stored::F16) {
        cria::outer_product<Isa, Stored::F16>(n, product, begin, end);
      } else {
        cria::outer_product<Isa, Stored::F32>(n, product, begin, end);
      }
      product.a += n;
      product.c += n * product.c_stride;
      n_queries -= n;
    }
  }
  static_assert(kBlockQueries <= 2 * kMaxQueries);

  /// Weights of a tile's keys for the queries in slots [first, last), at most kBlockQueries.
  void score(const KvTile& kv, std::size_t tile, std::size_t first, std::size_t last,
             BlockRanges& ranges) {
    QueryBlock block;
    block.first = first;
    block.n = last - first;
    this->find_ranges(block, tile);
    ranges = block.ranges;
    const KeyRange& all = ranges.all;
    if (all.empty()) return;
    float(*scores)[kKeyTile] = work_.scores + first;
    outer_product(kv, block.n,
                  {this->rows_ + first, job_.head_dim, kv.keys, kv.key_stride, scores[0], kKeyTile,
                   true, &fetch_},
                  all.begin / kFloatLanes, divide_up(all.end, kFloatLanes));
    this->find_maxima(block, scores);
    this->update(block, this->weigh(block, scores, this->shift_of(block.maximum),
                                    [](const V& x) CRIA_INLINE { return exp_down(x); }));
  }

  /// out[d] += weight·value, keys increasing for every query: those that
  /// all queries see together, the rest one by one.
  void accumulate(const KvTile& kv, const BlockRanges& ranges, std::size_t n, std::size_t first) {
    const float(*weights)[kKeyTile] = work_.scores + first;
    const KeyRange *const keys = ranges.keys, common = ranges.common;
    const auto add = [&](std::size_t i, std::size_t count, std::size_t from, std::size_t to) {
      if (from >= to) return;
      const float* rows[kBlockQueries];
      for (std::size_t j = 0; j < count; ++j) rows[j] = weights[i + j] + from;
      outer_product(kv, count,
                    {rows, to - from, kv.values + from * kv.value_stride, kv.value_stride,
                     scratch_.out + (first + i) * stride_, stride_, false, &fetch_},
                    0, out_groups_);
    };
    if (common.empty()) {
      for (std::size_t i = 0; i < n; ++i) add(i, 1, keys[i].begin, keys[i].end);
      return;
    }
    for (std::size_t i = 0; i < n; ++i) add(i, 1, keys[i].begin, common.begin);
    add(0, n, common.begin, common.end);
    for (std::size_t i = 0; i < n; ++i) add(i, 1, common.end, keys[i].end);
  }

  FloatAttentionScratch work_;
};

template <class Way>
void attention_by(const AttentionJob& job, std::size_t kv_head, std::size_t token_begin,
                  std::size_t token_end, std::byte* scratch) {
  const std::size_t queries = (token_end - token_begin) * (job.n_heads / job.n_kv_heads);
  Way work(job, kv_head, token_begin, scratch);
  const std::size_t chunk = Way::chunk(job);
  for (std::size_t begin = 0; begin < queries; begin += chunk)
    work.run(begin, std::min(begin + chunk, queries));
}

/// KernelSet::attention.
template <class Isa>
void attention(const AttentionJob& job, std::size_t kv_head, std::size_t token_begin,
               std::size_t token_end, std::byte* scratch) {
  if (job.kv_type == KvType::Q8_0)
    return attention_by<IntAttention<Isa>>(job, kv_head, token_begin, token_end, scratch);
  attention_by<Attention<Isa>>(job, kv_head, token_begin, token_end, scratch);
}

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
