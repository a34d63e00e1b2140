// A team of threads that runs short parallel regions one after another at little cost.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "kernels/simd/float_mode.h"

namespace cria {

/// Threads of a oneTBB arena. They join when an evaluation begins, stay while regions follow each
/// other, and leave soon after it, so that an idle engine costs nothing.
///
/// A region is n chunks. Each worker (thread) owns a static range of them; idle workers steal
/// chunks. So a region ends even if oneTBB sends no worker, and a thread that the system has put to
/// sleep delays one chunk instead of a quarter of the work. Results do not depend on which worker
/// computes a chunk. A system that gives no more threads (ulimit, cgroups) only costs speed.
///
/// A region costs about 550 ns beyond its work with two threads, 2 ns with one (measured with
/// tests/engine/team_bench on 2 virtual cores of a Xeon with AMX). A cache line travels to the
/// other core and back in 130 ns there.
class Team {  // NOLINT(*.Padding): threads write different cache lines
 public:
  explicit Team(unsigned max_threads);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  /// While it lives, workers wait for regions instead of leaving, and the calling thread has the
  /// float mode of the workers, whatever its program has set.
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
  /// Begins regions that the caller (worker 0) and threads-1 others run. threads <= max_threads
  Evaluation begin(unsigned threads);
  [[nodiscard]] unsigned threads() const { return threads_.load(std::memory_order_relaxed); }

  static constexpr std::size_t kMaxChunks = 65535;

  /// Returns the first chunk of a worker; it owns the chunks up to the next worker's first.
  [[nodiscard]] std::size_t first_chunk(std::size_t chunks, unsigned worker) const {
    return chunks * worker / threads();
  }
  /// Returns true if a worker begins with this chunk, or the region ends before it.
  [[nodiscard]] bool is_first_chunk(std::size_t chunks, std::size_t chunk) const {
    const std::size_t threads = this->threads(), worker = (chunk * threads + chunks - 1) / chunks;
    return chunks * worker / threads == chunk;
  }

  /// Calls f(chunk, worker) for every chunk in [0, chunks) and returns when all are done. Call it
  /// from one thread at a time. f must not throw. chunks <= kMaxChunks
  template <class F>
  void run(std::size_t chunks, F&& f) {
    run(
        chunks,
        [](void* context, std::size_t chunk, unsigned worker) {
          (*static_cast<std::remove_reference_t<F>*>(context))(chunk, worker);
        },
        &f);
  }
  /// The same for any number of chunks.
  template <class F>
  void run_any(std::size_t chunks, F&& f) {
    for (std::size_t done = 0; done < chunks; done += kMaxChunks)
      run(std::min(kMaxChunks, chunks - done),
          [&](std::size_t i, unsigned worker) { f(done + i, worker); });
  }

 private:
  using Function = void (*)(void* context, std::size_t chunk, unsigned worker);
  struct Arena;
  struct Link;
  /// range: a worker's chunks as epoch << 32 | next << 16 | end. Chunks are taken by
  /// compare-exchange only, and every region has a new epoch, so that a thread that slept through
  /// regions cannot take a chunk of an earlier one.
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
  Link* link_;                       // outlives the team while a called worker has not started
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
