// `cria convert` on directories made here.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "model/gguf/gguf.h"
#include "tests/tools/hf_directory.h"

namespace cria::test {
namespace {

/// A tensor's values.
std::vector<float> tensor_values(const GgufFile& file, const std::string& name) {
  const TensorView& tensor = *file.tensor(name);
  std::vector<float> out(tensor.cols() * tensor.rows());
  dtype_info(tensor.dtype).dequantize(tensor.data, out.data(), out.size());
  return out;
}

/// The row of a Hugging Face matrix that stands in a row of llama's: pairs (i, i+8) of a head side
/// by side.
std::uint64_t paired_row(std::uint64_t row) { return row / 16 * 16 + row % 16 / 2 + row % 2 * 8; }
std::uint64_t same_row(std::uint64_t row) { return row; }

void expect_values(const GgufFile& file, const std::string& gguf, const std::string& hf,
                   std::uint64_t (*row)(std::uint64_t) = same_row) {
  const std::vector<float> got = tensor_values(file, gguf);
  const std::uint64_t cols = file.tensor(gguf)->shape.size() == 1 ? 1 : file.tensor(gguf)->cols();
  for (std::uint64_t i = 0; i < got.size(); ++i)
    ASSERT_EQ(got[i], HfDirectory::value(hf, row(i / cols) * cols + i % cols)) << gguf << " " << i;
}

struct Converted {
  TempDirectory in, out;
  Result result;
  std::string path;

