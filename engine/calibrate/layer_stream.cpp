#include "engine/calibrate/layer_stream.h"

#include <algorithm>

#include "engine/calibrate/feedback.h"
#include "engine/quantize/plan.h"

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

constexpr std::size_t kLogitRows = 64;

std::optional<std::uint32_t> layer_of(const Node& node) { return tensor_role(node.name).layer; }

// True if a layer reads keys that another one has written.
bool shares_keys(const Graph& graph) {
  std::vector<std::optional<std::uint32_t>> writer(graph.caches.size());
  for (const Node& node : graph.nodes) {
    const auto* const heads = node.as<HeadsOp>();
    const auto* const attention = node.as<AttentionOp>();
    if (heads != nullptr && heads->cache != kNoIndex) writer[heads->cache] = layer_of(node);
    if (attention != nullptr && writer[attention->cache] != layer_of(node)) return true;
  }
  return false;
}

KvShape shape_of(const Graph& graph, const CalibrationTokens& tokens) {
  const std::size_t n = tokens.window, tiles = (n + kKeyTile - 1) / kKeyTile;
  return {.type = KvType::F32,
          .n_ctx = n,
          .n_batch = n,
          .positions = shares_keys(graph) ? tokens.windows() * tiles * kKeyTile : n};
}

std::vector<PageTables> pages_of(KvPool& pool, const Graph& graph,
                                 const CalibrationTokens& tokens) {
  std::vector<PageTables> tables(shares_keys(graph) ? tokens.windows() : 1);
  for (PageTables& table : tables) table = pool.take_all(tokens.window);
  return tables;
}

bool has_experts(const Node& node) {
  return node.as<ExpertsUpOp>() != nullptr || node.as<ExpertsDownOp>() != nullptr;
}

// Converts the matrices of nodes [begin, end) to float32 for its lifetime. Matrices that are
// float32 in the file are read in place.
class FloatWeights {
 public:
  FloatWeights(Graph& graph, std::size_t begin, std::size_t end, unsigned threads) {
    for (std::size_t i = begin; i < end; ++i)
      for (Matrix& m : graph.nodes[i].matrices)
        if (m.multiplies() && m.weight.dtype != DType::F32) convert(m, threads);
  }
  ~FloatWeights() {
    for (const auto& [matrix, weight] : before_) matrix->weight = weight;
  }
  FloatWeights(const FloatWeights&) = delete;
  FloatWeights& operator=(const FloatWeights&) = delete;

 private:
  void convert(Matrix& m, unsigned threads) {
    const TensorView from = m.weight;
    before_.emplace_back(&m, from);
    std::vector<float>& values = values_.emplace_back(from.rows() * from.cols());
    for_each_on(threads, from.rows(), [&](std::size_t row) {
      dtype_info(from.dtype)
          .dequantize(from.data + row * from.row_bytes(), &values[row * from.cols()], from.cols());
    });
    m.weight.dtype = DType::F32;
    m.weight.data = reinterpret_cast<const std::byte*>(values.data());
    m.weight.bytes = values.size() * sizeof(float);
  }
  std::vector<std::pair<Matrix*, TensorView>> before_;
  std::vector<std::vector<float>> values_;
};

}  // namespace

LayerStream::LayerStream(const Model& model, const CalibrationTokens& tokens,
                         const KernelSet& kernels, unsigned threads)
    : tokens_(tokens),
      graph_(in_floats(model.graph(), kernels)),
      pool_(graph_, shape_of(graph_, tokens)),
      parts_(GraphParts::whole(graph_)),
      pages_(pages_of(pool_, graph_, tokens)),
      executor_(graph_, kernels, pool_,
                {.n_batch = tokens.window,
                 .logit_rows = std::min(tokens.window, kLogitRows),
                 .threads = threads,
                 .n_ctx = tokens.window},
                {threads, threads}, model.context_length(), parts_, nullptr),
      plan_(tokens.window),
      kept_(graph_.values.size()) {}

void LayerStream::start_from(const LayerStream& other) {
  position_ = other.position_;
  kept_ = other.kept_;
  for (std::size_t i = position_; i < graph_.nodes.size(); ++i)
    graph_.nodes[i].matrices = other.graph_.nodes[i].matrices;
}

void LayerStream::replace(std::size_t node, std::size_t matrix, const TensorView& rows) {
  graph_.nodes[node].matrices[matrix].weight = rows;
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

// In parts, so that only one layer's weights are float32, and what a router overwrites is kept.
void LayerStream::run_to(std::size_t end) {
  for (std::size_t i = position_ + 1; i < end; ++i)
    if (graph_.nodes[i].as<RouteOp>() != nullptr ||
        layer_of(graph_.nodes[i]) != layer_of(graph_.nodes[i - 1]))
      run_part(i);
  if (end > position_) run_part(end);
}

void LayerStream::run_part(std::size_t end) {
  const FloatWeights weights(graph_, position_, end, executor_.shape().threads);
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
  position_ = end;
}

void LayerStream::plan_window(std::size_t window) {
  plan_.clear();
  plan_.add(std::span(tokens_.ids).subspan(window * tokens_.window, tokens_.window), 0, 0,
            pages_[pages_.size() > 1 ? window : 0]);
  plan_.finish();
  load(window);
}

void LayerStream::run_window(std::size_t window, std::size_t begin, std::size_t end) {
  plan_window(window);
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

void LayerStream::visit_logits(std::size_t first,
                               const std::function<void(std::size_t window, std::size_t token,
                                                        std::span<const float> logits)>& f) {
  const std::size_t n = tokens_.window;
  const FloatWeights weights(graph_, position_, position_ + 1, executor_.shape().threads);
  for (std::size_t w = 0; w < tokens_.windows(); ++w) {
    plan_window(w);
    for (std::size_t begin = first; begin < n; begin += kLogitRows) {
      const std::size_t rows = std::min(kLogitRows, n - begin);
      const std::span<const float> logits = executor_.logits(plan_, begin, begin + rows);
      for (std::size_t r = 0; r < rows; ++r)
        f(w, begin + r, logits.subspan(r * (logits.size() / rows), logits.size() / rows));
    }
  }
}

std::size_t LayerStream::bytes() const {
  std::size_t bytes = 0;
  for (const std::vector<float>& values : kept_) bytes += values.size() * sizeof(float);
  return bytes;
}

}  // namespace cria
