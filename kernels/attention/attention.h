// Attention over the KV cache: contract of one job. Numerics: kernels/README.md.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cria {

enum class KvType : std::uint8_t { F16, F32, Q8_0 };

/// Keys are kept in tiles of this many positions, transposed inside a tile (position fastest), so
/// that scores have keys in SIMD lanes.
inline constexpr std::size_t kKeyTile = 64;

/// Keys are walked in segments of this many positions, counted from position 0, each with its own
/// maximum and sum, and merged in order: so several threads can share a query's keys.
inline constexpr std::size_t kKeySegment = 2048;

struct SegmentRange {
  std::size_t begin, end;
  [[nodiscard]] bool has(std::size_t segment) const { return begin <= segment && segment < end; }
  [[nodiscard]] std::size_t size() const { return end - begin; }
};

/// Where one layer's keys and values lie. K: [kv_head][tile][d][kKeyTile]; V:
/// [kv_head][position][d]; as Q8_0: kernels/attention/kv_layout.h.
struct AttentionJob {
  const float* q;  ///< [n_tokens][q_stride], heads × head_dim each, already rotated
  std::size_t q_stride;
  float* out;  ///< [n_tokens][out_stride], heads × value_dim
  std::size_t out_stride;
  std::size_t n_heads, n_kv_heads, head_dim, value_dim;
  /// Absolute position of token 0; token t attends to positions 0 … first_pos+t (causal).
  std::size_t first_pos;
  std::size_t window = 0;  ///< sliding window in positions, the query's own among them; 0: none
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
  /// Which tile of k and v holds positions tile*kKeyTile …; null: tile itself. Tiles that no query
  /// sees are not looked up.
  const std::uint32_t* pages = nullptr;
  /// Null: attention() computes all segments. Else only `segment`, whose states go here; and
  /// merge_segments() finds here those of all segments that its tokens see, one after the other.
  float* states = nullptr;
  std::size_t segment = 0;

  [[nodiscard]] std::size_t first_key(std::size_t pos) const {
    const std::size_t from = chunk == 0 ? 0 : pos / chunk * chunk;
    const std::size_t first = window == 0 || pos < window ? 0 : pos + 1 - window;
    return first > from ? first : from;
  }
  /// Segments that the query at pos sees.
  [[nodiscard]] SegmentRange segments_of(std::size_t pos) const {
    return {first_key(pos) / kKeySegment, pos / kKeySegment + 1};
  }
  /// Segments that any of these tokens sees.
  [[nodiscard]] SegmentRange segments_of(std::size_t token_begin, std::size_t token_end) const {
    return {segments_of(first_pos + token_begin).begin, segments_of(first_pos + token_end - 1).end};
  }
};

/// Floats that the states of so many queries after one segment take.
std::size_t segment_state_floats(std::size_t queries, std::size_t value_dim) noexcept;

/// Scratch bytes per thread for jobs of this shape.
std::size_t attention_scratch_bytes(std::size_t head_dim, std::size_t value_dim) noexcept;

}  // namespace cria
