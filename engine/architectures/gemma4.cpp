// Gemma 4: two sizes of heads, keys shared among layers, inputs of every layer, experts beside a
// feed-forward.
#include "engine/architectures/families.h"
#include "engine/architectures/gemma.h"

namespace cria {
namespace {

// What windowed layers have in the place of the usual sizes and rotation.
AttentionBlock windowed_attention(ModelBuilder& m, AttentionBlock a) {
  a.window = m.window();
  a.dim_k = m.keys.get_or("attention.key_length_swa", m.config.head_dim_k, 1, limits::kEmbedding);
  a.dim_v = m.keys.get_or("attention.value_length_swa", m.config.head_dim_v, 1, limits::kEmbedding);
  const RopeSpec rope{.n_rot = m.keys.get_or("rope.dimension_count_swa", a.dim_k, 2, a.dim_k),
                      .base = m.keys.positive_or("rope.freq_base_swa", m.config.rope_base)};
  if (rope.n_rot % 2 != 0)
    m.keys.fail("rope.dimension_count_swa", "odd RoPE dimension: expected an even number");
  a.rope = m.graph.rope(rope);
  return a;
}

// Of a layer that uses the keys of others. Its own are in the published files all the same.
std::uint32_t shared_cache(ModelBuilder& m, std::uint32_t cache) {
  if (cache == kNoIndex)
    m.keys.fail("attention.shared_kv_layers",
                "no layer of that kind has keys that could be shared");
  for (const char* name : {"attn_k", "attn_v"})
    m.weights.ignore(m.prefix() + name,
                     "keys and values of layers that use those of others are left out");
  return cache;
}

void add_experts(ModelBuilder& m, ValueId sum) {
  m.graph.add(Op::Norm, "post_ffw_norm_1", sum, sum).norm =
      m.norm_spec("post_ffw_norm_1", m.config.n_embd);
  const ValueId router = m.graph.value("router_in", m.config.n_embd);
  NormSpec& norm = m.graph.add(Op::Norm, "ffn_gate_inp_norm", m.x, router).norm;
  norm = m.norm_spec("", m.config.n_embd, false);
  norm.weight = m.vector("ffn_gate_inp.scale", m.config.n_embd);
  m.graph.add(Op::Scale, "ffn_gate_inp_scale", kNoValue, router).scale =
      1 / gemma_embedding_scale(m);
  const ValueId routed =
      m.experts_value(m.norm("pre_ffw_norm_2"), router, {.activation = kGeluGate.activation});
  m.add_norm("post_ffw_norm_2", routed, sum);
}

// x += norm(proj(gelu(inp_gate x) * the layer's run of the inputs))
void add_layer_input(ModelBuilder& m, ValueId inputs, std::uint32_t run) {
  const ValueId gate =
      m.product("inp_gate", m.matrix("inp_gate", m.config.n_embd, run), m.x, "layer_gate");
  Node& product = m.graph.add(Op::GateMul, "inp_gate_mul", inputs, gate);
  product.activation = kGeluGate.activation;
  product.in_offset = std::size_t{m.layer} * run;
  m.join("proj", m.matrix("proj", run, m.config.n_embd), gate, {"post_norm"});
}

}  // namespace

void build_gemma4(ModelBuilder& m) {
  const std::vector<bool> windowed = m.keys.flags_per_layer("attention.sliding_window_pattern");
  if (windowed.empty())
    m.keys.fail("attention.sliding_window_pattern", "expected an array of bool, one per layer");
  const AttentionBlock full{.rope = m.graph.rope(m.rope_spec()),
                            .scale = 1,
                            .qk_norm = QkNorm::PerHead,
                            .v_norm = true,
                            .branch = {"post_attention_norm"}};
  const AttentionBlock window = windowed_attention(m, full);
  const std::uint32_t layers = m.config.n_layers,
                      own = layers - m.keys.get_or("attention.shared_kv_layers", 0, 0, layers - 1);
  const std::uint32_t run =
      m.keys.get_or("embedding_length_per_layer_input", 0, 0, limits::kEmbedding);

  m.embed(gemma_embedding_scale(m));
  const ValueId inputs = run == 0 ? kNoValue : m.layer_inputs(run);
  std::uint32_t last_cache[2] = {kNoIndex, kNoIndex};  // of full and of windowed layers
  m.layers([&](std::uint32_t i) {
    AttentionBlock attention = windowed[i] ? window : full;
    std::uint32_t& cache = last_cache[windowed[i] ? 1 : 0];
    if (i >= own) attention.shared_cache = shared_cache(m, cache);
    cache = m.attention(m.norm("attn_norm"), attention);
    const ValueId branch = m.feed_forward_value(m.norm("ffn_norm"), kGeluGate, "", "branch");
    if (m.has_experts()) add_experts(m, branch);
    m.add_norm("post_ffw_norm", branch, m.x);
    if (run != 0) add_layer_input(m, inputs, run);
    if (m.has("layer_output_scale"))
      m.graph.add(Op::Scale, "layer_output_scale", kNoValue, m.x).scale =
          m.number("layer_output_scale.weight");
  });
  m.output(1, m.keys.number_or("final_logit_softcapping", 30));
}

}  // namespace cria
