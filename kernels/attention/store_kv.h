// New keys and values into the cache: converted, keys transposed into
// their tiles. Layout: kernels/attention/attention.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/attention/attention.h"
#include "kernels/rows/quantize.h"
#include "kernels/simd/f32x16.h"
#include "kernels/simd/namespace.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

/// Calls f(block, d, 32 × q) for every 32 of n values, the last ones padded with zeros.
template <class Isa, class F>
void quantize_head(const float* x, std::size_t n, F f) {
  constexpr std::size_t kBlocks = 4;  // a head of 128 at once
  for (std::size_t first = 0; first < n; first += kBlocks * 32) {
    const std::size_t count = n - first < kBlocks * 32 ? n - first : kBlocks * 32,
                      blocks = (count + 31) / 32;
    alignas(64) float padded[kBlocks * 32] = {};
    alignas(64) std::int8_t q[kBlocks * 32];
    std::int16_t sums[kBlocks];
    __builtin_memcpy(padded, x + first, count * sizeof(float));
    const BlockQuantizer<Isa, 2> quantizer(padded, 32, blocks);
    quantizer.store(q, 32, sums, 1);
    for (std::size_t b = 0; b < blocks; ++b) f(first / 32 + b, quantizer.d(b), q + b * 32);
  }
}

/// Key or value `slot` of a Q8_0 tile; offset: where in a block its byte of a dim lies.
template <class Isa, class Offset>
void store_q8(const float* x, std::size_t n, std::byte* tile, std::size_t slot, Offset offset) {
  quantize_head<Isa>(x, n, [&](std::size_t block, float d, const std::int8_t* q) {
    std::byte* const to = tile + block * kQ8BlockBytes;
    F32x16<Isa>::store_one_f16(to + slot * sizeof(F16Bits), d);
    for (std::size_t i = 0; i < 32; ++i)
      to[offset(slot, i)] = static_cast<std::byte>(q[i] + kQ8Bias);
  });
}

/// Stores a value as F16 or F32.
template <class Isa>
void store_value_row(KvType type, const float* v, std::size_t n, std::byte* row) {
  using V = F32x16<Isa>;
  const std::size_t bytes = type == KvType::F16 ? 2 : 4;
  for (std::size_t i = 0; i < n; i += kFloatLanes) {
    const V x = n - i < kFloatLanes ? V::load_partial(v + i, n - i) : V::load(v + i);
    type == KvType::F16 ? x.store_f16(row + i * bytes)
                        : x.store(reinterpret_cast<float*>(row + i * bytes));
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
  store_q8<Isa>(k, n, tile, slot,
                [](std::size_t at, std::size_t dim) { return q8_key_offset(at, dim); });
}

/// Value `slot` of a tile.
template <class Isa>
void store_value(KvType type, const float* v, std::size_t n, std::byte* tile, std::size_t slot) {
  if (type == KvType::Q8_0)
    return store_q8<Isa>(v, n, tile, slot,
                         [](std::size_t at, std::size_t dim) { return q8_value_offset(at, dim); });
  store_value_row<Isa>(type, v, n, tile + slot * value_row_bytes(type, n));
}

/// KernelSet::store_kv.
template <class Isa>
void store_kv(const KvStoreJob& job, std::size_t head_begin, std::size_t head_end) {
  const std::size_t key_step = tile_step(job.page_bytes, key_tile_bytes(job.kv_type, job.head_dim)),
                    value_step = tile_step(job.page_bytes,
                                           kKeyTile * value_row_bytes(job.kv_type, job.value_dim));
  for (std::size_t head = head_begin; head < head_end; ++head) {
    std::byte* keys = job.k_cache + head * job.k_head_bytes;
    for (std::size_t t = 0; t < job.n_tokens; ++t) {
      const std::size_t pos = job.first_pos + t, slot = pos % kKeyTile,
                        tile = job.pages == nullptr ? pos / kKeyTile : job.pages[pos / kKeyTile];
      store_key<Isa>(job.kv_type, job.k + t * job.k_stride + head * job.head_dim, job.head_dim,
                     keys + tile * key_step, slot);
      if (job.v_cache == nullptr) continue;
      store_value<Isa>(job.kv_type, job.v + t * job.v_stride + head * job.value_dim, job.value_dim,
                       job.v_cache + head * job.v_head_bytes + tile * value_step, slot);
    }
  }
}

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
