// Quantizes the tensors of a file as planned, as a stream. Pieces of rows are read, encoded on all
// threads and written in order, so only a few pieces are in memory.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "engine/quantize/importance.h"
#include "engine/quantize/plan.h"
#include "kernels/kernels.h"

namespace cria {

/// The error of a tensor's new values.
struct QuantizeError {
  double rmse = 0;  ///< root mean square of the differences
  double rms = 0;   ///< root mean square of the old values
};

struct QuantizeRun {
  unsigned threads = 0;                          ///< 0: usable_cores()
  const ImportanceMatrix* importance = nullptr;  ///< outlives the run; null: none
  const KernelSet* kernels = nullptr;            ///< null: kernels_in_use()
  /// Returns the blocks of a planned tensor that are known already (engine/calibrate); empty: none.
  /// They must outlive the run.
  std::function<std::span<const std::byte>(const PlannedTensor& tensor)> made = {};
  bool measure = false;  ///< computes QuantizeError, which needs decoding
  /// Called in the order of the file, from any thread but one at a time: after each piece with the
  /// bytes written so far (false stops), and after each tensor.
  std::function<bool(std::uint64_t bytes)> on_progress = {};
  std::function<void(const PlannedTensor& tensor, const std::optional<QuantizeError>& error)>
      on_tensor = {};
};

/// Throws Error naming the first tensor whose type has no encoder in `kernels`.
void require_encoders(const QuantizePlan& plan, const KernelSet& kernels);

/// Encodes all tensors of the plan; begins and finishes the writer, for which they have been
/// declared. The bytes do not depend on the number of threads. If on_progress returns false,
/// quantize() returns false and the target is unchanged. Throws Error naming a tensor with a value
/// that is not finite or too large for the new type, and as kernels_in_use().
bool quantize(const GgufFile& file, const QuantizePlan& plan, GgufWriter& writer,
              const QuantizeRun& run);

}  // namespace cria
