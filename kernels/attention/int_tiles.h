// Attention over a Q8_0 cache by integer dot products: queries and the weights of a tile, times the
// scales of its values, are rounded to sixteen bits. Contract: attention.h; numerics:
// kernels/README.md.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/attention/int_dots.h"
#include "kernels/attention/int_weights.h"
#include "kernels/attention/queries.h"
#include "kernels/simd/namespace.h"
#include "kernels/simd/outer_product.h"
#include "kernels/simd/round.h"
#include "kernels/simd/row_lanes.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

/// Per-thread work memory behind AttentionScratch.
struct IntAttentionScratch {
  static constexpr std::size_t kChunk = 96;           ///< queries under way, at most
  static constexpr std::size_t kQueryBytes = 2 * 32;  ///< an operand of 32 dims
  std::byte* queries;                                 ///< [blocks of dims][kChunk] operands
  std::byte* values;                                  ///< a tile of latent values
  std::int32_t* starts;  ///< [blocks of dims][kChunk]: of the queries' sums
  std::byte* weights;    ///< memory of IntWeights

  static constexpr std::size_t blocks(std::size_t dim) { return (dim + 31) / 32; }
  static constexpr std::size_t bytes(std::size_t head_dim, std::size_t value_dim) {
    return blocks(head_dim) * kChunk * (kQueryBytes + sizeof(std::int32_t)) +
           blocks(value_dim) * kQ8BlockBytes +
           IntWeights<ScalarIsa>::scratch_bytes(blocks(value_dim));
  }
  IntAttentionScratch(std::byte* memory, std::size_t head_dim, std::size_t value_dim)
      : queries(memory),
        values(queries + blocks(head_dim) * kChunk * kQueryBytes),
        starts(reinterpret_cast<std::int32_t*>(values + blocks(value_dim) * kQ8BlockBytes)),
        weights(reinterpret_cast<std::byte*>(starts + blocks(head_dim) * kChunk)) {}
};

template <class Isa>
class IntAttention : AttentionQueries<Isa> {
  using Base = AttentionQueries<Isa>;
  using Base::job_, Base::scratch_, Base::stride_, Base::fetch_;
  using Tile = typename Base::TileMemory;  // blocks of 32 dims: attention.h
  using V = F32x16<Isa>;
  using Lanes = QueryLanes<Isa>;
  using Dots = IntDots<Isa>;
  using Weights = typename IntWeights<Isa>::Operands;
  static constexpr std::size_t kWeightBytes = IntWeights<Isa>::kBytes,
                               kChunk = IntAttentionScratch::kChunk;
  static constexpr std::size_t kQueriesInRegisters =
      4;  ///< queries whose products and scores fit in 32 registers
  template <Operand kind>
  static constexpr bool kSigned = Dots::template kSigned<kind>;

 public:
  IntAttention(const AttentionJob& job, std::size_t kv_head, std::size_t token_begin,
               std::byte* scratch)
      : Base(job, kv_head, token_begin, scratch),
        key_blocks_(IntAttentionScratch::blocks(job.head_dim)),
        value_blocks_(IntAttentionScratch::blocks(job.value_dim)),
        work_(scratch_.work, job.head_dim, job.value_dim),
        weights_(work_.weights, value_blocks_) {}

  /// Queries per call of run(): their operands and outputs stay in L1, or they share one converted
  /// latent tile.
  static std::size_t chunk(const AttentionJob& job) {
    return job.v == nullptr ? kChunk : kChunk / 2;
  }

  /// Queries [begin, end), at most chunk().
  void run(std::size_t begin, std::size_t end) {
    const std::size_t n = end - begin, blocks = divide_up(n, kBlockQueries);
    this->start(begin, n);
    for (std::size_t i = 0; i < n; ++i) encode_query(i);
    Step step;
    this->walk(fetches(n, blocks), [&](std::size_t tile) CRIA_INLINE {
      step.kv = load_tile(tile);
      for (std::size_t b = 0; b < blocks; ++b) {
        step.first = n * b / blocks;
        step.n = n * (b + 1) / blocks - step.first;
        this->find_ranges(step, tile);
        if (step.ranges.all.empty()) continue;
        score(step);
        this->find_maxima(step, step.scores);
        weigh(step);
        add_values(step);
      }
    });
  }

 private:
  /// A block of queries that meets a tile.
  struct Step : QueryBlock {
    Tile kv;
    alignas(64) float scores[kBlockQueries][kKeyTile];  ///< then weights
    alignas(64) float growth[kFloatLanes];  ///< by query: e^(the tile's largest score - the largest
                                            ///< so far)
    Weights weights;                        ///< for the block of values under way
  };

