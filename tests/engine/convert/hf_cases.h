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
inline const std::string kGemma3n =
    "per_layer_token_embd model.embed_tokens_per_layer\nper_layer_model_proj "
    "model.per_layer_model_projection\nper_layer_proj_norm "
    "model.per_layer_projection_norm\naltup_proj.weight parts "
    "model.altup_projections.%.weight\naltup_unembd_proj.weight parts "
    "model.altup_unembed_projections.%.weight\nattn_norm " +
    kL + "input_layernorm\npost_attention_norm " + kL + "post_attention_layernorm\nffn_norm " + kL +
    "pre_feedforward_layernorm\npost_ffw_norm " + kL + "post_feedforward_layernorm\ninp_gate " +
    kL + "per_layer_input_gate\nproj " + kL + "per_layer_projection\npost_norm " + kL +
    "post_per_layer_input_norm\nlaurel_l " + kL + "laurel.linear_left\nlaurel_r " + kL +
    "laurel.linear_right\nlaurel_post_norm " + kL + "laurel.post_laurel_norm\naltup_router " + kL +
    "altup.modality_router\naltup_router_norm " + kL + "altup.router_norm\naltup_predict_coef " +
    kL + "altup.prediction_coefs\naltup_correct_coef " + kL +
    "altup.correction_coefs\naltup_correct_scale.weight " + kL + "altup.correct_output_scale\n";
inline const std::string kPostNorms = "post_attention_norm " + kL +
                                      "post_attention_layernorm\npost_ffw_norm " + kL +
                                      "post_feedforward_layernorm\n";

inline const std::string kLfm2 =
    "token_embd model.embed_tokens\ntoken_embd_norm model.embedding_norm\noutput "
    "lm_head\nattn_norm " +
    kL + "operator_norm\nffn_norm " + kL + "ffn_norm\nattn_q " + kL + "self_attn.q_proj\nattn_k " +
    kL + "self_attn.k_proj\nattn_v " + kL + "self_attn.v_proj\nattn_output " + kL +
    "self_attn.out_proj\nattn_q_norm " + kL + "self_attn.q_layernorm\nattn_k_norm " + kL +
    "self_attn.k_layernorm\nshortconv.conv.weight taps " + kL +
    "conv.conv.weight\nshortconv.in_proj " + kL + "conv.in_proj\nshortconv.out_proj " + kL +
    "conv.out_proj\nffn_gate " + kL + "feed_forward.w1\nffn_up " + kL +
    "feed_forward.w3\nffn_down " + kL + "feed_forward.w2\n";
inline const std::string kQwenHybrid =
    "token_embd model.embed_tokens\noutput_norm minus1 model.norm\noutput lm_head\nattn_norm "
    "minus1 " +
    kL + "input_layernorm\npost_attention_norm minus1 " + kL +
    "post_attention_layernorm\nattn_q_norm minus1 " + kL + "self_attn.q_norm\nattn_k_norm minus1 " +
    kL + "self_attn.k_norm\nssm_norm " + kL + "linear_attn.norm\nffn_gate_inp_shexp row " + kL +
    "mlp.shared_expert_gate\nffn_gate_shexp " + kL + "mlp.shared_expert.gate_proj\nffn_up_shexp " +
    kL + "mlp.shared_expert.up_proj\nffn_down_shexp " + kL + "mlp.shared_expert.down_proj\n";
inline const std::string kQwen35 =
    "attn_qkv value_tail " + kL + "linear_attn.in_proj_qkv\nattn_gate value " + kL +
    "linear_attn.in_proj_z\nssm_beta value " + kL + "linear_attn.in_proj_b\nssm_alpha value " + kL +
    "linear_attn.in_proj_a\nssm_conv1d.weight value_taps " + kL +
    "linear_attn.conv1d.weight\nssm_dt.bias value " + kL +
    "linear_attn.dt_bias\nssm_a value_decay " + kL + "linear_attn.A_log\nssm_out value_column " +
    kL + "linear_attn.out_proj\n";
inline const std::string kMamba =
    "ssm_in " + kL + "mamba.in_proj\nssm_conv1d.weight taps " + kL +
    "mamba.conv1d.weight\nssm_conv1d.bias " + kL + "mamba.conv1d.bias\nssm_dt.bias " + kL +
    "mamba.dt_bias\nssm_a decay " + kL + "mamba.A_log\nssm_d flat " + kL +
    "mamba.D\nssm_norm.weight flat " + kL + "mamba.norm.weight\nssm_out " + kL + "mamba.out_proj\n";
