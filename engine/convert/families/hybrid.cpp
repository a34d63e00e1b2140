// Classes in which some or all layers are recurrent: short convolutions, linear attention, Mamba.
#include <algorithm>

#include "engine/convert/families/families.h"
#include "engine/convert/hf_rules.h"

namespace cria::hf {
namespace {

constexpr HfTensor kLfm2[] = {
    {"token_embd", "model.embed_tokens"},
    {"token_embd_norm", "model.embedding_norm"},
    {"output.weight", "lm_head.weight"},
    {"blk.#.attn_norm", "model.layers.#.operator_norm"},
    {"blk.#.ffn_norm", "model.layers.#.ffn_norm"},
    {"blk.#.attn_q", "model.layers.#.self_attn.q_proj"},
    {"blk.#.attn_k", "model.layers.#.self_attn.k_proj"},
    {"blk.#.attn_v", "model.layers.#.self_attn.v_proj"},
    {"blk.#.attn_output", "model.layers.#.self_attn.out_proj"},
    {"blk.#.attn_q_norm", "model.layers.#.self_attn.q_layernorm"},
    {"blk.#.attn_k_norm", "model.layers.#.self_attn.k_layernorm"},
    {"blk.#.shortconv.conv.weight", "model.layers.#.conv.conv.weight", HfRows::Taps},
    {"blk.#.shortconv.in_proj", "model.layers.#.conv.in_proj"},
    {"blk.#.shortconv.out_proj", "model.layers.#.conv.out_proj"},
    {"blk.#.ffn_gate", "model.layers.#.feed_forward.w1"},
    {"blk.#.ffn_up", "model.layers.#.feed_forward.w3"},
    {"blk.#.ffn_down", "model.layers.#.feed_forward.w2"},
    {"blk.#.ffn_gate_inp", "model.layers.#.feed_forward.gate"},
    {"blk.#.exp_probs_b.bias", "model.layers.#.feed_forward.expert_bias"},
    {"blk.#.ffn_gate_exps", "model.layers.#.feed_forward.experts.%.w1"},
    {"blk.#.ffn_up_exps", "model.layers.#.feed_forward.experts.%.w3"},
    {"blk.#.ffn_down_exps", "model.layers.#.feed_forward.experts.%.w2"}};

// Qwen3-Next and Qwen 3.5 store the weights of all norms but one as their difference from 1.
constexpr HfTensor kQwen[] = {
    {"token_embd", "model.embed_tokens"},
    {"output_norm", "model.norm", HfRows::PlusOne},
    {"output.weight", "lm_head.weight"},
    {"blk.#.attn_norm", "model.layers.#.input_layernorm", HfRows::PlusOne},
    {"blk.#.post_attention_norm", "model.layers.#.post_attention_layernorm", HfRows::PlusOne},
    {"blk.#.attn_q_norm", "model.layers.#.self_attn.q_norm", HfRows::PlusOne},
    {"blk.#.attn_k_norm", "model.layers.#.self_attn.k_norm", HfRows::PlusOne},
    {"blk.#.ssm_norm", "model.layers.#.linear_attn.norm"}};
constexpr HfTensor kQwen3Next[] = {
    {"blk.#.attn_qkv", "model.layers.#.linear_attn.in_proj_qkvz", HfRows::NextQkv},
    {"blk.#.attn_gate", "model.layers.#.linear_attn.in_proj_qkvz", HfRows::NextGates},
    {"blk.#.ssm_ba", "model.layers.#.linear_attn.in_proj_ba"},
    {"blk.#.ssm_conv1d.weight", "model.layers.#.linear_attn.conv1d.weight", HfRows::Taps},
    {"blk.#.ssm_dt.bias", "model.layers.#.linear_attn.dt_bias"},
    {"blk.#.ssm_a", "model.layers.#.linear_attn.A_log", HfRows::Decays},
    {"blk.#.ssm_out", "model.layers.#.linear_attn.out_proj"}};
constexpr HfTensor kQwen35[] = {
    {"blk.#.attn_qkv", "model.layers.#.linear_attn.in_proj_qkv", HfRows::ValueTail},
    {"blk.#.attn_gate", "model.layers.#.linear_attn.in_proj_z", HfRows::ValueRows},
    {"blk.#.ssm_beta", "model.layers.#.linear_attn.in_proj_b", HfRows::ValueRows},
    {"blk.#.ssm_alpha", "model.layers.#.linear_attn.in_proj_a", HfRows::ValueRows},
    {"blk.#.ssm_conv1d.weight", "model.layers.#.linear_attn.conv1d.weight", HfRows::ValueTaps},
    {"blk.#.ssm_dt.bias", "model.layers.#.linear_attn.dt_bias", HfRows::ValueRows},
    {"blk.#.ssm_a", "model.layers.#.linear_attn.A_log", HfRows::ValueDecays},
    {"blk.#.ssm_out", "model.layers.#.linear_attn.out_proj", HfRows::ValueColumns},
    {"blk.#.ffn_gate_exps.weight", "model.layers.#.mlp.experts.gate_up_proj", HfRows::FirstHalf},
    {"blk.#.ffn_up_exps.weight", "model.layers.#.mlp.experts.gate_up_proj", HfRows::SecondHalf},
    {"blk.#.ffn_down_exps.weight", "model.layers.#.mlp.experts.down_proj"}};

constexpr HfTensor kGraniteMamba[] = {
    {"blk.#.ssm_in", "model.layers.#.mamba.in_proj"},
    {"blk.#.ssm_conv1d.weight", "model.layers.#.mamba.conv1d.weight", HfRows::Taps},
    {"blk.#.ssm_conv1d.bias", "model.layers.#.mamba.conv1d.bias"},
    {"blk.#.ssm_dt.bias", "model.layers.#.mamba.dt_bias"},
    {"blk.#.ssm_a", "model.layers.#.mamba.A_log", HfRows::Decays},
    {"blk.#.ssm_d", "model.layers.#.mamba.D", HfRows::Flat},
    {"blk.#.ssm_norm.weight", "model.layers.#.mamba.norm.weight", HfRows::Flat},
    {"blk.#.ssm_out", "model.layers.#.mamba.out_proj"}};

constexpr HfTensor kNemotronH[] = {
    {"token_embd", "backbone.embeddings"},
    {"output_norm", "backbone.norm_f"},
    {"output.weight", "lm_head.weight"},
    {"blk.#.attn_norm", "backbone.layers.#.norm"},
    {"blk.#.attn_q", "backbone.layers.#.mixer.q_proj"},
    {"blk.#.attn_k", "backbone.layers.#.mixer.k_proj"},
    {"blk.#.attn_v", "backbone.layers.#.mixer.v_proj"},
    {"blk.#.attn_output", "backbone.layers.#.mixer.o_proj"},
    {"blk.#.ssm_in", "backbone.layers.#.mixer.in_proj"},
    {"blk.#.ssm_conv1d.weight", "backbone.layers.#.mixer.conv1d.weight", HfRows::Taps},
    {"blk.#.ssm_conv1d.bias", "backbone.layers.#.mixer.conv1d.bias"},
    {"blk.#.ssm_dt.bias", "backbone.layers.#.mixer.dt_bias"},
    {"blk.#.ssm_a", "backbone.layers.#.mixer.A_log", HfRows::Decays},
    {"blk.#.ssm_d", "backbone.layers.#.mixer.D", HfRows::Flat},
    {"blk.#.ssm_norm.weight", "backbone.layers.#.mixer.norm.weight", HfRows::Flat},
    {"blk.#.ssm_out", "backbone.layers.#.mixer.out_proj"},
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

constexpr std::string_view kKvHeads = "attention.head_count_kv", kTypes = "layer_types",
                           kFull = "full_attention";

std::vector<std::string> layer_types(const HfImport& k) {
  const nlohmann::json* const list = k.find(kTypes);
  if (list == nullptr || !list->is_array() || list->size() != k.config.n_layers)
    k.fail(kTypes, "expected a list of one type per layer");
  std::vector<std::string> types;
  for (const nlohmann::json& type : *list) {
    if (!type.is_string()) k.fail(kTypes, "expected strings");
    types.push_back(type.get<std::string>());
  }
  return types;
}

// Returns the KV heads of all layers that have some.
std::uint32_t common_kv_heads(const HfExport& k, const std::vector<std::uint32_t>& heads) {
  const std::uint32_t most = *std::ranges::max_element(heads);
  if (most == 0 || std::ranges::any_of(heads, [&](auto n) { return n != 0 && n != most; }))
    k.fail(kKvHeads, "expected the same number in all layers with attention");
  return most;
}

bool any_has(const HfExport& k, const std::string& tensor) {
  for (std::uint32_t i = 0; i < k.config.n_layers; ++i)
    if (k.has_tensor("blk." + std::to_string(i) + "." + tensor)) return true;
  return false;
}

// Sigmoid routers, for which these classes have no key.
HfRule sigmoid_router() {
  constexpr std::string_view kGating = "expert_gating_func";
  return {[=](HfImport& k) { k.set(kGating, 2U); },
          [=](HfExport& k) {
            if (k.keys.get_or(kGating, 2, 0, 16) % 2 != 0) k.fail(kGating, "expected 2");
          }};
}

// Recurrent layers have no KV heads in GGUF.
HfRule mixed_layers(std::string_view attention, std::string_view recurrent) {
  return {[=](HfImport& k) {
            std::vector<std::uint32_t> heads;
            for (const std::string& type : layer_types(k)) {
              if (type != attention && type != recurrent)
                k.fail(kTypes, "expected " + std::string(attention) + " or " +
                                   std::string(recurrent) + ", got '" + type + "'");
              heads.push_back(type == attention ? k.config.n_kv_heads : 0);
            }
            k.set(kKvHeads, GgufArray::of(heads));
          },
          [=](HfExport& k) {
            const auto heads = k.keys.per_layer(kKvHeads, 0, limits::kHeads);
            nlohmann::ordered_json types = nlohmann::ordered_json::array();
            for (const std::uint32_t n : heads) types.push_back(n == 0 ? recurrent : attention);
            k.set("num_key_value_heads", common_kv_heads(k, heads));
            k.set(kTypes, std::move(types));
          }};
}

// Directories may have a width that is still to be adjusted.
HfRule lfm2_width() {
  constexpr std::string_view kAdjusts = "block_auto_adjust_ff_dim";
  return {[=](HfImport& k) {
            if (!k.flag_or(kAdjusts, true)) return;
            const auto width = static_cast<double>(2 * std::uint64_t{k.config.n_ff} / 3);
            const double wanted = width * k.number_or("block_ffn_dim_multiplier", 1);
            const std::uint32_t unit =
                std::max(1U, k.uint_or("block_multiple_of", 256, limits::kFeedForward));
            const auto units = static_cast<std::uint64_t>(wanted) + unit - 1;
            if (units / unit * unit > limits::kFeedForward)
              k.fail("intermediate_size", "too large");
            k.set("feed_forward_length", static_cast<std::uint32_t>(units / unit * unit));
          },
          write(kAdjusts, false).to_json};
}

constexpr std::string_view kInterval = "full_attention_interval",
                           kRecurrent = "attention.recurrent_layers";

HfRule linear_layers() {
  return {[](HfImport& k) {
            const std::uint32_t interval = k.uint_or(kInterval, 4, limits::kLayers);
            k.set(kInterval, interval);
            if (!k.has(kTypes)) return;
            std::vector<bool> recurrent;
            for (const std::string& type : layer_types(k)) {
              if (type != kFull && type != "linear_attention")
                k.fail(kTypes, "expected full_attention or linear_attention, got '" + type + "'");
              recurrent.push_back(type != kFull);
            }
            bool usual = interval != 0;
            for (std::size_t i = 0; usual && i < recurrent.size(); ++i)
              usual = recurrent[i] == ((i + 1) % interval != 0);
            if (!usual) k.set(kRecurrent, GgufArray::of(recurrent));
          },
          [](HfExport& k) {
            const std::uint32_t interval = k.keys.get_or(kInterval, 4, 1, limits::kLayers);
            const std::vector<bool> recurrent = k.keys.flags_per_layer(kRecurrent);
            nlohmann::ordered_json types = nlohmann::ordered_json::array();
            for (std::uint32_t i = 0; i < k.config.n_layers; ++i)
              types.push_back((recurrent.empty() ? (i + 1) % interval != 0 : recurrent[i])
                                  ? "linear_attention"
                                  : kFull);
            k.set(kTypes, std::move(types));
            k.set(kInterval, interval);
          }};
}

HfRule linear_heads() {
  constexpr const char *kKeys = "linear_num_key_heads", *kValues = "linear_num_value_heads",
                       *kKeyDim = "linear_key_head_dim", *kValueDim = "linear_value_head_dim";
  return all(
      {integer("ssm.conv_kernel", "linear_conv_kernel_dim", limits::kConvolution),
       {[=](HfImport& k) {
          HfLinearHeads& heads = k.config.linear;
          const auto read = [&](const char* key) {
            const std::uint32_t n = k.uint(key, 1, limits::kStateSize);
            return n;
          };
          heads = {read(kKeys), read(kValues), read(kKeyDim), read(kValueDim)};
          if (heads.values % heads.keys != 0)
            k.fail(kValues, "expected a multiple of linear_num_key_heads");
          k.set("ssm.state_size", static_cast<std::uint32_t>(heads.key_dim));
          k.set("ssm.group_count", static_cast<std::uint32_t>(heads.keys));
          k.set("ssm.time_step_rank", static_cast<std::uint32_t>(heads.values));
          k.set("ssm.inner_size", static_cast<std::uint32_t>(heads.values * heads.value_dim));
        },
        [=](HfExport& k) {
          HfLinearHeads& heads = k.config.linear;
          heads.keys = k.keys.get("ssm.group_count", 1, limits::kStateSize);
          heads.values = k.keys.get("ssm.time_step_rank", 1, limits::kStateSize);
          heads.key_dim = k.keys.get("ssm.state_size", 1, limits::kStateSize);
          heads.value_dim = k.keys.get("ssm.inner_size", 1, limits::kFeedForward) / heads.values;
          k.set(kKeys, heads.keys);
          k.set(kValues, heads.values);
          k.set(kKeyDim, heads.key_dim);
          k.set(kValueDim, heads.value_dim);
        }}});
}

HfRule shared_width(std::string_view key) {
  constexpr std::string_view kWidth = "expert_shared_feed_forward_length";
  return {[=](HfImport& k) { k.set(kWidth, k.uint_or(key, 0, limits::kFeedForward)); },
          [=](HfExport& k) {
            static_cast<void>(k.keys.has(kWidth));
            k.set(key, k.cols_of("ffn_down_shexp"));
          }};
}

// Images give positions of three axes; text has equal ones.
HfRule rope_sections() {
  constexpr std::string_view kSections = "rope.dimension_sections", kKey = "mrope_section";
  return {[=](HfImport& k) {
            const nlohmann::json* rope = k.find("rope_parameters");
            if (rope == nullptr) rope = k.find("rope_scaling");
            if (rope == nullptr || !rope->is_object() || !rope->contains(kKey)) return;
            std::vector<std::int32_t> sections;
            for (const nlohmann::json& n : (*rope)[std::string(kKey)])
              sections.push_back(n.is_number_unsigned() ? n.get<std::int32_t>() : 0);
            sections.resize(4);
            k.set(kSections, GgufArray::of(sections));
          },
          [=](HfExport& k) { static_cast<void>(k.keys.any(kSections)); }};
}

struct MambaKeys {
  const char *heads, *head_dim, *groups, *state, *taps;
};

// Mamba-2. "mamba_d_head" may be "auto".
HfRule mamba2_sizes(const MambaKeys& names) {
  return all({integer("ssm.conv_kernel", names.taps, limits::kConvolution),
              integer("ssm.state_size", names.state, limits::kStateSize),
              integer("ssm.group_count", names.groups, limits::kFeedForward),
              integer("ssm.time_step_rank", names.heads, limits::kFeedForward),
              {[=](HfImport& k) {
                 const std::uint64_t heads = k.uint(names.heads, 1, limits::kFeedForward);
                 const nlohmann::json* const dim = k.find(names.head_dim);
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
  constexpr std::string_view kRotated = "rope.scaling.finetuned",
                             kPositions = "position_embedding_type", kRope = "rope",
                             kCount = "num_local_experts", kShared = "shared_intermediate_size";
  const HfRule routed = experts(kCount, "num_experts_per_tok", "intermediate_size"),
               shared = shared_width(kShared);
  return all({granite_factors(),
              mixed_layers("attention", "mamba"),
              mamba2_sizes({"mamba_n_heads", "mamba_d_head", "mamba_n_groups", "mamba_d_state",
                            "mamba_d_conv"}),
              only("mamba_proj_bias", false),
              {[=](HfImport& k) {
                 k.set(kRotated, k.text(kPositions) == kRope);
                 if (k.uint_or(kCount, 0, limits::kExperts) != 0) {
                   routed.to_gguf(k);
                   shared.to_gguf(k);
                 } else {  // the shared expert is the feed-forward part
                   k.set("feed_forward_length", k.uint(kShared, 1, limits::kFeedForward));
                 }
               },
               [=](HfExport& k) {
                 k.set(kPositions,
                       k.keys.flag_or(kRotated, true) ? HfExport::Json(kRope) : nullptr);
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
              const bool routed = k.has_tensor("blk." + std::to_string(i) + ".ffn_gate_inp.weight");
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

std::vector<HfRule> qwen_rules(std::vector<HfRule> more) {
  std::vector<HfRule> rules = {drop_prediction(), linear_layers(), linear_heads()};
  rules.insert(rules.end(), more.begin(), more.end());
  return rules;
}

std::vector<HfRule> with(std::vector<HfRule> rules, std::vector<HfRule> more) {
  rules.insert(rules.end(), more.begin(), more.end());
  return rules;
}

HfRule qwen_experts() {
  return all({experts("num_experts", "num_experts_per_tok", "moe_intermediate_size"),
              shared_width("shared_expert_intermediate_size"), only("norm_topk_prob", true)});
}

}  // namespace

std::vector<HfClass> hybrid() {
  const auto lfm2 = [](std::string_view name, std::string_view arch, std::string_view type,
                       std::vector<HfRule> rules) {
    return HfClass{
        .name = name,
        .arch = arch,
        .model_type = type,
        .tied = true,
        .by_layer = true,
        .eps = "norm_eps",
        .default_eps = 1e-5F,
        .tensors = join({kLfm2}),
        .rules = with({mixed_layers(kFull, "conv"),
                       integer("shortconv.l_cache", "conv_L_cache", limits::kConvolution),
                       only("conv_bias", false)},
                      std::move(rules)),
        .aliases = {{"block_norm_eps", "norm_eps"}, {"tie_embedding", "tie_word_embeddings"}}};
  };
  const auto qwen = [](std::string_view name, std::string_view arch, std::string_view type,
                       std::vector<HfTensor> tensors, std::vector<HfRule> rules) {
    return HfClass{.name = name,
                   .arch = arch,
                   .model_type = type,
                   .partial_rotation = true,
                   .default_part = 0.25,
                   .tensors = std::move(tensors),
                   .rules = qwen_rules(std::move(rules)),
                   .predicting = "mtp."};
  };
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
        .tensors = join({kNemotronH}),
        .rules = with(nemotron_rules(), std::move(rules)),
        .only_with = pattern,
        .aliases = {{"attention_head_dim", "head_dim"}, {"norm_eps", "layer_norm_epsilon"}}};
  };
  return {
      lfm2("Lfm2ForCausalLM", "lfm2", "lfm2", {lfm2_width()}),
      lfm2("Lfm2MoeForCausalLM", "lfm2moe", "lfm2_moe",
           {experts("num_experts", "num_experts_per_tok", "moe_intermediate_size"),
            integer_or("leading_dense_block_count", "num_dense_layers", 0, limits::kLayers),
            sigmoid_router(),
            only("norm_topk_prob", true),
            only("routed_scaling_factor", 1.0),
            {nullptr,
             [](HfExport& k) { k.set("use_expert_bias", any_has(k, "exp_probs_b.bias")); }}}),
      qwen("Qwen3NextForCausalLM", "qwen3next", "qwen3_next",
           join({kQwen, kAttention, kMlp, kExperts, kQwenShared, kQwen3Next}),
           {qwen_experts(), write_dense_layers()}),
      qwen("Qwen3_5ForCausalLM", "qwen35", "qwen3_5_text", join({kQwen, kAttention, kMlp, kQwen35}),
           {rope_sections()}),
      qwen("Qwen3_5MoeForCausalLM", "qwen35moe", "qwen3_5_moe_text",
           join({kQwen, kAttention, kMlp, kQwen35, kExperts, kQwenShared}),
           {qwen_experts(), rope_sections()}),
      {.name = "GraniteMoeHybridForCausalLM",
       .arch = "granitehybrid",
       .model_type = "granitemoehybrid",
       .by_layer = true,
       .tensors = join({kEnds, kNorms, kPairedAttention, kGraniteMamba, kGraniteMlp,
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
  };
}

}  // namespace cria::hf
