#include "engine/synthetic/synthetic.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <sstream>

#include "engine/architectures/architecture.h"
#include "engine/quantize/plan.h"
#include "engine/synthetic/random_weights.h"
#include "engine/synthetic/shapes_text.h"
#include "model/gguf/writer.h"

namespace cria {
namespace {

using Tensor = WantedTensors::Wanted;

/// "blk.3.attn_norm.weight" without "blk.3."
std::string_view without_layer(std::string_view name) {
  if (!name.starts_with("blk.")) return name;
  const std::size_t dot = name.find('.', 4);
  return dot == std::string_view::npos ? name : name.substr(dot + 1);
}

/// What the architecture's description asks for when it is given the metadata.
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

/// The type that is wanted for matrices, or what stands in for it where rows do not divide into its
/// blocks.
DType type_of(const Tensor& tensor, DType wanted) {
  if (!has_wanted_type(tensor)) return DType::F32;
  DType type = wanted;
  while (tensor.shape[0] % dtype_info(type).block_values != 0) {
    const auto stand_in = std::ranges::find(fallbacks(), type, &Fallback::from);
    if (stand_in == fallbacks().end()) break;  // the writer says what is wrong
    type = stand_in->to;
  }
  return type;
}

/// <unk>, <s>, </s>, the 256 bytes, then words that do not matter.
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

/// "64" is an integer, "1e6" or "0.5" a number.
GgufData number(const std::string& text) {
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

/// Norms do nothing; biases and routers are as small as other weights.
void write_floats(GgufWriter& writer, const Tensor& tensor, std::uint64_t seed) {
  std::vector<float> values(tensor.shape[0] * rows(tensor), 1.F);
  if (!tensor.name.ends_with("norm.weight"))
    fill_random_weights(DType::F32, 1, values.size(), reinterpret_cast<std::byte*>(values.data()),
                        seed);
  writer.write(std::as_bytes(std::span(values)));
}

/// Everything but the values; returns what these are of.
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
