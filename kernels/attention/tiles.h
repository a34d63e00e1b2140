// Attention of one kv head: tiles of 64 keys with a running maximum and sum. Contract: attention.h; numerics:
// kernels/README.md.
//
// Query heads that share the kv head and neighbouring tokens are rows of the same blocks. A query's own
// arithmetic never depends on its neighbours: each has its own range of keys in a tile, and sees only those.
#pragma once

#include <cstddef>

#include "kernels/attention/kv_layout.h"
#include "kernels/attention/outer_product.h"
#include "kernels/rows/activate.h"

namespace cria {

/// Queries that share one conversion of a tile to float32: it costs little, and their outputs stay in L2.
inline constexpr std::size_t kQueryChunk = 96;

/// Up to so many (the heads that often share a kv head) read an f16 tile where it lies.
inline constexpr std::size_t kDirectQueries = 8;

/// Per-thread work memory, laid out in the caller's scratch.
struct AttentionScratch {
  float *keys, *values;  ///< a tile in float32: [head_dim][kKeyTile], [kKeyTile][value_dim rounded up]
  float* out;            ///< [kQueryChunk][value_dim rounded up], not yet divided by the sums
  float *max, *sum;      ///< [kQueryChunk]

  static constexpr std::size_t padded_values(std::size_t value_dim) { return round_up(value_dim, 32); }
  static constexpr std::size_t floats(std::size_t head_dim, std::size_t value_dim) {
    return kKeyTile * head_dim + (kKeyTile + kQueryChunk) * padded_values(value_dim) + 2 * kQueryChunk;
  }
  AttentionScratch(std::byte* memory, std::size_t head_dim, std::size_t value_dim)
      : keys(reinterpret_cast<float*>(memory)),
        values(keys + kKeyTile * head_dim),
        out(values + kKeyTile * padded_values(value_dim)),
        max(out + kQueryChunk * padded_values(value_dim)),
        sum(max + kQueryChunk) {}
};

/// A tile as the inner loops read it.
struct KvTile {
  Stored type;
  const std::byte *keys, *values;
  std::size_t key_stride, value_stride;  ///< bytes from one dim to the next, from one position to the next
  std::size_t key_bytes, value_bytes;    ///< from this tile to the next
};

/// Keys [begin, end) of a tile.
struct KeyRange {
  std::size_t begin, end;
  [[nodiscard]] bool empty() const { return begin >= end; }
};

/// The queries of one call: query i is head i % group of token token_begin + i / group.
template <class Isa>
class Attention {
  using V = F32x16<Isa>;
  static constexpr std::size_t kQueries = kMaxQueries;           ///< of a block
  static constexpr std::size_t kSlots = (kQueries + 3) / 4 * 4;  ///< folded four at a time

 public:
  Attention(const AttentionJob& job, std::size_t kv_head, std::size_t token_begin, std::byte* scratch)
      : job_(job),
        group_(job.n_heads / job.n_kv_heads),
        kv_head_(kv_head),
        token_begin_(token_begin),
        stride_(AttentionScratch::padded_values(job.value_dim)),
        out_groups_((job.value_dim + kFloatLanes - 1) / kFloatLanes),
        scratch_(scratch, job.head_dim, job.value_dim) {}

  /// Queries [begin, end), at most kQueryChunk.
  void run(std::size_t begin, std::size_t end) {
    const std::size_t n = end - begin;
    for (std::size_t i = 0; i < n; ++i) {
      // A sink is a score that was there before all others and has no value.
      scratch_.max[i] = job_.sinks == nullptr ? -__builtin_inff() : job_.sinks[head(begin + i)];
      scratch_.sum[i] = job_.sinks == nullptr ? 0 : 1;
    }
    for (std::size_t i = 0; i < n * stride_; ++i) scratch_.out[i] = 0;
    const std::size_t blocks = (n + kQueries - 1) / kQueries;
    const std::size_t last_tile = position(end - 1) / kKeyTile;
    for (std::size_t tile = first_key(position(begin)) / kKeyTile; tile <= last_tile; ++tile) {
      const KvTile kv = load_tile(tile, n > kDirectQueries, position(end - 1) + 1 - tile * kKeyTile);
      for (std::size_t b = 0; b < blocks; ++b) block(kv, tile, begin, n * b / blocks, n * (b + 1) / blocks);
    }
    for (std::size_t i = 0; i < n; ++i) finish(begin + i, i);
  }

