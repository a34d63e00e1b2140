#include "engine/calibrate/planned_matrices.h"

#include <algorithm>
#include <set>

#include "engine/calibrate/row_codes.h"
#include "engine/model_parts.h"
#include "engine/quantize/rows.h"

namespace cria {

PlannedMatrices::PlannedMatrices(const Model& model, const QuantizePlan& plan,
                                 const KernelSet& kernels, unsigned threads,
                                 CalibrationState& state)
    : model_(model), kernels_(kernels), threads_(threads), state_(state) {
  for (const PlannedTensor& tensor : plan.tensors)
    if (!tensor.copied() && is_integer(dtype_info(tensor.type).dot))
      types_.emplace(tensor.source->name, tensor.type);
}

std::vector<DType> PlannedMatrices::unsuited() const {
  std::set<DType> types;
  for (const auto& [tensor, type] : types_)
    if (!has_code_format(type)) types.insert(type);
  return {types.begin(), types.end()};
}

std::optional<DType> PlannedMatrices::type_of(const Matrix& m) const {
  const auto found = types_.find(m.weight.name);
  if (!m.multiplies() || found == types_.end()) return std::nullopt;
  return found->second;
}

std::uint64_t PlannedMatrices::first_row(const Matrix& m) const {
  const TensorView& tensor = *model_.file().tensor(m.weight.name);
  return static_cast<std::uint64_t>(m.weight.data - tensor.data) / tensor.row_bytes();
}

bool PlannedMatrices::is_finished(const Matrix& m) const {
  return state_.has(m.weight.name, first_row(m));
}

TensorView PlannedMatrices::rows_of(const Matrix& m) const {
  TensorView rows = m.weight;
  rows.dtype = *type_of(m);
  rows.data = state_.rows(m.weight.name, first_row(m), m.weight.rows()).data();
  return rows;
}

template <class F>
void PlannedMatrices::for_each_chunk(std::size_t rows, F&& f) const {
  constexpr std::size_t kRows = 32;
  for_each_on(threads_, (rows + kRows - 1) / kRows,
              [&](std::size_t chunk) { f(chunk * kRows, std::min(rows - chunk * kRows, kRows)); });
}

void PlannedMatrices::add_products_of(const std::vector<float>& a, std::size_t n,
                                      const std::vector<float>& x, std::vector<float>& out) const {
  const std::size_t width = a.size() / n;
  for_each_chunk(x.size() / n, [&](std::size_t begin, std::size_t size) {
    add_products(kernels_, a.data(), n, width, n, &x[begin * n], n, size, &out[begin * width],
                 width);
  });
}

std::vector<float> PlannedMatrices::floats_of(const Matrix& m, std::size_t begin,
                                              std::size_t end) const {
  const std::size_t n = m.weight.cols();
  std::vector<float> floats((end - begin) * n);
  for_each_chunk(end - begin, [&](std::size_t first, std::size_t size) {
    dtype_info(m.weight.dtype)
        .dequantize_rows(m.weight.data + (begin + first) * m.weight.row_bytes(), &floats[first * n],
                         size, n);
  });
  if (const auto type = type_of(m))
    require_encodable(model_.file(), m.weight, *type, largest_magnitude(floats));
  return floats;
}

// Returns what rows [begin, end) of a matrix are quantized towards.
std::vector<float> PlannedMatrices::target_of(const Matrix& m, const Correction& correction,
                                              std::size_t begin, std::size_t end) const {
  const std::vector<float> exact = floats_of(m, begin, end);
  std::vector<float> target = exact;
  if (!correction.by_output.empty())
    std::transform(
        target.begin(), target.end(),
        correction.by_output.begin() + static_cast<std::ptrdiff_t>(begin * m.weight.cols()),
        target.begin(), std::plus<>());
  if (!correction.by_input.empty())
    add_products_of(correction.by_input, m.weight.cols(), exact, target);
  return target;
}

FeedbackLoss PlannedMatrices::quantize(const Matrix& m, const InputMoments* moments,
                                       const Correction& correction,
                                       const FeedbackOptions& feedback,
                                       const std::function<void()>& check) {
  constexpr std::size_t kChunksOfThread = 4;  // per slab of rows
  const DType type = *type_of(m);
  const std::size_t n = m.weight.cols(), rows = m.weight.rows();
  std::optional<Feedback> quantizer;
  std::vector<float> importance;
  if (moments != nullptr && has_code_format(type))
    quantizer.emplace(type, *moments, feedback, kernels_);
  else if (moments != nullptr)
    for (std::size_t i = 0; i < n; ++i) importance.push_back(moments->row(i)[i]);
  FeedbackLoss loss;
  const std::size_t some = kChunksOfThread * kFeedbackRows * threads_;
  for (std::size_t begin = 0; begin < rows; begin += some) {
    check();
    const std::size_t end = std::min(rows, begin + some);
    std::vector<std::byte> blocks((end - begin) * dtype_info(type).row_bytes(n));
    const std::vector<float> target = target_of(m, correction, begin, end);
    if (quantizer)
      loss += quantizer->quantize(target, blocks.data());
    else
      encode(type, target, importance, n, blocks.data());
    state_.write(m.weight.name, first_row(m) + begin, blocks);
  }
  state_.finish(m.weight.name, first_row(m), rows);
  return loss;
}

void PlannedMatrices::encode(DType type, const std::vector<float>& values,
                             const std::vector<float>& importance, std::size_t n,
                             std::byte* out) const {
  const std::size_t row_bytes = dtype_info(type).row_bytes(n);
  for_each_chunk(values.size() / n, [&](std::size_t begin, std::size_t size) {
    std::vector<float> weights;
    for (std::size_t r = begin; r < begin + size; ++r)
      encode_row(kernels_, type, std::span(values).subspan(r * n, n),
                 importance.empty() ? nullptr : importance.data(), weights, out + r * row_bytes);
  });
}

}  // namespace cria
