// Operations on single rows: embedding, norms, sums, factors, gates.
#include <algorithm>

#include "engine/execute/pass.h"

namespace cria {
namespace {

NodeFacts changes_out(std::string text) {
  NodeFacts facts{std::move(text), "", ""};
  facts.changes_out = true;
  return facts;
}

// f(row of out, token) for every token, then quantizes the row.
template <class F>
void change_rows(const Node& node, Pass& pass, F&& f) {
  const Value& out = pass.work[node.out];
  pass.for_each_token([&](std::size_t token) {
    f(out.row(token), token);
    pass.quantize_row(node, token);
  });
}

}  // namespace

NodeFacts EmbedOp::facts(const Graph& /*graph*/, const Node& /*node*/) const {
  constexpr std::string_view kRows[] = {"tokens", "positions", "segments"};
  return {factor_text(scale), std::string(kRows[static_cast<std::size_t>(row)]), ""};
}

namespace {

// Returns the row of the table that a token of the batch takes.
std::size_t row_of(const EmbedOp& op, const BatchRows& batch, std::size_t token) {
  if (op.row == EmbedOp::Row::Token) return static_cast<std::size_t>(batch.tokens[token]);
  if (op.row == EmbedOp::Row::Position) return batch.positions[token];
  if (op.separator < 0) return 0;
  const auto begin = batch.tokens.begin() + static_cast<std::ptrdiff_t>(token);
  const auto slice = std::ranges::upper_bound(batch.slices, token, {}, &BatchSlice::begin) - 1;
  const auto first = batch.tokens.begin() + static_cast<std::ptrdiff_t>(slice->begin);
  return std::find(first, begin, op.separator) == begin ? 0 : 1;
}

}  // namespace

// The first node also makes the RoPE tables of the batch.
void EmbedOp::run(const Node& node, Pass& pass) const {
  const Matrix& table = node.matrices[0];
  const std::size_t width = pass.work[node.out].width;
  const bool first = pass.index_of(node) == 0;
  change_rows(node, pass, [&](float* out, std::size_t token) {
    const std::size_t from = row_of(*this, *pass.batch, token);
    dtype_info(table.weight.dtype).dequantize(table.row(from), out, width);
    const float factor = scale * table.scale_of(from);
    if (factor != 1) pass.kernels.scale(out, factor, width);
    for (std::size_t i = 0; first && i < pass.graph.ropes.size(); ++i) {
      const RopeTable& rope = pass.graph.ropes[i];
      rope.fill(pass.batch->positions[token], pass.rope_ctx,
                pass.work.ropes[i] + token * rope.width());
    }
  });
}

void NormSpec::apply(const KernelSet& kernels, std::size_t group, const float* in,
                     float* out) const {
  const std::size_t offset = own_weights ? group * width : 0;
  const float* const w = weight ? floats(*weight) + offset : nullptr;
  const float* const b = bias ? floats(*bias) + offset : nullptr;
  if (kind == NormKind::Layer) return kernels.layer_norm(in, w, b, eps, out, width);
  kernels.rms_norm(in, w, eps, out, width);
  if (b != nullptr) kernels.add(out, b, width);
}

NodeFacts NormOp::facts(const Graph& /*graph*/, const Node& node) const {
  NodeFacts facts{norm_text(norm) + (residual ? ", added" : ""), "", ""};
  facts.changes_out = residual;
  if (residual) facts.more_writes = {node.in};
  for (const auto& tensor : {norm.weight, norm.bias})
    if (tensor) facts.tensors.push_back(*tensor);
  return facts;
}

void NormOp::run(const Node& node, Pass& pass) const {
  const Value& in = pass.work[node.in];
  const std::size_t groups = norm.first_only ? 1 : in.width / norm.width;
  change_rows(node, pass, [&](float* out, std::size_t token) {
    float* const to = residual ? in.row(token) : out;
    for (std::size_t group = 0; group < groups; ++group)
      norm.apply(pass.kernels, group, in.row(token) + group * norm.width, to + group * norm.width);
    if (residual) pass.kernels.add(out, to, pass.work[node.out].width);
  });
}

NodeFacts AddOp::facts(const Graph& /*graph*/, const Node& /*node*/) const {
  return changes_out(factor_text(scale));
}

void AddOp::run(const Node& node, Pass& pass) const {
  change_rows(node, pass, [&](float* out, std::size_t token) {
    pass.kernels.add_scaled(out, pass.work[node.in].row(token), scale, pass.work[node.out].width);
  });
}

NodeFacts ScaleOp::facts(const Graph& /*graph*/, const Node& /*node*/) const {
  return changes_out(factor_text(scale));
}

void ScaleOp::run(const Node& node, Pass& pass) const {
  change_rows(node, pass, [&](float* out, std::size_t /*token*/) {
    pass.kernels.scale(out, scale, pass.work[node.out].width);
  });
}

NodeFacts GateOp::facts(const Graph& /*graph*/, const Node& /*node*/) {
  NodeFacts facts = changes_out("");
  facts.small_input = true;
  return facts;
}

void GateOp::run(const Node& node, Pass& pass) {
  change_rows(node, pass, [&](float* out, std::size_t token) {
    float gate = *pass.work[node.in].row(token);
    pass.kernels.activate({ActivationKind::Sigmoid}, &gate, nullptr, 1);
    pass.kernels.scale(out, gate, pass.work[node.out].width);
  });
}

NodeFacts GateMulOp::facts(const Graph& /*graph*/, const Node& /*node*/) const {
  return changes_out(", " + activation_text(activation));
}

void GateMulOp::run(const Node& node, Pass& pass) const {
  change_rows(node, pass, [&](float* out, std::size_t token) {
    const float* const in =
        node.in == kNoValue ? nullptr : pass.work[node.in].row(token) + in_offset;
    pass.kernels.activate(activation, out, in, pass.work[node.out].width);
  });
}

// The first part of a value is written before the others.
NodeFacts TakeOp::facts(const Graph& /*graph*/, const Node& /*node*/) const {
  NodeFacts facts{", " + std::to_string(runs) + " runs of " + std::to_string(length), "", ""};
  facts.changes_out = out_offset != 0;
  return facts;
}

void TakeOp::run(const Node& node, Pass& pass) const {
  change_rows(node, pass, [&](float* out, std::size_t token) {
    const float* const in = pass.work[node.in].row(token) + in_offset;
    for (std::size_t i = 0; i < runs; ++i)
      std::copy_n(in + i * stride, length, out + out_offset + i * length);
  });
}

}  // namespace cria
