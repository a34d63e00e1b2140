// Converts directories of Hugging Face models, given as a JSON object of names and contents (a
// string, JSON, or tensors as {"TENSOR": ["DTYPE", shape, fill]}).
#include <nlohmann/json.hpp>

#include "engine/convert/convert.h"
#include "model/limits.h"
#include "tests/fuzz/json_mutator.h"
#include "tests/fuzz/memory_file.h"
#include "tests/model/safetensors/bytes.h"
#include "tokenizer/hf/formats.h"
#include "tokenizer/hf/vocabulary.h"

namespace cria::fuzz {
namespace {

constexpr const char* kFiles[] = {"config.json",
                                  "tokenizer.json",
                                  "tokenizer_config.json",
                                  "special_tokens_map.json",
                                  "added_tokens.json",
                                  "generation_config.json",
                                  "chat_template.json",
                                  "chat_template.jinja",
                                  "tokenizer.model",
                                  "model.safetensors",
                                  "model.safetensors.index.json",
                                  "part0.safetensors",
                                  "part1.safetensors"};
constexpr std::uint64_t kMaxBytes = 1 << 16;

std::string tensors_of(const SortedJson& json) {
  test::SafetensorsBytes file;
  for (const auto& [name, tensor] : json.items()) {
    if (!tensor.is_array() || tensor.size() != 3 || !tensor[0].is_string() || !tensor[1].is_array())
      continue;
    std::vector<std::uint64_t> shape;
    const SafetensorsType* const type = find_safetensors_type(tensor[0].get<std::string>());
    std::uint64_t bytes = type == nullptr ? 4 : type->bytes;
    for (const SortedJson& n : tensor[1]) {
      shape.push_back(n.is_number_unsigned() ? n.get<std::uint64_t>() : 1);
      bytes = std::min(limits::multiply(bytes, shape.back()).value_or(kMaxBytes), kMaxBytes);
    }
    const int fill =
        tensor[2].is_number_unsigned() ? static_cast<int>(tensor[2].get<std::uint64_t>() & 255) : 0;
    const std::string quoted =
        SortedJson(name.substr(0, 100)).dump(-1, ' ', true, SortedJson::error_handler_t::replace);
    file.add(quoted.substr(1, quoted.size() - 2), tensor[0].get<std::string>(), shape,
             std::string(bytes, static_cast<char>(fill)));
  }
  return file.file();
}

void write_files(const MemoryDirectory& directory, const SortedJson& json) {
  for (const char* name : kFiles) {
    const auto found = json.find(name);
    if (found == json.end()) continue;
    if (found->is_string())
      directory.write(name, found->get<std::string>());
    else if (std::string_view(name).ends_with(".safetensors"))
      directory.write(name, tensors_of(*found));
    else
      directory.write(name, found->dump(-1, ' ', false, SortedJson::error_handler_t::replace));
  }
}

void run_hf_directory(std::string_view input) {
  const SortedJson json = SortedJson::parse(input, nullptr, false);
  if (!json.is_object()) return;
  static const MemoryDirectory from, to;
  from.clear();
  to.clear();
  write_files(from, json);
  try {
    static_cast<void>(
        read_hf_vocabulary(from.path(), {.tokens = 300, .pre = {}, .bos = 1, .eos = {2}}));
  } catch (const Error&) {
  }
  ConvertOptions options;
  options.directory = from.path();
  options.output = to.path("out.gguf");
  options.kernels = active_kernels();
  Conversion conversion(options);
  require(conversion.write([](std::uint64_t) { return true; }, [](const ConvertedTensor&) {}),
          "stopped without a request");
  const GgufFile file = GgufFile::open(options.output);
  require(file.file_bytes() == conversion.file_bytes(), "another size than was planned");
  ExportOptions back;
  back.file = options.output;
  back.directory = to.path("hf");
  back.kernels = active_kernels();
  back.shard_bytes = 1 << 14;
  Export exported(back);
  require(exported.write([](std::uint64_t) { return true; }, [](const ExportedTensor&) {}),
          "stopped without a request");
}

SortedJson seed_directory() {
  constexpr std::uint64_t kRows = 12;
  SortedJson json;
  json["config.json"] = {{"architectures", {"LlamaForCausalLM"}},
                         {"hidden_size", 32},
                         {"num_hidden_layers", 1},
                         {"num_attention_heads", 2},
                         {"num_key_value_heads", 1},
                         {"intermediate_size", 64},
                         {"rms_norm_eps", 1e-5},
                         {"vocab_size", kRows},
                         {"max_position_embeddings", 64}};
  json["tokenizer.json"] = SortedJson::parse(
      R"({"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]},"added_tokens":[{"id":3,"content":"<s>","special":true},{"id":4,"content":"<|im_end|>","special":true}]})");
  json["tokenizer_config.json"] = SortedJson::parse(
      R"({"bos_token":"<s>","eos_token":{"content":"<|im_end|>"},"add_bos_token":true,"add_prefix_space":false,"chat_template":[{"name":"default","template":"{{ messages }}"},{"name":"tool_use","template":"x"}],"added_tokens_decoder":{"5":{"content":"<|eot_id|>","special":true}}})");
  json["added_tokens.json"] = {{"<|x|>", 6}};
  json["special_tokens_map.json"] = {{"unk_token", "a"}, {"pad_token", "<s>"}};
  json["generation_config.json"] = {{"bos_token_id", 3}, {"eos_token_id", {4, 5, 6}}};
  SortedJson& t = json["model.safetensors"];
  const auto tensor = [&](const char* name, const std::vector<std::uint64_t>& shape) {
    t[name] = {"BF16", shape, 60};
  };
  tensor("model.embed_tokens.weight", {kRows, 32});
  tensor("lm_head.weight", {kRows, 32});
  tensor("model.norm.weight", {32});
  tensor("model.layers.0.input_layernorm.weight", {32});
  tensor("model.layers.0.post_attention_layernorm.weight", {32});
  tensor("model.layers.0.self_attn.q_proj.weight", {32, 32});
  tensor("model.layers.0.self_attn.k_proj.weight", {16, 32});
  tensor("model.layers.0.self_attn.v_proj.weight", {16, 32});
  tensor("model.layers.0.self_attn.o_proj.weight", {32, 32});
  tensor("model.layers.0.mlp.gate_proj.weight", {64, 32});
  tensor("model.layers.0.mlp.up_proj.weight", {64, 32});
  tensor("model.layers.0.mlp.down_proj.weight", {32, 64});
  return json;
}

