// Answers of the bundled model, and what ends them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/engine/demo.h"
#include "tests/engine/tiny_model.h"

namespace cria::test {
namespace {

std::string answer(Session& session, const std::string& question,
                   const GenerateOptions& options = greedy()) {
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
            "The sea is here, the day is bright,\nthe stars will shine for us tonight.\nThe sea is "
            "here, the "
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
  options.speculate = Speculate::Off;  // rejected drafts would be evaluated, too
  std::size_t told = 0;
  for (int turn = 0; turn < 10; ++turn) {
    talk.push_back({"user", "Question " + std::to_string(turn) + ": what colour is grass?"});
    Text out;
    const GenerateResult result = session.chat(talk, options, out.sink());
    talk.push_back({"assistant", out.text});
    // The token at which max_tokens ended an answer is read with the next prompt.
    const std::size_t read = result.tokens.size() - (result.reason == StopReason::Length ? 1 : 0);
    told += result.prompt_tokens + read;
    EXPECT_EQ(result.prompt_tokens + result.cached_tokens + read, session.tokens().size());
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
  EXPECT_TRUE(result.end_token);
  EXPECT_EQ(out.text, "Hello! How can I help you?");
  const auto& ends = demo_model().vocabulary().end_of_generation;
  for (const TokenId token : result.tokens)
    EXPECT_EQ(std::count(ends.begin(), ends.end(), token), 0);
}

TEST(Chat, IgnoresEndOfGenerationOnRequest) {
  Session session(demo_model(), {});
  GenerateOptions options = greedy(30);
  options.ignore_eos = true;
  Text out;
  const GenerateResult result = session.chat({{"user", "hello"}}, options, out.sink());
  EXPECT_EQ(result.reason, StopReason::Length);
  EXPECT_EQ(result.tokens.size(), 30U);
}

TEST(Chat, SuppressedTokensAreNeverDrawn) {
  TinyModel tiny;
  const auto first = [&](const GenerateOptions& options) {
    const auto model = tiny.load();
    Session session(*model, {});
    Text out;
    return session.generate(std::vector<TokenId>{7}, options, out.sink()).tokens.at(0);
  };
  GenerateOptions options = greedy(1);
  options.ignore_eos = true;
  const TokenId usual = first(options);
  tiny.keys.emplace_back("tokenizer.ggml.suppress_tokens",
                         GgufArray::of(std::vector<std::int32_t>{usual}));
  EXPECT_NE(first(options), usual);
  options.sampler.logit_bias = {{usual, 100.0F}};
  EXPECT_NE(first(options), usual);
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

// One pass per sampled token, but none after the last token: the next prompt's prefill includes it.
TEST(Chat, AsManyPassesAsTokens) {
  Session session(demo_model(), {});
  const Node* const first_node = &session.graph().nodes.front();
  std::size_t passes = 0;
  session.observe([&](const Node& node, std::span<const float>, std::size_t) {
    passes += &node == first_node;
  });
  GenerateOptions options = greedy(1);
  options.ignore_eos = true;
  options.speculate = Speculate::Off;
  std::vector<TokenId> text = many_tokens(30);
  std::vector<TokenId> drawn;
  for (const std::int64_t n : {1, 3, 0, 2}) {
    options.max_tokens = n;
    passes = 0;
    const GenerateResult result = session.generate(text, options);
    EXPECT_EQ(result.reason, StopReason::Length);
    EXPECT_EQ(passes, static_cast<std::size_t>(std::max<std::int64_t>(n, 1)));
    text.insert(text.end(), result.tokens.begin(), result.tokens.end());
    EXPECT_EQ(session.tokens().size(), text.size() - (n == 0 ? 0 : 1));
    drawn.insert(drawn.end(), result.tokens.begin(), result.tokens.end());
  }
  Session fresh(demo_model(), {});
  options.max_tokens = 6;
  EXPECT_EQ(fresh.generate(many_tokens(30), options).tokens, drawn);
}

// The poem's pieces are words, so this text begins and ends inside of pieces.
TEST(Chat, HidesStopStringsSplitAcrossTokens) {
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
  EXPECT_EQ(session.chat({{"user", "hello"}}, options, [](std::string_view) { return true; })
                .prompt_tokens,
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
    return session.chat({{"user", "Tell me a short story about a dragon."}}, options, out.sink())
        .tokens;
  };
  const auto seven = tokens();
  EXPECT_EQ(tokens(), seven);
  options.sampler.seed = 8;
  EXPECT_NE(tokens(), seven);
}

TEST(Chat, ResultHasTheTextWithoutASink) {
  Session session(demo_model(), {});
  const GenerateResult result =
      session.chat({{"user", "What is the capital of France?"}}, greedy());
  EXPECT_EQ(result.text, "The capital of France is Paris.");
  EXPECT_EQ(result.reason, StopReason::EndOfGeneration);
  session.truncate(0);
  EXPECT_EQ(session.generate(demo_tokens(), greedy(3)).tokens.size(), 3U);
  session.truncate(0);
  session.eval_all(demo_tokens(), nullptr);
  EXPECT_EQ(session.tokens().size(), demo_tokens().size());
}

TEST(Chat, ASessionKeepsItsModelAlive) {
  auto model = Model::load(CRIA_DATA "/cria-demo-Q8_0.gguf");
  const std::weak_ptr<const Model> watched = model;
  {
    Session session(*model, {});
    model.reset();
    EXPECT_FALSE(watched.expired());
    EXPECT_EQ(answer(session, "What is the capital of France?"), "The capital of France is Paris.");
  }
  EXPECT_TRUE(watched.expired());
}

TEST(Chat, TemplateAndToolsCanBeGiven) {
  Session session(demo_model(), {});
  ChatOptions how;
  how.chat_template = std::make_shared<const ChatTemplate>(
      ChatTemplate::parse("{{ tools[0].name }}: {{ messages[0].content }}", "test", {}));
  how.variables = R"({"tools": [{"name": "look_up"}]})";
  std::string seen;
  how.on_prompt = [&](std::string_view text, std::span<const TokenId> tokens) {
    seen = text;
    EXPECT_EQ(tokens.size(), count_prompt_tokens(demo_model(), {{"user", "hello"}}, how));
  };
  const GenerateResult result = session.chat({{"user", "hello"}}, greedy(4), {}, how);
  EXPECT_EQ(seen, "look_up: hello");
  EXPECT_EQ(result.tokens.size(), 4U);
  EXPECT_EQ(result.prompt_tokens, session.tokens().size() - 3);
}

std::vector<ChatMessage> long_talk(int exchanges) {
  std::vector<ChatMessage> talk = {{"system", "You are a kind teacher."}};
  for (int i = 0; i < exchanges; ++i) {
    talk.push_back({"user", "What is the capital of France?"});
    talk.push_back({"assistant", "The capital of France is Paris."});
  }
  talk.push_back({"user", "My name is Ana. What is my name?"});
  return talk;
}

TEST(Chat, DropsTheOldestExchangesOnRequest) {
  Session session(demo_model(), {.n_ctx = 128});
  EXPECT_NE(
      error_of([&] { session.chat(long_talk(10), greedy()); }).find("the conversation is too long"),
      std::string::npos);
  ChatOptions how;
  how.drop_oldest = true;
  std::string prompt;
  how.on_prompt = [&](std::string_view text, std::span<const TokenId>) { prompt = text; };
  const GenerateResult result = session.chat(long_talk(10), greedy(), {}, how);
  EXPECT_GT(result.dropped, 0U);
  EXPECT_EQ(result.dropped % 2, 0U) << "a question and its answer";
  EXPECT_LE(result.prompt_tokens, 96U) << "a quarter is free";
  EXPECT_NE(prompt.find("kind teacher"), std::string::npos);
  EXPECT_NE(prompt.find("My name is Ana"), std::string::npos);

  Session fresh(demo_model(), {.n_ctx = 128});
  std::vector<ChatMessage> rest = long_talk(10);
  rest.erase(rest.begin() + 1, rest.begin() + 1 + static_cast<std::ptrdiff_t>(result.dropped));
  EXPECT_EQ(fresh.chat(rest, greedy()).tokens, result.tokens);
}

TEST(Chat, ReportsAnOversizedMessage) {
  Session session(demo_model(), {.n_ctx = 64});
  std::vector<ChatMessage> talk = long_talk(3);
  for (int i = 0; i < 100; ++i) talk.back().content += " word";
  ChatOptions how;
  how.drop_oldest = true;
  try {
    session.chat(talk, greedy(), {}, how);
    FAIL() << "expected ContextOverflow";
  } catch (const ContextOverflow& overflow) {
    EXPECT_TRUE(overflow.last_alone);
    EXPECT_GT(overflow.tokens, 64U);
    EXPECT_NE(std::string(overflow.what()).find("the message is too long"), std::string::npos)
        << overflow.what();
  }
}

// Without what came before it, the last message is a conversation that the template refuses.
TEST(Chat, ReportsOverflowBeforeTemplateErrors) {
  Session session(demo_model(), {.n_ctx = 64});
  ChatOptions how;
  how.chat_template = std::make_shared<const ChatTemplate>(ChatTemplate::parse(
      "{% if messages[0].role != 'user' %}{{ raise_exception('a user speaks first') }}{% endif %}"
      "{% for message in messages %}{{ message.content }}{% endfor %}",
      "test", TemplateTokens::of(demo_model().vocabulary())));
  std::vector<ChatMessage> talk = {{"user", "hi"}, {"assistant", "so"}};
  for (int i = 0; i < 100; ++i) talk.back().content += " word";
  try {
    session.chat(talk, greedy(), {}, how);
    FAIL() << "expected ContextOverflow";
  } catch (const ContextOverflow& overflow) {
    EXPECT_FALSE(overflow.last_alone) << "nothing is known of it";
    EXPECT_NE(std::string(overflow.what()).find("the conversation is too long"), std::string::npos);
  }
}

TEST(Chat, ProgressCountsThePromptUp) {
  Session session(demo_model(), {.n_batch = 16});
  GenerateOptions options = greedy(1);
  std::vector<std::size_t> told;
  options.progress = [&](std::size_t done, std::size_t total) {
    EXPECT_EQ(total, 50U);
    told.push_back(done);
  };
  session.generate(many_tokens(50), options);
  EXPECT_EQ(told, (std::vector<std::size_t>{0, 16, 32, 48, 50}));
}

// Within one node of the graph, however long the prompt: in its first batch and in a later one.
TEST(Chat, AnInterruptStopsThePromptWithinANode) {
  Session session(demo_model(), {.n_batch = 8});
  std::vector<TokenId> prompt(40);
  for (std::size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<TokenId>(100 + i);
  const std::size_t nodes = session.graph().nodes.size();
  for (const std::size_t at : {std::size_t{3}, 2 * nodes + 5}) {
    std::atomic<bool> interrupt{false};
    std::size_t seen = 0;
    session.truncate(0);
    session.observe(
        [&](const Node&, std::span<const float>, std::size_t) { interrupt = ++seen >= at; });
    GenerateOptions options = greedy(4);
    options.interrupt = &interrupt;
    const GenerateResult result = session.generate(prompt, options);
    EXPECT_EQ(result.reason, StopReason::Interrupted);
    EXPECT_EQ(seen, at) << "nodes were computed after the interrupt";
    EXPECT_EQ(result.text, "");
    EXPECT_EQ(session.tokens().size(), result.prompt_tokens) << "batches before it are kept";
  }
  session.observe({});
  const GenerateResult kept = session.generate(prompt, greedy(4));
  Session fresh(demo_model(), {});
  EXPECT_EQ(kept.tokens, fresh.generate(prompt, greedy(4)).tokens);
}

// For example, the caller's sink may throw.
TEST(Chat, AnErrorRestoresTheSession) {
  Session session(demo_model(), {});
  const std::vector<TokenId> prompt = many_tokens(30), known = many_tokens(20);
  session.eval(known);
  int pieces = 0;
  const auto fail = [&](std::string_view) -> bool {
    if (++pieces == 3) throw Error("no more");
    return true;
  };
  EXPECT_EQ(error_of([&] { session.generate(prompt, greedy(), fail); }), "no more");
  EXPECT_EQ(std::vector(session.tokens().begin(), session.tokens().end()), known);
  Session fresh(demo_model(), {});
  EXPECT_EQ(session.generate(prompt, greedy(8)).tokens, fresh.generate(prompt, greedy(8)).tokens);
}

// The sink may also throw on text held back until the end, or the reader of all logits may throw.
TEST(Chat, ALateErrorRestoresTheSession) {
  Session session(demo_model(), {.n_batch = 16});
  const std::vector<TokenId> prompt = many_tokens(30), known = many_tokens(20);
  session.eval(known);
  GenerateOptions options = greedy(5);
  options.stop = {Session(demo_model(), {}).generate(prompt, options).text + "never"};
  const auto fail = [](std::string_view) -> bool { throw Error("no more"); };
  EXPECT_EQ(error_of([&] { session.generate(prompt, options, fail); }), "no more");
  EXPECT_EQ(std::vector(session.tokens().begin(), session.tokens().end()), known);
  const auto fail_at_20 = [](std::size_t i, std::span<const float>) {
    if (i == 20) throw Error("no more");
  };
  EXPECT_EQ(error_of([&] { session.eval_all(prompt, fail_at_20); }), "no more");
  EXPECT_EQ(std::vector(session.tokens().begin(), session.tokens().end()), known);
}

// Against the softmax of the logits that eval() gives, in double.
TEST(Chat, LogProbabilitiesAreTheModelsOwn) {
  Session session(demo_model(), {});
  GenerateOptions options = greedy(3);
  options.logprobs = 4;
  options.sampler.logit_bias = {
      {300, 100.0F}};  // draws a token that is unlikely: its probability is not changed
  const std::vector<TokenId> prompt = {1, 500, 600};
  const GenerateResult result = session.generate(prompt, options);
  ASSERT_EQ(result.logprobs.size(), 3U);
  Session other(demo_model(), {});
  std::span<const float> logits = other.eval(prompt);
  for (const TokenLogprobs& token : result.logprobs) {
    EXPECT_EQ(token.id, 300);
    double sum = 0;
    for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
    const double want =
        logits[300] - std::log(sum);  // between -32 and 0: a float's last place is 2^-19 at most
    EXPECT_NEAR(token.logprob, want, 0x1p-19);
    ASSERT_EQ(token.top.size(), 4U);
    const float highest = *std::max_element(logits.begin(), logits.end());
    EXPECT_EQ(logits[static_cast<std::size_t>(token.top[0].first)], highest);
    for (std::size_t i = 1; i < token.top.size(); ++i)
      EXPECT_GE(token.top[i - 1].second, token.top[i].second);
    logits = other.eval({&token.id, 1});
  }
  options.logprobs.reset();
  EXPECT_TRUE(session.generate(prompt, options).logprobs.empty());
}

}  // namespace
}  // namespace cria::test
