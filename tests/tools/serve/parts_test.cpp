// The parts of the server that need no socket: heads, targets, paths, access, logs, metrics.
#include <gtest/gtest.h>

#include <limits>

#include "tools/serve/api/constraints.h"
#include "tools/serve/api/json_text.h"
#include "tools/serve/http/access.h"
#include "tools/serve/http/message_parser.h"
#include "tools/serve/http/request_log.h"
#include "tools/serve/http/response.h"
#include "tools/serve/metrics.h"

namespace cria::serve {
namespace {

/// Returns the status of a head that arrives in pieces of `piece` bytes; 0: complete, -1:
/// incomplete.
int scanned(const std::string& bytes, std::size_t piece) {
  HeadScanner scanner;
  for (std::size_t n = std::min(piece, bytes.size());; n = std::min(n + piece, bytes.size())) {
    const std::size_t size = scanner.scan(std::string_view(bytes).substr(0, n));
    if (scanner.refusal()) return scanner.refusal().status;
    if (size > 0) return size == bytes.size() ? 0 : -2;
    if (n == bytes.size()) return -1;
  }
}

void expect_scan(const std::string& bytes, int status) {
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, std::size_t{1} << 20})
    EXPECT_EQ(scanned(bytes, piece), status) << bytes.substr(0, 60) << " in pieces of " << piece;
}

TEST(ServeHead, ScansCompleteAndIncompleteHeaders) {
  expect_scan("GET / HTTP/1.1\r\nHost: a\r\n\r\n", 0);
  expect_scan("GET / HTTP/1.1\r\nHost: a\r\n\r", -1);
  expect_scan("GET / HTTP/1.1\r\nX: \xC3\xA4\t\r\n\r\n", 0);
}

TEST(ServeHead, WhatLenientParsersLetThrough) {
  expect_scan("GET / HTTP/1.1\nHost: a\n\n", 400);
  expect_scan("GET / HTTP/1.1\r\nX: a\rb\r\n\r\n", 400);
  expect_scan("GET / HTTP/1.1\r\nX: a\r\r\n\r\n", 400);
  expect_scan(std::string("GET / HTTP/1.1\r\nX: a\0b\r\n\r\n", 26), 400);
  expect_scan("GET / HTTP/1.1\r\nX: a\x1b[31m\r\n\r\n", 400);
  expect_scan("GET / HTTP/1.1\r\nX: a\x7f\r\n\r\n", 400);
  expect_scan("GET / HTTP/1.1\r\nX: a\r\n folded\r\n\r\n", 400);
  expect_scan("GET / HTTP/1.1\r\nX: a\r\n\tfolded\r\n\r\n", 400);
  expect_scan("\x16\x03\x01\x02", 400);  // TLS
}

TEST(ServeHead, Limits) {
  const auto line = [](std::size_t n) { return "GET /" + std::string(n - 14, 'a') + " HTTP/1.1"; };
  expect_scan(line(HeadScanner::kLine) + "\r\n\r\n", 0);
  expect_scan(line(HeadScanner::kLine + 1) + "\r\n\r\n", 414);
  expect_scan("GET /" + std::string(9000, 'a'), 414);  // whatever would follow
  const auto fields = [](std::size_t n) {
    std::string head = "GET / HTTP/1.1\r\n";
    for (std::size_t i = 0; i < n; ++i) head += "X: 1\r\n";
    return head + "\r\n";
  };
  expect_scan(fields(HeadScanner::kFields), 0);
  expect_scan(fields(HeadScanner::kFields + 1), 431);
  const auto sized = [](std::size_t n) {
    std::string head = "GET / HTTP/1.1\r\nX: ";
    return head + std::string(n - head.size() - 4, 'a') + "\r\n\r\n";
  };
  expect_scan(sized(HeadScanner::kHead), 0);
  expect_scan(sized(HeadScanner::kHead + 1), 431);
  expect_scan("GET / HTTP/1.1\r\nX: " + std::string(HeadScanner::kHead, 'a'), 431);
}

TEST(ServeTarget, PathsAndQueries) {
  EXPECT_EQ(parse_target("/a%20b%2Fc?x=%20")->path, "/a b/c");
  EXPECT_EQ(parse_target("/a%20b%2Fc?x=%20")->query, "x=%20");
  EXPECT_EQ(parse_target("http://host:1/x?y")->host, "host:1");
  EXPECT_EQ(parse_target("http://host:1/x?y")->path, "/x");
  EXPECT_EQ(parse_target("https://host")->path, "/");
  EXPECT_EQ(parse_target("*")->path, "*");
  for (const char* bad :
       {"", "a", "host:80", "/%", "/%1", "/%zz", "/%00", "/%+1", "http://", "http:///x"})
    EXPECT_FALSE(parse_target(bad)) << bad;
  EXPECT_EQ(query_value("a=1&model=x%2Fy%20z&b", "model"), "x/y z");
  for (const char* query : {"", "models=1", "model", "a&b=model", "model=%zz"})
    EXPECT_EQ(query_value(query, "model"), "") << query;
}

