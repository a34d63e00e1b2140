// MiniCPM: Granite with other factors.
#include <cmath>

#include "engine/architectures/families.h"
#include "engine/architectures/hf_keys.h"
#include "engine/architectures/model_builder.h"

namespace cria {

void build_minicpm(ModelBuilder& m) {
  const float layers = static_cast<float>(m.config.n_layers),
              width = static_cast<float>(m.config.n_embd);
  build_scaled(m, {.embedding = 12, .residual = 1.4F / std::sqrt(layers), .logits = width / 256});
}

void hf_minicpm(HfForms& forms) {
  forms.push_back({{.name = "MiniCPMForCausalLM",
                    .model_type = "minicpm",
                    .tied = true,
                    .longrope = HfLongRope::Context},
                   join({kHfEnds, kHfNorms, kHfPairedAttention, kHfMlp}),
                   [](HfKeys& k) {
                     const float layers = static_cast<float>(k.config.n_layers);
                     k.copy_scale("embedding_scale", "scale_emb", 12);
                     k.copy_scale("residual_scale", "scale_depth", 1.4F / std::sqrt(layers),
                                  1 / std::sqrt(double{layers}));
                     const float width = static_cast<float>(k.config.n_embd);
                     k.copy_quotient("logit_scale", "dim_model_base", width / 256, width);
                     // Other readers look for factors only where this is said.
                     if (!k.exporting() &&
                         k.config.rope_scaling.kind == HfRopeScaling::Kind::LongRope)
                       k.set("rope.scaling.type", std::string("longrope"));
                   }});
}

}  // namespace cria
