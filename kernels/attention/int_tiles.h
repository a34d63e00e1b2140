// Attention over a Q8_0 cache by integer dot products: queries and the weights of a tile, times the scales of its
// values, are rounded to sixteen bits. Contract: attention.h; numerics: kernels/README.md.
#pragma once

#include "kernels/attention/int_dots.h"
#include "kernels/attention/queries.h"

namespace cria {

/// Per-thread work memory behind AttentionScratch.
struct IntAttentionScratch {
  static constexpr std::size_t kQueryBytes = 2 * 32;  ///< an operand of 32 dims
  std::byte* queries;                                 ///< [blocks of dims][kQueryChunk] operands
  std::byte* values;                                  ///< a tile of latent values
  std::int32_t* starts;                               ///< [blocks of dims][kQueryChunk]: of the queries' sums

  static constexpr std::size_t blocks(std::size_t dim) { return (dim + 31) / 32; }
  static constexpr std::size_t bytes(std::size_t head_dim, std::size_t value_dim) {
    return blocks(head_dim) * kQueryChunk * (kQueryBytes + sizeof(std::int32_t)) +
           blocks(value_dim) * kQ8BlockBytes;
  }
  IntAttentionScratch(std::byte* memory, std::size_t head_dim, std::size_t value_dim)
      : queries(memory),
        values(queries + blocks(head_dim) * kQueryChunk * kQueryBytes),
        starts(reinterpret_cast<std::int32_t*>(values + blocks(value_dim) * kQ8BlockBytes)) {}
};

template <class Isa>
class IntAttention : AttentionQueries<Isa> {
  using Base = AttentionQueries<Isa>;
  using Base::job_, Base::scratch_, Base::kv_head_, Base::stride_;
  using V = F32x16<Isa>;
  using Dots = IntDots<Isa>;
  static constexpr std::size_t kWeightBytes = 2 * kKeyTile;  // an operand of a tile's weights
  static constexpr std::size_t kKeySteps = 32 / 4, kValueSteps = kKeyTile / 4;
  static constexpr std::size_t kKeyGroups = kKeyTile / kFloatLanes;

 public:
  IntAttention(const AttentionJob& job, std::size_t kv_head, std::size_t token_begin, std::byte* scratch)
      : Base(job, kv_head, token_begin, scratch),
        key_blocks_(IntAttentionScratch::blocks(job.head_dim)),
        value_blocks_(IntAttentionScratch::blocks(job.value_dim)),
        work_(scratch_.work, job.head_dim, job.value_dim) {}

  /// Queries [begin, end), at most kQueryChunk.
  void run(std::size_t begin, std::size_t end) {
    const std::size_t n = end - begin, blocks = (n + kBlockQueries - 1) / kBlockQueries;
    this->start(begin, n);
    for (std::size_t i = 0; i < n; ++i) encode_query(i);
    const std::size_t first_tile = this->first_key(this->position(begin)) / kKeyTile,
                      last_tile = this->position(end - 1) / kKeyTile;
    for (std::size_t tile = first_tile; tile <= last_tile; ++tile) {
      const Tile kv = find_tile(tile, tile < last_tile ? tile + 1 : tile);
      for (std::size_t b = 0; b < blocks; ++b) block(kv, tile, n * b / blocks, n * (b + 1) / blocks);
    }
    for (std::size_t i = 0; i < n; ++i) this->finish(begin + i, i);
  }

 private:
  /// Blocks of 32 dims (kv_layout.h), and how far from them those of the next tile lie.
  struct Tile {
    const std::byte *keys, *values;
    std::size_t next_keys, next_values;
  };

  /// amax/kOperandSteps, and in factor its inverse. All zero or too small: both 0. NaN or infinity: NaN.
  static float scale_of(float amax, float& factor) {
    amax += amax - amax;
    const float inverse = kOperandSteps / amax;
    const bool none = inverse == __builtin_inff();
    factor = none ? 0 : inverse;
    return (none ? 0 : amax) / kOperandSteps;
  }
  static std::int32_t start_of(const V& sums) {
    return Dots::kSigned ? 0 : -kQ8Bias * static_cast<std::int32_t>(sums.sum());
  }

  void encode_query(std::size_t slot) {
    const float* const q = this->rows_[slot];
    V largest = V::broadcast(0);
    for (std::size_t i = 0; i < job_.head_dim; i += kFloatLanes)
      largest = max_magnitude(
          largest,
          abs(load_group<Isa>(q + i, job_.head_dim - i < kFloatLanes ? job_.head_dim - i : kFloatLanes)));
    alignas(64) float lanes[4], factor;
    V::max_magnitude4(largest, largest, largest, largest, lanes);
    scratch_.factor[slot] = scale_of(lanes[0], factor) * job_.scale;
    for (std::size_t b = 0; b < key_blocks_; ++b) {
      alignas(64) float values[32] = {};
      const std::size_t left = job_.head_dim - 32 * b;
      __builtin_memcpy(values, q + 32 * b, (left < 32 ? left : 32) * sizeof(float));
      const V x[2] = {V::load(values), V::load(values + kFloatLanes)};
      const std::size_t at = b * kQueryChunk + slot;
      work_.starts[at] = start_of(
          Dots::template encode<32>(x, factor, work_.queries + at * IntAttentionScratch::kQueryBytes));
    }
  }

