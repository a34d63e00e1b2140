// Experts: which ones a router chooses, ties among them, and routers that are not the family's.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "tests/engine/architectures/architecture_cases.h"
#include "tests/engine/demo.h"

namespace cria::test {
namespace {

TEST(Experts, AreDescribedInTheGraph) {
  const auto model =
      TinyArchitecture({"experts", "llama", expert_keys(), expert_tensors(), 0}).load();
  const std::string text = model->graph().to_string();
  EXPECT_NE(text.find("2 of 6 experts by softmax, normalized"), std::string::npos) << text;
}

// Tokens may use one expert, and the last layer may compute only the last token.
TEST(Experts, ReportTheRowsTheyWrite) {
  const auto model =
      TinyArchitecture(
          {"one", "llama", {{"expert_count", 6U}, {"expert_used_count", 1U}}, expert_tensors(), 0})
          .load();
  const std::vector<TokenId> tokens = {1, 30, 4, 17, 9, 22};
  const auto last_seen = [&](std::size_t before) {
    Session session(*model, {.n_ctx = 64, .threads = 1});
    session.eval(std::span(tokens).first(before));
    std::vector<float> seen;
    session.observe([&seen](const Node& node, std::span<const float> values, std::size_t) {
      if (node.as<ExpertsUpOp>() != nullptr) seen = copy(values);
    });
    session.eval(std::span(tokens).subspan(before));
    return seen;
  };
  EXPECT_TRUE(same_bytes(last_seen(0), last_seen(5)));
}

class ExpertTies : public ::testing::Test {
 protected:
  /// Six experts, of which `used` are used. Equal rows of the router make ties.
  static TinyArchitecture model(std::uint32_t used, bool all_equal) {
    TinyArchitecture tiny({"ties",
                           "llama",
                           {{"expert_count", kExperts}, {"expert_used_count", used}},
                           expert_tensors(),
                           0});
    tiny.edit = [all_equal](const TinyArchitecture::Tensor& t, std::vector<float>& values) {
      if (t.name.ends_with("ffn_gate_inp.weight")) make_ties(all_equal, values);
    };
    return tiny;
  }
  /// The same with zeros in place of experts [begin, end).
  static TinyArchitecture without(TinyArchitecture tiny, std::size_t begin, std::size_t end) {
    const auto edit = tiny.edit;
    tiny.edit = [=](const TinyArchitecture::Tensor& t, std::vector<float>& values) {
      edit(t, values);
      if (!t.name.ends_with("_exps.weight")) return;
      const std::size_t one = values.size() / kExperts;
      std::fill_n(values.begin() + static_cast<std::ptrdiff_t>(begin * one), (end - begin) * one,
                  0.0F);
    };
    return tiny;
  }
  static std::vector<float> logits(const TinyArchitecture& tiny) {
    return architecture_logits(*tiny.load(), {.n_ctx = 64, .threads = 2}, 24);
  }
  static constexpr std::uint32_t kExperts = 6;

