#include "engine/convert/hf_config.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>

#include "model/gguf/writer.h"
#include "tests/engine/convert/llama_config.h"
#include "tests/engine/demo.h"
#include "tests/model/temporary_directory.h"

namespace cria::test {
namespace {

const HfClass kClasses[] = {
    {.name = "LlamaForCausalLM", .arch = "llama", .model_type = "llama"},
    {.name = "MistralForCausalLM",
     .arch = "llama",
     .model_type = "mistral",
     .window_by_default = true},
    {.name = "Qwen2ForCausalLM", .arch = "qwen2", .model_type = "qwen2", .attention_bias = true},
    {.name = "Phi3ForCausalLM",
     .arch = "phi3",
     .model_type = "phi3",
     .tied = true,
     .partial_rotation = true,
     .longrope = HfLongRope::Factors,
     .eps = "eps",
     .default_eps = 1e-3F,
     .activations = "gelu relu2"}};

/// Parses the JSON text as a file would be parsed, so that non-negative numbers are unsigned.
HfConfig read_config(const SortedJson& json) {
  return HfConfig::from_json(SortedJson::parse(json.dump()), "config.json", kClasses);
}
std::string config_error_in(const SortedJson& json) {
  return error_of([&] { return read_config(json); });
}

TEST(HfConfig, ReadsTheSizes) {
  const HfConfig config = read_config(llama_config());
  EXPECT_EQ(config.model_class->arch, "llama");
  EXPECT_EQ(config.head_dim, 16U);
  EXPECT_EQ(config.n_kv_heads, 2U);
  EXPECT_EQ(config.norm_eps, 1e-5F);
  EXPECT_EQ(config.rope_base, 10000);
  EXPECT_FALSE(config.tied_embeddings);
  EXPECT_EQ(config.n_rot, 16U);
  SortedJson other = llama_config();
  other.erase("num_key_value_heads");
  other["head_dim"] = 32;
  other["rms_norm_eps"] = nullptr;
  EXPECT_EQ(read_config(other).n_kv_heads, 4U);
  EXPECT_EQ(read_config(other).head_dim, 32U);
  EXPECT_EQ(read_config(other).norm_eps, 1e-6F) << "the classes' default";
}

TEST(HfConfig, ClassesDiffer) {
  SortedJson json = llama_config();
  json["sliding_window"] = 64;
  EXPECT_FALSE(read_config(json).sliding_window);
  json["architectures"] = {"MistralForCausalLM"};
  EXPECT_EQ(read_config(json).sliding_window, 64U);
  EXPECT_FALSE(read_config(json).attention_bias);
  json["architectures"] = {"Qwen2ForCausalLM"};
  EXPECT_TRUE(read_config(json).attention_bias);
  EXPECT_EQ(read_config(json).model_class->arch, "qwen2");
  EXPECT_FALSE(read_config(json).sliding_window) << "Qwen2 must say so";
  json["use_sliding_window"] = false;
  EXPECT_FALSE(read_config(json).sliding_window);
  json["use_sliding_window"] = true;
  EXPECT_EQ(read_config(json).sliding_window, 64U);
}

TEST(HfConfig, RopeScaling) {
  SortedJson json = llama_config();
  json["rope_theta"] = 500000.0;
  json["rope_scaling"] = {{"type", "linear"}, {"factor", 4.0}};
  EXPECT_EQ(read_config(json).rope_base, 500000);
  EXPECT_EQ(read_config(json).rope_scaling.kind, HfRopeScaling::Kind::Linear);
  EXPECT_EQ(read_config(json).rope_scaling.factor, 4);
  json["rope_scaling"] = {
      {"rope_type", "yarn"}, {"factor", 2}, {"original_max_position_embeddings", 32}};
  EXPECT_EQ(read_config(json).rope_scaling.original_context, 32U);
  json["rope_scaling"]["mscale"] = 2.0;
  EXPECT_FALSE(read_config(json).rope_scaling.attention_factor) << "one scale alone says nothing";
  json["rope_scaling"]["mscale_all_dim"] = 2.0;
  EXPECT_EQ(read_config(json).rope_scaling.attention_factor, 1);
  json["rope_scaling"]["mscale_all_dim"] = 0.5;
  EXPECT_NEAR(*read_config(json).rope_scaling.attention_factor,
              (1 + 0.2 * std::log(2)) / (1 + 0.05 * std::log(2)), 1e-15);
  json["rope_scaling"]["attention_factor"] = 3.0;
  EXPECT_EQ(read_config(json).rope_scaling.attention_factor, 3);
  json["rope_scaling"] = {{"rope_type", "dynamic"}, {"factor", 2}};
  EXPECT_EQ(read_config(json).warnings.size(), 1U);
  json["rope_scaling"] = {{"rope_type", "longrope"}};
  EXPECT_NE(config_error_in(json).find("unknown RoPE scaling"), std::string::npos)
      << config_error_in(json);
  json.erase("rope_scaling");
  json["rope_parameters"] = {{"rope_theta", 7.0},
                             {"rope_type", "default"}};  // as transformers 5 writes it
  EXPECT_EQ(read_config(json).rope_base, 7);
}

TEST(HfConfig, FactorsOfLlama3) {
  SortedJson json = llama_config();
  json["head_dim"] = 64;
  json["rope_theta"] = 500000.0;
  json["rope_scaling"] = {{"rope_type", "llama3"},
                          {"factor", 32.0},
                          {"low_freq_factor", 1.0},
                          {"high_freq_factor", 4.0},
                          {"original_max_position_embeddings", 8192}};
  const std::vector<float> factors = read_config(json).rope_factors();
  ASSERT_EQ(factors.size(), 32U);
  for (std::size_t i = 0; i < factors.size(); ++i) {
    const double wave =
        2 * std::numbers::pi * std::pow(500000.0, 2.0 * static_cast<double>(i) / 64);
    if (wave < 8192.0 / 4) {
      EXPECT_EQ(factors[i], 1) << i;
    } else if (wave > 8192.0) {
      EXPECT_EQ(factors[i], 32) << i;
    } else {  // the frequency is a mean of the whole and the slowed one
      const double smooth = (8192 / wave - 1) / 3;
      EXPECT_NEAR(1 / factors[i], (1 - smooth) / 32 + smooth, 1e-6) << i;
      EXPECT_GT(factors[i], 1);
    }
  }
  EXPECT_EQ(factors.front(), 1);
  EXPECT_EQ(factors.back(), 32);
}

TEST(HfConfig, PackingByTensor) {
  SortedJson json = llama_config();
  EXPECT_FALSE(read_config(json).packing_of("lm_head.weight"));
  json["quantization"] = {{"group_size", 64},
                          {"bits", 4},
                          {"lm_head", {{"group_size", 32}, {"bits", 6}}},
                          {"model.embed_tokens", false}};
  const HfConfig config = read_config(json);
  EXPECT_EQ(config.packing_of("model.layers.0.mlp.up_proj.weight")->bits, 4U);
  EXPECT_EQ(config.packing_of("lm_head.weight")->bits, 6U);
  EXPECT_EQ(config.packing_of("lm_head.weight")->group_size, 32U);
  EXPECT_FALSE(config.packing_of("model.embed_tokens.weight"));
}

TEST(HfConfig, NamesTheKeyAtFault) {
  const auto with = [](const char* key, const SortedJson& value) {
    SortedJson json = llama_config();
    json[key] = value;
    return config_error_in(json);
  };
  EXPECT_NE(with("architectures", {"GemmaForCausalLM"})
                .find("got 'GemmaForCausalLM' (key architectures)"),
            std::string::npos);
  EXPECT_NE(with("architectures", SortedJson()).find("unknown class"), std::string::npos);
  EXPECT_EQ(with("hidden_size", SortedJson()), "config.json: missing key (key hidden_size)");
  EXPECT_NE(with("hidden_size", "64").find("expected a number, got \"64\" (key hidden_size)"),
            std::string::npos);
  EXPECT_NE(with("hidden_size", -1).find("(key hidden_size)"), std::string::npos);
  EXPECT_NE(with("hidden_size", 66).find("expected a multiple of the 4 heads"), std::string::npos);
  EXPECT_NE(with("num_hidden_layers", 0).find("expected 1 to 1024, got 0"), std::string::npos);
  EXPECT_NE(with("num_key_value_heads", 3).find("expected a divisor of 4"), std::string::npos);
  EXPECT_NE(with("head_dim", 15).find("even number"), std::string::npos);
  EXPECT_NE(with("rope_theta", -1.0).find("(key rope_theta)"), std::string::npos);
  EXPECT_NE(
      with("rope_scaling", {{"type", "linear"}}).find("factor: missing key (key rope_scaling)"),
      std::string::npos);
  EXPECT_NE(with("mlp_bias", true).find("(key mlp_bias)"), std::string::npos);
  EXPECT_NE(with("hidden_act", "gelu").find("expected silu"), std::string::npos);
  EXPECT_NE(with("tie_word_embeddings", "yes").find("expected true or false"), std::string::npos);
  EXPECT_NE(with("eos_token_id", {1, "x"}).find("bad token id"), std::string::npos);
  EXPECT_NE(with("quantization", {{"bits", 7}}).find("got 7"), std::string::npos);
  EXPECT_NE(with("quantization", {{"bits", 4}, {"mode", "mxfp4"}}).find("expected affine"),
            std::string::npos);
  EXPECT_NE(with("quantization_config", {{"quant_method", "gptq"}}).find("got 'gptq'"),
            std::string::npos);
  EXPECT_NE(config_error_in(SortedJson::array()).find("expected a JSON object"), std::string::npos);
}

/// Writes HfConfig as GGUF keys, reads them and returns the JSON of the export.
SortedJson there_and_back(const SortedJson& json) {
  const HfConfig config = read_config(json);
  const TemporaryDirectory directory;
  GgufWriter writer(directory.file("x.gguf"));
  config.write(writer, NormKind::Rms);
  writer.declare("token_embd.weight", DType::F32, {config.n_embd, config.n_vocab});
  writer.declare("unused.weight", DType::F32, {1});  // at least one tensor per layer
  const std::vector<float> factors = config.rope_factors();
  if (!factors.empty()) writer.declare("rope_freqs.weight", DType::F32, {factors.size()});
  writer.begin();
  writer.write(std::vector<std::byte>(std::size_t{4} * config.n_embd * config.n_vocab));
  writer.write(std::vector<std::byte>(4));
  if (!factors.empty()) writer.write(std::as_bytes(std::span(factors)));
  writer.finish();
  const GgufFile file = GgufFile::open(directory.file("x.gguf"));
  return HfConfig::from_gguf(file, ModelConfig::from_gguf(file), *config.model_class)
      .to_json("float16");
}

TEST(HfConfig, ComesBackFromGguf) {
  SortedJson json = llama_config();
  json["head_dim"] = 32;
  json["rope_theta"] = 1000000.0;
  const SortedJson scalings[] = {nullptr,
                                 {{"rope_type", "linear"}, {"factor", 2.5}},
                                 {{"rope_type", "yarn"},
                                  {"factor", 4.0},
                                  {"original_max_position_embeddings", 32},
                                  {"beta_fast", 16.0}},
                                 {{"rope_type", "llama3"},
                                  {"factor", 8.0},
                                  {"low_freq_factor", 1.0},
                                  {"high_freq_factor", 4.0},
                                  {"original_max_position_embeddings", 8192}}};
  for (const SortedJson& scaling : scalings) {
    json["rope_scaling"] = scaling;
    const SortedJson back = there_and_back(json);
    for (const auto& [key, value] : json.items()) EXPECT_EQ(back[key], value) << key;
    EXPECT_EQ(back["tie_word_embeddings"], true) << "no output.weight";
    EXPECT_EQ(back["torch_dtype"], "float16");
  }
  json["rope_scaling"] = nullptr;
  json["architectures"] = {"MistralForCausalLM"};
  EXPECT_EQ(there_and_back(json)["architectures"], json["architectures"]);
}

TEST(HfConfig, ChecksTheKeysOfAClass) {
  SortedJson json = llama_config();
  json["architectures"] = {"Phi3ForCausalLM"};
  json.erase("rms_norm_eps");
  json["hidden_act"] = "relu2";
  json["partial_rotary_factor"] = 0.75;
  json["original_max_position_embeddings"] = 32;
  json["rope_scaling"] = {
      {"type", "su"}, {"short_factor", {1, 2, 3, 4, 5, 6}}, {"long_factor", {1, 2, 3, 4, 5, 7.5}}};
  const HfConfig config = read_config(json);
  EXPECT_TRUE(config.tied_embeddings);
  EXPECT_EQ(config.norm_eps, 1e-3F);
  EXPECT_EQ(config.n_rot, 12U);
  EXPECT_EQ(config.rope_scaling.long_factors.back(), 7.5F);
  EXPECT_DOUBLE_EQ(config.longrope_magnitude(), std::sqrt(1 + std::log(4.0) / std::log(32.0)));
  json["rope_scaling"]["long_factor"] = {1, 2};
  EXPECT_NE(config_error_in(json).find("long_factor: expected 6 numbers, got 2"),
            std::string::npos);
  json["hidden_act"] = "silu";
  json["rope_scaling"] = nullptr;
  EXPECT_NE(config_error_in(json).find("unknown activation: expected gelu, got 'silu'"),
            std::string::npos);
  json["architectures"] = {"LlamaForCausalLM"};
  EXPECT_NE(config_error_in(json).find("partial rotation of heads is not supported"),
            std::string::npos);
}

TEST(HfTensors, PairsRowsOfHeads) {
  // Heads of 8 rows: pairs (0,4), (1,5), … stand side by side in GGUF.
  const std::uint64_t expected[] = {0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15};
  for (std::uint64_t row = 0; row < 16; ++row) {
    EXPECT_EQ(hf_row(row, 8), expected[row]);
  }
}

}  // namespace
}  // namespace cria::test
