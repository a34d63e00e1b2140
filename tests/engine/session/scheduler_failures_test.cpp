// Answers that are cancelled or fail, and calls that throw: others do not notice.
#include <gtest/gtest.h>

#include "engine/scheduler.h"
#include "tests/engine/demo.h"
#include "tests/engine/session/scheduler_requests.h"
#include "tests/engine/tiny_model.h"

namespace cria::test {
namespace {

TEST(Scheduler, CancelledBetweenSteps) {
  Engine engine(demo_model(), engine_options(2, 1));
  Scheduler scheduler(engine);
  std::vector<Ended> ended(4);
  std::vector<Wanted> wanted;
  std::vector<Scheduler::Id> ids;
  for (std::size_t i = 0; i < 4; ++i) {
    wanted.push_back({many_tokens(30 + i), greedy(30)});
    wanted.back().options.ignore_eos = true;
    ids.push_back(scheduler.add(request_of(wanted[i], ended[i])));
  }
  for (int i = 0; i < 8; ++i) scheduler.step();
  scheduler.cancel(ids[0]);  // is being written
  scheduler.cancel(ids[3]);  // waits
  while (scheduler.step()) continue;
  scheduler.cancel(ids[1]);  // has ended
  EXPECT_EQ(ended[0].reason, StopReason::Interrupted);
  EXPECT_GT(ended[0].tokens.size(), 0U);
  EXPECT_LT(ended[0].tokens.size(), 30U);
  EXPECT_EQ(ended[3].reason, StopReason::Interrupted);
  EXPECT_EQ(ended[3].times, 1);
  expect_as_alone(demo_model(), 256, wanted[1], ended[1]);
  expect_as_alone(demo_model(), 256, wanted[2], ended[2]);
}

TEST(Scheduler, FailuresAreOnesOwn) {
  TinyModel tiny;
  tiny.edit = [](const std::string& tensor, std::vector<float>& values) {
    if (tensor == "token_embd.weight") values[7 * 64] = std::numeric_limits<float>::infinity();
  };
  const auto model = tiny.load();
  Engine engine(*model, engine_options(4, 1));
  Scheduler scheduler(engine);
  std::vector<Ended> ended(4);
  const std::vector<Wanted> wanted = {{{1, 20, 30}, greedy(20)},
                                      {{1, 7, 30}, greedy(20)},  // no finite number
                                      {std::vector<TokenId>(300, 5), greedy(20)},
                                      {{1, 40}, greedy(20)}};
  std::vector<Wanted> all = wanted;
  for (Wanted& w : all)
    w.options.sampler.logit_bias = {{7, -std::numeric_limits<float>::infinity()}};
  for (std::size_t i = 0; i < all.size(); ++i) scheduler.add(request_of(all[i], ended[i]));
  while (scheduler.step()) continue;
  EXPECT_NE(ended[1].error.find("token_embd.weight"), std::string::npos) << ended[1].error;
  EXPECT_NE(ended[2].error.find("the prompt does not fit"), std::string::npos) << ended[2].error;
  expect_as_alone(*model, 256, all[0], ended[0]);
  expect_as_alone(*model, 256, all[3], ended[3]);
  // An answer that fails before any evaluation has freed its sequence when its end is reported.
  Ended outside;
  scheduler.add(request_of({{-1}, greedy(4)}, outside));
  EXPECT_FALSE(scheduler.step());
  EXPECT_NE(outside.error, "");
  EXPECT_EQ(scheduler.active(), 0U);
}

// Stopping a step also stops its search for the failing answer, which evaluates all tokens of an
// answer again.
TEST(Scheduler, StopsTheSearchForAFailingAnswer) {
  TinyModel tiny;
  tiny.edit = [](const std::string& tensor, std::vector<float>& values) {
    if (tensor == "token_embd.weight") values[7 * 64] = std::numeric_limits<float>::infinity();
  };
  const auto model = tiny.load();
  Engine engine(*model, engine_options(2, 1));
  Scheduler scheduler(engine);
  std::vector<Ended> ended(2);
  std::atomic<bool> stop = false;
  Wanted good{{1, 20, 30}, greedy(20)};
  good.options.sampler.logit_bias = {{7, -std::numeric_limits<float>::infinity()}};
  AnswerRequest stopping = request_of(good, ended[0]);
  stopping.on_first_token = [&stop](double) { stop = true; };
  scheduler.add(stopping);
  scheduler.add(request_of({{1, 7, 30}, greedy(20)}, ended[1]));
  while (!stop) scheduler.step(&stop);
  EXPECT_NE(ended[1].error.find("was stopped"), std::string::npos) << ended[1].error;
  while (scheduler.step()) continue;
  expect_as_alone(*model, 256, good, ended[0]);
}

TEST(Scheduler, ReportsExceptions) {
  Engine engine(demo_model(), engine_options(2, 1));
  Scheduler scheduler(engine);
  std::vector<Ended> ended(2);
  std::vector<std::string> thrown(2);
  for (std::size_t i = 0; i < 2; ++i) {
    AnswerRequest request = request_of({{1, 300, 301}, greedy(4)}, ended[i]);
    if (i == 0)
      request.sink = [](std::string_view) -> bool { throw std::bad_alloc(); };
    else
      request.prompt.assign(300, 5);
    request.on_error = [&, i](const std::exception_ptr& error) {
      EXPECT_EQ(ended[i].times, 0);
      try {
        std::rethrow_exception(error);
      } catch (const std::bad_alloc&) {
        thrown[i] = "memory";
      } catch (const ContextOverflow&) {
        thrown[i] = "context";
      }
    };
    scheduler.add(std::move(request));
  }
  while (scheduler.step()) continue;
  EXPECT_EQ(thrown, (std::vector<std::string>{"memory", "context"}));
  EXPECT_EQ(ended[0].error, "out of memory");
  EXPECT_NE(ended[1].error.find("the prompt does not fit"), std::string::npos) << ended[1].error;
}

// A callback for an end may cancel any answer, including its own, in any state: waiting, active or
// ended.
TEST(Scheduler, AnEndMayCancelOthers) {
  Engine engine(demo_model(), engine_options(3, 1));
  Scheduler scheduler(engine);
  std::vector<Ended> ended(7);
  std::vector<Scheduler::Id> ids(ended.size());
  const auto add = [&](std::size_t i, const Wanted& wanted,
                       const std::vector<std::size_t>& cancelled) {
    AnswerRequest request = request_of(wanted, ended[i]);
    const auto on_end = request.on_end;
    request.on_end = [&, cancelled, on_end](const GenerateResult& result,
                                            const std::optional<Error>& error) {
      on_end(result, error);
      for (const std::size_t other : cancelled) scheduler.cancel(ids[other]);
    };
    ids[i] = scheduler.add(request);
  };
  Wanted few{many_tokens(20), greedy(4)}, many{many_tokens(20), greedy(40)};
  for (Wanted* const wanted : {&few, &many}) wanted->options.ignore_eos = true;
  add(0, {std::vector<TokenId>(300, 5), greedy(4)}, {0, 6});  // cannot begin
  add(1, many, {});
  add(2, few, {1, 2, 3});
  add(3, many, {});
  for (const std::size_t i : {4, 5, 6}) add(i, few, {});
  while (scheduler.step()) continue;
  for (const Ended& e : ended) EXPECT_EQ(e.times, 1);
  EXPECT_NE(ended[0].error, "");
  for (const std::size_t i : {1, 3, 6}) EXPECT_EQ(ended[i].reason, StopReason::Interrupted);
  for (const std::size_t i : {2, 4, 5}) expect_as_alone(demo_model(), 256, few, ended[i]);
}

// An exception of a sink ends its answer, in the middle or with the text held back until the end.
TEST(Scheduler, ExceptionsOfASinkEndItsAnswer) {
  Engine engine(demo_model(), engine_options(3, 1));
  Scheduler scheduler(engine);
  std::vector<Ended> ended(4);
  Wanted wanted{many_tokens(20), greedy(12)};
  wanted.options.ignore_eos = true;
  scheduler.add(request_of(wanted, ended[0]));
  for (const std::size_t i : {1, 2}) {
    AnswerRequest request = request_of(wanted, ended[i]);
    request.sink = [&e = ended[i], i](std::string_view piece) -> bool {
      e.streamed += piece;
      if (i == 2 || e.streamed.size() > 10) throw std::runtime_error("no more");
      return true;
    };
    if (i == 2) {  // all is held back until the end
      Session alone(demo_model(), {.n_ctx = 256, .threads = 1});
      request.options.stop = {alone.generate(wanted.prompt, wanted.options).text + "never"};
    }
    scheduler.add(request);
  }
  scheduler.add(request_of(wanted, ended[3]));
  while (scheduler.step()) continue;
  for (const Ended& e : ended) EXPECT_EQ(e.times, 1);
  for (const std::size_t i : {1, 2}) EXPECT_EQ(ended[i].error, "no more");
  EXPECT_LT(ended[1].tokens.size(), 12U);
  for (const std::size_t i : {0, 3}) expect_as_alone(demo_model(), 256, wanted, ended[i]);
}

// A progress callback may throw when prefill starts. The answer's pages are freed, and the pass
// does not include it.
TEST(Scheduler, HandlesExceptionsOfProgress) {
  Engine engine(demo_model(), engine_options(3, 1));
  Scheduler scheduler(engine);
  std::vector<Ended> ended(3);
  std::vector<Wanted> wanted;
  for (const TokenId first : {300, 301, 302})
    wanted.push_back({many_tokens(20), greedy(8)}), wanted.back().prompt[0] = first;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    AnswerRequest request = request_of(wanted[i], ended[i]);
    if (i == 1) request.options.progress = [](std::size_t, std::size_t) { throw Error("no more"); };
    scheduler.add(request);
  }
  while (scheduler.step()) continue;
  EXPECT_EQ(ended[1].error, "no more");
  EXPECT_EQ(ended[1].times, 1);
  for (const std::size_t i : {0, 2}) expect_as_alone(demo_model(), 256, wanted[i], ended[i]);
}

// Nor does what is thrown at the end of one take anything from the others.
TEST(Scheduler, HandlesExceptionsOfEnd) {
  Engine engine(demo_model(), engine_options(3, 1));
  Scheduler scheduler(engine);
  std::vector<Ended> ended(3);
  const std::vector<Wanted> wanted = {
      {{300}, greedy(4)}, {{301}, greedy(9)}, {{302}, greedy(4)}};  // two end within one step
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    AnswerRequest request = request_of(wanted[i], ended[i]);
    request.options.ignore_eos = true;
    request.options.speculate = Speculate::Off;
    if (i == 2)
      request.on_end = [](const GenerateResult&, const std::optional<Error>&) {
        throw std::runtime_error("no more");
      };
    scheduler.add(request);
  }
  int thrown = 0;
  for (bool more = true; more;) {
    try {
      more = scheduler.step();
    } catch (const std::runtime_error&) {
      ++thrown;
    }
  }
  EXPECT_EQ(thrown, 1);
  for (const std::size_t i : {0, 1}) {
    Wanted alone = wanted[i];
    alone.options.ignore_eos = true;
    expect_as_alone(demo_model(), 256, alone, ended[i]);
  }
}

TEST(Scheduler, ClearsAndRestartsAfterAnException) {
  const auto model = TinyModel().load();
  Engine engine(*model, engine_options(2, 1));
  Scheduler scheduler(engine);
  Random random(3);
  std::vector<Ended> dropped(3);
  for (Ended& ended : dropped) {
    AnswerRequest request = request_of(random_wanted(random, 256), ended);
    request.options.max_tokens = 5;
    request.on_first_token = [](double) { throw Error("nobody listens"); };
    scheduler.add(std::move(request));
  }
  EXPECT_THROW(while (scheduler.step()){}, Error);
  scheduler.clear();
  EXPECT_EQ(scheduler.active() + scheduler.waiting() + scheduler.positions(), 0U);
  EXPECT_FALSE(scheduler.step());
  for (const Ended& ended : dropped) EXPECT_EQ(ended.times, 0);

  const Wanted wanted = random_wanted(random, 256);
  Ended ended;
  scheduler.add(request_of(wanted, ended));
  while (scheduler.step()) {
  }
  expect_as_alone(*model, 256, wanted, ended);
}

}  // namespace
}  // namespace cria::test
