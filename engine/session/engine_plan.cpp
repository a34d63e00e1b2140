// Shape and memory of an engine, decided before anything is allocated.
#include "engine/architectures/architecture.h"
#include "engine/session/engine_state.h"
#include "kernels/simd/round.h"
#include "model/plural.h"

namespace cria {
namespace {

constexpr std::uint32_t kMaxContext = 1U << 24;
constexpr std::uint64_t kMaxPositions = std::uint64_t{kMaxContext} * 16;
constexpr std::uint32_t kMaxBatch = 4096;
constexpr std::uint32_t kMaxSequences = 1024;
constexpr unsigned kMaxThreads = 1024;

Error too_many(const char* what, std::uint64_t most, std::uint64_t got) {
  return Error("too many " + std::string(what) + ": expected at most " + std::to_string(most) +
               ", got " + std::to_string(got));
}

// Positions by which the pool may grow for at most `bytes`, on every rank.
std::size_t positions_for(const Graph& graph, KvShape shape, const Cluster* cluster,
                          std::uint64_t bytes) {
  if (cluster != nullptr) shape.held = most_held(graph, cluster->shares());
  const std::size_t most = KvPool::bytes(graph, shape) + bytes;
  std::size_t fits = 0, beyond = std::size_t{kMaxPositions} / kKeyTile;
  while (fits + 1 < beyond) {
    const std::size_t pages = fits + (beyond - fits) / 2;
    KvShape larger = shape;
    larger.kept = pages * kKeyTile;
    larger.positions += larger.kept;
    (KvPool::bytes(graph, larger) <= most ? fits : beyond) = pages;
  }
  return fits * kKeyTile;
}

}  // namespace

EnginePlan EnginePlan::of(const Model& model, const EngineOptions& wanted, GraphPart part) {
  EnginePlan plan;
  EngineOptions& o = plan.options = wanted;
  const ModelConfig& config = model.config();
  const Cluster* const cluster = model.cluster();
  plan.wanted_threads = o.threads;
  plan.wanted_prefill = o.threads_prefill;
  if (o.kernels == nullptr) o.kernels = active_kernels();
  if (o.rope_ctx == 0) o.rope_ctx = o.n_ctx == 0 ? config.n_ctx_train : o.n_ctx;
  if (o.n_ctx == 0) o.n_ctx = std::min(config.n_ctx_train, kDefaultContext);
  const bool usual = o.kernels == active_kernels();
  if (part == GraphPart::Prediction)
    plan.graph = usual ? *model.prediction() : build_prediction(model.file(), config, *o.kernels);
  else
    plan.graph = usual ? model.graph()
                       : build_graph(model.file(), config, *o.kernels, &model.adapters()).graph;
  const bool causal = plan.graph.causal;
  if (!causal) o.prefix_cache = false;  // keys depend on later tokens
  const std::uint32_t most_context = causal ? kMaxContext : config.n_ctx_train;
  if (o.n_ctx > most_context)
    throw model.file().error("context too long: expected at most " + std::to_string(most_context) +
                             " positions, got " + std::to_string(o.n_ctx));
  if (o.threads == 0) o.threads = default_threads(cluster == nullptr ? nullptr : &cluster->ranks());
  if (o.threads_prefill == 0) o.threads_prefill = o.threads;
  const unsigned threads = std::max(o.threads, o.threads_prefill);
  if (threads > kMaxThreads) throw too_many("threads", kMaxThreads, threads);
  o.sequences = std::max(o.sequences, 1U);
  if (o.sequences > kMaxSequences) throw too_many("sequences", kMaxSequences, o.sequences);
  const std::uint64_t all = std::uint64_t{round_up(o.n_ctx, kKeyTile)} * o.sequences;
  o.positions = o.positions == 0 ? all : std::max<std::uint64_t>(o.positions, o.n_ctx);
  if (o.positions > kMaxPositions) throw too_many("positions", kMaxPositions, o.positions);
  const std::uint32_t least_batch = causal ? 1 : o.n_ctx;  // an encoder's text is one slice
  o.n_batch = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(
      o.n_batch, least_batch,
      std::max<std::uint64_t>(
          least_batch, std::min<std::uint64_t>(std::uint64_t{o.n_ctx} * o.sequences, kMaxBatch))));
  plan.parts = cluster == nullptr ? GraphParts::whole(plan.graph)
                                  : GraphParts::of(plan.graph, cluster->shares(), 0);
  plan.shape = fit_work(plan.graph, o.n_batch, threads, o.n_ctx, least_batch);
  o.n_batch = static_cast<std::uint32_t>(plan.shape.n_batch);
  plan.kv = {o.kv_type,      o.n_ctx, plan.shape.n_batch, o.sequences, o.positions,
             o.prefix_cache, 0,       plan.parts.held};
  if (o.prefix_cache && o.prefix_cache_bytes != 0) {
    plan.kv.kept = positions_for(plan.graph, plan.kv, cluster, o.prefix_cache_bytes);
    plan.kv.positions = o.positions += plan.kv.kept;
  }
  const std::size_t file =
      cluster == nullptr ? model.file().file_bytes() : plan.parts.weight_bytes(plan.graph);
  plan.memory = {file, KvPool::bytes(plan.graph, plan.kv),
                 WorkMemory::bytes(plan.graph, plan.shape), available_memory(), plan.shape.n_batch};
  return plan;
}

