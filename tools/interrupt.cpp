#include "tools/interrupt.h"

#include <unistd.h>
#include <csignal>

namespace cria::tools {
namespace {

std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "the signal handler sets it");

extern "C" void on_interrupt(int) {
  if (interrupted.exchange(true)) _exit(kInterruptedExit);
}

}  // namespace

std::atomic<bool>& catch_interrupts() {
  struct sigaction action = {};
  action.sa_handler = on_interrupt;  // no SA_RESTART: a read at the prompt has to return
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  return interrupted;
}

}  // namespace cria::tools
