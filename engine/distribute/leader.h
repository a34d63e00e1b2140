// Rank 0's side of a model that several ranks compute: what it does with models and engines, the
// others are told to do too. What is told is plain data; what they compute thereupon is theirs
// alone (follower.h).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "engine/distribute/packet.h"
#include "engine/distribute/report.h"
#include "engine/execute/executor.h"
#include "engine/execute/pass.h"
#include "engine/model.h"
#include "engine/ranks/shares.h"

namespace cria {

/// How the others make the engine that rank 0 makes.
struct DistributedEngineShape {
  const Model* model = nullptr;
  KvShape kv;
  WorkShape work;
  std::uint32_t threads = 0, threads_prefill = 0;  ///< 0: each rank's default
  std::uint32_t rope_ctx = 0;
  const KernelSet* kernels = nullptr;
};

/// There is at most one in a process; while it lives, every model that is loaded and every engine
/// that is opened belongs to all ranks. What it does and throws, it does for one thread at a time.
class Leader {
 public:
  using Turn = std::unique_lock<std::recursive_mutex>;

  /// Throws Error where a rank has another version of the program.
  Leader(Ranks& ranks, std::string_view version);
  /// The others end.
  ~Leader();
  Leader(const Leader&) = delete;
  Leader& operator=(const Leader&) = delete;

  /// The process's; null: it is alone, or this thread follows.
  static Leader* current();

  [[nodiscard]] Ranks& ranks() const { return ranks_; }
  [[nodiscard]] const Shares& shares() const { return shares_; }
  /// Of engines that are opened from now on; by default all get the same.
  void set_shares(Shares shares) { shares_ = std::move(shares); }
  /// exchange_read_rates() of all.
  std::vector<double> measure_rates(std::uint32_t threads);
  /// By rank: its place, and the memory that is available there now.
  std::vector<RankReport> ask_memory();
  /// How long a rank may take for a step: Patience::Usual of all.
  void set_timeout(double seconds);

  /// What load() gives here, once the others have the same model. Throws what load() throws, or
  /// Error that names the rank.
  std::shared_ptr<const Model> load_model(
      const std::string& path, const LoadOptions& options,
      const std::function<std::shared_ptr<const Model>()>& load);
  void forget_model(const Model& model) noexcept;

  /// Runs open(), which makes the engine here and says what it takes, while the others make theirs;
  /// returns its number. Throws what open() throws, or Error that names the rank.
  std::uint64_t open_engine(const DistributedEngineShape& shape,
                            const std::function<RankMemory()>& open);
  void close_engine(std::uint64_t engine) noexcept;
  /// By rank, with the memory of all engines that have been opened.
  [[nodiscard]] const std::vector<RankReport>& opened() const { return opened_; }

  /// The others begin to do this; rank 0 does it as long as it has the turn.
  Turn forward(std::uint64_t engine, const BatchPlan& plan, bool observed);
  Turn logits(std::uint64_t engine, std::size_t begin, std::size_t end);
  Turn copy_page(std::uint64_t engine, std::size_t group, PageId from, PageId to);

 private:
  void drop(RankTask task, std::uint64_t id);
  std::vector<RankReport> run_together(const std::function<void(RankReport&)>& here);

  Ranks& ranks_;
  Shares shares_;
  std::recursive_mutex mutex_;
  PacketWriter packet_;
  std::map<const Model*, std::uint64_t> models_;
  std::vector<RankReport> opened_;
  std::uint64_t last_id_ = 0;
};

/// While it lives, Leader::current() is null in this thread: for tests, whose ranks are threads.
class FollowingThread {
 public:
  FollowingThread();
  ~FollowingThread();
  FollowingThread(const FollowingThread&) = delete;
  FollowingThread& operator=(const FollowingThread&) = delete;
};

}  // namespace cria
