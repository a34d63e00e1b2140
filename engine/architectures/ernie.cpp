// ERNIE 4.5 with experts: chosen with a bias, weighted without.
#include "engine/architectures/families.h"
#include "engine/architectures/model_builder.h"

namespace cria {

void build_ernie4_5_moe(ModelBuilder& m) {
  m.embed();
  m.layers([&](std::uint32_t) {
    m.attention(m.norm("attn_norm"), {});
    const ValueId g = m.norm("ffn_norm");
    m.has_experts() ? m.experts(g, {.selection_bias = true, .shared = m.has("ffn_gate_shexp")})
                    : m.feed_forward(g, {});
  });
  m.output();
}

}  // namespace cria
