// All values of a model: NaN, infinity and statistics of each tensor, as text and JSON.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "model/file/json.h"
#include "model/gguf/gguf.h"

namespace cria::tools {

/// Statistics of one tensor; they leave out NaN and infinity.
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

/// The difference of two tensors of one shape.
struct ValueDifference {
  std::uint64_t values = 0, different = 0;  ///< NaN equals NaN
  std::uint64_t not_finite = 0;             ///< different values with NaN or infinity on a side
  double largest = 0, rmse = 0;             ///< over the other different values
};
ValueDifference compare_values(const TensorView& a, const TensorView& b);

/// A table of the statistics, then the tensors that hold NaN or infinities, then how many hold
/// none.
std::string check_text(const std::vector<TensorValues>& all);
/// The tensors that are not good.
Json check_json(const std::vector<TensorValues>& all);
/// The statistics of all.
Json statistics_json(const std::vector<TensorValues>& all);

}  // namespace cria::tools
