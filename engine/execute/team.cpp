#include "engine/execute/team.h"

#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/task_arena.h>
#include <sched.h>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <exception>

#include "engine/execute/machine.h"

namespace cria {
namespace {

// A thread polls this long before it sleeps: longer than sampling a token, and than the nodes that
// have one chunk.
constexpr auto kPollTime = std::chrono::microseconds(50);

void pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Polls until done() or kPollTime is over; returns true if it is done.
template <class Done>
bool poll(Done&& done) {
  const auto start = std::chrono::steady_clock::now();
  do {
    for (int i = 0; i < 32; ++i) {
      if (done()) return true;
      pause();
    }
  } while (std::chrono::steady_clock::now() - start < kPollTime);
  return false;
}

constexpr std::uint64_t pack(std::uint32_t epoch, std::size_t begin, std::size_t end) {
  return std::uint64_t{epoch} << 32 | begin << 16 | end;
}
constexpr std::size_t next_of(std::uint64_t range) { return range >> 16 & 0xFFFF; }
constexpr std::size_t end_of(std::uint64_t range) { return range & 0xFFFF; }

}  // namespace

struct Team::Arena {
  explicit Arena(unsigned threads)
      : slots(std::min(threads, limit())), tbb(static_cast<int>(slots), 1) {}
  // Returns the most threads that oneTBB grants: it writes a warning if asked for more.
  static unsigned limit() {
    return static_cast<unsigned>(
        tbb::global_control::active_value(tbb::global_control::max_allowed_parallelism));
  }
  const unsigned slots;
  bool refused = false;  // the system gave no thread: no worker is called any more
  tbb::task_arena tbb;
};

// A called worker's hold on the team. It may start after a call that failed midway, when the
// team is gone, or never. The link outlives the team as long as a worker may still start.
struct Team::Link {
  explicit Link(Team& owner) : team(owner) {}
  Team& team;
  std::atomic<unsigned> references{1};  // the team, and workers that were called
  std::atomic<unsigned> workers{0};     // called and not yet gone
  std::atomic<unsigned> inside{0};      // workers that are inside the team
  std::atomic<bool> closed{false};