 private:
  [[nodiscard]] std::size_t token(std::size_t query) const { return token_begin_ + query / group_; }
  [[nodiscard]] std::size_t head(std::size_t query) const { return kv_head_ * group_ + query % group_; }
  [[nodiscard]] std::size_t position(std::size_t query) const { return job_.first_pos + token(query); }
  [[nodiscard]] std::size_t first_key(std::size_t pos) const {
    const std::size_t from = job_.chunk == 0 ? 0 : pos / job_.chunk * job_.chunk;
    const std::size_t first = job_.window == 0 || pos < job_.window ? 0 : pos + 1 - job_.window;
    return first > from ? first : from;
  }
  [[nodiscard]] KeyRange range(std::size_t query, std::size_t tile) const {
    const std::size_t start = tile * kKeyTile, pos = position(query), first = first_key(pos);
    if (pos < start || first >= start + kKeyTile) return {0, 0};
    const std::size_t end = pos + 1 - start;
    return {first > start ? first - start : 0, end < kKeyTile ? end : kKeyTile};
  }

  /// The tile where it lies, or converted to float32 if many queries will
  /// read it. n_keys: positions in use from its start.
  KvTile load_tile(std::size_t tile, bool shared, std::size_t n_keys) {
    const std::size_t row_bytes = value_row_bytes(job_.kv_type, job_.value_dim),
                      value_bytes = kKeyTile * row_bytes,
                      key_bytes = key_tile_bytes(job_.kv_type, job_.head_dim);
    const std::size_t page = job_.pages == nullptr ? tile : job_.pages[tile];
    const std::byte* keys = job_.k + kv_head_ * job_.k_head_bytes + page * key_bytes;
    const std::size_t rows = n_keys < kKeyTile ? n_keys : kKeyTile;
    if (job_.v == nullptr) return load_latent_tile(keys, rows);
    const std::byte* values = job_.v + kv_head_ * job_.v_head_bytes + page * value_bytes;
    if (job_.kv_type == KvType::F32)
      return {Stored::F32, keys, values, kKeyTile * sizeof(float), row_bytes, key_bytes, value_bytes};
    if (job_.kv_type == KvType::F16 && !shared)
      return {Stored::F16, keys, values, kKeyTile * sizeof(F16Bits), row_bytes, key_bytes, value_bytes};
    if (job_.kv_type == KvType::F16) {
      convert_f16(keys, scratch_.keys, job_.head_dim * kKeyTile);
      for (std::size_t i = 0; i < rows; ++i)
        convert_f16(values + i * row_bytes, scratch_.values + i * stride_, out_groups_ * kFloatLanes);
    } else {
      convert_q8_keys(keys);
      for (std::size_t i = 0; i < rows; ++i)
        convert_q8_values(values + i * row_bytes, scratch_.values + i * stride_);
    }
    return converted();
  }

  [[nodiscard]] KvTile converted() const {
    return {Stored::F32,
            reinterpret_cast<const std::byte*>(scratch_.keys),
            reinterpret_cast<const std::byte*>(scratch_.values),
            kKeyTile * sizeof(float),
            stride_ * sizeof(float),
            0,
            0};
  }

  /// Keys in float32, and their first dimensions transposed back as the values of `rows` positions.
  KvTile load_latent_tile(const std::byte* keys, std::size_t rows) {
    if (job_.kv_type == KvType::Q8_0) {
      convert_q8_keys(keys);
    } else if (job_.kv_type == KvType::F16) {
      convert_f16(keys, scratch_.keys, job_.head_dim * kKeyTile);
    } else {
      __builtin_memcpy(scratch_.keys, keys, job_.head_dim * kKeyTile * sizeof(float));
    }
    for (std::size_t d = 0; d < job_.value_dim; d += kFloatLanes) {
      const std::size_t dims = job_.value_dim - d < kFloatLanes ? job_.value_dim - d : kFloatLanes;
      for (std::size_t i = 0; i < rows; ++i) {
        float* const to = scratch_.values + i * stride_ + d;
        for (std::size_t j = 0; j < dims; ++j) to[j] = scratch_.keys[(d + j) * kKeyTile + i];
        for (std::size_t j = dims; j < kFloatLanes; ++j) to[j] = 0;
      }
    }
    return converted();
  }

