// One client's connection, on the network thread. Only server.cpp includes it: this header uses
// Asio.
#pragma once
#include <array>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>

#include "tools/serve/http/exchange_state.h"
#include "tools/serve/http/message_parser.h"
#include "tools/serve/http/response.h"
#include "tools/serve/http/server.h"

namespace cria::serve {

class Connection;
using Clock = std::chrono::steady_clock;

/// State shared by connections; used by the network thread unless noted.
struct ServerCore {
  ServerCore(ServerOptions wanted, std::vector<Route> first, Metrics& counted, Server::Say sayer)
      : options(std::move(wanted)),
        metrics(counted),
        say(std::move(sayer)),
        routes(std::make_shared<const RouteTable>(std::move(first))) {}

  std::string fresh_id();
  /// The log line and the counts of a request that has ended.
  void account(const ExchangeState& exchange);
  void end_exchange(ExchangeState& exchange);
  /// Any thread: runs `call` on the network thread.
  void post(std::function<void()> call);
  /// Tells who waits for the server to become idle. Any thread.
  void changed();

  boost::asio::io_context io{1};
  const ServerOptions options;
  std::optional<Access> access;  ///< once it is known where the server listens
  Metrics& metrics;
  const Server::Say say;
  std::shared_ptr<const RouteTable> routes;
  bool loading = true, refusing = false;
  std::set<std::shared_ptr<Connection>> connections;
  std::uint64_t body_bytes = 0;  ///< size of requests being read or answered
  std::array<char, 64 << 10> scratch{};
  std::mt19937_64 random{std::random_device{}()};

  /// Exchanges without an end; connections with something to send; those that wait for the client
  /// to close.
  std::atomic<std::size_t> pending{0}, sending{0}, lingering{0};
  std::mutex mutex;
  std::condition_variable idle;
};

/// Bodies of all requests together, beyond which further ones are refused: no client can take the
/// machine's memory. As much may be left unread of all answers together, but for the largest of
/// them.
inline std::uint64_t most_body_bytes(const ServerOptions& options) {
  return std::max<std::uint64_t>(32 * options.max_body, 64 << 20);
}

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(std::shared_ptr<ServerCore> core, boost::asio::ip::tcp::socket socket);

  void start();
  /// Says that there are too many, and closes.
  void turn_away();
  /// Timeouts, comments in silent streams, clients that left while nothing is read from them. Every
  /// now and then.
  void tick(Clock::time_point now);
  /// Closes an idle connection at once, a busy one after the answer.
  void wind_up();
  /// Answers running requests with 503 `shutting_down`.
  void fail();
  /// At once.
  void close();
  [[nodiscard]] bool turned_away() const noexcept { return turned_away_; }
  /// Bytes of answers that the client has not taken.
  [[nodiscard]] std::size_t unread() const noexcept { return out_bytes_; }
  /// For how long it has taken none of them.
  [[nodiscard]] Clock::duration stalled(Clock::time_point now) const noexcept {
    return out_bytes_ > 0 ? now - last_sent_ : Clock::duration{};
  }

 private:
  enum class State { Head, Body, Busy, Linger, Closed };

  // Input.
  void wait_for_input();
  void read_some();
  void on_end_of_input();
  void proceed();
  bool proceed_head();
  bool proceed_body();

  // One request.
  void expect_request();
  void begin_request(ParsedHead head);
  void describe(const ParsedHead& head);
  Refusal check_asker(const ParsedHead& head, Headers& more);
  Refusal check_request(const ParsedHead& head, Headers& more);
  Refusal check_content(const ParsedHead& head) const;
  void answer_options();
  void dispatch();
  void refuse(const Refusal& refusal, Headers more = {});
  void reply(int status, std::string body, const Headers& more);
  void take(const std::shared_ptr<ExchangeState>& exchange);
  void put_answer(ExchangeState::Batch::Answer& answer);
  void put_stream_head(bool lines);
  void add_request_id(Headers& more) const;
  void put_events(std::string events);
  void finish_request();
  void next_request();

  void hold_body(std::size_t bytes);
  void release_body();

  // Output.
  void put(std::string bytes);
  void count();
  void output_done();
  void flush();
  void linger();

  const std::shared_ptr<ServerCore> core_;
  boost::asio::ip::tcp::socket socket_;
  std::string client_;
  State state_ = State::Head;
  bool turned_away_ = false, waits_for_input_ = false, waits_for_output_ = false,
       no_more_input_ = false;
  bool close_after_ = false, begun_ = false, counted_sending_ = false, counted_lingering_ = false;

  std::string in_;         // received and not consumed yet
  std::size_t blank_ = 0;  // bytes of empty lines that came before the request
  HeadScanner scanner_;
  std::unique_ptr<MessageParser> parser_;
  Request request_;
  std::shared_ptr<const RouteTable> routes_;  // keeps what match_ points to
  RouteTable::Match match_;
  ExchangeState::Shown shown_;
  Headers cors_;
  bool head_only_ = false, keep_alive_said_ = false, stream_head_out_ = false, body_left_ = false;
  std::size_t held_ = 0;  // bytes of the body that is being read
  std::shared_ptr<ExchangeState> exchange_;

  std::deque<std::string> out_;
  std::size_t out_begin_ = 0, out_bytes_ = 0;  // sent of the first; not sent in all
  Clock::time_point began_, last_sent_,
      last_put_;  // start of the read or of idleness; last byte sent; last put
  std::size_t drained_ = 0;
};

}  // namespace cria::serve
