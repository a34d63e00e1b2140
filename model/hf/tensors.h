// Names of tensors: Hugging Face's and GGUF's. One table serves convert and export.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cria {

/// How a tensor's rows stand in the two files. Where GGUF rotates adjacent pairs (RopeStyle::Adjacent), the
/// rows of each head of q or k lie in another order than in Hugging Face's files, whose pairs are
/// (i, i + d/2).
enum class HeadRows : std::uint8_t { None, Query, Key };

/// How long a dimension is.
enum class TensorSize : std::uint8_t { None, Embedding, Vocabulary, Queries, Keys, FeedForward };

struct TensorName {
  std::string hf;    ///< "model.layers.7.self_attn.q_proj.weight"
  std::string gguf;  ///< "blk.7.attn_q.weight"
  HeadRows head_rows;
  TensorSize rows, cols;  ///< cols: None for a vector
  bool optional;          ///< not every model has it

  [[nodiscard]] bool is_matrix() const { return cols != TensorSize::None; }
};

/// Every tensor that a model of so many layers may have, in the order of GGUF files.
std::vector<TensorName> model_tensors(std::uint32_t n_layers);
/// Whether a Hugging Face file may have this tensor although no other has a place for it
/// (tables that are computed).
bool is_derived_tensor(std::string_view hf_name);

/// The row of the source that becomes row `row` of the target, where heads have head_dim rows each.
constexpr std::uint64_t hf_row(std::uint64_t row,
                               std::uint64_t head_dim) {  // target GGUF, source Hugging Face
  const std::uint64_t in_head = row % head_dim;
  return row - in_head + in_head / 2 + (in_head % 2) * (head_dim / 2);
}
constexpr std::uint64_t gguf_row(std::uint64_t row, std::uint64_t head_dim) {  // the other way
  const std::uint64_t in_head = row % head_dim, half = head_dim / 2;
  return row - in_head + 2 * (in_head % half) + in_head / half;
}

}  // namespace cria
