// An answer's bytes do not depend on concurrent work. Covers six weight types, all KV types,
// cancelled and repeated requests, and drafts that are right or wrong. CRIA_MIX_ROUNDS=N multiplies
// the rounds by N.
#include <cstdlib>

#include "engine/quantize/quantize.h"
#include "engine/scheduler.h"
#include "model/gguf/writer.h"
#include "tests/engine/load_written.h"
#include "tests/engine/session/batch_mix.h"

namespace cria::test {
namespace {

/// Loads the demo model quantized to a mix. The loss does not matter here.
std::shared_ptr<const Model> demo_as(const char* mix) {
  return load_written([mix](const std::string& path) {
    QuantizeOptions options;
    options.mix = find_mix(mix);
    options.allow_requantize = true;
    const QuantizePlan plan = plan_quantize(demo_model().file(), options);
    GgufWriter writer(path);
    declare(writer, demo_model().file(), plan);
    ASSERT_TRUE(quantize(demo_model().file(), plan, writer, {}));
  });
}

/// Made once.
const std::vector<std::shared_ptr<const Model>>& six_types() {
  static const std::vector<std::shared_ptr<const Model>> models = [] {
    std::vector<std::shared_ptr<const Model>> all = {demo_model().shared_from_this()};
    for (const char* mix : {"F16", "Q4_0", "Q4_K_M", "IQ4_XS", "Q2_K"}) all.push_back(demo_as(mix));
    return all;
  }();
  return models;
}

int rounds() {
  const char* const wanted = std::getenv("CRIA_MIX_ROUNDS");
  return wanted == nullptr ? 1 : std::max(1, std::atoi(wanted));
}

class ServingMix {
 public:
  ServingMix(const Model& model, const std::shared_ptr<const Model>& draft, std::uint64_t seed)
      : model_(model), random_(seed), engine_(model, engine_options(draft)) {
    shuffle_pages(engine_, random_);
    scheduler_ =
        std::make_unique<Scheduler>(engine_, SchedulerOptions{.prompt_tokens = 1 + below(60)});
    for (std::size_t i = 0; i < kAnswers; ++i) asked_.push_back(any_request(i));
  }

  void run() {
    const std::atomic<bool> stop = true;
    std::size_t next = 0;
    while (next < kAnswers || scheduler_->active() + scheduler_->waiting() > 0) {
      if (next < kAnswers && chance(0.5)) submit(next++);
      scheduler_->step(chance(0.05) ? &stop : nullptr);  // such a step changes nothing
      if (chance(0.05) && next > 0) cancel(below(next));
    }
  }

  void check() const {
    for (const Asked& asked : asked_) {
      EXPECT_FALSE(asked.error);
      EXPECT_EQ(asked.tokens, asked.alone);
      EXPECT_EQ(asked.text, asked.alone_text);
      EXPECT_EQ(asked.logprobs, asked.alone_logprobs);
      for (const std::vector<TokenId>& part : asked.parts)
        EXPECT_TRUE(std::ranges::mismatch(part, asked.alone).in1 == part.end());
    }
  }
  std::size_t drafted = 0, kept = 0, cached = 0, cancelled = 0;

 private:
  static constexpr std::size_t kAnswers = 12;
  struct Asked {
    AnswerRequest request;
    std::vector<TokenId> alone, tokens;
    std::string alone_text, text;
    std::vector<float> alone_logprobs, logprobs;
    std::vector<std::vector<TokenId>> parts;  // outputs of cancelled answers
    Scheduler::Id id = 0;
    bool error = false;
  };

  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_.next() % n); }
  bool chance(double p) { return random_.uniform() < p; }

  EngineOptions engine_options(const std::shared_ptr<const Model>& draft) {
    EngineOptions options;
    options.draft = draft;
    options.n_ctx = 300;
    options.rope_ctx = 300;
    options.sequences = static_cast<std::uint32_t>(1 + below(12));
    options.n_batch = static_cast<std::uint32_t>(8 + below(90));
    options.threads = static_cast<std::uint32_t>(1 + below(3));
    options.kv_type = static_cast<KvType>(below(3));
    options.positions = chance(0.5) ? 700 : 0;
    return options;
  }

  // Some prompts share a prefix, and some repeat themselves.
  std::vector<TokenId> any_prompt() {
    std::vector<TokenId> prompt = many_tokens(below(4) * 45);
    const std::size_t own = 1 + below(30);
    for (std::size_t i = 0; i < own; ++i)
      prompt.push_back(i > 8 && chance(0.7) ? prompt[prompt.size() - 7]
                                            : static_cast<TokenId>(5 + below(4000)));
    return prompt;
  }

