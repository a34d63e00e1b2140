// Threads that no signal interrupts.
#pragma once

#include <pthread.h>

#include <csignal>

namespace cria {

/// Threads that are made while it lives have all signals blocked: signals are the program's
/// threads', which know what they mean.
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

}  // namespace cria