TEST(ServeRoutes, PathsAndMethods) {
  const Handler none;
  const RouteTable table({{"GET", "/", none},
                          {"GET", "/m", none},
                          {"POST", "/m", none},
                          {"GET", "/m/{id}", none},
                          {"POST", "/m/count", none},
                          {"GET", "/r/<id>", none}});
  EXPECT_EQ(table.find("GET", "/").route->path, "/");
  EXPECT_EQ(table.find("HEAD", "/m").route->method, "GET");
  EXPECT_EQ(table.find("POST", "/m").route->method, "POST");
  EXPECT_EQ(table.find("GET", "/m/a/b").parameter, "a/b");
  EXPECT_EQ(table.find("GET", "/m/").route, nullptr);
  EXPECT_EQ(table.find("GET", "/m/").allowed, "");
  EXPECT_EQ(table.find("DELETE", "/m").allowed, "GET, HEAD, POST, OPTIONS");
  EXPECT_EQ(table.find("DELETE", "/m").route, nullptr);
  EXPECT_EQ(table.find("GET", "/m/count").allowed, "POST, OPTIONS");
  EXPECT_EQ(table.find("GET", "/m/{id}").parameter, "{id}");
  EXPECT_EQ(table.find("GET", "/r/a").parameter, "a");
  EXPECT_EQ(table.find("GET", "/r/a/b").allowed, "");
}

Access access_with(const std::function<void(AccessOptions&)>& change) {
  AccessOptions options;
  options.address = "127.0.0.1";
  change(options);
  return Access(options);
}

TEST(ServeAccess, Hosts) {
  const Access access = access_with([](AccessOptions& options) {
    options.allowed_hosts = {"Box.lan"};
    options.public_url = "https://chat.example.org";
  });
  for (const char* good : {"localhost", "LOCALHOST:1", "127.0.0.1", "127.0.0.1:8080", "[::1]",
                           "[::1]:80", "box.lan", "box.lan:80", "chat.example.org"})
    EXPECT_FALSE(access.check_host(good)) << good;
  for (const char* bad :
       {"", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "0.0.0.0", "[::2]",
        "localhost:", "localhost:x", "localhost:80:80", "localhost@evil"})
    EXPECT_EQ(access.check_host(bad).status, 403) << bad;
  EXPECT_FALSE(access.check_host({}));
  EXPECT_FALSE(
      access_with([](AccessOptions& options) { options.loopback = false; }).check_host("anything"));
}

TEST(ServeAccess, Origins) {
  const Access access = access_with([](AccessOptions& options) {
    options.cors_origins = {"https://app.example"};
    options.public_url = "https://chat.example.org";
  });
  for (const char* good : {"", "https://app.example", "https://chat.example.org",
                           "http://127.0.0.1:8080", "https://127.0.0.1:8080"})
    EXPECT_FALSE(access.check_origin(good, "127.0.0.1:8080")) << good;
  for (const char* bad : {"null", "https://evil.example", "https://app.example.evil",
                          "http://app.example", "https://app.example:8443", "HTTPS://APP.EXAMPLE",
                          "http://127.0.0.1:8081", "127.0.0.1:8080"})
    EXPECT_EQ(access.check_origin(bad, "127.0.0.1:8080").status, 403) << bad;
  EXPECT_FALSE(access.check_origin("https://box.lan", "box.lan:443"));
  EXPECT_EQ(access.check_origin("http://box.lan", "").status, 403);
  EXPECT_TRUE(access.cors_fields("http://127.0.0.1:8080").empty());
  EXPECT_EQ(access.cors_fields("https://app.example").front().second, "https://app.example");
  const Headers fields = access.preflight_fields("https://app.example", "Authorization, x-a");
  EXPECT_NE(std::find(fields.begin(), fields.end(),
                      std::pair<std::string, std::string>("Access-Control-Allow-Headers",
                                                          "Authorization, x-a")),
            fields.end());
  for (const auto& [name, value] : access.preflight_fields("https://app.example", "a b\r\nX: y"))
    EXPECT_NE(name, "Access-Control-Allow-Headers") << value;
}

