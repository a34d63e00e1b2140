// The order in which threads have their turns on an engine.
#include <gtest/gtest.h>

#include <thread>

#include "engine/c/objects.h"
#include "tests/engine/demo.h"

namespace cria::test {
namespace {

using c_api::EngineObject;
using Turn = EngineObject::Turn;

class Turns : public testing::Test {
 protected:
  Turns() {
    EngineOptions options;
    options.n_ctx = 64;
    options.threads = 1;
    engine.emplace(std::make_shared<c_api::ModelObject>(demo_model().shared_from_this()), options);
  }
  ~Turns() override {
    for (std::thread& thread : threads) thread.join();
  }

  /// A thread that asks for a turn, which it notes; it stands in the queue when this returns.
  void ask(char name, bool for_answers) {
    std::atomic<bool> waits = false;
    threads.emplace_back([this, name, for_answers, &waits] {
      bool told = false;
      const auto tell = [&] {
        if (!std::exchange(told, true)) waits = true;
        return false;
      };
      const Turn turn(*engine, tell, for_answers);
      order += name;
    });
    while (!waits) std::this_thread::yield();
  }

  std::optional<EngineObject> engine;
  std::string order;  // one letter per turn, written while the turn is held
  std::vector<std::thread> threads;
};

TEST_F(Turns, ComeInOrderOfRequests) {
  std::optional<Turn> first(*engine);
  for (const char name : {'a', 'b', 'c'}) ask(name, false);
  first.reset();
  const Turn again(*engine);
  EXPECT_EQ(order, "abc") << "a thread that had a turn queues behind the waiting ones";
}

// Threads that step for answers share one place in the queue: a turn of any of them serves all.
TEST_F(Turns, AnswersHaveOnePlace) {
  const auto never = [] { return false; };
  std::optional<Turn> first(std::in_place, *engine, never, true);
  ask('s', true);
  ask('a', false);
  ask('s', true);
  ask('b', false);
  first.reset();
  {
    const Turn step(*engine, never, true);
    order += 's';
  }
  const Turn last(*engine);
  EXPECT_EQ(order.substr(0, 3), "sab") << order;
}

// An answer cancelled while another thread computes ends with that thread's turn.
TEST_F(Turns, EndAnswersCancelledMeanwhile) {
  const auto writing = std::make_shared<c_api::AnswerBuffer>(),
             other = std::make_shared<c_api::AnswerBuffer>();
  for (const auto& to : {writing, other}) {
    AnswerRequest request;
    request.prompt = demo_tokens();
    request.options = greedy(1);
    engine->begin(std::move(request), to);
  }
  {
    const Turn turn(*engine);
    engine->cancel(*writing, true);
    EXPECT_FALSE(writing->ended());
  }
  EXPECT_TRUE(writing->ended());
  EXPECT_FALSE(other->ended());
  {
    const Turn turn(*engine);
    engine->cancel_all();
  }
  EXPECT_TRUE(other->ended());
  EXPECT_EQ(other->result().reason, StopReason::Interrupted);
}

}  // namespace
}  // namespace cria::test
