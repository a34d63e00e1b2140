// Granite and MiniCPM: llama with factors on embedding, residuals, attention and logits.
#include <cmath>

#include "engine/architectures/families.h"
#include "engine/architectures/model_builder.h"

namespace cria {
namespace {

// A key that is missing or 0 counts as its default.
float factor(ModelBuilder& m, const char* key, float usual) {
  const float value = m.keys.number_or(key, 0);
  return value == 0 ? usual : value;
}

void build(ModelBuilder& m, float embedding, const Branch& branch, float attention_scale, float logits) {
  m.embed(embedding);
  m.layers([&](std::uint32_t) {
    m.attention(m.norm("attn_norm"), {.scale = attention_scale, .branch = branch});
    const ValueId g = m.norm("ffn_norm");
    m.has_experts() ? m.experts(g, {.branch = branch}) : m.feed_forward(g, {.branch = branch});
  });
  m.output(1 / logits);
}

}  // namespace

void build_granite(ModelBuilder& m) {
  build(m, factor(m, "embedding_scale", 1), {.scale = factor(m, "residual_scale", 1)},
        factor(m, "attention.scale", 0), factor(m, "logit_scale", 1));
}

void build_minicpm(ModelBuilder& m) {
  const float layers = static_cast<float>(m.config.n_layers), width = static_cast<float>(m.config.n_embd);
  build(m, factor(m, "embedding_scale", 12), {.scale = factor(m, "residual_scale", 1.4F / std::sqrt(layers))},
        0, factor(m, "logit_scale", width / 256));
}

}  // namespace cria
