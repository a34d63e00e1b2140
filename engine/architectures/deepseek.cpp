// DeepSeek 2 and 3 (and Kimi, GLM 4.7 Flash): latent attention.
#include <cmath>

#include "engine/architectures/families.h"
#include "engine/architectures/hf_keys.h"
#include "engine/architectures/model_builder.h"

namespace cria {

void build_deepseek2(ModelBuilder& m) {
  // YaRN scales scores instead of the rotated values.
  RopeSpec rope = m.rope_spec();
  rope.magnitude = m.config.rope_attn_factor;
  const bool yarn = rope.scaling == RopeScaling::Yarn;
  const double growth = yarn ? 1 + double{m.config.yarn_log_multiplier} * std::log(rope.factor) : 1;
  const std::uint32_t head =
      m.keys.get_or("attention.key_length_mla", m.config.head_dim_k, 1, limits::kEmbedding);
  const auto scale = static_cast<float>(growth * growth / std::sqrt(static_cast<double>(head)));
  // Files of GLM 4.7 Flash may not say what their router does.
  const bool flash = m.config.n_layers == 47 || m.config.n_layers == 48;
  const ExpertsBlock experts = m.experts_by_keys(flash ? Gating::Sigmoid : Gating::Softmax);
  // Mistral Large 3: queries grow with the position.
  Temperature temperature{.scale = m.keys.number_or("attention.temperature_scale", 0)};
  if (temperature.scale != 0)
    temperature.length = m.keys.get("attention.temperature_length", 1, limits::kContext);
  m.embed();
  m.leave_out_prediction();
  m.layers([&](std::uint32_t) {
    m.latent_attention(m.norm("attn_norm"), scale, rope, temperature);
    const ValueId g = m.norm("ffn_norm");
    m.has_experts() ? m.experts(g, experts) : m.feed_forward(g, {});
  });
  m.output();
}

namespace {

// "topk_method" of version 2.
bool is_grouped(HfKeys& k) {
  constexpr const char *kKey = "topk_method", *kGreedy = "greedy",
                       *kGrouped = "group_limited_greedy";
  if (k.exporting()) {
    const bool grouped = k.gguf().get_or("expert_group_count", 1, 0, limits::kExperts) > 1;
    k.say(kKey, grouped ? kGrouped : kGreedy);
    return grouped;
  }
  const std::string method = k.text_or(kKey, kGreedy);
  if (method != kGreedy && method != kGrouped)
    k.fail(kKey,
           "not supported here: expected greedy or group_limited_greedy, got '" + method + "'");
  return method == kGrouped;
}

// What copy_routed_experts() takes for granted. Some readers take a missing key for softmax.
void expect_scores(HfKeys& k, const std::string& function) {
  constexpr const char* kKey = "scoring_func";
  if (k.exporting()) return k.say(kKey, function);
  if (const std::string got = k.text_or(kKey, function); got != function)
    k.fail(kKey, "not supported here: expected " + function + ", got '" + got + "'");
}

}  // namespace

void hf_deepseek2(HfForms& forms) {
  static constexpr HfTensor kLatent[] = {
      {"blk.#.attn_q", "model.layers.#.self_attn.q_proj"},
      {"blk.#.attn_q_a", "model.layers.#.self_attn.q_a_proj"},
      {"blk.#.attn_q_a_norm", "model.layers.#.self_attn.q_a_layernorm"},
      {"blk.#.attn_q_b", "model.layers.#.self_attn.q_b_proj"},
      {"blk.#.attn_kv_a_mqa", "model.layers.#.self_attn.kv_a_proj_with_mqa"},
      {"blk.#.attn_kv_a_norm", "model.layers.#.self_attn.kv_a_layernorm"},
      {"blk.#.attn_kv_b", "model.layers.#.self_attn.kv_b_proj"},
      {"blk.#.attn_k_b", "model.layers.#.self_attn.kv_b_proj", HfRows::LatentKeys},
      {"blk.#.attn_v_b", "model.layers.#.self_attn.kv_b_proj", HfRows::LatentValues},
      {"blk.#.attn_output", "model.layers.#.self_attn.o_proj"}};
  HfForm form{{.name = "DeepseekV2ForCausalLM",
               .model_type = "deepseek_v2",
               .latent = true,
               .mscale = true},
              join({kHfEnds, kHfNorms, kLatent, kHfMlp, kHfExperts, kHfSharedExperts}),
              [](HfKeys& k) {
                k.leave_out_prediction();
                k.copy_latent_attention();
                expect_scores(k, "softmax");
                k.copy_routed_experts(1, is_grouped(k));
              }};
  forms.push_back(form);
  form.model_class.name = "DeepseekV3ForCausalLM";
  form.model_class.model_type = "deepseek_v3";
  form.predicting_layers = true;
  form.keys = [](HfKeys& k) {
    k.leave_out_prediction();
    k.copy_latent_attention();
    if (k.exporting()) k.say("topk_method", "noaux_tc");
    k.only("rope_interleave", true);
    expect_scores(k, "sigmoid");
    k.copy_routed_experts(2);
  };
  forms.push_back(form);
}

}  // namespace cria
