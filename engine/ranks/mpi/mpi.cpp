// Ranks over MPI. Collective operations are non-blocking and polled until they are done or time
// out; then messages between pairs find the missing ranks, and all are ended. Without a deadline,
// heartbeats (heartbeat.h) find them.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <vector>

#include "engine/ranks/mpi/heartbeat.h"
#include "engine/ranks/ranks.h"

namespace cria {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr double kLoading = 600;  // seconds for reading a model from a disk
constexpr double kAnswer = 1.5;   // seconds for a rank to answer find_missing_ranks()

/// Waits between polls: spins, then yields, then sleeps, so that idle ranks cost nothing. Time in
/// which this process was stopped does not count.
class Waiting {
 public:
  /// Waits; returns the seconds since the beginning.
  double step() {
    if (++polls_ < kEager) return 0;
    const auto now = Clock::now();
    if (Seconds(now - last_).count() > kStopped) begin_ += now - last_;
    last_ = now;
    const double seconds = Seconds(now - begin_).count();
    if (seconds < kYielding) {
      sched_yield();
    } else {
      usleep(seconds < 1 ? 100 : 1000);
    }
    return seconds;
  }

 private:
  static constexpr unsigned kEager = 200;
  static constexpr double kYielding = 0.02, kStopped = 0.5;
  unsigned polls_ = 0;
  Clock::time_point begin_ = Clock::now(), last_ = begin_;
};

class MpiRanks final : public Ranks {
 public:
  MpiRanks() {
    MPI_Comm_dup(MPI_COMM_WORLD, &all_);
    MPI_Comm_dup(MPI_COMM_WORLD, &pairs_);
    for (MPI_Comm communicator : {MPI_COMM_WORLD, all_, pairs_})
      MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN);
    MPI_Comm_rank(all_, &rank_);
    MPI_Comm_size(all_, &size_);
    for (Gather& gather : gathers_) {
      gather.counts.resize(static_cast<std::size_t>(size_));
      gather.places.resize(static_cast<std::size_t>(size_));
    }
    learn_hosts();
    learn_neighbours();
    heartbeat_.emplace(MPI_COMM_WORLD, [this](int rank, double seconds) {
      report_missing("rank " + std::to_string(rank) + " on " + host_of(rank), seconds);
      end(true);
    });
  }
  ~MpiRanks() override {
    heartbeat_.reset();
    MPI_Comm_free(&all_);
    MPI_Comm_free(&pairs_);
    MPI_Finalize();
  }

  unsigned rank() const override { return static_cast<unsigned>(rank_); }
  unsigned size() const override { return static_cast<unsigned>(size_); }
  std::string host() const override { return host_of(rank_); }
  unsigned neighbours() const override { return neighbours_; }
  void set_timeout(double seconds) override {
    usual_ = seconds;
    heartbeat_->set_timeout(seconds);
  }

  // The others wait for rank 0 without a limit, but it does not wait long for them.
  void broadcast(std::span<std::byte> bytes, Timeout timeout) override {
    if (rank_ == 0 && timeout == Timeout::Endless) timeout = Timeout::Usual;
    const auto turn = heartbeat_->turn();
    for (std::size_t done = 0; done < bytes.size(); done += kMost) {
      const auto n = static_cast<int>(std::min(kMost, bytes.size() - done));
      MPI_Request request = MPI_REQUEST_NULL;
      check(MPI_Ibcast(bytes.data() + done, n, MPI_BYTE, 0, all_, &request));
      wait(request, timeout);
    }
  }

