#include "model/weights.h"

#include <gtest/gtest.h>

#include <functional>

#include "model/config.h"
#include "tests/model/tiny_model.h"

namespace cria::test {
namespace {

// Asks for what a llama file has.
std::vector<std::string> read(const GgufFile& file) {
  const ModelConfig c = ModelConfig::from_gguf(file);
  Weights weights(file, c.n_layers);
  (void)weights.matrix("token_embd.weight", c.n_embd, c.n_vocab);
  if (weights.has("rope_freqs.weight")) (void)weights.factors("rope_freqs.weight", c.n_rot / 2);
  for (std::uint32_t i = 0; i < c.n_layers; ++i) {
    const std::string blk = "blk." + std::to_string(i) + ".";
    for (const char* norm : {"attn_norm.weight", "ffn_norm.weight"})
      (void)weights.vector(blk + norm, c.n_embd);
    if (weights.has(blk + "attn_q.bias")) (void)weights.vector(blk + "attn_q.bias", c.q_dim(i));
    (void)weights.matrix(blk + "attn_q.weight", c.n_embd, c.q_dim(i));
    (void)weights.matrix(blk + "attn_k.weight", c.n_embd, c.k_dim(i));
    (void)weights.matrix(blk + "attn_v.weight", c.n_embd, c.v_dim(i));
    (void)weights.matrix(blk + "attn_output.weight", std::uint64_t{c.n_heads[i]} * c.head_dim_v,
                         c.n_embd);
    (void)weights.matrix(blk + "ffn_gate.weight", c.n_embd, c.n_ff[i]);
    (void)weights.matrix(blk + "ffn_up.weight", c.n_embd, c.n_ff[i]);
    (void)weights.matrix(blk + "ffn_down.weight", c.n_ff[i], c.n_embd);
  }
  (void)weights.vector("output_norm.weight", c.n_embd);
  return weights.finish();
}

// Some writers keep all four dimensions.
TEST(Weights, IgnoresTrailingDimensionsOfOne) {
  TinyModel model;
  model.tensor("blk.0.attn_k.weight").shape = {64, 32, 1, 1};
  model.tensor("output_norm.weight").shape = {64, 1};
  const GgufFile file = model.open();
  EXPECT_TRUE(read(file).empty());
}

TEST(Weights, FindsTensorsAndRowsOfThem) {
  const GgufFile file = TinyModel().open();
  EXPECT_TRUE(read(file).empty());
  Weights weights(file, 2);
  const TensorView& down = weights.matrix("blk.1.ffn_down.weight", 96, 64);
  EXPECT_EQ(&down, file.tensor("blk.1.ffn_down.weight"));
  const TensorView part = rows_of(down, 10, 4);
  EXPECT_EQ(part.shape, (Weights::Shape{96, 4}));
  EXPECT_EQ(part.data, down.data + 10 * down.row_bytes());
  EXPECT_EQ(part.bytes, 4 * down.row_bytes());
  EXPECT_EQ(weights.shape_of("blk.1.ffn_down.weight"), (Weights::Shape{96, 64}));
  EXPECT_FALSE(weights.shape_of("blk.2.ffn_down.weight"));
}

TEST(Weights, WarnsOfUnknownTensors) {
  TinyModel model;
  model.add("blk.0.attn_rot_embd", DType::F32, {8});
  model.add("x.patch_embd.weight", DType::F16, {8});
  EXPECT_EQ(read(model.open()),
            (std::vector<std::string>{
                "2 unknown tensors are not used: blk.0.attn_rot_embd, x.patch_embd.weight"}));
}

TEST(Weights, WarnsOfOne) {
  TinyModel model;
  model.add("x.patch_embd.weight", DType::F16, {8});
  EXPECT_EQ(read(model.open()),
            (std::vector<std::string>{"1 unknown tensor is not used: x.patch_embd.weight"}));
}

TEST(Weights, FindsScalesUnderEitherName) {
  TinyModel model;
  model.add("blk.0.attn_q.scale", DType::F32, {1});
  model.add("blk.0.attn_k.weight.scale", DType::F32, {32});
  model.add("blk.0.attn_v.scale", DType::F32, {2});
  model.add("blk.0.ffn_up.scale", DType::F16, {1});
  model.add("blk.0.ffn_up.input_scale", DType::F32, {1});
  const GgufFile file = model.open(std::byte{1});
  Weights weights(file, 2);
  EXPECT_EQ(weights.scale("blk.0.attn_q.weight", 64)->shape, (Weights::Shape{1}));
  EXPECT_EQ(weights.scale("blk.0.attn_k.weight", 32)->shape, (Weights::Shape{32}));
  EXPECT_EQ(weights.scale("blk.0.attn_v.weight", 32, 2)->shape, (Weights::Shape{2}));
  EXPECT_FALSE(weights.scale("blk.0.ffn_down.weight", 64));
  EXPECT_NE(error_of([&] {
              (void)weights.scale("blk.0.attn_v.weight", 32);
            }).find("wrong shape: expected 1 or 32 values, got [2] (tensor blk.0.attn_v.scale)"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              (void)weights.scale("blk.0.ffn_up.weight", 96);
            }).find("expected F32, got F16"),
            std::string::npos);
}

TEST(Weights, AcceptsUnusedActivationScales) {
  TinyModel model;
  model.add("blk.0.ffn_up.input_scale", DType::F32, {1});
  EXPECT_TRUE(read(model.open()).empty());
}

TEST(Weights, ReportsIgnoredTensorsOnce) {
  TinyModel model;
  model.add("v.a", DType::F32, {8});
  model.add("v.b", DType::F16, {8});
  model.add("x.a", DType::F32, {8});
  const GgufFile file = model.open();
  Weights weights(file, 2);
  (void)weights.vector("output_norm.weight", 64);
  weights.ignore("v.", "no pictures");
  weights.ignore("mm.", "no sound");
  weights.ignore("blk.", "no layers");
  EXPECT_EQ(weights.finish(),
            (std::vector<std::string>{"no pictures", "no layers",
                                      "2 unknown tensors are not used: token_embd.weight, x.a"}));
}

TEST(Weights, ChecksRopeFactors) {
  TinyModel model;
  model.add("rope_freqs.weight", DType::F32, {8});
  EXPECT_TRUE(read(model.open(std::byte{0x3F})).empty());  // 0x3F3F3F3F: 0.747
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
std::function<void(TinyModel&)> extra(const char* tensor, DType dtype,
                                      std::vector<std::uint64_t> shape) {
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
        WeightDefect{"NoEmbedding",
                     "missing tensor: expected shape [64, 10] (tensor token_embd.weight)",
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
                     "wrong shape: expected [64, 32], got [64, 32, 2] (tensor blk.0.attn_k.weight)",
                     shaped("blk.0.attn_k.weight", {64, 32, 2})},
        WeightDefect{"NormLength",
                     "wrong shape: expected [64], got [32] (tensor blk.0.ffn_norm.weight)",
                     shaped("blk.0.ffn_norm.weight", {32})},
        WeightDefect{"NormF16", "wrong type: expected F32, got F16 (tensor blk.0.attn_norm.weight)",
                     typed("blk.0.attn_norm.weight", DType::F16)},
        WeightDefect{"MatrixI8",
                     "type cannot be a weight matrix: got I8 (tensor blk.0.attn_q.weight)",
                     typed("blk.0.attn_q.weight", DType::I8)},
        WeightDefect{"MatrixQ8_1",
                     "type cannot be a weight matrix: got Q8_1 (tensor blk.0.attn_q.weight)",
                     typed("blk.0.attn_q.weight", DType::Q8_1)},
        WeightDefect{"BiasLength",
                     "wrong shape: expected [64], got [32] (tensor blk.0.attn_q.bias)",
                     extra("blk.0.attn_q.bias", DType::F32, {32})},
        WeightDefect{
            "NormUnknown",
            "a norm that this architecture does not have (tensor blk.0.attn_q_norm.weight)",
            extra("blk.0.attn_q_norm.weight", DType::F32, {16})},
        WeightDefect{"ScaleUnknown",
                     "a scale that this architecture does not have (tensor blk.0.ffn_up.scale)",
                     extra("blk.0.ffn_up.scale", DType::F32, {1})},
        WeightDefect{"BiasUnknown",
                     "a bias that this architecture does not have (tensor blk.0.ffn_up.bias)",
                     extra("blk.0.ffn_up.bias", DType::F32, {96})},
        WeightDefect{"LayerTooMany",
                     "tensor of a layer that does not exist: expected layers 0 to 1 (tensor "
                     "blk.2.attn_norm.weight)",
                     extra("blk.2.attn_norm.weight", DType::F32, {64})},
        WeightDefect{"LayerHuge",
                     "tensor of a layer that does not exist: expected layers 0 to 1 (tensor "
                     "blk.99999999999999999999999.x)",
                     extra("blk.99999999999999999999999.x", DType::F32, {64})},
        WeightDefect{"RopeFactorsLength",
                     "wrong shape: expected [8], got [16] (tensor rope_freqs.weight)",
                     extra("rope_freqs.weight", DType::F32, {16})},
        WeightDefect{"KeyLength",
                     "wrong shape: expected [64, 128], got [64, 64] (tensor blk.0.attn_q.weight)",
                     [](TinyModel& m) { m.key("attention.key_length") = 32U; }}),
    case_name<WeightDefect>);

}  // namespace
}  // namespace cria::test