  void encode_query(std::size_t slot) {
    const float* const q = this->rows_[slot];
    V largest = V::broadcast(0);
    for (std::size_t i = 0; i < job_.head_dim; i += kFloatLanes)
      largest = max_magnitude(
          largest, abs(load_group<Isa>(
                       q + i, job_.head_dim - i < kFloatLanes ? job_.head_dim - i : kFloatLanes)));
    alignas(64) float scale[kFloatLanes], factor[kFloatLanes];
    V factors;
    operand_scale(V::broadcast(largest.max_magnitude_lane()), factors).store(scale);
    factors.store(factor);
    scratch_.factor[slot] = scale[0] * job_.scale;
    for (std::size_t b = 0; b < key_blocks_; ++b) {
      alignas(64) float values[32] = {};
      const std::size_t left = job_.head_dim - 32 * b;
      __builtin_memcpy(values, q + 32 * b, (left < 32 ? left : 32) * sizeof(float));
      const V x[2] = {V::load(values), V::load(values + kFloatLanes)};
      const V steps[2] = {V::broadcast(factor[0]), V::broadcast(factor[0])};
      const std::size_t at = b * kChunk + slot;
      const V sums = Dots::template encode<Operand::Query>(
          x, steps, work_.queries + at * IntAttentionScratch::kQueryBytes);
      if constexpr (!kSigned<Operand::Query>)
        work_.starts[at] = -kQ8Bias * static_cast<std::int32_t>(sums.sum());
    }
  }

  Tile load_tile(std::size_t tile) {
    Tile kv = this->find_tile(tile);
    if (kv.values == nullptr) {
      kv.values = work_.values;
      for (std::size_t b = 0; b < value_blocks_; ++b)
        transpose_block(kv.keys + b * kQ8BlockBytes, work_.values + b * kQ8BlockBytes);
    }
    for (std::size_t b = 0; b < value_blocks_; ++b)
      weights_.divide_scales(kv.values + b * kQ8BlockBytes, b);
    return kv;
  }