/// Returns tokenizer.model; its bytes are UTF-8 since all scores are 0.
std::string seed_sentencepiece_model() {
  VocabularyBuilder builder(12, "seed");
  builder.vocabulary().model = "llama";
  builder.vocabulary().precompiled_charsmap = "map";
  builder.add(0, "<unk>", TokenType::Unknown);
  builder.add(1, "<s>", TokenType::Control);
  builder.add(2, "</s>", TokenType::Control);
  for (std::size_t id = 3; id < 12; ++id) builder.add(id, std::string(id, 'a'), TokenType::Normal);
  return sentencepiece_model(builder.vocabulary());
}

// Changes of the plain directory (JSON merge patches), each with something absent, odd or wrong.
constexpr const char* kDirectoryPatches[] = {
    R"({"tokenizer.json":null})",
    R"({"config.json":null})",
    R"({"model.safetensors":null})",
    R"({"model.safetensors":null,"part0.safetensors":{}})",
    R"({"model.safetensors":{"lm_head.weight":null}})",
    R"({"model.safetensors":{"lm_head.weight":["BF16",[12,31],60]}})",
    R"({"model.safetensors":{"lm_head.weight":["I64",[12,32],60]}})",
    R"({"model.safetensors":{"lm_head.weight":["F16",[12,32],255]}})",
    R"({"model.safetensors":{"model.layers.0.self_attn.rotary_emb.inv_freq":["F32",[8],60]}})",
    R"({"model.safetensors":{"model.layers.9.x":["F32",[8],60]}})",
    R"({"part0.safetensors":{"lm_head.weight":["BF16",[12,32],60]},"model.safetensors.index.json":{"weight_map":{"lm_head.weight":"part0.safetensors"}}})",
    R"({"part0.safetensors":{"a":["U8",[1],1]},"part1.safetensors":{"a":["U8",[1],1]},"model.safetensors.index.json":{"weight_map":{"a":"part0.safetensors","b":"part1.safetensors"}},"model.safetensors":null})",
    R"({"model.safetensors.index.json":{"weight_map":{"a":"part0.safetensors"}},"part0.safetensors":{"b":["U8",[1],1]},"model.safetensors":null})",
    R"({"model.safetensors.index.json":{"weight_map":{"a":"../part0.safetensors"}},"model.safetensors":null})",
    R"({"model.safetensors.index.json":{"weight_map":{"a":1}},"model.safetensors":null})",
    R"({"model.safetensors.index.json":{},"model.safetensors":null})",
    R"({"added_tokens.json":{"<|x|>":"6"}})",
    R"({"added_tokens.json":{"<|x|>":99}})",
    R"({"added_tokens.json":{"<|x|>":1}})",
    R"({"tokenizer_config.json":{"added_tokens_decoder":{"x":{"content":"a"}}}})",
    R"({"tokenizer_config.json":{"chat_template":[{"name":1}]}})",
    R"({"tokenizer_config.json":{"bos_token":null,"eos_token":null,"chat_template":"x"},"special_tokens_map.json":null})",
    R"({"tokenizer_config.json":null,"special_tokens_map.json":null,"generation_config.json":null})",
    R"({"chat_template.jinja":"{{ x }}","chat_template.json":{"chat_template":"y"}})",
    R"({"config.json":{"vocab_size":6}})",
    R"({"config.json":{"rope_scaling":{"type":"yarn","factor":2}}})"};

