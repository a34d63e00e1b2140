#include "engine/calibrate/layer_stream.h"

#include <algorithm>

#include "engine/calibrate/feedback.h"

namespace cria {
namespace {

// Returns the graph with float activations, since matrices are in float32 or float16.
Graph in_floats(const Graph& graph, const KernelSet& kernels) {
  Graph floats = graph;
  ActTypes f32;
  f32.add(ActType::F32);
  for (ValueInfo& value : floats.values) value.acts = f32;
  for (Node& node : floats.nodes) {
    node.acts = {};
    for (Matrix& m : node.matrices)
      if (m.multiplies()) m.kernel = kernels.matmul(DType::F32);
  }
  floats.first_sparse = floats.nodes.size();
  return floats;
}

KvShape shape_of(std::size_t window) {
  return {.type = KvType::F32, .n_ctx = window, .n_batch = window, .positions = window};
}

bool has_experts(const Node& node) {
  return node.as<ExpertsUpOp>() != nullptr || node.as<ExpertsDownOp>() != nullptr;
}

}  // namespace

LayerStream::LayerStream(const Model& model, const CalibrationTokens& tokens,
                         const KernelSet& kernels, unsigned threads)
    : tokens_(tokens),
      graph_(in_floats(model.graph(), kernels)),
      pool_(graph_, shape_of(tokens.window)),
      parts_(GraphParts::whole(graph_)),
      pages_(pool_.take_all(tokens.window)),
      executor_(
          graph_, kernels, pool_,
          {.n_batch = tokens.window, .logit_rows = 1, .threads = threads, .n_ctx = tokens.window},
          {threads, threads}, model.context_length(), parts_, nullptr),
      plan_(tokens.window),
      kept_(graph_.values.size()),
      weights_(graph_.nodes.size()) {
  for (std::size_t i = 0; i < weights_.size(); ++i)
    weights_[i].resize(graph_.nodes[i].matrices.size());
}

void LayerStream::replace(std::size_t node, std::size_t matrix, std::vector<float> values) {
  weights_[node][matrix] = std::move(values);
}

void LayerStream::replace_table(std::size_t node, std::size_t matrix, const TensorView& table) {
  graph_.nodes[node].matrices[matrix].weight = table;
}

// Float32 matrices of the file are read where they lie; others become float32 now.
void LayerStream::convert_weights(std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; ++i) {
    for (std::size_t k = 0; k < weights_[i].size(); ++k) {
      Matrix& m = graph_.nodes[i].matrices[k];
      if (!m.multiplies() || (m.weight.dtype == DType::F32 && weights_[i][k].empty())) continue;
      std::vector<float>& values = weights_[i][k];
      if (values.empty()) {
        values.resize(m.weight.rows() * m.weight.cols());
        const std::size_t cols = m.weight.cols(), row_bytes = m.weight.row_bytes();
        const DTypeInfo& info = dtype_info(m.weight.dtype);
        for_each_on(executor_.shape().threads, m.weight.rows(), [&](std::size_t row) {
          info.dequantize(m.weight.data + row * row_bytes, &values[row * cols], cols);
        });
      }
      m.weight.dtype = DType::F32;
      m.weight.data = reinterpret_cast<const std::byte*>(values.data());
      m.weight.bytes = values.size() * sizeof(float);
    }
  }
}

std::size_t LayerStream::router_of(std::size_t node) const {
  if (!has_experts(graph_.nodes[node])) return node;
  std::size_t router = node;
  while (graph_.nodes[router].as<RouteOp>() == nullptr) --router;
  return router;
}

// Values that a node from `node` on reads before any writes them.
std::vector<bool> LayerStream::live_at(std::size_t node) const {
  std::vector<bool> live(graph_.values.size()), written(graph_.values.size());
  for (std::size_t i = node; i < graph_.nodes.size(); ++i) {
    for (const ValueId id : graph_.nodes[i].reads())
      if (!written[id]) live[id] = true;
    if (const std::size_t router = router_of(i); router < node)
      live[graph_.nodes[router].in] = true;  // experts are chosen again
    for (const ValueId id : graph_.nodes[i].writes()) written[id] = true;
  }
  return live;
}

void LayerStream::run_to(std::size_t end) {
  if (end <= position_) return;
  for (std::size_t i = position_ + 1; i < end; ++i)
    if (graph_.nodes[i].as<RouteOp>() != nullptr) run_to(i);  // keeps what the router overwrites
  convert_weights(position_, end);
  const std::vector<bool> live = live_at(end);
  // A router overwrites its input, which must stay as it was for the next time.
  std::vector<bool> fixed(live.size());
  for (std::size_t i = position_; i < end; ++i)
    if (graph_.nodes[i].as<RouteOp>() != nullptr) fixed[graph_.nodes[i].in] = true;
  for (std::size_t w = 0; w < tokens_.windows(); ++w) {
    run_window(w, position_, end);
    save(w, live, fixed);
  }
  for (std::size_t id = 0; id < kept_.size(); ++id)
    if (!live[id]) std::vector<float>().swap(kept_[id]);
  for (std::size_t i = position_; i < end; ++i)
    for (std::vector<float>& values : weights_[i]) std::vector<float>().swap(values);
  position_ = end;
}

void LayerStream::run_window(std::size_t window, std::size_t begin, std::size_t end) {
  plan_.clear();
  plan_.add(std::span(tokens_.ids).subspan(window * tokens_.window, tokens_.window), 0, 0, pages_);
  plan_.finish();
  load(window);
  std::size_t routed = graph_.nodes.size();
  for (std::size_t i = begin; i < end; ++i) {
    const std::size_t router = router_of(i);
    if (router < begin && router != routed) {
      executor_.run_nodes(plan_, router, router + 1);
      routed = router;
    }
    executor_.run_nodes(plan_, i, i + 1);
  }
}

void LayerStream::load(std::size_t window) {
  for (std::size_t id = 0; id < kept_.size(); ++id) {
    if (kept_[id].empty()) continue;
    const std::size_t n = kept_[id].size() / tokens_.windows();
    std::copy_n(&kept_[id][window * n], n, executor_.value(static_cast<ValueId>(id)));
  }
}

void LayerStream::save(std::size_t window, const std::vector<bool>& live,
                       const std::vector<bool>& fixed) {
  for (std::size_t id = 0; id < kept_.size(); ++id) {
    if (!live[id] || (fixed[id] && !kept_[id].empty())) continue;
    const ValueInfo& info = graph_.values[id];
    const std::size_t n = tokens_.window * info.rows_per_token * info.width;
    kept_[id].resize(n * tokens_.windows());
    std::copy_n(executor_.value(static_cast<ValueId>(id)), n, &kept_[id][window * n]);
  }
}

void LayerStream::visit_experts(std::size_t node,
                                const std::function<void(std::size_t, const ExpertRows&)>& f) {
  const std::size_t router = router_of(node);
  const std::size_t n = graph_.nodes[router].as<RouteOp>()->n;
  for (std::size_t w = 0; w < tokens_.windows(); ++w) {
    run_window(w, router, router + 1);
    f(w, executor_.expert_rows(n));
  }
}

std::size_t LayerStream::bytes() const {
  std::size_t bytes = 0;
  for (const std::vector<float>& values : kept_) bytes += values.size() * sizeof(float);
  return bytes;
}

}  // namespace cria
