#include "tools/serve/http/connection.h"

#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>

#include "model/plural.h"
#include "tools/serve/http/error_body.h"
#include "tools/serve/http/target.h"

namespace cria::serve {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using ErrorCode = boost::system::error_code;

constexpr std::size_t kMostAhead = 128
                                   << 10;  // bytes of further requests that are kept while one is answered
constexpr std::size_t kMostDrained = 32 << 20;
constexpr std::chrono::milliseconds kLinger{2000}, kLastLinger{300};  // the latter while the server ends

bool has_text(std::string_view text, std::string_view wanted) {
  return std::ranges::equal(
      text, wanted, [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); });
}

/// "application/json" of "Application/JSON; charset=utf-8".
std::string media_type(std::string_view field) {
  std::string out;
  for (const char c : field.substr(0, field.find(';')))
    if (c != ' ' && c != '\t') out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

bool is_request_id(std::string_view text) {
  return !text.empty() && text.size() <= 64 && std::ranges::all_of(text, [](unsigned char c) {
    return std::isalnum(c) || c == '_' || c == '.' || c == '-';
  });
}

std::string address_text(const tcp::socket& socket) {
  ErrorCode error;
  const auto address = socket.remote_endpoint(error).address();
  if (error) return "-";
  if (address.is_v6() && address.to_v6().is_v4_mapped())
    return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).to_string();
  return address.to_string();
}

/// The path of a target as it may be logged: a query may hold what is nobody's business.
std::string shown_path(std::string_view target) { return std::string(target.substr(0, target.find('?'))); }

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
  body_left_ = true;  // until a head says that there is none
  began_ = Clock::now();
  state_ = State::Head;
}

void Connection::start() { wait_for_input(); }

void Connection::turn_away() {
  turned_away_ = close_after_ = true;
  reply(503, error_body(503, "too many connections", "too_many_connections"), {{"Retry-After", "1"}});
}

// ---- input

void Connection::wait_for_input() {
  if (waits_for_input_ || no_more_input_ || state_ == State::Closed || in_.size() > kMostAhead) return;
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
    if (drained_ > kMostDrained) return close();
  } else if (n > 0) {
    in_.append(scratch.data(), n);
    proceed();
  }
  wait_for_input();
}

/// A client that says nothing more may still read, but cannot be told from one that is gone: who waits for an answer
/// that has not been given by now waits in vain.
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
    if (state_ == State::Head ? !proceed_head() : state_ == State::Body ? !proceed_body() : true) break;
  }
  if (no_more_input_ && out_bytes_ == 0 && (state_ == State::Head || state_ == State::Body)) close();
}

