// Tests `cria convert` for every class of models. A small random model is written as a GGUF file
// and as a Hugging Face directory, with names listed here independently. Both must give the same
// graph and the same logits.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/convert/hf_class.h"
#include "engine/quantize/quantize.h"
#include "tests/engine/convert/hf_cases.h"
#include "tests/engine/convert/hf_model.h"
#include "tests/engine/demo.h"

namespace cria::test {
namespace {

class ConvertArchitectures : public testing::TestWithParam<HfCase> {};

TEST_P(ConvertArchitectures, SameGraphAndSameLogits) {
  HfModel hf(GetParam());
  hf.convert(DType::F32);
  const auto want = Model::load(hf.reference()), got = Model::load(hf.output());
  EXPECT_EQ(got->graph().to_string(), want->graph().to_string());
  EXPECT_TRUE(got->warnings().empty()) << got->warnings().front();
  SessionOptions options;
  options.n_ctx = 64;
  options.threads = 1;
  EXPECT_EQ(architecture_logits(*got, options, 24), architecture_logits(*want, options, 24));
}

std::vector<float> floats_of(const SafeTensor& tensor) {
  std::vector<float> values(tensor.values());
  dtype_info(*tensor.type->dtype).dequantize(tensor.data.data(), values.data(), values.size());
  return values;
}

// The directory has the names, shapes and values that its makers' have, and says the same again.
TEST_P(ConvertArchitectures, ExportIsTheWayBack) {
  HfModel hf(GetParam());
  const std::string directory = hf.exported();
  const auto weights = SafetensorsDirectory::open(directory);
  EXPECT_EQ(weights.tensors().size(), hf.tensors.size());
  for (const auto& [name, want] : hf.tensors) {
    const SafeTensor* const got = weights.tensor(name);
    ASSERT_NE(got, nullptr) << name;
    EXPECT_EQ(got->shape, want.shape) << name;
    EXPECT_EQ(floats_of(*got), want.values) << name;
  }
  std::ifstream in(directory + "/config.json");
  const nlohmann::json config = nlohmann::json::parse(in);
  EXPECT_EQ(config["architectures"], hf.config["architectures"]);
  hf.convert(directory, std::nullopt);
  const auto want = Model::load(hf.reference()), got = Model::load(hf.output());
  EXPECT_EQ(got->graph().to_string(), want->graph().to_string());
  for (const TensorView& tensor : want->file().tensors()) {
    if (tensor.name.ends_with(".padding")) continue;
    const TensorView* const other = got->file().tensor(tensor.name);
    ASSERT_NE(other, nullptr) << tensor.name;
    ASSERT_EQ(other->bytes, tensor.bytes) << tensor.name;
    EXPECT_EQ(std::memcmp(other->data, tensor.data, tensor.bytes), 0) << tensor.name;
  }
  EXPECT_EQ(architecture_logits(*got, {.n_ctx = 64, .threads = 1}, 24),
            architecture_logits(*want, {.n_ctx = 64, .threads = 1}, 24));
}

// Every tensor is needed, and what is too much is refused.
TEST_P(ConvertArchitectures, TensorsAreNamed) {
  HfModel hf(GetParam());
  hf.tensors["model.layers.0.self_attn.surplus.weight"] = {{2}, {1, 2}};
  EXPECT_THROW(hf.convert(DType::F32), Error);
  hf.tensors.erase("model.layers.0.self_attn.surplus.weight");
  const auto first = std::ranges::find_if(hf.tensors, [](const auto& tensor) {
    return tensor.first.ends_with("o_proj.weight") || tensor.first.ends_with("out_proj.weight") ||
           tensor.first.ends_with("attention.wo.weight") ||
           tensor.first.ends_with("attention.dense.weight");
  });
  ASSERT_NE(first, hf.tensors.end());
  const std::string name = first->first;
  hf.tensors.erase(first);
  try {
    hf.convert(DType::F32);
    ADD_FAILURE() << name;
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("missing tensor (tensor " + name), std::string::npos)
        << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(All, ConvertArchitectures, testing::ValuesIn(hf_cases()),
                         [](const testing::TestParamInfo<HfCase>& test) {
                           return test.param.gguf.name;
                         });

TEST(ConvertArchitectures, EveryClassHasACase) {
  std::set<std::string> tested;
  for (const HfCase& c : hf_cases())
    tested.insert(nlohmann::json::parse(c.config)["architectures"][0].get<std::string>());
  // Encoders have theirs in encoders_test.cpp.
  for (const char* name :
       {"BertModel", "BertForSequenceClassification", "XLMRobertaModel",
        "XLMRobertaForSequenceClassification", "NomicBertModel", "Gemma3TextModel"})
    tested.insert(name);
  for (const HfClass& one : hf_classes())
    EXPECT_TRUE(tested.contains(std::string(one.name))) << one.name;
}

// Falcon-H1's factors are in the weights, the one of tied logits is a key.
TEST(ConvertArchitectures, FactorsBecomePartOfTheWeights) {
  HfModel hf(hf_case("falcon_h1"));
  const std::map<std::string, double> ones = {
      {"embedding_multiplier", 4},     {"lm_head_multiplier", 0.5},      {"key_multiplier", 0.25},
      {"ssm_in_multiplier", 2},        {"attention_in_multiplier", 0.5}, {"ssm_out_multiplier", 8},
      {"attention_out_multiplier", 16}};
  for (const auto& [key, value] : ones) hf.config[key] = value;
  hf.config["mlp_multipliers"] = {0.25, 32};
  hf.config["ssm_multipliers"] = {1, 2, 4, 8, 16};
  hf.convert(DType::F32);
  const GgufFile want = GgufFile::open(hf.reference()), got = GgufFile::open(hf.output());
  const auto expect = [&](const std::string& name, const std::function<float(std::uint64_t)>& of) {
    const TensorView &a = *want.tensor(name), &b = *got.tensor(name);
    const auto* from = reinterpret_cast<const float*>(a.data);
    const auto* to = reinterpret_cast<const float*>(b.data);
    for (std::uint64_t i = 0; i < a.rows() * a.cols(); ++i)
      ASSERT_EQ(to[i], from[i] * of(i / a.cols())) << name << " " << i;
  };
  const std::map<std::string, float> all = {{"token_embd", 4},      {"output", 0.5F},
                                            {"blk.1.attn_q", 0.5F}, {"blk.1.attn_k", 0.125F},
                                            {"blk.1.attn_v", 0.5F}, {"blk.1.attn_output", 16},
                                            {"blk.1.ssm_out", 8},   {"blk.1.ffn_gate", 0.25F},
                                            {"blk.1.ffn_up", 1},    {"blk.1.ffn_down", 32}};
  for (const auto& [name, factor] : all)
    expect(name + ".weight", [factor = factor](std::uint64_t) { return factor; });
  expect("blk.1.ssm_in.weight", [](std::uint64_t row) {
    const std::size_t part = row < 64 ? 0 : row < 128 ? 1 : row < 160 ? 2 : row < 192 ? 3 : 4;
    return std::array{2.0F, 4.0F, 8.0F, 16.0F, 32.0F}.at(part);
  });
  EXPECT_EQ(got.find_float("falcon-h1.logit_scale"), std::nullopt);
  hf.tensors.erase("lm_head.weight");
  hf.config["tie_word_embeddings"] = true;
  hf.convert(DType::F32);
  EXPECT_EQ(GgufFile::open(hf.output()).find_float("falcon-h1.logit_scale"), 0.125F);
}

// Python writes numbers that JSON lacks.
TEST(ConvertArchitectures, ReadsInfinityInConfigs) {
  HfModel hf(hf_case("mamba2"));
  hf.config["time_step_limit"] = {0.0, "Infinity"};
  hf.config["name"] = "\\\"NaN";
  hf.text_of_config = [](std::string text) {
    const std::string quoted = "\"Infinity\"";
    return text.replace(text.find(quoted), quoted.size(), "-Infinity");
  };
  hf.convert(DType::F32);
  EXPECT_EQ(Model::load(hf.output())->config().n_layers, 4U);
  hf.text_of_config = nullptr;
  hf.config["time_step_limit"] = {0.0, 0.1};
  EXPECT_NE(error_of([&] { hf.convert(DType::F32); }).find("expected 0 and Infinity"),
            std::string::npos);
}

// The codes of a block lie in another order; nothing is rounded.
TEST(ConvertArchitectures, PackedExpertsKeepTheirBits) {
  HfModel hf(hf_case("gpt_oss"));
  hf.config["quantization_config"] = {{"quant_method", "mxfp4"}};
  std::map<std::string, std::vector<std::byte>>
      want;  // rows of blocks, as the directory has the rows
  for (const char* const matrix : {"gate_up_proj", "down_proj"}) {
    for (int layer = 0; layer < 4; ++layer) {
      const std::string name = "model.layers." + std::to_string(layer) + ".mlp.experts." + matrix;
      const std::vector<std::uint64_t> shape = hf.tensors.at(name).shape;  // experts, columns, rows
      const std::uint64_t rows = shape[2], cols = shape[1];
      std::vector<std::byte>& blocks = want[name];
      std::string codes, scales;
      for (std::uint64_t e = 0; e < shape[0]; ++e) {
        for (std::uint64_t r = 0; r < rows; ++r) {
          std::vector<float> row(cols);
          for (std::uint64_t i = 0; i < cols; ++i)
            row[i] = hf.tensors.at(name).values[(e * cols + i) * rows + r];
          std::vector<std::byte> encoded(dtype_info(DType::MXFP4).row_bytes(cols));
          available_kernels().back()->encode(DType::MXFP4)(row.data(), nullptr, cols,
                                                           encoded.data());
          for (std::size_t b = 0; b < encoded.size(); b += 17) {
            scales += static_cast<char>(encoded[b]);
            const auto nibble = [&](std::size_t i) {
              const auto byte = static_cast<unsigned>(encoded[b + 1 + i % 16]);
              return i < 16 ? byte & 15 : byte >> 4;
            };
            for (std::size_t i = 0; i < 32; i += 2)
              codes += static_cast<char>(nibble(i) | nibble(i + 1) << 4);
          }
          blocks.insert(blocks.end(), encoded.begin(), encoded.end());
        }
      }
      hf.bytes[name + "_blocks"] = {{shape[0], rows, cols / 32, 16}, codes};
      hf.bytes[name + "_scales"] = {{shape[0], rows, cols / 32}, scales};
      hf.tensors.erase(name);
    }
  }
  hf.convert(std::nullopt);
  const auto model = Model::load(hf.output());
  for (int layer = 0; layer < 4; ++layer) {
    const std::string from = "model.layers." + std::to_string(layer) + ".mlp.experts.",
                      to = "blk." + std::to_string(layer) + ".ffn_";
    const std::vector<std::byte>& both = want.at(from + "gate_up_proj");
    const TensorView &gate = *model->file().tensor(to + "gate_exps.weight"),
                     &up = *model->file().tensor(to + "up_exps.weight"),
                     &down = *model->file().tensor(to + "down_exps.weight");
    ASSERT_EQ(gate.dtype, DType::MXFP4);
    const std::size_t bytes = gate.row_bytes();
    for (std::size_t row = 0; row < gate.rows(); ++row) {
      EXPECT_EQ(std::memcmp(gate.data + row * bytes, both.data() + 2 * row * bytes, bytes), 0)
          << row;
      EXPECT_EQ(std::memcmp(up.data + row * bytes, both.data() + (2 * row + 1) * bytes, bytes), 0)
          << row;
    }
    EXPECT_EQ(std::memcmp(down.data, want.at(from + "down_proj").data(), down.bytes), 0);
  }
}

// Packed, alone or as MLX stacks them, they are the values that their codes stand for.
TEST(ConvertArchitectures, ReadsExpertsPackedByMlx) {
  for (const char* model : {"qwen3moe", "mixtral", "qwen2moe"}) {  // qwen2moe also has biases
    HfModel plain(hf_case(model));
    std::map<std::string, HfModel::Bytes> alone, stacked;
    std::set<std::string> packed;
    for (auto& [name, tensor] : plain.tensors) {
      const std::size_t number = name.find(".experts.");
      if (number == std::string::npos && !name.ends_with("self_attn.q_proj.weight")) continue;
      packed.insert(name);
      const std::uint64_t rows = tensor.shape[0], cols = tensor.shape[1];
      std::string codes;
      std::vector<float> scales(rows * cols / 32, 1.0F / 64), biases(scales.size(), -2);
      for (float& value : tensor.values) {
        const double code = std::clamp(std::round((double{value} + 2) * 64), 0.0, 255.0);
        codes += static_cast<char>(static_cast<unsigned char>(code));
        value = static_cast<float>(code / 64 - 2);
      }
      const std::string base = name.substr(0, name.rfind('.'));
      const std::map<std::string, std::string> matrices = {
          {"w1", "gate_proj"}, {"w2", "down_proj"}, {"w3", "up_proj"}};
      std::string matrix = base.substr(base.rfind('.') + 1);
      if (const auto other = matrices.find(matrix); other != matrices.end()) matrix = other->second;
      const bool stacks = number != std::string::npos;
      const std::string all = stacks ? name.substr(0, number) + ".switch_mlp." + matrix : base;
      const auto put = [&](const std::string& ending, const std::string& values,
                           std::uint64_t length, const char* type) {
        alone[base + ending] = {{rows, length}, values, type};
        HfModel::Bytes& to = stacked[all + ending];
        to.shape = {rows, length};
        if (stacks) to.shape.insert(to.shape.begin(), to.values.size() / values.size() + 1);
        to.values += values;
        to.type = type;
      };
      put(".weight", codes, cols / 4, "U32");
      put(".scales", bytes_of(scales), cols / 32, "F32");
      put(".biases", bytes_of(biases), cols / 32, "F32");
    }
    plain.convert(DType::F32);
    std::ifstream file(plain.output(), std::ios::binary);
    const std::string want{std::istreambuf_iterator<char>(file), {}};
    for (const std::string& name : packed) plain.tensors.erase(name);
    plain.config["quantization"] = {{"group_size", 32}, {"bits", 8}};
    for (const auto& bytes : {alone, stacked}) {
      plain.bytes = bytes;
      plain.convert(DType::F32);
      std::ifstream again(plain.output(), std::ios::binary);
      EXPECT_TRUE(std::string(std::istreambuf_iterator<char>(again), {}) == want) << model;
    }
    for (const char* ending : {"weight", "scales", "biases"}) {
      plain.bytes = stacked;
      HfModel::Bytes& part = std::ranges::find_if(plain.bytes, [&](const auto& bytes) {
                               return bytes.first.ends_with(ending);
                             })->second;
      std::swap(part.shape[0], part.shape[1]);
      EXPECT_NE(error_of([&] { plain.convert(DType::F32); }), "") << ending;
    }
  }
}

TEST(ConvertArchitectures, RejectsContradictorySizes) {
  HfModel hf(hf_case("qwen3moe"));
  const auto error_with = [&](const char* key, std::uint32_t value) -> std::string {
    const nlohmann::json kept = hf.config;
    hf.config[key] = value;
    try {
      hf.convert(DType::F32);
    } catch (const Error& error) {
      hf.config = kept;
      return error.what();
    }
    return "";
  };
  EXPECT_NE(error_with("num_experts", 4096)
                .find("wrong number or width of experts: expected 4096 of 32 (tensor "
                      "model.layers.0.mlp.experts.0.down_proj"),
            std::string::npos);
  EXPECT_NE(error_with("num_hidden_layers", 1024).find("more layers than tensors"),
            std::string::npos);
  EXPECT_NE(error_with("moe_intermediate_size", 64)
                .find("wrong number or width of experts: expected 6 of 64"),
            std::string::npos);
  EXPECT_NE(error_with("num_experts_per_tok", 7).find("expert_used_count"), std::string::npos);
}

TEST(ConvertArchitectures, BiasesOfFeedForwardParts) {
  HfModel said(hf_case("llama"));
  said.config["mlp_bias"] = true;
  EXPECT_NE(error_of([&] {
              said.convert(DType::F32);
            }).find("missing tensor (tensor model.layers.0.mlp.up_proj.bias)"),
            std::string::npos);
  HfCase c = hf_case("mistral");  // Mistral's class has none
  c.gguf.tensors = {{"*.ffn_up.bias", {96}}};
  EXPECT_THROW((void)HfModel(c).exported(), Error);
}

// Newer files have keys, transposed, and values of a head in tensors of their own.
TEST(ConvertArchitectures, NewerLatentFilesAreExported) {
  HfCase c = hf_case("deepseek_v2");
  c.gguf.tensors.push_back({"*.attn_k_b.weight", {16, 32, 4}});
  c.gguf.tensors.push_back({"*.attn_v_b.weight", {32, 16, 4}});
  c.names += "attn_k_b none x\nattn_v_b none x\n";
  const HfModel hf(c);
  const GgufFile file = GgufFile::open(hf.reference());
  ASSERT_EQ(file.tensor("blk.0.attn_kv_b.weight"), nullptr);
  const auto values_of = [&](const char* name) {
    std::vector<float> values(std::size_t{16} * 32 * 4);
    std::memcpy(values.data(), file.tensor(name)->data, values.size() * sizeof(float));
    return values;
  };
  const std::vector<float> k = values_of("blk.3.attn_k_b.weight"),
                           v = values_of("blk.3.attn_v_b.weight");
  const auto weights = SafetensorsDirectory::open(hf.exported());
  const SafeTensor& both = *weights.tensor("model.layers.3.self_attn.kv_b_proj.weight");
  EXPECT_EQ(both.shape, (std::vector<std::uint64_t>{128, 32}));
  const std::vector<float> got = floats_of(both);
  for (std::size_t head = 0; head < 4; ++head) {
    for (std::size_t row = 0; row < 16; ++row) {
      for (std::size_t i = 0; i < 32; ++i) {
        EXPECT_EQ(got[(head * 32 + row) * 32 + i], k[(head * 32 + i) * 16 + row]);
        EXPECT_EQ(got[(head * 32 + 16 + row) * 32 + i], v[(head * 16 + row) * 32 + i]);
      }
    }
  }
}

// Version 5 of transformers writes one rotation per type of layers.
TEST(ConvertArchitectures, RotationsOfEachTypeOfLayers) {
  HfModel hf(hf_case("gemma3"));
  for (const char* key :
       {"rope_theta", "rope_local_base_freq", "rope_scaling", "sliding_window_pattern"})
    hf.config.erase(key);
  hf.config["layer_types"] = {"sliding_attention", "full_attention", "sliding_attention",
                              "full_attention"};
  nlohmann::json& ropes = hf.config["rope_parameters"];
  nlohmann::json& full = ropes["full_attention"];
  nlohmann::json& sliding = ropes["sliding_attention"];
  full = {{"rope_type", "linear"}, {"factor", 8.0}, {"rope_theta", 1000000.0}};
  sliding = {{"rope_type", "default"}, {"rope_theta", 20000.0}};
  const auto bases = [&] {
    hf.convert(DType::F32);
    const GgufFile file = GgufFile::open(hf.output());
    return std::pair(*file.find_float("gemma3.rope.freq_base"),
                     *file.find_float("gemma3.rope.freq_base_swa"));
  };
  EXPECT_EQ(bases(), std::pair(1e6, 2e4));
  const auto want = Model::load(hf.reference()), got = Model::load(hf.output());
  EXPECT_EQ(got->graph().to_string(), want->graph().to_string());
  EXPECT_EQ(architecture_logits(*got, {.n_ctx = 64, .threads = 1}, 24),
            architecture_logits(*want, {.n_ctx = 64, .threads = 1}, 24));
  full["rope_theta"] = 500000.0;
  EXPECT_EQ(bases(), std::pair(5e5, 2e4));
  full.erase("rope_theta");
  sliding.erase("rope_theta");
  EXPECT_EQ(bases(), std::pair(1e6, 1e4)) << "what the class means without them";

  const nlohmann::json good = ropes;
  const auto error_with = [&](const char* type, const nlohmann::json& rope) {
    ropes = good;
    ropes[type] = rope;
    try {
      hf.convert(DType::F32);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  for (const nlohmann::json& bad :
       {nlohmann::json(7), nlohmann::json{{"rope_type", "linear"}, {"factor", 2.0}},
        nlohmann::json{{"rope_theta", "x"}}, nlohmann::json{{"rope_theta", -1.0}},
        nlohmann::json{{"rope_theta", 10000.0}, {"partial_rotary_factor", 0.5}}})
    EXPECT_NE(error_with("sliding_attention", bad).find("(key rope_parameters)"), std::string::npos)
        << bad;
  EXPECT_NE(error_with("full_attention", nullptr).find("full_attention: expected an object"),
            std::string::npos);
  hf.config["architectures"] = {"Gemma2ForCausalLM"};  // one base is all that it has
  EXPECT_NE(
      error_with("full_attention", good["full_attention"]).find("RoPE that differs by layer type"),
      std::string::npos);
}

// Frequencies that are not rotated are a tensor in GGUF, and one number in config.json.
TEST(ConvertArchitectures, HeadsRotatedInPartByFactors) {
  HfModel hf(hf_case("gemma4"));
  nlohmann::json& full = hf.config["rope_parameters"]["full_attention"];
  full = {
      {"rope_type", "proportional"}, {"partial_rotary_factor", 0.25}, {"rope_theta", 1000000.0}};
  for (const char* part : {"k_proj", "v_proj", "k_norm"})  // this layer shares keys and values
    hf.tensors["model.layers.3.self_attn." + std::string(part) + ".weight"] = {{2}, {1, 2}};
  hf.convert(DType::F32);
  EXPECT_EQ(hf.warnings,
            std::vector<std::string>{"3 tensors ignored in layers that share keys and values"});
  {
    const GgufFile file = GgufFile::open(hf.output());
    const TensorView* const tensor = file.tensor("rope_freqs.weight");
    ASSERT_NE(tensor, nullptr);
    std::vector<float> want(16, 1e30F), got(tensor->cols());
    std::fill_n(want.begin(), 4, 1.0F);
    std::memcpy(got.data(), tensor->data, tensor->bytes);
    EXPECT_EQ(got, want);
  }
  fs::copy_file(hf.output(), hf.reference(), fs::copy_options::overwrite_existing);
  std::ifstream in(hf.exported() + "/config.json");
  EXPECT_EQ(nlohmann::json::parse(in)["rope_parameters"], hf.config["rope_parameters"]);

  const auto error_with = [&](const char* key, const nlohmann::json& value) {
    const nlohmann::json kept = std::exchange(full[key], value);
    try {
      hf.convert(DType::F32);
    } catch (const Error& error) {
      full[key] = kept;
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(error_with("partial_rotary_factor", 1.5).find("out of range: expected at most 1"),
            std::string::npos);
  EXPECT_NE(error_with("factor", 2.0).find("factor: not supported with a partial rotation"),
            std::string::npos);
}

// The text model of a model for pictures, by both kinds of names.
TEST(ConvertArchitectures, TextModelsWithinOthers) {
  for (const bool newer : {false, true}) {
    HfModel hf(hf_case("gemma3"));
    nlohmann::json text = hf.config;
    for (const char* key : {"architectures", "rope_theta", "bos_token_id", "eos_token_id"})
      text.erase(key);
    text["model_type"] = "gemma3_text";
    hf.config = {{"architectures", {"Gemma3ForConditionalGeneration"}},
                 {"model_type", "gemma3"},
                 {"bos_token_id", 0},
                 {"eos_token_id", {1}},
                 {"vision_config", {{"hidden_size", 8}}},
                 {"text_config", text}};
    HfTensors renamed;
    for (auto& [name, tensor] : hf.tensors) {
      const bool inner = name.starts_with("model.");
      const std::string longer = !newer  ? "language_model." + name
                                 : inner ? "model.language_model." + name.substr(6)
                                         : name;
      renamed[longer] = std::move(tensor);
    }
    renamed[newer ? "model.vision_tower.patch.weight" : "vision_tower.patch.weight"] = {{2},
                                                                                        {1, 2}};
    hf.tensors = std::move(renamed);
    hf.convert(DType::F32);
    EXPECT_EQ(hf.warnings, std::vector<std::string>{"vision and audio tensors are ignored"});
    const auto want = Model::load(hf.reference()), got = Model::load(hf.output());
    EXPECT_EQ(architecture_logits(*got, {.n_ctx = 64, .threads = 1}, 24),
              architecture_logits(*want, {.n_ctx = 64, .threads = 1}, 24));
    hf.config["text_config"]["model_type"] = "unheard_of";
    EXPECT_THROW(hf.convert(DType::F32), Error);
  }
}

// LLaVA's text model says only what differs from transformers' ModelConfig.
TEST(ConvertArchitectures, DerivesOmittedSizes) {
  HfCase c = hf_case("llama");
  for (const char* key : {"head_count", "head_count_kv"})
    c.gguf.keys["attention." + std::string(key)] = 32U;
  for (const char* key : {"attention.key_length", "attention.value_length", "rope.dimension_count"})
    c.gguf.keys[key] = 2U;
  c.names = kEnds + kNorms + kAttention + kMlp;  // rows of a head of one pair stand as they are
  HfModel hf(c);
  nlohmann::json text = hf.config;
  for (const char* key :
       {"architectures", "num_attention_heads", "num_key_value_heads", "head_dim"})
    text.erase(key);
  text["model_type"] = "llama";
  hf.config = {{"architectures", {"LlavaForConditionalGeneration"}}, {"text_config", text}};
  hf.convert(DType::F32);
  EXPECT_EQ(architecture_logits(*Model::load(hf.output()), {.n_ctx = 64, .threads = 1}, 24),
            architecture_logits(*Model::load(hf.reference()), {.n_ctx = 64, .threads = 1}, 24));
  const auto error_without = [&](const char* key) {
    hf.config["text_config"] = text;
    hf.config["text_config"].erase(key);
    return error_of([&] { hf.convert(DType::F32); });
  };
  EXPECT_NE(error_without("num_hidden_layers").find("missing tensor (tensor model.layers.4."),
            std::string::npos);
  EXPECT_NE(error_without("hidden_size").find("expected [40, 4096], got [40, 64]"),
            std::string::npos);
  EXPECT_NE(error_without("intermediate_size").find("expected [11008, 64], got [96, 64]"),
            std::string::npos);
}

// cria derives these keys from the tensors or uses a default; other readers require them.
TEST(ConvertArchitectures, WritesKeysForOtherReaders) {
  const auto number = [](std::string_view name, const std::string& key) {
    HfModel hf(hf_case(name));
    hf.convert(DType::F32);
    return GgufFile::open(hf.output()).find_uint(key);
  };
  EXPECT_EQ(number("phi4", "phi3.attention.sliding_window"), 0U);
  EXPECT_EQ(number("ernie4_5_moe", "ernie4_5-moe.expert_shared_feed_forward_length"), 64U);
  EXPECT_EQ(number("hunyuan_moe", "hunyuan-moe.expert_shared_feed_forward_length"), 96U);
  EXPECT_EQ(number("command_r", "command-r.context_length"), 256U);
  HfModel hf(hf_case("minicpm_longrope"));
  hf.convert(DType::F32);
  EXPECT_EQ(GgufFile::open(hf.output()).find_string("minicpm.rope.scaling.type"), "longrope");
}

// With positions, and without a layer of another kind.
TEST(ConvertArchitectures, AcceptsLayersOfFullAttention) {
  HfModel hf(hf_case("granite_hybrid"));
  const auto rotates = [&](const nlohmann::json& positions) {
    hf.config["position_embedding_type"] = positions;
    hf.convert(DType::F32);
    return Model::load(hf.output())->graph().to_string().find("no rope") == std::string::npos;
  };
  EXPECT_TRUE(rotates("rope"));
  EXPECT_FALSE(rotates("nope"));
  EXPECT_FALSE(rotates(nullptr));
  const nlohmann::json good = hf.config;
  const auto error_with = [&](const char* key, const nlohmann::json& value) {
    hf.config = good;
    hf.config[key] = value;
    return error_of([&] { hf.convert(DType::F32); });
  };
  const std::string says =
      "not supported here: expected attention for each layer (key layer_types)";
  EXPECT_NE(error_with("layer_types", {"attention", "attention", "mamba", "attention"})
                .find("missing key (key mamba_d_conv)"),
            std::string::npos)
      << "another class of this name";
  EXPECT_NE(error_with("layer_types", {"attention"}).find(says), std::string::npos);
  EXPECT_NE(error_with("layer_types", nullptr).find(says), std::string::npos);
  EXPECT_NE(error_with("num_local_experts", 8).find("num_local_experts"), std::string::npos);
}

TEST(ConvertArchitectures, OtherRoutersAndRotations) {
  const auto error_with = [](const char* name, const char* key, const nlohmann::json& value) {
    HfModel hf(hf_case(name));
    hf.config[key] = value;
    return error_of([&] { hf.convert(DType::F32); });
  };
  EXPECT_EQ(error_with("deepseek_v2", "scoring_func", "softmax"), "");
  EXPECT_NE(error_with("deepseek_v2", "scoring_func", "sigmoid").find("(key scoring_func)"),
            std::string::npos);
  EXPECT_EQ(error_with("deepseek_v3", "scoring_func", "sigmoid"), "");
  EXPECT_NE(
      error_with("deepseek_v3", "scoring_func", "softmax").find("expected sigmoid, got 'softmax'"),
      std::string::npos);
  EXPECT_EQ(error_with("deepseek_v3", "rope_interleave", true), "");
  EXPECT_NE(error_with("deepseek_v3", "rope_interleave", false).find("(key rope_interleave)"),
            std::string::npos);
}

// Older directories have a number there.
TEST(ConvertArchitectures, QueriesOfLlama4GrowWithThePosition) {
  const auto error_with = [](const nlohmann::json& value) {
    HfModel hf(hf_case("llama4"));
    hf.config["attn_temperature_tuning"] = value;
    return error_of([&] { hf.convert(DType::F32); });
  };
  for (const nlohmann::json& on : {nlohmann::json(true), nlohmann::json(4), nlohmann::json()})
    EXPECT_EQ(error_with(on), "");
  for (const nlohmann::json& off : {nlohmann::json(false), nlohmann::json(0)})
    EXPECT_NE(error_with(off).find("(key attn_temperature_tuning)"), std::string::npos);
}

TEST(ConvertArchitectures, DefaultsOfPartialRotation) {
  for (const auto& [name, rotated] : std::map<std::string, std::uint64_t>{
           {"glm4", 8}, {"glm4moe", 8}, {"nemotron", 8}, {"stablelm", 4}}) {
    HfModel hf(hf_case(name));
    hf.config.erase("partial_rotary_factor");
    hf.convert(DType::F32);
    EXPECT_EQ(GgufFile::open(hf.output()).find_uint(name + ".rope.dimension_count"), rotated)
        << name;
  }
}

// Whatever the length of a window, if no layer has one.
TEST(ConvertArchitectures, NoWindows) {
  for (const std::string name : {"gemma3", "olmo3"}) {
    HfModel hf(hf_case(name));
    for (const char* key : {"sliding_window_pattern", "rope_scaling"}) hf.config.erase(key);
    hf.config["layer_types"] = std::vector<std::string>(4, "full_attention");
    hf.convert(DType::F32);
    const auto model = Model::load(hf.output());
    EXPECT_EQ(model->graph().to_string().find("window"), std::string::npos) << name;
    const std::string prefix = model->config().arch + ".attention.sliding_window";
    EXPECT_EQ(model->file().find(prefix + "_pattern"), nullptr);
    EXPECT_EQ(model->file().find_uint(prefix),
              name == "gemma3" ? std::optional(std::uint64_t{0}) : std::nullopt);
  }
}

// There is one key in GGUF.
TEST(ConvertArchitectures, MagnitudesOfShortAndLongContexts) {
  HfModel hf(hf_case("phimoe"));
  hf.config["rope_scaling"]["short_mscale"] = 1.25;
  EXPECT_NE(error_of([&] {
              hf.convert(DType::F32);
            }).find("short_mscale: expected the same as long_mscale (key rope_scaling)"),
            std::string::npos);
}

TEST(ConvertArchitectures, TiesEmbeddingsByDefault) {
  HfModel hf(hf_case("minicpm"));
  hf.config.erase("tie_word_embeddings");
  hf.tensors.erase("lm_head.weight");
  hf.convert(DType::F32);
  EXPECT_EQ(GgufFile::open(hf.output()).tensor("output.weight"), nullptr);
}

TEST(ConvertArchitectures, OmitsMtpLayers) {
  for (const auto& [name, tensor] :
       {std::pair("glm4moe", "model.layers.4.enorm.weight"),
        std::pair("ernie4_5_moe", "model.mtp_block.0.mlp.up_proj.weight")}) {
    HfModel hf(hf_case(name));
    hf.tensors[tensor] = {{64}, std::vector<float>(64)};
    hf.convert(DType::F32);
    EXPECT_EQ(hf.warnings,
              std::vector<std::string>{"MTP layers (multi-token prediction) are ignored"});
  }
}

// Rows of this type begin with four bytes that belong to all of their blocks.
TEST(ConvertArchitectures, ColumnsOfRowsWithAHeader) {
  HfCase c = hf_case("llama4");
  for (auto& [name, shape] : c.gguf.tensors)
    if (name.find("ffn_down_") != std::string::npos) shape.front() = 512;
  const HfModel hf(c);
  {
    const GgufFile file = GgufFile::open(hf.reference());
    QuantizeOptions options;
    options.mix = find_mix("IQ4_KS");
    options.pure = true;
    const QuantizePlan plan = plan_quantize(file, options);
    GgufWriter writer(hf.output());
    declare(writer, file, plan);
    ASSERT_TRUE(quantize(file, plan, writer, {}));
  }
  fs::rename(hf.output(), hf.reference());
  const SafetensorsDirectory directory = SafetensorsDirectory::open(hf.exported(DType::F32));
  const SafeTensor* const got = directory.tensor("model.layers.1.feed_forward.experts.down_proj");
  ASSERT_NE(got, nullptr);
  ASSERT_EQ(got->shape, (std::vector<std::uint64_t>{6, 512, 64}));
  const GgufFile file = GgufFile::open(hf.reference());
  const TensorView& rows = *file.tensor("blk.1.ffn_down_exps.weight");
  ASSERT_EQ(rows.dtype, DType::IQ4_KS);
  std::vector<float> want(512), columns(got->values());
  std::memcpy(columns.data(), got->data.data(), got->data.size());
  for (std::size_t row = 0; row < rows.rows(); ++row) {
    dtype_info(rows.dtype).dequantize(rows.data + row * rows.row_bytes(), want.data(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i)
      ASSERT_EQ(columns[(row / 64 * 512 + i) * 64 + row % 64], want[i])
          << "row " << row << ", value " << i;
  }
}

}  // namespace
}  // namespace cria::test
