#include "engine/execute/work_memory.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>

#include "kernels/attention/attention.h"
#include "kernels/simd/round.h"

namespace cria {
namespace {

constexpr std::size_t kWorkLimit = std::size_t{64} << 20;
constexpr std::size_t kLogitLimit = std::size_t{8} << 20;
constexpr std::size_t kSegmentLimit = std::size_t{4} << 20;  // or what one token needs

// Hands out a block piece by piece; without a block it only counts.
class Bump {
 public:
  explicit Bump(std::byte* block) : block_(block) {}
  std::byte* take(std::size_t bytes) {
    std::byte* const piece = block_ == nullptr ? nullptr : block_ + used_;
    used_ += round_up(bytes, 64);
    return piece;
  }
  float* floats(std::size_t n) { return reinterpret_cast<float*>(take(n * sizeof(float))); }

  std::size_t used() const { return used_; }

 private:
  std::byte* block_;
  std::size_t used_ = 0;
};

// Returns the scratch that the node's products need.
std::size_t product_scratch(const Node& node) {
  std::size_t bytes = 0;
  for (const Matrix& m : node.matrices) {
    bytes = std::max(bytes, matmul_scratch_bytes(m.weight.cols()));
    if (m.lora) bytes = std::max(bytes, matmul_scratch_bytes(m.lora->b.cols()));
  }
  return round_up(bytes, 64);
}

// The largest needs of any node, in addition to its values.
struct WorkNeeds {
  std::size_t scratch = 0;         // bytes per thread
  std::size_t packed = 0;          // bytes of packed inputs
  std::size_t segment_floats = 0;  // WorkMemory::segment_floats
  std::size_t countdowns = 0;      // WorkMemory::pending
  std::size_t experts = 0, experts_used = 0;
};

// Returns the floats of states after all segments of a sequence, for the tokens of a batch that fit
// the limit. One segment needs none.
std::size_t segment_floats(std::size_t floats, const WorkShape& shape) {
  constexpr std::size_t kTokens = 16;
  if (shape.n_ctx <= kKeySegment || floats == 0) return 0;
  const std::size_t token = floats * ((shape.n_ctx - 1) / kKeySegment + 1);
  const std::size_t fit = std::max<std::size_t>(kSegmentLimit / sizeof(float) / token, 1);
  return token * std::min({fit, kTokens, shape.n_batch});
}

WorkNeeds needs_of(const Graph& graph, const WorkShape& shape) {
  WorkNeeds needs;
  needs.countdowns = shape.n_batch;
  const auto raise = [](std::size_t& need, std::size_t to) { need = std::max(need, to); };
  for (const Node& node : graph.nodes) {
    const NodeFacts& facts = node.facts;
    raise(needs.scratch, product_scratch(node) + facts.scratch);
    raise(needs.countdowns, facts.countdowns);
    raise(needs.segment_floats, segment_floats(facts.segment_floats, shape));
    raise(needs.experts, facts.experts);
    raise(needs.experts_used, facts.experts_used);
    for (const Matrix& m : node.matrices) {
      for (const std::size_t most : {m.kernel.pack_small.to, m.kernel.pack.to}) {
        const std::size_t n = std::min(shape.n_batch, most);
        if (const PackActivations packing = m.kernel.packing(n);
            packing.bytes != nullptr && packs_input(node, m, n))
          raise(needs.packed, packing.bytes(n, m.weight.cols()));
      }
    }
  }
  needs.scratch = round_up(needs.scratch, 64) + 64;  // a cache line against false sharing
  return needs;
}

Activations place_acts(Bump& bump, ActType type, std::size_t n_tokens, std::size_t cols) {
  std::byte* const memory = bump.take(Activations::bytes(type, n_tokens, cols));
  return memory == nullptr ? Activations{} : Activations::place(type, n_tokens, cols, memory);
}

/// The nodes during which a value is needed: from one that writes it to the last that reads it.
struct Span {
  std::size_t first, last;
  [[nodiscard]] bool meets(const Span& other) const {
    return first <= other.last && other.first <= last;
  }
};

std::vector<std::vector<Span>> spans_of(const Graph& graph) {
  std::vector<std::vector<Span>> spans(graph.values.size());
  if (graph.input != kNoValue) spans[graph.input].push_back({0, 0});
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const std::vector<ValueId> reads = graph.nodes[i].reads();
    for (const ValueId id : reads) {
      if (spans[id].empty()) spans[id].push_back({i, i});
      spans[id].back().last = i;
    }
    for (const ValueId id : graph.nodes[i].writes()) {
      if (std::find(reads.begin(), reads.end(), id) == reads.end()) spans[id].push_back({i, i});
    }
  }
  if (graph.hidden != kNoValue) spans[graph.hidden].back().last = graph.nodes.size();
  return spans;
}

bool meet(const std::vector<Span>& a, const std::vector<Span>& b) {
  return std::any_of(a.begin(), a.end(), [&](const Span& x) {
    return std::any_of(b.begin(), b.end(), [&](const Span& y) { return x.meets(y); });
  });
}

/// Places one value; without a block it only counts the bytes.
void place_value(Bump& bump, Value& value, const ValueInfo& info, std::size_t tokens) {
  const std::size_t rows = tokens * info.rows_per_token;
  value.width = info.width;
  value.f32 = bump.floats(rows * info.width);
  for (const ActType type : kQuantizedForms) {
    if (info.acts.has(type))
      value.forms[static_cast<std::size_t>(type)] = place_acts(bump, type, rows, info.width);
  }
}

/// Returns where each value begins: the lowest place that no value needed at the same time
/// overlaps. Places large values first.
std::vector<std::size_t> offsets_of(const Graph& graph, const std::vector<std::size_t>& sizes) {
  const auto spans = spans_of(graph);
  std::vector<ValueId> order(sizes.size());
  std::iota(order.begin(), order.end(), ValueId{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](ValueId a, ValueId b) { return sizes[a] > sizes[b]; });
  std::vector<std::size_t> offsets(sizes.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    const ValueId id = order[i];
    bool moved = true;
    while (moved) {
      moved = false;
      for (std::size_t j = 0; j < i; ++j) {
        const ValueId other = order[j];
        const bool apart = offsets[id] + sizes[id] <= offsets[other] ||
                           offsets[other] + sizes[other] <= offsets[id];
        if (apart || !meet(spans[id], spans[other])) continue;
        offsets[id] = offsets[other] + sizes[other];
        moved = true;
      }
    }
  }
  return offsets;
}

void place_routing(Bump& bump, Routing& routing, const WorkNeeds& needs, std::size_t n_batch) {
  const std::size_t n = needs.experts, used = needs.experts_used;
  if (n == 0) return;
  const auto numbers = [&bump](std::size_t count) {
    return reinterpret_cast<std::uint32_t*>(bump.take(count * sizeof(std::uint32_t)));
  };
  routing.ids = numbers(n_batch * used);
  routing.weights = bump.floats(n_batch * used);
  routing.scores = bump.floats(n_batch * n);
  routing.begin = numbers(n + 1);
  routing.active = numbers(n);
  routing.token = numbers(n_batch * used);
  routing.slot_weight = bump.floats(n_batch * used);
}

std::atomic<std::uint32_t>* countdowns_of(Bump& bump, std::size_t n) {
  auto* const at = reinterpret_cast<std::atomic<std::uint32_t>*>(
      bump.take(n * sizeof(std::atomic<std::uint32_t>)));
  if (at != nullptr) std::uninitialized_value_construct_n(at, n);
  return at;
}

void place_all(Bump& bump, WorkMemory& work, const Graph& graph, const WorkShape& shape,
               std::byte* block) {
  const WorkNeeds needs = needs_of(graph, shape);
  const auto tokens = [&](ValueId id) {
    return id == graph.logits ? shape.logit_rows : shape.n_batch;
  };
  std::vector<std::size_t> sizes;
  work.values.resize(graph.values.size());
  for (ValueId id = 0; id < graph.values.size(); ++id) {
    Bump count(nullptr);
    place_value(count, work.values[id], graph.values[id], tokens(id));
    sizes.push_back(count.used());
  }
  const std::vector<std::size_t> offsets = offsets_of(graph, sizes);
  std::size_t end = 0;
  for (ValueId id = 0; id < graph.values.size(); ++id) {
    end = std::max(end, offsets[id] + sizes[id]);
    if (block == nullptr) continue;
    Bump at(block + offsets[id]);
    place_value(at, work.values[id], graph.values[id], tokens(id));
  }
  bump.take(end);
  for (const RopeTable& rope : graph.ropes)
    work.ropes.push_back(bump.floats(shape.n_batch * rope.width()));
  place_routing(bump, work.routing, needs, shape.n_batch);
  if (needs.packed != 0) work.packed = bump.take(needs.packed);
  work.segment_floats = needs.segment_floats;
  if (work.segment_floats != 0) work.segment_states = bump.floats(work.segment_floats);
  work.scratch_stride = needs.scratch;
  work.scratch = bump.take(work.scratch_stride * shape.threads);
  work.pending = countdowns_of(bump, needs.countdowns);
  work.pending_groups = countdowns_of(bump, shape.threads * kChunksPerThread * kCountdownStride);
}

}  // namespace

