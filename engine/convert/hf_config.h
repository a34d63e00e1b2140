// The common hyper-parameters of Hugging Face's config.json: read from it or from a GGUF file,
// written to either.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/convert/hf_class.h"
#include "model/config.h"
#include "model/file/json.h"

namespace cria {

class GgufWriter;

/// "rope_scaling". Linear and YaRN are metadata in GGUF; llama3 and proportional become the tensor
/// rope_freqs.weight.
struct HfRopeScaling {
  enum class Kind : std::uint8_t { None, Linear, Yarn, Llama3, LongRope, Proportional };
  static constexpr float kNoRotation = 1e30F;  ///< factor of a frequency without rotation
  Kind kind = Kind::None;
  double factor = 1;
  double rotated_part = 1;                                             ///< Proportional
  double low_freq_factor = 1, high_freq_factor = 4;                    ///< Llama3
  std::uint32_t original_context = 0;                                  ///< Yarn, Llama3, LongRope
  std::optional<double> attention_factor{}, beta_fast{}, beta_slow{};  ///< Yarn
  double log_multiplier = 0;  ///< Yarn: what GGUF has of "mscale_all_dim"; 0: nothing
  std::vector<float> short_factors{}, long_factors{};  ///< LongRope
};

/// MLX's packing of weights: codes q of `bits` bits, w = scale·q + bias per group_size values of a
/// row.
struct MlxPacking {
  std::uint32_t group_size = 0, bits = 0;
};

/// The factor of the rows up to `end`, from the end of the factor before it.
struct HfRowFactor {
  std::uint64_t end = ~std::uint64_t{0};
  double factor = 1;
};

struct HfConfig {
  const HfClass* model_class = nullptr;
  std::uint32_t n_layers = 0, n_embd = 0, n_heads = 0, n_kv_heads = 0, head_dim = 0, n_ff = 0,
                n_vocab = 0, n_ctx = 0;
  float norm_eps = 0;
  std::uint32_t n_rot = 0;  ///< values of a head that RoPE rotates
  double rope_base = 10000;
  HfRopeScaling rope_scaling;
  HfLinearHeads linear;  ///< set by a rule
  /// Latent attention: rows of a head's keys and values in attn_kv_b. Set by a rule.
  std::uint32_t latent_keys = 0, latent_values = 0;
  /// Factors of matrices' rows, by the role of their GGUF names. Convert only; set by a rule.
  std::map<std::string, std::vector<HfRowFactor>, std::less<>> row_factors;
  /// Experts whose matrices the directory has in one, row by row; 0: none. Set by a rule.
  std::uint32_t joined_experts = 0;
  std::optional<std::uint32_t> sliding_window;
  bool tied_embeddings = false, attention_bias = false, mlp_bias = false;
  std::optional<std::uint32_t> bos;
  std::vector<std::uint32_t> eos;
  std::optional<MlxPacking> packing;
  /// Tensors (without ".weight") that differ from `packing`; nullopt: not packed.
  std::map<std::string, std::optional<MlxPacking>, std::less<>> other_packing;
  std::vector<std::string> warnings;  ///< one line each

  /// Throws Error naming the key at fault (file: the path of the JSON): missing, out of range, not
  /// expressible in GGUF, or a class that is not in `classes`.
  static HfConfig from_json(const SortedJson& json, const std::string& file,
                            std::span<const HfClass> classes);
  /// Describes a GGUF file as a model of the class. Throws Error for what config.json cannot
  /// express.
  static HfConfig from_gguf(const GgufFile& file, const ModelConfig& config,
                            const HfClass& model_class);

  /// config.json; dtype: "float16" and the like.
  [[nodiscard]] Json to_json(std::string_view dtype) const;
  /// Sets the architecture and the common keys.
  void write(GgufWriter& writer, NormKind norm) const;
  /// YaRN's scale of rotated values if "attention_factor" is missing.
  [[nodiscard]] double default_magnitude() const;
  /// The same without rope.scaling.attn_factor in GGUF, which multiplies it.
  [[nodiscard]] double yarn_magnitude() const;
  /// The n_rot/2 factors of rope_freqs.weight, which divide the frequencies; empty unless the
  /// scaling is Llama3 or Proportional.
  [[nodiscard]] std::vector<float> rope_factors() const;
  /// Longrope's scale of queries and keys.
  [[nodiscard]] double longrope_magnitude() const;
  [[nodiscard]] std::optional<MlxPacking> packing_of(std::string_view tensor) const;
};

/// The shortest decimal number that reads back as this float: 1e-05, not 9.999999747378752e-06.
double shortest_decimal(float value);

// generation_config.json: temperature, top_k, top_p, min_p and repetition_penalty become
// general.sampling.* of GGUF.

/// Sets the keys; none if the file is missing or has "do_sample": false, which disables them.
/// warnings: one line for each bad value. Throws Error for a file that is not JSON.
void set_sampling(GgufWriter& writer, const std::string& directory,
                  std::vector<std::string>& warnings);
/// Sets ARCH.pooling_type as the directory's 1_Pooling/config.json says, if it is there. Throws
/// Error for an unknown pooling.
void set_pooling(GgufWriter& writer, const std::string& directory, std::string_view arch);
/// A projection of vectors, which sentence-transformers has in a directory of its own.
struct HfProjection {
  std::string gguf;       ///< name in the GGUF file
  std::string directory;  ///< DIRECTORY/2_Dense
};
/// Returns the projections that the directory has, in their order. Throws Error if `allowed` is
/// false, or if one has a bias or an activation function.
std::vector<HfProjection> projections_of(const std::string& directory, bool allowed);
/// Adds the file's values to the text of a generation_config.json. Greedy decoding is "do_sample":
/// false there. Throws Error for a value of a wrong type or out of range.
std::string with_sampling(const std::string& generation_config, const GgufFile& file);

}  // namespace cria
