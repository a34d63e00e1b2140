// Where keys and values lie in a layer's cache, for every KvType. One kv head after another; every head
// starts 64-byte aligned.
//
//   F16, F32  K: [tile][head_dim][kKeyTile]           V: [position][value_dim rounded up to 16], zero-padded
//   Q8_0      K: [tile][block of 32 dims], each 64 f16 scales, then int8 [32][kKeyTile]; dims rounded up to 32,
//                zero-padded
//             V: [position][value_dim rounded up to 32] as BlockQ8_0
#pragma once

#include <cstddef>

#include "kernels/attention/attention.h"
#include "kernels/formats/blocks32.h"

namespace cria {

constexpr std::size_t round_up(std::size_t n, std::size_t unit) { return (n + unit - 1) / unit * unit; }

/// Bytes of one 32-dim block of a Q8_0 key tile, and where its int8 values start.
inline constexpr std::size_t kQ8KeyBlockBytes = kKeyTile * sizeof(BlockQ8_0);
inline constexpr std::size_t kQ8KeyBlockValues = kKeyTile * sizeof(F16Bits);

/// Bytes of kKeyTile keys of one kv head.
constexpr std::size_t key_tile_bytes(KvType type, std::size_t head_dim) {
  if (type == KvType::Q8_0) return round_up(head_dim, 32) / 32 * kQ8KeyBlockBytes;
  return head_dim * kKeyTile * (type == KvType::F16 ? 2 : 4);
}
/// Bytes of one value row of one kv head.
constexpr std::size_t value_row_bytes(KvType type, std::size_t value_dim) {
  if (type == KvType::Q8_0) return round_up(value_dim, 32) / 32 * sizeof(BlockQ8_0);
  return round_up(value_dim, 16) * (type == KvType::F16 ? 2 : 4);
}
/// Bytes of one kv head for positions 0 … n_ctx-1: AttentionJob::k_head_bytes and v_head_bytes.
constexpr std::size_t key_head_bytes(KvType type, std::size_t head_dim, std::size_t n_ctx) {
  return round_up(n_ctx, kKeyTile) / kKeyTile * key_tile_bytes(type, head_dim);
}
constexpr std::size_t value_head_bytes(KvType type, std::size_t value_dim, std::size_t n_ctx) {
  return round_up(n_ctx * value_row_bytes(type, value_dim), 64);
}

/// New keys (already rotated) and values of one layer, for positions first_pos … first_pos+n_tokens-1.
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
  const std::uint32_t* pages = nullptr;  ///< as in AttentionJob
};

}  // namespace cria
