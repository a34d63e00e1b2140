// Granite: llama with factors on embedding, residuals, attention and logits.
#include <cmath>

#include "engine/architectures/families.h"
#include "engine/architectures/hf_keys.h"
#include "engine/architectures/model_builder.h"

namespace cria {
namespace {

constexpr std::string_view kRotated = "rope.scaling.finetuned";

// A key that is missing or 0 counts as its default.
float factor(ModelBuilder& m, const char* key, float usual) {
  const float value = m.keys.number_or(key, 0);
  return value == 0 ? usual : value;
}

void granite_scales(HfKeys& k) {
  k.copy_scale("embedding_scale", "embedding_multiplier");
  k.copy_scale("residual_scale", "residual_multiplier");
  k.copy_scale("attention.scale", "attention_multiplier",
               1 / std::sqrt(static_cast<float>(k.config.head_dim)));
  k.copy_scale("logit_scale", "logits_scaling");
}

// Of classes that always rotate.
void expect_rotation(const HfKeys& k) {
  if (k.exporting() && !k.gguf().flag_or(kRotated, true)) k.fail(kRotated, "expected true");
}

// Granite 4 where every layer attends: in the place of a shared expert it has its feed-forward
// part.
void copy_hybrid(HfKeys& k) {
  constexpr std::string_view kPositions = "position_embedding_type", kRope = "rope";
  granite_scales(k);
  k.only_layers("attention");
  k.copy_uint("feed_forward_length", "shared_intermediate_size", limits::kFeedForward);
  if (!k.exporting()) {
    k.only("num_local_experts", 0.0);
    return k.set(kRotated, k.text_or(kPositions, "") == kRope);
  }
  for (const char* key : {"num_local_experts", "num_experts_per_tok"}) k.say(key, 0);
  k.say(kPositions, k.gguf().flag_or(kRotated, true) ? nlohmann::ordered_json(kRope) : nullptr);
}

}  // namespace

void build_scaled(ModelBuilder& m, const Scales& usual) {
  const Branch branch{.scale = factor(m, "residual_scale", usual.residual)};
  const float logits = factor(m, "logit_scale", usual.logits);
  m.embed(factor(m, "embedding_scale", usual.embedding));
  m.layers([&](std::uint32_t) {
    m.attention(m.norm("attn_norm"),
                {.rotated = usual.rotated, .scale = usual.attention, .branch = branch});
    const ValueId g = m.norm("ffn_norm");
    m.has_experts() ? m.experts(g, {.branch = branch})
                    : m.feed_forward(g, {.biases = true, .branch = branch});
  });
  m.output(1 / logits);
}

// Other models' files say here how their makers trained, Granite's whether anything is rotated.
void build_granite(ModelBuilder& m) {
  build_scaled(
      m, {.attention = factor(m, "attention.scale", 0), .rotated = m.keys.flag_or(kRotated, true)});
}

void hf_granite(HfForms& forms) {
  forms.push_back({{.name = "GraniteForCausalLM", .model_type = "granite", .mlp_bias = true},
                   join({kHfEnds, kHfNorms, kHfPairedAttention, kHfMlp}),
                   [](HfKeys& k) {
                     granite_scales(k);
                     expect_rotation(k);
                   }});
  static constexpr HfTensor kMlp[] = {
      {"blk.#.ffn_gate.weight", "model.layers.#.shared_mlp.input_linear.weight", HfRows::FirstHalf},
      {"blk.#.ffn_up.weight", "model.layers.#.shared_mlp.input_linear.weight", HfRows::SecondHalf},
      {"blk.#.ffn_down", "model.layers.#.shared_mlp.output_linear"}};
  forms.push_back({{.name = "GraniteMoeHybridForCausalLM", .model_type = "granitemoehybrid"},
                   join({kHfEnds, kHfNorms, kHfPairedAttention, kMlp}),
                   copy_hybrid});
}

void hf_granitemoe(HfForms& forms) {
  static constexpr HfTensor kExperts[] = {
      {"blk.#.ffn_gate_inp", "model.layers.#.block_sparse_moe.router.layer"},
      {"blk.#.ffn_gate_exps.weight", "model.layers.#.block_sparse_moe.input_linear.weight",
       HfRows::FirstHalf},
      {"blk.#.ffn_up_exps.weight", "model.layers.#.block_sparse_moe.input_linear.weight",
       HfRows::SecondHalf},
      {"blk.#.ffn_down_exps", "model.layers.#.block_sparse_moe.output_linear"}};
  static constexpr HfTensor kShared[] = {
      {"blk.#.ffn_gate_shexp.weight", "model.layers.#.shared_mlp.input_linear.weight",
       HfRows::FirstHalf},
      {"blk.#.ffn_up_shexp.weight", "model.layers.#.shared_mlp.input_linear.weight",
       HfRows::SecondHalf},
      {"blk.#.ffn_down_shexp", "model.layers.#.shared_mlp.output_linear"}};
  const auto keys = [](HfKeys& k) {
    granite_scales(k);
    expect_rotation(k);
    k.copy_experts("num_local_experts", "num_experts_per_tok", "intermediate_size");
    k.copy_uint_if_there("expert_shared_feed_forward_length", "shared_intermediate_size",
                         limits::kFeedForward);
  };
  forms.push_back({{.name = "GraniteMoeForCausalLM", .model_type = "granitemoe"},
                   join({kHfEnds, kHfNorms, kHfPairedAttention, kExperts}),
                   keys});
  forms.push_back({{.name = "GraniteMoeSharedForCausalLM", .model_type = "granitemoeshared"},
                   join({kHfEnds, kHfNorms, kHfPairedAttention, kExperts, kShared}),
                   keys});
}

}  // namespace cria
