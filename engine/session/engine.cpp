#include "engine/engine.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "engine/graph/graph.h"
#include "engine/session/engine_state.h"
#include "model/plural.h"

namespace cria {
namespace {

constexpr std::pair<std::string_view, KvType> kKvTypes[] = {
    {"f16", KvType::F16}, {"f32", KvType::F32}, {"q8_0", KvType::Q8_0}};
static_assert(KvType{} == KvType::F16, "the default of EngineOptions");

}  // namespace

KvType parse_kv_type(std::string_view name) {
  for (const auto& [known, type] : kKvTypes)
    if (name == known) return type;
  throw Error("unknown type of the KV cache: expected f16, f32 or q8_0, got " + std::string(name));
}

std::string_view name(KvType type) noexcept {
  for (const auto& [known, its] : kKvTypes)
    if (type == its) return known;
  return "";
}

Engine::State::State(const Model& m, EnginePlan p)
    : owner(m.shared_from_this()),
      model(m),
      plan(std::move(p)),
      pool(plan.graph, plan.kv),
      executor(plan.graph, *plan.options.kernels, pool, plan.shape,
               {plan.options.threads, plan.options.threads_prefill}, plan.options.rope_ctx,
               plan.parts, m.cluster() == nullptr ? nullptr : &m.cluster()->ranks()) {
  if (plan.options.prefix_cache) prefix_cache.emplace(pool);
}

Engine::State::~State() {
  if (cluster_engine != 0) model.cluster()->close_engine(cluster_engine);
}

std::unique_ptr<Engine::State> Engine::State::open(const Model& model, const EngineOptions& options,
                                                   GraphPart part) {
  EnginePlan plan = EnginePlan::of(model, options, part);
  std::unique_ptr<State> state;
  const auto make = [&] {
    plan.check(model);
    const RankMemory memory{plan.memory.file, plan.memory.kv, plan.memory.work};
    state = std::make_unique<State>(model, std::move(plan));
    return memory;
  };
  if (Cluster* const cluster = model.cluster()) {
    const EngineOptions& o = plan.options;
    const ClusterEngine wanted{
        &model,     plan.kv,  plan.shape, plan.wanted_threads, plan.wanted_prefill,
        o.rope_ctx, o.kernels};
    const std::uint64_t number = cluster->open_engine(wanted, [&] {
      const RankMemory memory = make();
      cluster->read_rows(model, state->plan.graph, state->plan.parts);
      return memory;
    });
    state->cluster_engine = number;
  } else {
    (void)make();
  }
  if (options.draft)
    state->draft_model.emplace(*options.draft, model, state->plan.draft_options());
  else if (state->plan.drafts_itself(model))
    state->draft_model.emplace(model, state->plan.draft_options());
  return state;
}

void Engine::State::copy_page(std::size_t group, PageId from, PageId to) {
  pool.copy(group, from, to);
  if (cluster_engine != 0) model.cluster()->copy_page(cluster_engine, group, from, to);
}

bool Engine::State::make_free(std::size_t group) {
  return pool.free_pages(group) != 0 || (prefix_cache && prefix_cache->evict(group));
}

PageId Engine::State::take_page(std::size_t group) {
  if (make_free(group)) return pool.take(group);
  throw model.file().error("no room for keys and values: expected at most " +
                           counted(pool.pages(group) * kKeyTile, "position") + " in all sequences");
}

bool Engine::must_wait(std::size_t pages, std::size_t more) const {
  bool some_end = false;
  for (const Sequence::State* const s : state_->sequences) {
    some_end = some_end || s->reserved_pages != 0;
    pages += s->reserved_pages != 0 ? s->reserved_pages : pages_of(s->tokens.size());
  }
  return some_end &&
         (state_->sequences.size() + more > options().sequences || pages > this->pages());
}

Engine::Engine(const Model& model, const EngineOptions& options)
    : state_(State::open(model, options)) {}
Engine::Engine(std::unique_ptr<State> state) : state_(std::move(state)) {}
Engine::~Engine() = default;

const Model& Engine::model() const noexcept { return state_->model; }
const EngineOptions& Engine::options() const noexcept { return state_->plan.options; }
std::size_t Engine::memory_bytes() const noexcept {
  return state_->plan.memory.kv + state_->plan.memory.work;
}
const Graph& Engine::graph() const noexcept { return state_->plan.graph; }
std::size_t Engine::logit_rows() const noexcept { return state_->plan.shape.logit_rows; }

std::size_t Engine::pages() const noexcept { return pages_of(options().positions); }

void Engine::parallel(std::size_t n, const std::function<void(std::size_t)>& f) {
  state_->executor.parallel(n, [&f](std::size_t i, unsigned) { f(i); });
}

// Tests whether an exponent is all ones, in a loop that vectorizes.
bool all_finite(std::span<const float> values) {
  std::uint32_t bad = 0;
  for (const float value : values)
    bad |= static_cast<std::uint32_t>((std::bit_cast<std::uint32_t>(value) & 0x7F800000U) ==
                                      0x7F800000U);
  return bad == 0;
}

namespace {

/// While it lives, `observer` receives each node's values instead of the usual observer.
class Observing {
 public:
  Observing(Engine::State& engine, NodeObserver observer)
      : executor_(engine.executor), usual_(engine.observer) {
    executor_.observe(std::move(observer));
  }
  ~Observing() { executor_.observe(std::move(usual_)); }
  Observing(const Observing&) = delete;
  Observing& operator=(const Observing&) = delete;

