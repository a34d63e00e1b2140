#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include "engine/ranks/mpi/heartbeat.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "engine/ranks/mpi/blocked_signals.h"

namespace cria {
namespace {

using Seconds = std::chrono::duration<double>;

constexpr double kMinSilence = 2;  // a thread may be late where processors are busy
constexpr double kStopped =
    1;  // between two ticks: this process itself was stopped, which does not count

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

// What has been sent is received, so that MPI can end.
Heartbeat::~Heartbeat() {
  thread_.request_stop();
  thread_.join();
  MPI_Request last = MPI_REQUEST_NULL;
  MPI_Isend(&last_, 1, MPI_CHAR, next_, 0, line_, &last);
  for (; heard_ != last_; usleep(100)) receive_all(true);
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
  while (hear()) alive_ = now;
  const double silence = Seconds(now - alive_).count(), most = std::max(timeout_, kMinSilence);
  if (judge && heard_ != last_ && silence > most) lost_(previous_, most);
}

void Heartbeat::listen() { MPI_Irecv(&heard_, 1, MPI_CHAR, previous_, 0, line_, &listening_); }

// Whether one more beat has come.
bool Heartbeat::hear() {
  int done = 0;
  if (heard_ == last_ || MPI_Test(&listening_, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS ||
      done == 0)
    return false;
  if (heard_ != last_) listen();
  return true;
}

}  // namespace cria
