// GLM 4: norms on both sides of every branch; GLM 4.5: experts, and blocks for prediction that are
// not run.
#include "engine/architectures/families.h"
#include "engine/architectures/hf_keys.h"
#include "engine/architectures/model_builder.h"

namespace cria {
void build_glm4(ModelBuilder& m) {
  AttentionBlock attention{.branch = {"post_attention_norm"}};
  // Files of models for pictures have rows of queries and keys in the other order. Sections share
  // the positions of several axes among the pairs; those of text are alike.
  if (m.keys.any("rope.dimension_sections")) attention.style = RopeStyle::HalfSplit;
  m.embed();
  m.leave_out_prediction();
  m.layers([&](std::uint32_t) {
    m.attention(m.norm("attn_norm"), attention);
    m.feed_forward(m.norm("ffn_norm"), {.fused = !m.has("ffn_gate"), .branch = {"post_ffw_norm"}});
  });
  m.output();
}

void build_glm4moe(ModelBuilder& m) {
  m.embed();
  m.leave_out_prediction();
  m.layers([&](std::uint32_t) {
    m.attention(m.norm("attn_norm"),
                {.qk_norm = m.has("attn_q_norm") ? QkNorm::PerHead : QkNorm::None});
    const ValueId g = m.norm("post_attention_norm");
    m.has_experts() ? m.experts(g, m.experts_by_keys(Gating::Sigmoid)) : m.feed_forward(g, {});
  });
  m.output();
}

void hf_glm4(HfForms& forms) {
  static constexpr HfTensor kNorms[] = {
      {"blk.#.attn_norm", "model.layers.#.input_layernorm"},
      {"blk.#.post_attention_norm", "model.layers.#.post_self_attn_layernorm"},
      {"blk.#.ffn_norm", "model.layers.#.post_attention_layernorm"},
      {"blk.#.post_ffw_norm", "model.layers.#.post_mlp_layernorm"}};
  forms.push_back({{.name = "Glm4ForCausalLM",
                    .model_type = "glm4",
                    .partial_rotation = true,
                    .usual_part = 0.5,
                    .usual_eps = 1e-5F},
                   join({kHfEnds, kNorms, kHfAttention, kHfFusedMlp}),
                   [](HfKeys& k) { k.leave_out_prediction(); }});
}

void hf_glm4moe(HfForms& forms) {
  static constexpr HfTensor kNorms[] = {
      {"blk.#.attn_norm", "model.layers.#.input_layernorm"},
      {"blk.#.post_attention_norm", "model.layers.#.post_attention_layernorm"}};
  HfForm form{
      {.name = "Glm4MoeForCausalLM",
       .model_type = "glm4_moe",
       .partial_rotation = true,
       .usual_part = 0.5,
       .usual_eps = 1e-5F},
      join({kHfEnds, kNorms, kHfAttention, kHfQkNorms, kHfMlp, kHfExperts, kHfSharedExperts}),
      [](HfKeys& k) {
        k.leave_out_prediction();
        k.copy_routed_experts(2);
        if (k.exporting()) k.say("use_qk_norm", k.has_tensor("blk.0.attn_q_norm.weight"));
      }};
  form.predicting_layers = true;
  forms.push_back(form);
}

}  // namespace cria
