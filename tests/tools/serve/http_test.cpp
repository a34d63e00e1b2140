// The HTTP server from outside, byte by byte: limits, order, timeouts, clients that leave or do not read.
#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "tests/tools/serve/raw_client.h"
#include "tools/serve/http/error_body.h"
#include "tools/serve/http/server.h"

namespace cria::serve {
namespace {

using cria::test::RawClient;
using std::chrono::milliseconds;

constexpr milliseconds kSoon{10'000};  // for what has to happen; a test that holds does not wait so long

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

/// What a thread waits for and another tells.
class Event {
 public:
  void tell() {
    const std::lock_guard lock(mutex_);
    told_ = true;
    changed_.notify_all();
  }
  bool wait(milliseconds most = kSoon) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, most, [this] { return told_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool told_ = false;
};

/// A server with a few paths: /echo answers with what it got, /hold waits for the test, /drop and /throw fail.
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
    return {
        {"GET", "/echo", echo, true},
        {"POST", "/echo", echo},
        {"GET", "/echo/{rest}", echo},
        {"POST", "/hold", inbox.handler()},
        {"GET", "/hold", inbox.handler()},
        {"GET", "/drop", [](const std::shared_ptr<Exchange>&) {}},
        {"GET", "/throw", [](const std::shared_ptr<Exchange>&) { throw std::runtime_error("a secret"); }}};
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

const std::string kHost = "Host: localhost\r\n", kClose = "Connection: close\r\n";

std::string get(const std::string& path, const std::string& fields = kClose) {
  return "GET " + path + " HTTP/1.1\r\n" + kHost + fields + "\r\n";
}

std::string post(const std::string& path, const std::string& body, const std::string& fields = kClose) {
  return "POST " + path + " HTTP/1.1\r\n" + kHost + "Content-Length: " + std::to_string(body.size()) +
         "\r\n" + fields + "\r\n" + body;
}

int status_of(const std::string& answer) {
  return answer.starts_with("HTTP/1.1 ") ? std::atoi(answer.c_str() + 9) : 0;
}

std::string body_of(const std::string& answer) {
  const std::size_t at = answer.find("\r\n\r\n");
  return at == std::string::npos ? "" : answer.substr(at + 4);
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(ServeHttp, AnswersAndItsFields) {
  const Served served;
  const std::string answer = served.ask(get("/echo?a=b", kClose + "X-Request-Id: my.id-1\r\n"));
  EXPECT_EQ(status_of(answer), 200) << answer;
  EXPECT_EQ(body_of(answer), "[GET /echo a=b  ]");
  for (const char* field :
       {"Content-Type: text/plain\r\n", "Content-Length: 17\r\n", "X-Content-Type-Options: nosniff\r\n",
        "Cache-Control: no-store\r\n", "X-Request-Id: my.id-1\r\n", "Connection: close\r\n"})
    EXPECT_TRUE(has(answer, field)) << field << answer;
  EXPECT_FALSE(has(served.ask(get("/echo", kClose + "X-Request-Id: <script>\r\n")), "script"));
  EXPECT_TRUE(has(served.ask(get("/echo/a%2Fb")), "[GET /echo/a/b  a/b ]"));
}

TEST(ServeHttp, HeadWithoutABody) {
  const Served served;
  const std::string answer = served.ask("HEAD /echo HTTP/1.1\r\n" + kHost + kClose + "\r\n");
  EXPECT_EQ(status_of(answer), 200);
  EXPECT_TRUE(has(answer, "Content-Length: 14\r\n")) << answer;
  EXPECT_EQ(body_of(answer), "");
}

TEST(ServeHttp, UnknownPathsAndMethods) {
  const Served served;
  EXPECT_EQ(status_of(served.ask(get("/nothing"))), 404);
  const std::string wrong = served.ask("BREW /echo HTTP/1.1\r\n" + kHost + kClose + "\r\n");
  EXPECT_EQ(status_of(wrong), 405);
  EXPECT_TRUE(has(wrong, "Allow: GET, HEAD, POST, OPTIONS\r\n")) << wrong;
}

TEST(ServeHttp, KeepsTheConnection) {
  const Served served;
  RawClient client = served.client();
  for (int i = 0; i < 3; ++i) {
    client.send(get("/echo", ""));
    EXPECT_EQ(status_of(client.read_until("]")), 200);
    client.send(get("/nothing", ""));
    EXPECT_EQ(status_of(client.read_until("}}")), 404);
  }
}

TEST(ServeHttp, Http10) {
  const Served served;
  const std::string answer = served.ask("GET /echo HTTP/1.0\r\n\r\n");
  EXPECT_EQ(status_of(answer), 200);
  EXPECT_TRUE(has(answer, "[GET /echo"));
  RawClient client = served.client();
  client.send("GET /echo HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_TRUE(has(client.read_until("]"), "Connection: keep-alive\r\n"));
  client.send("GET /echo HTTP/1.0\r\n\r\n");
  EXPECT_EQ(status_of(client.read_all()), 200);
}

TEST(ServeHttp, PipelinedAnswersComeInOrder) {
  Served served;
  RawClient client = served.client();
  client.send(post("/hold", "1", "") + get("/echo?2", "") + "\r\n" + get("/nothing", "") +
              post("/echo", "4"));
  const auto first = served.inbox.next();
  std::this_thread::sleep_for(milliseconds(20));
  first->answer(200, "text/plain", "first");
  const std::string all = client.read_all();
  const std::size_t one = all.find("first"), two = all.find("[GET /echo 2"), three = all.find("not_found"),
                    four = all.find("[POST /echo   4]");
  EXPECT_TRUE(one < two && two < three && three < four && four != std::string::npos) << all;
}

TEST(ServeHttp, PipelinedAnswersToAClientThatHasSaidAll) {
  const Served served;
  RawClient client = served.client();
  std::string all;
  for (int i = 0; i < 50; ++i) all += get("/echo", "");
  client.send(all);
  client.end_sending();
  const std::string answers = client.read_all();
  std::size_t count = 0;
  for (std::size_t at = 0; (at = answers.find("HTTP/1.1 200", at)) != std::string::npos; ++at) ++count;
  EXPECT_EQ(count, 50U);
}

TEST(ServeHttp, RequestsInPiecesOfOneByte) {
  const Served served;
  RawClient client = served.client();
  for (const char c : post("/echo", "{\"a\": 1}")) {
    client.send(std::string(1, c));
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  EXPECT_EQ(body_of(client.read_all()), "[POST /echo   {\"a\": 1}]");
}

TEST(ServeHttp, ChunkedBodies) {
  const Served served;
  const std::string head = "POST /echo HTTP/1.1\r\n" + kHost + kClose + "Transfer-Encoding: chunked\r\n\r\n";
  EXPECT_EQ(body_of(served.ask(head + "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")), "[POST /echo   abcde]");
  EXPECT_EQ(status_of(served.ask(head + "3e9\r\n")), 413);
  EXPECT_EQ(status_of(served.ask(head + "xyz\r\n")), 400);
}

TEST(ServeHttp, ExpectContinue) {
  const Served served;
  RawClient client = served.client();
  client.send("POST /echo HTTP/1.1\r\n" + kHost + kClose +
              "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_EQ(status_of(client.read_until("\r\n\r\n")), 100);
  client.send("hi");
  EXPECT_EQ(body_of(client.read_all()), "[POST /echo   hi]");
  EXPECT_EQ(status_of(served.ask("POST /echo HTTP/1.1\r\n" + kHost +
                                 "Expect: 100-continue\r\nContent-Length: 2000\r\n\r\n")),
            413);
}

TEST(ServeHttp, RefusedAtOnce) {
  const Served served;
  const std::string length = "POST /echo HTTP/1.1\r\n" + kHost + "Content-Length: ";
  const std::pair<std::string, int> cases[] = {
      {length + "1001\r\n\r\n", 413},
      {length + "1000000000\r\n\r\n{", 413},
      {length + "99999999999999999999\r\n\r\n{", 400},
      {length + "5x\r\n\r\nhello", 400},
      {length + "2\r\nContent-Length: 3\r\n\r\n{}", 400},
      {length + "4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + get("/echo"), 400},
      {length + "2\r\nContent-Type: image/png\r\n\r\n{}", 415},
      {"GET /echo HTTP/1.1\r\n\r\n", 400},
      {"GET /echo HTTP/1.1\r\n" + kHost + kHost + "\r\n", 400},
      {"GET /echo HTTP/9.9\r\n" + kHost + "\r\n", 400},
      {"GET /ec ho HTTP/1.1\r\n" + kHost + "\r\n", 400},
      {"GET /echo%zz HTTP/1.1\r\n" + kHost + "\r\n", 400},
      {"GET echo HTTP/1.1\r\n" + kHost + "\r\n", 400},
      {"CONNECT example.org:443 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
      {"GET /" + std::string(9000, 'a'), 414},
      {"GET /echo HTTP/1.1\r\nX: " + std::string(40000, 'a'), 431},
      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400},
      {std::string("\x16\x03\x01\x02\x00\x01", 6), 400},
      {"GET /echo HTTP/1.1\r\nHost: evil.example\r\n" + kClose + "\r\n", 403},
      {"GET http://evil.example/echo HTTP/1.1\r\n" + kHost + kClose + "\r\n", 403},
      {get("/echo", kClose + "Origin: https://evil.example\r\n"), 403}};
  for (const auto& [bytes, status] : cases) {
    const std::string answer = served.ask(bytes);
    EXPECT_EQ(status_of(answer), status) << bytes.substr(0, 100) << "\n" << answer;
    EXPECT_EQ(answer.find("HTTP/1.1", 1), std::string::npos) << answer;
    EXPECT_TRUE(has(answer, "{\"error\":{")) << answer;
  }
}

TEST(ServeHttp, ALargeBodyIsReadPastItsRefusal) {
  const Served served;
  // Closed at once, the answer would be lost to the reset that unread bytes cause.
  const std::string answer = served.ask("POST /echo HTTP/1.1\r\n" + kHost +
                                        "Content-Length: 2000000\r\n\r\n" + std::string(2000000, 'x'));
  EXPECT_EQ(status_of(answer), 413);
  EXPECT_TRUE(has(answer, "request_too_large"));
}

TEST(ServeHttp, BodiesOfAllTogetherAreLimited) {
  constexpr std::size_t kBody = 2 << 20;
  const Served served([](ServerOptions& options) { options.max_body = kBody; });
  std::deque<RawClient> clients;  // 32 bodies are the most; each but its last byte
  for (int i = 0; i < 32; ++i) {
    clients.emplace_back(served.server->port());
    ASSERT_TRUE(clients.back().send("POST /echo HTTP/1.1\r\n" + kHost + "Content-Length: 2097152\r\n\r\n" +
                                    std::string(kBody - 1, 'x')));
  }
  const auto becomes = [&served](int status) {
    const std::string small = post("/echo", std::string(1000, 'y'));
    for (int i = 0; i < 1000; ++i) {
      if (status_of(served.ask(small)) == status) return true;
      std::this_thread::sleep_for(milliseconds(10));
    }
    return false;
  };
  EXPECT_TRUE(becomes(503));
  clients.clear();
  EXPECT_TRUE(becomes(200));
}

TEST(ServeHttp, SlowRequestsEnd) {
  const Served served([](ServerOptions& options) {
    options.read_timeout = milliseconds(300);
    options.keep_alive = milliseconds(300);
  });
  for (const std::string& begin :
       {std::string("GET /ec"), "POST /echo HTTP/1.1\r\n" + kHost + "Content-Length: 1000\r\n\r\n"}) {
    RawClient slow = served.client();
    slow.send(begin);
    std::string answer;
    for (int i = 0; i < 300 && answer.empty(); ++i) {  // however it trickles
      slow.send("x");
      answer = slow.read_all(milliseconds(20));
    }
    EXPECT_EQ(status_of(answer), 408) << answer;
  }
  RawClient silent = served.client();
  EXPECT_TRUE(silent.is_closed_within(kSoon));
  RawClient idle = served.client();
  idle.send(get("/echo", ""));
  idle.read_until("]");
  EXPECT_TRUE(idle.is_closed_within(kSoon));
}

void expect_cancelled(Served& served, RawClient& client, const std::function<void()>& leave) {
  const auto exchange = served.inbox.next();
  Event closed;
  exchange->on_closed([&closed] { closed.tell(); });
  EXPECT_FALSE(exchange->closed());
  leave();
  EXPECT_TRUE(closed.wait());
  EXPECT_TRUE(exchange->closed());
  exchange->answer(200, "text/plain", "nobody reads this");
  (void)client;
}

TEST(ServeHttp, ClientsThatLeave) {
  Served served;
  {
    RawClient client = served.client();
    client.send(post("/hold", "x"));
    expect_cancelled(served, client, [&] { client.close(); });
  }
  {
    RawClient client = served.client();
    client.send(post("/hold", "x"));
    expect_cancelled(served, client, [&] { client.reset(); });
  }
  {
    RawClient client = served.client();  // behind so much that the server has stopped reading
    client.send(post("/hold", "x", ""));
    std::string ahead;
    while (ahead.size() < 200'000) ahead += get("/echo", "");
    client.send(ahead);
    std::this_thread::sleep_for(milliseconds(50));
    expect_cancelled(served, client, [&] { client.close(); });
  }
  EXPECT_TRUE(served.told_in_log("cancelled"));
  for (int i = 0; i < 1000 && served.server->pending() > 0; ++i)
    std::this_thread::sleep_for(milliseconds(10));
  EXPECT_EQ(served.server->pending(), 0U);
  EXPECT_EQ(served.metrics.requests_cancelled.value(), 3U);
  EXPECT_EQ(status_of(served.ask(get("/echo"))), 200);
}

TEST(ServeHttp, ClosedIsToldToWhoAsksLate) {
  Served served;
  RawClient client = served.client();
  client.send(post("/hold", "x"));
  const auto exchange = served.inbox.next();
  client.close();
  for (int i = 0; i < 1000 && !exchange->closed(); ++i) std::this_thread::sleep_for(milliseconds(10));
  Event closed;
  exchange->on_closed([&closed] { closed.tell(); });
  EXPECT_TRUE(closed.wait());
}

TEST(ServeHttp, Streams) {
  Served served;
  RawClient client = served.client();
  client.send(post("/hold", "x", ""));
  auto exchange = served.inbox.next();
  exchange->begin_events();
  exchange->event("{\"a\":1}");
  const std::string head = client.read_until("data: {\"a\":1}\n\n\r\n");
  EXPECT_EQ(status_of(head), 200);
  EXPECT_TRUE(has(head, "Content-Type: text/event-stream\r\n")) << head;
  EXPECT_TRUE(has(head, "Transfer-Encoding: chunked\r\n")) << head;
  EXPECT_TRUE(has(head, "X-Accel-Buffering: no\r\n")) << head;
  exchange->event("[DONE]");
  exchange->end_events();
  EXPECT_TRUE(client.read_until("0\r\n\r\n").ends_with("data: [DONE]\n\n\r\n0\r\n\r\n"));
  exchange->event("too late");
  client.send(get("/echo"));
  EXPECT_EQ(status_of(client.read_all()), 200);  // the connection went on
}

TEST(ServeHttp, StreamsForHttp10EndWithTheConnection) {
  Served served;
  RawClient client = served.client();
  client.send("POST /hold HTTP/1.0\r\nContent-Length: 1\r\n\r\nx");
  const auto exchange = served.inbox.next();
  exchange->event("1");
  exchange->end_events();
  const std::string answer = client.read_all();
  EXPECT_FALSE(has(answer, "chunked")) << answer;
  EXPECT_EQ(body_of(answer), "data: 1\n\n");
}

TEST(ServeHttp, ErrorsBeforeAndAfterTheHeadOfAStream) {
  Served served;
  RawClient before = served.client();
  before.send(post("/hold", "x"));
  auto exchange = served.inbox.next();
  exchange->begin_events();
  exchange->fail(503, error_body(503, "m", "timeout"), {{"Retry-After", "1"}});
  const std::string answer = before.read_all();
  EXPECT_EQ(status_of(answer), 503) << answer;
  EXPECT_TRUE(has(answer, "Retry-After: 1\r\n"));
  EXPECT_EQ(body_of(answer), error_body(503, "m", "timeout"));

  RawClient after = served.client();
  after.send(post("/hold", "x"));
  exchange = served.inbox.next();
  exchange->event("1");
  exchange->fail(503, error_body(503, "m", "timeout"));
  // The two may come in one chunk or in two.
  const std::string stream = after.read_all();
  EXPECT_EQ(status_of(stream), 200);
  EXPECT_TRUE(has(stream, "data: 1\n\n")) << stream;
  EXPECT_TRUE(has(stream, "data: " + error_body(503, "m", "timeout") + "\n\n")) << stream;
  EXPECT_TRUE(stream.ends_with("0\r\n\r\n"));
}

TEST(ServeHttp, SilenceIsBroken) {
  Served served([](ServerOptions& options) { options.silence = milliseconds(150); });
  RawClient client = served.client();
  client.send(post("/hold", "x"));
  const auto exchange = served.inbox.next();
  exchange->begin_events();
  const std::string first = client.read_until(": keep-alive\n\n\r\n");
  EXPECT_EQ(status_of(first), 200) << first;
  EXPECT_TRUE(has(client.read_until(": keep-alive\n\n\r\n"), ": keep-alive"));
  exchange->fail(503, error_body(503, "m", "timeout"));
  EXPECT_TRUE(has(client.read_all(), "data: {\"error\""));
}

TEST(ServeHttp, ReadersThatDoNotRead) {
  Served served([](ServerOptions& options) { options.write_timeout = milliseconds(300); });
  RawClient lazy(served.server->port(), 2048);
  lazy.send(post("/hold", "x"));
  auto exchange = served.inbox.next();
  Event closed;
  exchange->on_closed([&closed] { closed.tell(); });
  const std::string event(10'000, 'x');
  std::size_t sent = 0;
  for (; sent < 100'000 && !exchange->closed(); ++sent) exchange->event(event);
  EXPECT_TRUE(closed.wait());
  EXPECT_LT(sent * event.size(), 64U << 20);  // what was queued, and what the system took
  exchange.reset();

  RawClient stuck(served.server->port(), 2048);
  stuck.send(get("/hold"));
  const auto large = served.inbox.next();
  large->answer(200, "text/plain", std::string(32 << 20, 'x'));
  for (int i = 0; i < 1000 && !served.server->wait_until_idle(milliseconds(10)); ++i) continue;
  EXPECT_TRUE(served.server->wait_until_idle(milliseconds(0)));  // given up: nothing is left to send
}

TEST(ServeHttp, DroppedAndThrown) {
  Served served;
  const std::string dropped = served.ask(get("/drop"));
  EXPECT_EQ(status_of(dropped), 500);
  EXPECT_TRUE(has(dropped, "internal_error"));
  const std::string thrown = served.ask(get("/throw"));
  EXPECT_EQ(status_of(thrown), 500);
  EXPECT_FALSE(has(thrown, "secret"));
  EXPECT_TRUE(served.told_in_log("a secret"));
  EXPECT_EQ(status_of(served.ask(get("/echo"))), 200);
}

TEST(ServeHttp, MoreConnectionsThanAllowed) {
  const Served served([](ServerOptions& options) { options.max_connections = 550; });
  std::deque<RawClient> held;
  for (int i = 0; i < 550; ++i) held.emplace_back(served.server->port());
  for (auto& client : held) client.send("POST /echo HTTP/1.1\r\nHo");
  const std::string turned = served.ask("");
  EXPECT_EQ(status_of(turned), 503) << turned;
  for (int i = 0; i < 300; ++i) RawClient(served.server->port()).send("GET");
  held.front().send("st: localhost\r\n" + kClose +
                    "Content-Length: 2\r\n\r\nhi");  // those who are in are served
  EXPECT_EQ(body_of(held.front().read_all()), "[POST /echo   hi]");
  held.clear();
  for (int i = 0; i < 1000 && status_of(served.ask(get("/echo"))) != 200; ++i)
    std::this_thread::sleep_for(milliseconds(10));
  EXPECT_EQ(status_of(served.ask(get("/echo"))), 200);
}

TEST(ServeHttp, KeysBeforeTheBody) {
  Served served([](ServerOptions& options) { options.access.keys = {"sk-one", "sk-two"}; });
  RawClient client = served.client();
  client.send("POST /echo HTTP/1.1\r\n" + kHost +
              "Authorization: Bearer sk-wrong\r\nContent-Length: 900\r\n\r\n");
  const std::string answer = client.read_all();
  EXPECT_EQ(status_of(answer), 401) << answer;
  EXPECT_TRUE(has(answer, "WWW-Authenticate: Bearer\r\n"));
  EXPECT_EQ(status_of(served.ask(get("/nothing"))), 401);
  EXPECT_EQ(status_of(served.ask(get("/echo"))), 200);  // an open route
  RawClient second = served.client();
  second.send(post("/hold", "x", "Authorization: Bearer sk-two\r\n"));
  EXPECT_EQ(served.inbox.next()->request().scope, 2U);
  EXPECT_FALSE(has(served.lines(), "sk-"));
}

TEST(ServeHttp, PagesOfOthers) {
  const Served served([](ServerOptions& options) {
    options.access.cors_origins = {"https://app.example"};
    options.access.keys = {"sk-one"};
  });
  const std::string origin = kClose + "Origin: https://app.example\r\n";
  const std::string preflight = served.ask(
      "OPTIONS /echo HTTP/1.1\r\n" + kHost + origin +
      "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: authorization,x-a\r\n\r\n");
  EXPECT_EQ(status_of(preflight), 204);
  EXPECT_TRUE(has(preflight, "Access-Control-Allow-Origin: https://app.example\r\n")) << preflight;
  EXPECT_TRUE(has(preflight, "Access-Control-Allow-Headers: authorization, x-a\r\n")) << preflight;
  EXPECT_FALSE(has(preflight, "Content-Length")) << preflight;
  const std::string answer = served.ask(post("/echo", "x", origin + "Authorization: Bearer sk-one\r\n"));
  EXPECT_EQ(status_of(answer), 200);
  EXPECT_TRUE(has(answer, "Access-Control-Allow-Origin: https://app.example\r\nVary: Origin\r\n")) << answer;
  EXPECT_FALSE(
      has(served.ask("OPTIONS /echo HTTP/1.1\r\n" + kHost + kClose + "Origin: https://evil.example\r\n\r\n"),
          "Access-Control"));
}

TEST(ServeHttp, WhileTheModelIsLoaded) {
  Metrics metrics;
  ServerOptions options;
  options.port = 0;
  const auto answer = [](const std::shared_ptr<Exchange>& exchange) {
    exchange->answer(200, "text/plain", "ok");
  };
  Server server(options, {{"GET", "/health", answer}}, metrics, [](const std::string&) {});
  const auto ask = [&server](const std::string& path) {
    RawClient client(server.port());
    client.send(get(path));
    return client.read_all();
  };
  EXPECT_EQ(status_of(ask("/health")), 200);
  EXPECT_TRUE(has(ask("/later"), "\"loading\""));
  server.set_routes({{"GET", "/later", answer}});
  EXPECT_EQ(status_of(ask("/later")), 200);
  EXPECT_EQ(status_of(ask("/other")), 404);
}

TEST(ServeHttp, TheEnd) {
  Served served;
  RawClient running = served.client(), idle = served.client(), stuck = served.client();
  idle.send(get("/echo", ""));
  idle.read_until("]");
  running.send(post("/hold", "x", "") + get("/echo", ""));
  const auto exchange = served.inbox.next();
  stuck.send(post("/hold", "x", ""));
  const auto forgotten = served.inbox.next();
  served.server->refuse();
  EXPECT_TRUE(idle.is_closed_within(kSoon));
  EXPECT_THROW(RawClient(served.server->port()), std::runtime_error);
  EXPECT_FALSE(served.server->wait_until_idle(milliseconds(20)));
  exchange->answer(200, "text/plain", "in time");
  const std::string answer = running.read_all();
  EXPECT_TRUE(has(answer, "in time") && has(answer, "Connection: close\r\n")) << answer;
  served.server->fail_all();
  EXPECT_TRUE(has(stuck.read_all(), "shutting_down"));
  EXPECT_TRUE(served.server->wait_until_idle(kSoon));
  served.server.reset();
  forgotten->answer(200, "text/plain", "too late");  // an exchange outlives the server
}

TEST(ServeHttp, AnAddressInUse) {
  const Served served;
  Metrics metrics;
  ServerOptions options;
  options.port = served.server->port();
  try {
    const Server second(options, {}, metrics, [](const std::string&) {});
    ADD_FAILURE();
  } catch (const std::exception& error) {
    EXPECT_TRUE(has(error.what(), "127.0.0.1:" + std::to_string(options.port))) << error.what();
  }
}

TEST(ServeHttp, ManyThreadsAnswer) {
  Served served;
  std::vector<std::thread> clients;
  std::atomic<int> whole{0};
  for (int i = 0; i < 8; ++i)
    clients.emplace_back([&] {
      RawClient client = served.client();
      for (int k = 0; k < 20; ++k) {
        client.send(post("/hold", "x", ""));
        if (client.read_until("0\r\n\r\n").ends_with("data: last\n\n\r\n0\r\n\r\n")) ++whole;
      }
    });
  std::vector<std::thread> answering;
  for (int i = 0; i < 4; ++i)
    answering.emplace_back([&] {
      for (int k = 0; k < 40; ++k) {
        const auto exchange = served.inbox.next();
        for (int e = 0; e < 10; ++e) exchange->event("{}");
        exchange->event("last");
        exchange->end_events();
      }
    });
  for (auto& thread : answering) thread.join();
  for (auto& thread : clients) thread.join();
  EXPECT_EQ(whole, 160);
}

}  // namespace
}  // namespace cria::serve