bool packs_input(const Node& node, const Matrix& m, std::size_t n_tokens) {
  return node.facts.dense && m.kernel.packing(n_tokens).run != nullptr;
}

std::size_t input_bytes(const Node& node, std::size_t n_tokens) {
  std::size_t bytes = 0;
  for (const Matrix& m : node.matrices)
    bytes = std::max({bytes, Activations::bytes(m.kernel.act, n_tokens, m.weight.cols()),
                      n_tokens * m.weight.cols() * sizeof(float)});
  return bytes;
}

Activations token_range(const Activations& acts, std::size_t begin, std::size_t end) {
  Activations part = acts;
  part.n_tokens = end - begin;
  if (acts.f32 != nullptr) part.f32 += begin * acts.f32_stride;
  if (acts.q != nullptr) part.q += begin * acts.q_stride();
  if (acts.d != nullptr) part.d += begin * acts.d_stride();
  if (acts.sum != nullptr) part.sum += begin * acts.sum_stride();
  return part;
}

Activations column_range(const Activations& acts, std::size_t token, std::size_t col,
                         std::size_t cols) {
  Activations part = token_range(acts, token, token + 1);
  part.cols = cols;
  part.q += col * part.value_bytes();
  if (part.d != nullptr) part.d += col / acts.values_per_d();
  if (part.sum != nullptr) part.sum += col / acts.values_per_sum();
  return part;
}

