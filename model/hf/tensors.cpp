#include "model/hf/tensors.h"

namespace cria {
namespace {

using enum TensorSize;

struct Row {
  std::string_view hf, gguf;  // "#" stands for the number of a layer
  TensorSize rows, cols = None;
  HeadRows head_rows = HeadRows::None;
  bool optional = false;
};

constexpr bool kOptional = true;
constexpr Row kBefore[] = {{"model.embed_tokens.weight", "token_embd.weight", Vocabulary, Embedding}};
constexpr Row kLayer[] = {
    {"model.layers.#.input_layernorm.weight", "blk.#.attn_norm.weight", Embedding},
    {"model.layers.#.self_attn.q_proj.weight", "blk.#.attn_q.weight", Queries, Embedding, HeadRows::Query},
    {"model.layers.#.self_attn.k_proj.weight", "blk.#.attn_k.weight", Keys, Embedding, HeadRows::Key},
    {"model.layers.#.self_attn.v_proj.weight", "blk.#.attn_v.weight", Keys, Embedding},
    {"model.layers.#.self_attn.q_proj.bias", "blk.#.attn_q.bias", Queries, None, HeadRows::Query, kOptional},
    {"model.layers.#.self_attn.k_proj.bias", "blk.#.attn_k.bias", Keys, None, HeadRows::Key, kOptional},
    {"model.layers.#.self_attn.v_proj.bias", "blk.#.attn_v.bias", Keys, None, HeadRows::None, kOptional},
    {"model.layers.#.self_attn.o_proj.weight", "blk.#.attn_output.weight", Embedding, Queries},
    {"model.layers.#.self_attn.o_proj.bias", "blk.#.attn_output.bias", Embedding, None, HeadRows::None,
     kOptional},
    {"model.layers.#.post_attention_layernorm.weight", "blk.#.ffn_norm.weight", Embedding},
    {"model.layers.#.mlp.gate_proj.weight", "blk.#.ffn_gate.weight", FeedForward, Embedding},
    {"model.layers.#.mlp.up_proj.weight", "blk.#.ffn_up.weight", FeedForward, Embedding},
    {"model.layers.#.mlp.down_proj.weight", "blk.#.ffn_down.weight", Embedding, FeedForward},
};
constexpr Row kAfter[] = {
    {"model.norm.weight", "output_norm.weight", Embedding},
    {"lm_head.weight", "output.weight", Vocabulary, Embedding, HeadRows::None, kOptional},
};

std::string fill(std::string_view pattern, std::uint32_t layer) {
  const std::size_t at = pattern.find('#');
  if (at == std::string_view::npos) return std::string(pattern);
  return std::string(pattern.substr(0, at)).append(std::to_string(layer)).append(pattern.substr(at + 1));
}

TensorName name(const Row& row, std::uint32_t layer = 0) {
  return {fill(row.hf, layer), fill(row.gguf, layer), row.head_rows, row.rows, row.cols, row.optional};
}

}  // namespace

std::vector<TensorName> model_tensors(std::uint32_t n_layers) {
  std::vector<TensorName> names;
  for (const Row& row : kBefore) names.push_back(name(row));
  for (std::uint32_t layer = 0; layer < n_layers; ++layer) {
    for (const Row& row : kLayer) names.push_back(name(row, layer));
  }
  for (const Row& row : kAfter) names.push_back(name(row));
  return names;
}

bool is_derived_tensor(std::string_view hf_name) { return hf_name.ends_with("rotary_emb.inv_freq"); }

}  // namespace cria
