#include "model/weights.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "model/plural.h"

namespace cria {
namespace {

std::string shape_text(const Weights::Shape& shape) {
  TensorView view;
  view.shape = shape;
  return view.shape_string();
}

/// Activations were divided by this when the model was made; here they are quantized by their own
/// scale.
constexpr std::string_view kInputScale = ".input_scale";

/// True if the shapes are equal, but for further dimensions of 1 that some writers keep.
bool fits(const Weights::Shape& found, const Weights::Shape& expected) {
  return found.size() >= expected.size() &&
         std::equal(expected.begin(), expected.end(), found.begin()) &&
         std::all_of(found.begin() + static_cast<std::ptrdiff_t>(expected.size()), found.end(),
                     [](std::uint64_t n) { return n == 1; });
}

}  // namespace

const TensorView& WantedTensors::add(const std::string& name,
                                     const std::vector<std::uint64_t>& shape, bool matrix) {
  static constexpr float kNobodyUsesIt = 0;
  for (std::size_t i = 0; i < list_.size(); ++i)
    if (list_[i].name == name) return views_[i];  // the embedding is the output
  const Wanted& wanted = list_.emplace_back(Wanted{name, shape, matrix});
  TensorView& view = views_.emplace_back();
  view.name = wanted.name;
  view.shape = shape;
  view.data = reinterpret_cast<const std::byte*>(&kNobodyUsesIt);  // a vector of one value is read
  return view;
}

Weights::Weights(const GgufFile& file, std::uint32_t n_layers, WantedTensors* wanted)
    : file_(file), n_layers_(n_layers), wanted_(wanted) {
  if (wanted_ == nullptr && file_.tensors().empty())
    throw file_.error("no tensors: the file holds a vocabulary, not a model");
}

void Weights::fail(const std::string& message, std::string_view tensor) const {
  throw file_.error(message, "tensor " + std::string(tensor));
}

const TensorView& Weights::find(const std::string& name, const Shape& shape, bool matrix) {
  if (wanted_ != nullptr) return wanted_->add(name, shape, matrix);
  const TensorView* const tensor = file_.tensor(name);
  if (tensor == nullptr) fail("missing tensor: expected shape " + shape_text(shape), name);
  if (!fits(tensor->shape, shape))
    fail("wrong shape: expected " + shape_text(shape) + ", got " + tensor->shape_string(), name);
  if (tensor->data == nullptr) fail("the file does not hold the tensor's data", name);
  used_.insert(tensor->name);
  return *tensor;
}

const TensorView& Weights::matrix(const std::string& name, std::uint64_t cols, std::uint64_t rows) {
  const bool flat = rows == 1 && shape_of(name) == Shape{cols};
  const TensorView& tensor = flat ? find(name, {cols}, true) : find(name, {cols, rows}, true);
  if (dtype_info(tensor.dtype).dot == DotClass::None)
    fail("type cannot be a weight matrix: got " + std::string(cria::name(tensor.dtype)), name);
  return tensor;
}

const TensorView& Weights::matrices(const std::string& name, std::uint64_t cols, std::uint64_t rows,
                                    std::uint64_t n) {
  const TensorView& tensor = find(name, {cols, rows, n}, true);
  if (dtype_info(tensor.dtype).dot == DotClass::None)
    fail("type cannot be a weight matrix: got " + std::string(cria::name(tensor.dtype)), name);
  return tensor;
}

const TensorView& Weights::vectors(const std::string& name, const Shape& shape) {
  const TensorView& tensor = find(name, shape, false);
  if (tensor.dtype != DType::F32)
    fail("wrong type: expected F32, got " + std::string(cria::name(tensor.dtype)), name);
  return tensor;
}

const TensorView& Weights::values(const std::string& name, const Shape& shape) {
  const auto without_ones = [](const Shape& dimensions) {
    Shape rest;
    for (const std::uint64_t n : dimensions)
      if (n != 1) rest.push_back(n);
    return rest;
  };
  const auto found = shape_of(name);
  if (wanted_ == nullptr && found && without_ones(*found) == without_ones(shape))
    return vectors(name, *found);
  return vectors(name, shape);
}

const TensorView& Weights::vector(const std::string& name, std::uint64_t length) {
  return vectors(name, {length});
}

std::optional<TensorView> Weights::scale(const std::string& matrix, std::uint64_t rows,
                                         std::uint64_t n) {
  constexpr std::string_view kSuffix = ".weight";
  const std::string base =
      matrix.ends_with(kSuffix) ? matrix.substr(0, matrix.size() - kSuffix.size()) : matrix;
  for (const std::string& name : {base + ".scale", matrix + ".scale"}) {
    if (!has(name)) continue;
    const Shape shape = shape_of(name).value_or(Shape{1});
    TensorView scales = vectors(name, shape);
    const std::uint64_t count = scales.rows() * scales.cols();
    if (count != 1 && count != n && count != n * rows)
      fail("wrong shape: expected 1" + (n > 1 ? ", " + std::to_string(n) : "") + " or " +
               counted(n * rows, "value") + ", got " + shape_text(shape),
           name);
    scales.shape = {count};
    return scales;
  }
  return std::nullopt;
}

std::vector<float> Weights::factors(const std::string& name, std::uint64_t length) {
  const TensorView& tensor = vector(name, length);
  std::vector<float> out(length, 1);
  if (wanted_ != nullptr) return out;
  std::memcpy(out.data(), tensor.data, length * sizeof(float));
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (std::isfinite(out[i]) && out[i] > 0) continue;
    fail("bad factor at index " + std::to_string(i) + ": expected a finite number above 0, got " +
             number_text(out[i]),
         name);
  }
  return out;
}

