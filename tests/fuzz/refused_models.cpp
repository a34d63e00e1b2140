#include "tests/fuzz/refused_models.h"

#include <limits>
#include <utility>

#include "tests/fuzz/seed_models.h"

namespace cria::fuzz {
namespace {

/// Values of keys in the form of GgufForm.
using Value = std::pair<GgufType, std::string>;
Value u32(std::uint32_t n) { return {GgufType::U32, bytes_of(n)}; }
Value i32(std::int32_t n) { return {GgufType::I32, bytes_of(n)}; }
Value f32(float x) { return {GgufType::F32, bytes_of(x)}; }
Value flag(std::uint8_t b) { return {GgufType::Bool, bytes_of(b)}; }
Value text(std::string_view value) { return {GgufType::String, GgufForm().text(value)}; }
Value numbers(const std::vector<std::int32_t>& list) {
  return {GgufType::Array, GgufForm().array(GgufType::I32, list)};
}
Value floats(const std::vector<float>& list) {
  return {GgufType::Array, GgufForm().array(GgufType::F32, list)};
}
Value texts(const std::vector<std::string>& list) {
  return {GgufType::Array, GgufForm().array(GgufType::String, list)};
}
Value bytes(const std::vector<std::uint8_t>& list, GgufType type = GgufType::U8) {
  return {GgufType::Array, GgufForm().array(type, list)};
}
Value nested(int depth) {
  std::string payload = GgufForm().array(GgufType::U8, std::vector<std::uint8_t>{1});
  while (--depth > 0) payload.insert(0, bytes_of(GgufType::Array) + bytes_of(std::uint64_t{1}));
  return {GgufType::Array, payload};
}

using Change = std::pair<std::string_view, Value>;

const std::vector<Change>& model_changes() {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  static const std::vector<Change> all = {
      {"general.architecture", text("gemma")},
      {"general.architecture", u32(1)},
      {"general.alignment", text("x")},
      {"general.alignment", u32(24)},
      {"general.file_type", i32(1)},
      {"llama.block_count", u32(0)},
      {"llama.block_count", u32(1000)},
      {"llama.block_count", i32(-1)},
      {"llama.embedding_length", u32(31)},
      {"llama.embedding_length", u32(64)},
      {"llama.attention.layer_norm_rms_epsilon", f32(-kNan)},
      {"llama.attention.head_count_kv", u32(3)},
      {"llama.attention.head_count_kv", numbers({1, 1})},
      {"llama.attention.head_count_kv", numbers({-1})},
      {"llama.attention.value_length", u32(32)},
      {"llama.feed_forward_length", numbers({1, 2})},
      {"llama.rope.dimension_count", u32(15)},
      {"llama.rope.dimension_count", u32(8)},
      {"llama.rope.freq_base", f32(0)},
      {"llama.rope.scaling.type", text("longrope")},
      {"llama.rope.scaling.factor", f32(4)},
      {"llama.rope.scale_linear", f32(4)},
      {"llama.vocab_size", u32(41)},
      {"llama.expert_count", u32(8)},
      {"llama.attention.sliding_window", u32(8)},
      {"split.count", u32(2)},
      {"deep", nested(9)},
      {"bools", bytes({0, 1, 2}, GgufType::Bool)},
      {"bool", flag(2)},
      {"long", {GgufType::String, bytes_of(std::uint64_t{1} << 40)}},
      {"long", {GgufType::Array, bytes_of(GgufType::U8) + bytes_of(std::uint64_t{1} << 40)}},
      {"cut", {GgufType::U64, "x"}},
      {"type", {static_cast<GgufType>(99), ""}},
  };
  return all;
}

const std::vector<Change>& vocabulary_changes() {
  static const std::vector<Change> all = {
      {"model", text("rwkv")},
      {"pre", text("nope")},
      {"tokens", texts({})},
      {"tokens", texts({std::string(70'000, 'x')})},
      {"tokens", u32(1)},
      {"token_type", numbers({1, 2})},
      {"token_type", numbers(std::vector<std::int32_t>(40, 7))},
      {"token_type", numbers(std::vector<std::int32_t>(40, 6))},
      {"scores", floats({1})},
      {"scores", numbers({1})},
      {"merges", texts({"ab"})},
      {"merges", texts({"a b", "x y"})},
      {"merges", u32(1)},
      {"bos_token_id", u32(40)},
      {"bos_token_id", u32(4'000'000'000)},
      {"unknown_token_id", i32(-1)},
      {"add_eos_token", flag(1)},
      {"add_bos_token", u32(1)},
      {"add_space_prefix", flag(1)},
      {"precompiled_charsmap", bytes({1, 2}, GgufType::I8)},
      {"precompiled_charsmap", text("x")},
      {"remove_extra_whitespaces", flag(1)},
  };
  return all;
}

/// Changes to the tensors of a model with two layers.
constexpr void (*kTensorChanges[])(GgufForm&) = {
    [](GgufForm& f) { f.tensors.back().name = f.tensors.front().name; },
    [](GgufForm& f) { f.add_tensor("blk.7.ffn_down.weight", DType::F32, {1}), f.place_tensors(); },
    [](GgufForm& f) { f.add_tensor("blk.0.ffn_down.bias", DType::F32, {1}), f.place_tensors(); },
    [](GgufForm& f) {
      f.add_tensor("blk.99999999999999999999.x", DType::F32, {1}), f.place_tensors();
    },
    [](GgufForm& f) { f.tensors.back().name = std::string(100, 'n'); },
    [](GgufForm& f) {
      f.add_tensor("rope_factors_long.weight", DType::F32, {1}), f.place_tensors();
    },
    [](GgufForm& f) {
      for (const char* name : {"a", "b", "c", "d"}) f.add_tensor(name, DType::F32, {1});
      f.place_tensors();
    },
    [](GgufForm& f) { f.tensors.pop_back(); },
    [](GgufForm& f) {
      f.tensors.back().shape = {64, 16};
    },
    [](GgufForm& f) {
      f.tensors.back().shape = {64, 32, 1, 1, 1};
    },
    [](GgufForm& f) { f.tensors.back().shape = {}; },
    [](GgufForm& f) {
      f.tensors.back().shape = {64, 0};
    },
    [](GgufForm& f) {
      f.tensors.back().shape = {31, 32};
    },
    [](GgufForm& f) {
      f.tensors.back().shape = {1ULL << 62, 1ULL << 62};
    },
    [](GgufForm& f) { f.tensors.back().shape = {1ULL << 40}; },
    [](GgufForm& f) { f.tensors.back().type = 4; },
    [](GgufForm& f) { f.tensors.back().type = 39; },
    [](GgufForm& f) { f.tensors.back().type = 140; },
    [](GgufForm& f) { f.tensors.back().type = 7777; },
    [](GgufForm& f) { f.tensors.back().type = static_cast<std::uint32_t>(DType::I32); },
    [](GgufForm& f) { f.tensors[1].type = static_cast<std::uint32_t>(DType::F16); },
    [](GgufForm& f) { f.tensors.back().offset += 1; },
    [](GgufForm& f) { f.tensors.back().offset = 0; },
    [](GgufForm& f) { f.tensors.back().offset = ~std::uint64_t{31}; },
    [](GgufForm& f) { f.data.resize(f.data.size() / 2); },
    [](GgufForm& f) { f.data += SeedModel{}.form().bytes(); },
    [](GgufForm& f) { f.keys.push_back(f.keys.front()); },
    [](GgufForm& f) { f.keys.front().name = std::string(70'000, 'k'); },
};

}  // namespace

std::vector<std::string> refused_models() {
  std::vector<std::string> out;
  const GgufForm plain = SeedModel{.tied = true, .rope_freqs = true, .layers = 1}.form();
  for (const auto& [key, value] : model_changes()) {
    GgufForm form = plain;
    form.set(key, value.first, value.second);
    out.push_back(form.bytes());
  }
  for (const auto change : kTensorChanges) {
    GgufForm form = plain;
    change(form);
    out.push_back(form.bytes());
  }
  GgufForm factors = plain;  // invalid factors of RoPE
  factors.data.replace(factors.tensors[2].offset, 4, bytes_of(-1.0F));
  out.push_back(factors.bytes());
  std::vector<GgufForm::Number> counts;
  std::string many = plain.bytes(&counts);  // more tensors than the file can hold
  many.replace(counts[1].at, 8, bytes_of(std::uint64_t{1} << 40));
  out.push_back(many);
  out.push_back(plain.bytes().substr(0, 100));
  return out;
}

std::vector<std::string> refused_vocabularies() {
  std::vector<std::string> out;
  for (const bool byte_pairs : {false, true}) {
    for (const auto& [key, value] : vocabulary_changes()) {
      GgufForm form = seed_vocabulary(byte_pairs);
      form.set("tokenizer.ggml." + std::string(key), value.first, value.second);
      out.push_back(form.bytes());
    }
    GgufForm bare = seed_vocabulary(byte_pairs);  // without optional keys
    std::erase_if(bare.keys, [](const GgufForm::Key& key) {
      return key.name.ends_with("_id") || key.name.ends_with("template") ||
             key.name.ends_with("add_bos_token");
    });
    out.push_back(bare.bytes());
    bare.set("tokenizer.ggml.add_bos_token", GgufType::Bool, "\1");
    out.push_back(bare.bytes());
  }
  GgufForm phi = seed_vocabulary(false);  // strips spaces after markers, by its name
  phi.set_text("general.name", "Phi-3");
  phi.set_text("tokenizer.ggml.pre", "phi-3");
  out.push_back(phi.bytes());
  return out;
}

}  // namespace cria::fuzz
