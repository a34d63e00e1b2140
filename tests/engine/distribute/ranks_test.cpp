// Several ranks compute the bytes that one computes.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <set>

#include "engine/execute/graph_parts.h"
#include "engine/scheduler.h"
#include "tests/engine/architectures/architecture_cases.h"
#include "tests/engine/demo.h"
#include "tests/engine/distribute/thread_ranks.h"
#include "tests/engine/tiny_model.h"
#include "tests/model/temporary_directory.h"

namespace cria::test {
namespace {

SessionOptions small_session(KvType kv_type = {}) {
  SessionOptions options;
  options.n_ctx = 96;
  options.rope_ctx = 96;
  options.n_batch = 11;
  options.threads = 1;
  options.kv_type = kv_type;
  return options;
}

/// Returns the logits of the first `together` tokens, evaluated in batches, and of the next `alone`
/// tokens, evaluated one by one.
std::vector<float> logits_of(const std::string& path, const SessionOptions& options,
                             std::size_t together, std::size_t alone,
                             const LoadOptions& load = {}) {
  const auto model = Model::load(path, on_team(load));
  Session session(*model, options);
  std::vector<TokenId> tokens;
  for (std::size_t i = 0; i < together + alone; ++i)
    tokens.push_back(static_cast<TokenId>((7 * i + i * i) % model->vocabulary_size()));
  std::vector<float> all = all_logits(session, std::span(tokens).first(together));
  for (std::size_t i = together; i < tokens.size(); ++i) {
    const std::vector<float> last = copy(session.eval(std::span(tokens).subspan(i, 1)));
    all.insert(all.end(), last.begin(), last.end());
  }
  return all;
}

// Threads meet for every node that is gathered, and on a busy machine each meeting takes its time:
// so one batch.
TEST(Ranks, EveryArchitectureHasTheBytesOfOne) {
  const TemporaryDirectory directory;
  SessionOptions options = small_session();
  options.n_batch = 16;
  for (const ArchitectureCase& c : architecture_cases()) {
    SCOPED_TRACE(c.name);
    const std::string path = directory.file("model.gguf");
    TinyArchitecture(c).write(path);
    const std::vector<float> alone = logits_of(path, options, 12, 0);
    const RankTeam team(3);
    EXPECT_TRUE(same_bytes(alone, logits_of(path, options, 12, 0)));
  }
}

// Rows of experts are slots, not tokens, even if a token takes one expert. The last layer evaluates
// only some tokens, and their slots start at 0.
TEST(Ranks, OneExpertOfATokenHasTheBytesOfOne) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("model.gguf");
  for (const ArchitectureCase& c : architecture_cases()) {
    TinyArchitecture tiny(c);
    const auto used = tiny.keys.find(tiny.arch + ".expert_used_count");
    if (used == tiny.keys.end() || tiny.keys.contains(tiny.arch + ".expert_group_used_count"))
      continue;
    SCOPED_TRACE(c.name);
    used->second = 1U;
    tiny.write(path);
    const auto last_of = [&path] {
      const auto model = Model::load(path, on_team());
      Session session(*model, small_session());
      const std::vector<TokenId> tokens = {3, 1, 4, 1, 5, 9, 2, 6};
      return copy(session.eval(tokens));
    };
    const std::vector<float> alone = last_of();
    const RankTeam team(3);
    EXPECT_TRUE(same_bytes(alone, last_of()));
  }
}

// Floats and quantized values, the last piece smaller than the others.
TEST(Ranks, LongBatchesTravelInPieces) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("model.gguf");
  TinyModel tiny;
  tiny.n_embd = 256;
  tiny.n_heads = 4;
  tiny.n_kv_heads = {2, 2};
  tiny.head_dim = 64;
  tiny.n_rot = 64;
  tiny.n_ff = 8192;
  tiny.dtype = DType::Q4_K;
  tiny.write(path);
  SessionOptions options = small_session();
  options.n_ctx = options.rope_ctx = options.n_batch = 300;
  const std::vector<float> alone = logits_of(path, options, 300, 0);
  const RankTeam team(2, {2, 1});
  EXPECT_TRUE(same_bytes(alone, logits_of(path, options, 300, 0)));
  EXPECT_EQ(team.most_under_way(), kMaxGathers);
}