  Tile find_tile(std::size_t tile, std::size_t next) {
    const std::size_t key_step = tile_step(job_.page_bytes, key_blocks_ * kQ8BlockBytes),
                      value_step = tile_step(job_.page_bytes, value_blocks_ * kQ8BlockBytes);
    const std::size_t page = this->page(tile), ahead = this->page(next) - page;
    Tile kv{job_.k + kv_head_ * job_.k_head_bytes + page * key_step, work_.values, ahead * key_step, 0};
    if (job_.v != nullptr) {
      kv.values = job_.v + kv_head_ * job_.v_head_bytes + page * value_step;
      kv.next_values = ahead * value_step;
    } else {
      for (std::size_t b = 0; b < value_blocks_; ++b)
        transpose_block(kv.keys + b * kQ8BlockBytes, work_.values + b * kQ8BlockBytes);
    }
    return kv;
  }

  /// A block of keys as one of values: four keys' four dims are sixteen bytes in both.
  static void transpose_block(const std::byte* from, std::byte* to) {
    __builtin_memcpy(to, from, kQ8BlockValues);
    for (std::size_t key = 0; key < kKeyTile; key += 4)
      for (std::size_t dim = 0; dim < 32; dim += 4)
        transpose_16(from + q8_key_offset(key, dim), to + q8_value_offset(key, dim));
  }
  static void transpose_16(const std::byte* from, std::byte* to) {
    std::uint32_t rows[4], columns[4] = {};
    __builtin_memcpy(rows, from, sizeof rows);
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 4; ++j) columns[i] |= (rows[j] >> (8 * i) & 0xFF) << (8 * j);
    __builtin_memcpy(to, columns, sizeof columns);
  }

  /// One tile for the queries in slots [first, last), at most kBlockQueries.
  void block(const Tile& kv, std::size_t tile, std::size_t first, std::size_t last) {
    const std::size_t n = last - first;
    BlockRanges ranges;
    for (std::size_t i = 0; i < n; ++i) ranges.set(i, this->range(first + i, tile));
    if (ranges.all.empty()) return;
    alignas(64) float scores[kBlockQueries][kKeyTile];
    score(kv, ranges.all, n, first, scores);
    this->softmax_step(scores, ranges.keys, n, first);
    for (std::size_t b = 0; b < value_blocks_; ++b) accumulate(kv, b, ranges, n, first, scores);
  }

  /// put(i, group, sums) for n operands, as many at a time as fit.
  template <std::size_t Steps, std::size_t Groups, class Put>
  static void multiply(std::size_t n, const std::byte* bytes, const std::byte* a, const std::int32_t* start,
                       std::size_t ahead, Put put) {
    constexpr std::size_t kMost = Dots::kQueries;
    const std::size_t times = (n + kMost - 1) / kMost;
    for (std::size_t i = 0, t = 0; t < times; ++t) {  // as equal as can be: few sums wait for each other
      const std::size_t end = n * (t + 1) / times;
      together<Steps, Groups, kMost>(end - i, bytes, a + i * 8 * Steps, start + i, ahead,
                                     [&](std::size_t q, std::size_t group, const V& v)
                                         CRIA_INLINE { put(i + q, group, v); });
      i = end;
    }
  }
  template <std::size_t Steps, std::size_t Groups, std::size_t Queries, class Put>
  static void together(std::size_t n, const std::byte* bytes, const std::byte* a, const std::int32_t* start,
                       std::size_t ahead, Put put) {
    if constexpr (Queries > 1) {
      if (n < Queries) return together<Steps, Groups, Queries - 1>(n, bytes, a, start, ahead, put);
    }
    Dots::template multiply<Queries, Steps, Groups>(bytes, a, start, ahead, put);
  }

  /// Products with the keys that any query sees, to the queries' own scales.
  void score(const Tile& kv, KeyRange all, std::size_t n, std::size_t first, float (*scores)[kKeyTile]) {
    const std::size_t begin = all.begin / kFloatLanes, end = (all.end + kFloatLanes - 1) / kFloatLanes;
    for (std::size_t b = 0; b < key_blocks_; ++b) {
      std::size_t group = begin;
      for (; group + Dots::kGroups <= end; group += Dots::kGroups)
        score_groups<Dots::kGroups>(kv, b, group, n, first, scores);
      for (; group < end; ++group) score_groups<1>(kv, b, group, n, first, scores);
    }
  }
  template <std::size_t Groups>
  void score_groups(const Tile& kv, std::size_t b, std::size_t group, std::size_t n, std::size_t first,
                    float (*scores)[kKeyTile]) {
    const std::byte* const block = kv.keys + b * kQ8BlockBytes;
    const std::size_t at = b * kQueryChunk + first, key = group * kFloatLanes;
    V d[Groups];
    CRIA_UNROLL
    for (std::size_t g = 0; g < Groups; ++g)
      d[g] = V::template load_as<Stored::F16>(block + (key + g * kFloatLanes) * sizeof(F16Bits));
    multiply<kKeySteps, Groups>(n, block + q8_key_offset(key, 0),
                                work_.queries + at * IntAttentionScratch::kQueryBytes, work_.starts + at,
                                kv.next_keys, [&](std::size_t i, std::size_t g, const V& sums) CRIA_INLINE {
                                  float* const s = scores[i] + key + g * kFloatLanes;
                                  fma(d[g], sums, b == 0 ? V::broadcast(0) : V::load(s)).store(s);
                                });
  }

