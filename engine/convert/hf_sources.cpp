#include "engine/convert/hf_sources.h"

#include <algorithm>

#include "engine/convert/arranged_rows.h"

namespace cria {
namespace {

using Shape = std::vector<std::uint64_t>;

std::string fill(std::string text, char mark, std::uint64_t number) {
  if (const std::size_t at = text.find(mark); at != std::string::npos)
    text.replace(at, 1, std::to_string(number));
  return text;
}

bool is_whole_name(std::string_view name) {
  return name.ends_with(".weight") || name.ends_with(".bias") || name.ends_with(".scale");
}

bool doubles(HfRows rows) {
  return rows != HfRows::Same && rows != HfRows::Pairs && rows != HfRows::PlusOne && rows != HfRows::Columns;
}
bool transposes(HfRows rows) { return rows >= HfRows::Columns; }
bool reorders(HfRows rows) { return rows != HfRows::Same && rows != HfRows::PlusOne; }

Shape without_ones(const Shape& shape) {
  Shape out;
  std::ranges::copy_if(shape, std::back_inserter(out), [](std::uint64_t n) { return n != 1; });
  return out;
}

}  // namespace

HfSources::HfSources(const HfForm& form, const HfConfig& config, const SafetensorsDirectory& weights)
    : form_(form), config_(config), weights_(weights) {
  for (const auto& [name, tensor] : weights.tensors()) left_.insert(name);
  for (const HfTensor& name : form.tensors) resolve(name);
}

void HfSources::resolve(const HfTensor& name) {
  const bool layered = name.gguf.find('#') != std::string_view::npos, whole = is_whole_name(name.gguf);
  for (std::uint32_t layer = 0; layer < (layered ? config_.n_layers : 1); ++layer) {
    if (whole) {
      resolve(name, "", layer);
      continue;
    }
    resolve(name, ".weight", layer);
    resolve(name, ".bias", layer);
  }
}

// Of several names for one tensor the first that is there counts.
void HfSources::resolve(const HfTensor& name, std::string_view ending, std::uint32_t layer) {
  const std::string hf = fill(std::string(name.hf).append(ending), '#', layer);
  Source source{name.rows, {}, hf.find('%') != std::string::npos};
  for (std::uint64_t i = 0; source.stacked || i == 0; ++i) {
    const SafeTensor* const tensor = weights_.tensor(fill(hf, '%', i));
    if (tensor == nullptr) break;
    source.parts.push_back(tensor);
  }
  if (!source.parts.empty())
    sources_.emplace(fill(std::string(name.gguf).append(ending), '#', layer), std::move(source));
}

std::string HfSources::name_of(std::string_view gguf) const {
  for (const HfTensor& name : form_.tensors) {
    for (const std::string_view ending : {".weight", ".bias"}) {
      const std::string_view added = is_whole_name(name.gguf) ? "" : ending;
      for (std::uint32_t layer = 0; layer < config_.n_layers; ++layer)
        if (fill(std::string(name.gguf).append(added), '#', layer) == gguf)
          return fill(fill(std::string(name.hf).append(added), '#', layer), '%', 0);
    }
  }
  return std::string(gguf) + " of a GGUF file, which directories of this class do not have";
}

std::optional<Shape> HfSources::shape_of(std::string_view gguf) const {
  const auto found = sources_.find(gguf);
  if (found == sources_.end()) return std::nullopt;
  const Source& source = found->second;
  Shape shape = source.parts.front()->shape;
  if (config_.packing_of(source.parts.front()->name) || shape.empty()) return Shape{};
  if (source.fp4()) {
    shape.pop_back();
    if (!shape.empty()) shape.back() *= 32;
  }
  if (source.stacked) shape.insert(shape.begin(), source.parts.size());
  std::ranges::reverse(shape);
  if (transposes(source.rows) && shape.size() > 1) std::swap(shape[0], shape[1]);
  if (doubles(source.rows)) shape[shape.size() > 1 && gguf.ends_with(".weight") ? 1 : 0] /= 2;
  return shape;
}

// As the directory writes it; dimensions of 1 do not count.
void HfSources::expect_shape(const Source& source, const WantedTensors::Wanted& wanted) const {
  Shape shape = wanted.shape;
  if (doubles(source.rows)) shape[wanted.matrix ? 1 : 0] *= 2;
  if (transposes(source.rows)) std::swap(shape[0], shape[1]);
  std::ranges::reverse(shape);
  const auto fail = [&](const SafeTensor& tensor) {
    SafeTensor expected;
    expected.shape = shape;
    throw Error("", "wrong shape: expected " + expected.shape_string() + ", got " + tensor.shape_string(),
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
    if (config_.packing_of(part->name) &&
        weights_.tensor(part->name.substr(0, part->name.rfind('.')) + ".scales") != nullptr)
      continue;  // checked where it is unpacked
    Shape got = part->shape;
    if (source.fp4() && got.size() > 1) {
      got.pop_back();
      got.back() *= 32;
    }
    if (without_ones(got) != without_ones(shape)) fail(*part);
  }
}

// The tensor whose name has another ending; it is part of this one.
const SafeTensor& HfSources::beside(const SafeTensor& tensor, std::string_view ending,
                                    std::string_view other) {
  const std::string name = tensor.name.substr(0, tensor.name.size() - ending.size()).append(other);
  const SafeTensor* const found = weights_.tensor(name);
  if (found == nullptr) throw Error("", "a tensor is missing", "tensor " + name);
  left_.erase(found->name);
  return *found;
}

std::unique_ptr<WeightRows> HfSources::part_rows(const SafeTensor& tensor, std::uint64_t rows,
                                                 std::uint64_t cols) {
  left_.erase(tensor.name);
  if (tensor.name.ends_with("_blocks"))
    return fp4_rows(tensor, beside(tensor, "_blocks", "_scales"), rows, cols);
  const auto packing = config_.packing_of(tensor.name);
  const std::string base = tensor.name.substr(0, tensor.name.rfind('.'));
  if (!packing || weights_.tensor(base + ".scales") == nullptr) return float_rows(tensor, rows, cols);
  const SafeTensor& scales = beside(tensor, ".weight", ".scales");
  return mlx_rows(tensor, scales, beside(tensor, ".weight", ".biases"), *packing, rows, cols);
}

std::unique_ptr<WeightRows> HfSources::rows_of(const WantedTensors::Wanted& wanted) {
  const auto found = sources_.find(wanted.name);
  if (found == sources_.end()) throw weights_.error("a tensor is missing", "tensor " + name_of(wanted.name));
  const Source& source = found->second;
  expect_shape(source, wanted);
  std::uint64_t values = 1;
  for (const std::uint64_t n : wanted.shape) values *= n;
  const bool single = !wanted.matrix && reorders(source.rows);  // values are the rows
  const std::uint64_t cols = single ? 1 : wanted.shape[0], rows = values / cols;
  const std::uint64_t of_expert = single ? wanted.shape[0] : wanted.shape.size() > 1 ? wanted.shape[1] : 1;
  if (transposes(source.rows)) {
    left_.erase(source.parts.front()->name);
    const std::uint64_t step = doubles(source.rows) ? 2 : 1;
    return column_rows(*source.parts.front(), rows, cols, of_expert,
                       {step, source.rows == HfRows::OddColumns ? std::uint64_t{1} : 0});
  }
  const std::uint64_t source_rows = doubles(source.rows) ? 2 * rows : rows;
  std::vector<std::unique_ptr<WeightRows>> parts;
  for (const SafeTensor* const part : source.parts)
    parts.push_back(part_rows(*part, source_rows / source.parts.size(), cols));
  if (source.rows == HfRows::PlusOne) return rows_plus_one(std::move(parts.front()));
  if (source.rows == HfRows::Same && parts.size() == 1) return std::move(parts.front());
  return arranged_rows(
      std::move(parts), rows,
      [kind = source.rows, of_expert, head = config_.head_dim](std::uint64_t row) -> std::uint64_t {
        const std::uint64_t before = row / of_expert * 2 * of_expert, i = row % of_expert;
        switch (kind) {
          case HfRows::Pairs:
            return hf_row(row, head);
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
      });
}

}  // namespace cria
