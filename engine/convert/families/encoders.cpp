// BERT, XLM-RoBERTa and nomic-bert, alone or with a classifier.
#include "engine/convert/families/families.h"
#include "engine/convert/hf_rules.h"

namespace cria::hf {
namespace {

// Checkpoints with a head have a prefix, others have none.
#define CRIA_BERT_TENSORS(prefix)                                                      \
  {"token_embd", prefix "embeddings.word_embeddings"},                                 \
      {"token_types", prefix "embeddings.token_type_embeddings"},                      \
      {"token_embd_norm", prefix "embeddings.LayerNorm"},                              \
      {"blk.#.attn_q", prefix "encoder.layer.#.attention.self.query"},                 \
      {"blk.#.attn_k", prefix "encoder.layer.#.attention.self.key"},                   \
      {"blk.#.attn_v", prefix "encoder.layer.#.attention.self.value"},                 \
      {"blk.#.attn_output", prefix "encoder.layer.#.attention.output.dense"},          \
      {"blk.#.attn_output_norm", prefix "encoder.layer.#.attention.output.LayerNorm"}, \
      {"blk.#.ffn_up", prefix "encoder.layer.#.intermediate.dense"},                   \
      {"blk.#.ffn_down", prefix "encoder.layer.#.output.dense"}, {                     \
    "blk.#.layer_output_norm", prefix "encoder.layer.#.output.LayerNorm"               \
  }
constexpr HfTensor kPlain[] = {CRIA_BERT_TENSORS("")};
constexpr HfTensor kBert[] = {CRIA_BERT_TENSORS("bert.")};
constexpr HfTensor kRoberta[] = {CRIA_BERT_TENSORS("roberta.")};
#undef CRIA_BERT_TENSORS

constexpr HfTensor kBertPositions[] = {{"position_embd", "embeddings.position_embeddings"},
                                       {"position_embd", "bert.embeddings.position_embeddings"}};
constexpr HfTensor kRobertaPositions[] = {
    {"position_embd", "embeddings.position_embeddings", HfRows::BehindTwo},
    {"position_embd", "roberta.embeddings.position_embeddings", HfRows::BehindTwo}};
constexpr HfTensor kBertHead[] = {{"cls", "bert.pooler.dense"}, {"cls.output", "classifier"}};
constexpr HfTensor kRobertaHead[] = {{"cls", "classifier.dense"},
                                     {"cls.output", "classifier.out_proj"}};
constexpr HfTensor kNomic[] = {{"token_embd", "embeddings.word_embeddings"},
                               {"token_types", "embeddings.token_type_embeddings"},
                               {"token_embd_norm", "emb_ln"},
                               {"blk.#.attn_qkv", "encoder.layers.#.attn.Wqkv"},
                               {"blk.#.attn_output", "encoder.layers.#.attn.out_proj"},
                               {"blk.#.attn_output_norm", "encoder.layers.#.norm1"},
                               {"blk.#.ffn_up", "encoder.layers.#.mlp.fc11"},
                               {"blk.#.ffn_gate", "encoder.layers.#.mlp.fc12"},
                               {"blk.#.ffn_down", "encoder.layers.#.mlp.fc2"},
                               {"blk.#.layer_output_norm", "encoder.layers.#.norm2"}};

constexpr HfTensor kNomicExperts[] = {
    {"blk.#.ffn_up", "encoder.layers.#.mlp.fc1"},
    {"blk.#.ffn_gate_inp", "encoder.layers.#.mlp.router.layer"},
    {"blk.#.ffn_up_exps.weight", "encoder.layers.#.mlp.experts.mlp.w1"},
    {"blk.#.ffn_down_exps.weight", "encoder.layers.#.mlp.experts.mlp.w2", HfRows::Columns},
    {"blk.#.ffn_exps_bias.weight", "encoder.layers.#.mlp.experts.bias"}};

HfRule to_gguf(std::function<void(HfImport&)> rule) { return {std::move(rule), nullptr}; }

HfRule encoder() {
  return to_gguf([](HfImport& k) { k.set("attention.causal", false); });
}

// The first two rows of the table belong to padding: positions begin at 2.
HfRule positions_behind_two() {
  return to_gguf([](HfImport& k) {
    if (k.uint_or("pad_token_id", 1, limits::kVocabulary) != 1)
      k.fail("pad_token_id", "positions begin behind it: expected 1");
    if (k.config.n_ctx < 3) k.fail("max_position_embeddings", "expected 3 or more");
    k.config.n_ctx -= 2;
    k.set("context_length", k.config.n_ctx);
  });
}

// Scores; several labels are named.
HfRule classifier() {
  return to_gguf([](HfImport& k) {
    k.set("pooling_type", 4U);
    const SortedJson* const names = k.find("id2label");
    if (names == nullptr || !names->is_object() || names->size() < 2) return;
    std::vector<std::string> labels(names->size());
    for (std::size_t i = 0; i < labels.size(); ++i) {
      const auto found = names->find(std::to_string(i));
      if (found == names->end() || !found->is_string())
        k.fail("id2label", "expected a name for each number from 0");
      labels[i] = found->get<std::string>();
    }
    k.set("classifier.output_labels", GgufArray::of(labels));
  });
}

// Experts of every second layer. Each of their two matrices has the rows of all.
HfRule nomic_experts() {
  const HfRule routed = experts("num_experts", "moe_top_k", "intermediate_size");
  return to_gguf([=](HfImport& k) {
    routed.to_gguf(k);
    k.config.joined_experts = k.uint("num_experts", 1, limits::kExperts);
    k.set("moe_every_n_layers", k.uint_or("moe_every_n_layers", 0, limits::kLayers));
    only("moe_normalize_expert_weights", false).to_gguf(k);
  });
}

// only_with: as in HfClass.
HfClass nomic_class(std::string_view arch, std::string_view activation,
                    std::vector<HfTensor> tensors, std::vector<HfRule> rules,
                    std::string_view only_with = "") {
  rules.push_back(encoder());
  for (const char* key : {"prenorm", "use_rms_norm", "rotary_emb_interleaved"})
    rules.push_back({only(key, false).to_gguf, nullptr});
  rules.push_back({only("rotary_emb_fraction", 1.0).to_gguf, nullptr});
  return {.name = "NomicBertModel",
          .arch = arch,
          .model_type = "nomic_bert",
          .tied = true,
          .eps = "layer_norm_epsilon",
          .default_eps = 1e-12F,
          .activations = activation,
          .tensors = std::move(tensors),
          .rules = std::move(rules),
          .unused = {"position_ids"},
          .only_with = only_with,
          .aliases = {{"n_embd", "hidden_size"},
                      {"n_layer", "num_hidden_layers"},
                      {"n_head", "num_attention_heads"},
                      {"n_inner", "intermediate_size"},
                      {"max_trained_positions", "max_position_embeddings"},
                      {"n_positions", "max_position_embeddings"},
                      {"rotary_emb_base", "rope_theta"}}};
}

HfClass bert_class(std::string_view name, std::string_view model_type,
                   std::vector<HfTensor> tensors, std::vector<HfRule> rules) {
  rules.push_back(encoder());
  rules.push_back({only_text("position_embedding_type", "absolute").to_gguf, nullptr});
  return {.name = name,
          .arch = "bert",
          .model_type = model_type,
          .attention_bias = true,
          .tied = true,
          .eps = "layer_norm_eps",
          .default_eps = 1e-12F,
          .activations = "gelu",
          .tensors = std::move(tensors),
          .rules = std::move(rules),
          .unused = {"pooler.dense.weight", "pooler.dense.bias", "position_ids"}};
}

}  // namespace

std::vector<HfClass> encoders() {
  return {bert_class("BertModel", "bert", join({kPlain, kBert, kBertPositions}), {}),
          bert_class("BertForSequenceClassification", "bert",
                     join({kBert, kBertPositions, kBertHead}), {classifier()}),
          bert_class("XLMRobertaModel", "xlm-roberta", join({kPlain, kRoberta, kRobertaPositions}),
                     {positions_behind_two()}),
          bert_class("XLMRobertaForSequenceClassification", "xlm-roberta",
                     join({kRoberta, kRobertaPositions, kRobertaHead}),
                     {positions_behind_two(), classifier()}),
          nomic_class("nomic-bert-moe", "gelu", join({kNomicExperts, kNomic}), {nomic_experts()},
                      "num_experts"),
          nomic_class("nomic-bert", "swiglu", join({kNomic}), {})};
}

}  // namespace cria::hf
