// gpt-oss: windows on every other layer, sinks, experts with biases and a clamped gate.
#include "engine/architectures/families.h"
#include "engine/architectures/hf_keys.h"
#include "engine/architectures/model_builder.h"

namespace cria {

void build_gpt_oss(ModelBuilder& m) {
  const std::uint32_t window = m.window(), rope = m.window_rope(0, true);
  const std::vector<bool> windowed = m.windowed(2);
  m.embed();
  m.layers([&](std::uint32_t i) {
    m.attention(
        m.norm("attn_norm"),
        {.rope = windowed[i] ? rope : kNoIndex, .window = windowed[i] ? window : 0, .sinks = true});
    m.experts(m.norm("post_attention_norm"), {.gating = Gating::SoftmaxOfChosen,
                                              .normalized = false,
                                              .biases = true,
                                              .activation = {ActivationKind::ClampedSwiglu}});
  });
  m.output();
}

// Gates and ups of an expert stand in turn, as floats in columns, or in rows of MXFP4.
void hf_gpt_oss(HfForms& forms) {
  static constexpr HfTensor kTensors[] = {
      {"blk.#.attn_norm", "model.layers.#.input_layernorm"},
      {"blk.#.post_attention_norm", "model.layers.#.post_attention_layernorm"},
      {"blk.#.attn_sinks.weight", "model.layers.#.self_attn.sinks"},
      {"blk.#.ffn_gate_inp", "model.layers.#.mlp.router"},
      {"blk.#.ffn_gate_exps.weight", "model.layers.#.mlp.experts.gate_up_proj_blocks",
       HfRows::EvenRows},
      {"blk.#.ffn_up_exps.weight", "model.layers.#.mlp.experts.gate_up_proj_blocks",
       HfRows::OddRows},
      {"blk.#.ffn_down_exps.weight", "model.layers.#.mlp.experts.down_proj_blocks"},
      {"blk.#.ffn_gate_exps.weight", "model.layers.#.mlp.experts.gate_up_proj",
       HfRows::EvenColumns},
      {"blk.#.ffn_up_exps.weight", "model.layers.#.mlp.experts.gate_up_proj", HfRows::OddColumns},
      {"blk.#.ffn_down_exps.weight", "model.layers.#.mlp.experts.down_proj", HfRows::Columns},
      {"blk.#.ffn_gate_exps.bias", "model.layers.#.mlp.experts.gate_up_proj_bias",
       HfRows::EvenRows},
      {"blk.#.ffn_up_exps.bias", "model.layers.#.mlp.experts.gate_up_proj_bias", HfRows::OddRows},
      {"blk.#.ffn_down_exps.bias", "model.layers.#.mlp.experts.down_proj_bias"}};
  forms.push_back({{.name = "GptOssForCausalLM",
                    .model_type = "gpt_oss",
                    .attention_bias = true,
                    .usual_eps = 1e-5F,
                    .quantization = "mxfp4"},
                   join({kHfEnds, kHfAttention, kTensors}),
                   [](HfKeys& k) {
                     k.copy_windows(2);
                     k.only("swiglu_limit", 7.0);
                     const bool old = !k.exporting() && !k.has("num_experts_per_tok");
                     k.copy_experts("num_local_experts",
                                    old ? "experts_per_token" : "num_experts_per_tok",
                                    "intermediate_size");
                     // No key of GGUF says it, but every such model is meant so.
                     if (!k.exporting()) return;
                     k.say_scaling("truncate", false);
                     k.say_if_unscaled();
                   }});
}

}  // namespace cria
