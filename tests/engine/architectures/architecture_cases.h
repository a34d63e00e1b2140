// Every architecture as a small model.
#pragma once

#include <gtest/gtest.h>

#include "tests/engine/architectures/tiny_architecture.h"

namespace cria::test {

using Shapes = std::vector<std::pair<std::string, std::vector<std::uint64_t>>>;

inline const std::map<std::string, GgufData> kExpertKeys = {{"expert_count", 6U},
                                                            {"expert_used_count", 2U}};

inline std::map<std::string, GgufData> expert_keys(std::map<std::string, GgufData> more = {}) {
  more.insert(kExpertKeys.begin(), kExpertKeys.end());
  return more;
}

inline Shapes expert_tensors(Shapes more = {}) {
  more.push_back({"*.ffn_gate_inp.weight", {64, 6}});
  more.push_back({"*.ffn_down_exps.weight", {32, 64, 6}});
  return more;
}

inline GgufData flags(std::vector<std::uint8_t> values) {
  return GgufArray::of(std::vector<bool>(values.begin(), values.end()));
}

inline GgufData numbers(const std::vector<std::int32_t>& values) { return GgufArray::of(values); }

/// Keys of a model that has attention in every other layer; the first map wins over the second.
inline std::map<std::string, GgufData> hybrid(std::map<std::string, GgufData> keys,
                                              const std::map<std::string, GgufData>& more = {}) {
  keys.insert(more.begin(), more.end());
  keys.insert({"attention.head_count_kv", numbers({0, 2, 0, 2})});
  return keys;
}

/// Every architecture, and each of its features that a file may have.
inline std::vector<ArchitectureCase> architecture_cases() {
  const GgufData windows = 8U, pattern = flags({1, 0, 1, 0});
  const std::map<std::string, GgufData> window = {{"attention.sliding_window", windows}};
  const std::map<std::string, GgufData> by_keys = expert_keys({{"expert_gating_func", 2U},
                                                               {"expert_weights_norm", true},
                                                               {"expert_weights_scale", 1.5F},
                                                               {"expert_group_count", 3U},
                                                               {"expert_group_used_count", 2U}});
  const std::map<std::string, GgufData> latent = {{"attention.kv_lora_rank", 32U},
                                                  {"attention.q_lora_rank", 32U},
                                                  {"attention.key_length", 40U},
                                                  {"rope.dimension_count", 8U},
                                                  {"rope.scaling.type", std::string("yarn")},
                                                  {"rope.scaling.factor", 4.0F},
                                                  {"rope.scaling.original_context_length", 64U},
                                                  {"rope.scaling.yarn_log_multiplier", 0.1F}};
  auto latent_experts = by_keys;
  latent_experts.insert(latent.begin(), latent.end());
  const std::map<std::string, GgufData> scales = {{"embedding_scale", 2.0F},
                                                  {"residual_scale", 0.5F},
                                                  {"logit_scale", 3.0F},
                                                  {"attention.scale", 0.2F}};
  const std::map<std::string, GgufData> recurrent = {{"ssm.conv_kernel", 4U},
                                                     {"ssm.inner_size", 64U},
                                                     {"ssm.state_size", 16U},
                                                     {"ssm.time_step_rank", 4U},
                                                     {"ssm.group_count", 2U}};
  std::map<std::string, GgufData> without_attention = {
      {"attention.head_count", 0U}, {"attention.head_count_kv", 0U}, {"feed_forward_length", 0U}};
  without_attention.insert(recurrent.begin(), recurrent.end());
  const Shapes longrope = {{"rope_factors_long.weight", {8}}};
  const Shapes biases = {{"*.attn_q.bias", {64}}, {"*.attn_k.bias", {32}}, {"*.attn_v.bias", {32}}};
  const Shapes gated_biases = {
      {"*.attn_q.bias", {64}}, {"*.ffn_gate.bias", {96}}, {"*.ffn_up.bias", {96}}};
  const Shapes selection = {{"*.exp_probs_b.bias", {6}}, {"*.ffn_up_shexp.weight", {64, 96}}};
  return {
#include "tests/engine/architectures/cases.inc"
  };
}

inline ArchitectureCase architecture_case(std::string_view name) {
  const std::vector<ArchitectureCase> cases = architecture_cases();
  return *std::ranges::find_if(cases,
                               [&](const ArchitectureCase& one) { return one.name == name; });
}

/// Together these have every operation and option of the graph that an architecture uses.
inline constexpr const char* kCoveringCases[] = {
    "llama",           // the plain layer
    "llama_biases",    // biases of all products
    "mistral3",        // attention temperature, YaRN
    "qwen3moe",        // norms per head, experts
    "gemma2",          // post-norms, soft caps, sliding windows
    "gemma3n",         // parallel residual streams, sparse gates
    "gemma4",          // shared KV caches, head sizes per layer, per-layer inputs
    "gemma4_experts",  // experts with a dense branch and scales
    "phi3",            // joint projections, LongRoPE
    "gpt_oss",         // attention sinks, biases of experts
    "olmo",            // layer norm without weights, clamped products
    "glm4moe",         // sigmoid routers, shared experts
    "deepseek2",       // latent attention
    "cohere2",         // parallel layers, layer norm
    "starcoder2",      // feed-forward without a gate
    "apertus",         // xIELU
    "llama4",          // chunked attention, layers without RoPE
    "lfm2",            // short convolutions
    "qwen3next",       // the delta rule, old and new files, gated attention
    "qwen35",          // key heads in turn
    "granitehybrid",   // Mamba-2
    "nemotron_h_moe",  // experts without gates, on smaller vectors
    "mamba",           // no attention, Mamba-1
    "kimi_linear",     // a decay per key dimension
};

inline std::vector<ArchitectureCase> covering_cases() {
  std::vector<ArchitectureCase> cases = architecture_cases();
  std::erase_if(cases, [](const ArchitectureCase& c) {
    return std::ranges::find(kCoveringCases, c.name) == std::end(kCoveringCases);
  });
  return cases;
}

/// The name of a parameterized test.
inline std::string name_of_case(const testing::TestParamInfo<ArchitectureCase>& one) {
  return one.param.name;
}

}  // namespace cria::test
