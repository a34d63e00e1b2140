// Gemma 2: norms on both sides of every branch, every other layer has a window, caps on scores and
// logits.
#include "engine/architectures/families.h"
#include "engine/architectures/gemma.h"

namespace cria {

void build_gemma2(ModelBuilder& m) {
  const std::uint32_t window = m.window(4096), rope = m.window_rope(0, true);
  const std::vector<bool> windowed = m.windowed(2);
  const float softcap = m.keys.number_or("attn_logit_softcapping", 50),
              scale = gemma_attention_scale(m, 46);
  m.embed(gemma_embedding_scale(m));
  m.layers([&](std::uint32_t i) {
    gemma_layer(m, {.rope = windowed[i] ? rope : kNoIndex,
                    .window = windowed[i] ? window : 0,
                    .scale = scale,
                    .softcap = softcap});
  });
  m.output(1, m.keys.number_or("final_logit_softcapping", 30));
}

void hf_gemma2(HfForms& forms) {
  forms.push_back({gemma_class("Gemma2ForCausalLM", "gemma2"),
                   join({kGemmaEnds, kGemmaBothSides, kHfAttention, kHfMlp}), [](HfKeys& k) {
                     k.copy_windows(2, 4096);
                     expect_gemma_scale(k, 46);
                     k.copy_cap("attn_logit_softcapping", "attn_logit_softcapping", 50);
                     k.copy_cap("final_logit_softcapping", "final_logit_softcapping", 30);
                   }});
}

}  // namespace cria
