#include <algorithm>
#include <cmath>

#include "engine/convert/hf_config.h"
#include "engine/convert/hf_tensors.h"
#include "engine/quantize/plan.h"

namespace cria {
namespace {

using Shape = std::vector<std::uint64_t>;

/// Returns the number of rows of the directory's tensor that the GGUF tensor leaves out.
std::uint64_t skipped(HfRows rows) { return rows == HfRows::BehindTwo ? 2 : 0; }

/// `whole` rows of the directory's tensor have `part` rows of the GGUF tensor.
struct Share {
  std::uint64_t part = 1, whole = 1;
};
Share share_of(HfRows rows, const HfConfig& config) {
  const std::uint64_t all = std::uint64_t{config.n_heads} + 2 * std::uint64_t{config.n_kv_heads};
  if (rows == HfRows::GroupQueries) return {config.n_heads, all};
  if (rows == HfRows::GroupKeys || rows == HfRows::GroupValues) return {config.n_kv_heads, all};
  if (is_next(rows)) {
    const HfLinearHeads& heads = config.linear;
    const std::uint64_t gates = heads.values * heads.value_dim,
                        qkv = 2 * heads.keys * heads.key_dim + gates;
    return {rows == HfRows::NextQkv ? qkv : gates, qkv + gates};
  }
  return {1, is_half(rows) ? std::uint64_t{2} : 1};
}

/// The row of the fused tensor that becomes `row` of the queries, keys or values.
std::uint64_t row_in_groups(HfRows rows, std::uint64_t row, const HfConfig& config) {
  const std::uint64_t size = config.head_dim, queries = config.n_heads / config.n_kv_heads;
  const std::uint64_t from = rows == HfRows::GroupValues ? row : hf_row(row, size);
  const std::uint64_t head = from / size;
  const std::uint64_t place =
      rows == HfRows::GroupQueries
          ? head / queries * (queries + 2) + head % queries
          : head * (queries + 2) + queries + (rows == HfRows::GroupValues ? 1 : 0);
  return place * size + from % size;
}

/// The same for linear attention, whose tensor has n rows.
std::uint64_t linear_row(HfRows rows, std::uint64_t row, std::uint64_t n,
                         const HfLinearHeads& heads) {
  const std::uint64_t repeat = heads.values / heads.keys, run = repeat * heads.value_dim,
                      stride = 2 * heads.key_dim + 2 * run, part = heads.keys * heads.key_dim,
                      both = 2 * part;
  if (rows == HfRows::NextGates) return row / run * stride + 2 * heads.key_dim + run + row % run;
  if (rows == HfRows::NextQkv) {
    if (row >= both) return (row - both) / run * stride + 2 * heads.key_dim + (row - both) % run;
    const std::uint64_t in_part = row % part;
    return in_part / heads.key_dim * stride + row / part * heads.key_dim + in_part % heads.key_dim;
  }
  const bool tail = rows == HfRows::ValueTail || rows == HfRows::ValueTaps;
  const std::uint64_t begin = tail ? both : 0;
  if (row < begin) return row;
  const std::uint64_t size = (n - begin) / heads.values, head = (row - begin) / size;
  return begin + (head % heads.keys * repeat + head / heads.keys) * size + (row - begin) % size;
}

std::vector<WeightRowsPtr> one(WeightRowsPtr rows) {
  std::vector<WeightRowsPtr> list;
  list.push_back(std::move(rows));
  return list;
}

std::uint64_t product(const Shape& shape) {
  std::uint64_t values = 1;
  for (const std::uint64_t n : shape) values *= n;
  return values;
}

Shape without_ones(const Shape& shape) {
  Shape out;
  std::ranges::copy_if(shape, std::back_inserter(out), [](std::uint64_t n) { return n != 1; });
  return out;
}

}  // namespace

std::uint64_t hf_source_row(HfRows kind, std::uint64_t row, std::uint64_t n,
                            std::uint64_t of_expert, const HfConfig& config) {
  const std::uint64_t before = row / of_expert * 2 * of_expert, i = row % of_expert;
  if (is_linear(kind)) return linear_row(kind, row, n, config.linear);
  if (is_group(kind)) return row_in_groups(kind, row, config);
  switch (kind) {
    case HfRows::BehindTwo:
      return row + 2;
    case HfRows::Pairs:
      return hf_row(row, config.head_dim);
    case HfRows::FirstHalf:
      return before + i;
    case HfRows::SecondHalf:
      return before + of_expert + i;
    case HfRows::EvenRows:
      return before + 2 * i;
    case HfRows::OddRows:
      return before + 2 * i + 1;
    default:
      return row;
  }
}

HfSources::HfSources(const HfConfig& config, const SafetensorsDirectory& weights)
    : config_(config), weights_(weights) {
  for (const auto& [name, tensor] : weights.tensors()) left_.insert(name);
  for (const HfTensor& name : config.model_class->tensors) resolve(name);
}

void HfSources::resolve(const HfTensor& name) {
  const bool split = config_.model_class->split_latent;
  if (is_latent(name.rows) ? !split : split && name.gguf.ends_with(".attn_kv_b")) return;
  const bool layered = name.gguf.find('#') != std::string_view::npos;
  for (std::uint32_t layer = 0; layer < (layered ? config_.n_layers : 1); ++layer)
    for (const std::string_view ending : endings_of(name)) resolve(name, ending, layer);
}

// If a tensor has several names, the first present wins.
void HfSources::resolve(const HfTensor& name, std::string_view ending, std::uint32_t layer) {
  const std::string hf = with_number(name.hf, '#', layer).append(ending);
  Source source{name.rows, {}, hf.find('%') != std::string::npos};
  for (std::uint64_t i = 0; source.stacked || i == 0; ++i) {
    const SafeTensor* const tensor = find(with_number(hf, '%', i));
    if (tensor == nullptr) break;
    source.parts.push_back(tensor);
  }
  if (!source.parts.empty())
    sources_.emplace(with_number(name.gguf, '#', layer).append(ending), std::move(source));
}

// In multimodal models, names of the text model have a prefix; in models of vectors they may lack
// theirs.
const SafeTensor* HfSources::find(const std::string& name) const {
  const SafeTensor* tensor = weights_.tensor(name);
  if (tensor == nullptr) tensor = weights_.tensor("language_model." + name);
  if (tensor == nullptr && name.starts_with("model."))
    tensor = weights_.tensor("model.language_model." + name.substr(6));
  if (tensor == nullptr && name.starts_with("model.")) tensor = weights_.tensor(name.substr(6));
  return tensor;
}

std::optional<MlxPacking> HfSources::packing_of(const SafeTensor& tensor) const {
  if (!tensor.name.ends_with(".weight")) return std::nullopt;  // biases are never packed
  const bool scaled =
      weights_.tensor(tensor.name.substr(0, tensor.name.rfind('.')) + ".scales") != nullptr;
  return scaled ? config_.packing_of(tensor.name) : std::nullopt;
}

Shape HfSources::unpacked_shape(const SafeTensor& tensor) const {
  Shape shape = tensor.shape;
  if (tensor.name.ends_with("_blocks") && shape.size() > 1) {
    shape.pop_back();
    shape.back() *= 32;
  } else if (const auto packing = packing_of(tensor); packing && !shape.empty()) {
    shape.back() = shape.back() * 32 / packing->bits;
  }
  return shape;
}

Shape HfSources::shape_for(std::string_view gguf, const SafeTensor& tensor) const {
  Shape shape = unpacked_shape(tensor);
  const std::uint64_t experts = config_.joined_experts;
  if (experts == 0 || shape.size() != 2 || gguf.find("_exps.") == std::string_view::npos ||
      shape[0] % experts != 0)
    return shape;
  shape[0] /= experts;
  shape.insert(shape.begin(), experts);
  return shape;
}

std::string HfSources::name_of(std::string_view gguf) const {
  for (const HfTensor& name : config_.model_class->tensors) {
    for (const std::string_view ending : endings_of(name))
      for (std::uint32_t layer = 0; layer < config_.n_layers; ++layer)
        if (with_number(name.gguf, '#', layer).append(ending) == gguf)
          return with_number(with_number(name.hf, '#', layer).append(ending), '%', 0);
  }
  return std::string(gguf) + " of a GGUF file, which this class of directories lacks";
}

std::optional<Shape> HfSources::shape_of(std::string_view gguf) const {
  const auto found = sources_.find(gguf);
  if (found == sources_.end()) return std::nullopt;
  const Source& source = found->second;
  Shape shape = shape_for(gguf, *source.parts.front());
  if (shape.empty()) return shape;
  if (source.stacked) shape.insert(shape.begin(), source.parts.size());
  std::ranges::reverse(shape);
  if (is_transposed(source.rows) && shape.size() > 1) std::swap(shape[0], shape[1]);
  const Share share = share_of(source.rows, config_);
  std::uint64_t& rows = shape[shape.size() > 1 && gguf.ends_with(".weight") ? 1 : 0];
  rows = rows / share.whole * share.part;
  rows -= std::min(rows, skipped(source.rows));
  return shape;
}

// Compares shapes as the directory has them, ignoring dimensions of 1.
void HfSources::expect_shape(const Source& source, const WantedTensors::Wanted& wanted) const {
  Shape shape = wanted.shape;
  if (is_latent(source.rows))  // [n, rank, heads] or [rank, n, heads]
    shape = {shape[source.rows == HfRows::LatentKeys ? 1 : 0],
             shape[2] * (config_.latent_keys + config_.latent_values)};
  const Share share = share_of(source.rows, config_);
  std::uint64_t& rows = shape[wanted.matrix && shape.size() > 1 ? 1 : 0];
  rows = rows / share.part * share.whole + skipped(source.rows);
  if (is_transposed(source.rows)) std::swap(shape[0], shape[1]);
  std::ranges::reverse(shape);
  const auto fail = [&](const SafeTensor& tensor) {
    SafeTensor expected, got;
    expected.shape = shape;
    got.shape = shape_for(wanted.name, tensor);
    throw Error("",
                "wrong shape: expected " + expected.shape_string() + ", got " + got.shape_string(),
                "tensor " + tensor.name);
  };
  if (source.stacked) {
    if (shape.empty() || source.parts.size() != shape.front())
      throw weights_.error("wrong number of parts: expected " +
                               std::to_string(shape.empty() ? 0 : shape.front()) + ", got " +
                               std::to_string(source.parts.size()),
                           "tensor " + source.parts.front()->name);
    shape.erase(shape.begin());
  }
  for (const SafeTensor* const part : source.parts) {
    if (packing_of(*part) && part->shape.size() < 3) continue;  // mlx_rows() checks it
    const Shape got = shape_for(wanted.name, *part);
    if (source.rows == HfRows::Padded && got.size() == 2 && got[0] < shape[0] && got[1] == shape[1])
      continue;
    if (source.rows == HfRows::Flat && product(part->shape) == product(shape)) continue;
    if (without_ones(got) != without_ones(shape)) fail(*part);
  }
}

// The tensor with another ending, which belongs to this one.
const SafeTensor& HfSources::beside(const SafeTensor& tensor, std::string_view ending,
                                    std::string_view other) {
  const std::string name = tensor.name.substr(0, tensor.name.size() - ending.size()).append(other);
  const SafeTensor* const found = weights_.tensor(name);
  if (found == nullptr) throw Error("", "missing tensor", "tensor " + name);
  left_.erase(found->name);
  return *found;
}

WeightRowsPtr HfSources::part_rows(const SafeTensor& tensor, std::uint64_t rows,
                                   std::uint64_t cols) {
  left_.erase(tensor.name);
  if (tensor.name.ends_with("_blocks"))
    return fp4_rows(tensor, beside(tensor, "_blocks", "_scales"), rows, cols);
  const auto packing = packing_of(tensor);
  if (!packing) return float_rows(tensor, rows, cols);
  const SafeTensor& scales = beside(tensor, ".weight", ".scales");
  return mlx_rows(tensor, scales, beside(tensor, ".weight", ".biases"), *packing, rows, cols);
}

std::vector<float> HfSources::numbers_of(const HfNumber& number) {
  std::vector<float> values;
  for (std::uint32_t layer = 0; layer < config_.n_layers; ++layer) {
    const std::string name = with_number(number.hf, '#', layer);
    const SafeTensor* const tensor = find(name);
    if (tensor == nullptr && !number.fallback)
      throw weights_.error("missing tensor", "tensor " + name);
    values.push_back(number.fallback.value_or(0));
    if (tensor == nullptr) continue;
    left_.erase(tensor->name);
    if (tensor->values() != 1)
      throw weights_.error("wrong shape: expected one number, got " + tensor->shape_string(),
                           "tensor " + name);
    float_rows(*tensor, 1, 1)->read(0, &values.back());
  }
  return values;
}

namespace {

/// Returns the rows of a GGUF tensor from the parts of its source.
WeightRowsPtr in_order(std::vector<WeightRowsPtr> parts, HfRows kind, std::uint64_t rows,
                       std::uint64_t cols, std::uint64_t of_expert, const HfConfig& config) {
  const auto source_of = [=, &config](std::uint64_t n) {
    return [=, &config](std::uint64_t i) { return hf_source_row(kind, i, n, of_expert, config); };
  };
  if (kind == HfRows::PlusOne)
    return mapped_rows(std::move(parts.front()), [](float x) { return x + 1; });
  if (kind == HfRows::ValueColumns)
    return arranged_columns(std::move(parts.front()), source_of(cols));
  if (is_reordered(kind) || parts.size() > 1)
    parts = one(arranged_rows(std::move(parts), rows, source_of(rows)));
  if (is_decay(kind))
    return mapped_rows(std::move(parts.front()), [](float x) { return -std::exp(x); });
  return std::move(parts.front());
}

}  // namespace

// Rows of heads of latent attention: the columns of a head's keys, or its values.
WeightRowsPtr HfSources::latent_rows(const SafeTensor& both, HfRows kind, std::uint64_t rows,
                                     std::uint64_t cols) {
  const std::uint64_t n = config_.latent_keys, all = n + config_.latent_values;
  if (kind == HfRows::LatentKeys) {
    left_.erase(both.name);
    const std::uint64_t rank = rows / config_.n_heads;
    return column_rows(both, rows, cols, rank, {.of = rank, .rows = all});
  }
  const std::uint64_t of_head = config_.latent_values;
  return arranged_rows(one(part_rows(both, config_.n_heads * all, cols)), rows,
                       [=](std::uint64_t row) { return row / of_head * all + n + row % of_head; });
}

WeightRowsPtr HfSources::rows_of(const WantedTensors::Wanted& wanted) {
  WeightRowsPtr rows = unscaled_rows_of(wanted);
  const auto factors = config_.row_factors.find(tensor_role(wanted.name).role);
  if (factors == config_.row_factors.end()) return rows;
  return scaled_rows(std::move(rows), [list = factors->second](std::uint64_t row) {
    return std::ranges::upper_bound(list, row, {}, &HfRowFactor::end)->factor;
  });
}

WeightRowsPtr HfSources::unscaled_rows_of(const WantedTensors::Wanted& wanted) {
  const auto found = sources_.find(wanted.name);
  if (found == sources_.end())
    throw weights_.error("missing tensor", "tensor " + name_of(wanted.name));
  const Source& source = found->second;
  expect_shape(source, wanted);
  const std::uint64_t values = product(wanted.shape);
  // Each value is a row.
  const bool single = !wanted.matrix && is_reordered(source.rows) &&
                      (wanted.shape.size() == 1 || !is_linear(source.rows));
  const std::uint64_t cols = single ? 1 : wanted.shape[0], rows = values / cols;
  const std::uint64_t of_expert = single                    ? wanted.shape[0]
                                  : wanted.shape.size() > 1 ? wanted.shape[1]
                                                            : 1;
  if (is_transposed(source.rows)) {
    left_.erase(source.parts.front()->name);
    ColumnChoice choice{.step = is_interleaved(source.rows) ? 2U : 1U,
                        .of = is_half(source.rows) ? 2 * of_expert : of_expert};
    if (source.rows == HfRows::OddColumns) choice.offset = 1;
    if (source.rows == HfRows::SecondColumns) choice.offset = of_expert;
    return column_rows(*source.parts.front(), rows, cols, of_expert, choice);
  }
  if (is_latent(source.rows)) return latent_rows(*source.parts.front(), source.rows, rows, cols);
  const Share share = share_of(source.rows, config_);
  const std::uint64_t source_rows = rows / share.part * share.whole + skipped(source.rows);
  std::vector<WeightRowsPtr> parts;
  if (source.rows == HfRows::Padded) {
    const SafeTensor& only = *source.parts.front();
    return padded_rows(part_rows(only, unpacked_shape(only).front(), cols), rows);
  }
  for (const SafeTensor* const part : source.parts)
    parts.push_back(part_rows(*part, source_rows / source.parts.size(), cols));
  return in_order(std::move(parts), source.rows, rows, cols, of_expert, config_);
}

}  // namespace cria