Activations place_activations(ActType type, std::size_t n_tokens, std::size_t cols,
                              std::byte* memory) {
  if (type != ActType::F32) return Activations::place(type, n_tokens, cols, memory);
  Activations acts;
  acts.type = type;
  acts.n_tokens = n_tokens;
  acts.cols = acts.f32_stride = cols;
  acts.f32 = reinterpret_cast<float*>(memory);
  return acts;
}

Activations Value::view(ActType type, std::size_t begin, std::size_t end) const {
  if (type != ActType::F32) return token_range(forms[static_cast<std::size_t>(type)], begin, end);
  return place_activations(type, end - begin, width, reinterpret_cast<std::byte*>(row(begin)));
}

void Value::quantize(const KernelSet& kernels, ActTypes types, UnitRange rows,
                     UnitRange cols) const {
  for (const ActType type : kQuantizedForms) {
    if (!types.has(type)) continue;
    Activations acts = view(type, rows.begin, rows.end);
    kernels.quantize(row(rows.begin), width, acts, 0, rows.size(), cols.begin, cols.end);
  }
}

void copy_row(const Activations& from, std::size_t i, Activations& to, std::size_t j) {
  if (from.type == ActType::F32) {
    std::memcpy(const_cast<float*>(to.f32) + j * to.f32_stride, from.f32 + i * from.f32_stride,
                from.cols * sizeof(float));
    return;
  }
  std::memcpy(to.q + j * to.q_stride(), from.q + i * from.q_stride(), from.q_stride());
  if (from.d != nullptr)
    std::memcpy(to.d + j * to.d_stride(), from.d + i * from.d_stride(),
                from.d_stride() * sizeof(float));
  if (from.sum != nullptr)
    std::memcpy(to.sum + j * to.sum_stride(), from.sum + i * from.sum_stride(),
                from.sum_stride() * sizeof(std::int16_t));
}

void Value::copy_row(std::size_t from, std::size_t to) const {
  std::copy_n(row(from), width, row(to));
  for (const ActType type : kQuantizedForms) {
    Activations form = forms[static_cast<std::size_t>(type)];
    if (form.type != ActType::None) cria::copy_row(form, from, form, to);
  }
}

std::size_t WorkMemory::bytes(const Graph& graph, const WorkShape& shape) {
  WorkMemory counted;
  Bump bump(nullptr);
  place_all(bump, counted, graph, shape, nullptr);
  return bump.used();
}

WorkMemory WorkMemory::place(const Graph& graph, const WorkShape& shape, std::byte* block) {
  WorkMemory work;
  Bump bump(block);
  place_all(bump, work, graph, shape, block);
  return work;
}

WorkShape fit_work(const Graph& graph, std::size_t wanted_batch, unsigned threads,
                   std::size_t n_ctx, std::size_t least) {
  const std::size_t logit_bytes =
      graph.logits == kNoValue ? 1 : graph.values[graph.logits].width * sizeof(float);
  for (std::size_t n_batch = wanted_batch;;
       n_batch = std::max(least, n_batch > 64 ? round_up(n_batch / 2, 32) : n_batch / 2)) {
    const WorkShape shape{n_batch, std::clamp<std::size_t>(kLogitLimit / logit_bytes, 1, n_batch),
                          threads, n_ctx};
    if (n_batch <= least || WorkMemory::bytes(graph, shape) <= kWorkLimit) return shape;
  }
}

}  // namespace cria
