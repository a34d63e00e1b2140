// Attention of a layer: projections to heads, attention, projection back.
#include <cmath>

#include "engine/architectures/model_builder.h"

namespace cria {
namespace {

// The config compares the heads of a layer only with the KV heads of the same layer.
void require_heads_that_share(const ModelBuilder& m, std::uint32_t cache) {
  const std::size_t heads = m.config.n_heads[m.layer], shared = m.graph.cache(cache).n_kv_heads;
  if (heads % shared == 0) return;
  m.keys.fail("attention.head_count",
              "heads of layer " + std::to_string(m.layer) +
                  " do not divide among the KV heads that they share: expected a multiple of " +
                  std::to_string(shared) + ", got " + std::to_string(heads));
}

}  // namespace

ModelBuilder::Projections ModelBuilder::projections(const AttentionBlock& a, std::uint64_t q,
                                                    std::uint64_t k, std::uint64_t v) {
  const std::uint64_t n_embd = config.n_embd;
  Projections out;
  if (!has("attn_q") && has("attn_qkv")) {
    const Matrix all = matrix("attn_qkv", n_embd, q + k + v, true);
    out = {rows_of(all, 0, q), rows_of(all, q, k), rows_of(all, q + k, v)};
    return out;
  }
  out.q = matrix("attn_q", n_embd, q, true);
  if (a.shared_cache != kNoIndex) return out;
  out.k = matrix("attn_k", n_embd, k, true);
  // gemma4 without values uses the keys.
  if (!a.v_norm || has("attn_v")) out.v = matrix("attn_v", n_embd, v, true);
  return out;
}

void ModelBuilder::add_head_norms(HeadsOp& h, const AttentionBlock& a) {
  const bool own = a.shared_cache == kNoIndex;
  if (a.qk_norm == QkNorm::PerHead || a.weightless_norm) {
    h.q_norm = norm_spec("attn_q_norm", h.dim_k, !a.weightless_norm);
    if (own) h.k_norm = norm_spec("attn_k_norm", h.dim_k, !a.weightless_norm);
  }
  if (a.qk_norm == QkNorm::OwnPerHead) {
    const auto own_weights = [&](const std::string& name, std::uint64_t heads) {
      NormSpec spec = norm_spec(name, h.dim_k, false);
      spec.weight = weights.vectors(prefix() + name + ".weight", {h.dim_k, heads});
      spec.own_weights = true;
      return spec;
    };
    h.q_norm = own_weights("attn_q_norm", h.n_heads);
    h.k_norm = own_weights("attn_k_norm", h.n_kv_heads);
  }
  if (a.v_norm && own) h.v_norm = norm_spec("", h.dim_v, false);
  h.norm_after_rope = a.norm_after_rope;
}

AttentionOp ModelBuilder::attention_op(const AttentionBlock& a, const HeadsOp& h) {
  AttentionOp op;
  op.n_heads = h.n_heads;
  op.scale = a.scale != 0 ? a.scale : 1.0F / std::sqrt(static_cast<float>(h.dim_k));
  op.softcap = a.softcap;
  op.causal = causal;
  op.window = a.window;
  op.chunk = a.chunk;
  if (a.sinks) op.sinks = vector("attn_sinks.weight", h.n_heads);
  return op;
}

std::uint32_t ModelBuilder::attention(ValueId in, const AttentionBlock& a) {
  HeadsOp h;
  h.n_heads = config.n_heads[layer];
  h.n_kv_heads = config.n_kv_heads[layer];
  h.dim_k = a.dim_k == 0 ? config.head_dim_k : a.dim_k;
  h.dim_v = a.dim_v == 0 ? config.head_dim_v : a.dim_v;
  const std::size_t q_dim = h.n_heads * h.dim_k, k_dim = h.n_kv_heads * h.dim_k,
                    v_dim = h.n_kv_heads * h.dim_v;
  const bool own = a.shared_cache == kNoIndex;
  if (!own) require_heads_that_share(*this, a.shared_cache);
  Projections p = projections(a, a.gated ? 2 * q_dim : q_dim, k_dim, v_dim);
  const ValueId q = graph.value("q", q_dim);
  if (own) {
    h.k = graph.value("k", k_dim);
    h.v = graph.value("v", v_dim);
    h.v_from_k = !p.v;
    if (h.v_from_k && h.dim_k != h.dim_v)
      weights.fail("missing tensor: keys cannot serve as values of another size",
                   prefix() + "attn_v.weight");
  }
  h.clamp = a.clamp;
  add_head_norms(h, a);
  if (a.rotated) h.rope = a.rope == kNoIndex ? graph.rope(rope_spec()) : a.rope;
  h.style = a.style.value_or(architecture_.rope);
  h.temperature = a.temperature;

  if (a.qk_norm == QkNorm::WholeVector) {  // needs whole vectors, before they are split into heads
    const NormSpec q_norm = norm_spec("attn_q_norm", q_dim),
                   k_norm = norm_spec("attn_k_norm", k_dim);
    product("attn_q", p.q, in, "q");
    product("attn_k", *p.k, in, "k");
    graph.add(NormOp{{}, q_norm}, "attn_q_norm", q, q);
    graph.add(NormOp{{}, k_norm}, "attn_k_norm", h.k, h.k);
    h.q_matrix = h.k_matrix = false;
  }

  const ValueId gate = a.gated ? graph.value("attn_gate", h.n_heads * h.dim_v) : kNoValue;
  if (a.gated) {
    if (h.dim_k != h.dim_v)
      keys.fail("attention.value_length", "gates are as wide as queries: expected " +
                                              std::to_string(h.dim_k) + ", got " +
                                              std::to_string(h.dim_v));
    const ValueId both = product("attn_q", p.q, in, "q_gate");
    graph.add(TakeOp{{}, h.n_heads, h.dim_k, 2 * h.dim_k, 0, 0}, "attn_q_query", both, q);
    graph.add(TakeOp{{}, h.n_heads, h.dim_k, 2 * h.dim_k, h.dim_k, 0}, "attn_q_gate", both, gate);
    h.q_matrix = false;
  }

  const std::uint32_t cache = own ? graph.cache({h.n_kv_heads, h.dim_k, h.dim_v,
                                                 causal ? std::max(a.window, a.chunk) : 0, false})
                                  : a.shared_cache;
  h.k_matrix = own && h.k_matrix;
  h.v_matrix = own && p.v.has_value();
  if (own) h.cache = cache;
  std::vector<Matrix> matrices;
  if (h.q_matrix) matrices.push_back(p.q);
  if (h.k_matrix) matrices.push_back(*p.k);
  if (h.v_matrix) matrices.push_back(*p.v);
  graph.add(h, "attn_qkv", in, q, std::move(matrices));

  AttentionOp op = attention_op(a, h);
  op.cache = cache;
  ValueId out = graph.value("attn", h.n_heads * h.dim_v);
  graph.add(op, "attn", q, out);
  if (a.gated) {
    graph.add(GateMulOp{{}, {ActivationKind::Sigmoid}, 0}, "attn_gate_mul", out, gate);
    out = gate;
  }
  join("attn_output", matrix("attn_output", h.n_heads * h.dim_v, config.n_embd, true), out,
       a.branch);
  return cache;
}

}  // namespace cria
