// Measures what each type would cost each tensor: the KL divergence from the exact model.
//
// A tensor's damage in a type T is KL(P)·t(T)/t(P): KL(P) is measured with this tensor alone in a
// type P, and t is the squared error of rows, each column weighed by its inputs' mean square.
// Small damages add up (Malinovskii et al. 2024, "HIGGS").
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "engine/calibrate/layer_stream.h"
#include "engine/quantize/budget.h"

namespace cria {

struct DamageOptions {
  std::span<const DType> types;                  ///< to choose from
  const ImportanceMatrix* importance = nullptr;  ///< null: mean squares over the tokens
  unsigned threads = 1;
  const KernelSet* kernels = nullptr;  ///< null: kernels_in_use()
  /// Called after each tensor; false stops.
  std::function<bool(std::size_t done, std::size_t all)> on_tensor = {};
};

/// Returns for each tensor the types that it may get, the smallest first; empty if on_tensor
/// stopped it. A type that does not divide a tensor's rows is replaced by its fallback. A tensor
/// that the model does not evaluate counts like the mean of the others. The same for any threads
/// and instruction set. tokens: some windows, 512 rows of logits are enough; the second half of
/// each is compared. Throws Error naming a tensor with NaN or infinite values.
std::vector<std::vector<TypeCost>> measure_damage(const Model& model,
                                                  std::span<const TensorView* const> tensors,
                                                  const CalibrationTokens& tokens,
                                                  const DamageOptions& options);

}  // namespace cria
