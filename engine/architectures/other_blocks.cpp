// Layers that differ from Llama's: other norms, biases, parallel branches, windows.
#include <cmath>

#include "engine/architectures/model_builder.h"

namespace cria {
namespace {

constexpr std::uint32_t kChunk = 8192;  // Llama 4

// Phi 3 mini and medium with contexts of 4k: files older than August 2024 lack the window of 2047.
std::uint32_t default_phi3_window(std::uint32_t layers, std::uint32_t context) {
  return (layers == 32 || layers == 40) && context == 4096 ? 2047 : 0;
}

// log(1 + e^z); z itself if e^z overflows.
float softplus(float z) {
  const float power = std::exp(z);
  return std::isinf(power) ? z : std::log1p(power);
}

}  // namespace

// EXAONE 4: norms behind the branches; with windows, full layers have no RoPE.
void build_exaone4(ModelBuilder& m) {
  m.leave_out_prediction();
  // Files of the 32B model may lack the key.
  const std::uint32_t window = m.window_if_any(m.n_layers == 64 ? 4096 : 0);
  const bool windows = window != 0;
  const std::uint32_t rope = m.window_rope(0, true);
  const std::vector<bool> windowed = windows ? m.windowed(4) : std::vector<bool>(m.config.n_layers);
  m.decoder([&](std::uint32_t i) {
    m.attention(m.x, {.rotated = !windows || windowed[i],
                      .rope = windowed[i] ? rope : kNoIndex,
                      .window = windowed[i] ? window : 0,
                      .qk_norm = QkNorm::PerHead,
                      .branch = {"post_attention_norm"}});
    m.feed_forward(m.x, {.branch = {"post_ffw_norm"}});
  });
}

// Norms without weights, clamped projections.
void build_olmo(ModelBuilder& m) {
  m.norm_weights = false;
  m.decoder({.attention = {.clamp = m.keys.number_or("attention.clamp_kqv", 0)}});
}

// OLMo 2 and 3: norms behind the branches. OLMo 3 has windows, with RoPE that is not scaled.
void build_olmo2(ModelBuilder& m) {
  const std::uint32_t window = m.window_if_any();
  const bool windows = window != 0;
  const std::uint32_t rope = windows ? m.window_rope(0, false) : kNoIndex;
  const std::vector<bool> windowed = windows ? m.windowed(4) : std::vector<bool>(m.config.n_layers);
  m.decoder([&](std::uint32_t i) {
    m.attention(m.x, {.rope = windowed[i] ? rope : kNoIndex,
                      .window = windowed[i] ? window : 0,
                      .qk_norm = QkNorm::WholeVector,
                      .branch = {"post_attention_norm"}});
    m.feed_forward(m.x, {.branch = {"post_ffw_norm"}});
  });
}

void build_olmoe(ModelBuilder& m) {
  m.decoder([&](std::uint32_t) {
    m.attention(m.norm("attn_norm"), {.qk_norm = QkNorm::WholeVector});
    m.experts(m.norm("ffn_norm"), {.normalized = false});
  });
}

// Phi 3 and 4: fused q, k, v and fused gate, up; a window in each layer; longrope.
void build_phi3(ModelBuilder& m) {
  AttentionBlock attention;
  attention.window = m.window_if_any(default_phi3_window(m.config.n_layers, m.config.n_ctx_train));
  m.decoder([&](std::uint32_t) {
    m.attention(m.norm("attn_norm"), attention);
    m.feed_forward(m.norm("ffn_norm"), {.fused = !m.has("ffn_gate")});
  });
}

// Phi 3.5 MoE: RMS norms with a bias.
void build_phimoe(ModelBuilder& m) {
  m.rms_bias = true;
  AttentionBlock attention;
  attention.window = m.window_if_any();
  m.decoder([&](std::uint32_t) {
    m.attention(m.norm("attn_norm"), attention);
    m.experts(m.norm("ffn_norm"), {});
  });
}

// Command R: attention and feed-forward part both read the same norm.
void build_command_r(ModelBuilder& m) {
  m.decoder(
      [&](std::uint32_t) {
        const ValueId h = m.norm("attn_norm");
        m.attention(h, {.qk_norm = m.has("attn_q_norm") ? QkNorm::OwnPerHead : QkNorm::None});
        m.feed_forward(h, {});
      },
      m.keys.positive_or("logit_scale", 1));
}

// Command R7B and A: windows, with RoPE in windowed layers only.
void build_cohere2(ModelBuilder& m) {
  const std::uint32_t window = m.window(), rope = m.window_rope(0, true);
  const std::vector<bool> windowed = m.windowed(4);
  m.decoder(
      [&](std::uint32_t i) {
        const ValueId h = m.norm("attn_norm");
        m.attention(h, {.rotated = windowed[i], .rope = rope, .window = windowed[i] ? window : 0});
        m.feed_forward(h, {});
      },
      m.keys.positive_or("logit_scale", 1));
}

// LayerNorm, biases everywhere, a GELU without a gate.
void build_starcoder2(ModelBuilder& m) {
  m.decoder(
      {.feed_forward = {.activation = {ActivationKind::Gelu}, .gated = false, .biases = true}});
}

// LayerNorm. The 12B model norms heads and computes both branches from one norm.
void build_stablelm(ModelBuilder& m) {
  m.decoder([&](std::uint32_t) {
    const ValueId h = m.norm("attn_norm");
    m.attention(h, {.qk_norm = m.has("attn_q_norm") ? QkNorm::OwnPerHead : QkNorm::None});
    m.feed_forward(m.has("ffn_norm") ? m.norm("ffn_norm") : h, {});
  });
}

// LayerNorm, a squared ReLU without a gate.
void build_nemotron(ModelBuilder& m) {
  m.decoder({.feed_forward = {
                 .activation = {ActivationKind::ReluSquared}, .gated = false, .biases = true}});
}

// Norms of heads; an activation (xIELU, arXiv 2411.13010) with parameters in each layer.
void build_apertus(ModelBuilder& m) {
  const auto parameters = [&](const char* key) { return m.keys.numbers_per_layer(key); };
  const std::vector<float> alpha_p = parameters("xielu.alpha_p"),
                           alpha_n = parameters("xielu.alpha_n");
  const std::vector<float> beta = parameters("xielu.beta"), eps = parameters("xielu.eps");
  m.decoder([&](std::uint32_t i) {
    m.attention(m.norm("attn_norm"), {.qk_norm = QkNorm::PerHead});
    m.feed_forward(m.norm("ffn_norm"),
                   {.activation = {ActivationKind::Xielu, softplus(alpha_p[i]),
                                   beta[i] + softplus(alpha_n[i]), beta[i], eps[i]},
                    .gated = false});
  });
}

// Norms on both sides of each branch.
void build_glm4(ModelBuilder& m) {
  AttentionBlock attention{.branch = {"post_attention_norm"}};
  // Vision models have rows of queries and keys in the other order. Sections give pairs the
  // positions of several axes, which are equal for text.
  if (m.keys.any("rope.dimension_sections")) attention.style = RopeStyle::HalfSplit;
  m.leave_out_prediction();
  m.decoder([&](std::uint32_t) {
    m.attention(m.norm("attn_norm"), attention);
    m.feed_forward(m.norm("ffn_norm"), {.fused = !m.has("ffn_gate"), .branch = {"post_ffw_norm"}});
  });
}

// Windows in every other layer, attention sinks, experts with biases and a clamped gate.
void build_gpt_oss(ModelBuilder& m) {
  const std::uint32_t window = m.window(), rope = m.window_rope(0, true);
  const std::vector<bool> windowed = m.windowed(2);
  m.decoder([&](std::uint32_t i) {
    m.attention(
        m.norm("attn_norm"),
        {.rope = windowed[i] ? rope : kNoIndex, .window = windowed[i] ? window : 0, .sinks = true});
    m.experts(m.norm("post_attention_norm"), {.gating = Gating::SoftmaxOfChosen,
                                              .normalized = false,
                                              .biases = true,
                                              .activation = {ActivationKind::ClampedSwiglu}});
  });
}

// Three of four layers attend within chunks and norm heads after the rotation; the fourth has no
// RoPE. The weight of an expert multiplies its input.
void build_llama4(ModelBuilder& m) {
  // 0 (MobileLLM): every layer attends to all positions and has RoPE.
  const bool whole = m.keys.has("attention.sliding_window") && m.window_if_any() == 0;
  m.decoder([&](std::uint32_t i) {
    const bool rotated = whole || (i + 1) % 4 != 0;
    AttentionBlock attention{.rotated = rotated, .chunk = rotated && !whole ? kChunk : 0};
    attention.weightless_norm = attention.norm_after_rope = rotated && m.config.n_experts != 128;
    if (!rotated) attention.temperature = {0.1F, kChunk, 1};
    m.attention(m.norm("attn_norm"), attention);
    m.experts_or_feed_forward(m.norm("ffn_norm"), {.gating = Gating::SigmoidOfChosen,
                                                   .normalized = false,
                                                   .weight_at_input = true,
                                                   .shared = true});
  });
}

// One norm for all heads together; every layer has experts, whose weights are always normalized.
void build_minimax_m2(ModelBuilder& m) {
  m.leave_out_prediction();
  m.decoder([&](std::uint32_t) {
    m.attention(m.norm("attn_norm"), {.qk_norm = QkNorm::WholeVector});
    ExpertsBlock experts = m.experts_by_keys(Gating::Sigmoid);
    experts.normalized = true;
    m.experts(m.norm("ffn_norm"), experts);
  });
}

}  // namespace cria
