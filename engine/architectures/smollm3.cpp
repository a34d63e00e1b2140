// SmolLM 3: every fourth layer knows no positions. Arcee: the square of a ReLU, no gate.
#include "engine/architectures/families.h"
#include "engine/architectures/hf_keys.h"
#include "engine/architectures/model_builder.h"

namespace cria {

void build_smollm3(ModelBuilder& m) {
  m.embed();
  m.layers([&](std::uint32_t i) {
    m.attention(m.norm("attn_norm"), {.rotated = (i + 1) % 4 != 0});
    m.feed_forward(m.norm("ffn_norm"), {});
  });
  m.output();
}

void build_arcee(ModelBuilder& m) {
  m.embed();
  m.layers([&](std::uint32_t) {
    m.attention(m.norm("attn_norm"), {});
    m.feed_forward(m.norm("ffn_norm"),
                   {.activation = {ActivationKind::ReluSquared}, .gated = false});
  });
  m.output();
}

void hf_smollm3(HfForms& forms) {
  forms.push_back({{.name = "SmolLM3ForCausalLM", .model_type = "smollm3", .tied = true},
                   join({kHfEnds, kHfNorms, kHfPairedAttention, kHfMlp}),
                   [](HfKeys& k) { k.copy_unrotated(4); }});
}

void hf_arcee(HfForms& forms) {
  forms.push_back({{.name = "ArceeForCausalLM",
                    .model_type = "arcee",
                    .usual_eps = 1e-5F,
                    .activations = "relu2"},
                   join({kHfEnds, kHfNorms, kHfPairedAttention, kHfMlp})});
}

}  // namespace cria
