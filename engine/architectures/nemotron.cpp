// Nemotron: LayerNorm, the square of a ReLU, no gate.
#include "engine/architectures/families.h"
#include "engine/architectures/model_builder.h"

namespace cria {

void build_nemotron(ModelBuilder& m) {
  m.embed();
  m.layers([&](std::uint32_t) {
    m.attention(m.norm("attn_norm"), {});
    m.feed_forward(m.norm("ffn_norm"),
                   {.activation = {ActivationKind::ReluSquared}, .gated = false, .biases = true});
  });
  m.output();
}

// Weights of norms are kept as their difference from 1.
void hf_nemotron(HfForms& forms) {
  static constexpr HfTensor kTensors[] = {
      {"token_embd", "model.embed_tokens"},
      {"output.weight", "lm_head.weight"},
      {"output_norm.weight", "model.norm.weight", HfRows::PlusOne},
      {"output_norm.bias", "model.norm.bias"},
      {"blk.#.attn_norm.weight", "model.layers.#.input_layernorm.weight", HfRows::PlusOne},
      {"blk.#.attn_norm.bias", "model.layers.#.input_layernorm.bias"},
      {"blk.#.ffn_norm.weight", "model.layers.#.post_attention_layernorm.weight", HfRows::PlusOne},
      {"blk.#.ffn_norm.bias", "model.layers.#.post_attention_layernorm.bias"}};
  forms.push_back({{.name = "NemotronForCausalLM",
                    .model_type = "nemotron",
                    .mlp_bias = true,
                    .partial_rotation = true,
                    .usual_part = 0.5,
                    .eps = "norm_eps",
                    .usual_eps = 1e-5F,
                    .activations = "relu2"},
                   join({kTensors, kHfAttention, kHfMlp})});
}

}  // namespace cria
