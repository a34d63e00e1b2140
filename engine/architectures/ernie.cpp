// ERNIE 4.5 with experts: chosen with a bias, weighted without.
#include <algorithm>

#include "engine/architectures/families.h"
#include "engine/architectures/hf_keys.h"
#include "engine/architectures/model_builder.h"

namespace cria {

void build_ernie4_5_moe(ModelBuilder& m) {
  m.embed();
  m.layers([&](std::uint32_t) {
    m.attention(m.norm("attn_norm"), {});
    const ValueId g = m.norm("ffn_norm");
    m.has_experts() ? m.experts(g, {.selection_bias = true, .shared = m.has("ffn_gate_shexp")})
                    : m.feed_forward(g, {});
  });
  m.output();
}

void hf_ernie4_5(HfForms& forms) {
  forms.push_back(
      {{.name = "Ernie4_5ForCausalLM", .model_type = "ernie4_5", .tied = true, .usual_eps = 1e-5F},
       join({kHfEnds, kHfNorms, kHfAttention, kHfMlp}),
       [](HfKeys& k) { k.only("use_bias", false); }});
}

void hf_ernie4_5_moe(HfForms& forms) {
  static constexpr HfTensor kBias[] = {
      {"blk.#.exp_probs_b.bias", "model.layers.#.mlp.moe_statics.e_score_correction_bias"}};
  HfForm form{
      {.name = "Ernie4_5_MoeForCausalLM",
       .model_type = "ernie4_5_moe",
       .tied = true,
       .usual_eps = 1e-5F},
      join({kHfEnds, kHfNorms, kHfAttention, kHfMlp, kHfExperts, kBias, kHfSharedExperts}),
      [](HfKeys& k) {
        k.only("use_bias", false);
        k.copy_experts("moe_num_experts", "moe_k", "moe_intermediate_size");
        k.copy_shared_experts("moe_num_shared_experts");
        k.copy_uint_or("leading_dense_block_count", "moe_layer_start_index", 0, limits::kLayers);
        k.copy_uint_or("interleave_moe_layer_step", "moe_layer_interval", 1, limits::kLayers);
        if (k.exporting()) return;
        // Other readers look for shared experts only where this is said.
        const std::uint32_t width = k.uint("moe_intermediate_size", limits::kFeedForward);
        const std::uint64_t most = limits::kFeedForward / std::max(1U, width);
        k.set("expert_shared_feed_forward_length",
              width * k.uint_or("moe_num_shared_experts", 0, most));
      }};
  form.predicting = "model.mtp_";
  forms.push_back(form);
}

}  // namespace cria
