#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <utility>

#include "engine/convert/hf_tensors.h"
#include "model/keys.h"

namespace cria {
namespace {

/// Rows of an expert; values of a vector count as rows.
std::uint64_t rows_of_expert(const TensorView& tensor) {
  return tensor.name.ends_with(".bias") || tensor.shape.size() < 2 ? tensor.shape[0]
                                                                   : tensor.shape[1];
}

/// Decodes one block as a row of its own, behind the row's header if the type has one.
float value_at(const TensorView& tensor, std::uint64_t row, std::uint64_t column) {
  const DTypeInfo& type = dtype_info(tensor.dtype);
  const std::uint64_t in_block = column % type.block_values;
  const std::byte* const from = tensor.data + row * tensor.row_bytes();
  float values[256];  // no type has longer blocks, or blocks longer than their floats
  std::byte short_row[sizeof values];
  assert(type.block_values <= std::size(values) &&
         type.row_bytes(type.block_values) <= sizeof short_row);
  std::memcpy(short_row, from, type.header_bytes);
  std::memcpy(short_row + type.header_bytes, from + type.row_bytes(column - in_block),
              type.block_bytes);
  type.dequantize(short_row, values, type.block_values);
  return values[in_block];
}

/// DeepSeek's keys and values in one tensor; the file has each head's keys transposed.
WeightRowsPtr latent_rows(const TensorView& keys, const TensorView& values) {
  const std::uint64_t n_keys = keys.cols(), n_values = values.shape[1], cols = values.cols();
  const auto read = [=, &keys, &values](std::uint64_t row, float* out) {
    const std::uint64_t head = row / (n_keys + n_values), in_head = row % (n_keys + n_values);
    for (std::uint64_t i = 0; in_head < n_keys && i < cols; ++i)
      out[i] = value_at(keys, head * cols + i, in_head);
    if (in_head < n_keys) return;
    const std::uint64_t from = head * n_values + in_head - n_keys;
    dtype_info(values.dtype).dequantize(values.data + from * values.row_bytes(), out, cols);
  };
  return computed_rows(keys.shape.back() * (n_keys + n_values), cols, values.dtype, read);
}

/// The columns of experts as rows: of one matrix, or of two, concatenated or interleaved.
WeightRowsPtr transposed_rows(std::vector<const TensorView*> tensors, bool interleaved) {
  const TensorView& first = *tensors.front();
  const std::uint64_t of_expert = rows_of_expert(first), columns = first.cols(), n = tensors.size();
  const auto read = [=](std::uint64_t row, float* out) {
    const std::uint64_t begin = row / columns * of_expert;
    for (std::uint64_t i = 0; i < n * of_expert; ++i) {
      const std::uint64_t part = interleaved ? i % n : i / of_expert;
      out[i] =
          value_at(*tensors[part], begin + (interleaved ? i / n : i % of_expert), row % columns);
    }
  };
  return computed_rows(first.rows() / of_expert * columns, n * of_expert, first.dtype, read);
}

}  // namespace

std::vector<std::uint64_t> HfTarget::shape_of_parts() const {
  const Part& first = parts_.front();
  std::vector<std::uint64_t> lengths = first.tensor->shape;
  if (stacked_) lengths.pop_back();
  if (first.rows == HfRows::OneRow && lengths.size() == 1) lengths.push_back(1);
  const bool vectors = first.tensor->name.ends_with(".bias");
  if (is_half(first.rows)) lengths[vectors ? 0 : 1] *= 2;
  if (first.rows == HfRows::LatentKeys) {
    const auto latent = rows();
    return {latent->rows(), latent->cols()};
  }
  if (first.rows == HfRows::Flat) lengths = {first.tensor->rows() * first.tensor->cols()};
  if (first.rows == HfRows::Decays) std::erase(lengths, 1);
  if (first.rows == HfRows::HeadDecays)
    lengths = {1, first.tensor->rows() * first.tensor->cols(), 1, 1};
  if (has_taps(first.rows)) lengths = {first.tensor->cols(), 1, first.tensor->rows()};
  if (is_group(first.rows) || is_next(first.rows)) {
    lengths.back() = 0;
    for (const Part& part : parts_) lengths.back() += part.tensor->shape.back();
  }
  if (is_transposed(first.rows)) std::swap(lengths[0], lengths[1]);
  return {lengths.rbegin(), lengths.rend()};
}

std::vector<std::string_view> HfTarget::made_of() const {
  std::vector<std::string_view> names;
  for (const Part& part : parts_) names.push_back(part.tensor->name);
  return names;
}

WeightRowsPtr HfTarget::part_rows(const Part& part, std::uint64_t cols) const {
  const std::uint64_t values = part.tensor->rows() * part.tensor->cols() / count_;
  TensorView view = *part.tensor;
  view.data += number_ * (view.rows() / count_) * view.row_bytes();
  return gguf_rows(view, values / cols, cols);
}

// Inverts hf_source_row().
WeightRowsPtr HfTarget::reordered(std::vector<WeightRowsPtr> parts) const {
  const bool columns = parts_.front().rows == HfRows::ValueColumns;
  const std::uint64_t of_expert = rows_of_expert(*parts_.front().tensor);
  const auto length = [columns](const WeightRowsPtr& part) {
    return columns ? part->cols() : part->rows();
  };
  std::uint64_t begin = 0;
  for (const auto& part : parts) begin += length(part);
  const auto from = std::make_shared<std::vector<std::uint64_t>>(std::exchange(begin, 0));
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::uint64_t n = length(parts[i]);
    for (std::uint64_t row = 0; row < n; ++row)
      from->at(hf_source_row(parts_[i].rows, row, n, of_expert, *config_)) = begin + row;
    begin += n;
  }
  const auto source = [from](std::uint64_t row) { return (*from)[row]; };
  if (columns) return arranged_columns(std::move(parts.front()), source);
  return arranged_rows(std::move(parts), from->size(), source);
}

