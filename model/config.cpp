#include "model/config.h"

#include <algorithm>
#include <cmath>

#include "model/limits.h"

namespace cria {
namespace {

/// Reads the common keys into a config and checks each one.
class ConfigReader {
 public:
  ConfigReader(const GgufFile& file, Keys& keys, NormKind norm, bool mixed, ModelConfig& config)
      : file_(file), keys_(keys), norm_(norm), least_(mixed ? 0 : 1), config_(config) {}

  void read() {
    config_.arch = keys_.architecture();
    config_.name = file_.find_string("general.name").value_or("");
    sizes();
    heads();
    rope();
    rope_scaling();
    vocabulary();
    experts();
    odd_file_type();
  }

 private:
  void sizes() {
    config_.n_layers = keys_.get("block_count", 1, limits::kLayers);
    if (!file_.tensors().empty() && config_.n_layers > file_.tensors().size()) {
      keys_.fail("block_count", "more layers than tensors: expected at most " +
                                    std::to_string(file_.tensors().size()) + ", got " +
                                    std::to_string(config_.n_layers));
    }
    keys_.set_layers(config_.n_layers);
    config_.n_ctx_train = keys_.get("context_length", 1, limits::kContext);
    config_.n_embd = keys_.get("embedding_length", 1, limits::kEmbedding);
    config_.n_ff = keys_.per_layer("feed_forward_length", least_, limits::kFeedForward);
    epsilon();
  }

  void epsilon() {
    constexpr std::string_view kRms = "attention.layer_norm_rms_epsilon",
                               kLayer = "attention.layer_norm_epsilon";
    const std::string_view usual = norm_ == NormKind::Rms ? kRms : kLayer;
    config_.norm_eps =
        static_cast<float>(file_.get_float(keys_.architecture() + "." + std::string(usual)));
    if (!std::isfinite(config_.norm_eps) || config_.norm_eps < 0) {
      keys_.fail(usual, "bad epsilon: expected a finite number, 0 or more, got " +
                            number_text(config_.norm_eps));
    }
  }

  void heads() {
    config_.n_heads = keys_.per_layer("attention.head_count", least_, limits::kHeads);
    config_.n_kv_heads = keys_.has("attention.head_count_kv")
                             ? keys_.per_layer("attention.head_count_kv", least_, limits::kHeads)
                             : config_.n_heads;
    for (std::uint32_t i = 0; i < config_.n_layers; ++i) {
      const std::uint32_t heads = config_.n_heads[i], n = config_.n_kv_heads[i];
      if (n > heads || (n != 0 && heads % n != 0)) {
        keys_.fail("attention.head_count_kv",
                   "KV heads do not divide the heads: expected a divisor of " +
                       std::to_string(heads) + ", got " + std::to_string(n));
      }
    }
    config_.head_dim_k = head_dim("attention.key_length");
    config_.head_dim_v = head_dim("attention.value_length");
  }

  std::uint32_t head_dim(std::string_view suffix) {
    if (keys_.has(suffix)) return keys_.get(suffix, 1, limits::kEmbedding);
    const std::uint32_t heads = *std::ranges::max_element(config_.n_heads);
    if (heads == 0) return 0;
    if (config_.n_embd % heads != 0) {
      keys_.fail("embedding_length", "not a multiple of the heads: expected a multiple of " +
                                         std::to_string(heads) + ", got " +
                                         std::to_string(config_.n_embd));
    }
    return config_.n_embd / heads;
  }

  void rope() {
    const std::uint32_t head = config_.head_dim_k;
    if (head == 0) return;  // no layer has attention
    config_.n_rot = keys_.get_or("rope.dimension_count", head, 1, head);
    if (config_.n_rot % 2 != 0) {
      keys_.fail("rope.dimension_count", "odd RoPE dimension: expected an even number, got " +
                                             std::to_string(config_.n_rot));
    }
    config_.rope_base = keys_.positive_or("rope.freq_base", 10000);
  }

  void rope_scaling() {
    config_.rope_orig_ctx = keys_.get_or("rope.scaling.original_context_length",
                                         config_.n_ctx_train, 1, limits::kContext);
    config_.rope_attn_factor = keys_.positive_or("rope.scaling.attn_factor", 1);
    config_.yarn_beta_fast = keys_.positive_or("rope.scaling.yarn_beta_fast", 32);
    config_.yarn_beta_slow = keys_.positive_or("rope.scaling.yarn_beta_slow", 1);
    config_.yarn_log_multiplier = keys_.number_or("rope.scaling.yarn_log_multiplier", 0);
    // Old files have the linear factor alone, and no type means linear.
    const bool old = !keys_.has("rope.scaling.factor") && keys_.has("rope.scale_linear");
    const std::string_view factor = old ? "rope.scale_linear" : "rope.scaling.factor";
    const auto type = file_.find_string(keys_.architecture() + ".rope.scaling.type")
                          .value_or(keys_.has(factor) ? "linear" : "none");
    if (type == "none") return;
    if (type == "longrope") {
      config_.rope_scaling = RopeScaling::LongRope;
      return;
    }
    if (type != "linear" && type != "yarn") {
      keys_.fail("rope.scaling.type",
                 "unknown RoPE scaling: expected none, linear, yarn or longrope, got '" +
                     std::string(type) + "'");
    }
    if (keys_.number_or(factor, 0) == 0) return;  // nothing to scale by
    config_.rope_scaling = type == "linear" ? RopeScaling::Linear : RopeScaling::Yarn;
    config_.rope_factor = keys_.positive(factor);
    if (type == "yarn") unread_magnitude();
  }

