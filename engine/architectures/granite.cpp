// Granite and MiniCPM: llama with factors on embedding, residuals, attention and logits.
#include <cmath>

#include "engine/architectures/families.h"
#include "engine/architectures/hf_keys.h"
#include "engine/architectures/model_builder.h"

namespace cria {
namespace {

// A key that is missing or 0 counts as its default.
float factor(ModelBuilder& m, const char* key, float usual) {
  const float value = m.keys.number_or(key, 0);
  return value == 0 ? usual : value;
}

void build(ModelBuilder& m, float embedding, const Branch& branch, float attention_scale, float logits) {
  m.embed(embedding);
  m.layers([&](std::uint32_t) {
    m.attention(m.norm("attn_norm"), {.scale = attention_scale, .branch = branch});
    const ValueId g = m.norm("ffn_norm");
    m.has_experts() ? m.experts(g, {.branch = branch}) : m.feed_forward(g, {.branch = branch});
  });
  m.output(1 / logits);
}

void granite_scales(HfKeys& k) {
  k.number("embedding_scale", "embedding_multiplier");
  k.number("residual_scale", "residual_multiplier");
  k.number("attention.scale", "attention_multiplier");
  k.number("logit_scale", "logits_scaling");
}

}  // namespace

void build_granite(ModelBuilder& m) {
  build(m, factor(m, "embedding_scale", 1), {.scale = factor(m, "residual_scale", 1)},
        factor(m, "attention.scale", 0), factor(m, "logit_scale", 1));
}

void build_minicpm(ModelBuilder& m) {
  const float layers = static_cast<float>(m.config.n_layers), width = static_cast<float>(m.config.n_embd);
  build(m, factor(m, "embedding_scale", 12), {.scale = factor(m, "residual_scale", 1.4F / std::sqrt(layers))},
        0, factor(m, "logit_scale", width / 256));
}

void hf_granite(HfForms& forms) {
  forms.push_back({{.name = "GraniteForCausalLM", .model_type = "granite"},
                   join({kHfEnds, kHfNorms, kHfPairedAttention, kHfMlp}),
                   granite_scales});
}

void hf_granitemoe(HfForms& forms) {
  static constexpr HfTensor kExperts[] = {
      {"blk.#.ffn_gate_inp", "model.layers.#.block_sparse_moe.router.layer"},
      {"blk.#.ffn_gate_exps.weight", "model.layers.#.block_sparse_moe.input_linear.weight",
       HfRows::FirstHalf},
      {"blk.#.ffn_up_exps.weight", "model.layers.#.block_sparse_moe.input_linear.weight", HfRows::SecondHalf},
      {"blk.#.ffn_down_exps", "model.layers.#.block_sparse_moe.output_linear"}};
  static constexpr HfTensor kShared[] = {
      {"blk.#.ffn_gate_shexp.weight", "model.layers.#.shared_mlp.input_linear.weight", HfRows::FirstHalf},
      {"blk.#.ffn_up_shexp.weight", "model.layers.#.shared_mlp.input_linear.weight", HfRows::SecondHalf},
      {"blk.#.ffn_down_shexp", "model.layers.#.shared_mlp.output_linear"}};
  const auto keys = [](HfKeys& k) {
    granite_scales(k);
    k.experts("num_local_experts", "num_experts_per_tok", "intermediate_size");
    if (k.has("shared_intermediate_size"))
      k.set("expert_shared_feed_forward_length", k.uint("shared_intermediate_size", limits::kFeedForward));
  };
  forms.push_back({{.name = "GraniteMoeForCausalLM", .model_type = "granitemoe"},
                   join({kHfEnds, kHfNorms, kHfPairedAttention, kExperts}),
                   keys});
  forms.push_back({{.name = "GraniteMoeSharedForCausalLM", .model_type = "granitemoeshared"},
                   join({kHfEnds, kHfNorms, kHfPairedAttention, kExperts, kShared}),
                   keys});
}

void hf_minicpm(HfForms& forms) {
  forms.push_back({{.name = "MiniCPMForCausalLM", .model_type = "minicpm"},
                   join({kHfEnds, kHfNorms, kHfPairedAttention, kHfMlp}),
                   [](HfKeys& k) {
                     const double layers = k.config.n_layers, width = k.config.n_embd;
                     k.number("embedding_scale", "scale_emb");
                     k.set("residual_scale", static_cast<float>(k.number("scale_depth") / std::sqrt(layers)));
                     k.set("logit_scale", static_cast<float>(width / k.number("dim_model_base")));
                   }});
}

}  // namespace cria