  static void convert_f16(const std::byte* from, float* to, std::size_t n) {
    for (std::size_t i = 0; i < n; i += kFloatLanes)
      V::template load_as<Stored::F16>(from + i * sizeof(F16Bits)).store(to + i);
  }
  void convert_q8_keys(const std::byte* tile) {
    for (std::size_t first = 0; first < job_.head_dim; first += 32, tile += kQ8KeyBlockBytes) {
      const std::size_t dims = job_.head_dim - first < 32 ? job_.head_dim - first : 32;
      for (std::size_t key = 0; key < kKeyTile; key += kFloatLanes) {
        const V scale = V::template load_as<Stored::F16>(tile + key * sizeof(F16Bits));
        const auto* q = reinterpret_cast<const std::int8_t*>(tile + kQ8KeyBlockValues) + key;
        for (std::size_t d = 0; d < dims; ++d)
          (scale * V::load_i8(q + d * kKeyTile)).store(scratch_.keys + (first + d) * kKeyTile + key);
      }
    }
  }
  void convert_q8_values(const std::byte* row, float* to) {
    for (std::size_t i = 0; i < job_.value_dim; i += 32, row += sizeof(BlockQ8_0)) {
      const V d = V::broadcast(V::load_one_f16(row));
      const auto* q = reinterpret_cast<const std::int8_t*>(row + sizeof(F16Bits));
      (d * V::load_i8(q)).store(to + i);
      (d * V::load_i8(q + kFloatLanes)).store(to + i + kFloatLanes);
    }
  }
  void outer_product(const KvTile& kv, std::size_t n_queries, const OuterProduct& product, std::size_t begin,
                     std::size_t end) {
    if (kv.type == Stored::F16) {
      cria::outer_product<Isa, Stored::F16>(n_queries, product, begin, end);
    } else {
      cria::outer_product<Isa, Stored::F32>(n_queries, product, begin, end);
    }
  }

  /// One tile for queries [begin + first, begin + last), at most kQueries.
  void block(const KvTile& kv, std::size_t tile, std::size_t begin, std::size_t first, std::size_t last) {
    const std::size_t n = last - first;
    KeyRange keys[kQueries], all{kKeyTile, 0}, common{0, kKeyTile};  // all: union, common: intersection
    const float* rows[kQueries];
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t query = begin + first + i;
      rows[i] = job_.q + token(query) * job_.q_stride + head(query) * job_.head_dim;
      keys[i] = range(query, tile);
      if (keys[i].begin > common.begin) common.begin = keys[i].begin;
      if (keys[i].end < common.end) common.end = keys[i].end;
      if (keys[i].empty()) continue;
      if (keys[i].begin < all.begin) all.begin = keys[i].begin;
      if (keys[i].end > all.end) all.end = keys[i].end;
    }
    if (all.empty()) return;
    alignas(64) float scores[kQueries][kKeyTile];
    outer_product(kv, n,
                  {rows, job_.head_dim, kv.keys, kv.key_stride, scores[0], kKeyTile, true, kv.key_bytes},
                  all.begin / kFloatLanes, (all.end + kFloatLanes - 1) / kFloatLanes);
    softmax_step(scores, keys, n, first);
    accumulate(kv, scores, keys, common, n, first);
  }

