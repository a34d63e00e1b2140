// Concurrent answers: each has the same bytes as in a session of its own, even when others start
// and end; the order in which they begin and are read.
#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include "engine/evaluate/scorer.h"
#include "tests/engine/demo.h"
#include "tests/engine/session/scheduler_requests.h"
#include "tests/engine/tiny_model.h"

namespace cria::test {
namespace {

TEST(Scheduler, AnswersMatchSeparateRuns) {
  for (const bool tiny : {true, false}) {
    const auto small = TinyModel().load();
    const Model& model = tiny ? *small : demo_model();
    Random random(tiny ? 1 : 2);
    EngineOptions options = engine_options(5, 2);
    options.positions = tiny ? 600 : 0;  // few pages: some must wait
    Engine engine(model, options);
    Scheduler scheduler(engine, {.prompt_tokens = 20});
    std::vector<Wanted> wanted(tiny ? 60 : 20);
    std::vector<Ended> ended(wanted.size());
    std::size_t added = 0, cached = 0;
    while (added < wanted.size() || scheduler.active() + scheduler.waiting() > 0) {
      for (std::size_t i = 0; i < 3 && added < wanted.size(); ++i, ++added) {
        wanted[added] = random_wanted(random, model.vocabulary_size());
        scheduler.add(request_of(wanted[added], ended[added]));
      }
      scheduler.step();
    }
    EXPECT_FALSE(scheduler.step());
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      expect_as_alone(model, 256, wanted[i], ended[i]);
      cached += ended[i].cached;
    }
    EXPECT_GT(cached, 0U) << "prefixes are shared";
  }
}

// Drafts by lookup, by a model (that is right, or has other weights) and from a text that is
// expected, right or wrong.
TEST(Scheduler, DraftsChangeNoAnswer) {
  const auto model = TinyModel().load();
  TinyModel other_tiny;
  other_tiny.n_layers = 1;
  other_tiny.n_kv_heads = {2};
  const auto other = other_tiny.load();
  for (const auto& draft : {std::shared_ptr<const Model>(), model, other}) {
    Random random(7);
    EngineOptions options = engine_options(5, 2);
    options.positions = 700;
    options.draft = draft;
    Engine engine(*model, options);
    Scheduler scheduler(engine, {.prompt_tokens = 24});
    std::vector<Wanted> wanted(30);
    std::vector<Ended> ended(wanted.size());
    std::size_t drafted = 0, kept = 0;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      wanted[i] = random_wanted(random, model->vocabulary_size());
      wanted[i].options.speculate = draft && i % 3 == 2 ? Speculate::Auto : Speculate::Lookup;
      wanted[i].options.max_tokens = 60;
      Session alone(*model, {.n_ctx = 256, .threads = 1});
      GenerateOptions off = wanted[i].options;
      off.speculate = Speculate::Off;
      const std::vector<TokenId> answer = alone.generate(wanted[i].prompt, off).tokens;
      if (i % 3 == 1) {
        wanted[i].options.expected = wanted[i].prompt;
        for (const TokenId token : answer)
          wanted[i].options.expected.push_back((token + i % 2) % 300);
      }
      AnswerRequest request = request_of(wanted[i], ended[i]);
      const auto on_end = request.on_end;
      request.on_end = [&, on_end](const GenerateResult& result,
                                   const std::optional<Error>& error) {
        on_end(result, error);
        drafted += result.drafted;
        kept += result.accepted;
        EXPECT_LE(result.accepted, result.drafted);
      };
      scheduler.add(request);
      if (i % 4 == 3) scheduler.step();
    }
    while (scheduler.step()) continue;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      wanted[i].options.speculate = Speculate::Off;
      expect_as_alone(*model, 256, wanted[i], ended[i]);
    }
    EXPECT_GT(kept, 0U);
    EXPECT_GT(drafted, kept);
  }
}

// The draft model's sequences end with the scheduler's answers, before the model is destroyed.
TEST(Scheduler, MayBeDroppedWhileDrafting) {
  const auto model = TinyModel().load();
  EngineOptions options = engine_options(2, 1);
  options.draft = model;
  Engine engine(*model, options);
  Ended ended;
  Wanted wanted{{1, 20, 30}, greedy(200)};
  wanted.options.ignore_eos = true;
  {
    Scheduler scheduler(engine);
    scheduler.add(request_of(wanted, ended));
    for (int i = 0; i < 10; ++i) scheduler.step();
    EXPECT_EQ(scheduler.active(), 1U);
  }
  EXPECT_EQ(ended.times, 0);
}