  void start_worker() {
    // Makes what the caller built visible, whatever oneTBB does.
    (void)references.load(std::memory_order_acquire);
    inside.fetch_add(1);
    if (!closed.load()) team.join();
    leave(inside);  // the last touch of the team
    leave(workers);
    release();
  }
  static void leave(std::atomic<unsigned>& count) {
    if (count.fetch_sub(1) == 1) count.notify_all();
  }
  // Sleeps: on a busy machine, a thread that yields is put behind all others each time.
  static void wait_for_none(const std::atomic<unsigned>& count) {
    while (const unsigned left = count.load()) count.wait(left);
  }
  void release() {
    if (references.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }
};

Team::Team(unsigned max_threads)
    : arena_(std::make_unique<Arena>(max_threads)),
      workers_(std::make_unique<Worker[]>(max_threads)),
      max_threads_(max_threads),
      link_(new Link(*this)) {
  assert(max_threads > 0);
}

Team::~Team() {
  closing_ = true;
  wake_workers();
  if (!arena_->refused) Link::wait_for_none(link_->workers);
  link_->closed.store(true);
  Link::wait_for_none(link_->inside);
  link_->release();
}

Team::Evaluation Team::begin(unsigned threads) {
  assert(threads > 0 && threads <= max_threads_);
  threads_.store(threads, std::memory_order_relaxed);
  caller_cpu_.store(sched_getcpu(), std::memory_order_relaxed);
  return Evaluation(*this);
}

void Team::call_workers() {
  const unsigned wanted = arena_->refused ? 1 : std::min(threads(), arena_->slots);
  while (link_->workers.load(std::memory_order_relaxed) + 1 < wanted) {
    link_->workers.fetch_add(1, std::memory_order_release);
    link_->references.fetch_add(1, std::memory_order_release);
    try {
      // ThreadSanitizer does not see how oneTBB, which is not instrumented, hands the task over.
      arena_->tbb.enqueue([link = link_]()
                              __attribute__((no_sanitize("thread"))) { link->start_worker(); });
    } catch (const std::exception&) {  // no thread or memory; the worker may still start, or never
      arena_->refused = true;
      return;
    }
  }
}

void Team::run(std::size_t chunks, Function function, void* context) {
  assert(chunks <= kMaxChunks);
  const unsigned threads = this->threads();
  if (threads == 1 || chunks <= 1) {
    for (std::size_t chunk = 0; chunk < chunks; ++chunk) function(context, chunk, 0);
    return;
  }
  call_workers();
  function_ = function;
  context_ = context;
  remaining_.store(static_cast<std::uint32_t>(chunks), std::memory_order_relaxed);
  ++epoch_;
  for (unsigned worker = threads; worker-- > 0;) {
    const auto range = pack(epoch_, first_chunk(chunks, worker), first_chunk(chunks, worker + 1));
    workers_[worker].range.store(range, std::memory_order_release);
  }
  wake_workers();
  remaining_.fetch_sub(run_chunks(0), std::memory_order_release);
  if (poll([this] { return remaining_.load(std::memory_order_acquire) == 0; })) return;
  while (const std::uint32_t left = remaining_.load(std::memory_order_acquire))
    remaining_.wait(left);
}

// Wakes sleeping workers; makes no system call if none sleeps.
void Team::wake_workers() {
  signal_.fetch_add(1);
  signal_.notify_all();
}

// Takes and runs chunks, the worker's own first, until none is left; returns how many. The region
// cannot end before they are subtracted from remaining_, so function_ and context_ do not change
// once a chunk is taken.
std::uint32_t Team::run_chunks(unsigned worker) {
  std::uint32_t done = 0;
  const unsigned threads = this->threads();
  for (unsigned i = 0; i < threads; ++i) {
    auto& range = workers_[(worker + i) % threads].range;
    std::uint64_t seen = range.load(std::memory_order_acquire);
    while (next_of(seen) < end_of(seen)) {
      if (!range.compare_exchange_weak(seen, seen + (1 << 16), std::memory_order_acquire)) continue;
      function_(context_, next_of(seen), worker);
      ++done;
      seen = range.load(std::memory_order_acquire);
    }
  }
  return done;
}

void Team::join() {
  const DefaultFloatMode mode;  // oneTBB's threads inherit the mode of the arena's maker
  for (unsigned worker = 1; worker < max_threads_; ++worker) {
    if (workers_[worker].taken.exchange(true, std::memory_order_acquire)) continue;
    serve_regions(worker);
    workers_[worker].taken.store(false, std::memory_order_release);
    break;
  }
}

void Team::serve_regions(unsigned worker) {
  std::uint64_t epoch = 0;
  while (wait_for_region(worker, epoch)) {
    const std::uint32_t done = run_chunks(worker);
    if (done > 0 && remaining_.fetch_sub(done, std::memory_order_acq_rel) == done)
      remaining_.notify_one();
  }
}

// Waits until the worker's epoch changes. Returns false if the worker should leave. On a shared
// machine, schedulers tend to leave a thread on the core of the one that woke it. There both take
// turns of milliseconds, although one waits for the other. So it moves to another core.
bool Team::wait_for_region(unsigned worker, std::uint64_t& epoch) {
  const auto leaves = [&] {
    return closing_.load(std::memory_order_relaxed) || worker >= threads();
  };
  const auto changed = [&] {
    return workers_[worker].range.load(std::memory_order_acquire) >> 32 != epoch;
  };
  if (step_aside(caller_cpu_.load(std::memory_order_relaxed)))
    poll([&] { return changed() || leaves(); });
  for (;;) {
    const std::uint32_t seen = signal_.load();
    if (leaves()) return false;
    if (changed()) break;
    if (!active_.load(std::memory_order_acquire)) return false;
    signal_.wait(seen);
  }
  epoch = workers_[worker].range.load(std::memory_order_acquire) >> 32;
  return true;
}

}  // namespace cria
