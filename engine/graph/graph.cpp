#include "engine/graph/graph.h"

#include <array>
#include <cmath>
#include <cstring>

#include "model/weights.h"

namespace cria {
namespace {

constexpr std::array<std::string_view, 14> kOpNames{
    "embed",  "norm",         "heads",        "head_products", "attention",
    "matmul", "feed_forward", "route_tokens", "experts_up",    "experts_down",
    "add",    "scale",        "gate",         "gate_mul"};
constexpr std::array<std::string_view, 4> kGatings{"softmax", "sigmoid", "softmax of chosen",
                                                   "sigmoid of chosen"};
constexpr std::array<std::string_view, 6> kActivations{"silu",  "gelu",           "relu squared",
                                                       "xielu", "clamped swiglu", "sigmoid"};

}  // namespace

std::string_view name(Op op) noexcept { return kOpNames[static_cast<std::size_t>(op)]; }
std::string_view name(Gating gating) noexcept { return kGatings[static_cast<std::size_t>(gating)]; }
std::string_view name(ActivationKind kind) noexcept {
  return kActivations[static_cast<std::size_t>(kind)];
}

float Temperature::at(std::size_t position) const {
  const double steps = std::floor(static_cast<double>(position + offset) / length);
  return static_cast<float>(1 + double{scale} * std::log(1 + steps));
}

float Matrix::scale_of(std::size_t row) const {
  if (!scale) return 1;
  float value = 0;
  std::memcpy(&value, scale->data + row / (weight.rows() / scale->cols()) * sizeof value,
              sizeof value);
  return value;
}

namespace {

TensorView part_of(const TensorView& vector, std::uint64_t begin, std::uint64_t length) {
  TensorView part = vector;
  part.shape = {length};
  part.data += begin * sizeof(float);
  part.bytes = length * sizeof(float);
  return part;
}

}  // namespace

Matrix rows_of(const Matrix& matrix, std::uint64_t begin, std::uint64_t rows) {
  Matrix part{rows_of(matrix.weight, begin, rows), {}, matrix.kernel, {}};
  if (matrix.bias) part.bias = part_of(*matrix.bias, begin, rows);
  if (matrix.scale) {
    const std::uint64_t per_scale = matrix.weight.rows() / matrix.scale->cols();
    part.scale = part_of(*matrix.scale, begin / per_scale, per_scale == 1 ? rows : 1);
  }
  return part;
}

bool ActTypes::quantized() const {
  for (const ActType type : kQuantizedForms)
    if (has(type)) return true;
  return false;
}

Node::Projections Node::projections() const {
  const Matrix* next = matrices.data();
  const Matrix* const q = heads.q_matrix ? next++ : nullptr;
  const Matrix* const k = heads.k_matrix ? next++ : nullptr;
  return {q, k, heads.v_matrix ? next : nullptr};
}

std::uint64_t Node::macs() const {
  std::uint64_t sum = 0;
  for (const Matrix& m : matrices) {
    if (m.kernel.run != nullptr) sum += m.weight.rows() * m.weight.cols();
  }
  return experts.n > 1 ? sum / experts.n * experts.used : sum;
}

std::uint64_t Node::weight_bytes() const {
  std::uint64_t sum = 0;
  for (const Matrix& m : matrices) {
    if (m.kernel.run != nullptr) sum += m.weight.bytes;
  }
  return experts.n > 1 ? sum / experts.n * experts.used : sum;
}

std::vector<ValueId> Node::reads() const {
  std::vector<ValueId> ids;
  const auto add = [&ids](ValueId id) {
    if (id != kNoValue) ids.push_back(id);
  };
  add(in);
  for (const Matrix& m : matrices)
    if (m.lora) add(m.lora->low);
  if (op == Op::Heads) {
    if (!heads.q_matrix) add(heads.q);
    if (!heads.k_matrix) add(heads.k);
    if (!heads.v_matrix && !heads.v_from_k) add(heads.v);
  }
  if (residual || op == Op::Add || op == Op::Scale || op == Op::Gate || op == Op::GateMul) add(out);
  return ids;
}

std::vector<ValueId> Node::writes() const {
  std::vector<ValueId> ids;
  for (const ValueId id : {out, aux, heads.q, heads.k, heads.v})
    if (id != kNoValue) ids.push_back(id);
  if (op == Op::Norm && residual) ids.push_back(in);
  return ids;
}

namespace {

std::string describe(const TensorView& tensor) {
  return std::string(tensor.name) + " " + std::string(name(tensor.dtype)) + tensor.shape_string();
}

// The words behind a node's operands: all that it does and that its operation's name does not say.
class Details {
 public:
  explicit Details(const Graph& graph, const Node& node) : graph_(graph), node_(node) {}

  std::string text() {
    if (node_.op == Op::Norm) norm("", node_.norm);
    if (node_.op == Op::Heads) heads();
    if (node_.op == Op::Attention) attention();
    if (node_.op == Op::Route) route();
    if (node_.op == Op::FeedForward || node_.op == Op::GateMul || node_.op == Op::ExpertsUp)
      activation(node_.activation);
    if (node_.op == Op::HeadProducts && node_.products.columns) add("by columns");
    if (node_.op == Op::ExpertsUp || node_.op == Op::ExpertsDown)
      add(std::to_string(node_.experts.used) + " of " + std::to_string(node_.experts.n) +
          " experts");
    if (node_.experts.weight_at_input) add("weights at the input");
    if (node_.scale != 1) add("times " + number_text(node_.scale));
    if (node_.softcap != 0) add("softcap " + number_text(node_.softcap));
    if (node_.residual) add("added");
    matrices();
    return text_;
  }