// The draft's positions are among the engine's: it needs no prefix cache of its own.
EngineOptions EnginePlan::draft_options() const {
  EngineOptions same = options;
  same.threads = wanted_threads;
  same.threads_prefill = wanted_prefill;
  same.prefix_cache_bytes = 0;
  same.draft = nullptr;
  same.own_drafts = false;
  return same;
}

bool EnginePlan::drafts_itself(const Model& model) const {
  return options.own_drafts && !options.draft && model.prediction() != nullptr &&
         model.cluster() == nullptr;
}

EngineMemory engine_memory(const Model& model, const EngineOptions& options) {
  const EnginePlan plan = EnginePlan::of(model, options);
  EngineMemory memory = plan.memory;
  const bool own = plan.drafts_itself(model);
  if (!options.draft && !own) return memory;
  const EngineMemory draft = EnginePlan::of(own ? model : *options.draft, plan.draft_options(),
                                            own ? GraphPart::Prediction : GraphPart::Trunk)
                                 .memory;
  memory.file += own ? 0 : draft.file;
  memory.kv += draft.kv;
  memory.work += draft.work;
  return memory;
}

double kv_fraction(const Model& model, const EngineOptions& options) {
  const EnginePlan plan = EnginePlan::of(model, options);
  double fraction = 0;
  if (Cluster* const cluster = model.cluster()) {
    KvShape kv = plan.kv;
    fraction = cluster->largest_need([&](std::size_t rank) {
      kv.held = GraphParts::of(plan.graph, cluster->shares(), rank).held;
      return KvPool::bytes(plan.graph, kv);
    });
  } else {
    fraction = static_cast<double>(plan.memory.kv) /
               static_cast<double>(std::max<std::size_t>(plan.memory.available, 1));
  }
  if (plan.drafts_itself(model)) {
    const EnginePlan own = EnginePlan::of(model, plan.draft_options(), GraphPart::Prediction);
    return fraction + static_cast<double>(own.memory.kv) /
                          static_cast<double>(std::max<std::size_t>(plan.memory.available, 1));
  }
  if (options.draft == nullptr) return fraction;
  EngineOptions same = options;
  same.draft = nullptr;
  return fraction + kv_fraction(*options.draft, same);
}

void EnginePlan::check(const Model& model) const {
  const auto mib = [](std::size_t bytes) {
    return std::to_string((bytes + (1 << 20) - 1) >> 20) + " MiB";
  };
  const std::size_t file = model.pinned() ? 0 : memory.file;  // `available` excludes pinned files
  const std::size_t needed = file + memory.kv + memory.work;
  if (needed <= memory.available) return;
  const std::uint64_t positions = options.sequences == 1 ? options.n_ctx : options.positions;
  throw model.file().error("not enough memory: expected " + mib(needed) + " available (file " +
                           mib(file) + ", KV cache of " + counted(positions, "position") + " " +
                           mib(memory.kv) + ", work " + mib(memory.work) + "), got " +
                           mib(memory.available) +
                           "; a shorter context or another KV type needs less");
}

}  // namespace cria
