// `cria export`, and back again by `cria convert`.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "model/gguf/gguf.h"
#include "model/safetensors/safetensors.h"
#include "tests/tools/hf_directory.h"

namespace cria::test {
namespace {

namespace fs = std::filesystem;

/// A GGUF file of a directory made here.
struct ExportModel {
  TempDirectory in, work;
  std::string path = work.path("model.gguf");

  explicit ExportModel(const HfDirectory& directory, const std::string& type = "auto") {
    const Result result =
        cria({"convert", directory.write(in), "-o", path, "--type", type, "--name", "tiny"});
    EXPECT_EQ(result.code, 0) << result.err;
  }
};

/// Exports with the options, converts back, and expects every byte of the file again.
void expect_identity(const ExportModel& model, std::vector<std::string> options = {}) {
  const std::string directory = model.work.path("hf"), again = model.work.path("again.gguf");
  fs::remove_all(directory);
  options.insert(options.begin(), {"export", model.path, "-o", directory});
  const Result exported = cria(options);
  ASSERT_EQ(exported.code, 0) << exported.err;
  EXPECT_EQ(exported.out.find(directory + ": "), 0U) << exported.out;
  EXPECT_EQ(count_lines(exported.out), 1U) << exported.out;
  const Result converted = cria({"convert", directory, "-o", again, "--name", "tiny"});
  ASSERT_EQ(converted.code, 0) << converted.err;
  EXPECT_EQ(read_file(again) == read_file(model.path), true) << "the same file again";
}

TEST(Export, AndConvertIsTheIdentity) {
  for (const char* type : {"f16", "f32", "bf16"}) {
    HfDirectory directory;
    directory.config["attention_bias"] = true;
    directory.config["rope_scaling"] = {{"rope_type", "llama3"},
                                        {"factor", 8.0},
                                        {"low_freq_factor", 1.0},
                                        {"high_freq_factor", 4.0},
                                        {"original_max_position_embeddings", 8192}};
    directory.add_biases();
    expect_identity(ExportModel(directory, type));
  }
}

TEST(Export, ReportsItsOutputAsJson) {
  const ExportModel model{HfDirectory()};
  const std::string directory = model.work.path("hf");
  const Result result = cria({"export", model.path, "-o", directory, "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json.at("file"), directory);
  EXPECT_EQ(json.at("files"), 1);
  EXPECT_EQ(json.at("tensors"), GgufFile::open(model.path).tensors().size());
  EXPECT_GT(json.at("bytes"), 0);
}

TEST(Export, KeepsSamplingDefaults) {
  const ExportModel model{HfDirectory()};
  const auto set = [&](const std::vector<std::string>& settings) {
    std::vector<std::string> arguments = {"edit", model.path, model.work.path("edited")};
    for (const std::string& setting : settings) {
      arguments.emplace_back("--set");
      arguments.push_back("general.sampling." + setting);
    }
    EXPECT_EQ(cria(arguments).code, 0);
    fs::rename(model.work.path("edited"), model.path);
  };
  set({"temp=f32:0.6", "top_k=i32:20", "top_p=f32:0.95", "min_p=f32:0", "penalty_repeat=f32:1.05"});
  expect_identity(model);
  set({"temp=f32:0"});
  const std::string directory = model.work.path("greedy");
  ASSERT_EQ(cria({"export", model.path, "-o", directory}).code, 0);
  const auto json = nlohmann::json::parse(read_file(directory + "/generation_config.json"));
  EXPECT_EQ(json.at("do_sample"), false);
  EXPECT_EQ(json.at("temperature"), 0);
  expect_identity(model);
}

TEST(Export, IdentityOfOtherModels) {
  HfDirectory qwen;
  qwen.config["architectures"] = {"Qwen2ForCausalLM"};
  qwen.config["tie_word_embeddings"] = true;
  qwen.config["rope_scaling"] = {
      {"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 32}};
  qwen.tensors.erase("lm_head.weight");
  qwen.add_biases();
  expect_identity(ExportModel(qwen));
  HfDirectory mistral;
  mistral.config["architectures"] = {"MistralForCausalLM"};
  mistral.config["sliding_window"] = 100;
  mistral.config["head_dim"] = 32;
  for (auto& [name, shape] : mistral.tensors) {
    if (name.find("q_proj") != std::string::npos) shape[0] = 128;
    if (name.find("k_proj") != std::string::npos || name.find("v_proj") != std::string::npos)
      shape[0] = 64;
    if (name.find("o_proj") != std::string::npos) shape[1] = 128;
  }
  expect_identity(ExportModel(mistral));
}

TEST(Export, InShards) {
  const ExportModel model{HfDirectory{}};
  expect_identity(model, {"--shard-size", "40KB"});
  const std::string directory = model.work.path("hf");
  EXPECT_TRUE(fs::exists(directory + "/model.safetensors.index.json"));
  EXPECT_FALSE(fs::exists(directory + "/model.safetensors"));
  std::size_t files = 0;
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (entry.path().extension() == ".safetensors") {
      ++files;
      EXPECT_LT(fs::file_size(entry), 50'000U);
    }
  }
  EXPECT_GT(files, 3U);
}

TEST(Export, RowsAreHuggingFacesAgain) {
  const ExportModel model{HfDirectory{}};
  ASSERT_EQ(cria({"export", model.path, "-o", model.work.path("hf"), "--type", "f32"}).code, 0);
  const auto weights = SafetensorsDirectory::open(model.work.path("hf"));
  for (const auto& [name, shape] : HfDirectory::shapes()) {
    const SafeTensor* const tensor = weights.tensor(name);
    ASSERT_NE(tensor, nullptr) << name;
    EXPECT_EQ(tensor->shape, shape) << name;
    ASSERT_EQ(tensor->type->name, "F32") << name;
    for (std::uint64_t i = 0; i < tensor->values(); ++i) {
      float value = 0;
      std::memcpy(&value, tensor->data.data() + i * sizeof value, sizeof value);
      ASSERT_EQ(value, HfDirectory::value(name, i)) << name << " " << i;
    }
  }
}

TEST(Export, ConfigHasTheFilesValues) {
  const ExportModel model{HfDirectory{}};
  const std::string directory = model.work.path("hf/");
  ASSERT_EQ(cria({"export", model.path, "-o", directory}).code, 0);
  const auto config = nlohmann::json::parse(read_file(directory + "config.json"));
  const HfDirectory made;
  for (const auto& [key, value] : made.config.items()) EXPECT_EQ(config[key], value) << key;
  EXPECT_EQ(config["model_type"], "llama");
  EXPECT_EQ(config["torch_dtype"], "float16");
  const auto tokenizer = nlohmann::json::parse(read_file(directory + "tokenizer_config.json"));
  EXPECT_EQ(tokenizer["eos_token"], "<|end|>");
  EXPECT_EQ(tokenizer["chat_template"], "{% for m in messages %}{{ m.content }}{% endfor %}");
  EXPECT_EQ(nlohmann::json::parse(read_file(directory + "generation_config.json"))["eos_token_id"],
            257);
}

TEST(Export, RoundTripKeepsThePerplexity) {
  const TempDirectory work;
  const Result exported = cria({"export", kDemo, "-o", work.path("hf")});
  ASSERT_EQ(exported.code, 0) << exported.err;
  ASSERT_EQ(cria({"convert", work.path("hf"), "-o", work.path("demo.gguf")}).code, 0);
  const GgufFile before = GgufFile::open(kDemo), after = GgufFile::open(work.path("demo.gguf"));
  for (const TensorView& tensor : before.tensors()) {
    const TensorView& other = *after.tensor(tensor.name);
    std::vector<float> a(tensor.cols() * tensor.rows()), b(a.size());
    dtype_info(tensor.dtype).dequantize(tensor.data, a.data(), a.size());
    dtype_info(other.dtype).dequantize(other.data, b.data(), b.size());
    EXPECT_EQ(other.dtype, tensor.dtype == DType::F32 ? DType::F32 : DType::F16);
    for (std::size_t i = 0; i < a.size(); ++i)
      ASSERT_NEAR(a[i], b[i], std::abs(a[i]) / 2048 + 6e-8) << tensor.name;
  }
  for (const char* key :
       {"tokenizer.ggml.tokens", "tokenizer.ggml.scores", "tokenizer.ggml.token_type"}) {
    const GgufValue &a = *before.find(key), &b = *after.find(key);
    ASSERT_EQ(a.bytes, b.bytes) << key;
    EXPECT_EQ(std::memcmp(a.data, b.data, a.bytes), 0) << key;
  }
  const std::string text = "Hello, Ἀθῆναι!\n  <|im_end|> 12";
  EXPECT_EQ(cria({"tokenize", "-m", work.path("demo.gguf"), "--ids"}, text).out,
            cria({"tokenize", "-m", kDemo, "--ids"}, text).out);
}

TEST(Export, RejectsANonEmptyDirectory) {
  const TempDirectory work;
  fs::create_directory(work.path("full"));
  work.write("full/mine", "mine");
  const Result result = cria({"export", kDemo, "-o", work.path("full")});
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.err, "cria: error: " + work.path("full") +
                            ": is not empty: expected a new or empty directory\n");
  EXPECT_EQ(std::distance(fs::directory_iterator(work.path("full")), {}), 1);
  const Result file = cria({"export", kDemo, "-o", work.path("full/mine")});
  EXPECT_EQ(file.code, 1);
  EXPECT_NE(file.err.find("is not a directory"), std::string::npos) << file.err;
  const Result nowhere = cria({"export", kDemo, "-o", work.path("no/where")});
  EXPECT_EQ(nowhere.code, 1);
  EXPECT_EQ(nowhere.err, "cria: error: " + work.path("no/where") +
                             ": cannot write: No such file or directory\n");
}

TEST(Export, RejectsOtherFiles) {
  const TempDirectory work;
  const Result result = cria({"export", work.write("x.gguf", "GGUF"), "-o", work.path("hf")});
  EXPECT_EQ(result.code, 1);
  EXPECT_FALSE(fs::exists(work.path("hf")));
}

}  // namespace
}  // namespace cria::test
