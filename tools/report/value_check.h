// A look at every value of a model file: what arithmetic cannot survive, and what the rest is like.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/gguf/gguf.h"

namespace cria::tools {

/// Of one tensor; NaN and infinity count for no other figure.
struct TensorValues {
  std::string name;
  DType dtype = DType::F32;
  bool missing = false;  ///< the file ends before its data
  std::uint64_t values = 0, zeros = 0, nans = 0, infinities = 0;
  std::uint64_t first_bad = 0;  ///< index of the first NaN or infinity
  double min = 0, max = 0, mean = 0, rms = 0;

  [[nodiscard]] bool good() const { return !missing && nans + infinities == 0; }
};

/// Dequantizes everything, on all cores, with progress on a terminal. The figures do not depend on
/// the cores.
std::vector<TensorValues> check_values(const GgufFile& file);

/// How the values of two tensors of one shape differ.
struct ValueDifference {
  std::uint64_t values = 0, different = 0;  ///< NaN equals NaN
  std::uint64_t not_finite = 0;  ///< of the different ones: NaN or infinity, here or there
  double largest = 0, rmse = 0;  ///< of the others
};
ValueDifference compare_values(const TensorView& a, const TensorView& b);

}  // namespace cria::tools
