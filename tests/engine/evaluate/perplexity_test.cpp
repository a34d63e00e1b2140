// Perplexity, divergence and multiple choice: against a model whose probabilities are known by
// hand, and the same bits whatever computes them.
#include "engine/evaluate/perplexity.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <fstream>
#include <limits>

#include "engine/evaluate/scorer.h"
#include "tests/engine/demo.h"
#include "tests/engine/random.h"
#include "tests/engine/session/bigram_model.h"

namespace cria::test {
namespace {

constexpr double kVocabulary = 300;

/// After state k the token 100 + k comes with probability p, all others share the rest.
double favourite_logit(double p) { return std::log((kVocabulary - 1) * p / (1 - p)); }
std::function<double(std::size_t, std::size_t)> favourites(double p) {
  return [p](std::size_t last, std::size_t next) {
    return next == 100 + last ? favourite_logit(p) : 0;
  };
}
TokenId favourite(TokenId last) { return 100 + last % 64; }

/// Float32 holds the logits to one part in 2^24 (they are below 8).
constexpr double kLogitError = 8 * 0x1p-24;

/// n tokens, each the favourite after the one before, but at the given places.
std::vector<TokenId> text_with_surprises(std::size_t n, const std::vector<std::size_t>& surprises) {
  std::vector<TokenId> text{2};
  while (text.size() < n)
    text.push_back(std::ranges::count(surprises, text.size()) != 0 ? favourite(text.back()) + 1
                                                                   : favourite(text.back()));
  return text;
}

Perplexity& run(Perplexity& perplexity) {
  while (perplexity.next()) continue;
  return perplexity;
}

SessionOptions context_of(std::uint32_t n) {
  SessionOptions options;
  options.n_ctx = n;
  return options;
}

TEST(TextWindows, SideBySide) {
  const TextWindows windows(1030, {.window = 512});
  ASSERT_EQ(windows.size(), 2U);
  EXPECT_EQ(windows[1].begin, 512U);
  EXPECT_EQ(windows[1].end, 1024U);
  EXPECT_EQ(windows[1].first_scored, 512U + 257U);  // 255 tokens of 512
  EXPECT_EQ(TextWindows(1030, {.window = 512, .max_windows = 1}).size(), 1U);
  EXPECT_EQ(TextWindows(1030, {.window = 512, .max_windows = 7}).size(), 2U);
}

TEST(TextWindows, OfAStrideScoreEveryTokenButTheFirstOnce) {
  for (const std::uint32_t window : {2, 3, 8}) {
    for (std::uint32_t stride = 1; stride < window; ++stride) {
      for (std::size_t n = window; n < 40; ++n) {
        const TextWindows windows(n, {.window = window, .stride = stride});
        std::size_t next = 1;
        for (std::size_t i = 0; i < windows.size(); ++i) {
          EXPECT_EQ(windows[i].begin, i * stride);
          EXPECT_LE(windows[i].end - windows[i].begin, window);
          EXPECT_EQ(windows[i].first_scored, next);
          next = windows[i].end;
        }
        EXPECT_EQ(next, n) << window << " " << stride;
      }
    }
  }
  // A stride as long as the window: the first token of each window has nothing before it.
  const TextWindows windows(20, {.window = 8, .stride = 8});
  ASSERT_EQ(windows.size(), 3U);
  EXPECT_EQ(windows[2].first_scored, 17U);
  EXPECT_EQ(windows[2].end, 20U);
}

TEST(TextWindows, RejectImpossibleSizes) {
  const auto error = [](std::size_t n, const PerplexityOptions& options) {
    return error_of([&] { TextWindows(n, options); });
  };
  EXPECT_EQ(error(511, {.window = 512}),
            "the text is too short: expected at least a window of 512 tokens, got 511");
  EXPECT_EQ(error(0, {.window = 8, .stride = 4}),
            "the text is too short: expected at least a window of 8 tokens, got 0");
  EXPECT_EQ(error(9, {.window = 2}), "the window is too short: expected at least 3 tokens, got 2");
  EXPECT_EQ(error(9, {.window = 1, .stride = 1}),
            "the window is too short: expected at least 2 tokens, got 1");
  EXPECT_EQ(error(9, {.window = 4, .stride = 5}),
            "the stride is longer than the window: expected up to 4 tokens, got 5");
}

TEST(Perplexity, MatchesACalculationByHand) {
  const auto model = bigram_model(favourites(0.5));
  Session session(*model, context_of(8));
  // Windows [0,8) [8,16) [16,24) score places 5-7, 13-15, 21-23: two surprises among nine.
  const std::vector<TokenId> text = text_with_surprises(27, {2, 6, 12, 15, 17, 26});
  Perplexity perplexity(session, text, {.window = 8});
  EXPECT_EQ(perplexity.windows(), 3U);
  const PerplexityResult result = run(perplexity).result();
  EXPECT_EQ(result.windows, 3U);
  EXPECT_EQ(result.tokens, 9U);
  const double surprise = std::log(2 * (kVocabulary - 1));
  const double ppl = std::exp((7 * std::log(2.0) + 2 * surprise) / 9);
  EXPECT_NEAR(result.ppl, ppl, ppl * kLogitError);
  // Variance of a share of 2 in 9, sampled, over 9; times the distance of the two values.
  const double error = ppl * (surprise - std::log(2.0)) * std::sqrt(2.0 * 7 / 81 / 8);
  EXPECT_NEAR(result.ppl_stderr, error, 2 * error * kLogitError);
  EXPECT_EQ(session.tokens().front(), 1) << "a window begins with BOS";
}

TEST(Perplexity, StrideMatchesACalculationByHand) {
  const auto model = bigram_model(favourites(0.5));
  Session session(*model, context_of(8));
  const std::vector<TokenId> text = text_with_surprises(19, {1, 9, 18});
  Perplexity perplexity(session, text, {.window = 8, .stride = 4});
  const PerplexityResult result = run(perplexity).result();
  EXPECT_EQ(result.windows, 4U);
  EXPECT_EQ(result.tokens, 18U);
  const double ppl = std::exp((15 * std::log(2.0) + 3 * std::log(2 * (kVocabulary - 1))) / 18);
  EXPECT_NEAR(result.ppl, ppl, ppl * kLogitError);
  EXPECT_EQ(session.tokens().front(), text[12]) << "windows of a stride hold the text as it is";
}

TEST(Perplexity, TextBeginsWithBosAndKeepsNamesOfControlTokens) {
  const std::vector<TokenId> ids = perplexity_tokens(demo_model(), "a</s>");
  EXPECT_EQ(ids.front(), *demo_model().vocabulary().bos);
  EXPECT_EQ(std::ranges::count(ids, *demo_model().vocabulary().eos), 0);
}

// Even states: the base is sure to 1/2, the model to 3/4. Odd states: both know nothing.
TEST(Divergence, MatchesACalculationByHand) {
  const auto sure = [](double p) {
    return [p](std::size_t last, std::size_t next) {
      return last % 2 == 0 && next == 100 + last ? favourite_logit(p) : 0;
    };
  };
  const auto base_model = bigram_model(sure(0.5));
  const auto model = bigram_model(sure(0.75));
  Session session(*model, context_of(8)), base_session(*base_model, context_of(8));
  // Favourites of even states are even; the surprise at 10 is odd, and the "favourites" after it,
  // too.
  const std::vector<TokenId> text = text_with_surprises(16, {10});
  SessionBase base(base_session);
  Perplexity perplexity(session, text, {.window = 8});
  perplexity.compare_with(base);
  const PerplexityResult result = run(perplexity).result(), so_far = perplexity.result_so_far();
  ASSERT_TRUE(result.divergence);
  EXPECT_FALSE(so_far.divergence);
  EXPECT_EQ(so_far.ppl, result.ppl);
  EXPECT_EQ(so_far.ppl_stderr, result.ppl_stderr);
  EXPECT_EQ(so_far.windows, result.windows);
  const DivergenceResult& d = *result.divergence;
  // Scored: places 5-7 after even states, 13-15 after odd ones.
  const double unsure = std::log(kVocabulary);
  EXPECT_NEAR(std::log(d.base_ppl.value), (3 * std::log(2.0) + 3 * unsure) / 6, kLogitError);
  EXPECT_NEAR(std::log(result.ppl), (3 * std::log(4.0 / 3) + 3 * unsure) / 6, kLogitError);
  const double step = std::log(2.0 / 3);
  EXPECT_NEAR(d.log_ratio.value, step / 2, kLogitError);
  EXPECT_NEAR(d.log_ratio.error, std::abs(step) * std::sqrt(0.25 / 5), kLogitError);
  EXPECT_NEAR(d.ratio.value, std::sqrt(2.0 / 3), kLogitError);
  EXPECT_NEAR(d.ratio.error, d.ratio.value * d.log_ratio.error, 1e-15);
  EXPECT_NEAR(d.correlation, 1, 1e-9);         // two values each
  const double kld = 0.5 * std::log(4.0 / 3);  // ½ ln(½ : ¾) + ½ ln(½ : ¼)
  EXPECT_NEAR(d.kld.value, kld / 2, kLogitError);
  EXPECT_NEAR(d.kld.error, kld * std::sqrt(0.25 / 5), kLogitError);
  EXPECT_EQ(d.same_top.value, 1);
  EXPECT_NEAR(d.delta_p.value, 0.125, kLogitError);
  EXPECT_NEAR(d.delta_p_rms.value, 0.25 * std::sqrt(0.5), kLogitError);
  EXPECT_NEAR(d.kld_quantiles.front().value, 0, kLogitError);
  EXPECT_NEAR(d.kld_quantiles.back().value, kld, kLogitError);
  ASSERT_EQ(d.kld_quantiles[6].share, 0.5);
  EXPECT_NEAR(d.kld_quantiles[6].value, kld / 2,
              kLogitError);  // between the third and the fourth of six
  EXPECT_NEAR(d.delta_p_quantiles.back().value, 0.25, kLogitError);
}

TEST(Divergence, CountsDifferentTopTokens) {
  const auto model = bigram_model(favourites(0.5));
  const auto other = bigram_model([](std::size_t last, std::size_t next) {
    const std::size_t top = 100 + last + (last < 32 ? 0 : 1);
    return next == top ? favourite_logit(0.5) : 0;
  });
  Session session(*model, context_of(64)), other_session(*other, context_of(64));
  std::vector<TokenId> text;
  for (TokenId i = 0; i < 64; ++i) text.push_back(i);
  SessionBase base(other_session);
  Perplexity perplexity(session, text, {.window = 64, .stride = 64});
  perplexity.compare_with(base);
  // States 0 … 62 predict: of them 32 agree.
  EXPECT_NEAR(run(perplexity).result().divergence->same_top.value, 32.0 / 63, 1e-15);
}

TEST(Quantiles, InterpolateBetweenOrderStatistics) {
  EXPECT_TRUE(quantiles({}).empty());
  const std::vector<Quantile> q = quantiles({4, 1, 3, 2, 5});
  EXPECT_EQ(q.front().value, 1);
  EXPECT_EQ(q.back().value, 5);
  for (const Quantile& each : q) EXPECT_NEAR(each.value, 1 + 4 * each.share, 1e-12) << each.share;
  EXPECT_EQ(quantiles({7}).front().value, 7);
}

void expect_same(const PerplexityResult& got, const PerplexityResult& want) {
  EXPECT_EQ(got.ppl, want.ppl);
  EXPECT_EQ(got.ppl_stderr, want.ppl_stderr);
  EXPECT_EQ(got.tokens, want.tokens);
  EXPECT_EQ(got.windows, want.windows);
  ASSERT_EQ(got.divergence.has_value(), want.divergence.has_value());
  if (!got.divergence) return;
  const DivergenceResult &a = *got.divergence, &b = *want.divergence;
  for (const auto member :
       {&DivergenceResult::base_ppl, &DivergenceResult::ratio, &DivergenceResult::log_ratio,
        &DivergenceResult::kld, &DivergenceResult::same_top, &DivergenceResult::delta_p,
        &DivergenceResult::delta_p_rms}) {
    EXPECT_EQ((a.*member).value, (b.*member).value);
    EXPECT_EQ((a.*member).error, (b.*member).error);
  }
  EXPECT_EQ(a.correlation, b.correlation);
  for (std::size_t i = 0; i < a.kld_quantiles.size(); ++i) {
    EXPECT_EQ(a.kld_quantiles[i].value, b.kld_quantiles[i].value);
    EXPECT_EQ(a.delta_p_quantiles[i].value, b.delta_p_quantiles[i].value);
  }
}

TEST(Perplexity, SameBitsForThreadsAndBatches) {
  const std::vector<TokenId> text = many_tokens(320);
  SessionOptions options = context_of(160);
  options.threads = 1;
  PerplexityResult want;
  {
    Session session(demo_model(), options);
    Perplexity perplexity(session, text, {.window = 160});
    want = run(perplexity).result();
    EXPECT_EQ(want.tokens, 2U * 79);
  }
  for (const std::uint32_t threads : {1, 2, 3}) {
    for (const std::uint32_t n_batch : {7, 64, 512}) {
      options.threads = threads;
      options.n_batch = n_batch;
      Session session(demo_model(), options);
      Perplexity perplexity(session, text, {.window = 160});
      expect_same(run(perplexity).result(), want);
    }
  }
}

// Logits of the whole text at once, scored in the most obvious way.
TEST(Perplexity, MatchesAllLogits) {
  const std::vector<TokenId> text = many_tokens(128);
  Session session(demo_model(), context_of(128));
  Perplexity perplexity(session, text, {.window = 128});
  const double ppl = run(perplexity).result().ppl;
  const std::vector<float> logits = all_logits(demo_model(), context_of(128), text);
  const std::size_t n_vocab = demo_model().config().n_vocab;
  double sum = 0;
  for (std::size_t target = 65; target < 128; ++target) {
    const float* row = logits.data() + (target - 1) * n_vocab;
    double total = 0;
    for (std::size_t i = 0; i < n_vocab; ++i) total += std::exp(double{row[i]});
    sum += std::log(total) - row[static_cast<std::size_t>(text[target])];
  }
  EXPECT_NEAR(ppl, std::exp(sum / 63), 1e-12 * ppl);
}

TEST(Perplexity, StoppedByItsCallbackForgetsTheWindow) {
  const std::vector<TokenId> text = many_tokens(96);
  SessionOptions options = context_of(32);
  options.n_batch = 8;
  Session session(demo_model(), options);
  Perplexity whole(session, text, {.window = 32});
  const PerplexityResult want = run(whole).result();
  Perplexity perplexity(session, text, {.window = 32});
  ASSERT_TRUE(perplexity.next());
  std::size_t seen = 0;
  EXPECT_FALSE(perplexity.next([&](std::size_t evaluated) { return (seen = evaluated) < 24; }));
  EXPECT_EQ(seen, 24U);
  EXPECT_EQ(perplexity.done(), 1U);
  expect_same(run(perplexity).result(), want);
}

TEST(Perplexity, NamesTheNodeOfANan) {
  TinyModel tiny;
  tiny.edit = [](const std::string& tensor, std::vector<float>& values) {
    if (tensor == "blk.1.ffn_norm.weight") values[3] = std::numeric_limits<float>::quiet_NaN();
  };
  const auto model = tiny.load();
  Session session(*model, context_of(16));
  const std::vector<TokenId> text(16, 5);
  Perplexity perplexity(session, text, {.window = 16});
  EXPECT_NE(error_of([&] {
              perplexity.next();
            }).find("(node blk.1.ffn_norm, tensor blk.1.ffn_norm.weight)"),
            std::string::npos);
}

/// A directory that is gone with this object.
class Directory {
 public:
  Directory() { std::filesystem::create_directory(path_); }
  ~Directory() { std::filesystem::remove_all(path_); }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  [[nodiscard]] std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_ =
      std::filesystem::temp_directory_path() / ("cria-perplexity-" + std::to_string(getpid()));
};

std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

TEST(PerplexityState, ResumesToTheSameBits) {
  const Directory directory;
  const auto base_model = bigram_model(favourites(0.5));
  const auto model = bigram_model(favourites(0.6));
  Session session(*model, context_of(8)), base_session(*base_model, context_of(8));
  SessionBase base(base_session);
  const std::vector<TokenId> text = text_with_surprises(40, {5, 14, 15, 23, 31, 39});
  const auto make = [&] {
    Perplexity perplexity(session, text, {.window = 8});
    perplexity.compare_with(base);
    return perplexity;
  };
  Perplexity whole = make();
  const PerplexityResult want = run(whole).result();
  const std::string path = directory.file("state");
  make().save(path);
  for (std::size_t i = 0; i < 5; ++i) {  // every window in a life of its own
    Perplexity part = make();
    part.load(path);
    EXPECT_EQ(part.done(), i);
    EXPECT_TRUE(part.next());
    part.save(path);
  }
  Perplexity done = make();
  done.load(path);
  EXPECT_FALSE(done.next());
  expect_same(done.result(), want);

  const std::string good = bytes_of(path);
  const auto error = [&](Perplexity perplexity, const std::string& bytes) {
    write_bytes(path, bytes);
    return error_of([&] { perplexity.load(path); });
  };
  EXPECT_EQ(error(make(), good), "");
  EXPECT_NE(error(Perplexity(session, text, {.window = 8}), good).find("different measurement"),
            std::string::npos);
  EXPECT_NE(
      error(Perplexity(session, std::span(text).first(39), {.window = 8}), good).find("different"),
      std::string::npos);
  for (std::size_t size = 0; size < good.size(); size += 7)
    EXPECT_NE(error(make(), good.substr(0, size)), "");
  EXPECT_NE(error(make(), good + "x"), "");
  for (std::size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x40);
    EXPECT_NE(error(make(), bad), "") << at;
  }
  // The number of values is so large that their size in bytes wraps to the file's; both copies of
  // it agree.
  std::string wrapping = good;
  for (const std::size_t at : {std::size_t{24}, std::size_t{216}})
    wrapping[at + 7] = static_cast<char>(wrapping[at + 7] ^ 0x20);
  EXPECT_NE(error(make(), wrapping).find("too short for 2305843009213693"), std::string::npos)
      << error(make(), wrapping);
}

// With other RoPE factors a model, or its base, is another.
TEST(PerplexityState, RejectsStatesOfOtherRuns) {
  const Directory directory;
  TinyModel tiny = bigram_file(favourites(0.6));
  const auto plain = tiny.load();
  tiny.keys.emplace_back("llama.rope.freq_base", 20000.0F);
  const auto turned = tiny.load();
  const std::vector<TokenId> text(40, 5);
  const std::string path = directory.file("state");
  const auto error = [&](const Model& model, const Model& base_model, bool saves) {
    Session session(model, context_of(8)), base_session(base_model, context_of(8));
    SessionBase base(base_session);
    Perplexity perplexity(session, text, {.window = 8});
    perplexity.compare_with(base);
    return error_of([&] { saves ? perplexity.save(path) : perplexity.load(path); });
  };
  EXPECT_EQ(error(*plain, *plain, true), "");
  EXPECT_EQ(error(*plain, *plain, false), "");
  EXPECT_NE(error(*turned, *plain, false).find("different measurement"), std::string::npos);
  EXPECT_NE(error(*plain, *turned, false).find("different measurement"), std::string::npos);
}

TEST(LogProbs, SixteenBitsAreEnough) {
  const std::size_t n = 1000;
  std::vector<float> logits(n), decoded(n);
  Random random(3);
  for (float& x : logits) x = static_cast<float>(random.uniform() * 30 - 10);
  const double log_sum = active_kernels()->log_sum_exp(logits.data(), n);
  std::vector<std::byte> row(log_prob_row_bytes(n));
  encode_log_probs(logits, log_sum, row.data());
  decode_log_probs(row.data(), decoded);
  const double lowest = log_sum - *std::ranges::min_element(logits);
  for (std::size_t i = 0; i < n; ++i) {
    const double exact = logits[i] - log_sum;
    // Half a step of the root, twice the root; the square of half a step; float32 arithmetic.
    const double step = std::sqrt(lowest) / 65535;
    EXPECT_NEAR(decoded[i], exact,
                step * std::sqrt(-exact) + step * step + 8 * 0x1p-24 * -exact + 1e-7);
  }
  const std::vector<float> flat(n, 2.5F);  // all equal; below: a single value
  encode_log_probs(flat, 2.5 + std::log(1000.0), row.data());
  decode_log_probs(row.data(), decoded);
  EXPECT_NEAR(decoded[n / 2], -std::log(1000.0), 1e-4);
  const float one = 7;
  encode_log_probs({&one, 1}, 7, row.data());
  decode_log_probs(row.data(), std::span(decoded).first(1));
  EXPECT_EQ(decoded[0], 0);
}

class LogProbsFile : public ::testing::Test {
 protected:
  void write(const PerplexityOptions& options) {
    Session session(*base_, context_of(8));
    LogProbsWriter writer(path_, *base_, text_, options);
    Perplexity perplexity(session, text_, options);
    perplexity.write_to(writer);
    run(perplexity);
    EXPECT_FALSE(std::filesystem::exists(path_)) << "there before it was complete";
    writer.finish();
  }
  PerplexityResult compare(const PerplexityOptions& options) {
    LogProbsReader reader(path_, *model_);
    Session session(*model_, context_of(8));
    Perplexity perplexity(session, reader.text(), options);
    perplexity.compare_with(reader);
    return run(perplexity).result();
  }