// Among them: parts of unequal size, more ranks than kv heads, more than query heads, and ranks
// without any part.
TEST(Ranks, AnyDivisionHasTheBytesOfOne) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("model.gguf");
  const std::array types = {DType::F16, DType::Q4_K, DType::BF16};
  for (std::size_t i = 0; i < types.size(); ++i) {
    TinyModel tiny;
    tiny.n_embd = 256;
    tiny.n_heads = 8;
    tiny.n_kv_heads = {4, 1};
    tiny.head_dim = 32;
    tiny.n_rot = 32;
    tiny.n_ff = 1280;  // parts that end within blocks of activations
    tiny.dtype = types[i];
    tiny.biases = tiny.tied = types[i] == DType::Q4_K;
    tiny.write(path);
    const SessionOptions options =
        small_session(std::array{KvType::F16, KvType::F32, KvType::Q8_0}[i]);
    const std::vector<float> alone = logits_of(path, options, 20, 1);
    for (const Shares& shares : {Shares{1}, Shares{1, 1}, Shares{2, 1}, Shares{5, 3, 1},
                                 Shares{1, 1, 1, 1}, Shares(7, 1)}) {
      const RankTeam team(static_cast<unsigned>(shares.size()), shares);
      EXPECT_TRUE(same_bytes(alone, logits_of(path, options, 20, 1)))
          << name(types[i]) << shares.size();
    }
  }
}

/// An adapter to every matrix of a model but its embedding.
void write_adapter(const std::string& model, const std::string& path) {
  const GgufFile file = GgufFile::open(model);
  GgufWriter writer(path);
  writer.set("general.type", std::string("adapter"));
  writer.set("general.architecture", std::string("llama"));
  writer.set("adapter.type", std::string("lora"));
  writer.set("adapter.lora.alpha", 4.0F);
  constexpr std::uint64_t kRank = 3;
  std::vector<std::vector<float>> all;
  Random random(1);
  const auto declare = [&](const std::string& name, std::uint64_t cols, std::uint64_t rows) {
    writer.declare(name, DType::F32, {cols, rows});
    for (float& value : all.emplace_back(cols * rows))
      value = static_cast<float>(random.uniform() - 0.5) / 4;
  };
  for (const TensorView& tensor : file.tensors()) {
    if (tensor.shape.size() < 2 || tensor.name == "token_embd.weight") continue;
    declare(std::string(tensor.name) + ".lora_a", tensor.cols(), kRank);
    declare(std::string(tensor.name) + ".lora_b", kRank, tensor.rows());
  }
  writer.begin();
  for (const std::vector<float>& values : all) writer.write(std::as_bytes(std::span(values)));
  writer.finish();
}

// All ranks load the model with the same options: adapters, and overridden values of each type.
TEST(Ranks, ShareLoadOptions) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("model.gguf"), adapter = directory.file("adapter.gguf");
  TinyModel tiny;
  tiny.dtype = DType::Q8_0;
  tiny.biases = true;
  tiny.write(path);
  write_adapter(path, adapter);
  LoadOptions load;
  load.loras = {{adapter, 0.5F}};
  load.overrides = {{".rope.scaling.type", std::string("linear")},
                    {".rope.scaling.factor", 3.0},
                    {".rope.dimension_count", std::int64_t{8}},
                    {"tokenizer.ggml.add_bos_token", true}};
  const std::vector<float> alone = logits_of(path, small_session(), 20, 1, load);
  EXPECT_FALSE(same_bytes(alone, logits_of(path, small_session(), 20, 1)));
  for (const Shares& shares : {Shares{2, 1}, Shares(7, 1)}) {
    const RankTeam team(static_cast<unsigned>(shares.size()), shares);
    EXPECT_TRUE(same_bytes(alone, logits_of(path, small_session(), 20, 1, load)));
  }
}

const std::string kDemoPath = CRIA_DATA "/cria-demo-Q8_0.gguf";

