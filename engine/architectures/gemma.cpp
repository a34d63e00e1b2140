// Gemma 1 to 4.
#include <cmath>

#include "engine/architectures/model_builder.h"

namespace cria {
namespace {

constexpr FeedForwardBlock kGeluGate{.activation = {ActivationKind::Gelu}};

float gemma_embedding_scale(const ModelBuilder& m) {
  return std::sqrt(static_cast<float>(m.config.n_embd));
}

// The largest models divide by the root of the embedding's share instead of the head size.
float gemma_attention_scale(const ModelBuilder& m, std::uint32_t layers_of_largest) {
  if (m.config.n_layers != layers_of_largest) return 0;
  return 1 / std::sqrt(static_cast<float>(m.config.n_embd) /
                       static_cast<float>(m.config.n_heads.front()));
}

// Gemma 2 and 3: norms on both sides of each branch.
void gemma_layer(ModelBuilder& m, AttentionBlock attention) {
  attention.branch.post_norm = "post_attention_norm";
  m.attention(m.norm("attn_norm"), attention);
  FeedForwardBlock feed_forward = kGeluGate;
  feed_forward.branch.post_norm = "post_ffw_norm";
  m.feed_forward(m.norm("ffn_norm"), feed_forward);
}

// Gemma 4's sliding-window layers have their own head sizes and rotation.
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

// The KV cache that a layer shares. Published files have unused keys and values for it.
std::uint32_t shared_cache(ModelBuilder& m, std::uint32_t cache) {
  if (cache == kNoIndex)
    m.keys.fail("attention.shared_kv_layers", "no earlier layer of that type has keys to share");
  for (const char* name : {"attn_k", "attn_v"})
    m.weights.ignore(m.prefix() + name,
                     "keys and values are ignored in layers with a shared KV cache");
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

// Returns a value with a run of `size` values for each layer, from the token and its embedding x.
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

// Gemma 1: scaled embeddings and a GELU gate.
void build_gemma(ModelBuilder& m) {
  m.embed(gemma_embedding_scale(m));
  m.layers([&](std::uint32_t) {
    m.attention(m.norm("attn_norm"), {});
    m.feed_forward(m.norm("ffn_norm"), kGeluGate);
  });
  m.output();
}

// Every other layer has a window; scores and logits are capped.
void build_gemma2(ModelBuilder& m) {
  const std::uint32_t window = m.window(4096), rope = m.window_rope(0, true);
  const std::vector<bool> windowed = m.windowed(2);
  const float softcap = m.keys.number_or("attn_logit_softcapping", 50),
              scale = gemma_attention_scale(m, 46);
  m.embed(gemma_embedding_scale(m));
  m.layers([&](std::uint32_t i) {
    gemma_layer(m, {.rope = windowed[i] ? rope : kNoIndex,
                    .window = windowed[i] ? window : 0,
                    .scale = scale,
                    .softcap = softcap});
  });
  m.output(1, m.keys.number_or("final_logit_softcapping", 30));
}

namespace {

// Norms of heads; sliding-window layers, five of six, have a RoPE base of their own.
void gemma3_layers(ModelBuilder& m) {
  // Without the key, or with 0, no layer has a window.
  const std::uint32_t window = m.keys.get_or("attention.sliding_window", 0, 0, limits::kContext);
  // Ollama's converter names the bases differently.
  RopeSpec whole = m.rope_spec();
  if (!m.keys.has("rope.freq_base"))
    whole.base = m.keys.positive_or("rope.global.freq_base", whole.base);
  const std::uint32_t rope =
                          m.window_rope(m.keys.positive_or("rope.local.freq_base", 10000), false),
                      full = m.graph.rope(whole);
  // An encoder's window has two sides, of half the length each.
  const std::uint32_t side = m.causal ? window : window / 2 + 1;
  const std::vector<bool> windowed =
      window != 0 ? m.windowed(6) : std::vector<bool>(m.config.n_layers);
  const float scale = gemma_attention_scale(m, 62);
  m.embed(gemma_embedding_scale(m));
  m.layers([&](std::uint32_t i) {
    gemma_layer(m, {.rope = windowed[i] ? rope : full,
                    .window = windowed[i] ? side : 0,
                    .scale = scale,
                    .qk_norm = QkNorm::PerHead});
  });
}

}  // namespace

void build_gemma3(ModelBuilder& m) {
  gemma3_layers(m);
  m.output(1, m.keys.number_or("final_logit_softcapping", 0));
}

// Gemma 3 as an encoder, and one or two projections of its vectors.
void build_gemma_embedding(ModelBuilder& m) {
  m.encoder();
  gemma3_layers(m);
  ValueId hidden = m.output_norm();
  for (const std::string name : {"dense_2", "dense_3"}) {
    const auto shape = m.weights.shape_of(name + ".weight");
    if (!shape) continue;
    const std::uint64_t rows = shape->back();
    const TensorView& weight = m.weights.matrix(name + ".weight", m.graph.width(hidden), rows);
    hidden = m.product(name, m.graph.matrix(weight), hidden, name);
  }
  m.vectors(hidden);
}

// Two head sizes, shared keys, inputs of each layer, experts in addition to a feed-forward part.
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
  std::uint32_t last_cache[2] = {kNoIndex, kNoIndex};  // index: 0 for full, 1 for windowed layers
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
