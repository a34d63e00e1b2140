// Small models with random weights, written to a temporary file, and the plain forward pass that
// they are compared with.
#pragma once

#include <cmath>
#include <cstring>
#include <functional>
#include <numbers>

#include "engine/architectures/architecture.h"
#include "engine/model_parts.h"
#include "engine/session.h"
#include "engine/synthetic/synthetic.h"
#include "model/gguf/writer.h"
#include "tests/engine/load_written.h"
#include "tests/engine/random.h"

namespace cria::test {

struct TinyModel {
  std::string arch = "llama";
  std::uint32_t n_layers = 2, n_embd = 64, n_heads = 4, n_ff = 96, n_vocab = 300, head_dim = 16,
                n_rot = 16;
  std::vector<std::uint32_t> n_kv_heads = {2, 2};
  std::vector<std::uint32_t> layer_heads;  ///< per layer; replaces n_heads
  DType dtype = DType::F32;
  std::function<DType(const std::string& tensor)> type_of;  ///< overrides dtype
  bool biases = false, tied = false;
  std::vector<float> rope_freqs;
  std::vector<std::pair<std::string, GgufData>> keys;     ///< more metadata
  std::vector<std::pair<std::string, TokenType>> pieces;  ///< tokens from id 3 on
  std::function<void(const std::string& tensor, std::vector<float>& values)>
      edit;  ///< changes F32 data
  std::function<void(const std::string& tensor, std::span<std::byte> blocks)>
      edit_blocks;  ///< and others'

  /// Writes, opens and removes the file.
  [[nodiscard]] std::shared_ptr<const Model> load() const {
    return load_written([this](const std::string& path) { write(path); });
  }

  void write(const std::string& path) const {
    GgufWriter writer(path);
    set_metadata(writer);
    const std::vector<Tensor> list = tensors();
    for (const Tensor& t : list) writer.declare(t.name, t.dtype, t.shape);
    writer.begin();
    std::uint64_t seed = 1;
    for (const Tensor& t : list) {
      std::vector<float> values = random_values(t, ++seed);
      if (edit) edit(t.name, values);
      if (t.dtype == DType::F32) {
        writer.write(std::as_bytes(std::span(values)));
      } else {
        std::vector<std::byte> blocks(values.size() / t.shape[0] *
                                      dtype_info(t.dtype).row_bytes(t.shape[0]));
        if (dtype_info(t.dtype).dot != DotClass::None)
          fill_random_weights(t.dtype, values.size() / t.shape[0], t.shape[0], blocks.data(), seed);
        if (edit_blocks) edit_blocks(t.name, blocks);
        writer.write(blocks);
      }
    }
    writer.finish();
  }

 private:
  struct Tensor {
    std::string name;
    DType dtype;
    std::vector<std::uint64_t> shape;
  };

  [[nodiscard]] std::vector<Tensor> tensors() const {
    std::vector<Tensor> list;
    const auto matrix = [&](const std::string& name, std::uint32_t cols, std::uint32_t rows) {
      list.push_back({name + ".weight", type_of ? type_of(name) : dtype, {cols, rows}});
    };
    const auto vector = [&](const std::string& name, std::uint32_t n) {
      list.push_back({name, DType::F32, {n}});
    };
    matrix("token_embd", n_embd, n_vocab);
    if (!tied) matrix("output", n_embd, n_vocab);
    vector("output_norm.weight", n_embd);
    if (!rope_freqs.empty()) vector("rope_freqs.weight", n_rot / 2);
    for (std::uint32_t i = 0; i < n_layers; ++i) {
      const std::string blk = "blk." + std::to_string(i) + ".";
      const std::uint32_t q = (layer_heads.empty() ? n_heads : layer_heads[i]) * head_dim;
      const std::uint32_t kv = n_kv_heads[i] * head_dim;
      vector(blk + "attn_norm.weight", n_embd);
      vector(blk + "ffn_norm.weight", n_embd);
      matrix(blk + "attn_q", n_embd, q);
      matrix(blk + "attn_k", n_embd, kv);
      matrix(blk + "attn_v", n_embd, kv);
      if (biases) {
        vector(blk + "attn_q.bias", q);
        vector(blk + "attn_k.bias", kv);
        vector(blk + "attn_v.bias", kv);
      }
      matrix(blk + "attn_output", q, n_embd);
      matrix(blk + "ffn_gate", n_embd, n_ff);
      matrix(blk + "ffn_up", n_embd, n_ff);
      matrix(blk + "ffn_down", n_ff, n_embd);
    }
    return list;
  }

