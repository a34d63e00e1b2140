// The interface between the HTTP transport and the handlers: a request, the ways to answer it, the
// table of paths. It is independent of sockets; tests give handlers their own Exchange.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cria::serve {

/// Names and values, as they are sent.
using Headers = std::vector<std::pair<std::string, std::string>>;

/// A request that has come whole, and that may be answered: limits, Host, Origin and key have been
/// looked at.
struct Request {
  std::string
      method;  ///< as sent: "GET", "POST" …; HEAD is given as "GET", its body is left out later
  std::string path;       ///< without query, percent-decoded
  std::string query;      ///< behind the '?', as sent; "" for none
  std::string parameter;  ///< the part of the path that "{…}" or "<…>" matched, never ""
  Headers headers;        ///< names in lower case
  std::string body;
  std::string id;         ///< X-Request-Id: the client's, or a fresh one; 1 to 64 of [A-Za-z0-9_.-]
  std::string client;     ///< its address, without the port
  unsigned version = 11;  ///< 10 or 11
  std::uint64_t scope = 0;  ///< scope of the API key (see --cache-scope); 0: none, or all share
  std::chrono::steady_clock::time_point arrived;  ///< its last byte

  /// The first field of that name (in lower case), or "".
  [[nodiscard]] std::string_view header(std::string_view name) const {
    for (const auto& [key, value] : headers)
      if (key == name) return value;
    return {};
  }
};

/// A summary of the answer for the log line and the metrics. Handlers fill it before the answer
/// ends.
struct RequestRecord {
  std::uint64_t prompt_tokens = 0, cached_tokens = 0, completion_tokens = 0;
  /// Seconds from `arrived` to the first step that worked on it, and to its first token.
  std::optional<double> waited, first_token;
  std::string finish;                    ///< "stop", "length", "tool_calls" …; "" if it has none
  std::string ignored;                   ///< unknown fields of the request, "a,b"
  std::string error;                     ///< an internal error (status 500), only for the log
  std::string prompt_text, answer_text;  ///< only for --log-prompts; else empty
};

/// The form of a stream.
struct StreamForm {
  bool lines = false;  ///< lines of JSON (application/x-ndjson), else text/event-stream
  /// Called on a network thread after 10 s of silence: sends an event. Empty: a comment line is
  /// sent (": keep-alive"). It is dropped with the answer's end.
  std::function<void()> on_silence = {};
  bool late_head = false;  ///< the head of lines goes out with the first of them, too
};

/// One request and its answer. All calls are safe on any thread, in any order, and return at once:
/// bytes are queued and go out on a network thread. After the answer's end, and once the client is
/// gone, what is sent is dropped.
///
/// An answer is answer(), or begin_events(), event()… and end_events(). Where the last pointer to
/// an exchange goes before that, the client gets 500 internal_error (or its stream ends with such
/// an event).
class Exchange {
 public:
  virtual ~Exchange() = default;

  [[nodiscard]] virtual const Request& request() const = 0;

  /// The whole answer. `more`: further fields. Content-Length and what every answer has are added.
  virtual void answer(int status, std::string_view content_type, std::string body,
                      const Headers& more = {}) = 0;

  /// The answer will be a stream, status 200. The head of a stream of lines goes out at once; that
  /// of events with the first of them, or with what breaks a silence of 10 s. A second call changes
  /// the form.
  virtual void begin_events(StreamForm form = {}) = 0;
  /// "event: NAME" unless it is "", "data: …", and an empty line; or a line.
  virtual void event(std::string_view data, std::string_view name = {}) = 0;
  virtual void end_events() = 0;

  /// Ends the answer with an error: with that status, or where the head of a stream has gone out
  /// already, with the body as its last event. `body`: error_body() of this request.
  virtual void fail(int status, std::string body, const Headers& more = {}) = 0;

  /// True if the client has gone or has stopped reading.
  [[nodiscard]] virtual bool closed() const noexcept = 0;
  /// Called once, on a network thread, when that happens before the answer's end; soon, if it has
  /// happened. The last one given counts. It returns at once, and may hold the exchange itself: it
  /// is dropped with the answer's end.
  virtual void on_closed(std::function<void()> call) = 0;

  /// One thread at a time, until the answer's end.
  virtual RequestRecord& record() = 0;
};

/// Called on a network thread with a whole request. Returns at once: what computes is done
/// elsewhere. What it throws is answered with 500 internal_error.
using Handler = std::function<void(std::shared_ptr<Exchange>)>;

struct Route {
  std::string method;  ///< "GET" or "POST"; HEAD works where GET does
  /// May end in "{name}", the rest of the path, or "<name>", a part without '/':
  /// Request::parameter, not empty.
  std::string path;
  Handler handler;
  bool open = false;       ///< needs no API key
  std::string endpoint{};  ///< its label in the metrics; "": the path
};

}  // namespace cria::serve
