// Heartbeats between ranks that may be silent for hours: in a ring, each rank listens to the one
// before it.
#pragma once

#include <mpi.h>
#include <pthread.h>

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>

namespace cria {

inline constexpr double kUsualTimeout = 7;  ///< default timeout, in seconds

/// Threads created while it lives have all signals blocked: signals are for the program's threads.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};

/// Created and destroyed by all ranks together. Its thread sends and receives while no other thread
/// uses MPI; one that does holds turn(), and calls tick() now and then.
class Heartbeat {
 public:
  static constexpr double kPause = 0.25;  ///< seconds between two heartbeats

  /// lost(rank, seconds): the rank has been silent for so long; must end the process.
  Heartbeat(MPI_Comm world, std::function<void(int rank, double seconds)> lost);
  /// Waits until the previous rank's is destroyed or lost.
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  [[nodiscard]] std::unique_lock<std::mutex> turn() { return std::unique_lock(mutex_); }
  void set_timeout(double seconds);
  /// Sends and receives heartbeats. judge: call lost() after too long a silence.
  void tick(bool judge);

 private:
  using Clock = std::chrono::steady_clock;

  void run(const std::stop_token& stopped);
  void listen();
  void receive_all(bool judge);
  bool receive();

  const std::function<void(int, double)> lost_;
  MPI_Comm line_ = MPI_COMM_NULL;
  int next_ = 0, previous_ = 0;
  double timeout_ = kUsualTimeout;
  std::mutex mutex_;
  MPI_Request sent_ = MPI_REQUEST_NULL, listening_ = MPI_REQUEST_NULL;
  char beat_ = 1, last_ = 0;  // messages: more will follow; this is the last
  char received_ = 1;
  Clock::time_point ticked_ = Clock::now(), alive_ = ticked_;  // last tick, last heartbeat received
  std::condition_variable_any wake_;
  std::jthread thread_;
};

}  // namespace cria
