// The HTTP server: listens, reads requests within their limits, hands them to the table's handlers,
// sends the answers. One thread does all of that; handlers never wait for a socket.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tools/serve/http/access.h"
#include "tools/serve/http/exchange.h"
#include "tools/serve/http/request_log.h"
#include "tools/serve/metrics.h"

namespace cria::serve {

struct ServerOptions {
  using Time = std::chrono::milliseconds;
  std::string host = "127.0.0.1";  ///< an address, or a name that has one
  std::uint16_t port = 8080;       ///< 0: one that is free
  std::uint64_t max_body = 8 << 20;
  std::size_t max_connections = 512;
  Time read_timeout{30'000};   ///< for a head, and for a body, from its first byte to its last
  Time write_timeout{30'000};  ///< a client that takes no byte for so long is gone
  Time keep_alive{75'000};     ///< a connection on which nothing happens for so long is closed
  Time silence{10'000};        ///< silence of a stream before a comment is sent
  AccessOptions access;        ///< `loopback` and `address` are set by the server
  LogOptions log;
};

class Server {
 public:
  using Say = std::function<void(const std::string& line)>;

  /// Listens at once. Until set_routes() is called, paths outside `first` are answered 503, code
  /// `loading`. say: receives the log's lines, on the server's thread. `metrics` must outlive the
  /// server. Throws Error if it cannot listen.
  Server(const ServerOptions& options, std::vector<Route> first, Metrics& metrics, Say say);
  /// Closes every connection. Exchanges may outlive the server; their output is dropped.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  [[nodiscard]] std::uint16_t port() const;
  [[nodiscard]] std::string url() const;  ///< "http://127.0.0.1:8080"
  [[nodiscard]] bool loopback() const;    ///< bound to an address that only this machine reaches

  /// The whole table, from now on.
  void set_routes(std::vector<Route> routes);

  /// No new connections; idle ones are closed; a request that still comes is answered 503
  /// `shutting_down`.
  void refuse();
  /// Ends every answer that has not ended with 503 `shutting_down`.
  void fail_all();
  /// Requests that have been given to a handler and whose answers have not ended.
  [[nodiscard]] std::size_t pending() const;
  /// True if no connection is busy and all answers are sent.
  [[nodiscard]] bool all_answered() const;
  /// Waits until that is so and the clients have closed, at most so long; whether it came to that.
  bool wait_until_idle(std::chrono::milliseconds most);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cria::serve
