// config.json of a Hugging Face or MLX directory: read, used, written and read again.
#include "engine/architectures/architecture.h"
#include "engine/convert/hf_config.h"

#include <map>
#include <nlohmann/json.hpp>

#include "model/file/json.h"
#include "model/gguf/writer.h"
#include "tests/engine/convert/llama_config.h"
#include "tests/fuzz/json_mutator.h"
#include "tests/fuzz/memory_file.h"

namespace cria::fuzz {
namespace {

/// The GGUF file and config.json agree on the model.
void check_gguf(const HfConfig& config) {
  static const MemoryDirectory directory;
  GgufWriter writer(directory.path("x.gguf"));
  config.write(writer, find_architecture(config.model_class->arch)->norm);
  std::map<std::string, std::vector<float>> tensors = {
      {"rope_freqs.weight", config.rope_factors()},
      {"rope_factors_long.weight", config.rope_scaling.long_factors},
      {"rope_factors_short.weight", config.rope_scaling.short_factors}};
  std::erase_if(tensors, [](const auto& tensor) { return tensor.second.empty(); });
  for (const auto& [name, values] : tensors) writer.declare(name, DType::F32, {values.size()});
  writer.begin();
  for (const auto& [name, values] : tensors) writer.write(std::as_bytes(std::span(values)));
  writer.finish();
  const GgufFile file = GgufFile::open(directory.path("x.gguf"));
  require(file.get_string("general.architecture") == config.model_class->arch,
          "another architecture");
  if (config.model_class->latent) return;  // their sizes have separate keys
  const HfConfig back = HfConfig::from_gguf(file, read_config(file), *config.model_class);
  require(back.n_layers == config.n_layers && back.n_embd == config.n_embd &&
              back.n_heads == config.n_heads && back.n_kv_heads == config.n_kv_heads &&
              back.head_dim == config.head_dim && back.n_ff == config.n_ff &&
              back.n_ctx == config.n_ctx && back.rope_scaling.kind == config.rope_scaling.kind,
          "another config out of the file");
}

void run_hf_config(std::string_view input) {
  const HfConfig config =
      HfConfig::from_json(parse_sorted_json(input, "fuzz"), "fuzz", hf_classes());
  static_cast<void>(config.yarn_magnitude());
  for (const float factor : config.rope_factors()) require(factor > 0, "factor is not positive");
  static_cast<void>(config.packing_of("model.layers.0.mlp.up_proj.weight"));
  if (config.rope_scaling.kind == HfRopeScaling::Kind::LongRope)
    require(config.longrope_magnitude() >= 1 || config.rope_scaling.attention_factor,
            "a magnitude below 1");
  check_gguf(config);
  const nlohmann::json written = nlohmann::json::parse(config.to_json("float16").dump());
  const HfConfig again = HfConfig::from_json(written, "written", hf_classes());
  require(again.n_layers == config.n_layers && again.n_embd == config.n_embd &&
              again.n_heads == config.n_heads && again.n_ff == config.n_ff &&
              again.rope_scaling.kind == config.rope_scaling.kind,
          "another config the second time");
}

// Changes of the plain configuration (JSON merge patches): first valid ones, then refused ones, one
// for every reason.
constexpr const char* kConfigPatches[] = {
    R"({})",
    R"({"rope_scaling":{"rope_type":"llama3","factor":8,"low_freq_factor":1.0,"high_freq_factor":4.0,"original_max_position_embeddings":32}})",
    R"({"head_dim":64,"num_hidden_layers":1,"rope_theta":500000,"rope_scaling":{"rope_type":"llama3","factor":8,"low_freq_factor":1,"high_freq_factor":4,"original_max_position_embeddings":8192}})",
    R"({"architectures":["MistralForCausalLM"],"rope_scaling":{"type":"linear","factor":2},"sliding_window":64,"head_dim":32})",
    R"({"architectures":["Qwen2ForCausalLM"],"use_sliding_window":true,"sliding_window":64,"rope_scaling":{"type":"yarn","factor":4,"original_max_position_embeddings":32,"attention_factor":1.1,"beta_fast":32,"beta_slow":1}})",
    R"({"rope_scaling":{"type":"yarn","factor":2,"attention_factor":null}})",
    R"({"architectures":["Qwen2ForCausalLM"],"use_sliding_window":false,"sliding_window":64})",
    R"({"rope_parameters":{"rope_theta":7.0,"rope_type":"default"},"rope_theta":null,"attention_bias":true})",
    R"({"rope_scaling":{"type":"dynamic","factor":2},"num_key_value_heads":null,"rms_norm_eps":null,"eos_token_id":2,"partial_rotary_factor":1.0})",
    R"({"quantization":{"group_size":64,"bits":4,"mode":"affine","model.layers.0.mlp.up_proj":{"group_size":32,"bits":8},"lm_head":false,"model.embed_tokens":true},"tie_word_embeddings":true})",
    R"({"quantization":{},"hidden_size":64.0,"bos_token_id":null,"eos_token_id":null,"hidden_act":null})",
    R"({"eos_token_id":[]})",
    R"({"architectures":null})",
    R"({"architectures":[]})",
    R"({"architectures":["BertModel"]})",
    R"({"hidden_size":null})",
    R"({"hidden_size":"64"})",
    R"({"hidden_size":-1})",
    R"({"hidden_size":64.5})",
    R"({"hidden_size":66})",
    R"({"num_hidden_layers":0})",
    R"({"num_key_value_heads":3})",
    R"({"num_key_value_heads":8})",
    R"({"head_dim":15})",
    R"({"rms_norm_eps":"1"})",
    R"({"rope_theta":-1})",
    R"({"rope_theta":1e31})",
    R"({"rope_scaling":1})",
    R"({"rope_scaling":{"type":"longrope"}})",
    R"({"rope_scaling":{"type":1}})",
    R"({"rope_scaling":{"type":"linear"}})",
    R"({"rope_scaling":{"rope_type":"llama3","factor":8,"low_freq_factor":4,"high_freq_factor":1}})",
    R"({"rope_scaling":{"type":"yarn","factor":2,"original_max_position_embeddings":0}})",
    R"({"partial_rotary_factor":0.5})",
    R"({"mlp_bias":true})",
    R"({"mlp_bias":1})",
    R"({"hidden_act":"gelu"})",
    R"({"eos_token_id":"a"})",
    R"({"eos_token_id":99999999999})",
    R"({"bos_token_id":99999999999})",
    R"({"quantization_config":{"quant_method":"gptq"}})",
    R"({"quantization_config":1})",
    R"({"quantization":1})",
    R"({"quantization":{"bits":7}})",
    R"({"quantization":{"mode":"mxfp4"}})"};

std::vector<std::string> hf_config_seeds() {
  nlohmann::json plain = test::llama_config();
  plain.update({{"rope_theta", 10000.0},
                {"vocab_size", 270},
                {"tie_word_embeddings", false},
                {"bos_token_id", 1},
                {"eos_token_id", {2, 3}},
                {"hidden_act", "silu"},
                {"torch_dtype", "bfloat16"}});
  std::vector<std::string> out;
  for (const char* const patch : kConfigPatches) {
    nlohmann::json json = plain;
    json.merge_patch(nlohmann::json::parse(patch));
    out.push_back(json.dump());
  }
  out.insert(out.end(), {"[]", "{", ""});
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
