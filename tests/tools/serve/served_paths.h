// A server whose paths a test answers, and what is asked and read there byte by byte.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "tests/tools/serve/event.h"
#include "tests/tools/serve/raw_client.h"
#include "tools/serve/http/server.h"

namespace cria::serve::test {

using cria::test::RawClient;

/// Exchanges that a test answers itself.
class Inbox {
 public:
  Handler handler() {
    return [this](std::shared_ptr<Exchange> exchange) {
      const std::lock_guard lock(mutex_);
      waiting_.push_back(std::move(exchange));
      came_.notify_all();
    };
  }
  std::shared_ptr<Exchange> next() {
    std::unique_lock lock(mutex_);
    if (!came_.wait_for(lock, kSoon, [this] { return !waiting_.empty(); }))
      throw std::runtime_error("no request came");
    auto exchange = std::move(waiting_.front());
    waiting_.pop_front();
    return exchange;
  }

 private:
  std::mutex mutex_;
  std::condition_variable came_;
  std::deque<std::shared_ptr<Exchange>> waiting_;
};

/// A server with a few paths: /echo answers with what it got, /hold waits for the test, /drop and
/// /throw fail.
struct Served {
  explicit Served(const std::function<void(ServerOptions&)>& change = [](ServerOptions&) {}) {
    ServerOptions options;
    options.port = 0;
    options.max_body = 1000;
    change(options);
    server = std::make_unique<Server>(options, routes(), metrics, [this](const std::string& line) {
      const std::lock_guard lock(mutex);
      log += line + "\n";
    });
    server->set_routes(routes());
  }

  std::vector<Route> routes() {
    const auto echo = [](const std::shared_ptr<Exchange>& exchange) {
      const Request& request = exchange->request();
      exchange->answer(200, "text/plain",
                       "[" + request.method + " " + request.path + " " + request.query + " " +
                           request.parameter + " " + request.body + "]");
    };
    return {{"GET", "/echo", echo, true},
            {"POST", "/echo", echo},
            {"GET", "/echo/{rest}", echo},
            {"POST", "/hold", inbox.handler()},
            {"GET", "/hold", inbox.handler()},
            {"GET", "/drop", [](const std::shared_ptr<Exchange>&) {}},
            {"GET", "/throw",
             [](const std::shared_ptr<Exchange>&) { throw std::runtime_error("a secret"); }}};
  }

  RawClient client() const { return RawClient(server->port()); }
  /// The answer to bytes after which the server closes.
  std::string ask(const std::string& bytes) const {
    RawClient one(server->port());
    one.send(bytes);
    return one.read_all();
  }
  std::string lines() {
    const std::lock_guard lock(mutex);
    return log;
  }
  bool told_in_log(const std::string& text) {
    for (int i = 0; i < 1000 && lines().find(text) == std::string::npos; ++i)
      std::this_thread::sleep_for(milliseconds(10));
    return lines().find(text) != std::string::npos;
  }

  Metrics metrics;
  Inbox inbox;
  std::mutex mutex;
  std::string log;
  std::unique_ptr<Server> server;  // ends first
};

inline const std::string kHost = "Host: localhost\r\n", kClose = "Connection: close\r\n";

inline std::string get(const std::string& path, const std::string& fields = kClose) {
  return "GET " + path + " HTTP/1.1\r\n" + kHost + fields + "\r\n";
}

inline std::string post(const std::string& path, const std::string& body,
                        const std::string& fields = kClose) {
  return "POST " + path + " HTTP/1.1\r\n" + kHost +
         "Content-Length: " + std::to_string(body.size()) + "\r\n" + fields + "\r\n" + body;
}

inline int status_of(const std::string& answer) {
  return answer.starts_with("HTTP/1.1 ") ? std::atoi(answer.c_str() + 9) : 0;
}

inline std::string content_of(const std::string& answer) {
  const std::size_t at = answer.find("\r\n\r\n");
  return at == std::string::npos ? "" : answer.substr(at + 4);
}

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace cria::serve::test
