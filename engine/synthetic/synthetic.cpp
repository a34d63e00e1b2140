#include "engine/synthetic/synthetic.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <sstream>
#include <vector>

#include "engine/architectures/architecture.h"
#include "engine/quantize/plan.h"
#include "engine/synthetic/shapes_text.h"
#include "kernels/formats/format.h"
#include "kernels/simd/round.h"
#include "model/gguf/writer.h"

namespace cria {
namespace {

constexpr double kWeightRms = 0.02;

/// splitmix64 (Steele, Lea, Flood 2014).
struct Random {
  std::uint64_t state;
  std::uint64_t next() {
    std::uint64_t z = (state += 0x9E3779B97F4A7C15U);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
  }
  /// Uniform with mean 0 and the given root mean square.
  float value() {
    return static_cast<float>((static_cast<double>(next() >> 11) * 0x1p-53 - 0.5) *
                              std::sqrt(12.0) * kWeightRms);
  }
};

struct Scales {
  double scale, min;
};

void set_scales(const DTypeInfo& type, std::byte* row, std::size_t n_blocks, Scales scales) {
  const auto scale = static_cast<float>(scales.scale), min = static_cast<float>(scales.min);
  set_row_scale(type.id, row, scale);
  for (std::size_t i = 0; i < n_blocks; ++i)
    set_block_scales(type.id, row + type.header_bytes + i * type.block_bytes, scale, min);
}

double mean(const std::vector<float>& values, double power) {
  double sum = 0;
  for (const float value : values) sum += std::pow(value, power);
  return sum / static_cast<double>(values.size());
}

/// The scales that give random blocks of a type the intended mean and spread, from dequantized
/// blocks with scales of 1.
Scales calibrate(const DTypeInfo& type, Random& random) {
  constexpr std::size_t kBlocks = 64;
  std::vector<std::byte> row(type.row_bytes(kBlocks * type.block_values));
  std::vector<float> values(kBlocks * type.block_values);
  for (std::byte& byte : row) byte = static_cast<std::byte>(random.next());
  const auto dequantized = [&](double scale, double min) -> const std::vector<float>& {
    set_scales(type, row.data(), kBlocks, {scale, min});
    type.dequantize(row.data(), values.data(), values.size());
    return values;
  };
  // Only types with a minimum; a scale that cannot be 0 leaves less.
  const double from_min = mean(dequantized(0, 1), 1);
  const double min = std::abs(from_min) < 1e-30 ? 0 : -mean(dequantized(1, 0), 1) / from_min;
  const double rms = std::sqrt(mean(dequantized(1, min), 2));
  return {kWeightRms / rms, min * kWeightRms / rms};
}

void fill_blocks(const DTypeInfo& type, std::size_t rows, std::size_t cols, std::byte* out,
                 Random& random) {
  const Scales scales = calibrate(type, random);
  const std::size_t row_bytes = type.row_bytes(cols), bytes = rows * row_bytes;
  std::size_t at = 0;
  for (; at + 8 <= bytes; at += 8) {
    const std::uint64_t bits = random.next();
    std::memcpy(out + at, &bits, 8);
  }
  for (; at < bytes; ++at) out[at] = static_cast<std::byte>(random.next());
  for (at = 0; at < bytes; at += row_bytes)
    set_scales(type, out + at, cols / type.block_values, scales);
}

template <class Bits, class Convert>
void fill_floats(std::size_t n, std::byte* out, Random& random, Convert convert) {
  for (std::size_t i = 0; i < n; ++i) {
    const Bits bits = convert(random.value());
    std::memcpy(out + i * sizeof bits, &bits, sizeof bits);
  }
}

using Tensor = WantedTensors::Wanted;

/// "blk.3.attn_norm.weight" without "blk.3."
std::string_view without_layer(std::string_view name) {
  if (!name.starts_with("blk.")) return name;
  const std::size_t dot = name.find('.', 4);
  return dot == std::string_view::npos ? name : name.substr(dot + 1);
}

/// The tensors that the architecture builds from the metadata.
std::deque<Tensor> tensors(const ModelShape& shape, const GgufWriter& writer) {
  const std::string bytes = writer.metadata();
  const GgufFile metadata =
      GgufFile::from_bytes(std::as_bytes(std::span(bytes)), writer.path(), {.metadata_only = true});
  return wanted_tensors(metadata, [&](std::string_view name) {
    const bool listed =
        std::ranges::find(shape.tensors, without_layer(name)) != shape.tensors.end();
    return listed ? std::optional(std::vector<std::uint64_t>{}) : std::nullopt;
  });
}

std::uint64_t rows(const Tensor& tensor) {
  return std::accumulate(tensor.shape.begin() + 1, tensor.shape.end(), std::uint64_t{1},
                         std::multiplies<>());
}

bool has_wanted_type(const Tensor& tensor) { return tensor.matrix && is_quantizable(tensor.name); }

/// The type of a matrix: `type`, or its replacement if its blocks do not divide the rows.
DType type_of(const Tensor& tensor, DType wanted) {
  if (!has_wanted_type(tensor)) return DType::F32;
  DType type = wanted;
  while (tensor.shape[0] % dtype_info(type).block_values != 0) {
    const auto stand_in = std::ranges::find(fallbacks(), type, &Fallback::from);
    if (stand_in == fallbacks().end()) break;  // the writer reports the error
    type = stand_in->to;
  }
  return type;
}

/// <unk>, <s>, </s>, the 256 bytes, then placeholder words.
void set_vocabulary(GgufWriter& writer, std::uint32_t n_vocab) {
  std::vector<std::string> tokens = {"<unk>", "<s>", "</s>"};
  std::vector<std::int32_t> types = {2, 3, 3};
  std::vector<float> scores(n_vocab);
  for (unsigned byte = 0; byte < 256; ++byte) {
    std::array<char, 8> text{};
    std::snprintf(text.data(), text.size(), "<0x%02X>", byte);
    tokens.emplace_back(text.data());
    types.push_back(6);
  }
  for (std::uint32_t i = static_cast<std::uint32_t>(tokens.size()); i < n_vocab; ++i)
    tokens.push_back("w" + std::to_string(i));
  types.resize(n_vocab, 1);
  for (std::uint32_t i = 0; i < n_vocab; ++i) scores[i] = -static_cast<float>(i);
  writer.set("tokenizer.ggml.model", std::string("llama"));
  writer.set("tokenizer.ggml.tokens", GgufArray::of(tokens));
  writer.set("tokenizer.ggml.scores", GgufArray::of(scores));
  writer.set("tokenizer.ggml.token_type", GgufArray::of(types));
  writer.set("tokenizer.ggml.bos_token_id", std::uint32_t{1});
  writer.set("tokenizer.ggml.eos_token_id", std::uint32_t{2});
  writer.set("tokenizer.ggml.unknown_token_id", std::uint32_t{0});
}

/// "64" is an integer, "1e6" or "0.5" a number, "true" a flag, "0,0,8" an array of integers.
GgufData number(const std::string& text) {
  if (text == "true") return true;
  if (text.find(',') != std::string::npos) {
    std::vector<std::int32_t> numbers;
    std::istringstream list(text);
    for (std::string item; std::getline(list, item, ',');) numbers.push_back(std::stoi(item));
    return GgufArray::of(numbers);
  }
  if (text.find_first_of(".e") == std::string::npos)
    return static_cast<std::uint32_t>(std::stoul(text));
  return std::stof(text);
}

void set_hyper_parameters(GgufWriter& writer, const ModelShape& s, DType type) {
  writer.set("general.architecture", s.arch);
  writer.set("general.name", "synthetic " + s.name + " " + std::string(name(type)));
  const auto set = [&](const std::string& key, GgufData value) {
    writer.set(s.arch + "." + key, value);
  };
  set("vocab_size", s.n_vocab);
  set("context_length", s.n_ctx);
  set("embedding_length", s.n_embd);
  set("block_count", s.n_layers);
  set("feed_forward_length", s.n_ff);
  set("attention.head_count", s.n_heads);
  set("attention.head_count_kv", s.n_kv_heads);
  set("attention.key_length", s.head_dim);
  set("attention.value_length", s.head_dim);
  set("attention.layer_norm_rms_epsilon", 1e-5F);
  set("rope.dimension_count", s.head_dim);
  set("rope.freq_base", 10000.F);
  for (const auto& [key, value] : s.keys) set(key, number(value));
}

/// Norms have weights 1, exponents of decays are -1; biases and routers are as small as other
/// weights.
void write_floats(GgufWriter& writer, const Tensor& tensor, std::uint64_t seed) {
  const bool exponents = tensor.name.ends_with(".ssm_a");
  std::vector<float> values(tensor.shape[0] * rows(tensor), exponents ? -1.F : 1.F);
  if (!exponents && !tensor.name.ends_with("norm.weight"))
    fill_random_weights(DType::F32, 1, values.size(), reinterpret_cast<std::byte*>(values.data()),
                        seed);
  writer.write(std::as_bytes(std::span(values)));
}

/// Writes everything but the values; returns the tensors.
std::deque<Tensor> describe(GgufWriter& writer, const ModelShape& shape, DType type) {
  const DTypeInfo& info = dtype_info(type);
  if (info.dot == DotClass::None)
    throw Error(writer.path(), "type " + std::string(info.name) + " cannot hold a weight matrix");
  set_hyper_parameters(writer, shape, type);
  set_vocabulary(writer, shape.n_vocab);
  std::deque<Tensor> list = tensors(shape, writer);
  for (const Tensor& tensor : list)
    writer.declare(tensor.name, type_of(tensor, type), tensor.shape);
  return list;
}

/// One line of the file.
ModelShape parse_shape(const std::string& line) {
  ModelShape s;
  std::istringstream words(line);
  words >> s.name >> s.n_layers >> s.n_embd >> s.n_heads >> s.n_kv_heads >> s.head_dim >> s.n_ff >>
      s.n_vocab >> s.n_ctx >> s.model;
  if (words >> s.arch) s.tensors.clear();
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos)
      s.tensors.push_back(word.substr(1));  // "+"
    else
      s.keys.emplace_back(word.substr(0, equals), word.substr(equals + 1));
  }
  return s;
}

}  // namespace

