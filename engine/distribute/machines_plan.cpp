#include "engine/distribute/machines_plan.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <string>

#include "engine/execute/executor.h"
#include "kernels/simd/round.h"
#include "model/error.h"

namespace cria {
namespace {

struct NamedLink {
  std::string_view name;
  double microseconds, gbits;
};
// Latencies of small MPI messages over TCP and InfiniBand.
constexpr NamedLink kLinks[] = {
    {"1gbe", 50, 1}, {"10gbe", 25, 10}, {"25gbe", 20, 25}, {"100gbe-ib", 2, 100}};

constexpr double kBitsPerByte = 8;
// MPI sends larger messages after a handshake: two more latencies.
constexpr double kUnasked = 64 << 10;

std::optional<double> positive(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool good =
      error == std::errc() && end == text.data() + text.size() && value > 0 && std::isfinite(value);
  return good ? std::optional(value) : std::nullopt;
}

Link link_of(double microseconds, double gbits) {
  return {1e-6 * microseconds, 1e9 * gbits / kBitsPerByte};
}

/// Largest share of a node that one machine computes; 1 if the node is not divided.
double largest_share(const NodePart& part) {
  double most = part.divided() ? 0 : 1;
  for (std::size_t r = 0; r < part.units.size(); ++r) most = std::max(most, part.share(r));
  return most;
}

/// Returns bytes and number of allgathers of a node's output for `tokens` tokens.
GatherTotals gather_size(const Graph& graph, const GraphParts& parts, std::size_t node,
                         std::size_t tokens) {
  if (!parts.nodes[node].gathered) return {};
  const NodePart& part = parts.nodes[node];
  const std::size_t rows = tokens * graph.values[graph.nodes[node].out].rows_per_token;
  const std::size_t together = rows_together(part, part.forms);
  return {0, divide_up(rows, together), rows * gathered_bytes(part, part.forms)};
}

class Planner {
 public:
  Planner(const Graph& graph, const MachineRates& rates, const Link& link, std::size_t machines)
      : graph_(graph),
        rates_(rates),
        link_(link),
        machines_(machines),
        parts_(GraphParts::of(graph, Shares(machines, 1), 0)) {}

  /// Predicts a batch of which only the last token has logits: of a prompt, or after it (decode).
  [[nodiscard]] PlannedSpeed pass(std::size_t tokens, double prompt, bool decode) const {
    const MachineRates::Other& other = decode ? rates_.decode : rates_.prompt;
    double attention = 0, attentions = 0, recurrent = 0, recurrences = 0;
    PlannedSpeed speed;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      const std::size_t rows = i < graph_.first_sparse ? tokens : 1;
      const double share = largest_share(parts_.nodes[i]);
      speed.seconds += share * (decode ? static_cast<double>(node.weight_bytes()) / rates_.read
                                       : static_cast<double>(rows * node.macs()) / rates_.products);
      if (const auto* const op = node.as<AttentionOp>()) {
        attention += share * positions_seen(graph_.caches[op->cache], prompt, decode);
        ++attentions;
      }
      if (node.facts.state != kNoIndex) {
        recurrent += share;
        ++recurrences;
      }
      if (parts_.nodes[i].gathered) add_gather(speed, i, rows, other);
    }
    const auto n = static_cast<double>(tokens);
    if (attentions > 0) speed.seconds += n * other.attention * attention / attentions;
    if (recurrences > 0) speed.seconds += n * other.recurrent * recurrent / recurrences;
    speed.seconds += n * other.undivided;
    add_packets(speed);
    speed.seconds += speed.link;
    return {speed.seconds / n, speed.link / n};
  }

 private:
  void add_gather(PlannedSpeed& speed, std::size_t node, std::size_t rows,
                  const MachineRates::Other& other) const {
    const GatherTotals size = gather_size(graph_, parts_, node, rows);
    const auto bytes = static_cast<double>(size.bytes), times = static_cast<double>(size.times);
    const double own = bytes / times * largest_share(parts_.nodes[node]);
    const double ways = own > kUnasked ? 3 : 1;
    const double others = 1 - 1 / static_cast<double>(machines_);
    const double carried = bytes * others / link_.rate, asked = ways * link_.latency;
    speed.link += std::max(carried + asked, (carried + times * asked) / kExchanges);
    speed.seconds += bytes * other.gathered_byte;
  }

  /// Packets from rank 0, for the batch and its logits, travel along a tree.
  void add_packets(PlannedSpeed& speed) const {
    if (machines_ > 1)
      speed.link += 2 * static_cast<double>(std::bit_width(machines_ - 1)) * link_.latency;
  }

  const Graph& graph_;
  const MachineRates& rates_;
  const Link& link_;
  const std::size_t machines_;
  const GraphParts parts_;
};

}  // namespace

Link parse_link(std::string_view text) {
  for (const NamedLink& known : kLinks)
    if (known.name == text) return link_of(known.microseconds, known.gbits);
  const std::size_t comma = text.find(',');
  const auto latency = positive(text.substr(0, comma));
  const auto rate =
      comma == std::string_view::npos ? std::nullopt : positive(text.substr(comma + 1));
  if (latency && rate) return link_of(*latency, *rate);
  std::string names;
  for (const NamedLink& known : kLinks) names += std::string(known.name) + ", ";
  throw Error("expected " + names + "or microseconds and Gbit/s like 50,10, got " +
              printable(text));
}

double positions_seen(const CacheSpec& cache, double prompt, bool decode) {
  const double window =
      cache.window == 0 ? prompt : std::min(prompt, static_cast<double>(cache.window));
  return decode ? window : window - window * window / (2 * prompt);
}

WorkShape work_shape(const Graph& graph, const PlannedWork& work) {
  return fit_work(graph, std::min({work.n_batch, work.prompt, work.n_ctx}), work.threads,
                  work.n_ctx);
}

KvShape kv_shape(const GraphParts& parts, const PlannedWork& work, const WorkShape& shape) {
  KvShape kv;
  kv.type = work.kv_type;
  kv.n_ctx = kv.positions = round_up(work.n_ctx, kKeyTile);
  kv.n_batch = shape.n_batch;
  kv.held = parts.held;
  return kv;
}

MachinesPlan plan_machines(const Graph& graph, const PlannedWork& work, const MachineRates& rates,
                           const Link& link, std::size_t machines) {
  MachinesPlan plan;
  const WorkShape shape = work_shape(graph, work);
  const Shares shares(machines, 1);
  for (std::size_t rank = 0; rank < machines; ++rank) {
    const GraphParts parts = GraphParts::of(graph, shares, rank);
    plan.weights = std::max(plan.weights, parts.weight_bytes(graph));
    plan.kv = std::max(plan.kv, KvPool::bytes(graph, kv_shape(parts, work, shape)));
  }
  plan.work = WorkMemory::bytes(graph, shape) + (machines > 1 ? kExchanges * kExchangeBytes : 0);
  const Planner planner(graph, rates, link, machines);
  const auto prompt_tokens = static_cast<double>(work.prompt);
  plan.decode = planner.pass(1, prompt_tokens, true);
  // The last batch of the prompt may be shorter.
  PlannedSpeed& prompt = plan.prompt;
  for (std::size_t done = 0; done < work.prompt;) {
    const std::size_t n = std::min(shape.n_batch, work.prompt - done);
    const PlannedSpeed batch = planner.pass(n, prompt_tokens, false);
    const double part = static_cast<double>(n) / prompt_tokens;
    prompt.seconds += part * batch.seconds;
    prompt.link += part * batch.link;
    done += n;
  }
  return plan;
}

}  // namespace cria
