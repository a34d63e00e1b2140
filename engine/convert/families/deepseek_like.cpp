// DeepSeek and classes with its router: gating function, groups, shared experts, a bias that
// selects experts.
#include <algorithm>

#include "engine/convert/families/families.h"
#include "engine/convert/hf_rules.h"

namespace cria::hf {
namespace {

constexpr std::uint32_t kSoftmax = 1, kSigmoid = 2;  // expert_gating_func

constexpr HfTensor kErnieBias[] = {
    {"blk.#.exp_probs_b.bias", "model.layers.#.mlp.moe_statics.e_score_correction_bias"}};

constexpr HfTensor kMiniMaxBias[] = {
    {"blk.#.exp_probs_b.bias", "model.layers.#.block_sparse_moe.e_score_correction_bias"}};
constexpr HfTensor kBailing[] = {{"token_embd", "model.word_embeddings"},
                                 {"output_norm", "model.norm"},
                                 {"output.weight", "lm_head.weight"},
                                 {"blk.#.attn_qkv", "model.layers.#.attention.query_key_value"},
                                 {"blk.#.attn_output", "model.layers.#.attention.dense"},
                                 {"blk.#.attn_q_norm", "model.layers.#.attention.query_layernorm"},
                                 {"blk.#.attn_k_norm", "model.layers.#.attention.key_layernorm"},
                                 {"blk.#.exp_probs_b.bias", "model.layers.#.mlp.gate.expert_bias"}};

// The number of rotated values of a head, under a key of its own.
HfRule rotary_dim() {
  constexpr std::string_view kKey = "rotary_dim", kSuffix = "rope.dimension_count";
  return {[=](HfImport& k) {
            if (k.has(kKey)) k.set(kSuffix, k.uint(kKey, 2, k.config.head_dim));
          },
          [=](HfExport& k) {
            k.set(kKey, k.config.n_rot);
            k.out.erase("partial_rotary_factor");
          }};
}

HfRule sigmoid_gating() {
  constexpr std::string_view kGating = "expert_gating_func";
  return {[=](HfImport& k) { k.set(kGating, kSigmoid); },
          [=](HfExport& k) {
            if (k.keys.get_or(kGating, kSigmoid, 0, 16) == kSoftmax)
              k.fail(kGating, "expected " + std::to_string(kSigmoid));
            // Always normalized, whatever the key says.
            static_cast<void>(k.keys.flag_or("expert_weights_norm", true));
          }};
}

HfRule bailing_shared_width() {
  constexpr std::string_view kWidth = "expert_shared_feed_forward_length",
                             kKey = "moe_shared_expert_intermediate_size";
  return {if_present(kKey, integer(kWidth, kKey, limits::kFeedForward)).to_gguf, [=](HfExport& k) {
            static_cast<void>(k.keys.has(kWidth));
            k.set(kKey, k.cols_of("ffn_down_shexp"));
          }};
}

// Version 2 has groups if "topk_method" says so.
HfRule deepseek2_groups() {
  constexpr std::string_view kKey = "topk_method", kGreedy = "greedy",
                             kGrouped = "group_limited_greedy";
  const HfRule router = routed_experts(kSoftmax), groups = expert_groups();
  return {[=](HfImport& k) {
            const std::string method = k.text(kKey).value_or(std::string(kGreedy));
            if (method != kGreedy && method != kGrouped)
              k.fail(kKey, "not supported here: expected greedy or group_limited_greedy, got '" +
                               method + "'");
            router.to_gguf(k);
            if (method == kGrouped) groups.to_gguf(k);
          },
          [=](HfExport& k) {
            const bool grouped = k.keys.get_or("expert_group_count", 1, 0, limits::kExperts) > 1;
            k.set(kKey, grouped ? kGrouped : kGreedy);
            router.to_json(k);
            if (grouped) groups.to_json(k);
          }};
}

// Other readers look for shared experts only if GGUF has their width.
HfRule ernie_shared_width() {
  return {[](HfImport& k) {
            const std::uint32_t width = k.uint("moe_intermediate_size", 0, limits::kFeedForward);
            const std::uint64_t most = limits::kFeedForward / std::max(1U, width);
            k.set("expert_shared_feed_forward_length",
                  width * k.uint_or("moe_num_shared_experts", 0, most));
          },
          nullptr};
}

}  // namespace

std::vector<HfClass> deepseek_like() {
  const auto deepseek = join({kEnds, kNorms, kLatent, kMlp, kExperts, kSharedExperts});
  return {
      // Some readers take a missing "scoring_func" for softmax.
      {.name = "DeepseekV2ForCausalLM",
       .arch = "deepseek2",
       .model_type = "deepseek_v2",
       .latent = true,
       .mscale = true,
       .tensors = deepseek,
       .rules = {drop_prediction(), latent_attention(), only_text("scoring_func", "softmax"),
                 deepseek2_groups()}},
      {.name = "DeepseekV3ForCausalLM",
       .arch = "deepseek2",
       .model_type = "deepseek_v3",
       .latent = true,
       .mscale = true,
       .tensors = deepseek,
       .rules = {drop_prediction(), latent_attention(), write("topk_method", "noaux_tc"),
                 only("rope_interleave", true), only_text("scoring_func", "sigmoid"),
                 routed_experts(kSigmoid), expert_groups()},
       .predicting_layers = true},
      {.name = "Dots1ForCausalLM",
       .arch = "dots1",
       .model_type = "dots1",
       .tensors = join({kEnds, kNorms, kAttention, kQkNorms, kMlp, kExperts, kSharedExperts}),
       // The makers' own files have this scoring_func.
       .rules = {routed_experts(kSigmoid), expert_groups(), write("scoring_func", "noaux_tc")}},
      {.name = "Glm4MoeForCausalLM",
       .arch = "glm4moe",
       .model_type = "glm4_moe",
       .partial_rotation = true,
       .default_part = 0.5,
       .default_eps = 1e-5F,
       .tensors =
           join({kEnds, kPostAttentionNorms, kAttention, kQkNorms, kMlp, kExperts, kSharedExperts}),
       .rules = {drop_prediction(), routed_experts(kSigmoid), expert_groups(),
                 write_presence("use_qk_norm", "blk.0.attn_q_norm.weight")},
       .predicting_layers = true},
      {.name = "Ernie4_5_MoeForCausalLM",
       .arch = "ernie4_5-moe",
       .model_type = "ernie4_5_moe",
       .tied = true,
       .default_eps = 1e-5F,
       .tensors = join({kEnds, kNorms, kAttention, kMlp, kExperts, kErnieBias, kSharedExperts}),
       .rules = {only("use_bias", false),
                 experts("moe_num_experts", "moe_k", "moe_intermediate_size"),
                 shared_experts("moe_num_shared_experts"),
                 integer_or("leading_dense_block_count", "moe_layer_start_index", 0,
                            limits::kLayers),
                 integer_or("interleave_moe_layer_step", "moe_layer_interval", 1, limits::kLayers),
                 ernie_shared_width()},
       .predicting = "model.mtp_"},
      {.name = "MiniMaxM2ForCausalLM",
       .arch = "minimax-m2",
       .model_type = "minimax_m2",
       .partial_rotation = true,
       .tensors = join({kEnds, kNorms, kAttention, kQkNorms, kMixtralExperts, kMiniMaxBias}),
       .rules = {drop_prediction(),
                 experts("num_local_experts", "num_experts_per_tok", "intermediate_size"),
                 sigmoid_gating(), rotary_dim(), only("use_qk_norm", true),
                 only_text("scoring_func", "sigmoid")},
       .predicting_layers = true},
      {.name = "BailingMoeV2ForCausalLM",
       .arch = "bailingmoe2",
       .model_type = "bailing_moe",
       .partial_rotation = true,
       .tensors = join({kBailing, kNorms, kMlp, kExperts, kSharedExperts}),
       .rules = {drop_prediction(), routed_experts(kSigmoid), expert_groups(),
                 bailing_shared_width(),
                 renamed({{"n_routed_experts", "num_experts"},
                          {"n_shared_experts", "num_shared_experts"},
                          {"attention_bias", "use_qkv_bias"}}),
                 write("score_function", "sigmoid"), write("moe_router_enable_expert_bias", true)},
       .predicting_layers = true,
       .aliases = {{"num_experts", "n_routed_experts"},
                   {"num_shared_experts", "n_shared_experts"},
                   {"use_qkv_bias", "attention_bias"}}},
  };
}

}  // namespace cria::hf
