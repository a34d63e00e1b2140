// EXAONE 4: norms behind the branches; with windows, full layers know no positions.
#include "engine/architectures/families.h"
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

}  // namespace cria
