// State shared by all kinds of attention: the queries of one call, the keys of a tile that each
// query sees, the running maximum and sum. Numerics: kernels/README.md.
//
// Query heads that share the kv head, and neighbouring tokens, are rows of the same blocks. The
// arithmetic of a query never depends on its neighbours: each has its own range of keys in a tile.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "kernels/attention/attention.h"
#include "kernels/attention/segments.h"
#include "kernels/rows/activate.h"
#include "kernels/simd/namespace.h"
#include "kernels/simd/prefetch.h"
#include "kernels/simd/round.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

/// Queries that share one walk over the keys, at most.
inline constexpr std::size_t kQueryChunk = 192;

/// Queries whose tile is worked on together, at most: their maxima, sums and scales are one vector.
inline constexpr std::size_t kBlockQueries = 12;
static_assert(kBlockQueries <= kFloatLanes && kQueryChunk % (2 * kBlockQueries) == 0);

/// Per-thread state of the queries in the caller's scratch, followed by the memory of the kind of
/// attention.
struct AttentionScratch {
  float* out;  ///< [most()][value_dim rounded up], not yet divided by the sums
  float *max, *sum,
      *factor;  ///< [kSlots]; factor: what a product of query and key is multiplied by
  std::byte* work;

  static constexpr std::size_t kSlots =
      kQueryChunk + kFloatLanes;  // whole vectors are read from any slot on
  static constexpr std::size_t padded_values(std::size_t value_dim) {
    return round_up(value_dim, 32);
  }
  /// Queries per walk over the keys, so that their outputs stay in L2.
  static constexpr std::size_t most(std::size_t dim) {
    return dim <= 128 ? kQueryChunk : kQueryChunk / 2;
  }
  static constexpr std::size_t bytes(std::size_t value_dim) {
    return (most(value_dim) * padded_values(value_dim) + 3 * kSlots) * sizeof(float);
  }
  AttentionScratch(std::byte* memory, std::size_t value_dim)
      : out(reinterpret_cast<float*>(memory)),
        max(out + most(value_dim) * padded_values(value_dim)),
        sum(max + kSlots),
        factor(sum + kSlots),
        work(memory + bytes(value_dim)) {}
};

/// Keys [begin, end) of a tile.
struct KeyRange {
  std::size_t begin, end;
  [[nodiscard]] bool empty() const { return begin >= end; }
};

/// The ranges of a block's queries, and what they have in common.
struct BlockRanges {
  KeyRange keys[kBlockQueries], all{kKeyTile, 0},
      common{0, kKeyTile};  // all: union, common: intersection
  [[nodiscard]] bool whole() const { return common.begin == 0 && common.end == kKeyTile; }
  /// Ranges of queries that all see the whole tile.
  static constexpr BlockRanges of_whole() {
    BlockRanges ranges{};
    for (KeyRange& of_query : ranges.keys) of_query = {0, kKeyTile};
    ranges.all = {0, kKeyTile};
    return ranges;
  }
  void set(std::size_t i, KeyRange range) {
    keys[i] = range;
    if (range.begin > common.begin) common.begin = range.begin;
    if (range.end < common.end) common.end = range.end;
    if (range.empty()) return;
    if (range.begin < all.begin) all.begin = range.begin;
    if (range.end > all.end) all.end = range.end;
  }
};

/// Queries that are worked on together in a tile, by slot, and what softmax knows of them.
struct QueryBlock {
  std::size_t first, n;
  BlockRanges ranges;
  alignas(64) float scale[kFloatLanes];         ///< factor still to apply to the scores
  alignas(64) float tile_maximum[kFloatLanes];  ///< the largest score of this tile,
  alignas(64) float maximum[kFloatLanes];       ///< and up to and with it
};

/// A vector for each query of a block, until all are folded.
template <class Isa>
struct QueryLanes {
  using V = F32x16<Isa>;
  V lanes[kBlockQueries];
  explicit QueryLanes(std::size_t n) {  // zeros after the first n
    for (std::size_t i = n; i < kBlockQueries; ++i) lanes[i] = V::broadcast(0);
  }
  [[gnu::always_inline]] V operator()(int i) const {
    return static_cast<std::size_t>(i) < kBlockQueries ? lanes[i] : V::broadcast(0);
  }
};

