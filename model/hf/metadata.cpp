// The keys of a GGUF file that say what config.json says.
#include "model/gguf/writer.h"
#include "model/hf/config.h"

namespace cria {

void set_hyper_parameters(GgufWriter& writer, const HfConfig& config, NormKind norm) {
  using Scaling = HfRopeScaling::Kind;
  const std::string prefix = std::string(config.model_class->arch) + ".";
  const auto set = [&](const char* key, GgufData value) {
    writer.set(prefix + key, std::move(value));
  };
  writer.set("general.architecture", std::string(config.model_class->arch));
  set("vocab_size", config.n_vocab);
  set("context_length", config.n_ctx);
  set("embedding_length", config.n_embd);
  set("block_count", config.n_layers);
  set("feed_forward_length", config.n_ff);
  set("attention.head_count", config.n_heads);
  set("attention.head_count_kv", config.n_kv_heads);
  set(norm == NormKind::Layer ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon",
      config.norm_eps);
  if (config.head_dim * config.n_heads != config.n_embd) {  // else it is what readers take it to be
    set("attention.key_length", config.head_dim);
    set("attention.value_length", config.head_dim);
  }
  if (config.sliding_window) set("attention.sliding_window", *config.sliding_window);
  set("rope.dimension_count", config.n_rot);
  set("rope.freq_base", static_cast<float>(config.rope_base));
  const HfRopeScaling& scaling = config.rope_scaling;
  if (scaling.kind == Scaling::LongRope) {
    set("rope.scaling.original_context_length", scaling.original_context);
    set("rope.scaling.attn_factor", static_cast<float>(config.longrope_magnitude()));
  }
  if (scaling.kind != Scaling::Linear && scaling.kind != Scaling::Yarn) return;
  set("rope.scaling.type", std::string(scaling.kind == Scaling::Linear ? "linear" : "yarn"));
  set("rope.scaling.factor", static_cast<float>(scaling.factor));
  if (scaling.kind == Scaling::Linear) return;
  set("rope.scaling.original_context_length", scaling.original_context);
  if (scaling.attention_factor)
    set("rope.scaling.attn_factor",
        static_cast<float>(*scaling.attention_factor / config.yarn_magnitude()));
  if (scaling.beta_fast) set("rope.scaling.yarn_beta_fast", static_cast<float>(*scaling.beta_fast));
  if (scaling.beta_slow) set("rope.scaling.yarn_beta_slow", static_cast<float>(*scaling.beta_slow));
}

}  // namespace cria
