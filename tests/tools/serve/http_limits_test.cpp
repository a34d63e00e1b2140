// The HTTP server's limits, from outside: what is too much, too slow, or never read, and clients
// that leave.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/tools/serve/served_paths.h"
#include "tools/serve/http/exchange_state.h"
#include "tools/serve/http/response.h"

namespace cria::serve::test {
namespace {

TEST(ServeHttpLimits, RefusedAtOnce) {
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
      {length + "2\r\nContent-Encoding: gzip\r\n\r\n{}", 415},
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

// To skip them costs the thread that serves all.
TEST(ServeHttpLimits, EmptyLinesBeforeARequest) {
  const Served served;
  std::string lines;
  for (int i = 0; i < 32; ++i) lines += "\r\n";
  RawClient few = served.client();
  for (int i = 0; i < 2; ++i) {
    few.send(lines + get("/echo", ""));
    EXPECT_EQ(status_of(few.read_until("]")), 200);
  }
  EXPECT_EQ(status_of(served.ask(lines + "\r\n")), 400);
  RawClient slow = served.client();
  for (int i = 0; i < 33; ++i) {
    slow.send("\r\n");
    std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_EQ(status_of(slow.read_all()), 400);
}

TEST(ServeHttpLimits, ALargeBodyIsReadPastItsRefusal) {
  const Served served;
  // Closed at once, the answer would be lost to the reset that unread bytes cause.
  const std::string answer =
      served.ask("POST /echo HTTP/1.1\r\n" + kHost + "Content-Length: 2000000\r\n\r\n" +
                 std::string(2000000, 'x'));
  EXPECT_EQ(status_of(answer), 413);
  EXPECT_TRUE(has(answer, "request_too_large"));
}

TEST(ServeHttpLimits, BodiesOfAllTogetherAreLimited) {
  constexpr std::size_t kBody = 2 << 20;
  const Served served([](ServerOptions& options) {
    options.max_body = kBody;
    options.read_timeout = 10 * kSoon;
  });
  std::deque<RawClient> clients;  // 32 bodies are the most; each but its last byte
  for (int i = 0; i < 32; ++i) {
    clients.emplace_back(served.server->port());
    ASSERT_TRUE(clients.back().send("POST /echo HTTP/1.1\r\n" + kHost +
                                    "Content-Length: 2097152\r\n\r\n" +
                                    std::string(kBody - 1, 'x')));
  }
  // The refused request depends on the order in which the server reads them.
  const auto one_is_refused = [&clients] {
    return std::ranges::any_of(clients, [](RawClient& client) {
      return status_of(client.read_until("\r\n", milliseconds(0))) == 503;
    });
  };
  const auto becomes = [&](int status) {
    const std::string small = post("/echo", std::string(1000, 'y'));
    for (const auto end = std::chrono::steady_clock::now() + kSoon;
         std::chrono::steady_clock::now() < end;) {
      if (status_of(served.ask(small)) == status || (status == 503 && one_is_refused()))
        return true;
      std::this_thread::sleep_for(milliseconds(10));
    }
    return false;
  };
  EXPECT_TRUE(becomes(503));
  clients.clear();
  EXPECT_TRUE(becomes(200));
}

TEST(ServeHttpLimits, SlowRequestsEnd) {
  const Served served([](ServerOptions& options) {
    options.read_timeout = milliseconds(300);
    options.keep_alive = milliseconds(300);
  });
  for (const std::string& begin : {std::string("GET /ec"), "POST /echo HTTP/1.1\r\n" + kHost +
                                                               "Content-Length: 1000\r\n\r\n"}) {
    RawClient slow = served.client();
    slow.send(begin);
    std::string answer;
    for (int i = 0; i < 300 && answer.empty(); ++i) {  // however it trickles
      slow.send("x");
      answer = slow.read_until("\r\n", milliseconds(20));
    }
    // Unread input may reset the connection before the client reads the answer.
    EXPECT_TRUE(answer.empty() || status_of(answer) == 408) << answer;
    EXPECT_TRUE(slow.is_closed_within(kSoon));
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
  exchange->answer(200, "text/plain", "unread");
  (void)client;
}

TEST(ServeHttpLimits, CancelAnswersOfDisconnectedClients) {
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
    RawClient client = served.client();  // the close comes after more than the server reads ahead
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

TEST(ServeHttpLimits, LateRequestsGetAnError) {
  Served served;
  RawClient client = served.client();
  client.send(post("/hold", "x"));
  const auto exchange = served.inbox.next();
  client.close();
  for (int i = 0; i < 1000 && !exchange->closed(); ++i)
    std::this_thread::sleep_for(milliseconds(10));
  Event closed;
  exchange->on_closed([&closed] { closed.tell(); });
  EXPECT_TRUE(closed.wait());
}

TEST(ServeHttpLimits, SilenceIsBroken) {
  Served served([](ServerOptions& options) { options.silence = milliseconds(150); });
  RawClient client = served.client();
  client.send(post("/hold", "x"));
  const auto exchange = served.inbox.next();
  exchange->begin_events();
  const std::string first = client.read_until(": keep-alive\n\n\r\n");
  EXPECT_EQ(status_of(first), 200) << first;
  EXPECT_TRUE(has(client.read_until(": keep-alive\n\n\r\n"), ": keep-alive"));
  exchange->fail(503, error_body({}, 503, "m", "timeout"));
  EXPECT_TRUE(has(client.read_all(), "data: {\"error\""));
}

TEST(ServeHttpLimits, CloseStalledReaders) {
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
  EXPECT_LT(sent * event.size(), 64U << 20);  // bytes in the queue and in the system's buffer
  exchange.reset();

  RawClient stuck(served.server->port(), 2048);
  stuck.send(get("/hold"));
  const auto large = served.inbox.next();
  large->answer(200, "text/plain", std::string(32 << 20, 'x'));
  for (int i = 0; i < 1000 && !served.server->wait_until_idle(milliseconds(10)); ++i) continue;
  EXPECT_TRUE(
      served.server->wait_until_idle(milliseconds(0)));  // given up: nothing is left to send
}

TEST(ServeHttpLimits, LimitTheTotalUnreadOutput) {
  Served served;  // to 64 MiB, and the largest
  const std::string large(40 << 20, 'x');
  std::deque<RawClient> clients;
  for (int i = 0; i < 3; ++i) {
    clients.emplace_back(served.server->port(), 2048);
    clients.back().send(post("/hold", "x"));
    served.inbox.next()->answer(200, "text/plain", large);
  }
  std::size_t closed = clients.size();
  for (int i = 0; i < 1000 && closed == clients.size(); ++i) {
    std::this_thread::sleep_for(milliseconds(10));
    for (std::size_t k = 0; k < clients.size(); ++k)
      if (!clients[k].send("x")) closed = k;
  }
  ASSERT_LT(closed, clients.size());
  for (std::size_t k = 0; k < clients.size(); ++k) {
    if (k != closed) {
      EXPECT_TRUE(content_of(clients[k].read_all()) == large);
    }
  }
}

TEST(ServeHttpLimits, KeepActiveReadersWhenOthersStall) {
  Served served;  // 64 MiB in addition to the largest answer
  const auto ask = [&served](RawClient& client, const std::string& answer) {
    client.send(post("/hold", "x"));
    served.inbox.next()->answer(200, "text/plain", answer);
  };
  const auto pass_ticks = [&served] {
    served.ask(get("/echo"));  // after it the system has taken what it takes of earlier answers
    std::this_thread::sleep_for(milliseconds(300));
  };
  const std::string small(8 << 20, 'x'), large(40 << 20, 'x'), largest(60 << 20, 'x');
  RawClient paused(served.server->port(), 2048);
  ask(paused, small);
  pass_ticks();
  std::deque<RawClient> lazy;
  for (int i = 0; i < 2; ++i) ask(lazy.emplace_back(served.server->port(), 2048), large);
  pass_ticks();
  RawClient reader = served.client();
  ask(reader, largest);
  std::string answer;
  for (int i = 0;
       i < 1000 && std::ranges::all_of(lazy, [](RawClient& one) { return one.send("x"); }); ++i) {
    answer += reader.read_until("x", milliseconds(0));  // a piece
    if (!reader.send("x")) break;
    std::this_thread::sleep_for(milliseconds(10));
  }
  answer += reader.read_all();
  EXPECT_TRUE(content_of(answer) == largest);
  EXPECT_TRUE(content_of(paused.read_all()) == small);
  EXPECT_EQ(std::ranges::count_if(
                lazy, [&](RawClient& one) { return content_of(one.read_all()) == large; }),
            1);
}

TEST(ServeHttpLimits, EventsMayBeLargerThanWhatMayBeUnread) {
  Served served;
  RawClient client(served.server->port(), 2048);
  client.send(post("/hold", "x"));
  const auto exchange = served.inbox.next();
  // More than the system takes from the server while nothing is read.
  const std::string large(4 * ExchangeState::kMaxUnsent, 'x');
  exchange->event(large);
  exchange->event(large);
  exchange->event("last");
  exchange->event("[DONE]");
  exchange->end_events();
  EXPECT_FALSE(exchange->closed());
  const std::string answer = client.read_all();
  EXPECT_GT(answer.size(), 2 * large.size());
  EXPECT_TRUE(has(answer, "data: last\n\n"));
  EXPECT_TRUE(answer.ends_with("data: [DONE]\n\n\r\n0\r\n\r\n"));
}

/// Sends more events than may be unread and than the system buffers.
void send_too_many_events(Exchange& exchange) {
  const std::string event(1000, 'x');
  for (std::size_t sent = 0; sent < 5 * ExchangeState::kMaxUnsent && !exchange.closed();
       sent += event.size())
    exchange.event(event);
}

TEST(ServeHttpLimits, CloseReadersThatStallAfterALargeEvent) {
  Served served;
  RawClient lazy(served.server->port(), 2048);
  lazy.send(post("/hold", "x"));
  const auto exchange = served.inbox.next();
  exchange->event(std::string(4 * ExchangeState::kMaxUnsent, 'x'));
  send_too_many_events(*exchange);
  EXPECT_TRUE(exchange->closed());
}

TEST(ServeHttpLimits, ReadEventsNoLongerCount) {
  Served served;
  RawClient lazy(served.server->port(), 2048);
  lazy.send(post("/hold", "x"));
  const auto exchange = served.inbox.next();
  exchange->event(std::string(5 * ExchangeState::kMaxUnsent, 'x') + "end");
  EXPECT_TRUE(has(lazy.read_until("end\n\n\r\n"), "end"));
  // The server notices a moment after the client that all has been read.
  for (int i = 0; i < 100; ++i) {
    exchange->event("small");
    EXPECT_TRUE(has(lazy.read_until("small\n\n\r\n"), "small"));
  }
  send_too_many_events(*exchange);
  EXPECT_TRUE(exchange->closed());
}

TEST(ServeHttpLimits, MoreConnectionsThanAllowed) {
  const Served served([](ServerOptions& options) { options.max_connections = 550; });
  std::deque<RawClient> held;
  for (int i = 0; i < 550; ++i) held.emplace_back(served.server->port());
  for (auto& client : held) client.send("POST /echo HTTP/1.1\r\nHo");
  const std::string turned = served.ask("");
  EXPECT_EQ(status_of(turned), 503) << turned;
  for (int i = 0; i < 300; ++i) RawClient(served.server->port()).send("GET");
  held.front().send("st: localhost\r\n" + kClose +
                    "Content-Length: 2\r\n\r\nhi");  // accepted connections are served
  EXPECT_EQ(content_of(held.front().read_all()), "[POST /echo   hi]");
  held.clear();
  for (int i = 0; i < 1000 && status_of(served.ask(get("/echo"))) != 200; ++i)
    std::this_thread::sleep_for(milliseconds(10));
  EXPECT_EQ(status_of(served.ask(get("/echo"))), 200);
}

}  // namespace
}  // namespace cria::serve::test
