// Command R: one norm, from which attention and feed-forward are computed side by side. Command R7B
// and A (cohere2) have windows, and rotate only there.
#include "engine/architectures/families.h"
#include "engine/architectures/hf_keys.h"
#include "engine/architectures/model_builder.h"

namespace cria {
namespace {

constexpr HfTensor kNorm[] = {{"blk.#.attn_norm", "model.layers.#.input_layernorm"}};

HfClass cohere_class(std::string_view name, std::string_view type) {
  return {
      .name = name, .model_type = type, .tied = true, .eps = "layer_norm_eps", .usual_eps = 1e-5F};
}

}  // namespace

void build_command_r(ModelBuilder& m) {
  m.embed();
  m.layers([&](std::uint32_t) {
    const ValueId h = m.norm("attn_norm");
    m.attention(h, {.qk_norm = m.has("attn_q_norm") ? QkNorm::OwnPerHead : QkNorm::None});
    m.feed_forward(h, {});
  });
  m.output(m.keys.positive_or("logit_scale", 1));
}

void build_cohere2(ModelBuilder& m) {
  const std::uint32_t window = m.window(), rope = m.window_rope(0, true);
  const std::vector<bool> windowed = m.windowed(4);
  m.embed();
  m.layers([&](std::uint32_t i) {
    const ValueId h = m.norm("attn_norm");
    m.attention(h, {.rotated = windowed[i], .rope = rope, .window = windowed[i] ? window : 0});
    m.feed_forward(h, {});
  });
  m.output(m.keys.positive_or("logit_scale", 1));
}

void hf_command_r(HfForms& forms) {
  forms.push_back({cohere_class("CohereForCausalLM", "cohere"),
                   join({kHfEnds, kNorm, kHfAttention, kHfQkNorms, kHfMlp}), [](HfKeys& k) {
                     k.copy_number("logit_scale", "logit_scale", 1);
                     if (k.exporting())
                       return k.say("use_qk_norm", k.has_tensor("blk.0.attn_q_norm.weight"));
                     // "max_position_embeddings" is less than they were trained on.
                     constexpr std::string_view kContext = "model_max_length";
                     if (k.has(kContext))
                       k.set("context_length", k.uint(kContext, limits::kContext));
                   }});
}

void hf_cohere2(HfForms& forms) {
  forms.push_back({cohere_class("Cohere2ForCausalLM", "cohere2"),
                   join({kHfEnds, kNorm, kHfAttention, kHfMlp}), [](HfKeys& k) {
                     k.copy_number("logit_scale", "logit_scale", 1);
                     k.copy_windows(4);
                   }});
}

}  // namespace cria
