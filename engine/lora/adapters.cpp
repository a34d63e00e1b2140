#include "engine/lora/adapters.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "engine/graph/graph.h"
#include "kernels/simd/round.h"
#include "model/limits.h"
#include "model/plural.h"

namespace cria {
namespace {

constexpr std::string_view kA = ".lora_a", kB = ".lora_b";
constexpr std::uint64_t kAdapterLanes = 16;  // of float products (kernels/README.md)

// A factor of an addition: [n][rows][cols].
struct Factor {
  std::uint64_t cols, rows, n;
  std::vector<float> values;
};

std::string where(std::string_view tensor) { return "tensor " + std::string(tensor); }

Factor read_factor(const GgufFile& file, const TensorView& tensor) {
  if (dtype_info(tensor.dtype).dot == DotClass::None)
    throw file.error("wrong type: got " + std::string(name(tensor.dtype)), where(tensor.name));
  if (tensor.shape.size() > 3)
    throw file.error("wrong shape: expected 2 or 3 dimensions, got " + tensor.shape_string(),
                     where(tensor.name));
  Factor factor{tensor.cols(),
                tensor.shape.size() > 1 ? tensor.shape[1] : 1,
                tensor.shape.size() > 2 ? tensor.shape[2] : 1,
                {}};
  factor.values.resize(tensor.cols() * tensor.rows());
  dtype_info(tensor.dtype)
      .dequantize_rows(tensor.data, factor.values.data(), tensor.rows(), tensor.cols());
  if (!std::ranges::all_of(factor.values, [](float value) { return std::isfinite(value); }))
    throw file.error("holds NaN or infinity", where(tensor.name));
  return factor;
}

// Turns the factors of the embedding into the form of other matrices.
void swap_factors(Factor& a, Factor& b) {
  Factor turned{b.rows, b.cols, 1, std::vector<float>(b.values.size())};
  for (std::uint64_t row = 0; row < b.rows; ++row)
    for (std::uint64_t r = 0; r < b.cols; ++r)
      turned.values[r * b.rows + row] = b.values[row * b.cols + r];
  b = std::exchange(a, std::move(turned));
}

void require_lora(const GgufFile& file, const GgufFile& base) {
  const auto expect = [&](const char* key, std::string_view expected) {
    const std::string_view got = file.find_string(key).value_or("");
    if (got != expected)
      throw file.error("not an adapter of this model: expected '" + std::string(expected) +
                           "', got '" + printable(got) + "'",
                       "key " + std::string(key));
  };
  expect("general.type", "adapter");
  expect("adapter.type", "lora");
  expect("general.architecture", base.get_string("general.architecture"));
  constexpr const char* kInvocation = "adapter.alora.invocation_tokens";
  if (file.find(kInvocation) != nullptr)
    throw file.error("activated adapters (aLoRA) are not supported",
                     std::string("key ") + kInvocation);
}

// Returns 0 if the file has no alpha: additions then have no factor.
float alpha_of(const GgufFile& file) {
  const auto alpha = static_cast<float>(file.find_float("adapter.lora.alpha").value_or(0));
  if (!std::isfinite(alpha))
    throw file.error("bad number: expected a finite number, got " + number_text(alpha),
                     "key adapter.lora.alpha");
  return alpha;
}

// Appends A, and B times a factor, to the ones of earlier files.
void append(LowRank& sum, const Factor& a, const Factor& b, float factor, std::uint32_t file) {
  const std::uint64_t rank = a.rows, first = round_up(sum.rank, kAdapterLanes), all = first + rank;
  LowRank next{a.cols,
               all,
               b.rows,
               a.n,
               std::vector<float>(a.n * all * a.cols),
               std::vector<float>(a.n * all * b.rows),
               std::move(sum.parts)};
  next.parts.push_back({first, all, file});
  for (std::uint64_t i = 0; i < a.n; ++i) {
    float* const matrix = next.a.data() + i * all * a.cols;
    std::copy_n(sum.a.data() + i * sum.rank * a.cols, sum.rank * a.cols, matrix);
    std::copy_n(a.values.data() + i * rank * a.cols, rank * a.cols, matrix + first * a.cols);
    for (std::uint64_t row = i * b.rows; row < (i + 1) * b.rows; ++row) {
      float* const to = next.b.data() + row * all;
      std::copy_n(sum.b.data() + row * sum.rank, sum.rank, to);
      for (std::uint64_t r = 0; r < rank; ++r) to[first + r] = b.values[row * rank + r] * factor;
    }
  }
  sum = std::move(next);
}

TensorView view(const float* data, std::uint64_t cols, std::uint64_t rows) {
  TensorView tensor;
  tensor.name = "lora";
  tensor.shape = {cols, rows};
  tensor.data = reinterpret_cast<const std::byte*>(data);
  tensor.bytes = cols * rows * sizeof(float);
  return tensor;
}

}  // namespace

TensorView LowRank::a_view() const { return view(a.data(), cols, rank); }
TensorView LowRank::b_view(std::uint64_t begin, std::uint64_t count) const {
  return view(b.data() + begin * rank, rank, count);
}

Adapters Adapters::load(std::span<const LoraFile> files, const GgufFile& base) {
  Adapters adapters;
  for (const LoraFile& file : files) adapters.add(file, base);
  return adapters;
}

void Adapters::add(const LoraFile& lora, const GgufFile& base) {
  const GgufFile file = GgufFile::open(lora.path);
  require_lora(file, base);
  const float alpha = alpha_of(file);
  if (file.tensors().empty()) throw file.error("the adapter has no tensors");
  std::size_t norms = 0;
  for (const TensorView& tensor : file.tensors()) {
    if (tensor.name.ends_with("_norm.weight")) {  // some programs add copies of whole norms
      ++norms;
      continue;
    }
    const bool first = tensor.name.ends_with(kA);
    if (!first && !tensor.name.ends_with(kB))
      throw file.error("unknown tensor: expected NAME.lora_a or NAME.lora_b", where(tensor.name));
    const std::string target(tensor.name.substr(0, tensor.name.size() - kA.size()));
    const TensorView* const other = file.tensor(target + std::string(first ? kB : kA));
    if (other == nullptr)
      throw file.error("an addition has one factor: the other is missing", where(tensor.name));
    if (!first) continue;
    const TensorView* const matrix = base.tensor(target);
    if (matrix == nullptr)
      throw file.error("the model has no matrix of this name", where(tensor.name));
    Factor a = read_factor(file, tensor), b = read_factor(file, *other);
    const std::uint64_t n = matrix->shape.size() > 2 ? matrix->shape[2] : 1,
                        rows = matrix->rows() / n;
    if (target == "token_embd.weight" && a.cols != matrix->cols() && a.rows == rows &&
        a.n * b.n == 1)
      swap_factors(a, b);
    if (a.cols != matrix->cols() || b.rows != rows || a.n != n || b.n != n)
      throw file.error("wrong shape for the model's " + matrix->shape_string() + ": got " +
                           tensor.shape_string() + " and " + other->shape_string(),
                       where(tensor.name));
    if (a.rows != b.cols)
      throw file.error("the factors do not fit each other: got " + tensor.shape_string() + " and " +
                           other->shape_string(),
                       where(tensor.name));
    const float factor = alpha == 0 ? 1 : alpha / static_cast<float>(a.rows);
    append(tensors_[target], a, b, factor, static_cast<std::uint32_t>(files_.size()));
  }
  files_.push_back(lora);
  if (norms != 0)
    warnings_.push_back(lora.path + ": " + counted(norms, "norm") +
                        " ignored: adapters change only matrices");
}

const LowRank* Adapters::find(std::string_view tensor) const {
  const auto found = tensors_.find(tensor);
  return found == tensors_.end() ? nullptr : &found->second;
}

void GraphBuilder::adapt(const Adapters& adapters, const GgufFile& file) {
  std::vector<Node> all = std::exchange(graph_.nodes, {});
  std::set<std::string_view> used;
  prefix_.clear();
  for (const LoraFile& lora : adapters.files()) graph_.adapter_scales.push_back(lora.scale);
  for (Node& node : all) {
    std::size_t parts = 0;
    for (Matrix& m : node.matrices) {
      const LowRank* const added = adapters.find(m.weight.name);
      if (added == nullptr) continue;
      if (!node.facts.dense)
        throw file.error(
            "an adapter's addition that cannot be applied here: cria merge writes it into a model",
            "tensor " + std::string(m.weight.name));
      used.insert(m.weight.name);
      const std::string part = std::to_string(parts++);
      const ValueId low = value("lora" + part, added->rank);
      add(MatMulOp{{}, false, 1, 0, added->parts, true}, node.name + ".lora" + part, node.in, low,
          {matrix(added->a_view())});
      const TensorView& whole = *file.tensor(m.weight.name);
      const auto begin = static_cast<std::uint64_t>(m.weight.data - whole.data) / whole.row_bytes();
      const Matrix b = matrix(added->b_view(begin, m.weight.rows()));
      m.lora = LoraProduct{low, b.weight, b.kernel};
    }
    graph_.nodes.push_back(std::move(node));
  }
  for (const auto& [tensor, added] : adapters.all())
    if (!used.contains(tensor))
      throw file.error("an adapter adds to a matrix that no product uses", "tensor " + tensor);
}

}  // namespace cria
