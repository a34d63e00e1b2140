// What each node does, as chunks for the team. A chunk writes what no other chunk of the region writes, and
// its arithmetic does not depend on how large chunks are.
#include <algorithm>
#include <atomic>

#include "engine/executor.h"

namespace cria {
namespace {

constexpr std::size_t kChunksPerThread =
    6;  // enough to fill in for a late thread, few enough to cost nothing
constexpr std::size_t kAttentionTokens = 16;  // tokens of an attention chunk
constexpr std::size_t kFewTokens = 8;         // whose values stay in the caches anyway

const float* floats(const TensorView& tensor) { return reinterpret_cast<const float*>(tensor.data); }

constexpr std::size_t divide_up(std::size_t n, std::size_t unit) { return (n + unit - 1) / unit; }

// dst[t][i] += bias[i] for tokens dst … of rows of stride floats.
void add_bias(const KernelSet& kernels, float* dst, std::size_t stride, std::size_t n_tokens,
              const float* bias, std::size_t n) {
  for (std::size_t t = 0; t < n_tokens; ++t) kernels.add(dst + t * stride, bias, n);
}

}  // namespace

// Rows of a chunk of a matrix product: whole kernel tiles, several chunks per thread.
std::size_t Executor::rows_per_chunk(std::size_t rows) const {
  const std::size_t chunks = std::min(team_.threads() * kChunksPerThread, Team::kMaxChunks);
  return round_up(divide_up(rows, chunks), kRowTile);
}

// Rows [row_begin, row_end) of out = residual + W·in + bias for the current tokens.
void Executor::multiply(const Matrix& m, ValueId in, ValueId out, const float* residual,
                        std::size_t row_begin, std::size_t row_end, unsigned seat) {
  const Value& to = work_[out];
  const std::size_t first = out == ValueId::Logits ? 0 : begin_;
  const Activations x = work_[in].view(m.kernel.act, begin_, end_);
  MatMulJob job{};
  job.weights = m.weight->data;
  job.row_bytes = m.weight->row_bytes();
  job.rows = m.weight->rows();
  job.cols = m.weight->cols();
  job.x = &x;
  job.out = to.row(first);
  job.out_stride = to.width;
  job.residual = residual;
  m.kernel.run(job, row_begin, row_end, scratch(seat));
  if (m.bias != nullptr)
    add_bias(kernels_, job.out + row_begin, to.width, count(), floats(*m.bias) + row_begin,
             row_end - row_begin);
}

void Executor::quantize_token(const Node& node, std::size_t token) {
  const Value& out = work_[node.out];
  for (const ActType type : kQuantizedForms) {
    if (!node.acts.has(type)) continue;
    Activations acts = out.view(type, token, token + 1);
    kernels_.quantize(out.row(token), out.width, acts, 0, 1);
  }
}

// Columns of whole blocks, for all current tokens.
void Executor::quantize_columns(const Node& node, std::size_t col_begin, std::size_t col_end) {
  const Value& out = work_[node.out];
  for (const ActType type : kQuantizedForms) {
    if (!node.acts.has(type)) continue;
    const Activations whole = out.view(type, 0, end_);
    for (std::size_t token = begin_; token < end_; ++token) {
      Activations part = column_range(whole, token, col_begin, col_end - col_begin);
      kernels_.quantize(out.row(token) + col_begin, out.width, part, 0, 1);
    }
  }
}

void Executor::embed(const Node& node) {
  const TensorView& table = *node.matrices[0].weight;
  const Value& out = work_[node.out];
  team_.run(count(), [&](std::size_t token, unsigned) {
    const auto row = static_cast<std::size_t>(tokens_[token]);
    dtype_info(table.dtype).dequantize(table.data + row * table.row_bytes(), out.row(token), out.width);
    rope_.fill(first_pos_ + token, work_.rope + token * rope_.width());
  });
}

void Executor::rms_norm(const Node& node) {
  const Value& in = work_[node.in];
  const Value& out = work_[node.out];
  team_.run(count(), [&](std::size_t chunk, unsigned) {
    const std::size_t token = begin_ + chunk;
    kernels_.rms_norm(in.row(token), floats(*node.norm), config_.rms_eps, out.row(token), out.width);
    quantize_token(node, token);
  });
}

void Executor::rotate(ValueId value, std::size_t first_head, std::size_t n_heads) {
  const std::size_t head_dim = config_.head_dim_k;
  for (std::size_t token = begin_; token < end_; ++token) {
    kernels_.rope(work_[value].row(token) + first_head * head_dim, n_heads, head_dim, config_.n_rot,
                  config_.arch->rope == RopeStyle::HalfSplit, work_.rope + token * rope_.width());
  }
}

void Executor::store_kv(std::uint32_t layer, std::size_t head) {
  KvStoreJob job = cache_.store_job(layer);
  job.k = work_[ValueId::K].row(begin_);
  job.k_stride = work_[ValueId::K].width;
  job.v = work_[ValueId::V].row(begin_);
  job.v_stride = work_[ValueId::V].width;
  job.n_tokens = count();
  job.first_pos = first_pos_ + begin_;
  kernels_.store_kv(job, head, head + 1);
}

// A chunk is a query head, or a kv head with both its key and its value: what it rotates and stores, it has
// computed itself.
void Executor::qkv_rope(const Node& node) {
  const Matrix& q = node.matrices[0];
  const Matrix& k = node.matrices[1];
  const Matrix& v = node.matrices[2];
  const std::size_t dim_k = config_.head_dim_k;
  const std::size_t dim_v = config_.head_dim_v;
  const std::size_t kv_heads = config_.n_kv_heads[node.layer];
  team_.run(kv_heads + config_.n_heads, [&](std::size_t chunk, unsigned seat) {
    if (chunk < kv_heads) {
      multiply(k, node.in, ValueId::K, nullptr, chunk * dim_k, (chunk + 1) * dim_k, seat);
      multiply(v, node.in, ValueId::V, nullptr, chunk * dim_v, (chunk + 1) * dim_v, seat);
      rotate(ValueId::K, chunk, 1);
      store_kv(node.layer, chunk);
    } else {
      const std::size_t head = chunk - kv_heads;
      multiply(q, node.in, ValueId::Q, nullptr, head * dim_k, (head + 1) * dim_k, seat);
      rotate(ValueId::Q, head, 1);
    }
  });
}

// A chunk is a kv head with some tokens. Whoever finishes the last head of these tokens quantizes them.
void Executor::attention(const Node& node) {
  const Value& q = work_[ValueId::Q];
  const Value& out = work_[node.out];
  AttentionJob job = cache_.attention_job(node.layer);
  job.q = q.row(begin_);
  job.q_stride = q.width;
  job.out = out.row(begin_);
  job.out_stride = out.width;
  job.first_pos = first_pos_ + begin_;
  const std::size_t kv_heads = job.n_kv_heads;
  team_.run(kv_heads * divide_up(count(), kAttentionTokens), [&](std::size_t chunk, unsigned seat) {
    const std::size_t block = chunk / kv_heads;
    const std::size_t token_begin = block * kAttentionTokens;
    const std::size_t token_end = std::min(count(), token_begin + kAttentionTokens);
    kernels_.attention(job, chunk % kv_heads, token_begin, token_end, scratch(seat));
    if (work_.pending[block].fetch_add(1, std::memory_order_acq_rel) + 1 < kv_heads) return;
    work_.pending[block].store(0, std::memory_order_relaxed);
    for (std::size_t token = token_begin; token < token_end; ++token) quantize_token(node, begin_ + token);
  });
}

void Executor::matmul(const Node& node) {
  const Matrix& m = node.matrices[0];
  const float* const residual = node.op == Op::MatMulAdd ? work_[node.out].row(begin_) : nullptr;
  const std::size_t rows = m.weight->rows();
  const std::size_t step = rows_per_chunk(rows);
  team_.run(divide_up(rows, step), [&](std::size_t chunk, unsigned seat) {
    multiply(m, node.in, node.out, residual, chunk * step, std::min(rows, (chunk + 1) * step), seat);
  });
}

// A chunk is the same rows of gate and up. With many tokens it is walked in blocks that the caches hold from
// the products to the quantization. Such a block may have rows of several chunks: who adds the last
// quantizes.
void Executor::gate_up_silu(const Node& node) {
  constexpr std::size_t kBlock = 256;
  const std::size_t rows = work_[node.out].width;
  const std::size_t step = rows_per_chunk(rows);
  team_.run(divide_up(rows, step), [&](std::size_t chunk, unsigned seat) {
    const std::size_t chunk_end = std::min(rows, (chunk + 1) * step);
    for (std::size_t begin = chunk * step, end = begin; begin < chunk_end; begin = end) {
      end = count() > kFewTokens ? std::min(chunk_end, (begin / kBlock + 1) * kBlock) : chunk_end;
      gate_up_silu(node, begin, end, seat);
      for (std::size_t b = begin / kBlock; b * kBlock < end; ++b) {
        const std::size_t block_end = std::min(rows, (b + 1) * kBlock);
        const std::size_t mine = std::min(end, block_end) - std::max(begin, b * kBlock);
        auto& pending = work_.pending[b];
        if (pending.fetch_add(static_cast<std::uint32_t>(mine), std::memory_order_acq_rel) + mine <
            block_end - b * kBlock)
          continue;
        pending.store(0, std::memory_order_relaxed);
        quantize_columns(node, b * kBlock, block_end);
      }
    }
  });
}

void Executor::gate_up_silu(const Node& node, std::size_t begin, std::size_t end, unsigned seat) {
  multiply(node.matrices[0], node.in, node.out, nullptr, begin, end, seat);
  multiply(node.matrices[1], node.in, ValueId::Up, nullptr, begin, end, seat);
  for (std::size_t token = begin_; token < end_; ++token)
    kernels_.silu_mul(work_[node.out].row(token) + begin, work_[ValueId::Up].row(token) + begin, end - begin);
}

}  // namespace cria
