// Nemotron: LayerNorm, the square of a ReLU, no gate.
#include "engine/architectures/families.h"
#include "engine/architectures/model_builder.h"

namespace cria {

void build_nemotron(ModelBuilder& m) {
  m.embed();
  m.layers([&](std::uint32_t) {
    m.attention(m.norm("attn_norm"), {});
    m.feed_forward(m.norm("ffn_norm"),
                   {.activation = {ActivationKind::ReluSquared}, .gated = false, .biases = true});
  });
  m.output();
}

}  // namespace cria
