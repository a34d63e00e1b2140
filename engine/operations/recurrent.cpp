// Recurrent layers: convolutions, decays, recurrences of heads, selective scans. A chunk is some
// units (heads, or channels) of one sequence with all their rows, so that a unit's state has one
// writer.
#include <algorithm>

#include "engine/execute/pass.h"
#include "kernels/recurrent/recurrent.h"
#include "kernels/simd/round.h"

namespace cria {
namespace {

// Channels of a chunk.
constexpr std::size_t kChannels = 128;
// Rows that Mamba-1 may drop again: it keeps a copy of the state for each.
constexpr std::size_t kScanRollback = 3;

// Shapes of the states of n units.
ConvolutionShape shape_of(const ConvolutionOp& op, std::size_t n) {
  return {.channels = n, .taps = op.taps, .rollback = kMaxRollback};
}
RecurrenceShape shape_of(const RecurrenceOp& op, std::size_t n) {
  return {.n_heads = n,
          .key_dim = op.key_dim,
          .value_dim = op.value_dim,
          .key_decay = op.key_decay,
          .rollback = kMaxRollback};
}
ScanShape shape_of(const ScanOp& op, std::size_t n) {
  return {.channels = n, .state_dim = op.state_dim, .rollback = kScanRollback};
}

// Facts of an operation with a state. It runs for every token of a prompt.
NodeFacts recurrent_facts(std::string text, std::uint32_t state, std::vector<ValueId> reads) {
  NodeFacts facts{std::move(text), "", ", state " + std::to_string(state)};
  facts.more_reads = std::move(reads);
  facts.fills_cache = true;
  facts.state = state;
  return facts;
}

// Copies the state from a snapshot if it was one, and to snapshots at ends of pages. Between them
// runs f(first row of the batch, its position, rows, memory). units: indices among this rank's.
template <class F>
void run_slice(const Pass& pass, std::uint32_t state, const BatchSlice& slice, UnitRange units,
               F&& f) {
  const KvPool& pool = pass.cache;
  const std::vector<PageId>&live = (*slice.pages)[pool.live_states()],
        &kept = (*slice.pages)[pool.snapshots()];
  if (live.size() == 2) pool.copy_units(state, live[0], live[1], units, false);
  const std::size_t end = slice.first_pos + slice.end - slice.begin;
  for (std::size_t pos = slice.first_pos; pos < end;) {
    std::size_t page = pos / kKeyTile;
    while (page < kept.size() && kept[page] == kNoPage) ++page;
    const std::size_t page_end = (page + 1) * kKeyTile,
                      to = page < kept.size() ? std::min(end, page_end) : end;
    f(slice.begin + pos - slice.first_pos, pos, to - pos, pool.live(state, live[0]));
    if (page < kept.size() && to == page_end)
      pool.copy_units(state, live[0], kept[page], units, true);
    pos = to;
  }
}

// f(slice, units, worker) for `together` units of this rank (their indices), of every sequence of
// the batch.
template <class F>
void run_units(const Node& node, Pass& pass, std::size_t together, F&& f) {
  const std::size_t units = pass.part_of(node).own.size(), chunks = divide_up(units, together);
  pass.team.run_any(chunks * pass.batch->slices.size(), [&](std::size_t chunk, unsigned worker) {
    const std::size_t first = chunk % chunks * together;
    f(pass.batch->slices[chunk / chunks], UnitRange{first, std::min(units, first + together)},
      worker);
  });
  pass.finish(node);
}

}  // namespace

StateSpec ConvolutionOp::state_spec() const {
  const ConvolutionShape shape = shape_of(*this, channels);
  return {shape.floats(), shape.rollback, shape.snapshot_offset(), taps - 1, channels, 1};
}

// The first part of a value is written before the others.
NodeFacts ConvolutionOp::facts(const Graph& /*graph*/, const Node& node) const {
  std::string text = ", " + std::to_string(taps) + " taps of " + std::to_string(channels) +
                     " channels, " + tensor_text(weights);
  if (bias) text += ", " + tensor_text(*bias);
  if (silu) text += ", silu";
  if (factor) text += ", gated";
  NodeFacts facts = recurrent_facts(std::move(text), state, {});
  facts.tensors = {weights};
  if (bias) facts.tensors.push_back(*bias);
  facts.changes_out = out_offset != 0;
  facts.division = {UnitsOfRank::Free, channels, 1, out_offset};
  for (const std::optional<std::size_t> column : {std::optional(in_offset), factor, out_factor})
    if (column) facts.unit_reads.push_back({node.in, *column});
  return facts;
}

void ConvolutionOp::run(const Node& node, Pass& pass) const {
  const Value &in = pass.work[node.in], &out = pass.work[node.out];
  const UnitRanges& own = pass.part_of(node).own;
  run_units(node, pass, kChannels, [&](const BatchSlice& slice, UnitRange units, auto) {
    run_slice(pass, state, slice, units,
              [&](std::size_t row, std::size_t pos, std::size_t n, float* memory) {
                own.for_each(units, [&](UnitRange run, std::size_t index) {
                  const float* const x = in.row(row) + run.begin;
                  ConvolutionJob job{};
                  job.shape = shape_of(*this, own.size());
                  job.memory = memory + index;
                  job.first_pos = pos;
                  job.n_rows = n;
                  job.x = x + in_offset;
                  job.x_stride = in.width;
                  if (factor) job.factor = x + *factor;
                  job.weights = floats(weights) + run.begin * taps;
                  if (bias) job.bias = floats(*bias) + run.begin;
                  job.silu = silu;
                  if (out_factor) job.out_factor = x + *out_factor;
                  job.out = out.row(row) + out_offset + run.begin;
                  job.out_stride = out.width;
                  pass.kernels.convolution(job, 0, run.size());
                });
              });
  });
}

NodeFacts DecayOp::facts(const Graph& graph, const Node& node) const {
  NodeFacts facts{", " + std::to_string(heads) + " heads of " + std::to_string(per_head), "", ""};
  for (const auto& tensor : {bias, a}) {
    if (!tensor) continue;
    facts.text += ", " + tensor_text(*tensor);
    facts.tensors.push_back(*tensor);
  }
  if (dt != kNoValue) {
    facts.outputs = ", " + graph.values[dt].name;
    facts.more_writes = {dt};
  }
  facts.division = {UnitsOfRank::Follows, heads, per_head};
  facts.unit_reads = {{node.in, in_offset, per_head}};
  return facts;
}

void DecayOp::run(const Node& node, Pass& pass) const {
  pass.for_each_token([&](std::size_t token) {
    for (const UnitRange& run : pass.part_of(node).own) {
      const std::size_t first = run.begin * per_head;
      float* const out = pass.work[node.out].row(token) + first;
      float* const steps = !a ? out : dt == kNoValue ? nullptr : pass.work[dt].row(token) + first;
      pass.kernels.softplus_decay(
          pass.work[node.in].row(token) + in_offset + first, bias ? floats(*bias) + first : nullptr,
          a ? floats(*a) + run.begin : nullptr, run.size(), per_head, steps, a ? out : nullptr);
    }
  });
  pass.finish(node);
}

StateSpec RecurrenceOp::state_spec() const {
  const RecurrenceShape shape = shape_of(*this, heads);
  return {shape.floats(), shape.rollback, shape.snapshot_offset(), 1, heads, shape.state_floats()};
}

// Heads that share keys stay together as long as every rank gets some.
NodeFacts RecurrenceOp::facts(const Graph& graph, const Node& node) const {
  std::string text = std::string(delta ? ", delta rule" : ", sum") + (key_decay ? " by key" : "") +
                     ", " + std::to_string(heads) + " heads of " + std::to_string(key_dim) +
                     " and " + std::to_string(value_dim) + ", " + std::to_string(key_heads) +
                     (key_repeat == 1 ? " key heads in turn" : " key heads");
  if (norm_eps != 0) text += ", l2 norm with eps " + number_text(norm_eps);
  if (skip) text += ", skip " + tensor_text(*skip);
  NodeFacts facts = recurrent_facts(std::move(text), state, {beta, decay});
  facts.inputs = ", " + graph.values[beta].name + ", " + graph.values[decay].name;
  if (skip) facts.tensors = {*skip};
  facts.scratch = recurrence_scratch_bytes(key_dim);
  facts.division = {UnitsOfRank::Share, heads, value_dim, 0, key_repeat, heads / key_repeat};
  for (const std::size_t column : {q_offset, k_offset})
    facts.unit_reads.push_back({node.in, column, key_dim, key_dim, key_repeat, key_heads});
  facts.unit_reads.push_back({node.in, v_offset, value_dim});
  facts.unit_reads.push_back({beta});
  facts.unit_reads.push_back({decay, 0, key_decay ? key_dim : 1});
  return facts;
}

void RecurrenceOp::run(const Node& node, Pass& pass) const {
  const Value &in = pass.work[node.in], &out = pass.work[node.out], &betas = pass.work[beta],
              &decays = pass.work[decay];
  const UnitRange own = pass.part_of(node).own.range();
  run_units(node, pass, 1, [&](const BatchSlice& slice, UnitRange units, unsigned worker) {
    run_slice(pass, state, slice, units,
              [&](std::size_t row, std::size_t pos, std::size_t n, float* memory) {
                RecurrenceJob job{};
                job.shape = shape_of(*this, own.size());
                job.memory = memory;
                job.first_pos = pos;
                job.n_rows = n;
                job.n_key_heads = key_heads;
                job.key_head_repeat = key_repeat;
                job.first_head = own.begin;
                job.delta = delta;
                job.norm_eps = norm_eps;
                job.q_scale = q_scale;
                job.q = in.row(row) + q_offset;
                job.k = in.row(row) + k_offset;
                job.v = in.row(row) + v_offset + own.begin * value_dim;
                job.q_stride = job.k_stride = job.v_stride = in.width;
                job.beta = betas.row(row) + own.begin;
                job.beta_stride = betas.width;
                job.decay = decays.row(row) + own.begin * (key_decay ? key_dim : 1);
                job.decay_stride = decays.width;
                if (skip) job.skip = floats(*skip) + own.begin;
                job.out = out.row(row) + own.begin * value_dim;
                job.out_stride = out.width;
                pass.kernels.recurrence(job, units.begin, units.end, pass.scratch(worker));
              });
  });
}

StateSpec ScanOp::state_spec() const {
  const ScanShape shape = shape_of(*this, channels);
  return {shape.floats(), shape.rollback, shape.snapshot_offset(), 1, channels, state_dim};
}

NodeFacts ScanOp::facts(const Graph& graph, const Node& node) const {
  NodeFacts facts = recurrent_facts(", " + std::to_string(channels) + " channels of " +
                                        std::to_string(state_dim) + ", " + tensor_text(a) +
                                        ", skip " + tensor_text(skip),
                                    state, {dt, b, c});
  for (const ValueId id : {dt, b, c}) facts.inputs += ", " + graph.values[id].name;
  facts.tensors = {a, skip};
  facts.division = {UnitsOfRank::Share, channels};
  facts.unit_reads = {{node.in}, {dt}};
  return facts;
}

void ScanOp::run(const Node& node, Pass& pass) const {
  const auto input = [&](ValueId id, std::size_t row) { return pass.work[id].row(row); };
  const UnitRange own = pass.part_of(node).own.range();
  run_units(node, pass, kChannels, [&](const BatchSlice& slice, UnitRange units, auto) {
    run_slice(pass, state, slice, units,
              [&](std::size_t row, std::size_t pos, std::size_t n, float* memory) {
                ScanJob job{};
                job.shape = shape_of(*this, own.size());
                job.memory = memory;
                job.first_pos = pos;
                job.n_rows = n;
                job.x = input(node.in, row) + own.begin;
                job.dt = input(dt, row) + own.begin;
                job.x_stride = job.dt_stride = job.out_stride = channels;
                job.b = input(b, row);
                job.c = input(c, row);
                job.b_stride = job.c_stride = state_dim;
                job.a = floats(a) + own.begin * state_dim;
                job.skip = floats(skip) + own.begin;
                job.out = input(node.out, row) + own.begin;
                pass.kernels.selective_scan(job, units.begin, units.end);
              });
  });
}

}  // namespace cria
