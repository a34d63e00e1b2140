#include <algorithm>

#include "engine/distribute/machines_plan.h"
#include "engine/execute/executor.h"
#include "engine/execute/machine.h"
#include "engine/model_parts.h"
#include "model/error.h"

namespace cria {
namespace {

/// Stands for ranks that do not exist: exchanges nothing.
class AbsentRanks final : public Ranks {
 public:
  AbsentRanks(std::size_t n, std::size_t rank)
      : size_(static_cast<unsigned>(n)), rank_(static_cast<unsigned>(rank)) {}
  unsigned rank() const override { return rank_; }
  unsigned size() const override { return size_; }
  std::string host() const override { return {}; }
  unsigned neighbours() const override { return 1; }
  void broadcast(std::span<std::byte>, Timeout) override {}
  void begin_gather(std::byte*, std::span<const std::size_t>) override {}
  void end_gather(Timeout) override {}
  void set_timeout(double) override {}

 private:
  const unsigned size_, rank_;
};

/// Returns the rank that has parts of the most layers with attention, and of the most recurrent
/// layers among those; with more ranks than heads some have none.
std::size_t with_heads(const Graph& graph, const Shares& shares) {
  const GraphParts parts = GraphParts::of(graph, shares, 0);
  std::vector<std::size_t> layers(shares.size());
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const bool attention = graph.nodes[i].as<AttentionOp>() != nullptr;
    if (!attention && graph.nodes[i].facts.state == kNoIndex) continue;
    for (std::size_t rank = 0; rank < layers.size(); ++rank)
      if (parts.nodes[i].units[rank].size() != 0)
        layers[rank] += attention ? graph.nodes.size() : 1;
  }
  return static_cast<std::size_t>(std::ranges::max_element(layers) - layers.begin());
}

constexpr std::size_t kDecoded = 12;  // measured tokens, after the same number for warm-up

/// The part of a model on one rank.
class Part {
 public:
  Part(const Model& model, const PlannedWork& work, const Shares& shares)
      : graph_(model.graph()),
        ranks_(shares.size(), with_heads(graph_, shares)),
        parts_(GraphParts::of(graph_, shares, ranks_.rank())),
        shape_(work_shape(graph_, work)),
        tokens_(shape_.n_batch + 2 * kDecoded),
        kv_(shape_of(work)) {}

  [[nodiscard]] std::size_t bytes() const {
    return parts_.weight_bytes(graph_) + KvPool::bytes(graph_, kv_) +
           WorkMemory::bytes(graph_, shape_);
  }

  MachineRates measure(const PlannedWork& work) {
    KvPool pool(graph_, kv_);
    Executor executor(graph_, kernels_in_use(), pool, shape_, {work.threads, work.threads},
                      work.n_ctx, parts_, &ranks_);
    const PageTables tables = pool.take_all(tokens_);
    BatchPlan plan(shape_.n_batch);
    const auto pass = [&](std::size_t first, std::size_t n) {
      const std::vector<TokenId> ids = some_tokens(first, n);
      plan.clear();
      plan.add(ids, first, n - 1, tables);
      plan.finish();
      executor.forward(plan);
      (void)executor.logits(plan, 0, 1);
    };
    MachineRates rates;
    pass(0, shape_.n_batch);  // warm-up: may read the file
    executor.profile(true);
    pass(0, shape_.n_batch);
    const auto prompt = static_cast<double>(shape_.n_batch);
    take(executor, shape_.n_batch, true, prompt, rates.prompt, rates);
    for (std::size_t i = 0; i < 2 * kDecoded; ++i) {
      if (i == kDecoded) executor.profile(true);
      pass(shape_.n_batch + i, 1);
    }
    take(executor, kDecoded, false, prompt + 1.5 * kDecoded, rates.decode, rates);
    return rates;
  }

 private:
  /// KV cache with pages for all tokens that are measured.
  [[nodiscard]] KvShape shape_of(PlannedWork work) const {
    work.n_ctx = tokens_;
    KvShape kv = kv_shape(parts_, work, shape_);
    kv.has_prefix_cache = true;  // sliding windows evict nothing
    kv.kept = kv.positions;
    return kv;
  }
  [[nodiscard]] std::vector<TokenId> some_tokens(std::size_t first, std::size_t n) const {
    std::vector<TokenId> ids(n);
    for (std::size_t i = 0; i < n; ++i)
      ids[i] =
          static_cast<TokenId>((first + i) * 7919 % graph_.nodes.front().matrices[0].weight.rows());
    return ids;
  }

  /// Computes rates from the times of n tokens: together as a prompt, or one by one after `prompt`
  /// positions on average.
  void take(const Executor& executor, std::size_t n, bool together, double prompt,
            MachineRates::Other& other, MachineRates& rates) const {
    double product_seconds = 0, macs = 0, bytes = 0, gather_seconds = 0, gathered = 0;
    double attention = 0, attentions = 0;
    double measured = 0;  // attention nodes of which the rank has heads
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      const NodePart& part = parts_.nodes[i];
      const GatherTotals& gathers = executor.gathers()[i];
      const double seconds = executor.node_seconds()[i] - gathers.seconds;
      const double share = part.share(ranks_.rank());
      const bool few = together && i >= graph_.first_sparse;  // only the last token's rows
      gather_seconds += gathers.seconds;
      gathered += static_cast<double>(gathers.bytes);
      if (node.macs() != 0) {
        product_seconds += seconds;
        macs += share * static_cast<double>(node.macs()) * (few ? 1 : static_cast<double>(n));
        bytes += share * static_cast<double>(node.weight_bytes()) * static_cast<double>(n);
      } else if (const auto* const op = node.as<AttentionOp>()) {
        ++attentions;
        if (share == 0) continue;
        ++measured;
        const double seen = positions_seen(graph_.caches[op->cache], prompt, !together);
        attention += seconds / share / static_cast<double>(n) / seen;
      } else if (node.facts.state != kNoIndex) {
        if (share > 0) other.recurrent += seconds / share / static_cast<double>(n);
      } else {
        other.undivided += seconds / static_cast<double>(n);
      }
    }
    if (measured > 0) other.attention = attention * attentions / measured;
    if (gathered > 0) other.gathered_byte = gather_seconds / gathered;
    (together ? rates.products : rates.read) = (together ? macs : bytes) / product_seconds;
  }

  const Graph& graph_;
  AbsentRanks ranks_;
  const GraphParts parts_;
  const WorkShape shape_;
  const std::size_t tokens_;
  const KvShape kv_;
};

}  // namespace

MachineRates measure_machine(const Model& model, const PlannedWork& work, std::size_t memory) {
  constexpr std::size_t kMost = 1024, kEnough = std::size_t{4} << 30;  // more takes minutes
  for (std::size_t machines = 2; machines <= kMost; machines *= 2) {
    Part part(model, work, Shares(machines, 1));
    if (part.bytes() <= std::min(memory, kEnough)) return part.measure(work);
  }
  throw model.file().error(
      "not even a small part of it fits into memory: give --read-rate and --gmacs");
}

}  // namespace cria
