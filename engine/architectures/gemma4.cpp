// Gemma 4: two sizes of heads, keys shared among the last layers, embeddings for every layer, experts beside a
// feed-forward network.
#include <cmath>

#include "engine/architectures/families.h"
#include "engine/architectures/model_builder.h"

namespace cria {
namespace {

constexpr FeedForward kGelu{.activation = {ActivationKind::Gelu}};

void feed_forward(ModelBuilder& m) {
  const ValueId plain = m.feed_forward_value(m.norm("ffn_norm"), kGelu, "", "branch");
  if (m.has_experts()) {
    m.graph.add(Op::Norm, "post_ffw_norm_1", plain, plain).norm =
        m.norm_spec("post_ffw_norm_1", m.config.n_embd);
    NormSpec routed = m.norm_spec("", m.config.n_embd, false);
    routed.weight = m.vector("ffn_gate_inp.scale", m.config.n_embd);
    const ValueId router = m.graph.value("router_in", m.config.n_embd);
    m.graph.add(Op::Norm, "ffn_gate_inp_norm", m.x, router).norm = routed;
    m.graph.add(Op::Scale, "ffn_gate_inp_scale", kNoValue, router).scale =
        1 / std::sqrt(static_cast<float>(m.config.n_embd));
    const ValueId sum = m.experts_value(m.norm("pre_ffw_norm_2"), router, {.activation = kGelu.activation});
    m.add_norm("post_ffw_norm_2", sum, plain);
  }
  m.add_norm("post_ffw_norm", plain, m.x);
}

}  // namespace

void build_gemma4(ModelBuilder& m) {
  const std::uint32_t window = m.window(), layers = m.config.n_layers;
  const std::vector<bool> windowed = m.keys.flags_per_layer("attention.sliding_window_pattern");
  if (windowed.empty())
    m.keys.fail("attention.sliding_window_pattern", "expected an array of bool, one per layer");
  const auto size = [&](const char* key, std::uint32_t usual) {
    return m.keys.get_or(key, usual, 1, limits::kEmbedding);
  };
  const std::uint32_t dim_k = size("attention.key_length_swa", m.config.head_dim_k);
  const std::uint32_t dim_v = size("attention.value_length_swa", m.config.head_dim_v);
  RopeSpec rope = m.rope_spec();
  const std::uint32_t full_rope = m.graph.rope(rope);
  rope = {.n_rot = m.keys.get_or("rope.dimension_count_swa", dim_k, 2, dim_k),
          .base = m.keys.positive_or("rope.freq_base_swa", m.config.rope_base)};
  if (rope.n_rot % 2 != 0)
    m.keys.fail("rope.dimension_count_swa", "odd RoPE dimension: expected an even number");
  const std::uint32_t window_rope = m.graph.rope(rope);
  const std::uint32_t own = layers - m.keys.get_or("attention.shared_kv_layers", 0, 0, layers - 1);
  const std::uint32_t run = m.keys.get_or("embedding_length_per_layer_input", 0, 0, limits::kEmbedding);

  m.embed(std::sqrt(static_cast<float>(m.config.n_embd)));
  const ValueId inputs = run == 0 ? kNoValue : m.layer_inputs(run);
  std::uint32_t last_cache[2] = {kNoIndex, kNoIndex};  // of full and of windowed layers
  m.layers([&](std::uint32_t i) {
    std::uint32_t& cache = last_cache[windowed[i] ? 1 : 0];
    if (i >= own && cache == kNoIndex)
      m.keys.fail("attention.shared_kv_layers", "no layer of that kind has keys that could be shared");
    Attention a{.rope = full_rope, .scale = 1, .qk_norm = QkNorm::PerHead, .v_norm = true};
    if (windowed[i]) a.rope = window_rope, a.window = window, a.dim_k = dim_k, a.dim_v = dim_v;
    if (i >= own) a.shared_cache = cache;
    a.branch.post_norm = "post_attention_norm";
    cache = m.attention(m.norm("attn_norm"), a);
    feed_forward(m);
    if (run != 0) {
      const ValueId gate =
          m.product("inp_gate", m.matrix("inp_gate", m.config.n_embd, run), m.x, "layer_gate");
      Node& product = m.graph.add(Op::GateMul, "inp_gate_mul", inputs, gate);
      product.activation = kGelu.activation;
      product.in_offset = std::size_t{i} * run;
      m.join("proj", m.matrix("proj", run, m.config.n_embd), gate, {"post_norm"});
    }
    if (m.has("layer_output_scale"))
      m.graph.add(Op::Scale, "layer_output_scale", kNoValue, m.x).scale =
          m.number("layer_output_scale.weight");
  });
  m.output(1, m.keys.number_or("final_logit_softcapping", 30));
}

}  // namespace cria