  explicit Converted(const HfDirectory& directory, std::vector<std::string> options = {},
                     std::size_t shards = 1) {
    path = out.path("x.gguf");
    options.insert(options.begin(),
                   {"convert", directory.write(in, shards), "-o", path, "--name", "tiny"});
    result = cria(options);
  }
  [[nodiscard]] GgufFile open() const { return GgufFile::open(path); }
  [[nodiscard]] bool left_nothing() const { return std::filesystem::is_empty(out.path()); }
};

TEST(Convert, LlamaByteForByte) {
  const Converted converted{HfDirectory{}};
  ASSERT_EQ(converted.result.code, 0) << converted.result.err;
  EXPECT_EQ(converted.result.err, "");
  EXPECT_NE(converted.result.out.find("x.gguf: 21 tensors, "), std::string::npos)
      << converted.result.out;
  const GgufFile file = converted.open();
  EXPECT_EQ(file.get_string("general.architecture"), "llama");
  EXPECT_EQ(file.get_string("general.name"), "tiny");
  EXPECT_EQ(file.get_uint("general.file_type"), 1U);
  EXPECT_EQ(file.get_uint("llama.block_count"), 2U);
  EXPECT_EQ(file.get_uint("llama.attention.head_count_kv"), 2U);
  EXPECT_EQ(file.get_uint("llama.rope.dimension_count"), 16U);
  EXPECT_EQ(file.get_uint("llama.context_length"), 128U);
  EXPECT_EQ(static_cast<float>(file.get_float("llama.attention.layer_norm_rms_epsilon")), 1e-5F);
  EXPECT_EQ(file.tensor("blk.0.attn_q.weight")->dtype, DType::F16);
  EXPECT_EQ(file.tensor("blk.0.attn_norm.weight")->dtype, DType::F32);
  expect_values(file, "token_embd.weight", "model.embed_tokens.weight");
  expect_values(file, "output.weight", "lm_head.weight");
  expect_values(file, "output_norm.weight", "model.norm.weight");
  expect_values(file, "blk.1.attn_q.weight", "model.layers.1.self_attn.q_proj.weight", paired_row);
  expect_values(file, "blk.1.attn_k.weight", "model.layers.1.self_attn.k_proj.weight", paired_row);
  expect_values(file, "blk.1.attn_v.weight", "model.layers.1.self_attn.v_proj.weight");
  expect_values(file, "blk.1.attn_output.weight", "model.layers.1.self_attn.o_proj.weight");
  expect_values(file, "blk.1.attn_norm.weight", "model.layers.1.input_layernorm.weight");
  expect_values(file, "blk.1.ffn_norm.weight", "model.layers.1.post_attention_layernorm.weight");
  expect_values(file, "blk.1.ffn_gate.weight", "model.layers.1.mlp.gate_proj.weight");
  expect_values(file, "blk.1.ffn_up.weight", "model.layers.1.mlp.up_proj.weight");
  expect_values(file, "blk.1.ffn_down.weight", "model.layers.1.mlp.down_proj.weight");
}

TEST(Convert, TheTokenizer) {
  HfDirectory directory;
  directory.tokenizer_config["pad_token"] = "<|end|>";
  const Converted converted(directory);
  ASSERT_EQ(converted.result.code, 0) << converted.result.err;
  const GgufFile file = converted.open();
  EXPECT_EQ(file.get_string("tokenizer.ggml.model"), "gpt2");
  EXPECT_EQ(file.get_string("tokenizer.ggml.pre"), "gpt-2");
  EXPECT_EQ(file.get_uint("tokenizer.ggml.bos_token_id"), 256U);
  EXPECT_EQ(file.get_uint("tokenizer.ggml.eos_token_id"), 257U);
  EXPECT_EQ(file.get_uint("tokenizer.ggml.padding_token_id"), 257U);
  EXPECT_EQ(file.find_bool("tokenizer.ggml.add_bos_token"), true);
  EXPECT_EQ(file.get_string("tokenizer.chat_template"),
            "{% for m in messages %}{{ m.content }}{% endfor %}");
  const auto tokens = *file.find_strings("tokenizer.ggml.tokens");
  ASSERT_EQ(tokens.size(), HfDirectory::kVocabulary) << "as many as embeddings";
  EXPECT_EQ(tokens[269], "[PAD269]");
  EXPECT_EQ((*file.find_ints("tokenizer.ggml.token_type"))[269], 5);
  EXPECT_EQ((*file.find_ints("tokenizer.ggml.token_type"))[256], 3);
  EXPECT_EQ((*file.find_ints("tokenizer.ggml.token_type"))[259], 4);
  EXPECT_EQ(cria({"tokenize", "-m", converted.path, "--ids", "-p", "thexyzzy"}).out,
            "256 258 101 259\n");
  const Result run = cria({"run", "-m", converted.path, "-p", "the", "-n", "2", "--temp", "0"});
  EXPECT_EQ(run.code, 0) << run.err;
}

TEST(Convert, TypesOfMatrices) {
  for (const auto& [type, expected] : std::map<std::string, DType>{{"f32", DType::F32},
                                                                   {"f16", DType::F16},
                                                                   {"bf16", DType::BF16},
                                                                   {"q8_0", DType::Q8_0},
                                                                   {"auto", DType::BF16}}) {
    HfDirectory directory;
    directory.dtype = "BF16";
    const Converted converted(directory, {"--type", type});
    ASSERT_EQ(converted.result.code, 0) << converted.result.err;
    const GgufFile file = converted.open();
    EXPECT_EQ(file.tensor("blk.0.ffn_down.weight")->dtype, expected) << type;
    EXPECT_EQ(file.tensor("blk.0.ffn_norm.weight")->dtype, DType::F32) << type;
    if (type != "q8_0")
      expect_values(file, "blk.0.attn_q.weight", "model.layers.0.self_attn.q_proj.weight",
                    paired_row);
    EXPECT_EQ(cria({"run", "-m", converted.path, "-p", "a", "-n", "1", "--temp", "0"}).code, 0)
        << type;
  }
}

TEST(Convert, ShardsAndThreadsDoNotMatter) {
  const Converted one{HfDirectory{}, {"-t", "1", "--type", "q8_0"}};
  const Converted three{HfDirectory{}, {"-t", "3", "--type", "q8_0"}, 3};
  ASSERT_EQ(one.result.code, 0) << one.result.err;
  ASSERT_EQ(three.result.code, 0) << three.result.err;
  EXPECT_EQ(read_file(one.path), read_file(three.path));
}

TEST(Convert, Qwen2KeepsItsRowsAndHasBiases) {
  HfDirectory directory;
  directory.config["architectures"] = {"Qwen2ForCausalLM"};
  directory.config["tie_word_embeddings"] = true;
  directory.config["rope_scaling"] = {
      {"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 32}};
  directory.tensors.erase("lm_head.weight");
  directory.add_biases();
  const Converted converted(directory);
  ASSERT_EQ(converted.result.code, 0) << converted.result.err;
  const GgufFile file = converted.open();
  EXPECT_EQ(file.get_string("general.architecture"), "qwen2");
  EXPECT_EQ(file.get_string("qwen2.rope.scaling.type"), "yarn");
  EXPECT_EQ(file.get_uint("qwen2.rope.scaling.original_context_length"), 32U);
  EXPECT_EQ(file.tensor("output.weight"), nullptr);
  expect_values(file, "blk.1.attn_q.weight", "model.layers.1.self_attn.q_proj.weight");
  expect_values(file, "blk.1.attn_q.bias", "model.layers.1.self_attn.q_proj.bias");
  EXPECT_EQ(file.tensor("blk.1.attn_q.bias")->shape, std::vector<std::uint64_t>{64});
  EXPECT_EQ(cria({"run", "-m", converted.path, "-p", "a", "-n", "1", "--temp", "0"}).code, 0);
}

TEST(Convert, BiasesOfLlamaStandAsItsRows) {
  HfDirectory directory;
  directory.config["attention_bias"] = true;
  directory.add_biases();
  const Converted converted(directory);
  ASSERT_EQ(converted.result.code, 0) << converted.result.err;
  expect_values(converted.open(), "blk.0.attn_k.bias", "model.layers.0.self_attn.k_proj.bias",
                paired_row);
  expect_values(converted.open(), "blk.0.attn_v.bias", "model.layers.0.self_attn.v_proj.bias");
}

TEST(Convert, Llama3FactorsBecomeATensor) {
  HfDirectory directory;
  directory.config["rope_scaling"] = {{"rope_type", "llama3"},
                                      {"factor", 8.0},
                                      {"low_freq_factor", 1.0},
                                      {"high_freq_factor", 4.0},
                                      {"original_max_position_embeddings", 8192}};
  const Converted converted(directory);
  ASSERT_EQ(converted.result.code, 0) << converted.result.err;
  const GgufFile file = converted.open();
  const std::vector<float> factors = tensor_values(file, "rope_freqs.weight");
  ASSERT_EQ(factors.size(), 8U);
  EXPECT_EQ(factors.front(), 1);
  EXPECT_EQ(file.find("llama.rope.scaling.type"), nullptr);
}

TEST(Convert, SeveralEndsOfAnAnswer) {
  HfDirectory directory;
  directory.tokenizer["added_tokens"].push_back(
      {{"id", 260}, {"content", "<|eot_id|>"}, {"special", true}});
  directory.tokenizer["added_tokens"].push_back(
      {{"id", 261}, {"content", "<|eom_id|>"}, {"special", true}});
  Converted first(directory);  // for its directory
  first.in.write("generation_config.json", R"({"eos_token_id": [257, 261, 260]})");
  first.in.write("chat_template.jinja", "from its own file");
  const Result result = cria({"convert", first.in.path(), "-o", first.path});
  ASSERT_EQ(result.code, 0) << result.err;
  const GgufFile file = first.open();
  EXPECT_EQ(file.get_uint("tokenizer.ggml.eos_token_id"), 257U);
  EXPECT_EQ(file.get_uint("tokenizer.ggml.eot_token_id"), 260U);
  EXPECT_EQ(file.get_uint("tokenizer.ggml.eom_token_id"), 261U);
  EXPECT_EQ(file.get_string("tokenizer.chat_template"), "from its own file");
  EXPECT_EQ(file.get_string("general.name"),
            std::filesystem::path(first.in.path()).parent_path().filename().string());
}

TEST(Convert, SamplingComesFromGenerationConfig) {
  const HfDirectory directory;
  Converted first(directory);  // for its directory
  first.in.write("generation_config.json",
                 R"({"do_sample": true, "temperature": 0.6, "top_k": 20, "top_p": null,
                 "min_p": "small", "repetition_penalty": -1})");
  const Result result = cria({"convert", first.in.path(), "-o", first.path});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.err.find(
                "generation_config.json: \"min_p\" is ignored: expected a number, got string\n"),
            std::string::npos)
      << result.err;
  EXPECT_NE(result.err.find("\"repetition_penalty\" is ignored: "), std::string::npos)
      << result.err;
  {
    const GgufFile file = first.open();
    EXPECT_FLOAT_EQ(static_cast<float>(file.get_float("general.sampling.temp")), 0.6F);
    EXPECT_EQ(file.find("general.sampling.top_k")->type, GgufType::I32);
    EXPECT_EQ(file.get_uint("general.sampling.top_k"), 20U);
    for (const char* key : {"top_p", "min_p", "penalty_repeat"})
      EXPECT_EQ(file.find(std::string("general.sampling.") + key), nullptr) << key;
  }
  first.in.write("generation_config.json", R"({"do_sample": false, "temperature": 0.6})");
  ASSERT_EQ(cria({"convert", first.in.path(), "-o", first.path}).code, 0);
  EXPECT_EQ(first.open().find("general.sampling.temp"), nullptr);
}

/// Packs the matrices of a directory as MLX does, with codes of a pattern; returns the value at an
/// index.
float mlx_value(std::uint32_t bits, std::uint64_t index) {
  const std::uint32_t code =
      static_cast<std::uint32_t>(index * 7 + index / 64) & ((1U << bits) - 1);
  return 0.03125F * static_cast<float>(code) + (index / 32 % 2 == 0 ? -0.25F : 0.125F);
}

HfDirectory mlx_directory(std::uint32_t bits) {
  HfDirectory directory;
  directory.config["quantization"] = {
      {"group_size", 32}, {"bits", bits}, {"model.embed_tokens", false}};
  for (const auto& [name, shape] : HfDirectory::shapes()) {
    if (shape.size() == 1 || name.starts_with("model.embed")) continue;
    const std::uint64_t rows = shape[0], cols = shape[1];
    std::vector<std::uint32_t> words(rows * cols * bits / 32);
    std::vector<std::uint16_t> scales(rows * cols / 32, f32_to_f16(0.03125F)), biases;
    for (std::uint64_t i = 0; i < rows * cols; ++i) {
      if (i % 32 == 0) biases.push_back(f32_to_f16(i / 32 % 2 == 0 ? -0.25F : 0.125F));
      const std::uint64_t code = (i * 7 + i / 64) & ((1U << bits) - 1),
                          at = i * bits;  // rows are whole words
      const std::uint64_t two = code << at % 32;
      words[at / 32] |= static_cast<std::uint32_t>(two);
      if (two >> 32 != 0) words[at / 32 + 1] |= static_cast<std::uint32_t>(two >> 32);
    }
    const std::string base = name.substr(0, name.rfind('.'));
    directory.tensors[name] = {rows, cols * bits / 32};
    directory.tensors[base + ".scales"] = directory.tensors[base + ".biases"] = {rows, cols / 32};
    directory.other[name] = "U32 " + bytes_of(words);
    directory.other[base + ".scales"] = "F16 " + bytes_of(scales);
    directory.other[base + ".biases"] = "F16 " + bytes_of(biases);
  }
  return directory;
}

TEST(Convert, MlxOfEveryWidthIsExactInF32) {
  for (const std::uint32_t bits : {2U, 3U, 4U, 5U, 6U, 8U}) {
    const Converted converted(mlx_directory(bits), {"--type", "f32"});
    ASSERT_EQ(converted.result.code, 0) << bits << converted.result.err;
    const GgufFile file = converted.open();
    expect_values(file, "token_embd.weight", "model.embed_tokens.weight");
    const std::vector<float> down = tensor_values(file, "blk.1.ffn_down.weight"),
                             q = tensor_values(file, "blk.1.attn_q.weight");
    for (std::uint64_t i = 0; i < down.size(); ++i)
      ASSERT_EQ(down[i], mlx_value(bits, i)) << bits << " at " << i;
    for (std::uint64_t i = 0; i < q.size(); ++i)
      ASSERT_EQ(q[i], mlx_value(bits, paired_row(i / 64) * 64 + i % 64)) << bits;
  }
}

TEST(Convert, ReportsTheErrorOfRequantizedMlx) {
  for (const auto& [bits, type] : std::map<std::uint32_t, DType>{
           {3, DType::Q4_1}, {4, DType::Q4_1}, {5, DType::Q5_1}, {8, DType::Q8_0}}) {
    const Converted converted(mlx_directory(bits));
    ASSERT_EQ(converted.result.code, 0) << bits << converted.result.err;
    const GgufFile file = converted.open();
    ASSERT_EQ(file.tensor("blk.1.ffn_down.weight")->dtype, type) << bits;
    const std::vector<float> down = tensor_values(file, "blk.1.ffn_down.weight");
    for (std::uint64_t i = 0; bits < 8 && i < down.size(); ++i)
      ASSERT_EQ(down[i], mlx_value(bits, i)) << bits;
    const std::string& out = converted.result.out;
    EXPECT_NE(out.find("relative error of packed weights "), std::string::npos) << out;
    EXPECT_EQ(out.ends_with("packed weights 0\n"), bits < 8) << out;
    EXPECT_EQ(cria({"run", "-m", converted.path, "-p", "a", "-n", "1", "--temp", "0"}).code, 0);
  }
}

TEST(Convert, DryRunShowsThePlanAndWritesNothing) {
  const Converted converted(mlx_directory(4), {"--dry-run"});
  ASSERT_EQ(converted.result.code, 0) << converted.result.err;
  EXPECT_EQ(count_lines(converted.result.out), 22U);
  EXPECT_NE(
      converted.result.out.find("blk.0.ffn_up.weight: 64 × 96, MLX 4 bits → Q4_1, 3.75 KiB\n"),
      std::string::npos)
      << converted.result.out;
  EXPECT_TRUE(converted.left_nothing());
}

TEST(Convert, ReportsItsOutputAsJson) {
  const Converted plan(mlx_directory(4), {"--dry-run", "--json"}),
      made(mlx_directory(4), {"--json"});
  ASSERT_EQ(plan.result.code, 0) << plan.result.err;
  ASSERT_EQ(made.result.code, 0) << made.result.err;
  EXPECT_EQ(made.result.err, "");
  const auto planned = nlohmann::json::parse(plan.result.out),
             written = nlohmann::json::parse(made.result.out);
  EXPECT_EQ(planned.at("written"), false);
  EXPECT_EQ(written.at("written"), true);
  for (const char* const key : {"tensors", "bytes"})
    EXPECT_EQ(planned.at(key), written.at(key)) << key;
  EXPECT_EQ(written.at("bytes"), std::filesystem::file_size(written.at("file").get<std::string>()));
}

struct ConvertDefect {
  std::string name;
  std::function<void(HfDirectory&)> change;
  std::string says;
};

const ConvertDefect kConvertDefects[] = {
    {"class", [](HfDirectory& d) { d.config["architectures"] = {"T5Model"}; },
     "config.json: unknown class of model"},
    {"size", [](HfDirectory& d) { d.config["hidden_size"] = 32; },
     "wrong shape: expected [270, 32], got [270, 64] (tensor model.embed_tokens.weight)"},
    {"layers", [](HfDirectory& d) { d.config["num_hidden_layers"] = 1; },
     "a GGUF file of this class of models has no such tensor, nor 8 other tensors (tensor "
     "model.layers.1."},
    {"missing tensor", [](HfDirectory& d) { d.tensors.erase("model.layers.1.mlp.up_proj.weight"); },
     "missing tensor (tensor model.layers.1.mlp.up_proj.weight)"},
    {"no head", [](HfDirectory& d) { d.tensors.erase("lm_head.weight"); },
     "missing tensor (tensor lm_head.weight)"},
    {"missing bias", [](HfDirectory& d) { d.config["attention_bias"] = true; },
     "missing tensor (tensor model.layers.0.self_attn.q_proj.bias)"},
    {"surplus tensor",
     [](HfDirectory& d) { d.tensors["model.layers.0.self_attn.q_norm.weight"] = {16}; },
     "a GGUF file of this class of models has no such tensor (tensor "
     "model.layers.0.self_attn.q_norm.weight)"},
    {"type",
     [](HfDirectory& d) {
       d.other["model.layers.0.mlp.up_proj.weight"] = "F8_E4M3 " + std::string(96 * 64, 'x');
     },
     "expected F64, F32, F16 or BF16, got F8_E4M3"},
    {"scales",
     [](HfDirectory& d) {
       d.config["quantization"] = {{"bits", 4}};
       d.tensors["lm_head.scales"] = {270, 1};
     },
     "missing tensor (tensor lm_head.biases)"},
    {"no tokenizer", [](HfDirectory& d) { d.tokenizer = nullptr; },
     "no tokenizer: expected tokenizer.model or tokenizer.json"},
    {"pre-tokenizer",
     [](HfDirectory& d) {
       d.tokenizer["pre_tokenizer"] = {
           {"type", "Sequence"},
           {"pretokenizers", {{{"type", "Whitespace"}}, {{"type", "ByteLevel"}}}}};
     },
     "choose one by --pre NAME"},
};

TEST(Convert, RejectsMismatchedTensors) {
  for (const ConvertDefect& defect : kConvertDefects) {
    HfDirectory directory;
    defect.change(directory);
    const Converted converted(directory);
    const Result& result = converted.result;
    EXPECT_EQ(result.code, 1) << defect.name;
    EXPECT_EQ(result.err.find("cria: error: " + converted.in.path()), 0U)
        << defect.name << ": " << result.err;
    EXPECT_NE(result.err.find(defect.says), std::string::npos) << defect.name << ": " << result.err;
    EXPECT_EQ(count_lines(result.err), 1U) << result.err;
    EXPECT_TRUE(converted.left_nothing()) << defect.name;
  }
}

TEST(Convert, RejectsOtherDirectories) {
  const TempDirectory empty;
  const Result result = cria({"convert", empty.path(), "-o", empty.path("x.gguf")});
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.err,
            "cria: error: " + empty.path() +
                ": no config.json: expected the directory of a Hugging Face or MLX model\n");
  const std::string none = empty.path("none");
  EXPECT_EQ(cria({"convert", none, "-o", empty.path("x.gguf")}).err,
            "cria: error: " + none +
                ": no such directory; hf download USER/REPO --local-dir DIR fetches one\n");
  EXPECT_NE(cria({"convert", kDemo}).err.find("is a GGUF file already"), std::string::npos);
  const TempDirectory adapter;
  adapter.write("adapter_config.json", "{}");
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"convert", adapter.path()},
        {"run", "--lora", adapter.path(), "Hi"}})
    EXPECT_NE(cria(command).err.find("convert_lora_to_gguf.py"), std::string::npos);
  EXPECT_NE(cria({"convert", "no-org/no-name"})
                .err.find("hf download no-org/no-name --local-dir no-name fetches one"),
            std::string::npos);
  EXPECT_EQ(cria({"convert", empty.path(), "-o", "x", "--type", "q4_k"}).code, 2);
}

