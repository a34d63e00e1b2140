// The end of the context, and what a session refuses.
#include <gtest/gtest.h>

#include "tests/engine/demo.h"

namespace cria::test {
namespace {

SessionOptions small_context(bool shift) {
  SessionOptions options;
  options.n_ctx = 40;
  options.context_shift = shift;
  return options;
}

GenerateOptions endless(std::int64_t max_tokens) {
  GenerateOptions options = greedy(max_tokens);
  options.ignore_eos = true;
  return options;
}

TEST(Context, StopsWhenFull) {
  Session session(demo_model(), small_context(false));
  Text out;
  const GenerateResult result = session.generate(many_tokens(30), endless(-1), out.sink());
  EXPECT_EQ(result.reason, StopReason::ContextFull);
  EXPECT_EQ(result.tokens.size(), 11U);  // ten are evaluated, the eleventh follows from the tenth
  EXPECT_EQ(session.tokens().size(), 40U);
}

// The last token of an answer needs no room: nothing is dropped for it.
TEST(Context, DoesNotShiftForTheLastToken) {
  Session session(demo_model(), small_context(true));
  const GenerateResult result = session.generate(many_tokens(30), endless(11));
  EXPECT_EQ(result.shifts, 0U);
  EXPECT_EQ(session.tokens().size(), 40U);
  EXPECT_EQ(session.generate(many_tokens(30), endless(12)).shifts, 1U);
}

// After a shift the session is, to the bit, one that never saw what was dropped.
TEST(Context, ShiftEqualsAFreshSession) {
  Session session(demo_model(), small_context(true));
  GenerateOptions options = endless(13);  // tokens after the twelfth need the shift
  options.keep = 5;
  Text out;
  const std::vector<TokenId> prompt = many_tokens(30);
  const GenerateResult result = session.generate(prompt, options, out.sink());
  EXPECT_EQ(result.reason, StopReason::Length);
  EXPECT_EQ(result.shifts, 1U);

  std::vector<TokenId> left(prompt.begin(),
                            prompt.begin() + 5);  // 40 tokens: 5 kept, (40-5)/2 = 17 dropped
  std::vector<TokenId> before(prompt);
  before.insert(before.end(), result.tokens.begin(), result.tokens.begin() + 11);
  left.insert(left.end(), before.begin() + 22, before.end());
  left.push_back(result.tokens[11]);
  EXPECT_EQ(std::vector<TokenId>(session.tokens().begin(), session.tokens().end()), left);

  Session fresh(demo_model(), small_context(false));
  const TokenId next = 300;
  const std::vector<float> want = (fresh.eval(left), copy(fresh.eval({&next, 1})));
  EXPECT_TRUE(same_bytes(copy(session.eval({&next, 1})), want));
}

TEST(Context, ShiftKeepsBosAndSystemMessage) {
  Session session(demo_model(), small_context(true));
  GenerateOptions options = endless(60);
  Text out;
  const GenerateResult result =
      session.chat({{"system", "Be kind."}, {"user", "hello"}}, options, out.sink());
  EXPECT_GT(result.shifts, 1U);
  const auto begin = ChatTemplate::from_vocabulary(demo_model().vocabulary())
                         .encode(demo_model().tokenizer(), {{"system", "Be kind."}},
                                 {.add_generation_prompt = false});
  ASSERT_LT(begin.size(), session.tokens().size());
  EXPECT_TRUE(std::equal(begin.begin(), begin.end(), session.tokens().begin()));
}

TEST(Context, LongPromptIsRefusedOrShifted) {
  Session stop(demo_model(), small_context(false));
  Text out;
  EXPECT_NE(error_of([&] {
              stop.generate(many_tokens(41), greedy(1), out.sink());
            }).find("the prompt does not fit: expected at most 40 tokens (the context), got 41"),
            std::string::npos);
  Session shift(demo_model(), small_context(true));
  const GenerateResult result = shift.generate(many_tokens(100), greedy(1), out.sink());
  EXPECT_EQ(result.shifts, 2U);
  EXPECT_LE(shift.tokens().size(), 40U);
}

TEST(Context, RejectsInvalidTokens) {
  Session session(demo_model(), small_context(false));
  EXPECT_NE(error_of([&] {
              session.eval(std::vector<TokenId>{1, 4096});
            }).find("no such token: expected 0 to 4095, got 4096"),
            std::string::npos);
  EXPECT_NE(error_of([&] { session.eval(std::vector<TokenId>{-1}); }).find("got -1"),
            std::string::npos);
  EXPECT_NE(error_of([&] { session.eval(many_tokens(41)); }).find("context is full"),
            std::string::npos);
  EXPECT_EQ(session.tokens().size(), 0U);
  Text out;
  EXPECT_NE(error_of([&] { session.generate({}, greedy(), out.sink()); }), "");
  EXPECT_TRUE(session.eval({}).empty());
}

}  // namespace
}  // namespace cria::test
