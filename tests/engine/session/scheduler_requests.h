// Requests with chance options, and what their answers must be.
#pragma once

#include <gtest/gtest.h>

#include "engine/scheduler.h"
#include "tests/engine/demo.h"
#include "tests/engine/random.h"

namespace cria::test {

struct Wanted {
  std::vector<TokenId> prompt;
  GenerateOptions options;
};

struct Ended {
  std::string text, streamed, error;
  std::vector<TokenId> tokens;
  StopReason reason{};
  std::size_t cached = 0;
  int times = 0;
};

inline Wanted random_wanted(Random& random, std::size_t n_vocab) {
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random.next() % n); };
  Wanted wanted;
  const std::size_t shared = below(3) * 70;  // common prefix of some prompts
  for (std::size_t i = 0; i < shared; ++i)
    wanted.prompt.push_back(static_cast<TokenId>(3 + i * 11 % 200));
  for (std::size_t i = 0, n = 1 + below(60); i < n; ++i)
    wanted.prompt.push_back(static_cast<TokenId>(3 + below(n_vocab - 3)));
  wanted.options.max_tokens = static_cast<std::int64_t>(below(40));
  SamplerOptions& sampler = wanted.options.sampler;
  sampler.seed = random.next();
  sampler.temperature = std::vector<float>{0, 0.7F, 2}[below(3)];
  sampler.repeat_penalty = below(2) == 0 ? 1 : 1.2F;
  sampler.dry_multiplier = below(3) == 0 ? 0.8F : 0;
  sampler.mirostat = below(4) == 0 ? 2 : 0;
  return wanted;
}

inline AnswerRequest request_of(const Wanted& wanted, Ended& ended) {
  AnswerRequest request;
  request.prompt = wanted.prompt;
  request.options = wanted.options;
  request.sink = [&ended](std::string_view piece) { return ended.streamed += piece, true; };
  request.on_end = [&ended](const GenerateResult& result, const std::optional<Error>& error) {
    ended.text = result.text;
    ended.tokens = result.tokens;
    ended.reason = result.reason;
    ended.cached = result.cached_tokens;
    ended.error = error ? error->what() : "";
    ++ended.times;
  };
  return request;
}

inline void expect_as_alone(const Model& model, std::uint32_t n_ctx, const Wanted& wanted,
                            const Ended& ended) {
  Session alone(model, {.n_ctx = n_ctx, .threads = 1});
  Text text;
  const GenerateResult result = alone.generate(wanted.prompt, wanted.options, text.sink());
  EXPECT_EQ(ended.times, 1);
  EXPECT_EQ(ended.tokens, result.tokens);
  EXPECT_EQ(ended.text, result.text);
  EXPECT_EQ(ended.streamed, result.text);
  EXPECT_EQ(ended.reason, result.reason);
  EXPECT_EQ(ended.error, "");
}

inline EngineOptions engine_options(std::uint32_t sequences, std::uint32_t threads) {
  EngineOptions options;
  options.n_ctx = 256;
  options.n_batch = 64;
  options.sequences = sequences;
  options.threads = threads;
  return options;
}

}  // namespace cria::test
