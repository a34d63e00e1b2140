// Gemma: the embedding is scaled and the gate is a GELU. Gemma 2 and 3 norm both sides of every branch and have
// windows.
#include <cmath>

#include "engine/architectures/families.h"
#include "engine/architectures/hf_keys.h"
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

// Weights of norms are kept as their difference from 1, and embeddings are the output unless said otherwise.
constexpr HfTensor kGemmaEnds[] = {{"token_embd", "model.embed_tokens"},
                                   {"output_norm", "model.norm", HfRows::PlusOne},
                                   {"output", "lm_head"}};
constexpr HfTensor kGemmaNorms[] = {
    {"blk.#.attn_norm", "model.layers.#.input_layernorm", HfRows::PlusOne},
    {"blk.#.ffn_norm", "model.layers.#.post_attention_layernorm", HfRows::PlusOne}};
constexpr HfTensor kBothSides[] = {
    {"blk.#.attn_norm", "model.layers.#.input_layernorm", HfRows::PlusOne},
    {"blk.#.post_attention_norm", "model.layers.#.post_attention_layernorm", HfRows::PlusOne},
    {"blk.#.ffn_norm", "model.layers.#.pre_feedforward_layernorm", HfRows::PlusOne},
    {"blk.#.post_ffw_norm", "model.layers.#.post_feedforward_layernorm", HfRows::PlusOne}};
constexpr HfTensor kHeadNorms[] = {{"blk.#.attn_q_norm", "model.layers.#.self_attn.q_norm", HfRows::PlusOne},
                                   {"blk.#.attn_k_norm", "model.layers.#.self_attn.k_norm", HfRows::PlusOne}};

HfClass gemma_class(std::string_view name, std::string_view type) {
  return {.name = name, .model_type = type, .tied = true, .activations = "gelu_pytorch_tanh gelu"};
}

// What attention_scale() above will do.
void expect_usual_scale(const HfKeys& k, std::uint32_t layers_of_largest) {
  const HfConfig& c = k.config;
  const std::uint32_t usual = c.n_layers == layers_of_largest ? c.n_embd / c.n_heads : c.head_dim;
  k.only("query_pre_attn_scalar", static_cast<double>(usual));
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

void hf_gemma(HfForms& forms) {
  forms.push_back(
      {gemma_class("GemmaForCausalLM", "gemma"), join({kGemmaEnds, kGemmaNorms, kHfAttention, kHfMlp})});
}

void hf_gemma2(HfForms& forms) {
  forms.push_back(
      {gemma_class("Gemma2ForCausalLM", "gemma2"), join({kGemmaEnds, kBothSides, kHfAttention, kHfMlp}),
       [](HfKeys& k) {
         k.windows(2);
         expect_usual_scale(k, 46);
         k.set("attn_logit_softcapping", static_cast<float>(k.number_or("attn_logit_softcapping", 0)));
         k.set("final_logit_softcapping", static_cast<float>(k.number_or("final_logit_softcapping", 0)));
       }});
}

void hf_gemma3(HfForms& forms) {
  forms.push_back({gemma_class("Gemma3ForCausalLM", "gemma3_text"),
                   join({kGemmaEnds, kBothSides, kHeadNorms, kHfAttention, kHfMlp}), [](HfKeys& k) {
                     k.windows(6);
                     expect_usual_scale(k, 62);
                     if (!k.has("rope_theta")) k.set("rope.freq_base", 1e6F);
                     k.set("rope.freq_base_swa",
                           static_cast<float>(k.number_or("rope_local_base_freq", 10000)));
                     k.only("attn_logit_softcapping", 0.0);
                     if (k.has("final_logit_softcapping"))
                       k.number("final_logit_softcapping", "final_logit_softcapping");
                   }});
}

}  // namespace cria
