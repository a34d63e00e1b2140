// Types that a mix gives to each tensor, compared with counts in files of the usual mixes.
#include "engine/quantize/plan.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/engine/demo.h"
#include "tests/engine/quantize/plan_model.h"

namespace cria::test {
namespace {

TEST(Mixes, AreFoundByNameInAnyCase) {
  EXPECT_EQ(find_mix("q4_k_m")->name, "Q4_K_M");
  EXPECT_EQ(find_mix("Q5_K")->name, "Q5_K_M");
  EXPECT_EQ(find_mix("Q2_K")->name, "Q2_K");
  EXPECT_EQ(find_mix("Q9"), nullptr);
  EXPECT_EQ(find_mix("Q4_K_M")->file_type, 15U);
  for (const Mix& mix : mixes()) {
    EXPECT_EQ(find_mix(mix.name), &mix);
    EXPECT_NE(dtype_info(mix.type).dot, DotClass::None);
  }
}

TEST(Mixes, RulesNameExistingMixes) {
  for (const MixRule& rule : mix_rules()) {
    if (rule.mixes == "*") continue;
    std::string_view rest = rule.mixes;
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find(' '), rest.size());
      EXPECT_NE(find_mix(rest.substr(0, end)), nullptr) << rest;
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
}

TEST(TensorRole, IsTheNameWithoutLayerAndEnding) {
  EXPECT_EQ(tensor_role("blk.12.ffn_down.weight").role, "ffn_down");
  EXPECT_EQ(tensor_role("blk.12.ffn_down.weight").layer, 12U);
  EXPECT_EQ(tensor_role("output.weight").role, "output");
  EXPECT_FALSE(tensor_role("output.weight").layer);
  for (const char* odd :
       {"", "blk.", "blk.1", "blk.x.attn_v.weight", "blk.99999999999.attn_v.weight", ".weight"})
    EXPECT_FALSE(tensor_role(odd).layer) << odd;
}

TEST(QuantizePlan, SpreadsMoreBitsOverTheLayers) {
  const PlanModel model({.n_layers = 16});
  const QuantizePlan plan = model.plan("Q4_K_M");
  for (std::uint32_t layer = 0; layer < 16; ++layer) {
    const std::string blk = "blk." + std::to_string(layer) + ".";
    const bool more = layer < 2 || layer >= 14 || (layer - 2) % 3 == 2;
    EXPECT_EQ(type_in(plan, blk + "attn_v.weight"), more ? DType::Q6_K : DType::Q4_K) << layer;
    EXPECT_EQ(type_in(plan, blk + "ffn_down.weight"), more ? DType::Q6_K : DType::Q4_K) << layer;
    EXPECT_EQ(type_in(plan, blk + "attn_q.weight"), DType::Q4_K);
    EXPECT_EQ(type_in(plan, blk + "attn_norm.weight"), DType::F32);
  }
  EXPECT_EQ(type_in(plan, "output.weight"), DType::Q6_K);
  EXPECT_EQ(type_in(plan, "token_embd.weight"), DType::Q4_K);
}

TEST(QuantizePlan, MoreForValuesOfModelsAsLargeAs70B) {
  for (const std::uint32_t layers : {79U, 80U, 81U}) {
    const PlanModel model({.n_layers = layers, .n_embd = 32, .n_ff = 32, .group = 8});
    EXPECT_EQ(type_in(model.plan("Q4_K_S"), "blk.40.attn_v.weight"),
              layers == 80 ? DType::Q5_1 : DType::Q5_0)
        << layers;
  }
}

TEST(QuantizePlan, TiedEmbeddingIsAnOutput) {
  const PlanModel model({.n_layers = 2, .tied = true});
  EXPECT_EQ(type_in(model.plan("Q4_K_M"), "token_embd.weight"), DType::Q6_K);
  QuantizeOptions options;
  options.output_type = DType::Q8_0;
  EXPECT_EQ(type_in(model.plan("Q4_K_M", options), "token_embd.weight"), DType::Q8_0);
}

TEST(QuantizePlan, RequestedTypesWin) {
  const PlanModel model({.n_layers = 2});
  QuantizeOptions options;
  options.output_type = DType::F16;
  options.token_embedding_type = DType::Q8_0;
  options.tensor_types.emplace_back(Regex("blk\\.1\\.ffn_(up|gate)"), DType::Q5_K);
  options.tensor_types.emplace_back(Regex("ffn_up"), DType::Q3_K);
  const QuantizePlan plan = model.plan("Q4_K_M", options);
  EXPECT_EQ(type_in(plan, "output.weight"), DType::F16);
  EXPECT_EQ(type_in(plan, "token_embd.weight"), DType::Q8_0);
  EXPECT_EQ(type_in(plan, "blk.1.ffn_up.weight"), DType::Q5_K) << "the first expression that fits";
  EXPECT_EQ(type_in(plan, "blk.0.ffn_up.weight"), DType::Q3_K);
  options.tensor_types.emplace_back(Regex("none_such"), DType::Q3_K);
  EXPECT_NE(error_of([&] { (void)model.plan("Q4_K_M", options); }).find("expression number 3"),
            std::string::npos);
  QuantizeOptions pure;
  pure.pure = true;
  for (const PlannedTensor& tensor : model.plan("Q3_K_M", pure).tensors)
    EXPECT_EQ(tensor.type, tensor.source->shape.size() == 1 ? DType::F32 : DType::Q3_K)
        << tensor.source->name;
}

TEST(QuantizePlan, QuantizesExpertsButNotTheirRouter) {
  const PlanModel model({.n_layers = 4, .experts = 8});
  const QuantizePlan plan = model.plan("Q4_K_M");
  EXPECT_EQ(type_in(plan, "blk.0.ffn_gate_inp.weight"), DType::F32);
  EXPECT_EQ(type_in(plan, "blk.1.ffn_gate_exps.weight"), DType::Q4_K);
  EXPECT_EQ(type_in(plan, "blk.2.ffn_down_exps.weight"), DType::Q6_K)
      << "one of the layers with more bits";
  EXPECT_EQ(type_in(plan, "blk.1.attn_v.weight"), DType::Q8_0) << "with eight experts";
  EXPECT_EQ(type_in(plan, "blk.1.attn_k.weight"), DType::Q8_0);
  EXPECT_EQ(type_in(plan, "blk.1.attn_output.weight"), DType::Q5_K);
  EXPECT_EQ(type_in(model.plan("Q3_K_L"), "blk.1.attn_output.weight"), DType::Q3_K);
  const PlanModel many({.n_layers = 4, .experts = 16});
  EXPECT_EQ(type_in(many.plan("Q4_K_M"), "blk.1.attn_k.weight"), DType::Q4_K);
  QuantizeOptions options;
  options.tensor_types.emplace_back(Regex("ffn_(up|gate)_exps"), DType::IQ2_XS);
  EXPECT_EQ(type_in(many.plan("Q4_K_M", options), "blk.1.ffn_up_exps.weight"), DType::IQ2_XS);
  EXPECT_EQ(type_in(many.plan("Q4_K_M", options), "blk.2.ffn_down_exps.weight"), DType::Q6_K);
}

TEST(QuantizePlan, Mxfp4IsForExperts) {
  const PlanModel model({.n_layers = 2, .experts = 16});
  const QuantizePlan plan = model.plan("MXFP4");
  for (const PlannedTensor& tensor : plan.tensors) {
    if (tensor.type == DType::F32) continue;
    EXPECT_EQ(tensor.type, tensor.source->shape.size() == 3 ? DType::MXFP4 : DType::Q8_0)
        << tensor.source->name;
  }
  const PlanModel dense({.n_layers = 2});
  EXPECT_EQ(type_in(dense.plan("MXFP4"), "blk.0.ffn_up.weight"), DType::MXFP4);
}

TEST(QuantizePlan, ReportsFallbacksOfIndivisibleRows) {
  const PlanModel model({.n_layers = 1, .n_embd = 96, .n_ff = 100});
  const QuantizePlan plan = model.plan("Q4_K_M");
  EXPECT_EQ(type_in(plan, "blk.0.attn_q.weight"), DType::Q5_0);
  EXPECT_EQ(type_in(plan, "output.weight"), DType::Q8_0);
  EXPECT_EQ(type_in(plan, "blk.0.ffn_down.weight"), DType::F16)
      << "100 does not divide into 32 either";
  EXPECT_EQ(type_in(model.plan("IQ2_XXS"), "blk.0.attn_q.weight"), DType::IQ4_NL);
  EXPECT_EQ(type_in(model.plan("IQ2_XXS"), "output.weight"), DType::Q8_0);
  const auto found = std::ranges::find_if(plan.tensors, [](const PlannedTensor& tensor) {
    return tensor.source->name == "blk.0.ffn_down.weight";
  });
  EXPECT_EQ(found->note, "rows of 100 do not divide into 256: not Q6_K");
}

TEST(QuantizePlan, RejectsRequantizingByDefault) {
  const PlanModel model({.n_layers = 1, .source = DType::Q8_0});
  EXPECT_NE(error_of([&] { (void)model.plan("Q4_K_M"); }).find("got Q8_0 (--allow-requantize"),
            std::string::npos);
  EXPECT_EQ(error_of([&] { (void)model.plan("Q8_0"); }), "") << "copied as they are";
  EXPECT_EQ(error_of([&] { (void)model.plan("F16"); }), "") << "loses nothing more";
  QuantizeOptions options;
  options.allow_requantize = true;
  EXPECT_EQ(type_in(model.plan("Q4_K_M", options), "blk.0.attn_q.weight"), DType::Q4_K);
}

TEST(QuantizePlan, DeclaresKeysOfTheResult) {
  const PlanModel model({.n_layers = 1});
  const QuantizePlan plan = model.plan("Q5_K_S");
  const std::string path = model.path() + ".out";
  GgufWriter writer(path);
  declare(writer, model.file(), plan);
  std::uint64_t tensors = 0;
  for (const PlannedTensor& tensor : plan.tensors) tensors += tensor.bytes();
  EXPECT_GT(writer.file_bytes(), tensors);
  EXPECT_FALSE(std::filesystem::exists(path)) << "nothing is written";
}

/// Counts of types for one mix and model.
struct MixCase {
  const char* mix;
  PlanShape shape;
  bool weighted;
  std::map<std::string, int> types;  ///< but F32
};

class FieldMixes : public testing::TestWithParam<MixCase> {};

TEST_P(FieldMixes, CountsOfTypes) {
  const PlanModel model(GetParam().shape);
  QuantizeOptions options;
  options.weighted = GetParam().weighted;
  std::map<std::string, int> types;
  for (const PlannedTensor& tensor : model.plan(GetParam().mix, options).tensors) {
    if (tensor.type != DType::F32) ++types[std::string(name(tensor.type))];
  }
  EXPECT_EQ(types, GetParam().types);
}

#include "tests/engine/quantize/field_mixes.inc"

}  // namespace
}  // namespace cria::test
