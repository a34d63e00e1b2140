// The public header of attention over the KV cache: jobs, and where keys and values lie. Numerics:
// kernels/README.md.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/formats/blocks32.h"
#include "kernels/simd/round.h"

namespace cria {

enum class KvType : std::uint8_t { F16, F32, Q8_0 };

/// Keys are kept in tiles of this many positions, transposed inside a tile (position fastest), so
/// that scores have keys in SIMD lanes.
inline constexpr std::size_t kKeyTile = 64;

/// Keys are divided into segments of this many positions, counted from position 0. Each segment has
/// its own maximum and sum, and segments are merged in order, so several threads can share the keys
/// of a query.
inline constexpr std::size_t kKeySegment = 2048;

struct SegmentRange {
  std::size_t begin, end;
  [[nodiscard]] bool has(std::size_t segment) const { return begin <= segment && segment < end; }
  [[nodiscard]] std::size_t size() const { return end - begin; }
};

/// One call of attention. K: [kv_head][tile][d][kKeyTile]; V: [kv_head][position][d]; layout of
/// Q8_0: below.
struct AttentionJob {
  const float* q;  ///< [n_tokens][q_stride], heads × head_dim each, already rotated
  std::size_t q_stride;
  float* out;  ///< [n_tokens][out_stride], heads × value_dim
  std::size_t out_stride;
  std::size_t n_heads, n_kv_heads, head_dim, value_dim;
  std::size_t first_pos;  ///< absolute position of token 0
  /// Positions of the whole text, if queries also attend to later ones (encoders). 0: token t
  /// attends to positions 0 … first_pos+t (causal).
  std::size_t text = 0;
  /// Sliding window in positions, the query's own among them; encoders: on each side. 0: none.
  std::size_t window = 0;
  std::size_t chunk =
      0;              ///< positions are attended to from the last multiple of this on; 0: from all
  float scale;        ///< usually 1/sqrt(head_dim)
  float softcap = 0;  ///< scaled scores become softcap·tanh(score/softcap); 0: not
  const float* sinks =
      nullptr;  ///< [n_heads]: one more score per head, whose weight is dropped; null: none
  KvType kv_type;
  const std::byte* k;  ///< this layer's keys, k_head_bytes per kv head
  /// Its values, v_head_bytes per kv head. Null: they are the first value_dim dimensions of the
  /// keys (latent attention, MLA), where heads that share keys may be divided among several kv
  /// heads with k_head_bytes 0.
  const std::byte* v;
  std::size_t k_head_bytes, v_head_bytes;
  /// From a tile of a head's keys to the next, and of its values; 0: they follow one another.
  std::size_t page_bytes = 0;
  /// The tile of k and v that holds positions tile*kKeyTile …; null: `tile` itself. Tiles that no
  /// query sees are not looked up.
  const std::uint32_t* pages = nullptr;
  /// Null: attention() computes all segments. Otherwise it computes `segment` and stores the states
  /// here. merge_segments() then reads the states of all segments that its tokens see, in order.
  float* states = nullptr;
  std::size_t segment = 0;

