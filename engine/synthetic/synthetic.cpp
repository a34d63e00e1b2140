#include "engine/synthetic/synthetic.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <sstream>

#include "engine/quantize/plan.h"
#include "engine/synthetic/random_weights.h"
#include "engine/synthetic/shapes_text.h"
#include "model/gguf/writer.h"

namespace cria {
namespace {

struct Tensor {
  std::string name;
  std::vector<std::uint64_t> shape;
  bool is_matrix;
};

std::vector<Tensor> tensors(const ModelShape& s) {
  const std::uint64_t embd = s.n_embd, q = std::uint64_t{s.n_heads} * s.head_dim,
                      kv = std::uint64_t{s.n_kv_heads} * s.head_dim;
  std::vector<Tensor> list = {{"token_embd.weight", {embd, s.n_vocab}, true},
                              {"output_norm.weight", {embd}, false},
                              {"output.weight", {embd, s.n_vocab}, true}};
  for (std::uint32_t i = 0; i < s.n_layers; ++i) {
    const std::string layer = "blk." + std::to_string(i) + ".";
    list.push_back({layer + "attn_norm.weight", {embd}, false});
    list.push_back({layer + "attn_q.weight", {embd, q}, true});
    list.push_back({layer + "attn_k.weight", {embd, kv}, true});
    list.push_back({layer + "attn_v.weight", {embd, kv}, true});
    list.push_back({layer + "attn_output.weight", {q, embd}, true});
    list.push_back({layer + "ffn_norm.weight", {embd}, false});
    list.push_back({layer + "ffn_gate.weight", {embd, s.n_ff}, true});
    list.push_back({layer + "ffn_up.weight", {embd, s.n_ff}, true});
    list.push_back({layer + "ffn_down.weight", {s.n_ff, embd}, true});
  }
  return list;
}

std::uint64_t values(const Tensor& tensor) {
  return tensor.shape[0] * (tensor.shape.size() > 1 ? tensor.shape[1] : 1);
}

/// The type that is wanted for matrices, or what stands in for it where rows do not divide into its blocks.
DType type_of(const Tensor& tensor, DType wanted) {
  if (!tensor.is_matrix) return DType::F32;
  DType type = wanted;
  while (tensor.shape[0] % dtype_info(type).block_values != 0) {
    const auto stand_in = std::ranges::find(fallbacks(), type, &Fallback::from);
    if (stand_in == fallbacks().end()) break;  // the writer says what is wrong
    type = stand_in->to;
  }
  return type;
}

/// <unk>, <s>, </s>, the 256 bytes, then words that do not matter.
void set_vocabulary(GgufWriter& writer, std::uint32_t n_vocab) {
  std::vector<std::string> tokens = {"<unk>", "<s>", "</s>"};
  std::vector<std::int32_t> types = {2, 3, 3};
  std::vector<float> scores(n_vocab);
  for (unsigned byte = 0; byte < 256; ++byte) {
    std::array<char, 8> text{};
    std::snprintf(text.data(), text.size(), "<0x%02X>", byte);
    tokens.emplace_back(text.data());
    types.push_back(6);
  }
  for (std::uint32_t i = static_cast<std::uint32_t>(tokens.size()); i < n_vocab; ++i)
    tokens.push_back("w" + std::to_string(i));
  types.resize(n_vocab, 1);
  for (std::uint32_t i = 0; i < n_vocab; ++i) scores[i] = -static_cast<float>(i);
  writer.set("tokenizer.ggml.model", std::string("llama"));
  writer.set("tokenizer.ggml.tokens", GgufArray::of(tokens));
  writer.set("tokenizer.ggml.scores", GgufArray::of(scores));
  writer.set("tokenizer.ggml.token_type", GgufArray::of(types));
  writer.set("tokenizer.ggml.bos_token_id", std::uint32_t{1});
  writer.set("tokenizer.ggml.eos_token_id", std::uint32_t{2});
  writer.set("tokenizer.ggml.unknown_token_id", std::uint32_t{0});
}

void set_hyper_parameters(GgufWriter& writer, const ModelShape& s, DType type) {
  writer.set("general.architecture", std::string("llama"));
  writer.set("general.name", "synthetic " + s.name + " " + std::string(name(type)));
  writer.set("llama.context_length", s.n_ctx);
  writer.set("llama.embedding_length", s.n_embd);
  writer.set("llama.block_count", s.n_layers);
  writer.set("llama.feed_forward_length", s.n_ff);
  writer.set("llama.attention.head_count", s.n_heads);
  writer.set("llama.attention.head_count_kv", s.n_kv_heads);
  writer.set("llama.attention.key_length", s.head_dim);
  writer.set("llama.attention.value_length", s.head_dim);
  writer.set("llama.attention.layer_norm_rms_epsilon", 1e-5F);
  writer.set("llama.rope.dimension_count", s.head_dim);
  writer.set("llama.rope.freq_base", 10000.F);
}

}  // namespace

const std::vector<ModelShape>& model_shapes() {
  static const std::vector<ModelShape> shapes = [] {
    std::vector<ModelShape> list;
    std::istringstream text(kShapesText);
    for (std::string line; std::getline(text, line);) {
      if (line.empty() || line[0] == '#') continue;
      ModelShape s;
      std::istringstream(line) >> s.name >> s.n_layers >> s.n_embd >> s.n_heads >> s.n_kv_heads >>
          s.head_dim >> s.n_ff >> s.n_vocab >> s.n_ctx >> s.model;
      list.push_back(s);
    }
    return list;
  }();
  return shapes;
}

const ModelShape& find_shape(std::string_view name) {
  std::string known;
  for (const ModelShape& shape : model_shapes()) {
    if (shape.name == name) return shape;
    known += " " + shape.name;
  }
  throw Error("", "unknown shape \"" + std::string(name) + "\": known are" + known);
}

std::uint64_t synthetic_bytes(const ModelShape& shape, DType type) {
  std::uint64_t bytes = 0;
  for (const Tensor& tensor : tensors(shape))
    bytes += dtype_info(type_of(tensor, type)).bytes(values(tensor));
  return bytes;
}

void write_synthetic(const ModelShape& shape, DType type, const std::string& path, std::uint64_t seed) {
  const DTypeInfo& info = dtype_info(type);
  if (info.dot == DotClass::None)
    throw Error(path, "type " + std::string(info.name) + " cannot hold a weight matrix");
  GgufWriter writer(path);
  set_hyper_parameters(writer, shape, type);
  set_vocabulary(writer, shape.n_vocab);
  const std::vector<Tensor> list = tensors(shape);
  for (const Tensor& tensor : list) writer.declare(tensor.name, type_of(tensor, type), tensor.shape);
  writer.begin();
  std::vector<std::byte> rows;
  for (const Tensor& tensor : list) {
    if (!tensor.is_matrix) {
      const std::vector<float> ones(values(tensor), 1.F);
      writer.write(std::as_bytes(std::span(ones)));
      continue;
    }
    const DType own = type_of(tensor, type);
    const std::uint64_t per_piece = std::max<std::uint64_t>(1, (std::uint64_t{1} << 20) / tensor.shape[0]);
    for (std::uint64_t row = 0; row < tensor.shape[1]; row += per_piece) {
      const std::uint64_t n = std::min(per_piece, tensor.shape[1] - row) * tensor.shape[0];
      rows.resize(dtype_info(own).bytes(n));
      fill_random_weights(own, n, rows.data(), seed++);
      writer.write(rows);
    }
  }
  writer.finish();
}

}  // namespace cria
