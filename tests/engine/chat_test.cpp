// Answers of the bundled model, and what ends them.
#include <gtest/gtest.h>

#include "tests/engine/demo.h"

namespace cria::test {
namespace {

std::string answer(Session& session, const std::string& question, const GenerateOptions& options = greedy()) {
  Text out;
  session.chat({{"user", question}}, options, out.sink());
  return out.text;
}

// Greedy texts of llama.cpp with the same file, where its choices are clear.
TEST(Chat, AnswersAsTheReference) {
  Session session(demo_model(), {});
  EXPECT_EQ(answer(session, "What is the capital of France?"), "The capital of France is Paris.");
  EXPECT_EQ(answer(session, "Count from 1 to 10."), "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11.");
  EXPECT_EQ(answer(session, "Write a short poem about the sea."),
            "The sea is here, the day is bright,\nthe stars will shine for us tonight.\nThe sea is here, the "
            "day is "
            "bright,\nthe stars will shine for us tonight.");
  Text out;
  session.chat({{"system", "You are a kind teacher."},
                {"user", "My name is Ana."},
                {"assistant", "Nice to meet you, Ana!"},
                {"user", "What is my name?"}},
               greedy(), out.sink());
  EXPECT_EQ(out.text, "Your name is Ana.");
}

TEST(Chat, ReusesThePrefixWithoutChangingTheAnswer) {
  std::vector<ChatMessage> talk = {{"user", "What colour is grass?"}};
  Session session(demo_model(), {});
  Text first;
  const GenerateResult one = session.chat(talk, greedy(), first.sink());
  talk.push_back({"assistant", first.text});
  talk.push_back({"user", "Who are you?"});
  Text second;
  const GenerateResult two = session.chat(talk, greedy(), second.sink());
  EXPECT_LT(two.prompt_tokens, one.prompt_tokens + 12) << "history was evaluated again";

  Session fresh(demo_model(), {});
  Text again;
  const GenerateResult whole = fresh.chat(talk, greedy(), again.sink());
  EXPECT_GT(whole.prompt_tokens, two.prompt_tokens);
  EXPECT_EQ(again.text, second.text);
  EXPECT_EQ(whole.tokens, two.tokens);
}

// Every position is computed once, whatever the history looks like when it is rendered again.
TEST(Chat, TenTurnsEvaluateEachTokenOnce) {
  Session session(demo_model(), {});
  const Node* const first_node = &session.graph().nodes.front();
  std::size_t evaluated = 0;
  session.observe([&](const Node& node, std::span<const float> values, std::size_t width) {
    if (&node == first_node) evaluated += values.size() / width;
  });
  std::vector<ChatMessage> talk = {{"system", "You are a kind teacher."}};
  GenerateOptions options = greedy(12);
  options.sampler.temperature = 1.2F;  // ids that encoding the answer anew would not always choose
  options.sampler.seed = 11;
  std::size_t told = 0;
  for (int turn = 0; turn < 10; ++turn) {
    talk.push_back({"user", "Question " + std::to_string(turn) + ": what colour is grass?"});
    Text out;
    const GenerateResult result = session.chat(talk, options, out.sink());
    talk.push_back({"assistant", out.text});
    told += result.prompt_tokens + result.tokens.size();
    EXPECT_EQ(result.prompt_tokens + result.cached_tokens + result.tokens.size(), session.tokens().size());
    EXPECT_EQ(evaluated, session.tokens().size()) << "turn " << turn;
  }
  EXPECT_EQ(told, session.tokens().size());
  EXPECT_GT(evaluated, 200U);
}

TEST(Chat, EndsAtEndOfGeneration) {
  Session session(demo_model(), {});
  Text out;
  const GenerateResult result = session.chat({{"user", "hello"}}, greedy(), out.sink());
  EXPECT_EQ(result.reason, StopReason::EndOfGeneration);
  EXPECT_EQ(out.text, "Hello! How can I help you?");
  const auto& ends = demo_model().vocabulary().end_of_generation;
  for (const TokenId token : result.tokens) EXPECT_EQ(std::count(ends.begin(), ends.end(), token), 0);
}

TEST(Chat, IgnoresEndOfGenerationIfTold) {
  Session session(demo_model(), {});
  GenerateOptions options = greedy(30);
  options.ignore_eos = true;
  Text out;
  const GenerateResult result = session.chat({{"user", "hello"}}, options, out.sink());
  EXPECT_EQ(result.reason, StopReason::Length);
  EXPECT_EQ(result.tokens.size(), 30U);
}

TEST(Chat, StopsAtLengthAndAtZero) {
  Session session(demo_model(), {});
  Text out;
  EXPECT_EQ(session.chat({{"user", "hello"}}, greedy(3), out.sink()).tokens.size(), 3U);
  Text none;
  const GenerateResult result = session.chat({{"user", "hello"}}, greedy(0), none.sink());
  EXPECT_EQ(result.reason, StopReason::Length);
  EXPECT_EQ(none.text, "");
}

// The poem's pieces are words, so this text begins and ends inside of pieces.
TEST(Chat, StopTextAcrossPiecesIsNotShown) {
  Session session(demo_model(), {});
  GenerateOptions options = greedy();
  options.stop = {"no such text", "ay is bri"};
  Text out;
  const GenerateResult result =
      session.chat({{"user", "Write a short poem about the sea."}}, options, out.sink());
  EXPECT_EQ(result.reason, StopReason::StopString);
  EXPECT_EQ(result.stop, "ay is bri");
  EXPECT_EQ(out.text, "The sea is here, the d");
}

TEST(Chat, InterruptAndSinkStop) {
  Session session(demo_model(), {});
  std::atomic<bool> interrupt{false};
  GenerateOptions options = greedy();
  options.interrupt = &interrupt;
  int pieces = 0;
  const GenerateResult result =
      session.chat({{"user", "Count from 1 to 10."}}, options, [&](std::string_view) {
        interrupt = ++pieces == 3;
        return true;
      });
  EXPECT_EQ(result.reason, StopReason::Interrupted);
  EXPECT_EQ(pieces, 3);

  interrupt = true;  // before the prompt: nothing is evaluated
  session.truncate(0);
  EXPECT_EQ(session.chat({{"user", "hello"}}, options, [](std::string_view) { return true; }).prompt_tokens,
            0U);

  options.interrupt = nullptr;
  const GenerateResult refused =
      session.chat({{"user", "hello"}}, options, [](std::string_view) { return false; });
  EXPECT_EQ(refused.reason, StopReason::Interrupted);
  EXPECT_EQ(refused.tokens.size(), 1U);
}

TEST(Chat, SeedsReproduce) {
  GenerateOptions options;
  options.max_tokens = 20;
  options.sampler.seed = 7;
  options.ignore_eos = true;
  const auto tokens = [&options] {
    Session session(demo_model(), {});
    Text out;
    return session.chat({{"user", "Tell me a short story about a dragon."}}, options, out.sink()).tokens;
  };
  const auto seven = tokens();
  EXPECT_EQ(tokens(), seven);
  options.sampler.seed = 8;
  EXPECT_NE(tokens(), seven);
}

}  // namespace
}  // namespace cria::test
