#include "engine/work.h"

#include <algorithm>
#include <memory>

#include "kernels/attention.h"
#include "kernels/kv_layout.h"

namespace cria {
namespace {

constexpr std::size_t kWorkLimit = std::size_t{64} << 20;
constexpr std::size_t kLogitLimit = std::size_t{8} << 20;

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
  void rewind(std::size_t used) { used_ = used; }

 private:
  std::byte* block_;
  std::size_t used_ = 0;
};

std::size_t widest_row(const Graph& graph) {
  std::size_t cols = 0;
  for (const Node& node : graph.nodes) {
    for (const Matrix& m : node.matrices) cols = std::max<std::size_t>(cols, m.weight->cols());
  }
  return cols;
}

std::size_t scratch_bytes(const Graph& graph, const LlamaConfig& c) {
  std::size_t bytes = matmul_scratch_bytes(widest_row(graph));
  for (const std::uint32_t kv_heads : c.n_kv_heads) {
    bytes = std::max(bytes, attention_scratch_bytes(c.n_heads, kv_heads, c.head_dim_k, c.head_dim_v));
  }
  return round_up(bytes, 64) + 64;  // a line between threads, against false sharing by prefetch
}

Activations place_acts(Bump& bump, ActType type, std::size_t n_tokens, std::size_t cols) {
  std::byte* const memory = bump.take(Activations::bytes(type, n_tokens, cols));
  return memory == nullptr ? Activations{} : Activations::place(type, n_tokens, cols, memory);
}

// Lays out; the same walk counts the bytes.
void lay_out(Bump& bump, WorkMemory& work, const Graph& graph, const LlamaConfig& config,
             const WorkShape& shape) {
  const auto place = [&](ValueId id) {
    const auto i = static_cast<std::size_t>(id);
    Value& value = work.values[i];
    value.width = graph.width[i];
    const std::size_t tokens = id == ValueId::Logits ? shape.logit_rows : shape.n_batch;
    value.f32 = bump.floats(tokens * value.width);
    for (const ActType type : kQuantizedForms) {
      if (graph.acts[i].has(type))
        value.forms[static_cast<std::size_t>(type)] = place_acts(bump, type, tokens, value.width);
    }
  };
  for (const ValueId id : {ValueId::X, ValueId::Norm, ValueId::Logits}) place(id);
  // Attention and feed-forward never need theirs at the same time.
  const std::size_t start = bump.used();
  for (const ValueId id : {ValueId::Q, ValueId::K, ValueId::V, ValueId::Attn}) place(id);
  const std::size_t attention_end = bump.used();
  bump.rewind(start);
  for (const ValueId id : {ValueId::Ffn, ValueId::Up}) place(id);
  bump.rewind(std::max(attention_end, bump.used()));

  work.rope = bump.floats(shape.n_batch * config.n_rot);
  work.scratch_stride = scratch_bytes(graph, config);
  work.scratch = bump.take(work.scratch_stride * shape.threads);
  const std::size_t countdowns = std::max<std::size_t>(shape.n_batch, config.n_ff / 256 + 1);
  work.pending = reinterpret_cast<std::atomic<std::uint32_t>*>(
      bump.take(countdowns * sizeof(std::atomic<std::uint32_t>)));
  if (work.pending != nullptr) std::uninitialized_value_construct_n(work.pending, countdowns);
}

}  // namespace

Activations token_range(const Activations& acts, std::size_t begin, std::size_t end) {
  Activations part = acts;
  part.n_tokens = end - begin;
  if (acts.f32 != nullptr) part.f32 += begin * acts.f32_stride;
  if (acts.q != nullptr) part.q += begin * acts.q_stride();
  if (acts.d != nullptr) part.d += begin * acts.d_stride();
  if (acts.sum != nullptr) part.sum += begin * acts.sum_stride();
  return part;
}

Activations column_range(const Activations& acts, std::size_t token, std::size_t col, std::size_t cols) {
  const std::size_t block = acts.type == ActType::Q8x32 ? 32 : 256;
  const std::size_t sums = acts.type == ActType::Q8x32 ? 32 : 16;
  Activations part = token_range(acts, token, token + 1);
  part.cols = cols;
  part.q += col * part.value_bytes();
  if (part.d != nullptr) part.d += col / block;
  if (part.sum != nullptr) part.sum += col / sums;
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

std::size_t WorkMemory::bytes(const Graph& graph, const LlamaConfig& config, const WorkShape& shape) {
  WorkMemory counted;
  Bump bump(nullptr);
  lay_out(bump, counted, graph, config, shape);
  return bump.used();
}

WorkMemory WorkMemory::place(const Graph& graph, const LlamaConfig& config, const WorkShape& shape,
                             std::byte* block) {
  WorkMemory work;
  Bump bump(block);
  lay_out(bump, work, graph, config, shape);
  return work;
}

WorkShape fit_work(const Graph& graph, const LlamaConfig& config, std::size_t wanted_batch,
                   unsigned threads) {
  const std::size_t logit_bytes = config.n_vocab * sizeof(float);
  for (std::size_t n_batch = wanted_batch;;
       n_batch = n_batch > 64 ? round_up(n_batch / 2, 32) : n_batch / 2) {
    const WorkShape shape{n_batch, std::clamp<std::size_t>(kLogitLimit / logit_bytes, 1, n_batch), threads};
    if (n_batch == 1 || WorkMemory::bytes(graph, config, shape) <= kWorkLimit) return shape;
  }
}

}  // namespace cria
