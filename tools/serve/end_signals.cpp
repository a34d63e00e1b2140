#include "tools/serve/end_signals.h"

#include <pthread.h>

#include <csignal>

#include "tools/terminal/process.h"

namespace cria::serve {
namespace {

constexpr int kOver = SIGUSR2;  // what wakes the thread when nothing more is to come

sigset_t ending_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, kOver}) {
    struct sigaction action = {};
    sigaction(number, nullptr, &action);
    if (number != SIGHUP || action.sa_handler != SIG_IGN) sigaddset(&set, number);  // nohup
  }
  return set;
}

}  // namespace

EndSignals::EndSignals(std::function<void()> on_first, std::function<int()> on_second) {
  const sigset_t set = ending_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  thread_ = std::thread([this, first = std::move(on_first), second = std::move(on_second)] {
    listen(first, second);
  });
}

EndSignals::~EndSignals() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  pthread_kill(thread_.native_handle(), kOver);
  thread_.join();
  // The signals stay blocked: the program ends, and a further one would end it with another exit
  // code.
}

void EndSignals::listen(const std::function<void()>& on_first,
                        const std::function<int()>& on_second) {
  const sigset_t set = ending_signals();
  for (;;) {
    int number = 0;
    if (sigwait(&set, &number) != 0) continue;
    {
      const std::lock_guard lock(mutex_);
      if (number == kOver) {
        if (over_) return;
        continue;
      }
      if (seen_) tools::exit_now(on_second());
      seen_ = true;
    }
    on_first();
    came_.notify_all();
  }
}

void EndSignals::wait() {
  std::unique_lock lock(mutex_);
  came_.wait(lock, [this] { return seen_; });
}

}  // namespace cria::serve
