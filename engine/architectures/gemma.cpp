// Gemma 1 to 4, and 3n.
#include <algorithm>
#include <cmath>
#include <limits>

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

// gelu(inp_gate x) * the layer's run of the inputs
ValueId gated_layer_input(ModelBuilder& m, ValueId inputs, std::uint32_t run) {
  const ValueId gate =
      m.product("inp_gate", m.matrix("inp_gate", m.config.n_embd, run), m.x, "layer_gate");
  m.graph.add(GateMulOp{{}, kGeluGate.activation, std::size_t{m.layer} * run}, "inp_gate_mul",
              inputs, gate);
  return gate;
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
    if (run != 0)
      m.join("proj", m.matrix("proj", run, m.config.n_embd), gated_layer_input(m, inputs, run),
             {"post_norm"});
    if (m.has("layer_output_scale"))
      m.graph.add(ScaleOp{{}, m.number("layer_output_scale.weight")}, "layer_output_scale",
                  kNoValue, m.x);
  });
  m.output(1, m.keys.number_or("final_logit_softcapping", 30));
}

namespace {

// Gemma 3n's residual stream is several parallel ones ("AltUp", arXiv 2301.13310), side by side in
// one value. Layers compute on one of them, which predicts and corrects the others.
class Streams {
 public:
  Streams(ModelBuilder& m, std::uint32_t n, std::uint32_t active)
      : m_(m),
        n_(n),
        width_(m.config.n_embd),
        active_(active),
        now_(m.graph.value("streams", n * width_)),
        predicted_(m.graph.value("streams_predicted", n * width_)),
        modes_(m.graph.value("stream_modes", n)) {}

  // The first is x; the others are projections of x with its magnitude.
  void begin() {
    put(m_.x, 0);
    for (std::uint32_t k = 1; k < n_; ++k) {
      const ValueId one = m_.product("altup_proj", part("altup_proj", k), m_.x, "stream");
      m_.graph.add(MatchRmsOp{}, "altup_magnitude", m_.x, one);
      put(one, k);
    }
  }

  // x = the prediction of the active stream.
  void predict() {
    take(now_, active_, m_.x);
    m_.graph.add(MixOp{{}, n_, now_, coefficients("altup_predict_coef", n_ * n_), 0},
                 "altup_predict", now_, predicted_);
    take(predicted_, active_, m_.x);
  }

  // Corrects all predictions by what the layer has added to the active one, in x.
  void correct() {
    const ValueId by = coefficients("altup_correct_coef", n_),
                  before = m_.graph.value("stream", width_);
    take(predicted_, active_, before);
    m_.add_scaled("altup_change", before, m_.x, -1);
    m_.graph.add(MixOp{{}, n_, m_.x, by, 1}, "altup_correct", predicted_, now_);
  }

  // All but the first += norm(proj(gelu(inp_gate (the active one, scaled)) * the layer's inputs))
  void add_layer_input(ValueId inputs, std::uint32_t run) {
    take(now_, active_, m_.x);
    m_.graph.add(ScaleOp{{}, 1, m_.vector("altup_correct_scale.weight", width_)},
                 "altup_correct_scale", kNoValue, m_.x);
    const ValueId gate = gated_layer_input(m_, inputs, run),
                  added = m_.product("proj", m_.matrix("proj", run, width_), gate, "branch");
    m_.graph.add(NormOp{{}, m_.norm_spec("post_norm", width_)}, "post_norm", added, added);
    m_.graph.add(AddOp{{}, 1, width_}, "layer_input_add", added, now_);
  }

  // x = the mean of the first and of projections of the others with the active one's magnitude.
  void end() {
    const ValueId active = m_.graph.value("stream_active", width_),
                  one = m_.graph.value("stream", width_);
    take(now_, active_, active);
    take(now_, 0, m_.x);
    for (std::uint32_t k = 1; k < n_; ++k) {
      take(now_, k, one);
      const ValueId back =
          m_.product("altup_unembd_proj", part("altup_unembd_proj", k), one, "branch");
      m_.graph.add(MatchRmsOp{}, "altup_unembd_magnitude", active, back);
      m_.add_scaled("altup_unembd_add", back, m_.x, 1);
    }
    m_.graph.add(ScaleOp{{}, 1 / static_cast<float>(n_)}, "altup_mean", kNoValue, m_.x);
  }

 private:
  // Returns one of n - 1 stacked matrices, that of stream k.
  Matrix part(const std::string& name, std::uint32_t k) {
    const std::string tensor = name + ".weight";
    Matrix all = m_.graph.matrix(m_.weights.matrices(tensor, width_, width_, n_ - 1));
    all.scale = m_.weights.scale(tensor, width_, n_ - 1);
    return rows_of(all, (k - 1) * width_, width_);
  }

  // A product of tanh(altup_router norm(x) / width).
  ValueId coefficients(const std::string& name, std::size_t rows) {
    const ValueId normed = m_.norm("altup_router_norm");
    m_.graph.add(MatMulOp{{}, false, 1 / static_cast<float>(width_), 1}, "altup_router", normed,
                 modes_, {m_.matrix("altup_router", width_, n_)});
    return m_.product(name, m_.matrix(name, n_, rows), modes_, name);
  }

