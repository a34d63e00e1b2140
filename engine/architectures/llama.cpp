// Llama, and those that differ from it in a step or in the layout of rotated pairs only.
#include "engine/architectures/families.h"
#include "engine/architectures/hf_keys.h"
#include "engine/architectures/model_builder.h"

namespace cria {
namespace {

void feed_forward_or_experts(ModelBuilder& m, const std::string& norm) {
  const ValueId g = m.norm(norm);
  m.has_experts() ? m.experts(g, {}) : m.feed_forward(g, {});
}

}  // namespace

// With experts: Mixtral.
void build_llama(ModelBuilder& m) {
  m.embed();
  m.layers([&](std::uint32_t) {
    m.attention(m.norm("attn_norm"), {});
    feed_forward_or_experts(m, "ffn_norm");
  });
  m.output();
}

// Qwen 2, InternLM 2, EXAONE, ERNIE 4.5
void build_plain(ModelBuilder& m) {
  m.embed();
  m.layers([&](std::uint32_t) {
    m.attention(m.norm("attn_norm"), {});
    m.feed_forward(m.norm("ffn_norm"), {});
  });
  m.output();
}

// Queries grow with the position.
void build_mistral3(ModelBuilder& m) {
  Attention attention;
  attention.temperature = {m.keys.number_or("attention.temperature_scale", 0), m.config.rope_orig_ctx, 0};
  m.embed();
  m.layers([&](std::uint32_t) {
    m.attention(m.norm("attn_norm"), attention);
    feed_forward_or_experts(m, "ffn_norm");
  });
  m.output();
}

// Every fourth layer knows no positions.
void build_smollm3(ModelBuilder& m) {
  m.embed();
  m.layers([&](std::uint32_t i) {
    m.attention(m.norm("attn_norm"), {.rotated = (i + 1) % 4 != 0});
    m.feed_forward(m.norm("ffn_norm"), {});
  });
  m.output();
}

// The square of a ReLU, no gate.
void build_arcee(ModelBuilder& m) {
  m.embed();
  m.layers([&](std::uint32_t) {
    m.attention(m.norm("attn_norm"), {});
    m.feed_forward(m.norm("ffn_norm"), {.activation = {ActivationKind::ReluSquared}, .gated = false});
  });
  m.output();
}

void build_seed_oss(ModelBuilder& m) {
  m.embed();
  m.layers([&](std::uint32_t) {
    m.attention(m.norm("attn_norm"), {});
    m.feed_forward(m.norm("post_attention_norm"), {});
  });
  m.output();
}

void hf_llama(HfForms& forms) {
  const std::vector<HfTensor> tensors = join({kHfEnds, kHfNorms, kHfPairedAttention, kHfMlp});
  forms.push_back({{.name = "LlamaForCausalLM", .model_type = "llama", .exported = true}, tensors});
  forms.push_back(
      {{.name = "MistralForCausalLM", .model_type = "mistral", .window_by_default = true, .exported = true},
       tensors});
  forms.push_back(
      {{.name = "MixtralForCausalLM", .model_type = "mixtral"},
       join({kHfEnds, kHfNorms, kHfPairedAttention, kHfMixtralExperts}),
       [](HfKeys& k) { k.experts("num_local_experts", "num_experts_per_tok", "intermediate_size"); }});
}

void hf_qwen2(HfForms& forms) {
  forms.push_back(
      {{.name = "Qwen2ForCausalLM", .model_type = "qwen2", .attention_bias = true, .exported = true},
       join({kHfEnds, kHfNorms, kHfAttention, kHfMlp})});
}

void hf_exaone(HfForms& forms) {
  static constexpr HfTensor kTensors[] = {{"token_embd", "transformer.wte"},
                                          {"output_norm", "transformer.ln_f"},
                                          {"output", "lm_head"},
                                          {"blk.#.attn_norm", "transformer.h.#.ln_1"},
                                          {"blk.#.attn_q", "transformer.h.#.attn.attention.q_proj"},
                                          {"blk.#.attn_k", "transformer.h.#.attn.attention.k_proj"},
                                          {"blk.#.attn_v", "transformer.h.#.attn.attention.v_proj"},
                                          {"blk.#.attn_output", "transformer.h.#.attn.attention.out_proj"},
                                          {"blk.#.ffn_norm", "transformer.h.#.ln_2"},
                                          {"blk.#.ffn_gate", "transformer.h.#.mlp.c_fc_0"},
                                          {"blk.#.ffn_up", "transformer.h.#.mlp.c_fc_1"},
                                          {"blk.#.ffn_down", "transformer.h.#.mlp.c_proj"}};
  forms.push_back(
      {{.name = "ExaoneForCausalLM", .model_type = "exaone", .eps = "layer_norm_epsilon", .usual_eps = 1e-5F},
       join({kTensors})});
}

void hf_smollm3(HfForms& forms) {
  forms.push_back({{.name = "SmolLM3ForCausalLM", .model_type = "smollm3", .tied = true},
                   join({kHfEnds, kHfNorms, kHfPairedAttention, kHfMlp}),
                   [](HfKeys& k) {
                     const std::vector<std::uint32_t> rotated = k.list("no_rope_layers");
                     for (std::uint32_t i = 0; i < rotated.size(); ++i)
                       if ((rotated[i] != 0) != ((i + 1) % 4 != 0))
                         k.fail("no_rope_layers", "expected a 0 for every fourth layer alone");
                   }});
}

void hf_arcee(HfForms& forms) {
  forms.push_back(
      {{.name = "ArceeForCausalLM", .model_type = "arcee", .usual_eps = 1e-5F, .activations = "relu2"},
       join({kHfEnds, kHfNorms, kHfPairedAttention, kHfMlp})});
}

void hf_seed_oss(HfForms& forms) {
  static constexpr HfTensor kNorms[] = {
      {"blk.#.attn_norm", "model.layers.#.input_layernorm"},
      {"blk.#.post_attention_norm", "model.layers.#.post_attention_layernorm"}};
  forms.push_back({{.name = "SeedOssForCausalLM", .model_type = "seed_oss", .attention_bias = true},
                   join({kHfEnds, kNorms, kHfAttention, kHfMlp})});
}

}  // namespace cria
