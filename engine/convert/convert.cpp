#include "engine/convert/convert.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/architectures/architecture.h"
#include "engine/convert/sampling.h"
#include "model/file/json.h"
#include "model/gguf/writer.h"
#include "model/hf/config.h"
#include "model/plural.h"
#include "tokenizer/hf/vocabulary.h"

namespace cria {
namespace {

namespace fs = std::filesystem;

/// Thrown through the stream to leave it.
struct Stopped {};

/// general.file_type: what most matrices are, by the numbers that readers print names for.
std::uint32_t file_type(DType type) {
  switch (type) {
    case DType::F32:
      return 0;
    case DType::F16:
      return 1;
    case DType::Q4_1:
      return 3;
    case DType::Q8_0:
      return 7;
    case DType::Q5_1:
      return 9;
    default:
      return 32;  // BF16
  }
}

/// The last part of the path; in a download cache (models--OWNER--NAME/snapshots/HASH) the name of the model.
std::string directory_name(const std::string& directory) {
  fs::path path = fs::absolute(directory).lexically_normal();
  if (path.filename().empty()) path = path.parent_path();
  const fs::path snapshots = path.parent_path(), model = snapshots.parent_path().filename();
  if (snapshots.filename() == "snapshots" && model.string().starts_with("models--")) {
    const std::string name = model.string();
    return name.substr(name.rfind("--") + 2);
  }
  return path.filename().string();
}

/// A tensor of the file to be: where its values come from and how its rows stand.
struct Planned {
  ConvertedTensor tensor;
  std::unique_ptr<WeightRows> rows;
  HeadRows head_rows = HeadRows::None;
};

}  // namespace

struct Conversion::State {
  ConvertOptions options;
  HfConfig config;
  SafetensorsDirectory weights;
  std::optional<HfVocabulary> vocabulary;
  std::optional<GgufWriter> writer;
  std::vector<Planned> planned;
  std::vector<ConvertedTensor> tensors;
  std::vector<std::string> warnings;
  std::vector<float> rope_factors;

  explicit State(ConvertOptions wanted)
      : options(std::move(wanted)),
        config(read_config()),
        weights(SafetensorsDirectory::open(options.directory)) {
    plan();
    vocabulary.emplace(read_hf_vocabulary(
        options.directory,
        {.tokens = config.n_vocab, .pre = options.pre, .bos = config.bos, .eos = config.eos}));
    for (const auto& list : {config.warnings, vocabulary->vocabulary().warnings})
      warnings.insert(warnings.end(), list.begin(), list.end());
    declare();
  }

  [[nodiscard]] HfConfig read_config() const {
    const std::string path = (fs::path(options.directory) / "config.json").string();
    if (!fs::exists(path))
      throw Error(options.directory, "no config.json: expected the directory of a Hugging Face or MLX model");
    return HfConfig::from_json(read_json(path), path);
  }

  /// Every tensor that the model has, in the order of the file; what is left over has no place in it.
  void plan() {
    std::set<std::string_view> left;
    for (const auto& [name, tensor] : weights.tensors()) left.insert(name);
    for (const TensorName& name : model_tensors(config.n_layers)) {
      const SafeTensor* const tensor = weights.tensor(name.hf);
      if (tensor == nullptr) {
        require_optional(name);
        continue;
      }
      left.erase(tensor->name);
      if (name.hf == "lm_head.weight" && config.tied_embeddings) {
        warnings.emplace_back("lm_head.weight is left out: config.json says that it is the embedding");
        for (const char* part : {"lm_head.scales", "lm_head.biases"}) left.erase(part);
        continue;
      }
      try {
        add(name, *tensor, left);
      } catch (const Error& error) {
        throw Error(options.directory, error.what());
      }
    }
    std::erase_if(left, [](std::string_view name) { return is_derived_tensor(name); });
    if (!left.empty())
      throw weights.error(
          "no place for it in a GGUF file of this class of models" +
              (left.size() == 1 ? "" : ", and for " + counted(left.size() - 1, "other tensor")),
          "tensor " + std::string(*left.begin()));
  }

  void require_optional(const TensorName& name) const {
    const bool bias = name.hf.ends_with("_proj.bias"), output = name.hf == "lm_head.weight";
    const bool needed = !name.optional || (output && !config.tied_embeddings) ||
                        (bias && config.attention_bias && !name.hf.ends_with("o_proj.bias"));
    if (needed) throw weights.error("a tensor is missing", "tensor " + name.hf);
  }

  void add(const TensorName& name, const SafeTensor& tensor, std::set<std::string_view>& left) {
    const std::uint64_t rows = config.size_of(name.rows), cols = config.size_of(name.cols);
    Planned item;
    item.head_rows = name.head_rows;
    item.tensor.name = name.gguf;
    if (!name.is_matrix()) {
      expect_shape(tensor, {rows});
      // One value per row where rows are reordered, one row where not.
      const bool column = name.head_rows != HeadRows::None;
      item.rows = float_rows(tensor, column ? rows : 1, column ? 1 : rows);
      item.tensor.type = DType::F32;
      item.tensor.shape = {rows};
    } else {
      item.rows = matrix(tensor, rows, cols, left);
      item.tensor.type = matrix_type(*item.rows);
      item.tensor.shape = {cols, rows};
    }
    item.tensor.form = item.rows->form();
    item.tensor.bytes = dtype_info(item.tensor.type).bytes(rows * cols);
    planned.push_back(std::move(item));
  }

