// A small model as a Hugging Face or MLX directory, every value known by name and place.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kernels/simd/round.h"
#include "tests/model/safetensors/bytes.h"
#include "tests/tools/process.h"

namespace cria::test {

struct HfDirectory {
  static constexpr std::uint64_t kEmbedding = 64, kHeads = 4, kKvHeads = 2, kHead = 16,
                                 kFeedForward = 96, kVocabulary = 270;

  nlohmann::json config = {{"architectures", {"LlamaForCausalLM"}},
                           {"hidden_size", kEmbedding},
                           {"num_hidden_layers", 2},
                           {"num_attention_heads", kHeads},
                           {"num_key_value_heads", kKvHeads},
                           {"intermediate_size", kFeedForward},
                           {"rms_norm_eps", 1e-5},
                           {"rope_theta", 10000.0},
                           {"vocab_size", kVocabulary},
                           {"max_position_embeddings", 128},
                           {"tie_word_embeddings", false},
                           {"bos_token_id", 256},
                           {"eos_token_id", 257}};
  nlohmann::json tokenizer = byte_tokenizer();
  nlohmann::json tokenizer_config = {
      {"bos_token", "<|start|>"},
      {"eos_token", {{"content", "<|end|>"}}},
      {"add_bos_token", true},
      {"chat_template", "{% for m in messages %}{{ m.content }}{% endfor %}"}};
  std::string dtype = "F16";  ///< dtype of matrices; vectors are F32
  std::map<std::string, std::vector<std::uint64_t>> tensors = shapes();
  std::map<std::string, std::string>
      other;  ///< tensors that stand as "DTYPE bytes", for defects and MLX

  /// Returns a tensor's value at an index. All values differ, and are exact in F16 and in BF16.
  static float value(const std::string& name, std::uint64_t index) {
    std::uint64_t hash = 1469598103934665603U;
    for (const char c : name) hash = (hash ^ static_cast<std::uint8_t>(c)) * 1099511628211U;
    hash = (hash ^ index) * 0x9E3779B97F4A7C15U;
    hash ^= hash >> 29;
    return static_cast<float>(static_cast<int>(hash % 255) - 127) / 512;
  }

  static std::map<std::string, std::vector<std::uint64_t>> shapes() {
    std::map<std::string, std::vector<std::uint64_t>> out = {
        {"model.embed_tokens.weight", {kVocabulary, kEmbedding}},
        {"model.norm.weight", {kEmbedding}},
        {"lm_head.weight", {kVocabulary, kEmbedding}}};
    for (const std::string layer : {"model.layers.0.", "model.layers.1."}) {
      out[layer + "input_layernorm.weight"] =
          out[layer + "post_attention_layernorm.weight"] = {kEmbedding};
      out[layer + "self_attn.q_proj.weight"] = {kHeads * kHead, kEmbedding};
      out[layer + "self_attn.k_proj.weight"] =
          out[layer + "self_attn.v_proj.weight"] = {kKvHeads * kHead, kEmbedding};
      out[layer + "self_attn.o_proj.weight"] = {kEmbedding, kHeads * kHead};
      out[layer + "mlp.gate_proj.weight"] =
          out[layer + "mlp.up_proj.weight"] = {kFeedForward, kEmbedding};
      out[layer + "mlp.down_proj.weight"] = {kEmbedding, kFeedForward};
    }
    return out;
  }

  void add_biases() {
    for (const std::string layer : {"model.layers.0.", "model.layers.1."}) {
      tensors[layer + "self_attn.q_proj.bias"] = {kHeads * kHead};
      tensors[layer + "self_attn.k_proj.bias"] =
          tensors[layer + "self_attn.v_proj.bias"] = {kKvHeads * kHead};
    }
  }

  /// The 256 bytes, two control tokens, a word by a merge and one that was added; words are
  /// cut as GPT-2 does.
  static nlohmann::json byte_tokenizer() {
    nlohmann::json vocabulary = nlohmann::json::object();
    int strange = 256;
    for (int byte = 0; byte < 256; ++byte) {
      const bool shown = (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
      const int code = shown ? byte : strange++;
      std::string text;
      if (code < 128)
        text = static_cast<char>(code);
      else
        text = {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))};
      vocabulary[text] = byte;
    }
    vocabulary["th"] = 258;
    return {{"added_tokens",
             {{{"id", 256}, {"content", "<|start|>"}, {"special", true}},
              {{"id", 257}, {"content", "<|end|>"}, {"special", true}},
              {{"id", 259}, {"content", "xyzzy"}, {"special", false}}}},
            {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
            {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", {"t h"}}}}};
  }

  [[nodiscard]] std::string bytes(const std::string& name, const std::vector<std::uint64_t>& shape,
                                  const std::string& type) const {
    std::uint64_t n = 1;
    for (const std::uint64_t d : shape) n *= d;
    std::vector<float> wide;
    std::vector<std::uint16_t> narrow;
    for (std::uint64_t i = 0; i < n; ++i) {
      const float x = value(name, i);
      if (type == "F32")
        wide.push_back(x);
      else
        narrow.push_back(type == "F16" ? f32_to_f16(x) : f32_to_bf16(x));
    }
    return type == "F32" ? bytes_of(wide) : bytes_of(narrow);
  }

  void add(SafetensorsBytes& file, const std::string& name) const {
    const auto& shape = tensors.at(name);
    if (const auto found = other.find(name); found != other.end()) {
      const std::size_t space = found->second.find(' ');
      file.add(name, found->second.substr(0, space), shape, found->second.substr(space + 1));
    } else {
      const std::string type = shape.size() == 1 ? "F32" : dtype;
      file.add(name, type, shape, bytes(name, shape, type));
    }
  }

  /// The directory's path. shards: files that share the tensors; 1: model.safetensors.
  [[nodiscard]] std::string write(const TempDirectory& directory, std::size_t shards = 1) const {
    directory.write("config.json", config.dump());
    if (!tokenizer.is_null()) directory.write("tokenizer.json", tokenizer.dump());
    if (!tokenizer_config.is_null())
      directory.write("tokenizer_config.json", tokenizer_config.dump());
    std::vector<SafetensorsBytes> files(shards);
    nlohmann::json map = nlohmann::json::object();
    std::size_t next = 0;
    for (const auto& [name, shape] : tensors) {
      map[name] = "part" + std::to_string(next % shards) + ".safetensors";
      add(files[next++ % shards], name);
    }
    if (shards == 1) {
      directory.write("model.safetensors", files[0].file());
    } else {
      for (std::size_t i = 0; i < shards; ++i)
        directory.write("part" + std::to_string(i) + ".safetensors", files[i].file());
      directory.write("model.safetensors.index.json", nlohmann::json{{"weight_map", map}}.dump());
    }
    return directory.path();
  }
};

}  // namespace cria::test