std::vector<std::string> hf_directory_seeds() {
  std::vector<std::string> out = {seed_directory().dump()};
  SortedJson shards = seed_directory();  // two files, tied, with a template and RoPE factors
  SortedJson map;
  const SortedJson whole = shards["model.safetensors"];
  for (const auto& [name, tensor] : whole.items()) {
    const std::string part = std::string(map.size() % 2 == 0 ? "part0" : "part1") + ".safetensors";
    shards[part][name] = tensor;
    map[name] = part;
  }
  shards.erase("model.safetensors");
  shards["model.safetensors.index.json"] = {{"weight_map", map}};
  shards["chat_template.jinja"] = "{{ messages[0].content }}";
  shards["chat_template.json"] = {{"chat_template", "x"}};
  shards["config.json"]["tie_word_embeddings"] = true;
  shards["config.json"]["rope_scaling"] = {{"rope_type", "llama3"},
                                           {"factor", 8},
                                           {"low_freq_factor", 1},
                                           {"high_freq_factor", 4},
                                           {"original_max_position_embeddings", 32}};
  out.push_back(shards.dump());
  SortedJson packed = seed_directory();  // MLX: 4 bits in groups of 32
  packed["config.json"]["quantization"] = {{"group_size", 32}, {"bits", 4}};
  SortedJson& tensors = packed["model.safetensors"];
  const SortedJson plain = tensors;
  for (const auto& [name, tensor] : plain.items()) {
    if (tensor[1].size() != 2) continue;
    const auto rows = tensor[1][0].get<std::uint64_t>(), cols = tensor[1][1].get<std::uint64_t>();
    const std::string base = name.substr(0, name.size() - std::string("weight").size());
    tensors[name] = {"U32", {rows, cols / 8}, 7};
    tensors[base + "scales"] = {"F16", {rows, cols / 32}, 60};
    tensors[base + "biases"] = {"F16", {rows, cols / 32}, 60};
  }
  out.push_back(packed.dump());
  for (const char* const patch : kDirectoryPatches) {
    SortedJson changed = seed_directory();
    changed.merge_patch(SortedJson::parse(patch));
    out.push_back(changed.dump());
  }
  SortedJson pieces = seed_directory();
  pieces["tokenizer.model"] = seed_sentencepiece_model();
  pieces.erase("tokenizer.json");
  out.push_back(pieces.dump(-1, ' ', false, SortedJson::error_handler_t::replace));
  return out;
}

}  // namespace

const Target kHfDirectory{"hf_directory", run_hf_directory, hf_directory_seeds, mutate_json,
                          kTokenizerJson.words};

}  // namespace cria::fuzz
