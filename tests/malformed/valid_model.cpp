// The valid files that every defect begins with.
#include "engine/synthetic/synthetic.h"
#include "tests/malformed/image.h"

namespace cria::test {
namespace {

constexpr std::uint64_t kEmbedding = 64, kKv = 32, kFeedForward = 256;

void add_matrix(Image& image, const std::string& name, std::uint64_t cols, std::uint64_t rows) {
  const DTypeInfo& type = dtype_info(DType::Q8_0);
  std::string data(rows * type.row_bytes(cols), '\0');
  fill_random_weights(type.id, rows, cols, reinterpret_cast<std::byte*>(data.data()),
                      image.tensors.size() + 1);
  image.tensors.push_back({name, {cols, rows}, static_cast<std::uint32_t>(type.id), data});
}

void add_norm(Image& image, const std::string& name) {
  std::string data;
  for (std::uint64_t i = 0; i < kEmbedding; ++i) data += raw(1.0F);
  image.tensors.push_back({name, {kEmbedding}, static_cast<std::uint32_t>(DType::F32), data});
}

void add_hyper_parameters(Image& image) {
  image.set("general.architecture") = std::string("llama");
  image.set("general.name") = std::string("tiny");
  image.set("llama.block_count") = 2U;
  image.set("llama.context_length") = 128U;
  image.set("llama.embedding_length") = 64U;
  image.set("llama.feed_forward_length") = 256U;
  image.set("llama.attention.head_count") = 4U;
  image.set("llama.attention.head_count_kv") = 2U;
  image.set("llama.attention.layer_norm_rms_epsilon") = 1e-5F;
  image.set("llama.rope.dimension_count") = 16U;
}

void add_tensors(Image& image) {
  add_matrix(image, "token_embd.weight", kEmbedding, kValidVocabulary);
  for (const std::string layer : {"blk.0.", "blk.1."}) {
    add_norm(image, layer + "attn_norm.weight");
    add_matrix(image, layer + "attn_q.weight", kEmbedding, kEmbedding);
    add_matrix(image, layer + "attn_k.weight", kEmbedding, kKv);
    add_matrix(image, layer + "attn_v.weight", kEmbedding, kKv);
    add_matrix(image, layer + "attn_output.weight", kEmbedding, kEmbedding);
    add_norm(image, layer + "ffn_norm.weight");
    add_matrix(image, layer + "ffn_gate.weight", kEmbedding, kFeedForward);
    add_matrix(image, layer + "ffn_up.weight", kEmbedding, kFeedForward);
    add_matrix(image, layer + "ffn_down.weight", kFeedForward, kEmbedding);
  }
  add_norm(image, "output_norm.weight");
  add_matrix(image, "output.weight", kEmbedding, kValidVocabulary);
}

/// Lists of a vocabulary as they grow, token by token.
struct TokenList {
  std::vector<std::string> texts;
  std::vector<float> scores;
  std::vector<std::int32_t> types;

  void add(std::string text, std::int32_t type, float score = 0) {
    texts.push_back(std::move(text));
    types.push_back(type);
    scores.push_back(score);
  }
};
constexpr std::int32_t kNormal = 1, kUnknown = 2, kControl = 3, kByte = 6;

void add_sentencepiece(Image& image) {
  TokenList tokens;
  tokens.add("<unk>", kUnknown);
  tokens.add("<s>", kControl);
  tokens.add("</s>", kControl);
  constexpr std::string_view digits = "0123456789ABCDEF";
  for (std::size_t byte = 0; byte < 256; ++byte)
    tokens.add(std::string("<0x") + digits[byte / 16] + digits[byte % 16] + ">", kByte);
  const std::string space = "\xE2\x96\x81";
  for (const std::string& text : {space + "Hi", space + "H", std::string("Hi"), space,
                                  std::string("H"), std::string("i"), std::string("!")})
    tokens.add(text, kNormal, -static_cast<float>(tokens.texts.size()));
  image.set("tokenizer.ggml.model") = std::string("llama");
  image.set("tokenizer.ggml.tokens") = GgufArray::of(tokens.texts);
  image.set("tokenizer.ggml.scores") = GgufArray::of(tokens.scores);
  image.set("tokenizer.ggml.token_type") = GgufArray::of(tokens.types);
  image.set("tokenizer.ggml.bos_token_id") = 1U;
  image.set("tokenizer.ggml.eos_token_id") = 2U;
}

/// A byte as byte-level vocabularies write it: visible ones as they are, others as characters from
/// U+0100 on.
std::string visible(int byte, int& next) {
  const bool shown = (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
  const int code = shown ? byte : next++;
  if (code < 128) return {static_cast<char>(code)};
  return {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))};
}

void add_byte_pairs(Image& image) {
  TokenList tokens;
  int next = 256;
  for (int byte = 0; byte < 256; ++byte) tokens.add(visible(byte, next), kNormal);
  for (const char* text : {"<|start|>", "<|end|>"}) tokens.add(text, kControl);
  for (const char* text : {"Hi", "th", "the", "an", "and", "in", "on", "er"})
    tokens.add(text, kNormal);
  image.set("tokenizer.ggml.model") = std::string("gpt2");
  image.set("tokenizer.ggml.pre") = std::string("gpt-2");
  image.set("tokenizer.ggml.tokens") = GgufArray::of(tokens.texts);
  image.set("tokenizer.ggml.token_type") = GgufArray::of(tokens.types);
  image.set("tokenizer.ggml.merges") = GgufArray::of(
      std::vector<std::string>{"H i", "t h", "th e", "a n", "an d", "i n", "o n", "e r"});
  image.set("tokenizer.ggml.bos_token_id") = 256U;
  image.set("tokenizer.ggml.eos_token_id") = 257U;
}

}  // namespace

Image valid_model() {
  Image image;
  add_hyper_parameters(image);
  add_sentencepiece(image);
  add_tensors(image);
  return image;
}

Image valid_byte_pair_model() {
  Image image;
  add_hyper_parameters(image);
  add_byte_pairs(image);
  add_tensors(image);
  return image;
}

Image valid_vocabulary() {
  Image image = valid_model();
  image.tensors.clear();
  return image;
}

}  // namespace cria::test