/// Returns the first answers of a conversation: greedy, sampled, and with speculative decoding.
std::vector<std::string> demo_answers() {
  const auto model = Model::load(kDemoPath, on_team());
  SessionOptions options = small_session();
  options.n_ctx = options.rope_ctx = 200;
  options.n_batch = 64;
  options.draft = model;
  std::vector<std::string> texts;
  for (const float temperature : {0.0F, 0.9F}) {
    for (const Speculate way : {Speculate::Off, Speculate::Lookup}) {
      if (way == Speculate::Off) options.draft = nullptr;
      Session session(*model, options);
      GenerateOptions wanted = greedy(5);
      wanted.sampler.temperature = temperature;
      wanted.sampler.seed = 5;
      wanted.speculate = way;
      Text text;
      session.generate(demo_tokens(), wanted, text.sink());
      texts.push_back(text.text);
    }
    options.draft = model;
  }
  return texts;
}

TEST(Ranks, AnswersAreTheSame) {
  const std::vector<std::string> alone = demo_answers();
  EXPECT_NE(alone.front(), "");
  const RankTeam team(3, {1, 2, 1});
  EXPECT_EQ(demo_answers(), alone);
  EXPECT_GT(team.gathered(), 0U);
}

// The main model's engine and the draft's: of a session, and of a scheduler.
TEST(Ranks, EachChoosesItsThreads) {
  const RankTeam team(2);
  const auto model = Model::load(kDemoPath, on_team());
  SessionOptions options = small_session();
  options.threads = 0;
  options.draft = model;
  const Session session(*model, options);
  EXPECT_EQ(team.chose_threads(1), 2U);
  EngineOptions several;
  several.n_ctx = 96;
  several.draft = model;
  Engine engine(*model, several);
  const Scheduler scheduler(engine);
  EXPECT_EQ(team.chose_threads(1), 4U);
}

// Sequences that fork, find what others have read, and are cut: pages are copied on every rank.
std::vector<float> logits_of_forks() {
  const auto model = Model::load(kDemoPath, on_team());
  EngineOptions options;
  options.n_ctx = options.rope_ctx = 300;
  options.n_batch = 64;
  options.threads = 1;
  options.sequences = 4;
  Engine engine(*model, options);
  Batch batch(engine);
  std::vector<float> all;
  const auto read = [&](Sequence& sequence, std::span<const TokenId> tokens) {
    batch.clear();
    batch.add(sequence, tokens, tokens.size() - 1);
    batch.forward();
    const std::vector<float> row = copy(batch.logits(0, 1));
    all.insert(all.end(), row.begin(), row.end());
  };
  Sequence first(engine);
  read(first, many_tokens(40));
  Sequence second = first.fork();
  read(second, many_tokens(7));
  read(first, many_tokens(3));
  second.truncate(20);
  read(second, many_tokens(5));
  Sequence third(engine);
  EXPECT_GT(third.reuse(many_tokens(30)), 0U);
  read(third, many_tokens(9));
  batch.clear();
  batch.add(first, many_tokens(2), 0);
  batch.add(third, many_tokens(4), 2);
  batch.forward();
  const std::vector<float> rows = copy(batch.logits(0, 4));
  const std::vector<float> hidden = copy(batch.hidden(0, 4));
  all.insert(all.end(), rows.begin(), rows.end());
  all.insert(all.end(), hidden.begin(), hidden.end());
  return all;
}

TEST(Ranks, FollowForksAndCachedPrefixes) {
  const std::vector<float> alone = logits_of_forks();
  const RankTeam team(3);
  EXPECT_TRUE(same_bytes(logits_of_forks(), alone));
}

// Returns the values that an observer sees. They are complete although only observers gather them.
std::vector<float> observed_values() {
  const auto model = Model::load(kDemoPath, on_team());
  Session session(*model, small_session());
  std::vector<float> all;
  session.observe([&](const Node&, std::span<const float> values, std::size_t) {
    all.insert(all.end(), values.begin(), values.end());
  });
  session.eval(many_tokens(13));
  return all;
}

TEST(Ranks, ObserversSeeEverything) {
  const std::vector<float> alone = observed_values();
  const RankTeam team(2);
  EXPECT_TRUE(same_bytes(observed_values(), alone));
}