 private:
  /// Copies the first row to all rows, or the first half to the second.
  static void make_ties(bool all_equal, std::vector<float>& values) {
    const std::size_t row = values.size() / kExperts,
                      distinct = all_equal ? row : values.size() / 2;
    for (std::size_t i = distinct; i < values.size(); ++i) values[i] = values[i - distinct];
  }
};

TEST_F(ExpertTies, GoToTheLowerIds) {
  const TinyArchitecture two = model(2, true);
  const std::vector<float> want = logits(two);
  EXPECT_TRUE(same_bytes(logits(without(two, 2, 6)), want)) << "none but the first two are used";
  for (const std::size_t used : {0U, 1U})
    EXPECT_FALSE(same_bytes(logits(without(two, used, used + 1)), want)) << used;
}

// Each of experts 0, 1, 2 is as good as the one three after it, but not as each other.
TEST_F(ExpertTies, GoToTheLowerId) {
  const TinyArchitecture one = model(1, false);
  const std::vector<float> want = logits(one);
  EXPECT_TRUE(same_bytes(logits(without(one, 3, 6)), want));
  for (const std::size_t used : {0U, 1U, 2U})
    EXPECT_FALSE(same_bytes(logits(without(one, used, used + 1)), want)) << used;
}

// The best experts lie in the best groups, so groups change nothing if enough are used.
TEST(Experts, GroupsWithoutABiasCountAsTheirBest) {
  const auto logits_with = [](std::map<std::string, GgufData> keys) {
    return architecture_logits(
        *TinyArchitecture(
             {"groups", "deepseek2", expert_keys(std::move(keys)), expert_tensors(), 0})
             .load(),
        {.n_ctx = 64, .threads = 1}, 24);
  };
  std::map<std::string, GgufData> keys = {{"attention.kv_lora_rank", 32U},
                                          {"attention.key_length", 40U},
                                          {"rope.dimension_count", 8U},
                                          {"expert_gating_func", 1U}};
  const std::vector<float> want = logits_with(keys);
  keys["expert_group_count"] = 3U;
  keys["expert_group_used_count"] = 2U;
  EXPECT_EQ(logits_with(keys), want);
  keys["expert_group_used_count"] = 1U;
  EXPECT_NE(logits_with(keys), want);
}

// The bias chooses the first two, however little their sigmoids are.
TEST(Experts, HandlesZeroWeightSums) {
  TinyArchitecture tiny(architecture_case("glm4moe"));
  tiny.edit = [](const TinyArchitecture::Tensor& t, std::vector<float>& values) {
    if (t.name.ends_with("ffn_gate_inp.weight"))
      for (float& value : values) value *= 1e6F;
    if (t.name.ends_with("exp_probs_b.bias")) values = {10, 10, 0, 0, 0, 0};
  };
  for (const float logit : architecture_logits(*tiny.load(), {.n_ctx = 64, .threads = 1}, 24))
    ASSERT_TRUE(std::isfinite(logit));
}

// A file may say that there is one group, or none, of no experts.
TEST(Experts, GroupsOfNone) {
  TinyArchitecture tiny(architecture_case("deepseek2_split"));
  const std::string want = tiny.load()->graph().to_string();
  tiny.keys["deepseek2.expert_group_count"] = 1U;
  tiny.keys["deepseek2.expert_group_used_count"] = 1U;
  EXPECT_EQ(tiny.load()->graph().to_string(), want);
  tiny.keys["deepseek2.expert_group_count"] = 2U;
  EXPECT_NE(error_of([&] { (void)tiny.load(); }).find("(key deepseek2.expert_group_count)"),
            std::string::npos);
}

// Keys must agree with the fixed router of a family.
TEST(Architecture, RejectsRoutersOfOtherFamilies) {
  struct Says {
    const char* name;
    bool normalized;
    std::uint32_t function;
  };
  for (const Says& family : {Says{"qwen3moe", true, 1}, Says{"qwen2moe", false, 1},
                             Says{"llama4", false, 2}, Says{"gpt_oss", true, 3}}) {
    TinyArchitecture tiny(architecture_case(family.name));
    const std::string norm = tiny.arch + ".expert_weights_norm",
                      function = tiny.arch + ".expert_gating_func";
    const bool decides = family.function != 3;  // softmax of the chosen: sums of 1
    tiny.keys[norm] = family.normalized;
    tiny.keys[function] = family.function;
    EXPECT_NO_THROW((void)tiny.load()) << family.name;
    tiny.keys[function] = 0U;
    EXPECT_NO_THROW((void)tiny.load()) << family.name;
    tiny.keys[function] = 3 - family.function;
    EXPECT_EQ(
        error_of([&] { (void)tiny.load(); }).find("(key " + function + ")") != std::string::npos,
        decides);
    tiny.keys.erase(function);
    tiny.keys[norm] = !family.normalized;
    EXPECT_EQ(error_of([&] { (void)tiny.load(); }).find("(key " + norm + ")") != std::string::npos,
              decides);
  }
}

}  // namespace
}  // namespace cria::test
