// Ranks that are threads of the test's process.
#pragma once

#include <algorithm>
#include <array>
#include <barrier>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "engine/distribute/leader.h"

namespace cria::test {

/// Meeting point of the ranks. Each rank's data is in one of kPlaces places in turn. Before a place
/// is reused, enough meetings have passed that all ranks have read it.
struct RankHub {
  explicit RankHub(unsigned n)
      : size(n), meeting(static_cast<std::ptrdiff_t>(n)), given(n), asked_for_neighbours(n) {}
  static constexpr std::size_t kPlaces = kMaxGathers + 1;
  const unsigned size;
  std::barrier<> meeting;
  std::vector<std::array<std::vector<std::byte>, kPlaces>> given;  // by rank
  std::vector<unsigned> asked_for_neighbours;  // by rank: how often, by who wants to know how many
                                               // threads are its own
};

class ThreadRanks : public Ranks {
 public:
  ThreadRanks(RankHub& hub, unsigned rank) : hub_(hub), rank_(rank) {}
  unsigned rank() const override { return rank_; }
  unsigned size() const override { return hub_.size; }
  std::string host() const override { return "host" + std::to_string(rank_); }
  unsigned neighbours() const override {
    ++hub_.asked_for_neighbours[rank_];
    return hub_.size;
  }
  void set_timeout(double) override {}

  void broadcast(std::span<std::byte> bytes, Timeout) override {
    if (rank_ == 0) give(bytes.data(), bytes.size());
    meet();
    if (rank_ != 0) std::memcpy(bytes.data(), given_by(0, met_).data(), bytes.size());
  }
  void begin_gather(std::byte* data, std::span<const std::size_t> begin) override {
    give(data + begin[rank_], begin[rank_ + 1] - begin[rank_]);
    meet();
    under_way_.push_back({data, {begin.begin(), begin.end()}, met_});
    gathered += begin.back() - begin.front();
    most_under_way = std::max(most_under_way, under_way_.size());
  }
  // Only now does anything arrive.
  void end_gather(Timeout) override {
    const auto [data, begin, met] = under_way_.front();
    under_way_.pop_front();
    for (unsigned r = 0; r < hub_.size; ++r)
      if (r != rank_ && begin[r] != begin[r + 1])
        std::memcpy(data + begin[r], given_by(r, met).data(), begin[r + 1] - begin[r]);
  }
  std::size_t gathered = 0;        ///< bytes
  std::size_t most_under_way = 0;  ///< gatherings at once

 private:
  struct Gathering {
    std::byte* data;
    std::vector<std::size_t> begin;
    std::size_t met;
  };
  std::vector<std::byte>& given_by(unsigned rank, std::size_t met) const {
    return hub_.given[rank][met % RankHub::kPlaces];
  }
  void give(const std::byte* data, std::size_t size) {
    hub_.given[rank_][(met_ + 1) % RankHub::kPlaces].assign(data, data + size);
  }
  void meet() {
    ++met_;
    hub_.meeting.arrive_and_wait();
  }
  RankHub& hub_;
  const unsigned rank_;
  std::size_t met_ = 0;
  std::deque<Gathering> under_way_;
};

inline std::shared_ptr<Leader> leader_of_team;  ///< null: no RankTeam lives

/// Options of a model that the living RankTeam, if any, computes.
inline LoadOptions on_team(LoadOptions options = {}) {
  options.cluster = leader_of_team;
  return options;
}

/// While it lives, this process has n ranks. version: of the last rank.
class RankTeam {
 public:
  explicit RankTeam(unsigned n, Shares shares = {}, const std::string& version = "1")
      : hub_(n), first_(hub_, 0) {
    for (unsigned r = 1; r < n; ++r) {
      threads_.emplace_back([this, r, own = r + 1 == n ? version : "1"] {
        ThreadRanks ranks(hub_, r);
        follow(ranks, own);
      });
    }
    leader_of_team = std::make_shared<Leader>(first_, "1");
    if (!shares.empty()) leader_of_team->set_shares(std::move(shares));
  }
  ~RankTeam() { leader_of_team.reset(); }

  /// Returns how often this rank has chosen its own number of threads. Call it between two
  /// commands.
  [[nodiscard]] unsigned chose_threads(unsigned rank) const {
    return hub_.asked_for_neighbours[rank];
  }
  [[nodiscard]] std::size_t gathered() const { return first_.gathered; }
  [[nodiscard]] std::size_t most_under_way() const { return first_.most_under_way; }

 private:
  RankHub hub_;
  ThreadRanks first_;
  std::vector<std::jthread> threads_;
};

}  // namespace cria::test
