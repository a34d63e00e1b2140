// Command R: one norm, from which attention and feed-forward are computed side by side. Command R7B and A
// (cohere2) have windows, and rotate only there.
#include "engine/architectures/families.h"
#include "engine/architectures/model_builder.h"

namespace cria {

void build_command_r(ModelBuilder& m) {
  m.embed();
  m.layers([&](std::uint32_t) {
    const ValueId h = m.norm("attn_norm");
    m.attention(h, {.qk_norm = m.has("attn_q_norm") ? QkNorm::OwnPerHead : QkNorm::None});
    m.feed_forward(h, {});
  });
  m.output(m.keys.positive_or("logit_scale", 1));
}

void build_cohere2(ModelBuilder& m) {
  const std::uint32_t window = m.window(), rope = m.window_rope(0, true);
  const std::vector<bool> windowed = m.windowed(4);
  m.embed();
  m.layers([&](std::uint32_t i) {
    const ValueId h = m.norm("attn_norm");
    m.attention(h, {.rotated = windowed[i], .rope = rope, .window = windowed[i] ? window : 0});
    m.feed_forward(h, {});
  });
  m.output(m.keys.positive_or("logit_scale", 1));
}

}  // namespace cria
