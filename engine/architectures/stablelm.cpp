// StableLM: LayerNorm; the 12B model norms heads and computes both branches from one norm.
#include "engine/architectures/families.h"
#include "engine/architectures/hf_keys.h"
#include "engine/architectures/model_builder.h"

namespace cria {

void build_stablelm(ModelBuilder& m) {
  m.embed();
  m.layers([&](std::uint32_t) {
    const ValueId h = m.norm("attn_norm");
    m.attention(h, {.qk_norm = m.has("attn_q_norm") ? QkNorm::OwnPerHead : QkNorm::None});
    m.feed_forward(m.has("ffn_norm") ? m.norm("ffn_norm") : h, {});
  });
  m.output();
}

void hf_stablelm(HfForms& forms) {
  static constexpr HfTensor kHeads[] = {
      {"blk.#.attn_q_norm", "model.layers.#.self_attn.q_layernorm.norms.%"},
      {"blk.#.attn_k_norm", "model.layers.#.self_attn.k_layernorm.norms.%"}};
  forms.push_back({{.name = "StableLmForCausalLM",
                    .model_type = "stablelm",
                    .partial_rotation = true,
                    .usual_part = 0.25,
                    .eps = "layer_norm_eps",
                    .usual_eps = 1e-5F},
                   join({kHfEnds, kHfNorms, kHfAttention, kHeads, kHfMlp}),
                   [](HfKeys& k) {
                     if (!k.exporting()) return;
                     k.say("use_qkv_bias", k.config.attention_bias);
                     k.say("qk_layernorm", k.has_tensor("blk.0.attn_q_norm.weight"));
                     k.say("use_parallel_residual", !k.has_tensor("blk.0.ffn_norm.weight"));
                   }});
}

}  // namespace cria