template <class Isa>
class AttentionQueries : CallQueries {
  using V = F32x16<Isa>;
  static constexpr std::size_t kSegmentTiles = kKeySegment / kKeyTile;

 protected:
  using CallQueries::job_, CallQueries::position;

  AttentionQueries(const AttentionJob& job, std::size_t kv_head, std::size_t token_begin,
                   std::byte* scratch)
      : CallQueries(job, kv_head, token_begin),
        keys_(job.k + kv_head * job.k_head_bytes),
        values_(job.v == nullptr ? nullptr : job.v + kv_head * job.v_head_bytes),
        key_bytes_(key_tile_bytes(job.kv_type, job.head_dim)),
        value_bytes_(kKeyTile * value_row_bytes(job.kv_type, job.value_dim)),
        stride_(AttentionScratch::padded_values(job.value_dim)),
        out_groups_(divide_up(job.value_dim, kFloatLanes)),
        scratch_(scratch, job.value_dim) {}

  /// Keys of a tile that the query in a slot sees.
  [[nodiscard]] KeyRange range(std::size_t slot, std::size_t tile) const {
    const std::size_t start = tile * kKeyTile, pos = positions_[slot], first = job_.first_key(pos);
    if (job_.end_key(pos) <= start || first >= start + kKeyTile) return {0, 0};
    const std::size_t end = job_.end_key(pos) - start;
    return {first > start ? first - start : 0, end < kKeyTile ? end : kKeyTile};
  }
  /// Finds the ranges of the block's queries.
  void find_ranges(QueryBlock& block, std::size_t tile) const {
    const std::size_t start = tile * kKeyTile, last = block.first + block.n - 1;
    // From slot to slot positions do not decrease, nor do first keys and ends.
    if (job_.end_key(positions_[block.first]) >= start + kKeyTile &&
        job_.first_key(positions_[last]) <= start) {
      static constexpr BlockRanges kWhole = BlockRanges::of_whole();
      block.ranges = kWhole;
      return;
    }
    block.ranges = {};
    for (std::size_t i = 0; i < block.n; ++i) block.ranges.set(i, range(block.first + i, tile));
  }
  [[nodiscard]] std::size_t page(std::size_t tile) const {
    return job_.pages == nullptr ? tile : job_.pages[tile];
  }

  /// The memory of a tile; values: null if they are part of the keys.
  struct TileMemory {
    const std::byte *keys, *values;
  };
  [[nodiscard]] TileMemory find_tile(std::size_t tile) const {
    const std::size_t page = this->page(tile);
    return {
        keys_ + page * tile_step(job_.page_bytes, key_bytes_),
        values_ == nullptr ? nullptr : values_ + page * tile_step(job_.page_bytes, value_bytes_)};
  }

  /// Queries [begin, begin + n) into slots from 0 on.
  void start(std::size_t begin, std::size_t n) {
    begin_ = begin;
    n_ = n;
    first_tile_ = job_.first_key(position(begin)) / kKeyTile;
    last_tile_ = (job_.end_key(position(begin + n - 1)) - 1) / kKeyTile;
    end_tile_ = last_tile_ + 1;
    if (job_.states != nullptr) {
      first_tile_ = std::max(first_tile_, job_.segment * kSegmentTiles);
      end_tile_ = std::min(end_tile_, (job_.segment + 1) * kSegmentTiles);
    }
    if (first_tile_ < end_tile_) fetch_first(first_tile_);
    for (std::size_t i = 0; i < n; ++i) {
      scratch_.factor[i] = job_.scale;
      positions_[i] = position(begin + i);
      rows_[i] = this->row(begin + i);
    }
  }
  /// visit(tile) for every tile that they see; fetch_.some() is called so often in each.
  template <class F>
  [[gnu::always_inline]] void walk(std::size_t calls, F visit) {
    for (std::size_t tile = first_tile_; tile < end_tile_; ++tile) {
      if (tile == first_tile_ || tile % kSegmentTiles == 0) begin_segment(tile / kSegmentTiles);
      fetch_after(tile, calls);
      visit(tile);
      if (tile + 1 == end_tile_ || (tile + 1) % kSegmentTiles == 0)
        end_segment(tile / kSegmentTiles);
    }
  }

  using Lanes = QueryLanes<Isa>;

