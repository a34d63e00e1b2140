// Llama 4: three layers of four attend within chunks and norm heads after the rotation, the fourth knows no
// positions. An expert's weight multiplies its input.
#include "engine/architectures/families.h"
#include "engine/architectures/model_builder.h"

namespace cria {
namespace {

constexpr std::uint32_t kChunk = 8192;

}  // namespace

void build_llama4(ModelBuilder& m) {
  m.embed();
  m.layers([&](std::uint32_t i) {
    const bool rotated = (i + 1) % 4 != 0;
    Attention attention{.rotated = rotated, .chunk = rotated ? kChunk : 0};
    attention.weightless_norm = attention.norm_after_rope = rotated && m.config.n_experts != 128;
    if (!rotated) attention.temperature = {0.1F, kChunk, 1};
    m.attention(m.norm("attn_norm"), attention);
    const ValueId g = m.norm("ffn_norm");
    m.has_experts() ? m.experts(g, {.gating = Gating::SigmoidOfChosen,
                                    .normalized = false,
                                    .weight_at_input = true,
                                    .shared = true})
                    : m.feed_forward(g, {});
  });
  m.output();
}

}  // namespace cria
