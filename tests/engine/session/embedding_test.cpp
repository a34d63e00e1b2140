// Hidden states and embeddings: outputs of the last norm, independent of other sequences in the
// pass.
#include <gtest/gtest.h>

#include <cmath>

#include "engine/scheduler.h"
#include "tests/engine/architectures/architecture_cases.h"
#include "tests/engine/demo.h"
#include "tests/engine/tiny_model.h"

namespace cria::test {
namespace {

using Vectors = std::vector<std::vector<float>>;

Vectors embed_with(const Model& model, std::span<const std::vector<TokenId>> prompts,
                   Pooling pooling, std::uint32_t sequences, std::uint32_t n_batch,
                   std::uint32_t threads) {
  EngineOptions options;
  options.n_ctx = 256;
  options.rope_ctx = 256;
  options.sequences = sequences;
  options.n_batch = n_batch;
  options.threads = threads;
  Engine engine(model, options);
  return embed(engine, prompts, pooling);
}

/// Returns n prompts of several lengths, some with a common prefix.
std::vector<std::vector<TokenId>> some_prompts(std::size_t n) {
  std::vector<std::vector<TokenId>> prompts;
  for (std::size_t i = 0; i < n; ++i) {
    std::vector<TokenId>& prompt = prompts.emplace_back();
    for (std::size_t k = 0; k < 1 + i * 37 % 150; ++k)
      prompt.push_back(static_cast<TokenId>(3 + (k < 70 ? k * 7 : k * 11 + i) % 37));
  }
  return prompts;
}

TEST(Embedding, HiddenStatesAreWhatTheLastNormWrote) {
  EngineOptions options;
  options.sequences = 2;
  Engine engine(demo_model(), options);
  Sequence a(engine), b(engine);
  std::vector<std::vector<float>> seen;
  engine.observe([&](const Node& node, std::span<const float> values, std::size_t width) {
    if (node.name != "output_norm") return;
    seen.clear();
    for (; !values.empty(); values = values.subspan(width))
      seen.push_back(copy(values.first(width)));
  });
  const std::vector<TokenId> tokens = many_tokens(30);
  Batch batch(engine);
  batch.add(a, tokens, 27);
  const std::size_t second = batch.add(b, std::span(tokens).first(10), 0);
  batch.forward();
  ASSERT_EQ(seen.size(), 13U);
  const std::size_t n_embd = seen[0].size();
  for (std::size_t i = 0; i < seen.size(); ++i)
    EXPECT_TRUE(same_bytes(copy(batch.hidden(i, i + 1)), seen[i])) << i;
  const std::vector<float> before = copy(batch.hidden(0, 13));
  (void)batch.logits(0, 13);
  EXPECT_TRUE(same_bytes(copy(batch.hidden(0, 13)), before)) << "logits do not disturb them";
  EXPECT_EQ(before.size(), 13 * n_embd);
  EXPECT_FALSE(same_bytes(seen[second], seen[0]));
}

TEST(Embedding, IsTheMeanOrTheLastOfHiddenStates) {
  const std::vector<TokenId> tokens = many_tokens(100);
  Engine engine(demo_model(), {});
  for (const Pooling pooling : {Pooling::Mean, Pooling::Last}) {
    Sequence sequence(engine);
    Batch batch(engine);
    batch.add(sequence, tokens, 0);
    batch.forward();
    const std::vector<float> rows = copy(batch.hidden(0, tokens.size()));
    const std::size_t n_embd = rows.size() / tokens.size();
    std::vector<double> sum(n_embd);
    for (std::size_t i = pooling == Pooling::Last ? tokens.size() - 1 : 0; i < tokens.size(); ++i)
      for (std::size_t k = 0; k < n_embd; ++k) sum[k] += rows[i * n_embd + k];
    double squares = 0;
    for (const double x : sum) squares += x * x;
    EngineOptions two;
    two.sequences = 2;
    Engine other(demo_model(), two);
    const Vectors got = embed(other, std::vector(1, tokens), pooling);
    for (std::size_t k = 0; k < n_embd; ++k)
      EXPECT_EQ(got[0][k], static_cast<float>(sum[k] / std::sqrt(squares))) << k;
  }
}

TEST(Embedding, BytesDependOnNothingElse) {
  const auto prompts = some_prompts(5);
  for (const ArchitectureCase& c : architecture_cases()) {
    const auto model = TinyArchitecture(c).load();
    for (const Pooling pooling : {Pooling::Mean, Pooling::Last}) {
      const Vectors alone = embed_with(*model, prompts, pooling, 1, 512, 1);
      const Vectors together = embed_with(*model, prompts, pooling, 3, 33, 2);
      EXPECT_EQ(together, alone) << c.arch;
      for (const std::vector<float>& v : alone) {
        double squares = 0;
        for (const float x : v) squares += double{x} * x;
        // n values rounded to floats: each is wrong by less than 2⁻²⁴ of itself.
        EXPECT_NEAR(squares, 1, std::ldexp(1, -22)) << c.arch;
      }
    }
  }
}

TEST(Embedding, RunsBetweenAnswers) {
  const auto prompts = some_prompts(6);
  const Vectors want = embed_with(demo_model(), prompts, Pooling::Mean, 1, 512, 1);
  EngineOptions options;
  options.n_ctx = 256;
  options.sequences = 4;
  options.n_batch = 64;
  Engine engine(demo_model(), options);
  Scheduler scheduler(engine, {.prompt_tokens = 16});
  Vectors got(prompts.size());
  std::vector<std::vector<TokenId>> answers(prompts.size());
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    AnswerRequest request;
    request.prompt = prompts[i];
    request.options = greedy(20);
    request.options.ignore_eos = true;
    request.on_end = [&answers, i](const GenerateResult& result, const std::optional<Error>&) {
      answers[i] = result.tokens;
    };
    scheduler.add(request);
    request.embedding = Pooling::Mean;
    request.on_end = [&got, i](GenerateResult result, const std::optional<Error>&) {
      got[i] = std::move(result.embedding);
      EXPECT_TRUE(result.tokens.empty());
      EXPECT_EQ(result.cached_tokens, 0U);
    };
    scheduler.add(request);
  }
  while (scheduler.step()) continue;
  EXPECT_EQ(got, want);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    Session session(demo_model(), {.n_ctx = 256, .threads = 1});
    GenerateOptions options_alone = greedy(20);
    options_alone.ignore_eos = true;
    EXPECT_EQ(answers[i], session.generate(prompts[i], options_alone).tokens);
  }
}

