// Hunyuan: queries and keys are normed after the rotation.
#include <algorithm>
#include <cmath>
#include <functional>

#include "engine/architectures/families.h"
#include "engine/architectures/hf_keys.h"
#include "engine/architectures/model_builder.h"

namespace cria {
namespace {

constexpr HfTensor kHeadNorms[] = {
    {"blk.#.attn_q_norm", "model.layers.#.self_attn.query_layernorm"},
    {"blk.#.attn_k_norm", "model.layers.#.self_attn.key_layernorm"}};

// "alpha" of their dynamic scaling is at work from the first position on.
void stretched_base(HfKeys& k) {
  if (k.exporting()) return;  // rope_theta says it
  const double alpha = k.rope_number_or("alpha", 0), dim = k.config.head_dim;
  if (alpha <= 0) return;
  k.config.warnings.clear();  // that dynamic scaling is left out
  k.set("rope.freq_base",
        static_cast<float>(k.config.rope_base * std::pow(alpha, dim / (dim - 2))));
}

std::uint32_t of_all_layers(const HfKeys& k, std::string_view key, std::uint64_t high) {
  const std::vector<std::uint32_t> numbers = k.list(key, high);
  if (numbers.empty()) k.fail(key, "missing key");
  if (std::ranges::adjacent_find(numbers, std::not_equal_to<>()) != numbers.end())
    k.fail(key, "layers differ");
  return numbers.front();
}

void read_experts(HfKeys& k) {
  k.copy_uint("expert_count", "num_experts", limits::kExperts);
  k.set("expert_used_count", of_all_layers(k, "moe_topk", limits::kExperts));
  k.set("expert_feed_forward_length",
        of_all_layers(k, "moe_intermediate_size", limits::kFeedForward));
  constexpr std::string_view kShared = "num_shared_expert";
  const std::uint32_t width = k.config.n_ff;
  k.set("expert_shared_feed_forward_length",
        width * (k.has(kShared) ? of_all_layers(k, kShared, limits::kFeedForward / width) : 1));
}

// Lists of a number for each layer, all alike.
void say_experts(HfKeys& k) {
  const std::uint64_t shared = k.cols_of("ffn_down_shexp");
  if (shared % k.config.n_ff != 0)
    k.fail("expert_shared_feed_forward_length", "expected a multiple of feed_forward_length");
  static_cast<void>(k.gguf().has("expert_shared_feed_forward_length"));
  k.copy_experts("num_experts", "moe_topk", "moe_intermediate_size");
  k.say("num_shared_expert", shared / k.config.n_ff);
  for (const char* key : {"moe_topk", "moe_intermediate_size", "num_shared_expert"})
    k.repeat_for_layers(key);
}

}  // namespace

void build_hunyuan(ModelBuilder& m) {
  m.embed();
  m.layers([&](std::uint32_t) {
    m.attention(m.norm("attn_norm"), {.qk_norm = QkNorm::PerHead, .norm_after_rope = true});
    const ValueId g = m.norm("ffn_norm");
    m.has_experts() ? m.experts(g, {.shared = true}) : m.feed_forward(g, {});
  });
  m.output();
}

void hf_hunyuan_dense(HfForms& forms) {
  forms.push_back(
      {{.name = "HunYuanDenseV1ForCausalLM", .model_type = "hunyuan_v1_dense", .usual_eps = 1e-5F},
       join({kHfEnds, kHfNorms, kHfAttention, kHeadNorms, kHfMlp}),
       stretched_base});
}

void hf_hunyuan_moe(HfForms& forms) {
  static constexpr HfTensor kOwn[] = {
      {"blk.#.ffn_gate_inp", "model.layers.#.mlp.gate.wg"},
      {"blk.#.ffn_gate_shexp", "model.layers.#.mlp.shared_mlp.gate_proj"},
      {"blk.#.ffn_up_shexp", "model.layers.#.mlp.shared_mlp.up_proj"},
      {"blk.#.ffn_down_shexp", "model.layers.#.mlp.shared_mlp.down_proj"}};
  forms.push_back(
      {{.name = "HunYuanMoEV1ForCausalLM", .model_type = "hunyuan_v1_moe", .usual_eps = 1e-5F},
       join({kHfEnds, kHfNorms, kHfAttention, kHeadNorms, kOwn, kHfExperts}),
       [](HfKeys& k) {
         stretched_base(k);
         k.exporting() ? say_experts(k) : read_experts(k);
       }});
}

}  // namespace cria
