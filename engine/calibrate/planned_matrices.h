// The matrices that a plan quantizes: what their rows are quantized towards, and the way into the
// state.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/calibrate/calibration_state.h"
#include "engine/calibrate/feedback.h"
#include "engine/graph/graph.h"
#include "engine/model.h"
#include "engine/quantize/plan.h"

namespace cria {

/// An addition to a matrix before it is quantized, by which it answers errors of earlier ones.
struct Correction {
  std::vector<float> by_input;   ///< transposed, [n][n]: W becomes W + W·by_input; or empty
  std::vector<float> by_output;  ///< [rows][n]: is added to W; or empty
};

class PlannedMatrices {
 public:
  /// All but threads must outlive it.
  PlannedMatrices(const Model& model, const QuantizePlan& plan, const KernelSet& kernels,
                  unsigned threads, CalibrationState& state);

  /// Types of the plan whose codes depend on one another: the encoder alone chooses them.
  [[nodiscard]] std::vector<DType> unsuited() const;
  /// The type of a matrix that multiplies and is quantized.
  [[nodiscard]] std::optional<DType> type_of(const Matrix& m) const;
  [[nodiscard]] bool is_finished(const Matrix& m) const;
  /// Quantizes a tensor or some of its rows. The encoder alone chooses the codes of an unsuited
  /// type, and of any type if moments is null. check is called every few rows.
  FeedbackLoss quantize(const Matrix& m, const InputMoments* moments, const Correction& correction,
                        const FeedbackOptions& feedback, const std::function<void()>& check);
  /// The rows of a finished matrix.
  [[nodiscard]] TensorView rows_of(const Matrix& m) const;

  /// Rows [begin, end) of a matrix of the file. Throws Error if its type cannot hold them.
  [[nodiscard]] std::vector<float> floats_of(const Matrix& m, std::size_t begin,
                                             std::size_t end) const;
  /// out[r] += x[r]·aᵀ for a of rows of width n.
  void add_products_of(const std::vector<float>& a, std::size_t n, const std::vector<float>& x,
                       std::vector<float>& out) const;

 private:
  [[nodiscard]] std::uint64_t first_row(const Matrix& m) const;
  [[nodiscard]] std::vector<float> target_of(const Matrix& m, const Correction& correction,
                                             std::size_t begin, std::size_t end) const;
  void encode(DType type, const std::vector<float>& values, const std::vector<float>& importance,
              std::size_t n, std::byte* out) const;
  template <class F>
  void for_each_chunk(std::size_t rows, F&& f) const;

  const Model& model_;
  const KernelSet& kernels_;
  unsigned threads_;
  CalibrationState& state_;
  std::map<std::string, DType, std::less<>> types_;
};

}  // namespace cria
