// A team of threads that runs short parallel regions one after another with little hand-over
// between them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "kernels/simd/float_mode.h"

namespace cria {

/// Threads of a oneTBB arena. They come when an evaluation begins, stay while one region follows
/// the other, and leave soon after it, so that an idle session costs nothing.
///
/// A region is n chunks. Each seat (thread) owns a static range of them; who has finished his own
/// takes what others have not begun. So a region ends even if oneTBB sends no worker at all, a
/// thread that the system has put to sleep delays one chunk and not a quarter of the work, and
/// results cannot depend on who computes, as chunks do not. A system that gives no more threads
/// (ulimit, cgroups) costs speed, nothing else.
///
/// A region costs about 550 ns beyond its work with two threads (tests/engine/team_bench, 2 virtual
/// cores of a Xeon with AMX, where a cache line travels to the other core and back in 130 ns), 2 ns
/// with one thread.
class Team {  // NOLINT(*.Padding): what different threads write lies in different cache lines
 public:
  explicit Team(unsigned max_threads);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  /// While it lives, workers wait for regions instead of leaving, and the calling thread computes
  /// in the same float mode as they, whatever its program has set.
  class [[nodiscard]] Evaluation {
   public:
    explicit Evaluation(Team& team) : team_(team) {
      team_.active_.store(true, std::memory_order_release);
    }
    ~Evaluation() {
      team_.active_.store(false, std::memory_order_release);
      team_.wake_workers();
    }
    Evaluation(const Evaluation&) = delete;
    Evaluation& operator=(const Evaluation&) = delete;

   private:
    const DefaultFloatMode mode_;
    Team& team_;
  };
  /// The caller (seat 0) and threads-1 workers run the regions that follow. threads <= max_threads.
  Evaluation begin(unsigned threads);
  [[nodiscard]] unsigned threads() const { return threads_.load(std::memory_order_relaxed); }

  static constexpr std::size_t kMaxChunks = 65535;

  /// A seat of threads() begins with this chunk of a region, and owns those up to the next seat's
  /// first.
  [[nodiscard]] std::size_t first_chunk(std::size_t chunks, unsigned worker) const {
    return chunks * worker / threads();
  }
  /// Whether a seat begins with it, or the region ends before it.
  [[nodiscard]] bool is_first_chunk(std::size_t chunks, std::size_t chunk) const {
    const std::size_t threads = this->threads(), worker = (chunk * threads + chunks - 1) / chunks;
    return chunks * worker / threads == chunk;
  }

  /// f(chunk, seat) for every chunk in [0, chunks); returns when all are done. From one thread. f
  /// must not throw.
  template <class F>
  void run(std::size_t chunks, F&& f) {
    run(
        chunks,
        [](void* context, std::size_t chunk, unsigned worker) {
          (*static_cast<std::remove_reference_t<F>*>(context))(chunk, worker);
        },
        &f);
  }

 private:
  using Function = void (*)(void* context, std::size_t chunk, unsigned worker);
  struct Arena;
  struct Link;
  /// A seat's chunks: epoch << 32 | next << 16 | end. Only a compare-exchange takes one, and every
  /// region writes a new epoch, so a thread that slept through regions cannot take a chunk that is
  /// not there.
  struct alignas(64) Worker {
    std::atomic<std::uint64_t> range{0};
    std::atomic<bool> taken{false};
  };

  void run(std::size_t chunks, Function function, void* context);
  void call_workers();
  void wake_workers();
  void serve_regions(unsigned worker);
  void join();
  bool wait_for_region(unsigned worker, std::uint64_t& epoch);
  std::uint32_t run_chunks(unsigned worker);

  // Read by all, seldom written.
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<Worker[]> workers_;
  const unsigned max_threads_;
  std::atomic<unsigned> threads_{1};
  Link* link_;                       // outlives the team where a worker still has to come
  std::atomic<int> caller_cpu_{-1};  // where the last evaluation began
  std::atomic<bool> active_{false};
  std::atomic<bool> closing_{false};
  // Changes with every region: what sleeping workers wait for.
  alignas(64) std::atomic<std::uint32_t> signal_{0};
  // The region: function_ and context_ are written before its ranges and read after a chunk was
  // taken; remaining_ counts chunks that are not finished.
  alignas(64) Function function_ = nullptr;
  void* context_ = nullptr;
  std::uint32_t epoch_ = 0;
  std::atomic<std::uint32_t> remaining_{0};
};

}  // namespace cria
