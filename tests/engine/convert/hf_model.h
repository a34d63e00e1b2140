// A small random model as a GGUF file, and as the directory that it would be converted from.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/convert/convert.h"
#include "model/safetensors/safetensors.h"
#include "tests/engine/architectures/tiny_architecture.h"
#include "tests/model/safetensors/bytes.h"

namespace cria::test {

namespace fs = std::filesystem;

struct HfCase {
  ArchitectureCase gguf;
  std::string config;  ///< a JSON patch of the usual configuration
  std::string names;   ///< lines "GGUF [HOW] HF"
};
inline void PrintTo(const HfCase& c, std::ostream* out) { *out << c.gguf.name; }

/// A tensor of the directory, under construction.
struct HfData {
  std::vector<std::uint64_t> shape;
  std::vector<float> values;
};
using HfTensors = std::map<std::string, HfData>;

inline std::string with_number(std::string text, char mark, std::uint64_t n) {
  if (const std::size_t at = text.find(mark); at != std::string::npos)
    text.replace(at, 1, std::to_string(n));
  return text;
}

/// Writes each tensor of the GGUF file in the directory's layout.
class HfWriter {
 public:
  HfWriter(const HfCase& c, const GgufFile& file) {
    std::istringstream lines(c.names);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::vector<std::string> w{std::istream_iterator<std::string>(words), {}};
      rules_.push_back({w.front(), w.size() == 3 ? w[1] : "", w.back()});
    }
    for (const TensorView& tensor : file.tensors())
      if (!tensor.name.ends_with(".padding") && !tensor.name.starts_with("rope_")) place(tensor);
  }
  HfTensors tensors;

 private:
  struct Rule {
    std::string gguf, how, hf;
  };

  void place(const TensorView& tensor) {
    std::string name(tensor.name), layer;
    if (name.starts_with("blk.")) {
      const std::size_t dot = name.find('.', 4);
      layer = name.substr(4, dot - 4);
      name.erase(0, dot + 1);
    }
    for (const Rule& rule : rules_) {
      for (const std::string ending : {"", ".weight", ".bias"}) {
        if (rule.gguf + ending != name) continue;
        std::string hf = rule.hf + ending;
        if (!layer.empty()) hf = with_number(hf, '#', std::stoul(layer));
        return put(tensor, rule.how, hf);
      }
    }
    ADD_FAILURE() << "no name for " << tensor.name;
  }

  void put(const TensorView& tensor, const std::string& how, const std::string& hf) {
    std::vector<float> values(tensor.cols() * tensor.rows());
    dtype_info(tensor.dtype).dequantize(tensor.data, values.data(), values.size());
    std::vector<std::uint64_t> shape(tensor.shape.rbegin(), tensor.shape.rend());
    if (how == "none") return;
    if (how == "minus1") {
      for (float& value : values) value -= 1;
    } else if (how == "pairs") {
      values = unpaired(values, values.size() / shape[0]);
    } else if (how == "decay") {
      for (float& value : values) value = std::log(-value);
      std::erase(shape, 1);
    } else if (how == "head_decay") {
      for (float& value : values) value = std::log(-value);
      shape = {1, 1, values.size(), 1};
    } else if (how == "flat") {
      shape = {values.size()};
    } else if (how == "taps") {
      shape.insert(shape.begin() + 1, 1);
    } else if (how.starts_with("value")) {
      return put_value_heads(shape, values, how, hf);
    } else if (how.starts_with("next")) {
      return put_by_key_head(shape, values, how, hf);
    } else if (how == "row") {
      if (shape.size() == 1) shape.insert(shape.begin(), 1);
    } else if (how.starts_with("group")) {
      return put_in_groups(values, how, hf);
    } else if (how.starts_with("latent")) {
      return put_latent(values, how == "latent_keys", hf);
    } else if (how == "joined") {
      shape = {shape[0] * shape[1], shape[2]};
    } else if (how == "joined_column") {
      put_half(shape, values, "column", hf);
      tensors[hf].shape = {shape[0] * shape[2], shape[1]};
      return;
    } else if (how == "parts") {
      const std::vector<std::uint64_t> rest(shape.begin() + 1, shape.end());
      const auto size = static_cast<std::ptrdiff_t>(values.size() / shape[0]);
      for (std::uint64_t i = 0; i < shape[0]; ++i) {
        const auto begin = values.begin() + static_cast<std::ptrdiff_t>(i) * size;
        tensors[with_number(hf, '%', i)] = {rest, {begin, begin + size}};
      }
      return;
    } else if (!how.empty()) {
      return put_half(shape, values, how, hf);
    }
    tensors[hf] = {shape, values};
  }

