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

/// Row i of two matrices, concatenated or interleaved: the matrix and its row.
std::pair<std::size_t, std::uint64_t> in_halves(std::uint64_t i, std::uint64_t rows,
                                                bool interleaved) {
  return interleaved ? std::pair<std::size_t, std::uint64_t>{i % 2, i / 2}
                     : std::pair<std::size_t, std::uint64_t>{i / rows, i % rows};
}

/// The row of the concatenated queries, keys and values that becomes `row` of the fused tensor.
std::uint64_t row_of_groups(std::uint64_t row, std::uint64_t size, std::uint64_t heads,
                            std::uint64_t kv) {
  const std::uint64_t head = row / size, queries = heads / kv, group = head / (queries + 2);
  const std::uint64_t place = head % (queries + 2), in_head = row % size,
                      paired = gguf_row(in_head, size);
  if (place < queries) return (group * queries + place) * size + paired;
  return (place == queries ? heads + group : heads + kv + group) * size +
         (place == queries ? paired : in_head);
}

/// A tensor of one number.
class NumberRows : public WeightRows {
 public:
  explicit NumberRows(float value) : WeightRows(1, 1), value_(value) {}
  void read(std::uint64_t /*row*/, float* out) const override { *out = value_; }
  [[nodiscard]] DType nearest() const override { return DType::F32; }

 private:
  float value_;
};

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
class LatentRows : public WeightRows {
 public:
  LatentRows(const TensorView& keys, const TensorView& values)
      : WeightRows(keys.shape.back() * (keys.cols() + values.shape[1]), values.cols()),
        keys_(keys),
        values_(values) {}

  void read(std::uint64_t row, float* out) const override {
    const std::uint64_t keys = keys_.cols(), values = values_.shape[1];
    const std::uint64_t head = row / (keys + values), in_head = row % (keys + values);
    for (std::uint64_t i = 0; in_head < keys && i < cols(); ++i)
      out[i] = value_at(keys_, head * cols() + i, in_head);
    if (in_head < keys) return;
    const std::uint64_t from = head * values + in_head - keys;
    dtype_info(values_.dtype).dequantize(values_.data + from * values_.row_bytes(), out, cols());
  }
  [[nodiscard]] DType nearest() const override { return values_.dtype; }

 private:
  const TensorView& keys_;
  const TensorView& values_;
};

/// The columns of experts as rows: of one matrix, or of two in the order of in_halves().
class TransposedRows : public WeightRows {
 public:
  TransposedRows(std::vector<const TensorView*> tensors, bool interleaved)
      : WeightRows(
            tensors.front()->rows() / rows_of_expert(*tensors.front()) * tensors.front()->cols(),
            tensors.size() * rows_of_expert(*tensors.front())),
        tensors_(std::move(tensors)),
        rows_of_expert_(rows_of_expert(*tensors_.front())),
        interleaved_(interleaved) {}

  void read(std::uint64_t row, float* out) const override {
    const std::uint64_t columns = tensors_.front()->cols(), expert = row / columns,
                        column = row % columns;
    for (std::uint64_t i = 0; i < cols(); ++i) {
      const auto [part, in_expert] = in_halves(i, rows_of_expert_, interleaved_);
      out[i] = value_at(*tensors_[part], expert * rows_of_expert_ + in_expert, column);
    }
  }
  [[nodiscard]] DType nearest() const override { return tensors_.front()->dtype; }

 private:
  std::vector<const TensorView*> tensors_;
  std::uint64_t rows_of_expert_;
  bool interleaved_;
};

float log_of_decay(float x) { return std::log(-x); }

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

// The opposite of hf_linear_row().
WeightRowsPtr HfTarget::linear_rows(std::vector<WeightRowsPtr> parts) const {
  const HfRows kind = parts_.front().rows;
  const bool columns = kind == HfRows::ValueColumns;
  auto from = std::make_shared<std::vector<std::uint64_t>>();
  std::uint64_t begin = 0;
  for (const auto& part : parts) begin += columns ? part->cols() : part->rows();
  from->resize(std::exchange(begin, 0));
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::uint64_t n = columns ? parts[i]->cols() : parts[i]->rows();
    for (std::uint64_t row = 0; row < n; ++row)
      from->at(hf_linear_row(parts_[i].rows, row, n, linear_)) = begin + row;
    begin += n;
  }
  const auto source = [from](std::uint64_t row) { return (*from)[row]; };
  if (columns) return arranged_columns(std::move(parts.front()), source);
  WeightRowsPtr rows = arranged_rows(std::move(parts), from->size(), source);
  return is_decay(kind) ? mapped_rows(std::move(rows), log_of_decay) : std::move(rows);
}

WeightRowsPtr HfTarget::rows() const {
  if (value_) return std::make_unique<NumberRows>(*value_);
  const Part& first = parts_.front();
  const HfRows kind = first.rows;
  if (kind == HfRows::LatentKeys)
    return std::make_unique<LatentRows>(*first.tensor, *parts_.at(1).tensor);
  if (is_transposed(kind)) {
    std::vector<const TensorView*> tensors;
    for (const Part& part : parts_) tensors.push_back(part.tensor);
    return std::make_unique<TransposedRows>(std::move(tensors), is_interleaved(kind));
  }
  const bool single = ((kind == HfRows::Pairs || is_group(kind) || is_linear(kind)) &&
                       first.tensor->shape.size() < 2) ||
                      (is_half(kind) && first.tensor->name.ends_with(".bias"));
  const std::uint64_t cols = single ? 1 : first.tensor->cols();
  std::vector<WeightRowsPtr> parts;
  for (const Part& part : parts_) parts.push_back(part_rows(part, cols));
  if (kind == HfRows::PlusOne)
    return mapped_rows(std::move(parts.front()), [](float x) { return x - 1; });
  if (is_linear(kind)) return linear_rows(std::move(parts));
  if (is_decay(kind)) return mapped_rows(std::move(parts.front()), log_of_decay);
  if (kind <= HfRows::HeadDecays && kind != HfRows::Pairs) return std::move(parts.front());
  std::uint64_t rows = 0;
  for (const auto& part : parts) rows += part->rows();
  if (is_group(kind)) return arranged_rows(std::move(parts), rows, groups_);
  const std::uint64_t each = parts.front()->rows();
  if (kind == HfRows::Pairs)
    return arranged_rows(std::move(parts), rows,
                         [head = head_](std::uint64_t row) { return gguf_row(row, head); });
  return arranged_rows(std::move(parts), rows,
                       [each, of_expert = rows_of_expert(*first.tensor),
                        interleaved = is_interleaved(kind)](std::uint64_t row) {
                         const auto [part, in_expert] =
                             in_halves(row % (2 * of_expert), of_expert, interleaved);
                         return part * each + row / (2 * of_expert) * of_expert + in_expert;
                       });
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
          target.head_ = config.head_dim;
          target.linear_ = config.linear;
          target.groups_ = [size = std::uint64_t{config.head_dim},
                            heads = std::uint64_t{config.n_heads},
                            kv = std::uint64_t{config.n_kv_heads}](std::uint64_t row) {
            return row_of_groups(row, size, heads, kv);
          };
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