  /// Floats, or codes with the scales and biases of their groups beside them.
  std::unique_ptr<WeightRows> matrix(const SafeTensor& tensor, std::uint64_t rows, std::uint64_t cols,
                                     std::set<std::string_view>& left) const {
    const std::string base = tensor.name.substr(0, tensor.name.rfind('.'));
    const SafeTensor* const scales = weights.tensor(base + ".scales");
    const SafeTensor* const biases = weights.tensor(base + ".biases");
    const auto packing = config.packing_of(tensor.name);
    if (scales == nullptr || !packing) {
      expect_shape(tensor, {rows, cols});
      return float_rows(tensor, rows, cols);
    }
    if (biases == nullptr) throw Error("", "a tensor is missing", "tensor " + base + ".biases");
    left.erase(scales->name);
    left.erase(biases->name);
    return mlx_rows(tensor, *scales, *biases, *packing, rows, cols);
  }

  /// The wanted type, or F16 where rows do not divide into its blocks.
  [[nodiscard]] DType matrix_type(const WeightRows& rows) const {
    const DType type = options.type.value_or(rows.nearest());
    return rows.cols() % dtype_info(type).block_values == 0 ? type : DType::F16;
  }

  static void expect_shape(const SafeTensor& tensor, const std::vector<std::uint64_t>& shape) {
    if (tensor.shape == shape) return;
    SafeTensor expected;
    expected.shape = shape;
    throw Error("", "wrong shape: expected " + expected.shape_string() + ", got " + tensor.shape_string(),
                "tensor " + tensor.name);
  }

  void declare() {
    writer.emplace(options.output);
    set_hyper_parameters(*writer, config);
    writer->set("general.name", options.name.empty() ? directory_name(options.directory) : options.name);
    std::map<DType, std::uint64_t> bytes;
    for (const Planned& item : planned) {
      if (item.tensor.shape.size() > 1) bytes[item.tensor.type] += item.tensor.bytes;
    }
    const DType most =
        std::ranges::max_element(bytes, {}, [](const auto& entry) { return entry.second; })->first;
    writer->set("general.file_type", file_type(most));
    if (dtype_info(most).block_values > 1) writer->set("general.quantization_version", std::uint32_t{2});
    set_vocabulary(*writer, *vocabulary);
    set_sampling(*writer, options.directory, warnings);
    rope_factors = config.rope_factors();
    if (!rope_factors.empty()) writer->declare("rope_freqs.weight", DType::F32, {rope_factors.size()});
    for (const Planned& item : planned) {
      writer->declare(item.tensor.name, item.tensor.type, item.tensor.shape);
      tensors.push_back(item.tensor);
    }
  }

  void write(const std::function<bool(std::uint64_t)>& on_bytes,
             const std::function<void(const ConvertedTensor&)>& on_tensor) {
    writer->begin();
    if (!rope_factors.empty()) writer->write(std::as_bytes(std::span(rope_factors)));
    RowStream stream(*options.kernels, options.threads);
    const bool permutes = find_architecture(config.model_class->arch)->rope == RopeStyle::Adjacent;
    std::uint64_t written = 0;
    for (Planned& item : planned) {
      RowJob job{.file = options.directory,
                 .name = item.tensor.name,
                 .rows = item.rows.get(),
                 .type = item.tensor.type,
                 .measure = item.rows->packed()};
      if (permutes && item.head_rows != HeadRows::None)
        job.source_row = [head = config.head_dim](std::uint64_t row) { return hf_row(row, head); };
      const FormError error = stream.write(job, [&](std::span<const std::byte> bytes) {
        writer->write(bytes);
        written += bytes.size();
        if (!on_bytes(written)) throw Stopped();
      });
      if (job.measure) item.tensor.error = error;
      on_tensor(item.tensor);
    }
    writer->finish();
  }
};

Conversion::Conversion(ConvertOptions options) : state_(std::make_unique<State>(std::move(options))) {}
Conversion::~Conversion() = default;

const std::vector<ConvertedTensor>& Conversion::tensors() const { return state_->tensors; }
const std::vector<std::string>& Conversion::warnings() const { return state_->warnings; }
std::uint64_t Conversion::file_bytes() const { return state_->writer->file_bytes(); }

bool Conversion::write(const std::function<bool(std::uint64_t)>& on_bytes,
                       const std::function<void(const ConvertedTensor&)>& on_tensor) {
  try {
    state_->write(on_bytes, on_tensor);
  } catch (const Stopped&) {
    return false;
  }
  return true;
}

}  // namespace cria
