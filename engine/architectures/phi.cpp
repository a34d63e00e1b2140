// Phi 3 and 4: one tensor for q, k and v, one for gate and up; a window on every layer; longrope. Phi 3.5 MoE.
#include "engine/architectures/families.h"
#include "engine/architectures/hf_keys.h"
#include "engine/architectures/model_builder.h"

namespace cria {
namespace {

constexpr std::string_view kWindow = "attention.sliding_window";

// Other readers take a file without the key for one of Phi 3, or refuse it; 0 is none, as llama.cpp writes it for
// Phi 4.
void copy_window(HfKeys& k) {
  constexpr std::string_view kKey = "sliding_window";
  k.copy_uint_or(kWindow, kKey, 0, limits::kContext);
  if (k.exporting() && k.gguf().get_or(kWindow, 0, 0, limits::kContext) == 0) k.say(kKey, nullptr);
}

}  // namespace

void build_phi3(ModelBuilder& m) {
  Attention attention;
  attention.window = m.window_if_any();
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
  Attention attention;
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
  forms.push_back({{.name = "Phi3ForCausalLM",
                    .model_type = "phi3",
                    .partial_rotation = true,
                    .longrope = HfLongRope::Factors,
                    .usual_eps = 1e-5F},
                   join({kHfEnds, kHfNorms, kFused, kHfFusedMlp}),
                   copy_window});
}

void hf_phimoe(HfForms& forms) {
  forms.push_back({{.name = "PhiMoEForCausalLM",
                    .model_type = "phimoe",
                    .longrope = HfLongRope::Magnitudes,
                    .usual_eps = 1e-5F},
                   join({kHfEnds, kHfNorms, kHfAttention, kHfMixtralExperts}),
                   [](HfKeys& k) {
                     copy_window(k);
                     k.copy_experts("num_local_experts", "num_experts_per_tok", "intermediate_size");
                   }});
}

}  // namespace cria
