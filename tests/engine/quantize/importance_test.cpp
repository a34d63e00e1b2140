// Importance matrices: both file forms, sums, damage; and what a run collects, against
// the plain forward pass.
#include "engine/quantize/importance.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <numeric>

#include "engine/evaluate/perplexity.h"
#include "engine/quantize/importance_run.h"
#include "model/gguf/writer.h"
#include "tests/engine/architectures/tiny_architecture.h"
#include "tests/engine/demo.h"

namespace cria::test {
namespace {

namespace fs = std::filesystem;

class ImportanceFiles : public testing::Test {
 protected:
  void SetUp() override { fs::create_directory(directory_); }
  void TearDown() override { fs::remove_all(directory_); }
  [[nodiscard]] std::string path(const char* name) const { return (directory_ / name).string(); }
  [[nodiscard]] std::string write_bytes(const char* name, const std::string& bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }

  static ImportanceMatrix sample() {
    ImportanceMatrix matrix;
    matrix.entries["a.weight"] = {{1024, 2048, 0, 4096}, {1024}};
    matrix.entries["b_exps.weight"] = {{512, 1024, 0, 0},
                                       {512, 0}};  // no token reached the second expert
    matrix.datasets = {"some text"};
    matrix.chunks = 2;
    return matrix;
  }

  fs::path directory_ = fs::temp_directory_path() / ("cria-importance-" + std::to_string(getpid()));
};

std::vector<float> floats(std::initializer_list<float> values) { return values; }

TEST_F(ImportanceFiles, WeightsAreMeanSquares) {
  const ImportanceMatrix matrix = sample();
  const std::vector<float> a = matrix.weights("a.weight", 4, 1);
  EXPECT_EQ(a[0], 1);
  EXPECT_EQ(a[1], 2);
  EXPECT_EQ(a[3], 4);
  EXPECT_GT(a[2], 0) << "a column that was always zero keeps a little";
  EXPECT_LT(a[2], 0.001);
  EXPECT_EQ(matrix.weights("b_exps.weight", 2, 2), floats({1, 2, 0, 0}));
  EXPECT_EQ(matrix.weights("none", 4, 1), floats({}));
  EXPECT_EQ(matrix.weights("a.weight", 4, 2).size(), 8U) << "one entry serves all experts";
  EXPECT_NE(error_of([&] {
              (void)matrix.weights("a.weight", 8, 1);
            }).find("expected 8 columns, got 4 (tensor a.weight)"),
            std::string::npos);
}

TEST_F(ImportanceFiles, BothFormsComeBack) {
  const ImportanceMatrix matrix = sample();
  for (const char* name : {"m.gguf", "m.dat"}) {
    matrix.write(path(name));
    const ImportanceMatrix back = ImportanceMatrix::read(path(name));
    EXPECT_EQ(back.chunks, 2U);
    EXPECT_EQ(back.chunk_size, 512U);
    EXPECT_EQ(back.datasets, matrix.datasets);
    ASSERT_EQ(back.entries.size(), 2U);
    EXPECT_EQ(back.weights("a.weight", 4, 1), matrix.weights("a.weight", 4, 1)) << name;
  }
  EXPECT_EQ(ImportanceMatrix::read(path("m.gguf")).weights("b_exps.weight", 2, 2),
            floats({1, 2, 0, 0}));
  EXPECT_EQ(ImportanceMatrix::read(path("m.dat")).weights("b_exps.weight", 2, 2),
            floats({1, 2, 1, 2}))
      << "the older form cannot say that an expert was not reached";
  const GgufFile file = GgufFile::open(path("m.gguf"));
  EXPECT_EQ(file.get_string("general.type"), "imatrix");
  EXPECT_EQ(file.tensor("b_exps.weight.in_sum2")->shape, (std::vector<std::uint64_t>{2, 2}));
  EXPECT_EQ(file.tensor("b_exps.weight.counts")->shape, (std::vector<std::uint64_t>{1, 2}));
}

TEST_F(ImportanceFiles, TheOlderFormByteByByte) {
  const auto number = [](std::int32_t n) {
    return std::string(reinterpret_cast<const char*>(&n), 4);
  };
  const float values[] = {20, 40};  // means of 2 and 4 times 10 chunks
  const std::string entry = number(1) + "w" + number(10) + number(2) +
                            std::string(reinterpret_cast<const char*>(values), sizeof values);
  const std::string bytes = number(1) + entry + number(10) + number(4) + "text";
  const ImportanceMatrix matrix = ImportanceMatrix::read(write_bytes("old.dat", bytes));
  EXPECT_EQ(matrix.weights("w", 2, 1), floats({2, 4}));
  EXPECT_EQ(matrix.datasets, std::vector<std::string>{"text"});
  matrix.write(path("again.dat"));
  std::ifstream again(path("again.dat"), std::ios::binary);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(again), {}), bytes);
  EXPECT_EQ(ImportanceMatrix::read(write_bytes("oldest.dat", number(1) + entry)).chunks, 0U);
}