WeightRowsPtr HfTarget::rows() const {
  if (value_)
    return computed_rows(1, 1, DType::F32, [value = *value_](auto, float* out) { *out = value; });
  const Part& first = parts_.front();
  const HfRows kind = first.rows;
  if (kind == HfRows::LatentKeys) return latent_rows(*first.tensor, *parts_.at(1).tensor);
  if (is_transposed(kind)) {
    std::vector<const TensorView*> tensors;
    for (const Part& part : parts_) tensors.push_back(part.tensor);
    return transposed_rows(std::move(tensors), is_interleaved(kind));
  }
  const bool single = ((kind == HfRows::Pairs || is_group(kind) || is_linear(kind)) &&
                       first.tensor->shape.size() < 2) ||
                      (is_half(kind) && first.tensor->name.ends_with(".bias"));
  const std::uint64_t cols = single ? 1 : first.tensor->cols();
  std::vector<WeightRowsPtr> parts;
  for (const Part& part : parts_) parts.push_back(part_rows(part, cols));
  if (kind == HfRows::PlusOne)
    return mapped_rows(std::move(parts.front()), [](float x) { return x - 1; });
  WeightRowsPtr rows = is_reordered(kind) ? reordered(std::move(parts)) : std::move(parts.front());
  return is_decay(kind) ? mapped_rows(std::move(rows), [](float x) { return std::log(-x); })
                        : std::move(rows);
}

// If a tensor has several names, the first counts; names of packed weights do not.
std::vector<HfTarget> hf_targets(const HfConfig& config, const GgufFile& file,
                                 const std::function<bool(std::string_view)>& wanted) {
  std::vector<HfTarget> targets;
  std::map<std::string, std::size_t> made;  // by name
  std::map<const TensorView*, bool> named;
  for (std::uint32_t layer = 0; layer < config.n_layers; ++layer) {
    for (const HfTensor& tensor : config.model_class->tensors) {
      if (layer != 0 && tensor.gguf.find('#') == std::string_view::npos) continue;
      for (const std::string_view ending : endings_of(tensor)) {
        const TensorView* const from =
            file.tensor(with_number(tensor.gguf, '#', layer).append(ending));
        const std::string name = with_number(tensor.hf, '#', layer).append(ending);
        if (from == nullptr || !wanted(from->name) || name.ends_with("_blocks") ||
            !named.emplace(from, true).second)
          continue;
        if (const auto found = made.find(name); found != made.end()) {
          targets[found->second].parts_.push_back({from, tensor.rows});
          continue;
        }
        const bool stacked = name.find('%') != std::string::npos;
        const std::uint64_t count = stacked ? from->shape.back() : 1;
        for (std::uint64_t i = 0; i < count; ++i) {
          HfTarget target;
          target.name = with_number(name, '%', i);
          target.parts_ = {{from, tensor.rows}};
          target.config_ = &config;
          target.number_ = i;
          target.count_ = count;
          target.stacked_ = stacked;
          made.emplace(target.name, targets.size());
          targets.push_back(std::move(target));
        }
      }
    }
  }
  for (HfTarget& target : targets) target.shape = target.shape_of_parts();
  Keys keys(file);
  keys.set_layers(config.n_layers);
  for (const HfNumber& number : config.model_class->numbers) {
    const std::vector<float> values = keys.numbers_per_layer(std::string(number.gguf));
    for (std::uint32_t layer = 0; layer < config.n_layers; ++layer) {
      HfTarget target;
      target.name = with_number(number.hf, '#', layer);
      target.shape = {1};
      target.value_ = values[layer];
      targets.push_back(std::move(target));
    }
  }
  return targets;
}

}  // namespace cria
