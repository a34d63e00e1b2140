// Classes with Llama's layer: pre-norms, attention, a gated feed-forward part or experts. They
// differ in names, in factors and in the order of rows.
#include <algorithm>
#include <cmath>

#include "engine/convert/families/families.h"
#include "engine/convert/hf_rules.h"

namespace cria::hf {
namespace {

// Fused queries, keys and values of each KV head.
constexpr HfTensor kInternLm2[] = {
    {"token_embd", "model.tok_embeddings"},
    {"output_norm", "model.norm"},
    {"output.weight", "output.weight"},
    {"blk.#.attn_norm", "model.layers.#.attention_norm"},
    {"blk.#.attn_q", "model.layers.#.attention.wqkv", HfRows::GroupQueries},
    {"blk.#.attn_k", "model.layers.#.attention.wqkv", HfRows::GroupKeys},
    {"blk.#.attn_v", "model.layers.#.attention.wqkv", HfRows::GroupValues},
    {"blk.#.attn_output", "model.layers.#.attention.wo"},
    {"blk.#.ffn_norm", "model.layers.#.ffn_norm"},
    {"blk.#.ffn_gate", "model.layers.#.feed_forward.w1"},
    {"blk.#.ffn_up", "model.layers.#.feed_forward.w3"},
    {"blk.#.ffn_down", "model.layers.#.feed_forward.w2"}};
constexpr HfTensor kExaone3[] = {{"token_embd", "transformer.wte"},
                                 {"output_norm", "transformer.ln_f"},
                                 {"output.weight", "lm_head.weight"},
                                 {"blk.#.attn_norm", "transformer.h.#.ln_1"},
                                 {"blk.#.attn_q", "transformer.h.#.attn.attention.q_proj"},
                                 {"blk.#.attn_k", "transformer.h.#.attn.attention.k_proj"},
                                 {"blk.#.attn_v", "transformer.h.#.attn.attention.v_proj"},
                                 {"blk.#.attn_output", "transformer.h.#.attn.attention.out_proj"},
                                 {"blk.#.ffn_norm", "transformer.h.#.ln_2"},
                                 {"blk.#.ffn_gate", "transformer.h.#.mlp.c_fc_0"},
                                 {"blk.#.ffn_up", "transformer.h.#.mlp.c_fc_1"},
                                 {"blk.#.ffn_down", "transformer.h.#.mlp.c_proj"}};
constexpr HfTensor kHunyuanNorms[] = {
    {"blk.#.attn_q_norm", "model.layers.#.self_attn.query_layernorm"},
    {"blk.#.attn_k_norm", "model.layers.#.self_attn.key_layernorm"}};
constexpr HfTensor kHunyuanMoe[] = {
    {"blk.#.ffn_gate_inp", "model.layers.#.mlp.gate.wg"},
    {"blk.#.ffn_gate_shexp", "model.layers.#.mlp.shared_mlp.gate_proj"},
    {"blk.#.ffn_up_shexp", "model.layers.#.mlp.shared_mlp.up_proj"},
    {"blk.#.ffn_down_shexp", "model.layers.#.mlp.shared_mlp.down_proj"}};

// LLaVA's text_config has only what differs from these.
constexpr const char* kLlamaDefaults =
    R"({"vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
        "num_attention_heads": 32, "max_position_embeddings": 2048})";
constexpr const char* kMistralDefaults =
    R"({"vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 131072,
        "sliding_window": 4096})";

// MiniCPM's residual factor is scale_depth / sqrt(layers).
double root_of_layers(const HfConfig& config) {
  return std::sqrt(static_cast<double>(config.n_layers));
}

HfRule minicpm_factors() {
  return all({scale("embedding_scale", "scale_emb", 12),
              scale("residual_scale", "scale_depth", Amount([](const HfConfig& config) {
                      return 1.4F / std::sqrt(static_cast<float>(config.n_layers));
                    }),
                    Amount([](const HfConfig& config) { return 1 / root_of_layers(config); })),
              quotient("logit_scale", "dim_model_base",
                       Amount([](const HfConfig& config) { return config.n_embd / 256.0F; }),
                       Amount([](const HfConfig& config) { return config.n_embd; })),
              // Other readers look for the factors only if GGUF names longrope.
              {[](HfImport& k) {
                 if (k.config.rope_scaling.kind == HfRopeScaling::Kind::LongRope)
                   k.set("rope.scaling.type", std::string("longrope"));
               },
               nullptr}});
}

}  // namespace

HfRule granite_factors() {
  return all({scale("embedding_scale", "embedding_multiplier"),
              scale("residual_scale", "residual_multiplier"),
              scale("attention.scale", "attention_multiplier", Amount([](const HfConfig& config) {
                      return 1 / std::sqrt(static_cast<float>(config.head_dim));
                    })),
              scale("logit_scale", "logits_scaling")});
}

namespace {

constexpr std::string_view kRotated = "rope.scaling.finetuned";

}  // namespace

