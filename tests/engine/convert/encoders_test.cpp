// `cria convert` for encoders: names, positions, poolings and classifiers.
#include <gtest/gtest.h>

#include "engine/engine.h"
#include "engine/vectors.h"
#include "tests/engine/convert/hf_model.h"

namespace cria::test {
namespace {

std::string bert_names(const std::string& prefix) {
  const std::string layer = prefix + "encoder.layer.#.";
  return "token_embd " + prefix + "embeddings.word_embeddings\ntoken_types " + prefix +
         "embeddings.token_type_embeddings\nposition_embd " + prefix +
         "embeddings.position_embeddings\ntoken_embd_norm " + prefix +
         "embeddings.LayerNorm\nattn_q " + layer + "attention.self.query\nattn_k " + layer +
         "attention.self.key\nattn_v " + layer + "attention.self.value\nattn_output_norm " + layer +
         "attention.output.LayerNorm\nattn_output " + layer + "attention.output.dense\nffn_up " +
         layer + "intermediate.dense\nffn_down " + layer + "output.dense\nlayer_output_norm " +
         layer + "output.LayerNorm\n";
}

const std::vector<std::pair<std::string, std::vector<std::uint64_t>>> kBertTensors = {
    {"token_types.weight", {64, 2}},   {"*.attn_q.bias", {64}},
    {"*.attn_k.bias", {32}},           {"*.attn_v.bias", {32}},
    {"*.attn_output.bias", {64}},      {"*.ffn_up.bias", {96}},
    {"*.ffn_down.bias", {64}},         {"*.attn_output_norm.bias", {64}},
    {"*.layer_output_norm.bias", {64}}};

/// The output matrix of the reference has no use, and no place in the directory.
const std::string kNoOutput = "output none -\n";

HfCase bert_case(const std::string& name, const std::string& prefix, const std::string& more = "",
                 const std::string& head = "") {
  HfCase c{{"bert", "bert", {}, kBertTensors},
           "{\"architectures\": [\"" + name +
               "\"], \"layer_norm_eps\": 1e-5, \"hidden_act\": "
               "\"gelu\", \"tie_word_embeddings\": true" +
               more + "}",
           bert_names(prefix) + head + kNoOutput};
  if (!head.empty()) {
    c.gguf.tensors.push_back({"cls.weight", {64, 64}});
    c.gguf.tensors.push_back({"cls.bias", {64}});
    c.gguf.tensors.push_back({"cls.output.weight", {64, 3}});
    c.gguf.tensors.push_back({"cls.output.bias", {3}});
  }
  return c;
}

void expect_same_tensors(const HfModel& hf) {
  const auto want = Model::load(hf.reference()), got = Model::load(hf.output());
  EXPECT_EQ(got->graph().to_string(), want->graph().to_string());
  for (const TensorView& tensor : want->file().tensors()) {
    if (tensor.name.ends_with(".padding") || tensor.name == "output.weight") continue;
    const TensorView* const other = got->file().tensor(tensor.name);
    ASSERT_NE(other, nullptr) << tensor.name;
    ASSERT_EQ(other->bytes, tensor.bytes) << tensor.name;
    EXPECT_EQ(std::memcmp(other->data, tensor.data, tensor.bytes), 0) << tensor.name;
  }
}

TEST(ConvertEncoders, Bert) {
  HfModel hf(bert_case("BertModel", ""));
  hf.tensors["pooler.dense.weight"] = {{2}, {1, 2}};
  hf.convert(DType::F32);
  expect_same_tensors(hf);
  ASSERT_EQ(hf.warnings.size(), 1U);
  EXPECT_NE(hf.warnings[0].find("1 tensor ignored"), std::string::npos);
  EXPECT_EQ(GgufFile::open(hf.output()).find_bool("bert.attention.causal"), false);
  hf.config["position_embedding_type"] = "relative_key";
  EXPECT_THROW(hf.convert(DType::F32), Error);
}

TEST(ConvertEncoders, ClassifiersNameTheirLabels) {
  HfModel hf(bert_case("BertForSequenceClassification", "bert.",
                       R"(, "id2label": {"0": "no", "1": "yes", "2": "maybe"})",
                       "cls bert.pooler.dense\ncls.output classifier\n"));
  hf.convert(DType::F32);
  expect_same_tensors(hf);
  const GgufFile file = GgufFile::open(hf.output());
  EXPECT_EQ(file.find_uint("bert.pooling_type"), 4U);
  EXPECT_EQ(*file.find_strings("bert.classifier.output_labels"),
            (std::vector<std::string_view>{"no", "yes", "maybe"}));
  const std::vector<float> outputs = {0, 2, 1};
  EXPECT_FLOAT_EQ(relevance(*Model::load(hf.output()), outputs),
                  static_cast<float>(1 / (std::exp(-2.0) + 1 + std::exp(-1.0))));
}

TEST(ConvertEncoders, PositionsOfRobertaBeginAtTwo) {
  HfModel hf(bert_case("XLMRobertaModel", "roberta."));
  HfData& positions = hf.tensors["roberta.embeddings.position_embeddings.weight"];
  positions.shape[0] += 2;
  positions.values.insert(positions.values.begin(), 128, 7.0F);
  hf.config["max_position_embeddings"] = 258;
  hf.convert(DType::F32);
  expect_same_tensors(hf);
  EXPECT_EQ(GgufFile::open(hf.output()).find_uint("bert.context_length"), 256U);
}

TEST(ConvertEncoders, NomicBertHasOtherKeys) {
  const std::string layer = "encoder.layers.#.";
  HfModel hf(
      {{"nomic_bert",
        "nomic-bert",
        {{"attention.head_count_kv", 4U}},
        {{"token_types.weight", {64, 2}},
         {"*.attn_qkv.weight", {64, 192}},
         {"*.attn_output_norm.bias", {64}},
         {"*.layer_output_norm.bias", {64}}}},
       R"({"architectures": ["NomicBertModel"], "n_embd": 64, "hidden_size": null, "n_layer": 4,
                  "num_hidden_layers": null, "n_head": 4, "num_attention_heads": null,
                  "num_key_value_heads": null, "head_dim": null, "n_inner": 96,
                  "intermediate_size": null, "max_trained_positions": 256, "n_positions": 512,
                  "max_position_embeddings": null, "rotary_emb_base": 10000, "rope_theta": null,
                  "activation_function": "swiglu", "rotary_emb_fraction": 1.0})",
       "token_embd embeddings.word_embeddings\ntoken_types "
       "embeddings.token_type_embeddings\ntoken_embd_norm emb_ln\nattn_qkv " +
           layer + "attn.Wqkv\nattn_output_norm " + layer + "norm1\nattn_output " + layer +
           "attn.out_proj\nffn_up " + layer + "mlp.fc11\nffn_gate " + layer +
           "mlp.fc12\nffn_down " + layer + "mlp.fc2\nlayer_output_norm " + layer + "norm2\n" +
           kNoOutput});
  hf.convert(DType::F32);
  expect_same_tensors(hf);
}

