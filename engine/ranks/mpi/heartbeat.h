// Signs of life between the ranks, also of those that have nothing to say for hours: a ring, in
// which each hears the one before it.
#pragma once

#include <mpi.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>

namespace cria {

inline constexpr double kUsualTimeout = 7;  ///< seconds, where nothing else is asked for

/// Made and destroyed by all ranks at the same time. A thread of its own sends and hears when
/// nobody else uses MPI: who does holds turn(), and calls tick() while that takes time.
class Heartbeat {
 public:
  static constexpr double kPause = 0.25;  ///< seconds between two beats

  /// lost(rank, seconds): that rank has sent nothing for so long. Must end the process.
  Heartbeat(MPI_Comm world, std::function<void(int rank, double seconds)> lost);
  /// Waits until the one before it is destroyed too, or lost.
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  [[nodiscard]] std::unique_lock<std::mutex> turn() { return std::unique_lock(mutex_); }
  void set_timeout(double seconds);
  /// Sends a beat, hears those that have come. judge: whether lost() is called where none has come
  /// for too long.
  void tick(bool judge);

 private:
  using Clock = std::chrono::steady_clock;

  void run(const std::stop_token& stopped);
  void listen();
  void receive_all(bool judge);
  bool hear();

  const std::function<void(int, double)> lost_;
  MPI_Comm line_ = MPI_COMM_NULL;
  int next_ = 0, previous_ = 0;
  double timeout_ = kUsualTimeout;
  std::mutex mutex_;
  MPI_Request sent_ = MPI_REQUEST_NULL, listening_ = MPI_REQUEST_NULL;
  char beat_ = 1, last_ = 0;  // what is sent: that there will be more, or not
  char heard_ = 1;
  Clock::time_point ticked_ = Clock::now(), alive_ = ticked_;  // alive_: when a beat was heard last
  std::condition_variable_any wake_;
  std::jthread thread_;
};

}  // namespace cria