  /// The tile's weights times the scales of a block of values, as operands.
  struct Weights {
    alignas(64) std::byte operands[kBlockQueries * kWeightBytes];
    alignas(64) float scale[kBlockQueries];
    std::int32_t starts[kBlockQueries];
  };

  /// Step by step for all queries: what one step gives arrives while it goes on with the others.
  void encode_weights(const std::byte* scales, const BlockRanges& ranges, std::size_t n,
                      const float (*weights)[kKeyTile], Weights& to) {
    V d[kKeyGroups], scaled[kBlockQueries][kKeyGroups], lanes[kBlockQueries];
    CRIA_UNROLL
    for (std::size_t g = 0; g < kKeyGroups; ++g)
      d[g] = V::template load_as<Stored::F16>(scales + g * kFloatLanes * sizeof(F16Bits));
    for (V& v : lanes) v = V::broadcast(0);
    for (std::size_t i = 0; i < n; ++i) {
      scale_weights(weights[i], d, ranges.keys[i], scaled[i]);
      CRIA_UNROLL
      for (std::size_t g = 0; g < kKeyGroups; ++g) lanes[i] = max_magnitude(lanes[i], abs(scaled[i][g]));
    }
    alignas(64) float largest[kBlockQueries], factor[kBlockQueries], sums[kBlockQueries];
    for (std::size_t i = 0; i < kBlockQueries; i += 4)
      V::max_magnitude4(lanes[i], lanes[i + 1], lanes[i + 2], lanes[i + 3], largest + i);
    for (std::size_t i = 0; i < kBlockQueries; ++i) to.scale[i] = scale_of(largest[i], factor[i]);
    for (std::size_t i = 0; i < n; ++i)
      lanes[i] = Dots::template encode<kKeyTile>(scaled[i], factor[i], to.operands + i * kWeightBytes);
    if (Dots::kSigned) return;
    for (std::size_t i = 0; i < kBlockQueries; i += 4)
      V::sum4(lanes[i], lanes[i + 1], lanes[i + 2], lanes[i + 3], sums + i);
    for (std::size_t i = 0; i < kBlockQueries; ++i)
      to.starts[i] = -kQ8Bias * static_cast<std::int32_t>(sums[i]);
  }
  /// A query's weights times the values' scales; of keys that it does not see, zeros.
  static void scale_weights(const float* weights, const V (&d)[kKeyGroups], KeyRange keys,
                            V (&scaled)[kKeyGroups]) {
    CRIA_UNROLL
    for (std::size_t g = 0; g < kKeyGroups; ++g) scaled[g] = V::load(weights + g * kFloatLanes) * d[g];
    if (keys.begin == 0 && keys.end == kKeyTile) return;
    alignas(64) float seen[kKeyTile] = {};
    for (std::size_t g = 0; g < kKeyGroups; ++g) scaled[g].store(seen + g * kFloatLanes);
    for (std::size_t k = 0; k < keys.begin; ++k) seen[k] = 0;
    for (std::size_t k = keys.end; k < kKeyTile; ++k) seen[k] = 0;
    for (std::size_t g = 0; g < kKeyGroups; ++g) scaled[g] = V::load(seen + g * kFloatLanes);
  }

  /// out[d] += weight·value for the dims of one block.
  void accumulate(const Tile& kv, std::size_t b, const BlockRanges& ranges, std::size_t n, std::size_t first,
                  const float (*scores)[kKeyTile]) {
    const std::byte* const block = kv.values + b * kQ8BlockBytes;
    Weights weights;
    encode_weights(block, ranges, n, scores, weights);
    for (std::size_t group = 0; group < 2; group += Dots::kGroups) {
      float* const out = scratch_.out + first * stride_ + b * 32 + group * kFloatLanes;
      multiply<kValueSteps, Dots::kGroups>(n, block + q8_value_offset(0, group * kFloatLanes),
                                           weights.operands, weights.starts, kv.next_values,
                                           [&](std::size_t i, std::size_t g, const V& sums) CRIA_INLINE {
                                             if (ranges.keys[i].empty()) return;
                                             float* const to = out + i * stride_ + g * kFloatLanes;
                                             fma(V::broadcast(weights.scale[i]), sums, V::load(to)).store(to);
                                           });
    }
  }

  std::size_t key_blocks_, value_blocks_;
  IntAttentionScratch work_;
};

}  // namespace cria
