#include "tests/fuzz/gguf_mutator.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "tests/fuzz/gguf_form.h"

namespace cria::fuzz {
namespace {

constexpr const char* kKeys[] = {"general.architecture",
                                 "general.name",
                                 "general.alignment",
                                 "general.file_type",
                                 "general.type",
                                 "llama.block_count",
                                 "llama.context_length",
                                 "llama.embedding_length",
                                 "llama.feed_forward_length",
                                 "llama.attention.head_count",
                                 "llama.attention.head_count_kv",
                                 "llama.attention.key_length",
                                 "llama.attention.value_length",
                                 "llama.attention.layer_norm_rms_epsilon",
                                 "llama.attention.sliding_window",
                                 "llama.rope.dimension_count",
                                 "llama.rope.freq_base",
                                 "llama.rope.scaling.type",
                                 "llama.rope.scaling.factor",
                                 "llama.rope.scale_linear",
                                 "llama.rope.scaling.original_context_length",
                                 "llama.rope.scaling.attn_factor",
                                 "llama.rope.scaling.yarn_beta_fast",
                                 "llama.rope.scaling.yarn_beta_slow",
                                 "llama.expert_count",
                                 "llama.expert_used_count",
                                 "llama.vocab_size",
                                 "tokenizer.ggml.model",
                                 "tokenizer.ggml.pre",
                                 "tokenizer.ggml.tokens",
                                 "tokenizer.ggml.scores",
                                 "tokenizer.ggml.token_type",
                                 "tokenizer.ggml.merges",
                                 "tokenizer.ggml.bos_token_id",
                                 "tokenizer.ggml.eos_token_id",
                                 "tokenizer.ggml.unknown_token_id",
                                 "tokenizer.ggml.separator_token_id",
                                 "tokenizer.ggml.padding_token_id",
                                 "tokenizer.ggml.eot_token_id",
                                 "tokenizer.ggml.eom_token_id",
                                 "tokenizer.ggml.add_bos_token",
                                 "tokenizer.ggml.add_eos_token",
                                 "tokenizer.ggml.add_space_prefix",
                                 "tokenizer.ggml.remove_extra_whitespaces",
                                 "tokenizer.ggml.precompiled_charsmap",
                                 "tokenizer.chat_template",
                                 "split.no",
                                 "split.count",
                                 "split.tensors.count",
                                 "imatrix.chunk_count",
                                 "imatrix.chunk_size",
                                 "imatrix.datasets"};
constexpr const char* kTexts[] = {
    "llama",   "qwen2",     "gpt2",    "bert",   "none",  "linear", "yarn",
    "imatrix", "llama-bpe", "default", "chatml", "gpt-2", "tekken", "{{ messages[0].content }}",
    ""};
constexpr const char* kTensors[] = {"token_embd.weight",
                                    "output.weight",
                                    "output_norm.weight",
                                    "rope_freqs.weight",
                                    "blk.0.attn_norm.weight",
                                    "blk.0.attn_q.weight",
                                    "blk.0.attn_k.weight",
                                    "blk.0.attn_v.weight",
                                    "blk.0.attn_output.weight",
                                    "blk.0.attn_q.bias",
                                    "blk.0.attn_k.bias",
                                    "blk.0.attn_v.bias",
                                    "blk.0.attn_output.bias",
                                    "blk.0.ffn_norm.weight",
                                    "blk.0.ffn_gate.weight",
                                    "blk.0.ffn_up.weight",
                                    "blk.0.ffn_down.weight",
                                    "blk.1.attn_q.weight",
                                    "blk.99999999999.attn_q.weight",
                                    "blk.0.attn_q.weight.in_sum2",
                                    "blk.0.attn_q.weight.counts"};

std::size_t below(Random& random, std::size_t n) { return random() % n; }
template <class List>
auto& one_of(Random& random, List& list) {
  return list[below(random, std::size(list))];
}

std::string random_bytes(Random& random, std::size_t n) {
  std::string out(n, '\0');
  for (char& c : out) c = static_cast<char>(random());
  return out;
}

void change_text(Random& random, std::string& text) {
  const std::size_t at = text.empty() ? 0 : below(random, text.size());
  switch (below(random, 6)) {
    case 0:
      text.erase(at, 1 + below(random, 8));
      break;
    case 1:
      text.insert(at, random_bytes(random, 1 + below(random, 8)));
      break;
    case 2:
      text.insert(at, text.substr(0, below(random, 20)));
      break;
    case 3:
      text = one_of(random, kTexts);
      break;
    case 4:
      text.insert(at, "\xE2\x96\x81");
      break;
    default:
      if (!text.empty()) text[at] = static_cast<char>(random());
  }
}

std::string random_scalar(Random& random, GgufType type) {
  switch (type) {
    case GgufType::F32:
      return bytes_of(odd_float(random));
    case GgufType::F64:
      return bytes_of(static_cast<double>(odd_float(random)));
    case GgufType::U8:
    case GgufType::I8:
      return bytes_of(static_cast<std::uint8_t>(odd_number(random)));
    case GgufType::Bool:
      return bytes_of(static_cast<std::uint8_t>(below(random, 3)));
    case GgufType::U16:
    case GgufType::I16:
      return bytes_of(static_cast<std::uint16_t>(odd_number(random)));
    case GgufType::U32:
    case GgufType::I32:
      return bytes_of(static_cast<std::uint32_t>(odd_number(random)));
    default:
      return bytes_of(odd_number(random));
  }
}

GgufType random_type(Random& random) { return static_cast<GgufType>(below(random, 13)); }

std::string random_payload(Random& random, const GgufForm& form, GgufType type, int depth = 0) {
  if (type == GgufType::String) return form.text(one_of(random, kTexts));
  if (type != GgufType::Array) return random_scalar(random, type);
  const GgufType element = depth < 3 ? random_type(random) : GgufType::U8;
  const std::size_t n = below(random, 6);
  std::string out = bytes_of(element) + form.count(n);
  for (std::size_t i = 0; i < n; ++i) out += random_payload(random, form, element, depth + 1);
  return out;
}

/// Returns the elements of an array's payload; strings without their lengths.
struct ArrayForm {
  GgufType element;
  std::vector<std::string> values;
};
std::optional<ArrayForm> array_of(const GgufForm& form, const GgufForm::Key& key) {
  GgufForm one;  // a file whose keys are the elements
  if (key.type != GgufType::Array || form.version == 1 || key.payload.size() < 12)
    return std::nullopt;
  ArrayForm out{};
  std::uint64_t n = 0;
  std::memcpy(&out.element, key.payload.data(), 4);
  std::memcpy(&n, key.payload.data() + 4, 8);
  const std::size_t left = key.payload.size() - 12;
  if (n == 0) return out;
  if (out.element == GgufType::Array || n > 10'000) return std::nullopt;
  for (std::size_t at = 12; out.element == GgufType::String && out.values.size() < n;) {
    std::uint64_t length = 0;
    std::memcpy(&length, key.payload.data() + at, 8);
    out.values.push_back(key.payload.substr(at + 8, length));
    at += 8 + length;
  }
  for (std::size_t i = 0; out.element != GgufType::String && i < n; ++i)
    out.values.push_back(key.payload.substr(12 + i * (left / n), left / n));
  return out;
}

void change_array(Random& random, const GgufForm& form, GgufForm::Key& key) {
  auto array = array_of(form, key);
  if (!array) return;
  auto& values = array->values;
  const auto fresh = [&] {
    return array->element == GgufType::String ? std::string(one_of(random, kTexts))
                                              : random_scalar(random, array->element);
  };
  const std::size_t at = values.empty() ? 0 : below(random, values.size());
  const auto place = values.begin() + static_cast<std::ptrdiff_t>(at);
  switch (values.empty() ? 0 : below(random, 5)) {
    case 0:
      values.insert(place, fresh());
      break;
    case 1:
      values.erase(place);
      break;
    case 2:
      values.insert(place, std::string(one_of(random, values)));
      break;
    case 3:
      if (array->element == GgufType::String) {
        change_text(random, *place);
        break;
      }
      [[fallthrough]];
    default:
      *place = fresh();
  }
  key.payload = bytes_of(array->element) + form.count(values.size());
  for (const std::string& value : values)
    key.payload += array->element == GgufType::String ? form.text(value) : value;
}

void change_value(Random& random, const GgufForm& form, GgufForm::Key& key) {
  if (key.type == GgufType::Array && below(random, 8) != 0) return change_array(random, form, key);
  if (key.type == GgufType::String && below(random, 8) != 0 && form.version != 1 &&
      key.payload.size() >= 8) {
    std::string text = key.payload.substr(8);
    change_text(random, text);
    key.payload = form.text(text);
    return;
  }
  if (below(random, 4) == 0) key.type = random_type(random);
  key.payload = random_payload(random, form, key.type);
}

void change_keys(Random& random, GgufForm& form) {
  if (form.keys.empty() || below(random, 6) == 0) {
    const GgufType type = random_type(random);
    form.keys.push_back({one_of(random, kKeys), type, random_payload(random, form, type)});
    return;
  }
  const std::size_t at = below(random, form.keys.size());
  GgufForm::Key& key = form.keys[at];
  switch (below(random, 10)) {
    case 0:
      form.keys.erase(form.keys.begin() + static_cast<std::ptrdiff_t>(at));
      break;
    case 1:
      form.keys.push_back(GgufForm::Key(key));
      break;
    case 2:
      key.name = one_of(random, kKeys);
      break;
    case 3:
      change_text(random, key.name);
      break;
    case 4:
      std::swap(key, one_of(random, form.keys));
      break;
    default:
      change_value(random, form, key);
  }
}

void change_tensor(Random& random, GgufForm& form) {
  constexpr std::uint32_t kLastType = 40;
  if (form.tensors.empty()) return form.add_tensor(one_of(random, kTensors), DType::F32, {32});
  const std::size_t at = below(random, form.tensors.size());
  GgufForm::Tensor& tensor = form.tensors[at];
  switch (below(random, 9)) {
    case 0:
      form.tensors.erase(form.tensors.begin() + static_cast<std::ptrdiff_t>(at));
      break;
    case 1:
      form.tensors.push_back(GgufForm::Tensor(tensor));
      break;
    case 2:
      tensor.name = one_of(random, kTensors);
      break;
    case 3:
      change_text(random, tensor.name);
      break;
    case 4:
      tensor.offset = random() % 2 == 0 ? odd_number(random) : one_of(random, form.tensors).offset;
      break;
    case 5:
      tensor.type = static_cast<std::uint32_t>(below(random, kLastType));
      break;
    case 6:
      tensor.shape.resize(below(random, 6), 1);
      break;
    case 7:
      if (tensor.shape.size() > 1) std::swap(tensor.shape[0], tensor.shape[1]);
      break;
    default:
      if (!tensor.shape.empty()) one_of(random, tensor.shape) = odd_number(random);
  }
}

/// Changes a size of the model everywhere, so that the file may stay valid.
void change_size(Random& random, GgufForm& form) {
  std::vector<std::uint64_t> sizes;
  for (const auto& tensor : form.tensors)
    sizes.insert(sizes.end(), tensor.shape.begin(), tensor.shape.end());
  if (sizes.empty()) return;
  constexpr std::uint32_t kSizes[] = {1, 2, 8, 16, 24, 32, 48, 64, 96, 256, 512};
  const std::uint64_t before = one_of(random, sizes), after = one_of(random, kSizes);
  for (auto& tensor : form.tensors) std::ranges::replace(tensor.shape, before, after);
  if (random() % 2 == 0) return;
  for (auto& key : form.keys) {
    std::uint32_t value = 0;
    if (key.type != GgufType::U32 || key.payload.size() != 4) continue;
    std::memcpy(&value, key.payload.data(), 4);
    if (value == before) key.payload = bytes_of(static_cast<std::uint32_t>(after));
  }
}

/// Changes the type of all matrices.
void change_type(Random& random, GgufForm& form) {
  const auto type = static_cast<std::uint32_t>(below(random, 36));
  if (find_dtype(type) == nullptr) return;
  for (auto& tensor : form.tensors)
    if (tensor.shape.size() == 2 && random() % 4 != 0) tensor.type = type;
}

void change_data(Random& random, GgufForm& form) {
  if (form.data.empty()) return;
  const std::size_t at = below(random, form.data.size());
  const std::size_t n = std::min(form.data.size() - at, std::size_t{1} << below(random, 8));
  switch (below(random, 5)) {
    case 0:
      form.data.resize(at);
      break;
    case 1:
      form.data += random_bytes(random, n);
      break;
    case 2:
      form.data.replace(at, n, n, static_cast<char>(random()));
      break;
    case 3:
      form.data.replace(at / 4 * 4, 4, bytes_of(odd_float(random)));
      break;
    default:
      form.data.replace(at, n, random_bytes(random, n));
  }
}

}  // namespace

std::uint64_t odd_number(Random& random) {
  switch (below(random, 6)) {
    case 0:
      return below(random, 10);
    case 1:
      return std::uint64_t{0} - below(random, 40);
    case 2:
      return 8 * below(random, 64);
    case 3:
      return (std::uint64_t{1} << below(random, 64)) / (1 + below(random, 3)) + below(random, 2);
    default:
      return (std::uint64_t{1} << below(random, 64)) + below(random, 3) - 1;
  }
}

float odd_float(Random& random) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr float kFloats[] = {
      0,      -0.0F,  1,     -1,    kInf,  -kInf, std::numeric_limits<float>::quiet_NaN(),
      1e-45F, 1e-38F, 3e38F, 65504, 1e-5F, 0.5F,  10000,
      1e6F,   2};
  if (random() % 4 != 0) return one_of(random, kFloats);
  const auto bits = static_cast<std::uint32_t>(random() ^ random() << 16);
  float out = 0;
  std::memcpy(&out, &bits, sizeof out);
  return out;
}

std::string mutate_gguf(std::string_view input, Random& random, std::size_t max_bytes) {
  auto form = GgufForm::parse(input);
  if (!form) return "";
  for (std::size_t n = 1 + below(random, 3); n > 0; --n) {
    switch (below(random, 12)) {
      case 0:
      case 1:
      case 2:
      case 3:
      case 4:
        change_keys(random, *form);
        break;
      case 5:
      case 6:
        change_tensor(random, *form);
        break;
      case 7:
        change_data(random, *form);
        break;
      case 8:
        change_size(random, *form);
        form->place_tensors(max_bytes);
        break;
      case 9:
        change_type(random, *form);
        form->place_tensors(max_bytes);
        break;
      case 10:
        form->place_tensors(max_bytes);
        break;
      default:
        form->version =
            below(random, 8) == 0 ? static_cast<std::uint32_t>(odd_number(random)) : form->version;
    }
  }
  std::vector<GgufForm::Number> numbers;
  std::string out = form->bytes(&numbers);
  if (below(random, 6) == 0) {  // a wrong number
    const GgufForm::Number place = one_of(random, numbers);
    out.replace(place.at, place.size, bytes_of(odd_number(random)).substr(0, place.size));
  }
  if (below(random, 40) == 0) out.resize(below(random, out.size()));
  return out;
}

std::vector<std::string> gguf_words() {
  std::vector<std::string> words;
  for (const auto* list : {kTexts}) words.insert(words.end(), list, list + std::size(kTexts));
  words.insert(words.end(), std::begin(kKeys), std::end(kKeys));
  words.insert(words.end(), std::begin(kTensors), std::end(kTensors));
  return words;
}

}  // namespace cria::fuzz
