// Random work for an engine: sequences that come, fork, are cut back and go, in batches cut at
// random. What it has seen of logits is compared with a session of its own for each text.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "engine/session.h"
#include "engine/session/engine_state.h"
#include "tests/engine/demo.h"
#include "tests/engine/random.h"

namespace cria::test {

/// Shuffles the free pages and fills all with NaNs, so that reads of unwritten positions show.
inline void shuffle_pages(Engine& engine, Random& random) {
  KvPool& pool = StateAccess::of(engine).pool;
  std::memset(pool.memory().data(), 0xFF, pool.memory().size());
  for (std::size_t group = 0; group < pool.groups(); ++group) {
    std::vector<PageId> pages;
    for (PageId page = pool.take(group); page != kNoPage; page = pool.take(group))
      pages.push_back(page);
    for (std::size_t i = pages.size(); i > 1; --i)
      std::swap(pages[i - 1], pages[random.next() % i]);
    for (const PageId page : pages) pool.release(group, page);
  }
}

class BatchMix {
 public:
  BatchMix(const Model& model, const EngineOptions& options, std::uint64_t seed)
      : engine_(model, options), batch_(engine_), random_(seed) {
    shuffle_pages(engine_, random_);
    for (auto& text : texts_)
      for (std::size_t i = 0; i < engine_.options().n_ctx; ++i) text.push_back(any_token());
  }

  void run(int rounds) {
    for (int i = 0; i < rounds; ++i) {
      if (live_.empty() || chance(0.3)) start();
      if (chance(0.1)) fork();
      if (chance(0.1)) cut();
      if (chance(0.08)) remove();
      step(chance(0.05));
    }
  }

  /// Every logit that was seen, against a session that reads nothing but that text.
  void check() const {
    ASSERT_GT(seen_.size(), 50U);
    Session alone(engine_.model(), {.n_ctx = engine_.options().n_ctx,
                                    .rope_ctx = engine_.options().rope_ctx,
                                    .n_batch = 64,
                                    .threads = 1,
                                    .kv_type = engine_.options().kv_type});
    for (auto at = seen_.begin(); at != seen_.end(); ++at) {
      const auto& text = at->first;
      const auto next = std::next(at);
      const auto begins = [&](const auto& longer) {
        return std::ranges::mismatch(text, longer).in1 == text.end();
      };
      if (next != seen_.end() && begins(next->first)) continue;
      alone.truncate(0);
      std::vector<std::vector<float>> rows;
      alone.eval_all(text,
                     [&](std::size_t, std::span<const float> row) { rows.push_back(copy(row)); });
      for (std::size_t n = 1; n <= text.size(); ++n) {
        const auto found =
            seen_.find({text.begin(), text.begin() + static_cast<std::ptrdiff_t>(n)});
        if (found == seen_.end()) continue;
        for (const auto& logits : found->second)
          ASSERT_TRUE(same_bytes(logits, rows[n - 1])) << "after " << n << " tokens";
      }
    }
  }

  [[nodiscard]] std::size_t reused() const { return reused_; }
  [[nodiscard]] std::size_t forked() const { return forked_; }
  [[nodiscard]] std::size_t refused() const { return refused_; }
  [[nodiscard]] const Engine& engine() const { return engine_; }
  void end() { live_.clear(); }

 private:
  struct Live {
    Sequence sequence;
    std::size_t text;       // index of the text that it continues
    bool own_tail = false;  // true: random tokens instead
  };