  /// Linear attention with two key heads of 16 and four value heads of 16: GGUF's value heads
  /// belong to the key heads 0, 1, 0, 1, the directory's to 0, 0, 1, 1. `how`: what is in these
  /// heads ("value" rows, "value_decay", rows behind queries and keys as "value_tail" or
  /// "value_taps", "value_column").
  void put_value_heads(std::vector<std::uint64_t> shape, std::vector<float> values,
                       const std::string& how, const std::string& hf) {
    const bool columns = how == "value_column", tail = how == "value_tail" || how == "value_taps";
    const std::size_t cols = columns || shape.size() < 2 ? 1 : shape.back(),
                      lines = columns ? shape.front() : 1,
                      begin = tail ? std::size_t{64} * cols : 0,
                      size = (values.size() / lines - begin) / 4;
    std::vector<float> out = values;
    for (std::size_t line = 0; line < lines; ++line) {
      const float* const from = values.data() + line * (values.size() / lines) + begin;
      float* const to = out.data() + line * (values.size() / lines) + begin;
      for (const auto& [gguf, head] : {std::pair{0, 0}, {2, 1}, {1, 2}, {3, 3}})
        std::copy_n(from + static_cast<std::size_t>(gguf) * size, size,
                    to + static_cast<std::size_t>(head) * size);
    }
    if (how == "value_decay")
      for (float& value : out) value = std::log(-value);
    if (how == "value_taps") shape.insert(shape.begin() + 1, 1);
    tensors[hf] = {shape, out};
  }

  /// Qwen3-Next's fused tensor: two key heads, each with its query and key of 16 rows, two values
  /// and two gates of 16 rows. GGUF has queries, keys and values ("next_qkv"), and gates.
  void put_by_key_head(const std::vector<std::uint64_t>& shape, const std::vector<float>& values,
                       const std::string& how, const std::string& hf) {
    const std::size_t cols = shape.back();
    HfData& to = tensors[hf];
    to.shape = {192, cols};
    to.values.resize(192 * cols);
    const auto put = [&](std::size_t from, std::size_t row, std::size_t n) {
      std::copy_n(values.data() + from * cols, n * cols, to.values.data() + row * cols);
    };
    for (const std::size_t head : {0, 1}) {
      if (how == "next_gates") {
        put(head * 32, head * 96 + 64, 32);
        continue;
      }
      put(head * 16, head * 96, 16);
      put(32 + head * 16, head * 96 + 16, 16);
      put(64 + head * 32, head * 96 + 32, 32);
    }
  }

  /// Latent attention: four heads with keys of 32 rows and values of 16, of 32 columns. GGUF has
  /// the keys of each head transposed.
  void put_latent(const std::vector<float>& values, bool keys, const std::string& hf) {
    HfData& to = tensors[hf];
    to.shape = {4 * 48, 32};
    to.values.resize(std::size_t{4} * 48 * 32);
    for (std::size_t head = 0; head < 4; ++head)
      for (std::size_t row = 0; row < (keys ? 32 : 16); ++row)
        for (std::size_t column = 0; column < 32; ++column)
          to.values[(head * 48 + (keys ? row : 32 + row)) * 32 + column] =
              keys ? values[(head * 32 + column) * 32 + row]
                   : values[(head * 16 + row) * 32 + column];
  }

