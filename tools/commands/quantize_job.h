// The common part of `cria quantize` and `cria sweep`: a model, what is known about the inputs of
// its matrices, plans of types, and the file that follows from a plan.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/calibrate/calibrate.h"
#include "engine/calibrate/calibration_text.h"
#include "engine/quantize/budget.h"
#include "engine/quantize/quantize.h"
#include "tools/cli/flag.h"

namespace cria::tools {

/// Flags of both commands.
struct QuantizeSources {
  std::string imatrix;                 ///< path; "": none
  std::vector<std::string> calibrate;  ///< paths of texts, or "self"; empty: not calibrated
  std::uint64_t calibrate_tokens = 0;  ///< 0: the default
  bool no_self = false;                ///< leave out the text that the model writes
  std::string types = "K";             ///< that a budget chooses from
  std::string state;                   ///< path of a calibration's state; "": not kept
};
Flags source_flags(QuantizeSources& sources);

/// A budget of bytes for a file, or of bits for a weight.
struct Budget {
  std::string size;  ///< "4.6GiB"; "": not given
  double bits = 0;   ///< per weight, without metadata; 0: not given

  [[nodiscard]] bool given() const { return !size.empty() || bits > 0; }
  /// "4.6GiB" or "4.2bits"
  [[nodiscard]] std::string text() const {
    return size.empty() ? number_text(static_cast<float>(bits)) + "bits" : size;
  }
};

class QuantizeJob {
 public:
  /// sources must outlive it. Texts are read when they are needed. Throws Error for a bad model or
  /// importance matrix, and UsageError for unknown types.
  QuantizeJob(const std::string& input, const QuantizeSources& sources, unsigned threads);

  [[nodiscard]] const GgufFile& file() const { return file_; }
  [[nodiscard]] bool weighted() const {
    return importance_.has_value() || !sources_.calibrate.empty();
  }

  /// The plan with the least predicted damage within the budget. Tensors keep types that `options`
  /// ask for; options.mix is not used. Measures damages the first time. Throws Error naming the
  /// smallest possible size if the budget is below it.
  QuantizePlan plan(QuantizeOptions options, const Budget& budget);
  /// The plan of types read from a file: other tensors get the type that most weights have.
  [[nodiscard]] QuantizePlan plan(QuantizeOptions options, ChosenTypes chosen) const;
  /// All types stay, but interleaved ones become plain.
  [[nodiscard]] QuantizePlan plain_plan(const QuantizeOptions& options) const;
  /// The sum of the chosen types' damages in the last plan under a budget.
  [[nodiscard]] double predicted() const { return predicted_; }

  /// True if there is an importance matrix without this tensor.
  [[nodiscard]] bool lacks_importance(std::string_view tensor) const {
    return importance_ && !importance_->entries.contains(tensor);
  }

  /// Declares keys and tensors of the file.
  void declare(GgufWriter& writer, const QuantizePlan& plan) const;

  using OnTensor =
      std::function<void(const PlannedTensor& tensor, const std::optional<QuantizeError>& error)>;
  /// Writes the declared file, with progress. verbose: a line for each calibrated matrix. on_tensor
  /// gets errors if `measure`. Throws Interrupted at Ctrl-C; the target is unchanged then.
  /// Continues from the calibration's state if there is one, and deletes it when the file is
  /// complete.
  void write(const QuantizePlan& plan, GgufWriter& writer, bool verbose, bool measure,
             const OnTensor& on_tensor) const;

 private:
  /// A budget: of the file's bytes, or of its tensors' alone.
  struct Allowance {
    std::uint64_t bytes = 0, taken = 0;  ///< all; by what is not to be chosen
    std::uint64_t alignment = 1;         ///< of tensors
    double weights = 0;                  ///< in all tensors
    [[nodiscard]] std::string text(std::uint64_t used) const;
  };
  [[nodiscard]] const CalibrationTokens& tokens() const;  // read or written the first time
  [[nodiscard]] std::vector<CalibrationText> texts() const;
  [[nodiscard]] CalibrationTokens tokens_of(std::span<const CalibrationText> texts,
                                            std::size_t max_tokens) const;
  void measure(const QuantizePlan& open);
  [[nodiscard]] Allowance allowance_of(const QuantizePlan& open, const Budget& budget) const;
  [[nodiscard]] std::uint64_t least_bytes(const QuantizePlan& open,
                                          const Allowance& allowance) const;
  [[nodiscard]] CalibrationState calibrated(const QuantizePlan& plan, const std::string& output,
                                            bool verbose) const;
  [[nodiscard]] std::vector<std::vector<TypeCost>> damages(
      std::span<const TensorView* const> tensors) const;
  [[nodiscard]] const Model& model() const;

  const QuantizeSources& sources_;
  const unsigned threads_;
  GgufFile file_;
  std::optional<ImportanceMatrix> importance_;
  mutable std::shared_ptr<const Model> model_;  // loaded when it must be evaluated
  std::vector<DType> types_;
  mutable CalibrationTokens tokens_;
  std::map<std::string, std::vector<TypeCost>, std::less<>> costs_;  // by tensor, once measured
  double predicted_ = 0;
};

}  // namespace cria::tools
