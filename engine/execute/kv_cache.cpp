#include "engine/execute/kv_cache.h"

#include <algorithm>
#include <cstring>

namespace cria {

KvCache::Layer KvCache::layer_of(const CacheSpec& spec, KvType type, std::size_t n_ctx, std::size_t n_batch) {
  const std::size_t all = round_up(n_ctx, kKeyTile) / kKeyTile;
  Layer layer{spec, all, nullptr, nullptr, key_tile_bytes(type, spec.dim_k), 0, 0, 0, {}};
  if (spec.window != 0) {
    // A batch is stored before its first query looks back; both ends may lie inside a page.
    const std::size_t needed = round_up(spec.window - 1 + n_batch, kKeyTile) / kKeyTile + 1;
    if (needed < all) {
      layer.n_pages = needed;
      layer.pages.resize(all);
      for (std::size_t page = 0; page < all; ++page)
        layer.pages[page] = static_cast<std::uint32_t>(page % needed);
    }
  }
  layer.k_head_bytes = layer.n_pages * layer.k_page_bytes;
  if (!spec.latent) {
    layer.v_row_bytes = value_row_bytes(type, spec.dim_v);
    const std::size_t positions = layer.pages.empty() ? n_ctx : layer.n_pages * kKeyTile;
    layer.v_head_bytes = value_head_bytes(type, spec.dim_v, positions);
  }
  return layer;
}

std::size_t KvCache::bytes(const Graph& graph, KvType type, std::size_t n_ctx, std::size_t n_batch) {
  std::size_t sum = 0;
  for (const CacheSpec& spec : graph.caches) sum += layer_of(spec, type, n_ctx, n_batch).bytes();
  return sum;
}

KvCache::KvCache(const Graph& graph, KvType type, std::size_t n_ctx, std::size_t n_batch)
    : type_(type), memory_(bytes(graph, type, n_ctx, n_batch)) {
  std::byte* next = memory_.data();
  for (const CacheSpec& spec : graph.caches) {
    Layer& layer = layers_.emplace_back(layer_of(spec, type, n_ctx, n_batch));
    layer.k = next;
    if (!spec.latent) layer.v = next + spec.n_kv_heads * layer.k_head_bytes;
    next += layer.bytes();
  }
}

// The page of the earliest position that position n may still look at.
std::size_t KvCache::first_page(const Layer& layer, std::size_t n) {
  return layer.spec.window == 0 || n < layer.spec.window ? 0 : (n + 1 - layer.spec.window) / kKeyTile;
}

std::size_t KvCache::rewind(std::size_t n) {
  if (n == 0 || most_written_ == 0) {
    most_written_ = 0;
    return n;
  }
  const std::size_t last = (most_written_ - 1) / kKeyTile;
  for (const Layer& layer : layers_) {
    if (layer.pages.empty() || first_page(layer, n) + layer.n_pages > last) continue;
    most_written_ = 0;
    return 0;
  }
  return n;
}

KvStoreJob KvCache::store_job(std::uint32_t cache) const {
  const Layer& layer = layers_[cache];
  KvStoreJob job{};
  job.head_dim = layer.spec.dim_k;
  job.value_dim = layer.spec.dim_v;
  job.kv_type = type_;
  job.k_cache = layer.k;
  job.v_cache = layer.v;
  job.k_head_bytes = layer.k_head_bytes;
  job.v_head_bytes = layer.v_head_bytes;
  job.pages = layer.pages.empty() ? nullptr : layer.pages.data();
  return job;
}

AttentionJob KvCache::attention_job(std::uint32_t cache, const AttentionSpec& attention) const {
  const Layer& layer = layers_[cache];
  AttentionJob job{};
  job.n_heads = attention.n_heads;
  job.n_kv_heads = layer.spec.latent ? attention.kv_groups : layer.spec.n_kv_heads;
  job.head_dim = layer.spec.dim_k;
  job.value_dim = layer.spec.dim_v;
  job.window = attention.window;
  job.chunk = attention.chunk;
  job.scale = attention.scale;
  job.softcap = attention.softcap;
  if (attention.sinks) job.sinks = reinterpret_cast<const float*>(attention.sinks->data);
  job.kv_type = type_;
  job.k = layer.k;
  job.v = layer.v;
  job.k_head_bytes = layer.spec.latent ? 0 : layer.k_head_bytes;
  job.v_head_bytes = layer.v_head_bytes;
  job.pages = layer.pages.empty() ? nullptr : layer.pages.data();
  return job;
}

}  // namespace cria
