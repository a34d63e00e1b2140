// Sequences of models with recurrent layers: snapshots, going back, drafts, files, failed passes.
// The logits are those of a fresh start, to the byte.
#include <gtest/gtest.h>

#include <atomic>

#include "engine/session/engine_state.h"
#include "tests/engine/architectures/architecture_cases.h"
#include "tests/engine/demo.h"

namespace cria::test {
namespace {

constexpr const char* kModels[] = {"lfm2",      "lfm2moe",       "qwen35",         "qwen35moe",
                                   "qwen3next", "granitehybrid", "kimi_linear",    "jamba",
                                   "mamba2",    "mamba",         "nemotron_h_moe", "falcon_h1"};

std::vector<TokenId> some_text(std::size_t n, std::uint64_t seed) {
  Random random(seed);
  std::vector<TokenId> text;
  while (text.size() < n)
    text.push_back(static_cast<TokenId>(random.next() % TinyArchitecture::kVocabulary));
  return text;
}

EngineOptions small_engine() {
  EngineOptions options;
  options.n_ctx = 512;
  options.n_batch = 100;
  options.threads = 2;
  options.sequences = 3;
  return options;
}

SessionOptions alone() {
  SessionOptions options;
  options.n_ctx = 512;
  options.n_batch = 33;
  options.threads = 1;
  return options;
}

std::vector<float> fresh_logits(const Model& model, std::span<const TokenId> text) {
  Session session(model, alone());
  return copy(session.eval(text));
}

// Evaluates the rest of a text after the positions that reuse() has found. Returns the last logits.
std::vector<float> read_on(Engine& engine, Sequence& sequence, std::span<const TokenId> text) {
  Batch batch(engine);
  std::vector<float> last;
  while (sequence.tokens().size() < text.size()) {
    batch.clear();
    const auto rest = text.subspan(sequence.tokens().size());
    const std::size_t n = std::min(rest.size(), batch.capacity_left());
    batch.add(sequence, rest.first(n), n - 1);
    batch.forward();
    last = copy(batch.logits(0, 1));
  }
  return last;
}

class Recurrent : public testing::TestWithParam<const char*> {
 protected:
  const std::shared_ptr<const Model> model_ =
      TinyArchitecture(architecture_case(GetParam())).load();
};

// A prompt is found again up to the last page before its end, and where another text departed.
TEST_P(Recurrent, PrefixesAreFoundAtSnapshots) {
  Engine engine(*model_, small_engine());
  const std::vector<TokenId> first = some_text(300, 1);
  {
    Sequence sequence(engine);
    EXPECT_EQ(sequence.reuse(first), 0U);
    sequence.expect_departure(250);
    read_on(engine, sequence, first);
  }
  const auto ask = [&](std::size_t common, std::uint64_t seed) {
    std::vector<TokenId> text(first.begin(), first.begin() + static_cast<std::ptrdiff_t>(common));
    for (const TokenId token : some_text(60, seed)) text.push_back(token);
    Sequence sequence(engine);
    const std::size_t found = sequence.reuse(text);
    EXPECT_TRUE(same_bytes(read_on(engine, sequence, text), fresh_logits(*model_, text)));
    return found;
  };
  EXPECT_EQ(ask(260, 2), 192U) << "the prompt's last page";
  EXPECT_EQ(ask(150, 3), 0U) << "before it";
  EXPECT_EQ(ask(150, 4), 128U) << "where the last one departed";
  EXPECT_EQ(ask(260, 5), 256U) << "where the first of these departed";
}

TEST_P(Recurrent, LongTextsHaveSnapshotsInBetween) {
  EngineOptions options = small_engine();
  options.n_ctx = 2 * kSnapshotInterval + 200;
  options.n_batch = 512;
  options.sequences = 1;
  Engine engine(*model_, options);
  std::vector<TokenId> text = some_text(kSnapshotInterval + 150, 6);
  {
    Sequence sequence(engine);
    read_on(engine, sequence, text);
  }
  text.resize(kSnapshotInterval + 20);
  Sequence sequence(engine);
  EXPECT_EQ(sequence.reuse(text), kSnapshotInterval);
  Sequence::State& state = StateAccess::of(sequence);
  EXPECT_LE(state.tables[engine.graph().states.empty() ? 0 : state.engine.pool.snapshots()].size(),
            1U);
}

// A few positions are dropped from the log; more of them are evaluated again.
TEST_P(Recurrent, GoesBackOrBegins) {
  const std::size_t rollback = model_->graph().rollback();
  ASSERT_GE(rollback, 3U);
  const std::vector<TokenId> text = some_text(200, 7), other = some_text(40, 8);
  for (const std::size_t n : {17U, 64U, 100U, 129U, 200U}) {
    for (std::size_t dropped = 1; dropped <= rollback; dropped += 3) {
      Session session(*model_, alone());
      session.eval(std::span(text).first(n));
      ASSERT_EQ(session.truncate(n - dropped), n - dropped);
      std::vector<TokenId> now(text.begin(),
                               text.begin() + static_cast<std::ptrdiff_t>(n - dropped));
      now.insert(now.end(), other.begin(), other.end());
      EXPECT_TRUE(same_bytes(copy(session.eval(other)), fresh_logits(*model_, now)))
          << dropped << " of " << n;
    }
  }
  Session session(*model_, alone());
  session.eval(text);
  EXPECT_EQ(session.truncate(100), 0U);
  EXPECT_TRUE(same_bytes(copy(session.eval(other)), fresh_logits(*model_, other)));
}

TEST_P(Recurrent, AFileHasTheState) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("session");
  const std::vector<TokenId> text = some_text(150, 9), more = some_text(30, 10);
  std::vector<TokenId> all = text;
  all.insert(all.end(), more.begin(), more.end());
  {
    Session session(*model_, alone());
    session.eval(all);
    session.truncate(0);
    session.eval(text);
    session.save(path, "a note");
  }
  Session session(*model_, alone());
  session.eval(more);
  EXPECT_EQ(session.load(path), "a note");
  EXPECT_TRUE(same_bytes(copy(session.eval(more)), fresh_logits(*model_, all)));
}

// A pass that was given up in the middle may have changed the state of some layers.
TEST_P(Recurrent, AStoppedPassLeavesNoWrongState) {
  Engine engine(*model_, small_engine());
  const std::vector<TokenId> text = some_text(180, 11);
  Sequence sequence(engine);
  read_on(engine, sequence, std::span(text).first(100));
  std::atomic<bool> stop = false;
  std::size_t nodes = 0;
  engine.observe([&](const Node&, std::span<const float>, std::size_t) {
    if (++nodes == 12) stop = true;
  });
  {
    const StopOn stopping(engine, &stop);
    Batch batch(engine);
    batch.add(sequence, std::span(text).subspan(100, 80), 80);
    EXPECT_THROW(batch.forward(), EvaluationStopped);
  }
  engine.observe(nullptr);
  EXPECT_TRUE(same_bytes(read_on(engine, sequence, text), fresh_logits(*model_, text)));
}

// Drafts change nothing, whether they are right or wrong, across ends of blocks and pages.
TEST_P(Recurrent, DraftsChangeNothing) {
  std::size_t drafted = 0, accepted = 0;
  for (std::uint64_t seed = 20; seed < 24; ++seed) {
    const std::vector<TokenId> prompt = some_text(40 + 7 * seed, seed);
    GenerateOptions options;
    options.max_tokens = 150;
    options.ignore_eos = true;
    options.sampler.temperature = seed % 2 == 0 ? 0 : 0.8F;
    options.sampler.seed = seed;
    options.speculate = Speculate::Off;
    const auto answer = [&](const std::shared_ptr<const Model>& draft) {
      SessionOptions with = alone();
      with.draft = draft;
      Session session(*model_, with);
      const GenerateResult result = session.generate(prompt, options);
      drafted += result.drafted;
      accepted += result.accepted;
      return std::pair{result.tokens, copy(session.eval(some_text(1, 5)))};
    };
    const auto want = answer(nullptr);
    options.speculate = Speculate::Lookup;
    for (const std::size_t apart : {11U, 3U}) {  // right, then wrong in places; always wrong
      options.expected = want.first;
      for (std::size_t i = apart - 1; i < options.expected.size(); i += apart)
        options.expected[i] ^= 1;
      EXPECT_EQ(answer(nullptr), want) << apart;
    }
    options.expected.clear();
    options.speculate = Speculate::Auto;
    EXPECT_EQ(answer(model_), want);
  }
  EXPECT_GT(accepted, 0U);
  EXPECT_GT(drafted, accepted);
}

// The state does not keep what a context shift drops: the rest is evaluated again.
TEST_P(Recurrent, AContextShiftLeavesNothingOfWhatItDrops) {
  SessionOptions with = alone();
  with.n_ctx = 96;
  with.context_shift = true;
  GenerateOptions options;
  options.max_tokens = 140;
  options.ignore_eos = true;
  options.sampler.temperature = 0;
  options.speculate = Speculate::Off;
  const auto written = [&](Speculate mode) {
    options.speculate = mode;
    Session session(*model_, with);
    const GenerateResult result = session.generate(some_text(40, 12), options);
    EXPECT_EQ(result.shifts, 2U);
    std::vector<TokenId> held(session.tokens().begin(), session.tokens().end());
    held.push_back(5);
    EXPECT_LT(held.size(), 96U);
    EXPECT_TRUE(same_bytes(copy(session.eval({&held.back(), 1})), fresh_logits(*model_, held)));
    return result.tokens;
  };
  EXPECT_EQ(written(Speculate::Lookup), written(Speculate::Off));
}

// Thousands of tokens: the same bytes for any pieces and threads, to the end.
TEST_P(Recurrent, LongTextsHaveTheSameBytesInAnyPieces) {
  const std::vector<TokenId> text = some_text(3000, 13);
  const auto logits = [&](std::uint32_t n_batch, std::uint32_t threads, std::size_t most = 3000) {
    Random random(n_batch);  // pieces of up to `most`
    SessionOptions options;
    options.n_ctx = 3000;
    options.n_batch = n_batch;
    options.threads = threads;
    Session session(*model_, options);
    std::vector<float> all;
    for (const std::size_t end : {1000U, 2047U, 2049U, 3000U}) {
      std::vector<float> last;
      for (std::size_t at = session.tokens().size(); at < end; at = session.tokens().size())
        last = copy(session.eval(
            std::span(text).subspan(at, std::min(end - at, 1 + random.next() % most))));
      all.insert(all.end(), last.begin(), last.end());
    }
    return all;
  };
  const std::vector<float> want = logits(512, 2);
  EXPECT_TRUE(same_bytes(logits(7, 1), want));
  EXPECT_TRUE(same_bytes(logits(100, 3), want));
  EXPECT_TRUE(same_bytes(logits(64, 2, 150), want)) << "random pieces";
}

INSTANTIATE_TEST_SUITE_P(All, Recurrent, testing::ValuesIn(kModels),
                         [](const auto& of) { return std::string(of.param); });

// The memory that an engine states includes that of sequences and snapshots.
TEST(RecurrentMemory, GrowsWithSequences) {
  const auto model = TinyArchitecture(architecture_case("mamba2")).load();
  EngineOptions options = small_engine();
  options.prefix_cache = false;
  options.sequences = 2;
  const std::size_t two = engine_memory(*model, options).kv;
  options.sequences = 5;
  std::size_t floats = 0;
  for (const StateSpec& state : model->graph().states) floats += state.floats;
  EXPECT_GE(engine_memory(*model, options).kv - two, 3 * floats * sizeof(float));
  EXPECT_EQ(two, 2 * (engine_memory(*model, options).kv - two) / 3);
}

}  // namespace
}  // namespace cria::test