  /// Prefetch calls per tile while n queries in `blocks` blocks are processed.
  [[nodiscard]] std::size_t fetches(std::size_t n, std::size_t blocks) const {
    const std::size_t of_block = divide_up(n, blocks);
    const std::size_t parts = divide_up(of_block, Dots::kQueries);
    // Keys: one call per product. Values: two calls, since they are twice as long.
    const std::size_t groups =
        key_blocks_ * kKeyTile / kFloatLanes + value_blocks_ * 2 * 32 / kFloatLanes;
    return blocks * parts * groups / Dots::kGroups;
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

  /// f(i, number) for parts of n queries, at most kBlockQueries, from i on: as many as fit, as
  /// equally as can be, since few sums wait for each other. number is a compile-time number.
  template <std::size_t Times = divide_up(kBlockQueries, Dots::kQueries), class F>
  static void in_parts(std::size_t n, F f) {
    if constexpr (Times > 1) {
      if (n <= (Times - 1) * Dots::kQueries) return in_parts<Times - 1>(n, f);
    }
    for (std::size_t i = 0, t = 0; t < Times; ++t) {
      const std::size_t end = n * (t + 1) / Times;
      with_number<Dots::kQueries>(end - i, [&](auto number) CRIA_INLINE { f(i, number); });
      i = end;
    }
  }
  template <std::size_t Most, class F>
  static void with_number(std::size_t n, F f) {
    if constexpr (Most > 1) {
      if (n < Most) return with_number<Most - 1>(n, f);
    }
    f(std::integral_constant<std::size_t, Most>{});
  }

  /// Products with the keys that any query sees, to the queries' own scales.
  void score(Step& step) {
    const std::size_t end = divide_up(step.ranges.all.end, kFloatLanes);
    std::size_t group = step.ranges.all.begin / kFloatLanes;
    const auto score = [&](auto groups) CRIA_INLINE {
      for (; group + groups <= end; group += groups)
        in_parts(step.n, [&](std::size_t i, auto number) CRIA_INLINE {
          score_groups<groups, number>(step.kv, group, step.first + i, step.scores + i);
        });
    };
    score(std::integral_constant<std::size_t, Dots::kGroups>{});
    if constexpr (Dots::kGroups > 1) score(std::integral_constant<std::size_t, 1>{});
  }
  /// Not inlined: in the middle of a large function GCC 12 keeps sums in memory.
  template <std::size_t Groups, std::size_t Queries>
  [[gnu::noinline]] void score_groups(const Tile& kv, std::size_t group, std::size_t slot,
                                      float (*scores)[kKeyTile]) {
    const auto at = [&](std::size_t q, std::size_t g)
                        CRIA_INLINE { return scores[q] + (group + g) * kFloatLanes; };
    if constexpr (Queries <= kQueriesInRegisters) {  // registers hold their scores, too
      V s[Queries][Groups];
      const auto each = [&](auto f) CRIA_INLINE {
        unroll<Queries>([&](int q)
                            CRIA_INLINE { unroll<Groups>([&](int g) CRIA_INLINE { f(q, g); }); });
      };
      each([&](auto q, auto g) CRIA_INLINE { s[q][g] = V::broadcast(0); });
      for (std::size_t b = 0; b < key_blocks_; ++b)
        multiply_keys<Groups, Queries>(kv, b, group, slot,
                                       [&](std::size_t q, std::size_t g, const V& d, const V& sums)
                                           CRIA_INLINE { s[q][g] = fma(d, sums, s[q][g]); });
      each([&](auto q, auto g) CRIA_INLINE { s[q][g].store(at(q, g)); });
    } else {
      const float* before = kZeros;
      std::size_t stride = 0;
      for (std::size_t b = 0; b < key_blocks_; ++b) {
        multiply_keys<Groups, Queries>(
            kv, b, group, slot,
            [&](std::size_t q, std::size_t g, const V& d, const V& sums) CRIA_INLINE {
              fma(d, sums, V::load(before + q * stride + g * kFloatLanes)).store(at(q, g));
            });
        before = at(0, 0);
        stride = kKeyTile;
      }
    }
  }
  /// add(query, group, d_k, Σ r*q_k) of the b-th block of dims.
  template <std::size_t Groups, std::size_t Queries, class Add>
  [[gnu::always_inline]] void multiply_keys(const Tile& kv, std::size_t b, std::size_t group,
                                            std::size_t slot, Add add) {
    fetch_.some();
    const std::byte* const block = kv.keys + b * kQ8BlockBytes;
    const std::size_t key = group * kFloatLanes, at = b * kChunk + slot;
    V d[Groups];
    CRIA_UNROLL
    for (std::size_t g = 0; g < Groups; ++g)
      d[g] = V::template load_as<Stored::F16>(block + (key + g * kFloatLanes) * sizeof(F16Bits));
    Dots::template multiply<Operand::Query, Queries, Groups>(
        block + q8_key_offset(key, 0), work_.queries + at * IntAttentionScratch::kQueryBytes,
        work_.starts + at,
        [&](std::size_t q, std::size_t g, const V& sums) CRIA_INLINE { add(q, g, d[g], sums); });
  }

  /// Turns scores into weights relative to the tile's largest score, and rescales sums and outputs
  /// to the new maxima.
  void weigh(Step& step) {
    const V sums = Base::weigh(step, step.scores, Base::shift_of(step.tile_maximum),
                               [](const V& x) CRIA_INLINE { return exp_weight(x); });
    const V growth = this->growth(step);
    growth.store(step.growth);
    this->update(step, sums * growth);
  }

  /// out[d] += weight·value
  void add_values(Step& step) {
    for (std::size_t b = 0; b < value_blocks_; ++b) {
      const std::byte* const block = step.kv.values + b * kQ8BlockBytes;
      weights_.encode(step, step.scores, V::load(step.growth), block, b, step.weights);
      add_values(block, step.weights, step.ranges, step.n,
                 scratch_.out + step.first * stride_ + b * 32);
    }
  }
  void add_values(const std::byte* block, const Weights& weights, const BlockRanges& ranges,
                  std::size_t n, float* out) {
    for (std::size_t group = 0; group < 2; group += Dots::kGroups)
      in_parts(n, [&](std::size_t i, auto number) CRIA_INLINE {
        add_groups<number>(block + q8_value_offset(0, group * kFloatLanes), weights, i,
                           ranges.whole() ? nullptr : ranges.keys + i,
                           out + i * stride_ + group * kFloatLanes);
      });
  }
  /// For queries from the i-th on; keys: what they see, null: all. Not inlined, as above.
  template <std::size_t Queries>
  [[gnu::noinline]] void add_groups(const std::byte* values, const Weights& weights, std::size_t i,
                                    const KeyRange* keys, float* out) {
    fetch_.some();
    Dots::template multiply<Operand::Weights, Queries, Dots::kGroups>(
        values, weights.bytes + i * kWeightBytes, weights.starts + i,
        [&](std::size_t q, std::size_t g, const V& sums) CRIA_INLINE {
          if (keys != nullptr && keys[q].empty()) return;
          float* const to = out + q * stride_ + g * kFloatLanes;
          fma(V::broadcast(weights.scale[i + q]), sums, V::load(to)).store(to);
        });
    fetch_.some();
  }

  std::size_t key_blocks_, value_blocks_;
  IntAttentionScratch work_;
  IntWeights<Isa> weights_;
};

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
