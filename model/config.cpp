#include "model/config.h"

#include <algorithm>
#include <cmath>

#include "model/limits.h"

namespace cria {
namespace {

constexpr Architecture kArchitectures[] = {
    {"llama", RopeStyle::Adjacent},
    {"qwen2", RopeStyle::HalfSplit},
};

std::string known_architectures() {
  std::string out;
  for (const Architecture& arch : kArchitectures) out += (out.empty() ? "" : ", ") + std::string(arch.name);
  return out;
}

/// Reads the keys of one architecture into a config, each checked where it is read.
class ConfigReader {
 public:
  ConfigReader(const GgufFile& file, LlamaConfig& config) : file_(file), config_(config) {}

  void read() {
    architecture();
    sizes();
    heads();
    rope();
    rope_scaling();
    vocabulary();
    what_is_not_supported();
  }

 private:
  void architecture() {
    const std::string_view name = file_.get_string("general.architecture");
    config_.arch = find_architecture(name);
    if (config_.arch == nullptr) {
      throw file_.error("unknown architecture: expected one of " + known_architectures() + ", got '" +
                            std::string(name) + "'",
                        "key general.architecture");
    }
    config_.name = file_.find_string("general.name").value_or("");
  }

  void sizes() {
    config_.n_layers = get("block_count", 1, limits::kLayers);
    if (!file_.tensors().empty() && config_.n_layers > file_.tensors().size()) {
      fail("block_count", "more layers than tensors: expected at most " +
                              std::to_string(file_.tensors().size()) + ", got " +
                              std::to_string(config_.n_layers));
    }
    config_.n_ctx_train = get("context_length", 1, limits::kContext);
    config_.n_embd = get("embedding_length", 1, limits::kEmbedding);
    config_.n_ff = uniform("feed_forward_length", limits::kFeedForward);
    config_.rms_eps = get_float("attention.layer_norm_rms_epsilon");
    if (!std::isfinite(config_.rms_eps) || config_.rms_eps < 0) {
      fail("attention.layer_norm_rms_epsilon",
           "bad epsilon: expected a finite number, 0 or more, got " + number_text(config_.rms_eps));
    }
  }

  void heads() {
    config_.n_heads = uniform("attention.head_count", limits::kHeads);
    config_.n_kv_heads = has("attention.head_count_kv")
                             ? per_layer("attention.head_count_kv", limits::kHeads)
                             : std::vector<std::uint32_t>(config_.n_layers, config_.n_heads);
    for (const std::uint32_t n : config_.n_kv_heads) {
      if (n > config_.n_heads || config_.n_heads % n != 0) {
        fail("attention.head_count_kv", "KV heads do not divide the heads: expected a divisor of " +
                                            std::to_string(config_.n_heads) + ", got " + std::to_string(n));
      }
    }
    config_.head_dim_k = head_dim("attention.key_length");
    config_.head_dim_v = head_dim("attention.value_length");
  }

  std::uint32_t head_dim(std::string_view suffix) {
    if (has(suffix)) return get(suffix, 1, limits::kEmbedding);
    if (config_.n_embd % config_.n_heads != 0) {
      fail("embedding_length", "not a multiple of the heads: expected a multiple of " +
                                   std::to_string(config_.n_heads) + ", got " +
                                   std::to_string(config_.n_embd));
    }
    return config_.n_embd / config_.n_heads;
  }

  void rope() {
    const std::uint32_t head = config_.head_dim_k;
    config_.n_rot = has("rope.dimension_count") ? get("rope.dimension_count", 1, head) : head;
    if (config_.n_rot % 2 != 0) {
      fail("rope.dimension_count",
           "odd RoPE dimension: expected an even number, got " + std::to_string(config_.n_rot));
    }
    if (has("rope.freq_base")) config_.rope_base = positive("rope.freq_base");
  }

  void rope_scaling() {
    // Old files have the linear factor alone, and no type means linear.
    const std::string_view factor = has("rope.scaling.factor") ? "rope.scaling.factor" : "rope.scale_linear";
    const auto type = file_.find_string(key("rope.scaling.type")).value_or(has(factor) ? "linear" : "none");
    if (type == "none") return;
    if (type != "linear" && type != "yarn") {
      fail("rope.scaling.type",
           "unknown RoPE scaling: expected none, linear or yarn, got '" + std::string(type) + "'");
    }
    config_.rope_scaling = type == "linear" ? RopeScaling::Linear : RopeScaling::Yarn;
    config_.rope_factor = positive(factor);
    config_.rope_orig_ctx = has("rope.scaling.original_context_length")
                                ? get("rope.scaling.original_context_length", 1, limits::kContext)
                                : config_.n_ctx_train;
    if (has("rope.scaling.attn_factor")) config_.rope_attn_factor = positive("rope.scaling.attn_factor");
    if (has("rope.scaling.yarn_beta_fast")) config_.yarn_beta_fast = positive("rope.scaling.yarn_beta_fast");
    if (has("rope.scaling.yarn_beta_slow")) config_.yarn_beta_slow = positive("rope.scaling.yarn_beta_slow");
  }