TEST(Embedding, RejectsInvalidTokens) {
  EngineOptions options;
  options.n_ctx = 64;
  Engine engine(demo_model(), options);
  const std::vector<std::vector<TokenId>> long_one = {{1, 300}, many_tokens(65)}, empty = {{}},
                                          strange = {{-1}};
  EXPECT_NE(error_of([&] { (void)embed(engine, long_one, Pooling::Mean); }).find("does not fit"),
            std::string::npos);
  EXPECT_NE(error_of([&] { (void)embed(engine, empty, Pooling::Last); }).find("no tokens"),
            std::string::npos);
  EXPECT_NE(error_of([&] { (void)embed(engine, strange, Pooling::Last); }).find("no such token"),
            std::string::npos);
  EXPECT_TRUE(embed(engine, {}, Pooling::Mean).empty());
}

// Log-probabilities that the model gave to each token of the prompt.
TEST(Embedding, LogprobsOfThePrompt) {
  const std::vector<TokenId> prompt = many_tokens(90);
  GenerateOptions options = greedy(0);
  options.prompt_logprobs = 2;
  Session session(demo_model(), {.n_ctx = 256, .n_batch = 40});
  (void)session.generate(std::span(prompt).first(50), greedy(3));
  const GenerateResult alone = session.generate(prompt, options);
  EXPECT_EQ(alone.prompt_tokens, prompt.size()) << "nothing is taken from the cache";
  ASSERT_EQ(alone.prompt_logprobs.size(), prompt.size() - 1);
  EXPECT_TRUE(alone.tokens.empty());
  Session plain(demo_model(), {.n_ctx = 256});
  std::vector<double> log_p;
  plain.eval_all(prompt, [&](std::size_t i, std::span<const float> row) {
    if (i + 1 == prompt.size()) return;
    double sum = 0;
    const float highest = *std::ranges::max_element(row);
    for (const float x : row) sum += std::exp(double{x} - highest);
    log_p.push_back(double{row[static_cast<std::size_t>(prompt[i + 1])]} - highest - std::log(sum));
  });
  for (std::size_t i = 0; i < log_p.size(); ++i) {
    EXPECT_EQ(alone.prompt_logprobs[i].id, prompt[i + 1]);
    EXPECT_EQ(alone.prompt_logprobs[i].top.size(), 2U);
    EXPECT_FLOAT_EQ(alone.prompt_logprobs[i].logprob, static_cast<float>(log_p[i]));
  }
  EngineOptions wide;
  wide.n_ctx = 256;
  wide.sequences = 3;
  wide.n_batch = 32;
  Engine engine(demo_model(), wide);
  Scheduler scheduler(engine);
  for (const std::int64_t max_tokens : {0, 5, 5}) {
    AnswerRequest request;
    request.prompt = prompt;
    request.options = options;
    request.options.max_tokens = max_tokens;
    request.on_end = [&](const GenerateResult& got, const std::optional<Error>&) {
      EXPECT_EQ(got.cached_tokens, 0U);
      ASSERT_EQ(got.prompt_logprobs.size(), alone.prompt_logprobs.size());
      for (std::size_t i = 0; i < got.prompt_logprobs.size(); ++i) {
        EXPECT_EQ(got.prompt_logprobs[i].logprob, alone.prompt_logprobs[i].logprob);
        EXPECT_EQ(got.prompt_logprobs[i].top, alone.prompt_logprobs[i].top);
      }
    };
    scheduler.add(request);
  }
  while (scheduler.step()) continue;
}

// Log-probabilities of chosen tokens after the prompt, which may come from the cache.
TEST(Embedding, ScoresTokensAfterThePrompt) {
  const std::vector<TokenId> prompt = many_tokens(60);
  Session session(demo_model(), {.n_ctx = 64});
  GenerateOptions options = greedy(1);
  options.logprobs = 4;
  options.ignore_eos = true;
  const TokenLogprobs want = session.generate(prompt, options).logprobs.at(0);
  options = greedy(0);
  for (const auto& [id, logprob] : want.top) options.scored.push_back(id);
  const GenerateResult got = session.generate(prompt, options);
  EXPECT_GT(got.cached_tokens, 0U);
  EXPECT_TRUE(got.tokens.empty());
  ASSERT_EQ(got.scores.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(got.scores[i], want.top[i].second);
  options.scored.push_back(1 << 20);
  EXPECT_NE(error_of([&] { (void)session.generate(prompt, options); }).find("to score"),
            std::string::npos);
}

}  // namespace
}  // namespace cria::test
