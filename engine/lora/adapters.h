// Adapters (LoRA): low-rank additions to the matrices of a model, W + scale·B·A. The scale belongs
// to a sequence: it multiplies the product with A, so that one batch may have several. Each is a
// GGUF file with general.type "adapter", adapter.type "lora" and adapter.lora.alpha. A tensor T has
// the factors T.lora_a [cols, rank] and T.lora_b [rank, rows], with a third dimension for stacked
// experts. llama.cpp's converter swaps the factors of the embedding, whose rows are looked up:
// T.lora_a [rank, rows], T.lora_b [rank, cols].
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/graph/graph.h"
#include "engine/model.h"
#include "model/gguf/gguf.h"

namespace cria {

/// The addition of one or several files to a tensor.
struct LowRank {
  std::uint64_t cols = 0, rank = 0, rows = 0;
  std::uint64_t n = 1;             ///< number of stacked matrices
  std::vector<float> a;            ///< [n][rank][cols]
  std::vector<float> b;            ///< [n][rows][rank], times alpha / rank of the file
  std::vector<AdapterPart> parts;  ///< by file; zeros are between them

  /// Views of a single matrix's factors as tensors, for b of rows [begin, begin + count).
  [[nodiscard]] TensorView a_view() const;
  [[nodiscard]] TensorView b_view(std::uint64_t begin, std::uint64_t count) const;
};

/// Additions by the name of the tensor, in the order of the files. A part begins at a multiple of
/// the lanes of float products, so that a part whose scale is 0 changes no bit of the others.
class Adapters {
 public:
  /// Throws Error naming the file and the bad key or tensor. Rejects files that do not contain
  /// adapters or have another architecture, factors that do not fit each other or the tensor, NaN
  /// and infinity.
  static Adapters load(std::span<const LoraFile> files, const GgufFile& base);

  [[nodiscard]] const LowRank* find(std::string_view tensor) const;
  [[nodiscard]] const std::map<std::string, LowRank, std::less<>>& all() const { return tensors_; }
  [[nodiscard]] bool empty() const { return tensors_.empty(); }
  /// The files and the scales of sequences without own ones.
  [[nodiscard]] const std::vector<LoraFile>& files() const { return files_; }
  /// Returns a line about ignored tensors for each file that has some.
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  void add(const LoraFile& file, const GgufFile& base);
  std::vector<LoraFile> files_;
  std::map<std::string, LowRank, std::less<>> tensors_;
  std::vector<std::string> warnings_;
};

}  // namespace cria
