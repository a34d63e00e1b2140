// A request and what is answered to it, without a network.
#pragma once

#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/serve/http/exchange.h"

namespace cria::serve::test {

class FakeExchange : public Exchange {
 public:
  FakeExchange(std::string path, std::string body, std::string method = "POST",
               std::string query = "") {
    request_.method = std::move(method);
    request_.query = std::move(query);
    request_.path = std::move(path);
    request_.body = std::move(body);
    request_.id = "test";
    request_.arrived = std::chrono::steady_clock::now();
  }

  const Request& request() const override { return request_; }
  void answer(int status, std::string_view, std::string body, const Headers& more) override {
    StreamForm dropped;
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    status_ = status;
    body_ = std::move(body);
    headers_ = more;
    end(dropped);
  }
  void begin_events(StreamForm form) override {
    const std::lock_guard lock(mutex_);
    streaming_ = true;
    if (!ended_ && !closed_) std::swap(form_, form);
  }
  void event(std::string_view data, std::string_view) override {
    const std::lock_guard lock(mutex_);
    if (ended_ || closed_) return;
    events_.emplace_back(data);
    changed_.notify_all();
  }
  void end_events() override {
    StreamForm dropped;
    const std::lock_guard lock(mutex_);
    status_ = 200;
    end(dropped);
  }
  void fail(int status, std::string body, const Headers& more) override {
    StreamForm dropped;
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    if (events_.empty()) {
      status_ = status;
      body_ = std::move(body);
      headers_ = more;
    } else {
      status_ = 200;
      events_.push_back(std::move(body));
    }
    end(dropped);
  }
  bool closed() const noexcept override {
    const std::lock_guard lock(mutex_);
    return closed_;
  }
  void on_closed(std::function<void()> call) override {
    std::unique_lock lock(mutex_);
    if (ended_) return;
    if (!closed_) {
      on_closed_ = std::move(call);
      return;
    }
    lock.unlock();
    call();
  }
  RequestRecord& record() override { return record_; }

  // For tests.

  void close() {
    std::function<void()> call;
    StreamForm dropped;
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
      std::swap(form_, dropped);
      call = std::move(on_closed_);
      changed_.notify_all();
    }
    if (call) call();
  }
  /// Does what the transport does after a silence of 10 s.
  void break_silence() {
    std::unique_lock lock(mutex_);
    const auto call = form_.on_silence;
    lock.unlock();
    if (call) call();
  }
  /// Until the answer's end.
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return ended_; });
  }
  /// Waits for n events or the end.
  void wait_for_events(std::size_t n) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ended_ || events_.size() >= n; });
  }
  /// True if at least n events have come.
  [[nodiscard]] bool has_events(std::size_t n) const {
    const std::lock_guard lock(mutex_);
    return events_.size() >= n;
  }
  [[nodiscard]] int status() const { return status_; }
  [[nodiscard]] const std::string& body() const { return body_; }
  [[nodiscard]] nlohmann::ordered_json json() const { return nlohmann::ordered_json::parse(body_); }
  [[nodiscard]] const std::vector<std::string>& events() const { return events_; }
  [[nodiscard]] const Headers& headers() const { return headers_; }
  [[nodiscard]] bool streamed() const { return streaming_; }

 private:
  /// dropped: gets the form, which may hold this, to be destroyed without the lock.
  void end(StreamForm& dropped) {
    ended_ = true;
    on_closed_ = nullptr;
    std::swap(form_, dropped);
    changed_.notify_all();
  }

  Request request_;
  StreamForm form_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool streaming_ = false, ended_ = false, closed_ = false;
  int status_ = 0;
  std::string body_;
  std::vector<std::string> events_;
  Headers headers_;
  std::function<void()> on_closed_;
  RequestRecord record_;
};

}  // namespace cria::serve::test
