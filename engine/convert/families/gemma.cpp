// Gemma 1 to 4. Up to version 3 the weights of norms are stored as their difference from 1.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>

#include "engine/convert/families/families.h"
#include "engine/convert/hf_rules.h"

namespace cria::hf {
namespace {

constexpr std::uint32_t kPeriod = 6;  // Gemma 3 and 4: the last of six layers has no window

constexpr HfTensor kGemmaEnds[] = {{"token_embd", "model.embed_tokens"},
                                   {"output_norm", "model.norm", HfRows::PlusOne},
                                   {"output.weight", "lm_head.weight"}};
constexpr HfTensor kGemmaNorms[] = {
    {"blk.#.attn_norm", "model.layers.#.input_layernorm", HfRows::PlusOne},
    {"blk.#.ffn_norm", "model.layers.#.post_attention_layernorm", HfRows::PlusOne}};
constexpr HfTensor kBothSides[] = {
    {"blk.#.attn_norm", "model.layers.#.input_layernorm", HfRows::PlusOne},
    {"blk.#.post_attention_norm", "model.layers.#.post_attention_layernorm", HfRows::PlusOne},
    {"blk.#.ffn_norm", "model.layers.#.pre_feedforward_layernorm", HfRows::PlusOne},
    {"blk.#.post_ffw_norm", "model.layers.#.post_feedforward_layernorm", HfRows::PlusOne}};
constexpr HfTensor kHeadNorms[] = {
    {"blk.#.attn_q_norm", "model.layers.#.self_attn.q_norm", HfRows::PlusOne},
    {"blk.#.attn_k_norm", "model.layers.#.self_attn.k_norm", HfRows::PlusOne}};
// Gemma 3n and 4 add inputs of their own to each layer.
constexpr HfTensor kLayerInputs[] = {
    {"per_layer_model_proj", "model.per_layer_model_projection"},
    {"per_layer_proj_norm", "model.per_layer_projection_norm"},
    {"blk.#.attn_norm", "model.layers.#.input_layernorm"},
    {"blk.#.post_attention_norm", "model.layers.#.post_attention_layernorm"},
    {"blk.#.ffn_norm", "model.layers.#.pre_feedforward_layernorm"},
    {"blk.#.post_ffw_norm", "model.layers.#.post_feedforward_layernorm"},
    {"blk.#.inp_gate", "model.layers.#.per_layer_input_gate"},
    {"blk.#.proj", "model.layers.#.per_layer_projection"},
    {"blk.#.post_norm", "model.layers.#.post_per_layer_input_norm"}};
constexpr HfTensor kGemma4[] = {
    {"per_layer_token_embd", "model.embed_tokens_per_layer"},
    {"blk.#.post_ffw_norm_1", "model.layers.#.post_feedforward_layernorm_1"},
    {"blk.#.pre_ffw_norm_2", "model.layers.#.pre_feedforward_layernorm_2"},
    {"blk.#.post_ffw_norm_2", "model.layers.#.post_feedforward_layernorm_2"},
    {"blk.#.layer_output_scale.weight", "model.layers.#.layer_scalar"},
    {"blk.#.ffn_gate_inp", "model.layers.#.router.proj"},
    {"blk.#.ffn_gate_inp.scale", "model.layers.#.router.scale"},
    {"blk.#.ffn_gate_up_exps.weight", "model.layers.#.experts.gate_up_proj"},
    {"blk.#.ffn_down_exps.weight", "model.layers.#.experts.down_proj"},
    {"blk.#.ffn_down_exps.scale", "model.layers.#.router.per_expert_scale"}};

constexpr HfTensor kGemma3n[] = {
    {"per_layer_token_embd.weight", "model.embed_tokens_per_layer.weight", HfRows::Padded},
    {"altup_proj.weight", "model.altup_projections.%.weight"},
    {"altup_unembd_proj.weight", "model.altup_unembed_projections.%.weight"},
    {"blk.#.laurel_l", "model.layers.#.laurel.linear_left"},
    {"blk.#.laurel_r", "model.layers.#.laurel.linear_right"},
    {"blk.#.laurel_post_norm", "model.layers.#.laurel.post_laurel_norm"},
    {"blk.#.altup_router", "model.layers.#.altup.modality_router"},
    {"blk.#.altup_router_norm", "model.layers.#.altup.router_norm"},
    {"blk.#.altup_predict_coef", "model.layers.#.altup.prediction_coefs"},
    {"blk.#.altup_correct_coef", "model.layers.#.altup.correction_coefs"},
    {"blk.#.altup_correct_scale.weight", "model.layers.#.altup.correct_output_scale"}};

// Multimodal models' text_config has only what differs from these.
constexpr const char* kGemma3Defaults =
    R"({"vocab_size": 262208, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
        "max_position_embeddings": 131072, "query_pre_attn_scalar": 256, "rope_theta": 1000000.0,
        "sliding_window": 4096})";
