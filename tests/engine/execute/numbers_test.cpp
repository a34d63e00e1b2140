// Values at the edge of what numbers can say: every one has an answer that is stated, or an error
// that names node and tensor.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "engine/sample/sampler.h"
#include "tests/engine/demo.h"
#include "tests/engine/tiny_model.h"

namespace cria::test {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN(),
                kInf = std::numeric_limits<float>::infinity();
constexpr std::uint16_t kHalfMax = 0x7BFF, kHalfLeast = 0x0001;

const std::vector<TokenId> kSomeTokens = {1, 5, 9, 200, 17};

/// A model whose matrices are of that type, with one f16 scale of one tensor replaced.
TinyModel with_scale(DType type, const std::string& tensor, std::uint16_t scale,
                     std::size_t scale_at) {
  TinyModel tiny;
  tiny.n_embd = 256;
  tiny.n_ff = 256;
  tiny.n_heads = 4;
  tiny.head_dim = 64;
  tiny.n_rot = 64;
  tiny.n_kv_heads = {4, 4};
  tiny.dtype = type;
  tiny.edit_blocks = [=](const std::string& name, std::span<std::byte> blocks) {
    if (name == tensor) std::memcpy(blocks.data() + scale_at, &scale, sizeof scale);
  };
  return tiny;
}

/// Types of every family, and where the first block's f16 scale lies.
const std::pair<DType, std::size_t> kScaled[] = {
    {DType::Q8_0, 0},   {DType::Q4_0, 0},  {DType::Q5_1, 2},    {DType::Q4_K, 0},  {DType::Q4_K, 2},
    {DType::Q6_K, 208}, {DType::Q2_K, 80}, {DType::IQ2_XXS, 0}, {DType::TQ2_0, 64}};

// The largest and the smallest scale are numbers like others: what follows from them is finite, or
// an error.
TEST(Numbers, ExtremeScalesGiveFiniteLogitsOrAnError) {
  for (const auto& [type, at] : kScaled) {
    for (const std::uint16_t scale :
         {kHalfMax, kHalfLeast, std::uint16_t{0x8001}, std::uint16_t{0xFBFF}}) {
      for (const std::string tensor : {"token_embd", "blk.0.attn_v", "blk.1.ffn_gate"}) {
        const auto model = with_scale(type, tensor + ".weight", scale, at).load();
        Session session(*model, {});
        std::vector<float> logits;
        const std::string error = error_of([&] { logits = copy(session.eval(kSomeTokens)); });
        for (const float x : logits) ASSERT_TRUE(std::isfinite(x)) << name(type) << " " << tensor;
        if (!error.empty()) {
          EXPECT_NE(error.find(": expected finite values"), std::string::npos) << error;
        }
      }
    }
  }
}

TEST(Numbers, AfterABadTokenTheSessionIsEmptyAndUsable) {
  TinyModel tiny;
  tiny.edit = [&](const std::string& name, std::vector<float>& values) {
    if (name == "token_embd.weight") values[9 * tiny.n_embd + 3] = kNaN;  // token 9 only
  };
  const auto model = tiny.load();
  Session session(*model, {});
  const std::vector<float> want = copy(session.eval(std::vector<TokenId>{1, 5}));
  EXPECT_NE(error_of([&] { session.eval(std::vector<TokenId>{9}); }), "");
  EXPECT_EQ(session.tokens().size(), 0U);
  EXPECT_TRUE(same_bytes(copy(session.eval(std::vector<TokenId>{1, 5})), want));
}

TokenId draw_one(const SamplerOptions& options, const std::vector<float>& logits) {
  return Sampler(options, logits.size()).next(logits, {});
}

SamplerOptions seeded(float temperature, std::uint64_t seed = 1) {
  SamplerOptions options;
  options.temperature = temperature;
  options.seed = seed;
  return options;
}

TEST(Numbers, ATinyTemperatureIsGreedy) {
  const std::vector<float> logits = {1.0F, 5.0F, 4.9999F, -3.0F, -60000.0F};
  for (const float temperature : {0.0F, 1e-9F, 1e-45F, std::numeric_limits<float>::min()}) {
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
      SamplerOptions options = seeded(temperature, seed);
      EXPECT_EQ(draw_one(options, logits), 1) << temperature;
      options.top_k = 0;
      options.top_p = 1;
      options.min_p = 0;
      EXPECT_EQ(draw_one(options, logits), 1) << temperature;
    }
  }
}

TEST(Numbers, AHugeTemperatureIsUniform) {
  const std::vector<float> logits = {1.0F, 5.0F, 300.0F, -300.0F};
  std::vector<int> counts(4);
  SamplerOptions options = seeded(1e6F);
  options.top_k = 0;
  options.top_p = 1;
  options.min_p = 0;
  Sampler sampler(options, 4);
  for (int i = 0; i < 4000; ++i) ++counts[static_cast<std::size_t>(sampler.next(logits, {}))];
  for (const int count : counts)
    EXPECT_NEAR(count, 1000, 6 * std::sqrt(4000 * 0.25 * 0.75));  // six sigma
}

