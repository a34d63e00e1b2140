// Multi-head latent attention (DeepSeek). Keys and values of all heads are products of one short
// vector per position, and the cache holds only this vector. The product of keys is applied to the
// queries instead ("absorbed"), that of values to the sums. Prompts and decoding do the same, so
// that they have the same bits.
#include <algorithm>

#include "engine/architectures/model_builder.h"

namespace cria {
namespace {

/// Max query heads that share one conversion of a tile to floats.
constexpr std::uint32_t kHeadsTogether = 8;

std::uint32_t largest_divisor(std::uint32_t n, std::uint32_t most) {
  std::uint32_t divisor = std::min(n, most);
  while (n % divisor != 0) --divisor;
  return divisor;
}

}  // namespace

// Returns true if keys and values are halves of attn_kv_b. Some files also have separate tensors
// in addition, with heads and rows in one dimension.
bool ModelBuilder::latent_halves(const char* alone) {
  if (!has(alone)) return true;
  const auto shape = weights.shape_of(prefix() + alone + ".weight");
  if (!has("attn_kv_b") || !shape || shape->size() > 2) return false;
  weights.ignore(prefix() + alone, "");
  return true;
}

// Makes out of each head: [k_b·(the first n values of q), the rotated rest of q].
void ModelBuilder::absorbed_keys(ValueId q, ValueId out, std::uint32_t n, std::uint32_t rank,
                                 std::uint32_t rot, std::uint32_t dim_v) {
  const std::uint32_t heads = config.n_heads[layer];
  const bool merged = latent_halves("attn_k_b");
  const Matrix all = merged ? matrix("attn_kv_b", rank, std::uint64_t{heads} * (n + dim_v))
                            : stacked_matrix("attn_k_b", n, rank, heads);
  std::vector<Matrix> matrices;
  for (std::uint32_t h = 0; h < heads; ++h) {
    const std::uint64_t rows = merged ? n + dim_v : rank;
    matrices.push_back(rows_of(all, h * rows, merged ? n : rank));
  }
  graph.add(HeadProductsOp{{}, heads, n + rot, rank + rot, merged, rot}, "attn_k_b", q, out,
            std::move(matrices));
}

void ModelBuilder::expanded_values(ValueId in, ValueId out, std::uint32_t n, std::uint32_t rank,
                                   std::uint32_t dim_v) {
  const std::uint32_t heads = config.n_heads[layer];
  const bool merged = latent_halves("attn_v_b");
  const Matrix all = merged ? matrix("attn_kv_b", rank, std::uint64_t{heads} * (n + dim_v))
                            : stacked_matrix("attn_v_b", rank, dim_v, heads);
  std::vector<Matrix> matrices;
  for (std::uint32_t h = 0; h < heads; ++h)
    matrices.push_back(
        rows_of(all, merged ? h * (n + dim_v) + n : h * std::uint64_t{dim_v}, dim_v));
  graph.add(HeadProductsOp{{}, heads, rank, dim_v, false, 0}, "attn_v_b", in, out,
            std::move(matrices));
}

void ModelBuilder::latent_attention(ValueId in, float scale, const std::optional<RopeSpec>& rope,
                                    const Temperature& temperature) {
  const std::uint32_t heads = config.n_heads[layer], rot = config.n_rot, n_embd = config.n_embd;
  const std::uint32_t rank = keys.get("attention.kv_lora_rank", 1, limits::kEmbedding);
  const std::uint32_t dim_k =
      keys.get_or("attention.key_length_mla", config.head_dim_k, rot + 1, limits::kEmbedding);
  const std::uint32_t dim_v =
      keys.get_or("attention.value_length_mla", config.head_dim_v, 1, limits::kEmbedding);
  if (dim_k <= rot)
    keys.fail("attention.key_length",
              "no columns remain after the rotated part: expected more than " +
                  std::to_string(rot) + ", got " + std::to_string(dim_k));
  ValueId q = in;
  if (has("attn_q_a")) {
    const std::uint32_t q_rank = keys.get("attention.q_lora_rank", 1, limits::kEmbedding);
    q = product("attn_q_a", matrix("attn_q_a", n_embd, q_rank), q, "q_a");
    q = norm("attn_q_a_norm", q, "q_a_norm");
    q = product("attn_q_b", matrix("attn_q_b", q_rank, std::uint64_t{heads} * dim_k), q, "q_heads");
  } else {
    q = product("attn_q", matrix("attn_q", n_embd, std::uint64_t{heads} * dim_k), q, "q_heads");
  }
  const std::uint32_t entry = rank + rot;
  const ValueId kv = product("attn_kv_a_mqa", matrix("attn_kv_a_mqa", n_embd, entry), in, "kv");
  NormSpec kv_norm = norm_spec("attn_kv_a_norm", rank);
  kv_norm.first_only = true;
  graph.add(NormOp{{}, kv_norm}, "attn_kv_a_norm", kv, kv);

  const ValueId absorbed = graph.value("q", std::size_t{heads} * entry);
  absorbed_keys(q, absorbed, dim_k - rot, rank, rot, dim_v);
  HeadsOp op;
  op.k = kv;
  op.q_matrix = op.k_matrix = op.v_matrix = false;
  op.n_heads = heads;
  op.n_kv_heads = 1;
  op.dim_k = entry;
  op.dim_v = rank;
  if (rope) op.rope = graph.rope(*rope);
  op.rope_begin = rank;
  op.style = architecture_.rope;
  op.temperature = temperature;
  op.cache = graph.cache({1, entry, rank, 0, true});
  graph.add(op, "attn_rope", kNoValue, absorbed);

  const ValueId sums = graph.value("attn_latent", std::size_t{heads} * rank);
  AttentionOp attention;
  attention.n_heads = heads;
  attention.scale = scale;
  attention.kv_groups = heads / largest_divisor(heads, kHeadsTogether);
  attention.cache = op.cache;
  graph.add(attention, "attn", absorbed, sums);
  const ValueId out = graph.value("attn", std::size_t{heads} * dim_v);
  expanded_values(sums, out, dim_k - rot, rank, dim_v);
  join("attn_output", matrix("attn_output", std::uint64_t{heads} * dim_v, n_embd), out, {});
}

}  // namespace cria
