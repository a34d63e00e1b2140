#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include "engine/ranks/mpi/heartbeat.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

namespace cria {
namespace {

using Seconds = std::chrono::duration<double>;

constexpr double kMinSilence = 2;  // seconds; a thread may be late on busy processors
constexpr double kStopped = 1;     // seconds between ticks that show that this process was stopped

}  // namespace

Heartbeat::Heartbeat(MPI_Comm world, std::function<void(int, double)> lost)
    : lost_(std::move(lost)) {
  MPI_Comm_dup(world, &line_);
  MPI_Comm_set_errhandler(line_, MPI_ERRORS_RETURN);
  int rank = 0, size = 1;
  MPI_Comm_rank(line_, &rank);
  MPI_Comm_size(line_, &size);
  next_ = (rank + 1) % size;
  previous_ = (rank + size - 1) % size;
  listen();
  const BlockedSignals blocked;
  thread_ = std::jthread([this](const std::stop_token& stopped) { run(stopped); });
}

// Receives all that was sent, so that MPI can end.
Heartbeat::~Heartbeat() {
  thread_.request_stop();
  thread_.join();
  MPI_Request last = MPI_REQUEST_NULL;
  MPI_Isend(&last_, 1, MPI_CHAR, next_, 0, line_, &last);
  for (; received_ != last_; usleep(100)) receive_all(true);
  MPI_Wait(&sent_, MPI_STATUS_IGNORE);
  MPI_Wait(&last, MPI_STATUS_IGNORE);
  MPI_Comm_free(&line_);
}

void Heartbeat::set_timeout(double seconds) {
  const auto own = turn();
  timeout_ = seconds;
}

void Heartbeat::run(const std::stop_token& stopped) {
  std::unique_lock own = turn();
  while (!stopped.stop_requested()) {
    tick(true);
    wake_.wait_for(own, stopped, Seconds(kPause), [] { return false; });
  }
}

void Heartbeat::tick(bool judge) {
  int done = 0;
  if (MPI_Test(&sent_, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done != 0)
    MPI_Isend(&beat_, 1, MPI_CHAR, next_, 0, line_, &sent_);
  receive_all(judge);
}

void Heartbeat::receive_all(bool judge) {
  const auto now = Clock::now();
  if (Seconds(now - ticked_).count() > kStopped) alive_ += now - ticked_;
  ticked_ = now;
  while (receive()) alive_ = now;
  const double silence = Seconds(now - alive_).count(), most = std::max(timeout_, kMinSilence);
  if (judge && received_ != last_ && silence > most) lost_(previous_, most);
}

void Heartbeat::listen() { MPI_Irecv(&received_, 1, MPI_CHAR, previous_, 0, line_, &listening_); }

// Returns true if another heartbeat has arrived.
bool Heartbeat::receive() {
  int done = 0;
  if (received_ == last_ || MPI_Test(&listening_, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS ||
      done == 0)
    return false;
  if (received_ != last_) listen();
  return true;
}

}  // namespace cria
