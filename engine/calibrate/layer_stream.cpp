#include "engine/calibrate/layer_stream.h"

#include <algorithm>

#include "engine/calibrate/moments.h"
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

}  // namespace

// Converts the matrices of nodes [begin, end) to float32 for its lifetime. Matrices that are
// float32 in the file are read in place.
class LayerStream::FloatWeights {
 public:
  FloatWeights(LayerStream& stream, std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i)
      for (Matrix& m : stream.graph_.nodes[i].matrices)
        if (m.multiplies() && m.weight.dtype != DType::F32)
          convert(m, stream.executor_.shape().threads);
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
      kept_(graph_.values.size()),
      loaded_(graph_.values.size()) {
  for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
    widths_.push_back(width_at(i));
    if (i > 0 && layer_of(graph_.nodes[i]) != layer_of(graph_.nodes[i - 1]))
      between_layers_ = std::max(between_layers_, widths_.back());
  }
}

std::size_t LayerStream::width_at(std::size_t node) const {
  const std::vector<bool> live = live_at(node);
  std::size_t width = 0;
  for (std::size_t id = 0; id < live.size(); ++id)
    if (live[id]) width += graph_.values[id].rows_per_token * graph_.values[id].width;
  return width;
}

std::size_t LayerStream::narrow_place(std::size_t node) const {
  while (node > position_ && widths_[node] > between_layers_) --node;
  return node;
}

void LayerStream::start_from(const LayerStream& other) {
  position_ = other.position_;
  kept_ = other.kept_;
  loaded_ = other.loaded_;
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

// True if a node from `end` on must know which experts this router chose.
bool LayerStream::read_later(std::size_t router, std::size_t end) const {
  for (std::size_t i = end; i < graph_.nodes.size() && graph_.nodes[i].as<RouteOp>() == nullptr;
       ++i)
    if (has_experts(graph_.nodes[i])) return router_of(i) == router;
  return false;
}

// In parts, so that only one layer's weights are float32, and what a router overwrites is kept.
void LayerStream::run_to(std::size_t end) {
  for (std::size_t i = position_ + 1; i < end; ++i)
    if ((graph_.nodes[i].as<RouteOp>() != nullptr && read_later(i, end)) ||
        layer_of(graph_.nodes[i]) != layer_of(graph_.nodes[i - 1]))
      run_part(i, i);
  if (end > position_) run_part(end, end);
}

// Calls f before node `visited`.
void LayerStream::run_part(std::size_t end, std::size_t visited,
                           const std::function<void(std::size_t window)>& f) {
  const FloatWeights weights(*this, position_, end);
  const std::vector<bool> live = live_at(end);
  // A router overwrites its input, which must stay as it was for the next time.
  std::vector<bool> fixed(live.size());
  for (std::size_t i = position_; i < end; ++i)
    if (graph_.nodes[i].as<RouteOp>() != nullptr) fixed[graph_.nodes[i].in] = true;
  if (const auto router = past_router()) fixed[graph_.nodes[*router].in] = true;
  for (std::size_t w = 0; w < tokens_.windows(); ++w) {
    plan_window(w);
    run_nodes(position_, visited);
    f(w);
    run_nodes(visited, end);
    save(w, live, fixed);
  }
  for (std::size_t id = 0; id < kept_.size(); ++id)
    if (!live[id]) std::vector<float>().swap(kept_[id]);
  loaded_ = live;
  position_ = end;
}

// The router before position() whose choices a later node reads.
std::optional<std::size_t> LayerStream::past_router() const {
  for (std::size_t i = position_; i < graph_.nodes.size(); ++i)
    if (graph_.nodes[i].as<RouteOp>() != nullptr || has_experts(graph_.nodes[i]))
      return router_of(i) < position_ ? std::optional(router_of(i)) : std::nullopt;
  return std::nullopt;
}

// Restores what position() was reached with. Values may share memory with the input of a router
// that has been run, so that comes first.
void LayerStream::plan_window(std::size_t window) {
  plan_.clear();
  plan_.add(std::span(tokens_.ids).subspan(window * tokens_.window, tokens_.window), 0, 0,
            pages_[pages_.size() > 1 ? window : 0]);
  plan_.finish();
  const std::optional<std::size_t> router = past_router();
  const ValueId routed = router ? graph_.nodes[*router].in : kNoValue;
  if (router) {
    load(window, routed);
    executor_.run_nodes(plan_, *router, *router + 1);
  }
  for (ValueId id = 0; id < kept_.size(); ++id)
    if (id != routed) load(window, id);
}

void LayerStream::run_nodes(std::size_t begin, std::size_t end) {
  if (begin < end) executor_.run_nodes(plan_, begin, end);
}

void LayerStream::load(std::size_t window, ValueId id) {
  if (!loaded_[id]) return;  // also if the part that runs has begun to keep it
  const std::size_t n = kept_[id].size() / tokens_.windows();
  std::copy_n(&kept_[id][window * n], n, executor_.value(id));
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
  const std::size_t n = graph_.nodes[router_of(node)].as<RouteOp>()->n;
  for (std::size_t w = 0; w < tokens_.windows(); ++w) {
    plan_window(w);
    f(w, executor_.expert_rows(n));
  }
}

void LayerStream::visit_logits(std::size_t first,
                               const std::function<void(std::size_t window, std::size_t token,
                                                        std::span<const float> logits)>& f) {
  const std::size_t n = tokens_.window;
  const FloatWeights weights(*this, position_, position_ + 1);
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

LayerStream::Preview::Preview(LayerStream& stream, std::size_t end)
    : stream_(stream),
      end_(end),
      weights_(std::make_unique<FloatWeights>(stream, stream.position_, end)) {}

LayerStream::Preview::~Preview() = default;

void LayerStream::Preview::run(std::size_t window) {
  stream_.plan_window(window);
  stream_.run_nodes(stream_.position_, end_);
}

void LayerStream::visit(std::size_t node, const std::function<void(std::size_t window)>& f) {
  run_to(narrow_place(node));
  if (const std::size_t end = place_after(node); end > node) return run_part(end, node, f);
  Preview preview(*this, node);
  for (std::size_t w = 0; w < tokens_.windows(); ++w) {
    preview.run(w);
    f(w);
  }
}

// A part must not run over a router whose choices are needed later.
std::size_t LayerStream::place_after(std::size_t node) const {
  const auto routes = [this](std::size_t i) { return graph_.nodes[i].as<RouteOp>() != nullptr; };
  const std::size_t next = node + 1;
  if (next == graph_.nodes.size() || widths_[next] > between_layers_) return node;
  for (std::size_t i = narrow_place(node); i < next; ++i)
    if (routes(i)) return node;
  return next;
}

std::span<const float> LayerStream::rows_of_window(ValueId value) {
  const ValueInfo& info = graph_.values[value];
  return {executor_.value(value), tokens_.window * info.rows_per_token * info.width};
}

}  // namespace cria
