// Qwen 2, InternLM 2, EXAONE, ERNIE 4.5, Seed-OSS: they differ from llama in the layout of rotated
// pairs, and in names.
#include "engine/architectures/families.h"
#include "engine/architectures/hf_keys.h"
#include "engine/architectures/model_builder.h"

namespace cria {

void build_plain(ModelBuilder& m) {
  m.embed();
  m.layers([&](std::uint32_t) {
    m.attention(m.norm("attn_norm"), {});
    m.feed_forward(m.norm("ffn_norm"), {});
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

void hf_qwen2(HfForms& forms) {
  forms.push_back({{.name = "Qwen2ForCausalLM", .model_type = "qwen2", .attention_bias = true},
                   join({kHfEnds, kHfNorms, kHfAttention, kHfMlp})});
}

// Queries, keys and values of a KV head stand together.
void hf_internlm2(HfForms& forms) {
  static constexpr HfTensor kTensors[] = {
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
  forms.push_back({{.name = "InternLM2ForCausalLM", .model_type = "internlm2"},
                   join({kTensors}),
                   [](HfKeys& k) { k.only("bias", false); }});
}

void hf_seed_oss(HfForms& forms) {
  static constexpr HfTensor kNorms[] = {
      {"blk.#.attn_norm", "model.layers.#.input_layernorm"},
      {"blk.#.post_attention_norm", "model.layers.#.post_attention_layernorm"}};
  forms.push_back({{.name = "SeedOssForCausalLM", .model_type = "seed_oss", .attention_bias = true},
                   join({kHfEnds, kNorms, kHfAttention, kHfMlp})});
}

}  // namespace cria