  /// Heads of 16 rows, in which pairs lie side by side.
  static std::vector<float> unpaired(const std::vector<float>& values, std::size_t cols) {
    std::vector<float> out(values.size());
    for (std::size_t row = 0; row < values.size() / cols; ++row) {
      const std::size_t to = row / 16 * 16 + row % 16 / 2 + (row % 2) * 8;
      std::copy_n(values.data() + row * cols, cols, out.data() + to * cols);
    }
    return out;
  }

  /// Two groups of two queries, a key and a value, of 16 rows of 64 each.
  void put_in_groups(const std::vector<float>& values, const std::string& how,
                     const std::string& hf) {
    HfData& to = tensors[hf];
    to.shape = {128, 64};
    to.values.resize(std::size_t{128} * 64);
    const std::vector<float> rows = how == "group_v" ? values : unpaired(values, 64);
    const std::size_t heads = how == "group_q" ? 2 : 1, first = how == "group_q"   ? 0
                                                                : how == "group_k" ? 2
                                                                                   : 3;
    for (std::size_t head = 0; head < 2 * heads; ++head)
      std::copy_n(rows.data() + head * 16 * 64, 16 * 64,
                  to.values.data() + (head / heads * 4 + first + head % heads) * 16 * 64);
  }

  /// `how` selects rows of every expert ("first", "second", "even", "odd") or columns ("column",
  /// "even_column", "odd_column").
  void put_half(std::vector<std::uint64_t> shape, const std::vector<float>& values,
                const std::string& how, const std::string& hf) {
    const bool columns = how.ends_with("column"), halves = how != "column";
    const bool vectors = hf.ends_with("bias");
    const std::uint64_t cols = vectors ? 1 : shape.back(),
                        rows = vectors ? shape.back() : shape[shape.size() - 2];
    const std::uint64_t all = halves ? 2 * rows : rows, experts = values.size() / rows / cols;
    HfData& to = tensors[hf];
    to.values.resize(experts * all * cols);
    to.shape = vectors             ? std::vector{experts, all}
               : columns           ? std::vector{experts, cols, all}
               : shape.size() == 2 ? std::vector{all, cols}
                                   : std::vector{experts, all, cols};
    for (std::uint64_t e = 0; e < experts; ++e) {
      for (std::uint64_t r = 0; r < rows; ++r) {
        const std::uint64_t at = how.starts_with("second") ? rows + r
                                 : how.starts_with("even") ? 2 * r
                                 : how.starts_with("odd")  ? 2 * r + 1
                                                           : r;
        for (std::uint64_t c = 0; c < cols; ++c)
          to.values[columns ? (e * cols + c) * all + at : (e * all + at) * cols + c] =
              values[(e * rows + r) * cols + c];
      }
    }
  }

  std::vector<Rule> rules_;
};

inline nlohmann::json usual_config() {
  return nlohmann::json::parse(
      R"({"num_hidden_layers": 4, "max_position_embeddings": 256, "hidden_size": 64,
      "intermediate_size": 96, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 40,
      "rope_theta": 10000.0, "rms_norm_eps": 1e-5, "layer_norm_eps": 1e-5, "norm_eps": 1e-5, "norm_epsilon": 1e-5,
      "layer_norm_epsilon": 1e-5, "tie_word_embeddings": false, "bos_token_id": 0, "eos_token_id": 1})");
}

