#include "engine/execute/executor.h"

#include <algorithm>
#include <cassert>
#include <chrono>

namespace cria {

namespace {

std::vector<ValueId> live_values(const Graph& graph) {
  std::vector<ValueId> live, written;
  const auto has = [](const std::vector<ValueId>& ids, ValueId id) {
    return std::ranges::count(ids, id) != 0;
  };
  for (std::size_t i = graph.first_sparse; i < graph.nodes.size(); ++i) {
    for (const ValueId id : graph.nodes[i].reads())
      if (!has(written, id) && !has(live, id)) live.push_back(id);
    for (const ValueId id : graph.nodes[i].writes()) written.push_back(id);
  }
  return live;
}

}  // namespace

Executor::Executor(const Graph& graph, const KernelSet& kernels, const KvPool& cache,
                   const WorkShape& shape, Threads threads, std::size_t rope_ctx,
                   const GraphParts& parts, Ranks* ranks)
    : graph_(graph),
      kernels_(kernels),
      cache_(cache),
      shape_(shape),
      threads_(threads),
      rope_ctx_(rope_ctx),
      parts_(parts),
      ranks_(ranks),
      memory_(WorkMemory::bytes(graph, shape)),
      work_(WorkMemory::place(graph, shape, memory_.data())),
      team_(shape.threads),
      live_(live_values(graph)),
      fetches_(kernels.fetches),
      seconds_(graph.nodes.size()),
      gathers_(graph.nodes.size()) {
  assert(std::max(threads.decode, threads.prefill) <= shape.threads);
  assert(
      std::ranges::all_of(live_, [&](ValueId id) { return graph.values[id].rows_per_token == 1; }));
  if (ranks != nullptr) make_exchange();
}

void Executor::compute(const BatchRows& rows) {
  batch_ = &rows;
  begin_ = rows.begin;
  end_ = rows.end;
}

void Executor::forward(const BatchPlan& batch) {
  assert(batch.all.count() != 0 && batch.all.count() <= shape_.n_batch);
  const bool one = batch.all.count() == 1;
  fetch_ = fetches_.now();
  const auto start = Clock::now();
  compute(batch.all);
  const auto evaluation = team_.begin(one ? threads_.decode : threads_.prefill);
  for (std::size_t i = 0; i + 1 < graph_.nodes.size(); ++i) {
    if (ranks_ == nullptr && stopped()) throw EvaluationStopped();
    if (i == graph_.first_sparse) {
      move_rows(batch);
      compute(batch.wanted);
    }
    if (begin_ < end_) run(graph_.nodes[i]);
  }
  if (one) fetches_.took(std::chrono::duration<double>(Clock::now() - start).count());
}

// The wanted rows become neighbours, in everything that the nodes still to come read.
void Executor::move_rows(const BatchPlan& batch) {
  for (const auto& [from, to, n] : batch.moves) {
    for (std::size_t i = n; i-- > 0;) {
      for (const ValueId id : live_) work_[id].copy_row(from + i, to + i);
      for (std::size_t r = 0; r < graph_.ropes.size(); ++r) {
        const std::size_t width = graph_.ropes[r].width();
        std::copy_n(work_.ropes[r] + (from + i) * width, width, work_.ropes[r] + (to + i) * width);
      }
    }
  }
}

std::span<const float> Executor::logits(const BatchPlan& batch, std::size_t begin,
                                        std::size_t end) {
  assert(begin < end && end <= batch.wanted.count() && end - begin <= shape_.logit_rows);
  compute(batch.wanted);
  end_ = begin_ + end;
  begin_ += begin;
  const auto evaluation = team_.begin(end - begin == 1 ? threads_.decode : threads_.prefill);
  run(graph_.nodes.back());
  const Value& logits = work_[graph_.nodes.back().out];
  return {logits.f32, (end - begin) * logits.width};
}

std::span<const float> Executor::hidden(const BatchPlan& batch, std::size_t begin,
                                        std::size_t end) const {
  assert(begin <= end && end <= batch.wanted.count());
  const Value& value = work_.values[graph_.nodes.back().in];
  return {value.row(batch.wanted.begin + begin), (end - begin) * value.width};
}

void Executor::profile(bool on) {
  profiling_ = on;
  std::fill(seconds_.begin(), seconds_.end(), 0.0);
  std::fill(gathers_.begin(), gathers_.end(), GatherTotals{});
}

void Executor::run(const Node& node) {
  if (profiling_) {
    const auto start = Clock::now();
    dispatch(node);
    seconds_[index_of(node)] += std::chrono::duration<double>(Clock::now() - start).count();
  } else {
    dispatch(node);
  }
  if (observer_) {
    const Value& out = work_[node.out];
    const UnitRange rows = rows_of_out(node);
    observer_(node, {out.row(rows.begin), rows.size() * out.width}, out.width);
  }
}

void Executor::dispatch(const Node& node) {
  switch (node.op) {
    case Op::Embed:
      return embed(node);
    case Op::Norm:
      return norm(node);
    case Op::Heads:
      return heads(node);
    case Op::HeadProducts:
      return head_products(node);
    case Op::Attention:
      return attention(node);
    case Op::MatMul:
      return matmul(node);
    case Op::FeedForward:
      return feed_forward(node);
    case Op::Route:
      return route(node);
    case Op::ExpertsUp:
      return experts_up(node);
    case Op::ExpertsDown:
      return experts_down(node);
    case Op::Add:
    case Op::Scale:
    case Op::Gate:
    case Op::GateMul:
      return rows(node);
  }
}

}  // namespace cria