  void take(ValueId from, std::uint32_t k, ValueId to) {
    m_.graph.add(TakeOp{{}, 1, width_, 0, k * width_, 0}, "altup_take", from, to);
  }
  void put(ValueId from, std::uint32_t k) {
    m_.graph.add(TakeOp{{}, 1, width_, 0, 0, k * width_}, "altup_put", from, now_);
  }

  ModelBuilder& m_;
  const std::uint32_t n_;
  const std::size_t width_;
  const std::uint32_t active_;
  const ValueId now_, predicted_, modes_;
};

// in + norm(laurel_r laurel_l in): a bypass of low rank.
ValueId low_rank_bypass(ModelBuilder& m, ValueId in) {
  const std::uint64_t n_embd = m.config.n_embd;
  const auto shape = m.weights.shape_of(m.prefix() + "laurel_l.weight");
  const std::uint64_t rank = shape && shape->size() > 1 ? shape->back() : 1;
  const ValueId low = m.product("laurel_l", m.matrix("laurel_l", n_embd, rank), in, "laurel_low"),
                out = m.product("laurel_r", m.matrix("laurel_r", rank, n_embd), low, "laurel");
  m.graph.add(NormOp{{}, m.norm_spec("laurel_post_norm", n_embd)}, "laurel_post_norm", out, out);
  m.add_scaled("laurel_add", in, out, 1);
  return out;
}

// A feed-forward part most of whose gates are 0: those below mean + deviations · std. It has a
// node per step, since a threshold needs all gates of a row.
ValueId sparse_feed_forward(ModelBuilder& m, ValueId in, float deviations) {
  if (std::isinf(deviations)) return m.feed_forward_value(in, kGeluGate, "", "branch");
  const std::uint64_t n_embd = m.config.n_embd, width = m.config.n_ff[m.layer];
  const ValueId gate = m.product("ffn_gate", m.matrix("ffn_gate", n_embd, width), in, "ffn");
  m.graph.add(ThresholdOp{{}, deviations}, "ffn_threshold", kNoValue, gate);
  const ValueId up = m.product("ffn_up", m.matrix("ffn_up", n_embd, width), in, "up");
  m.graph.add(GateMulOp{{}, kGeluGate.activation, 0}, "ffn_gate_up", up, gate);
  return m.product("ffn_down", m.matrix("ffn_down", width, n_embd), gate, "branch");
}

// Returns for each layer how many standard deviations above the mean a gate must be; -inf: none.
std::vector<float> gate_deviations(const ModelBuilder& m) {
  constexpr float kDeviations = 1.6448533535003662F;  // keeps 5 % of normally distributed gates
  constexpr std::uint32_t kSparseLayers = 10;
  if (m.keys.has("activation_sparsity_scale"))
    return m.keys.numbers_per_layer(m.config.arch + ".activation_sparsity_scale", true);
  std::vector<float> out(m.config.n_layers, -std::numeric_limits<float>::infinity());
  std::fill_n(out.begin(), std::min(kSparseLayers, m.config.n_layers), kDeviations);
  return out;
}

}  // namespace

// Gemma 3n: parallel residual streams, a bypass of low rank, sparse gates, inputs of each layer;
// the last layers share keys and values.
void build_gemma3n(ModelBuilder& m) {
  constexpr std::uint32_t kOwnLayers = 20;
  const std::uint32_t layers = m.config.n_layers,
                      shared = m.keys.get_or("attention.shared_kv_layers",
                                             layers - std::min(layers, kOwnLayers), 0, layers - 1),
                      run = m.keys.get("embedding_length_per_layer_input", 1, limits::kEmbedding),
                      n = m.keys.get_or("altup.num_inputs", 4, 2, limits::kStreams);
  Streams streams(m, n, m.keys.get_or("altup.active_idx", 0, 0, n - 1));
  const std::vector<bool> windowed = m.windowed(5);
  const std::vector<float> deviations = gate_deviations(m);
  const AttentionBlock full{.rope = m.graph.rope(m.rope_spec()),
                            .scale = 1,
                            .qk_norm = QkNorm::PerHead,
                            .v_norm = true,
                            .branch = {"post_attention_norm"}};
  AttentionBlock window = full;
  window.rope = m.window_rope(10000, false);
  window.window = m.window();
  std::uint32_t last_cache[2] = {kNoIndex, kNoIndex};  // index: 0 for full, 1 for windowed layers

  m.embed(gemma_embedding_scale(m));
  const ValueId inputs = layer_inputs(m, run);
  streams.begin();
  m.layers([&](std::uint32_t i) {
    AttentionBlock attention = windowed[i] ? window : full;
    std::uint32_t& cache = last_cache[windowed[i] ? 1 : 0];
    if (i >= layers - shared) attention.shared_cache = shared_cache(m, cache);
    streams.predict();
    const ValueId h = m.norm("attn_norm"), bypass = low_rank_bypass(m, h);
    cache = m.attention(h, attention);
    m.add_scaled("laurel_join", bypass, m.x, 1);
    m.graph.add(ScaleOp{{}, std::sqrt(0.5F)}, "laurel_mean", kNoValue, m.x);
    m.add_norm("post_ffw_norm", sparse_feed_forward(m, m.norm("ffn_norm"), deviations[i]), m.x);
    streams.correct();
    streams.add_layer_input(inputs, run);
  });
  streams.end();
  m.output(1, m.keys.number_or("final_logit_softcapping", 30));
}

}  // namespace cria
