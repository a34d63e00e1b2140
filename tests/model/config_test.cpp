#include "model/config.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "tests/model/tiny_model.h"

namespace cria::test {
namespace {

using U32s = std::vector<std::uint32_t>;

TEST(Config, ReadsLlamaWithDefaults) {
  const ModelConfig config = ModelConfig::from_gguf(TinyModel().open());
  EXPECT_EQ(config.arch, "llama");
  EXPECT_EQ(config.n_ctx_train, 128U);
  EXPECT_EQ(config.n_embd, 64U);
  EXPECT_EQ(config.n_layers, 2U);
  EXPECT_EQ(config.n_heads, (U32s{4, 4}));
  EXPECT_EQ(config.n_kv_heads, (U32s{2, 2}));
  EXPECT_EQ(config.head_dim_k, 16U);
  EXPECT_EQ(config.head_dim_v, 16U);
  EXPECT_EQ(config.n_ff, (U32s{96, 96}));
  EXPECT_EQ(config.n_vocab, 10U);
  EXPECT_EQ(config.norm_eps, 1e-5F);
  EXPECT_EQ(config.n_rot, 16U);
  EXPECT_EQ(config.rope_base, 10000.0F);
  EXPECT_EQ(config.rope_scaling, RopeScaling::None);
  EXPECT_EQ(config.group(1), 2U);
  EXPECT_EQ(config.k_dim(0), 32U);
  EXPECT_TRUE(config.warnings.empty());
}

TEST(Config, ReadsQwen2) {
  TinyModel model("qwen2");
  model.erase("attention.head_count_kv");
  model.key("rope.freq_base") = 1e6F;
  const ModelConfig config = ModelConfig::from_gguf(model.open());
  EXPECT_EQ(config.n_kv_heads, (U32s{4, 4}));
  EXPECT_EQ(config.rope_base, 1e6F);
}

TEST(Config, ReadsHeadsPerLayerAndLengths) {
  TinyModel model;
  model.key("attention.head_count_kv") = GgufArray::of(std::vector<std::int32_t>{4, 1});
  model.key("feed_forward_length") = GgufArray::of(std::vector<std::int32_t>{96, 48});
  model.key("attention.key_length") = 32U;
  model.key("attention.value_length") = 8U;
  model.key("rope.dimension_count") = 20U;
  const ModelConfig config = ModelConfig::from_gguf(model.open());
  EXPECT_EQ(config.n_kv_heads, (U32s{4, 1}));
  EXPECT_EQ(config.q_dim(0), 128U);
  EXPECT_EQ(config.n_ff, (U32s{96, 48}));
  EXPECT_EQ(config.k_dim(1), 32U);
  EXPECT_EQ(config.v_dim(0), 32U);
  EXPECT_EQ(config.n_rot, 20U);
}

TEST(Config, ReadsRopeScaling) {
  TinyModel linear;
  linear.key("rope.scale_linear") = 4.0F;
  EXPECT_EQ(ModelConfig::from_gguf(linear.open()).rope_scaling, RopeScaling::Linear);
  EXPECT_EQ(ModelConfig::from_gguf(linear.open()).rope_factor, 4.0F);

  TinyModel yarn;
  yarn.key("rope.scaling.type") = std::string("yarn");
  yarn.key("rope.scaling.factor") = 8.0F;
  yarn.key("rope.scaling.original_context_length") = 32U;
  yarn.key("rope.scaling.attn_factor") = 0.5F;
  const ModelConfig config = ModelConfig::from_gguf(yarn.open());
  EXPECT_EQ(config.rope_scaling, RopeScaling::Yarn);
  EXPECT_EQ(config.rope_factor, 8.0F);
  EXPECT_EQ(config.rope_orig_ctx, 32U);
  EXPECT_EQ(config.rope_attn_factor, 0.5F);
  EXPECT_EQ(config.yarn_beta_fast, 32.0F);

  yarn.key("rope.scaling.type") = std::string("none");
  EXPECT_EQ(ModelConfig::from_gguf(yarn.open()).rope_scaling, RopeScaling::None);

  TinyModel without_factor;
  without_factor.key("rope.scaling.type") = std::string("linear");
  EXPECT_EQ(ModelConfig::from_gguf(without_factor.open()).rope_scaling, RopeScaling::None);
}

// The magnitude of YaRN as a whole, here 1 + 0.1 ln 8, is what cria computes. Programs that read
// such files ignore any other value.
TEST(Config, WarnsOfAnotherMagnitude) {
  TinyModel yarn;
  yarn.key("rope.scaling.type") = std::string("yarn");
  yarn.key("rope.scaling.factor") = 8.0F;
  yarn.key("rope.scaling.yarn_attn_factor") = 1.2079442F;
  EXPECT_TRUE(ModelConfig::from_gguf(yarn.open()).warnings.empty());
  yarn.key("rope.scaling.yarn_attn_factor") = 1.0F;
  EXPECT_EQ(ModelConfig::from_gguf(yarn.open()).warnings,
            std::vector<std::string>{"rope.scaling.yarn_attn_factor of 1 is not used"});
}

TEST(Config, Warns) {
  TinyModel model;
  model.keys["general.file_type"] = std::string("Q4_0");
  EXPECT_EQ(ModelConfig::from_gguf(model.open()).warnings.size(), 1U);
}

struct ConfigDefect {
  const char* name;
  const char* expected;
  std::function<void(TinyModel&)> apply;
};
void PrintTo(const ConfigDefect& defect, std::ostream* out) { *out << defect.name; }

class BadConfig : public testing::TestWithParam<ConfigDefect> {};

TEST_P(BadConfig, IsRefused) {
  TinyModel model;
  GetParam().apply(model);
  const GgufFile file = model.open();
  const std::string text = error_of([&] { ModelConfig::from_gguf(file); });
  EXPECT_NE(text.find(GetParam().expected), std::string::npos) << text;
  EXPECT_TRUE(text.starts_with(file.path())) << text;
}

template <typename T>
std::function<void(TinyModel&)> with(const char* suffix, T value) {
  return [=](TinyModel& model) { model.key(suffix) = GgufData(value); };
}
std::function<void(TinyModel&)> without(const char* suffix) {
  return [=](TinyModel& model) { model.erase(suffix); };
}
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

INSTANTIATE_TEST_SUITE_P(
    Config, BadConfig,
    testing::Values(
        ConfigDefect{"ArchitectureMissing", "missing key (key general.architecture)",
                     [](TinyModel& m) { m.keys.erase("general.architecture"); }},
        ConfigDefect{"ArchitectureNumber", "expected string, got u32",
                     [](TinyModel& m) { m.keys["general.architecture"] = 1U; }},
        ConfigDefect{"LayersMissing", "missing key (key llama.block_count)",
                     without("block_count")},
        ConfigDefect{"Layers0", "expected 1 to 1024, got 0", with("block_count", 0U)},
        ConfigDefect{"LayersHuge", "expected 1 to 1024", with("block_count", UINT32_MAX)},
        ConfigDefect{"LayersAboveTensors", "more layers than tensors: expected at most 20, got 100",
                     with("block_count", 100U)},
        ConfigDefect{"LayersFloat", "expected an integer, got f32 (key llama.block_count)",
                     with("block_count", 2.0F)},
        ConfigDefect{"Embedding0", "out of range", with("embedding_length", 0U)},
        ConfigDefect{"EmbeddingHuge", "out of range", with("embedding_length", (1U << 20) + 1)},
        ConfigDefect{"EmbeddingNotHeads", "expected a multiple of 4, got 63",
                     with("embedding_length", 63U)},
        ConfigDefect{"Heads0", "out of range", with("attention.head_count", 0U)},
        ConfigDefect{"HeadsHuge", "out of range", with("attention.head_count", 1025U)},
        ConfigDefect{"HeadsBelowKvHeads", "expected a divisor of 1, got 2",
                     with("attention.head_count", GgufArray::of(std::vector<std::int32_t>{4, 1}))},
        ConfigDefect{"KvHeads0", "out of range", with("attention.head_count_kv", 0U)},
        ConfigDefect{"KvHeadsAboveHeads", "expected a divisor of 4, got 8",
                     with("attention.head_count_kv", 8U)},
        ConfigDefect{"KvHeadsNoDivisor", "expected a divisor of 4, got 3",
                     with("attention.head_count_kv", 3U)},
        ConfigDefect{"KvHeadsShort", "one number per layer, 2, got 1",
                     with("attention.head_count_kv", GgufArray::of(std::vector<std::int32_t>{2}))},
        ConfigDefect{
            "KvHeadsNegative", "out of range",
            with("attention.head_count_kv", GgufArray::of(std::vector<std::int32_t>{2, -2}))},
        ConfigDefect{
            "KvHeadsStrings", "expected array of integers",
            with("attention.head_count_kv", GgufArray::of(std::vector<std::string>{"2", "2"}))},
        ConfigDefect{"FeedForward0", "out of range", with("feed_forward_length", 0U)},
        ConfigDefect{"Rot0", "out of range", with("rope.dimension_count", 0U)},
        ConfigDefect{"RotOdd", "odd RoPE dimension", with("rope.dimension_count", 15U)},
        ConfigDefect{"RotAboveHead", "expected 1 to 16, got 18", with("rope.dimension_count", 18U)},
        ConfigDefect{"BaseZero", "above 0", with("rope.freq_base", 0.0F)},
        ConfigDefect{"BaseNan", "above 0", with("rope.freq_base", kNan)},
        ConfigDefect{"BaseInf", "above 0", with("rope.freq_base", kInf)},
        ConfigDefect{"FactorNegative", "above 0", with("rope.scaling.factor", -1.0F)},
        ConfigDefect{"FactorNan", "expected a finite number, got nan",
                     with("rope.scaling.factor", kNan)},
        ConfigDefect{"ScalingUnknown", "expected none, linear, yarn or longrope, got 'odd'",
                     with("rope.scaling.type", std::string("odd"))},
        ConfigDefect{"EpsMissing", "missing key", without("attention.layer_norm_rms_epsilon")},
        ConfigDefect{"EpsNegative", "bad epsilon",
                     with("attention.layer_norm_rms_epsilon", -1e-5F)},
        ConfigDefect{"EpsNan", "bad epsilon", with("attention.layer_norm_rms_epsilon", kNan)},
        ConfigDefect{"Context0", "out of range", with("context_length", 0U)},
        ConfigDefect{"ContextMax", "out of range", with("context_length", UINT32_MAX)},
        ConfigDefect{"ExpertsHuge", "expected 0 to 4096, got 5000", with("expert_count", 5000U)},
        ConfigDefect{"ExpertsOfAllLayers",
                     "too many experts: expected at most 262144 in all layers, got 266240",
                     [](TinyModel& m) {
                       m.key("block_count") = 65U;
                       m.key("expert_count") = 4096U;
                       m.key("expert_used_count") = 8U;
                       for (int i = 0; i < 65; ++i)
                         m.add("x." + std::to_string(i), DType::F32, {8});
                     }},
        ConfigDefect{"ExpertsUsed0", "bad number of experts used", with("expert_count", 8U)},
        ConfigDefect{"VocabularyDisagrees",
                     "fits neither embeddings nor tokens: expected 10, got 11",
                     with("vocab_size", 11U)},
        ConfigDefect{"TokensAboveRows", "more tokens than embeddings: expected at most 10, got 11",
                     [](TinyModel& m) {
                       m.keys["tokenizer.ggml.tokens"] =
                           GgufArray::of(std::vector<std::string>(11, "x"));
                     }}),
    case_name<ConfigDefect>);

}  // namespace
}  // namespace cria::test