TEST_F(ImportanceFiles, AddUpToOneOfBothTexts) {
  ImportanceMatrix matrix = sample();
  matrix.add(sample());
  EXPECT_EQ(matrix.chunks, 4U);
  EXPECT_EQ(matrix.datasets.size(), 1U);
  EXPECT_EQ(matrix.weights("a.weight", 4, 1), sample().weights("a.weight", 4, 1));
  ImportanceMatrix other;
  other.entries["a.weight"] = {{3072, 0, 0, 0}, {1024}};
  other.entries["c.weight"] = {{1}, {1}};
  matrix.add(other);
  EXPECT_EQ(matrix.weights("a.weight", 4, 1)[0], 5120.0F / 3072);
  EXPECT_EQ(matrix.entries.size(), 3U);
  other.entries["a.weight"] = {{1}, {1}};
  EXPECT_NE(error_of([&] { matrix.add(other); }), "");
}

TEST_F(ImportanceFiles, WindowsOfOtherSizesCountByTheirTokens) {
  ImportanceMatrix matrix = sample(), longer = sample();
  longer.chunk_size = 2048;
  longer.chunks = 100;
  matrix.add(longer);
  EXPECT_EQ(matrix.chunk_size, 512U);
  EXPECT_EQ(matrix.chunks, 2U + 400U);
  ImportanceMatrix shorter = sample();
  shorter.chunk_size = 64;
  shorter.chunks = 12;
  matrix.add(shorter);
  EXPECT_EQ(matrix.chunks, 402U + 2U) << "1.5, rounded";
  sample().write(path("old.dat"));
  ImportanceMatrix small = shorter;
  small.add(ImportanceMatrix::read(path("old.dat")));
  EXPECT_EQ(small.chunks, 12U + 2U) << "chunks of unknown size";
  longer.chunks = std::numeric_limits<std::uint32_t>::max();
  small.add(longer);
  EXPECT_EQ(small.chunks, std::numeric_limits<std::uint32_t>::max());
}

TEST_F(ImportanceFiles, DamageIsNamed) {
  const auto number = [](std::int32_t n) {
    return std::string(reinterpret_cast<const char*>(&n), 4);
  };
  const auto entry = [&](float value) {
    return number(1) + number(1) + "w" + number(1) + number(1) +
           std::string(reinterpret_cast<const char*>(&value), 4);
  };
  const std::pair<const char*, std::string> bad[] = {
      {"empty", ""},
      {"no entries", number(0)},
      {"negative count", number(-1)},
      {"more entries than bytes", number(1'000'000)},
      {"long name", number(1) + number(1 << 30)},
      {"many values", number(1) + number(1) + "w" + number(1) + number(1 << 30)},
      {"cut value", entry(1).substr(0, 18)},
      {"NaN", entry(std::numeric_limits<float>::quiet_NaN())},
      {"negative", entry(-1)},
      {"infinite", entry(std::numeric_limits<float>::infinity())},
      {"twice", number(2) + entry(1).substr(4) + entry(1).substr(4)},
      {"text", "It was a dark and stormy night"},
  };
  for (const auto& [what, bytes] : bad) {
    const std::string file = write_bytes("bad.dat", bytes);
    EXPECT_EQ(error_of([&] { (void)ImportanceMatrix::read(file); }).find(file), 0U) << what;
  }
  EXPECT_NE(error_of([] {
              (void)ImportanceMatrix::read(CRIA_DATA "/cria-demo-Q8_0.gguf");
            }).find("expected a file of general.type imatrix"),
            std::string::npos);
  GgufWriter writer(path("odd.gguf"));
  writer.set("general.type", std::string("imatrix"));
  writer.declare("w.in_sum2", DType::F32, {3});
  writer.declare("w.counts", DType::F32, {2});
  writer.begin();
  writer.write(std::vector<std::byte>(12));
  writer.write(std::vector<std::byte>(8));
  writer.finish();
  EXPECT_NE(error_of([&] {
              (void)ImportanceMatrix::read(path("odd.gguf"));
            }).find("do not match: got 3 and 2"),
            std::string::npos);
}