  /// Caps scores (if the model does), hides keys out of range, and finds the block's maxima.
  void find_maxima(QueryBlock& block, float (*scores)[kKeyTile]) const {
    const float* const factor = scratch_.factor + block.first;
    for (std::size_t i = 0; i < block.n; ++i) block.scale[i] = job_.softcap == 0 ? factor[i] : 1;
    if (job_.softcap != 0)
      for (std::size_t i = 0; i < block.n; ++i) cap(scores[i], block.ranges.keys[i], factor[i]);
    if (!block.ranges.whole()) hide(block, scores);
    Lanes largest(block.n);
    for (std::size_t i = 0; i < block.n; ++i) {
      const V scale = V::broadcast(block.scale[i]);
      V lane = V::broadcast(-__builtin_inff());
      if (!block.ranges.keys[i].empty()) {
        CRIA_UNROLL
        for (std::size_t k = 0; k < kKeyTile; k += kFloatLanes)
          lane = max(lane, V::load(scores[i] + k) * scale);
      }
      largest.lanes[i] = lane;
    }
    const V maximum = V::maxima(largest);
    maximum.store(block.tile_maximum);
    max(maximum, V::load(scratch_.max + block.first)).store(block.maximum);  // max() keeps NaN
  }

  /// scores become weights, e^(score - the query's shift) by exp; returns their sums, by query.
  template <class Exp>
  [[gnu::always_inline]] static V weigh(const QueryBlock& block, float (*scores)[kKeyTile],
                                        const V& shift, Exp exp) {
    alignas(64) float shifts[kFloatLanes];
    shift.store(shifts);
    Lanes sums(block.n);
    for (std::size_t i = 0; i < block.n; ++i) {
      V sum = V::broadcast(0);
      if (!block.ranges.keys[i].empty()) {
        const V scale = V::broadcast(block.scale[i]), own = V::broadcast(shifts[i]);
        CRIA_UNROLL
        for (std::size_t k = 0; k < kKeyTile; k += kFloatLanes) {
          const V weight = exp(V::load(scores[i] + k) * scale - own);
          weight.store(scores[i] + k);
          sum = sum + weight;
        }
      }
      sums.lanes[i] = sum;
    }
    return V::sums(sums);
  }

  /// Subtrahend of the scores, by query. It is finite even if all maxima are -infinity, so that
  /// weights are 0, not NaN.
  [[nodiscard]] static V shift_of(const float* maxima) {
    return max(V::broadcast(-__FLT_MAX__), V::load(maxima));
  }
  /// Returns by query e^(the tile's largest score - the largest so far); 1 if it sees nothing.
  [[nodiscard]] V growth(const QueryBlock& block) const {
    return exp_down(seen(block, V::load(block.tile_maximum) - shift_of(block.maximum)));
  }

  /// Sums and outputs are brought to the new maxima. added: to the sums, then.
  void update(const QueryBlock& block, const V& added) {
    const V shrink =
        exp_down(seen(block, V::load(scratch_.max + block.first) - shift_of(block.maximum)));
    float* const sum = scratch_.sum + block.first;
    (V::load(sum) * shrink + added).store_partial(sum, block.n);
    V::load(block.maximum).store_partial(scratch_.max + block.first, block.n);
    alignas(64) float factor[kFloatLanes];
    shrink.store(factor);
    const std::uint32_t ones = less_bits(V::broadcast(0x1.fffffep-1F), shrink);  // none is larger
    for (std::uint32_t left = ~ones & ((1U << block.n) - 1); left != 0; left &= left - 1) {
      const auto i = static_cast<std::size_t>(std::countr_zero(left));
      rescale(scratch_.out + (block.first + i) * stride_, factor[i]);
    }
  }

  const std::byte *keys_, *values_;      ///< base of this kv head
  std::size_t key_bytes_, value_bytes_;  ///< bytes per tile
  std::size_t stride_, out_groups_;
  AttentionScratch scratch_;
  std::size_t positions_[kQueryChunk];  ///< by slot
  const float* rows_[kQueryChunk];      ///< by slot
  PrefetchInTurn fetch_;