constexpr const char* kGemma3nDefaults =
    R"({"vocab_size": 262400, "hidden_size": 2048, "num_hidden_layers": 35, "num_attention_heads": 8,
        "num_key_value_heads": 2, "head_dim": 256, "max_position_embeddings": 32768,
        "intermediate_size": 16384, "sliding_window": 512, "hidden_size_per_layer_input": 256,
        "num_kv_shared_layers": 15})";
constexpr const char* kGemma4Defaults =
    R"({"vocab_size": 262144, "head_dim": 256, "global_head_dim": 512, "sliding_window": 512})";

// The largest models divide scores by the root of the embedding's share instead of the head size,
// as build_gemma2() and build_gemma3() do.
HfRule attention_scale(std::uint32_t layers_of_largest) {
  constexpr std::string_view kKey = "query_pre_attn_scalar";
  const auto usual = [=](const HfConfig& c) {
    return only(kKey, static_cast<double>(c.n_layers == layers_of_largest ? c.n_embd / c.n_heads
                                                                          : c.head_dim));
  };
  return {[=](HfImport& k) { usual(k.config).to_gguf(k); },
          [=](HfExport& k) { usual(k.config).to_json(k); }};
}

constexpr std::string_view kWindowedBase = "rope.freq_base_swa";

HfRule gemma3_ropes() {
  constexpr std::string_view kKey = "rope_local_base_freq";
  return {[=](HfImport& k) {
            if (!k.has("rope_theta") && k.rope_number_or("rope_theta", 0) == 0)
              k.set("rope.freq_base", 1e6F);
            k.set(kWindowedBase,
                  static_cast<float>(k.windowed_rope_base_or(k.number_or(kKey, 10000))));
          },
          number_or(kWindowedBase, kKey, 10000).to_json};
}

// Gemma 4 has no local base: rope_parameters has one object for each type of layers.
HfRule gemma4_ropes() {
  constexpr std::string_view kKey = "rope_parameters";
  return {[=](HfImport& k) {
            if (!k.has(kKey)) k.fail(kKey, "missing key");
            if (k.rope_number_or("rope_theta", 0) == 0) k.set("rope.freq_base", 1e6F);
            k.set(kWindowedBase, static_cast<float>(k.windowed_rope_base_or(10000)));
          },
          [=](HfExport& k) {
            const auto base = static_cast<float>(k.config.rope_base);
            const HfRopeScaling& scaling = k.config.rope_scaling;
            const bool part = scaling.kind == HfRopeScaling::Kind::Proportional;
            Json full = {{"rope_type", part ? "proportional" : "default"},
                         {"rope_theta", shortest_decimal(base)}};
            if (part) full["partial_rotary_factor"] = scaling.rotated_part;
            const Json windowed = {
                {"rope_type", "default"},
                {"rope_theta", shortest_decimal(k.keys.positive_or(kWindowedBase, base))}};
            k.set(kKey, {{"full_attention", full}, {"sliding_attention", windowed}});
            for (const char* older : {"rope_theta", "rope_scaling"}) k.out.erase(older);
          }};
}