std::vector<double> sums_of(const ImportanceMatrix& matrix, const char* tensor) {
  return matrix.entries.find(tensor)->second.sums;
}

ImportanceMatrix collect(const SessionOptions& options, std::size_t windows) {
  Session session(demo_model(), options);
  const std::vector<TokenId> text = many_tokens(64 * windows);
  ImportanceRun run(session, text, {.window = 64, .stride = 0, .max_windows = 0});
  while (run.next()) continue;
  return run.result("text");
}

TEST(ImportanceRun, CoversEveryMatrix) {
  const ImportanceMatrix matrix = collect({.n_ctx = 64}, 1);
  EXPECT_EQ(matrix.entries.size(), 8U * 7 + 1) << "the tied embedding is the output matrix";
  for (const auto& [name, entry] : matrix.entries) {
    const TensorView* tensor = demo_model().file().tensor(name);
    ASSERT_NE(tensor, nullptr) << name;
    EXPECT_EQ(entry.sums.size(), tensor->cols()) << name;
    EXPECT_EQ(entry.counts, std::vector<double>{64});
  }
  EXPECT_EQ(sums_of(matrix, "blk.3.attn_q.weight"), sums_of(matrix, "blk.3.attn_v.weight"));
  EXPECT_NE(sums_of(matrix, "blk.3.attn_q.weight"), sums_of(matrix, "blk.3.ffn_up.weight"));
}

// The first layer's attn_norm by hand: rows of the embedding, normalized.
TEST(ImportanceRun, SumsUseTheNormalizedEmbedding) {
  const Model& model = demo_model();
  const TensorView& embedding = *model.file().tensor("token_embd.weight");
  const TensorView& norm = *model.file().tensor("blk.0.attn_norm.weight");
  const std::size_t n = embedding.cols();
  std::vector<double> expected(n);
  std::vector<float> row(n), weight(n);
  dtype_info(norm.dtype).dequantize(norm.data, weight.data(), n);
  std::vector<TokenId> tokens = many_tokens(64);
  tokens[0] = *model.vocabulary().bos;
  for (const TokenId token : tokens) {
    dtype_info(embedding.dtype)
        .dequantize(embedding.data + static_cast<std::size_t>(token) * embedding.row_bytes(),
                    row.data(), n);
    double squares = 0;
    for (const float x : row) squares += double{x} * x;
    const double scale = 1 / std::sqrt(squares / static_cast<double>(n) + model.config().norm_eps);
    for (std::size_t i = 0; i < n; ++i) expected[i] += std::pow(row[i] * scale * weight[i], 2);
  }
  const std::vector<double> sums = sums_of(collect({.n_ctx = 64}, 1), "blk.0.attn_q.weight");
  for (std::size_t i = 0; i < n; ++i)
    EXPECT_NEAR(sums[i], expected[i], 1e-5 * expected[i] + 1e-12) << i;
}

TEST(ImportanceRun, SumsDoNotDependOnThreadsOrBatches) {
  const ImportanceMatrix matrix = collect({.n_ctx = 64, .n_batch = 64, .threads = 1}, 3);
  const ImportanceMatrix other = collect({.n_ctx = 64, .n_batch = 7, .threads = 2}, 3);
  for (const auto& [name, entry] : matrix.entries)
    EXPECT_EQ(entry.sums, other.entries.at(name).sums) << name;
}

TEST(ImportanceRun, ResumesWhereItStopped) {
  const std::string state =
      (fs::temp_directory_path() / ("cria-state-" + std::to_string(getpid()))).string();
  const std::vector<TokenId> text = many_tokens(64 * 3);
  Session session(demo_model(), {.n_ctx = 64, .n_batch = 16});
  const PerplexityOptions windows{.window = 64, .stride = 0, .max_windows = 0};
  {
    ImportanceRun run(session, text, windows);
    EXPECT_TRUE(run.next());
    EXPECT_FALSE(run.next([](std::size_t done) { return done < 32; }))
        << "stopped within the second window";
    run.save(state);
  }
  ImportanceRun run(session, text, windows);
  run.load(state);
  EXPECT_EQ(run.done(), 1U);
  while (run.next()) continue;
  const ImportanceMatrix whole = collect({.n_ctx = 64}, 3);
  const ImportanceMatrix resumed = run.result("text");
  for (const auto& [name, entry] : whole.entries)
    EXPECT_EQ(entry.sums, resumed.entries.at(name).sums) << name;
  const std::vector<TokenId> other = many_tokens(64 * 2);
  ImportanceRun another(session, other, windows);
  EXPECT_NE(error_of([&] { another.load(state); }).find("state of a different run"),
            std::string::npos);
  // The same weights, used otherwise.
  const auto turned =
      Model::load(demo_model().file().path(), {.overrides = {{".rope.freq_base", 20000.0}}});
  Session other_session(*turned, {.n_ctx = 64});
  ImportanceRun other_run(other_session, text, windows);
  EXPECT_NE(error_of([&] { other_run.load(state); }).find("state of a different run"),
            std::string::npos);
  fs::remove(state);
}

