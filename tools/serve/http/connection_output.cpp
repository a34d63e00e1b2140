// Output and end of a connection.
#include <poll.h>
#include <sys/socket.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>

#include "tools/serve/http/connection.h"
#include "tools/serve/http/response.h"

namespace cria::serve {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using ErrorCode = boost::system::error_code;

// Time for a client to close; the second while the server ends.
constexpr std::chrono::milliseconds kLinger{2000}, kLastLinger{300};

}  // namespace

void Connection::put(std::string bytes) {
  last_put_ = Clock::now();
  if (out_bytes_ == 0) last_sent_ = last_put_;
  out_bytes_ += bytes.size();
  out_.push_back(std::move(bytes));
  count();
}

void Connection::flush() {
  ErrorCode error;
  while (!out_.empty() && !error) {
    std::string& first = out_.front();
    const std::size_t n = socket_.write_some(
        asio::buffer(first.data() + out_begin_, first.size() - out_begin_), error);
    if (n > 0) last_sent_ = Clock::now();
    out_bytes_ -= n;
    out_begin_ += n;
    if (out_begin_ < first.size()) continue;
    out_.pop_front();
    out_begin_ = 0;
  }
  if (error && error != asio::error::would_block) return close();
  if (exchange_) exchange_->set_unsent(out_bytes_);
  count();
  if (out_.empty()) return output_done();
  if (waits_for_output_) return;
  waits_for_output_ = true;
  socket_.async_wait(tcp::socket::wait_write, [self = shared_from_this()](const ErrorCode& failed) {
    self->waits_for_output_ = false;
    if (!failed && self->state_ != State::Closed) self->flush();
  });
}

/// Runs from the network thread's queue, so that many requests in one piece do not nest.
void Connection::output_done() {
  if (state_ == State::Head && !parser_)
    core_->post([self = shared_from_this()] { self->next_request(); });
}

void Connection::count() {
  const auto set = [this](bool& counted, bool now, std::atomic<std::size_t>& all) {
    if (counted == now) return;
    counted = now;
    all += now ? 1 : std::size_t(-1);
    core_->changed();
  };
  set(counted_sending_, state_ != State::Closed && out_bytes_ > 0, core_->sending);
  set(counted_lingering_, state_ == State::Linger, core_->lingering);
}

/// Says that nothing more comes and reads on for a while: closing at once, with bytes unread, would
/// take from the client what it has not read yet.
void Connection::linger() {
  if (no_more_input_) return close();
  ErrorCode ignored;
  socket_.shutdown(tcp::socket::shutdown_send, ignored);
  state_ = State::Linger;
  began_ = Clock::now();
  in_ = {};
  count();
  wait_for_input();
}

void Connection::close() {
  if (state_ == State::Closed) return;
  const auto self = shared_from_this();
  state_ = State::Closed;
  ErrorCode ignored;
  socket_.close(ignored);
  release_body();
  out_.clear();
  out_bytes_ = 0;
  count();
  core_->connections.erase(self);
  if (const auto exchange = std::move(exchange_)) exchange->close();
  exchange_.reset();
}

void Connection::wind_up() {
  if (state_ == State::Head && !begun_ && out_bytes_ == 0) close();
}

void Connection::fail() {
  if (exchange_)
    exchange_->fail(
        503, error_body(exchange_->request, 503, "the server is shutting down", "shutting_down"),
        {});
}

void Connection::tick(Clock::time_point now) {
  const ServerOptions& options = core_->options;
  if (out_bytes_ > 0 && now - last_sent_ > options.write_timeout) return close();
  switch (state_) {
    case State::Head:
    case State::Body:
      if (out_bytes_ > 0) return;
      if (begun_ && now - began_ > options.read_timeout)
        return refuse({408, "the request did not come whole in time", "timeout"});
      if (!begun_ && now - began_ > options.keep_alive) return close();
      return;
    case State::Busy:
      if (!waits_for_input_ &&
          !no_more_input_) {  // too many requests in advance: reading has stopped
        pollfd peer{socket_.native_handle(), POLLRDHUP, 0};
        if (poll(&peer, 1, 0) > 0) return close();
      }
      if (out_bytes_ == 0 && now - last_put_ > options.silence)
        if (std::string sign = exchange_->break_silence(); !sign.empty()) {
          if (!stream_head_out_) put_stream_head(false);
          put_events(std::move(sign));
          flush();
        }
      return;
    case State::Linger:
      if (now - began_ > (core_->refusing ? kLastLinger : kLinger)) close();
      return;
    case State::Closed:
      return;
  }
}

}  // namespace cria::serve