 private:
  void add(const std::string& what) { text_ += ", " + what; }

  void activation(const Activation& a) {
    std::string what(name(a.kind));
    if (a.kind == ActivationKind::Xielu)
      what += " of " + number_text(a.alpha_p) + ", " + number_text(a.alpha_n) + ", " +
              number_text(a.beta) + ", " + number_text(a.eps);
    add(what);
  }

  void norm(const std::string& of, const NormSpec& spec) {
    add(of + (spec.kind == NormKind::Rms ? "rms" : "layer") + " norm of " +
        std::to_string(spec.width) + (spec.first_only ? " first values" : "") + ", eps " +
        number_text(spec.eps));
    if (spec.weight) add(describe(*spec.weight));
    if (spec.bias) add(describe(*spec.bias));
  }

  void heads() {
    const HeadsSpec& h = node_.heads;
    add(std::to_string(h.n_heads) + " heads of " + std::to_string(h.dim_k));
    if (h.k != kNoValue)
      add(std::to_string(h.n_kv_heads) + " kv heads of " + std::to_string(h.dim_k) + " and " +
          std::to_string(h.dim_v));
    if (h.clamp != 0) add("clamped to " + number_text(h.clamp));
    if (h.v_from_k) add("v = k");
    if (h.q_norm) norm("q ", *h.q_norm);
    if (h.k_norm) norm("k ", *h.k_norm);
    if (h.v_norm) norm("v ", *h.v_norm);
    if (h.norm_after_rope) add("norms after rope");
    if (h.rope == kNoIndex) {
      add("no rope");
    } else {
      add(std::string("rope ") + (h.style == RopeStyle::Adjacent ? "adjacent" : "half split") +
          " (" + graph_.ropes[h.rope].to_string() + ")");
    }
    if (h.temperature.scale != 0)
      add("temperature " + number_text(h.temperature.scale) + " every " +
          std::to_string(h.temperature.length));
  }

  void attention() {
    const AttentionSpec& a = node_.attention;
    add("scale " + number_text(a.scale));
    if (a.window != 0) add("window " + std::to_string(a.window));
    if (a.chunk != 0) add("chunks of " + std::to_string(a.chunk));
    if (a.softcap != 0) add("softcap " + number_text(a.softcap));
    if (a.sinks) add("sinks " + describe(*a.sinks));
    if (graph_.caches[node_.cache].latent) add("latent");
  }

  void route() {
    const ExpertsSpec& e = node_.experts;
    add(std::to_string(e.used) + " of " + std::to_string(e.n) + " experts by " +
        std::string(name(e.gating)));
    if (e.normalized) add("normalized");
    if (e.scale != 1) add("weights times " + number_text(e.scale));
    if (e.groups > 1)
      add(std::to_string(e.groups_used) + " of " + std::to_string(e.groups) + " groups" +
          (e.groups_by_best ? " by their best" : ""));
    if (e.selection_bias) add(describe(*e.selection_bias));
  }

  void matrices() {
    // Experts and heads: the first of each kind stands for all.
    const std::size_t step = node_.op == Op::HeadProducts ? node_.products.n_heads
                             : node_.op == Op::ExpertsUp || node_.op == Op::ExpertsDown
                                 ? node_.experts.n
                                 : 1;
    for (std::size_t i = 0; i < node_.matrices.size(); i += step) {
      add((step > 1 ? std::to_string(step) + " times " : "") + describe(node_.matrices[i].weight));
      if (node_.matrices[i].scale) add("times " + describe(*node_.matrices[i].scale));
      if (node_.matrices[i].bias) add(describe(*node_.matrices[i].bias));
      if (node_.matrices[i].lora)
        add("lora of rank " + std::to_string(node_.matrices[i].lora->b.cols()));
    }
  }

  const Graph& graph_;
  const Node& node_;
  std::string text_;
};

std::string outputs(const Graph& graph, const Node& node, bool forms) {
  std::string text;
  const bool heads = node.op == Op::Heads;
  for (const ValueId id : {heads ? kNoValue : node.out, node.heads.q, node.heads.k, node.heads.v})
    if (id != kNoValue) text += (text.empty() ? "" : ", ") + graph.values[id].name;
  if (heads && node.cache != kNoIndex) text += ", kv cache " + std::to_string(node.cache);
  if (!forms) return text;
  if (node.acts.has(ActType::BF16)) text += "+bf16";
  if (node.acts.has(ActType::Q8x16)) text += "+q8x16";
  if (node.acts.has(ActType::Q8x32)) text += "+q8x32";
  if (node.acts.has(ActType::Q8x256)) text += "+q8x256";
  return text;
}

}  // namespace

std::string Graph::to_string(const Node& node, bool forms) const {
  std::string text = node.name + ": " + std::string(cria::name(node.op)) + " " +
                     outputs(*this, node, forms) + " <- ";
  text += node.in == kNoValue ? node.op == Op::Embed   ? "tokens"
                                : node.op == Op::Heads ? "q, k, v"
                                                       : ""
                              : values[node.in].name;
  if (node.op == Op::Attention) text += ", kv cache " + std::to_string(node.cache);
  return text + Details(*this, node).text();
}

std::string Graph::to_string(bool forms) const {
  std::string text;
  for (const Node& node : nodes) text += to_string(node, forms) + "\n";
  return text;
}

}  // namespace cria