// A step never becomes larger by them than it may become by prompts.
TEST(Scheduler, DraftTokensDelayNoAnswer) {
  Engine engine(demo_model(), engine_options(3, 1));
  Scheduler scheduler(engine, {.prompt_tokens = 12});
  std::size_t rows = 0, largest = 0;
  engine.observe([&](const Node& node, std::span<const float> values, std::size_t width) {
    if (node.as<EmbedOp>() != nullptr) rows = values.size() / width;
  });
  std::vector<Ended> ended(3);
  GenerateOptions endless = greedy(80);
  endless.ignore_eos = true;
  endless.speculate = Speculate::Lookup;
  for (Ended& e : ended)
    scheduler.add(request_of({{1, 300, 301, 302, 300, 301, 302, 300, 301}, endless}, e));
  while (scheduler.active() + scheduler.waiting() > 0) {
    const bool first = scheduler.active() == 0;
    scheduler.step();
    if (!first) largest = std::max(largest, rows);
  }
  EXPECT_LE(largest, 3U + 12U);
  EXPECT_GT(largest, 3U);
}

TEST(Scheduler, TheSamePromptIsReadOnce) {
  Engine engine(demo_model(), engine_options(4, 1));
  Scheduler scheduler(engine);
  std::vector<Ended> ended(4);
  Wanted wanted{many_tokens(200), greedy(5)};
  for (Ended& e : ended) scheduler.add(request_of(wanted, e));
  while (scheduler.step()) continue;
  EXPECT_EQ(ended[0].cached, 0U);
  for (std::size_t i = 1; i < ended.size(); ++i)
    EXPECT_EQ(ended[i].cached, 199U) << "all but the last token";
  for (const Ended& e : ended) expect_as_alone(demo_model(), 256, wanted, e);
}

// Without a prefix cache, prompts do not wait for one another: prefill alternates between them.
TEST(Scheduler, DoesNotWaitForAnUncachedPrefix) {
  EngineOptions options = engine_options(2, 1);
  options.prefix_cache = false;
  Engine engine(demo_model(), options);
  Scheduler scheduler(engine);
  std::vector<Ended> ended(2);
  const Wanted wanted{many_tokens(200), greedy(5)};
  for (Ended& e : ended) scheduler.add(request_of(wanted, e));
  for (int i = 0; i < 2; ++i) scheduler.step();
  for (const Scheduler::Progress& p : scheduler.progress()) EXPECT_EQ(p.to_read, 200U - 64U);
  while (scheduler.step()) continue;
  for (const Ended& e : ended) expect_as_alone(demo_model(), 256, wanted, e);
}

TEST(Scheduler, FindsNoUncachedPrompt) {
  Engine engine(demo_model(), engine_options(4, 1));
  Scheduler scheduler(engine);
  std::vector<Ended> ended(4);
  const Wanted wanted{many_tokens(150), greedy(5)};
  for (std::size_t i = 0; i < ended.size(); ++i) {
    AnswerRequest request = request_of(wanted, ended[i]);
    request.cache_prompt = i == 2;
    request.scope = i == 3 ? 1 : 0;
    scheduler.add(request);
  }
  while (scheduler.step()) continue;
  for (const Ended& e : ended) {
    EXPECT_EQ(e.cached, 0U);
    expect_as_alone(demo_model(), 256, wanted, e);
  }
}

// A pass that is broken off changes nothing: what was found of the prompt is not read again.
TEST(Scheduler, AStoppedPassKeepsThePrefix) {
  Engine engine(demo_model(), engine_options(1, 1));
  Scheduler scheduler(engine);
  const Wanted wanted{many_tokens(150), greedy(4)};
  Ended first, second;
  scheduler.add(request_of(wanted, first));
  while (scheduler.step()) continue;
  AnswerRequest again = request_of(wanted, second);
  std::size_t read = 0;
  again.options.progress = [&read](std::size_t done, std::size_t total) {
    read = done;
    EXPECT_LE(done, total);
  };
  scheduler.add(again);
  const std::atomic<bool> stop = true;
  EXPECT_TRUE(scheduler.step(&stop));
  while (scheduler.step()) continue;
  EXPECT_EQ(second.cached, 149U);
  EXPECT_EQ(read, 1U);
  expect_as_alone(demo_model(), 256, wanted, second);
}

