// Quantizes the rows of one matrix so that its products change least. A row w that becomes q has
// the loss (q - w)·H·(q - w)ᵀ, where H is the mean of x·xᵀ over the inputs x of a text.
//
// The encoder chooses scales. Error feedback then chooses codes, one column after the other, while
// the later columns answer each rounding error (OBQ: Frantar and Alistarh 2022; GPTQ: Frantar et
// al. 2022; the same as Babai's nearest plane). Descent makes each code the best for the current
// other codes. Refitting moves scales under the codes by least squares in H.
//
// Rows are independent, and all sums have one order: results do not depend on threads or
// instruction sets.
#pragma once

#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "engine/calibrate/moments.h"
#include "engine/calibrate/row_codes.h"

namespace cria {

constexpr std::size_t kFeedbackRows = 32;  ///< rows that a thread quantizes together

/// Quantizes rows to a type.
class Feedback {
 public:
  /// Both outlive it.
  Feedback(DType type, const InputMoments& moments, const FeedbackOptions& options,
           const KernelSet& kernels);

  /// targets: [rows][n]. out: the rows as blocks; of each row the best of what the encoder gave and
  /// what was found.
  FeedbackLoss quantize(std::span<const float> targets, std::byte* out) const;

 private:
  const CodeFormat& format_;
  const InputMoments& moments_;
  FeedbackOptions options_;
  const KernelSet& kernels_;
  std::size_t width_;                 // columns whose codes are chosen together
  std::vector<std::uint32_t> order_;  // order of columns
  std::vector<float> factor_;         // transposed_factor(order_)
};

}  // namespace cria
