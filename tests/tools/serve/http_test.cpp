// The HTTP server from outside: requests, answers and streams, in order, to their end.
#include <gtest/gtest.h>

#include <atomic>

#include "tests/tools/serve/served_paths.h"
#include "tools/serve/http/exchange_state.h"
#include "tools/serve/http/response.h"

namespace cria::serve::test {
namespace {

TEST(ServeHttp, AnswersAndItsFields) {
  const Served served;
  const std::string answer = served.ask(get("/echo?a=b", kClose + "X-Request-Id: my.id-1\r\n"));
  EXPECT_EQ(status_of(answer), 200) << answer;
  EXPECT_EQ(content_of(answer), "[GET /echo a=b  ]");
  for (const char* field : {"Content-Type: text/plain\r\n", "Content-Length: 17\r\n",
                            "X-Content-Type-Options: nosniff\r\n", "Cache-Control: no-store\r\n",
                            "X-Request-Id: my.id-1\r\n", "Connection: close\r\n"})
    EXPECT_TRUE(has(answer, field)) << field << answer;
  EXPECT_FALSE(has(served.ask(get("/echo", kClose + "X-Request-Id: <script>\r\n")), "script"));
  EXPECT_TRUE(has(served.ask(get("/echo/a%2Fb")), "[GET /echo/a/b  a/b ]"));
  for (const char* path : {"//echo", "/echo/", "//echo//"})
    EXPECT_TRUE(has(served.ask(get(path)), "[GET /echo ")) << path;
}

TEST(ServeHttp, HeadWithoutABody) {
  const Served served;
  const std::string answer = served.ask("HEAD /echo HTTP/1.1\r\n" + kHost + kClose + "\r\n");
  EXPECT_EQ(status_of(answer), 200);
  EXPECT_TRUE(has(answer, "Content-Length: 14\r\n")) << answer;
  EXPECT_EQ(content_of(answer), "");
}

TEST(ServeHttp, UnknownPathsAndMethods) {
  const Served served;
  EXPECT_EQ(status_of(served.ask(get("/nothing"))), 404);
  const std::string wrong = served.ask("BREW /echo HTTP/1.1\r\n" + kHost + kClose + "\r\n");
  EXPECT_EQ(status_of(wrong), 405);
  EXPECT_TRUE(has(wrong, "Allow: GET, HEAD, POST, OPTIONS\r\n")) << wrong;
  const std::string all = served.ask("OPTIONS * HTTP/1.1\r\n" + kHost + kClose + "\r\n");
  EXPECT_EQ(status_of(all), 204);
  EXPECT_TRUE(has(all, "Allow: GET, POST, OPTIONS\r\n")) << all;
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
  const std::size_t one = all.find("first"), two = all.find("[GET /echo 2"),
                    three = all.find("not_found"), four = all.find("[POST /echo   4]");
  EXPECT_TRUE(one < two && two < three && three < four && four != std::string::npos) << all;
}

TEST(ServeHttp, AnswersPipelinedRequestsAfterAHalfClose) {
  const Served served;
  RawClient client = served.client();
  std::string all;
  for (int i = 0; i < 50; ++i) all += get("/echo", "");
  client.send(all);
  client.end_sending();
  const std::string answers = client.read_all();
  std::size_t count = 0;
  for (std::size_t at = 0; (at = answers.find("HTTP/1.1 200", at)) != std::string::npos; ++at)
    ++count;
  EXPECT_EQ(count, 50U);
}

TEST(ServeHttp, RequestsInPiecesOfOneByte) {
  const Served served;
  RawClient client = served.client();
  for (const char c : post("/echo", "{\"a\": 1}")) {
    client.send(std::string(1, c));
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  EXPECT_EQ(content_of(client.read_all()), "[POST /echo   {\"a\": 1}]");
}

TEST(ServeHttp, ChunkedBodies) {
  const Served served;
  const std::string head =
      "POST /echo HTTP/1.1\r\n" + kHost + kClose + "Transfer-Encoding: chunked\r\n\r\n";
  EXPECT_EQ(content_of(served.ask(head + "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")),
            "[POST /echo   abcde]");
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
  EXPECT_EQ(content_of(client.read_all()), "[POST /echo   hi]");
  EXPECT_EQ(status_of(served.ask("POST /echo HTTP/1.1\r\n" + kHost +
                                 "Expect: 100-continue\r\nContent-Length: 2000\r\n\r\n")),
            413);
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
  EXPECT_EQ(status_of(client.read_all()), 200);  // the connection continued
}

TEST(ServeHttp, StreamsOfLinesSendTheirHeadAtOnce) {
  Served served;
  RawClient client = served.client();
  client.send(post("/hold", "x", ""));
  const auto exchange = served.inbox.next();
  exchange->begin_events({true, {}});
  EXPECT_TRUE(has(client.read_until("\r\n\r\n"), "Content-Type: application/x-ndjson\r\n"));
  exchange->event("{}");
  EXPECT_TRUE(has(client.read_until("{}\n\r\n"), "{}"));
}

TEST(ServeHttp, StreamsOfLinesMayWaitWithTheirHead) {
  Served served;
  RawClient client = served.client();
  StreamForm form;
  form.lines = form.late_head = true;
  client.send(post("/hold", "x", ""));
  auto exchange = served.inbox.next();
  exchange->begin_events(form);
  exchange->fail(503, error_body({}, 503, "m", "timeout"));
  EXPECT_EQ(status_of(client.read_until("\r\n\r\n")), 503);
  RawClient other = served.client();
  other.send(post("/hold", "x"));
  exchange = served.inbox.next();
  exchange->begin_events(form);
  exchange->event("{}");
  exchange->begin_events({true, {}});
  exchange->event("[]");
  exchange->end_events();
  const std::string answer = other.read_all();
  EXPECT_EQ(status_of(answer), 200);
  EXPECT_TRUE(has(answer, "{}\n") && has(answer, "[]\n")) << answer;
}

// The form holds the request and its model, which must be let go of when the client leaves.
TEST(ServeHttp, StreamsThatBeginAfterTheClientHasLeftHoldNothing) {
  const auto state =
      std::make_shared<ExchangeState>(Request(), ExchangeState::Shown(), [](const auto&) {});
  const auto held = std::make_shared<int>(0);
  const auto begin = [&] {
    StreamForm form;
    form.on_silence = [held] {};
    state->begin_events(std::move(form));
  };
  begin();
  EXPECT_EQ(held.use_count(), 2);
  state->close();
  EXPECT_EQ(held.use_count(), 1);
  begin();
  EXPECT_EQ(held.use_count(), 1);
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
  EXPECT_EQ(content_of(answer), "data: 1\n\n");
}

TEST(ServeHttp, ErrorsBeforeAndAfterTheHeadOfAStream) {
  Served served;
  RawClient before = served.client();
  before.send(post("/hold", "x"));
  auto exchange = served.inbox.next();
  exchange->begin_events();
  exchange->fail(503, error_body({}, 503, "m", "timeout"), {{"Retry-After", "1"}});
  const std::string answer = before.read_all();
  EXPECT_EQ(status_of(answer), 503) << answer;
  EXPECT_TRUE(has(answer, "Retry-After: 1\r\n"));
  EXPECT_EQ(content_of(answer), error_body({}, 503, "m", "timeout"));

  RawClient after = served.client();
  after.send(post("/hold", "x"));
  exchange = served.inbox.next();
  exchange->event("1");
  exchange->fail(503, error_body({}, 503, "m", "timeout"));
  // The two may come in one chunk or in two.
  const std::string stream = after.read_all();
  EXPECT_EQ(status_of(stream), 200);
  EXPECT_TRUE(has(stream, "data: 1\n\n")) << stream;
  EXPECT_TRUE(has(stream, "data: " + error_body({}, 503, "m", "timeout") + "\n\n")) << stream;
  EXPECT_TRUE(stream.ends_with("0\r\n\r\n"));
}

TEST(ServeHttp, HandlesDroppedExchangesAndExceptions) {
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
  const std::string preflight =
      served.ask("OPTIONS /echo HTTP/1.1\r\n" + kHost + origin +
                 "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: "
                 "authorization,x-a\r\n\r\n");
  EXPECT_EQ(status_of(preflight), 204);
  EXPECT_TRUE(has(preflight, "Access-Control-Allow-Origin: https://app.example\r\n")) << preflight;
  EXPECT_TRUE(has(preflight, "Access-Control-Allow-Headers: authorization, x-a\r\n")) << preflight;
  EXPECT_FALSE(has(preflight, "Content-Length")) << preflight;
  const std::string answer =
      served.ask(post("/echo", "x", origin + "Authorization: Bearer sk-one\r\n"));
  EXPECT_EQ(status_of(answer), 200);
  EXPECT_TRUE(has(answer, "Access-Control-Allow-Origin: https://app.example\r\nVary: Origin\r\n"))
      << answer;
  EXPECT_FALSE(has(served.ask("OPTIONS /echo HTTP/1.1\r\n" + kHost + kClose +
                              "Origin: https://evil.example\r\n\r\n"),
                   "Access-Control"));
}

TEST(ServeHttp, RefusalsHaveTheFormOfTheirPath) {
  const Served served([](ServerOptions& options) { options.access.keys = {"sk-one"}; });
  const std::string stranger = kClose + "Origin: https://evil.example\r\n",
                    other_host = "Host: evil.example\r\n" + kClose;
  const auto body = [&](const std::string& path, const std::string& fields, int status) {
    std::string request = get(path, fields);
    if (has(fields, "Host:")) request.erase(request.find(kHost), kHost.size());
    const std::string answer = served.ask(request);
    EXPECT_EQ(status_of(answer), status) << path;
    return content_of(answer);
  };
  for (const auto& [fields, status] :
       {std::pair{stranger, 403}, std::pair{other_host, 403}, std::pair{kClose, 401}}) {
    EXPECT_TRUE(body("/v1/messages", fields, status).starts_with(R"({"type":"error","error":{)"));
    EXPECT_TRUE(body("/api/chat", fields, status).starts_with(R"({"error":")"));
    EXPECT_TRUE(body("/v1/models", fields, status).starts_with(R"({"error":{"message")"));
  }
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
}  // namespace cria::serve::test