TEST(Scheduler, ChoicesReadTheirPromptOnce) {
  Engine engine(demo_model(), engine_options(2, 1));
  Scheduler scheduler(engine);
  std::vector<Ended> ended(5);
  Wanted wanted{many_tokens(100), greedy(20)};
  wanted.options.sampler.temperature = 1;
  wanted.options.sampler.seed = 11;
  for (std::size_t i = 0; i < ended.size(); ++i) {
    AnswerRequest one = choice(request_of(wanted, ended[i]), i);
    scheduler.add(one);
  }
  while (scheduler.step()) continue;
  for (std::size_t i = 0; i < ended.size(); ++i) {
    EXPECT_EQ(ended[i].cached, i == 0 ? 0U : 99U);
    Wanted alone = wanted;
    alone.options.sampler.seed = 11 + i;
    expect_as_alone(demo_model(), 256, alone, ended[i]);
  }
}

TEST(Scheduler, ReportsTheStartOfAnAnswer) {
  Engine engine(demo_model(), engine_options(1, 1));
  Scheduler scheduler(engine);
  std::vector<Ended> ended(3);
  std::string order;
  std::vector<double> times;
  for (std::size_t i = 0; i < ended.size(); ++i) {
    AnswerRequest request = request_of({{1, 300, 301}, greedy(i == 1 ? 0 : 4)}, ended[i]);
    request.options.ignore_eos = true;
    const auto note = [&order, &times, i](char what) {
      return [&order, &times, i, what](double seconds) {
        order += what;
        order += static_cast<char>('0' + i);
        times.push_back(seconds);
      };
    };
    request.on_begin = note('b');
    request.on_first_token = note('t');
    scheduler.add(request);
  }
  while (scheduler.step()) continue;
  EXPECT_EQ(order, "b0t0b1b2t2") << "an answer without tokens has no first";
  EXPECT_LE(times[0], times[1]);
  EXPECT_GE(times[3], times[1]) << "it has waited for the first answer";
}

// Positions held by other sequences of the engine are not reserved for answers.
TEST(Scheduler, AnswersBeginWhereThereIsRoomForThemToEnd) {
  EngineOptions options = engine_options(3, 1);
  options.positions = 256;
  options.prefix_cache = false;
  Engine engine(demo_model(), options);
  Sequence held(engine);
  Batch batch(engine);
  batch.add(held, many_tokens(64), 64);
  batch.forward();
  Scheduler scheduler(engine);
  std::vector<Ended> ended(2);
  Wanted wanted{many_tokens(20), greedy(90)};  // two pages
  wanted.options.ignore_eos = true;
  for (Ended& e : ended) scheduler.add(request_of(wanted, e));
  scheduler.step();
  EXPECT_EQ(scheduler.active(), 1U);
  while (scheduler.step()) continue;
  for (const Ended& e : ended) expect_as_alone(demo_model(), 256, wanted, e);
}

// An embedding becomes no more than its prompt.
TEST(Scheduler, EmbeddingsBeginWhereThereIsRoomForTheirPrompts) {
  EngineOptions options = engine_options(2, 1);
  options.positions = 256;
  options.prefix_cache = false;
  Engine engine(demo_model(), options);
  Scheduler scheduler(engine);
  std::vector<Ended> ended(2);
  const Wanted wanted{many_tokens(20), greedy(90)};  // two pages of four
  scheduler.add(request_of(wanted, ended[0]));
  AnswerRequest embedding = request_of({many_tokens(10), {}}, ended[1]);
  embedding.embedding = Pooling::Mean;
  scheduler.add(embedding);
  scheduler.step();
  EXPECT_EQ(scheduler.waiting(), 0U);
  while (scheduler.step()) continue;
  EXPECT_EQ(ended[1].reason, StopReason::Length);
  expect_as_alone(demo_model(), 256, wanted, ended[0]);
}

// The engine's only sequence is that of a text that is being scored, then that of an answer: each
// waits for the other.
TEST(Scheduler, WaitsForScorersAndTheyForIt) {
  Engine engine(demo_model(), engine_options(1, 1));
  Scheduler scheduler(engine);
  Ended ended;
  const Wanted wanted{many_tokens(20), greedy(5)};
  const std::vector<TokenId> text = many_tokens(200);  // four passes
  std::vector<TokenScore> scores(199), alone(199);
  Scorer scorer(engine), again(engine);
  scorer.add(text, 1, alone.data());
  EXPECT_TRUE(scorer.pass());
  scheduler.add(request_of(wanted, ended));
  EXPECT_TRUE(scheduler.step());
  EXPECT_EQ(scheduler.waiting(), 1U);
  while (scorer.pass()) continue;
  EXPECT_TRUE(scheduler.step());
  EXPECT_EQ(scheduler.active(), 1U);
  again.add(text, 1, scores.data());
  ScorerHooks hooks;
  hooks.wait = [&scheduler] { scheduler.step(); };
  while (again.pass(hooks)) continue;
  expect_as_alone(demo_model(), 256, wanted, ended);
  for (std::size_t i = 0; i < scores.size(); ++i) EXPECT_EQ(scores[i].log_p, alone[i].log_p);
}