// "head_dim" is the head size of windowed layers, "global_head_dim" of the others.
HfRule windowed_head_size() {
  using Suffixes = std::array<std::string_view, 3>;
  static constexpr Suffixes kSuffixes = {"attention.key_length_swa", "attention.value_length_swa",
                                         "rope.dimension_count_swa"};
  return {[](HfImport& k) {
            for (const char* suffix : {"attention.key_length", "attention.value_length"})
              k.set(suffix, k.config.head_dim);
            for (const std::string_view suffix : kSuffixes)
              k.set(suffix, k.uint("head_dim", 0, limits::kEmbedding));
          },
          [](HfExport& k) {
            const std::uint32_t size =
                k.keys.get_or(kSuffixes[0], k.config.head_dim, 1, limits::kEmbedding);
            for (const std::string_view suffix : kSuffixes)
              if (k.keys.get_or(suffix, size, 1, limits::kEmbedding) != size)
                k.fail(suffix, "expected the head size, " + std::to_string(size));
            k.set("head_dim", size);
          }};
}

// With "attention_k_eq_v", values are keys in layers without a window, which have
// "num_global_key_value_heads".
void import_kv_heads(HfImport& k) {
  constexpr std::string_view kKey = "num_global_key_value_heads";
  if (!k.flag_or("attention_k_eq_v", false) || !k.has(kKey)) return;
  std::vector<std::uint32_t> heads;
  for (const bool window : k.windowed(kPeriod))
    heads.push_back(window ? k.config.n_kv_heads : k.uint(kKey, 0, limits::kHeads));
  k.set("attention.head_count_kv", GgufArray::of(heads));
}

void export_kv_heads(HfExport& k) {
  constexpr std::string_view kSuffix = "attention.head_count_kv";
  const std::vector<bool> windows = windowed_layers(k.keys, k.config.n_layers, kPeriod);
  const std::vector<std::uint32_t> heads = k.keys.per_layer(kSuffix, 1, limits::kHeads);
  std::uint32_t of_type[2] = {0, 0};  // without and with a window
  bool values = true;
  for (std::uint32_t i = 0; i < k.config.n_layers; ++i) {
    std::uint32_t& others = of_type[windows[i] ? 1 : 0];
    if (others != 0 && others != heads[i])
      k.fail(kSuffix, "expected the same number in all layers of a type");
    others = heads[i];
    values = values && (k.has_tensor(i, "attn_v.weight") || !k.has_tensor(i, "attn_k.weight"));
  }
  const std::uint32_t usual = of_type[1] != 0 ? of_type[1] : of_type[0];
  k.set("num_key_value_heads", usual);
  k.set("attention_k_eq_v", !values);
  k.set("num_global_key_value_heads", nullptr);
  if (of_type[0] == 0 || of_type[0] == usual) return;
  if (values) k.fail(kSuffix, "expected the same number in all layers that have values");
  k.set("num_global_key_value_heads", of_type[0]);
}

// The last layers use the KV cache of earlier ones, and may be twice as wide.
HfRule shared_layers() {
  constexpr std::string_view kShared = "num_kv_shared_layers", kWide = "use_double_wide_mlp";
  constexpr std::string_view kSuffix = "attention.shared_kv_layers", kWidth = "feed_forward_length";
  const auto widths = [](const HfConfig& config, std::uint32_t shared) {
    std::vector<std::uint32_t> out(config.n_layers, config.n_ff);
    std::fill(out.end() - shared, out.end(), 2 * config.n_ff);
    return out;
  };
  return {[=](HfImport& k) {
            const std::uint32_t shared = k.uint_or(kShared, 0, k.config.n_layers - 1);
            k.set(kSuffix, shared);
            if (k.flag_or(kWide, false)) k.set(kWidth, GgufArray::of(widths(k.config, shared)));
          },
          [=](HfExport& k) {
            const std::uint32_t n = k.config.n_ff,
                                shared = k.keys.get_or(kSuffix, 0, 0, k.config.n_layers - 1);
            k.set(kShared, shared);
            const auto got = k.keys.per_layer(kWidth, 1, limits::kFeedForward);
            const bool same = std::ranges::all_of(got, [n](std::uint32_t w) { return w == n; });
            if (!same && got != widths(k.config, shared))
              k.fail(kWidth, "expected twice the width in layers that share keys");
            k.set(kWide, !same);
          }};
}

