// Products of matrices: single ones, feed-forward networks, and products of each head.
#include <algorithm>

#include "engine/execute/pass.h"
#include "kernels/simd/round.h"

namespace cria {
namespace {

constexpr std::size_t kFeedForwardBlock = 256;  // rows of a feed-forward block
constexpr std::size_t kSmallBatch = 8;          // their values stay in the caches anyway
constexpr std::size_t kHeadTokens = 32;         // tokens of one head that are computed together

NodeFacts dense_product(std::string text, const Graph& graph, const Node& node) {
  NodeFacts facts{std::move(text), "", ""};
  facts.dense = true;
  facts.division = {UnitsOfRank::Share, graph.values[node.out].width, 1, 0, kRowTile};
  return facts;
}

// Multiplies gate and up of rows, and activates the products.
void multiply_gated(const FeedForwardOp& op, const Node& node, Pass& pass, UnitRange rows,
                    unsigned worker, const std::byte* next) {
  const bool gated = op.up != kNoValue;
  pass.multiply(node.matrices[0], node.in, node.out, nullptr, rows, worker,
                gated ? node.matrices[1].row(rows.begin) : next);
  if (gated) pass.multiply(node.matrices[1], node.in, op.up, nullptr, rows, worker, next);
  for (std::size_t token = pass.begin; token < pass.end; ++token)
    pass.kernels.activate(op.activation, pass.work[node.out].row(token) + rows.begin,
                          gated ? pass.work[op.up].row(token) + rows.begin : nullptr, rows.size());
}

// Multiplies some tokens of one head.
void multiply_head(const HeadProductsOp& op, const Node& node, Pass& pass, std::size_t head,
                   UnitRange tokens, unsigned worker, const std::byte* next) {
  const KernelSet& kernels = pass.kernels;
  const Value &in = pass.work[node.in], &out = pass.work[node.out];
  const Matrix& m = node.matrices[head];
  const std::size_t cols = m.weight.cols(), rows = m.weight.rows(), n = tokens.size();
  const float* const from = in.row(tokens.begin) + head * op.in_stride;
  float* const to = out.row(tokens.begin) + head * op.out_stride;
  std::byte* const memory = pass.scratch_behind(worker, cols);
  if (op.columns) {
    auto* const row = reinterpret_cast<float*>(memory);
    for (std::size_t t = 0; t < n; ++t) std::fill_n(to + t * out.width, cols, 0.0F);
    for (std::size_t i = 0; i < rows; ++i) {
      dtype_info(m.weight.dtype).dequantize(m.row(i), row, cols);
      for (std::size_t t = 0; t < n; ++t)
        kernels.add_scaled(to + t * out.width, row, from[t * in.width + i] * m.scale_of(i), cols);
    }
  } else {
    Activations x = place_activations(m.kernel.act, n, cols, memory);
    if (x.type == ActType::F32) {
      x.f32 = from;
      x.f32_stride = in.width;
    } else {
      kernels.quantize(from, in.width, x, 0, n, 0, cols);
    }
    pass.multiply(m, x, to, out.width, {0, rows}, worker, next);
  }
  const std::size_t taken = op.columns ? rows : cols, made = op.columns ? cols : rows;
  for (std::size_t t = 0; t < n; ++t)
    std::copy_n(from + t * in.width + taken, op.copied, to + t * out.width + made);
}

}  // namespace

void OpBase::own_rows(const Node& node, const UnitRanges& own, UnitRange /*kv*/,
                      const RowsVisitor& visit) {
  for (const Matrix& m : node.matrices)
    for (const UnitRange& rows : own) visit(m, rows.begin, rows.end);
}

NodeFacts MatMulOp::facts(const Graph& graph, const Node& node) const {
  std::string text = factor_text(scale);
  if (softcap != 0) text += ", softcap " + number_text(softcap);
  if (residual) text += ", added";
  NodeFacts facts = dense_product(std::move(text), graph, node);
  facts.changes_out = residual;
  facts.division.of_rank = by_all ? UnitsOfRank::All : UnitsOfRank::Free;
  return facts;
}

namespace {

// Multiplies rows of products with A by the scales of the sequences.
void scale_adapters(const MatMulOp& op, const Value& out, const Pass& pass, UnitRange rows) {
  for (const BatchSlice& slice : pass.batch->slices) {
    const std::size_t end = std::min(slice.end, pass.end);
    for (std::size_t token = std::max(slice.begin, pass.begin); token < end; ++token)
      for (const AdapterPart& part : op.adapters) {
        const float factor = pass.scales_of(slice)[part.file];
        const std::size_t last = std::min<std::size_t>(rows.end, part.end);
        for (std::size_t r = std::max<std::size_t>(rows.begin, part.begin); r < last; ++r) {
          float& value = out.row(token)[r];
          value = factor == 0 ? 0 : value * factor;
        }
      }
  }
}

}  // namespace

void MatMulOp::run(const Node& node, Pass& pass) const {
  if (!adapters.empty() && !pass.adapted) return;
  const Value& out = pass.work[node.out];
  float* const first = out.row(pass.first_row(node.out));
  pass.pack_input(node);
  pass.for_each_chunk(node, [&](UnitRange rows, const std::byte* next, unsigned worker) {
    pass.multiply(node.matrices[0], node.in, node.out, residual ? first : nullptr, rows, worker,
                  next);
    scale_adapters(*this, out, pass, rows);
    if (scale == 1 && softcap == 0) return;
    for (std::size_t i = 0; i < pass.count(); ++i) {
      float* const row = first + i * out.width + rows.begin;
      if (scale != 1) pass.kernels.scale(row, scale, rows.size());
      if (softcap != 0) pass.kernels.soft_cap(row, softcap, rows.size());
    }
  });
  pass.finish(node);
}

NodeFacts FeedForwardOp::facts(const Graph& graph, const Node& node) const {
  NodeFacts facts = dense_product(", " + activation_text(activation), graph, node);
  if (up != kNoValue) facts.more_writes = {up};
  facts.countdowns = graph.values[node.out].width / kFeedForwardBlock + 1;
  return facts;
}

// A chunk is the same rows of gate and up. Many tokens are computed in blocks of rows that stay in
// the caches from the products to the quantization. Several chunks may have rows of a block:
// whichever adds the last quantizes it.
void FeedForwardOp::run(const Node& node, Pass& pass) const {
  const bool divided = pass.part_of(node).divided();
  const std::size_t n_rows = pass.work[node.out].width;
  pass.pack_input(node);
  pass.for_each_chunk(node, [&](UnitRange chunk, const std::byte* next, unsigned worker) {
    for (std::size_t begin = chunk.begin, end = begin; begin < chunk.end; begin = end) {
      end = pass.count() > kSmallBatch
                ? std::min(chunk.end, (begin / kFeedForwardBlock + 1) * kFeedForwardBlock)
                : chunk.end;
      multiply_gated(*this, node, pass, {begin, end}, worker,
                     end < chunk.end ? node.matrices[0].row(end) : next);
      if (divided) continue;
      for (std::size_t b = begin / kFeedForwardBlock; b * kFeedForwardBlock < end; ++b) {
        const UnitRange block{b * kFeedForwardBlock, std::min(n_rows, (b + 1) * kFeedForwardBlock)};
        const std::size_t mine = std::min(end, block.end) - std::max(begin, block.begin);
        if (completes(pass.work.pending[b], mine, block.size()))
          pass.work[node.out].quantize(pass.kernels, node.acts, {pass.begin, pass.end}, block);
      }
    }
  });
  if (divided) pass.finish(node);
}

NodeFacts HeadProductsOp::facts(const Graph& /*graph*/, const Node& node) const {
  NodeFacts facts{columns ? ", by columns" : "", "", ""};
  facts.quantizes_input = true;
  facts.group = facts.group_used = n_heads;
  facts.division = {UnitsOfRank::Share, n_heads, out_stride};
  facts.unit_reads = {{node.in, 0, in_stride}};
  facts.scratch = input_bytes(node, kHeadTokens);
  return facts;
}

void HeadProductsOp::own_rows(const Node& node, const UnitRanges& own, UnitRange /*kv*/,
                              const RowsVisitor& visit) {
  const UnitRange heads = own.range();
  for (std::size_t head = heads.begin; head < heads.end; ++head)
    visit(node.matrices[head], 0, node.matrices[head].weight.rows());
}

RowChunks HeadProductsOp::chunks(const Node& node, const Pass& pass) {
  return RowChunks::equal(pass.part_of(node).own.size(), 1);
}

const std::byte* HeadProductsOp::first_weights(const Node& node, const Pass& pass,
                                               std::size_t chunk) {
  return node.matrices[pass.part_of(node).own[chunk]].row(0);
}

// A chunk is some tokens of one head.
void HeadProductsOp::run(const Node& node, Pass& pass) const {
  const UnitRange own = pass.part_of(node).own.range();
  const std::size_t heads = own.size(), blocks = divide_up(pass.count(), kHeadTokens);
  pass.team.run_any(heads * blocks, [&](std::size_t chunk, unsigned worker) {
    const std::size_t begin = pass.begin + chunk / heads * kHeadTokens;
    multiply_head(*this, node, pass, own.begin + chunk % heads,
                  {begin, std::min(pass.end, begin + kHeadTokens)}, worker,
                  pass.weights_after(node, chunk % heads, worker));
  });
  pass.finish(node);
}

}  // namespace cria
