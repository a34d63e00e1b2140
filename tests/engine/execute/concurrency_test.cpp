// Several concurrent sessions of one model: each answer has the same bytes as in a single session.
#include <gtest/gtest.h>

#include <thread>

#include "tests/engine/demo.h"
#include "tests/engine/tiny_model.h"

namespace cria::test {
namespace {

const Model& shared_tiny() {
  static const std::shared_ptr<const Model> model = TinyModel().load();
  return *model;
}

/// f(i) for i in [0, n), each on a thread of its own.
template <class F>
void at_once(int n, F&& f) {
  std::vector<std::thread> threads;
  for (int i = 0; i < n; ++i) threads.emplace_back([&f, i] { f(i); });
  for (std::thread& thread : threads) thread.join();
}

std::vector<TokenId> prompt_of(int i) {
  std::vector<TokenId> tokens = {1};
  for (int k = 0; k < 20 + i; ++k)
    tokens.push_back(static_cast<TokenId>(3 + (7 * k + 13 * i) % 290));
  return tokens;
}

struct Said {
  std::vector<TokenId> tokens;
  std::vector<float> logits;
  bool operator==(const Said& other) const {
    return tokens == other.tokens && same_bytes(logits, other.logits);
  }
};

Said speak(Session& session, int i) {
  GenerateOptions options = greedy(12);
  options.ignore_eos = true;
  options.sampler.temperature = i % 2 == 0 ? 0.0F : 0.9F;
  options.sampler.seed = static_cast<std::uint64_t>(i);
  Text out;
  Said heard;
  heard.tokens = session.generate(prompt_of(i), options, out.sink()).tokens;
  const TokenId next = 5;
  heard.logits = copy(session.eval({&next, 1}));
  return heard;
}

Said alone(int i) {
  SessionOptions options;
  options.threads = 1;
  Session session(shared_tiny(), options);
  return speak(session, i);
}

TEST(Concurrency, SessionsOfOneModelDoNotInteract) {
  constexpr int kSessions = 6;
  std::vector<Said> want(kSessions), got(kSessions);
  for (int i = 0; i < kSessions; ++i) want[static_cast<std::size_t>(i)] = alone(i);
  at_once(kSessions, [&](int i) {
    SessionOptions options;
    options.threads = static_cast<std::uint32_t>(1 + i % 3);
    options.n_batch = static_cast<std::uint32_t>(5 + 3 * i);
    for (int again = 0; again < 2; ++again) {
      Session session(shared_tiny(), options);
      got[static_cast<std::size_t>(i)] = speak(session, i);
    }
  });
  for (std::size_t i = 0; i < kSessions; ++i) EXPECT_EQ(got[i], want[i]) << i;
}

TEST(Concurrency, ASessionMovesFromThreadToThread) {
  SessionOptions options;
  options.threads = 2;
  const std::vector<TokenId> tokens = prompt_of(10);
  std::vector<float> want, got;
  {
    Session session(shared_tiny(), options);
    for (const TokenId token : tokens) want = copy(session.eval({&token, 1}));
  }
  std::unique_ptr<Session> session;
  std::thread([&] { session = std::make_unique<Session>(shared_tiny(), options); }).join();
  for (const TokenId token : tokens)
    std::thread([&] { got = copy(session->eval({&token, 1})); }).join();
  std::thread([&] { session.reset(); }).join();
  EXPECT_TRUE(same_bytes(got, want));
}

TEST(Concurrency, ManyShortSessions) {
  constexpr int kThreads = 4, kEach = 50;
  SessionOptions options;
  options.n_ctx = 8;
  options.threads = 1;
  const std::vector<TokenId> tokens = {1, 17};
  const std::vector<float> want = [&] {
    Session session(shared_tiny(), options);
    return copy(session.eval(tokens));
  }();
  std::vector<int> wrong(kThreads);
  at_once(kThreads, [&](int i) {
    SessionOptions mine = options;
    mine.threads = static_cast<std::uint32_t>(1 + i % 2);
    for (int n = 0; n < kEach; ++n) {
      Session session(shared_tiny(), mine);
      wrong[static_cast<std::size_t>(i)] += !same_bytes(copy(session.eval(tokens)), want);
    }
  });
  EXPECT_EQ(wrong, std::vector<int>(kThreads));
}

TEST(Concurrency, ChatsShareTokenizerAndTemplate) {
  const std::vector<std::string> questions = {"What is the capital of France?",
                                              "What colour is grass?"};
  const auto answer = [&](std::size_t i) {
    SessionOptions options;
    options.threads = 1;
    Session session(demo_model(), options);
    Text out;
    session.chat({{"user", questions[i]}}, greedy(), out.sink());
    return out.text;
  };
  std::vector<std::string> got(2);
  at_once(2,
          [&](int i) { got[static_cast<std::size_t>(i)] = answer(static_cast<std::size_t>(i)); });
  EXPECT_EQ(got, (std::vector<std::string>{"The capital of France is Paris.", "Grass is green."}));
}

TEST(Concurrency, OneTokenizerEncodesForAll) {
  const Tokenizer& tokenizer = demo_model().tokenizer();
  std::string text;
  for (const TokenId token : many_tokens(2000)) text += tokenizer.piece(token, false);
  const std::vector<TokenId> want = tokenizer.encode(text, true, false);
  std::vector<std::vector<TokenId>> got(4);
  at_once(4,
          [&](int i) { got[static_cast<std::size_t>(i)] = tokenizer.encode(text, true, false); });
  for (const auto& ids : got) EXPECT_EQ(ids, want);
}

TEST(Concurrency, LoadsAtOnce) {
  std::vector<std::shared_ptr<const Model>> models(3);
  at_once(3, [&](int i) {
    models[static_cast<std::size_t>(i)] = Model::load(demo_model().file().path());
  });
  for (const auto& model : models)
    EXPECT_EQ(model->file().tensors().size(), demo_model().file().tensors().size());
}

}  // namespace
}  // namespace cria::test
