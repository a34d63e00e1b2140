#include "tools/value_check.h"

#include <tbb/blocked_range.h>
#include <tbb/parallel_reduce.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tools/terminal.h"

namespace cria::tools {
namespace {

struct Faults {
  std::uint64_t nans = 0, infinities = 0, first = std::numeric_limits<std::uint64_t>::max();

  void look(std::span<const float> values, std::uint64_t index) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (std::isfinite(values[i])) continue;
      ++(std::isnan(values[i]) ? nans : infinities);
      first = std::min(first, index + i);
    }
  }
  [[nodiscard]] Faults join(const Faults& other) const {
    return {nans + other.nans, infinities + other.infinities, std::min(first, other.first)};
  }
};

Faults scan(const TensorView& tensor, Progress& progress, std::uint64_t bytes_before) {
  const DTypeInfo& type = dtype_info(tensor.dtype);
  constexpr std::size_t kSlice = 16 << 20;  // bytes between looks at the clock
  const std::size_t slice = std::max<std::size_t>(kSlice / type.block_bytes, 1);
  const std::size_t blocks = tensor.bytes / type.block_bytes;
  Faults faults;
  for (std::size_t at = 0; at < blocks; at += slice) {
    const tbb::blocked_range<std::size_t> range(at, std::min(at + slice, blocks), 256);
    const Faults found = tbb::parallel_reduce(
        range, Faults{},
        [&](const tbb::blocked_range<std::size_t>& part, Faults sum) {
          std::vector<float> values(type.block_values);
          for (std::size_t block = part.begin(); block != part.end(); ++block) {
            type.dequantize(tensor.data + block * type.block_bytes, values.data(), values.size());
            sum.look(values, block * type.block_values);
          }
          return sum;
        },
        [](const Faults& a, const Faults& b) { return a.join(b); });
    faults = faults.join(found);
    progress.update(bytes_before + range.end() * type.block_bytes);
  }
  return faults;
}

}  // namespace

std::vector<BadTensor> check_values(const GgufFile& file) {
  Progress progress("checking", "bytes", file.file_bytes());
  std::vector<BadTensor> bad;
  std::uint64_t bytes = 0;
  for (const TensorView& tensor : file.tensors()) {
    if (tensor.data == nullptr) {
      bad.push_back({.name = std::string(tensor.name), .missing = true});
      continue;
    }
    const Faults faults = scan(tensor, progress, bytes);
    bytes += tensor.bytes;
    if (faults.nans + faults.infinities > 0)
      bad.push_back({.name = std::string(tensor.name),
                     .nans = faults.nans,
                     .infinities = faults.infinities,
                     .first = faults.first});
  }
  return bad;
}

}  // namespace cria::tools
