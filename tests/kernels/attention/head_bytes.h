// A cache without pages, as tests of kernels have it: all positions of a head lie together
// (AttentionJob::k_head_bytes and v_head_bytes).
#pragma once

#include "kernels/attention/attention.h"
#include "kernels/simd/round.h"

namespace cria::test {

/// Bytes of the keys of one kv head for positions 0 … n_ctx-1.
constexpr std::size_t key_head_bytes(KvType type, std::size_t head_dim, std::size_t n_ctx) {
  return round_up(n_ctx, kKeyTile) / kKeyTile * key_tile_bytes(type, head_dim);
}
/// Bytes of their values.
constexpr std::size_t value_head_bytes(KvType type, std::size_t value_dim, std::size_t n_ctx) {
  const std::size_t rows = type == KvType::Q8_0 ? round_up(n_ctx, kKeyTile) : n_ctx;
  return round_up(rows * value_row_bytes(type, value_dim), 64);
}

}  // namespace cria::test
