// Quantizes the tensors of a file as planned, as a stream: pieces of rows are read, encoded on all
// threads and written in order, so that memory stays at a few pieces, whatever the model.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "engine/quantize/importance.h"
#include "engine/quantize/plan.h"
#include "kernels/kernels.h"

namespace cria {

/// How far a tensor's new values are from its old ones.
struct QuantizeError {
  double rmse = 0;  ///< root of the mean squared difference
  double rms = 0;   ///< root of the mean square of the old values
};

struct QuantizeRun {
  unsigned threads = 0;                          ///< 0: usable_cores()
  const ImportanceMatrix* importance = nullptr;  ///< null: none; outlives the run
  const KernelSet* kernels = nullptr;            ///< null: kernels_in_use()
  bool measure = false;                          ///< computes QuantizeError, which costs decoding
  /// Called in the order of the file, from any thread but never at once: after each piece with the
  /// bytes of the result written so far (false stops), and after each tensor.
  std::function<bool(std::uint64_t bytes)> on_progress = {};
  std::function<void(const PlannedTensor& tensor, const std::optional<QuantizeError>& error)>
      on_tensor = {};
};

/// Throws Error if a type of the plan has no encoder here (naming its first tensor).
void require_encoders(const QuantizePlan& plan, const KernelSet& kernels);

/// Encodes all tensors of the plan into a writer for which they were declared; begins and finishes
/// it. The bytes do not depend on the number of threads. False if on_progress stopped it: the
/// writer's target is as it was. Throws Error naming the tensor that holds a value which is not
/// finite or does not fit into its new type, UnknownInstructionSet where run.kernels is null and
/// kernels_in_use() throws it.
bool quantize(const GgufFile& file, const QuantizePlan& plan, GgufWriter& writer,
              const QuantizeRun& run);

}  // namespace cria
