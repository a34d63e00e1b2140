// Classes in which some layers are short convolutions or linear attention, and the rules that all
// classes with recurrent layers share.
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

constexpr HfTensor kKimiLinear[] = {
    {"blk.#.ssm_conv1d_q.weight", "model.layers.#.self_attn.q_conv1d.weight", HfRows::Taps},
    {"blk.#.ssm_conv1d_k.weight", "model.layers.#.self_attn.k_conv1d.weight", HfRows::Taps},
    {"blk.#.ssm_conv1d_v.weight", "model.layers.#.self_attn.v_conv1d.weight", HfRows::Taps},
    {"blk.#.ssm_a", "model.layers.#.self_attn.A_log", HfRows::HeadDecays},
    {"blk.#.ssm_dt.bias", "model.layers.#.self_attn.dt_bias"},
    {"blk.#.ssm_beta", "model.layers.#.self_attn.b_proj"},
    {"blk.#.ssm_f_a", "model.layers.#.self_attn.f_a_proj"},
    {"blk.#.ssm_f_b", "model.layers.#.self_attn.f_b_proj"},
    {"blk.#.ssm_g_a", "model.layers.#.self_attn.g_a_proj"},
    {"blk.#.ssm_g_b", "model.layers.#.self_attn.g_b_proj"},
    {"blk.#.ssm_norm", "model.layers.#.self_attn.o_norm"},
    {"blk.#.exp_probs_b.bias", "model.layers.#.block_sparse_moe.gate.e_score_correction_bias"},
    {"blk.#.ffn_gate_shexp", "model.layers.#.block_sparse_moe.shared_experts.gate_proj"},
    {"blk.#.ffn_up_shexp", "model.layers.#.block_sparse_moe.shared_experts.up_proj"},
    {"blk.#.ffn_down_shexp", "model.layers.#.block_sparse_moe.shared_experts.down_proj"}};

constexpr std::string_view kTypes = "layer_types", kFull = "full_attention";

std::vector<std::string> layer_types(const HfImport& k) {
  const SortedJson* const list = k.find(kTypes);
  if (list == nullptr || !list->is_array() || list->size() != k.config.n_layers)
    k.fail(kTypes, "expected a list of one type per layer");
  std::vector<std::string> types;
  for (const SortedJson& type : *list) {
    if (!type.is_string()) k.fail(kTypes, "expected strings");
    types.push_back(type.get<std::string>());
  }
  return types;
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
            Json types = Json::array();
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
          const auto read = [&](const char* key) { return k.uint(key, 1, limits::kStateSize); };
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

// Images give positions of three axes; text has equal ones. Other readers require the key.
HfRule rope_sections() {
  constexpr std::string_view kSections = "rope.dimension_sections", kKey = "mrope_section";
  return {[=](HfImport& k) {
            const SortedJson* rope = k.find("rope_parameters");
            if (rope == nullptr) rope = k.find("rope_scaling");
            std::vector<std::int32_t> sections = {11, 11, 10};  // the class's default
            if (rope != nullptr && rope->is_object() && rope->contains(kKey)) {
              sections.clear();
              for (const SortedJson& n : (*rope)[std::string(kKey)])
                sections.push_back(n.is_number_unsigned() ? n.get<std::int32_t>() : 0);
            }
            sections.resize(4);
            k.set(kSections, GgufArray::of(sections));
          },
          [=](HfExport& k) { static_cast<void>(k.keys.any(kSections)); }};
}

// "linear_attn_config" numbers layers from 1.
HfRule kimi_layers() {
  constexpr const char *kConfig = "linear_attn_config", *kFullLayers = "full_attn_layers",
                       *kLinearLayers = "kda_layers", *kHeadDim = "head_dim", *kHeads = "num_heads",
                       *kTaps = "short_conv_kernel_size";
  constexpr std::string_view kGgufDim = "kda.head_dim", kGgufTaps = "ssm.conv_kernel";
  return {[=](HfImport& k) {
            const SortedJson* const own = k.find(kConfig);
            if (own == nullptr || !own->is_object()) k.fail(kConfig, "expected an object");
            const JsonKeys linear(*own, k.file(), kConfig);
            if (linear.uint(kHeads, 1, limits::kHeads) != k.config.n_heads)
              linear.fail(kHeads, "expected the same as num_attention_heads");
            k.set(kGgufDim, linear.uint(kHeadDim, 1, limits::kStateSize));
            k.set(kGgufTaps, linear.uint(kTaps, 1, limits::kConvolution));
            const SortedJson* const full = linear.find(kFullLayers);
            if (full == nullptr || !full->is_array())
              linear.fail(kFullLayers, "expected a list of layers");
            std::vector<std::uint32_t> heads;
            for (std::uint32_t i = 1; i <= k.config.n_layers; ++i)
              heads.push_back(std::ranges::count(*full, SortedJson(i)) != 0 ? 1 : 0);
            k.set(kKvHeads, GgufArray::of(heads));
          },
          [=](HfExport& k) {
            Json linear = {{kHeads, k.config.n_heads},
                           {kHeadDim, k.keys.get(kGgufDim, 1, limits::kStateSize)},
                           {kTaps, k.keys.get(kGgufTaps, 1, limits::kConvolution)},
                           {kFullLayers, Json::array()},
                           {kLinearLayers, Json::array()}};
            const auto heads = k.keys.per_layer(kKvHeads, 0, limits::kHeads);
            for (std::uint32_t i = 0; i < k.config.n_layers; ++i)
              linear[heads[i] != 0 ? kFullLayers : kLinearLayers].push_back(i + 1);
            k.set(kConfig, std::move(linear));
          }};
}

HfRule qwen_experts() {
  return all({experts("num_experts", "num_experts_per_tok", "moe_intermediate_size"),
              shared_width("shared_expert_intermediate_size"), only("norm_topk_prob", true)});
}

}  // namespace