TEST(Convert, NamesTheFileAfterTheDirectory) {
  const TempDirectory in;
  const std::string directory = HfDirectory().write(in),
                    made = std::filesystem::canonical(directory).string() + "-F16.gguf";
  const std::vector<std::string> command = {"convert", directory, "--type", "f16"};
  const Result result = cria(command);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(result.out.starts_with(made + ": ")) << result.out;
  EXPECT_NE(cria(command).err.find("already exists; -o FILE replaces it"), std::string::npos);
  const std::string other = in.path("x.gguf");
  EXPECT_EQ(cria({"convert", directory, other, "--type", "f16"}).code, 0);
  EXPECT_TRUE(read_file(other) == read_file(made));
  std::filesystem::remove(made);
}

TEST(Convert, FailedWritesKeepTheOldFile) {
  HfDirectory directory;
  directory.other["lm_head.weight"] =
      "F32 " + [] {  // found when it is converted, after much was written
        std::vector<float> values(270 * 64, 1e6F);
        return bytes_of(values);
      }();
  const TempDirectory in, out;
  out.write("x.gguf", "old");
  const Result result =
      cria({"convert", directory.write(in), "-o", out.path("x.gguf"), "--type", "f16"});
  EXPECT_EQ(result.code, 1);
  EXPECT_NE(
      result.err.find("F16 cannot hold a value: expected finite numbers up to 65504, got 1e+06"),
      std::string::npos)
      << result.err;
  EXPECT_EQ(read_file(out.path("x.gguf")), "old");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(out.path()), {}), 1);
  const Result nowhere = cria({"convert", in.path(), "-o", out.path("no/x.gguf"), "--type", "f32"});
  EXPECT_EQ(nowhere.code, 1);
  EXPECT_EQ(nowhere.err.find("cria: error: " + out.path("no/x.gguf")), 0U) << nowhere.err;
}

