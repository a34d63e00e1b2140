#include "engine/execute/kv_pool.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <numeric>
#include <utility>

#include "kernels/simd/round.h"

namespace cria {

KvPool::Group KvPool::group_for(const CacheSpec& spec, const KvShape& shape) {
  const std::size_t all = divide_up(shape.n_ctx, kKeyTile);
  const std::size_t total = std::max(all, divide_up(shape.positions, kKeyTile));
  // A batch is stored before its first query reads keys; both ends may lie inside a page.
  const std::size_t held = divide_up(spec.window + shape.n_batch - 1, kKeyTile) + 1;
  if (spec.window == 0 || held >= all) return {spec.latent, spec.window, all, total, {}, {}};
  const std::size_t own = held * shape.sequences;
  const std::size_t kept = shape.has_prefix_cache ? std::max(own, shape.kept / kKeyTile) : 0;
  return {spec.latent, spec.window, held, std::max(own, std::min(own + kept, total)), {}, {}};
}

KvPool::Layout KvPool::layout(const Graph& graph, const KvShape& shape) {
  Layout out;
  for (std::size_t i = 0; i < graph.caches.size(); ++i) {
    CacheSpec spec = graph.caches[i];
    if (!shape.held.heads.empty()) spec.n_kv_heads = shape.held.heads[i];
    const Group group = group_for(spec, shape);
    const auto same = [&](const Group& g) {
      return g.latent == group.latent && g.window == group.window;
    };
    const auto at = std::ranges::find_if(out.groups, same);
    const auto index = static_cast<std::size_t>(at - out.groups.begin());
    if (at == out.groups.end()) out.groups.push_back(group);
    Group& its = out.groups[index];
    Layer layer{spec, index, its.page_bytes, key_tile_bytes(shape.type, spec.dim_k), 0};
    if (!spec.latent) layer.v_bytes = kKeyTile * value_row_bytes(shape.type, spec.dim_v);
    its.page_bytes += spec.n_kv_heads * (layer.k_bytes + layer.v_bytes);
    out.layers.push_back(layer);
  }
  if (!graph.states.empty()) add_states(out, graph, shape);
  return out;
}

// A model without attention has pages without bytes, which make up the prefixes of the cache.
void KvPool::add_states(Layout& layout, const Graph& graph, const KvShape& shape) {
  constexpr std::size_t kLeastKept = 4, kLine = 64 / sizeof(float);
  if (layout.groups.empty()) layout.groups.push_back(group_for({}, shape));
  std::size_t live = 0, snapshot = 0;
  for (std::size_t i = 0; i < graph.states.size(); ++i) {
    const StateSpec spec = shape.held.states.empty()
                               ? graph.states[i]
                               : graph.states[i].with_units(shape.held.states[i]);
    layout.states.push_back({spec, live, snapshot});
    live += round_up(spec.floats, kLine);
    snapshot += round_up(spec.snapshot_floats(), kLine);
  }
  const std::size_t own = shape.sequences == 1 ? kOwnSnapshots : 0,
                    kept = std::max({kLeastKept, shape.sequences, shape.kept / kSnapshotInterval});
  const auto add = [&](std::size_t pages, std::size_t floats) {
    Group group{false, 0, 1, pages, {}, {}};
    group.page_bytes = floats * sizeof(float);
    layout.groups.push_back(std::move(group));
  };
  add(shape.has_prefix_cache ? kept : own, snapshot);
  add(shape.sequences, live);
}

std::size_t KvPool::Layout::bytes() const {
  return std::accumulate(
      groups.begin(), groups.end(), std::size_t{0},
      [](std::size_t sum, const Group& group) { return sum + group.n_pages * group.page_bytes; });
}

std::size_t KvPool::bytes(const Graph& graph, const KvShape& shape) {
  return layout(graph, shape).bytes();
}

KvPool::KvPool(const Graph& graph, const KvShape& shape)
    : type_(shape.type), memory_(bytes(graph, shape)) {
  Layout parts = layout(graph, shape);
  groups_ = std::move(parts.groups);
  layers_ = std::move(parts.layers);
  states_ = std::move(parts.states);
  std::size_t begin = 0;
  for (Group& group : groups_) {
    group.begin = begin;
    begin += group.n_pages * group.page_bytes;
    group.references.resize(group.n_pages);
    group.free.resize(group.n_pages);
    std::iota(group.free.rbegin(), group.free.rend(), PageId{0});
  }
  for (Layer& layer : layers_) {
    layer.k = memory_.data() + groups_[layer.group].begin + layer.begin;
    if (!layer.spec.latent) layer.v = layer.k + layer.spec.n_kv_heads * layer.k_bytes;
  }
  const auto first_page = [this](std::size_t group) {
    return reinterpret_cast<float*>(memory_.data() + groups_[group].begin);
  };
  for (State& state : states_) {
    state.live = first_page(live_states()) + state.live_floats;
    state.snapshot = first_page(snapshots()) + state.snapshot_floats;
  }
}

void KvPool::copy_units(std::uint32_t state, PageId live_page, PageId snapshot, UnitRange units,
                        bool save) const {
  const State& s = states_[state];
  const std::size_t width = s.spec.unit_floats, first = units.begin * width;
  float* const from = live(state, live_page) + s.spec.offset + first;
  float* const to = s.snapshot + snapshot * groups_[snapshots()].page_bytes / sizeof(float) + first;
  for (std::size_t row = 0; row < s.spec.rows; ++row) {
    const std::size_t at = row * s.spec.units * width;
    std::memcpy((save ? to : from) + at, (save ? from : to) + at,
                units.size() * width * sizeof(float));
  }
}

PageId KvPool::take(std::size_t group) {
  Group& g = groups_[group];
  if (g.free.empty()) return kNoPage;
  const PageId page = g.free.back();
  g.free.pop_back();
  g.references[page] = 1;
  return page;
}

void KvPool::release(std::size_t group, PageId page) {
  Group& g = groups_[group];
  assert(g.references[page] > 0);
  if (--g.references[page] == 0) g.free.push_back(page);
}

void KvPool::copy(std::size_t group, PageId from, PageId to) {
  const std::size_t bytes = groups_[group].page_bytes;
  std::byte* const pages = memory_.data() + groups_[group].begin;
  if (bytes != 0) std::memcpy(pages + to * bytes, pages + from * bytes, bytes);
}

PageTables KvPool::take_all(std::size_t n) {
  PageTables tables(groups());
  for (std::size_t group = 0; group < kv_groups(); ++group)
    for (std::size_t at = 0; at < n; at += kKeyTile) tables[group].push_back(take(group));
  if (has_states()) tables[live_states()].push_back(take(live_states()));
  return tables;
}

KvStoreJob KvPool::store_job(std::uint32_t cache) const {
  const Layer& layer = layers_[cache];
  KvStoreJob job{};
  job.head_dim = layer.spec.dim_k;
  job.value_dim = layer.spec.dim_v;
  job.kv_type = type_;
  job.k_cache = layer.k;
  job.v_cache = layer.v;
  job.k_head_bytes = layer.k_bytes;
  job.v_head_bytes = layer.v_bytes;
  job.page_bytes = groups_[layer.group].page_bytes;
  return job;
}

AttentionJob KvPool::attention_job(std::uint32_t cache, const AttentionOp& attention) const {
  const Layer& layer = layers_[cache];
  AttentionJob job{};
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
  job.k_head_bytes = layer.spec.latent ? 0 : layer.k_bytes;
  job.v_head_bytes = layer.v_bytes;
  job.page_bytes = groups_[layer.group].page_bytes;
  return job;
}

}  // namespace cria