TEST(Numbers, EqualLogitsGreedyTakesTheLowestIdAndDrawingAnyOfThem) {
  for (const float all : {0.0F, -1e30F, 3e38F}) {
    const std::vector<float> logits(7, all);
    EXPECT_EQ(draw_one(seeded(0), logits), 0);
    std::vector<int> counts(7);
    SamplerOptions options = seeded(1);
    options.top_k = 0;
    options.top_p = 1;
    Sampler sampler(options, 7);
    for (int i = 0; i < 7000; ++i) ++counts[static_cast<std::size_t>(sampler.next(logits, {}))];
    for (const int count : counts) EXPECT_NEAR(count, 1000, 6 * std::sqrt(7000 * 6.0 / 49)) << all;
  }
}

TEST(Numbers, ATopKAboveTheVocabularyIsOff) {
  const std::vector<float> logits = {1.0F, 2.0F, 1.5F};
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    SamplerOptions off = seeded(1, seed), above = off;
    off.top_k = 0;
    above.top_k = std::numeric_limits<std::int32_t>::max();
    EXPECT_EQ(draw_one(above, logits), draw_one(off, logits));
  }
}

// Sums of biases and penalties may leave what a float holds; one token is drawn, and one that may
// be.
TEST(Numbers, HugeBiasesAndPenaltiesDraw) {
  constexpr float kMost = std::numeric_limits<float>::max();
  const std::vector<float> logits = {1.0F, 2.0F, 1.5F};
  SamplerOptions forced = seeded(1);
  forced.logit_bias = {{2, kMost}, {2, kMost}};
  EXPECT_EQ(draw_one(forced, logits), 2);
  SamplerOptions forbidden = seeded(1);
  forbidden.typical_p = 0.5F;
  forbidden.logit_bias = {{0, -kInf}, {1, kMost}, {1, kMost}, {1, -kInf}};
  EXPECT_EQ(draw_one(forbidden, logits), 2);
  SamplerOptions none = seeded(1);
  none.logit_bias = {{0, -kInf}, {1, -kInf}, {2, -kInf}};
  const TokenId any = draw_one(none, logits);
  EXPECT_TRUE(any >= 0 && any < 3);
  SamplerOptions penalties = seeded(1);
  penalties.logit_bias = {{0, kMost}, {1, -kInf}};
  penalties.repeat_penalty = 1e-3F;
  penalties.frequency_penalty = -1e3F;
  const std::vector<TokenId> history = {1, 1, 0};
  Sampler sampler(penalties, 3);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(sampler.next(logits, history), 0);
}

TEST(Numbers, AVocabularyOfOne) {
  TinyModel tiny;
  tiny.n_vocab = 1;
  const auto model = tiny.load();
  Session session(*model, {});
  EXPECT_EQ(session.eval(std::vector<TokenId>{0, 0, 0}).size(), 1U);
  for (const bool ignored : {false, true}) {  // its only token ends the answer, wanted or not
    for (const float temperature : {0.0F, 1.0F}) {
      GenerateOptions options;
      options.sampler = seeded(temperature);
      options.ignore_eos = ignored;
      Text out;
      const GenerateResult result = session.generate(std::vector<TokenId>{0}, options, out.sink());
      EXPECT_EQ(result.reason, StopReason::EndOfGeneration);
      EXPECT_EQ(result.tokens.size(), 0U);
    }
  }
  EXPECT_NE(error_of([&] { session.eval(std::vector<TokenId>{1}); }).find("expected 0 to 0, got 1"),
            std::string::npos);
}

TEST(Numbers, AContextOfOneToken) {
  SessionOptions options;
  options.n_ctx = 1;
  const auto model = TinyModel().load();
  for (const bool shift : {false, true}) {
    options.context_shift = shift;
    Session session(*model, options);
    GenerateOptions wanted = greedy(5);
    wanted.ignore_eos = true;
    Text out;
    const GenerateResult result = session.generate(std::vector<TokenId>{7}, wanted, out.sink());
    EXPECT_EQ(result.reason, StopReason::ContextFull);  // nothing could be kept, so nothing shifts
    EXPECT_EQ(result.tokens.size(), 1U);
    EXPECT_NE(error_of([&] {
                session.generate(std::vector<TokenId>{7, 8}, wanted, out.sink());
              }).find("the prompt does not fit: expected at most 1 token (the context), got 2"),
              shift ? 0U : std::string::npos);
  }
}

}  // namespace
}  // namespace cria::test
