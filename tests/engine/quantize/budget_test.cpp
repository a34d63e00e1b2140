// Types under a budget against all combinations, and plans as text.
#include "engine/quantize/budget.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/engine/quantize/plan_model.h"

namespace cria::test {
namespace {

using Costs = std::vector<std::vector<TypeCost>>;

// The least damage within the budget, by trying everything; negative: nothing fits.
double least_damage(const Costs& tensors, std::uint64_t budget, std::size_t at = 0) {
  if (at == tensors.size()) return 0;
  double least = -1;
  for (const TypeCost& type : tensors[at]) {
    if (type.bytes > budget) continue;
    const double rest = least_damage(tensors, budget - type.bytes, at + 1);
    if (rest >= 0 && (least < 0 || type.damage + rest < least)) least = type.damage + rest;
  }
  return least;
}

TEST(Budget, FindsTheLeastDamage) {
  std::mt19937 random(1);
  std::size_t fitted = 0;
  for (int round = 0; round < 200; ++round) {
    Costs tensors(1 + random() % 5);
    std::uint64_t most = 0;
    for (std::vector<TypeCost>& types : tensors) {
      const std::uint64_t weights = 32 * (1 + random() % 7);
      for (std::size_t k = 1 + random() % 4; k > 0; --k)
        types.push_back({DType::Q4_K, weights * (1 + random() % 9), (random() % 1000) / 1e3});
      most += weights * 9;
    }
    const std::uint64_t budget = random() % (most + 1);
    const double expected = least_damage(tensors, budget);
    const auto chosen = best_types(tensors, budget);
    ASSERT_EQ(chosen.has_value(), expected >= 0) << round;
    if (!chosen) continue;
    ++fitted;
    double damage = 0;
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      damage += tensors[i][(*chosen)[i]].damage;
      bytes += tensors[i][(*chosen)[i]].bytes;
    }
    EXPECT_LE(bytes, budget);
    EXPECT_NEAR(damage, expected, 1e-9) << round;
  }
  EXPECT_GT(fitted, 50U);
}

TEST(Budget, StaysWithinItWhenSizesHaveNoCommonDivisor) {
  Costs tensors;
  for (std::uint64_t i = 0; i < 40; ++i)
    tensors.push_back({{DType::Q2_K, 1'000'003 + i, 2}, {DType::Q4_K, 7'000'001 + 3 * i, 1}});
  const std::uint64_t budget = 160'000'000;
  const auto chosen = best_types(tensors, budget);
  ASSERT_TRUE(chosen);
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) bytes += tensors[i][(*chosen)[i]].bytes;
  EXPECT_LE(bytes, budget);
  EXPECT_EQ(std::ranges::count(*chosen, 1U), 19);  // (160 - 40) / 6, less what rounding takes
}

TEST(Budget, NamesTypes) {
  EXPECT_EQ(types_named("Q4_0,Q3_K"), (std::vector{DType::Q4_0, DType::Q3_K}));
  EXPECT_EQ(types_named("K").size(), 6U);
  EXPECT_GT(types_named("all").size(), types_named("K").size());
  for (const char* wrong : {"Q9", "F16", "k", "Q4_K,,Q3_K", "I8"})
    EXPECT_THROW(types_named(wrong), Error) << wrong;
}

TEST(TypePlan, IsReadAsItWasWritten) {
  const PlanModel model({.n_layers = 2});
  QuantizeOptions options;
  options.chosen = {{"blk.0.attn_q.weight", {DType::Q3_K, 0, 0.5}},
                    {"blk.1.ffn_down.weight", {DType::Q6_K, 0, 0}}};
  options.pure = true;
  const QuantizePlan plan = model.plan("Q4_K_M", options);
  EXPECT_EQ(type_in(plan, "blk.0.attn_q.weight"), DType::Q3_K);
  EXPECT_EQ(type_in(plan, "blk.1.ffn_down.weight"), DType::Q6_K);
  EXPECT_EQ(type_in(plan, "blk.1.attn_q.weight"), DType::Q4_K);
  const std::string text = type_plan_text(plan, "heading");
  EXPECT_EQ(text.find("# heading\n"), 0U) << text;
  EXPECT_NE(text.find("\nblk.0.attn_q.weight Q3_K  # "), std::string::npos) << text;
  EXPECT_NE(text.find("divergence 0.5\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("attn_norm"), std::string::npos) << "norms have no choice";
  const ChosenTypes read = read_type_plan(text, model.file(), "plan");
  for (const PlannedTensor& tensor : plan.tensors) {
    const auto found = read.find(tensor.source->name);
    ASSERT_EQ(found != read.end(), tensor.free) << tensor.source->name;
    if (tensor.free) {
      EXPECT_EQ(found->second.type, tensor.type) << tensor.source->name;
    }
  }
}

TEST(TypePlan, YieldsToWhatIsAskedFor) {
  const PlanModel model({.n_layers = 1});
  QuantizeOptions options;
  options.chosen = {{"blk.0.attn_q.weight", {DType::Q3_K, 0, 0}},
                    {"output.weight", {DType::Q3_K, 0, 0}}};
  options.tensor_types.emplace_back(Regex("attn_q"), DType::Q5_K);
  options.output_type = DType::Q8_0;
  const QuantizePlan plan = model.plan("Q4_K_M", options);
  EXPECT_EQ(type_in(plan, "blk.0.attn_q.weight"), DType::Q5_K);
  EXPECT_EQ(type_in(plan, "output.weight"), DType::Q8_0);
  EXPECT_EQ(type_plan_text(plan, "").find("attn_q"), std::string::npos);
}

TEST(TypePlan, NamesTheLineAtFault) {
  const PlanModel model({.n_layers = 1});
  const struct {
    const char *text, *says;
  } cases[] = {{"# a comment\n\nblk.0.attn_q.weight\n", "line 3"},
               {"blk.0.attn_q.weight Q4_K Q5_K\n", "a tensor and its type"},
               {"blk.0.attn_q.weight Q9\n", "got Q9"},
               {"blk.9.attn_q.weight Q4_K\n", "no tensor blk.9.attn_q.weight"},
               {"blk.0.attn_q.weight Q4_K\r\nblk.0.attn_q.weight Q5_K", "line 2"}};
  for (const auto& [text, says] : cases) {
    try {
      read_type_plan(text, model.file(), "plan.txt");
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(says), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("plan.txt"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace cria::test
