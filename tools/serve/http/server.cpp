#include "tools/serve/http/server.h"

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <thread>
#include <utility>

#include "model/error.h"
#include "tools/serve/http/connection.h"
#include "tools/terminal/terminal.h"

namespace cria::serve {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using ErrorCode = boost::system::error_code;

constexpr std::chrono::milliseconds kTick{100};
constexpr std::size_t kMaxTurnedAway =
    64;  // refused at a time with an answer; others are closed silently

std::string bracketed(const asio::ip::address& address) {
  return address.is_v6() ? "[" + address.to_string() + "]" : address.to_string();
}

/// Returns what to do if the server cannot listen.
std::string advice(const ErrorCode& error) {
  if (error == asio::error::address_in_use)
    return " (by another program, perhaps another cria serve; --port N takes another port)";
  if (error == asio::error::access_denied)
    return " (ports below 1024 are the system's; --port N takes another)";
  return " (--host sets the address: 127.0.0.1, or 0.0.0.0 for all of this machine)";
}

tcp::acceptor listening(asio::io_context& io, const ServerOptions& options) {
  const std::string place = options.host + ":" + std::to_string(options.port);
  ErrorCode error;
  tcp::resolver resolver(io);
  const auto found =
      resolver.resolve(options.host, std::to_string(options.port), tcp::resolver::passive, error);
  if (error) throw Error("", "cannot listen on " + place + ": " + error.message() + advice(error));
  for (const auto& entry : found) {
    tcp::acceptor acceptor(io);
    const tcp::endpoint endpoint = entry.endpoint();
    acceptor.open(endpoint.protocol(), error);
    if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor.bind(endpoint, error);
    if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
    if (!error) return acceptor;
  }
  throw Error("", "cannot listen on " + place + ": " + error.message() + advice(error));
}

}  // namespace

// ---- what connections share

std::string ServerCore::fresh_id() {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string id;
  for (std::uint64_t bits = random(), i = 0; i < 16; ++i, bits >>= 4) id += kDigits[bits & 15];
  return id;
}

void ServerCore::post(std::function<void()> call) { asio::post(io, std::move(call)); }

void ServerCore::changed() {
  { const std::lock_guard lock(mutex); }
  idle.notify_all();
}

void ServerCore::account(const ExchangeState& exchange) {
  constexpr int kClientClosed = 499;  // as others log it
  const RequestRecord& record = exchange.record;
  RequestLine line;
  line.id = exchange.request.id;
  line.client = exchange.request.client;
  line.method = exchange.shown.method;
  line.path = exchange.shown.path;
  line.cancelled = exchange.closed();
  line.status = exchange.sent_status == 0 ? kClientClosed : exchange.sent_status;
  if (exchange.request.arrived != Clock::time_point{})
    line.seconds = std::chrono::duration<double>(Clock::now() - exchange.request.arrived).count();
  metrics.count_request(exchange.shown.endpoint, line.status);
  if (line.cancelled) metrics.requests_cancelled.add();
  metrics.prompt_tokens.add(record.prompt_tokens);
  metrics.prompt_tokens_cached.add(record.cached_tokens);
  metrics.completion_tokens.add(record.completion_tokens);
  if (record.prompt_tokens > 0 && !line.cancelled) metrics.request_seconds.observe(line.seconds);
  if (record.first_token) {
    metrics.time_to_first_token.observe(*record.first_token);
    if (record.completion_tokens > 1)
      metrics.time_per_output_token.observe((line.seconds - *record.first_token) /
                                            static_cast<double>(record.completion_tokens - 1));
  }
  say(request_line(line, record, options.log));
}

void ServerCore::end_exchange(ExchangeState& exchange) {
  account(exchange);
  body_bytes -= exchange.held;
  exchange.held = 0;
  --pending;
  changed();
}

// ---- the server

class Server::Impl {
 public:
  Impl(const ServerOptions& options, std::vector<Route> first, Metrics& metrics, Say say)
      : core_(std::make_shared<ServerCore>(options, std::move(first), metrics, std::move(say))),
        acceptor_(listening(core_->io, options)),
        endpoint_(acceptor_.local_endpoint()),
        ticker_(core_->io),
        pause_(core_->io) {
    tools::allow_descriptors(options.max_connections + kMaxTurnedAway + 256);
    AccessOptions access = options.access;
    access.loopback = loopback();
    access.address = bracketed(endpoint_.address());
    core_->access.emplace(std::move(access));
    accept();
    tick();
    thread_ = std::thread([this] { run(); });
  }

  ~Impl() {
    core_->post([this] {
      close_acceptor();
      core_->io.stop();
    });
    thread_.join();
    while (!core_->connections.empty()) (*core_->connections.begin())->close();
    ticker_.cancel();
    pause_.cancel();
    do core_->io.restart();
    while (core_->io.poll() > 0);  // cancelled operations release their connections
  }

  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  std::string url() const {
    return "http://" + bracketed(endpoint_.address()) + ":" + std::to_string(port());
  }
  std::uint16_t port() const { return endpoint_.port(); }
  bool loopback() const { return endpoint_.address().is_loopback(); }

