// Qwen 3: llama with a norm over every head's query and key. Its experts, and those of Qwen 2.
#include "engine/architectures/families.h"
#include "engine/architectures/hf_keys.h"
#include "engine/architectures/model_builder.h"

namespace cria {

void build_qwen3(ModelBuilder& m) {
  m.embed();
  m.layers([&](std::uint32_t) {
    m.attention(m.norm("attn_norm"), {.qk_norm = QkNorm::PerHead});
    m.feed_forward(m.norm("ffn_norm"), {});
  });
  m.output();
}

void build_qwen3moe(ModelBuilder& m) {
  m.embed();
  m.layers([&](std::uint32_t) {
    m.attention(m.norm("attn_norm"), {.qk_norm = QkNorm::PerHead});
    const ValueId g = m.norm("ffn_norm");
    m.has_experts() ? m.experts(g, {}) : m.feed_forward(g, {});
  });
  m.output();
}

// Weights are not normalized; the shared expert has a gate.
void build_qwen2moe(ModelBuilder& m) {
  m.embed();
  m.layers([&](std::uint32_t) {
    m.attention(m.norm("attn_norm"), {});
    const ValueId g = m.norm("ffn_norm");
    m.has_experts() ? m.experts(g, {.normalized = false, .shared = true, .shared_gate = true})
                    : m.feed_forward(g, {});
  });
  m.output();
}

void hf_qwen3(HfForms& forms) {
  forms.push_back({{.name = "Qwen3ForCausalLM", .model_type = "qwen3"},
                   join({kHfEnds, kHfNorms, kHfAttention, kHfQkNorms, kHfMlp})});
}

void hf_qwen3moe(HfForms& forms) {
  forms.push_back({{.name = "Qwen3MoeForCausalLM", .model_type = "qwen3_moe"},
                   join({kHfEnds, kHfNorms, kHfAttention, kHfQkNorms, kHfMlp, kHfExperts}),
                   [](HfKeys& k) {
                     k.copy_experts("num_experts", "num_experts_per_tok", "moe_intermediate_size");
                     k.only("norm_topk_prob", true, false);
                     k.say_dense_layers();
                   }});
}

void hf_qwen2moe(HfForms& forms) {
  static constexpr HfTensor kShared[] = {
      {"blk.#.ffn_gate_inp_shexp", "model.layers.#.mlp.shared_expert_gate", HfRows::OneRow},
      {"blk.#.ffn_gate_shexp", "model.layers.#.mlp.shared_expert.gate_proj"},
      {"blk.#.ffn_up_shexp", "model.layers.#.mlp.shared_expert.up_proj"},
      {"blk.#.ffn_down_shexp", "model.layers.#.mlp.shared_expert.down_proj"}};
  forms.push_back(
      {{.name = "Qwen2MoeForCausalLM", .model_type = "qwen2_moe", .attention_bias = true},
       join({kHfEnds, kHfNorms, kHfAttention, kHfMlp, kHfExperts, kShared}),
       [](HfKeys& k) {
         k.copy_experts("num_experts", "num_experts_per_tok", "moe_intermediate_size");
         k.copy_uint_or("expert_shared_feed_forward_length", "shared_expert_intermediate_size",
                        k.config.n_ff, limits::kFeedForward);
         k.only("norm_topk_prob", false);
         k.say_dense_layers();
       }});
}

}  // namespace cria
