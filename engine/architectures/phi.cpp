// Phi 3 and 4: one tensor for q, k and v, one for gate and up; a window on every layer; longrope. Phi 3.5 MoE.
#include "engine/architectures/families.h"
#include "engine/architectures/model_builder.h"

namespace cria {

void build_phi3(ModelBuilder& m) {
  Attention attention;
  attention.window = m.keys.has("attention.sliding_window") ? m.window() : 0;
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
  attention.window = m.keys.has("attention.sliding_window") ? m.window() : 0;
  m.embed();
  m.layers([&](std::uint32_t) {
    m.attention(m.norm("attn_norm"), attention);
    m.experts(m.norm("ffn_norm"), {});
  });
  m.output();
}

}  // namespace cria
