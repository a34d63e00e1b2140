#include "engine/calibrate/feedback.h"

#include <algorithm>
#include <numeric>

#include "engine/calibrate/chunk.h"

namespace cria {
namespace {

// Columns, or groups of width columns that share codes, with the largest moments first.
std::vector<std::uint32_t> order_of(const InputMoments& moments, std::size_t width) {
  const std::size_t n = moments.size();
  std::vector<double> size(n / width);
  for (std::size_t i = 0; i < n; ++i) size[i / width] += moments.row(i)[i];
  std::vector<std::uint32_t> groups(size.size()), order;
  std::iota(groups.begin(), groups.end(), 0U);
  std::ranges::stable_sort(groups,
                           [&](std::uint32_t a, std::uint32_t b) { return size[a] > size[b]; });
  for (const std::uint32_t group : groups)
    for (std::size_t i = 0; i < width; ++i)
      order.push_back(static_cast<std::uint32_t>(group * width + i));
  return order;
}

}  // namespace

Feedback::Feedback(DType type, const InputMoments& moments, const FeedbackOptions& options,
                   const KernelSet& kernels)
    : format_(code_format(type)),
      moments_(moments),
      options_(options),
      kernels_(kernels),
      width_(format_.even_signs ? 8 : format_.group),
      order_(order_of(moments, width_)),
      factor_(moments.transposed_factor(order_)) {}

FeedbackLoss Feedback::quantize(std::span<const float> targets, std::byte* out) const {
  const std::size_t n = moments_.size(), rows = targets.size() / n;
  const std::size_t row_bytes = dtype_info(format_.type).row_bytes(n);
  const std::size_t chunks = (rows + kFeedbackRows - 1) / kFeedbackRows;
  std::vector<FeedbackLoss> losses(chunks);
  for_each_on(options_.threads, chunks, [&](std::size_t i) {
    const std::size_t begin = i * kFeedbackRows, end = std::min(rows, begin + kFeedbackRows);
    FeedbackChunk chunk({format_, moments_, options_, kernels_, order_, factor_, width_},
                        targets.subspan(begin * n, (end - begin) * n));
    losses[i] = chunk.run(out + begin * row_bytes);
  });
  FeedbackLoss all;
  for (const FeedbackLoss& loss : losses) all += loss;
  return all;
}

}  // namespace cria
