// Llama, Mistral, Mixtral; Ministral 3, whose queries grow with the position.
#include "engine/architectures/families.h"
#include "engine/architectures/hf_keys.h"
#include "engine/architectures/model_builder.h"

namespace cria {
namespace {

void feed_forward_or_experts(ModelBuilder& m, const std::string& norm) {
  const ValueId g = m.norm(norm);
  m.has_experts() ? m.experts(g, {}) : m.feed_forward(g, {.biases = true});
}

}  // namespace

// With experts: Mixtral; with biases: Granite Code.
void build_llama(ModelBuilder& m) {
  m.embed();
  m.layers([&](std::uint32_t) {
    m.attention(m.norm("attn_norm"), {});
    feed_forward_or_experts(m, "ffn_norm");
  });
  m.output();
}

void build_mistral3(ModelBuilder& m) {
  AttentionBlock attention;
  attention.temperature = {m.keys.number_or("attention.temperature_scale", 0),
                           m.config.rope_orig_ctx, 0};
  m.embed();
  m.layers([&](std::uint32_t) {
    m.attention(m.norm("attn_norm"), attention);
    feed_forward_or_experts(m, "ffn_norm");
  });
  m.output();
}

// Within a model for pictures (LLaVA) only what differs from the usual is said.
void hf_llama(HfForms& forms) {
  const std::vector<HfTensor> tensors = join({kHfEnds, kHfNorms, kHfPairedAttention, kHfMlp});
  forms.push_back(
      {{.name = "LlamaForCausalLM",
        .model_type = "llama",
        .mlp_bias = true,
        .usual = R"({"vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008,
                                 "num_hidden_layers": 32, "num_attention_heads": 32,
                                 "max_position_embeddings": 2048})"},
       tensors});
  forms.push_back(
      {{.name = "MistralForCausalLM",
        .model_type = "mistral",
        .window_by_default = true,
        .usual = R"({"vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 14336,
                                 "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
                                 "max_position_embeddings": 131072, "sliding_window": 4096})"},
       tensors});
  forms.push_back({{.name = "MixtralForCausalLM", .model_type = "mixtral"},
                   join({kHfEnds, kHfNorms, kHfPairedAttention, kHfMixtralExperts}),
                   [](HfKeys& k) {
                     k.copy_experts("num_local_experts", "num_experts_per_tok",
                                    "intermediate_size");
                   }});
}

void hf_mistral3(HfForms& forms) {
  forms.push_back({{.name = "Ministral3ForCausalLM",
                    .model_type = "ministral3",
                    .mscale = true,
                    .usual_eps = 1e-5F},
                   join({kHfEnds, kHfNorms, kHfPairedAttention, kHfMlp}),
                   [](HfKeys& k) {
                     k.copy_mscale();
                     k.copy_rope_number("attention.temperature_scale", "llama_4_scaling_beta");
                     if (k.exporting()) k.say_if_unscaled();
                   }});
}

}  // namespace cria
