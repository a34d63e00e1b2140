// Several ranks compute one model. Rank 0 leads: it tells the others, in packets, what it does with
// models and engines. The others follow: they load the same models, open their parts of the engines
// and compute their part of every batch.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/cluster.h"
#include "engine/distribute/packet.h"
#include "engine/execute/executor.h"
#include "engine/execute/pass.h"
#include "engine/model.h"

namespace cria {

class Model;

/// First message between ranks. Its layout never changes: ranks of different versions must be able
/// to read it. Strings are truncated.
struct RankVersion {
  char host[64] = {}, version[128] = {};
};

/// Returns the versions of all ranks, on every rank.
std::vector<RankVersion> exchange_versions(Ranks& ranks, std::string_view version);
/// Returns the first that differs from rank 0's, or null.
const RankVersion* first_version_mismatch(const std::vector<RankVersion>& versions);
/// Throws Error that names that rank and its host.
void expect_one_version(const std::vector<RankVersion>& versions);

/// One rank's result of loading a model or opening an engine. Strings are truncated.
struct RankReport {
  char host[64] = {}, error[512] = {};  ///< error: "" if it succeeded
  std::uint64_t file = 0, graph = 0;    ///< fingerprints of the model's file and its computation
  RankMemory memory;                    ///< memory of the engine
  /// Bytes that it still needs; bytes available to all ranks of its place together; the place: a
  /// host, or a group of its processes.
  std::uint64_t needed = 0, available = 0, place = 0;

  [[nodiscard]] bool failed() const { return error[0] != '\0'; }
};

RankReport report_of(const Ranks& ranks);
void set_error(RankReport& report, std::string_view error);
/// Fills in the fingerprints of a model just loaded, and stops the system from reading ahead.
void describe(RankReport& report, const Model& model);

/// Returns the reports of all ranks, on every rank.
std::vector<RankReport> exchange(Ranks& ranks, const RankReport& own, Timeout timeout);

/// Fills in the memory of an engine just opened. pinned: the model's file is in memory already.
void describe_engine(RankReport& report, const RankMemory& memory, bool pinned);
/// Largest ratio of needed to available memory of a place.
double largest_need(const std::vector<RankReport>& reports);
/// Throws Error that names a host whose ranks need more memory than is available.
void expect_memory(const std::vector<RankReport>& reports);

/// Throws Error that names the first rank, and its host, that failed or differs from rank 0.
void expect_agreement(const std::vector<RankReport>& reports);

/// Measures how fast each rank reads memory, in GB/s by rank, which bounds decoding. Called by all
/// ranks together: ranks of one host share its memory. threads: 0: each rank's default. Takes a
/// third of a second and 256 MiB.
std::vector<double> exchange_read_rates(Ranks& ranks, std::uint32_t threads);
/// Returns shares in proportion to the rates, rounded so that equal machines get equal shares in
/// spite of noise.
Shares shares_of(const std::vector<double>& rates);

/// Asks the system to read the rows of the parts from the file, and no other pages. Returns before
/// they are read.
void read_own_rows(const Model& model, const Graph& graph, const GraphParts& parts);

class Leader final : public Cluster {
 public:
  /// Throws Error if a rank runs another version of the program. Must not outlive the ranks.
  Leader(Ranks& ranks, std::string_view version);
  ~Leader() override { end(); }
  /// Ends the other ranks. What is dropped or closed later is ignored.
  void end() noexcept;

  [[nodiscard]] Ranks& ranks() const override { return ranks_; }
  [[nodiscard]] const Shares& shares() const override { return shares_; }
  /// For engines opened from now on; default: equal shares.
  void set_shares(Shares shares) { shares_ = std::move(shares); }
  /// exchange_read_rates() of all ranks.
  std::vector<double> measure_rates(std::uint32_t threads);
  /// Sets Timeout::Usual of all ranks.
  void set_timeout(double seconds);
  /// Reports by rank, with the memory of all engines opened so far.
  [[nodiscard]] const std::vector<RankReport>& opened() const { return opened_; }

  std::shared_ptr<const Model> load_model(
      const std::string& path, const LoadOptions& options,
      const std::function<std::shared_ptr<const Model>()>& load) override;
  void drop_model(const Model& model) noexcept override;
  std::uint64_t open_engine(const ClusterEngine& engine,
                            const std::function<RankMemory()>& open) override;
  void read_rows(const Model& model, const Graph& graph, const GraphParts& parts) override;
  void close_engine(std::uint64_t engine) noexcept override;
  double largest_need(const std::function<std::uint64_t(std::size_t rank)>& needed) override;

  Turn forward(std::uint64_t engine, const BatchPlan& plan, bool observed) override;
  Turn logits(std::uint64_t engine, std::size_t begin, std::size_t end) override;
  Turn copy_page(std::uint64_t engine, std::size_t group, PageId from, PageId to) override;

 private:
  template <class... Values>
  void send(RankTask task, const Values&... values);
  std::vector<RankReport> run_together(const std::function<void(RankReport&)>& here);

  Ranks& ranks_;
  Shares shares_;
  std::recursive_mutex mutex_;
  PacketWriter packet_;
  std::map<const Model*, std::uint64_t> models_;
  std::vector<RankReport> opened_;
  std::uint64_t last_id_ = 0;
  bool ended_ = false;
};

/// Does what the Leader on rank 0 tells, until it ends. Reports models and engines that cannot be
/// loaded or opened; throws other errors, after which all ranks must end.
void follow(Ranks& ranks, const std::string& version);

}  // namespace cria