TEST(ConvertEncoders, NomicBertWithExperts) {
  const std::string layer = "encoder.layers.#.";
  HfModel hf({{"nomic_bert_moe",
               "nomic-bert-moe",
               {{"attention.head_count_kv", 4U}, {"expert_count", 6U}, {"expert_used_count", 2U}},
               {{"*.attn_qkv.weight", {64, 192}},
                {"*.attn_qkv.bias", {192}},
                {"*.attn_output.bias", {64}},
                {"blk.0.ffn_up.bias", {96}},
                {"blk.0.ffn_down.bias", {64}},
                {"blk.2.ffn_up.bias", {96}},
                {"blk.2.ffn_down.bias", {64}},
                {"blk.1.ffn_gate_inp.weight", {64, 6}},
                {"blk.1.ffn_down_exps.weight", {96, 64, 6}},
                {"blk.1.ffn_exps_bias.weight", {64}},
                {"blk.3.ffn_gate_inp.weight", {64, 6}},
                {"blk.3.ffn_down_exps.weight", {96, 64, 6}},
                {"blk.3.ffn_exps_bias.weight", {64}},
                {"*.attn_output_norm.bias", {64}},
                {"*.layer_output_norm.bias", {64}}}},
              R"({"architectures": ["NomicBertModel"], "n_inner": 96, "intermediate_size": null,
           "num_key_value_heads": null, "head_dim": null, "activation_function": "gelu",
           "num_experts": 6, "moe_top_k": 2, "moe_every_n_layers": 2,
           "moe_normalize_expert_weights": false})",
              "token_embd embeddings.word_embeddings\ntoken_types "
              "embeddings.token_type_embeddings\ntoken_embd_norm emb_ln\nattn_qkv " +
                  layer + "attn.Wqkv\nattn_output_norm " + layer + "norm1\nattn_output " + layer +
                  "attn.out_proj\nffn_up " + layer + "mlp.fc1\nffn_down " + layer +
                  "mlp.fc2\nlayer_output_norm " + layer + "norm2\nffn_gate_inp " + layer +
                  "mlp.router.layer\nffn_up_exps.weight joined " + layer +
                  "mlp.experts.mlp.w1\nffn_down_exps.weight joined_column " + layer +
                  "mlp.experts.mlp.w2\nffn_exps_bias.weight " + layer + "mlp.experts.bias\n" +
                  kNoOutput});
  hf.convert(DType::F32);
  expect_same_tensors(hf);
  const auto vectors = [](const std::string& path) {
    const auto model = Model::load(path);
    Engine engine(*model, {.n_ctx = 64, .threads = 1});
    const std::vector<TokenId> text = {3, 1, 4, 1, 5, 9, 2, 6};
    return embed(engine, {&text, 1}, Pooling::Mean);
  };
  EXPECT_EQ(vectors(hf.output()), vectors(hf.reference()));
  for (float& value : hf.tensors["encoder.layers.1.mlp.experts.bias"].values) value += 1;
  hf.convert(DType::F32);
  EXPECT_NE(vectors(hf.output()), vectors(hf.reference())) << "the bias of experts counts";
}

