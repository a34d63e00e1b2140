// Gemma: the embedding is scaled and the gate is a GELU. Gemma 2 and 3 norm both sides of every branch and have
// windows.
#include <cmath>

#include "engine/architectures/families.h"
#include "engine/architectures/model_builder.h"

namespace cria {
namespace {

constexpr FeedForward kGelu{.activation = {ActivationKind::Gelu}};

float embedding_scale(const ModelBuilder& m) { return std::sqrt(static_cast<float>(m.config.n_embd)); }

// The largest models divide by the root of the embedding's share instead of the head's size.
float attention_scale(const ModelBuilder& m, std::uint32_t layers_of_largest) {
  if (m.config.n_layers != layers_of_largest) return 0;
  return 1 / std::sqrt(static_cast<float>(m.config.n_embd) / static_cast<float>(m.config.n_heads.front()));
}

void layer(ModelBuilder& m, Attention attention) {
  attention.branch.post_norm = "post_attention_norm";
  m.attention(m.norm("attn_norm"), attention);
  FeedForward feed_forward = kGelu;
  feed_forward.branch.post_norm = "post_ffw_norm";
  m.feed_forward(m.norm("ffn_norm"), feed_forward);
}

}  // namespace

void build_gemma(ModelBuilder& m) {
  m.embed(embedding_scale(m));
  m.layers([&](std::uint32_t) {
    m.attention(m.norm("attn_norm"), {});
    m.feed_forward(m.norm("ffn_norm"), kGelu);
  });
  m.output();
}

void build_gemma2(ModelBuilder& m) {
  const std::uint32_t window = m.window(4096), rope = m.window_rope(0, true);
  const std::vector<bool> windowed = m.windowed(2);
  const float softcap = m.keys.number_or("attn_logit_softcapping", 50), scale = attention_scale(m, 46);
  m.embed(embedding_scale(m));
  m.layers([&](std::uint32_t i) {
    layer(m, {.rope = windowed[i] ? rope : kNoIndex,
              .window = windowed[i] ? window : 0,
              .scale = scale,
              .softcap = softcap});
  });
  m.output(1, m.keys.number_or("final_logit_softcapping", 30));
}

void build_gemma3(ModelBuilder& m) {
  const std::uint32_t window = m.window(), rope = m.window_rope(10000, false);
  const std::vector<bool> windowed = m.windowed(6);
  const float scale = attention_scale(m, 62);
  m.embed(embedding_scale(m));
  m.layers([&](std::uint32_t i) {
    layer(m, {.rope = windowed[i] ? rope : kNoIndex,
              .window = windowed[i] ? window : 0,
              .scale = scale,
              .qk_norm = QkNorm::PerHead});
  });
  m.output(1, m.keys.number_or("final_logit_softcapping", 0));
}

}  // namespace cria
