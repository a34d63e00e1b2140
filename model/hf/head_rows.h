// How the rows of queries and keys stand in the two files. Where GGUF rotates adjacent pairs
// (RopeStyle::Adjacent), the rows of each head of q or k lie in another order than in Hugging
// Face's files, whose pairs are (i, i + d/2).
#pragma once

#include <cstdint>

namespace cria {

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
