// What a session costs, known before it is allocated.
#include "engine/architectures/architecture.h"
#include "engine/session/state.h"

namespace cria {

SessionPlan SessionPlan::of(const Model& model, const SessionOptions& wanted) {
  SessionPlan plan;
  SessionOptions& o = plan.options = wanted;
  const LlamaConfig& config = model.config();
  if (o.kernels == nullptr) o.kernels = active_kernels();
  if (o.rope_ctx == 0) o.rope_ctx = o.n_ctx == 0 ? config.n_ctx_train : o.n_ctx;
  if (o.n_ctx == 0) o.n_ctx = std::min(config.n_ctx_train, kDefaultContext);
  if (o.n_ctx > kMaxContext)
    throw model.file().error("context too long: expected at most " + std::to_string(kMaxContext) +
                             " positions, got " + std::to_string(o.n_ctx));
  if (o.threads == 0) o.threads = usable_cores();
  if (o.threads_prefill == 0) o.threads_prefill = o.threads;
  const unsigned threads = std::max(o.threads, o.threads_prefill);
  if (threads > kMaxThreads)
    throw Error("too many threads: expected at most " + std::to_string(kMaxThreads) + ", got " +
                std::to_string(threads));
  o.n_batch = std::clamp(o.n_batch, 1U, std::min(o.n_ctx, kMaxBatch));
  plan.graph =
      o.kernels == active_kernels() ? model.graph() : build_graph(model.file(), config, *o.kernels).graph;
  plan.shape = fit_work(plan.graph, o.n_batch, threads);
  o.n_batch = static_cast<std::uint32_t>(plan.shape.n_batch);
  plan.memory = {model.file().file_bytes(),
                 KvCache::bytes(plan.graph, o.kv_type, o.n_ctx, plan.shape.n_batch),
                 WorkMemory::bytes(plan.graph, plan.shape), available_memory(), plan.shape.n_batch};
  return plan;
}

SessionMemory session_memory(const Model& model, const SessionOptions& options) {
  return SessionPlan::of(model, options).memory;
}

void SessionPlan::check(const Model& model) const {
  const auto mib = [](std::size_t bytes) { return std::to_string((bytes + (1 << 20) - 1) >> 20) + " MiB"; };
  const std::size_t file =
      model.pinned() ? 0 : memory.file;  // what is pinned is no longer counted as available
  const std::size_t needed = file + memory.kv + memory.work;
  if (needed <= memory.available) return;
  throw model.file().error("not enough memory: expected " + mib(needed) + " available (file " + mib(file) +
                           ", KV cache of " + std::to_string(options.n_ctx) + " positions " + mib(memory.kv) +
                           ", work " + mib(memory.work) + "), got " + mib(memory.available) +
                           "; a shorter context or another KV type needs less");
}

}  // namespace cria