inline const std::string kB = "backbone.layers.#.";
inline const std::string kNemotron =
    "token_embd backbone.embeddings\noutput_norm backbone.norm_f\noutput lm_head\nattn_norm " + kB +
    "norm\nattn_q " + kB + "mixer.q_proj\nattn_k " + kB + "mixer.k_proj\nattn_v " + kB +
    "mixer.v_proj\nattn_output " + kB + "mixer.o_proj\nssm_in " + kB +
    "mixer.in_proj\nssm_conv1d.weight taps " + kB + "mixer.conv1d.weight\nssm_dt.bias " + kB +
    "mixer.dt_bias\nssm_a decay " + kB + "mixer.A_log\nssm_d flat " + kB +
    "mixer.D\nssm_norm.weight flat " + kB + "mixer.norm.weight\nssm_out " + kB +
    "mixer.out_proj\nffn_up " + kB + "mixer.up_proj\nffn_down " + kB +
    "mixer.down_proj\nffn_gate_inp " + kB + "mixer.gate\nexp_probs_b.bias " + kB +
    "mixer.gate.e_score_correction_bias\nffn_up_exps parts " + kB +
    "mixer.experts.%.up_proj\nffn_down_exps parts " + kB +
    "mixer.experts.%.down_proj\nffn_latent_down " + kB + "mixer.fc1_latent_proj\nffn_latent_up " +
    kB + "mixer.fc2_latent_proj\nffn_up_shexp " + kB +
    "mixer.shared_experts.up_proj\nffn_down_shexp " + kB + "mixer.shared_experts.down_proj\n";

inline const std::string kMixers = "ssm_conv1d.bias " + kB + "mixer.conv1d.bias\nssm_x " + kB +
                                   "mixer.x_proj\nssm_dt " + kB + "mixer.dt_proj\n" + kNemotron;
inline const std::string kFalcon =
    "token_embd model.embed_tokens\noutput_norm model.final_layernorm\noutput lm_head\nattn_norm " +
    kL + "input_layernorm\nffn_norm " + kL + "pre_ff_layernorm.weight\nffn_gate " + kL +
    "feed_forward.gate_proj\nffn_up " + kL + "feed_forward.up_proj\nffn_down " + kL +
    "feed_forward.down_proj\n" + kAttention + kMamba;
inline const std::string kJamba =
    "token_embd model.embed_tokens\noutput_norm model.final_layernorm\noutput lm_head\nattn_norm " +
    kL + "input_layernorm\nffn_norm " + kL + "pre_ff_layernorm\nffn_gate " + kL +
    "feed_forward.gate_proj\nffn_up " + kL + "feed_forward.up_proj\nffn_down " + kL +
    "feed_forward.down_proj\nffn_gate_inp " + kL + "feed_forward.router\nffn_gate_exps parts " +
    kL + "feed_forward.experts.%.gate_proj\nffn_up_exps parts " + kL +
    "feed_forward.experts.%.up_proj\nffn_down_exps parts " + kL +
    "feed_forward.experts.%.down_proj\nssm_x " + kL + "mamba.x_proj\nssm_dt " + kL +
    "mamba.dt_proj\nssm_dt_norm " + kL + "mamba.dt_layernorm\nssm_b_norm " + kL +
    "mamba.b_layernorm\nssm_c_norm " + kL + "mamba.c_layernorm\n" + kAttention + kMamba;