  void set_metadata(GgufWriter& writer) const {
    const std::string p = arch + ".";
    writer.set("general.architecture", arch);
    writer.set(p + "context_length", std::uint32_t{256});
    writer.set(p + "embedding_length", n_embd);
    writer.set(p + "block_count", n_layers);
    writer.set(p + "feed_forward_length", n_ff);
    if (layer_heads.empty())
      writer.set(p + "attention.head_count", n_heads);
    else
      writer.set(p + "attention.head_count", GgufArray::of(layer_heads));
    writer.set(p + "attention.head_count_kv", GgufArray::of(n_kv_heads));
    writer.set(p + "attention.key_length", head_dim);
    writer.set(p + "attention.value_length", head_dim);
    writer.set(p + "attention.layer_norm_rms_epsilon", 1e-5F);
    writer.set(p + "rope.dimension_count", n_rot);
    for (const auto& [key, value] : keys) writer.set(key, value);
    std::vector<std::string> tokens = {"<unk>", "<s>", "</s>"};
    std::vector<std::int32_t> types = {2, 3, 3};
    std::vector<float> scores(n_vocab);
    tokens.resize(std::min<std::size_t>(tokens.size(), n_vocab));
    while (tokens.size() < n_vocab) tokens.push_back("w" + std::to_string(tokens.size()));
    types.resize(n_vocab, 1);
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      tokens[3 + i] = pieces[i].first;
      types[3 + i] = static_cast<std::int32_t>(pieces[i].second);
    }
    writer.set("tokenizer.ggml.model", std::string("llama"));
    writer.set("tokenizer.ggml.tokens", GgufArray::of(tokens));
    writer.set("tokenizer.ggml.scores", GgufArray::of(scores));
    writer.set("tokenizer.ggml.token_type", GgufArray::of(types));
    writer.set("tokenizer.ggml.unknown_token_id", std::uint32_t{0});
    writer.set("tokenizer.ggml.bos_token_id", std::min(1U, n_vocab - 1));
    writer.set("tokenizer.ggml.eos_token_id", std::min(2U, n_vocab - 1));
  }

  // Matrices so large that every part of the model matters for the logits.
  [[nodiscard]] std::vector<float> random_values(const Tensor& tensor, std::uint64_t seed) const {
    if (tensor.name == "rope_freqs.weight") return rope_freqs;
    Random random(seed);
    std::vector<float> values(tensor.shape[0] * (tensor.shape.size() > 1 ? tensor.shape[1] : 1));
    const bool norm = tensor.name.ends_with("norm.weight");
    const double scale =
        tensor.shape.size() > 1 ? 2 / std::sqrt(static_cast<double>(tensor.shape[0])) : 1;
    for (float& x : values)
      x = static_cast<float>((random.uniform() * 2 - 1) * scale + (norm ? 1 : 0));
    return values;
  }
};

/// The forward pass as the papers write it, in double, token by token, on dequantized weights;
/// logits of every token.
class PlainForward {
 public:
  explicit PlainForward(const Model& model)
      : m_(model), c_(model.config()), k_(c_.n_layers), v_(c_.n_layers) {}

  std::vector<double> next(TokenId token) {
    std::vector<double> x = row(tensor("token_embd.weight"), static_cast<std::size_t>(token));
    for (std::uint32_t i = 0; i < c_.n_layers; ++i) {
      add(x, product(tensor(i, "attn_output.weight"),
                     attention(i, norm(x, tensor(i, "attn_norm.weight")))));
      const std::vector<double> h = norm(x, tensor(i, "ffn_norm.weight"));
      std::vector<double> gate = product(tensor(i, "ffn_gate.weight"), h);
      const std::vector<double> up = product(tensor(i, "ffn_up.weight"), h);
      for (std::size_t j = 0; j < gate.size(); ++j)
        gate[j] = gate[j] / (1 + std::exp(-gate[j])) * up[j];
      add(x, product(tensor(i, "ffn_down.weight"), gate));
    }
    ++position_;
    const bool tied = m_.file().tensor("output.weight") == nullptr;
    return product(tensor(tied ? "token_embd.weight" : "output.weight"),
                   norm(x, tensor("output_norm.weight")));
  }

