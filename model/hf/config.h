// Hyper-parameters as Hugging Face's config.json has them, for the classes of models that
// are converted and exported.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/config.h"
#include "model/hf/tensors.h"

namespace cria {

/// What distinguishes one class of models from another: one row per name in "architectures".
struct HfClass {
  std::string_view name;        ///< "LlamaForCausalLM"
  std::string_view model_type;  ///< "llama": "model_type" in config.json
  std::string_view arch;        ///< general.architecture of its GGUF files
  bool attention_bias;          ///< q, k and v always have biases; else as "attention_bias" says
};
const HfClass* find_hf_class(std::string_view name) noexcept;
/// The first class of a GGUF architecture, or null.
const HfClass* hf_class_of(std::string_view arch) noexcept;

/// "rope_scaling". Linear and YaRN are metadata in GGUF; llama3 becomes the tensor rope_freqs.weight.
struct HfRopeScaling {
  enum class Kind : std::uint8_t { None, Linear, Yarn, Llama3 };
  Kind kind = Kind::None;
  double factor = 1;
  double low_freq_factor = 1, high_freq_factor = 4;                    ///< Llama3
  std::uint32_t original_context = 0;                                  ///< Yarn, Llama3
  std::optional<double> attention_factor{}, beta_fast{}, beta_slow{};  ///< Yarn
};

/// How MLX packed weights: q of `bits` bits each, w = scale·q + bias per group_size values of a row.
struct MlxPacking {
  std::uint32_t group_size = 0, bits = 0;
};

struct HfConfig {
  const HfClass* model_class = nullptr;
  std::uint32_t n_layers = 0, n_embd = 0, n_heads = 0, n_kv_heads = 0, head_dim = 0, n_ff = 0, n_vocab = 0,
                n_ctx = 0;
  float rms_eps = 0;
  double rope_base = 10000;
  HfRopeScaling rope_scaling;
  std::optional<std::uint32_t> sliding_window;
  bool tied_embeddings = false, attention_bias = false;
  std::optional<std::uint32_t> bos;
  std::vector<std::uint32_t> eos;  ///< one or several
  std::optional<MlxPacking> packing;
  /// Tensors (without ".weight") that are packed in another way than the rest; none: not packed.
  std::map<std::string, std::optional<MlxPacking>, std::less<>> other_packing;
  std::vector<std::string> warnings;  ///< what was tolerated, one line each

  /// Throws Error that names the key at fault (file: the path of the JSON) for what is missing, out of range
  /// or cannot be said in GGUF.
  static HfConfig from_json(const nlohmann::json& json, const std::string& file);
  /// Of a GGUF model. Throws Error for what config.json cannot say.
  static HfConfig from_gguf(const GgufFile& file, const LlamaConfig& config);

  /// config.json; dtype: "float16" and the like.
  [[nodiscard]] nlohmann::ordered_json to_json(std::string_view dtype) const;
  /// What YaRN multiplies queries and keys by unless "attention_factor" says; GGUF has the ratio to it.
  [[nodiscard]] double yarn_magnitude() const;
  /// What rope_freqs.weight holds: head_dim/2 factors that divide the frequencies; empty unless the scaling
  /// is Llama3.
  [[nodiscard]] std::vector<float> rope_factors() const;
  [[nodiscard]] std::uint64_t size_of(TensorSize size) const;  ///< 1 for None
  [[nodiscard]] std::optional<MlxPacking> packing_of(std::string_view tensor) const;
};

class GgufWriter;
/// Sets the architecture and its keys.
void set_hyper_parameters(GgufWriter& writer, const HfConfig& config);

}  // namespace cria
