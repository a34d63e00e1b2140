// Classes whose layers differ from Llama's: other norms, biases, parallel branches, windows.
#include "engine/convert/families/families.h"
#include "engine/convert/hf_rules.h"

namespace cria::hf {
namespace {

constexpr HfTensor kOneNorm[] = {{"blk.#.attn_norm", "model.layers.#.input_layernorm"}};
constexpr HfTensor kPostNorms[] = {
    {"blk.#.post_attention_norm", "model.layers.#.post_attention_layernorm"},
    {"blk.#.post_ffw_norm", "model.layers.#.post_feedforward_layernorm"}};
constexpr HfTensor kGlm4Norms[] = {
    {"blk.#.attn_norm", "model.layers.#.input_layernorm"},
    {"blk.#.post_attention_norm", "model.layers.#.post_self_attn_layernorm"},
    {"blk.#.ffn_norm", "model.layers.#.post_attention_layernorm"},
    {"blk.#.post_ffw_norm", "model.layers.#.post_mlp_layernorm"}};
constexpr HfTensor kApertusNorms[] = {{"blk.#.attn_norm", "model.layers.#.attention_layernorm"},
                                      {"blk.#.ffn_norm", "model.layers.#.feedforward_layernorm"}};
// The weights of norms are stored as their difference from 1.
constexpr HfTensor kNemotron[] = {
    {"token_embd", "model.embed_tokens"},
    {"output.weight", "lm_head.weight"},
    {"output_norm.weight", "model.norm.weight", HfRows::PlusOne},
    {"output_norm.bias", "model.norm.bias"},
    {"blk.#.attn_norm.weight", "model.layers.#.input_layernorm.weight", HfRows::PlusOne},
    {"blk.#.attn_norm.bias", "model.layers.#.input_layernorm.bias"},
    {"blk.#.ffn_norm.weight", "model.layers.#.post_attention_layernorm.weight", HfRows::PlusOne},
    {"blk.#.ffn_norm.bias", "model.layers.#.post_attention_layernorm.bias"}};
constexpr HfTensor kStableLmHeads[] = {
    {"blk.#.attn_q_norm", "model.layers.#.self_attn.q_layernorm.norms.%"},
    {"blk.#.attn_k_norm", "model.layers.#.self_attn.k_layernorm.norms.%"}};
constexpr HfTensor kStarcoderMlp[] = {{"blk.#.ffn_up", "model.layers.#.mlp.c_fc"},
                                      {"blk.#.ffn_down", "model.layers.#.mlp.c_proj"}};
constexpr HfTensor kPhiAttention[] = {{"blk.#.attn_qkv", "model.layers.#.self_attn.qkv_proj"},
                                      {"blk.#.attn_output", "model.layers.#.self_attn.o_proj"}};
constexpr HfTensor kOutputBias[] = {{"output.bias", "lm_head.bias"}};
// Gates and ups of an expert alternate: in columns as floats, in rows as MXFP4.
constexpr HfTensor kGptOss[] = {
    {"blk.#.attn_norm", "model.layers.#.input_layernorm"},
    {"blk.#.post_attention_norm", "model.layers.#.post_attention_layernorm"},
    {"blk.#.attn_sinks.weight", "model.layers.#.self_attn.sinks"},
    {"blk.#.ffn_gate_inp", "model.layers.#.mlp.router"},
    {"blk.#.ffn_gate_exps.weight", "model.layers.#.mlp.experts.gate_up_proj_blocks",
     HfRows::EvenRows},
    {"blk.#.ffn_up_exps.weight", "model.layers.#.mlp.experts.gate_up_proj_blocks", HfRows::OddRows},
    {"blk.#.ffn_down_exps.weight", "model.layers.#.mlp.experts.down_proj_blocks"},
    {"blk.#.ffn_gate_exps.weight", "model.layers.#.mlp.experts.gate_up_proj", HfRows::EvenColumns},
    {"blk.#.ffn_up_exps.weight", "model.layers.#.mlp.experts.gate_up_proj", HfRows::OddColumns},
    {"blk.#.ffn_down_exps.weight", "model.layers.#.mlp.experts.down_proj", HfRows::Columns},
    {"blk.#.ffn_gate_exps.bias", "model.layers.#.mlp.experts.gate_up_proj_bias", HfRows::EvenRows},
    {"blk.#.ffn_up_exps.bias", "model.layers.#.mlp.experts.gate_up_proj_bias", HfRows::OddRows},
    {"blk.#.ffn_down_exps.bias", "model.layers.#.mlp.experts.down_proj_bias"}};
constexpr HfTensor kLlama4[] = {
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

constexpr std::string_view kGgufWindow = "attention.sliding_window", kWindow = "sliding_window";
constexpr std::string_view kQkNorm = "blk.0.attn_q_norm.weight";

// Files of the 32B model may lack the key. null means no windows; then RoPE rotates all layers.
HfRule exaone4_windows() {
  const auto usual = [](const HfConfig& config) { return config.n_layers == 64 ? 4096U : 0U; };
  const HfRule rule = windows(4, Amount(usual));
  return {[=](HfImport& k) {
            rule.to_gguf(k);
            if (usual(k.config) != 0 && k.is_null(kWindow)) k.set(kGgufWindow, 0U);
          },
          [=](HfExport& k) {
            rule.to_json(k);
            if (k.keys.get_or(kGgufWindow, usual(k.config), 0, limits::kContext) == 0)
              k.set(kWindow, nullptr);
          }};
}

// All layers have the window or none. Other readers refuse GGUF files without the key or take them
// for Phi 3; 0 means none.
HfRule phi_window(Amount fallback) {
  return {integer_or(kGgufWindow, kWindow, 0, limits::kContext).to_gguf, [=](HfExport& k) {
            const auto usual = static_cast<std::uint32_t>(fallback(k.config));
            const std::uint32_t window = k.keys.get_or(kGgufWindow, usual, 0, limits::kContext);
            window == 0 ? k.set(kWindow, nullptr) : k.set(kWindow, window);
          }};
}

// Phi 3 mini and medium with contexts of 4k: files older than August 2024 lack the window of 2047.
double usual_phi3_window(const HfConfig& config) {
  return (config.n_layers == 32 || config.n_layers == 40) && config.n_ctx == 4096 ? 2047 : 0;
}

HfRule no_clamp() {
  return {[](HfImport& k) {
            if (k.has("clip_qkv")) k.fail("clip_qkv", "not supported here: expected null");
          },
          nullptr};
}

// "max_position_embeddings" is less than the training context.
HfRule command_r_context() {
  constexpr std::string_view kContext = "model_max_length";
  return {if_present(kContext, integer("context_length", kContext, limits::kContext)).to_gguf,
          write_presence("use_qk_norm", kQkNorm).to_json};
}

HfRule starcoder_flags() {
  return {[](HfImport& k) {
            if (k.has(kWindow) && k.uint(kWindow, 0, limits::kContext) < k.config.n_ctx)
              k.config.warnings.push_back(
                  "sliding_window is ignored: every position attends to all earlier ones");
          },
          write_presence("use_bias", "blk.0.ffn_up.bias").to_json};
}

HfRule stablelm_flags() {
  return {nullptr, [](HfExport& k) {
            k.set("use_qkv_bias", k.config.attention_bias);
            k.set("qk_layernorm", k.has_tensor(kQkNorm));
            k.set("use_parallel_residual", !k.has_tensor("blk.0.ffn_norm.weight"));
          }};
}

// Older directories call the number of active experts "experts_per_token".
HfRule gpt_oss_experts() {
  constexpr std::string_view kCount = "num_local_experts", kWidth = "intermediate_size";
  const HfRule rule = experts(kCount, "num_experts_per_tok", kWidth),
               older = experts(kCount, "experts_per_token", kWidth);
  return {[=](HfImport& k) { (k.has("num_experts_per_tok") ? rule : older).to_gguf(k); },
          rule.to_json};
}

// Models with 128 experts do not norm queries and keys, as build_llama4() has it.
HfRule llama4_qk_norm() {
  constexpr std::string_view kKey = "use_qk_norm";
  return {[=](HfImport& k) {
            only(kKey, k.uint("num_local_experts", 0, limits::kExperts) != 128, true).to_gguf(k);
          },
          [=](HfExport& k) {
            k.set(kKey, k.keys.get_or("expert_count", 0, 0, limits::kExperts) != 128);
          }};
}

}  // namespace

std::vector<HfClass> other_blocks() {
  const auto post_norms = join({kEnds, kPostNorms, kAttention, kQkNorms, kMlp});
  constexpr double kChunk = 8192;
  return {
      // Norms behind the branches.
      {.name = "Exaone4ForCausalLM",
       .arch = "exaone4",
       .model_type = "exaone4",
       .default_eps = 1e-5F,
       .tensors = post_norms,
       .rules = {drop_prediction(), exaone4_windows()}},
      {.name = "Olmo2ForCausalLM",
       .arch = "olmo2",
       .model_type = "olmo2",
       .default_eps = 1e-5F,
       .tensors = post_norms},
      {.name = "Olmo3ForCausalLM",
       .arch = "olmo2",
       .model_type = "olmo3",
       .default_eps = 1e-5F,
       .tensors = post_norms,
       .rules = {windows_if_any(4, false)}},
      // Norms without weights.
      {.name = "OlmoForCausalLM",
       .arch = "olmo",
       .model_type = "olmo",
       .eps = "layer_norm_eps",
       .default_eps = 1e-5F,
       .tensors = join({kEnds, kPairedAttention, kMlp}),
       .rules = {if_present("clip_qkv", cap("attention.clamp_kqv", "clip_qkv", 0))}},
      {.name = "OlmoeForCausalLM",
       .arch = "olmoe",
       .model_type = "olmoe",
       .default_eps = 1e-5F,
       .tensors = join({kEnds, kNorms, kAttention, kQkNorms, kExperts}),
       .rules = {experts("num_experts", "num_experts_per_tok", "intermediate_size"),
                 only("norm_topk_prob", false), no_clamp()}},
      {.name = "Phi3ForCausalLM",
       .arch = "phi3",
       .model_type = "phi3",
       .partial_rotation = true,
       .longrope = HfLongRope::Factors,
       .default_eps = 1e-5F,
       .tensors = join({kEnds, kNorms, kPhiAttention, kFusedMlp}),
       .rules = {phi_window(Amount(usual_phi3_window))}},
      {.name = "PhiMoEForCausalLM",
       .arch = "phimoe",
       .model_type = "phimoe",
       .longrope = HfLongRope::Magnitudes,
       .default_eps = 1e-5F,
       .tensors = join({kEnds, kOutputBias, kNorms, kAttention, kMixtralExperts}),
       .rules = {phi_window(0), write_presence("lm_head_bias", "output.bias"),
                 experts("num_local_experts", "num_experts_per_tok", "intermediate_size")}},
      // Attention and feed-forward part both read the same norm.
      {.name = "CohereForCausalLM",
       .arch = "command-r",
       .model_type = "cohere",
       .tied = true,
       .eps = "layer_norm_eps",
       .default_eps = 1e-5F,
       .tensors = join({kEnds, kOneNorm, kAttention, kQkNorms, kMlp}),
       .rules = {number("logit_scale", "logit_scale", 1), command_r_context()}},
      {.name = "Cohere2ForCausalLM",
       .arch = "cohere2",
       .model_type = "cohere2",
       .tied = true,
       .eps = "layer_norm_eps",
       .default_eps = 1e-5F,
       .tensors = join({kEnds, kOneNorm, kAttention, kMlp}),
       .rules = {number("logit_scale", "logit_scale", 1), windows(4)}},
      // LayerNorm.
      {.name = "Starcoder2ForCausalLM",
       .arch = "starcoder2",
       .model_type = "starcoder2",
       .tied = true,
       .mlp_bias = true,
       .eps = "norm_epsilon",
       .default_eps = 1e-5F,
       .activations = "gelu_pytorch_tanh",
       .tensors = join({kEnds, kNorms, kAttention, kStarcoderMlp}),
       .rules = {starcoder_flags()}},
      {.name = "StableLmForCausalLM",
       .arch = "stablelm",
       .model_type = "stablelm",
       .partial_rotation = true,
       .default_part = 0.25,
       .eps = "layer_norm_eps",
       .default_eps = 1e-5F,
       .tensors = join({kEnds, kNorms, kAttention, kStableLmHeads, kMlp}),
       .rules = {stablelm_flags()}},
      {.name = "NemotronForCausalLM",
       .arch = "nemotron",
       .model_type = "nemotron",
       .mlp_bias = true,
       .partial_rotation = true,
       .default_part = 0.5,
       .eps = "norm_eps",
       .default_eps = 1e-5F,
       .activations = "relu2",
       .tensors = join({kNemotron, kAttention, kMlp})},
      // xIELU has parameters in each layer.
      {.name = "ApertusForCausalLM",
       .arch = "apertus",
       .model_type = "apertus",
       .default_eps = 1e-5F,
       .activations = "xielu",
       .tensors = join({kEnds, kApertusNorms, kAttention, kQkNorms, kMlp}),
       .rules = {write_unscaled()},
       .numbers = {{"xielu.alpha_p", "model.layers.#.mlp.act_fn.alpha_p"},
                   {"xielu.alpha_n", "model.layers.#.mlp.act_fn.alpha_n"},
                   {"xielu.beta", "model.layers.#.mlp.act_fn.beta", 0.5F},
                   {"xielu.eps", "model.layers.#.mlp.act_fn.eps", -1e-6F}}},
      // Norms on both sides of each branch.
      {.name = "Glm4ForCausalLM",
       .arch = "glm4",
       .model_type = "glm4",
       .partial_rotation = true,
       .default_part = 0.5,
       .default_eps = 1e-5F,
       .tensors = join({kEnds, kGlm4Norms, kAttention, kFusedMlp}),
       .rules = {drop_prediction()}},
      // GGUF has no key for "truncate", but no model truncates.
      {.name = "GptOssForCausalLM",
       .arch = "gpt-oss",
       .model_type = "gpt_oss",
       .attention_bias = true,
       .default_eps = 1e-5F,
       .quantization = "mxfp4",
       .tensors = join({kEnds, kAttention, kGptOss}),
       .rules = {windows(2), only("swiglu_limit", 7.0), gpt_oss_experts(),
                 write_scaling("truncate", false), write_unscaled()}},
      // Three of four layers attend within chunks; the others have no RoPE.
      {.name = "Llama4ForCausalLM",
       .arch = "llama4",
       .model_type = "llama4_text",
       .default_eps = 1e-5F,
       .tensors = join({kEnds, kNorms, kAttention, kLlama4}),
       .rules = {unrotated(4), only("attention_chunk_size", kChunk), only("floor_scale", kChunk),
                 only("attn_scale", 0.1), only_on("attn_temperature_tuning"), llama4_qk_norm(),
                 integer("feed_forward_length", "intermediate_size_mlp", limits::kFeedForward),
                 experts("num_local_experts", "num_experts_per_tok", "intermediate_size"),
                 integer_or("interleave_moe_layer_step", "interleave_moe_layer_step", 1,
                            limits::kLayers)}},
  };
}

}  // namespace cria::hf