 private:
  /// Before the first tile: that and half of the next.
  void fetch_first(std::size_t tile) {
    fetch_.clear();
    add_to_fetch(tile, 0, 2);
    if (tile + 1 <= last_tile_) add_to_fetch(tile + 1, 0, 1);
    fetch_.rest();
  }
  /// While a tile is worked on, by fetch_.some(), so often: the other half of the next one and half
  /// of the one after it.
  void fetch_after(std::size_t tile, std::size_t calls) {
    fetch_.clear();
    if (tile + 1 <= last_tile_) add_to_fetch(tile + 1, 1, 2);
    if (tile + 2 <= last_tile_) add_to_fetch(tile + 2, 0, 1);
    fetch_.pace(calls);
  }

  /// State of the queries before a segment's first key.
  void begin_segment(std::size_t segment) {
    for (std::size_t i = 0; i < n_; ++i) {
      // A sink is a score that was there before all others and has no value.
      const bool sink = job_.sinks != nullptr && job_.segments_of(positions_[i]).begin == segment;
      scratch_.max[i] = sink ? job_.sinks[head(begin_ + i)] : -__builtin_inff();
      scratch_.sum[i] = sink ? 1 : 0;
    }
    for (std::size_t i = 0; i < n_ * stride_; ++i) scratch_.out[i] = 0;
  }
  void end_segment(std::size_t segment) {
    for (std::size_t i = 0; i < n_; ++i) {
      const SegmentRange seen = job_.segments_of(positions_[i]);
      if (!seen.has(segment)) continue;
      const QueryState part{scratch_.max[i], scratch_.sum[i], scratch_.out + i * stride_};
      if (job_.states != nullptr) {
        SegmentStates(job_.states, job_.value_dim).put(begin_ + i, part);
        continue;
      }
      if (segment == seen.begin) merged_[i].out = this->out(begin_ + i);
      SegmentMerge<Isa>(merged_[i], job_.value_dim)
          .add(part, segment == seen.begin, segment + 1 == seen.end);
    }
  }

  /// Halves [begin, end) of a tile's keys and values.
  void add_to_fetch(std::size_t tile, std::size_t begin, std::size_t end) {
    const TileMemory kv = find_tile(tile);
    const auto add = [&](const std::byte* p, std::size_t bytes) {
      fetch_.add(p + begin * (bytes / 2), (end - begin) * (bytes / 2));
    };
    add(kv.keys, key_bytes_);
    if (kv.values != nullptr) add(kv.values, value_bytes_);
  }

  /// Scales the scores, and gives keys out of range -infinity, so that their weights are zero.
  static void hide(QueryBlock& block, float (*scores)[kKeyTile]) {
    for (std::size_t i = 0; i < block.n; ++i) {
      for (std::size_t k = 0; k < kKeyTile; k += kFloatLanes)
        (V::load(scores[i] + k) * V::broadcast(block.scale[i])).store(scores[i] + k);
      block.scale[i] = 1;
      for (std::size_t k = 0; k < block.ranges.keys[i].begin; ++k) scores[i][k] = -__builtin_inff();
      for (std::size_t k = block.ranges.keys[i].end; k < kKeyTile; ++k)
        scores[i][k] = -__builtin_inff();
    }
  }
  /// x, but 0 where a query sees nothing of the tile.
  [[nodiscard]] static V seen(const QueryBlock& block, const V& x) {
    if (block.ranges.whole()) return x;
    alignas(64) float lanes[kFloatLanes];
    x.store(lanes);
    for (std::size_t i = 0; i < block.n; ++i)
      if (block.ranges.keys[i].empty()) lanes[i] = 0;
    return V::load(lanes);
  }
  /// Scales and caps the scores of keys in range; the others are ignored.
  void cap(float* s, KeyRange keys, float factor) const {
    const V scale = V::broadcast(factor);
    for (std::size_t k = keys.begin; k < keys.end; k += kFloatLanes) {
      const std::size_t lanes = keys.end - k < kFloatLanes ? keys.end - k : kFloatLanes;
      store_group(soft_cap(load_group<Isa>(s + k, lanes) * scale, job_.softcap), s + k, lanes);
    }
  }
  void rescale(float* out, float factor) const {
    for (std::size_t g = 0; g < out_groups_; ++g, out += kFloatLanes)
      (V::load(out) * V::broadcast(factor)).store(out);
  }

  std::size_t begin_, n_;  ///< the queries in the slots
  std::size_t first_tile_, end_tile_,
      last_tile_;                   ///< tiles to walk, and the last that any of them sees
  QueryState merged_[kQueryChunk];  ///< by slot: after the segments before the one under way
};

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