  bool chance(double p) { return random_.uniform() < p; }
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_.next() % n); }
  TokenId any_token() { return static_cast<TokenId>(below(engine_.model().vocabulary_size())); }

  bool full() const { return live_.size() == engine_.options().sequences; }

  void start() {
    if (full()) return;
    Live live{Sequence(engine_), below(texts_.size()), chance(0.3)};
    if (chance(0.7)) reused_ += live.sequence.reuse(std::span(texts_[live.text]).first(below(300)));
    live_.push_back(std::move(live));
  }
  void fork() {
    if (full() || live_.empty()) return;
    const Live& from = live_[below(live_.size())];
    Live live{from.sequence.fork(), from.text, chance(0.5)};
    live_.push_back(std::move(live));
    ++forked_;
  }
  void cut() {
    if (live_.empty()) return;
    Sequence& sequence = live_[below(live_.size())].sequence;
    sequence.truncate(sequence.tokens().size() - std::min(sequence.tokens().size(), below(90)));
  }
  void remove() {
    if (!live_.empty())
      live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(below(live_.size())));
  }

  struct Slice {
    Sequence* sequence;
    std::vector<TokenId> before;
    std::vector<TokenId> added;
    std::size_t wanted, index;
  };

  bool add(Live& live, std::vector<Slice>& slices) {
    const std::span<const TokenId> had = live.sequence.tokens();
    const std::size_t left = engine_.options().n_ctx - had.size();
    const std::size_t n = std::min({batch_.capacity_left(), left, chance(0.5) ? 1 : 1 + below(40)});
    if (n == 0) return true;
    Slice slice{&live.sequence, {had.begin(), had.end()}, {}, chance(0.2) ? n : below(n), 0};
    if (n == 1) slice.wanted = 0;
    for (std::size_t i = 0; i < n; ++i)
      slice.added.push_back(live.own_tail ? any_token() : texts_[live.text][had.size() + i]);
    try {
      slice.index = batch_.add(live.sequence, slice.added, slice.wanted);
    } catch (const Error&) {
      ++refused_;
      return false;
    }
    slices.push_back(std::move(slice));
    return true;
  }

  void step(bool stopped) {
    batch_.clear();
    std::vector<Slice> slices;
    const std::size_t first = below(live_.size() + 1);
    for (std::size_t i = 0; i < live_.size() && batch_.capacity_left() > 0; ++i) {
      const std::size_t at = (first + i) % live_.size();
      if (chance(0.8) && !add(live_[at], slices)) {  // no page is left
        live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(at));
        return;
      }
    }
    if (slices.empty()) return;
    if (stopped) return stop();
    batch_.forward();
    for (const Slice& slice : slices) look(slice);
  }

  // The pass is given up; nothing has happened.
  void stop() {
    const std::atomic<bool> flag = true;
    StateAccess::of(engine_).executor.stop_on(&flag);
    EXPECT_THROW(batch_.forward(), EvaluationStopped);
    StateAccess::of(engine_).executor.stop_on(nullptr);
  }

  void look(const Slice& slice) {
    std::vector<TokenId> text = slice.before;
    text.insert(text.end(), slice.added.begin(), slice.added.end());
    ASSERT_TRUE(std::ranges::equal(slice.sequence->tokens(), text));
    const std::size_t n_vocab = engine_.model().vocabulary_size();
    for (std::size_t i = slice.wanted, n = 0; i < slice.added.size(); i += n) {
      n = std::min(slice.added.size() - i, 1 + below(engine_.logit_rows()));
      const std::size_t row = slice.index + i - slice.wanted;
      const std::span<const float> logits = batch_.logits(row, row + n);
      for (std::size_t k = 0; k < n; ++k) {
        const auto end =
            text.begin() + static_cast<std::ptrdiff_t>(slice.before.size() + i + k + 1);
        seen_[{text.begin(), end}].push_back(copy(logits.subspan(k * n_vocab, n_vocab)));
      }
    }
  }

  Engine engine_;
  Batch batch_;
  Random random_;
  std::array<std::vector<TokenId>, 3> texts_;
  std::vector<Live> live_;
  std::map<std::vector<TokenId>, std::vector<std::vector<float>>> seen_;
  std::size_t reused_ = 0, forked_ = 0, refused_ = 0;
};

}  // namespace cria::test
