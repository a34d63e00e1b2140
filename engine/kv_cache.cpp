#include "engine/kv_cache.h"

#include <cmath>

namespace cria {

std::size_t KvCache::bytes(const LlamaConfig& config, KvType type, std::size_t n_ctx) {
  std::size_t heads = 0;
  for (const std::uint32_t n : config.n_kv_heads) heads += n;
  return heads *
         (key_head_bytes(type, config.head_dim_k, n_ctx) + value_head_bytes(type, config.head_dim_v, n_ctx));
}

KvCache::KvCache(const LlamaConfig& config, KvType type, std::size_t n_ctx)
    : type_(type),
      n_heads_(config.n_heads),
      head_dim_k_(config.head_dim_k),
      head_dim_v_(config.head_dim_v),
      k_head_bytes_(key_head_bytes(type, config.head_dim_k, n_ctx)),
      v_head_bytes_(value_head_bytes(type, config.head_dim_v, n_ctx)),
      pages_(bytes(config, type, n_ctx)) {
  std::byte* next = pages_.data();
  for (const std::uint32_t heads : config.n_kv_heads) {
    layers_.push_back({next, next + heads * k_head_bytes_, heads});
    next += heads * (k_head_bytes_ + v_head_bytes_);
  }
}

KvStoreJob KvCache::store_job(std::uint32_t layer) const {
  KvStoreJob job{};
  job.head_dim = head_dim_k_;
  job.value_dim = head_dim_v_;
  job.kv_type = type_;
  job.k_cache = layers_[layer].k;
  job.v_cache = layers_[layer].v;
  job.k_head_bytes = k_head_bytes_;
  job.v_head_bytes = v_head_bytes_;
  return job;
}

AttentionJob KvCache::attention_job(std::uint32_t layer) const {
  AttentionJob job{};
  job.n_heads = n_heads_;
  job.n_kv_heads = layers_[layer].n_kv_heads;
  job.head_dim = head_dim_k_;
  job.value_dim = head_dim_v_;
  job.scale = 1.0F / std::sqrt(static_cast<float>(head_dim_k_));
  job.kv_type = type_;
  job.k = layers_[layer].k;
  job.v = layers_[layer].v;
  job.k_head_bytes = k_head_bytes_;
  job.v_head_bytes = v_head_bytes_;
  return job;
}

}  // namespace cria
