// `cria serve`: the HTTP server, the service behind it, and their end by a signal.
#pragma once
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tools/serve/http/server.h"

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

/// Answers requests once the model is loaded. Its destructor waits for running computations.
class Backend {
 public:
  virtual ~Backend() = default;
  /// The API's. Their handlers are called until the server has gone, which it has before the
  /// backend.
  virtual std::vector<Route> routes() = 0;
  /// "4 slots of 512 tokens, …": for the line that says what is served.
  [[nodiscard]] virtual std::string summary() const = 0;
  [[nodiscard]] virtual std::string model_name() const = 0;
  /// Returns at once. What waits fails now, 503 `shutting_down`; what runs does after `grace`.
  virtual void shut_down(std::chrono::milliseconds grace) = 0;
};

struct ServeOptions {
  ServerOptions server;
  bool web = true;  ///< the chat page
  std::chrono::milliseconds grace{10'000};
};

/// Loads the model while the server listens, and answers until a signal. Returns the exit code.
/// Throws Error if it cannot listen, and what `load` throws.
int serve(const ServeOptions& options,
          const std::function<std::unique_ptr<Backend>(Metrics&)>& load);

}  // namespace cria::serve
