// Importance matrices (imatrix): sums of squared activations for each column of each weight matrix,
// over the tokens of a text. A quantizer is more accurate in columns with large sums.
//
// There are two forms on disk. GGUF has general.type "imatrix", keys imatrix.datasets,
// imatrix.chunk_count and imatrix.chunk_size, and for each tensor T the F32 tensors T.in_sum2
// [cols, experts] and T.counts [1, experts]. The older binary form has i32 entries; for each, i32
// length, name, i32 chunks, i32 values, f32 mean·chunks …; then i32 chunks, i32 length, dataset.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace cria {

/// One weight matrix, or the concatenated matrices of all experts.
struct ImportanceEntry {
  std::vector<double> sums;    ///< Σ x² per column: [experts][cols]
  std::vector<double> counts;  ///< tokens in the sums per expert; one number if not known
};

struct ImportanceMatrix {
  std::map<std::string, ImportanceEntry, std::less<>> entries;  ///< by tensor name
  std::vector<std::string> datasets;                            ///< the texts
  std::uint32_t chunks = 0;                                     ///< windows evaluated
  std::uint32_t chunk_size = 512;                               ///< tokens per window
  bool knows_chunk_size = true;                                 ///< false: the older form lacks it

  /// Reads either form. Throws Error naming the entry at fault: truncated, negative or not finite.
  static ImportanceMatrix read(const std::string& path);
  /// Writes the older form if the name ends in ".dat", else GGUF. Throws Error.
  void write(const std::string& path) const;

  /// Adds another text's sums; its windows are counted in windows of chunk_size tokens. Throws
  /// Error if numbers of columns differ.
  void add(const ImportanceMatrix& other);

  /// The mean squares of a tensor (experts 1: a plain matrix): cols·experts numbers, finite and ≥
  /// 0. An expert without tokens has zeros. Columns that were always zero get a small value, so
  /// that their weights survive. Empty if the tensor has no entry. Throws Error if sizes differ.
  [[nodiscard]] std::vector<float> weights(std::string_view tensor, std::uint64_t cols,
                                           std::uint64_t experts) const;
};

}  // namespace cria