  /// scores become weights; maxima, sums and outputs are brought to the new maxima.
  void softmax_step(float (*scores)[kKeyTile], const KeyRange* keys, std::size_t n, std::size_t first) {
    const V scale = V::broadcast(job_.softcap == 0 ? job_.scale : 1), zero = V::broadcast(0);
    float *const max_so_far = scratch_.max + first, *const sum = scratch_.sum + first;
    V lanes[kSlots];  // largest scores, then sums of weights
    for (V& v : lanes) v = zero;
    for (std::size_t i = 0; i < n; ++i) {
      lanes[i] = V::broadcast(max_so_far[i]);
      if (keys[i].empty()) continue;
      float* s = scores[i];
      if (job_.softcap != 0) cap(s, keys[i]);
      for (std::size_t k = 0; k < keys[i].begin; ++k) s[k] = -__builtin_inff();
      for (std::size_t k = keys[i].end; k < kKeyTile; ++k) s[k] = -__builtin_inff();
      for (std::size_t k = 0; k < kKeyTile; k += kFloatLanes) {
        const V score = V::load(s + k) * scale;
        score.store(s + k);
        lanes[i] = max(lanes[i], score);
      }
    }
    alignas(64) float new_max[kSlots], shrink[kFloatLanes] = {}, added[kSlots];
    for (std::size_t i = 0; i < n; i += 4)
      V::max4(lanes[i], lanes[i + 1], lanes[i + 2], lanes[i + 3], new_max + i);
    for (std::size_t i = 0; i < n; ++i) {
      lanes[i] = zero;
      if (keys[i].empty()) continue;
      const V shift = V::broadcast(new_max[i]);
      for (std::size_t k = 0; k < kKeyTile; k += kFloatLanes) {
        const V weight = exp(V::load(scores[i] + k) - shift);
        weight.store(scores[i] + k);
        lanes[i] = lanes[i] + weight;
      }
      shrink[i] = max_so_far[i] - new_max[i];
      max_so_far[i] = new_max[i];
    }
    exp(V::load(shrink)).store(shrink);
    for (std::size_t i = 0; i < n; i += 4)
      V::sum4(lanes[i], lanes[i + 1], lanes[i + 2], lanes[i + 3], added + i);
    for (std::size_t i = 0; i < n; ++i) {
      sum[i] = sum[i] * shrink[i] + added[i];
      if (shrink[i] != 1.0F) rescale(scratch_.out + (first + i) * stride_, shrink[i]);
    }
  }
  /// Scores of the keys in range, scaled and capped; what lies outside is nobody's.
  void cap(float* s, KeyRange keys) const {
    const V scale = V::broadcast(job_.scale);
    for (std::size_t k = keys.begin; k < keys.end; k += kFloatLanes) {
      const std::size_t lanes = keys.end - k < kFloatLanes ? keys.end - k : kFloatLanes;
      store_group(soft_cap(load_group<Isa>(s + k, lanes) * scale, job_.softcap), s + k, lanes);
    }
  }
  void rescale(float* out, float factor) const {
    for (std::size_t g = 0; g < out_groups_; ++g, out += kFloatLanes)
      (V::load(out) * V::broadcast(factor)).store(out);
  }

  /// out[d] += weight·value, keys increasing for every query: those that
  /// all queries see together, the rest one by one.
  void accumulate(const KvTile& kv, float (*weights)[kKeyTile], const KeyRange* keys, KeyRange common,
                  std::size_t n, std::size_t first) {
    const auto add = [&](std::size_t i, std::size_t count, std::size_t from, std::size_t to) {
      if (from >= to) return;
      const float* rows[kQueries];
      for (std::size_t j = 0; j < count; ++j) rows[j] = weights[i + j] + from;
      outer_product(kv, count,
                    {rows, to - from, kv.values + from * kv.value_stride, kv.value_stride,
                     scratch_.out + (first + i) * stride_, stride_, false, kv.value_bytes},
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

  void finish(std::size_t query, std::size_t slot) {
    const float* from = scratch_.out + slot * stride_;
    float* to = job_.out + token(query) * job_.out_stride + head(query) * job_.value_dim;
    const V factor = V::broadcast(1.0F / scratch_.sum[slot]);
    for (std::size_t i = 0; i < job_.value_dim; i += kFloatLanes) {
      const V out = V::load(from + i) * factor;
      job_.value_dim - i < kFloatLanes ? out.store_partial(to + i, job_.value_dim - i) : out.store(to + i);
    }
  }

  const AttentionJob& job_;
  std::size_t group_, kv_head_, token_begin_;
  std::size_t stride_, out_groups_;
  AttentionScratch scratch_;
};

/// KernelSet::attention.
template <class Isa>
void attention(const AttentionJob& job, std::size_t kv_head, std::size_t token_begin, std::size_t token_end,
               std::byte* scratch) {
  const std::size_t queries = (token_end - token_begin) * (job.n_heads / job.n_kv_heads);
  Attention<Isa> work(job, kv_head, token_begin, scratch);
  for (std::size_t begin = 0; begin < queries; begin += kQueryChunk)
    work.run(begin, begin + kQueryChunk < queries ? begin + kQueryChunk : queries);
}

}  // namespace cria