 private:
  [[nodiscard]] const TensorView& tensor(const std::string& name) const {
    return *m_.file().tensor(name);
  }
  [[nodiscard]] const TensorView& tensor(std::uint32_t layer, const std::string& name) const {
    return tensor("blk." + std::to_string(layer) + "." + name);
  }
  [[nodiscard]] const TensorView* bias(std::uint32_t layer, const std::string& name) const {
    return m_.file().tensor("blk." + std::to_string(layer) + "." + name + ".bias");
  }
  static std::vector<double> row(const TensorView& t, std::size_t r) {
    std::vector<float> f(t.cols());
    dtype_info(t.dtype).dequantize(t.data + r * t.row_bytes(), f.data(), f.size());
    return {f.begin(), f.end()};
  }
  static void add(std::vector<double>& x, const std::vector<double>& y) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  }
  static std::vector<double> product(const TensorView& t, const std::vector<double>& x,
                                     const TensorView* bias = nullptr) {
    std::vector<double> y(t.rows());
    for (std::size_t r = 0; r < y.size(); ++r) {
      const std::vector<double> w = row(t, r);
      for (std::size_t i = 0; i < x.size(); ++i) y[r] += w[i] * x[i];
    }
    if (bias != nullptr) add(y, row(*bias, 0));
    return y;
  }
  [[nodiscard]] std::vector<double> norm(const std::vector<double>& x,
                                         const TensorView& weight) const {
    double squares = 0;
    for (const double v : x) squares += v * v;
    const double scale = 1 / std::sqrt(squares / static_cast<double>(x.size()) + c_.norm_eps);
    std::vector<double> y = row(weight, 0);
    for (std::size_t i = 0; i < x.size(); ++i) y[i] *= x[i] * scale;
    return y;
  }

  [[nodiscard]] double angle(std::size_t pair) const {
    double frequency = std::pow(double{c_.rope_base}, -2.0 * static_cast<double>(pair) / c_.n_rot);
    if (m_.file().tensor("rope_freqs.weight") != nullptr)
      frequency /= row(tensor("rope_freqs.weight"), 0)[pair];
    if (c_.rope_scaling == RopeScaling::Linear) frequency /= c_.rope_factor;
    return static_cast<double>(position_) * frequency;
  }
  void rotate(std::vector<double>& x) const {
    const bool half = find_architecture(c_.arch)->rope == RopeStyle::HalfSplit;
    for (std::size_t head = 0; head < x.size(); head += c_.head_dim_k) {
      for (std::size_t i = 0; i < c_.n_rot / 2; ++i) {
        double& a = x[head + (half ? i : 2 * i)];
        double& b = x[head + (half ? i + c_.n_rot / 2 : 2 * i + 1)];
        const double old = a;
        a = old * std::cos(angle(i)) - b * std::sin(angle(i));
        b = old * std::sin(angle(i)) + b * std::cos(angle(i));
      }
    }
  }

  std::vector<double> attention(std::uint32_t layer, const std::vector<double>& h) {
    std::vector<double> q = product(tensor(layer, "attn_q.weight"), h, bias(layer, "attn_q"));
    std::vector<double> k = product(tensor(layer, "attn_k.weight"), h, bias(layer, "attn_k"));
    rotate(q);
    rotate(k);
    k_[layer].push_back(k);
    v_[layer].push_back(product(tensor(layer, "attn_v.weight"), h, bias(layer, "attn_v")));
    std::vector<double> out(std::size_t{c_.n_heads[layer]} * c_.head_dim_v);
    for (std::uint32_t head = 0; head < c_.n_heads[layer]; ++head) {
      const std::uint32_t kv = head / c_.group(layer);
      std::vector<double> p(k_[layer].size());
      double sum = 0;
      for (std::size_t t = 0; t < p.size(); ++t) {
        for (std::uint32_t d = 0; d < c_.head_dim_k; ++d)
          p[t] += q[head * c_.head_dim_k + d] * k_[layer][t][kv * c_.head_dim_k + d];
        sum += p[t] = std::exp(p[t] / std::sqrt(double{static_cast<double>(c_.head_dim_k)}));
      }
      for (std::size_t t = 0; t < p.size(); ++t) {
        for (std::uint32_t d = 0; d < c_.head_dim_v; ++d)
          out[head * c_.head_dim_v + d] += p[t] / sum * v_[layer][t][kv * c_.head_dim_v + d];
      }
    }
    return out;
  }

  const Model& m_;
  const ModelConfig& c_;
  std::vector<std::vector<std::vector<double>>> k_, v_;  // per layer, per position
  std::size_t position_ = 0;
};

}  // namespace cria::test