  // Rows of the embedding count; ids beyond the token list are harmless, tokens beyond the rows are not.
  void vocabulary() {
    const GgufValue* const list = file_.find("tokenizer.ggml.tokens");
    const std::uint64_t tokens = list != nullptr && list->type == GgufType::Array ? list->count : 0;
    const TensorView* const embedding = file_.tensor("token_embd.weight");
    const auto declared = file_.find_uint(key("vocab_size"));
    const std::uint64_t rows = embedding != nullptr ? embedding->rows() : declared.value_or(tokens);
    if (rows == 0 || rows > limits::kVocabulary) {
      fail("vocab_size", "bad vocabulary size: expected 1 to " + std::to_string(limits::kVocabulary) +
                             ", got " + std::to_string(rows));
    }
    if (tokens > rows) {
      throw file_.error("more tokens than embeddings: expected at most " + std::to_string(rows) + ", got " +
                            std::to_string(tokens),
                        "key tokenizer.ggml.tokens");
    }
    if (declared && *declared != rows && *declared != tokens) {
      fail("vocab_size", "vocabulary size fits neither embeddings nor tokens: expected " +
                             std::to_string(rows) + ", got " + std::to_string(*declared));
    }
    config_.n_vocab = static_cast<std::uint32_t>(rows);
  }

  void what_is_not_supported() {
    const auto experts = file_.find_uint(key("expert_count")).value_or(0);
    const auto used = file_.find_uint(key("expert_used_count")).value_or(0);
    if (experts != 0 && (used == 0 || used > experts)) {
      fail("expert_used_count", "bad number of experts used: expected 1 to " + std::to_string(experts) +
                                    ", got " + std::to_string(used));
    }
    if (experts != 0)
      fail("expert_count",
           "mixtures of experts are not supported: expected 0, got " + std::to_string(experts));
    const auto window = file_.find_uint(key("attention.sliding_window")).value_or(0);
    if (window != 0 && window < config_.n_ctx_train) {
      config_.warnings.push_back("sliding window of " + std::to_string(window) +
                                 " is not used: all positions are attended to");
    }
    const GgufValue* const type = file_.find("general.file_type");
    if (type != nullptr && type->type != GgufType::U32) {
      config_.warnings.push_back("general.file_type: expected u32, got " +
                                 std::string(cria::name(type->type)));
    }
  }

  [[nodiscard]] std::string key(std::string_view suffix) const {
    return std::string(config_.arch->name) + "." + std::string(suffix);
  }
  [[nodiscard]] bool has(std::string_view suffix) const { return file_.find(key(suffix)) != nullptr; }

  std::uint32_t in_range(std::string_view suffix, std::uint64_t value, std::uint64_t low,
                         std::uint64_t high) const {
    if (value < low || value > high) {
      fail(suffix, "out of range: expected " + std::to_string(low) + " to " + std::to_string(high) +
                       ", got " + std::to_string(value));
    }
    return static_cast<std::uint32_t>(value);
  }

  [[nodiscard]] std::uint32_t get(std::string_view suffix, std::uint64_t low, std::uint64_t high) const {
    return in_range(suffix, file_.get_uint(key(suffix)), low, high);
  }

  [[nodiscard]] float get_float(std::string_view suffix) const {
    return static_cast<float>(file_.get_float(key(suffix)));
  }

  [[nodiscard]] float positive(std::string_view suffix) const {
    const float value = get_float(suffix);
    if (!std::isfinite(value) || value <= 0) {
      fail(suffix, "bad number: expected a finite number above 0, got " + number_text(value));
    }
    return value;
  }

  /// A number for all layers or an array with one per layer, each from 1 to high.
  [[nodiscard]] std::vector<std::uint32_t> per_layer(std::string_view suffix, std::uint64_t high) const {
    const GgufValue* const value = file_.find(key(suffix));
    if (value == nullptr || value->type != GgufType::Array)
      return std::vector(config_.n_layers, get(suffix, 1, high));
    const auto numbers = *file_.find_ints(key(suffix));
    if (numbers.size() != config_.n_layers) {
      fail(suffix, "wrong length of an array: expected one number per layer, " +
                       std::to_string(config_.n_layers) + ", got " + std::to_string(numbers.size()));
    }
    std::vector<std::uint32_t> out;
    out.reserve(numbers.size());
    for (const std::int64_t n : numbers)
      out.push_back(in_range(suffix, n < 0 ? 0 : static_cast<std::uint64_t>(n), 1, high));
    return out;
  }

  /// per_layer where all layers must agree.
  [[nodiscard]] std::uint32_t uniform(std::string_view suffix, std::uint64_t high) const {
    const auto numbers = per_layer(suffix, high);
    if (!std::equal(numbers.begin() + 1, numbers.end(), numbers.begin())) {
      fail(suffix, "layers of different sizes are not supported: expected one number for all");
    }
    return numbers.front();
  }

  [[noreturn]] void fail(std::string_view suffix, const std::string& message) const {
    throw file_.error(message, "key " + key(suffix));
  }

  const GgufFile& file_;
  LlamaConfig& config_;
};

}  // namespace

const Architecture* find_architecture(std::string_view name) noexcept {
  const auto* const found = std::find_if(std::begin(kArchitectures), std::end(kArchitectures),
                                         [name](const Architecture& arch) { return arch.name == name; });
  return found == std::end(kArchitectures) ? nullptr : found;
}

LlamaConfig LlamaConfig::from_gguf(const GgufFile& file) {
  LlamaConfig config;
  ConfigReader(file, config).read();
  return config;
}

}  // namespace cria
