#include "engine/engine.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "engine/distribute/file_parts.h"
#include "engine/graph/graph.h"
#include "engine/session/engine_state.h"
#include "model/plural.h"

namespace cria {
KvType parse_kv_type(std::string_view name) {
  if (name == "f16") return KvType::F16;
  if (name == "f32") return KvType::F32;
  if (name == "q8_0") return KvType::Q8_0;
  throw Error("no such type of keys and values: expected f16, f32 or q8_0, got " +
              std::string(name));
}
static_assert(KvType{} == KvType::F16, "the default of EngineOptions");

Engine::State::State(const Model& m, EnginePlan p, Ranks* ranks)
    : owner(m.shared_from_this()),
      model(m),
      plan(std::move(p)),
      pool(plan.graph, plan.kv),
      executor(plan.graph, *plan.options.kernels, pool, plan.shape,
               {plan.options.threads, plan.options.threads_prefill}, plan.options.rope_ctx,
               plan.parts, ranks) {
  if (plan.options.prefix_cache) index.emplace(pool);
}

std::unique_ptr<Engine::State> Engine::State::open(const Model& model,
                                                   const EngineOptions& options) {
  EnginePlan plan = EnginePlan::of(model, options);
  Leader* const leader = Leader::current();
  if (leader == nullptr) {
    plan.check(model);
    return std::make_unique<State>(model, std::move(plan), nullptr);
  }
  const DistributedEngineShape shape{&model,
                                     plan.kv,
                                     plan.shape,
                                     plan.wanted_threads,
                                     plan.wanted_prefill,
                                     plan.options.rope_ctx,
                                     plan.options.kernels};
  std::unique_ptr<State> state;
  const std::uint64_t id = leader->open_engine(shape, [&] {
    plan.check(model);
    const RankMemory memory{plan.memory.file, plan.memory.kv, plan.memory.work};
    state = std::make_unique<State>(model, std::move(plan), &leader->ranks());
    read_own_rows(model, state->plan.graph, state->plan.parts);
    return memory;
  });
  state->led.emplace(*leader, id);
  return state;
}

void Engine::State::forward(const BatchPlan& batch) {
  if (!led) return executor.forward(batch);
  if (executor.stopped()) throw EvaluationStopped();
  executor.gather_all(executor.observed());
  const Leader::Turn turn = led->forward(batch, executor.observed());
  executor.forward(batch);
}

std::span<const float> Engine::State::logits(const BatchPlan& batch, std::size_t begin,
                                             std::size_t end) {
  if (!led) return executor.logits(batch, begin, end);
  const Leader::Turn turn = led->logits(begin, end);
  return executor.logits(batch, begin, end);
}

void Engine::State::copy_page(std::size_t group, PageId from, PageId to) {
  pool.copy(group, from, to);
  if (led) led->copy_page(group, from, to);
}

bool Engine::State::make_free(std::size_t group) {
  return pool.free_pages(group) != 0 || (index && index->evict(group));
}

PageId Engine::State::take_page(std::size_t group) {
  if (make_free(group)) return pool.take(group);
  throw model.file().error("no room for keys and values: expected at most " +
                           counted(pool.pages(group) * kKeyTile, "position") + " in all sequences");
}

bool Engine::State::must_wait(std::size_t pages, std::size_t more) const {
  bool some_end = false;
  for (const Sequence::State* const s : sequences) {
    some_end = some_end || s->reserved_pages != 0;
    pages += s->reserved_pages != 0 ? s->reserved_pages : Engine::pages_of(s->tokens.size());
  }
  return some_end && (sequences.size() + more > plan.options.sequences ||
                      pages > Engine::pages_of(plan.options.positions));
}

Engine::Engine(const Model& model, const EngineOptions& options)
    : state_(State::open(model, options)) {}
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

// A loop that vectorizes: whether no exponent is all ones.
bool all_finite(std::span<const float> values) {
  std::uint32_t bad = 0;
  for (const float value : values)
    bad |= static_cast<std::uint32_t>((std::bit_cast<std::uint32_t>(value) & 0x7F800000U) ==
                                      0x7F800000U);
  return bad == 0;
}

namespace {

/// While it lives, the engine's executor shows each node's values to `observer` instead of the
/// usual one.
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

// Evaluates everything again from position 0, looking at each node's result: only a model or a
// token sequence that cannot be used any more gets here. Logits of earlier positions are not to
// blame.
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
      const std::size_t n = std::min(batch.room(), all.size() - done);
      const std::size_t first = std::clamp(position, done, done + n) - done;
      batch.add(sequence, std::span(all).subspan(done, n), first);
      batch.forward();
      for (std::size_t i = 0; i < n - first && !found && !state_->executor.stopped(); ++i)
        (void)batch.logits(i, i + 1);
    }
  } catch (const Error&) {  // no room any more: others share the pages that it had
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

void Engine::observe(
    std::function<void(const Node&, std::span<const float>, std::size_t)> observer) {
  state_->observer = std::move(observer);
  state_->executor.observe(state_->observer);
}

}  // namespace cria
