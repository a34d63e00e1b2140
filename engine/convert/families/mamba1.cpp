// Mamba 1, and Jamba, some of whose layers have it.
#include <algorithm>

#include "engine/convert/families/families.h"
#include "engine/convert/hf_rules.h"

namespace cria::hf {
namespace {

constexpr HfTensor kMamba1[] = {{"blk.#.ssm_x", "backbone.layers.#.mixer.x_proj"},
                                {"blk.#.ssm_dt", "backbone.layers.#.mixer.dt_proj"}};
constexpr HfTensor kJamba[] = {
    {"blk.#.ffn_norm", "model.layers.#.pre_ff_layernorm"},
    {"blk.#.ssm_x", "model.layers.#.mamba.x_proj"},
    {"blk.#.ssm_dt", "model.layers.#.mamba.dt_proj"},
    {"blk.#.ssm_dt_norm", "model.layers.#.mamba.dt_layernorm"},
    {"blk.#.ssm_b_norm", "model.layers.#.mamba.b_layernorm"},
    {"blk.#.ssm_c_norm", "model.layers.#.mamba.c_layernorm"},
    {"blk.#.ffn_gate_inp", "model.layers.#.feed_forward.router"},
    {"blk.#.ffn_gate_exps", "model.layers.#.feed_forward.experts.%.gate_proj"},
    {"blk.#.ffn_up_exps", "model.layers.#.feed_forward.experts.%.up_proj"},
    {"blk.#.ffn_down_exps", "model.layers.#.feed_forward.experts.%.down_proj"}};

struct Mamba1Keys {
  const char *taps, *state, *expand, *rank, *inner;  ///< inner: null: always expand · width
};

// Mamba-1. The rank of step sizes may be "auto".
HfRule mamba1_sizes(const Mamba1Keys& names) {
  return all({integer("ssm.conv_kernel", names.taps, limits::kConvolution),
              integer("ssm.state_size", names.state, limits::kStateSize),
              {[=](HfImport& k) {
                 const std::uint64_t expanded = std::uint64_t{k.config.n_embd} *
                                                k.uint_or(names.expand, 2, limits::kEmbedding);
                 const std::uint64_t inner = names.inner != nullptr && k.has(names.inner)
                                                 ? k.uint(names.inner, 1, limits::kFeedForward)
                                                 : expanded;
                 if (inner > limits::kFeedForward) k.fail(names.expand, "too large");
                 k.set("ssm.inner_size", static_cast<std::uint32_t>(inner));
                 const SortedJson* const rank = k.find(names.rank);
                 k.set("ssm.time_step_rank", rank == nullptr || rank->is_string()
                                                 ? (k.config.n_embd + 15) / 16
                                                 : k.uint(names.rank, 1, limits::kFeedForward));
               },
               [=](HfExport& k) {
                 const std::uint32_t inner = k.keys.get("ssm.inner_size", 1, limits::kFeedForward);
                 if (names.inner != nullptr) k.set(names.inner, inner);
                 if (inner % k.config.n_embd != 0 && names.inner == nullptr)
                   k.fail("ssm.inner_size", "expected a multiple of the width");
                 k.set(names.expand, std::max(1U, inner / k.config.n_embd));
                 k.set(names.rank, k.keys.get("ssm.time_step_rank", 1, limits::kFeedForward));
                 static_cast<void>(k.keys.has("ssm.group_count"));  // means nothing here
               }}});
}

// Falcon Mamba norms step sizes and inputs, without weights.
HfRule normed_inputs(bool normed) {
  constexpr std::string_view kNormed = "ssm.dt_b_c_rms";
  return {[=](HfImport& k) {
            if (normed) k.set(kNormed, true);
          },
          [=](HfExport& k) {
            if (k.keys.flag_or(kNormed, false) != normed)
              k.fail(kNormed, normed ? "expected true" : "expected false");
          }};
}

// Layers of a kind come one every `period`, from the `offset` on.
struct Periodic {
  std::string_view period, offset;
  std::uint32_t usual_period, usual_offset;

