// SIGINT, SIGTERM and SIGHUP for a program of many threads: one that waits for them takes them.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace cria::serve {

/// To be made before any other thread, which inherits that these signals are blocked. There is one
/// at a time.
class EndSignals {
 public:
  /// Both are called on a thread of its own: on_first at the first signal, on_second at the next,
  /// which ends the program at once with that exit code.
  EndSignals(std::function<void()> on_first, std::function<int()> on_second);
  ~EndSignals();
  EndSignals(const EndSignals&) = delete;
  EndSignals& operator=(const EndSignals&) = delete;

  /// Returns after the first.
  void wait();

 private:
  void listen(const std::function<void()>& on_first, const std::function<int()>& on_second);

  std::mutex mutex_;
  std::condition_variable came_;
  bool seen_ = false, over_ = false;
  std::thread thread_;
};

}  // namespace cria::serve