// EmbeddingGemma: two projections lie in directories of their own.
TEST(ConvertEncoders, GemmaWithProjections) {
  const std::string layer = "layers.#.";
  HfModel hf({{"gemma_embedding",
               "gemma-embedding",
               {{"attention.sliding_window", 8U}, {"rope.freq_base_swa", 20000.0F}},
               {{"dense_2.weight", {64, 96}}, {"dense_3.weight", {96, 32}}}},
              R"({"architectures": ["Gemma3TextModel"], "use_bidirectional_attention": true,
                  "sliding_window": 8, "layer_types": ["sliding_attention", "sliding_attention",
                  "sliding_attention", "sliding_attention"], "rope_local_base_freq": 20000.0,
                  "query_pre_attn_scalar": 16, "tie_word_embeddings": true})",
              "token_embd embed_tokens\noutput_norm minus1 norm\nattn_norm minus1 " + layer +
                  "input_layernorm\npost_attention_norm minus1 " + layer +
                  "post_attention_layernorm\nffn_norm minus1 " + layer +
                  "pre_feedforward_layernorm\npost_ffw_norm minus1 " + layer +
                  "post_feedforward_layernorm\nattn_q_norm minus1 " + layer +
                  "self_attn.q_norm\nattn_k_norm minus1 " + layer + "self_attn.k_norm\nattn_q " +
                  layer + "self_attn.q_proj\nattn_k " + layer + "self_attn.k_proj\nattn_v " +
                  layer + "self_attn.v_proj\nattn_output " + layer + "self_attn.o_proj\nffn_gate " +
                  layer + "mlp.gate_proj\nffn_up " + layer + "mlp.up_proj\nffn_down " + layer +
                  "mlp.down_proj\ndense_2 2_Dense\ndense_3 3_Dense\n" + kNoOutput});
  const fs::path directory = fs::path(hf.reference()).parent_path();
  for (const std::string name : {"2_Dense", "3_Dense"}) {
    const HfData matrix = hf.tensors.at(name + ".weight");
    hf.tensors.erase(name + ".weight");
    fs::create_directories(directory / name);
    SafetensorsBytes file;
    file.add("linear.weight", "F32", matrix.shape, bytes_of(matrix.values));
    std::ofstream(directory / name / "model.safetensors", std::ios::binary) << file.file();
    std::ofstream(directory / name / "config.json")
        << R"({"bias": false, "activation_function": "torch.nn.modules.linear.Identity"})";
  }
  hf.convert(DType::F32);
  expect_same_tensors(hf);
  hf.config["use_bidirectional_attention"] = false;
  EXPECT_THROW(hf.convert(DType::F32), Error);
  hf.config["use_bidirectional_attention"] = true;
  std::ofstream(directory / "3_Dense" / "config.json") << R"({"bias": true})";
  EXPECT_THROW(hf.convert(DType::F32), Error);
}

}  // namespace
}  // namespace cria::test
