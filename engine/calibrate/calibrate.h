// Quantizes a model's matrices with the second moments of their inputs, a layer after the other.
//
// Two streams of activations go through the model: one with exact weights, one with what has been
// quantized so far. A matrix W with exact inputs x and present inputs y is quantized towards
// W·E[x·yᵀ]·H⁻¹, H = E[y·yᵀ], which makes its present products nearest to the exact ones. A matrix
// that adds to the residual stream also makes good what that stream lacks so far.
//
// Memory holds what the streams keep between two layers and the moments of one matrix; finished
// blocks go to a file.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "engine/calibrate/calibration_state.h"
#include "engine/calibrate/feedback.h"
#include "engine/calibrate/layer_stream.h"
#include "engine/quantize/plan.h"

namespace cria {

struct CalibrationOptions {
  FeedbackOptions feedback;
  double table_damping = 0.5;          ///< damping for an embedding that also serves as output
  const KernelSet* kernels = nullptr;  ///< null: kernels_in_use()
  /// Called after each matrix with what was done.
  std::function<void(const std::string& tensor, std::uint64_t weights, const FeedbackLoss& loss)>
      on_matrix = [](const std::string&, std::uint64_t, const FeedbackLoss&) {};
  /// Called for each window and every few rows; may throw, which ends calibrate().
  std::function<void()> check = [] {};
  std::function<void(const std::string& note)> on_note = {};
  /// Called before the work begins with the memory that it needs at most, in bytes, without files
  /// that are mapped.
  std::function<void(std::uint64_t bytes)> on_start = {};
};

/// Hash of all that calibrate()'s blocks depend on.
std::uint64_t calibration_identity(const Model& model, const QuantizePlan& plan,
                                   const CalibrationTokens& tokens,
                                   const CalibrationOptions& options);

/// Adds to the state what it lacks. Tensors of the plan that are not in it then have no inputs of
/// their own (tables, products of heads): the encoder alone does them. The same bytes for any
/// number of threads and any instruction set, and when a run continues another one. Throws
/// Error as the state.
void calibrate(const Model& model, const QuantizePlan& plan, const CalibrationTokens& tokens,
               const CalibrationOptions& options, CalibrationState& state);

/// Writes how the file was calibrated: keys quantize.calibration.*. texts: their names.
void declare_calibration(GgufWriter& writer, const std::string& texts, std::size_t tokens);

}  // namespace cria