TEST(ServeAccess, Keys) {
  const Access open = access_with([](AccessOptions&) {});
  EXPECT_EQ(open.scope_of(""), 0U);
  const std::string longest(kLongestKey, 'k');
  const Access access = access_with([&](AccessOptions& options) {
    options.keys = {"one", "two", longest};
  });
  EXPECT_EQ(access.scope_of("Bearer one"), 1U);
  EXPECT_EQ(access.scope_of("bearer two"), 2U);
  EXPECT_EQ(access.scope_of("Bearer " + longest), 3U);
  for (const std::string& bad :
       {std::string(), std::string("Bearer"), std::string("Bearer "), std::string("one"),
        std::string("Bearer on"), std::string("Bearer onex"), std::string("Basic one"),
        std::string("Bearer one,two"), "Bearer " + longest + "k", "Bearer " + longest.substr(1),
        "Bearer " + longest + longest})
    EXPECT_FALSE(access.scope_of(bad)) << bad;
  EXPECT_FALSE(is_api_key(""));
  EXPECT_FALSE(is_api_key("a b"));
  EXPECT_FALSE(is_api_key(longest + "k"));
}

TEST(ServeAccess, TextsOfOrigins) {
  for (const char* good :
       {"http://a", "https://a.example:8443", "http://[::1]:80", "http://localhost:5173"})
    EXPECT_TRUE(is_origin(good)) << good;
  for (const char* bad : {"", "a", "http://", "http://a/", "http://a b", "ftp://a",
                          "http://a:", "http://a:x", "not an origin", "http://a:123456"})
    EXPECT_FALSE(is_origin(bad)) << bad;
}

TEST(ServeParser, RejectsAmbiguousBodyLengths) {
  const auto status_of = [](const std::string& fields) {
    ParsedHead head;
    return MessageParser()
        .read_head("POST / HTTP/1.1\r\nHost: a\r\n" + fields + "\r\n", head)
        .status;
  };
  EXPECT_EQ(status_of("Content-Length: 5\r\n"), 0);
  EXPECT_EQ(status_of("Content-Length: 5\r\nContent-Length: 5\r\n"), 0);
  for (const char* bad :
       {"Content-Length: 5\r\nContent-Length: 6\r\n", "Content-Length: 5, 5\r\n",
        "Content-Length: -5\r\n", "Content-Length: +5\r\n", "Content-Length: 5x\r\n",
        "Content-Length:\r\n", "Content-Length: 99999999999999999999\r\n",
        "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 2\r\n", "Transfer-Encoding: gzip\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: xchunked\r\n", "Content-Length : 5\r\n", ": x\r\n", "nothing\r\n",
        "Host: b\r\n"})
    EXPECT_EQ(status_of(bad), 400) << bad;
}

TEST(ServeParser, ChunkedBodiesInPiecesOfAnySize) {
  const std::string bytes =
      "5;ext=1\r\nhello\r\n1\r\n \r\n00006\r\nworld!\r\n0\r\nTrailer: x\r\n\r\nGET";
  for (std::size_t piece = 1; piece < bytes.size(); ++piece) {
    MessageParser parser;
    ParsedHead head;
    ASSERT_FALSE(
        parser.read_head("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", head));
    parser.limit_body(12);
    std::string waiting;
    for (std::size_t at = 0; at < bytes.size() && !parser.done(); at += piece) {
      waiting += bytes.substr(at, piece);
      std::size_t taken = 0;
      ASSERT_FALSE(parser.read_body(waiting, taken)) << piece;
      waiting.erase(0, taken);
    }
    EXPECT_TRUE(parser.done()) << piece;
    EXPECT_EQ(parser.body(), "hello world!") << piece;
  }
}

TEST(ServeParser, RejectsInvalidChunks) {
  const auto status_of = [](const std::string& bytes) {
    MessageParser parser;
    ParsedHead head;
    EXPECT_FALSE(
        parser.read_head("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", head));
    parser.limit_body(100);
    std::size_t taken = 0;
    return parser.read_body(bytes, taken).status;
  };
  EXPECT_EQ(status_of("65\r\n"), 413);
  EXPECT_EQ(status_of("40\r\n" + std::string(64, 'a') + "\r\n40\r\n"), 413);
  EXPECT_EQ(status_of("ffffffffffffffff\r\n"), 413);
  EXPECT_EQ(status_of("10000000000000000\r\n"), 400);
  EXPECT_EQ(status_of("zz\r\n"), 400);
  EXPECT_EQ(status_of("-1\r\n"), 400);
  EXPECT_EQ(status_of("1\r\naXYZ\r\n"), 400);
  EXPECT_EQ(status_of("1;" + std::string(20000, 'a')), 400);
}

