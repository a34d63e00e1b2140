// Apertus: norms over heads; an activation (xIELU, arXiv 2411.13010) with parameters of its own in
// every layer.
#include <cmath>

#include "engine/architectures/families.h"
#include "engine/architectures/hf_keys.h"
#include "engine/architectures/model_builder.h"

namespace cria {
namespace {

// Where e^z is no float any more, nothing beside z counts.
float softplus(float z) {
  const float power = std::exp(z);
  return std::isinf(power) ? z : std::log1p(power);
}

}  // namespace

void build_apertus(ModelBuilder& m) {
  const auto parameters = [&](const char* key) { return m.keys.numbers_per_layer(key); };
  const std::vector<float> alpha_p = parameters("xielu.alpha_p"),
                           alpha_n = parameters("xielu.alpha_n");
  const std::vector<float> beta = parameters("xielu.beta"), eps = parameters("xielu.eps");
  m.embed();
  m.layers([&](std::uint32_t i) {
    m.attention(m.norm("attn_norm"), {.qk_norm = QkNorm::PerHead});
    m.feed_forward(m.norm("ffn_norm"),
                   {.activation = {ActivationKind::Xielu, softplus(alpha_p[i]),
                                   beta[i] + softplus(alpha_n[i]), beta[i], eps[i]},
                    .gated = false});
  });
  m.output();
}

void hf_apertus(HfForms& forms) {
  static constexpr HfTensor kNorms[] = {{"blk.#.attn_norm", "model.layers.#.attention_layernorm"},
                                        {"blk.#.ffn_norm", "model.layers.#.feedforward_layernorm"}};
  HfForm form{{.name = "ApertusForCausalLM",
               .model_type = "apertus",
               .usual_eps = 1e-5F,
               .activations = "xielu"},
              join({kHfEnds, kNorms, kHfAttention, kHfQkNorms, kHfMlp}),
              [](HfKeys& k) {
                if (k.exporting()) k.say_if_unscaled();
              }};
  form.numbers = {{"xielu.alpha_p", "model.layers.#.mlp.act_fn.alpha_p"},
                  {"xielu.alpha_n", "model.layers.#.mlp.act_fn.alpha_n"},
                  {"xielu.beta", "model.layers.#.mlp.act_fn.beta", 0.5F},
                  {"xielu.eps", "model.layers.#.mlp.act_fn.eps", -1e-6F}};
  forms.push_back(form);
}

}  // namespace cria
