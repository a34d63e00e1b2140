// `cria serve` as a whole: the server from its first listening to its end, with whatever answers
// behind it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tools/serve/http/server.h"

namespace cria::serve {

/// What answers once the model is there. Its destructor returns when nothing computes any more.
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

/// Loads the model while the server listens, and answers until a signal. The exit code. Throws
/// Error where it cannot listen, and what `load` throws.
int serve(const ServeOptions& options,
          const std::function<std::unique_ptr<Backend>(Metrics&)>& load);

}  // namespace cria::serve
