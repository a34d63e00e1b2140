// No allocation per token, and not too much at a time: operator new of this program counts.
#include <gtest/gtest.h>
#include <malloc.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <new>

#include "engine/constrain/constraint.h"
#include "engine/sample/sampler.h"
#include "engine/scheduler.h"
#include "tests/engine/demo.h"
#include "tests/engine/tiny_model.h"

namespace {
std::atomic<long> allocations{0}, releases{0};
std::atomic<std::size_t> bytes{0}, most_bytes{0};  // in use, but for what is aligned

void release(void* memory) {
  if (memory != nullptr) ++releases;
  std::free(memory);
}
void release_counted(void* memory) {
  bytes -= malloc_usable_size(memory);  // 0 of none
  release(memory);
}
}  // namespace

void* operator new(std::size_t size) {
  ++allocations;
  void* const memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  const std::size_t now = bytes += malloc_usable_size(memory);
  for (std::size_t most = most_bytes; now > most && !most_bytes.compare_exchange_weak(most, now);)
    continue;
  return memory;
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  ++allocations;
  const auto a = static_cast<std::size_t>(alignment);
  if (void* const memory = std::aligned_alloc(a, (size + a - 1) / a * a)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { release_counted(memory); }
void operator delete(void* memory, std::size_t) noexcept { release_counted(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }

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

// Several answers at once, with speculative decoding.
TEST(Allocation, NonePerStepOfAScheduler) {
  EngineOptions options;
  options.n_ctx = 400;
  options.threads = 2;
  options.sequences = 4;
  Engine engine(demo_model(), options);
  Scheduler scheduler(engine);
  for (std::uint64_t i = 0; i < 4; ++i) {
    AnswerRequest request;
    request.prompt = many_tokens(30 + i);
    request.options = greedy(300);
    request.options.sampler.temperature = i < 2 ? 0.0F : 1.0F;
    request.options.sampler.seed = i;
    request.options.ignore_eos = true;
    request.options.speculate =
        std::array{Speculate::Off, Speculate::Off, Speculate::Auto, Speculate::Lookup}[i];
    scheduler.add(request);
  }
  for (int i = 0; i < 20; ++i) scheduler.step();
  const long before = allocations;
  for (int i = 0; i < 80; ++i) scheduler.step();
  EXPECT_EQ(scheduler.active(), 4U);
  EXPECT_EQ(allocations, before);
}

TEST(Allocation, FreesThousandsOfShortSequences) {
  const auto model = TinyModel().load();
  EngineOptions options;
  options.n_ctx = 64;
  options.sequences = 4;
  options.threads = 1;
  Engine engine(*model, options);
  Scheduler scheduler(engine);
  const auto answer = [&](std::uint64_t n) {
    for (std::uint64_t i = 0; i < n; ++i) {
      AnswerRequest request;
      request.prompt = {1, static_cast<TokenId>(3 + i % 250),
                        static_cast<TokenId>(3 + i / 250 % 250)};
      request.options = greedy(2);
      scheduler.add(std::move(request));
      while (scheduler.waiting() >= 4) scheduler.step();
    }
    while (scheduler.step()) continue;
    return allocations - releases;
  };
  const long before = answer(500);
  EXPECT_EQ(answer(10000), before);
}

// Returns schemas with many alternatives that are large or whose errors include a path.
std::vector<std::string> schemas_of_much() {
  std::string values = "0", names = "\"n\"", members = R"("m":{})", anything = "{}",
              references = R"({"$ref":"#/$defs/a"})";
  for (int i = 10000; i < 15000; ++i) {
    const std::string number = std::to_string(i);
    values += "," + number;
    names += ",\"" + number + "\"";
    members += ",\"" + number + "\":{}";
    anything += ",{}";
    references += R"(,{"$ref":"#/$defs/a"})";
  }
  const std::string any_of = R"("anyOf":[)" + anything + "]", text(50000, 'x');
  const std::string referring = R"({"anyOf":[)" + references + R"(],"$defs":{"a":)";
  return {R"({"enum":[)" + values + "]," + any_of + "}",
          R"({"required":[)" + names + "]," + any_of + "}",
          R"({"properties":{)" + members + "}," + any_of + "}",
          R"({"prefixItems":[)" + anything + "]," + any_of + "}",
          R"({"allOf":[{)" + any_of + "},{" + any_of + "}]}",
          referring + R"({"enum":[)" + values + "]}}}",
          referring + R"({"enum":[")" + text + "\"]}}}",
          referring + R"({"properties":{")" + text + "\":{}}}}}",
          R"({"properties":{")" + text + R"(":{"properties":{)" + members + "}}}}"};
}

// The compiler keeps at most 64 MiB at a time. The limit adds another 64 MiB for the JSON and for
// memory that is not counted yet.
TEST(Allocation, RejectedSchemasAllocateLittle) {
  for (const std::string& schema : schemas_of_much()) {
    const std::size_t before = bytes;
    most_bytes = before;
    EXPECT_THROW(Constraint::json_schema(schema), ConstraintError) << schema.substr(0, 80);
    EXPECT_LT(most_bytes - before, std::size_t{128} << 20) << schema.substr(0, 80);
  }
}

}  // namespace
}  // namespace cria::test
