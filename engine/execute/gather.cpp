// Several ranks: what each has computed of a node's output becomes everybody's. Rows of one token lie as they are sent; of
// several tokens, each rank's columns are put together first.
#include <algorithm>
#include <cassert>
#include <chrono>

#include "engine/execute/executor.h"

namespace cria {
void Executor::make_exchange() {
  std::size_t widest = 0;
  for (std::size_t i = 0; i < graph_.nodes.size(); ++i)
    if (parts_.nodes[i].divided()) widest = std::max(widest, graph_.values[graph_.nodes[i].out].width);
  exchange_.resize(std::max(widest, kExchangeBytes / sizeof(float)));
  exchange_begin_.resize(ranks_->size() + 1);
}

// The rows of its output that a node writes now.
UnitRange Executor::rows_of_out(const Node& node) const {
  if (graph_.values[node.out].rows_per_token > 1) return {0, work_.routing.begin[node.experts.n]};
  const std::size_t first = first_row(node.out);
  return {first, first + count()};
}

// After a node's own part: whether this rank now has all of the output.
bool Executor::complete(const Node& node) {
  const NodePart& part = part_of(node);
  if (!part.divided()) return true;
  if (!part.gathered && !gather_all_) return false;
  if (!profiling_) {
    gather(node);
  } else {
    using Clock = std::chrono::steady_clock;
    const auto start = Clock::now();
    gathering_ = &gathers_[index_of(node)];
    gather(node);
    gathering_->seconds += std::chrono::duration<double>(Clock::now() - start).count();
    gathering_ = nullptr;
  }
  return part.gathered;
}

void Executor::gather(const Node& node) {
  const NodePart& part = part_of(node);
  const Value& out = work_[node.out];
  const UnitRange rows = rows_of_out(node);
  const std::size_t most = exchange_.size() / out.width;
  for (std::size_t first = rows.begin; first < rows.end; first += most)
    exchange_rows(part, out, first, std::min(most, rows.end - first));
}

void Executor::exchange_rows(const NodePart& part, const Value& out, std::size_t first, std::size_t n) {
  const auto begin_of = [&](std::size_t rank) { return part.bounds[rank] * part.width; };
  for (std::size_t r = 0; r < exchange_begin_.size(); ++r)
    exchange_begin_[r] = begin_of(r) * n * sizeof(float);
  if (gathering_ != nullptr) {
    ++gathering_->times;
    gathering_->bytes += exchange_begin_.back();
  }
  if (n == 1) {
    ranks_->gather(reinterpret_cast<std::byte*>(out.row(first)), exchange_begin_, Patience::Usual);
    return;
  }
  // Row i of a rank's columns: [its place][i][columns].
  const auto place = [&](std::size_t rank, std::size_t i) {
    return exchange_.data() + begin_of(rank) * n + i * (begin_of(rank + 1) - begin_of(rank));
  };
  const std::size_t own = ranks_->rank();
  run_chunks(n, [&](std::size_t i, unsigned) {
    std::copy(out.row(first + i) + begin_of(own), out.row(first + i) + begin_of(own + 1), place(own, i));
  });
  ranks_->gather(reinterpret_cast<std::byte*>(exchange_.data()), exchange_begin_, Patience::Usual);
  run_chunks(n, [&](std::size_t i, unsigned) {
    for (std::size_t r = 0; r < ranks_->size(); ++r)
      if (r != own) std::copy_n(place(r, i), begin_of(r + 1) - begin_of(r), out.row(first + i) + begin_of(r));
  });
}

}  // namespace cria
