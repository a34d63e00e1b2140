// The classes of Hugging Face models by family, and the tensor names that many of them share.
#pragma once

#include <initializer_list>
#include <span>
#include <vector>

#include "engine/convert/hf_class.h"

namespace cria::hf {

std::vector<HfClass> llama_like();  ///< llama_like.cpp: pre-norm layers like Llama's
std::vector<HfClass> gemma();       ///< gemma.cpp
std::vector<HfClass> hybrid();  ///< hybrid.cpp: some layers are convolutions or linear attention
std::vector<HfClass> mamba1();  ///< mamba1.cpp: Mamba 1, Jamba
std::vector<HfClass> mamba2();  ///< mamba2.cpp: Mamba 2 in all or some layers
std::vector<HfClass> other_blocks();   ///< other_blocks.cpp: other norms, biases or layouts
std::vector<HfClass> encoders();       ///< encoders.cpp: BERT, XLM-RoBERTa, nomic-bert
std::vector<HfClass> deepseek_like();  ///< deepseek_like.cpp: its router of experts

/// Granite's factors of embeddings, branches, attention and logits (llama_like.cpp).
HfRule granite_factors();
/// Hybrid classes of Granite rotate only if their position embeddings are "rope" (llama_like.cpp).
HfRule granite_positions();

// hybrid.cpp: rules of layers of several kinds

inline constexpr std::string_view kKvHeads = "attention.head_count_kv";
/// "layer_types" has these two names. Recurrent layers have no KV heads in GGUF.
HfRule mixed_layers(std::string_view attention, std::string_view recurrent);
/// Returns the KV heads of all layers that have some. Throws Error if they differ.
std::uint32_t common_kv_heads(const HfExport& k, const std::vector<std::uint32_t>& heads);
/// True if any layer has the tensor: "ssm_conv1d.bias".
bool any_has(const HfExport& k, const std::string& tensor);
/// Sigmoid routers, for which the class has no key.
HfRule sigmoid_router();
/// The width of the shared expert.
HfRule shared_width(std::string_view key);
/// Concatenates lists of rules.
std::vector<HfRule> with(std::vector<HfRule> rules, std::vector<HfRule> more);

/// Says whether convolutions have biases, which the tensors decide (mamba1.cpp).
HfRule conv_bias(std::string_view key);
/// A class without attention (mamba1.cpp).
HfClass mamba_class(std::string_view name, std::string_view arch, std::string_view type, bool tied,
                    std::vector<HfTensor> tensors, std::vector<HfRule> rules);

/// Concatenates lists of names.
inline std::vector<HfTensor> join(std::initializer_list<std::span<const HfTensor>> lists) {
  std::vector<HfTensor> all;
  for (const std::span<const HfTensor> list : lists)
    all.insert(all.end(), list.begin(), list.end());
  return all;
}

inline constexpr HfTensor kEnds[] = {{"token_embd", "model.embed_tokens"},
                                     {"output_norm", "model.norm"},
                                     {"output.weight", "lm_head.weight"}};
inline constexpr HfTensor kNorms[] = {
    {"blk.#.attn_norm", "model.layers.#.input_layernorm"},
    {"blk.#.ffn_norm", "model.layers.#.post_attention_layernorm"}};
inline constexpr HfTensor kPostAttentionNorms[] = {
    {"blk.#.attn_norm", "model.layers.#.input_layernorm"},
    {"blk.#.post_attention_norm", "model.layers.#.post_attention_layernorm"}};
inline constexpr HfTensor kAttention[] = {{"blk.#.attn_q", "model.layers.#.self_attn.q_proj"},
                                          {"blk.#.attn_k", "model.layers.#.self_attn.k_proj"},
                                          {"blk.#.attn_v", "model.layers.#.self_attn.v_proj"},
                                          {"blk.#.attn_output", "model.layers.#.self_attn.o_proj"}};
inline constexpr HfTensor kPairedAttention[] = {
    {"blk.#.attn_q", "model.layers.#.self_attn.q_proj", HfRows::Pairs},
    {"blk.#.attn_k", "model.layers.#.self_attn.k_proj", HfRows::Pairs},
    {"blk.#.attn_v", "model.layers.#.self_attn.v_proj"},
    {"blk.#.attn_output", "model.layers.#.self_attn.o_proj"}};
inline constexpr HfTensor kQkNorms[] = {{"blk.#.attn_q_norm", "model.layers.#.self_attn.q_norm"},
                                        {"blk.#.attn_k_norm", "model.layers.#.self_attn.k_norm"}};
inline constexpr HfTensor kMlp[] = {{"blk.#.ffn_gate", "model.layers.#.mlp.gate_proj"},
                                    {"blk.#.ffn_up", "model.layers.#.mlp.up_proj"},
                                    {"blk.#.ffn_down", "model.layers.#.mlp.down_proj"}};
inline constexpr HfTensor kFusedMlp[] = {{"blk.#.ffn_up", "model.layers.#.mlp.gate_up_proj"},
                                         {"blk.#.ffn_down", "model.layers.#.mlp.down_proj"}};
// MLX stacks experts ("switch_mlp").
inline constexpr HfTensor kExperts[] = {
    {"blk.#.ffn_gate_inp", "model.layers.#.mlp.gate"},
    {"blk.#.ffn_gate_exps", "model.layers.#.mlp.experts.%.gate_proj"},
    {"blk.#.ffn_up_exps", "model.layers.#.mlp.experts.%.up_proj"},
    {"blk.#.ffn_down_exps", "model.layers.#.mlp.experts.%.down_proj"},
    {"blk.#.ffn_gate_exps.weight", "model.layers.#.mlp.switch_mlp.gate_proj.weight"},
    {"blk.#.ffn_up_exps.weight", "model.layers.#.mlp.switch_mlp.up_proj.weight"},
    {"blk.#.ffn_down_exps.weight", "model.layers.#.mlp.switch_mlp.down_proj.weight"}};
inline constexpr HfTensor kSharedExperts[] = {
    {"blk.#.exp_probs_b.bias", "model.layers.#.mlp.gate.e_score_correction_bias"},
    {"blk.#.ffn_gate_shexp", "model.layers.#.mlp.shared_experts.gate_proj"},
    {"blk.#.ffn_up_shexp", "model.layers.#.mlp.shared_experts.up_proj"},
    {"blk.#.ffn_down_shexp", "model.layers.#.mlp.shared_experts.down_proj"}};
inline constexpr HfTensor kMixtralExperts[] = {
    {"blk.#.ffn_gate_inp", "model.layers.#.block_sparse_moe.gate"},
    {"blk.#.ffn_gate_exps", "model.layers.#.block_sparse_moe.experts.%.w1"},
    {"blk.#.ffn_up_exps", "model.layers.#.block_sparse_moe.experts.%.w3"},
    {"blk.#.ffn_down_exps", "model.layers.#.block_sparse_moe.experts.%.w2"},
    {"blk.#.ffn_gate_exps.weight", "model.layers.#.block_sparse_moe.switch_mlp.gate_proj.weight"},
    {"blk.#.ffn_up_exps.weight", "model.layers.#.block_sparse_moe.switch_mlp.up_proj.weight"},
    {"blk.#.ffn_down_exps.weight", "model.layers.#.block_sparse_moe.switch_mlp.down_proj.weight"}};
inline constexpr HfTensor kLatent[] = {
    {"blk.#.attn_q", "model.layers.#.self_attn.q_proj"},
    {"blk.#.attn_q_a", "model.layers.#.self_attn.q_a_proj"},
    {"blk.#.attn_q_a_norm", "model.layers.#.self_attn.q_a_layernorm"},
    {"blk.#.attn_q_b", "model.layers.#.self_attn.q_b_proj"},
    {"blk.#.attn_kv_a_mqa", "model.layers.#.self_attn.kv_a_proj_with_mqa"},
    {"blk.#.attn_kv_a_norm", "model.layers.#.self_attn.kv_a_layernorm"},
    {"blk.#.attn_kv_b", "model.layers.#.self_attn.kv_b_proj"},
    {"blk.#.attn_k_b", "model.layers.#.self_attn.kv_b_proj", HfRows::LatentKeys},
    {"blk.#.attn_v_b", "model.layers.#.self_attn.kv_b_proj", HfRows::LatentValues},
    {"blk.#.attn_output", "model.layers.#.self_attn.o_proj"}};
// Jamba and Falcon H1.
inline constexpr HfTensor kJambaLayers[] = {
    {"token_embd", "model.embed_tokens"},
    {"output_norm", "model.final_layernorm"},
    {"output.weight", "lm_head.weight"},
    {"blk.#.attn_norm", "model.layers.#.input_layernorm"},
    {"blk.#.ffn_gate", "model.layers.#.feed_forward.gate_proj"},
    {"blk.#.ffn_up", "model.layers.#.feed_forward.up_proj"},
    {"blk.#.ffn_down", "model.layers.#.feed_forward.down_proj"}};
// Mamba 1 and 2 in some layers.
inline constexpr HfTensor kMambaLayers[] = {
    {"blk.#.ssm_in", "model.layers.#.mamba.in_proj"},
    {"blk.#.ssm_conv1d.weight", "model.layers.#.mamba.conv1d.weight", HfRows::Taps},
    {"blk.#.ssm_conv1d.bias", "model.layers.#.mamba.conv1d.bias"},
    {"blk.#.ssm_a", "model.layers.#.mamba.A_log", HfRows::Decays},
    {"blk.#.ssm_d", "model.layers.#.mamba.D", HfRows::Flat},
    {"blk.#.ssm_out", "model.layers.#.mamba.out_proj"}};
// Mamba 1 and 2, alone and in Nemotron-H.
inline constexpr HfTensor kMamba[] = {
    {"token_embd", "backbone.embeddings"},
    {"output_norm", "backbone.norm_f"},
    {"output.weight", "lm_head.weight"},
    {"blk.#.attn_norm", "backbone.layers.#.norm"},
    {"blk.#.ssm_in", "backbone.layers.#.mixer.in_proj"},
    {"blk.#.ssm_conv1d.weight", "backbone.layers.#.mixer.conv1d.weight", HfRows::Taps},
    {"blk.#.ssm_conv1d.bias", "backbone.layers.#.mixer.conv1d.bias"},
    {"blk.#.ssm_a", "backbone.layers.#.mixer.A_log", HfRows::Decays},
    {"blk.#.ssm_d", "backbone.layers.#.mixer.D", HfRows::Flat},
    {"blk.#.ssm_out", "backbone.layers.#.mixer.out_proj"}};
inline constexpr HfTensor kQwenShared[] = {
    {"blk.#.ffn_gate_inp_shexp", "model.layers.#.mlp.shared_expert_gate", HfRows::OneRow},
    {"blk.#.ffn_gate_shexp", "model.layers.#.mlp.shared_expert.gate_proj"},
    {"blk.#.ffn_up_shexp", "model.layers.#.mlp.shared_expert.up_proj"},
    {"blk.#.ffn_down_shexp", "model.layers.#.mlp.shared_expert.down_proj"}};
inline constexpr HfTensor kGraniteMlp[] = {
    {"blk.#.ffn_gate.weight", "model.layers.#.shared_mlp.input_linear.weight", HfRows::FirstHalf},
    {"blk.#.ffn_up.weight", "model.layers.#.shared_mlp.input_linear.weight", HfRows::SecondHalf},
    {"blk.#.ffn_down", "model.layers.#.shared_mlp.output_linear"}};
inline constexpr HfTensor kGraniteExperts[] = {
    {"blk.#.ffn_gate_inp", "model.layers.#.block_sparse_moe.router.layer"},
    {"blk.#.ffn_gate_exps.weight", "model.layers.#.block_sparse_moe.input_linear.weight",
     HfRows::FirstHalf},
    {"blk.#.ffn_up_exps.weight", "model.layers.#.block_sparse_moe.input_linear.weight",
     HfRows::SecondHalf},
    {"blk.#.ffn_down_exps", "model.layers.#.block_sparse_moe.output_linear"}};
inline constexpr HfTensor kGraniteShared[] = {
    {"blk.#.ffn_gate_shexp.weight", "model.layers.#.shared_mlp.input_linear.weight",
     HfRows::FirstHalf},
    {"blk.#.ffn_up_shexp.weight", "model.layers.#.shared_mlp.input_linear.weight",
     HfRows::SecondHalf},
    {"blk.#.ffn_down_shexp", "model.layers.#.shared_mlp.output_linear"}};

}  // namespace cria::hf