ArchitectureCase experts_case(bool stacked) {
  ArchitectureCase c{"experts", "llama", {{"expert_count", 6U}, {"expert_used_count", 2U}}, {}, 0};
  c.tensors.push_back({"*.ffn_gate_inp.weight", {64, 6}});
  for (int e = 0; e < 6 && !stacked; ++e) {
    const std::string expert = "." + std::to_string(e) + ".weight";
    c.tensors.push_back({"*.ffn_gate" + expert, {64, 32}});
    c.tensors.push_back({"*.ffn_up" + expert, {64, 32}});
    c.tensors.push_back({"*.ffn_down" + expert, {32, 64}});
  }
  if (stacked) c.tensors.push_back({"*.ffn_down_exps.weight", {32, 64, 6}});
  return c;
}

ImportanceMatrix collect_experts(bool stacked, const SessionOptions& options) {
  const auto model = TinyArchitecture(experts_case(stacked)).load();
  Session session(*model, options);
  std::vector<TokenId> text(96);
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<TokenId>(i * i % 37);
  ImportanceRun run(session, text, {.window = 48, .stride = 0, .max_windows = 0});
  while (run.next()) continue;
  return run.result("text");
}

// Every token goes to two experts, so their counts total twice the router's.
TEST(ImportanceRun, ExpertsHaveTheirOwnTokens) {
  const ImportanceMatrix matrix = collect_experts(true, {.n_ctx = 48, .n_batch = 48, .threads = 1});
  const std::vector<double> router = sums_of(matrix, "blk.2.ffn_gate_inp.weight");
  const ImportanceEntry& gate = matrix.entries.at("blk.2.ffn_gate_exps.weight");
  const ImportanceEntry& down = matrix.entries.at("blk.2.ffn_down_exps.weight");
  ASSERT_EQ(gate.sums.size(), 6U * 64);
  ASSERT_EQ(down.sums.size(), 6U * 32);
  ASSERT_EQ(gate.counts.size(), 6U);
  EXPECT_EQ(gate.counts, down.counts);
  EXPECT_EQ(std::accumulate(gate.counts.begin(), gate.counts.end(), 0.0), 2 * 96);
  EXPECT_GT(std::ranges::max(gate.counts), std::ranges::min(gate.counts)) << "experts differ";
  for (std::size_t col = 0; col < 64; ++col) {
    double sum = 0;
    for (std::size_t e = 0; e < 6; ++e) sum += gate.sums[e * 64 + col];
    EXPECT_NEAR(sum, 2 * router[col], 1e-12 * sum);
  }
  for (std::size_t e = 0; e < 6; ++e)
    EXPECT_EQ(gate.counts[e] > 0, gate.sums[e * 64] > 0) << "tokens of expert " << e;
  EXPECT_EQ(matrix.weights("blk.2.ffn_down_exps.weight", 32, 6).size(), 6U * 32)
      << "what quantizers take";

  const ImportanceMatrix other = collect_experts(true, {.n_ctx = 48, .n_batch = 5, .threads = 2});
  const ImportanceMatrix apart = collect_experts(false, {.n_ctx = 48, .n_batch = 48, .threads = 1});
  EXPECT_EQ(other.entries.at("blk.2.ffn_gate_exps.weight").sums, gate.sums) << "batches, threads";
  EXPECT_EQ(apart.entries.at("blk.0.ffn_gate.3.weight").sums.size(), 64U);
  EXPECT_EQ(apart.entries.at("blk.0.ffn_gate.3.weight").counts.size(), 1U);
  EXPECT_EQ(apart.entries.at("blk.0.ffn_gate.3.weight").sums,
            apart.entries.at("blk.0.ffn_up.3.weight").sums);
  EXPECT_NE(apart.entries.at("blk.0.ffn_gate.3.weight").sums,
            apart.entries.at("blk.0.ffn_gate.2.weight").sums);
}

}  // namespace
}  // namespace cria::test
