// Llama, and those that differ from it in a step or in the layout of rotated pairs only.
#include "engine/architectures/families.h"
#include "engine/architectures/model_builder.h"

namespace cria {
namespace {

void feed_forward_or_experts(ModelBuilder& m, const std::string& norm) {
  const ValueId g = m.norm(norm);
  m.has_experts() ? m.experts(g, {}) : m.feed_forward(g, {});
}

}  // namespace

// With experts: Mixtral.
void build_llama(ModelBuilder& m) {
  m.embed();
  m.layers([&](std::uint32_t) {
    m.attention(m.norm("attn_norm"), {});
    feed_forward_or_experts(m, "ffn_norm");
  });
  m.output();
}

// Qwen 2, InternLM 2, EXAONE, ERNIE 4.5
void build_plain(ModelBuilder& m) {
  m.embed();
  m.layers([&](std::uint32_t) {
    m.attention(m.norm("attn_norm"), {});
    m.feed_forward(m.norm("ffn_norm"), {});
  });
  m.output();
}

// Queries grow with the position.
void build_mistral3(ModelBuilder& m) {
  Attention attention;
  attention.temperature = {m.keys.number_or("attention.temperature_scale", 0), m.config.rope_orig_ctx, 0};
  m.embed();
  m.layers([&](std::uint32_t) {
    m.attention(m.norm("attn_norm"), attention);
    feed_forward_or_experts(m, "ffn_norm");
  });
  m.output();
}

// Every fourth layer knows no positions.
void build_smollm3(ModelBuilder& m) {
  m.embed();
  m.layers([&](std::uint32_t i) {
    m.attention(m.norm("attn_norm"), {.rotated = (i + 1) % 4 != 0});
    m.feed_forward(m.norm("ffn_norm"), {});
  });
  m.output();
}

// The square of a ReLU, no gate.
void build_arcee(ModelBuilder& m) {
  m.embed();
  m.layers([&](std::uint32_t) {
    m.attention(m.norm("attn_norm"), {});
    m.feed_forward(m.norm("ffn_norm"), {.activation = {ActivationKind::ReluSquared}, .gated = false});
  });
  m.output();
}

void build_seed_oss(ModelBuilder& m) {
  m.embed();
  m.layers([&](std::uint32_t) {
    m.attention(m.norm("attn_norm"), {});
    m.feed_forward(m.norm("post_attention_norm"), {});
  });
  m.output();
}

}  // namespace cria
