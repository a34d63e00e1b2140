// Input and lifetime of a connection. Requests are in connection_request.cpp, output is in
// connection_output.cpp.
#include "tools/serve/http/connection.h"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>

#include "tools/serve/http/response.h"

namespace cria::serve {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using ErrorCode = boost::system::error_code;

// Bytes kept of further requests while one is answered, and of an unwanted body.
constexpr std::size_t kMaxAhead = 128 << 10, kMaxDrained = 32 << 20;
// Bytes of empty lines in front of a request, which old clients send behind their bodies.
constexpr std::size_t kMaxBlank = 64;

std::string address_text(const tcp::socket& socket) {
  ErrorCode error;
  const auto address = socket.remote_endpoint(error).address();
  if (error) return "-";
  if (address.is_v6() && address.to_v6().is_v4_mapped())
    return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).to_string();
  return address.to_string();
}

/// Bytes of the empty lines that come first, counted as far as they matter.
std::size_t blank(std::string_view bytes) {
  std::size_t n = 0;
  while (n <= kMaxBlank && bytes.substr(n).starts_with("\r\n")) n += 2;
  return n;
}

}  // namespace

Connection::Connection(std::shared_ptr<ServerCore> core, tcp::socket socket)
    : core_(std::move(core)),
      socket_(std::move(socket)),
      client_(address_text(socket_)),
      began_(Clock::now()) {
  ErrorCode ignored;
  socket_.non_blocking(true, ignored);
  socket_.set_option(tcp::no_delay(true), ignored);
  // A peer that is gone without a word is found out also while it is computed for.
  socket_.set_option(asio::socket_base::keep_alive(true), ignored);
  const auto seconds = [this](int option, int value) {
    setsockopt(socket_.native_handle(), IPPROTO_TCP, option, &value, sizeof value);
  };
  seconds(TCP_KEEPIDLE, 30);
  seconds(TCP_KEEPINTVL, 10);
  seconds(TCP_KEEPCNT, 3);
  expect_request();
}

void Connection::expect_request() {
  request_ = {};
  request_.client = client_;
  request_.id = core_->fresh_id();
  shown_ = {"-", "-", "other"};
  cors_.clear();
  match_ = {};
  parser_.reset();
  head_only_ = keep_alive_said_ = stream_head_out_ = begun_ = false;
  body_left_ = true;  // until the headers exclude a body
  blank_ = 0;
  began_ = Clock::now();
  state_ = State::Head;
}

void Connection::start() { wait_for_input(); }

void Connection::turn_away() {
  turned_away_ = close_after_ = true;
  reply(503, error_body({}, 503, "too many connections", "too_many_connections"),
        {{"Retry-After", "1"}});
}

void Connection::wait_for_input() {
  if (waits_for_input_ || no_more_input_ || state_ == State::Closed || in_.size() > kMaxAhead)
    return;
  waits_for_input_ = true;
  socket_.async_wait(tcp::socket::wait_read, [self = shared_from_this()](const ErrorCode& error) {
    self->waits_for_input_ = false;
    if (!error && self->state_ != State::Closed) self->read_some();
  });
}

void Connection::read_some() {
  ErrorCode error;
  auto& scratch = core_->scratch;
  const std::size_t n = socket_.read_some(asio::buffer(scratch), error);
  if (error == asio::error::eof) {
    no_more_input_ = true;
    return on_end_of_input();
  }
  if (error && error != asio::error::would_block) return close();
  if (state_ == State::Linger) {
    drained_ += n;
    if (drained_ > kMaxDrained) return close();
  } else if (n > 0) {
    in_.append(scratch.data(), n);
    proceed();
  }
  wait_for_input();
}

/// A client that closed its side may still read, but looks like one that is gone: it does not get
/// answers that are not ready yet.
void Connection::on_end_of_input() {
  if (state_ == State::Linger) return close();
  if (state_ == State::Busy) {
    if (!exchange_->ended()) close();
  } else if (out_bytes_ == 0) {
    proceed();
  }
}

void Connection::proceed() {
  for (;;) {
    if (state_ == State::Head ? !proceed_head() : state_ == State::Body ? !proceed_body() : true)
      break;
  }
  if (no_more_input_ && out_bytes_ == 0 && (state_ == State::Head || state_ == State::Body))
    close();
}

/// True if the headers are complete and there is more to do.
bool Connection::proceed_head() {
  if (out_bytes_ > 0 || close_after_) return false;  // a client that asks and does not read waits
  if (!begun_ && !in_.empty()) {
    begun_ = true;
    began_ = Clock::now();
  }
  if (!parser_) {
    const std::size_t n = blank(in_);
    blank_ += n;
    if (blank_ > kMaxBlank)
      return refuse({400, "there are too many empty lines before a request"}), true;
    in_.erase(0, n);
    if (in_.empty() || in_ == "\r") return false;
    parser_ = std::make_unique<MessageParser>();
    scanner_ = {};
  }
  const std::size_t size = scanner_.scan(in_);
  if (scanner_.refusal()) return refuse(scanner_.refusal()), true;
  if (size == 0) return false;
  ParsedHead head;
  const Refusal refusal = parser_->read_head(std::string_view(in_).substr(0, size), head);
  in_.erase(0, size);
  describe(head);
  if (refusal) return refuse(refusal), true;
  begin_request(std::move(head));
  return true;
}

bool Connection::proceed_body() {
  std::size_t taken = 0;
  const Refusal refusal = parser_->read_body(in_, taken);
  in_.erase(0, taken);
  hold_body(parser_->body().size());
  if (refusal) return refuse(refusal), true;
  if (core_->body_bytes > most_body_bytes(core_->options))
    return refuse({503, "too much request data in flight; try again later", "queue_full"},
                  {{"Retry-After", "1"}}),
           true;
  if (!parser_->done()) return false;
  dispatch();
  return true;
}

void Connection::hold_body(std::size_t bytes) {
  core_->body_bytes += bytes - held_;
  held_ = bytes;
}

void Connection::release_body() { hold_body(0); }

}  // namespace cria::serve
