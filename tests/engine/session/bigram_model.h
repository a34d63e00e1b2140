// A model whose probabilities are known: the next token depends on the last one only, by a table of
// logits.
#pragma once

#include "tests/engine/tiny_model.h"

namespace cria::test {

/// The logits are logit(last, next) for last = token mod 64. Only the embedding reaches the output:
/// attention and feed-forward are multiplied by zero. A row of the embedding is 1024 in one column,
/// so its RMS is exactly 128. The norm's weight of 1/8 makes the normalized value 1, and the logits
/// are the table's floats.
inline TinyModel bigram_file(
    const std::function<double(std::size_t last, std::size_t next)>& logit) {
  TinyModel tiny;
  tiny.edit = [logit](const std::string& tensor, std::vector<float>& values) {
    if (tensor.ends_with("attn_output.weight") || tensor.ends_with("ffn_down.weight"))
      std::ranges::fill(values, 0.0F);
    if (tensor == "output_norm.weight") std::ranges::fill(values, 0.125F);
    if (tensor == "token_embd.weight") {
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = i % 64 == i / 64 % 64 ? 1024.0F : 0.0F;
    }
    if (tensor == "output.weight") {
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<float>(logit(i % 64, i / 64));
    }
  };
  return tiny;
}

inline std::shared_ptr<const Model> bigram_model(
    const std::function<double(std::size_t last, std::size_t next)>& logit) {
  return bigram_file(logit).load();
}

}  // namespace cria::test