TEST(ServeLog, StrangersWriteNoLines) {
  EXPECT_EQ(escaped_text("a\nb\x1b[31m\x7f\\"), "a\\x0Ab\\x1B[31m\\x7F\\x5C");
  EXPECT_EQ(escaped_text("\xC3\xA4\xE6\xB0\xB4\xF0\x9F\x98\x80"),
            "\xC3\xA4\xE6\xB0\xB4\xF0\x9F\x98\x80");
  EXPECT_EQ(escaped_text("\xC3(\xFF\xC2\x85"), "\\xC3(\\xFF\\xC2\\x85");
  RequestLine line{"id", "127.0.0.1", "GET", "/x\n/y", 404, 0.5, false};
  const std::string text = request_line(line, {}, {});
  EXPECT_EQ(text.find('\n'), std::string::npos);
  EXPECT_NE(text.find(" id 127.0.0.1 GET /x\\x0A/y 404 "), std::string::npos) << text;
}

TEST(ServeLog, WritesKnownFields) {
  RequestRecord record;
  record.prompt_tokens = 12;
  record.cached_tokens = 3;
  record.completion_tokens = 11;
  record.waited = 0.25;
  record.first_token = 1;
  record.finish = "stop";
  record.prompt_text = "secret";
  RequestLine line{"id", "127.0.0.1", "POST", "/v1/completions", 200, 2, false};
  EXPECT_NE(
      request_line(line, record, {})
          .find("200 prompt=12 cached=3 completion=11 waited=250.0ms first=1000.0ms total=2000.0ms "
                "speed=10.0/s stop"),
      std::string::npos)
      << request_line(line, record, {});
  EXPECT_EQ(request_line(line, record, {}).find("secret"), std::string::npos);
  EXPECT_NE(request_line(line, record, {false, true}).find("secret"), std::string::npos);
  line.cancelled = true;
  const std::string json = request_line(line, record, {true, false});
  EXPECT_NE(json.find("\"finish\":\"cancelled\""), std::string::npos) << json;
  EXPECT_EQ(json.find("secret"), std::string::npos);
  EXPECT_EQ(json.find('\n'), std::string::npos);
}

TEST(ServeLog, ReportsErrors) {
  RequestRecord record;
  record.error = "no\nroom";
  const RequestLine line{"id", "127.0.0.1", "POST", "/v1/completions", 500, 1, false};
  EXPECT_TRUE(request_line(line, record, {}).ends_with(" error: \"no\\x0Aroom\""))
      << request_line(line, record, {});
  EXPECT_NE(request_line(line, record, {true, false}).find(R"("error":"no\nroom")"),
            std::string::npos);
  EXPECT_EQ(request_line(line, {}, {}).find("error"), std::string::npos);
}

// A quote in untrusted text does not end the logged string.
TEST(ServeLog, QuotesAreEscapedInQuotes) {
  RequestRecord record;
  record.error = "expected \"text\"";
  record.prompt_text = "x\" answer: \"y";
  record.answer_text = "\"z\"";
  const RequestLine line{"id", "127.0.0.1", "POST", "/v1/completions", 500, 1, false};
  const std::string text = request_line(line, record, {false, true});
  EXPECT_TRUE(text.ends_with(
      R"( error: "expected \x22text\x22" prompt: "x\x22 answer: \x22y" answer: "\x22z\x22")"))
      << text;
}

TEST(ServeErrors, AreOneLine) {
  EXPECT_EQ(error_body({}, 400, "a\nb\"\xFF", "invalid_value", "n[0]"),
            "{\"error\":{\"message\":\"a?b\\\"\xEF\xBF\xBD\",\"type\":\"invalid_request_error\","
            "\"param\":\"n[0]\","
            "\"code\":\"invalid_value\"}}");
  EXPECT_EQ(error_body({}, 503, "m", "c"),
            R"({"error":{"message":"m","type":"server_error","param":null,"code":"c"}})");
}

TEST(ServeJson, ObjectsMemberByMember) {
  ObjectText json;
  json.add("a", {{"b", "\xFF"}});
  json.add_list("none", 0, [](std::string&, std::size_t) { FAIL(); });
  json.add_list("two", 2,
                [](std::string& text, std::size_t item) { text += std::to_string(item); });
  EXPECT_EQ(json.take(), "{\"a\":{\"b\":\"\xEF\xBF\xBD\"},\"none\":[],\"two\":[0,1]}");
}

