// An event that one thread waits for and another signals.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace cria::serve::test {

using std::chrono::milliseconds;

inline constexpr milliseconds kSoon{
    60'000};  // for what has to happen; a test that holds does not wait so long

class Event {
 public:
  void tell() {
    const std::lock_guard lock(mutex_);
    told_ = true;
    changed_.notify_all();
  }
  bool wait(milliseconds most = kSoon) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, most, [this] { return told_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool told_ = false;
};

}  // namespace cria::serve::test
