// Where keys and values lie in a layer's cache, for every KvType. One kv head after another; every
// head starts 64-byte aligned.
//
//   F16, F32  K: [tile][head_dim][kKeyTile]           V: [position][value_dim rounded up to 16],
//   zero-padded Q8_0      K, V: [tile][block of 32 dims], each 64 f16 scales, then bytes q + 128,
//   so that four dims of a key, or four
//                positions of a dim of a value, lie together, sixteen such fours in a line:
//             K: [key / 16][dim / 4][key % 16][dim % 4]; V: [dim / 16][position / 4][dim %
//             16][position % 4];
//                dims rounded up to 32, zero-padded
#pragma once

#include <cstddef>

#include "kernels/attention/attention.h"
#include "kernels/formats/blocks32.h"
#include "kernels/formats/round.h"

namespace cria {

/// Bytes of one block of 32 dims of a Q8_0 tile, and where its values start.
inline constexpr std::size_t kQ8BlockBytes = kKeyTile * sizeof(BlockQ8_0);
inline constexpr std::size_t kQ8BlockValues = kKeyTile * sizeof(F16Bits);

/// A byte holds q + this: what instructions that multiply unsigned by signed bytes want.
inline constexpr int kQ8Bias = 128;

/// Where in a block of 32 dims the byte of a position (in its tile) and a dim lies. (Inlined: see
/// formats/f16.h)
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
/// Bytes of one position's value of one kv head; as Q8_0 they lie together with those of its tile
/// only.
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
