// What the versions of Gemma have in common.
#pragma once

#include <cmath>

#include "engine/architectures/hf_form.h"
#include "engine/architectures/hf_keys.h"
#include "engine/architectures/model_builder.h"

namespace cria {

inline constexpr FeedForwardBlock kGeluGate{.activation = {ActivationKind::Gelu}};

inline float gemma_embedding_scale(const ModelBuilder& m) {
  return std::sqrt(static_cast<float>(m.config.n_embd));
}

// Weights of norms are kept as their difference from 1, and embeddings are the output unless said
// otherwise.
inline constexpr HfTensor kGemmaEnds[] = {{"token_embd", "model.embed_tokens"},
                                          {"output_norm", "model.norm", HfRows::PlusOne},
                                          {"output.weight", "lm_head.weight"}};
inline HfClass gemma_class(std::string_view name, std::string_view type) {
  return {.name = name,
          .model_type = type,
          .tied = true,
          .activations = "gelu_pytorch_tanh gelu",
          .activation_key = "hidden_activation"};
}

// Versions 2 and 3.

// The largest models divide by the root of the embedding's share instead of the head's size.
inline float gemma_attention_scale(const ModelBuilder& m, std::uint32_t layers_of_largest) {
  if (m.config.n_layers != layers_of_largest) return 0;
  return 1 / std::sqrt(static_cast<float>(m.config.n_embd) /
                       static_cast<float>(m.config.n_heads.front()));
}

// Norms on both sides of every branch.
inline void gemma_layer(ModelBuilder& m, AttentionBlock attention) {
  attention.branch.post_norm = "post_attention_norm";
  m.attention(m.norm("attn_norm"), attention);
  FeedForwardBlock feed_forward = kGeluGate;
  feed_forward.branch.post_norm = "post_ffw_norm";
  m.feed_forward(m.norm("ffn_norm"), feed_forward);
}

inline constexpr HfTensor kGemmaBothSides[] = {
    {"blk.#.attn_norm", "model.layers.#.input_layernorm", HfRows::PlusOne},
    {"blk.#.post_attention_norm", "model.layers.#.post_attention_layernorm", HfRows::PlusOne},
    {"blk.#.ffn_norm", "model.layers.#.pre_feedforward_layernorm", HfRows::PlusOne},
    {"blk.#.post_ffw_norm", "model.layers.#.post_feedforward_layernorm", HfRows::PlusOne}};

// What gemma_attention_scale() above will do.
inline void expect_gemma_scale(HfKeys& k, std::uint32_t layers_of_largest) {
  const HfConfig& c = k.config;
  const std::uint32_t usual = c.n_layers == layers_of_largest ? c.n_embd / c.n_heads : c.head_dim;
  k.only("query_pre_attn_scalar", static_cast<double>(usual));
}

}  // namespace cria