TEST(Ranks, AStoppedPassChangesNothing) {
  const RankTeam team(2);
  const auto model = Model::load(kDemoPath, on_team());
  Session session(*model, small_session());
  const std::atomic<bool> stop = true;
  GenerateOptions wanted = greedy(4);
  wanted.interrupt = &stop;
  EXPECT_EQ(session.generate(demo_tokens(), wanted, {}).reason, StopReason::Interrupted);
  wanted.interrupt = nullptr;
  Text text;
  session.generate(demo_tokens(), wanted, text.sink());
  EXPECT_NE(text.text, "");
}

TEST(Ranks, RejectsUnsupportedRequests) {
  const TemporaryDirectory directory;
  const RankTeam team(2);
  const auto model = Model::load(kDemoPath, on_team());
  const Session session(*model, small_session());
  EXPECT_EQ(error_of([&] { session.save(directory.file("talk")); }),
            directory.file("talk") +
                ": a session's file cannot be written or read where several ranks compute");
}

TEST(Ranks, ReportMissingFiles) {
  const RankTeam team(2);
  EXPECT_NE(error_of([] { (void)Model::load("/no/such.gguf", on_team()); }), "");
  EXPECT_TRUE(Model::load(kDemoPath, on_team()) != nullptr);  // the team still works
}

TEST(Ranks, NameTheMismatchedRank) {
  EXPECT_EQ(error_of([] { const RankTeam team(3, {}, "2"); }),
            "rank 2 on host2: another version of the program: expected 1, got 2");
}

// The first 64 bytes name the rank's host and the next 128 its program. Versions may differ in the
// number and meaning of later bytes.
TEST(Ranks, AnotherBuildIsNamedByItsFirstWords) {
  RankHub hub(2);
  const std::jthread other([&hub] {
    ThreadRanks ranks(hub, 1);
    std::string said(2 * 192, '\0');
    said.replace(192, 5, "host1");
    said.replace(192 + 64, 3, "0.9");
    ranks.gather(std::as_writable_bytes(std::span(said)).data(),
                 std::array<std::size_t, 3>{0, 192, 384}, Timeout::Loading);
  });
  ThreadRanks ranks(hub, 0);
  EXPECT_EQ(error_of([&] { const Leader leader(ranks, "1"); }),
            "rank 1 on host1: another version of the program: expected 1, got 0.9");
}

TEST(Ranks, EachHasItsPartOfTheMemory) {
  const auto alone = Model::load(kDemoPath, on_team());
  EngineOptions options;
  const EngineMemory whole = engine_memory(*alone, options);
  const RankTeam team(2);
  const auto model = Model::load(kDemoPath, on_team());
  const EngineMemory half = engine_memory(*model, options);
  EXPECT_EQ(half.kv, whole.kv / 2);
  EXPECT_LT(half.file, whole.file);
}

/// Returns the engine's positions beyond one context, with `kept_mib` MiB for the prefix cache.
std::uint64_t positions_with(std::uint64_t kept_mib) {
  const auto model = Model::load(kDemoPath, on_team());
  EngineOptions options;
  options.n_ctx = options.rope_ctx = 128;
  options.threads = 1;
  options.prefix_cache_bytes = kept_mib << 20;
  const Engine engine(*model, options);
  return engine.options().positions - options.n_ctx;
}

// Rank 0 has no heads: what it could keep has no end.
TEST(Ranks, PrefixCacheFitsOnTheLargestRank) {
  const std::uint64_t alone = positions_with(1);
  const RankTeam team(2, {1, 8});
  const auto model = Model::load(kDemoPath, on_team());
  ASSERT_EQ(GraphParts::of(model->graph(), {1, 8}, 0).caches[0].size(), 0U);
  EXPECT_EQ(positions_with(1), alone);
}

