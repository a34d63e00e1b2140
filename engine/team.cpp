#include "engine/team.h"

#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/task_arena.h>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <thread>

namespace cria {
namespace {

constexpr auto kLinger = std::chrono::microseconds(50);  // about what sampling a token takes
constexpr unsigned kSpins = 500;  // polls before a waiting thread offers its core to others

void pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Waits by polling; politely once it takes longer, as the thread waited for may need this very core.
class Patience {
 public:
  void wait() noexcept {
    if (++polls_ < kSpins) {
      pause();
    } else {
      std::this_thread::yield();
    }
  }

 private:
  unsigned polls_ = 0;
};

constexpr std::uint64_t pack(std::uint32_t epoch, std::size_t begin, std::size_t end) {
  return std::uint64_t{epoch} << 32 | begin << 16 | end;
}
constexpr std::size_t next_of(std::uint64_t range) { return range >> 16 & 0xFFFF; }
constexpr std::size_t end_of(std::uint64_t range) { return range & 0xFFFF; }

}  // namespace

struct Team::Arena {
  explicit Arena(unsigned threads) : slots(std::min(threads, limit())), tbb(static_cast<int>(slots), 1) {}
  // Threads that oneTBB grants at all: it writes a warning if asked for more.
  static unsigned limit() {
    return static_cast<unsigned>(
        tbb::global_control::active_value(tbb::global_control::max_allowed_parallelism));
  }
  const unsigned slots;
  tbb::task_arena tbb;
};

Team::Team(unsigned max_threads)
    : arena_(std::make_unique<Arena>(max_threads)),
      seats_(std::make_unique<Seat[]>(max_threads)),
      max_threads_(max_threads) {
  assert(max_threads > 0);
}

Team::~Team() {
  closing_ = true;
  Patience patience;
  while (workers_.load(std::memory_order_acquire) != 0) patience.wait();
}

Team::Evaluation Team::begin(unsigned threads) {
  assert(threads > 0 && threads <= max_threads_);
  threads_.store(threads, std::memory_order_relaxed);
  return Evaluation(*this);
}

void Team::call_workers() {
  const unsigned wanted = std::min(threads(), arena_->slots);
  while (workers_.load(std::memory_order_relaxed) + 1 < wanted) {
    workers_.fetch_add(1, std::memory_order_release);
    // ThreadSanitizer does not see how oneTBB, which is not instrumented, hands the task over.
    arena_->tbb.enqueue([this]() __attribute__((no_sanitize("thread"))) { worker(); });
  }
}

void Team::run(std::size_t chunks, Function function, void* context) {
  assert(chunks <= kMaxChunks);
  const unsigned threads = this->threads();
  if (threads == 1 || chunks == 1) {
    for (std::size_t chunk = 0; chunk < chunks; ++chunk) function(context, chunk, 0);
    return;
  }
  call_workers();
  function_ = function;
  context_ = context;
  remaining_.store(chunks, std::memory_order_relaxed);
  ++epoch_;
  for (unsigned seat = threads; seat-- > 0;) {
    const auto range = pack(epoch_, chunks * seat / threads, chunks * (seat + 1) / threads);
    seats_[seat].range.store(range, std::memory_order_release);
  }
  remaining_.fetch_sub(help(0), std::memory_order_release);
  Patience patience;
  while (remaining_.load(std::memory_order_acquire) != 0) patience.wait();
}

// Takes and runs chunks, one's own first, until none is left; returns how many. The region cannot end before
// they are subtracted from remaining_, so function_ and context_ hold still once a chunk is taken.
std::size_t Team::help(unsigned seat) {
  std::size_t done = 0;
  const unsigned threads = this->threads();
  for (unsigned i = 0; i < threads; ++i) {
    auto& range = seats_[(seat + i) % threads].range;
    std::uint64_t seen = range.load(std::memory_order_acquire);
    while (next_of(seen) < end_of(seen)) {
      if (!range.compare_exchange_weak(seen, seen + (1 << 16), std::memory_order_acquire)) continue;
      function_(context_, next_of(seen), seat);
      ++done;
      seen = range.load(std::memory_order_acquire);
    }
  }
  return done;
}

void Team::worker() {
  (void)workers_.load(std::memory_order_acquire);  // what the caller built is seen, whatever oneTBB does
  for (unsigned seat = 1; seat < max_threads_; ++seat) {
    if (seats_[seat].taken.exchange(true, std::memory_order_acquire)) continue;
    stay(seat);
    seats_[seat].taken.store(false, std::memory_order_release);
    break;
  }
  workers_.fetch_sub(1, std::memory_order_release);  // the last touch: the team may be gone now
}

void Team::stay(unsigned seat) {
  using Clock = std::chrono::steady_clock;
  std::uint64_t seen = 0;
  Clock::time_point idle_since = Clock::now();
  for (unsigned polls = 1; !closing_.load(std::memory_order_relaxed); ++polls) {
    if (seat >= threads()) return;
    const std::uint64_t range = seats_[seat].range.load(std::memory_order_acquire);
    if (range >> 32 != seen) {
      seen = range >> 32;
      const std::size_t done = help(seat);
      if (done > 0) remaining_.fetch_sub(done, std::memory_order_release);
      polls = 0;
      idle_since = {};
    } else if (polls % 64 != 0) {
      pause();
    } else if (active_.load(std::memory_order_acquire)) {
      if (polls > kSpins) std::this_thread::yield();
      idle_since = {};
    } else if (idle_since == Clock::time_point{}) {
      idle_since = Clock::now();
    } else if (Clock::now() - idle_since > kLinger) {
      return;
    }
  }
}

}  // namespace cria
