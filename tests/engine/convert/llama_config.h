// config.json of a small llama, as tests and fuzzing begin with it.
#pragma once

#include <nlohmann/json.hpp>

namespace cria::test {

inline nlohmann::json llama_config() {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"hidden_size", 64},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"intermediate_size", 96},
          {"rms_norm_eps", 1e-5},
          {"vocab_size", 10},
          {"max_position_embeddings", 128}};
}

}  // namespace cria::test
