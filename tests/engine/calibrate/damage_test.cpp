// Damages of types, and the stream of layers that they are measured with.
#include "engine/calibrate/damage.h"

#include <gtest/gtest.h>

#include "tests/engine/architectures/architecture_cases.h"
#include "tests/engine/demo.h"
#include "tests/engine/random.h"

namespace cria::test {
namespace {

constexpr DType kTypes[] = {DType::Q4_0, DType::Q8_0};

CalibrationTokens windows_of_random_tokens(std::size_t windows) {
  Random random(7);
  CalibrationTokens tokens{24, {}};
  for (std::size_t i = 0; i < windows * tokens.window; ++i)
    tokens.ids.push_back(static_cast<TokenId>(random.next() % TinyArchitecture::kVocabulary));
  return tokens;
}

std::vector<const TensorView*> matrices(const GgufFile& file) {
  std::vector<const TensorView*> tensors;
  for (const TensorView& tensor : file.tensors())
    if (tensor.shape.size() > 1 && is_quantizable(tensor.name)) tensors.push_back(&tensor);
  return tensors;
}

class DamagedArchitectures : public testing::TestWithParam<ArchitectureCase> {};
INSTANTIATE_TEST_SUITE_P(, DamagedArchitectures, testing::ValuesIn(covering_cases()), name_of_case);
class StreamedArchitectures : public testing::TestWithParam<ArchitectureCase> {};
INSTANTIATE_TEST_SUITE_P(, StreamedArchitectures, testing::ValuesIn(architecture_cases()),
                         name_of_case);

TEST_P(DamagedArchitectures, LoseLessInLargerTypes) {
  const auto model = TinyArchitecture(GetParam()).load();
  const CalibrationTokens tokens = windows_of_random_tokens(2);
  const std::vector<const TensorView*> tensors = matrices(model->file());
  DamageOptions options;
  options.types = kTypes;
  const auto costs = measure_damage(*model, tensors, tokens, options);
  ASSERT_EQ(costs.size(), tensors.size());
  options.threads = 3;
  const auto again = measure_damage(*model, tensors, tokens, options);
  double sum = 0;
  for (std::size_t i = 0; i < costs.size(); ++i) {
    ASSERT_FALSE(costs[i].empty());
    EXPECT_EQ(costs[i].front().bytes,
              dtype_info(costs[i].front().type).row_bytes(tensors[i]->cols()) * tensors[i]->rows());
    for (std::size_t k = 0; k < costs[i].size(); ++k) {
      EXPECT_EQ(costs[i][k].damage, again[i][k].damage) << tensors[i]->name;
      if (k > 0) {
        EXPECT_LE(costs[i][k].damage, costs[i][k - 1].damage) << tensors[i]->name;
      }
      if (k > 0) {
        EXPECT_GT(costs[i][k].bytes, costs[i][k - 1].bytes);
      }
    }
    sum += costs[i].front().damage;
  }
  EXPECT_GT(sum, 1e-6);
}

// Windows are run node by node, one after the other; keys of layers that share them must be those
// of the window.
TEST_P(StreamedArchitectures, WindowsAreAsIfAlone) {
  const auto model = TinyArchitecture(GetParam()).load();
  const CalibrationTokens both = windows_of_random_tokens(2);
  CalibrationTokens second = both;
  second.ids.erase(second.ids.begin(),
                   second.ids.begin() + static_cast<std::ptrdiff_t>(second.window));
  LayerStream stream(*model, both, *active_kernels(), 1),
      alone(*model, second, *active_kernels(), 1);
  const std::vector<Node>& nodes = model->graph().nodes;
  alone.run_to(nodes.size() - 1);
  stream.run_to(nodes.size() - 1);
  const auto expected = alone.rows(nodes.back().in), found = stream.rows(nodes.back().in);
  ASSERT_EQ(found.size(), 2 * expected.size());
  EXPECT_TRUE(std::ranges::equal(found.subspan(expected.size()), expected));
}

TEST(Damage, IsTheSameForEachInstructionSet) {
  const auto model = TinyArchitecture(architecture_case("llama")).load();
  const CalibrationTokens tokens = windows_of_random_tokens(1);
  const std::vector<const TensorView*> tensors = matrices(model->file());
  std::vector<double> expected;
  for (const KernelSet* const kernels : available_kernels()) {
    DamageOptions options;
    options.types = kTypes;
    options.kernels = kernels;
    std::vector<double> damages;
    for (const auto& types : measure_damage(*model, tensors, tokens, options))
      for (const TypeCost& type : types) damages.push_back(type.damage);
    if (expected.empty()) expected = damages;
    EXPECT_EQ(damages, expected) << kernels->isa;
  }
}

TEST(Damage, StopsWhenAsked) {
  const auto model = TinyArchitecture(architecture_case("llama")).load();
  DamageOptions options;
  options.types = kTypes;
  options.on_tensor = [](std::size_t, std::size_t) { return false; };
  EXPECT_TRUE(measure_damage(*model, matrices(model->file()), windows_of_random_tokens(1), options)
                  .empty());
}

// A tensor's damage in the type that it is measured with is the divergence itself; it is larger the
// more the tensor's errors matter.
TEST(Damage, OfTheLogitsMatrixIsTheLargestInTheDemoModel) {
  const Model& model = demo_model();
  const CalibrationTokens tokens{64, demo_tokens()};
  const TensorView* const tensors[] = {model.file().tensor("token_embd.weight"),
                                       model.file().tensor("blk.3.attn_k.weight")};
  constexpr DType kThreeBits[] = {DType::Q3_K};
  DamageOptions options;
  options.types = kThreeBits;
  const auto costs = measure_damage(model, tensors, tokens, options);
  ASSERT_EQ(costs.size(), 2U);
  EXPECT_GT(costs[0][0].damage, 10 * costs[1][0].damage);
  EXPECT_GT(costs[1][0].damage, 1e-5);
  EXPECT_LT(costs[0][0].damage, 1);
}

}  // namespace
}  // namespace cria::test
