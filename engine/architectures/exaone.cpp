// EXAONE 4: norms behind the branches; with windows, full layers know no positions.
#include "engine/architectures/families.h"
#include "engine/architectures/hf_keys.h"
#include "engine/architectures/model_builder.h"

namespace cria {

void build_exaone4(ModelBuilder& m) {
  // The 32B model's files may lack the key.
  const bool windows = m.keys.has("attention.sliding_window") || m.config.n_layers == 64;
  const std::uint32_t window = windows ? m.window(4096) : 0, rope = m.window_rope(0, true);
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

void hf_exaone4(HfForms& forms) {
  static constexpr HfTensor kNorms[] = {
      {"blk.#.post_attention_norm", "model.layers.#.post_attention_layernorm"},
      {"blk.#.post_ffw_norm", "model.layers.#.post_feedforward_layernorm"}};
  forms.push_back({{.name = "Exaone4ForCausalLM", .model_type = "exaone4", .usual_eps = 1e-5F},
                   join({kHfEnds, kNorms, kHfAttention, kHfQkNorms, kHfMlp}),
                   [](HfKeys& k) { k.windows(4); }});
}

}  // namespace cria
