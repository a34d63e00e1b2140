// StarCoder 2: LayerNorm, biases everywhere, a GELU without a gate.
#include "engine/architectures/families.h"
#include "engine/architectures/model_builder.h"

namespace cria {

void build_starcoder2(ModelBuilder& m) {
  m.embed();
  m.layers([&](std::uint32_t) {
    m.attention(m.norm("attn_norm"), {});
    m.feed_forward(m.norm("ffn_norm"),
                   {.activation = {ActivationKind::Gelu}, .gated = false, .biases = true});
  });
  m.output();
}

}  // namespace cria
