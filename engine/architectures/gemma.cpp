// Gemma: the embedding is scaled and the gate is a GELU.
#include "engine/architectures/gemma.h"
#include "engine/architectures/families.h"

namespace cria {
namespace {

constexpr HfTensor kGemmaNorms[] = {
    {"blk.#.attn_norm", "model.layers.#.input_layernorm", HfRows::PlusOne},
    {"blk.#.ffn_norm", "model.layers.#.post_attention_layernorm", HfRows::PlusOne}};

}  // namespace

void build_gemma(ModelBuilder& m) {
  m.embed(gemma_embedding_scale(m));
  m.layers([&](std::uint32_t) {
    m.attention(m.norm("attn_norm"), {});
    m.feed_forward(m.norm("ffn_norm"), kGeluGate);
  });
  m.output();
}

void hf_gemma(HfForms& forms) {
  forms.push_back({gemma_class("GemmaForCausalLM", "gemma"),
                   join({kGemmaEnds, kGemmaNorms, kHfAttention, kHfMlp})});
}

}  // namespace cria