  [[nodiscard]] std::size_t first_key(std::size_t pos) const {
    const std::size_t from = chunk == 0 ? 0 : pos / chunk * chunk;
    const std::size_t first = window == 0 || pos < window ? 0 : pos + 1 - window;
    return first > from ? first : from;
  }
  /// The end of the keys that the query at pos sees.
  [[nodiscard]] std::size_t end_key(std::size_t pos) const {
    if (text == 0) return pos + 1;
    return window == 0 || text - pos < window ? text : pos + window;
  }
  /// Segments that the query at pos sees.
  [[nodiscard]] SegmentRange segments_of(std::size_t pos) const {
    return {first_key(pos) / kKeySegment, (end_key(pos) - 1) / kKeySegment + 1};
  }
  /// Segments that at least one of the tokens sees.
  [[nodiscard]] SegmentRange segments_of(std::size_t token_begin, std::size_t token_end) const {
    return {segments_of(first_pos + token_begin).begin, segments_of(first_pos + token_end - 1).end};
  }
};

/// Floats for the states of `queries` queries after one segment.
std::size_t segment_state_floats(std::size_t queries, std::size_t value_dim) noexcept;

/// Scratch bytes per thread for jobs of this shape.
std::size_t attention_scratch_bytes(std::size_t head_dim, std::size_t value_dim) noexcept;

// Layout of keys and values in the cache of a layer. One kv head follows another; each starts
// 64-byte aligned.
// - F16, F32: K [tile][head_dim][kKeyTile]; V [position][value_dim rounded up to 16], zero-padded.
// - Q8_0: K, V [tile][block of 32 dims]; each block holds 64 f16 scales, then bytes q + 128. Dims
//   are rounded up to 32, zero-padded. Four dims of a key, or four positions of a dim of a value,
//   are contiguous, sixteen of such fours to a line: K [key / 16][dim / 4][key % 16][dim % 4]; V
//   [dim / 16][position / 4][dim % 16][position % 4].

/// Bytes of one block of 32 dims of a Q8_0 tile, and where its values start.
inline constexpr std::size_t kQ8BlockBytes = kKeyTile * sizeof(BlockQ8_0);
inline constexpr std::size_t kQ8BlockValues = kKeyTile * sizeof(F16Bits);

/// A byte holds q + this: what instructions that multiply unsigned by signed bytes want.
inline constexpr int kQ8Bias = 128;

/// Offset of the byte of a position (in its tile) and a dim in a block of 32 dims.
[[gnu::always_inline]] constexpr std::size_t q8_key_offset(std::size_t slot, std::size_t dim) {
  return kQ8BlockValues + slot / 16 * 512 + dim / 4 * 64 + slot % 16 * 4 + dim % 4;
}
[[gnu::always_inline]] constexpr std::size_t q8_value_offset(std::size_t slot, std::size_t dim) {
  return kQ8BlockValues + dim / 16 * 1024 + slot / 4 * 64 + dim % 16 * 4 + slot % 4;
}

/// Bytes of kKeyTile keys of one kv head.
constexpr std::size_t key_tile_bytes(KvType type, std::size_t head_dim) {
  if (type == KvType::Q8_0) return divide_up(head_dim, 32) * kQ8BlockBytes;
  return head_dim * kKeyTile * (type == KvType::F16 ? 2 : 4);
}
/// Bytes of the value of one position and kv head. Q8_0 stores a tile of values together.
constexpr std::size_t value_row_bytes(KvType type, std::size_t value_dim) {
  if (type == KvType::Q8_0) return divide_up(value_dim, 32) * sizeof(BlockQ8_0);
  return round_up(value_dim, 16) * (type == KvType::F16 ? 2 : 4);
}
/// From a tile of `bytes` to the next of the same head: AttentionJob::page_bytes.
constexpr std::size_t tile_step(std::size_t page_bytes, std::size_t bytes) {
  return page_bytes != 0 ? page_bytes : bytes;
}

/// New keys (already rotated) and values of one layer, for positions first_pos …
/// first_pos+n_tokens-1.
struct KvStoreJob {
  const float* k;  ///< [n_tokens][k_stride], n_kv_heads × head_dim each
  std::size_t k_stride;
  const float* v;  ///< [n_tokens][v_stride], n_kv_heads × value_dim each
  std::size_t v_stride;
  std::size_t n_tokens;
  std::size_t first_pos;
  std::size_t head_dim, value_dim;
  KvType kv_type;
  std::byte* k_cache;  ///< this layer's keys, k_head_bytes per kv head
  std::byte* v_cache;  ///< null: values are not kept (AttentionJob::v)
  std::size_t k_head_bytes, v_head_bytes;
  std::size_t page_bytes = 0;            ///< as in AttentionJob
  const std::uint32_t* pages = nullptr;  ///< as in AttentionJob
};

}  // namespace cria