  void begin_gather(std::byte* data, std::span<const std::size_t> begin) override {
    const auto turn = heartbeat_->turn();
    Gather& now = gathers_[begun_++ % kMaxGathers];
    for (std::size_t r = 0; r < now.counts.size(); ++r) {
      if (begin[r + 1] > INT_MAX) fail("a part that MPI cannot send in one piece");
      now.counts[r] = static_cast<int>(begin[r + 1] - begin[r]);
      now.places[r] = static_cast<int>(begin[r]);
    }
    check(MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, data, now.counts.data(),
                          now.places.data(), MPI_BYTE, all_, &now.request));
  }
  void end_gather(Timeout timeout) override {
    const auto turn = heartbeat_->turn();
    wait(gathers_[ended_++ % kMaxGathers].request, timeout);
  }

 private:
  static constexpr std::size_t kMost = std::size_t{1} << 30;  // bytes of one operation

  struct Gather {
    MPI_Request request = MPI_REQUEST_NULL;
    std::vector<int> counts, places;  // MPI reads them until the gather ends
  };

  void learn_hosts() {
    hosts_.resize(static_cast<std::size_t>(size_) * MPI_MAX_PROCESSOR_NAME);
    int length = 0;
    MPI_Get_processor_name(hosts_.data() + static_cast<std::size_t>(rank_) * MPI_MAX_PROCESSOR_NAME,
                           &length);
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, hosts_.data(), MPI_MAX_PROCESSOR_NAME,
                  MPI_CHAR, all_);
  }
  std::string host_of(int rank) const {
    return hosts_.data() + static_cast<std::size_t>(rank) * MPI_MAX_PROCESSOR_NAME;
  }

  // Counts the ranks of this host with the same processors: mpirun may bind each to its own.
  void learn_neighbours() {
    MPI_Comm machine = MPI_COMM_NULL;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine);
    int here = 1, me = 0;
    MPI_Comm_size(machine, &here);
    MPI_Comm_rank(machine, &me);
    std::vector<cpu_set_t> masks(static_cast<std::size_t>(here));
    cpu_set_t& own = masks[static_cast<std::size_t>(me)];
    CPU_ZERO(&own);
    sched_getaffinity(0, sizeof own, &own);
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, masks.data(), sizeof(cpu_set_t), MPI_BYTE,
                  machine);
    neighbours_ = static_cast<unsigned>(
        std::count_if(masks.begin(), masks.end(),
                      [&own](const cpu_set_t& mask) { return CPU_EQUAL(&mask, &own) != 0; }));
    MPI_Comm_free(&machine);
  }

  void wait(MPI_Request& request, Timeout timeout) {
    const double limit = timeout == Timeout::Usual ? usual_ : std::max(usual_, kLoading);
    int done = 0;
    double ticked = 0;
    for (Waiting waiting;;) {
      check(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
      if (done != 0) return;
      const double seconds = waiting.step();
      if (seconds > limit && timeout != Timeout::Endless) give_up(limit);
      if (seconds <= ticked + Heartbeat::kPause) continue;
      ticked = seconds;
      heartbeat_->tick(timeout != Timeout::Usual);
    }
  }

  void check(int code) {
    if (code == MPI_SUCCESS) return;
    char text[MPI_MAX_ERROR_STRING] = {};
    int length = 0;
    MPI_Error_string(code, text, &length);
    fail("the connection to the other ranks is lost: " + std::string(text));
  }

  /// Every waiting rank comes here at about the same time; the first of them reports the others.
  [[noreturn]] void give_up(double seconds) {
    const std::vector<bool> there = find_missing_ranks();
    std::string missing;
    for (int r = 0; r < size_; ++r)
      if (!there[static_cast<std::size_t>(r)])
        missing +=
            (missing.empty() ? "rank " : ", rank ") + std::to_string(r) + " on " + host_of(r);
    const bool first = std::find(there.begin(), there.end(), true) - there.begin() == rank_;
    if (first)
      report_missing(missing.empty() ? "the connection between the ranks" : missing, seconds);
    end(first);
  }
  static void report_missing(const std::string& who, double seconds) {
    char limit[32] = {};
    std::snprintf(limit, sizeof limit, "%g", seconds);
    report(who + ": no answer for " + limit + " s (--rank-timeout gives it more)");
  }

  /// Returns true for this rank and those that send a message in time.
  std::vector<bool> find_missing_ranks() {
    const auto n = static_cast<std::size_t>(size_);
    std::vector<char> heard(n);
    const char here = 1;
    std::vector<MPI_Request> receives(n, MPI_REQUEST_NULL);
    for (int r = 0; r < size_; ++r) {
      if (r == rank_) continue;
      MPI_Request sent = MPI_REQUEST_NULL;
      MPI_Irecv(&heard[static_cast<std::size_t>(r)], 1, MPI_CHAR, r, 0, pairs_,
                &receives[static_cast<std::size_t>(r)]);
      MPI_Isend(&here, 1, MPI_CHAR, r, 0, pairs_, &sent);
    }
    std::vector<bool> there(n, false);
    there[static_cast<std::size_t>(rank_)] = true;
    for (const auto begin = Clock::now(); Seconds(Clock::now() - begin).count() < kAnswer;
         usleep(1000)) {
      for (std::size_t r = 0; r < n; ++r) {
        int done = 0;
        if (!there[r] && MPI_Test(&receives[r], &done, MPI_STATUS_IGNORE) == MPI_SUCCESS &&
            done != 0)
          there[r] = true;
      }
      if (std::find(there.begin(), there.end(), false) == there.end()) break;
    }
    return there;
  }

  [[noreturn]] void fail(const std::string& reason) {
    report("rank " + std::to_string(rank_) + " on " + host_of(rank_) + ": " + reason);
    end(true);
  }
  static void report(const std::string& text) {
    const std::string line = "cria: error: " + text + "\n";
    if (write(STDERR_FILENO, line.data(), line.size()) < 0) return;
  }
  /// now: false leaves it to the rank that reported the reason; if it fails, every rank ends
  /// itself.
  [[noreturn]] static void end(bool now) {
    if (!now) usleep(500000);
    MPI_Abort(MPI_COMM_WORLD, 1);
    _exit(1);
  }

  MPI_Comm all_ = MPI_COMM_NULL;    // for collective operations
  MPI_Comm pairs_ = MPI_COMM_NULL;  // for find_missing_ranks()
  int rank_ = 0, size_ = 1;
  unsigned neighbours_ = 1;
  double usual_ = kUsualTimeout;
  std::vector<char> hosts_;  // [rank][MPI_MAX_PROCESSOR_NAME]
  std::array<Gather, kMaxGathers> gathers_;
  unsigned begun_ = 0, ended_ = 0;
  std::optional<Heartbeat> heartbeat_;
};

}  // namespace
}  // namespace cria

// Several threads use an engine, one at a time: MPI_THREAD_SERIALIZED, not FUNNELED.
extern "C" cria::Ranks* cria_join_mpi(char* reason, std::size_t size) {
  const cria::BlockedSignals blocked;  // for MPI's own threads
  int level = 0;
  const int status = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level);
  if (status != MPI_SUCCESS || level < MPI_THREAD_SERIALIZED) {
    std::snprintf(reason, size, "this MPI cannot be used by several threads, one at a time");
    return nullptr;
  }
  return new cria::MpiRanks;
}