  Directory directory_;
  std::string path_ = directory_.file("base.logits");
  std::shared_ptr<const Model> base_ = bigram_model(favourites(0.5)),
                               model_ = bigram_model(favourites(0.75));
  std::vector<TokenId> text_ = text_with_surprises(27, {5, 12, 15, 17, 26});
};

TEST_F(LogProbsFile, GivesTheDivergenceOfTheModelItself) {
  for (const PerplexityOptions& options :
       {PerplexityOptions{.window = 8},
        {.window = 8, .stride = 3},
        {.window = 8, .stride = 3, .max_windows = 4},
        {.window = 8, .stride = 8},
        {.window = 8, .stride = 8, .max_windows = 2},
        {.window = 2, .stride = 2}}) {  // the last scores nothing
    std::filesystem::remove(path_);
    write(options);
    const PerplexityResult got = compare(options);
    Session session(*model_, context_of(8)), base_session(*base_, context_of(8));
    SessionBase base(base_session);
    Perplexity perplexity(session, text_, options);
    perplexity.compare_with(base);
    const PerplexityResult want = run(perplexity).result();
    EXPECT_EQ(got.ppl, want.ppl);
    EXPECT_EQ(got.tokens, want.tokens);
    EXPECT_NEAR(got.divergence->kld.value, 0.5 * std::log(4.0 / 3), 1e-4);
    EXPECT_NEAR(got.divergence->kld.value, want.divergence->kld.value, 1e-4);
    EXPECT_NEAR(got.divergence->log_ratio.value, want.divergence->log_ratio.value, 1e-4);
  }
}

TEST_F(LogProbsFile, MayBeReadFromAnyWindowOn) {
  const PerplexityOptions options{.window = 8, .stride = 3};
  write(options);
  const PerplexityResult want = compare(options);
  LogProbsReader reader(path_, *model_);
  EXPECT_EQ(reader.options().window, 8U);
  EXPECT_EQ(reader.options().stride, 3U);
  EXPECT_EQ(reader.options().max_windows, 8U);
  Session session(*model_, context_of(8));
  Perplexity first(session, text_, options);
  first.compare_with(reader);
  for (int i = 0; i < 3; ++i) first.next();
  EXPECT_FALSE(first.next([](std::size_t) { return false; }));  // rows of the window were read
  first.save(directory_.file("state"));
  LogProbsReader again(path_, *model_);
  Perplexity second(session, text_, options);
  second.compare_with(again);
  second.load(directory_.file("state"));
  expect_same(run(second).result(), want);
  expect_same(run(first).result(), want);
}

// Before hours of evaluation. Nothing of the text is read: it need not be there.
TEST_F(LogProbsFile, LooksAtTheDiskFirst) {
  constexpr std::size_t kTokens = std::size_t{1} << 40, kBytes = kTokens * sizeof(TokenId);
  void* const nowhere =
      mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(nowhere, MAP_FAILED);
  const std::span text(static_cast<const TokenId*>(nowhere), kTokens);
  // 2^31 windows score 255 tokens each; the head, and a checksum of it and of every window.
  const std::uint64_t bytes = 56 + kBytes + (std::uint64_t{255} << 31) * (4 + 2 * 4096) +
                              8 * ((std::uint64_t{1} << 31) + 1);
  EXPECT_NE(error_of([&] {
              LogProbsWriter(path_, demo_model(), text, {.window = 512});
            }).find("not enough space on the disk: expected " + std::to_string(bytes)),
            std::string::npos);
  munmap(nowhere, kBytes);
}

TEST_F(LogProbsFile, ErrorsNameTheDamagedFile) {
  const PerplexityOptions options{.window = 8};
  write(options);
  const std::string good = bytes_of(path_);
  const auto error = [&](const std::string& bytes) {
    write_bytes(path_, bytes);
    return error_of([&] { compare(options); });
  };
  ASSERT_EQ(error(good), "");
  for (std::size_t size = 0; size < good.size(); size += size < 200 ? 1 : 997)
    EXPECT_EQ(error(good.substr(0, size)).find(path_), 0U) << size;
  EXPECT_NE(error(good + "x").find("wrong size"), std::string::npos);
  for (std::size_t at = 0; at < good.size(); at += at < 200 ? 1 : 997) {
    for (const int flip : {0x01, 0x80}) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ flip);
      EXPECT_EQ(error(bad).find(path_), 0U) << at;
    }
  }
  write_bytes(path_, good);
  EXPECT_NE(
      error_of([&] { LogProbsReader(path_, demo_model()); }).find("different vocabulary size"),
      std::string::npos);
}

