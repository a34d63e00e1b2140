// Merges LoRA adapters into the matrices of a model.
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
  std::optional<DType> type = {};  ///< type of changed matrices; nullopt: unchanged
  unsigned threads = 1;
  const KernelSet* kernels = nullptr;
};

/// Writes the base's keys and tensors with W + B·A in place of W: summed in double, then rounded
/// once to the type. on_bytes gets the bytes so far; false stops and leaves the target unchanged.
/// Throws Error for numbers that the type cannot hold, and as GgufWriter.
bool merge_adapters(const GgufFile& base, const Adapters& adapters, const MergeOptions& options,
                    const std::function<bool(std::uint64_t bytes)>& on_bytes);

}  // namespace cria