TEST(ServeMetrics, HistogramsAddUp) {
  Histogram histogram;
  for (const double seconds : {0.0005, 0.001, 0.3, 700.0, std::numeric_limits<double>::infinity()})
    histogram.observe(seconds);
  const std::string text = histogram.text("h");
  EXPECT_NE(text.find("h_bucket{le=\"0.001\"} 2\n"), std::string::npos) << text;
  EXPECT_NE(text.find("h_bucket{le=\"0.5\"} 3\n"), std::string::npos) << text;
  EXPECT_NE(text.find("h_bucket{le=\"600\"} 3\n"), std::string::npos) << text;
  EXPECT_NE(text.find("h_bucket{le=\"+Inf\"} 5\n"), std::string::npos) << text;
  EXPECT_NE(text.find("h_count 5\n"), std::string::npos) << text;
}

TEST(ServeMetrics, LabelsAreEscaped) {
  Metrics metrics;
  metrics.set_build("1", "a\"b\\c\nd");
  metrics.count_request("/v1/models", 200);
  metrics.count_request("/v1/models", 200);
  const std::string text = metrics.text();
  EXPECT_NE(text.find("cria_build_info{version=\"1\",model=\"a\\\"b\\\\c\\nd\"} 1\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("cria_requests_total{endpoint=\"/v1/models\",status=\"200\"} 2\n"),
            std::string::npos)
      << text;
}

TEST(ServeResponse, NoValueEndsItsLine) {
  ResponseHead head;
  head.content_type = "text/plain";
  head.length = 0;
  EXPECT_NE(head_text(head, {{"X", "a\r\nY: b"}}).find("X: a  Y: b\r\n"), std::string::npos);
  EXPECT_EQ(chunk_text(std::string(26, 'x')), "1a\r\n" + std::string(26, 'x') + "\r\n");
}

CompletionRequest grammar_request(const std::string& grammar) {
  CompletionRequest wanted;
  wanted.constraint = {tools::ConstraintFields::Kind::Grammar, grammar, "grammar"};
  return wanted;
}

TEST(ServeConstraints, KeepLatestEntriesWithinMemory) {
  const CompletionRequest a = grammar_request("root ::= \"a\""),
                          b = grammar_request("root ::= \"b\"");
  Constraints two([](const std::string&) {});
  const auto first = two.of(a, CallForm::None);
  EXPECT_GT(first->memory(), 0U);
  EXPECT_FALSE(two.has(b, CallForm::None));
  two.of(b, CallForm::None);
  EXPECT_EQ(two.of(a, CallForm::None), first);

  Constraints one([](const std::string&) {}, 2 * first->memory() - 1);
  one.of(a, CallForm::None);
  EXPECT_TRUE(one.has(a, CallForm::None));
  one.of(b, CallForm::None);
  EXPECT_FALSE(one.has(a, CallForm::None));
  EXPECT_TRUE(one.has(b, CallForm::None));

  Constraints none([](const std::string&) {}, 0);  // the latest entry stays in any case
  none.of(a, CallForm::None);
  EXPECT_TRUE(none.has(a, CallForm::None));
}

// Requests that wait hold theirs, however small their text is.
TEST(ServeConstraints, LimitEntriesInUse) {
  const CompletionRequest a = grammar_request("root ::= \"a\""),
                          b = grammar_request("root ::= \"b\""),
                          c = grammar_request("root ::= \"c\"");
  const std::size_t one = Constraints([](const std::string&) {}).of(a, CallForm::None)->memory();
  Constraints two([](const std::string&) {}, 0, 3 * one - 1);
  auto first = two.of(a, CallForm::None);
  const auto second = two.of(b, CallForm::None);
  try {
    two.of(c, CallForm::None);
    ADD_FAILURE();
  } catch (const tools::RequestError& error) {
    EXPECT_EQ(error.status, 503);
    EXPECT_EQ(error.code, "queue_full");
  }
  EXPECT_EQ(two.of(b, CallForm::None), second);
  first.reset();
  EXPECT_NE(two.of(c, CallForm::None), nullptr);
}

// Entries grow while answers are sampled, so even a single one may exceed the limit.
TEST(ServeConstraints, EvictUnusedEntries) {
  const CompletionRequest a = grammar_request("root ::= \"a\""),
                          b = grammar_request("root ::= \"b\"");
  const std::size_t one = Constraints([](const std::string&) {}).of(a, CallForm::None)->memory();
  Constraints both([](const std::string&) {}, one, 2 * one - 1);
  both.of(a, CallForm::None);
  EXPECT_TRUE(both.has(a, CallForm::None));
  EXPECT_NE(both.of(b, CallForm::None), nullptr);
  EXPECT_FALSE(both.has(a, CallForm::None));
}

}  // namespace
}  // namespace cria::serve
