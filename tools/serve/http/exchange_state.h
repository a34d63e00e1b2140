// The transport's half of an Exchange: output of the handler that the network thread has not taken
// yet.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "tools/serve/http/exchange.h"

namespace cria::serve {

class ExchangeState : public std::enable_shared_from_this<ExchangeState> {
 public:
  /// A stream is given up when more than kMaxUnsent bytes of its events are unread. Each event
  /// counts for at most kMaxCounted bytes: one event may be large (log-probabilities of a long
  /// prompt), and others follow before a client can have read it.
  static constexpr std::size_t kMaxUnsent = 4 << 20, kMaxCounted = 16 << 10;

  /// Output to send; the network thread takes it.
  struct Batch {
    struct Answer {
      int status;
      std::string content_type, body;
      Headers more;
    };
    std::optional<Answer> answer;
    std::string events;  ///< a stream's events, not yet framed as chunks
    bool stream = false, lines = false, ended = false;
  };

  /// wake: makes the network thread call take() soon; called on any thread.
  using Wake = std::function<void(std::shared_ptr<ExchangeState>)>;
  /// The request in the log and the metrics.
  struct Shown {
    std::string method, path, endpoint;
  };
  ExchangeState(Request wanted, Shown shown_as, Wake wake)
      : request(std::move(wanted)), shown(std::move(shown_as)), wake_(std::move(wake)) {}

  /// The handler's half. The answer ends when it is dropped.
  std::shared_ptr<Exchange> handle();

  // Any thread.
  void answer(int status, std::string_view content_type, std::string body, const Headers& more);
  void begin_events(StreamForm form);
  void event(std::string_view data, std::string_view name = {});
  void end_events();
  void fail(int status, std::string body, const Headers& more);
  void drop();
  [[nodiscard]] bool closed() const noexcept { return closed_; }
  void on_closed(std::function<void()> call);
  [[nodiscard]] bool ended() const;

  // The network thread.
  Batch take();
  /// Marks the client as gone; does nothing after the answer's end.
  void close();
  /// Bytes of the stream that were taken and not sent.
  void set_unsent(std::size_t bytes) noexcept { unsent_ = bytes; }
  /// Breaks a silence of the stream, if it has nothing to send; from then on an error is an event.
  /// Returns what to send.
  std::string break_silence();

  int sent_status = 0;   ///< status of the sent answer; 0: none
  std::size_t held = 0;  ///< bytes of its body, while they count

  const Request request;
  const Shown shown;
  RequestRecord record;

 private:
  void wake_locked();
  void append_event(std::string_view data, std::string_view name);

  const Wake wake_;
  mutable std::mutex mutex_;
  std::optional<Batch::Answer> answer_;
  std::string events_;
  StreamForm form_;
  bool stream_ = false, head_out_ = false, ended_ = false, awake_ = false;
  std::atomic<bool> closed_{false};
  std::atomic<std::size_t> unsent_{0};
  std::size_t uncounted_ = 0;  // bytes beyond kMaxCounted each, of all events since all were read
  std::function<void()> on_closed_;
};

}  // namespace cria::serve
