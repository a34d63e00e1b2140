#include "tools/interrupt.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace cria::tools {
namespace {

std::atomic<bool> interrupt_seen{false};
static_assert(std::atomic<bool>::is_always_lock_free, "the signal handler sets it");
int wake_up[2] = {-1, -1};  // a pipe: the handler writes, wait_readable() sees it

extern "C" void on_interrupt(int) {
  if (interrupt_seen.exchange(true)) _exit(kInterruptedExit);
  const int saved = errno;
  [[maybe_unused]] const ssize_t written = write(wake_up[1], "", 1);
  errno = saved;
}

}  // namespace

std::atomic<bool>& catch_interrupts() {
  if (wake_up[0] >= 0 || pipe2(wake_up, O_CLOEXEC | O_NONBLOCK) != 0) return interrupt_seen;
  struct sigaction action = {};
  action.sa_handler = on_interrupt;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  return interrupt_seen;
}

bool wait_readable(int descriptor) {
  for (;;) {
    pollfd waiting[2] = {{descriptor, POLLIN, 0}, {wake_up[0], POLLIN, 0}};
    const int ready = poll(waiting, 2, -1);
    if (ready < 0 && errno != EINTR) return true;  // let the read tell what is wrong
    char drained[16];
    while (waiting[1].revents != 0 && read(wake_up[0], drained, sizeof drained) > 0) continue;
    if (interrupt_seen) return false;
    if (ready > 0 && waiting[0].revents != 0) return true;
  }
}

}  // namespace cria::tools
