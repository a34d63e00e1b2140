// Operations on single rows: embedding, norms, sums, factors, gates.
#include <algorithm>
#include <array>
#include <cmath>

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
  const bool divided = pass.part_of(node).divided();
  pass.for_each_token([&](std::size_t token) {
    f(out.row(token), token);
    if (!divided) pass.quantize_row(node, token);
  });
  if (divided) pass.finish(node);
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

// A unit is a group of values with one norm.
NodeFacts NormOp::facts(const Graph& graph, const Node& node) const {
  NodeFacts facts{norm_text(norm) + (residual ? ", added" : ""), "", ""};
  const bool follows = !residual && !norm.first_only;
  facts.division = {follows ? UnitsOfRank::Follows : UnitsOfRank::All,
                    norm.first_only ? 1 : graph.values[node.in].width / norm.width, norm.width};
  facts.unit_reads = {{node.in, 0, norm.width}};
  facts.changes_out = residual;
  if (residual) facts.more_writes = {node.in};
  for (const auto& tensor : {norm.weight, norm.bias})
    if (tensor) facts.tensors.push_back(*tensor);
  return facts;
}

void NormOp::run(const Node& node, Pass& pass) const {
  const Value& in = pass.work[node.in];
  change_rows(node, pass, [&](float* out, std::size_t token) {
    float* const to = residual ? in.row(token) : out;
    for (const UnitRange& groups : pass.part_of(node).own)
      for (std::size_t group = groups.begin; group < groups.end; ++group)
        norm.apply(pass.kernels, group, in.row(token) + group * norm.width,
                   to + group * norm.width);
    if (residual) pass.kernels.add(out, to, pass.work[node.out].width);
  });
}

NodeFacts AddOp::facts(const Graph& /*graph*/, const Node& /*node*/) const {
  return changes_out(factor_text(scale) +
                     (out_offset == 0 ? "" : ", from column " + std::to_string(out_offset)));
}

void AddOp::run(const Node& node, Pass& pass) const {
  const Value &in = pass.work[node.in], &to = pass.work[node.out];
  change_rows(node, pass, [&](float* out, std::size_t token) {
    for (std::size_t column = out_offset; column < to.width; column += in.width)
      pass.kernels.add_scaled(out + column, in.row(token), scale, in.width);
  });
}

NodeFacts ScaleOp::facts(const Graph& /*graph*/, const Node& /*node*/) const {
  NodeFacts facts = changes_out(factor_text(scale));
  if (!factors) return facts;
  facts.text += ", times " + tensor_text(*factors);
  facts.tensors = {*factors};
  return facts;
}

void ScaleOp::run(const Node& node, Pass& pass) const {
  const std::size_t width = pass.work[node.out].width;
  change_rows(node, pass, [&](float* out, std::size_t /*token*/) {
    if (scale != 1) pass.kernels.scale(out, scale, width);
    for (std::size_t i = 0; factors && i < width; ++i) out[i] *= floats(*factors)[i];
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

NodeFacts GateMulOp::facts(const Graph& graph, const Node& node) const {
  NodeFacts facts = changes_out(", " + activation_text(activation));
  facts.division = {UnitsOfRank::Follows, graph.values[node.out].width};
  facts.unit_reads = {{node.out}};
  if (node.in != kNoValue) facts.unit_reads.push_back({node.in, in_offset});
  return facts;
}

void GateMulOp::run(const Node& node, Pass& pass) const {
  change_rows(node, pass, [&](float* out, std::size_t token) {
    const float* const in =
        node.in == kNoValue ? nullptr : pass.work[node.in].row(token) + in_offset;
    for (const UnitRange& columns : pass.part_of(node).own)
      pass.kernels.activate(activation, out + columns.begin,
                            in == nullptr ? nullptr : in + columns.begin, columns.size());
  });
}

// The first part of a value is written before the others.
NodeFacts TakeOp::facts(const Graph& /*graph*/, const Node& node) const {
  NodeFacts facts{", " + std::to_string(runs) + " runs of " + std::to_string(length), "", ""};
  facts.changes_out = out_offset != 0;
  facts.division = {UnitsOfRank::Follows, runs, length, out_offset};
  facts.unit_reads = {{node.in, in_offset, length, stride}};
  return facts;
}

void TakeOp::run(const Node& node, Pass& pass) const {
  change_rows(node, pass, [&](float* out, std::size_t token) {
    const float* const in = pass.work[node.in].row(token) + in_offset;
    for (const UnitRange& own : pass.part_of(node).own)
      for (std::size_t i = own.begin; i < own.end; ++i)
        std::copy_n(in + i * stride, length, out + out_offset + i * length);
  });
}

NodeFacts MixOp::facts(const Graph& graph, const Node& /*node*/) const {
  NodeFacts facts{", " + std::to_string(n) + " streams", "", ""};
  facts.inputs = ", " + graph.values[terms].name + ", " + graph.values[coefficients].name;
  if (bias != 0) facts.text += ", coefficients + " + number_text(bias);
  facts.more_reads = {terms, coefficients};
  return facts;
}

void MixOp::run(const Node& node, Pass& pass) const {
  const Value &in = pass.work[node.in], &added = pass.work[terms];
  const std::size_t width = in.width / n, per_stream = added.width / width;
  change_rows(node, pass, [&](float* out, std::size_t token) {
    const float* c = pass.work[coefficients].row(token);
    std::copy_n(in.row(token), in.width, out);
    for (std::size_t k = 0; k < n; ++k)
      for (std::size_t j = 0; j < per_stream; ++j)
        pass.kernels.add_scaled(out + k * width, added.row(token) + j * width, *c++ + bias, width);
  });
}

namespace {

// Returns the mean of f(x) over a row, in eight partial sums.
template <class F>
double mean_of(const float* row, std::size_t n, F&& f) {
  std::array<double, 8> sums{};
  for (std::size_t i = 0; i < n; ++i) sums[i % sums.size()] += f(static_cast<double>(row[i]));
  double sum = 0;
  for (const double part : sums) sum += part;
  return sum / static_cast<double>(n);
}

double mean_square(const float* row, std::size_t n) {
  return mean_of(row, n, [](double x) { return x * x; });
}

}  // namespace

NodeFacts MatchRmsOp::facts(const Graph& /*graph*/, const Node& /*node*/) {
  return changes_out("");
}

void MatchRmsOp::run(const Node& node, Pass& pass) {
  const Value &in = pass.work[node.in], &to = pass.work[node.out];
  change_rows(node, pass, [&](float* out, std::size_t token) {
    const double own = mean_square(out, to.width);
    if (own == 0) return;
    const double factor = std::sqrt(mean_square(in.row(token), in.width) / own);
    pass.kernels.scale(out, static_cast<float>(factor), to.width);
  });
}

NodeFacts ThresholdOp::facts(const Graph& /*graph*/, const Node& /*node*/) const {
  return changes_out(", mean and " + number_text(deviations) + " deviations");
}

void ThresholdOp::run(const Node& node, Pass& pass) const {
  const std::size_t width = pass.work[node.out].width;
  change_rows(node, pass, [&](float* out, std::size_t /*token*/) {
    const double mean = mean_of(out, width, [](double x) { return x; });
    const double variance =
        mean_of(out, width, [mean](double x) { return (x - mean) * (x - mean); });
    const auto limit = static_cast<float>(mean + deviations * std::sqrt(variance));
    // A NaN must stay one, so that it is reported.
    for (std::size_t i = 0; i < width; ++i) out[i] = out[i] <= limit ? 0 : out[i] - limit;
  });
}

}  // namespace cria
