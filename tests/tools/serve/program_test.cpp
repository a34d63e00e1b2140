// `cria serve` as a program: what its options do, and how signals end it.
#include <gtest/gtest.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "tests/tools/process.h"
#include "tests/tools/serve/raw_client.h"

namespace cria::test {
namespace {

int status(const std::string& answer) {
  return answer.size() < 12 ? 0 : std::stoi(answer.substr(9, 3));
}
bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

/// A server of the demo model, on a port of its own.
class ServeProgram {
 public:
  explicit ServeProgram(const std::vector<std::string>& options = {})
      : child_(Child::Kind::Terminal, arguments(options)) {
    if (!child_.wait_for(" at http://127.0.0.1:") || !child_.wait_for(" (")) return;
    const std::string& said = child_.output();
    port_ = static_cast<std::uint16_t>(
        std::stoul(said.substr(said.find(" at http://127.0.0.1:") + 21)));
  }
  [[nodiscard]] Child& program() { return child_; }
  [[nodiscard]] RawClient connect() const { return RawClient(port_); }

  /// fields: of the head, each with its end of line. The whole answer.
  [[nodiscard]] std::string get(const std::string& path, const std::string& fields = kHost) const {
    return ask("GET " + path + " HTTP/1.1\r\nConnection: close\r\n" + fields + "\r\n");
  }
  [[nodiscard]] std::string complete(const nlohmann::json& request,
                                     const std::string& fields = kHost) const {
    return ask(completion(request, fields));
  }
  /// Waits until the server accepts no more requests; false if that takes too long.
  [[nodiscard]] bool is_closing() const {
    for (int i = 0; i < 5000; ++i, std::this_thread::sleep_for(std::chrono::milliseconds(1))) {
      try {
        if (status(get("/health")) != 200) return true;
      } catch (const std::runtime_error&) {  // no server at this port
        return true;
      }
    }
    return false;
  }
  static std::string completion(const nlohmann::json& request, const std::string& fields = kHost) {
    const std::string body = request.dump();
    return "POST /v1/completions HTTP/1.1\r\nConnection: close\r\n" + fields +
           "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  }

  inline static const std::string kHost = "Host: 127.0.0.1\r\n";

 private:
  static std::vector<std::string> arguments(const std::vector<std::string>& options) {
    std::vector<std::string> all = {"serve", "-m", kDemo, "--port", "0", "-t", "2"};
    all.insert(all.end(), options.begin(), options.end());
    return all;
  }
  [[nodiscard]] std::string ask(const std::string& request) const {
    RawClient client(port_);
    client.send(request);
    return client.read_all();
  }

  Child child_;
  std::uint16_t port_ = 0;
};

std::string key(const std::string& text) {
  return ServeProgram::kHost + "Authorization: Bearer " + text + "\r\n";
}

/// An answer of some hundred tokens; the model does not end it.
nlohmann::json long_answer(bool stream) {
  return {{"prompt", "Once upon a time"},
          {"max_tokens", 400},
          {"temperature", 0},
          {"stream", stream},
          {"logit_bias", {{"4", -100}}}};
}

TEST(ServeProgram, AsksForTheKeysOfItsFileAndOptions) {
  const TempDirectory directory;
  const std::string file = directory.write("keys", "first-key\n\n  second-key \n");
  ServeProgram server({"--api-key-file", file, "--api-key", "third-key"});
  EXPECT_EQ(status(server.get("/health")), 200);
  EXPECT_EQ(status(server.get("/v1/models")), 401);
  for (const char* const wrong : {"first", "first-key2", "fourth-key"})
    EXPECT_EQ(status(server.get("/v1/models", key(wrong))), 401) << wrong;
  for (const char* const right : {"first-key", "second-key", "third-key"})
    EXPECT_EQ(status(server.get("/v1/models", key(right))), 200) << right;
  server.program().signal(SIGTERM);
  EXPECT_EQ(server.program().exit_code(), 0);
  EXPECT_FALSE(has(server.program().output(), "-key")) << server.program().output();
}

TEST(ServeProgram, RejectsInvalidKeys) {
  const TempDirectory directory;
  const std::string empty = directory.write("empty", "\n \n"),
                    odd = directory.write("odd", "a\nb c\n");
  for (const std::string& file : {empty, odd, directory.path("none")}) {
    const Result result = cria({"serve", "-m", kDemo, "--port", "0", "--api-key-file", file});
    EXPECT_EQ(result.code, 1) << file;
    EXPECT_EQ(result.err.find("cria: error: " + file), 0U) << result.err;
    EXPECT_FALSE(has(result.err, "b c")) << result.err;
  }
}

TEST(ServeProgram, HasEveryFeatureOnByDefault) {
  ServeProgram server;
  EXPECT_TRUE(has(server.get("/"), "<!doctype html>"));
  EXPECT_TRUE(has(server.get("/v1/models"), "\"cria-demo-Q8_0\""));
  EXPECT_EQ(status(server.complete({{"model", "other"}, {"prompt", "a"}, {"max_tokens", 1}})), 200);
  EXPECT_EQ(status(server.get("/health", "Host: cria.example\r\n")), 403);
  server.program().signal(SIGINT);
  EXPECT_EQ(server.program().exit_code(), 0);
  EXPECT_TRUE(has(server.program().output(), " POST /v1/completions 200 "))
      << server.program().output();
}

TEST(ServeProgram, AppliesItsOptions) {
  ServeProgram server({"--no-web", "--alias", "small", "--strict-model", "--allowed-host",
                       "cria.example", "--max-body", "200", "--log-json"});
  EXPECT_EQ(status(server.get("/")), 404);
  EXPECT_TRUE(has(server.get("/v1/models"), "\"small\""));
  nlohmann::json request = {{"model", "other"}, {"prompt", "a"}, {"max_tokens", 1}};
  EXPECT_EQ(status(server.complete(request)), 404);
  request["model"] = "small";
  EXPECT_EQ(status(server.complete(request)), 200);
  request["prompt"] = std::string(200, 'a');
  EXPECT_EQ(status(server.complete(request)), 413);
  EXPECT_EQ(status(server.get("/health", "Host: cria.example\r\n")), 200);
  EXPECT_EQ(status(server.get("/health", "Host: evil.example\r\n")), 403);
  server.program().signal(SIGTERM);
  EXPECT_EQ(server.program().exit_code(), 0);
  std::istringstream lines(server.program().output());
  std::size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count)
    EXPECT_TRUE(nlohmann::json::accept(line)) << line;
  EXPECT_GE(count, 6U);
}

// Prompts of one client are not cached for others unless configured: the speed of an answer would
// reveal what others asked.
TEST(ServeProgram, KeepsWhatOneKeyHasReadFromTheOthers) {
  std::string prompt;
  for (int i = 0; i < 60; ++i) prompt += " word" + std::to_string(i);
  const nlohmann::json request = {{"prompt", prompt}, {"max_tokens", 1}};
  for (const bool shared : {false, true}) {
    ServeProgram server({"--api-key", "one", "--api-key", "two", "--cache-scope",
                         shared ? "all" : "key", "-c", "1024"});
    const std::string none = "\"cached_tokens\":0";
    EXPECT_TRUE(has(server.complete(request, key("one")), none));
    const std::string again = server.complete(request, key("one")),
                      other = server.complete(request, key("two"));
    EXPECT_EQ(status(again), 200) << again;
    EXPECT_EQ(status(other), 200) << other;
    EXPECT_FALSE(has(again, none)) << again;
    EXPECT_EQ(has(other, none), !shared) << other;
  }
}

TEST(ServeProgram, FinishesAnswersAtTheFirstSignal) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    ServeProgram server({"--grace", "60"});
    RawClient client = server.connect();
    client.send(ServeProgram::completion(long_answer(true)));
    ASSERT_TRUE(has(client.read_until("data: "), "data: "));
    server.program().signal(number);
    const std::string rest = client.read_all();
    EXPECT_TRUE(has(rest, "\"finish_reason\":\"length\"")) << number << rest;
    EXPECT_TRUE(has(rest, "data: [DONE]")) << number;
    EXPECT_EQ(server.program().exit_code(), 0) << number;
  }
}

TEST(ServeProgram, CutsAnswersAtTheSecondSignal) {
  ServeProgram server({"--grace", "60", "-c", "8192"});
  RawClient client = server.connect();
  nlohmann::json request = long_answer(true);
  request["max_tokens"] = 8000;
  client.send(ServeProgram::completion(request));
  ASSERT_TRUE(has(client.read_until("data: "), "data: "));
  server.program().signal(SIGTERM);
  ASSERT_TRUE(server.is_closing());
  server.program().signal(SIGTERM);
  EXPECT_EQ(server.program().exit_code(), 130);
  EXPECT_FALSE(has(client.read_all(), "data: [DONE]"));
}

// nohup: the terminal may close.
TEST(ServeProgram, IgnoresSighupUnderNohup) {
  const auto before = std::signal(SIGHUP, SIG_IGN);  // the program inherits it
  ServeProgram server;
  std::signal(SIGHUP, before);
  server.program().signal(SIGHUP);
  EXPECT_EQ(status(server.complete(long_answer(false))), 200);
  EXPECT_EQ(status(server.get("/health")), 200) << "and takes more";
  server.program().signal(SIGTERM);
  EXPECT_EQ(server.program().exit_code(), 0);
}

}  // namespace
}  // namespace cria::test