 private:
  Executor& executor_;
  NodeObserver usual_;
};

}  // namespace

// Evaluates everything again from position 0 and checks the result of each node. This is slow, but
// the sequence or the model is unusable anyway.
Error Engine::not_finite(Sequence& sequence, std::size_t position) {
  const std::vector<TokenId> all(sequence.tokens().begin(), sequence.tokens().end());
  sequence.truncate(0);
  std::optional<Error> found;
  const GgufFile& file = state_->model.file();
  const Observing observing(*state_,
                            [&](const Node& node, std::span<const float> values, std::size_t) {
                              if (!found && !all_finite(values))
                                found = cria::not_finite(file, graph(), node, values);
                            });
  try {
    Batch batch(*this);
    for (std::size_t done = 0; done < all.size() && !found; done += batch.size()) {
      batch.clear();
      const std::size_t n = std::min(batch.capacity_left(), all.size() - done);
      const std::size_t first = std::clamp(position, done, done + n) - done;
      batch.add(sequence, std::span(all).subspan(done, n), first);
      batch.forward();
      for (std::size_t i = 0; i < n - first && !found && !state_->executor.stopped(); ++i)
        (void)batch.logits(i, i + 1);
    }
  } catch (const Error&) {  // the pool is full: others took its pages
  } catch (const EvaluationStopped&) {
  }
  sequence.truncate(0);
  if (!found && state_->executor.stopped())
    return file.error(
        "a logit is not a finite number; the search for the node that computed it was stopped");
  return found ? *found : cria::not_finite(file, graph(), graph().nodes.back(), {});
}

void Engine::profile(bool on) { state_->executor.profile(on); }

std::vector<NodeTime> Engine::profile() const {
  std::vector<NodeTime> times;
  const std::span<const double> seconds = state_->executor.node_seconds();
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    const GatherTotals& gathers = state_->executor.gathers()[i];
    times.push_back({&graph().nodes[i], seconds[i], gathers.seconds, gathers.times, gathers.bytes});
  }
  return times;
}

void Engine::observe(NodeCallback callback) {
  state_->observer = std::move(callback);
  state_->executor.observe(state_->observer);
}

ExpertRows Engine::expert_rows(std::size_t n_experts) const {
  return state_->executor.expert_rows(n_experts);
}

StopOn::StopOn(Engine& engine, const std::atomic<bool>* flag)
    : engine_(engine), before_(StateAccess::of(engine).executor.stop_on(flag)) {}
StopOn::~StopOn() { StateAccess::of(engine_).executor.stop_on(before_); }

}  // namespace cria
