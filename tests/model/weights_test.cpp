#include "model/weights.h"

#include <gtest/gtest.h>

#include <functional>

#include "tests/model/tiny_model.h"

namespace cria::test {
namespace {

LlamaWeights read(const GgufFile& file) {
  return LlamaWeights::from_gguf(file, LlamaConfig::from_gguf(file));
}

TEST(Weights, FindsEveryTensor) {
  const GgufFile file = TinyModel().open();
  const LlamaWeights weights = read(file);
  EXPECT_EQ(weights.token_embd, file.tensor("token_embd.weight"));
  EXPECT_EQ(weights.output, weights.token_embd);
  EXPECT_EQ(weights.rope_freqs, nullptr);
  ASSERT_EQ(weights.layers.size(), 2U);
  EXPECT_EQ(weights.layers[1].down, file.tensor("blk.1.ffn_down.weight"));
  EXPECT_EQ(weights.layers[0].q_bias, nullptr);
  EXPECT_TRUE(weights.warnings.empty());
}

TEST(Weights, TakesWhatIsOptional) {
  TinyModel model("qwen2");
  model.add("output.weight", DType::F16, {64, 10});
  model.add("blk.0.attn_q.bias", DType::F32, {64});
  model.add("blk.1.attn_k.bias", DType::F32, {32});
  const GgufFile file = model.open();
  const LlamaWeights weights = read(file);
  EXPECT_EQ(weights.output, file.tensor("output.weight"));
  EXPECT_EQ(weights.layers[0].q_bias, file.tensor("blk.0.attn_q.bias"));
  EXPECT_EQ(weights.layers[1].k_bias, file.tensor("blk.1.attn_k.bias"));
  EXPECT_TRUE(weights.warnings.empty());
}

TEST(Weights, WarnsOfUnknownTensors) {
  TinyModel model;
  model.add("blk.0.attn_rot_embd", DType::F32, {8});
  model.add("v.patch_embd.weight", DType::F16, {8});
  EXPECT_EQ(
      read(model.open()).warnings,
      (std::vector<std::string>{"2 unknown tensors are not used: blk.0.attn_rot_embd, v.patch_embd.weight"}));
}

TEST(Weights, ChecksRopeFactors) {
  TinyModel model;
  model.add("rope_freqs.weight", DType::F32, {8});
  EXPECT_NE(read(model.open(std::byte{0x3F})).rope_freqs, nullptr);  // 0x3F3F3F3F: 0.747
  EXPECT_NE(error_of([&] { read(model.open(std::byte{0})); }).find("bad factor at index 0"),
            std::string::npos);
  EXPECT_NE(error_of([&] { read(model.open(std::byte{0xFF})); }).find("bad factor at index 0"),
            std::string::npos);
}

struct WeightDefect {
  const char* name;
  const char* expected;
  std::function<void(TinyModel&)> apply;
};
void PrintTo(const WeightDefect& defect, std::ostream* out) { *out << defect.name; }

class BadWeights : public testing::TestWithParam<WeightDefect> {};

TEST_P(BadWeights, AreRefused) {
  TinyModel model;
  GetParam().apply(model);
  const GgufFile file = model.open(std::byte{1});
  const std::string text = error_of([&] { read(file); });
  EXPECT_EQ(text, file.path() + ": " + GetParam().expected);
}

std::function<void(TinyModel&)> without_tensor(const char* tensor) {
  return [=](TinyModel& m) { m.remove(tensor); };
}
std::function<void(TinyModel&)> shaped(const char* tensor, std::vector<std::uint64_t> shape) {
  return [=](TinyModel& m) { m.tensor(tensor).shape = shape; };
}
std::function<void(TinyModel&)> typed(const char* tensor, DType dtype) {
  return [=](TinyModel& m) { m.tensor(tensor).dtype = dtype; };
}
std::function<void(TinyModel&)> extra(const char* tensor, DType dtype, std::vector<std::uint64_t> shape) {
  return [=](TinyModel& m) { m.add(tensor, dtype, shape); };
}

INSTANTIATE_TEST_SUITE_P(
    Weights, BadWeights,
    testing::Values(
        WeightDefect{"NoTensors", "no tensors: the file holds a vocabulary, not a model",
                     [](TinyModel& m) {
                       m.tensors.clear();
                       m.key("vocab_size") = 10U;
                     }},
        WeightDefect{"NoEmbedding", "missing tensor: expected shape [64, 10] (tensor token_embd.weight)",
                     [](TinyModel& m) {
                       m.remove("token_embd.weight");
                       m.key("vocab_size") = 10U;
                     }},
        WeightDefect{"NoNorm", "missing tensor: expected shape [64] (tensor output_norm.weight)",
                     without_tensor("output_norm.weight")},
        WeightDefect{"NoLayerTensor",
                     "missing tensor: expected shape [96, 64] (tensor blk.1.ffn_down.weight)",
                     without_tensor("blk.1.ffn_down.weight")},
        WeightDefect{"Transposed",
                     "wrong shape: expected [96, 64], got [64, 96] (tensor blk.0.ffn_down.weight)",
                     shaped("blk.0.ffn_down.weight", {64, 96})},
        WeightDefect{"WrongRank",
                     "wrong shape: expected [64, 32], got [64, 32, 1] (tensor blk.0.attn_k.weight)",
                     shaped("blk.0.attn_k.weight", {64, 32, 1})},
        WeightDefect{"NormLength", "wrong shape: expected [64], got [32] (tensor blk.0.ffn_norm.weight)",
                     shaped("blk.0.ffn_norm.weight", {32})},
        WeightDefect{"NormF16", "wrong type: expected F32, got F16 (tensor blk.0.attn_norm.weight)",
                     typed("blk.0.attn_norm.weight", DType::F16)},
        WeightDefect{"MatrixI8", "type cannot be a weight matrix: got I8 (tensor blk.0.attn_q.weight)",
                     typed("blk.0.attn_q.weight", DType::I8)},
        WeightDefect{"MatrixQ8_1", "type cannot be a weight matrix: got Q8_1 (tensor blk.0.attn_q.weight)",
                     typed("blk.0.attn_q.weight", DType::Q8_1)},
        WeightDefect{"BiasLength", "wrong shape: expected [64], got [32] (tensor blk.0.attn_q.bias)",
                     extra("blk.0.attn_q.bias", DType::F32, {32})},
        WeightDefect{"BiasUnknown", "a bias that this architecture does not have (tensor blk.0.ffn_up.bias)",
                     extra("blk.0.ffn_up.bias", DType::F32, {96})},
        WeightDefect{
            "LayerTooMany",
            "tensor of a layer that does not exist: expected layers 0 to 1 (tensor blk.2.attn_norm.weight)",
            extra("blk.2.attn_norm.weight", DType::F32, {64})},
        WeightDefect{"LayerHuge",
                     "tensor of a layer that does not exist: expected layers 0 to 1 (tensor "
                     "blk.99999999999999999999999.x)",
                     extra("blk.99999999999999999999999.x", DType::F32, {64})},
        WeightDefect{"RopeFactorsLength", "wrong shape: expected [8], got [16] (tensor rope_freqs.weight)",
                     extra("rope_freqs.weight", DType::F32, {16})},
        WeightDefect{"KeyLength",
                     "wrong shape: expected [64, 128], got [64, 64] (tensor blk.0.attn_q.weight)",
                     [](TinyModel& m) { m.key("attention.key_length") = 32U; }}),
    case_name<WeightDefect>);

}  // namespace
}  // namespace cria::test
