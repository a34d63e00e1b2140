// Small models of every architecture with something wrong in them.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <limits>

#include "tests/engine/architectures/tiny_architecture.h"

namespace cria::test {

/// Zero, huge, negative, no number, of another type, a list.
inline std::vector<GgufData> odd_values() {
  return {0U,
          1U,
          UINT32_MAX,
          std::uint64_t{1} << 62,
          -1,
          1e30F,
          0.0F,
          -1.0F,
          std::numeric_limits<float>::quiet_NaN(),
          std::numeric_limits<float>::infinity(),
          true,
          std::string("odd"),
          GgufArray::of(std::vector<std::int32_t>{1}),
          GgufArray::of(std::vector<std::uint32_t>{8, UINT32_MAX, 0, 7}),
          GgufArray::of(std::vector<float>{-1.0F, 0.5F, 2.0F, 1e30F}),
          GgufArray::of(std::vector<std::string>{"a", "b", "c", "d"})};
}

/// Keys that some architectures know and the rest should bear.
inline constexpr const char* kOptionalKeys[] = {"attention.sliding_window",
                                                "attention.sliding_window_pattern",
                                                "attention.q_lora_rank",
                                                "attention.kv_lora_rank",
                                                "attention.clamp_kqv",
                                                "attention.scale",
                                                "attention.shared_kv_layers",
                                                "attention.temperature_scale",
                                                "attention.key_length_mla",
                                                "attention.value_length_mla",
                                                "attn_logit_softcapping",
                                                "final_logit_softcapping",
                                                "embedding_scale",
                                                "residual_scale",
                                                "logit_scale",
                                                "expert_count",
                                                "expert_used_count",
                                                "expert_feed_forward_length",
                                                "expert_shared_count",
                                                "expert_group_count",
                                                "expert_group_used_count",
                                                "expert_gating_func",
                                                "expert_weights_scale",
                                                "leading_dense_block_count",
                                                "nextn_predict_layers",
                                                "interleave_moe_layer_step",
                                                "embedding_length_per_layer_input",
                                                "rope.freq_base",
                                                "rope.freq_base_swa",
                                                "rope.scaling.type",
                                                "rope.scaling.factor",
                                                "rope.scaling.original_context_length",
                                                "rope.scaling.yarn_log_multiplier",
                                                "rope.dimension_sections",
                                                "attention.head_count",
                                                "attention.head_count_kv",
                                                "attention.recurrent_layers",
                                                "feed_forward_length",
                                                "full_attention_interval",
                                                "kda.head_dim",
                                                "moe_latent_size",
                                                "shortconv.l_cache",
                                                "ssm.conv_kernel",
                                                "ssm.inner_size",
                                                "ssm.state_size",
                                                "ssm.time_step_rank",
                                                "ssm.group_count",
                                                "ssm.dt_b_c_rms",
                                                "altup.num_inputs",
                                                "altup.active_idx",
                                                "activation_sparsity_scale"};
/// The same for tensors, with or without a layer.
inline constexpr const char* kOptionalTensors[] = {
    "attn_q.bias",           "attn_output.bias",
    "attn_sinks.weight",     "attn_q_norm.weight",
    "attn_q_a.weight",       "attn_k_b.weight",
    "attn_qkv.weight",       "ffn_gate_inp.weight",
    "ffn_gate_exps.weight",  "ffn_up_exps.weight",
    "ffn_gate_shexp.weight", "exp_probs_b.bias",
    "ffn_gate.0.weight",     "ffn_up.bias",
    "post_ffw_norm.weight",  "layer_output_scale.weight",
    "ssm_in.weight",         "ssm_ba.weight",
    "ssm_norm.weight",       "ssm_conv1d.bias",
    "shortconv.conv.bias",   "ffn_latent_down.weight",
    "nextn.eh_proj.weight",  "nextn.enorm.weight",
    "nextn.hnorm.weight",    "nextn.shared_head_norm.weight"};

/// One change, drawn by below(n), which gives a number from 0 to n - 1.
template <class Below>
void spoil(TinyArchitecture& tiny, const Below& below) {
  const auto some_key = [&] {
    const std::size_t at = below(tiny.keys.size() + std::size(kOptionalKeys));
    if (at < tiny.keys.size())
      return std::next(tiny.keys.begin(), static_cast<std::ptrdiff_t>(at))->first;
    return tiny.arch + "." + kOptionalKeys[at - tiny.keys.size()];
  };
  const auto small_number = [&] {
    return static_cast<std::uint32_t>(below(3) == 0 ? below(200) : 1U << below(9));
  };
  if (tiny.tensors.empty()) return;
  TinyArchitecture::Tensor& tensor = tiny.tensors[below(tiny.tensors.size())];
  std::uint64_t& length = tensor.shape[below(tensor.shape.size())];
  switch (below(12)) {
    case 0:
      tiny.keys.erase(some_key());
      break;
    case 1:
    case 2:
      tiny.keys[some_key()] = odd_values()[below(odd_values().size())];
      break;
    case 3:
    case 4:
      tiny.keys[some_key()] = small_number();
      break;
    case 5:
      tiny.tensors.erase(tiny.tensors.begin() + (&tensor - tiny.tensors.data()));
      break;
    case 6:
      length = std::max(1U, small_number());
      break;
    case 7:
      std::swap(tensor.shape.front(), tensor.shape.back());
      break;
    case 8: {
      constexpr DType kTypes[] = {DType::F32,  DType::F16,  DType::BF16,
                                  DType::Q8_0, DType::Q4_0, DType::IQ4_NL};
      tensor.type = kTypes[below(std::size(kTypes))];
      break;
    }
    case 9: {
      const float values[] = {0.0F, -1.0F, 1e30F, std::numeric_limits<float>::infinity(),
                              std::numeric_limits<float>::quiet_NaN()};
      tensor.fill = values[below(std::size(values))];
      break;
    }
    case 10:
      tensor.name = tiny.tensors[below(tiny.tensors.size())].name;
      break;
    default: {
      const char* const name = kOptionalTensors[below(std::size(kOptionalTensors))];
      const std::string layer = "blk." + std::to_string(below(TinyArchitecture::kLayers + 1)) + ".";
      tiny.tensors.push_back({layer + name, {1 + below(64), std::max(1U, small_number())}});
    }
  }
}

/// Runs several tokens if the file loads. Catches Error only.
inline void load_and_run(const TinyArchitecture& tiny) {
  try {
    const auto model = tiny.load();
    for (const float logit :
         architecture_logits(*model, {.n_ctx = 8, .n_batch = 2, .threads = 1}, 5)) {
      if (!std::isfinite(logit)) throw std::logic_error("logit is NaN");
    }
    if (model->prediction() == nullptr) return;
    GenerateOptions options;
    options.max_tokens = 4;
    options.speculate = Speculate::Layers;
    Session session(*model, {.n_ctx = 8, .n_batch = 2, .threads = 1, .own_drafts = true});
    (void)session.generate(std::vector<TokenId>{1, 2, 3}, options);
  } catch (const Error& error) {
    const std::string_view message = error.what();
    if (message.size() < 10 || message.find('\n') != std::string_view::npos)
      throw std::logic_error("an error that says nothing: " + std::string(message));
  }
}

/// While it lives this process gets no more than 1 GiB of memory beyond what it has.
class MemoryLimit {
 public:
  MemoryLimit() {
    getrlimit(RLIMIT_AS, &before_);
#ifndef CRIA_TEST_SANITIZED
    std::ifstream sizes("/proc/self/statm");
    rlim_t pages = 0;
    sizes >> pages;
    rlimit limited = before_;
    limited.rlim_cur =
        std::min(before_.rlim_cur, pages * static_cast<rlim_t>(getpagesize()) + (rlim_t{1} << 30));
    setrlimit(RLIMIT_AS, &limited);
#endif
  }
  ~MemoryLimit() { setrlimit(RLIMIT_AS, &before_); }
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;

 private:
  rlimit before_ = {};
};

}  // namespace cria::test
