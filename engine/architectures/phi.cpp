// Phi 3 and 4: one tensor for q, k and v, one for gate and up; a window on every layer; longrope.
// Phi 3.5 MoE.
#include "engine/architectures/families.h"
#include "engine/architectures/hf_keys.h"
#include "engine/architectures/model_builder.h"

namespace cria {
namespace {

constexpr std::string_view kWindow = "attention.sliding_window";

// Files of before August 2024 lack the key: Phi 3 mini and medium for contexts of 4k, whose makers
// said 2047.
std::uint32_t usual_window(std::uint32_t layers, std::uint32_t context) {
  return (layers == 32 || layers == 40) && context == 4096 ? 2047 : 0;
}

// Other readers take a file without the key for one of Phi 3, or refuse it; 0 is none, as llama.cpp
// writes it for Phi 4.
void copy_window(HfKeys& k, std::uint32_t usual = 0) {
  constexpr std::string_view kKey = "sliding_window";
  if (!k.exporting()) return k.copy_uint_or(kWindow, kKey, 0, limits::kContext);
  const std::uint32_t window = k.gguf().get_or(kWindow, usual, 0, limits::kContext);
  k.say(kKey, window == 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(window));
}

}  // namespace

void build_phi3(ModelBuilder& m) {
  AttentionBlock attention;
  attention.window = m.window_if_any(usual_window(m.config.n_layers, m.config.n_ctx_train));
  m.embed();
  m.layers([&](std::uint32_t) {
    m.attention(m.norm("attn_norm"), attention);
    m.feed_forward(m.norm("ffn_norm"), {.fused = !m.has("ffn_gate")});
  });
  m.output();
}

// Norms are RMS with a bias.
void build_phimoe(ModelBuilder& m) {
  m.rms_bias = true;
  AttentionBlock attention;
  attention.window = m.window_if_any();
  m.embed();
  m.layers([&](std::uint32_t) {
    m.attention(m.norm("attn_norm"), attention);
    m.experts(m.norm("ffn_norm"), {});
  });
  m.output();
}

void hf_phi3(HfForms& forms) {
  static constexpr HfTensor kFused[] = {{"blk.#.attn_qkv", "model.layers.#.self_attn.qkv_proj"},
                                        {"blk.#.attn_output", "model.layers.#.self_attn.o_proj"}};
  forms.push_back(
      {{.name = "Phi3ForCausalLM",
        .model_type = "phi3",
        .partial_rotation = true,
        .longrope = HfLongRope::Factors,
        .usual_eps = 1e-5F},
       join({kHfEnds, kHfNorms, kFused, kHfFusedMlp}),
       [](HfKeys& k) { copy_window(k, usual_window(k.config.n_layers, k.config.n_ctx)); }});
}

void hf_phimoe(HfForms& forms) {
  static constexpr HfTensor kBias[] = {{"output.bias", "lm_head.bias"}};
  forms.push_back({{.name = "PhiMoEForCausalLM",
                    .model_type = "phimoe",
                    .longrope = HfLongRope::Magnitudes,
                    .usual_eps = 1e-5F},
                   join({kHfEnds, kBias, kHfNorms, kHfAttention, kHfMixtralExperts}),
                   [](HfKeys& k) {
                     copy_window(k);
                     if (k.exporting()) k.say("lm_head_bias", k.has_tensor("output.bias"));
                     k.copy_experts("num_local_experts", "num_experts_per_tok",
                                    "intermediate_size");
                   }});
}

}  // namespace cria