  void set_routes(std::vector<Route> routes) {
    core_->post([this, table = std::make_shared<const RouteTable>(std::move(routes))] {
      core_->routes = table;
      core_->loading = false;
    });
  }

  void refuse() {
    core_->post([this] {
      core_->refusing = true;
      close_acceptor();
      for (const auto& connection :
           std::vector(core_->connections.begin(), core_->connections.end()))
        connection->wind_up();
    });
  }

  void fail_all() {
    core_->post([this] {
      for (const auto& connection :
           std::vector(core_->connections.begin(), core_->connections.end()))
        connection->fail();
    });
  }

  std::size_t pending() const { return core_->pending; }

  bool all_answered() const { return core_->pending == 0 && core_->sending == 0; }

  bool wait_until_idle(std::chrono::milliseconds most) {
    std::unique_lock lock(core_->mutex);
    return core_->idle.wait_for(lock, most, [this] {
      return core_->pending == 0 && core_->sending == 0 && core_->lingering == 0;
    });
  }

 private:
  /// An exception of a handler (such as bad_alloc) ends only that handler.
  void run() {
    for (;;) {
      try {
        core_->io.run();
        return;
      } catch (const std::exception& error) {
        core_->say(message_line("cria: error: " + escaped_text(error.what()), core_->options.log));
      }
    }
  }

  void accept() {
    acceptor_.async_accept([this](const ErrorCode& error, tcp::socket socket) {
      if (!acceptor_.is_open()) return;
      if (error == asio::error::no_descriptors ||
          error == boost::system::errc::too_many_files_open_in_system ||
          error == asio::error::no_memory || error == asio::error::no_buffer_space)
        return accept_later();
      accept();  // before what may throw: the next is not to suffer
      if (!error) take(std::move(socket));
    });
  }

  void accept_later() {
    pause_.expires_after(kTick);
    pause_.async_wait([this](const ErrorCode& error) {
      if (!error && acceptor_.is_open()) accept();
    });
  }

  void take(tcp::socket socket) {
    const auto turned_away = static_cast<std::size_t>(std::ranges::count_if(
        core_->connections, [](const auto& other) { return other->turned_away(); }));
    const bool full = core_->connections.size() - turned_away >= core_->options.max_connections;
    if (full && turned_away >= kMaxTurnedAway) return;  // closed
    const auto connection = std::make_shared<Connection>(core_, std::move(socket));
    core_->connections.insert(connection);
    if (full)
      connection->turn_away();
    else
      connection->start();
  }

  void tick() {
    ticker_.expires_after(kTick);
    ticker_.async_wait([this](const ErrorCode& error) {
      if (error) return;
      tick();  // before what may throw
      const auto now = Clock::now();
      for (const auto& connection :
           std::vector(core_->connections.begin(), core_->connections.end()))
        connection->tick(now);
      give_up_unread(now);
    });
  }

  /// While too much is left unread of all answers together, closes who has taken nothing for most
  /// ticks, of several the one that leaves most unread. One answer may be as large as it is, and
  /// little is gained by those below the average.
  void give_up_unread(Clock::time_point now) {
    const auto& all = core_->connections;
    for (;;) {
      std::uint64_t bytes = 0, largest = 0;
      for (const auto& connection : all) {
        bytes += connection->unread();
        largest = std::max<std::uint64_t>(largest, connection->unread());
      }
      if (bytes - largest <= most_body_bytes(core_->options)) return;
      const std::uint64_t average = (bytes - largest) / all.size();
      const auto idleness = [&](const auto& connection) {
        const std::size_t unread = connection->unread();
        return std::pair(unread < average ? 0 : connection->stalled(now) / kTick, unread);
      };
      const auto idlest = *std::ranges::max_element(all, {}, idleness);
      idlest->close();
    }
  }

  void close_acceptor() {
    ErrorCode ignored;
    acceptor_.close(ignored);
  }

  const std::shared_ptr<ServerCore> core_;
  tcp::acceptor acceptor_;
  const tcp::endpoint endpoint_;
  asio::steady_timer ticker_, pause_;
  std::thread thread_;
};

Server::Server(const ServerOptions& options, std::vector<Route> first, Metrics& metrics, Say say)
    : impl_(std::make_unique<Impl>(options, std::move(first), metrics, std::move(say))) {}
Server::~Server() = default;
std::uint16_t Server::port() const { return impl_->port(); }
std::string Server::url() const { return impl_->url(); }
bool Server::loopback() const { return impl_->loopback(); }
void Server::set_routes(std::vector<Route> routes) { impl_->set_routes(std::move(routes)); }
void Server::refuse() { impl_->refuse(); }
void Server::fail_all() { impl_->fail_all(); }
std::size_t Server::pending() const { return impl_->pending(); }
bool Server::all_answered() const { return impl_->all_answered(); }
bool Server::wait_until_idle(std::chrono::milliseconds most) {
  return impl_->wait_until_idle(most);
}

}  // namespace cria::serve