HfRule gemma4_experts() {
  constexpr std::string_view kKey = "enable_moe_block";
  const HfRule rule = experts("num_experts", "top_k_experts", "moe_intermediate_size");
  return {[=](HfImport& k) {
            if (k.flag_or(kKey, false)) rule.to_gguf(k);
          },
          [=](HfExport& k) {
            const bool present = k.keys.get_or("expert_count", 0, 0, limits::kExperts) != 0;
            k.set(kKey, present);
            if (present) rule.to_json(k);
          }};
}

// The number of deviations above the mean that a share of normally distributed values has below.
double deviations_of(double share) {
  double low = -10, high = 10;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (std::erfc(-middle / std::sqrt(2.0)) / 2 < share ? low : high) = middle;
  }
  return low;
}

// "activation_sparsity_pattern": the share of gates that become 0 in each layer.
HfRule gate_sparsity() {
  constexpr std::string_view kKey = "activation_sparsity_pattern",
                             kSuffix = "activation_sparsity_scale";
  constexpr std::uint32_t kSparseLayers = 10;
  constexpr double kShare = 0.95;
  return {
      [=](HfImport& k) {
        std::vector<float> out;
        const SortedJson* const list = k.find(kKey);
        for (std::uint32_t i = 0; i < k.config.n_layers; ++i) {
          double share = i < kSparseLayers ? kShare : 0;
          if (list != nullptr) {
            const bool good = list->is_number() ||
                              (list->is_array() && i < list->size() && (*list)[i].is_number());
            if (!good) k.fail(kKey, "expected a number per layer");
            share = list->is_number() ? list->get<double>() : (*list)[i].get<double>();
          }
          if (!(share >= 0 && share < 1)) k.fail(kKey, "expected numbers from 0 to below 1");
          out.push_back(share == 0 ? -std::numeric_limits<float>::infinity()
                                   : static_cast<float>(deviations_of(static_cast<float>(share))));
        }
        k.set(kSuffix, GgufArray::of(out));
      },
      [=](HfExport& k) {
        Json shares = Json::array();
        const bool given = k.keys.has(kSuffix);
        const std::vector<float> deviations =
            given
                ? k.keys.numbers_per_layer(
                      std::string(k.config.model_class->arch) + ("." + std::string(kSuffix)), true)
                : std::vector<float>();
        for (std::uint32_t i = 0; i < k.config.n_layers; ++i) {
          const double share = given               ? std::erfc(-deviations[i] / std::sqrt(2.0)) / 2
                               : i < kSparseLayers ? kShare
                                                   : 0;
          shares.push_back(shortest_decimal(static_cast<float>(share)));
        }
        k.set(kKey, std::move(shares));
      }};
}

// "intermediate_size" may be a list.
HfRule widths_by_layer() {
  constexpr std::string_view kKey = "intermediate_size", kWidth = "feed_forward_length";
  const auto differ = [](const std::vector<std::uint32_t>& widths) {
    return std::ranges::adjacent_find(widths, std::not_equal_to<>()) != widths.end();
  };
  return {[=](HfImport& k) {
            const auto widths = k.list(kKey, limits::kFeedForward);
            if (differ(widths)) k.set(kWidth, GgufArray::of(widths));
          },
          [=](HfExport& k) {
            const auto widths = k.keys.per_layer(kWidth, 1, limits::kFeedForward);
            if (differ(widths)) k.set(kKey, widths);
          }};
}

HfRule gemma3n_sizes() {
  const auto shared = [](const HfConfig& config) {
    return static_cast<double>(config.n_layers - std::min(20U, config.n_layers));
  };
  return all({integer("embedding_length_per_layer_input", "hidden_size_per_layer_input",
                      limits::kEmbedding),
              integer_or("attention.shared_kv_layers", "num_kv_shared_layers", Amount(shared),
                         limits::kLayers),
              integer_or("altup.num_inputs", "altup_num_inputs", 4, limits::kStreams),
              integer_or("altup.active_idx", "altup_active_idx", 0, limits::kStreams),
              only("altup_correct_scale", true),
              {nullptr, [](HfExport& k) {
                 k.set("laurel_rank", k.cols_of("laurel_r"));
                 k.set("vocab_size_per_layer_input", k.config.n_vocab);
               }}});
}