class HfModel {
 public:
  explicit HfModel(const HfCase& c)
      : directory_(fs::temp_directory_path() / ("cria-hf-" + std::to_string(getpid()))) {
    fs::remove_all(directory_);
    fs::create_directories(directory_);
    TinyArchitecture tiny(c.gguf);
    tiny.matrix_type = DType::F32;
    tiny.edit = [](const TinyArchitecture::Tensor& t, std::vector<float>& values) {
      if (!t.name.ends_with(".ssm_a")) return;
      for (float& value : values) {  // the logarithm of such a number is exact to and fro
        value = -std::exp2(std::round(value * 4) / 8);
        for (int i = 0; i < 4; ++i) value = -std::exp(std::log(-value));
      }
    };
    tiny.write(reference());
    config = usual_config();
    config.merge_patch(nlohmann::json::parse(c.config));
    const GgufFile file = GgufFile::open(reference());
    tensors = HfWriter(c, file).tensors;
    for (const auto& [key, value] : c.gguf.keys) {  // numbers that are tensors
      if (!key.starts_with("xielu.")) continue;
      const std::vector<float> numbers = *file.find_floats(key);
      for (std::size_t i = 0; i < numbers.size(); ++i)
        tensors["model.layers." + std::to_string(i) + ".mlp.act_fn." + key.substr(6)] = {
            {1}, {numbers[i]}};
    }
    for (const std::string length : {"short", "long"}) {  // longrope: factors are in config.json
      const TensorView* const factors = file.tensor("rope_factors_" + length + ".weight");
      for (std::uint64_t i = 0; factors != nullptr && i < factors->cols(); ++i) {
        float factor = 0;
        std::memcpy(&factor, factors->data + i * sizeof factor, sizeof factor);
        config["rope_scaling"][length + "_factor"].push_back(factor);
      }
    }
  }
  ~HfModel() { fs::remove_all(directory_); }
  HfModel(const HfModel&) = delete;
  HfModel& operator=(const HfModel&) = delete;

  nlohmann::json config;
  std::function<std::string(std::string)> text_of_config;  ///< changes the text of config.json
  HfTensors tensors;
  struct Bytes {
    std::vector<std::uint64_t> shape;
    std::string values, type = "U8";
  };
  std::map<std::string, Bytes> bytes;  ///< tensors of other types

  /// Throws Error if the directory is rejected.
  void convert(std::optional<DType> type) {
    write("config.json", text_of_config ? text_of_config(config.dump()) : config.dump());
    write("tokenizer.json",
          R"({"added_tokens": [], "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
        "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}})");
    SafetensorsBytes file;
    for (const auto& [name, tensor] : tensors)
      file.add(name, "F32", tensor.shape, bytes_of(tensor.values));
    for (const auto& [name, tensor] : bytes)
      file.add(name, tensor.type, tensor.shape, tensor.values);
    write("model.safetensors", file.file());
    convert(directory_.string(), type);
  }
  void convert(const std::string& directory, std::optional<DType> type) {
    ConvertOptions options;
    options.directory = directory;
    options.output = output();
    options.type = type;
    options.kernels = available_kernels().back();
    Conversion conversion(options);
    conversion.write([](std::uint64_t) { return true; }, [](const ConvertedTensor&) {});
    warnings = conversion.warnings();
  }
  std::vector<std::string> warnings;

  /// Exports the reference and returns the directory. Throws Error if the reference is rejected.
  [[nodiscard]] std::string exported(std::optional<DType> type = {}) const {
    const std::string directory = (directory_ / "exported").string();
    ExportOptions options;
    options.file = reference();
    options.directory = directory;
    options.type = type;
    options.kernels = available_kernels().back();
    Export work(options);
    work.write([](std::uint64_t) { return true; }, [](const ExportedTensor&) {});
    return directory;
  }

  [[nodiscard]] std::string reference() const { return (directory_ / "reference.gguf").string(); }
  [[nodiscard]] std::string output() const { return (directory_ / "out.gguf").string(); }

 private:
  void write(const std::string& name, const std::string& content) const {
    std::ofstream(directory_ / name, std::ios::binary) << content;
  }
  fs::path directory_;
};

}  // namespace cria::test