  std::vector<bool> read(const HfImport& k) const {
    const std::uint32_t step = k.uint_or(period, usual_period, limits::kLayers),
                        first = k.uint_or(offset, usual_offset, limits::kLayers);
    if (step == 0) k.fail(period, "expected 1 or more");
    std::vector<bool> layers;
    for (std::uint32_t i = 0; i < k.config.n_layers; ++i) layers.push_back(i % step == first);
    return layers;
  }
  void write(HfExport& k, std::string_view suffix, const std::vector<bool>& layers) const {
    const auto first = std::ranges::find(layers, true),
               next = first == layers.end() ? first : std::find(first + 1, layers.end(), true);
    const std::ptrdiff_t begin = first - layers.begin(),
                         step = next == layers.end() ? std::ssize(layers) : next - first;
    for (std::ptrdiff_t i = 0; i < std::ssize(layers); ++i)
      if (layers[static_cast<std::size_t>(i)] != (i % step == begin))
        k.fail(suffix, "expected one layer of each period");
    k.set(period, step);
    k.set(offset, begin);
  }
};

// Says which layers have attention and which have experts.
HfRule jamba_layers() {
  constexpr Periodic kAttentive{"attn_layer_period", "attn_layer_offset", 8, 4},
      kRouted{"expert_layer_period", "expert_layer_offset", 2, 1};
  constexpr std::string_view kCount = "num_experts", kUsed = "num_experts_per_tok";
  const HfRule routed = experts(kCount, kUsed, "intermediate_size");
  return {[=](HfImport& k) {
            std::vector<std::uint32_t> heads;
            for (const bool attentive : kAttentive.read(k))
              heads.push_back(attentive ? k.config.n_kv_heads : 0);
            k.set(kKvHeads, GgufArray::of(heads));
            if (k.uint_or(kCount, 16, limits::kExperts) > 1) routed.to_gguf(k);
          },
          [=](HfExport& k) {
            const auto heads = k.keys.per_layer(kKvHeads, 0, limits::kHeads);
            std::vector<bool> attentive, with_experts;
            for (std::uint32_t i = 0; i < k.config.n_layers; ++i) {
              attentive.push_back(heads[i] != 0);
              with_experts.push_back(k.has_tensor(i, "ffn_gate_inp.weight"));
            }
            k.set("num_key_value_heads", common_kv_heads(k, heads));
            kAttentive.write(k, kKvHeads, attentive);
            if (k.keys.get_or("expert_count", 0, 0, limits::kExperts) > 1) {
              routed.to_json(k);
              kRouted.write(k, "expert_count", with_experts);
            } else {
              for (const std::string_view key : {kCount, kUsed}) k.set(key, 1);
            }
          }};
}

}  // namespace

HfRule conv_bias(std::string_view key) {
  return {nullptr, [=](HfExport& k) { k.set(key, any_has(k, "ssm_conv1d.bias")); }};
}

HfClass mamba_class(std::string_view name, std::string_view arch, std::string_view type, bool tied,
                    std::vector<HfTensor> tensors, std::vector<HfRule> rules) {
  return HfClass{
      .name = name,
      .arch = arch,
      .model_type = type,
      .tied = tied,
      .attention = false,
      .by_layer = true,
      .eps = "layer_norm_epsilon",
      .default_eps = 1e-5F,
      .tensors = std::move(tensors),
      .rules = with(std::move(rules), {conv_bias("use_conv_bias"), only("use_bias", false)})};
}

std::vector<HfClass> mamba1() {
  constexpr Mamba1Keys kMamba1Keys{"conv_kernel", "state_size", "expand", "time_step_rank",
                                   "intermediate_size"};
  return {
      {.name = "JambaForCausalLM",
       .arch = "jamba",
       .model_type = "jamba",
       .by_layer = true,
       .tensors = join({kJambaLayers, kJamba, kMambaLayers, kAttention}),
       .rules = {jamba_layers(),
                 mamba1_sizes(
                     {"mamba_d_conv", "mamba_d_state", "mamba_expand", "mamba_dt_rank", nullptr}),
                 conv_bias("mamba_conv_bias"), only("mamba_proj_bias", false)}},
      mamba_class("MambaForCausalLM", "mamba", "mamba", true, join({kMamba, kMamba1}),
                  {mamba1_sizes(kMamba1Keys), normed_inputs(false)}),
      mamba_class("FalconMambaForCausalLM", "mamba", "falcon_mamba", true, join({kMamba, kMamba1}),
                  {mamba1_sizes(kMamba1Keys), normed_inputs(true)}),
  };
}

}  // namespace cria::hf
