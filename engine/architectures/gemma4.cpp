// Gemma 4: heads of two sizes, keys shared among layers, inputs of every layer, experts beside a
// feed-forward network.
#include "engine/architectures/families.h"
#include "engine/architectures/gemma.h"

namespace cria {
namespace {

// Sliding-window layers have sizes and a rotation of their own.
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

// Returns the cache of a layer that uses the keys of others. Published files have its own, too.
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
  m.graph.add(NormOp{{}, m.norm_spec("post_ffw_norm_1", m.config.n_embd)}, "post_ffw_norm_1", sum,
              sum);
  const ValueId router = m.graph.value("router_in", m.config.n_embd);
  NormOp norm{{}, m.norm_spec("", m.config.n_embd, false)};
  norm.norm.weight = m.vector("ffn_gate_inp.scale", m.config.n_embd);
  m.graph.add(norm, "ffn_gate_inp_norm", m.x, router);
  m.graph.add(ScaleOp{{}, 1 / gemma_embedding_scale(m)}, "ffn_gate_inp_scale", kNoValue, router);
  const ValueId routed =
      m.experts_value(m.norm("pre_ffw_norm_2"), router, {.activation = kGeluGate.activation});
  m.add_norm("post_ffw_norm_2", routed, sum);
}

// Returns a value with a run of `size` values for every layer, from the token and its embedding x.
ValueId layer_inputs(ModelBuilder& m, std::uint32_t size) {
  const std::uint64_t n_embd = m.config.n_embd, n_vocab = m.config.n_vocab,
                      width = std::uint64_t{size} * m.config.n_layers;
  Matrix projection =
      m.graph.matrix(m.weights.matrix("per_layer_model_proj.weight", n_embd, width));
  projection.scale = m.weights.scale("per_layer_model_proj.weight", width);
  NormOp norm{{}, m.norm_spec("", size, false)};
  norm.norm.weight = m.weights.vector("per_layer_proj_norm.weight", size);
  const TensorView& table = m.weights.matrix("per_layer_token_embd.weight", width, n_vocab);
  const ValueId inputs = m.product("per_layer_model_proj", projection, m.x, "layer_inputs");
  m.graph.add(ScaleOp{{}, 1 / gemma_embedding_scale(m)}, "per_layer_scale", kNoValue, inputs);
  m.graph.add(norm, "per_layer_proj_norm", inputs, inputs);
  const ValueId tokens = m.graph.value("layer_tokens", width);
  m.graph.add(EmbedOp{{}, std::sqrt(static_cast<float>(size))}, "per_layer_token_embd", kNoValue,
              tokens,
              {Matrix{table, {}, {}, m.weights.scale("per_layer_token_embd.weight", n_vocab)}});
  m.add_scaled("per_layer_add", tokens, inputs, 1);
  m.graph.add(ScaleOp{{}, std::sqrt(0.5F)}, "per_layer_mean", kNoValue, inputs);
  return inputs;
}

// x += norm(proj(gelu(inp_gate x) * the layer's run of the inputs))
void add_layer_input(ModelBuilder& m, ValueId inputs, std::uint32_t run) {
  const ValueId gate =
      m.product("inp_gate", m.matrix("inp_gate", m.config.n_embd, run), m.x, "layer_gate");
  m.graph.add(GateMulOp{{}, kGeluGate.activation, std::size_t{m.layer} * run}, "inp_gate_mul",
              inputs, gate);
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
  const ValueId inputs = run == 0 ? kNoValue : layer_inputs(m, run);
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
      m.graph.add(ScaleOp{{}, m.number("layer_output_scale.weight")}, "layer_output_scale",
                  kNoValue, m.x);
  });
  m.output(1, m.keys.number_or("final_logit_softcapping", 30));
}

}  // namespace cria
