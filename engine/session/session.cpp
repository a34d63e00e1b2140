#include "engine/session.h"

#include <bit>
#include <utility>

#include "engine/execute/non_finite.h"
#include "engine/session/state.h"

namespace cria {
namespace {

// Whether no exponent is all ones; a loop that vectorizes.
bool all_finite(std::span<const float> values) {
  std::uint32_t bad = 0;
  for (const float value : values)
    bad |= static_cast<std::uint32_t>((std::bit_cast<std::uint32_t>(value) & 0x7F800000U) == 0x7F800000U);
  return bad == 0;
}

const SessionPlan& checked(const SessionPlan& plan, const Model& model) {
  plan.check(model);
  return plan;
}

}  // namespace

Session::State::State(const Model& m, SessionPlan p)
    : owner(m.shared_from_this()),
      model(m),
      plan(std::move(p)),
      cache(plan.graph, plan.options.kv_type, plan.options.n_ctx, plan.shape.n_batch),
      executor(plan.graph, *plan.options.kernels, cache, plan.shape,
               {plan.options.threads, plan.options.threads_prefill}, plan.options.rope_ctx) {
  tokens.reserve(plan.options.n_ctx);
}

Session::Session(const Model& model, const SessionOptions& options)
    : state_(std::make_unique<State>(model, checked(SessionPlan::of(model, options), model))) {}
Session::~Session() = default;

void Session::State::check_tokens(std::span<const TokenId> added) const {
  const auto n_vocab = static_cast<TokenId>(model.config().n_vocab);
  for (const TokenId token : added) {
    if (token < 0 || token >= n_vocab)
      throw model.file().error("no such token: expected 0 to " + std::to_string(n_vocab - 1) + ", got " +
                               std::to_string(token));
  }
  if (added.size() > plan.options.n_ctx - tokens.size())
    throw model.file().error("context is full: expected at most " +
                             std::to_string(plan.options.n_ctx - tokens.size()) +
                             " more tokens (context of " + std::to_string(plan.options.n_ctx) + "), got " +
                             std::to_string(added.size()));
}

void Session::State::forward(std::span<const TokenId> batch, std::size_t first_wanted) {
  executor.forward(batch, tokens.size(), first_wanted);
  tokens.insert(tokens.end(), batch.begin(), batch.end());
}

std::span<const float> Session::State::logits(std::size_t begin, std::size_t end) {
  const std::span<const float> rows = executor.logits(begin, end);
  if (!all_finite(rows)) throw_not_finite();
  return rows;
}

template <class OnLogits>
void Session::State::eval(std::span<const TokenId> added, std::size_t first_wanted, OnLogits&& on_logits) {
  check_tokens(added);
  for (std::size_t done = 0; done < added.size(); done += plan.shape.n_batch) {
    const std::size_t n = std::min(plan.shape.n_batch, added.size() - done);
    const std::size_t wanted = first_wanted <= done ? 0 : std::min(n, first_wanted - done);
    forward(added.subspan(done, n), wanted);
    for (std::size_t begin = wanted; begin < n; begin += plan.shape.logit_rows) {
      const std::size_t end = std::min(n, begin + plan.shape.logit_rows);
      const std::span<const float> rows = logits(begin, end);
      const std::size_t n_vocab = model.config().n_vocab;
      for (std::size_t i = begin; i < end; ++i)
        on_logits(done + i, rows.subspan((i - begin) * n_vocab, n_vocab));
    }
  }
}

// Evaluates everything again from position 0, looking at each node's result. Only a model or a token sequence
// that cannot be used any more gets here, so the time does not matter.
void Session::State::throw_not_finite() {
  executor.stop_on(nullptr);
  const std::vector<TokenId> all = std::exchange(tokens, {});
  (void)cache.rewind(0);
  std::optional<Error> found;
  executor.observe([&](const Node& node, std::span<const float> values, std::size_t) {
    if (!found && !all_finite(values)) found = not_finite(model.file(), plan.graph, node, values);
  });
  for (std::size_t done = 0; done < all.size() && !found; done += plan.shape.n_batch) {
    const std::size_t n = std::min(plan.shape.n_batch, all.size() - done);
    executor.forward(std::span(all).subspan(done, n), done, 0);
    for (std::size_t i = 0; i < n && !found; ++i) (void)executor.logits(i, i + 1);
  }
  executor.observe(observer);
  tokens.reserve(plan.options.n_ctx);
  throw found ? *found : not_finite(model.file(), plan.graph, plan.graph.nodes.back(), {});
}

KvType parse_kv_type(std::string_view name) {
  if (name == "f16") return KvType::F16;
  if (name == "f32") return KvType::F32;
  if (name == "q8_0") return KvType::Q8_0;
  throw Error("no such type of keys and values: expected f16, f32 or q8_0, got " + std::string(name));
}
static_assert(KvType{} == KvType::F16, "the default of SessionOptions");

std::span<const float> Session::eval(std::span<const TokenId> tokens) {
  std::span<const float> last;
  if (tokens.empty()) return last;
  state_->eval(tokens, tokens.size() - 1,
               [&last](std::size_t, std::span<const float> logits) { last = logits; });
  return last;
}

void Session::eval_all(std::span<const TokenId> tokens,
                       const std::function<void(std::size_t, std::span<const float>)>& sink) {
  state_->eval(tokens, sink ? 0 : tokens.size(), sink);
}

void Session::forward(std::span<const TokenId> tokens, std::size_t first_wanted) {
  state_->check_tokens(tokens);
  state_->forward(tokens, first_wanted);
}

std::span<const float> Session::logits(std::size_t begin, std::size_t end) {
  return state_->logits(begin, end);
}

std::size_t Session::logit_rows() const noexcept { return state_->plan.shape.logit_rows; }

void Session::parallel(std::size_t n, const std::function<void(std::size_t)>& f) {
  state_->executor.parallel(n, [&f](std::size_t i, unsigned) { f(i); });
}

std::span<const TokenId> Session::tokens() const noexcept { return state_->tokens; }

std::size_t Session::truncate(std::size_t n) {
  if (n < state_->tokens.size()) state_->tokens.resize(state_->cache.rewind(n));
  return state_->tokens.size();
}

const Model& Session::model() const noexcept { return state_->model; }
const SessionOptions& Session::options() const noexcept { return state_->plan.options; }
std::size_t Session::memory_bytes() const noexcept {
  return state_->plan.memory.kv + state_->plan.memory.work;
}
const Graph& Session::graph() const noexcept { return state_->plan.graph; }

void Session::profile(bool on) { state_->executor.profile(on); }

std::vector<NodeTime> Session::profile() const {
  std::vector<NodeTime> times;
  const std::span<const double> seconds = state_->executor.node_seconds();
  for (std::size_t i = 0; i < seconds.size(); ++i) times.push_back({&graph().nodes[i], seconds[i]});
  return times;
}

ExpertRows Session::expert_rows(std::size_t n_experts) const {
  return state_->executor.expert_rows(n_experts);
}

void Session::observe(std::function<void(const Node&, std::span<const float>, std::size_t)> observer) {
  state_->observer = std::move(observer);
  state_->executor.observe(state_->observer);
}

}  // namespace cria
