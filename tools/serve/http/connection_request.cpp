// One request of a connection: what it asks, and its answer on the way out.
#include <algorithm>

#include "model/file/utf8.h"
#include "model/plural.h"
#include "tools/serve/http/connection.h"
#include "tools/serve/http/message_parser.h"
#include "tools/serve/http/response.h"

namespace cria::serve {
namespace {

/// "application/json" of "Application/JSON; charset=utf-8".
std::string media_type(std::string_view field) {
  std::string out = lower_case(field.substr(0, field.find(';')));
  std::erase_if(out, [](char c) { return c == ' ' || c == '\t'; });
  return out;
}

bool is_request_id(std::string_view text) {
  return !text.empty() && text.size() <= 64 && std::ranges::all_of(text, [](unsigned char c) {
    return std::isalnum(c) || c == '_' || c == '.' || c == '-';
  });
}

/// The path of a target for the log, without the query, which may be private.
std::string shown_path(std::string_view target) {
  return std::string(target.substr(0, target.find('?')));
}

/// Base URLs that end in a slash give "//v1/…", and some clients add one at the end.
std::string without_spare_slashes(std::string path) {
  const auto repeats = [](char a, char b) { return a == '/' && b == '/'; };
  path.erase(std::unique(path.begin(), path.end(), repeats), path.end());
  if (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

}  // namespace

/// Fills the log record, also for a refused request.
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
      lower_case(request_.header("expect")) == "100-continue") {
    put("HTTP/1.1 100 Continue\r\n\r\n");
    flush();
  }
}

/// True if this client has access.
Refusal Connection::check_asker(const ParsedHead& head, Headers& more) {
  const auto field = [&head](std::string_view name) -> std::optional<std::string_view> {
    for (const auto& [key, value] : head.fields)
      if (key == name) return value;
    return {};
  };
  auto target = parse_target(head.target);
  if (!target) return {400, "the request's target is malformed"};
  request_.path =
      without_spare_slashes(std::move(target->path));  // errors have the form of its protocol
  request_.query = std::move(target->query);
  std::optional<std::string_view> host = field("host");
  if (!target->host.empty()) host = target->host;
  if (Refusal refusal = core_->access->check_host(host)) return refusal;
  const std::string_view origin = field("origin").value_or("");
  if (Refusal refusal = core_->access->check_origin(origin, host.value_or(""))) return refusal;
  cors_ = core_->access->cors_fields(origin);
  routes_ = core_->routes;
  match_ = routes_->find(head.method, request_.path);
  if (match_.route != nullptr)
    shown_.endpoint = match_.route->endpoint.empty() ? match_.route->path : match_.route->endpoint;
  if (head.method == "OPTIONS" || (match_.route != nullptr && match_.route->open)) return {};
  const auto scope =
      core_->access->scope_of(field("authorization").value_or(""), field("x-api-key").value_or(""));
  if (!scope) {
    more = {{"WWW-Authenticate", "Bearer"}};
    return {401, "an API key is needed: Authorization: Bearer KEY, or x-api-key: KEY",
            "invalid_api_key"};
  }
  request_.scope = *scope;
  return {};
}

/// True if the target exists.
Refusal Connection::check_request(const ParsedHead& head, Headers& more) {
  if (core_->refusing) return {503, "the server is shutting down", "shutting_down"};
  if (match_.route != nullptr) {
    request_.parameter = match_.parameter;
    return {};
  }
  if (!match_.allowed.empty()) {
    more = {{"Allow", match_.allowed}};
    return {405, head.method + " is not allowed here; use " + match_.allowed, "method_not_allowed"};
  }
  if (core_->loading) {
    more = {{"Retry-After", "1"}};
    return {503, "the model is being loaded", "loading"};
  }
  return {404, "not found: " + request_.path, "not_found"};
}

Refusal Connection::check_content(const ParsedHead& head) const {
  if (head.length.value_or(0) > core_->options.max_body)
    return {413,
            "the body is too large: expected at most " + counted(core_->options.max_body, "byte") +
                ", got " + std::to_string(*head.length),
            "request_too_large"};
  if (head.method != "POST") return {};
  for (const auto& [name, value] : head.fields) {
    if (name == "content-encoding" && lower_case(value) != "identity")
      return {415, "the body is compressed, which is not understood here",
              "unsupported_media_type"};
    if (name != "content-type") continue;
    const std::string type = media_type(value);
    if (!type.empty() && type != "application/json" &&
        type != "application/x-www-form-urlencoded" && type != "text/plain")
      return {415, "expected Content-Type: application/json, got " + type,
              "unsupported_media_type"};
  }
  return {};
}

void Connection::answer_options() {
  Headers more = core_->access->preflight_fields(request_.header("origin"),
                                                 request_.header("access-control-request-headers"));
  if (more.empty() && match_.allowed.empty() && request_.path != "*")
    return refuse({404, "not found: " + request_.path, "not_found"});
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
    core_->say(message_line(
        "cria: error: request " + exchange->request.id + ": " + escaped_text(error.what()),
        core_->options.log));
    exchange->fail(500, error_body(exchange->request, 500, "an internal error", "internal_error"),
                   {});
  }
  if (no_more_input_ && !exchange->ended()) close();
}

/// The request ends here, before a handler knows of it.
void Connection::refuse(const Refusal& refusal, Headers more) {
  if (body_left_ || refusal.status == 400)
    close_after_ = true;  // nothing is looked for behind what is not understood
  reply(refusal.status, error_body(request_, refusal.status, refusal.message, refusal.code),
        std::move(more));
}

void Connection::reply(int status, std::string body, const Headers& more) {
  ExchangeState::Batch::Answer answer{status, std::string(status == 204 ? "" : kJsonType),
                                      std::move(body), more};
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
  } else if (batch.stream && (batch.lines || !batch.events.empty() || batch.ended)) {
    if (!stream_head_out_) put_stream_head(batch.lines);
    if (!batch.events.empty()) put_events(std::move(batch.events));
  }
  if (batch.ended) return finish_request();
  flush();
}

/// Adds the header in which Anthropic's clients look for the id.
void Connection::add_request_id(Headers& more) const {
  if (protocol_of(exchange_->request.path) == Protocol::Messages)
    more.emplace_back("request-id", exchange_->request.id);
}

void Connection::put_answer(ExchangeState::Batch::Answer& answer) {
  exchange_->sent_status = answer.status;
  if (core_->refusing) close_after_ = true;
  Headers more = std::move(answer.more);
  more.insert(more.end(), cors_.begin(), cors_.end());
  add_request_id(more);
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

void Connection::put_stream_head(bool lines) {
  stream_head_out_ = true;
  exchange_->sent_status = 200;
  ResponseHead head;
  head.content_type = lines ? "application/x-ndjson" : "text/event-stream";
  head.id = exchange_->request.id;
  head.chunked = exchange_->request.version >= 11;
  if (!head.chunked || core_->refusing) close_after_ = true;
  head.close = close_after_;
  Headers more = cors_;
  add_request_id(more);
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

}  // namespace cria::serve
