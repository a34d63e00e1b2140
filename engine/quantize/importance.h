// Importance matrices: how large the activations are that each column of each weight matrix is
// multiplied by, as sums of squares over the tokens of a text. A quantizer gives columns that
// matter more of its care.
//
// On disk, both forms in use: GGUF (general.type "imatrix"; keys imatrix.datasets,
// imatrix.chunk_count, imatrix.chunk_size; for a tensor T the F32 tensors T.in_sum2 [cols, experts]
// and T.counts [1, experts]), and the older binary one (i32 entries; for each i32 length, name, i32
// chunks, i32 values, f32 mean·chunks …; i32 chunks, i32 length, dataset).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace cria {

/// Of one weight matrix, or of the matrices of all experts one after the other.
struct ImportanceEntry {
  std::vector<double> sums;  ///< Σ x² per column: [experts][cols]
  std::vector<double>
      counts;  ///< tokens that went into the sums, per expert; one number where not known
};

struct ImportanceMatrix {
  std::map<std::string, ImportanceEntry, std::less<>> entries;  ///< by the weight's tensor name
  std::vector<std::string> datasets;                            ///< the texts
  std::uint32_t chunks = 0;                                     ///< windows evaluated
  std::uint32_t chunk_size = 512;                               ///< tokens of each
  bool knows_chunk_size = true;  ///< false: of the older form, which does not say it

  /// Of either form. Throws Error naming the entry at fault: what is cut short, negative or not
  /// finite.
  static ImportanceMatrix read(const std::string& path);
  /// The older form if the name ends in ".dat", else GGUF. Throws Error.
  void write(const std::string& path) const;

  /// Adds another text's sums to these; its windows count by their tokens, as so many of
  /// chunk_size. Throws Error if a weight has another number of columns there.
  void add(const ImportanceMatrix& other);

  /// Mean squares for a tensor of cols columns and so many experts (1: a plain matrix):
  /// cols·experts numbers, finite and ≥ 0; an expert that no token reached has zeros. Columns that
  /// were always zero get a little, so that their weights are not thrown away. Empty if the tensor
  /// has no entry. Throws Error if its entry is of another size.
  [[nodiscard]] std::vector<float> weights(std::string_view tensor, std::uint64_t cols,
                                           std::uint64_t experts) const;
};

}  // namespace cria
