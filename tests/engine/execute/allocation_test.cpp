// No allocation per token: operator new of this program counts.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "engine/sample/sampler.h"
#include "tests/engine/demo.h"

namespace {
std::atomic<long> allocations{0};
}

void* operator new(std::size_t size) {
  ++allocations;
  if (void* const memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  ++allocations;
  const auto a = static_cast<std::size_t>(alignment);
  if (void* const memory = std::aligned_alloc(a, (size + a - 1) / a * a)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace cria::test {
namespace {

TEST(Allocation, TheCounterCounts) {
  const long before = allocations;
  const std::vector<int> some(1000);
  EXPECT_GT(allocations, before);
  EXPECT_EQ(some.size(), 1000U);
}

TEST(Allocation, NonePerTokenAfterTheFirst) {
  for (const unsigned threads : {1U, 2U}) {
    SessionOptions options;
    options.threads = threads;
    Session session(demo_model(), options);
    SamplerOptions sampling;
    sampling.seed = 1;
    sampling.typical_p = 0.9F;
    sampling.repeat_penalty = 1.1F;
    Sampler sampler(sampling, demo_model().config().n_vocab);
    TokenId token = sampler.next(session.eval(many_tokens(20)), session.tokens());
    const long before = allocations;
    for (int i = 0; i < 50; ++i) token = sampler.next(session.eval({&token, 1}), session.tokens());
    EXPECT_EQ(allocations, before) << threads << " threads";
  }
}

TEST(Allocation, NonePerPromptChunk) {
  SessionOptions options;
  options.n_batch = 32;
  Session session(demo_model(), options);
  const std::vector<TokenId> tokens = many_tokens(200);
  session.eval(std::span(tokens).first(40));
  const long before = allocations;
  session.eval(std::span(tokens).subspan(40));
  EXPECT_EQ(allocations, before);
}

// Sequences that fill page after page, found prefixes that make room, one batch for all.
TEST(Allocation, NonePerBatchOfManySequences) {
  EngineOptions options;
  options.n_ctx = 512;
  options.threads = 2;
  options.sequences = 4;
  options.positions = 1024;
  Engine engine(demo_model(), options);
  std::vector<Sequence> sequences;
  for (std::uint64_t i = 0; i < 4; ++i) sequences.emplace_back(engine, i);
  Batch batch(engine);
  const std::vector<TokenId> tokens = many_tokens(256);
  const auto step = [&](std::size_t i) {
    batch.clear();
    for (Sequence& sequence : sequences) batch.add(sequence, std::span(tokens).subspan(i, 1), 0);
    batch.forward();
    (void)batch.logits(0, 4);
  };
  step(0);
  const long before = allocations;
  for (std::size_t i = 1; i < 150; ++i) step(i);
  for (Sequence& sequence : sequences) sequence.truncate(100);
  for (std::size_t i = 100; i < 250; ++i) step(i);
  EXPECT_EQ(allocations, before);
}

}  // namespace
}  // namespace cria::test
