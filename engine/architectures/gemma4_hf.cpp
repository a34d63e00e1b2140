// How Gemma 4 lies in Hugging Face's directories. Weights of norms are kept as they are.
#include "engine/architectures/families.h"
#include "engine/architectures/gemma.h"

namespace cria {
namespace {

constexpr std::uint32_t kPeriod = 6;  // the last of so many layers has no window

constexpr HfTensor kTensors[] = {
    {"per_layer_token_embd", "model.embed_tokens_per_layer"},
    {"per_layer_model_proj", "model.per_layer_model_projection"},
    {"per_layer_proj_norm", "model.per_layer_projection_norm"},
    {"blk.#.attn_norm", "model.layers.#.input_layernorm"},
    {"blk.#.post_attention_norm", "model.layers.#.post_attention_layernorm"},
    {"blk.#.ffn_norm", "model.layers.#.pre_feedforward_layernorm"},
    {"blk.#.post_ffw_norm", "model.layers.#.post_feedforward_layernorm"},
    {"blk.#.post_ffw_norm_1", "model.layers.#.post_feedforward_layernorm_1"},
    {"blk.#.pre_ffw_norm_2", "model.layers.#.pre_feedforward_layernorm_2"},
    {"blk.#.post_ffw_norm_2", "model.layers.#.post_feedforward_layernorm_2"},
    {"blk.#.layer_output_scale.weight", "model.layers.#.layer_scalar"},
    {"blk.#.inp_gate", "model.layers.#.per_layer_input_gate"},
    {"blk.#.proj", "model.layers.#.per_layer_projection"},
    {"blk.#.post_norm", "model.layers.#.post_per_layer_input_norm"},
    {"blk.#.ffn_gate_inp", "model.layers.#.router.proj"},
    {"blk.#.ffn_gate_inp.scale", "model.layers.#.router.scale"},
    {"blk.#.ffn_gate_up_exps.weight", "model.layers.#.experts.gate_up_proj"},
    {"blk.#.ffn_down_exps.weight", "model.layers.#.experts.down_proj"},
    {"blk.#.ffn_down_exps.scale", "model.layers.#.router.per_expert_scale"}};

void copy_experts(HfKeys& k) {
  constexpr std::string_view kKey = "enable_moe_block";
  const bool there = k.exporting() ? k.gguf().get_or("expert_count", 0, 0, limits::kExperts) != 0
                                   : k.flag_or(kKey, false);
  if (k.exporting()) k.say(kKey, there);
  if (there) k.copy_experts("num_experts", "top_k_experts", "moe_intermediate_size");
}

HfClass gemma4_class() {
  HfClass out = gemma_class("Gemma4ForCausalLM", "gemma4_text");
  out.head_dim = "global_head_dim";
  out.usual =
      R"({"vocab_size": 262144, "head_dim": 256, "global_head_dim": 512, "sliding_window": 512})";
  out.ropes_by_type = out.proportional = out.by_layer = out.listed_merges = true;
  return out;
}

}  // namespace

void hf_gemma4(HfForms& forms) {
  HfForm form{gemma4_class(), join({kHfEnds, kTensors, kHfAttention, kHfQkNorms, kHfMlp}),
              [](HfKeys& k) {
                k.copy_windows(kPeriod, 0, true);
                k.copy_windowed_head_size();
                k.copy_kv_heads_of_kinds(kPeriod);
                k.copy_shared_layers();
                k.copy_uint_or("embedding_length_per_layer_input", "hidden_size_per_layer_input", 0,
                               limits::kEmbedding);
                copy_experts(k);
                k.copy_ropes_of_kinds(1e6F, 10000);
                k.copy_cap("final_logit_softcapping", "final_logit_softcapping", 30);
              }};
  form.unused = {".self_attn.k_proj.weight", ".self_attn.v_proj.weight",
                 ".self_attn.k_norm.weight"};
  forms.push_back(std::move(form));
}

}  // namespace cria