HfRule granite_positions() {
  constexpr std::string_view kPositions = "position_embedding_type", kRope = "rope";
  return {[=](HfImport& k) { k.set(kRotated, k.text(kPositions) == kRope); },
          [=](HfExport& k) {
            k.set(kPositions, k.keys.flag_or(kRotated, true) ? Json(kRope) : nullptr);
          }};
}

namespace {

// These classes always rotate.
HfRule granite_rotation() {
  return {nullptr, [](HfExport& k) {
            if (!k.keys.flag_or(kRotated, true)) k.fail(kRotated, "expected true");
          }};
}

// Granite 4 without Mamba layers: the shared expert is its feed-forward part.
HfRule granite_hybrid() {
  return all({granite_factors(),
              only_layers("attention"),
              integer("feed_forward_length", "shared_intermediate_size", limits::kFeedForward),
              {only("num_local_experts", 0.0).to_gguf, nullptr},
              write("num_local_experts", 0),
              write("num_experts_per_tok", 0),
              granite_positions()});
}

std::vector<HfRule> granite_moe() {
  return {granite_factors(), granite_rotation(),
          experts("num_local_experts", "num_experts_per_tok", "intermediate_size"),
          integer_if_present("expert_shared_feed_forward_length", "shared_intermediate_size",
                             limits::kFeedForward)};
}

// Dynamic scaling's "alpha" applies from the first position on. Export writes the base.
HfRule hunyuan_base() {
  return {[](HfImport& k) {
            const double alpha = k.rope_number_or("alpha", 0), dim = k.config.head_dim;
            if (alpha <= 0) return;
            k.config.warnings.clear();  // "dynamic" is not ignored
            k.set("rope.freq_base",
                  static_cast<float>(k.config.rope_base * std::pow(alpha, dim / (dim - 2))));
          },
          nullptr};
}

/// The number of a list with one number per layer, which must all be equal.
std::uint32_t common_number(const HfImport& k, std::string_view key, std::uint64_t high) {
  const std::vector<std::uint32_t> numbers = k.list(key, high);
  if (numbers.empty()) k.fail(key, "missing key");
  if (std::ranges::adjacent_find(numbers, std::not_equal_to<>()) != numbers.end())
    k.fail(key, "layers differ");
  return numbers.front();
}

HfRule hunyuan_experts() {
  constexpr std::string_view kUsed = "moe_topk", kWidth = "moe_intermediate_size",
                             kShared = "num_shared_expert",
                             kSharedWidth = "expert_shared_feed_forward_length";
  const HfRule plain = experts("num_experts", kUsed, kWidth);
  return {[=](HfImport& k) {
            k.set("expert_count", k.uint("num_experts", 0, limits::kExperts));
            k.set("expert_used_count", common_number(k, kUsed, limits::kExperts));
            k.set("expert_feed_forward_length", common_number(k, kWidth, limits::kFeedForward));
            const std::uint32_t width = k.config.n_ff;
            k.set(kSharedWidth,
                  width * (k.has(kShared) ? common_number(k, kShared, limits::kFeedForward / width)
                                          : 1));
          },
          [=](HfExport& k) {
            const std::uint64_t shared = k.cols_of("ffn_down_shexp");
            if (shared % k.config.n_ff != 0)
              k.fail(kSharedWidth, "expected a multiple of feed_forward_length");
            static_cast<void>(k.keys.has(kSharedWidth));
            plain.to_json(k);
            k.set(kShared, shared / k.config.n_ff);
            for (const std::string_view key : {kUsed, kWidth, kShared}) {
              Json& value = k.out[std::string(key)];
              value = std::vector<Json>(k.config.n_layers, value);
            }
          }};
}

}  // namespace

