// A scan of every value of a model file for what arithmetic cannot survive.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/gguf.h"

namespace cria::tools {

/// A tensor with values that are NaN or infinite, or whose data is not in the file.
struct BadTensor {
  std::string name;
  std::uint64_t nans = 0, infinities = 0, first = 0;  ///< first: index of the first such value
  bool missing = false;                               ///< the file ends before its data
};

/// Dequantizes everything, on all cores, with progress on a terminal. Tensors without fault are not in the
/// result.
std::vector<BadTensor> check_values(const GgufFile& file);

}  // namespace cria::tools
