// gpt-oss: windows on every other layer, sinks, experts with biases and a clamped gate.
#include "engine/architectures/families.h"
#include "engine/architectures/model_builder.h"

namespace cria {

void build_gpt_oss(ModelBuilder& m) {
  const std::uint32_t window = m.window(), rope = m.window_rope(0, true);
  const std::vector<bool> windowed = m.windowed(2);
  m.embed();
  m.layers([&](std::uint32_t i) {
    m.attention(m.norm("attn_norm"),
                {.rope = windowed[i] ? rope : kNoIndex, .window = windowed[i] ? window : 0, .sinks = true});
    m.experts(m.norm("post_attention_norm"), {.gating = Gating::SoftmaxOfChosen,
                                              .normalized = false,
                                              .biases = true,
                                              .activation = {ActivationKind::ClampedSwiglu}});
  });
  m.output();
}

}  // namespace cria
