// StarCoder 2: LayerNorm, biases everywhere, a GELU without a gate.
#include "engine/architectures/families.h"
#include "engine/architectures/hf_keys.h"
#include "engine/architectures/model_builder.h"

namespace cria {

void build_starcoder2(ModelBuilder& m) {
  m.embed();
  m.layers([&](std::uint32_t) {
    m.attention(m.norm("attn_norm"), {});
    m.feed_forward(m.norm("ffn_norm"),
                   {.activation = {ActivationKind::Gelu}, .gated = false, .biases = true});
  });
  m.output();
}

void hf_starcoder2(HfForms& forms) {
  static constexpr HfTensor kMlp[] = {{"blk.#.ffn_up", "model.layers.#.mlp.c_fc"},
                                      {"blk.#.ffn_down", "model.layers.#.mlp.c_proj"}};
  forms.push_back(
      {{.name = "Starcoder2ForCausalLM",
        .model_type = "starcoder2",
        .tied = true,
        .mlp_bias = true,
        .eps = "norm_epsilon",
        .usual_eps = 1e-5F,
        .activations = "gelu_pytorch_tanh"},
       join({kHfEnds, kHfNorms, kHfAttention, kMlp}),
       [](HfKeys& k) {
         if (k.exporting()) return k.say("use_bias", k.has_tensor("blk.0.ffn_up.bias"));
         if (k.has("sliding_window") && k.uint("sliding_window", limits::kContext) < k.config.n_ctx)
           k.config.warnings.push_back("sliding_window is left out: all positions are attended to");
       }});
}

}  // namespace cria
