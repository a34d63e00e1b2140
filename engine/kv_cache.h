// Keys and values of past positions, per layer, in the layout of kernels/kv_layout.h.
#pragma once

#include <vector>

#include "engine/pages.h"
#include "kernels/kv_layout.h"
#include "model/config.h"

namespace cria {

class KvCache {
 public:
  /// Bytes for n_ctx positions.
  static std::size_t bytes(const LlamaConfig& config, KvType type, std::size_t n_ctx);

  KvCache(const LlamaConfig& config, KvType type, std::size_t n_ctx);

  /// What the kernels must know to write to and read from a layer's cache; the caller adds the tokens.
  [[nodiscard]] KvStoreJob store_job(std::uint32_t layer) const;
  [[nodiscard]] AttentionJob attention_job(std::uint32_t layer) const;

  /// visit(pointer, bytes) for what positions 0 … n-1 occupy, in an order that depends on the model only.
  template <class Visitor>
  void for_used_bytes(std::size_t n, Visitor&& visit) const {
    for (const Layer& layer : layers_) {
      for (std::size_t head = 0; head < layer.n_kv_heads; ++head) {
        visit(layer.k + head * k_head_bytes_, key_head_bytes(type_, head_dim_k_, n));
        visit(layer.v + head * v_head_bytes_, n * value_row_bytes(type_, head_dim_v_));
      }
    }
  }

 private:
  struct Layer {
    std::byte* k;  // into pages_
    std::byte* v;
    std::size_t n_kv_heads;
  };
  KvType type_;
  std::size_t n_heads_, head_dim_k_, head_dim_v_;
  std::size_t k_head_bytes_, v_head_bytes_;
  std::vector<Layer> layers_;
  Pages pages_;
};

}  // namespace cria
