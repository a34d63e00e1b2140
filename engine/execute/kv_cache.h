// Keys and values of past positions, one cache for each CacheSpec of a graph, in the layout of
// kernels/attention/kv_layout.h. Positions lie in pages of kKeyTile, counted from 0. A windowed cache has pages
// for its window and a batch only, and writes new positions over those that have left the window.
#pragma once

#include <algorithm>
#include <vector>

#include "engine/execute/pages.h"
#include "engine/graph/graph.h"
#include "kernels/attention/kv_layout.h"

namespace cria {

class KvCache {
 public:
  /// Bytes for n_ctx positions that arrive at most n_batch at a time.
  static std::size_t bytes(const Graph& graph, KvType type, std::size_t n_ctx, std::size_t n_batch);

  KvCache(const Graph& graph, KvType type, std::size_t n_ctx, std::size_t n_batch);

  /// What the kernels must know to write to and read from a cache; the caller adds the tokens.
  [[nodiscard]] KvStoreJob store_job(std::uint32_t cache) const;
  [[nodiscard]] AttentionJob attention_job(std::uint32_t cache, const AttentionSpec& attention) const;

  /// Positions 0 … n-1 have been written since the cache was empty.
  void written(std::size_t n) { most_written_ = std::max(most_written_, n); }
  /// How many of the first n positions' continuation can be computed: n, or 0 where a window has let go of
  /// what it would need.
  [[nodiscard]] std::size_t rewind(std::size_t n);

  /// visit(pointer, bytes) for what later positions need of 0 … n-1, in an order that depends on the model
  /// only.
  template <class Visitor>
  void for_used_bytes(std::size_t n, Visitor&& visit) const {
    for (const Layer& layer : layers_) {
      for (std::size_t head = 0; head < layer.spec.n_kv_heads; ++head) {
        for (std::size_t page = first_page(layer, n); page * kKeyTile < n; ++page)
          visit(layer.k + head * layer.k_head_bytes + place(layer, page) * layer.k_page_bytes,
                layer.k_page_bytes);
        if (layer.v == nullptr) continue;
        for (std::size_t page = first_page(layer, n); page * kKeyTile < n; ++page)
          visit(layer.v + head * layer.v_head_bytes + place(layer, page) * kKeyTile * layer.v_row_bytes,
                std::min(kKeyTile, n - page * kKeyTile) * layer.v_row_bytes);
      }
    }
  }

 private:
  struct Layer {
    CacheSpec spec;
    std::size_t n_pages;  // fewer than the context has: a ring
    std::byte* k;         // into memory_
    std::byte* v;         // null: latent
    std::size_t k_page_bytes, v_row_bytes, k_head_bytes, v_head_bytes;
    std::vector<std::uint32_t> pages;  // page -> place; empty: the same
    [[nodiscard]] std::size_t bytes() const { return spec.n_kv_heads * (k_head_bytes + v_head_bytes); }
  };
  static Layer layer_of(const CacheSpec& spec, KvType type, std::size_t n_ctx, std::size_t n_batch);
  static std::size_t first_page(const Layer& layer, std::size_t n);
  static std::size_t place(const Layer& layer, std::size_t page) {
    return layer.pages.empty() ? page : layer.pages[page];
  }

  KvType type_;
  std::vector<Layer> layers_;
  Pages memory_;
  std::size_t most_written_ = 0;
};

}  // namespace cria
