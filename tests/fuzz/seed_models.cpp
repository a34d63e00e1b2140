#include "tests/fuzz/seed_models.h"

#include <cstring>

#include "engine/synthetic/synthetic.h"

namespace cria::fuzz {
namespace {

constexpr std::uint32_t kTokens = 40, kFirstWord = 4;

void set_tokens(GgufForm& form, bool byte_pairs, std::uint32_t n) {
  const std::string p = "tokenizer.ggml.";
  std::vector<std::string> tokens = {"<unk>", "<s>", "</s>", "<|im_end|>"};
  std::vector<std::int32_t> types = {2, 3, 3, 3};
  std::vector<float> scores(n);
  const char* const words[] = {"a", "b",      "ab",    "\xE2\x96\x81", "\342\226\201a",
                               "c", "<0x0A>", "<0x20>"};
  for (std::uint32_t i = kFirstWord; i < n; ++i) {
    const std::size_t word = i - kFirstWord;
    tokens.push_back(word < std::size(words) ? words[word] : "w" + std::to_string(i));
    types.push_back(tokens.back().starts_with("<0x") ? 6 : 1);
    scores[i] = -static_cast<float>(word);
  }
  form.set_text(p + "model", byte_pairs ? "gpt2" : "llama");
  if (byte_pairs) form.set_text(p + "pre", "llama-bpe");
  form.set(p + "tokens", GgufType::Array, form.array(GgufType::String, tokens));
  if (!byte_pairs) form.set(p + "scores", GgufType::Array, form.array(GgufType::F32, scores));
  form.set(p + "token_type", GgufType::Array, form.array(GgufType::I32, types));
  if (byte_pairs)
    form.set(p + "merges", GgufType::Array,
             form.array(GgufType::String, std::vector<std::string>{"a b"}));
  form.set_u32(p + "bos_token_id", 1);
  form.set_u32(p + "eos_token_id", 2);
  form.set_u32(p + "unknown_token_id", 0);
  form.set(p + "add_bos_token", GgufType::Bool, bytes_of(std::uint8_t{1}));
  form.set_text("tokenizer.chat_template",
                "{% for m in messages %}<s>{{ m.role }}: {{ m.content }}</s>{% endfor %}");
}

void set_sizes(GgufForm& form, const SeedModel& model, std::uint32_t n_embd) {
  const std::string p = model.arch + ".";
  form.set_text("general.architecture", model.arch);
  form.set_text("general.name", "seed");
  form.set_u32(p + "block_count", model.layers);
  form.set_u32(p + "context_length", 64);
  form.set_u32(p + "embedding_length", n_embd);
  form.set_u32(p + "feed_forward_length", 64);
  form.set_u32(p + "attention.head_count", 2);
  form.set_u32(p + "attention.head_count_kv", 1);
  form.set_u32(p + "attention.key_length", 16);
  form.set_u32(p + "attention.value_length", 16);
  form.set_f32(p + "attention.layer_norm_rms_epsilon", 1e-5F);
  form.set_u32(p + "rope.dimension_count", 16);
}

void add_tensors(GgufForm& form, const SeedModel& model, std::uint32_t n_embd) {
  // Rows of the output projections are too short for super-blocks.
  const DType back = dtype_info(model.dtype).block_values > 32 ? DType::Q4_0 : model.dtype;
  form.add_tensor("token_embd.weight", model.dtype, {n_embd, kTokens});
  if (!model.tied) form.add_tensor("output.weight", model.dtype, {n_embd, kTokens});
  form.add_tensor("output_norm.weight", DType::F32, {n_embd});
  if (model.rope_freqs) form.add_tensor("rope_freqs.weight", DType::F32, {8});
  for (std::uint32_t i = 0; i < model.layers; ++i) {
    const std::string layer = "blk." + std::to_string(i) + ".";
    form.add_tensor(layer + "attn_norm.weight", DType::F32, {n_embd});
    form.add_tensor(layer + "attn_q.weight", model.dtype, {n_embd, 32});
    form.add_tensor(layer + "attn_k.weight", model.dtype, {n_embd, 16});
    form.add_tensor(layer + "attn_v.weight", model.dtype, {n_embd, 16});
    form.add_tensor(layer + "attn_output.weight", back, {32, n_embd});
    if (model.biases)
      for (const char* name : {"attn_q.bias", "attn_k.bias", "attn_v.bias"})
        form.add_tensor(layer + name, DType::F32,
                        {std::string_view(name) == "attn_q.bias" ? 32U : 16U});
    form.add_tensor(layer + "ffn_norm.weight", DType::F32, {n_embd});
    form.add_tensor(layer + "ffn_gate.weight", model.dtype, {n_embd, 64});
    form.add_tensor(layer + "ffn_up.weight", model.dtype, {n_embd, 64});
    form.add_tensor(layer + "ffn_down.weight", back, {64, n_embd});
  }
  form.place_tensors();
  std::uint64_t seed = 1;
  for (const auto& tensor : form.tensors) {
    std::byte* const data = reinterpret_cast<std::byte*>(form.data.data()) + tensor.offset;
    std::uint64_t values = 1;
    for (const std::uint64_t n : tensor.shape) values *= n;
    fill_random_weights(static_cast<DType>(tensor.type), values / tensor.shape[0], tensor.shape[0],
                        data, ++seed);
    if (tensor.shape.size() == 1)  // norms and biases
      for (std::uint64_t i = 0; i < values; ++i)
        std::memcpy(data + 4 * i, bytes_of(1.0F).data(), 4);
  }
}

}  // namespace

GgufForm SeedModel::form() const {
  GgufForm form;
  const std::uint32_t n_embd = std::max<std::uint32_t>(32, dtype_info(dtype).block_values);
  set_sizes(form, *this, n_embd);
  set_tokens(form, byte_pairs, kTokens);
  add_tensors(form, *this, n_embd);
  return form;
}

GgufForm seed_vocabulary(bool byte_pairs) {
  GgufForm form;
  form.set_text("general.architecture", "llama");
  set_tokens(form, byte_pairs, kTokens);
  return form;
}

GgufForm seed_importance() {
  GgufForm form;
  form.set_text("general.type", "imatrix");
  form.set("imatrix.datasets", GgufType::Array,
           form.array(GgufType::String, std::vector<std::string>{"a.txt"}));
  form.set_u32("imatrix.chunk_count", 2);
  form.set_u32("imatrix.chunk_size", 16);
  for (const std::string tensor : {"blk.0.attn_q.weight", "blk.0.ffn_gate_exps.weight"}) {
    const std::uint64_t experts = tensor.ends_with("exps.weight") ? 2 : 1;
    form.add_tensor(tensor + ".in_sum2", DType::F32, {32, experts});
    form.add_tensor(tensor + ".counts", DType::F32, {1, experts});
  }
  form.place_tensors();
  for (std::size_t at = 0; at + 4 <= form.data.size(); at += 4)
    form.data.replace(at, 4, bytes_of(static_cast<float>(at % 13)));
  return form;
}

std::vector<std::string> seed_models() {
  std::vector<std::string> out;
  for (const DType dtype :
       {DType::F32, DType::F16, DType::BF16, DType::Q4_0, DType::Q5_1, DType::Q8_0, DType::IQ4_NL})
    out.push_back(SeedModel{.dtype = dtype}.form().bytes());
  for (const DType dtype : {DType::Q2_K, DType::Q3_K, DType::Q4_K, DType::Q6_K, DType::IQ1_S,
                            DType::IQ2_XS, DType::IQ3_XXS, DType::IQ4_XS, DType::TQ2_0})
    out.push_back(SeedModel{.dtype = dtype}.form().bytes());
  out.push_back(SeedModel{.arch = "qwen2", .biases = true}.form().bytes());
  out.push_back(SeedModel{.tied = true, .rope_freqs = true, .layers = 2}.form().bytes());
  out.push_back(SeedModel{.byte_pairs = true}.form().bytes());
  for (const std::string scaling : {"linear", "yarn"}) {
    GgufForm form = SeedModel{}.form();
    form.set_text("llama.rope.scaling.type", scaling);
    form.set_f32("llama.rope.scaling.factor", 2);
    form.set_f32("llama.rope.scaling.yarn_beta_fast", 32);
    form.set_f32("llama.rope.scaling.yarn_beta_slow", 1);
    form.set_f32("llama.rope.scaling.attn_factor", 1.5F);
    form.set_u32("llama.rope.scaling.original_context_length", 32);
    form.set_u32("llama.attention.sliding_window", 8);
    out.push_back(form.bytes());
  }
  GgufForm wide = SeedModel{}.form();  // another alignment, head counts by layer
  wide.alignment = 64;
  wide.set_u32("general.alignment", 64);
  wide.set("llama.attention.head_count_kv", GgufType::Array,
           wide.array(GgufType::U32, std::vector<std::uint32_t>{1}));
  wide.place_tensors();
  out.push_back(wide.bytes());
  for (const std::uint32_t version :
       {1U, 2U}) {  // version 1 has shorter counts, so arrays are rewritten
    GgufForm old;
    old.version = version;
    const GgufForm model = SeedModel{}.form();
    for (const auto& key : model.keys)
      if (key.type == GgufType::U32 || key.type == GgufType::F32) old.keys.push_back(key);
    old.set_text("general.architecture", "llama");
    set_tokens(old, false, kTokens);
    old.tensors = model.tensors;
    old.data = model.data;
    out.push_back(old.bytes());
  }
  return out;
}

}  // namespace cria::fuzz