  GenerateOptions any_options(std::size_t i) {
    GenerateOptions options = greedy(static_cast<std::int64_t>(1 + below(24)));
    SamplerOptions& sampler = options.sampler;
    sampler.temperature = std::array{0.0F, 0.7F, 2.0F}[i % 3];
    sampler.seed = random_.next();
    if (chance(0.3)) sampler.repeat_penalty = 1.2F;
    if (chance(0.3)) sampler.dry_multiplier = 0.8F;
    if (chance(0.2)) sampler.mirostat = 2;
    options.ignore_eos = chance(0.7);
    options.logprobs = 0;
    return options;
  }

  Asked any_request(std::size_t i) {
    Asked asked;
    AnswerRequest& request = asked.request;
    request.prompt = any_prompt();
    request.options = any_options(i);
    request.scope = below(4) / 3;
    request.cache_prompt = !chance(0.2);
    request.options.speculate = Speculate::Off;
    Session alone(
        model_,
        {.n_ctx = 300, .rope_ctx = 300, .threads = 1, .kv_type = engine_.options().kv_type});
    const GenerateResult result = alone.generate(request.prompt, request.options);
    asked.alone = result.tokens;
    asked.alone_text = result.text;
    for (const TokenLogprobs& p : result.logprobs) asked.alone_logprobs.push_back(p.logprob);
    expect_drafts(asked, i);
    return asked;
  }

  // From the text, from a model, from what is expected: always right, or always wrong.
  void expect_drafts(Asked& asked, std::size_t i) {
    GenerateOptions& options = asked.request.options;
    options.speculate = i % 4 == 0 ? Speculate::Auto : Speculate::Lookup;
    if (i % 4 < 2) return;
    options.expected.assign(asked.request.prompt.end() - 1, asked.request.prompt.end());
    if (asked.request.prompt.size() > 1) options.expected = asked.request.prompt;
    for (const TokenId token : asked.alone)
      options.expected.push_back(
          i % 4 == 2 ? token : (token + 1) % static_cast<TokenId>(model_.vocabulary_size()));
  }

  void submit(std::size_t i) {
    AnswerRequest request = asked_[i].request;
    request.on_end = [this, i](const GenerateResult& result, const std::optional<Error>& error) {
      Asked& asked = asked_[i];
      drafted += result.drafted;
      kept += result.accepted;
      cached += result.cached_tokens;
      asked.error = asked.error || error.has_value();
      if (result.reason == StopReason::Interrupted) {
        asked.parts.push_back(result.tokens);
        ++cancelled;
        return;
      }
      asked.tokens = result.tokens;
      asked.text = result.text;
      for (const TokenLogprobs& p : result.logprobs) asked.logprobs.push_back(p.logprob);
    };
    asked_[i].id = scheduler_->add(std::move(request));
  }

  // And asked for once more.
  void cancel(std::size_t i) {
    if (asked_[i].parts.size() == 3) return;
    const std::size_t before = cancelled;
    scheduler_->cancel(asked_[i].id);
    if (scheduler_->waiting() + scheduler_->active() > 0) scheduler_->step();
    if (cancelled > before) submit(i);
  }

  const Model& model_;
  Random random_;
  Engine engine_;
  std::vector<Asked> asked_;
  std::unique_ptr<Scheduler> scheduler_;
};

TEST(Determinism, AnswersDoNotDependOnOtherAnswers) {
  std::size_t drafted = 0, kept = 0, cached = 0, cancelled = 0;
  for (int round = 0; round < rounds(); ++round) {
    for (std::size_t i = 0; i < six_types().size(); ++i) {
      const auto seed = static_cast<std::uint64_t>(round) * 6 + i;
      const auto draft = i % 3 == 0 ? nullptr : six_types()[i % 2 == 0 ? i : 5];
      ServingMix mix(*six_types()[i], draft, seed);
      mix.run();
      mix.check();
      drafted += mix.drafted;
      kept += mix.kept;
      cached += mix.cached;
      cancelled += mix.cancelled;
    }
  }
  EXPECT_GT(kept, 50U);
  EXPECT_GT(drafted, kept + 50);
  EXPECT_GT(cached, 500U);
  EXPECT_GT(cancelled, 0U);
}

TEST(Determinism, ForkedAndSharedSequencesAgree) {
  for (int round = 0; round < rounds(); ++round) {
    for (std::size_t i = 0; i < six_types().size(); ++i) {
      const auto seed = static_cast<std::uint64_t>(round) * 6 + i;
      EngineOptions options;
      options.n_ctx = 200;
      options.rope_ctx = 200;
      options.n_batch = 48;
      options.sequences = static_cast<std::uint32_t>(1 + (seed * 5 + 3) % 12);
      options.threads = static_cast<std::uint32_t>(1 + seed % 3);
      options.kv_type = static_cast<KvType>((seed + i / 3) % 3);
      BatchMix mix(*six_types()[i], options, seed + 100);
      mix.run(60);
      mix.check();
    }
  }
}

}  // namespace
}  // namespace cria::test
