// New keys and values into the cache: converted, keys transposed into their tiles. Layout:
// kernels/kv_layout.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/f32x16.h"
#include "kernels/kv_layout.h"
#include "kernels/quantize.h"

namespace cria {

template <class Isa>
void store_value_row(KvType type, const float* v, std::size_t n, std::byte* row) {
  using V = F32x16<Isa>;
  if (type == KvType::Q8_0) {
    for (std::size_t i = 0; i < n; i += 32, row += sizeof(BlockQ8_0)) {
      alignas(64) float x[32] = {};
      std::int8_t q[32];
      __builtin_memcpy(x, v + i, (n - i < 32 ? n - i : 32) * sizeof(float));
      F32x16<Isa>::store_one_f16(row, quantize_values<Isa, 2>(x, q));
      __builtin_memcpy(row + sizeof(F16Bits), q, sizeof q);
    }
    return;
  }
  const std::size_t bytes = type == KvType::F16 ? 2 : 4;
  for (std::size_t i = 0; i < n; i += kFloatLanes) {
    const V x = n - i < kFloatLanes ? V::load_partial(v + i, n - i) : V::load(v + i);
    type == KvType::F16 ? x.store_f16(row + i * bytes) : x.store(reinterpret_cast<float*>(row + i * bytes));
  }
}

/// Key `slot` of a tile.
template <class Isa>
void store_key(KvType type, const float* k, std::size_t n, std::byte* tile, std::size_t slot) {
  using V = F32x16<Isa>;
  if (type == KvType::F32) {
    for (std::size_t d = 0; d < n; ++d) reinterpret_cast<float*>(tile)[d * kKeyTile + slot] = k[d];
    return;
  }
  if (type == KvType::F16) {
    for (std::size_t i = 0; i < n; i += kFloatLanes) {
      const std::size_t lanes = n - i < kFloatLanes ? n - i : kFloatLanes;
      F16Bits half[kFloatLanes];
      (lanes < kFloatLanes ? V::load_partial(k + i, lanes) : V::load(k + i))
          .store_f16(reinterpret_cast<std::byte*>(half));
      for (std::size_t d = 0; d < lanes; ++d)
        reinterpret_cast<F16Bits*>(tile)[(i + d) * kKeyTile + slot] = half[d];
    }
    return;
  }
  for (std::size_t i = 0; i < n; i += 32, tile += kQ8KeyBlockBytes) {
    alignas(64) float x[32] = {};
    std::int8_t q[32];
    __builtin_memcpy(x, k + i, (n - i < 32 ? n - i : 32) * sizeof(float));
    F32x16<Isa>::store_one_f16(tile + slot * sizeof(F16Bits), quantize_values<Isa, 2>(x, q));
    for (std::size_t d = 0; d < 32; ++d)
      reinterpret_cast<std::int8_t*>(tile + kQ8KeyBlockValues)[d * kKeyTile + slot] = q[d];
  }
}

/// KernelSet::store_kv.
template <class Isa>
void store_kv(const KvStoreJob& job, std::size_t head_begin, std::size_t head_end) {
  const std::size_t tile_bytes = key_tile_bytes(job.kv_type, job.head_dim),
                    row_bytes = value_row_bytes(job.kv_type, job.value_dim);
  for (std::size_t head = head_begin; head < head_end; ++head) {
    std::byte* keys = job.k_cache + head * job.k_head_bytes;
    std::byte* values = job.v_cache + head * job.v_head_bytes;
    for (std::size_t t = 0; t < job.n_tokens; ++t) {
      const std::size_t pos = job.first_pos + t;
      store_key<Isa>(job.kv_type, job.k + t * job.k_stride + head * job.head_dim, job.head_dim,
                     keys + pos / kKeyTile * tile_bytes, pos % kKeyTile);
      store_value_row<Isa>(job.kv_type, job.v + t * job.v_stride + head * job.value_dim, job.value_dim,
                           values + pos * row_bytes);
    }
  }
}

}  // namespace cria
