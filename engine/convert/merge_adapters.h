// Adapters written into the matrices of a model.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "engine/lora/adapters.h"
#include "kernels/kernels.h"

namespace cria {

struct MergeOptions {
  std::string output;
  std::optional<DType> type = {};  ///< of the matrices that change; none: as they are
  unsigned threads = 1;
  const KernelSet* kernels = nullptr;
};

/// The base's keys and tensors, W + B·A in place of W where there is an addition: summed up in
/// double, then rounded once to the type. on_bytes: bytes of data so far; false stops, and leaves
/// the target as it was. Throws Error for numbers that the type does not hold, and as GgufWriter.
bool merge_adapters(const GgufFile& base, const Adapters& adapters, const MergeOptions& options,
                    const std::function<bool(std::uint64_t bytes)>& on_bytes);

}  // namespace cria
