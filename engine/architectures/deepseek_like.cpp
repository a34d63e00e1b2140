// DeepSeek and architectures with its router of experts.
#include <cmath>

#include "engine/architectures/model_builder.h"

namespace cria {

// DeepSeek 2 and 3, Kimi, GLM 4.7 Flash: latent attention.
void build_deepseek2(ModelBuilder& m) {
  // YaRN scales scores instead of the rotated values.
  RopeSpec rope = m.rope_spec();
  rope.magnitude = m.config.rope_attn_factor;
  const bool yarn = rope.scaling == RopeScaling::Yarn;
  const double growth = yarn ? 1 + double{m.config.yarn_log_multiplier} * std::log(rope.factor) : 1;
  const std::uint32_t head =
      m.keys.get_or("attention.key_length_mla", m.config.head_dim_k, 1, limits::kEmbedding);
  const auto scale = static_cast<float>(growth * growth / std::sqrt(static_cast<double>(head)));
  // Files of GLM 4.7 Flash may lack the key.
  const bool flash = m.config.n_layers == 47 || m.config.n_layers == 48;
  const ExpertsBlock experts = m.experts_by_keys(flash ? Gating::Sigmoid : Gating::Softmax);
  // Mistral Large 3: queries grow with the position.
  Temperature temperature{.scale = m.keys.number_or("attention.temperature_scale", 0)};
  if (temperature.scale != 0)
    temperature.length = m.keys.get("attention.temperature_length", 1, limits::kContext);
  m.leave_out_prediction();
  m.decoder([&](std::uint32_t) {
    m.latent_attention(m.norm("attn_norm"), scale, rope, temperature);
    m.experts_or_feed_forward(m.norm("ffn_norm"), experts);
  });
}

void build_dots1(ModelBuilder& m) {
  m.decoder(
      {.attention = {.qk_norm = QkNorm::PerHead}, .experts = m.experts_by_keys(Gating::Softmax)});
}

// GLM 4.5.
void build_glm4moe(ModelBuilder& m) {
  const ExpertsBlock experts = m.experts_by_keys(Gating::Sigmoid);
  m.leave_out_prediction();
  m.decoder([&](std::uint32_t) {
    m.attention(m.norm("attn_norm"),
                {.qk_norm = m.has("attn_q_norm") ? QkNorm::PerHead : QkNorm::None});
    m.experts_or_feed_forward(m.norm("post_attention_norm"), experts);
  });
}

// ERNIE 4.5: a bias selects experts but does not weight them.
void build_ernie4_5_moe(ModelBuilder& m) {
  m.leave_out_prediction();
  m.decoder([&](std::uint32_t) {
    m.attention(m.norm("attn_norm"), {});
    m.experts_or_feed_forward(m.norm("ffn_norm"),
                              {.selection_bias = true, .shared = m.has("ffn_gate_shexp")});
  });
}

// Ling 2, Ring 2: one tensor of queries, keys and values; experts of the best groups.
void build_bailingmoe2(ModelBuilder& m) {
  m.leave_out_prediction();
  m.decoder(
      {.attention = {.qk_norm = QkNorm::PerHead}, .experts = m.experts_by_keys(Gating::Sigmoid)});
}

}  // namespace cria
