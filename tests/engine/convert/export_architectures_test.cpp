// config.json as `cria export` writes it: it overrides defaults of the class and omits what has no
// place there.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/engine/convert/hf_cases.h"
#include "tests/engine/convert/hf_model.h"
#include "tests/engine/demo.h"

namespace cria::test {
namespace {

nlohmann::json config_in(const std::string& directory) {
  std::ifstream in(directory + "/config.json");
  return nlohmann::json::parse(in);
}
nlohmann::json exported_config(const HfModel& hf) { return config_in(hf.exported()); }

// A type for each layer that is run.
TEST(ExportArchitectures, OmitsTypesOfMtpLayers) {
  HfCase c = hf_case("exaone4");
  c.gguf.keys["block_count"] = 5U;
  c.gguf.keys["nextn_predict_layers"] = 1U;
  c.gguf.tensors = {{"y.padding", {64}}};
  for (const std::size_t length : {4U, 5U}) {
    c.gguf.keys["attention.sliding_window_pattern"] =
        GgufArray::of(std::vector<bool>(length, true));
    const nlohmann::json config = exported_config(HfModel(c));
    EXPECT_EQ(config["num_hidden_layers"], 4);
    EXPECT_EQ(config["layer_types"],
              nlohmann::json(std::vector<std::string>(4, "sliding_attention")));
  }
}

// The exported directory's model computes what the file's does.
void expect_same_graph(HfModel& hf, const std::string& directory) {
  hf.convert(directory, std::nullopt);
  EXPECT_EQ(Model::load(hf.output())->graph().to_string(),
            Model::load(hf.reference())->graph().to_string());
}

// These classes have windows by default, so config.json must say that there are none.
TEST(ExportArchitectures, NoWindows) {
  const nlohmann::json full = std::vector<std::string>(4, "full_attention");
  HfCase exaone = hf_case("exaone4");
  exaone.gguf.keys.clear();
  HfModel without(exaone);
  std::string directory = without.exported();
  nlohmann::json config = config_in(directory);
  EXPECT_EQ(config["layer_types"], full);
  EXPECT_TRUE(config.contains("sliding_window") && config["sliding_window"].is_null());
  expect_same_graph(without, directory);
  for (const char* name : {"gemma3", "olmo3"}) {
    HfCase c = hf_case(name);
    c.gguf.keys["attention.sliding_window"] = 0U;
    c.gguf.keys.erase("attention.sliding_window_pattern");
    HfModel hf(c);
    directory = hf.exported();
    config = config_in(directory);
    EXPECT_EQ(config["layer_types"], full) << name;
    EXPECT_EQ(config["sliding_window"], 256) << name << ": a mask is made by it";
    EXPECT_EQ(config["sliding_window_pattern"], 1) << name;
    expect_same_graph(hf, directory);
  }
}

// A model of 64 layers has windows if its file does not say so.
TEST(ExportArchitectures, NoWindowsOfSixtyFourLayers) {
  HfCase c = hf_case("exaone4");
  c.gguf.keys = {{"attention.sliding_window", 0U}, {"block_count", 64U}};
  const TensorShapes layer = {
      {"attn_q.weight", {64, 64}},          {"attn_k.weight", {64, 32}},
      {"attn_v.weight", {64, 32}},          {"attn_output.weight", {64, 64}},
      {"attn_q_norm.weight", {16}},         {"attn_k_norm.weight", {16}},
      {"post_attention_norm.weight", {64}}, {"ffn_gate.weight", {64, 96}},
      {"ffn_up.weight", {64, 96}},          {"ffn_down.weight", {96, 64}},
      {"post_ffw_norm.weight", {64}}};
  for (int i = 0; i < 64; ++i)
    for (const auto& [name, shape] : layer)
      c.gguf.tensors.push_back({"blk." + std::to_string(i) + "." + name, shape});
  HfModel hf(c);
  const std::string directory = hf.exported();
  expect_same_graph(hf, directory);
  // A missing key differs from null: without it the class uses its default window, and so does the
  // file.
  nlohmann::json config = config_in(directory);
  for (const char* key : {"sliding_window", "layer_types"}) config.erase(key);
  std::ofstream(fs::path(directory) / "config.json") << config;
  hf.convert(directory, std::nullopt);
  const std::string graph = Model::load(hf.output())->graph().to_string();
  EXPECT_NE(graph, Model::load(hf.reference())->graph().to_string());
  EXPECT_NE(graph.find("4096"), std::string::npos) << "of 64 layers";
}

// Fields that the class requires although the GGUF file may omit their keys.
TEST(ExportArchitectures, WhatOtherReadersTakeForGranted) {
  const auto config_of = [](std::string_view name, const std::vector<std::string>& missing = {}) {
    HfCase c = hf_case(name);
    for (const std::string& key : missing) c.gguf.keys.erase(key);
    return exported_config(HfModel(c));
  };
  for (const char* name : {"deepseek_v3", "glm4moe", "dots1"}) {
    const nlohmann::json config =
        config_of(name, {"expert_group_count", "expert_group_used_count"});
    EXPECT_EQ(config["n_group"], 1) << name;
    EXPECT_EQ(config["topk_group"], 1) << name;
  }
  EXPECT_EQ(config_of("deepseek_v2")["scoring_func"], "softmax");
  EXPECT_EQ(config_of("deepseek_v3")["scoring_func"], "sigmoid");
  EXPECT_EQ(config_of("dots1")["scoring_func"], "noaux_tc");
  EXPECT_EQ(config_of("glm4moe")["use_qk_norm"], false);
  EXPECT_EQ(config_of("phimoe")["lm_head_bias"], true);
  EXPECT_EQ(config_of("gpt_oss")["rope_scaling"]["truncate"], false);
  EXPECT_EQ(config_of("llama4")["attn_temperature_tuning"], true);
  const nlohmann::json none = {{"rope_type", "default"}};
  EXPECT_EQ(config_of("apertus")["rope_scaling"], none);
  const std::vector<std::string> yarn = {
      "rope.scaling.type", "rope.scaling.factor", "rope.scaling.original_context_length",
      "rope.scaling.yarn_log_multiplier", "attention.temperature_scale"};
  EXPECT_EQ(config_of("ministral3", yarn)["rope_scaling"], none);
  EXPECT_EQ(config_of("gpt_oss", yarn)["rope_scaling"], none);
}

// The magnitude of rotated values is written explicitly or computed by the class. Converting back
// gives the same value.
TEST(ExportArchitectures, MagnitudesOfYarn) {
  struct Case {
    const char *name, *object;
    std::map<std::string, double> said;  // fields added to the scales, or replacing them
    double want;
  };
  constexpr const char *kOld = "rope_scaling", *kNew = "rope_parameters";
  const double grown = 1 + 0.1 * std::log(4);
  for (const Case& c :
       std::vector<Case>{{"deepseek_v3", kOld, {{"mscale", 1}, {"mscale_all_dim", 1}}, 1},
                         {"deepseek_v3", kOld, {}, grown},
                         {"deepseek_v3", kOld, {{"mscale", 0}, {"mscale_all_dim", 0}}, grown},
                         {"deepseek_v3", kOld, {{"attention_factor", 1.5}}, 1.5},
                         {"ministral3", kNew, {{"mscale", 1}, {"mscale_all_dim", 1}}, 1},
                         {"ministral3", kNew, {{"mscale", 0.5}, {"mscale_all_dim", 0.5}}, 1},
                         {"ministral3", kNew, {}, grown},
                         {"ministral3",
                          kNew,
                          {{"attention_factor", 1.5}, {"mscale", 1}, {"mscale_all_dim", 1}},
                          1.5},
                         {"gpt_oss", kOld, {}, grown},
                         {"gpt_oss", kOld, {{"attention_factor", 1.5}}, 1.5}}) {
    HfModel hf(hf_case(c.name));
    nlohmann::json& scaling = hf.config[c.object];
    for (const char* key : {"mscale", "mscale_all_dim"}) scaling.erase(key);
    for (const auto& [key, value] : c.said) scaling[key] = value;
    const auto magnitude = [&] {
      return static_cast<float>(Model::load(hf.output())->graph().ropes.front().spec().magnitude);
    };
    hf.convert(DType::F32);
    const std::string what = c.name + scaling.dump();
    EXPECT_FLOAT_EQ(magnitude(), static_cast<float>(c.want)) << what;
    fs::copy_file(hf.output(), hf.reference(), fs::copy_options::overwrite_existing);
    hf.convert(hf.exported(), std::nullopt);
    EXPECT_FLOAT_EQ(magnitude(), static_cast<float>(c.want)) << "exported, " << what;
    const nlohmann::json again =
        config_in((fs::path(hf.reference()).parent_path() / "exported").string());
    const nlohmann::json& said = again["rope_scaling"];
    EXPECT_FLOAT_EQ(
        said.value("attention_factor", said.contains("mscale") ? 1.0F : static_cast<float>(grown)),
        static_cast<float>(c.want))
        << "as its class reads it, " << what;
  }
}

TEST(ExportArchitectures, WritesNormsOfHeads) {
  HfCase c = hf_case("glm4moe");
  c.gguf.tensors.push_back({"*.attn_q_norm.weight", {16}});
  c.gguf.tensors.push_back({"*.attn_k_norm.weight", {16}});
  c.names += kQk;
  EXPECT_EQ(exported_config(HfModel(c))["use_qk_norm"], true);
}

// In other classes it has no place.
TEST(ExportArchitectures, BiasOfTheOutput) {
  HfCase c = hf_case("llama");
  c.gguf.tensors = {{"output.bias", {40}}};
  c.names += "output.bias x\n";
  EXPECT_NE(error_of([&] {
              (void)HfModel(c).exported();
            }).find("a directory of LlamaForCausalLM has no such tensor (tensor output.bias)"),
            std::string::npos);
}

// KV heads may differ among the layers of this class; for heads its config.json has one number.
TEST(ExportArchitectures, OneNumberOfHeads) {
  HfCase c = hf_case("gemma4");
  c.gguf.keys["attention.head_count"] = GgufArray::of(std::vector<std::int32_t>{4, 8, 4, 8});
  EXPECT_NE(
      error_of([&] { (void)HfModel(c).exported(); }).find("layers with different numbers of heads"),
      std::string::npos);
}

}  // namespace
}  // namespace cria::test
