// A valid model of two layers as a description that tests change before it is written.
#pragma once

#include <algorithm>
#include <map>

#include "model/gguf/writer.h"
#include "tests/model/bytes.h"

namespace cria::test {

struct TinyTensor {
  std::string name;
  DType dtype;
  std::vector<std::uint64_t> shape;
};

struct TinyModel {
  std::map<std::string, GgufData> keys;
  std::vector<TinyTensor> tensors;

  explicit TinyModel(std::string_view arch = "llama") : prefix_(arch) {
    keys["general.architecture"] = std::string(arch);
    key("block_count") = 2U;
    key("context_length") = 128U;
    key("embedding_length") = 64U;
    key("feed_forward_length") = 96U;
    key("attention.head_count") = 4U;
    key("attention.head_count_kv") = 2U;
    key("attention.layer_norm_rms_epsilon") = 1e-5F;
    tensors = {{"token_embd.weight", DType::Q8_0, {64, 10}},
               {"output_norm.weight", DType::F32, {64}}};
    for (const std::string layer : {"blk.0.", "blk.1."}) {
      tensors.insert(tensors.end(), {{layer + "attn_norm.weight", DType::F32, {64}},
                                     {layer + "attn_q.weight", DType::Q4_0, {64, 64}},
                                     {layer + "attn_k.weight", DType::Q4_0, {64, 32}},
                                     {layer + "attn_v.weight", DType::Q4_0, {64, 32}},
                                     {layer + "attn_output.weight", DType::F16, {64, 64}},
                                     {layer + "ffn_norm.weight", DType::F32, {64}},
                                     {layer + "ffn_gate.weight", DType::Q4_0, {64, 96}},
                                     {layer + "ffn_up.weight", DType::Q4_0, {64, 96}},
                                     {layer + "ffn_down.weight", DType::Q4_0, {96, 64}}});
    }
  }

  GgufData& key(std::string_view suffix) { return keys[prefix_ + "." + std::string(suffix)]; }
  void erase(std::string_view suffix) { keys.erase(prefix_ + "." + std::string(suffix)); }
  TinyTensor& tensor(std::string_view name) {
    return *std::find_if(tensors.begin(), tensors.end(),
                         [name](const TinyTensor& t) { return t.name == name; });
  }
  void remove(std::string_view name) {
    std::erase_if(tensors, [name](const TinyTensor& t) { return t.name == name; });
  }
  void add(std::string name, DType dtype, std::vector<std::uint64_t> shape) {
    tensors.push_back({std::move(name), dtype, std::move(shape)});
  }

  /// Writes the model (every byte of data is fill) and opens it.
  [[nodiscard]] GgufFile open(std::byte fill = std::byte{0}) const {
    const TemporaryDirectory directory;
    GgufWriter writer(directory.file("tiny.gguf"));
    for (const auto& [name, value] : keys) writer.set(name, value);
    for (const TinyTensor& t : tensors) writer.declare(t.name, t.dtype, t.shape);
    writer.begin();
    for (const TinyTensor& t : tensors) {
      TensorView view{.name = t.name, .dtype = t.dtype, .shape = t.shape};
      writer.write(std::vector<std::byte>(view.row_bytes() * view.rows(), fill));
    }
    writer.finish();
    return GgufFile::open(directory.file("tiny.gguf"));
  }

 private:
  std::string prefix_;
};

}  // namespace cria::test
