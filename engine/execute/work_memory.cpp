#include "engine/execute/work_memory.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>

#include "kernels/attention/attention.h"
#include "kernels/attention/kv_layout.h"
#include "kernels/formats/round.h"

namespace cria {
namespace {

constexpr std::size_t kWorkLimit = std::size_t{64} << 20;
constexpr std::size_t kLogitLimit = std::size_t{8} << 20;
constexpr std::size_t kSegmentLimit = std::size_t{4} << 20;  // or what one token wants

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

// Bytes that a thread needs beside its own variables, for any node.
std::size_t scratch_bytes(const Graph& graph) {
  std::size_t bytes = 0;
  for (const Node& node : graph.nodes) {
    std::size_t product = 0, gathered = 0;
    for (const Matrix& m : node.matrices) {
      const std::size_t cols = m.weight.cols();
      product = std::max(product, matmul_scratch_bytes(cols));
      if (m.lora) product = std::max(product, matmul_scratch_bytes(m.lora->b.cols()));
      if (node.op == Op::ExpertsUp || node.op == Op::HeadProducts) {
        const std::size_t tokens = node.op == Op::ExpertsUp ? kExpertTokens : kHeadTokens;
        gathered = std::max(gathered, std::max(Activations::bytes(m.kernel.act, tokens, cols),
                                               tokens * cols * sizeof(float)));
        if (node.products.columns) gathered = std::max(gathered, cols * sizeof(float));
      }
      if (node.op == Op::ExpertsDown) gathered = kExpertTokens * kExpertRows * sizeof(float);
    }
    bytes = std::max(bytes, round_up(product, 64) + gathered);
    if (node.op != Op::Attention) continue;
    const CacheSpec& cache = graph.caches[node.cache];
    bytes = std::max(bytes, attention_scratch_bytes(cache.dim_k, cache.dim_v));
  }
  return round_up(bytes, 64) + 64;  // a line between threads, against false sharing by prefetch
}

// Of the inputs that are laid out for products of many tokens, the largest.
std::size_t most_laid_out(const Graph& graph, std::size_t n_tokens) {
  std::size_t bytes = 0;
  for (const Node& node : graph.nodes) {
    for (const Matrix& m : node.matrices) {
      for (const std::size_t most : {m.kernel.lay_out_few.to, m.kernel.lay_out.to}) {
        const std::size_t n = std::min(n_tokens, most);
        if (const LayOut layout = m.kernel.layout(n);
            layout.bytes != nullptr && lays_out(node, m, n))
          bytes = std::max(bytes, layout.bytes(n, m.weight.cols()));
      }
    }
  }
  return bytes;
}

// States after all segments of a sequence, for as many of a batch's tokens as the limit allows;
// none for one segment.
std::size_t segment_floats(const Graph& graph, const WorkShape& shape) {
  constexpr std::size_t kTokens = 16;
  if (shape.n_ctx <= kKeySegment) return 0;
  std::size_t most = 0;
  for (const Node& node : graph.nodes) {
    if (node.op != Op::Attention) continue;
    const std::size_t token =
        segment_state_floats(node.attention.n_heads, graph.caches[node.cache].dim_v) *
        ((shape.n_ctx - 1) / kKeySegment + 1);
    const std::size_t fit = std::max<std::size_t>(kSegmentLimit / sizeof(float) / token, 1);
    most = std::max(most, token * std::min({fit, kTokens, shape.n_batch}));
  }
  return most;
}

Activations place_acts(Bump& bump, ActType type, std::size_t n_tokens, std::size_t cols) {
  std::byte* const memory = bump.take(Activations::bytes(type, n_tokens, cols));
  return memory == nullptr ? Activations{} : Activations::place(type, n_tokens, cols, memory);
}

/// When a value is needed: from a node that writes it anew to the last that reads that.
struct Span {
  std::size_t first, last;
  [[nodiscard]] bool meets(const Span& other) const {
    return first <= other.last && other.first <= last;
  }
};

std::vector<std::vector<Span>> spans_of(const Graph& graph) {
  std::vector<std::vector<Span>> spans(graph.values.size());
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
  return spans;
}

bool meet(const std::vector<Span>& a, const std::vector<Span>& b) {
  return std::any_of(a.begin(), a.end(), [&](const Span& x) {
    return std::any_of(b.begin(), b.end(), [&](const Span& y) { return x.meets(y); });
  });
}

/// Lays out one value; the same walk counts the bytes.
void place_value(Bump& bump, Value& value, const ValueInfo& info, std::size_t tokens) {
  const std::size_t rows = tokens * info.rows_per_token;
  value.width = info.width;
  value.f32 = bump.floats(rows * info.width);
  for (const ActType type : kQuantizedForms) {
    if (info.acts.has(type))
      value.forms[static_cast<std::size_t>(type)] = place_acts(bump, type, rows, info.width);
  }
}

/// Where each value begins: the lowest place where no value lies that is needed at the same time.
/// Large ones first.
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

void lay_out_routing(Bump& bump, Routing& routing, const Graph& graph, std::size_t n_batch) {
  std::size_t n = 0, used = 0;
  for (const Node& node : graph.nodes) {
    n = std::max(n, node.experts.n);
    used = std::max(used, node.experts.used);
  }
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

void lay_out(Bump& bump, WorkMemory& work, const Graph& graph, const WorkShape& shape,
             std::byte* block) {
  const auto tokens = [&](ValueId id) {
    return id == graph.nodes.back().out ? shape.logit_rows : shape.n_batch;
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
  lay_out_routing(bump, work.routing, graph, shape.n_batch);
  if (const std::size_t bytes = most_laid_out(graph, shape.n_batch); bytes != 0)
    work.laid_out = bump.take(bytes);
  work.segment_floats = segment_floats(graph, shape);
  if (work.segment_floats != 0) work.segment_states = bump.floats(work.segment_floats);
  work.scratch_stride = scratch_bytes(graph);
  work.scratch = bump.take(work.scratch_stride * shape.threads);
  std::size_t countdowns = shape.n_batch;
  for (const Node& node : graph.nodes) {
    if (node.op == Op::FeedForward)
      countdowns = std::max(countdowns, graph.values[node.out].width / 256 + 1);
  }
  work.pending = countdowns_of(bump, countdowns);
  work.pending_groups = countdowns_of(bump, shape.threads * kChunksPerThread * kCountdownStride);
}

}  // namespace

bool lays_out(const Node& node, const Matrix& m, std::size_t n_tokens) {
  const bool dense = node.op == Op::MatMul || node.op == Op::Heads || node.op == Op::FeedForward;
  return dense && m.kernel.layout(n_tokens).run != nullptr;
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

Activations Value::view(ActType type, std::size_t begin, std::size_t end) const {
  if (type != ActType::F32) return token_range(forms[static_cast<std::size_t>(type)], begin, end);
  Activations acts;
  acts.type = ActType::F32;
  acts.n_tokens = end - begin;
  acts.cols = width;
  acts.f32 = row(begin);
  acts.f32_stride = width;
  return acts;
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
  lay_out(bump, counted, graph, shape, nullptr);
  return bump.used();
}

WorkMemory WorkMemory::place(const Graph& graph, const WorkShape& shape, std::byte* block) {
  WorkMemory work;
  Bump bump(block);
  lay_out(bump, work, graph, shape, block);
  return work;
}

WorkShape fit_work(const Graph& graph, std::size_t wanted_batch, unsigned threads,
                   std::size_t n_ctx) {
  const std::size_t logit_bytes = graph.values[graph.nodes.back().out].width * sizeof(float);
  for (std::size_t n_batch = wanted_batch;;
       n_batch = n_batch > 64 ? round_up(n_batch / 2, 32) : n_batch / 2) {
    const WorkShape shape{n_batch, std::clamp<std::size_t>(kLogitLimit / logit_bytes, 1, n_batch),
                          threads, n_ctx};
    if (n_batch == 1 || WorkMemory::bytes(graph, shape) <= kWorkLimit) return shape;
  }
}

}  // namespace cria