// Returns the KV heads of all layers that have some.
std::uint32_t common_kv_heads(const HfExport& k, const std::vector<std::uint32_t>& heads) {
  const std::uint32_t most = *std::ranges::max_element(heads);
  if (most == 0 || std::ranges::any_of(heads, [&](auto n) { return n != 0 && n != most; }))
    k.fail(kKvHeads, "expected the same number in all layers with attention");
  return most;
}

bool any_has(const HfExport& k, const std::string& tensor) {
  for (std::uint32_t i = 0; i < k.config.n_layers; ++i)
    if (k.has_tensor(i, tensor)) return true;
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
            Json types = Json::array();
            for (const std::uint32_t n : heads) types.push_back(n == 0 ? recurrent : attention);
            k.set("num_key_value_heads", common_kv_heads(k, heads));
            k.set(kTypes, std::move(types));
          }};
}

HfRule shared_width(std::string_view key) {
  constexpr std::string_view kWidth = "expert_shared_feed_forward_length";
  return {[=](HfImport& k) { k.set(kWidth, k.uint_or(key, 0, limits::kFeedForward)); },
          [=](HfExport& k) {
            static_cast<void>(k.keys.has(kWidth));
            k.set(key, k.cols_of("ffn_down_shexp"));
          }};
}

std::vector<HfRule> with(std::vector<HfRule> rules, std::vector<HfRule> more) {
  rules.insert(rules.end(), more.begin(), more.end());
  return rules;
}

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
    return HfClass{
        .name = name,
        .arch = arch,
        .model_type = type,
        .partial_rotation = true,
        .default_part = 0.25,
        .tensors = std::move(tensors),
        .rules = with({drop_prediction(), linear_layers(), linear_heads()}, std::move(rules)),
        .predicting = "mtp."};
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
      {.name = "KimiLinearForCausalLM",
       .arch = "kimi-linear",
       .model_type = "kimi_linear",
       .latent = true,
       .split_latent = true,
       .by_layer = true,
       .default_eps = 1e-5F,
       .tensors = join({kEnds, kNorms, kAttention, kLatent, kKimiLinear, kMlp, kMixtralExperts}),
       .rules = {latent_attention(), kimi_layers(), routed_experts(2), expert_groups(),
                 only("mla_use_nope", true, false),
                 renamed({{"n_routed_experts", "num_experts"},
                          {"num_experts_per_tok", "num_experts_per_token"},
                          {"n_shared_experts", "num_shared_experts"},
                          {"norm_topk_prob", "moe_renormalize"},
                          {"n_group", "num_expert_group"},
                          {"max_position_embeddings", "model_max_length"}}),
                 only_text("moe_router_activation_func", "sigmoid"), write("moe_layer_freq", 1),
                 write("use_grouped_topk", true)},
       .aliases = {{"num_experts", "n_routed_experts"},
                   {"num_experts_per_token", "num_experts_per_tok"},
                   {"num_shared_experts", "n_shared_experts"},
                   {"moe_renormalize", "norm_topk_prob"},
                   {"num_expert_group", "n_group"},
                   {"model_max_length", "max_position_embeddings"}}},
  };
}

}  // namespace cria::hf
