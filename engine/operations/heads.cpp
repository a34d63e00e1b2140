// Projections to heads: products, norms, RoPE, and keys and values into the cache. A chunk is a
// query head, or a KV head with its key and value: it rotates and stores what it has computed.
#include <algorithm>
#include <cmath>

#include "engine/execute/pass.h"
#include "kernels/attention/attention.h"

namespace cria {

namespace {

// The matrices of a node; null: none.
struct Projections {
  const Matrix *q, *k, *v;

  Projections(const HeadsOp& op, const Node& node) {
    const Matrix* next = node.matrices.data();
    q = op.q_matrix ? next++ : nullptr;
    k = op.k_matrix ? next++ : nullptr;
    v = op.v_matrix ? next : nullptr;
  }
};

// One node in one batch.
class HeadsRun {
 public:
  HeadsRun(const HeadsOp& op, const Node& node, Pass& pass)
      : op_(op), node_(node), pass_(pass), matrices_(op, node) {}

  void run() {
    const UnitRange own = pass_.part_of(node_).own.range(), kv = pass_.parts.kv_heads(op_);
    pass_.pack_input(node_);
    pass_.team.run(pass_.chunks_of(node_).size(), [&](std::size_t chunk, unsigned worker) {
      const std::byte* const next = pass_.weights_after(node_, chunk, worker);
      if (chunk < kv.size()) return compute_kv(kv.begin + chunk, worker, next);
      const std::size_t head = own.begin + chunk - kv.size();
      project(matrices_.q, node_.out, head, op_.dim_k, worker, next);
      prepare(node_.out, op_.q_norm, head, true);
    });
    pass_.finish(node_);
  }

 private:
  void compute_kv(std::size_t head, unsigned worker, const std::byte* next) {
    project(matrices_.k, op_.k, head, op_.dim_k, worker,
            matrices_.v != nullptr ? matrices_.v->row(head * op_.dim_v) : next);
    if (op_.v_from_k) {
      for_each_row(op_.v, head * op_.dim_v, [&](float* row, std::size_t token) {
        std::copy_n(pass_.work[op_.k].row(token) + head * op_.dim_k, op_.dim_v, row);
      });
    } else if (op_.v != kNoValue) {
      project(matrices_.v, op_.v, head, op_.dim_v, worker, next);
    }
    if (op_.v != kNoValue) apply_norm(op_.v_norm, op_.v, head, op_.dim_v);
    prepare(op_.k, op_.k_norm, head, false);
    store(head);
  }

  void project(const Matrix* m, ValueId value, std::size_t head, std::size_t dim, unsigned worker,
               const std::byte* next) {
    const UnitRange columns{head * dim, (head + 1) * dim};
    if (m != nullptr) pass_.multiply(*m, node_.in, value, nullptr, columns, worker, next);
    if (op_.clamp == 0) return;
    for_each_row(value, columns.begin,
                 [&](float* row, std::size_t) { pass_.kernels.clamp(row, op_.clamp, dim); });
  }

  // Norms, rotates and scales a head's query or key after its product.
  void prepare(ValueId value, const std::optional<NormSpec>& norm, std::size_t head, bool query) {
    const std::size_t column = head * op_.dim_k;
    if (!op_.norm_after_rope) apply_norm(norm, value, head, op_.dim_k);
    if (op_.rope != kNoIndex) {
      const std::size_t n_rot = pass_.graph.ropes[op_.rope].width();
      for_each_row(value, column + op_.rope_begin, [&](float* row, std::size_t token) {
        pass_.kernels.rope(row, 1, op_.dim_k, n_rot, op_.style == RopeStyle::HalfSplit,
                           pass_.work.ropes[op_.rope] + token * n_rot);
      });
    }
    if (op_.norm_after_rope) apply_norm(norm, value, head, op_.dim_k);
    if (!query || op_.temperature.scale == 0) return;
    for_each_row(value, column, [&](float* row, std::size_t token) {
      pass_.kernels.scale(row, op_.temperature.at(pass_.batch->positions[token]), op_.dim_k);
    });
  }

  void store(std::size_t head) {
    KvStoreJob job = pass_.cache.store_job(op_.cache);
    const std::size_t first = pass_.parts.caches[op_.cache].begin;  // head in the cache
    const Value& k = pass_.work[op_.k];
    const Value* const v = op_.v == kNoValue ? nullptr : &pass_.work[op_.v];
    job.k_stride = k.width;
    job.v_stride = v == nullptr ? 0 : v->width;
    for (const BatchSlice& slice : pass_.batch->slices) {
      job.k = k.row(slice.begin) + first * job.head_dim;
      job.v = v == nullptr ? nullptr : v->row(slice.begin) + first * job.value_dim;
      job.n_tokens = slice.end - slice.begin;
      job.first_pos = slice.first_pos;
      job.pages = (*slice.pages)[pass_.cache.group_of(op_.cache)].data();
      pass_.kernels.store_kv(job, head - first, head - first + 1);
    }
  }