void fill_random_weights(DType type, std::size_t rows, std::size_t cols, std::byte* out,
                         std::uint64_t seed) {
  const DTypeInfo& info = dtype_info(type);
  assert(info.dot != DotClass::None && cols % info.block_values == 0);
  const std::size_t n_values = rows * cols;
  Random random{seed};
  switch (type) {  // the float types are values, not blocks
    case DType::F32:
      return fill_floats<float>(n_values, out, random, [](float x) { return x; });
    case DType::F16:
      return fill_floats<std::uint16_t>(n_values, out, random,
                                        [](float x) { return f32_to_f16(x); });
    case DType::BF16:
      return fill_floats<std::uint16_t>(n_values, out, random,
                                        [](float x) { return f32_to_bf16(x); });
    default:
      return fill_blocks(info, rows, cols, out, random);
  }
}

const std::vector<ModelShape>& model_shapes() {
  static const std::vector<ModelShape> shapes = [] {
    std::vector<ModelShape> list;
    std::istringstream text(kShapesText);
    for (std::string line; std::getline(text, line);) {
      if (line.empty() || line[0] == '#') continue;
      list.push_back(parse_shape(line));
    }
    return list;
  }();
  return shapes;
}

const ModelShape& find_shape(std::string_view name) {
  std::string known;
  for (const ModelShape& shape : model_shapes()) {
    if (shape.name == name) return shape;
    known += " " + shape.name;
  }
  throw Error("", "unknown shape \"" + std::string(name) + "\": known are" + known);
}

