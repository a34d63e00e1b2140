// dots.llm1: norms over heads, experts as DeepSeek has them.
#include "engine/architectures/families.h"
#include "engine/architectures/hf_keys.h"
#include "engine/architectures/model_builder.h"

namespace cria {

void build_dots1(ModelBuilder& m) {
  m.embed();
  m.layers([&](std::uint32_t) {
    m.attention(m.norm("attn_norm"), {.qk_norm = QkNorm::PerHead});
    const ValueId g = m.norm("ffn_norm");
    m.has_experts() ? m.experts(g, m.experts_by_keys(Gating::Softmax)) : m.feed_forward(g, {});
  });
  m.output();
}

void hf_dots1(HfForms& forms) {
  forms.push_back(
      {{.name = "Dots1ForCausalLM", .model_type = "dots1"},
       join({kHfEnds, kHfNorms, kHfAttention, kHfQkNorms, kHfMlp, kHfExperts, kHfSharedExperts}),
       [](HfKeys& k) {
         k.copy_routed_experts(2);
         if (k.exporting()) k.say("scoring_func", "noaux_tc");  // as its makers say it
       }});
}

}  // namespace cria
