// Hyper-parameters of a LLaMA-family model, read from GGUF metadata and checked.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/gguf.h"

namespace cria {

enum class RopeStyle : std::uint8_t { Adjacent, HalfSplit };  ///< pairs (2i, 2i+1) or (i, i+d/2)
enum class RopeScaling : std::uint8_t {
  None,
  Linear,
  Yarn
};  ///< llama3 scaling arrives as rope_freqs.weight

/// What distinguishes one architecture from another: one row per GGUF `general.architecture`.
struct Architecture {
  std::string_view name;  ///< "llama", "qwen2": also the prefix of its metadata keys
  RopeStyle rope;
};
const Architecture* find_architecture(std::string_view name) noexcept;

struct LlamaConfig {
  const Architecture* arch = nullptr;
  std::string name;                       ///< general.name or ""
  std::uint32_t n_ctx_train = 0;          ///< context_length
  std::uint32_t n_embd = 0;               ///< embedding_length
  std::uint32_t n_layers = 0;             ///< block_count
  std::uint32_t n_heads = 0;              ///< attention.head_count
  std::vector<std::uint32_t> n_kv_heads;  ///< attention.head_count_kv, one per layer
  std::uint32_t head_dim_k = 0;           ///< attention.key_length, default n_embd/n_heads
  std::uint32_t head_dim_v = 0;           ///< attention.value_length
  std::uint32_t n_ff = 0;                 ///< feed_forward_length
  std::uint32_t n_vocab = 0;              ///< rows of token_embd
  float rms_eps = 0;                      ///< attention.layer_norm_rms_epsilon
  std::uint32_t n_rot = 0;                ///< rope.dimension_count
  float rope_base = 10000;                ///< rope.freq_base
  RopeScaling rope_scaling = RopeScaling::None;
  float rope_factor = 1;            ///< rope.scaling.factor
  std::uint32_t rope_orig_ctx = 0;  ///< rope.scaling.original_context_length
  float rope_attn_factor = 1;       ///< rope.scaling.attn_factor (yarn)
  float yarn_beta_fast = 32, yarn_beta_slow = 1;
  std::vector<std::string> warnings;  ///< what was tolerated, one line each

  [[nodiscard]] std::uint32_t group(std::uint32_t layer) const { return n_heads / n_kv_heads[layer]; }
  [[nodiscard]] std::uint32_t q_dim() const { return n_heads * head_dim_k; }
  [[nodiscard]] std::uint32_t k_dim(std::uint32_t layer) const { return n_kv_heads[layer] * head_dim_k; }
  [[nodiscard]] std::uint32_t v_dim(std::uint32_t layer) const { return n_kv_heads[layer] * head_dim_v; }

  /// Throws Error that names the key at fault.
  static LlamaConfig from_gguf(const GgufFile& file);
};

}  // namespace cria
