// A model that several processes ("ranks") compute together, as rank 0 uses it. Passed in
// LoadOptions; engine/distribute implements it, and the core knows only this interface.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "engine/execute/kv_pool.h"
#include "engine/execute/machine.h"
#include "engine/execute/work_memory.h"
#include "engine/ranks/ranks.h"

namespace cria {

struct BatchPlan;
struct GraphParts;
struct LoadOptions;
class Model;

/// Default number of threads of a rank: its processors, divided among the ranks on this host.
/// ranks: null: a single process.
inline unsigned default_threads(const Ranks* ranks) {
  return std::max(1U, usable_cores() / (ranks == nullptr ? 1 : ranks->neighbours()));
}

/// Memory of a rank's part of an engine, in bytes.
struct RankMemory {
  std::uint64_t weights = 0;  ///< rows of the file that it reads
  std::uint64_t kv = 0, work = 0;

  void add(const RankMemory& other) {
    weights += other.weights;
    kv += other.kv;
    work += other.work;
  }
};

/// The engine that all ranks open.
struct ClusterEngine {
  const Model* model = nullptr;
  KvShape kv;
  WorkShape work;
  std::uint32_t threads = 0, threads_prefill = 0;  ///< 0: each rank's default
  std::uint32_t rope_ctx = 0;
  const KernelSet* kernels = nullptr;
};

/// Distributes the work of an engine among all ranks, for one thread at a time.
class Cluster {
 public:
  /// While it lives, the ranks belong to one call: rank 0 does its part of the same.
  using Turn = std::unique_lock<std::recursive_mutex>;

  Cluster() = default;
  virtual ~Cluster() = default;
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  [[nodiscard]] virtual Ranks& ranks() const = 0;
  [[nodiscard]] virtual const Shares& shares()
      const = 0;  ///< shares for engines opened from now on

  /// Returns the result of load() once all ranks have the same model. Throws what load() throws, or
  /// an Error that names the rank.
  virtual std::shared_ptr<const Model> load_model(
      const std::string& path, const LoadOptions& options,
      const std::function<std::shared_ptr<const Model>()>& load) = 0;
  virtual void drop_model(const Model& model) noexcept = 0;
  /// Calls open(), which makes rank 0's part and returns its memory, while the others make theirs.
  /// Returns the engine's number, from 1. Throws what open() throws, or an Error that names the
  /// rank.
  virtual std::uint64_t open_engine(const ClusterEngine& engine,
                                    const std::function<RankMemory()>& open) = 0;
  /// Asks the system to read the rows of this rank's part.
  virtual void read_rows(const Model& model, const Graph& graph, const GraphParts& parts) = 0;
  virtual void close_engine(std::uint64_t engine) noexcept = 0;
  /// Largest ratio on any host of what its ranks need together to the memory available there.
  /// needed: bytes of the rank.
  virtual double largest_need(const std::function<std::uint64_t(std::size_t rank)>& needed) = 0;

  /// The other ranks begin this; rank 0 does it while it holds the turn.
  virtual Turn forward(std::uint64_t engine, const BatchPlan& plan, bool observed) = 0;
  virtual Turn logits(std::uint64_t engine, std::size_t begin, std::size_t end) = 0;
  virtual Turn copy_page(std::uint64_t engine, std::size_t group, PageId from, PageId to) = 0;
};

}  // namespace cria
