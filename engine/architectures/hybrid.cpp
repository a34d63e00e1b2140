// Models whose layers are not all attention: some or all are recurrent.
#include <cmath>

#include "engine/architectures/model_builder.h"

namespace cria {
namespace {

bool has_attention(const ModelBuilder& m) { return m.config.n_kv_heads[m.layer] != 0; }

// True for recurrent layers: as the file says, or all but the last of every
// full_attention_interval.
std::vector<bool> recurrent_layers(ModelBuilder& m) {
  std::vector<bool> recurrent = m.keys.flags_per_layer("attention.recurrent_layers");
  const std::uint32_t interval = m.keys.get_or("full_attention_interval", 4, 1, limits::kLayers);
  if (!recurrent.empty()) return recurrent;
  for (std::uint32_t i = 0; i < m.config.n_layers; ++i)
    recurrent.push_back((i + 1) % interval != 0);
  return recurrent;
}

void build_qwen_hybrid(ModelBuilder& m, bool in_turn) {
  const std::vector<bool> recurrent = recurrent_layers(m);
  m.leave_out_prediction();
  m.decoder([&](std::uint32_t i) {
    const ValueId h = m.norm("attn_norm");
    if (i < m.n_layers && recurrent[i])  // prediction layers have attention
      m.delta_rule(h, in_turn);
    else
      m.attention(h, {.qk_norm = QkNorm::PerHead, .gated = true});
    m.experts_or_feed_forward(m.norm("post_attention_norm"),
                              {.shared_gate = m.has("ffn_gate_inp_shexp")});
  });
}

}  // namespace

// Short convolutions and attention. The final norm has another name.
void build_lfm2(ModelBuilder& m) {
  const bool experts = m.config.n_experts != 0;
  const ExpertsBlock routed{.gating = Gating::Sigmoid, .selection_bias = true};
  m.final_norm = "token_embd_norm";
  m.decoder([&](std::uint32_t) {
    const ValueId h = m.norm("attn_norm");
    if (has_attention(m))
      m.attention(h, {.qk_norm = QkNorm::PerHead});
    else
      m.short_convolution(h);
    const ValueId g = m.norm("ffn_norm");
    if (experts && m.has_experts())
      m.experts(g, routed);
    else
      m.feed_forward(g, {});
  });
}

// Qwen3-Next, and Qwen 3.5, whose files have value heads in another order.
void build_qwen3next(ModelBuilder& m) { build_qwen_hybrid(m, false); }
void build_qwen35(ModelBuilder& m) { build_qwen_hybrid(m, true); }

// One mixer per layer: Mamba-2, attention without positions, or a feed-forward part.
void build_nemotron_h(ModelBuilder& m) {
  constexpr Activation kActivation{ActivationKind::ReluSquared};
  m.leave_out_prediction();
  m.decoder([&](std::uint32_t i) {
    const ValueId h = m.norm("attn_norm");
    if (has_attention(m)) {
      m.attention(h, {.rotated = false});
    } else if (m.config.n_ff[i] == 0) {
      m.mamba2(h);
    } else if (m.has_experts()) {
      ExpertsBlock experts = m.experts_by_keys(Gating::Sigmoid);
      experts.gated = false;
      experts.activation = kActivation;
      m.experts(h, experts);
    } else {
      m.feed_forward(h, {.activation = kActivation, .gated = false, .biases = true});
    }
  });
}

// Attention and Mamba-2 side by side. Files call a norm "ffn_norm" without ".weight".
void build_falcon_h1(ModelBuilder& m) {
  m.decoder(
      [&](std::uint32_t) {
        const ValueId h = m.norm("attn_norm");
        m.attention(h, {});
        m.mamba2(h);
        NormOp norm{{}, m.norm_spec("", m.config.n_embd, false)};
        norm.norm.weight =
            m.vector(m.has("ffn_norm") ? "ffn_norm.weight" : "ffn_norm", m.config.n_embd);
        const ValueId g = m.graph.value("norm", m.config.n_embd);
        m.graph.add(norm, "ffn_norm", m.x, g);
        m.feed_forward(g, {});
      },
      m.keys.positive_or("logit_scale", 1));
}

void build_mamba2(ModelBuilder& m) {
  m.decoder([&](std::uint32_t) { m.mamba2(m.norm("attn_norm")); });
}

void build_mamba(ModelBuilder& m) {
  m.decoder([&](std::uint32_t) { m.mamba1(m.norm("attn_norm"), false); });
}

// Mamba-1 and attention without positions; some layers have experts.
void build_jamba(ModelBuilder& m) {
  m.decoder([&](std::uint32_t) {
    const ValueId h = m.norm("attn_norm");
    if (has_attention(m))
      m.attention(h, {.rotated = false});
    else
      m.mamba1(h, true);
    m.experts_or_feed_forward(m.norm("ffn_norm"), {.normalized = false});
  });
}

// KDA and latent attention without positions.
void build_kimi_linear(ModelBuilder& m) {
  const std::uint32_t head =
      m.keys.get_or("attention.key_length_mla", m.config.head_dim_k, 1, limits::kEmbedding);
  ExpertsBlock experts = m.experts_by_keys(Gating::Sigmoid);
  experts.normalized = true;
  m.decoder([&](std::uint32_t) {
    const ValueId h = m.norm("attn_norm");
    if (has_attention(m))
      m.latent_attention(h, 1 / std::sqrt(static_cast<float>(head)), {}, {});
    else
      m.kimi_delta_attention(h);
    m.experts_or_feed_forward(m.norm("ffn_norm"), experts);
  });
}

}  // namespace cria
