// Small valid GGUF files: seeds of the file fuzzers.
#pragma once

#include <string>
#include <vector>

#include "tests/fuzz/gguf_form.h"

namespace cria::fuzz {

/// A model that can run: one layer, 32 wide, a vocabulary of 40, a few kilobytes.
struct SeedModel {
  std::string arch = "llama";
  DType dtype = DType::Q8_0;  ///< type of the matrices; rows of 256 if it needs them
  bool biases = false, tied = false, rope_freqs = false, byte_pairs = false;
  std::uint32_t layers = 1;

  [[nodiscard]] GgufForm form() const;
};

/// Models of several types and kinds, GGUF versions 1 to 3.
std::vector<std::string> seed_models();
/// A file with only the keys of a vocabulary, of either kind.
GgufForm seed_vocabulary(bool byte_pairs);
/// Sums and counts, as `cria imatrix` writes them.
GgufForm seed_importance();

}  // namespace cria::fuzz
