#include "engine/execute/executor.h"

#include <algorithm>
#include <cassert>
#include <chrono>

namespace cria {
namespace {

using Clock = std::chrono::steady_clock;

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

void PrefetchTuner::try_first() {
  trying_ = true;
  mode_ = 0;
  left_ = kTried;
  least_.fill(std::numeric_limits<double>::infinity());
}

void PrefetchTuner::record(double seconds) {
  if (modes_.size() < 2) return;
  least_[mode_] = std::min(least_[mode_], seconds);
  if (--left_ != 0) return;
  if (!trying_) return try_first();
  if (mode_ + 1 < modes_.size()) {
    ++mode_;
    left_ = kTried;
    return;
  }
  trying_ = false;
  mode_ = static_cast<std::size_t>(
      std::min_element(least_.begin(), least_.begin() + modes_.size()) - least_.begin());
  left_ = kKept;
}

Executor::Executor(const Graph& graph, const KernelSet& kernels, const KvPool& cache,
                   const WorkShape& shape, Threads threads, std::size_t rope_ctx,
                   const GraphParts& parts, Ranks* ranks)
    : graph_(graph),
      shape_(shape),
      threads_(threads),
      ranks_(ranks),
      memory_(WorkMemory::bytes(graph, shape)),
      work_(WorkMemory::place(graph, shape, memory_.data())),
      team_(shape.threads),
      pass_{graph, kernels, cache, parts, work_, team_, gatherer_, rope_ctx},
      gatherer_(pass_, ranks),
      live_(live_values(graph)),
      prefetch_tuner_(kernels.prefetch_modes),
      seconds_(graph.nodes.size()) {
  assert(std::max(threads.decode, threads.prefill) <= shape.threads);
  assert(
      std::ranges::all_of(live_, [&](ValueId id) { return graph.values[id].rows_per_token == 1; }));
}

void Executor::compute(const BatchRows& rows) {
  pass_.batch = &rows;
  pass_.begin = rows.begin;
  pass_.end = rows.end;
  pass_.adapted = std::ranges::any_of(rows.slices, [this](const BatchSlice& slice) {
    return std::ranges::any_of(pass_.scales_of(slice), [](float scale) { return scale != 0; });
  });
}

void Executor::forward(const BatchPlan& batch) {
  assert(batch.all.count() != 0 && batch.all.count() <= shape_.n_batch);
  const bool one = batch.all.count() == 1;
  pass_.prefetch = prefetch_tuner_.mode();
  const auto start = Clock::now();
  compute(batch.all);
  const auto evaluation = team_.begin(one ? threads_.decode : threads_.prefill);
  for (std::size_t i = 0; i < graph_.body(); ++i) {
    if (ranks_ == nullptr && stopped()) throw EvaluationStopped();
    if (i == graph_.first_sparse) {
      move_rows(batch);
      compute(batch.wanted);
    }
    if (pass_.count() != 0) run(graph_.nodes[i]);
  }
  if (one) prefetch_tuner_.record(std::chrono::duration<double>(Clock::now() - start).count());
}

void Executor::run_nodes(const BatchPlan& batch, std::size_t begin, std::size_t end) {
  compute(batch.all);
  const auto evaluation = team_.begin(threads_.prefill);
  for (std::size_t i = begin; i < end; ++i) run(graph_.nodes[i]);
}

// Moves the requested rows side by side, in every value that later nodes read.
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
  assert(graph_.logits != kNoValue && begin < end && end <= batch.wanted.count() &&
         end - begin <= shape_.logit_rows);
  compute(batch.wanted);
  pass_.end = pass_.begin + end;
  pass_.begin += begin;
  const auto evaluation = team_.begin(end - begin == 1 ? threads_.decode : threads_.prefill);
  run(graph_.nodes.back());
  const Value& logits = work_[graph_.logits];
  return {logits.f32, (end - begin) * logits.width};
}

std::span<const float> Executor::hidden(const BatchPlan& batch, std::size_t begin,
                                        std::size_t end) const {
  assert(begin <= end && end <= batch.wanted.count());
  const Value& value = work_.values[graph_.hidden];
  return {value.row(batch.wanted.begin + begin), (end - begin) * value.width};
}

void Executor::profile(bool on) {
  profiling_ = on;
  std::ranges::fill(seconds_, 0.0);
  gatherer_.profile(on);
}

void Executor::run(const Node& node) {
  const auto start = profiling_ ? Clock::now() : Clock::time_point();
  node.visit([&](const auto& o) { o.run(node, pass_); });
  if (profiling_)
    seconds_[pass_.index_of(node)] += std::chrono::duration<double>(Clock::now() - start).count();
  if (observer_) {
    const Value& out = work_[node.out];
    const UnitRange rows = node.visit([&](const auto& o) { return o.rows_written(node, pass_); });
    observer_(node, {out.row(rows.begin), rows.size() * out.width}, out.width);
  }
}

}  // namespace cria
