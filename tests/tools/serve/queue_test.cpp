// The server's queue: waiting, refused and cancelled requests.
#include <gtest/gtest.h>

#include <thread>

#include "tests/tools/serve/event.h"
#include "tests/tools/serve/questions.h"
#include "tests/tools/serve/served_demo.h"

namespace cria::serve::test {
namespace {

constexpr std::uint32_t kLongest = 1 << 16;  // no answer gets there while a test looks elsewhere
Json endless(const char* text) { return question(text, {{"ignore_eos", true}, {"stream", true}}); }

void wait_until_idle(const ServedDemo& demo) {
  const Metrics& now = demo.metrics();
  while (now.requests_running.value() + now.requests_waiting.value() +
             now.kv_positions_used.value() >
         0)
    std::this_thread::yield();
}

TEST(ServeQueue, ReportsTheMemoryItTakes) {
  ServiceOptions options;
  options.engine.prefix_cache = true;
  options.engine.prefix_cache_bytes = 64 << 20;
  ServedDemo demo(options);
  EXPECT_EQ(demo.service().summary(),
            "4 slots of 512 tokens, 8.00 MiB of keys and values, up to 64.0 MiB of cached prompts");
}

TEST(ServeQueue, OneMoreThanMayWaitIsRefused) {
  ServiceOptions options;
  options.engine.sequences = 2;
  options.engine.n_ctx = kLongest;
  options.queue = 1;
  ServedDemo demo(options);
  std::vector<std::shared_ptr<FakeExchange>> running;
  for (int i = 0; i < 2; ++i) {
    running.push_back(demo.ask(kChatPath, endless(kStory)));
    running.back()->wait_for_events(2);
  }
  const auto waiting = demo.ask(kChatPath, question("What is the capital of Norway?"));
  while (demo.metrics().requests_waiting.value() == 0) std::this_thread::yield();
  const auto refused = demo.answer(kChatPath, question(kCount));
  EXPECT_EQ(refused->status(), 503);
  EXPECT_EQ(refused->json()["error"]["code"], "queue_full");
  ASSERT_EQ(refused->headers().size(), 1U);
  EXPECT_EQ(refused->headers()[0].first, "Retry-After");
  EXPECT_GT(std::stoi(refused->headers()[0].second), 1);  // both may become 65,536 tokens
  for (const auto& one : running) one->close();
  waiting->wait();
  EXPECT_EQ(content(*waiting), "The capital of Norway is Oslo.");
  wait_until_idle(demo);
}

// However many answers a request has: what one takes in memory, it takes while it has a slot.
TEST(ServeQueue, AnswersAreMadeAsTheyBegin) {
  ServiceOptions options;
  options.engine.sequences = 2;
  ServedDemo demo(options);
  Event over;
  std::size_t made = 0, ended = 0, most = 0;  // used by the computing thread until `over`
  Job job;
  job.count = 100;
  job.answer = [&](std::size_t index) {
    EXPECT_EQ(index, made);
    most = std::max(most, ++made - ended);
    AnswerRequest request;
    request.prompt = {TokenId(index)};
    request.options.max_tokens = 1;
    request.on_end = [&](const GenerateResult&, const std::optional<Error>&) {
      if (++ended == 100) over.tell();
    };
    return request;
  };
  demo.service().submit(std::move(job));
  EXPECT_TRUE(over.wait());
  EXPECT_EQ(most, 2U);
}

TEST(ServeQueue, ReportsFailedAnswers) {
  ServedDemo demo;
  Event over;
  Failure told{};
  Job job;
  job.count = 2;
  job.answer = [](std::size_t index) -> AnswerRequest {
    if (index == 1) throw std::bad_alloc();
    AnswerRequest request;
    request.prompt = {1};
    return request;
  };
  job.on_failure = [&](const Failure& failure) {
    told = failure;
    over.tell();
  };
  demo.service().submit(std::move(job));
  EXPECT_TRUE(over.wait());
  EXPECT_EQ(told.code, "internal_error");
  EXPECT_EQ(content(*demo.answer(kChatPath, question("What is the capital of Norway?"))),
            "The capital of Norway is Oslo.");
}

TEST(ServeQueue, ClosedConnectionsFreeTheirSlots) {
  ServiceOptions options;
  options.engine.n_ctx = kLongest;
  ServedDemo demo(options);
  for (int round = 0; round < 3; ++round) {
    std::vector<std::shared_ptr<FakeExchange>> all;
    for (int i = 0; i < 12; ++i) all.push_back(demo.ask(kChatPath, endless(kStory)));
    // Two threads read requests: whose is the first to get a slot is not said.
    const auto is_written = [](const auto& one) { return one->has_events(3); };
    while (std::ranges::none_of(all, is_written)) std::this_thread::yield();
    EXPECT_GT(demo.metrics().kv_positions_used.value(), 0U);
    for (const auto& one : all) one->close();
    wait_until_idle(demo);
  }
  EXPECT_EQ(content(*demo.answer(kChatPath, question("What is the capital of Norway?"))),
            "The capital of Norway is Oslo.");
}

// Tokens of cancelled requests are counted and logged, too.
TEST(ServeQueue, WhatTheCancelledCost) {
  ServiceOptions options;
  options.engine.n_ctx = kLongest;
  options.engine.sequences = 2;
  ServedDemo demo(options);
  Json both = endless(kStory);
  both["n"] = 2;
  const auto gone = demo.ask(kChatPath, both);
  gone->wait_for_events(20);
  const auto waiting = demo.ask(kChatPath, endless(kCount));
  while (demo.metrics().requests_waiting.value() == 0) std::this_thread::yield();
  waiting->close();
  gone->close();
  wait_until_idle(demo);
  EXPECT_EQ(gone->record().prompt_tokens,
            demo.answer(kChatPath, question(kStory, {{"max_tokens", 1}}))
                ->json()["usage"]["prompt_tokens"]);
  EXPECT_GE(gone->record().completion_tokens, 10U);
  EXPECT_EQ(waiting->record().prompt_tokens, 0U);
}

TEST(ServeQueue, ShuttingDown) {
  ServiceOptions options;
  options.engine.n_ctx = kLongest;
  ServedDemo demo(options);
  std::vector<std::shared_ptr<FakeExchange>> running;
  for (int i = 0; i < 4; ++i) {
    running.push_back(demo.ask(kChatPath, endless(kStory)));
    running.back()->wait_for_events(2);
  }
  const auto waiting = demo.ask(kChatPath, question(kCount));
  while (demo.metrics().requests_waiting.value() == 0) std::this_thread::yield();
  demo.service().shut_down(std::chrono::milliseconds(50));
  waiting->wait();
  EXPECT_EQ(waiting->status(), 503);
  EXPECT_EQ(waiting->json()["error"]["code"], "shutting_down");
  demo.service().wait_for_end();
  for (const auto& one : running) {
    one->wait();
    EXPECT_EQ(Json::parse(one->events().back())["error"]["code"], "shutting_down");
  }
  EXPECT_EQ(demo.answer(kChatPath, question(kCount))->json()["error"]["code"], "shutting_down");
}

TEST(ServeQueue, EndsAnswersAtTheTimeLimit) {
  ServiceOptions options;
  options.engine.n_ctx = kLongest;
  options.request_timeout = std::chrono::milliseconds(100);
  ServedDemo demo(options);
  Json body = question(kStory, {{"ignore_eos", true}});
  const auto got = demo.answer(kChatPath, body);
  EXPECT_EQ(got->status(), 503);
  EXPECT_EQ(got->json()["error"]["code"], "timeout");
}

}  // namespace
}  // namespace cria::serve::test