std::optional<Weights::Shape> Weights::shape_of(const std::string& name) const {
  if (wanted_ != nullptr) {
    const std::optional<Shape> shape = wanted_->known(name);
    return shape && !shape->empty() ? shape : std::nullopt;
  }
  const TensorView* const tensor = file_.tensor(name);
  return tensor == nullptr ? std::nullopt : std::optional(tensor->shape);
}

void Weights::ignore(const std::string& prefix, const std::string& why) {
  bool any = false;
  for (const TensorView& tensor : file_.tensors()) {
    if (!tensor.name.starts_with(prefix)) continue;
    ignored_.insert(tensor.name);
    any = true;
  }
  if (any && !why.empty()) note(why);
}

void Weights::note(const std::string& text) {
  if (std::find(notes_.begin(), notes_.end(), text) == notes_.end()) notes_.push_back(text);
}

std::vector<std::string> Weights::finish() const {
  std::vector<std::string> warnings = notes_;
  std::size_t count = 0;
  std::string examples;
  for (const TensorView& tensor : file_.tensors()) {
    if (used_.contains(tensor.name) || ignored_.contains(tensor.name) ||
        tensor.name.ends_with(kInputScale))
      continue;
    refuse_contradiction(tensor.name);
    if (++count <= 3) examples += (examples.empty() ? "" : ", ") + printable(tensor.name);
  }
  if (count != 0) {
    warnings.push_back(counted(count, "unknown tensor") + (count == 1 ? " is" : " are") +
                       " not used: " + examples + (count > 3 ? ", …" : ""));
  }
  return warnings;
}

std::set<std::string, std::less<>> Weights::unused() const {
  std::set<std::string, std::less<>> names;
  for (const TensorView& tensor : file_.tensors())
    if (!used_.contains(tensor.name)) names.emplace(tensor.name);
  return names;
}

// Tensors without a use are tolerated, but for these, with which another text is meant.
void Weights::refuse_contradiction(std::string_view name) const {
  constexpr std::string_view prefix = "blk.";
  if (name.starts_with("output_norm.") || name.starts_with("token_embd_norm."))
    fail("a norm that this architecture does not have", name);
  if (name.starts_with("position_embd.") || name.starts_with("token_types."))
    fail("an embedding that this architecture does not have", name);
  if (name.starts_with("cls.") || name.starts_with("dense_"))
    fail("a classifier or projection that this architecture does not have", name);
  if (!name.starts_with(prefix)) return;
  std::uint64_t layer = 0;
  const auto [end, status] =
      std::from_chars(name.data() + prefix.size(), name.data() + name.size(), layer);
  if (status == std::errc::invalid_argument || end == name.data() + name.size() || *end != '.')
    return;
  if (status == std::errc::result_out_of_range || layer >= n_layers_)
    fail("tensor of a layer that does not exist: expected layers 0 to " +
             std::to_string(n_layers_ - 1),
         name);
  if (name.ends_with(".bias")) fail("a bias that this architecture does not have", name);
  if (name.ends_with("_norm.weight")) fail("a norm that this architecture does not have", name);
  if (name.find(".ssm_") != std::string_view::npos)
    fail("a state space that this architecture does not have", name);
  if (name.ends_with(".scale")) fail("a scale that this architecture does not have", name);
  constexpr std::string_view kOfOthers[] = {"attn_sinks.weight", "attn_gate.weight",
                                            "ffn_gate.weight", "ffn_gate_inp_shexp.weight"};
  if (std::ranges::find(kOfOthers, std::string_view(end + 1, name.data() + name.size())) !=
      std::end(kOfOthers))
    fail("a part of a layer that this architecture does not have", name);
}

TensorView rows_of(const TensorView& matrix, std::uint64_t begin, std::uint64_t rows) {
  TensorView part = matrix;
  part.shape = {matrix.cols(), rows};
  part.data = matrix.data + begin * matrix.row_bytes();
  part.bytes = rows * matrix.row_bytes();
  return part;
}

}  // namespace cria
