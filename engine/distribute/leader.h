// Several ranks compute one model. Rank 0 leads: it tells the others, in packets, what it does with
// models and engines. The others follow: they load the same models, open their parts of the engines
// and compute their part of every batch.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "engine/cluster.h"
#include "engine/distribute/packet.h"
#include "engine/distribute/report.h"
#include "engine/execute/executor.h"
#include "engine/execute/pass.h"
#include "engine/model.h"

namespace cria {

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
