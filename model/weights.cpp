#include "model/weights.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <string>
#include <unordered_set>

namespace cria {
namespace {

using Shape = std::vector<std::uint64_t>;

std::string shape_text(const Shape& shape) {
  TensorView view;
  view.shape = shape;
  return view.shape_string();
}

/// Finds tensors by name, checks each, and remembers which of the file's tensors have a use.
class WeightReader {
 public:
  WeightReader(const GgufFile& file, const LlamaConfig& config) : file_(file), config_(config) {}

  LlamaWeights read() {
    if (file_.tensors().empty()) throw file_.error("no tensors: the file holds a vocabulary, not a model");
    LlamaWeights weights;
    const std::uint64_t n_embd = config_.n_embd;
    weights.token_embd = matrix("token_embd.weight", n_embd, config_.n_vocab);
    weights.output_norm = vector("output_norm.weight", n_embd);
    weights.output =
        has("output.weight") ? matrix("output.weight", n_embd, config_.n_vocab) : weights.token_embd;
    weights.rope_freqs = rope_freqs();
    weights.layers.reserve(config_.n_layers);
    for (std::uint32_t i = 0; i < config_.n_layers; ++i) weights.layers.push_back(layer(i));
    check_unused(weights.warnings);
    return weights;
  }

 private:
  LayerWeights layer(std::uint32_t i) {
    const std::string prefix = "blk." + std::to_string(i) + ".";
    const std::uint64_t n_embd = config_.n_embd;
    const std::uint64_t n_ff = config_.n_ff;
    const std::uint64_t q_dim = config_.q_dim();
    const std::uint64_t k_dim = config_.k_dim(i);
    const std::uint64_t v_dim = config_.v_dim(i);
    LayerWeights layer;
    layer.attn_norm = vector(prefix + "attn_norm.weight", n_embd);
    layer.q = matrix(prefix + "attn_q.weight", n_embd, q_dim);
    layer.k = matrix(prefix + "attn_k.weight", n_embd, k_dim);
    layer.v = matrix(prefix + "attn_v.weight", n_embd, v_dim);
    layer.q_bias = optional_vector(prefix + "attn_q.bias", q_dim);
    layer.k_bias = optional_vector(prefix + "attn_k.bias", k_dim);
    layer.v_bias = optional_vector(prefix + "attn_v.bias", v_dim);
    layer.o =
        matrix(prefix + "attn_output.weight", std::uint64_t{config_.n_heads} * config_.head_dim_v, n_embd);
    layer.o_bias = optional_vector(prefix + "attn_output.bias", n_embd);
    layer.ffn_norm = vector(prefix + "ffn_norm.weight", n_embd);
    layer.gate = matrix(prefix + "ffn_gate.weight", n_embd, n_ff);
    layer.up = matrix(prefix + "ffn_up.weight", n_embd, n_ff);
    layer.down = matrix(prefix + "ffn_down.weight", n_ff, n_embd);
    return layer;
  }

  [[nodiscard]] bool has(const std::string& name) const { return file_.tensor(name) != nullptr; }

  const TensorView* find(const std::string& name, const Shape& shape) {
    const TensorView* const tensor = file_.tensor(name);
    if (tensor == nullptr) fail("missing tensor: expected shape " + shape_text(shape), name);
    if (tensor->shape != shape)
      fail("wrong shape: expected " + shape_text(shape) + ", got " + tensor->shape_string(), name);
    if (tensor->data == nullptr) fail("the file does not hold the tensor's data", name);
    used_.insert(tensor->name);
    return tensor;
  }

  const TensorView* matrix(const std::string& name, std::uint64_t cols, std::uint64_t rows) {
    const TensorView* const tensor = find(name, {cols, rows});
    if (dtype_info(tensor->dtype).dot == DotClass::None) {
      fail("type cannot be a weight matrix: got " + std::string(cria::name(tensor->dtype)), name);
    }
    return tensor;
  }

  const TensorView* vector(const std::string& name, std::uint64_t length) {
    const TensorView* const tensor = find(name, {length});
    if (tensor->dtype != DType::F32)
      fail("wrong type: expected F32, got " + std::string(cria::name(tensor->dtype)), name);
    return tensor;
  }

  const TensorView* optional_vector(const std::string& name, std::uint64_t length) {
    return has(name) ? vector(name, length) : nullptr;
  }

  const TensorView* rope_freqs() {
    const std::string name = "rope_freqs.weight";
    const TensorView* const tensor = optional_vector(name, config_.n_rot / 2);
    for (std::size_t i = 0; tensor != nullptr && i < tensor->shape[0]; ++i) {
      float factor = 0;
      std::memcpy(&factor, tensor->data + i * sizeof(float), sizeof(float));
      if (!std::isfinite(factor) || factor <= 0) {
        fail("bad factor at index " + std::to_string(i) + ": expected a finite number above 0, got " +
                 number_text(factor),
             name);
      }
    }
    return tensor;
  }

  // Tensors without a use are tolerated, but for those that show that the model is another one than its
  // metadata say.
  void check_unused(std::vector<std::string>& warnings) const {
    std::size_t count = 0;
    std::string examples;
    for (const TensorView& tensor : file_.tensors()) {
      if (used_.contains(tensor.name)) continue;
      refuse_contradiction(tensor.name);
      if (++count <= 3) examples += (examples.empty() ? "" : ", ") + printable(tensor.name);
    }
    if (count != 0) {
      warnings.push_back(std::to_string(count) + " unknown tensors are not used: " + examples +
                         (count > 3 ? ", …" : ""));
    }
  }

  void refuse_contradiction(std::string_view name) const {
    constexpr std::string_view prefix = "blk.";
    if (!name.starts_with(prefix)) return;
    std::uint64_t layer = 0;
    const auto [end, status] = std::from_chars(name.data() + prefix.size(), name.data() + name.size(), layer);
    if (status == std::errc::invalid_argument || end == name.data() + name.size() || *end != '.') return;
    if (status == std::errc::result_out_of_range || layer >= config_.n_layers) {
      fail("tensor of a layer that does not exist: expected layers 0 to " +
               std::to_string(config_.n_layers - 1),
           name);
    }
    if (name.ends_with(".bias")) fail("a bias that this architecture does not have", name);
  }

  [[noreturn]] void fail(const std::string& message, std::string_view tensor) const {
    throw file_.error(message, "tensor " + std::string(tensor));
  }

  const GgufFile& file_;
  const LlamaConfig& config_;
  std::unordered_set<std::string_view> used_;
};

}  // namespace

LlamaWeights LlamaWeights::from_gguf(const GgufFile& file, const LlamaConfig& config) {
  return WeightReader(file, config).read();
}

}  // namespace cria
