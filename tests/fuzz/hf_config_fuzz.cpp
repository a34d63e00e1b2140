// config.json of a Hugging Face or MLX directory: read, used, written and read again.
#include "model/hf_config.h"

#include <nlohmann/json.hpp>

#include "model/gguf_writer.h"
#include "model/json.h"
#include "tests/fuzz/json_mutator.h"
#include "tests/fuzz/memory_file.h"

namespace cria::fuzz {
namespace {

void run_hf_config(std::string_view input) {
  const HfConfig config = HfConfig::from_json(parse_json(input, "fuzz"), "fuzz");
  static_cast<void>(config.yarn_magnitude());
  for (const float factor : config.rope_factors()) require(factor > 0, "a factor that is not positive");
  for (const TensorName& name : model_tensors(config.n_layers)) {
    static_cast<void>(config.size_of(name.rows) * config.size_of(name.cols));
    static_cast<void>(config.packing_of(name.hf));
  }
  static const MemoryDirectory directory;
  GgufWriter writer(directory.path("x.gguf"));
  set_hyper_parameters(writer, config);
  writer.begin();
  writer.finish();
  const GgufFile file = GgufFile::open(directory.path("x.gguf"));
  require(file.get_string("general.architecture") == config.model_class->arch, "another architecture");
  const nlohmann::json written = nlohmann::json::parse(config.to_json("float16").dump());
  const HfConfig again = HfConfig::from_json(written, "written");
  require(again.n_layers == config.n_layers && again.n_embd == config.n_embd &&
              again.n_heads == config.n_heads && again.n_ff == config.n_ff &&
              again.rope_scaling.kind == config.rope_scaling.kind,
          "another config the second time");
}

std::vector<std::string> hf_config_seeds() {
  nlohmann::json json = {{"architectures", {"LlamaForCausalLM"}},
                         {"hidden_size", 64},
                         {"num_hidden_layers", 2},
                         {"num_attention_heads", 4},
                         {"num_key_value_heads", 2},
                         {"intermediate_size", 96},
                         {"rms_norm_eps", 1e-5},
                         {"rope_theta", 10000.0},
                         {"vocab_size", 270},
                         {"max_position_embeddings", 128},
                         {"tie_word_embeddings", false},
                         {"bos_token_id", 1},
                         {"eos_token_id", {2, 3}},
                         {"hidden_act", "silu"},
                         {"torch_dtype", "bfloat16"}};
  std::vector<std::string> out = {json.dump()};
  json["rope_scaling"] = {{"rope_type", "llama3"},
                          {"factor", 8},
                          {"low_freq_factor", 1.0},
                          {"high_freq_factor", 4.0},
                          {"original_max_position_embeddings", 32}};
  out.push_back(json.dump());
  json["rope_scaling"] = {{"type", "linear"}, {"factor", 2}};
  json["architectures"] = {"MistralForCausalLM"};
  json["sliding_window"] = 64;
  json["head_dim"] = 32;
  out.push_back(json.dump());
  json["rope_scaling"] = {
      {"type", "yarn"},          {"factor", 4},     {"original_max_position_embeddings", 32},
      {"attention_factor", 1.1}, {"beta_fast", 32}, {"beta_slow", 1}};
  json["architectures"] = {"Qwen2ForCausalLM"};
  json["use_sliding_window"] = true;
  json["quantization"] = {{"group_size", 64},
                          {"bits", 4},
                          {"model.layers.0.mlp.up_proj", {{"group_size", 32}, {"bits", 8}}},
                          {"lm_head", false}};
  out.push_back(json.dump());
  json["quantization_config"] = {{"quant_method", "gptq"}};
  json["attention_bias"] = true;
  out.push_back(json.dump());
  return out;
}

std::vector<std::string> hf_config_words() {
  return {"\"architectures\"",
          "\"rope_scaling\"",
          "\"rope_parameters\"",
          "\"rope_type\"",
          "\"factor\"",
          "\"llama3\"",
          "\"yarn\"",
          "\"linear\"",
          "\"default\"",
          "\"dynamic\"",
          "\"quantization\"",
          "\"group_size\"",
          "\"bits\"",
          "\"head_dim\"",
          "\"mscale\"",
          "\"mlp_bias\"",
          "\"hidden_act\"",
          "\"num_local_experts\"",
          "null"};
}

}  // namespace

const Target kHfConfig{"hf_config", run_hf_config, hf_config_seeds, mutate_json, hf_config_words};

}  // namespace cria::fuzz
