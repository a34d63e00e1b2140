#include "engine/convert/convert.h"

#include <algorithm>
#include <map>
#include <vector>

#include "engine/convert/row_stream.h"
#include "engine/quantize/plan.h"
#include "model/gguf/writer.h"

namespace cria {
namespace {

WeightRowsPtr merged_rows(const TensorView& base, const LowRank& added,
                          std::span<const LoraFile> files) {
  const std::uint64_t cols = base.cols(), rank = added.rank;
  const auto read = [=, &base, &added](std::uint64_t row, float* out) {
    dtype_info(base.dtype).dequantize(base.data + row * base.row_bytes(), out, cols);
    const float* const a = added.a.data() + row / added.rows * rank * cols;
    const float* const b = added.b.data() + row * rank;
    std::vector<double> sums(out, out + cols);
    for (const AdapterPart& part : added.parts)
      for (std::uint64_t r = part.begin; r < part.end; ++r) {  // A is stored by rows
        const double factor = double{b[r]} * double{files[part.file].scale};
        for (std::uint64_t i = 0; i < cols; ++i) sums[i] += factor * double{a[r * cols + i]};
      }
    std::ranges::transform(sums, out, [](double sum) { return static_cast<float>(sum); });
  };
  return computed_rows(base.rows(), cols, base.dtype, read);
}

// The product would have to be divided by the scale.
void require_unscaled(const GgufFile& base, const std::string& tensor) {
  const std::string stem =
      tensor.ends_with(".weight") ? tensor.substr(0, tensor.size() - 7) : tensor;
  if (base.tensor(stem + ".scale") == nullptr && base.tensor(tensor + ".scale") == nullptr) return;
  throw base.error("cannot merge adapters into a matrix with a separate scale", "tensor " + tensor);
}

}  // namespace

bool merge_adapters(const GgufFile& base, const Adapters& adapters, const MergeOptions& options,
                    const std::function<bool(std::uint64_t bytes)>& on_bytes) {
  if (base.interleaved_bytes() != 0)
    throw base.error(
        "rows of some tensors are interleaved: cria quantize --plain puts them in order");
  require_other_file(base, options.output);
  for (const auto& [tensor, added] : adapters.all()) require_unscaled(base, tensor);
  GgufWriter writer(options.output, base.alignment());
  for (const GgufKey& key : base.keys())
    if (!key.key.starts_with("split.")) writer.set(key.key, copy_value(base, key.value));
  const auto type_of = [&](const TensorView& tensor) {
    const bool changes = adapters.find(tensor.name) != nullptr;
    return changes ? options.type.value_or(tensor.dtype) : tensor.dtype;
  };
  std::map<DType, std::uint64_t> before, weights;
  for (const TensorView& tensor : base.tensors()) {
    const DType type = type_of(tensor);
    writer.declare(tensor.name, type, tensor.shape);
    if (tensor.shape.size() < 2) continue;
    before[tensor.dtype] += tensor.rows() * tensor.cols();
    weights[type] += tensor.rows() * tensor.cols();
  }
  // The file type stays unless the main type changes: several mixes share a main type.
  if (most_of(weights) != most_of(before)) set_file_type(writer, weights);
  writer.begin();
  RowStream stream(*options.kernels, options.threads);
  ByteCount written(on_bytes);
  const auto write = [&](std::span<const std::byte> bytes) {
    writer.write(bytes);
    written.add(bytes.size());
  };
  try {
    for (const TensorView& tensor : base.tensors()) {
      base.prefetch(tensor);
      if (const LowRank* const added = adapters.find(tensor.name)) {
        const WeightRowsPtr rows = merged_rows(tensor, *added, adapters.files());
        stream.write({.file = base.path(),
                      .name = std::string(tensor.name),
                      .rows = rows.get(),
                      .type = type_of(tensor)},
                     write);
      } else if (tensor.bytes != 0) {
        write({tensor.data, tensor.bytes});
      }
      base.done_with(tensor);
    }
  } catch (const Stopped&) {
    return false;
  }
  writer.finish();
  return true;
}

}  // namespace cria
