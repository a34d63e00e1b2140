// Pre-norm layers like Llama's: attention, then a gated feed-forward part or experts.
#include <cmath>

#include "engine/architectures/model_builder.h"

namespace cria {
namespace {

// 0 or a missing key means the default.
float factor(ModelBuilder& m, const char* key, float usual) {
  const float value = m.keys.number_or(key, 0);
  return value == 0 ? usual : value;
}

/// Default factors of a model.
struct Scales {
  float embedding = 1;  ///< scales token embeddings
  float residual = 1;   ///< scales each branch
  float attention = 0;  ///< scales scores; 0: 1/sqrt(head size)
  float logits = 1;     ///< divisor of logits
  bool rotated = true;  ///< false: no RoPE
};

// Llama with factors. Factors of the file override the defaults, except attention's. Layers without
// KV heads are Mamba-2 (Granite 4 H).
void build_scaled(ModelBuilder& m, const Scales& usual) {
  const Branch branch{.scale = factor(m, "residual_scale", usual.residual)};
  const float logits = factor(m, "logit_scale", usual.logits);
  m.embed(factor(m, "embedding_scale", usual.embedding));
  m.layers([&](std::uint32_t i) {
    const ValueId h = m.norm("attn_norm");
    if (m.config.n_kv_heads[i] == 0)
      m.mamba2(h, branch);
    else
      m.attention(h, {.rotated = usual.rotated, .scale = usual.attention, .branch = branch});
    m.experts_or_feed_forward(m.norm("ffn_norm"), {.branch = branch},
                              {.biases = true, .branch = branch});
  });
  m.output(1 / logits);
}

}  // namespace

// Mixtral has experts, Granite Code biases.
void build_llama(ModelBuilder& m) {
  m.decoder({.feed_forward = {.biases = true}, .experts = ExpertsBlock{}});
}

// Ministral 3: queries grow with the position.
void build_mistral3(ModelBuilder& m) {
  const float scale = m.keys.number_or("attention.temperature_scale", 0);
  m.decoder({.attention = {.temperature = {scale, m.config.rope_orig_ctx, 0}},
             .feed_forward = {.biases = true},
             .experts = ExpertsBlock{}});
}

// Qwen 2, InternLM 2, EXAONE 3, ERNIE 4.5: only the rotated pairs and names differ from Llama.
void build_plain(ModelBuilder& m) { m.decoder(LayerBlock{}); }

void build_seed_oss(ModelBuilder& m) { m.decoder({.ffn_norm = "post_attention_norm"}); }

// Every fourth layer has no RoPE.
void build_smollm3(ModelBuilder& m) {
  m.decoder([&](std::uint32_t i) {
    m.attention(m.norm("attn_norm"), {.rotated = (i + 1) % 4 != 0});
    m.feed_forward(m.norm("ffn_norm"), {});
  });
}

// A squared ReLU without a gate.
void build_arcee(ModelBuilder& m) {
  m.decoder({.feed_forward = {.activation = {ActivationKind::ReluSquared}, .gated = false}});
}

void build_qwen3(ModelBuilder& m) { m.decoder({.attention = {.qk_norm = QkNorm::PerHead}}); }

void build_qwen3moe(ModelBuilder& m) {
  m.decoder({.attention = {.qk_norm = QkNorm::PerHead}, .experts = ExpertsBlock{}});
}

// Expert weights are not normalized; the shared expert has a gate.
void build_qwen2moe(ModelBuilder& m) {
  m.decoder({.experts = ExpertsBlock{.normalized = false, .shared = true, .shared_gate = true}});
}

void build_minicpm(ModelBuilder& m) {
  const float layers = static_cast<float>(m.config.n_layers),
              width = static_cast<float>(m.config.n_embd);
  build_scaled(m, {.embedding = 12, .residual = 1.4F / std::sqrt(layers), .logits = width / 256});
}

// In Granite's files this key says whether there is RoPE, in others how the model was trained.
void build_granite(ModelBuilder& m) {
  build_scaled(m, {.attention = factor(m, "attention.scale", 0),
                   .rotated = m.keys.flag_or("rope.scaling.finetuned", true)});
}

// Norms of queries and keys after the rotation.
void build_hunyuan(ModelBuilder& m) {
  m.decoder({.attention = {.qk_norm = QkNorm::PerHead, .norm_after_rope = true},
             .experts = ExpertsBlock{.shared = true}});
}

}  // namespace cria
