// Hunyuan: queries and keys are normed after the rotation.
#include "engine/architectures/families.h"
#include "engine/architectures/model_builder.h"

namespace cria {

void build_hunyuan(ModelBuilder& m) {
  m.embed();
  m.layers([&](std::uint32_t) {
    m.attention(m.norm("attn_norm"), {.qk_norm = QkNorm::PerHead, .norm_after_rope = true});
    const ValueId g = m.norm("ffn_norm");
    m.has_experts() ? m.experts(g, {.shared = true}) : m.feed_forward(g, {});
  });
  m.output();
}

}  // namespace cria