  void apply_norm(const std::optional<NormSpec>& norm, ValueId value, std::size_t head,
                  std::size_t dim) {
    if (!norm) return;
    for_each_row(value, head * dim,
                 [&](float* row, std::size_t) { norm->apply(pass_.kernels, head, row, row); });
  }

  // f(row of the value from a column on, token)
  template <class F>
  void for_each_row(ValueId value, std::size_t column, F&& f) {
    for (std::size_t token = pass_.begin; token < pass_.end; ++token)
      f(pass_.work[value].row(token) + column, token);
  }

  const HeadsOp& op_;
  const Node& node_;
  Pass& pass_;
  const Projections matrices_;
};

}  // namespace

float Temperature::at(std::size_t position) const {
  const double steps = std::floor(static_cast<double>(position + offset) / length);
  return static_cast<float>(1 + double{scale} * std::log(1 + steps));
}

// Heads that share keys stay together as long as every rank gets some.
NodeFacts HeadsOp::facts(const Graph& graph, const Node& node) const {
  NodeFacts facts;
  std::string& text = facts.text;
  text = ", " + std::to_string(n_heads) + " heads of " + std::to_string(dim_k);
  if (k != kNoValue)
    text += ", " + std::to_string(n_kv_heads) + " kv heads of " + std::to_string(dim_k) + " and " +
            std::to_string(dim_v);
  if (clamp != 0) text += ", clamped to " + number_text(clamp);
  if (v_from_k) text += ", v = k";
  if (q_norm) text += norm_text(*q_norm, "q ");
  if (k_norm) text += norm_text(*k_norm, "k ");
  if (v_norm) text += norm_text(*v_norm, "v ");
  if (norm_after_rope) text += ", norms after rope";
  text += rope == kNoIndex ? ", no rope"
                           : std::string(", rope ") +
                                 (style == RopeStyle::Adjacent ? "adjacent" : "half split") + " (" +
                                 graph.ropes[rope].to_string() + ")";
  if (temperature.scale != 0)
    text += ", temperature " + number_text(temperature.scale) + " every " +
            std::to_string(temperature.length);
  if (node.in == kNoValue) facts.inputs = "q, k, v";
  for (const ValueId id : {k, v}) {
    if (id == kNoValue) continue;
    facts.outputs += ", " + graph.values[id].name;
    facts.more_writes.push_back(id);
  }
  if (cache != kNoIndex) facts.outputs += ", kv cache " + std::to_string(cache);
  if (!k_matrix && k != kNoValue) facts.more_reads.push_back(k);
  if (!v_matrix && v != kNoValue && !v_from_k) facts.more_reads.push_back(v);
  facts.changes_out = !q_matrix;
  facts.fills_cache = k != kNoValue;
  for (const auto& norm : {q_norm, k_norm, v_norm})
    for (const auto& tensor :
         {norm ? norm->weight : std::nullopt, norm ? norm->bias : std::nullopt})
      if (tensor) facts.tensors.push_back(*tensor);
  facts.dense = true;
  facts.division = {UnitsOfRank::Share, n_heads, dim_k, 0, n_heads / n_kv_heads, n_kv_heads};
  if (!q_matrix) facts.unit_reads = {{node.out, 0, dim_k}};
  return facts;
}

void HeadsOp::own_rows(const Node& node, const UnitRanges& own, UnitRange kv,
                       const RowsVisitor& visit) const {
  const Projections of(*this, node);
  const UnitRange heads = own.range();
  if (of.q != nullptr) visit(*of.q, heads.begin * dim_k, heads.end * dim_k);
  if (of.k != nullptr) visit(*of.k, kv.begin * dim_k, kv.end * dim_k);
  if (of.v != nullptr) visit(*of.v, kv.begin * dim_v, kv.end * dim_v);
}

// The KV heads come first.
RowChunks HeadsOp::chunks(const Node& node, const Pass& pass) const {
  return RowChunks::equal(pass.parts.kv_heads(*this).size() + pass.part_of(node).own.size(), 1);
}

const std::byte* HeadsOp::first_weights(const Node& node, const Pass& pass,
                                        std::size_t chunk) const {
  const UnitRange kv = pass.parts.kv_heads(*this), own = pass.part_of(node).own.range();
  const Projections of(*this, node);
  const bool query = chunk >= kv.size();
  const Matrix* const m = query ? of.q : of.k != nullptr ? of.k : of.v;
  const std::size_t head = query ? own.begin + chunk - kv.size() : kv.begin + chunk;
  return m == nullptr ? nullptr : m->row(head * (m == of.v ? dim_v : dim_k));
}

void HeadsOp::run(const Node& node, Pass& pass) const { HeadsRun(*this, node, pass).run(); }

}  // namespace cria