// Each alone would have room.
TEST(Ranks, OneMachineHasRoomForAllOfItsRanks) {
  std::vector<RankReport> reports(3);
  for (std::size_t i = 0; i < reports.size(); ++i) {
    reports[i].host[0] = "abb"[i];
    reports[i].place = std::array{1U, 2U, 2U}[i];
    reports[i].available = std::size_t{100} << 20;
    describe_engine(reports[i],
                    {std::size_t{40} << 20, std::size_t{19} << 20, std::size_t{1} << 20}, i == 0);
  }
  EXPECT_EQ(reports[0].needed, std::size_t{20} << 20);
  EXPECT_EQ(
      error_of([&] { expect_memory(reports); }),
      "ranks on b: not enough memory for all together: expected 120 MiB available, got 100 MiB");
  reports[2].place = 3;
  EXPECT_NO_THROW(expect_memory(reports));
}

// Two ranks on one machine need twice the memory of a single rank on another machine.
TEST(Ranks, KeysAndValuesOfAMachineCountTogether) {
  std::vector<RankReport> reports(3);
  for (std::size_t i = 0; i < reports.size(); ++i) {
    reports[i].place = std::array{1U, 2U, 2U}[i];
    reports[i].needed = std::array{60U, 40U, 50U}[i];
    reports[i].available = 100;
  }
  EXPECT_EQ(largest_need(reports), 0.9);
  reports[0].available = 50;
  EXPECT_EQ(largest_need(reports), 1.2);
}

// Rank 0 has none of them, rank 1 has all.
TEST(Ranks, TheFullestMachineCountsForAll) {
  EngineOptions options;
  options.n_ctx = options.rope_ctx = 1 << 20;
  options.positions = std::uint64_t{1} << 28;  // far more than there is memory for
  const RankTeam team(2, {1, 8});
  const auto model = Model::load(kDemoPath, on_team());
  ASSERT_EQ(engine_memory(*model, options).kv, 0U);
  EXPECT_GT(kv_fraction(*model, options), 1);
}

TEST(Shares, DivideAllUnits) {
  using Bounds = std::vector<std::size_t>;
  EXPECT_EQ(divide(8, 1, Shares{1, 1}), (Bounds{0, 4, 8}));
  EXPECT_EQ(divide(100, 32, Shares{1, 1}), (Bounds{0, 64, 100}));
  EXPECT_EQ(divide(3, 1, Shares{1, 1, 1, 1}), (Bounds{0, 1, 2, 2, 3}));
  EXPECT_EQ(divide(90, 1, Shares{5, 3, 1}), (Bounds{0, 50, 80, 90}));
  EXPECT_EQ(divide(20, 32, Shares{1, 1}), (Bounds{0, 20, 20}));
}

TEST(Shares, AreMeasured) {
  EXPECT_EQ(shares_of({10.2, 9.9, 10.4}), (Shares{10, 10, 10}));
  EXPECT_EQ(shares_of({40, 20, 0.1}), (Shares{10, 5, 1}));
  const RankTeam team(2);
  const std::vector<double> rates = leader_of_team->measure_rates(1);
  EXPECT_EQ(rates.size(), 2U);
  for (const double rate : rates) EXPECT_GT(rate, 0);
}

/// While it lives, no thread can be made: none has room for its stack.
class NoThreads {
 public:
  NoThreads() {
    pthread_getattr_default_np(&before_);
    pthread_attr_t endless = before_;
    pthread_attr_setstacksize(&endless, std::size_t{1} << 60);
    pthread_setattr_default_np(&endless);
  }
  ~NoThreads() { pthread_setattr_default_np(&before_); }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

 private:
  pthread_attr_t before_;
};

TEST(Shares, AreEqualWithoutMeasurements) {
  const RankTeam team(2);
  const NoThreads none;
  EXPECT_ANY_THROW(std::jthread([] {}));
  EXPECT_EQ(shares_of(leader_of_team->measure_rates(1)), (Shares{1, 1}));
}

