// The tensors of a LLaMA-family model under the names that the graph uses, shapes and dtypes checked. Views
// into the GgufFile.
#pragma once

#include <vector>

#include "model/config.h"

namespace cria {

struct LayerWeights {
  const TensorView* attn_norm = nullptr;  ///< F32 [n_embd]
  const TensorView* q = nullptr;          ///< [n_embd, n_heads*head_dim_k]
  const TensorView* k = nullptr;          ///< [n_embd, k_dim]
  const TensorView* v = nullptr;          ///< [n_embd, v_dim]
  const TensorView* q_bias = nullptr;     ///< F32, null if the model has none; likewise k, v, o
  const TensorView* k_bias = nullptr;
  const TensorView* v_bias = nullptr;
  const TensorView* o = nullptr;  ///< attn_output [n_heads*head_dim_v, n_embd]
  const TensorView* o_bias = nullptr;
  const TensorView* ffn_norm = nullptr;  ///< F32 [n_embd]
  const TensorView* gate = nullptr;      ///< [n_embd, n_ff]
  const TensorView* up = nullptr;        ///< [n_embd, n_ff]
  const TensorView* down = nullptr;      ///< [n_ff, n_embd]
};

struct LlamaWeights {
  const TensorView* token_embd = nullptr;   ///< [n_embd, n_vocab]
  const TensorView* output_norm = nullptr;  ///< F32 [n_embd]
  const TensorView* output = nullptr;       ///< [n_embd, n_vocab]; token_embd where tied
  const TensorView* rope_freqs = nullptr;   ///< F32 [n_rot/2] or null: frequencies are divided by it
  std::vector<LayerWeights> layers;
  std::vector<std::string> warnings;  ///< unknown tensors and the like

  /// Throws Error naming the tensor at fault (missing, wrong shape, dtype that cannot be a weight).
  static LlamaWeights from_gguf(const GgufFile& file, const LlamaConfig& config);
};

}  // namespace cria