/// Whether the head has come whole and there is more to do.
bool Connection::proceed_head() {
  if (out_bytes_ > 0 || close_after_) return false;  // a client that asks and does not read waits
  if (!begun_ && !in_.empty()) {
    begun_ = true;
    began_ = Clock::now();
  }
  if (!parser_) {
    while (in_.starts_with("\r\n")) in_.erase(0, 2);
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
    return refuse({503, "requests that are being read fill the memory for them", "queue_full"},
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

// ---- one request

/// What the log tells, also of a request that is refused.
void Connection::describe(const ParsedHead& head) {
  shown_.method = head.method.substr(0, 32);
  shown_.path = shown_path(head.target);
  head_only_ = head.method == "HEAD";
  request_.version = head.version;
  for (const auto& [name, value] : head.fields)
    if (name == "x-request-id" && is_request_id(value)) request_.id = value;
}

void Connection::begin_request(ParsedHead head) {
  body_left_ = head.has_body();
  close_after_ = !head.keep_alive || core_->refusing;
  keep_alive_said_ = head.version < 11;
  request_.method = head_only_ ? "GET" : head.method;
  Headers more;
  Refusal refusal = check_asker(head, more);
  if (!refusal && head.method != "OPTIONS") refusal = check_request(head, more);
  if (!refusal) refusal = check_content(head);
  if (refusal) return refuse(refusal, std::move(more));
  request_.headers = std::move(head.fields);
  parser_->limit_body(core_->options.max_body);
  state_ = State::Body;
  began_ = Clock::now();
  if (body_left_ && in_.empty() && head.version >= 11 &&
      has_text(request_.header("expect"), "100-continue")) {
    put("HTTP/1.1 100 Continue\r\n\r\n");
    flush();
  }
}

/// Whether this client may ask anything.
Refusal Connection::check_asker(const ParsedHead& head, Headers& more) {
  const auto field = [&head](std::string_view name) -> std::optional<std::string_view> {
    for (const auto& [key, value] : head.fields)
      if (key == name) return value;
    return {};
  };
  auto target = parse_target(head.target);
  if (!target) return {400, "the request's target is malformed"};
  std::optional<std::string_view> host = field("host");
  if (!target->host.empty()) host = target->host;
  if (Refusal refusal = core_->access->check_host(host)) return refusal;
  const std::string_view origin = field("origin").value_or("");
  if (Refusal refusal = core_->access->check_origin(origin, host.value_or(""))) return refusal;
  cors_ = core_->access->cors_fields(origin);
  request_.path = std::move(target->path);
  request_.query = std::move(target->query);
  routes_ = core_->routes;
  match_ = routes_->find(head.method, request_.path);
  if (match_.route != nullptr)
    shown_.endpoint = match_.route->endpoint.empty() ? match_.route->path : match_.route->endpoint;
  if (head.method == "OPTIONS" || (match_.route != nullptr && match_.route->open)) return {};
  const auto scope = core_->access->scope_of(field("authorization").value_or(""));
  if (!scope) {
    more = {{"WWW-Authenticate", "Bearer"}};
    return {401, "an API key is needed: Authorization: Bearer KEY", "invalid_api_key"};
  }
  request_.scope = *scope;
  return {};
}

/// Whether there is what it asks for.
Refusal Connection::check_request(const ParsedHead& head, Headers& more) {
  if (core_->refusing) return {503, "the server is shutting down", "shutting_down"};
  if (match_.route != nullptr) {
    request_.parameter = match_.parameter;
    return {};
  }
  if (!match_.allowed.empty()) {
    more = {{"Allow", match_.allowed}};
    return {405, head.method + " does not work here, but " + match_.allowed, "method_not_allowed"};
  }
  if (core_->loading) {
    more = {{"Retry-After", "1"}};
    return {503, "the model is being loaded", "loading"};
  }
  return {404, "there is nothing at " + request_.path, "not_found"};
}

Refusal Connection::check_content(const ParsedHead& head) const {
  if (head.length.value_or(0) > core_->options.max_body)
    return {413,
            "the body is too large: expected at most " + counted(core_->options.max_body, "byte") + ", got " +
                std::to_string(*head.length),
            "request_too_large"};
  if (head.method != "POST") return {};
  for (const auto& [name, value] : head.fields) {
    if (name == "content-encoding" && !has_text(value, "identity"))
      return {415, "the body is compressed, which is not understood here", "unsupported_media_type"};
    if (name != "content-type") continue;
    const std::string type = media_type(value);
    if (!type.empty() && type != "application/json" && type != "application/x-www-form-urlencoded" &&
        type != "text/plain")
      return {415, "expected Content-Type: application/json, got " + type, "unsupported_media_type"};
  }
  return {};
}

void Connection::answer_options() {
  Headers more = core_->access->preflight_fields(request_.header("origin"),
                                                 request_.header("access-control-request-headers"));
  if (more.empty() && match_.allowed.empty() && request_.path != "*")
    return refuse({404, "there is nothing at " + request_.path, "not_found"});
  cors_.clear();  // they are among `more`
  more.emplace_back("Allow", match_.allowed.empty() ? "GET, POST, OPTIONS" : match_.allowed);
  reply(204, "", more);
}

void Connection::dispatch() {
  request_.body = std::move(parser_->body());
  request_.arrived = Clock::now();
  body_left_ = false;
  if (shown_.method == "OPTIONS") return answer_options();
  const std::weak_ptr<ServerCore> core = core_;
  const std::weak_ptr<Connection> connection = weak_from_this();
  exchange_ = std::make_shared<ExchangeState>(
      std::move(request_), shown_, [core, connection](std::shared_ptr<ExchangeState> exchange) {
        const auto living = core.lock();
        if (!living) return;
        living->post([core, connection, exchange = std::move(exchange)] {
          if (const auto self = connection.lock())
            self->take(exchange);
          else if (const auto still = core.lock(); still && exchange->take().ended)
            still->end_exchange(*exchange);
        });
      });
  exchange_->held = held_;
  held_ = 0;
  state_ = State::Busy;
  last_put_ = Clock::now();
  ++core_->pending;
  const auto exchange = exchange_;
  try {
    match_.route->handler(exchange->handle());
  } catch (const std::exception& error) {
    core_->say(
        message_line("cria: error: request " + exchange->request.id + ": " + escaped_text(error.what()),
                     core_->options.log));
    exchange->fail(500, error_body(500, "an internal error", "internal_error"), {});
  }
  if (no_more_input_ && !exchange->ended()) close();
}

/// The request ends here, before a handler knows of it.
void Connection::refuse(const Refusal& refusal, Headers more) {
  if (body_left_ || refusal.status == 400)
    close_after_ = true;  // nothing is looked for behind what is not understood
  reply(refusal.status, error_body(refusal.status, refusal.message, refusal.code), std::move(more));
}

void Connection::reply(int status, std::string body, const Headers& more) {
  ExchangeState::Batch::Answer answer{status, std::string(status == 204 ? "" : kJsonType), std::move(body),
                                      more};
  exchange_ = std::make_shared<ExchangeState>(std::move(request_), shown_, [](const auto&) {});
  exchange_->held = held_;
  held_ = 0;
  ++core_->pending;
  state_ = State::Busy;
  put_answer(answer);
  exchange_->answer(status, "", "", {});
  finish_request();
}

void Connection::take(const std::shared_ptr<ExchangeState>& exchange) {
  ExchangeState::Batch batch = exchange->take();
  if (exchange != exchange_ || exchange->closed()) {  // its client is gone, or does not read
    if (exchange == exchange_) close();
    if (batch.ended) core_->end_exchange(*exchange);
    return;
  }
  if (batch.answer) {
    put_answer(*batch.answer);
  } else if (batch.stream && (!batch.events.empty() || batch.ended)) {
    if (!stream_head_out_) put_stream_head();
    if (!batch.events.empty()) put_events(std::move(batch.events));
  }
  if (batch.ended) return finish_request();
  flush();
}

void Connection::put_answer(ExchangeState::Batch::Answer& answer) {
  exchange_->sent_status = answer.status;
  if (core_->refusing) close_after_ = true;
  Headers more = std::move(answer.more);
  more.insert(more.end(), cors_.begin(), cors_.end());
  ResponseHead head;
  head.status = answer.status;
  head.content_type = answer.content_type;
  head.length = answer.body.size();
  head.id = exchange_->request.id;
  head.close = close_after_;
  head.keep_alive_said = keep_alive_said_;
  put(head_text(head, more));
  if (!head_only_ && answer.status != 204 && !answer.body.empty()) put(std::move(answer.body));
}

void Connection::put_stream_head() {
  stream_head_out_ = true;
  exchange_->sent_status = 200;
  ResponseHead head;
  head.content_type = "text/event-stream";
  head.id = exchange_->request.id;
  head.chunked = exchange_->request.version >= 11;
  if (!head.chunked || core_->refusing) close_after_ = true;
  head.close = close_after_;
  Headers more = cors_;
  more.emplace_back("X-Accel-Buffering", "no");
  put(head_text(head, more));
}

void Connection::put_events(std::string events) {
  put(exchange_->request.version >= 11 ? chunk_text(events) : std::move(events));
}

/// Its answer is queued whole.
void Connection::finish_request() {
  const auto exchange = std::move(exchange_);
  exchange_.reset();
  if (stream_head_out_ && exchange->request.version >= 11) put(std::string(kLastChunk));
  core_->end_exchange(*exchange);
  expect_request();
  flush();
}

/// The answer has been handed to the system.
void Connection::next_request() {
  if (state_ != State::Head || parser_) return;
  if (close_after_) return linger();
  proceed();
  wait_for_input();
}

// ---- output

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
    const std::size_t n =
        socket_.write_some(asio::buffer(first.data() + out_begin_, first.size() - out_begin_), error);
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
  if (state_ == State::Head && !parser_) core_->post([self = shared_from_this()] { self->next_request(); });
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

/// Says that nothing more comes and reads on for a while: closing at once, with bytes unread, would take from the client
/// what it has not read yet.
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
  if (exchange_) exchange_->fail(503, error_body(503, "the server is shutting down", "shutting_down"), {});
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
      if (!waits_for_input_ && !no_more_input_) {  // so much has been asked ahead that nothing is read
        pollfd peer{socket_.native_handle(), POLLRDHUP, 0};
        if (poll(&peer, 1, 0) > 0) return close();
      }
      if (out_bytes_ == 0 && now - last_put_ > options.silence && exchange_->begin_head()) {
        if (!stream_head_out_) put_stream_head();
        put_events(": keep-alive\n\n");
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
