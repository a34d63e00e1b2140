// How models of an architecture lie in Hugging Face's directories: names of classes, keys of
// config.json, names of tensors and how their rows stand. Each family's file says it for its own.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/hf/config.h"

namespace cria {

class HfKeys;

/// Which rows of the Hugging Face tensor become the GGUF tensor's.
enum class HfRows : std::uint8_t {
  Same,
  Pairs,    ///< of every head: rotated pairs (i, i + d/2) come to lie side by side
  PlusOne,  ///< the values plus 1
  OneRow,   ///< a vector that is a matrix of one row there
  // Of queries, keys and values in one tensor, those of a KV head together; queries and keys in
  // Pairs.
  GroupQueries,
  GroupKeys,
  GroupValues,
  // Export alone: every head's columns, then its rows, in one tensor.
  LatentKeys,
  LatentValues,
  FirstHalf,   ///< of every expert's rows
  SecondHalf,  ///< likewise
  EvenRows,    ///< likewise
  OddRows,     ///< likewise
  Columns,     ///< every expert's columns
  FirstColumns,
  SecondColumns,
  EvenColumns,
  OddColumns,
};

/// Of every expert's rows or columns this is one of two matrices.
constexpr bool is_half(HfRows rows) { return rows >= HfRows::FirstHalf && rows != HfRows::Columns; }
constexpr bool has_columns(HfRows rows) { return rows >= HfRows::Columns; }

/// One name in both files. "#" stands for the number of a layer, "%" for that of a part (an expert,
/// a head) which GGUF has stacked. Names without an ending stand for NAME.weight and, where it is
/// there, NAME.bias.
struct HfTensor {
  std::string_view gguf;       ///< the name there
  std::string_view hf;         ///< the name in the directory
  HfRows rows = HfRows::Same;  ///< how its rows become the other's
};

/// Numbers that are a key of the GGUF file, one per layer, and tensors of one value there.
struct HfNumber {
  std::string_view gguf;         ///< the key, in full
  std::string_view hf;           ///< the tensor, with "#" for the layer
  std::optional<float> usual{};  ///< where there is no such tensor
};

/// One class of models.
struct HfForm {
  HfClass model_class;  ///< its names, and what its common keys mean
  /// All that it may have; of two for one tensor the first that is there counts
  std::vector<HfTensor> tensors;
  void (*keys)(HfKeys& keys) = nullptr;  ///< what this class has beyond the common keys
  bool predicting_layers = false;        ///< layers behind the last are not used and left out
  std::string_view predicting = {};      ///< how names of tensors begin that are left out likewise
  std::vector<HfNumber> numbers = {};    ///< tensors that become keys
  std::vector<std::string_view> unused = {};  ///< ends of names of tensors that not all layers use
};
using HfForms = std::vector<HfForm>;

/// Of all architectures that have one, in the order of their table.
const HfForms& hf_forms();
/// Of the class's name ("LlamaForCausalLM"), or null.
const HfForm* find_hf_form(std::string_view class_name) noexcept;
/// Classes that have a text model beside others: "text_config" in their config.json says of which
/// class.
std::span<const std::string_view> hf_wrappers() noexcept;
/// Of the type ("gemma3_text"), or null.
const HfForm* find_hf_form_of_type(std::string_view model_type) noexcept;
/// Of the architecture's GGUF files, as in hf_forms().
std::vector<const HfForm*> hf_forms_of(std::string_view arch);
std::vector<const HfClass*> hf_classes();

/// The text with a number in the mark's place.
std::string with_number(std::string_view text, char mark, std::uint64_t number);
/// What is to be added to both names: nothing where they are whole.
std::span<const std::string_view> endings_of(const HfTensor& tensor);

/// One list of several.
std::vector<HfTensor> join(std::initializer_list<std::span<const HfTensor>> lists);

// What many have in common.
inline constexpr HfTensor kHfEnds[] = {{"token_embd", "model.embed_tokens"},
                                       {"output_norm", "model.norm"},
                                       {"output.weight", "lm_head.weight"}};
inline constexpr HfTensor kHfNorms[] = {
    {"blk.#.attn_norm", "model.layers.#.input_layernorm"},
    {"blk.#.ffn_norm", "model.layers.#.post_attention_layernorm"}};
inline constexpr HfTensor kHfAttention[] = {
    {"blk.#.attn_q", "model.layers.#.self_attn.q_proj"},
    {"blk.#.attn_k", "model.layers.#.self_attn.k_proj"},
    {"blk.#.attn_v", "model.layers.#.self_attn.v_proj"},
    {"blk.#.attn_output", "model.layers.#.self_attn.o_proj"}};
inline constexpr HfTensor kHfPairedAttention[] = {
    {"blk.#.attn_q", "model.layers.#.self_attn.q_proj", HfRows::Pairs},
    {"blk.#.attn_k", "model.layers.#.self_attn.k_proj", HfRows::Pairs},
    {"blk.#.attn_v", "model.layers.#.self_attn.v_proj"},
    {"blk.#.attn_output", "model.layers.#.self_attn.o_proj"}};
inline constexpr HfTensor kHfQkNorms[] = {{"blk.#.attn_q_norm", "model.layers.#.self_attn.q_norm"},
                                          {"blk.#.attn_k_norm", "model.layers.#.self_attn.k_norm"}};
inline constexpr HfTensor kHfMlp[] = {{"blk.#.ffn_gate", "model.layers.#.mlp.gate_proj"},
                                      {"blk.#.ffn_up", "model.layers.#.mlp.up_proj"},
                                      {"blk.#.ffn_down", "model.layers.#.mlp.down_proj"}};
inline constexpr HfTensor kHfFusedMlp[] = {{"blk.#.ffn_up", "model.layers.#.mlp.gate_up_proj"},
                                           {"blk.#.ffn_down", "model.layers.#.mlp.down_proj"}};
// MLX stacks experts ("switch_mlp").
inline constexpr HfTensor kHfExperts[] = {
    {"blk.#.ffn_gate_inp", "model.layers.#.mlp.gate"},
    {"blk.#.ffn_gate_exps", "model.layers.#.mlp.experts.%.gate_proj"},
    {"blk.#.ffn_up_exps", "model.layers.#.mlp.experts.%.up_proj"},
    {"blk.#.ffn_down_exps", "model.layers.#.mlp.experts.%.down_proj"},
    {"blk.#.ffn_gate_exps.weight", "model.layers.#.mlp.switch_mlp.gate_proj.weight"},
    {"blk.#.ffn_up_exps.weight", "model.layers.#.mlp.switch_mlp.up_proj.weight"},
    {"blk.#.ffn_down_exps.weight", "model.layers.#.mlp.switch_mlp.down_proj.weight"}};
inline constexpr HfTensor kHfSharedExperts[] = {
    {"blk.#.exp_probs_b.bias", "model.layers.#.mlp.gate.e_score_correction_bias"},
    {"blk.#.ffn_gate_shexp", "model.layers.#.mlp.shared_experts.gate_proj"},
    {"blk.#.ffn_up_shexp", "model.layers.#.mlp.shared_experts.up_proj"},
    {"blk.#.ffn_down_shexp", "model.layers.#.mlp.shared_experts.down_proj"}};
inline constexpr HfTensor kHfMixtralExperts[] = {
    {"blk.#.ffn_gate_inp", "model.layers.#.block_sparse_moe.gate"},
    {"blk.#.ffn_gate_exps", "model.layers.#.block_sparse_moe.experts.%.w1"},
    {"blk.#.ffn_up_exps", "model.layers.#.block_sparse_moe.experts.%.w3"},
    {"blk.#.ffn_down_exps", "model.layers.#.block_sparse_moe.experts.%.w2"},
    {"blk.#.ffn_gate_exps.weight", "model.layers.#.block_sparse_moe.switch_mlp.gate_proj.weight"},
    {"blk.#.ffn_up_exps.weight", "model.layers.#.block_sparse_moe.switch_mlp.up_proj.weight"},
    {"blk.#.ffn_down_exps.weight", "model.layers.#.block_sparse_moe.switch_mlp.down_proj.weight"}};

}  // namespace cria
