// Qwen 3: llama with a norm over every head's query and key. Its experts, and those of Qwen 2.
#include "engine/architectures/families.h"
#include "engine/architectures/model_builder.h"

namespace cria {

void build_qwen3(ModelBuilder& m) {
  m.embed();
  m.layers([&](std::uint32_t) {
    m.attention(m.norm("attn_norm"), {.qk_norm = QkNorm::PerHead});
    m.feed_forward(m.norm("ffn_norm"), {});
  });
  m.output();
}

void build_qwen3moe(ModelBuilder& m) {
  m.embed();
  m.layers([&](std::uint32_t) {
    m.attention(m.norm("attn_norm"), {.qk_norm = QkNorm::PerHead});
    const ValueId g = m.norm("ffn_norm");
    m.has_experts() ? m.experts(g, {}) : m.feed_forward(g, {});
  });
  m.output();
}

// Weights are not normalized; the shared expert has a gate.
void build_qwen2moe(ModelBuilder& m) {
  m.embed();
  m.layers([&](std::uint32_t) {
    m.attention(m.norm("attn_norm"), {});
    const ValueId g = m.norm("ffn_norm");
    m.has_experts() ? m.experts(g, {.normalized = false, .shared = true, .shared_gate = true})
                    : m.feed_forward(g, {});
  });
  m.output();
}

}  // namespace cria