// "w40 w50" is <unk> (the space), w40, <unk>, w50: states 40 and 0 decide.
TEST(Choices, ByLikelihoodPerByteOrInAll) {
  const auto model = bigram_model([](std::size_t last, std::size_t next) {
    const std::size_t top = last == 0 ? 50 : 0;  // after a space w50, after a word a space
    return next == top ? favourite_logit(0.5) : 0;
  });
  Engine engine(*model, {.n_ctx = 32, .sequences = 3});
  const ChoiceScores scores =
      score_choices(engine, {"w40", {"w51", "w50", "w50 w50", "w50 w50 w50 w50"}, 1});
  const double half = std::log(0.5), rare = std::log(0.5 / 299);
  ASSERT_EQ(scores.log_p.size(), 4U);
  EXPECT_NEAR(scores.log_p[0], half + rare, 2 * kLogitError);
  EXPECT_NEAR(scores.log_p[1], 2 * half, 2 * kLogitError);
  EXPECT_NEAR(scores.log_p[2], 4 * half, 4 * kLogitError);
  EXPECT_NEAR(scores.log_p[3], 8 * half, 8 * kLogitError);
  EXPECT_EQ(scores.likeliest_raw, 1U);
  EXPECT_EQ(scores.likeliest, 3U);  // 8 ln 2 in 15 bytes, against 2 ln 2 in 3 and 4 ln 2 in 7
  // One after the other: BOS, a space, "w40", a space; then what follows the question's last token
  // but one.
  Engine alone(*model, {.n_ctx = 32});
  EXPECT_EQ(score_choices(alone, {"w40", {"w51", "w50", "w50 w50"}, 1}).evaluated, 4U + 2 + 4);
  EXPECT_NE(error_of([&] { score_choices(engine, {"", {"a"}, 0}); }), "");
  EXPECT_NE(error_of([&] { score_choices(engine, {"w40", {""}, 0}); }), "");
  Engine small(*model, {.n_ctx = 3});
  EXPECT_NE(error_of([&] {
              score_choices(small, {"w40", {"w50 w50"}, 0});
            }).find("exceeds the context"),
            std::string::npos);
}

TEST(Choices, DoNotDependOnTheOrderOfQuestionsOrBatches) {
  EngineOptions options{.n_ctx = 64, .threads = 1};
  Engine engine(demo_model(), options);
  const ChoiceQuestion question{
      "The capital of France is", {"Paris.", "a river in the north of Spain."}, 0};
  const ChoiceScores want = score_choices(engine, question);
  score_choices(engine, {"The capital of Norway is", {"Oslo.", "Rome."}, 0});
  EXPECT_EQ(score_choices(engine, question).log_p, want.log_p);
  options.n_batch = 3;
  Engine small(demo_model(), options);
  EXPECT_EQ(score_choices(small, question).log_p, want.log_p);
  options = {.n_ctx = 64, .sequences = 2};
  Engine together(demo_model(), options);
  EXPECT_EQ(score_choices(together, question).log_p, want.log_p);
}

}  // namespace
}  // namespace cria::test
