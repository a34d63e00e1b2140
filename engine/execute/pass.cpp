#include "engine/execute/pass.h"

#include <cassert>

#include "kernels/simd/round.h"

namespace cria {

void BatchRows::reserve(std::size_t n) {
  tokens.reserve(n);
  positions.reserve(n);
  slices.reserve(n);
  blocks.reserve(n);
}

void BatchRows::clear() {
  begin = end = 0;
  tokens.clear();
  positions.clear();
  slices.clear();
  blocks.clear();
}

void BatchRows::add_slice(const BatchSlice& slice) {
  constexpr std::size_t kTokens = 24;  // enough to use a converted tile of keys often
  for (std::size_t first = slice.begin; first < slice.end; first += kTokens)
    blocks.push_back({slices.size(), first, std::min(slice.end, first + kTokens)});
  slices.push_back(slice);
}

BatchPlan::BatchPlan(std::size_t n_batch) {
  all.reserve(n_batch);
  wanted.reserve(n_batch);
  moves.reserve(n_batch);
  first_wanted_.reserve(n_batch);
}

void BatchPlan::clear() {
  all.clear();
  wanted.clear();
  moves.clear();
  first_wanted_.clear();
}

void BatchPlan::add(std::span<const TokenId> tokens, std::size_t first_pos,
                    std::size_t first_wanted, const PageTables& pages, AdapterScales adapters) {
  assert(!tokens.empty() && first_wanted <= tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    all.tokens.push_back(tokens[i]);
    all.positions.push_back(first_pos + i);
  }
  first_wanted_.push_back(all.end + first_wanted);
  all.add_slice({all.end, all.end + tokens.size(), first_pos, &pages, std::move(adapters)});
  all.end += tokens.size();
}

void BatchPlan::finish() {
  wanted.tokens.resize(all.end);
  wanted.positions.resize(all.end);
  wanted.begin = wanted.end = all.end;
  for (std::size_t i = all.slices.size(); i-- > 0;) {
    const std::size_t from = first_wanted_[i], n = all.slices[i].end - from;
    if (n == 0) continue;
    wanted.begin -= n;
    if (from != wanted.begin) moves.push_back({from, wanted.begin, n});
    std::copy_n(all.tokens.begin() + static_cast<std::ptrdiff_t>(from), n,
                wanted.tokens.begin() + static_cast<std::ptrdiff_t>(wanted.begin));
    std::copy_n(all.positions.begin() + static_cast<std::ptrdiff_t>(from), n,
                wanted.positions.begin() + static_cast<std::ptrdiff_t>(wanted.begin));
  }
  std::size_t row = wanted.begin;
  for (std::size_t i = 0; i < all.slices.size(); ++i) {
    const std::size_t n = all.slices[i].end - first_wanted_[i];
    if (n == 0) continue;
    wanted.add_slice({row, row + n, all.positions[first_wanted_[i]], all.slices[i].pages,
                      all.slices[i].adapters});
    row += n;
  }
}

// Shared by most operations with matrices.

RowChunks OpBase::chunks(const Node& node, const Pass& pass) {
  std::size_t rows = pass.part_of(node).own.size();
  if (node.out == pass.graph.logits) rows = std::min(rows, pass.end_logit);
  return RowChunks::shrinking(rows, pass.team.threads(), kChunksPerThread, kRowTile);
}

const std::byte* OpBase::first_weights(const Node& node, const Pass& pass, std::size_t chunk) {
  return node.matrices[0].row(pass.part_of(node).own[pass.chunks_of(node)[chunk].begin]);
}

UnitRange OpBase::rows_written(const Node& node, const Pass& pass) {
  const std::size_t first = pass.first_row(node.out);
  return {first, first + pass.count()};
}

RowChunks Pass::chunks_of(const Node& node) const {
  return node.visit([&](const auto& o) { return o.chunks(node, *this); });
}

std::size_t Pass::rows_per_chunk(std::size_t rows) const {
  const std::size_t chunks = std::min(team.threads() * kChunksPerThread, Team::kMaxChunks);
  return round_up(divide_up(std::max<std::size_t>(rows, 1), chunks), kRowTile);
}

const std::byte* Pass::weights_after(const Node& node, std::size_t chunk, unsigned worker) const {
  const std::size_t chunks = chunks_of(node).size(), n = graph.nodes.size();
  const auto first_of = [this](const Node& of, std::size_t n_chunks,
                               std::size_t i) -> const std::byte* {
    if (i >= n_chunks) return nullptr;
    return of.visit([&](const auto& o) { return o.first_weights(of, *this, i); });
  };
  if (!team.is_first_chunk(chunks, chunk + 1)) return first_of(node, chunks, chunk + 1);
  for (std::size_t i = 1; i < n; ++i) {
    const Node& other = graph.nodes[(index_of(node) + i) % n];
    if (other.matrices.empty() || !other.matrices[0].multiplies()) continue;
    const std::size_t others = chunks_of(other).size();
    return first_of(other, others, team.first_chunk(others, worker));
  }
  return nullptr;
}

std::byte* Pass::scratch_behind(unsigned worker, std::size_t cols) const {
  return scratch(worker) + round_up(matmul_scratch_bytes(cols), 64);
}

void Pass::pack_input(const Node& node) {
  packed = nullptr;
  if (work.packed == nullptr) return;
  const auto m = std::ranges::find_if(
      node.matrices, [&](const Matrix& matrix) { return packs_input(node, matrix, count()); });
  if (m == node.matrices.end()) return;
  const Activations x = work[node.in].view(m->kernel.act, begin, end);
  const PackActivations packing = m->kernel.packing(count());
  const std::size_t together = count() < 16 ? 2 : count() < 64 ? 4 : 8;  // tokens
  team.run(divide_up(count(), together), [&](std::size_t chunk, unsigned) {
    const std::size_t first = chunk * together;
    packing.run(x, first, std::min(count(), first + together), work.packed);
  });
  packed = &m->kernel;
}

MatMulJob Pass::job_for(const Matrix& m, const Activations& x, float* out, std::size_t out_stride,
                        const std::byte* next) const {
  MatMulJob job{};
  job.weights = m.weight.data;
  job.row_bytes = m.weight.row_bytes();
  job.rows = m.weight.rows();
  job.cols = m.weight.cols();
  job.x = &x;
  job.out = out;
  job.out_stride = out_stride;
  job.next_weights = next;
  job.prefetch = prefetch;
  return job;
}

// Multiplies products of rows, the first at out[0], by the scale of their tensor.
void Pass::scale_products(const Matrix& m, float* out, std::size_t out_stride, std::size_t n_tokens,
                          UnitRange rows) const {
  if (!m.scale) return;
  const bool one = m.scale->cols() == 1;
  const float* const scales = floats(*m.scale) + (one ? 0 : rows.begin);
  for (std::size_t t = 0; t < n_tokens; ++t) {
    float* const row = out + t * out_stride;
    for (std::size_t r = 0; r < rows.size(); ++r) row[r] *= scales[one ? 0 : r];
  }
}

void Pass::add_bias(const Matrix& m, float* out, std::size_t out_stride, std::size_t n_tokens,
                    UnitRange rows) const {
  for (std::size_t t = 0; m.bias && t < n_tokens; ++t)
    kernels.add(out + t * out_stride, floats(*m.bias) + rows.begin, rows.size());
}

void Pass::multiply(const Matrix& m, ValueId in, ValueId out, const float* residual, UnitRange rows,
                    unsigned worker, const std::byte* next) const {
  const Value& to = work[out];
  const Activations x = work[in].view(m.kernel.act, begin, end);
  MatMulJob job = job_for(m, x, to.row(first_row(out)), to.width, next);
  job.residual = residual;
  if (packed != nullptr && m.kernel.act == packed->act &&
      m.kernel.packing(count()).run == packed->packing(count()).run)
    job.packed = work.packed;
  assert(!m.scale || residual == nullptr);
  m.kernel.run(job, rows.begin, rows.end, scratch(worker));
  scale_products(m, job.out + rows.begin, to.width, count(), rows);
  if (m.lora && adapted) {
    const Activations low = work[m.lora->low].view(m.lora->kernel.act, begin, end);
    MatMulJob more = job;
    more.weights = m.lora->b.data;
    more.row_bytes = m.lora->b.row_bytes();
    more.cols = m.lora->b.cols();
    more.x = &low;
    more.residual = job.out;
    more.packed = nullptr;
    m.lora->kernel.run(more, rows.begin, rows.end, scratch(worker));
  }
  add_bias(m, job.out + rows.begin, to.width, count(), rows);
}

void Pass::multiply(const Matrix& m, const Activations& x, float* out, std::size_t out_stride,
                    UnitRange rows, unsigned worker, const std::byte* next) const {
  MatMulJob job = job_for(m, x, out, out_stride, next);
  job.weights = m.row(rows.begin);
  job.rows = rows.size();
  m.kernel.run(job, 0, rows.size(), scratch(worker));
  scale_products(m, out, out_stride, x.n_tokens, rows);
  add_bias(m, out, out_stride, x.n_tokens, rows);
}

void Pass::quantize_row(const Node& node, std::size_t row) const {
  const Value& out = work[node.out];
  out.quantize(kernels, node.acts, {row, row + 1}, {0, out.width});
}

void Pass::finish(const Node& node) {
  const UnitRange rows = node.visit([&](const auto& o) { return o.rows_written(node, *this); });
  if (!gatherer.complete(node, rows) || !node.acts.quantized()) return;
  team.run_any(rows.size(), [&](std::size_t i, unsigned) { quantize_row(node, rows.begin + i); });
}

}  // namespace cria
