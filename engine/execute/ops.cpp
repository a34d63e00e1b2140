// What each node does, as chunks for the team. A chunk writes what no other chunk of the region
// writes, and its arithmetic does not depend on how large chunks are.
#include <algorithm>
#include <cassert>

#include "engine/execute/executor.h"

#include "kernels/formats/round.h"

namespace cria {
namespace {

constexpr std::size_t kFewTokens = 8;  // whose values stay in the caches anyway

// dst[t][i] += bias[i] for tokens dst … of rows of stride floats.
void add_bias(const KernelSet& kernels, float* dst, std::size_t stride, std::size_t n_tokens,
              const float* bias, std::size_t n) {
  for (std::size_t t = 0; t < n_tokens; ++t) kernels.add(dst + t * stride, bias, n);
}

}  // namespace

// Rows [row_begin, row_end) of products, the first at out[0], times the scale beside their tensor.
void Executor::scale_products(const Matrix& m, float* out, std::size_t out_stride,
                              std::size_t n_tokens, std::size_t row_begin,
                              std::size_t row_end) const {
  if (!m.scale) return;
  const std::size_t n = row_end - row_begin;
  const bool one = m.scale->cols() == 1;
  const float* const scales = floats(*m.scale) + (one ? 0 : row_begin);
  for (std::size_t t = 0; t < n_tokens; ++t) {
    float* const row = out + t * out_stride;
    for (std::size_t r = 0; r < n; ++r) row[r] *= scales[one ? 0 : r];
  }
}

// Once for all rows what kernels of several tokens want. Matrices of a node that want something
// else do without.
void Executor::lay_out(const Node& node) {
  laid_out_ = nullptr;
  if (work_.laid_out == nullptr) return;
  const auto m = std::ranges::find_if(
      node.matrices, [&](const Matrix& matrix) { return lays_out(node, matrix, count()); });
  if (m == node.matrices.end()) return;
  const Activations x = work_[node.in].view(m->kernel.act, begin_, end_);
  const LayOut layout = m->kernel.layout(count());
  const std::size_t together = count() < 16 ? 2 : count() < 64 ? 4 : 8;  // tokens
  team_.run(divide_up(count(), together), [&](std::size_t chunk, unsigned) {
    const std::size_t begin = chunk * together;
    layout.run(x, begin, std::min(count(), begin + together), work_.laid_out);
  });
  laid_out_ = &m->kernel;
}

// Rows [row_begin, row_end) of out = residual + W·in·scale + bias for the current tokens; nothing
// is added to products that have a scale (ModelBuilder::join). next: the weights that are read
// after them.
void Executor::multiply(const Matrix& m, ValueId in, ValueId out, const float* residual,
                        std::size_t row_begin, std::size_t row_end, unsigned worker,
                        const std::byte* next) {
  const Value& to = work_[out];
  const Activations x = work_[in].view(m.kernel.act, begin_, end_);
  MatMulJob job{};
  job.weights = m.weight.data;
  job.row_bytes = m.weight.row_bytes();
  job.rows = m.weight.rows();
  job.cols = m.weight.cols();
  job.x = &x;
  job.out = to.row(first_row(out));
  job.out_stride = to.width;
  job.residual = residual;
  job.next = next;
  job.fetch = fetch_;
  if (laid_out_ != nullptr && m.kernel.act == laid_out_->act &&
      m.kernel.layout(count()).run == laid_out_->layout(count()).run)
    job.laid_out = work_.laid_out;
  assert(!m.scale || residual == nullptr);
  m.kernel.run(job, row_begin, row_end, scratch(worker));
  scale_products(m, job.out + row_begin, to.width, count(), row_begin, row_end);
  if (m.lora) {
    const Activations low = work_[m.lora->low].view(m.lora->kernel.act, begin_, end_);
    MatMulJob more = job;
    more.weights = m.lora->b.data;
    more.row_bytes = m.lora->b.row_bytes();
    more.cols = m.lora->b.cols();
    more.x = &low;
    more.residual = job.out;
    more.laid_out = nullptr;
    m.lora->kernel.run(more, row_begin, row_end, scratch(worker));
  }
  if (m.bias)
    add_bias(kernels_, job.out + row_begin, to.width, count(), floats(*m.bias) + row_begin,
             row_end - row_begin);
}

void Executor::quantize_token(const Node& node, std::size_t row) {
  const Value& out = work_[node.out];
  for (const ActType type : kQuantizedForms) {
    if (!node.acts.has(type)) continue;
    Activations acts = out.view(type, row, row + 1);
    kernels_.quantize(out.row(row), out.width, acts, 0, 1, 0, acts.cols);
  }
}

// For nodes that do not quantize what they have just computed.
void Executor::quantize_all(const Node& node) {
  if (!node.acts.quantized()) return;
  team_.run(count(), [&](std::size_t chunk, unsigned) { quantize_token(node, begin_ + chunk); });
}

// Columns of whole blocks.
void Executor::quantize_columns(const Node& node, UnitRange rows, std::size_t col_begin,
                                std::size_t col_end) {
  const Value& out = work_[node.out];
  for (const ActType type : kQuantizedForms) {
    if (!node.acts.has(type)) continue;
    Activations acts = out.view(type, rows.begin, rows.end);
    kernels_.quantize(out.row(rows.begin), out.width, acts, 0, rows.size(), col_begin, col_end);
  }
}

// The first node also makes the RoPE tables of the batch.
void Executor::embed(const Node& node) {
  const TensorView& table = node.matrices[0].weight;
  const Value& out = work_[node.out];
  const bool first = &node == graph_.nodes.data();
  team_.run(count(), [&](std::size_t chunk, unsigned) {
    const std::size_t token = begin_ + chunk;
    const auto row = static_cast<std::size_t>(batch_->tokens[token]);
    dtype_info(table.dtype)
        .dequantize(table.data + row * table.row_bytes(), out.row(token), out.width);
    const float scale = node.scale * node.matrices[0].scale_of(row);
    if (scale != 1) kernels_.scale(out.row(token), scale, out.width);
    quantize_token(node, token);
    for (std::size_t i = 0; first && i < graph_.ropes.size(); ++i) {
      const RopeTable& rope = graph_.ropes[i];
      rope.fill(batch_->positions[token], rope_ctx_, work_.ropes[i] + token * rope.width());
    }
  });
}

// run: which run of spec.width values of a row this is.
void Executor::norm_row(const NormSpec& spec, std::size_t run, const float* in, float* out) {
  const std::size_t offset = spec.own_weights ? run * spec.width : 0;
  const float* const weight = spec.weight ? floats(*spec.weight) + offset : nullptr;
  const float* const bias = spec.bias ? floats(*spec.bias) + offset : nullptr;
  if (spec.kind == NormKind::Layer)
    return kernels_.layer_norm(in, weight, bias, spec.eps, out, spec.width);
  kernels_.rms_norm(in, weight, spec.eps, out, spec.width);
  if (bias != nullptr) kernels_.add(out, bias, spec.width);
}

void Executor::norm(const Node& node) {
  const Value& in = work_[node.in];
  const Value& out = work_[node.out];
  const NormSpec& spec = node.norm;
  const std::size_t runs = spec.first_only ? 1 : in.width / spec.width;
  team_.run(count(), [&](std::size_t chunk, unsigned) {
    const std::size_t token = begin_ + chunk;
    float* const to = (node.residual ? in : out).row(token);
    for (std::size_t run = 0; run < runs; ++run)
      norm_row(spec, run, in.row(token) + run * spec.width, to + run * spec.width);
    if (node.residual) kernels_.add(out.row(token), to, out.width);
    quantize_token(node, token);
  });
}

void Executor::rotate(const HeadsSpec& spec, ValueId value, std::size_t head) {
  const RopeTable& rope = graph_.ropes[spec.rope];
  for (std::size_t token = begin_; token < end_; ++token) {
    kernels_.rope(work_[value].row(token) + head * spec.dim_k + spec.rope_begin, 1, spec.dim_k,
                  rope.width(), spec.style == RopeStyle::HalfSplit,
                  work_.ropes[spec.rope] + token * rope.width());
  }
}

void Executor::store_kv(const Node& node, std::size_t head) {
  KvStoreJob job = cache_.store_job(node.cache);
  const std::size_t first = parts_.caches[node.cache].begin;  // of the heads that the cache has
  const Value& k = work_[node.heads.k];
  const Value* const v = node.heads.v == kNoValue ? nullptr : &work_[node.heads.v];
  job.k_stride = k.width;
  job.v_stride = v == nullptr ? 0 : v->width;
  for (const BatchSlice& slice : batch_->slices) {
    job.k = k.row(slice.begin) + first * job.head_dim;
    job.v = v == nullptr ? nullptr : v->row(slice.begin) + first * job.value_dim;
    job.n_tokens = slice.end - slice.begin;
    job.first_pos = slice.first_pos;
    job.pages = (*slice.pages)[cache_.group_of(node.cache)].data();
    kernels_.store_kv(job, head - first, head - first + 1);
  }
}

// What happens to a head's query or key between its product and its use.
void Executor::prepare_head(const Node& node, ValueId value, const std::optional<NormSpec>& norm,
                            std::size_t head, std::size_t dim, bool query) {
  const HeadsSpec& spec = node.heads;
  const auto for_each_row = [&](auto f) {
    for (std::size_t token = begin_; token < end_; ++token)
      f(work_[value].row(token) + head * dim, token);
  };
  const auto apply_norm = [&] {
    if (norm) for_each_row([&](float* row, std::size_t) { norm_row(*norm, head, row, row); });
  };
  if (!spec.norm_after_rope) apply_norm();
  if (spec.rope != kNoIndex) rotate(spec, value, head);
  if (spec.norm_after_rope) apply_norm();
  if (!query || spec.temperature.scale == 0) return;
  for_each_row([&](float* row, std::size_t token) {
    kernels_.scale(row, spec.temperature.at(batch_->positions[token]), dim);
  });
}

// A chunk is a query head, or a kv head with both its key and its value: what it rotates and
// stores, it has computed itself.
void Executor::heads(const Node& node) {
  const HeadsSpec& spec = node.heads;
  const Node::Projections of = node.projections();
  const UnitRange own = part_of(node).own, kv = parts_.kv_heads(node);
  const auto project = [&](const Matrix* m, ValueId value, std::size_t head, std::size_t dim,
                           unsigned worker, const std::byte* after) {
    if (m != nullptr)
      multiply(*m, node.in, value, nullptr, head * dim, (head + 1) * dim, worker, after);
    for (std::size_t token = begin_; spec.clamp != 0 && token < end_; ++token)
      kernels_.clamp(work_[value].row(token) + head * dim, spec.clamp, dim);
  };
  lay_out(node);
  team_.run(weight_chunks(node).size(), [&](std::size_t chunk, unsigned worker) {
    const std::byte* const after = weights_after(node, chunk, worker);
    if (chunk >= kv.size()) {
      const std::size_t head = own.begin + chunk - kv.size();
      project(of.q, spec.q, head, spec.dim_k, worker, after);
      prepare_head(node, spec.q, spec.q_norm, head, spec.dim_k, true);
      return;
    }
    const std::size_t head = kv.begin + chunk;
    project(of.k, spec.k, head, spec.dim_k, worker,
            of.v != nullptr ? of.v->row(head * spec.dim_v) : after);
    if (spec.v != kNoValue) {
      if (spec.v_from_k) {
        for (std::size_t token = begin_; token < end_; ++token)
          std::copy_n(work_[spec.k].row(token) + head * spec.dim_k, spec.dim_v,
                      work_[spec.v].row(token) + head * spec.dim_v);
      } else {
        project(of.v, spec.v, head, spec.dim_v, worker, after);
      }
      for (std::size_t token = begin_; spec.v_norm && token < end_; ++token) {
        float* const row = work_[spec.v].row(token) + head * spec.dim_v;
        norm_row(*spec.v_norm, head, row, row);
      }
    }
    prepare_head(node, spec.k, spec.k_norm, head, spec.dim_k, false);
    store_kv(node, head);
  });
  complete(node);
}

void Executor::matmul(const Node& node) {
  const Matrix& m = node.matrices[0];
  const Value& out = work_[node.out];
  const std::size_t first = first_row(node.out);
  const float* const residual = node.residual ? out.row(first) : nullptr;
  const UnitRange own = part_of(node).own;
  const RowChunks chunks = weight_chunks(node);
  lay_out(node);
  team_.run(chunks.size(), [&](std::size_t chunk, unsigned worker) {
    const std::size_t begin = own.begin + chunks[chunk].begin, end = own.begin + chunks[chunk].end;
    multiply(m, node.in, node.out, residual, begin, end, worker,
             weights_after(node, chunk, worker));
    for (std::size_t i = 0; i < count() && (node.scale != 1 || node.softcap != 0); ++i) {
      float* const row = out.row(first + i) + begin;
      if (node.scale != 1) kernels_.scale(row, node.scale, end - begin);
      if (node.softcap != 0) kernels_.soft_cap(row, node.softcap, end - begin);
    }
  });
  if (complete(node)) quantize_all(node);
}

// Operations on the rows of a value alone, or with those of another.
void Executor::rows(const Node& node) {
  const Value& out = work_[node.out];
  team_.run(count(), [&](std::size_t chunk, unsigned) {
    const std::size_t token = begin_ + chunk;
    float* const row = out.row(token);
    if (node.op == Op::Scale) kernels_.scale(row, node.scale, out.width);
    if (node.op == Op::Add)
      kernels_.add_scaled(row, work_[node.in].row(token), node.scale, out.width);
    if (node.op == Op::GateMul)
      kernels_.activate(node.activation, row, work_[node.in].row(token) + node.in_offset,
                        out.width);
    if (node.op == Op::Gate) {
      float gate = *work_[node.in].row(token);
      kernels_.activate({ActivationKind::Sigmoid}, &gate, nullptr, 1);
      kernels_.scale(row, gate, out.width);
    }
    quantize_token(node, token);
  });
}

// A chunk is the same rows of gate and up. With many tokens it is walked in blocks that the caches
// hold from the products to the quantization. Such a block may have rows of several chunks: who
// adds the last quantizes.
void Executor::feed_forward(const Node& node) {
  constexpr std::size_t kBlock = 256;
  const NodePart& part = part_of(node);
  const std::size_t rows = work_[node.out].width;
  const RowChunks chunks = weight_chunks(node);
  lay_out(node);
  team_.run(chunks.size(), [&](std::size_t chunk, unsigned worker) {
    const std::size_t chunk_begin = part.own.begin + chunks[chunk].begin;
    const std::size_t chunk_end = part.own.begin + chunks[chunk].end;
    for (std::size_t begin = chunk_begin, end = begin; begin < chunk_end; begin = end) {
      end = count() > kFewTokens ? std::min(chunk_end, (begin / kBlock + 1) * kBlock) : chunk_end;
      feed_forward(
          node, begin, end, worker,
          end < chunk_end ? node.matrices[0].row(end) : weights_after(node, chunk, worker));
      if (part.divided()) continue;
      for (std::size_t b = begin / kBlock; b * kBlock < end; ++b) {
        const std::size_t block_end = std::min(rows, (b + 1) * kBlock);
        const std::size_t mine = std::min(end, block_end) - std::max(begin, b * kBlock);
        if (completes(work_.pending[b], mine, block_end - b * kBlock))
          quantize_columns(node, {begin_, end_}, b * kBlock, block_end);
      }
    }
  });
  if (part.divided() && complete(node)) quantize_all(node);
}

void Executor::feed_forward(const Node& node, std::size_t begin, std::size_t end, unsigned worker,
                            const std::byte* next) {
  const Matrix* const up = node.aux == kNoValue ? nullptr : &node.matrices[1];
  multiply(node.matrices[0], node.in, node.out, nullptr, begin, end, worker,
           up == nullptr ? next : up->row(begin));
  if (up != nullptr) multiply(*up, node.in, node.aux, nullptr, begin, end, worker, next);
  for (std::size_t token = begin_; token < end_; ++token) {
    float* const gate = work_[node.out].row(token) + begin;
    kernels_.activate(node.activation, gate,
                      node.aux == kNoValue ? nullptr : work_[node.aux].row(token) + begin,
                      end - begin);
  }
}

}  // namespace cria
