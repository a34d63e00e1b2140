// Hyper-parameters that (nearly) every architecture has, read from GGUF metadata and checked. What
// one family has beyond them is read by its own file in engine/architectures.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/gguf/gguf.h"
#include "model/keys.h"

namespace cria {

enum class RopeStyle : std::uint8_t {
  Adjacent,
  HalfSplit
};  ///< pairs (2i, 2i+1) or (i, i+n_rot/2)
/// The scaling of llama3 is not among them: it arrives as rope_freqs.weight.
enum class RopeScaling : std::uint8_t { None, Linear, Yarn, LongRope };
enum class NormKind : std::uint8_t { Rms, Layer };

/// The same fields for every architecture.
struct ModelConfig {
  std::string arch;                       ///< general.architecture
  std::string name;                       ///< general.name or ""
  std::uint32_t n_ctx_train = 0;          ///< context_length
  std::uint32_t n_embd = 0;               ///< embedding_length
  std::uint32_t n_layers = 0;             ///< block_count
  std::vector<std::uint32_t> n_heads;     ///< attention.head_count, one per layer
  std::vector<std::uint32_t> n_kv_heads;  ///< attention.head_count_kv, one per layer
  std::uint32_t head_dim_k = 0;           ///< attention.key_length, default n_embd/n_heads
  std::uint32_t head_dim_v = 0;           ///< attention.value_length
  std::vector<std::uint32_t> n_ff;        ///< feed_forward_length, one per layer
  std::uint32_t n_experts = 0;            ///< expert_count
  std::uint32_t n_experts_used = 0;       ///< expert_used_count
  std::uint32_t n_vocab = 0;              ///< rows of token_embd
  float norm_eps = 0;       ///< attention.layer_norm_rms_epsilon, or attention.layer_norm_epsilon
  std::uint32_t n_rot = 0;  ///< rope.dimension_count
  float rope_base = 10000;  ///< rope.freq_base
  RopeScaling rope_scaling = RopeScaling::None;
  float rope_factor = 1;            ///< rope.scaling.factor
  std::uint32_t rope_orig_ctx = 0;  ///< rope.scaling.original_context_length, default n_ctx_train
  float rope_attn_factor = 1;       ///< rope.scaling.attn_factor
  float yarn_beta_fast = 32, yarn_beta_slow = 1;
  float yarn_log_multiplier = 0;      ///< rope.scaling.yarn_log_multiplier
  std::vector<std::string> warnings;  ///< tolerated defects, one line each

  [[nodiscard]] std::uint32_t group(std::uint32_t layer) const {
    return n_heads[layer] / n_kv_heads[layer];
  }
  [[nodiscard]] std::uint32_t q_dim(std::uint32_t layer) const {
    return n_heads[layer] * head_dim_k;
  }
  [[nodiscard]] std::uint32_t k_dim(std::uint32_t layer) const {
    return n_kv_heads[layer] * head_dim_k;
  }
  [[nodiscard]] std::uint32_t v_dim(std::uint32_t layer) const {
    return n_kv_heads[layer] * head_dim_v;
  }

  /// Throws Error that names the key at fault. Any architecture: which ones run,
  /// engine/architectures knows. mixed: layers may lack attention or a feed-forward part, whose
  /// heads and width are then 0.
  static ModelConfig from_gguf(const GgufFile& file, NormKind norm = NormKind::Rms,
                               bool mixed = false);
  /// The same with the keys of the file, which remember what was read.
  static ModelConfig from_keys(const GgufFile& file, Keys& keys, NormKind norm, bool mixed = false);
};

}  // namespace cria
