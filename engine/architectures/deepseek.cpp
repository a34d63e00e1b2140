// DeepSeek 2 and 3 (and Kimi, GLM 4.7 Flash): latent attention. dots.llm1 has their experts.
#include <cmath>

#include "engine/architectures/families.h"
#include "engine/architectures/model_builder.h"

namespace cria {

void build_dots1(ModelBuilder& m) {
  m.embed();
  m.layers([&](std::uint32_t) {
    m.attention(m.norm("attn_norm"), {.qk_norm = QkNorm::PerHead});
    const ValueId g = m.norm("ffn_norm");
    m.has_experts() ? m.experts(g, m.experts_by_keys(Gating::Softmax)) : m.feed_forward(g, {});
  });
  m.output();
}

void build_deepseek2(ModelBuilder& m) {
  // YaRN scales scores instead of the rotated values.
  RopeSpec rope = m.rope_spec();
  rope.magnitude = m.config.rope_attn_factor;
  const bool yarn = rope.scaling == RopeScaling::Yarn;
  const double growth = yarn ? 1 + double{m.config.yarn_log_multiplier} * std::log(rope.factor) : 1;
  const std::uint32_t head =
      m.keys.get_or("attention.key_length_mla", m.config.head_dim_k, 1, limits::kEmbedding);
  const auto scale = static_cast<float>(growth * growth / std::sqrt(static_cast<double>(head)));
  // Files of GLM 4.7 Flash may not say what their router does.
  const bool flash = m.config.n_layers == 47 || m.config.n_layers == 48;
  const Experts experts = m.experts_by_keys(flash ? Gating::Sigmoid : Gating::Softmax);
  m.embed();
  m.layers([&](std::uint32_t) {
    m.latent_attention(m.norm("attn_norm"), scale, rope);
    const ValueId g = m.norm("ffn_norm");
    m.has_experts() ? m.experts(g, experts) : m.feed_forward(g, {});
  });
  m.output();
}

}  // namespace cria
