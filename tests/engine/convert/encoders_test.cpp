// `cria convert` for encoders: names, positions, poolings and classifiers.
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace cria::test