/// A SentencePiece model, field by field: pieces 3 and 4 are words.
std::string sentencepiece_bytes() {
  std::string out;
  const auto piece = [&](const std::string& text, float score, char type) {
    std::string fields = "\x0A" + std::string(1, static_cast<char>(text.size())) + text + "\x15" +
                         std::string(reinterpret_cast<const char*>(&score), 4);
    if (type != 1) fields += std::string("\x18") + type;
    out += "\x0A" + std::string(1, static_cast<char>(fields.size())) + fields;
  };
  piece("<unk>", 0, 2);
  piece("<s>", 0, 3);
  piece("</s>", 0, 3);
  piece("\xE2\x96\x81", -2, 1);
  piece("\xE2\x96\x81x", -1, 1);
  constexpr char kHex[] = "0123456789ABCDEF";
  for (int byte = 0; byte < 256; ++byte)
    piece(std::string("<0x") + kHex[byte / 16] + kHex[byte % 16] + ">", 0, 6);
  piece("x", -3, 1);
  return out + std::string("\x12\x02\x18\x02", 4) + std::string("\x1A\x04\x18\x01\x20\x00", 6);
}

TEST(Convert, SentencePieceWithAddedTokens) {
  HfDirectory directory;
  directory.tokenizer = nullptr;
  directory.tokenizer_config = {
      {"added_tokens_decoder", {{"262", {{"content", "<|im_end|>"}, {"special", true}}}}},
      {"eos_token", "<|im_end|>"},
      {"chat_template",
       {{{"name", "default"}, {"template", "one"}}, {{"name", "tools"}, {"template", "two"}}}}};
  directory.config["bos_token_id"] = 1;
  const TempDirectory in, out;
  in.write("tokenizer.model", sentencepiece_bytes());
  in.write("added_tokens.json", R"({"<extra>": 263})");
  const Result result = cria({"convert", directory.write(in), "-o", out.path("x.gguf")});
  ASSERT_EQ(result.code, 0) << result.err;
  const GgufFile file = GgufFile::open(out.path("x.gguf"));
  EXPECT_EQ(file.get_string("tokenizer.ggml.model"), "llama");
  EXPECT_EQ(file.get_uint("tokenizer.ggml.bos_token_id"), 1U);
  EXPECT_EQ(file.get_uint("tokenizer.ggml.eos_token_id"), 262U);
  EXPECT_EQ(file.get_uint("tokenizer.ggml.unknown_token_id"), 0U);
  EXPECT_EQ(file.find_bool("tokenizer.ggml.add_bos_token"), true);
  EXPECT_EQ((*file.find_floats("tokenizer.ggml.scores"))[4], -1);
  const auto types = *file.find_ints("tokenizer.ggml.token_type");
  EXPECT_EQ(types[0], 2);
  EXPECT_EQ(types[1], 3);
  EXPECT_EQ(types[4], 1);
  EXPECT_EQ(types[5], 6);
  EXPECT_EQ(types[262], 3);
  EXPECT_EQ(types[263], 4);
  EXPECT_EQ(types[264], 5);
  EXPECT_EQ(file.get_string("tokenizer.chat_template"), "one");
  EXPECT_EQ(file.get_string("tokenizer.chat_template.tools"), "two");
  EXPECT_EQ(cria({"tokenize", "-m", out.path("x.gguf"), "--ids", "-p", "xx"}).out, "1 4 261\n");
}

}  // namespace
}  // namespace cria::test
