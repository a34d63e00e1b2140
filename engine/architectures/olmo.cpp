// OLMo: norms without weights and clamped projections; OLMo 2 and 3: norms behind the branches;
// OLMoE.
#include "engine/architectures/families.h"
#include "engine/architectures/hf_keys.h"
#include "engine/architectures/model_builder.h"

namespace cria {

void build_olmo(ModelBuilder& m) {
  m.norm_weights = false;
  const float clamp = m.keys.number_or("attention.clamp_kqv", 0);
  m.embed();
  m.layers([&](std::uint32_t) {
    m.attention(m.norm("attn_norm"), {.clamp = clamp});
    m.feed_forward(m.norm("ffn_norm"), {});
  });
  m.output();
}

// OLMo 3 is an OLMo 2 with windows; windowed layers rotate without scaling.
void build_olmo2(ModelBuilder& m) {
  const std::uint32_t window = m.window_if_any();
  const bool windows = window != 0;
  const std::uint32_t rope = windows ? m.window_rope(0, false) : kNoIndex;
  const std::vector<bool> windowed = windows ? m.windowed(4) : std::vector<bool>(m.config.n_layers);
  m.embed();
  m.layers([&](std::uint32_t i) {
    m.attention(m.x, {.rope = windowed[i] ? rope : kNoIndex,
                      .window = windowed[i] ? window : 0,
                      .qk_norm = QkNorm::WholeVector,
                      .branch = {"post_attention_norm"}});
    m.feed_forward(m.x, {.branch = {"post_ffw_norm"}});
  });
  m.output();
}

void build_olmoe(ModelBuilder& m) {
  m.embed();
  m.layers([&](std::uint32_t) {
    m.attention(m.norm("attn_norm"), {.qk_norm = QkNorm::WholeVector});
    m.experts(m.norm("ffn_norm"), {.normalized = false});
  });
  m.output();
}

void hf_olmo(HfForms& forms) {
  forms.push_back({{.name = "OlmoForCausalLM",
                    .model_type = "olmo",
                    .eps = "layer_norm_eps",
                    .usual_eps = 1e-5F},
                   join({kHfEnds, kHfPairedAttention, kHfMlp}),
                   [](HfKeys& k) {
                     if (k.exporting() || k.has("clip_qkv"))
                       k.copy_cap("attention.clamp_kqv", "clip_qkv", 0);
                   }});
}

void hf_olmo2(HfForms& forms) {
  static constexpr HfTensor kNorms[] = {
      {"blk.#.post_attention_norm", "model.layers.#.post_attention_layernorm"},
      {"blk.#.post_ffw_norm", "model.layers.#.post_feedforward_layernorm"}};
  const std::vector<HfTensor> tensors = join({kHfEnds, kNorms, kHfAttention, kHfQkNorms, kHfMlp});
  forms.push_back(
      {{.name = "Olmo2ForCausalLM", .model_type = "olmo2", .usual_eps = 1e-5F}, tensors});
  forms.push_back({{.name = "Olmo3ForCausalLM", .model_type = "olmo3", .usual_eps = 1e-5F},
                   tensors,
                   [](HfKeys& k) { k.copy_windows_if_any(4, false); }});
}

void hf_olmoe(HfForms& forms) {
  forms.push_back({{.name = "OlmoeForCausalLM", .model_type = "olmoe", .usual_eps = 1e-5F},
                   join({kHfEnds, kHfNorms, kHfAttention, kHfQkNorms, kHfExperts}),
                   [](HfKeys& k) {
                     k.copy_experts("num_experts", "num_experts_per_tok", "intermediate_size");
                     k.only("norm_topk_prob", false);
                     if (!k.exporting() && k.has("clip_qkv"))
                       k.fail("clip_qkv", "not supported here: expected null");
                   }});
}

}  // namespace cria
