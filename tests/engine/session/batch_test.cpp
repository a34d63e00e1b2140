// Many sequences in one engine: each has the same bytes as in an engine of its own.
#include "engine/session/engine_state.h"
#include "tests/engine/architectures/tiny_architecture.h"
#include "tests/engine/session/batch_mix.h"
#include "tests/engine/tiny_model.h"

namespace cria::test {
namespace {

const Model& plain_model() {
  static const std::shared_ptr<const Model> model = TinyModel().load();
  return *model;
}

EngineOptions mixed_options(std::uint32_t sequences, std::uint32_t threads) {
  EngineOptions options;
  options.n_ctx = 400;
  options.n_batch = 48;
  options.threads = threads;
  options.sequences = sequences;
  return options;
}

// Every page is free or held by the prefix cache only.
void expect_no_page_lost(const Engine& engine) {
  KvPool& pool = StateAccess::of(engine).pool;
  for (std::size_t group = 0; group < pool.groups(); ++group) {
    while (StateAccess::of(engine).prefix_cache &&
           StateAccess::of(engine).prefix_cache->evict(group))
      continue;
    EXPECT_EQ(pool.free_pages(group), pool.pages(group)) << group;
  }
}

TEST(Batches, MixedBatchesMatchSeparateOnes) {
  std::size_t reused = 0, forked = 0;
  for (std::uint32_t seed = 1; seed <= 12; ++seed) {
    EngineOptions options = mixed_options(seed, 1 + seed % 3);
    options.kv_type = static_cast<KvType>(seed % 3);
    BatchMix mix(plain_model(), options, seed);
    mix.run(120);
    mix.check();
    reused += mix.reused();
    forked += mix.forked();
    mix.end();
    expect_no_page_lost(mix.engine());
  }
  EXPECT_GT(reused, 1000U);
  EXPECT_GT(forked, 20U);
}

// So few pages that prefixes must go, and sequences are refused.
TEST(Batches, ATightPoolChangesNothing) {
  std::size_t refused = 0;
  for (std::uint32_t seed = 20; seed < 24; ++seed) {
    EngineOptions options = mixed_options(8, 2);
    options.positions = 700;
    BatchMix mix(plain_model(), options, seed);
    mix.run(200);
    mix.check();
    refused += mix.refused();
    mix.end();
    expect_no_page_lost(mix.engine());
  }
  EXPECT_GT(refused, 0U);
}

TEST(Batches, TheDemoModel) {
  EngineOptions options = mixed_options(6, 2);
  options.n_ctx = 300;
  BatchMix mix(demo_model(), options, 5);
  mix.run(40);
  mix.check();
}

TEST(Batches, APrefixIsFoundByItsTokensAndScope) {
  Engine engine(plain_model(), mixed_options(3, 1));
  std::vector<TokenId> text;
  for (int i = 0; i < 200; ++i) text.push_back(i * 7 % 290 + 3);
  const auto read = [&](Sequence& sequence) {
    Batch batch(engine);
    while (sequence.tokens().size() < text.size()) {
      batch.clear();
      const auto rest = std::span(text).subspan(sequence.tokens().size());
      batch.add(sequence, rest.first(std::min(rest.size(), batch.capacity_left())), 0);
      batch.forward();
    }
  };
  {
    Sequence first(engine, 7);
    read(first);
    Sequence while_it_lives(engine, 7);
    EXPECT_EQ(while_it_lives.reuse(text), 200U) << "the last page, too, that is not full";
  }
  Sequence later(engine, 7);
  EXPECT_EQ(later.reuse(std::span(text).first(150)), 150U) << "not in whole pages";
  Sequence other(engine, 8);
  EXPECT_EQ(other.reuse(text), 0U) << "another scope";
  text[70] += 1;
  EXPECT_EQ(later.reuse(text), 70U) << "another text from there on";
  Sequence secret(engine, 7, false);
  EXPECT_EQ(secret.reuse(text), 0U) << "shares nothing";
}

// If the pool has room for the whole context of a windowed layer, positions before the window are
// shared as well.
TEST(Batches, CachePrefixesBeforeAWindowIfThePoolHasRoom) {
  const auto model =
      TinyArchitecture({"w", "cohere2", {{"attention.sliding_window", 8U}}, {}, 0}).load();
  EngineOptions options = mixed_options(2, 1);
  options.n_batch = 400;
  Engine engine(*model, options);
  const std::vector<TokenId> text(300, 5);
  {
    Sequence first(engine);
    Batch batch(engine);
    batch.add(first, text, text.size());
    batch.forward();
  }
  Sequence second(engine);
  EXPECT_EQ(second.reuse(text), 300U);
  EXPECT_EQ(second.truncate(100), 100U);
}

// A new text reuses the prefix it shares with finished texts, to the token. If one text contains
// another, only the longer one is kept.
TEST(Batches, CacheTheLastPage) {
  EngineOptions options = mixed_options(2, 1);
  options.positions = 448;
  Engine engine(plain_model(), options);
  Batch batch(engine);
  const auto read = [&](std::vector<TokenId> text, bool shared) {
    Sequence sequence(engine, 0, shared);
    const std::size_t known = sequence.reuse(text);
    batch.clear();
    batch.add(sequence, std::span(text).subspan(known), text.size() - known);
    batch.forward();
    return known;
  };
  EXPECT_EQ(read({5, 6, 7, 8}, true), 0U);
  EXPECT_EQ(read({5, 6, 7, 9, 10}, true), 3U);
  EXPECT_EQ(read({5, 6, 7, 9, 10, 11}, true), 5U);
  EXPECT_EQ(read({5, 6, 7, 8, 20}, true), 4U);
  EXPECT_EQ(read({5, 6, 7, 8, 20, 30}, false), 0U);
  EXPECT_EQ(read({5, 6, 7, 8, 20, 30}, true), 5U) << "of what was not shared nothing is known";
  EXPECT_EQ(engine.pages() - StateAccess::of(engine).pool.free_pages(0), 2U)
      << "a page each of two texts";
  expect_no_page_lost(engine);
}

TEST(Batches, PrefixCacheHasItsOwnMemory) {
  EngineOptions options = mixed_options(2, 1);
  const EngineMemory least = engine_memory(plain_model(), options);
  options.prefix_cache_bytes = 1 << 20;
  const EngineMemory more = engine_memory(plain_model(), options);
  const std::size_t page_bytes = least.kv / 14;  // 2 × 7 pages
  EXPECT_LE(more.kv, least.kv + options.prefix_cache_bytes);
  EXPECT_GT(more.kv + page_bytes, least.kv + options.prefix_cache_bytes);
  Engine engine(plain_model(), options);
  EXPECT_EQ(engine.pages(), more.kv / page_bytes);
  EXPECT_EQ(engine.options().positions, more.kv / page_bytes * 64);
}

TEST(Batches, RejectedSlicesChangeNothing) {
  EngineOptions options = mixed_options(2, 1);
  options.n_ctx = 100;
  Engine engine(plain_model(), options);
  Sequence a(engine), b(engine);
  EXPECT_NE(error_of([&] { Sequence c(engine); }).find("too many sequences: expected at most 2"),
            std::string::npos);
  Batch batch(engine);
  const std::vector<TokenId> bad = {1, 300}, good = {1, 2, 3};
  EXPECT_NE(error_of([&] { batch.add(a, bad, 0); }).find("no such token"), std::string::npos);
  EXPECT_EQ(batch.size(), 0U);
  EXPECT_EQ(batch.add(a, good, 2), 0U);
  EXPECT_EQ(batch.add(b, good, 1), 1U);
  batch.forward();
  EXPECT_EQ(a.tokens().size(), 3U);
  EXPECT_TRUE(same_bytes(copy(batch.logits(0, 1)), copy(batch.logits(2, 3)))) << "the same text";
}

// However it comes that tokens are not evaluated: others can use the pages.
TEST(Batches, FreePagesOfRejectedTokens) {
  EngineOptions options = mixed_options(2, 1);
  options.n_batch = 256;
  options.positions = 448;
  options.prefix_cache = false;
  Engine engine(plain_model(), options);
  const KvPool& pool = StateAccess::of(engine).pool;
  Sequence a(engine), b(engine);
  Batch batch(engine);
  const std::vector<TokenId> tokens(256, 5);
  for (Sequence* const sequence : {&a, &b}) {
    batch.clear();
    batch.add(*sequence, std::span(tokens).first(100), 100);
    batch.forward();
  }
  ASSERT_EQ(pool.free_pages(0), 3U);
  batch.clear();
  batch.add(a, std::span(tokens).first(100), 100);
  EXPECT_NE(error_of([&] { batch.add(b, std::span(tokens).first(150), 0); }).find("no room"),
            std::string::npos);
  EXPECT_EQ(pool.free_pages(0), 1U) << "only the first slice's pages";
  batch.clear();
  EXPECT_EQ(pool.free_pages(0), 3U);
  batch.add(a, std::span(tokens).first(100), 100);
  {
    const std::atomic<bool> stop = true;
    const StopOn stop_on(engine, &stop);
    EXPECT_THROW(batch.forward(), EvaluationStopped);
  }
  EXPECT_EQ(pool.free_pages(0), 3U);
  {
    Batch dropped(engine);
    dropped.add(a, std::span(tokens).first(100), 100);
  }
  EXPECT_EQ(pool.free_pages(0), 3U);
}

// Pages that others share are not free for what is evaluated again.
TEST(Batches, EmptyAFailingSequenceWithoutFreePages) {
  EngineOptions options = mixed_options(2, 1);
  options.positions = options.n_ctx = 320;
  Engine engine(plain_model(), options);
  Sequence sequence(engine, 0, false);
  Batch batch(engine);
  const std::vector<TokenId> tokens(256, 5);
  for (std::size_t done = 0; done < tokens.size(); done += batch.size()) {
    batch.clear();
    batch.add(
        sequence,
        std::span(tokens).subspan(done, std::min(batch.capacity_left(), tokens.size() - done)), 0);
    batch.forward();
  }
  const Sequence other = sequence.fork();
  EXPECT_NE(std::string(engine.not_finite(sequence, 0).what()), "");
  EXPECT_EQ(sequence.tokens().size(), 0U);
  EXPECT_EQ(other.tokens().size(), tokens.size());
  EXPECT_FALSE(StateAccess::of(engine).executor.observed()) << "what observed is gone";
}

// The search for a failing sequence delays other sequences as little as possible.
TEST(Batches, SearchForAFailingSequenceCanBeStopped) {
  TinyModel tiny;
  tiny.edit = [](const std::string& tensor, std::vector<float>& values) {
    if (tensor == "token_embd.weight") values[9 * 64] = std::numeric_limits<float>::infinity();
  };
  const auto model = tiny.load();
  Engine engine(*model, mixed_options(1, 1));
  Sequence sequence(engine);
  Batch batch(engine);
  const auto error = [&](const std::vector<TokenId>& tokens, const std::atomic<bool>* stop) {
    batch.clear();
    batch.add(sequence, tokens, tokens.size());
    batch.forward();
    engine.profile(true);
    const StopOn stop_on(engine, stop);
    const std::string text = engine.not_finite(sequence, tokens.size()).what();
    EXPECT_EQ(sequence.tokens().size(), 0U);
    EXPECT_EQ(engine.profile().back().seconds, 0) << "no logits of positions before";
    return text;
  };
  EXPECT_NE(error({1, 5, 9}, nullptr).find("token_embd.weight"), std::string::npos);
  (void)error({1, 5}, nullptr);
  const std::atomic<bool> stop = true;
  const std::string stopped = error({1, 5, 9}, &stop);
  EXPECT_NE(stopped.find("was stopped"), std::string::npos) << stopped;
  EXPECT_EQ(stopped.find("node output"), std::string::npos) << "it was not checked: " << stopped;
}

TEST(Batches, PredictMemory) {
  EngineOptions options = mixed_options(5, 1);
  const EngineMemory memory = engine_memory(plain_model(), options);
  const Engine engine(plain_model(), options);
  EXPECT_EQ(engine.memory_bytes(), memory.kv + memory.work);
  EXPECT_EQ(engine.pages(), 5U * 7);  // 400 positions are seven pages
  options.sequences = 1025;
  EXPECT_NE(
      error_of([&] { (void)engine_memory(plain_model(), options); }).find("too many sequences"),
      std::string::npos);
}

}  // namespace
}  // namespace cria::test