void write_hollow(const ModelShape& shape, DType type, const std::string& path) {
  GgufWriter writer(path);
  static_cast<void>(describe(writer, shape, type));
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << writer.metadata();
  file.close();
  std::error_code error;
  if (file) std::filesystem::resize_file(path, writer.file_bytes(), error);
  if (!file || error) throw Error(path, "cannot be written");
}

void write_synthetic(const ModelShape& shape, DType type, const std::string& path,
                     std::uint64_t seed) {
  GgufWriter writer(path);
  const std::deque<Tensor> list = describe(writer, shape, type);
  writer.begin();
  std::vector<std::byte> piece;
  for (const Tensor& tensor : list) {
    const DType own = type_of(tensor, type);
    if (!has_wanted_type(tensor)) {
      write_floats(writer, tensor, seed++);
      continue;
    }
    const std::uint64_t per_piece =
        std::max<std::uint64_t>(1, (std::uint64_t{1} << 20) / tensor.shape[0]);
    for (std::uint64_t row = 0; row < rows(tensor); row += per_piece) {
      const std::uint64_t n = std::min(per_piece, rows(tensor) - row);
      piece.resize(n * dtype_info(own).row_bytes(tensor.shape[0]));
      fill_random_weights(own, n, tensor.shape[0], piece.data(), seed++);
      writer.write(piece);
    }
  }
  writer.finish();
}

}  // namespace cria