// A packet ends where its data ends: bytes of an earlier, longer packet in the same buffer are not
// read.
TEST(Packets, StopAtTheirEnd) {
  RankHub hub(2);
  const std::jthread first([&hub] {
    ThreadRanks ranks(hub, 0);
    PacketWriter packet;
    for (const std::size_t n : {1000, 1, 1}) {
      packet.begin(RankTask::LoadModel);
      packet.put_all(std::span<const std::uint64_t>(std::vector<std::uint64_t>(n, 7)));
      packet.send(ranks);
    }
  });
  ThreadRanks ranks(hub, 1);
  PacketReader packet;
  std::vector<std::uint64_t> numbers;
  packet.receive(ranks);
  packet.get_all(numbers);
  EXPECT_EQ(numbers.size(), 1000U);
  packet.receive(ranks);
  packet.get_all(numbers);
  EXPECT_EQ(numbers, std::vector<std::uint64_t>{7});
  EXPECT_NE(error_of([&] { (void)packet.get<bool>(); }), "");
  packet.receive(ranks);
  EXPECT_EQ(packet.get<std::uint64_t>(), 1U);
  EXPECT_NE(error_of([&] { packet.get_all(numbers); }), "");  // asks for seven more
}

TEST(Shares, AreOnePerRank) {
  EXPECT_EQ(parse_shares("2,1,1", 3), (Shares{2, 1, 1}));
  for (const char* const bad :
       {"", "1", "1,2,", "1,,2", "0,1", "1,1001", "1,2,3", "1;2", "-1,2", "1, 2"})
    EXPECT_NE(error_of([bad] { (void)parse_shares(bad, 2); }), "") << bad;
}

// Nodes that only products read are sent quantized. Values added to the residual stream are sent as
// floats.
TEST(GraphParts, InputsOfProductsTravelQuantized) {
  const Graph& graph = demo_model().graph();
  const GraphParts parts = GraphParts::of(graph, {1, 1}, 1);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    const bool wanted = node.as<AttentionOp>() != nullptr || node.as<FeedForwardOp>() != nullptr;
    EXPECT_EQ(parts.nodes[i].forms.has(ActType::Q8x32), wanted) << graph.nodes[i].name;
  }
}

// Routers and gates; what a gate multiplies is divided.
TEST(GraphParts, OnlySmallProductsAreComputedByAll) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("model.gguf");
  const std::vector<ArchitectureCase> cases = architecture_cases();
  TinyArchitecture(*std::ranges::find(cases, "qwen2moe", &ArchitectureCase::name)).write(path);
  const auto model = Model::load(path, on_team());
  const Graph& graph = model->graph();
  const GraphParts parts = GraphParts::of(graph, {1, 1}, 1);
  std::set<std::string> alike;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    if (graph.nodes[i].macs() != 0 && !parts.nodes[i].divided())
      alike.insert(graph.nodes[i].name.substr(graph.nodes[i].name.rfind('.') + 1));
  EXPECT_EQ(alike, (std::set<std::string>{"ffn_gate_inp", "ffn_gate_inp_shexp"}));
}

// Traffic per token: 9 bits for each of the 256 and 768 inputs of `output` and `down`, floats for
// their outputs and the logits.
TEST(Ranks, SendFewBytes) {
  const RankTeam team(2);
  const auto model = Model::load(kDemoPath, on_team());
  Session session(*model, small_session());
  (void)session.eval(many_tokens(1));
  const std::size_t before = team.gathered();
  (void)session.eval(many_tokens(1));
  EXPECT_EQ(team.gathered() - before, 8 * ((256 + 768) / 32 * 38 + 2 * 256 * 4) + 4096 * 4);
}

// Between projections and attention nothing travels, nor between gate and up.
TEST(GraphParts, OnlyWhatOthersReadIsGathered) {
  const Graph& graph = demo_model().graph();
  const GraphParts parts = GraphParts::of(graph, {1, 1}, 1);
  std::size_t gathered = 0, layers = 0;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const NodePart& part = parts.nodes[i];
    if (graph.nodes[i].as<HeadsOp>() != nullptr) {
      EXPECT_TRUE(part.divided() && !part.gathered);
      ++layers;
    }
    if (part.gathered) ++gathered;
  }
  EXPECT_EQ(gathered, 4 * layers + 1);
  EXPECT_LE(parts.weight_bytes(graph), GraphParts::whole(graph).weight_bytes(graph) * 11 / 20);
}

}  // namespace
}  // namespace cria::test
