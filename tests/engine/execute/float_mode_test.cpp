// A program may have other modes of float arithmetic in its threads: results are the same, and the
// modes stay.
#include <gtest/gtest.h>
#include <oneapi/tbb/global_control.h>

#include <cfenv>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "engine/execute/team.h"
#include "kernels/simd/float_mode.h"
#include "tests/engine/demo.h"
#include "tests/engine/tiny_model.h"

namespace cria::test {
namespace {

/// Results of this thread's arithmetic: rounding of a sum, and a subnormal number.
struct Mode {
  bool upward, subnormals;
  static Mode get() {
    volatile float one = 1, tiny = 0x1p-40F, subnormal = std::numeric_limits<float>::denorm_min();
    return {one + tiny > 1, subnormal * 2 > 0};
  }
  bool operator==(const Mode&) const = default;
};

/// A thread of a program that rounds upward and flushes subnormal numbers to zero.
class OtherMode {
 public:
  OtherMode() { std::fesetround(FE_UPWARD); }
  ~OtherMode() {
    zero_.reset();
    std::fesetround(FE_TONEAREST);
  }
  OtherMode(const OtherMode&) = delete;
  OtherMode& operator=(const OtherMode&) = delete;
  static constexpr Mode kMode{true, false};

 private:
  std::optional<SubnormalsAsZero> zero_{std::in_place};
};

/// F16, with embeddings so small that they are subnormal.
std::shared_ptr<const Model> model_of_subnormals() {
  TinyModel tiny;
  tiny.dtype = DType::F16;
  tiny.edit_blocks = [](const std::string& tensor, std::span<std::byte> blocks) {
    if (tensor != "token_embd.weight") return;
    for (std::size_t i = 1; i < blocks.size(); i += 2) blocks[i] &= std::byte{0x83};
  };
  return tiny.load();
}

TEST(FloatMode, OfTheCallerChangesNoLogits) {
  const tbb::global_control three(tbb::global_control::max_allowed_parallelism,
                                  3);  // also on one core
  const std::shared_ptr<const Model> model = model_of_subnormals();
  const std::vector<TokenId> tokens = {1, 5, 17, 200, 33, 8, 9, 250};
  SessionOptions options;
  for (const unsigned threads : {1U, 3U}) {
    options.threads = options.threads_prefill = threads;
    const std::vector<float> expected = all_logits(*model, options, tokens);
    Session before(*model, options);  // made in the usual mode
    std::vector<float> got, of_another;
    {
      const OtherMode mode;
      ASSERT_EQ(Mode::get(), OtherMode::kMode);
      got = all_logits(before, tokens);
      of_another = all_logits(*model, options, tokens);
      EXPECT_EQ(Mode::get(), OtherMode::kMode);
    }
    EXPECT_TRUE(same_bytes(got, expected)) << threads;
    EXPECT_TRUE(same_bytes(of_another, expected)) << threads;
  }
}

/// Log-probabilities are computed by the calling thread.
TEST(FloatMode, OfTheCallerChangesNoAnswer) {
  const std::vector<TokenId> prompt = {1, 5, 17, 200};
  GenerateOptions options;
  options.max_tokens = 12;
  options.logprobs = 3;
  options.sampler.seed = 7;
  options.ignore_eos = true;
  const auto answer = [&] {
    Session session(demo_model(), {});
    const GenerateResult result = session.generate(prompt, options, {});
    std::vector<float> numbers;
    for (const TokenLogprobs& token : result.logprobs) numbers.push_back(token.logprob);
    return std::pair(result.tokens, numbers);
  };
  const auto expected = answer();
  ASSERT_EQ(expected.second.size(), 12U);
  const OtherMode mode;
  const auto got = answer();
  EXPECT_EQ(Mode::get(), OtherMode::kMode);
  EXPECT_EQ(got.first, expected.first);
  EXPECT_TRUE(same_bytes(got.second, expected.second));
}

/// Two chunks that wait for each other: both threads have one.
TEST(FloatMode, IsTheSameInAllThreadsOfATeam) {
  const tbb::global_control two(tbb::global_control::max_allowed_parallelism, 2);
  const OtherMode mode;
  Team team(2);  // its arena would hand this thread's mode on
  const auto evaluation = team.begin(2);
  std::atomic<int> begun{0};
  Mode modes[2] = {};
  team.run(2, [&](std::size_t chunk, unsigned) {
    begun.fetch_add(1);
    while (begun.load() < 2) std::this_thread::yield();
    modes[chunk] = Mode::get();
  });
  for (const Mode& of_thread : modes) EXPECT_EQ(of_thread, (Mode{false, true}));
}

}  // namespace
}  // namespace cria::test
