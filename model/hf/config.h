// Hyper-parameters as Hugging Face's config.json has them, for the classes of models that
// are converted and exported.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/config.h"

namespace cria {

/// What "rope_scaling" says of longrope beside the factors.
enum class HfLongRope : std::uint8_t {
  None,        ///< the class has no longrope
  Factors,     ///< nothing: no other key is what their makers' code takes
  Context,     ///< the original context
  Magnitudes,  ///< that, and by how much queries and keys are multiplied in short and in long
               ///< contexts
};

/// What distinguishes one class of models from another in the keys that nearly all have.
struct HfClass {
  std::string_view name = {};        ///< "LlamaForCausalLM": in "architectures"
  std::string_view model_type = {};  ///< "llama": "model_type" in config.json
  bool attention_bias = false;     ///< q, k and v always have biases; else as "attention_bias" says
  bool window_by_default = false;  ///< "sliding_window" counts without "use_sliding_window"
  bool tied = false;               ///< what it means that there is no "tie_word_embeddings"
  bool mlp_bias = false;           ///< biases in the feed-forward part, as "mlp_bias" says
  bool partial_rotation = false;   ///< heads may be rotated in part
  double usual_part = 1;           ///< which part, where there is no "partial_rotary_factor"
  HfLongRope longrope = HfLongRope::None;
  bool latent = false;         ///< latent attention: sizes of heads are keys of its own
  bool mscale = false;         ///< "mscale_all_dim" is a key of its own in GGUF
  bool ropes_by_type = false;  ///< "rope_parameters" may have one for each of "layer_types"
  bool proportional = false;   ///< heads are rotated in part by the frequencies of a whole rotation
  bool by_layer = false;  ///< widths and KV heads may differ among layers: the class says which
  bool listed_merges = false;   ///< a vocabulary with tokens for bytes keeps its list of merges
  std::string_view usual = {};  ///< JSON: what missing keys mean
  std::string_view head_dim = "head_dim";  ///< of layers without a window
  std::string_view eps = "rms_norm_eps";
  float usual_eps = 1e-6F;
  std::string_view activations = "silu";  ///< names of the one that it has; the first is the usual
  std::string_view activation_key = "hidden_act", layers_key = "num_hidden_layers";
  std::string_view quantization = {};  ///< "quant_method" that is read
  std::string_view arch = {};          ///< general.architecture of its GGUF files
};
using HfClasses = std::span<const HfClass* const>;

/// "rope_scaling". Linear and YaRN are metadata in GGUF; llama3 and proportional become the tensor
/// rope_freqs.weight.
struct HfRopeScaling {
  enum class Kind : std::uint8_t { None, Linear, Yarn, Llama3, LongRope, Proportional };
  static constexpr float kNoRotation = 1e30F;  ///< the factor of a frequency that is not rotated
  Kind kind = Kind::None;
  double factor = 1;
  double rotated_part = 1;                                             ///< Proportional
  double low_freq_factor = 1, high_freq_factor = 4;                    ///< Llama3
  std::uint32_t original_context = 0;                                  ///< Yarn, Llama3, LongRope
  std::optional<double> attention_factor{}, beta_fast{}, beta_slow{};  ///< Yarn
  double log_multiplier = 0;  ///< Yarn: what GGUF has of "mscale_all_dim"; 0: nothing
  std::vector<float> short_factors{}, long_factors{};  ///< LongRope
};

/// How MLX packed weights: q of `bits` bits each, w = scale·q + bias per group_size values of a
/// row.
struct MlxPacking {
  std::uint32_t group_size = 0, bits = 0;
};

struct HfConfig {
  const HfClass* model_class = nullptr;
  std::uint32_t n_layers = 0, n_embd = 0, n_heads = 0, n_kv_heads = 0, head_dim = 0, n_ff = 0,
                n_vocab = 0, n_ctx = 0;
  float norm_eps = 0;
  std::uint32_t n_rot = 0;  ///< values of a head that are rotated
  double rope_base = 10000;
  HfRopeScaling rope_scaling;
  std::optional<std::uint32_t> sliding_window;
  bool tied_embeddings = false, attention_bias = false, mlp_bias = false;
  std::optional<std::uint32_t> bos;
  std::vector<std::uint32_t> eos;  ///< one or several
  std::optional<MlxPacking> packing;
  /// Tensors (without ".weight") that are packed in another way than the rest; none: not packed.
  std::map<std::string, std::optional<MlxPacking>, std::less<>> other_packing;
  std::vector<std::string> warnings;  ///< what was tolerated, one line each

  /// Throws Error that names the key at fault (file: the path of the JSON) for what is missing, out
  /// of range or cannot be said in GGUF, and for a class that is none of these.
  static HfConfig from_json(const nlohmann::json& json, const std::string& file, HfClasses classes);
  /// Of a GGUF model, which is to be one of the class. Throws Error for what config.json cannot
  /// say.
  static HfConfig from_gguf(const GgufFile& file, const ModelConfig& config,
                            const HfClass& model_class);

  /// config.json; dtype: "float16" and the like.
  [[nodiscard]] nlohmann::ordered_json to_json(std::string_view dtype) const;
  /// What YaRN multiplies rotated values by if "attention_factor" is missing.
  [[nodiscard]] double usual_magnitude() const;
  /// The same if GGUF has no rope.scaling.attn_factor, which is multiplied by this.
  [[nodiscard]] double yarn_magnitude() const;
  /// What rope_freqs.weight holds: n_rot/2 factors that divide the frequencies; empty unless the
  /// scaling is Llama3 or Proportional.
  [[nodiscard]] std::vector<float> rope_factors() const;
  /// By how much longrope multiplies queries and keys.
  [[nodiscard]] double longrope_magnitude() const;
  [[nodiscard]] std::optional<MlxPacking> packing_of(std::string_view tensor) const;
};

/// The shortest decimal number that is this float: 1e-05, not 9.999999747378752e-06.
double shortest_decimal(float value);

class GgufWriter;
/// Sets the architecture and the common keys.
void set_hyper_parameters(GgufWriter& writer, const HfConfig& config, NormKind norm);

}  // namespace cria