  // Some converters write the magnitude as a whole; the program that reads their files goes by the
  // other keys.
  void unread_magnitude() {
    constexpr std::string_view suffix = "rope.scaling.yarn_attn_factor";
    const auto said = file_.find_float(keys_.architecture() + "." + std::string(suffix));
    if (!said || std::abs(*said - (1 + 0.1 * std::log(config_.rope_factor))) < 1e-3) return;
    config_.warnings.push_back(std::string(suffix) + " of " +
                               number_text(static_cast<float>(*said)) + " is not used");
  }

  // Rows of the embedding count; ids beyond the token list are harmless, tokens beyond the rows are
  // not.
  void vocabulary() {
    const GgufValue* const list = file_.find("tokenizer.ggml.tokens");
    const std::uint64_t tokens = list != nullptr && list->type == GgufType::Array ? list->count : 0;
    const TensorView* const embedding = file_.tensor("token_embd.weight");
    const auto declared = file_.find_uint(keys_.architecture() + ".vocab_size");
    const std::uint64_t rows = embedding != nullptr ? embedding->rows() : declared.value_or(tokens);
    if (rows == 0 || rows > limits::kVocabulary) {
      keys_.fail("vocab_size", "bad vocabulary size: expected 1 to " +
                                   std::to_string(limits::kVocabulary) + ", got " +
                                   std::to_string(rows));
    }
    if (tokens > rows) {
      throw file_.error("more tokens than embeddings: expected at most " + std::to_string(rows) +
                            ", got " + std::to_string(tokens),
                        "key tokenizer.ggml.tokens");
    }
    if (declared && *declared != rows && *declared != tokens) {
      keys_.fail("vocab_size", "vocabulary size fits neither embeddings nor tokens: expected " +
                                   std::to_string(rows) + ", got " + std::to_string(*declared));
    }
    config_.n_vocab = static_cast<std::uint32_t>(rows);
  }

  // Not counted as read: an architecture that knows no experts must not pass over them.
  void experts() {
    const std::string prefix = keys_.architecture() + ".";
    const auto experts = file_.find_uint(prefix + "expert_count").value_or(0);
    const auto used = file_.find_uint(prefix + "expert_used_count").value_or(0);
    if (experts > limits::kExperts) {
      keys_.fail("expert_count", "out of range: expected 0 to " + std::to_string(limits::kExperts) +
                                     ", got " + std::to_string(experts));
    }
    if (const std::uint64_t all = experts * config_.n_layers; all > limits::kExpertsOfAllLayers) {
      keys_.fail("expert_count", "too many experts: expected at most " +
                                     std::to_string(limits::kExpertsOfAllLayers) +
                                     " in all layers, got " + std::to_string(all));
    }
    if (experts != 0 && (used == 0 || used > experts)) {
      keys_.fail("expert_used_count", "bad number of experts used: expected 1 to " +
                                          std::to_string(experts) + ", got " +
                                          std::to_string(used));
    }
    config_.n_experts = static_cast<std::uint32_t>(experts);
    config_.n_experts_used = experts == 0 ? 0 : static_cast<std::uint32_t>(used);
  }

  void odd_file_type() {
    const GgufValue* const type = file_.find("general.file_type");
    if (type != nullptr && type->type != GgufType::U32) {
      config_.warnings.push_back("general.file_type: expected u32, got " +
                                 std::string(cria::name(type->type)));
    }
  }

  const GgufFile& file_;
  Keys& keys_;
  NormKind norm_;
  std::uint32_t least_;  // of heads and of a feed-forward part's width
  ModelConfig& config_;
};

}  // namespace

ModelConfig ModelConfig::from_keys(const GgufFile& file, Keys& keys, NormKind norm, bool mixed) {
  ModelConfig config;
  ConfigReader(file, keys, norm, mixed, config).read();
  return config;
}

ModelConfig ModelConfig::from_gguf(const GgufFile& file, NormKind norm, bool mixed) {
  Keys keys(file);
  return from_keys(file, keys, norm, mixed);
}

}  // namespace cria