std::vector<HfClass> llama_like() {
  const auto llama = join({kEnds, kNorms, kPairedAttention, kMlp});
  const auto plain = join({kEnds, kNorms, kAttention, kMlp});
  return {
      {.name = "LlamaForCausalLM",
       .arch = "llama",
       .model_type = "llama",
       .mlp_bias = true,
       .defaults = kLlamaDefaults,
       .tensors = llama},
      {.name = "MistralForCausalLM",
       .arch = "llama",
       .model_type = "mistral",
       .window_by_default = true,
       .defaults = kMistralDefaults,
       .tensors = llama},
      {.name = "MixtralForCausalLM",
       .arch = "llama",
       .model_type = "mixtral",
       .tensors = join({kEnds, kNorms, kPairedAttention, kMixtralExperts}),
       .rules = {experts("num_local_experts", "num_experts_per_tok", "intermediate_size")}},
      // Its queries grow with the position.
      {.name = "Ministral3ForCausalLM",
       .arch = "mistral3",
       .model_type = "ministral3",
       .mscale = true,
       .default_eps = 1e-5F,
       .tensors = llama,
       .rules = {mscale(), rope_number("attention.temperature_scale", "llama_4_scaling_beta"),
                 write_unscaled()}},
      {.name = "Qwen2ForCausalLM",
       .arch = "qwen2",
       .model_type = "qwen2",
       .attention_bias = true,
       .tensors = plain},
      {.name = "Qwen2MoeForCausalLM",
       .arch = "qwen2moe",
       .model_type = "qwen2_moe",
       .attention_bias = true,
       .tensors = join({kEnds, kNorms, kAttention, kMlp, kExperts, kQwenShared}),
       .rules = {experts("num_experts", "num_experts_per_tok", "moe_intermediate_size"),
                 integer_or("expert_shared_feed_forward_length", "shared_expert_intermediate_size",
                            Amount([](const HfConfig& config) { return config.n_ff; }),
                            limits::kFeedForward),
                 only("norm_topk_prob", false), write_dense_layers()}},
      {.name = "Qwen3ForCausalLM",
       .arch = "qwen3",
       .model_type = "qwen3",
       .tensors = join({kEnds, kNorms, kAttention, kQkNorms, kMlp})},
      {.name = "Qwen3MoeForCausalLM",
       .arch = "qwen3moe",
       .model_type = "qwen3_moe",
       .tensors = join({kEnds, kNorms, kAttention, kQkNorms, kMlp, kExperts}),
       .rules = {experts("num_experts", "num_experts_per_tok", "moe_intermediate_size"),
                 only("norm_topk_prob", true, false), write_dense_layers()}},
      {.name = "InternLM2ForCausalLM",
       .arch = "internlm2",
       .model_type = "internlm2",
       .tensors = join({kInternLm2}),
       .rules = {only("bias", false)}},
      {.name = "SeedOssForCausalLM",
       .arch = "seed_oss",
       .model_type = "seed_oss",
       .attention_bias = true,
       .tensors = join({kEnds, kPostAttentionNorms, kAttention, kMlp})},
      {.name = "ExaoneForCausalLM",
       .arch = "exaone",
       .model_type = "exaone",
       .eps = "layer_norm_epsilon",
       .default_eps = 1e-5F,
       .activation_key = "activation_function",
       .layers_key = "num_layers",
       .tensors = join({kExaone3})},
      {.name = "SmolLM3ForCausalLM",
       .arch = "smollm3",
       .model_type = "smollm3",
       .tied = true,
       .tensors = llama,
       .rules = {unrotated(4)}},
      {.name = "ArceeForCausalLM",
       .arch = "arcee",
       .model_type = "arcee",
       .default_eps = 1e-5F,
       .activations = "relu2",
       .tensors = llama},
      {.name = "Ernie4_5ForCausalLM",
       .arch = "ernie4_5",
       .model_type = "ernie4_5",
       .tied = true,
       .default_eps = 1e-5F,
       .tensors = plain,
       .rules = {only("use_bias", false)}},
      {.name = "MiniCPMForCausalLM",
       .arch = "minicpm",
       .model_type = "minicpm",
       .tied = true,
       .longrope = HfLongRope::Context,
       .tensors = llama,
       .rules = {minicpm_factors()}},
      {.name = "GraniteForCausalLM",
       .arch = "granite",
       .model_type = "granite",
       .mlp_bias = true,
       .tensors = llama,
       .rules = {granite_factors(), granite_rotation()}},
      {.name = "GraniteMoeHybridForCausalLM",
       .arch = "granite",
       .model_type = "granitemoehybrid",
       .tensors = join({kEnds, kNorms, kPairedAttention, kGraniteMlp}),
       .rules = {granite_hybrid()}},
      {.name = "GraniteMoeForCausalLM",
       .arch = "granitemoe",
       .model_type = "granitemoe",
       .tensors = join({kEnds, kNorms, kPairedAttention, kGraniteExperts}),
       .rules = granite_moe()},
      {.name = "GraniteMoeSharedForCausalLM",
       .arch = "granitemoe",
       .model_type = "granitemoeshared",
       .tensors = join({kEnds, kNorms, kPairedAttention, kGraniteExperts, kGraniteShared}),
       .rules = granite_moe()},
      // Norms of heads after the rotation.
      {.name = "HunYuanDenseV1ForCausalLM",
       .arch = "hunyuan-dense",
       .model_type = "hunyuan_v1_dense",
       .default_eps = 1e-5F,
       .tensors = join({kEnds, kNorms, kAttention, kHunyuanNorms, kMlp}),
       .rules = {hunyuan_base()}},
      {.name = "HunYuanMoEV1ForCausalLM",
       .arch = "hunyuan-moe",
       .model_type = "hunyuan_v1_moe",
       .default_eps = 1e-5F,
       .tensors = join({kEnds, kNorms, kAttention, kHunyuanNorms, kHunyuanMoe, kExperts}),
       .rules = {hunyuan_base(), hunyuan_experts()}},
  };
}

}  // namespace cria::hf
