// EXAONE 4: norms behind the branches; with windows, full layers know no positions. EXAONE 3: llama
// in other names.
#include "engine/architectures/families.h"
#include "engine/architectures/hf_keys.h"
#include "engine/architectures/model_builder.h"

namespace cria {
namespace {

constexpr std::string_view kWindow = "attention.sliding_window";

// The 32B model's files may lack the key.
std::uint32_t usual_window(std::uint32_t layers) { return layers == 64 ? 4096 : 0; }

// null says that there are no windows, and then all layers are rotated.
void copy_windows(HfKeys& k) {
  constexpr std::string_view kKey = "sliding_window";
  const std::uint32_t usual = usual_window(k.config.n_layers);
  k.copy_windows(4, usual);
  if (k.exporting()) {
    if (k.gguf().get_or(kWindow, usual, 0, limits::kContext) == 0) k.say(kKey, nullptr);
  } else if (usual != 0 && k.says_null(kKey)) {
    k.set(kWindow, 0U);
  }
}

}  // namespace

void build_exaone4(ModelBuilder& m) {
  m.leave_out_prediction();
  const std::uint32_t window = m.window_if_any(usual_window(m.n_layers));
  const bool windows = window != 0;
  const std::uint32_t rope = m.window_rope(0, true);
  const std::vector<bool> windowed = windows ? m.windowed(4) : std::vector<bool>(m.config.n_layers);
  m.embed();
  m.layers([&](std::uint32_t i) {
    m.attention(m.x, {.rotated = !windows || windowed[i],
                      .rope = windowed[i] ? rope : kNoIndex,
                      .window = windowed[i] ? window : 0,
                      .qk_norm = QkNorm::PerHead,
                      .branch = {"post_attention_norm"}});
    m.feed_forward(m.x, {.branch = {"post_ffw_norm"}});
  });
  m.output();
}

void hf_exaone(HfForms& forms) {
  static constexpr HfTensor kTensors[] = {
      {"token_embd", "transformer.wte"},
      {"output_norm", "transformer.ln_f"},
      {"output.weight", "lm_head.weight"},
      {"blk.#.attn_norm", "transformer.h.#.ln_1"},
      {"blk.#.attn_q", "transformer.h.#.attn.attention.q_proj"},
      {"blk.#.attn_k", "transformer.h.#.attn.attention.k_proj"},
      {"blk.#.attn_v", "transformer.h.#.attn.attention.v_proj"},
      {"blk.#.attn_output", "transformer.h.#.attn.attention.out_proj"},
      {"blk.#.ffn_norm", "transformer.h.#.ln_2"},
      {"blk.#.ffn_gate", "transformer.h.#.mlp.c_fc_0"},
      {"blk.#.ffn_up", "transformer.h.#.mlp.c_fc_1"},
      {"blk.#.ffn_down", "transformer.h.#.mlp.c_proj"}};
  forms.push_back({{.name = "ExaoneForCausalLM",
                    .model_type = "exaone",
                    .eps = "layer_norm_epsilon",
                    .usual_eps = 1e-5F,
                    .activation_key = "activation_function",
                    .layers_key = "num_layers"},
                   join({kTensors})});
}

void hf_exaone4(HfForms& forms) {
  static constexpr HfTensor kNorms[] = {
      {"blk.#.post_attention_norm", "model.layers.#.post_attention_layernorm"},
      {"blk.#.post_ffw_norm", "model.layers.#.post_feedforward_layernorm"}};
  forms.push_back({{.name = "Exaone4ForCausalLM", .model_type = "exaone4", .usual_eps = 1e-5F},
                   join({kHfEnds, kNorms, kHfAttention, kHfQkNorms, kHfMlp}),
                   [](HfKeys& k) {
                     k.leave_out_prediction();
                     copy_windows(k);
                   }});
}

}  // namespace cria
