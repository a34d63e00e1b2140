#include "engine/session/kv_fraction.h"

#include <algorithm>

#include "engine/session/engine_state.h"

namespace cria {

double kv_fraction(const Model& model, const EngineOptions& options) {
  const EnginePlan plan = EnginePlan::of(model, options);
  Leader* const leader = Leader::current();
  std::vector<RankReport> reports(1);
  if (leader == nullptr) {
    reports[0].needed = plan.memory.kv;
    reports[0].available = plan.memory.available;
    return largest_need(reports);
  }
  reports = leader->ask_memory();
  KvShape kv = plan.kv;
  for (std::size_t rank = 0; rank < reports.size(); ++rank) {
    kv.heads = GraphParts::of(plan.graph, leader->shares(), rank).head_counts();
    reports[rank].needed = KvPool::bytes(plan.graph, kv);
  }
  return largest_need(reports);
}

}  // namespace cria
