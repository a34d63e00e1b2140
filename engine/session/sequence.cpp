// Sequences, which own KV pages or share them, and batches. The pages of recurrent layers are in
// sequence_states.cpp.
#include <algorithm>
#include <cassert>
#include <utility>

#include "engine/session/engine_state.h"
#include "engine/vectors.h"
#include "kernels/simd/round.h"
#include "model/plural.h"

namespace cria {

namespace {

// Returns the scales of a sequence: none, if they are the model's.
std::vector<float> own_scales(const Engine::State& engine, std::vector<float> scales) {
  const std::vector<float>& standard = engine.plan.graph.adapter_scales;
  if (scales.empty() || scales == standard) return {};
  if (scales.size() != standard.size())
    throw engine.model.file().error("expected a scale for each of " +
                                    counted(standard.size(), "adapter") + ", got " +
                                    std::to_string(scales.size()));
  if (!all_finite(scales)) throw engine.model.file().error("the scale of an adapter is not finite");
  return scales;
}

std::uint64_t scope_with(std::uint64_t scope, std::span<const float> scales) {
  if (scales.empty()) return scope;
  Hash hash;
  hash.add_number(scope);
  for (const float scale : scales) hash.add_number(scale == 0 ? 0.0F : scale);
  return hash.value();
}

}  // namespace

Sequence::State::State(Engine::State& e, std::uint64_t s, bool shares, AdapterScales scales)
    : engine(e),
      scope(s),
      shared(shares && e.plan.graph.causal),
      adapters(std::move(scales)),
      tables(e.pool.groups()) {
  if (engine.sequences.size() == engine.plan.options.sequences)
    throw Error("too many sequences: expected at most " + std::to_string(engine.sequences.size()));
  const std::size_t n_ctx = engine.plan.options.n_ctx;
  tokens.reserve(n_ctx);
  for (auto& table : tables) table.reserve(n_ctx / kKeyTile + 1);
  if (cache() != nullptr) prefix.reserve(n_ctx / kKeyTile + 1);
  engine.sequences.push_back(this);
}

Sequence::State::State(const State& other)
    : State(other.engine, other.scope, other.shared, other.adapters) {
  tokens.assign(other.tokens.begin(), other.tokens.end());
  prefix.assign(other.prefix.begin(), other.prefix.end());
  const auto used = static_cast<std::ptrdiff_t>(divide_up(tokens.size(), kKeyTile));
  for (std::size_t group = 0; group < engine.pool.kv_groups(); ++group) {
    const auto begin = other.tables[group].begin();
    tables[group].assign(begin, begin + used);
    for (const PageId page : tables[group])
      if (page != kNoPage) engine.pool.share(group, page);
  }
  if (has_states()) share_states(other);
}

Sequence::State::~State() {
  if (cache() != nullptr) {
    if (tokens.size() > prefix.size() * kKeyTile) add_page(prefix.size());
    cache()->touch(prefix);
  }
  for (std::size_t group = 0; group < engine.pool.kv_groups(); ++group) release_from(group, 0);
  if (has_states()) release_states();
  std::erase(engine.sequences, this);
}

// Adds a page of the sequence to the prefix cache; the last page may be incomplete.
void Sequence::State::add_page(std::size_t page) {
  const PrefixCache::Ref parent = page == 0 ? PrefixCache::Ref{} : prefix.back();
  const std::size_t begin = page * kKeyTile, n = std::min(kKeyTile, tokens.size() - begin);
  if (has_states() && tables[engine.pool.snapshots()].size() <= page)
    tables[engine.pool.snapshots()].resize(page + 1, kNoPage);
  prefix.push_back(cache()->add(scope, parent, std::span(tokens).subspan(begin, n), tables, page));
}

void Sequence::State::check(std::span<const TokenId> added) const {
  const GgufFile& file = engine.model.file();
  const auto n_vocab = static_cast<TokenId>(engine.model.config().n_vocab);
  for (const TokenId token : added) {
    if (token < 0 || token >= n_vocab)
      throw file.error("no such token: expected 0 to " + std::to_string(n_vocab - 1) + ", got " +
                       std::to_string(token));
  }
  const std::size_t n_ctx = engine.plan.options.n_ctx, left = n_ctx - tokens.size();
  if (added.size() > left)
    throw file.error("context is full: expected at most " + std::to_string(left) +
                     " more tokens (context of " + std::to_string(n_ctx) + "), got " +
                     std::to_string(added.size()));
}

void Sequence::State::release_from(std::size_t group, std::size_t page) {
  std::vector<PageId>& table = tables[group];
  for (; table.size() > page; table.pop_back())
    if (table.back() != kNoPage) engine.pool.release(group, table.back());
}

// Copies the page of the next position if others share it.
void Sequence::State::own_last_page(std::size_t group) {
  PageId& page = tables[group][tokens.size() / kKeyTile];
  if (engine.pool.references(group, page) == 1) return;
  if (!engine.make_free(group) && engine.prefix_cache) engine.prefix_cache->release(group, page);
  if (engine.pool.references(group, page) == 1) return;
  const PageId own = engine.take_page(group);
  engine.copy_page(group, page, own);
  engine.pool.release(group, std::exchange(page, own));
}

void Sequence::State::make_room(std::size_t n) {
  try {
    take_pages(n);
  } catch (...) {
    trim();
    throw;
  }
}

void Sequence::State::trim() {
  for (std::size_t group = 0; group < engine.pool.kv_groups(); ++group)
    release_from(group, divide_up(tokens.size(), kKeyTile));
  if (has_states()) trim_states();
}

void Sequence::State::take_pages(std::size_t n) {
  if (has_states()) take_states(n);
  for (std::size_t group = 0; group < engine.pool.kv_groups(); ++group) {
    std::vector<PageId>& table = tables[group];
    if (tokens.size() % kKeyTile != 0) own_last_page(group);
    const std::size_t most = engine.pool.most_held(group);
    while (table.size() * kKeyTile < tokens.size() + n) {
      if (table.size() >= most && table[table.size() - most] != kNoPage)
        engine.pool.release(group, std::exchange(table[table.size() - most], kNoPage));
      table.push_back(engine.take_page(group));
    }
  }
}

void Sequence::State::drop_unseen(std::size_t n) {
  if (has_states()) release_from(engine.pool.snapshots(), 0);
  for (std::size_t group = 0; group < engine.pool.kv_groups(); ++group) {
    for (std::size_t page = 0; page < engine.pool.first_page(group, n); ++page)
      if (tables[group][page] != kNoPage)
        engine.pool.release(group, std::exchange(tables[group][page], kNoPage));
  }
}

void Sequence::State::append(std::span<const TokenId> added) {
  tokens.insert(tokens.end(), added.begin(), added.end());
  while (cache() != nullptr && (prefix.size() + 1) * kKeyTile <= tokens.size())
    add_page(prefix.size());
  if (has_states()) states_evaluated();
}

// True if all pages that position n reads are present.
bool Sequence::State::has_window(std::size_t n) const {
  for (std::size_t group = 0; group < engine.pool.kv_groups(); ++group) {
    for (std::size_t page = engine.pool.first_page(group, n); page * kKeyTile < n; ++page)
      if (tables[group][page] == kNoPage) return false;
  }
  return true;
}

std::size_t Sequence::State::truncate(std::size_t n) {
  if (n >= tokens.size() && n != 0) return tokens.size();  // n == 0 also frees pages without tokens
  n = state_before(n);
  if (!has_window(n) || !engine.plan.graph.causal) n = 0;
  cut(n);
  return n;
}

void Sequence::State::cut(std::size_t n) {
  if (cache() != nullptr) cache()->touch(prefix);
  if (has_states()) go_back(n);
  for (std::size_t group = 0; group < engine.pool.kv_groups(); ++group)
    release_from(group, divide_up(n, kKeyTile));
  prefix.resize(std::min(prefix.size(), n / kKeyTile));
  tokens.resize(n);
}

PageId Sequence::State::page_of(const Found& found, std::size_t group, std::size_t page) const {
  if (found.sequence != nullptr && found.sequence->tables[group][page] != kNoPage)
    return found.sequence->tables[group][page];
  return page < found.entries.size() ? cache()->page(found.entries[page], group) : kNoPage;
}

// Shortens a prefix until all pages of sliding windows at its end are present, and the state of
// recurrent layers. Within a page, later positions need fewer earlier pages.
void Sequence::State::shorten_to_windows(Found& found) const {
  const std::size_t groups = engine.pool.kv_groups();
  const auto complete = [&](std::size_t n, std::size_t group) {
    if (group == groups) return !has_states() || !state_of(found, n).none();
    for (std::size_t page = engine.pool.first_page(group, n); page * kKeyTile < n; ++page)
      if (page_of(found, group, page) == kNoPage) return false;
    return true;
  };
  for (std::size_t group = 0; found.n > 0 && group <= groups;) {
    if (complete(found.n, group)) {
      ++group;
    } else {
      found.n = (found.n - 1) / kKeyTile * kKeyTile;
      group = 0;
    }
  }
}

// The prefix cache has all full pages, and the last pages of destroyed sequences; the last pages of
// live sequences are found through these.
Sequence::State::Found Sequence::State::find(std::span<const TokenId> wanted) const {
  Found best;
  if (cache() == nullptr) return best;
  for (std::size_t same = kKeyTile; same == kKeyTile && best.n < wanted.size();) {
    const PrefixCache::Ref parent = best.entries.empty() ? PrefixCache::Ref{} : best.entries.back();
    const PrefixCache::Match match = cache()->longest(scope, parent, wanted.subspan(best.n));
    same = match.tokens;
    if (same != 0) best.entries.push_back(match.ref);
    best.n += same;
  }
  // Entries that match completely.
  const auto full = best.entries.begin() + static_cast<std::ptrdiff_t>(best.n / kKeyTile);
  const std::vector<PrefixCache::Ref> entries(best.entries.begin(), full);
  std::size_t known = best.n;
  shorten_to_windows(best);
  for (const State* const other : engine.sequences) {
    if (other == this || !other->shared || other->scope != scope) continue;
    Found found{common_prefix(other->tokens, wanted), other, entries};
    known = std::max(known, found.n);
    if (found.n <= best.n) continue;
    shorten_to_windows(found);
    if (found.n > best.n) best = std::move(found);
  }
  best.known = known;
  return best;
}

// Shares the pages; own_last_page() copies the last one before it changes.
void Sequence::State::become(const Found& found, std::span<const TokenId> wanted) {
  const std::size_t pages = divide_up(found.n, kKeyTile), full = found.n / kKeyTile;
  if (has_states()) become_state(found);
  for (std::size_t group = 0; group < engine.pool.kv_groups(); ++group) {
    release_from(group, 0);
    const bool holds_all =
        engine.pool.most_held(group) >= Engine::pages_of(engine.plan.options.n_ctx);
    const std::size_t first = holds_all ? 0 : engine.pool.first_page(group, found.n);
    for (std::size_t page = 0; page < pages; ++page) {
      tables[group].push_back(page < first ? kNoPage : page_of(found, group, page));
      if (tables[group].back() != kNoPage) engine.pool.share(group, tables[group].back());
    }
  }
  const auto& known = found.sequence != nullptr ? found.sequence->prefix : found.entries;
  cache()->touch(found.entries);
  prefix.assign(known.begin(), known.begin() + static_cast<std::ptrdiff_t>(full));
  tokens.assign(wanted.begin(), wanted.begin() + static_cast<std::ptrdiff_t>(found.n));
}

std::size_t Sequence::State::reuse(std::span<const TokenId> wanted) {
  if (!engine.plan.graph.causal) return truncate(0);
  const std::size_t common = common_prefix(tokens, wanted);
  const Found found = find(wanted);
  const std::size_t own = state_before(common);
  std::size_t n = found.n;
  if (n <= (has_window(own) ? own : 0))
    n = truncate(common);
  else
    become(found, wanted);
  // Another text departed from this one here, and a third may.
  const std::size_t departure = std::max(common, found.known) / kKeyTile * kKeyTile;
  departures[1] = departure > n ? departure : 0;
  return n;
}

Sequence::Sequence(Engine& engine, std::uint64_t scope, bool shared, std::vector<float> adapters) {
  Engine::State& of = StateAccess::of(engine);
  adapters = own_scales(of, std::move(adapters));
  const std::uint64_t with = scope_with(scope, adapters);
  state_ = std::make_unique<State>(of, with, shared, adapter_scales(std::move(adapters)));
}
Sequence::Sequence(std::unique_ptr<State> state) : state_(std::move(state)) {}
Sequence::~Sequence() = default;
Sequence::Sequence(Sequence&&) noexcept = default;
Sequence& Sequence::operator=(Sequence&&) noexcept = default;

std::span<const TokenId> Sequence::tokens() const noexcept { return state_->tokens; }
void Sequence::check(std::span<const TokenId> added) const { state_->check(added); }
std::size_t Sequence::truncate(std::size_t n) { return state_->truncate(n); }
Sequence Sequence::fork() const { return Sequence(std::make_unique<State>(*state_)); }
std::size_t Sequence::reuse(std::span<const TokenId> tokens) { return state_->reuse(tokens); }
void Sequence::expect_departure(std::size_t n) { state_->expect_departure(n); }
std::size_t Sequence::known_prefix(std::span<const TokenId> tokens) const {
  return state_->find(tokens).n;
}
void Sequence::reserve(std::size_t pages) { state_->reserved_pages = pages; }
std::size_t Sequence::reserved_pages() const noexcept { return state_->reserved_pages; }

Batch::State::State(Engine::State& e) : engine(e), plan(e.plan.shape.n_batch) {
  sequences.reserve(e.plan.shape.n_batch);
}

// Some of the sequences may have been destroyed.
void Batch::State::drop_sequences() {
  for (Sequence::State* const s : sequences)
    if (std::ranges::count(engine.sequences, s) != 0) s->trim();
  sequences.clear();
}

Batch::Batch(Engine& engine) : state_(std::make_unique<State>(StateAccess::of(engine))) {}
Batch::~Batch() = default;

void Batch::clear() {
  state_->plan.clear();
  state_->drop_sequences();
  state_->n_wanted = 0;
}

std::size_t Batch::size() const noexcept { return state_->plan.all.end; }
std::size_t Batch::capacity_left() const noexcept {
  return state_->engine.plan.shape.n_batch - size();
}
std::size_t Batch::logit_rows() const noexcept { return state_->engine.plan.shape.logit_rows; }

std::size_t Batch::add(Sequence& sequence, std::span<const TokenId> tokens,
                       std::size_t first_wanted) {
  Sequence::State& s = StateAccess::of(sequence);
  assert(tokens.size() <= capacity_left() && std::ranges::count(state_->sequences, &s) == 0);
  s.check(tokens);
  if (!s.engine.plan.graph.causal && !s.tokens.empty())
    throw s.engine.model.file().error(
        "an encoder evaluates a text at once: expected an empty sequence, got one of " +
        counted(s.tokens.size(), "token"));
  s.make_room(tokens.size());
  s.evaluating = true;
  state_->plan.add(tokens, s.tokens.size(), first_wanted, s.tables, s.adapters);
  state_->sequences.push_back(&s);
  const std::size_t index = state_->n_wanted;
  state_->n_wanted += tokens.size() - first_wanted;
  return index;
}

void Batch::forward() {
  Engine::State& engine = state_->engine;
  Executor& executor = engine.executor;
  state_->plan.finish();
  engine.last = nullptr;
  try {
    Cluster::Turn turn;
    if (engine.cluster_engine != 0) {
      if (executor.stopped()) throw EvaluationStopped();
      executor.gather_all(executor.observed());
      turn =
          engine.model.cluster()->forward(engine.cluster_engine, state_->plan, executor.observed());
    }
    executor.forward(state_->plan);
  } catch (...) {
    for (std::size_t i = 0; i < state_->sequences.size(); ++i)
      state_->sequences[i]->failed(state_->plan.all.slices[i].end -
                                   state_->plan.all.slices[i].begin);
    state_->sequences.clear();
    throw;
  }
  engine.last = state_.get();
  const BatchRows& rows = state_->plan.all;
  for (std::size_t i = 0; i < rows.slices.size(); ++i) {
    const BatchSlice& slice = rows.slices[i];
    state_->sequences[i]->append(
        std::span(rows.tokens).subspan(slice.begin, slice.end - slice.begin));
  }
  state_->sequences.clear();
}

std::span<const float> Batch::logits(std::size_t begin, std::size_t end) {
  Engine::State& engine = state_->engine;
  assert(engine.last == state_.get());
  if (engine.plan.graph.logits == kNoValue) check_output(engine.model, std::nullopt);
  Cluster::Turn turn;
  if (engine.cluster_engine != 0)
    turn = engine.model.cluster()->logits(engine.cluster_engine, begin, end);
  return engine.executor.logits(state_->plan, begin, end);
}

std::span<const float> Batch::hidden(std::size_t begin, std::size_t end) const {
  assert(state_->engine.last == state_.get());
  return state_->engine.executor.hidden(state_->plan, begin, end);
}

}  // namespace cria
