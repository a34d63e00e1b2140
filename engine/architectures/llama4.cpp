// Llama 4: three layers of four attend within chunks and norm heads after the rotation, the fourth
// knows no positions. An expert's weight multiplies its input.
#include "engine/architectures/families.h"
#include "engine/architectures/hf_keys.h"
#include "engine/architectures/model_builder.h"

namespace cria {
namespace {

constexpr std::uint32_t kChunk = 8192;

bool norms_heads(std::uint32_t experts) { return experts != 128; }

// What build_llama4() will do.
void expect_usual(HfKeys& k) {
  k.copy_unrotated(4);
  k.only("attention_chunk_size", double{kChunk});
  k.only("floor_scale", double{kChunk});
  k.only("attn_scale", 0.1);
  k.only_on("attn_temperature_tuning");
  if (k.exporting())
    return k.say("use_qk_norm",
                 norms_heads(k.gguf().get_or("expert_count", 0, 0, limits::kExperts)));
  k.only("use_qk_norm", norms_heads(k.uint("num_local_experts", limits::kExperts)), true);
}

}  // namespace

void build_llama4(ModelBuilder& m) {
  // 0 says that every layer attends to all positions; then all are rotated (MobileLLM).
  const bool whole = m.keys.has("attention.sliding_window") && m.window_if_any() == 0;
  m.embed();
  m.layers([&](std::uint32_t i) {
    const bool rotated = whole || (i + 1) % 4 != 0;
    AttentionBlock attention{.rotated = rotated, .chunk = rotated && !whole ? kChunk : 0};
    attention.weightless_norm = attention.norm_after_rope =
        rotated && norms_heads(m.config.n_experts);
    if (!rotated) attention.temperature = {0.1F, kChunk, 1};
    m.attention(m.norm("attn_norm"), attention);
    const ValueId g = m.norm("ffn_norm");
    m.has_experts() ? m.experts(g, {.gating = Gating::SigmoidOfChosen,
                                    .normalized = false,
                                    .weight_at_input = true,
                                    .shared = true})
                    : m.feed_forward(g, {});
  });
  m.output();
}

void hf_llama4(HfForms& forms) {
  static constexpr HfTensor kTensors[] = {
      {"blk.#.ffn_gate", "model.layers.#.feed_forward.gate_proj"},
      {"blk.#.ffn_up", "model.layers.#.feed_forward.up_proj"},
      {"blk.#.ffn_down", "model.layers.#.feed_forward.down_proj"},
      {"blk.#.ffn_gate_inp", "model.layers.#.feed_forward.router"},
      {"blk.#.ffn_gate_exps.weight", "model.layers.#.feed_forward.experts.gate_up_proj",
       HfRows::FirstColumns},
      {"blk.#.ffn_up_exps.weight", "model.layers.#.feed_forward.experts.gate_up_proj",
       HfRows::SecondColumns},
      {"blk.#.ffn_down_exps.weight", "model.layers.#.feed_forward.experts.down_proj",
       HfRows::Columns},
      {"blk.#.ffn_gate_shexp", "model.layers.#.feed_forward.shared_expert.gate_proj"},
      {"blk.#.ffn_up_shexp", "model.layers.#.feed_forward.shared_expert.up_proj"},
      {"blk.#.ffn_down_shexp", "model.layers.#.feed_forward.shared_expert.down_proj"}};
  forms.push_back(
      {{.name = "Llama4ForCausalLM", .model_type = "llama4_text", .usual_eps = 1e-5F},
       join({kHfEnds, kHfNorms, kHfAttention, kTensors}),
       [](HfKeys& k) {
         expect_usual(k);
         k.copy_uint("feed_forward_length", "intermediate_size_mlp", limits::kFeedForward);
         k.copy_experts("num_local_experts", "num_experts_per_tok", "intermediate_size");
         k.copy_uint_or("interleave_moe_layer_step", "interleave_moe_layer_step", 1,
                        limits::kLayers);
       }});
}

}  // namespace cria
