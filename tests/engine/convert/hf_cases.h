// A small random model of every class, with the names of its tensors at Hugging Face
// (hf_cases.inc).
#pragma once

#include <algorithm>

#include "tests/engine/convert/hf_model.h"

namespace cria::test {

inline const std::string kEnds =
    "token_embd model.embed_tokens\noutput_norm model.norm\noutput lm_head\n";
inline const std::string kL = "model.layers.#.";
inline const std::string kNorms =
    "attn_norm " + kL + "input_layernorm\nffn_norm " + kL + "post_attention_layernorm\n";
inline const std::string kValues =
    "attn_v " + kL + "self_attn.v_proj\nattn_output " + kL + "self_attn.o_proj\n";
inline const std::string kAttention =
    "attn_q " + kL + "self_attn.q_proj\nattn_k " + kL + "self_attn.k_proj\n" + kValues;
inline const std::string kPaired =
    "attn_q pairs " + kL + "self_attn.q_proj\nattn_k pairs " + kL + "self_attn.k_proj\n" + kValues;
inline const std::string kQk =
    "attn_q_norm " + kL + "self_attn.q_norm\nattn_k_norm " + kL + "self_attn.k_norm\n";
inline const std::string kMlp = "ffn_gate " + kL + "mlp.gate_proj\nffn_up " + kL +
                                "mlp.up_proj\nffn_down " + kL + "mlp.down_proj\n";
inline const std::string kExpertNames = "ffn_gate_inp " + kL + "mlp.gate\nffn_gate_exps parts " +
                                        kL + "mlp.experts.%.gate_proj\nffn_up_exps parts " + kL +
                                        "mlp.experts.%.up_proj\nffn_down_exps parts " + kL +
                                        "mlp.experts.%.down_proj\n";
inline const std::string kShared =
    "exp_probs_b.bias " + kL + "mlp.gate.e_score_correction_bias\nffn_gate_shexp " + kL +
    "mlp.shared_experts.gate_proj\nffn_up_shexp " + kL +
    "mlp.shared_experts.up_proj\nffn_down_shexp " + kL + "mlp.shared_experts.down_proj\n";
inline const std::string kMixtral =
    "ffn_gate_inp " + kL + "block_sparse_moe.gate\nffn_gate_exps parts " + kL +
    "block_sparse_moe.experts.%.w1\nffn_down_exps parts " + kL +
    "block_sparse_moe.experts.%.w2\nffn_up_exps parts " + kL + "block_sparse_moe.experts.%.w3\n";
inline const std::string kGemmaEnds =
    "token_embd model.embed_tokens\noutput_norm minus1 model.norm\noutput lm_head\n";
inline const std::string kGemmaBoth =
    "attn_norm minus1 " + kL + "input_layernorm\npost_attention_norm minus1 " + kL +
    "post_attention_layernorm\nffn_norm minus1 " + kL +
    "pre_feedforward_layernorm\npost_ffw_norm minus1 " + kL + "post_feedforward_layernorm\n";
inline const std::string kGemma4 =
    "per_layer_token_embd model.embed_tokens_per_layer\nper_layer_model_proj "
    "model.per_layer_model_projection\n"
    "per_layer_proj_norm model.per_layer_projection_norm\nattn_norm " +
    kL + "input_layernorm\npost_attention_norm " + kL + "post_attention_layernorm\nffn_norm " + kL +
    "pre_feedforward_layernorm\npost_ffw_norm " + kL +
    "post_feedforward_layernorm\npost_ffw_norm_1 " + kL +
    "post_feedforward_layernorm_1\npre_ffw_norm_2 " + kL +
    "pre_feedforward_layernorm_2\npost_ffw_norm_2 " + kL +
    "post_feedforward_layernorm_2\nlayer_output_scale.weight " + kL + "layer_scalar\ninp_gate " +
    kL + "per_layer_input_gate\nproj " + kL + "per_layer_projection\npost_norm " + kL +
    "post_per_layer_input_norm\nffn_gate_inp.weight " + kL +
    "router.proj.weight\nffn_gate_inp.scale " + kL + "router.scale\nffn_gate_up_exps.weight " + kL +
    "experts.gate_up_proj\nffn_down_exps.weight " + kL + "experts.down_proj\nffn_down_exps.scale " +
    kL + "router.per_expert_scale\n";
inline const std::string kPostNorms = "post_attention_norm " + kL +
                                      "post_attention_layernorm\npost_ffw_norm " + kL +
                                      "post_feedforward_layernorm\n";

using TensorShapes = std::vector<std::pair<std::string, std::vector<std::uint64_t>>>;
using KeyValues = std::map<std::string, GgufData>;

inline KeyValues six_experts(KeyValues more = {}) {
  more["expert_count"] = 6U;
  more["expert_used_count"] = 2U;
  return more;
}
inline TensorShapes six(std::uint64_t width, TensorShapes more = {}) {
  more.push_back({"*.ffn_gate_inp.weight", {64, 6}});
  more.push_back({"*.ffn_down_exps.weight", {width, 64, 6}});
  return more;
}

inline const TensorShapes kQkvBiases = {
    {"*.attn_q.bias", {64}}, {"*.attn_k.bias", {32}}, {"*.attn_v.bias", {32}}};
inline const TensorShapes kSelection = {{"*.exp_probs_b.bias", {6}},
                                        {"*.ffn_gate_shexp.weight", {64, 64}},
                                        {"*.ffn_up_shexp.weight", {64, 64}},
                                        {"*.ffn_down_shexp.weight", {64, 64}}};

inline std::vector<HfCase> hf_cases() {
  const KeyValues window = {{"attention.sliding_window", 8U}};
  const KeyValues routed = six_experts({{"expert_gating_func", 2U},
                                        {"expert_weights_norm", true},
                                        {"expert_weights_scale", 1.5F},
                                        {"expert_group_count", 3U},
                                        {"expert_group_used_count", 2U}});
  const std::string routed_json =
      R"("n_routed_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "norm_topk_prob": true,
         "routed_scaling_factor": 1.5, "n_group": 3, "topk_group": 2, "n_shared_experts": 2, "first_k_dense_replace": 0)";
  const std::string experts_json =
      R"("num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 32)";
  const std::string gemma4_json =
      R"("rope_theta": null, "sliding_window": 8, "hidden_activation": "gelu_pytorch_tanh", "final_logit_softcapping": 30.0,
         "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"])";
  const KeyValues latent = {{"attention.kv_lora_rank", 32U},
                            {"attention.key_length", 24U},
                            {"rope.dimension_count", 8U},
                            {"attention.head_count_kv", 4U}};
  const KeyValues yarn = {{"rope.scaling.type", std::string("yarn")},
                          {"rope.scaling.factor", 4.0F},
                          {"rope.scaling.original_context_length", 64U}};
  const auto both = [](KeyValues a, const KeyValues& b) {
    a.insert(b.begin(), b.end());
    return a;
  };
  const auto cls = [](const std::string& name, const std::string& more = "") {
    return "{\"architectures\": [\"" + name + "\"]" + (more.empty() ? "" : ", " + more) + "}";
  };
#include "tests/engine/convert/hf_cases.inc"
}

inline HfCase hf_case(std::string_view name) {
  const std::vector<HfCase> cases = hf_cases();
  return *std::ranges::find_if(cases, [&](const HfCase& one) { return one.gguf.name == name; });
}

}  // namespace cria::test
