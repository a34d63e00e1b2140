// The states of recurrent layers of a sequence. The live state follows the last position. It can go
// back by the few positions that its log holds; otherwise a snapshot at the end of an earlier page
// takes its place, and the positions behind it are evaluated again. Snapshots are kept where later
// texts are likely to depart from this one: by the prefix cache, or by a sequence without one.
#include <algorithm>
#include <utility>

#include "engine/session/engine_state.h"
#include "kernels/attention/attention.h"

namespace cria {
namespace {

// The end of a prompt opens the answer. It may look different where a later prompt has that answer.
constexpr std::size_t kOpening = 8;

}  // namespace

void Sequence::State::expect_departure(std::size_t n) {
  departures[0] = n < kOpening ? 0 : (n - kOpening) / kKeyTile * kKeyTile;
}

// Returns the first position to which the live state can go back.
std::size_t Sequence::State::first_state() const {
  return std::max(state_begin, state_end - std::min(state_end, engine.plan.graph.rollback()));
}

// A state that a batch is about to change is not there.
Sequence::State::StatePages Sequence::State::state_at(std::size_t n) const {
  if (evaluating || n == 0 || n > tokens.size()) return {};
  const std::vector<PageId>& now = tables[engine.pool.live_states()];
  if (now.size() == 1 && n >= first_state()) return {now[0], kNoPage};
  if (now.size() == 2 && n == tokens.size()) return {kNoPage, now[1]};
  if (n % kKeyTile != 0) return {};
  const std::size_t page = n / kKeyTile - 1, group = engine.pool.snapshots();
  if (page < tables[group].size() && tables[group][page] != kNoPage)
    return {kNoPage, tables[group][page]};
  if (cache() == nullptr || page >= prefix.size()) return {};
  return {kNoPage, cache()->page(prefix[page], group)};
}

Sequence::State::StatePages Sequence::State::state_of(const Found& found, std::size_t n) const {
  StatePages pages;
  if (found.sequence != nullptr) pages = found.sequence->state_at(n);
  if (pages.none() && n % kKeyTile == 0 && n / kKeyTile <= found.entries.size())
    pages.snapshot = cache()->page(found.entries[n / kKeyTile - 1], engine.pool.snapshots());
  return pages;
}

// Returns the last position up to n with a known state.
std::size_t Sequence::State::state_before(std::size_t n) const {
  if (!has_states()) return n;
  while (n != 0 && state_at(n).none()) n = (n - 1) / kKeyTile * kKeyTile;
  return n;
}

bool Sequence::State::keeps_snapshot(std::size_t page) const {
  const std::size_t end = (page + 1) * kKeyTile;
  return (cache() != nullptr || engine.plan.options.sequences == 1) &&
         (end % kSnapshotInterval == 0 || std::ranges::count(departures, end) != 0);
}

// Takes the live state, copied if others share it, and pages for the snapshots that n more tokens
// make.
void Sequence::State::take_states(std::size_t n) {
  const std::size_t group = engine.pool.live_states();
  if (live().empty()) live().push_back(kNoPage);
  PageId& page = live()[0];
  if (page == kNoPage) {
    page = engine.take_page(group);
  } else if (engine.pool.references(group, page) > 1) {
    const PageId own = engine.take_page(group);
    engine.copy_page(group, page, own);
    engine.pool.release(group, std::exchange(page, own));
  }
  const std::size_t end = (tokens.size() + n) / kKeyTile;
  for (std::size_t i = tokens.size() / kKeyTile; i < end; ++i)
    if (keeps_snapshot(i)) take_snapshot(i);
}

// Does nothing if memory is full: snapshots only save time.
void Sequence::State::take_snapshot(std::size_t page) {
  const std::size_t group = engine.pool.snapshots();
  std::vector<PageId>& table = tables[group];
  if (table.size() <= page) table.resize(page + 1, kNoPage);
  if (table[page] != kNoPage) return;
  if (engine.make_free(group)) {
    table[page] = engine.pool.take(group);
    return;
  }
  const auto oldest = std::ranges::find_if(table, [](PageId id) { return id != kNoPage; });
  if (cache() == nullptr && oldest != table.end()) table[page] = std::exchange(*oldest, kNoPage);
}

void Sequence::State::share_states(const State& other) {
  const std::size_t group = engine.pool.snapshots();
  for (const std::size_t g : {group, engine.pool.live_states()}) tables[g] = other.tables[g];
  for (const PageId page : tables[group])
    if (page != kNoPage) engine.pool.share(group, page);
  if (!live().empty() && live()[0] != kNoPage)
    engine.pool.share(engine.pool.live_states(), live()[0]);
  if (live().size() == 2) engine.pool.share(group, live()[1]);
  state_begin = other.state_begin;
  state_end = other.state_end;
  departures = other.departures;
}

void Sequence::State::become_state(const Found& found) {
  const StatePages from = state_of(found, found.n);
  if (from.live != kNoPage) engine.pool.share(engine.pool.live_states(), from.live);
  if (from.snapshot != kNoPage) engine.pool.share(engine.pool.snapshots(), from.snapshot);
  const auto [begin, end] = from.live != kNoPage
                                ? std::pair{found.sequence->state_begin, found.sequence->state_end}
                                : std::pair{found.n, found.n};
  release_states();
  live().push_back(from.live);
  if (from.snapshot != kNoPage) live().push_back(from.snapshot);
  state_begin = begin;
  state_end = end;
}

// Makes the state that of n positions, of which it is known.
void Sequence::State::go_back(std::size_t n) {
  if (n == 0) return release_states();
  const StatePages from = state_at(n);
  if (from.live == kNoPage) {
    engine.pool.share(engine.pool.snapshots(), from.snapshot);
    drop_restored();
    live().push_back(from.snapshot);
    state_begin = state_end = n;
  }
  release_from(engine.pool.snapshots(), n / kKeyTile);
}

// The prefix cache has what it keeps of the new pages.
void Sequence::State::states_evaluated() {
  evaluating = false;
  drop_restored();
  state_end = std::max(state_end, tokens.size());
  if (cache() != nullptr) release_from(engine.pool.snapshots(), 0);
}

void Sequence::State::trim_states() {
  evaluating = false;
  if (tokens.empty()) return release_states();
  release_from(engine.pool.snapshots(), tokens.size() / kKeyTile);
}

void Sequence::State::failed(std::size_t n) {
  if (has_states() && live().size() == 1) state_end = std::max(state_end, tokens.size() + n);
  trim();
  if (const std::size_t left = state_before(tokens.size()); left < tokens.size()) cut(left);
}

void Sequence::State::restore_state() {
  if (!has_states() || live().size() != 2) return;
  take_states(0);
  for (std::uint32_t i = 0; i < engine.plan.graph.states.size(); ++i)
    engine.pool.copy_units(i, live()[0], live()[1], {0, engine.pool.state_units(i)}, false);
  drop_restored();
}

// Releases the snapshot from which the live state would have been restored.
void Sequence::State::drop_restored() {
  if (live().size() != 2) return;
  engine.pool.release(engine.pool.snapshots(), live()[1]);
  live().pop_back();
}

void Sequence::State::release_states() {
  drop_restored();
  release_from(engine.pool.snapshots(), 0);
  release_from(engine.pool.live_states(), 0);
  state_begin = state_end = 0;
}

}  // namespace cria