HfRule final_cap(float fallback) {
  return cap("final_logit_softcapping", "final_logit_softcapping", fallback);
}

// The embedding is the output matrix by default.
HfClass gemma_class(std::string_view name, std::string_view arch, std::string_view type,
                    std::vector<HfTensor> tensors, std::vector<HfRule> rules) {
  return {.name = name,
          .arch = arch,
          .model_type = type,
          .tied = true,
          .activations = "gelu_pytorch_tanh gelu",
          .activation_key = "hidden_activation",
          .tensors = std::move(tensors),
          .rules = std::move(rules)};
}

}  // namespace

std::vector<HfClass> gemma() {
  std::vector<HfClass> out = {
      gemma_class("GemmaForCausalLM", "gemma", "gemma",
                  join({kGemmaEnds, kGemmaNorms, kAttention, kMlp}), {}),
      gemma_class("Gemma2ForCausalLM", "gemma2", "gemma2",
                  join({kGemmaEnds, kBothSides, kAttention, kMlp}),
                  {windows(2, 4096), attention_scale(46),
                   cap("attn_logit_softcapping", "attn_logit_softcapping", 50), final_cap(30)}),
      gemma_class("Gemma3ForCausalLM", "gemma3", "gemma3_text",
                  join({kGemmaEnds, kBothSides, kHeadNorms, kAttention, kMlp}),
                  {windows_if_any(kPeriod, true),
                   attention_scale(62),
                   gemma3_ropes(),
                   {only("attn_logit_softcapping", 0.0).to_gguf, nullptr},
                   final_cap(0)}),
      // EmbeddingGemma; its tensors' names lack "model.".
      gemma_class("Gemma3TextModel", "gemma-embedding", "gemma3_text",
                  join({kGemmaEnds, kBothSides, kHeadNorms, kAttention, kMlp}),
                  {{only("use_bidirectional_attention", true, false).to_gguf, nullptr},
                   {windows_if_any(kPeriod, true).to_gguf, nullptr},
                   {attention_scale(62).to_gguf, nullptr},
                   {gemma3_ropes().to_gguf, nullptr},
                   {[](HfImport& k) { k.set("attention.causal", false); }, nullptr}}),
      gemma_class("Gemma3nForCausalLM", "gemma3n", "gemma3n_text",
                  join({kEnds, kLayerInputs, kGemma3n, kAttention, kQkNorms, kMlp}),
                  {windows(5, 0, true), widths_by_layer(), gemma3n_sizes(), gate_sparsity(),
                   gemma3_ropes(), final_cap(30)}),
      gemma_class("Gemma4ForCausalLM", "gemma4", "gemma4_text",
                  join({kEnds, kLayerInputs, kGemma4, kAttention, kQkNorms, kMlp}),
                  {windows(kPeriod, 0, true),
                   windowed_head_size(),
                   {import_kv_heads, export_kv_heads},
                   shared_layers(),
                   integer_or("embedding_length_per_layer_input", "hidden_size_per_layer_input", 0,
                              limits::kEmbedding),
                   gemma4_experts(),
                   gemma4_ropes(),
                   final_cap(30)})};
  HfClass &gemma3 = out[2], &embedding = out[3], &gemma3n = out[4], &gemma4 = out[5];
  embedding.ropes_by_type = embedding.projections = true;
  gemma3.defaults = kGemma3Defaults;
  gemma3.ropes_by_type = true;
  gemma4.defaults = kGemma4Defaults;
  gemma4.head_dim = "global_head_dim";
  gemma4.ropes_by_type = gemma4.proportional = gemma4.by_layer = gemma4.listed_merges = true;
  gemma3n.defaults = kGemma3nDefaults;
  gemma3n.by_layer = gemma3n.ropes_by_type = true;
  gemma3n.unused = gemma4.unused = {".self_attn.k_proj.weight", ".self_attn.v_proj.weight",
                                    ".self_attn.k_norm.weight"};
  return out;
}

}  // namespace cria::hf
