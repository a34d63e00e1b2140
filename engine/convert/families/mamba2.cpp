// Mamba 2, and classes in which some layers have it.
#include <algorithm>
#include <array>

#include "engine/convert/families/families.h"
#include "engine/convert/hf_rules.h"

namespace cria::hf {
namespace {

constexpr HfTensor kGraniteMamba[] = {
    {"blk.#.ssm_dt.bias", "model.layers.#.mamba.dt_bias"},
    {"blk.#.ssm_norm.weight", "model.layers.#.mamba.norm.weight", HfRows::Flat}};

constexpr HfTensor kMamba2[] = {
    {"blk.#.ssm_dt.bias", "backbone.layers.#.mixer.dt_bias"},
    {"blk.#.ssm_norm.weight", "backbone.layers.#.mixer.norm.weight", HfRows::Flat}};
constexpr HfTensor kNemotronH[] = {
    {"blk.#.attn_q", "backbone.layers.#.mixer.q_proj"},
    {"blk.#.attn_k", "backbone.layers.#.mixer.k_proj"},
    {"blk.#.attn_v", "backbone.layers.#.mixer.v_proj"},
    {"blk.#.attn_output", "backbone.layers.#.mixer.o_proj"},
    {"blk.#.ffn_up", "backbone.layers.#.mixer.up_proj"},
    {"blk.#.ffn_down", "backbone.layers.#.mixer.down_proj"},
    {"blk.#.ffn_gate_inp", "backbone.layers.#.mixer.gate"},
    {"blk.#.exp_probs_b.bias", "backbone.layers.#.mixer.gate.e_score_correction_bias"},
    {"blk.#.ffn_up_exps", "backbone.layers.#.mixer.experts.%.up_proj"},
    {"blk.#.ffn_down_exps", "backbone.layers.#.mixer.experts.%.down_proj"},
    {"blk.#.ffn_latent_down", "backbone.layers.#.mixer.fc1_latent_proj"},
    {"blk.#.ffn_latent_up", "backbone.layers.#.mixer.fc2_latent_proj"},
    {"blk.#.ffn_up_shexp", "backbone.layers.#.mixer.shared_experts.up_proj"},
    {"blk.#.ffn_down_shexp", "backbone.layers.#.mixer.shared_experts.down_proj"}};

constexpr HfTensor kFalconH1[] = {
    {"blk.#.ffn_norm", "model.layers.#.pre_ff_layernorm.weight"}};  // the name without ".weight"

struct MambaKeys {
  const char *heads, *head_dim, *groups, *state, *taps;
};

// Step sizes are not clamped: null is Python's Infinity.
HfRule no_step_limit() {
  constexpr std::string_view kKey = "time_step_limit";
  constexpr double kInfinite = 1e30;
  return {[=](HfImport& k) {
            const SortedJson* const limits = k.find(kKey);
            if (limits == nullptr || !limits->is_array() || limits->size() != 2) return;
            const SortedJson &low = (*limits)[0], &high = (*limits)[1];
            if ((low.is_number() && low > 0) || (high.is_number() && high < kInfinite))
              k.fail(kKey, "not supported here: expected 0 and Infinity, got " + limits->dump());
          },
          nullptr};
}

// Mamba-2. "mamba_d_head" may be "auto".
HfRule mamba2_sizes(const MambaKeys& names) {
  return all({no_step_limit(),
              integer("ssm.conv_kernel", names.taps, limits::kConvolution),
              integer("ssm.state_size", names.state, limits::kStateSize),
              integer("ssm.group_count", names.groups, limits::kFeedForward),
              integer("ssm.time_step_rank", names.heads, limits::kFeedForward),
              {[=](HfImport& k) {
                 const std::uint64_t heads = k.uint(names.heads, 1, limits::kFeedForward);
                 const SortedJson* const dim = k.find(names.head_dim);
                 const bool automatic = dim != nullptr && dim->is_string();
                 const std::uint64_t inner =
                     automatic ? std::uint64_t{k.config.n_embd} *
                                     k.uint_or("mamba_expand", 2, limits::kEmbedding)
                               : heads * k.uint(names.head_dim, 1, limits::kFeedForward);
                 if (inner > limits::kFeedForward) k.fail(names.head_dim, "too large");
                 k.set("ssm.inner_size", static_cast<std::uint32_t>(inner));
               },
               [=](HfExport& k) {
                 const std::uint32_t inner = k.keys.get("ssm.inner_size", 1, limits::kFeedForward);
                 k.set(names.head_dim, inner / k.keys.get("ssm.time_step_rank", 1, inner));
               }}});
}

HfRule granite_hybrid_layers() {
  constexpr std::string_view kCount = "num_local_experts", kShared = "shared_intermediate_size";
  const HfRule routed = experts(kCount, "num_experts_per_tok", "intermediate_size"),
               shared = shared_width(kShared);
  return all({granite_factors(),
              mixed_layers("attention", "mamba"),
              mamba2_sizes({"mamba_n_heads", "mamba_d_head", "mamba_n_groups", "mamba_d_state",
                            "mamba_d_conv"}),
              only("mamba_proj_bias", false),
              granite_positions(),
              {[=](HfImport& k) {
                 if (k.uint_or(kCount, 0, limits::kExperts) != 0) {
                   routed.to_gguf(k);
                   shared.to_gguf(k);
                 } else {  // the shared expert is the feed-forward part
                   k.set("feed_forward_length", k.uint(kShared, 1, limits::kFeedForward));
                 }
               },
               [=](HfExport& k) {
                 k.set("mamba_expand", k.keys.get("ssm.inner_size", 1, limits::kFeedForward) /
                                           std::max(1U, k.config.n_embd));
                 k.set("mamba_conv_bias", any_has(k, "ssm_conv1d.bias"));
                 if (k.keys.get_or("expert_count", 0, 0, limits::kExperts) != 0) {
                   routed.to_json(k);
                   shared.to_json(k);
                 } else {
                   for (const char* key : {"num_local_experts", "num_experts_per_tok"})
                     k.set(key, 0);
                   k.set(kShared, k.config.n_ff);
                 }
               }}});
}

// "hybrid_override_pattern" has a letter per layer: M Mamba-2, * attention, - feed-forward part,
// E experts.
HfRule nemotron_layers() {
  constexpr std::string_view kPattern = "hybrid_override_pattern", kWidth = "feed_forward_length";
  return {[=](HfImport& k) {
            const std::string pattern = k.text(kPattern).value_or("");
            if (pattern.size() != k.config.n_layers ||
                pattern.find_first_not_of("M*-E") != std::string::npos)
              k.fail(kPattern, "expected one of M, *, - and E per layer");
            const std::uint32_t experts =
                k.uint_or("moe_intermediate_size", 0, limits::kFeedForward);
            std::vector<std::uint32_t> heads, widths;
            for (const char layer : pattern) {
              heads.push_back(layer == '*' ? k.config.n_kv_heads : 0);
              widths.push_back(layer == '-' ? k.config.n_ff : layer == 'E' ? experts : 0);
            }
            k.set(kKvHeads, GgufArray::of(heads));
            k.set(kWidth, GgufArray::of(widths));
          },
          [=](HfExport& k) {
            const auto heads = k.keys.per_layer(kKvHeads, 0, limits::kHeads),
                       widths = k.keys.per_layer(kWidth, 0, limits::kFeedForward);
            std::string pattern;
            std::uint32_t width = 0;
            for (std::uint32_t i = 0; i < k.config.n_layers; ++i) {
              const bool routed = k.has_tensor(i, "ffn_gate_inp.weight");
              pattern += heads[i] != 0 ? '*' : widths[i] == 0 ? 'M' : routed ? 'E' : '-';
              if (pattern.back() != '-') continue;
              if (width != 0 && widths[i] != width) k.fail(kWidth, "expected one width");
              width = widths[i];
            }
            k.set(kPattern, pattern);
            k.set("num_key_value_heads", common_kv_heads(k, heads));
            k.set("intermediate_size", std::max(1U, width));
          }};
}

constexpr MambaKeys kNemotronKeys{"mamba_num_heads", "mamba_head_dim", "n_groups", "ssm_state_size",
                                  "conv_kernel"};

std::vector<HfRule> nemotron_rules() {
  // Other readers want both kinds of epsilon.
  const HfRule eps{
      [](HfImport& k) { k.set("attention.layer_norm_epsilon", k.config.norm_eps); },
      [](HfExport& k) { static_cast<void>(k.keys.number_or("attention.layer_norm_epsilon", 0)); }};
  return {nemotron_layers(), mamba2_sizes(kNemotronKeys), eps};
}

// Factors of embeddings, keys, branches, the state space's inputs and logits. GGUF has them in the
// weights; tied logits have a factor of their own.
HfRule falcon_factors() {
  static constexpr std::array<const char*, 7> kOnes = {
      "embedding_multiplier", "lm_head_multiplier",      "key_multiplier",
      "ssm_in_multiplier",    "attention_in_multiplier", "attention_out_multiplier",
      "ssm_out_multiplier"};
  constexpr const char *kInputs = "ssm_multipliers", *kFeedForward = "mlp_multipliers";
  constexpr std::string_view kScale = "logit_scale";
  const auto list = [](const HfImport& k, const char* key, std::size_t n) {
    const SortedJson* const values = k.find(key);
    if (values == nullptr) return std::vector<double>(n, 1);
    const auto number = [](const SortedJson& value) { return value.is_number(); };
    if (!values->is_array() || values->size() != n || !std::ranges::all_of(*values, number))
      k.fail(key, "expected " + std::to_string(n) + " numbers");
    return values->get<std::vector<double>>();
  };
  return {[=](HfImport& k) {
            const auto one = [&](const char* key) { return k.number_or(key, 1); };
            const auto all = [](double factor) {
              return std::vector{HfRowFactor{.factor = factor}};
            };
            const double embedding = one("embedding_multiplier"), head = one("lm_head_multiplier"),
                         in = one("attention_in_multiplier"), ssm = one("ssm_in_multiplier");
            const std::vector<double> inputs = list(k, kInputs, 5), ffn = list(k, kFeedForward, 2);
            auto& factors = k.config.row_factors;
            factors["token_embd"] = all(embedding);
            factors["attn_q"] = factors["attn_v"] = all(in);
            factors["attn_k"] = all(in * one("key_multiplier"));
            factors["attn_output"] = all(one("attention_out_multiplier"));
            factors["ssm_out"] = all(one("ssm_out_multiplier"));
            factors["ffn_gate"] = all(ffn[0]);
            factors["ffn_down"] = all(ffn[1]);
            const std::uint64_t inner = k.uint("mamba_d_ssm", 1, limits::kFeedForward),
                                shared = std::uint64_t{k.uint("mamba_n_groups", 1, inner)} *
                                         k.uint("mamba_d_state", 1, limits::kStateSize);
            std::uint64_t end = 0, part = 0;
            for (const std::uint64_t rows : {inner, inner, shared, shared, inner})
              factors["ssm_in"].push_back({end += rows, ssm * inputs[part++]});
            if (!k.config.tied_embeddings)
              factors["output"] = all(head);
            else if (head != embedding)
              k.set(kScale, static_cast<float>(head / embedding));
          },
          [=](HfExport& k) {
            for (const char* key : kOnes) k.set(key, 1);
            k.set("lm_head_multiplier", k.keys.positive_or(kScale, 1));
            k.set(kInputs, std::vector<int>(5, 1));
            k.set(kFeedForward, std::vector<int>(2, 1));
          }};
}

HfRule falcon_sizes() {
  return all({mamba2_sizes({"mamba_n_heads", "mamba_d_head", "mamba_n_groups", "mamba_d_state",
                            "mamba_d_conv"}),
              {[](HfImport& k) {
                 if (k.flag_or("mamba_rms_norm", false))
                   only("mamba_norm_before_gate", false, true).to_gguf(k);
               },
               [](HfExport& k) {
                 k.set("mamba_d_ssm", k.keys.get("ssm.inner_size", 1, limits::kFeedForward));
                 k.set("mamba_rms_norm", any_has(k, "ssm_norm.weight"));
                 k.set("mamba_norm_before_gate", false);
               }},
              conv_bias("mamba_conv_bias"),
              only("mamba_proj_bias", false),
              only("projectors_bias", false),
              falcon_factors()});
}

}  // namespace

std::vector<HfClass> mamba2() {
  const auto nemotron = [](std::string_view arch, std::string_view pattern,
                           std::vector<HfRule> rules) {
    return HfClass{
        .name = "NemotronHForCausalLM",
        .arch = arch,
        .model_type = "nemotron_h",
        .mlp_bias = true,
        .by_layer = true,
        .eps = "layer_norm_epsilon",
        .default_eps = 1e-5F,
        .activations = "relu2",
        .activation_key = "mlp_hidden_act",
        .tensors = join({kMamba, kMamba2, kNemotronH}),
        .rules = with(nemotron_rules(), std::move(rules)),
        .only_with = pattern,
        .aliases = {{"attention_head_dim", "head_dim"}, {"norm_eps", "layer_norm_epsilon"}}};
  };
  return {
      {.name = "GraniteMoeHybridForCausalLM",
       .arch = "granitehybrid",
       .model_type = "granitemoehybrid",
       .by_layer = true,
       .tensors = join({kEnds, kNorms, kPairedAttention, kMambaLayers, kGraniteMamba, kGraniteMlp,
                        kGraniteExperts, kGraniteShared}),
       .rules = {granite_hybrid_layers()},
       .only_with = "mamba"},
      nemotron(
          "nemotron_h_moe", "E",
          {experts("n_routed_experts", "num_experts_per_tok", "moe_intermediate_size"),
           shared_width("moe_shared_expert_intermediate_size"), shared_experts("n_shared_experts"),
           sigmoid_router(), flag_or("expert_weights_norm", "norm_topk_prob", true),
           scale("expert_weights_scale", "routed_scaling_factor"), expert_groups(),
           integer_if_present("moe_latent_size", "moe_latent_size", limits::kEmbedding)}),
      nemotron("nemotron_h", "", {}),
      {.name = "FalconH1ForCausalLM",
       .arch = "falcon-h1",
       .model_type = "falcon_h1",
       .default_eps = 1e-5F,
       .tensors = join({kJambaLayers, kFalconH1, kAttention, kMambaLayers, kGraniteMamba}),
       .rules = {falcon_sizes()}},
      mamba_class("Mamba2ForCausalLM", "mamba2", "mamba2", false, join({kMamba, kMamba2}),
                  {mamba2_sizes({"num_heads", "head_dim", "n_groups", "state_size", "conv_kernel"}),
                   {nullptr,
                    [](HfExport& k) {
                      k.set("expand", static_cast<double>(
                                          k.keys.get("ssm.inner_size", 1, limits::kFeedForward)) /
                                          k.config.n_embd);
                    }}}),
  };
}

}  // namespace cria::hf