// Neither a long prompt nor many short ones wait until the others are done.
TEST(Scheduler, EveryStepServesAllDecodingAnswers) {
  Engine engine(demo_model(), engine_options(3, 1));
  Scheduler scheduler(engine, {.prompt_tokens = 10});
  std::vector<Ended> ended(3);
  GenerateOptions endless = greedy(50);
  endless.ignore_eos = true;
  scheduler.add(request_of({many_tokens(5), endless}, ended[0]));
  for (int i = 0; i < 3; ++i) scheduler.step();
  scheduler.add(request_of({many_tokens(150), greedy(1)}, ended[1]));
  scheduler.add(request_of({{1, 300, 301, 302}, greedy(1)}, ended[2]));
  for (int i = 0; i < 20; ++i) scheduler.step();
  EXPECT_EQ(ended[2].times, 1) << "the short prompt does not wait for the long one";
  EXPECT_EQ(ended[1].times, 1) << "nor is that put off";
  EXPECT_EQ(ended[0].times, 0);
  while (scheduler.step()) continue;
  EXPECT_EQ(ended[0].tokens.size(), 50U);
}

// With more answers than tokens per batch, a prompt still advances, and no answer waits for its
// end.
TEST(Scheduler, ManyWritersLeaveRoomForPrompts) {
  for (const std::uint32_t n_batch : {1U, 2U, 4U}) {
    EngineOptions options = engine_options(6, 1);
    options.n_batch = n_batch;
    Engine engine(demo_model(), options);
    Scheduler scheduler(engine);
    std::vector<Ended> ended(6);
    std::vector<Wanted> wanted(6);
    for (std::size_t i = 0; i < 6; ++i) {
      wanted[i] = {{static_cast<TokenId>(300 + i)}, greedy(100)};
      if (i == 5) wanted[i] = {many_tokens(30), greedy(1)};
      wanted[i].options.ignore_eos = true;
      wanted[i].options.speculate = Speculate::Off;
    }
    const auto drawn = [&] {
      std::vector<std::size_t> all;
      for (const Scheduler::Progress& p : scheduler.progress()) all.push_back(p.drawn);
      return all;
    };
    for (std::size_t i = 0; i < 5; ++i) scheduler.add(request_of(wanted[i], ended[i]));
    for (int i = 0; i < 40; ++i) scheduler.step();
    ASSERT_EQ(scheduler.active(), 5U);
    const std::vector<std::size_t> before = drawn();
    scheduler.add(request_of(wanted[5], ended[5]));
    for (int i = 0; i < 80 && ended[5].times == 0; ++i) scheduler.step();
    EXPECT_EQ(ended[5].times, 1) << n_batch;
    ASSERT_EQ(scheduler.active(), 5U);
    for (std::size_t i = 0; i < 5; ++i) EXPECT_GT(drawn()[i], before[i]) << n_batch;
    while (scheduler.step()) continue;
    for (std::size_t i = 0; i < 6; ++i) expect_as_alone(demo_model(), 256, wanted[i], ended[i]);
  }
}

// If a batch has capacity for both, prompts take no token from decoding answers.
TEST(Scheduler, AnswersHaveATokenOfEachStepWithRoom) {
  EngineOptions options = engine_options(8, 1);
  options.n_batch = 8;
  Engine engine(demo_model(), options);
  Scheduler scheduler(engine);
  std::vector<Ended> ended(8);
  GenerateOptions endless = greedy(100);
  endless.ignore_eos = true;
  endless.speculate = Speculate::Off;
  for (std::size_t i = 0; i < 7; ++i)
    scheduler.add(request_of({{static_cast<TokenId>(300 + i)}, endless}, ended[i]));
  for (int i = 0; i < 5; ++i) scheduler.step();
  const std::vector<Scheduler::Progress> before = scheduler.progress();
  scheduler.add(request_of({many_tokens(30), endless}, ended[7]));
  for (int i = 0; i < 10; ++i) scheduler.step();
  const std::vector<Scheduler::Progress> after = scheduler.progress();
  for (std::size_t i = 0; i < 7; ++i) EXPECT_EQ(after[i].drawn, before[i].drawn + 10);
  EXPECT_EQ(after[7].to_read, 30U - 10U);
}

}  // namespace
}  // namespace cria::test
