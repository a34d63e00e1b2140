#include "tools/terminal/interrupt.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "tools/terminal/process.h"

namespace cria::tools {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};

std::atomic<bool> interrupt_seen{false}, continue_seen{false};
std::atomic<int> seen_signal{SIGINT};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free,
              "the signal handler sets them");
int wake_up[2] = {-1, -1};  // a pipe: the handler writes, who waits sees it

void wake_who_waits() {
  const int saved = errno;
  [[maybe_unused]] const ssize_t written = write(wake_up[1], "", 1);
  errno = saved;
}

extern "C" void on_interrupt(int number) {
  if (number != SIGINT) seen_signal = number;
  if (interrupt_seen.exchange(true)) exit_now(interrupted_exit());
  wake_who_waits();
}

extern "C" void on_continue_signal(int) {
  continue_seen = true;
  wake_who_waits();
}

void handle(int number, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;  // files are read and written as if nothing happened
  sigemptyset(&action.sa_mask);
  sigaction(number, &action, nullptr);
}

/// Whether the descriptor is ready; false: a signal came first, or nothing did.
bool poll_once(int descriptor, short events, int milliseconds) {
  pollfd waiting[2] = {{descriptor, events, 0}, {wake_up[0], POLLIN, 0}};
  const int ready = poll(waiting, 2, milliseconds);
  if (ready < 0) return errno != EINTR;  // let the read or write tell what is wrong
  char drained[16];
  while (waiting[1].revents != 0 && read(wake_up[0], drained, sizeof drained) > 0) continue;
  return waiting[0].revents != 0;
}

}  // namespace

std::atomic<bool>& catch_interrupts() {
  if (wake_up[0] >= 0 || pipe2(wake_up, O_CLOEXEC | O_NONBLOCK) != 0) return interrupt_seen;
  for (const int number : kSignals) {
    struct sigaction action = {};
    sigaction(number, nullptr, &action);
    if (number == SIGHUP && action.sa_handler == SIG_IGN) continue;  // nohup
    handle(number, on_interrupt);
  }
  handle(SIGCONT, on_continue_signal);
  return interrupt_seen;
}

int interrupted_exit() { return 128 + seen_signal; }
bool terminated() { return seen_signal != SIGINT; }

bool wait_readable(int descriptor, const std::function<void()>& on_continue) {
  while (!interrupt_seen) {
    const bool ready = poll_once(descriptor, POLLIN, -1);
    if (on_continue && continue_seen.exchange(false)) on_continue();
    if (ready && !interrupt_seen) return true;
  }
  return false;
}

bool wait_writable(int descriptor) {
  constexpr int kLastWords = 1000;  // what a reader that still reads is given to take them
  for (;;) {
    const bool last = interrupt_seen;
    if (poll_once(descriptor, POLLOUT, last ? kLastWords : -1)) return true;
    if (last) return false;
  }
}

void stop_process() {
  signal(SIGTSTP, SIG_IGN);  // this process stops last, when it is ready to
  kill(0, SIGTSTP);
  signal(SIGTSTP, SIG_DFL);
  raise(SIGTSTP);
  continue_seen = false;  // the caller knows
}

}  // namespace cria::tools
