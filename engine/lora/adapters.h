// Adapters (LoRA): low-rank additions to the matrices of a model, W + scale·B·A, each in a GGUF
// file of its own: general.type "adapter", adapter.type "lora", adapter.lora.alpha; for a tensor T
// the tensors T.lora_a [cols, rank] and T.lora_b [rank, rows]; for stacked experts both have a
// third dimension. Of the embedding, whose rows are looked up, llama.cpp's converter writes the
// halves the other way round: T.lora_a [rank, rows], T.lora_b [rank, cols].
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/lora/lora_file.h"
#include "model/gguf/gguf.h"

namespace cria {

/// What one or several files add to a tensor.
struct LowRank {
  std::uint64_t cols = 0, rank = 0, rows = 0,
                n = 1;   ///< rank: of all files together; n: stacked matrices
  std::vector<float> a;  ///< [n][rank][cols]
  std::vector<float> b;  ///< [n][rows][rank]; the scale is in it

  /// Views as tensors, of rows [begin, begin + count) in b's case. Of a single matrix.
  [[nodiscard]] TensorView a_view() const;
  [[nodiscard]] TensorView b_view(std::uint64_t begin, std::uint64_t count) const;
};

/// Additions by the name of the tensor. Their order is that of the files, which does not change a
/// bit of sums.
class Adapters {
 public:
  /// Throws Error naming the file and the key or tensor at fault: no adapter, of another
  /// architecture, halves that do not fit together or to the base's tensor, numbers that are not
  /// finite.
  static Adapters load(std::span<const LoraFile> files, const GgufFile& base);

  [[nodiscard]] const LowRank* find(std::string_view tensor) const;
  [[nodiscard]] const std::map<std::string, LowRank, std::less<>>& all() const { return tensors_; }
  [[nodiscard]] bool empty() const { return tensors_.empty(); }
  /// What was passed over: a line for each file.
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  void add(const LoraFile& file, const GgufFile& base);
  std::map<std::string, LowRank, std::less<>> tensors_;
  std::vector<std::string> warnings_;
};

}  // namespace cria
