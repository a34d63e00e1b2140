// Attention over the KV cache: contract of one job. Numerics: kernels/README.md.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cria {

enum class KvType : std::uint8_t { F16, F32, Q8_0 };

/// Keys are kept in tiles of this many positions, transposed inside a tile (position fastest), so that scores
/// have keys in SIMD lanes.
inline constexpr std::size_t kKeyTile = 64;

/// Where one layer's keys and values lie. K: [kv_head][tile][d][kKeyTile] ; V: [kv_head][position][d]. Q8_0:
/// see kernels/kv_layout.h.
struct AttentionJob {
  const float* q;  ///< [n_tokens][q_stride], heads × head_dim each, already rotated
  std::size_t q_stride;
  float* out;  ///< [n_tokens][out_stride], heads × value_dim
  std::size_t out_stride;
  std::size_t n_heads, n_kv_heads, head_dim, value_dim;
  std::size_t
      first_pos;  ///< absolute position of token 0; token t attends to positions 0 … first_pos+t (causal)
  std::size_t window = 0;  ///< sliding window in positions; 0: none
  float scale;             ///< usually 1/sqrt(head_dim)
  KvType kv_type;
  const std::byte* k;  ///< this layer's keys, stride_k bytes per kv head
  const std::byte* v;
  std::size_t k_head_bytes, v_head_bytes;
};

/// Scratch bytes per thread for jobs of this shape.
std::size_t attention_scratch_bytes(std::size_t n_heads, std::size_t n_kv_heads, std::size_t head_dim,
                                    std::size_t value_dim) noexcept;

}  // namespace cria