inline const std::string kKimi =
    kEnds + kNorms + kAttention + kMlp + kMixtral + "attn_kv_a_mqa " + kL +
    "self_attn.kv_a_proj_with_mqa\nattn_kv_a_norm " + kL +
    "self_attn.kv_a_layernorm\nattn_k_b latent_keys " + kL +
    "self_attn.kv_b_proj\nattn_v_b latent_values " + kL +
    "self_attn.kv_b_proj\nssm_conv1d_q.weight " + kL +
    "self_attn.q_conv1d.weight\nssm_conv1d_k.weight " + kL +
    "self_attn.k_conv1d.weight\nssm_conv1d_v.weight " + kL +
    "self_attn.v_conv1d.weight\nssm_a head_decay " + kL + "self_attn.A_log\nssm_dt.bias " + kL +
    "self_attn.dt_bias\nssm_beta " + kL + "self_attn.b_proj\nssm_f_a " + kL +
    "self_attn.f_a_proj\nssm_f_b " + kL + "self_attn.f_b_proj\nssm_g_a " + kL +
    "self_attn.g_a_proj\nssm_g_b " + kL + "self_attn.g_b_proj\nssm_norm " + kL +
    "self_attn.o_norm\nexp_probs_b.bias " + kL +
    "block_sparse_moe.gate.e_score_correction_bias\nffn_gate_shexp " + kL +
    "block_sparse_moe.shared_experts.gate_proj\nffn_up_shexp " + kL +
    "block_sparse_moe.shared_experts.up_proj\nffn_down_shexp " + kL +
    "block_sparse_moe.shared_experts.down_proj\n";

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
  const KeyValues recurrent = {{"ssm.conv_kernel", 4U},
                               {"ssm.inner_size", 64U},
                               {"ssm.state_size", 16U},
                               {"ssm.time_step_rank", 4U},
                               {"ssm.group_count", 2U}};
  const KeyValues mixed = {
      {"attention.head_count_kv", GgufArray::of(std::vector<std::uint32_t>{0, 2, 0, 2})}};
  const auto both = [](KeyValues a, const KeyValues& b) {
    a.insert(b.begin(), b.end());
    return a;
  };
  const auto cls = [](const std::string& name, const std::string& more = "") {
    return "{\"architectures\": [\"" + name + "\"]" + (more.empty() ? "" : ", " + more) + "}";
  };
  const std::string linear_json =
      R"(, "linear_conv_kernel_dim": 4, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
         "linear_key_head_dim": 16, "linear_value_head_dim": 16, "shared_expert_intermediate_size": 32)";
  const std::string granite_json =
      R"("embedding_multiplier": 3.0, "residual_multiplier": 1.0, "attention_multiplier": 0.25, "logits_scaling": 1.0,
         "layer_types": ["mamba", "attention", "mamba", "attention"], "mamba_n_heads": 4, "mamba_d_head": "auto",
         "mamba_expand": 1, "mamba_n_groups": 2, "mamba_d_state": 16, "mamba_d_conv": 4, )";
  const std::string nemotron_json =
      R"("mamba_num_heads": 4, "mamba_head_dim": 16, "n_groups": 2, "ssm_state_size": 16, "conv_kernel": 4, )";
  const KeyValues no_attention = {
      {"attention.head_count", 0U}, {"attention.head_count_kv", 0U}, {"feed_forward_length", 0U}};
  const std::string mamba2_json =
      R"("num_heads": 4, "head_dim": 16, "n_groups": 2, "state_size": 16, "conv_kernel": 4)";
  const std::string mamba_json =
      R"("intermediate_size": 64, "state_size": 16, "conv_kernel": 4, "time_step_rank": 4)";
  const std::string falcon_json =
      R"("mamba_d_ssm": 64, "mamba_n_heads": 4, "mamba_d_head": 16, "mamba_n_groups": 2, "mamba_d_state": 16,
         "mamba_d_conv": 4, "mamba_rms_norm": true, "mamba_norm_before_gate": false)";
  const std::string jamba_json =
      R"("attn_layer_period": 2, "attn_layer_offset": 1, "mamba_expand": 1, "mamba_d_state": 16, "mamba_d_conv": 4,
         "mamba_dt_rank": 4, )";
  const std::string kimi_json =
      R"("num_experts": 6, "num_experts_per_token": 2, "moe_intermediate_size": 32, "num_shared_experts": 2,
         "moe_renormalize": true, "routed_scaling_factor": 1.5, "num_expert_group": 3, "topk_group": 2,
         "first_k_dense_replace": 1, "mla_use_nope": true, "num_key_value_heads": 4, "kv_lora_rank": 32,
         "qk_rope_head_dim": 8, "qk_nope_head_dim": 32, "v_head_dim": 16, "max_position_embeddings": null,
         "model_max_length": 256, "linear_attn_config": {"kda_layers": [1, 3], "full_attn_layers": [2, 4],
         "num_heads": 4, "head_dim": 16, "short_conv_kernel_size": 4})";
#include "tests/engine/convert/hf_cases.inc"
}

inline HfCase hf_case(std::string_view name) {
  const std::vector<HfCase> cases = hf_cases();
  return *std::ranges::find_if(cases, [&](const HfCase& one) { return one.gguf.name == name; });
}

}  // namespace cria::test
