#include "engine/execute/executor.h"

#include <algorithm>
#include <cassert>
#include <chrono>

namespace cria {

Executor::Executor(const Graph& graph, const KernelSet& kernels, KvCache& cache, const WorkShape& shape,
                   Threads threads, std::size_t rope_ctx)
    : graph_(graph),
      kernels_(kernels),
      cache_(cache),
      shape_(shape),
      threads_(threads),
      rope_ctx_(rope_ctx),
      pages_(WorkMemory::bytes(graph, shape)),
      work_(WorkMemory::place(graph, shape, pages_.data())),
      team_(shape.threads),
      seconds_(graph.nodes.size()) {
  assert(std::max(threads.decode, threads.prefill) <= shape.threads);
}

void Executor::forward(std::span<const TokenId> tokens, std::size_t first_pos, std::size_t first_wanted) {
  assert(!tokens.empty() && tokens.size() <= shape_.n_batch && first_wanted <= tokens.size());
  tokens_ = tokens;
  first_pos_ = first_pos;
  begin_ = 0;
  end_ = tokens.size();
  cache_.written(first_pos + tokens.size());
  const auto evaluation = team_.begin(tokens.size() == 1 ? threads_.decode : threads_.prefill);
  for (std::size_t i = 0; i + 1 < graph_.nodes.size(); ++i) {
    if (stop_ != nullptr && stop_->load(std::memory_order_relaxed)) throw EvaluationStopped();
    if (i == graph_.first_sparse) begin_ = first_wanted;
    if (begin_ < end_) run(graph_.nodes[i]);
  }
}

std::span<const float> Executor::logits(std::size_t begin, std::size_t end) {
  assert(begin < end && end <= tokens_.size() && end - begin <= shape_.logit_rows);
  begin_ = begin;
  end_ = end;
  const auto evaluation = team_.begin(end - begin == 1 ? threads_.decode : threads_.prefill);
  run(graph_.nodes.back());
  const Value& logits = work_[graph_.nodes.back().out];
  return {logits.f32, (end - begin) * logits.width};
}

void Executor::profile(bool on) {
  profiling_ = on;
  std::fill(seconds_.begin(), seconds_.end(), 0.0);
}

void Executor::run(const Node& node) {
  using Clock = std::chrono::steady_clock;
  if (profiling_) {
    const auto start = Clock::now();
    dispatch(node);
    const auto index = static_cast<std::size_t>(&node - graph_.nodes.data());
    seconds_[index] += std::chrono::duration<double>(Clock::now() - start).count();
  } else {
    dispatch(node);
  }
  if (observer_) {
    const Value& out = work_[node.out];
    const bool slots = graph_.values[node.out].rows_per_token > 1;
    const std::size_t first = slots ? 0 : first_row(node.out);
    const std::size_t n = slots ? work_.routing.begin[node.experts.n] : count();
    observer_(node, {out.row(first), n * out.width}, out.width);
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
