// What stands in the middle of a few measurements.
#pragma once

#include <algorithm>
#include <vector>

namespace cria::tools {

/// Of at least one value; of an even number the mean of both in the middle.
inline double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 != 0 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace cria::tools
