// Adapters: applied while a model runs they do what a merged model does; hostile files are refused.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <numeric>

#include "engine/convert/convert.h"
#include "tests/engine/architectures/architecture_cases.h"
#include "tests/engine/architectures/tiny_architecture.h"

namespace cria::test {
namespace {

namespace fs = std::filesystem;

/// A tensor of an adapter: shape as in GGUF, values at random.
struct LoraTensor {
  std::string name;
  std::vector<std::uint64_t> shape;
};

class LoraTest : public testing::Test {
 protected:
  LoraTest() : directory_(fs::temp_directory_path() / ("cria-lora-" + std::to_string(getpid()))) {
    fs::create_directories(directory_);
  }
  ~LoraTest() override { fs::remove_all(directory_); }

  [[nodiscard]] std::string path(const std::string& name) const {
    return (directory_ / name).string();
  }

  std::string base(const ArchitectureCase& c, DType type = DType::F16) {
    TinyArchitecture tiny(c);
    tiny.matrix_type = type;
    tiny.write(path("base.gguf"));
    return path("base.gguf");
  }

  std::map<std::string, GgufData> keys = {{"general.type", std::string("adapter")},
                                          {"adapter.type", std::string("lora")},
                                          {"adapter.lora.alpha", 8.0F},
                                          {"general.architecture", std::string("llama")}};

  std::string write(const std::string& name, const std::vector<LoraTensor>& tensors,
                    std::uint64_t seed, float spoiled = 0) {
    GgufWriter writer(path(name));
    for (const auto& [key, value] : keys) writer.set(key, value);
    for (const LoraTensor& tensor : tensors) writer.declare(tensor.name, DType::F32, tensor.shape);
    writer.begin();
    Random random(seed);
    for (const LoraTensor& tensor : tensors) {
      std::vector<float> values(std::accumulate(tensor.shape.begin(), tensor.shape.end(),
                                                std::uint64_t{1}, std::multiplies<>()));
      for (float& value : values) value = static_cast<float>(random.uniform() - 0.5) / 4;
      if (spoiled != 0) values.back() = spoiled;
      writer.write(std::as_bytes(std::span(values)));
    }
    writer.finish();
    return path(name);
  }

  /// Both halves for matrices of the base.
  std::string adapter(const std::string& name, const std::vector<std::string>& matrices,
                      std::uint64_t rank, std::uint64_t seed) {
    const GgufFile file = GgufFile::open(path("base.gguf"));
    keys["general.architecture"] = std::string(file.get_string("general.architecture"));
    std::vector<LoraTensor> tensors;
    for (const std::string& matrix : matrices) {
      std::vector<std::uint64_t> a = file.tensor(matrix)->shape;
      if (a.size() == 1) a.push_back(1);
      std::vector<std::uint64_t> b = a;
      a[1] = b[0] = rank;
      tensors.push_back({matrix + ".lora_a", a});
      tensors.push_back({matrix + ".lora_b", b});
    }
    return write(name, tensors, seed);
  }

  std::string merged(const std::vector<LoraFile>& loras, std::optional<DType> type) {
    const GgufFile file = GgufFile::open(path("base.gguf"));
    const Adapters adapters = Adapters::load(loras, file);
    MergeOptions options{.output = path("merged.gguf"), .type = type, .threads = 2};
    options.kernels = available_kernels().back();
    EXPECT_TRUE(merge_adapters(file, adapters, options, [](std::uint64_t) { return true; }));
    return options.output;
  }

 private:
  fs::path directory_;
};

std::vector<float> logits_of(const std::string& model, const std::vector<LoraFile>& loras,
                             unsigned threads = 1, std::uint32_t batch = 64) {
  SessionOptions options;
  options.n_ctx = 64;
  options.threads = threads;
  options.n_batch = batch;
  options.kv_type = KvType::F32;  // a key that is rounded the other way would hide what is compared
  return architecture_logits(*Model::load(model, {.loras = loras}), options, 40);
}

/// Returns the root mean square of the difference relative to the root mean square of the values.
double apart(const std::vector<float>& a, const std::vector<float>& b) {
  double squares = 0, difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    squares += double{b[i]} * double{b[i]};
    difference += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
  }
  return std::sqrt(difference / squares);
}

struct LoraCase {
  ArchitectureCase gguf;
  std::vector<std::string> matrices;  ///< short names: layer 1
};

std::vector<std::string> in_first_layer(std::vector<std::string> names) {
  for (std::string& name : names) name = "blk.0." + name + ".weight";
  return names;
}

std::vector<LoraCase> lora_cases() {
  const std::vector<std::string> usual = {"attn_q",   "attn_k", "attn_v",  "attn_output",
                                          "ffn_gate", "ffn_up", "ffn_down"};
  return {{{"llama", "llama", {}, {}, 0}, usual},
          {{"output", "llama", {}, {}, 0}, {"attn_q", "output.weight"}},
          {{"gemma2", "gemma2", {{"attention.sliding_window", 8U}}, {}, 0}, usual},
          {{"olmo2", "olmo2", {}, {}, 0}, usual},
          {{"phi3", "phi3", {}, {{"*.attn_qkv.weight", {64, 128}}}, 0},
           {"attn_qkv", "attn_output", "ffn_up"}},
          {{"starcoder2", "starcoder2", {}, {{"*.ffn_up.bias", {96}}}, 0},
           {"attn_v", "ffn_up", "ffn_down"}},
          {{"experts",
            "llama",
            {{"expert_count", 6U}, {"expert_used_count", 2U}},
            {{"*.ffn_gate_inp.weight", {64, 6}}, {"*.ffn_down_exps.weight", {32, 64, 6}}},
            0},
           {"attn_q", "ffn_gate_inp"}},
          {{"a_rank_above_the_rows",
            "qwen2moe",
            {{"expert_count", 6U}, {"expert_used_count", 2U}},
            {{"*.ffn_gate_inp.weight", {64, 6}},
             {"*.ffn_down_exps.weight", {32, 64, 6}},
             {"*.ffn_gate_inp_shexp.weight", {64}}},
            0},
           {"attn_q", "ffn_gate_inp_shexp"}},
          {architecture_case("lfm2"), in_first_layer({"shortconv.in_proj", "shortconv.out_proj"})},
          {architecture_case("qwen35"),
           in_first_layer({"attn_qkv", "attn_gate", "ssm_alpha", "ssm_beta", "ssm_out"})},
          {architecture_case("mamba2"), in_first_layer({"ssm_in", "ssm_out"})},
          {architecture_case("jamba"), in_first_layer({"ssm_in", "ssm_x", "ssm_dt", "ssm_out"})},
          {architecture_case("kimi_linear"),
           in_first_layer({"attn_q", "ssm_f_a", "ssm_f_b", "ssm_g_b", "ssm_beta", "attn_output"})}};
}

std::vector<std::string> names_of(const LoraCase& c) {
  std::vector<std::string> names;
  for (const std::string& matrix : c.matrices)
    names.push_back(matrix.ends_with(".weight") ? matrix : "blk.1." + matrix + ".weight");
  return names;
}

// The base is F16 and what was merged F32, so that nothing but the order of sums is different.
TEST_F(LoraTest, UnmergedIsMerged) {
  for (const LoraCase& c : lora_cases()) {
    const std::string model = base(c.gguf);
    const std::vector<LoraFile> loras = {{adapter("one.gguf", names_of(c), 4, 1), 0.5F},
                                         {adapter("two.gguf", {names_of(c).front()}, 3, 2), -1}};
    const std::vector<float> plain = logits_of(model, {}), got = logits_of(model, loras);
    const std::vector<float> want = logits_of(merged(loras, DType::F32), {});
    EXPECT_LT(apart(got, want), 1e-5) << c.gguf.name;
    EXPECT_GT(apart(plain, want), 1e-2) << c.gguf.name << ": the adapters do something";
    EXPECT_LT(apart(got, logits_of(merged(loras, {}), {})), 0x1p-8)
        << c.gguf.name << ", rounded to F16";
    EXPECT_EQ(GgufFile::open(path("merged.gguf")).find("general.file_type"), nullptr)
        << "as the base";
    EXPECT_EQ(logits_of(model, {{loras[0].path, 0}, {loras[1].path, 0}}), plain) << c.gguf.name;
  }
}

TEST_F(LoraTest, BitsDependOnNeitherThreadsNorBatches) {
  for (const LoraCase& c : lora_cases()) {
    const std::string model = base(c.gguf, DType::Q8_0);
    const std::vector<LoraFile> loras = {{adapter("one.gguf", names_of(c), 5, 1), 1}};
    const std::vector<float> want = logits_of(model, loras);
    for (const auto& [threads, batch] : std::map<unsigned, std::uint32_t>{{1, 7}, {2, 64}, {3, 1}})
      EXPECT_EQ(logits_of(model, loras, threads, batch), want)
          << c.gguf.name << threads << " " << batch;
  }
}

/// Returns the logits after the last token of each text, all evaluated in one batch by sequences
/// with these scales.
std::vector<std::vector<float>> logits_side_by_side(
    Engine& engine, const std::vector<std::vector<float>>& scales,
    const std::vector<std::vector<TokenId>>& texts) {
  std::vector<Sequence> sequences;
  for (const auto& one : scales) sequences.emplace_back(engine, 0, true, one);
  Batch batch(engine);
  for (std::size_t i = 0; i < texts.size(); ++i)
    batch.add(sequences[i], texts[i], texts[i].size() - 1);
  batch.forward();
  std::vector<std::vector<float>> logits;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::span<const float> row = batch.logits(i, i + 1);
    logits.emplace_back(row.begin(), row.end());
  }
  return logits;
}

EngineOptions adapter_engine(std::uint32_t sequences) {
  EngineOptions options;
  options.n_ctx = 128;
  options.threads = 2;
  options.sequences = sequences;
  return options;
}

// The bits are those of a model that was loaded with these scales, whatever else is in the batch.
TEST_F(LoraTest, SequencesHaveScalesOfTheirOwn) {
  const std::vector<std::vector<float>> all = {{}, {0, 0}, {1.5F, 0}, {0, -0.25F}, {2, 3}};
  for (const LoraCase& c : lora_cases()) {
    const std::string model = base(c.gguf, DType::Q8_0);
    const std::vector<std::string> files = {adapter("one.gguf", names_of(c), 5, 1),
                                            adapter("two.gguf", {names_of(c)[0]}, 20, 2)};
    const std::vector<float> standard = {0.5F, 1};
    std::vector<std::vector<TokenId>> texts(all.size());
    for (std::size_t i = 0; i < texts.size(); ++i)
      for (TokenId t = 0; t < 3 + static_cast<TokenId>(i); ++t)
        texts[i].push_back((t * 7 + static_cast<TokenId>(i)) % 20);
    Engine engine(
        *Model::load(model, {.loras = {{files[0], standard[0]}, {files[1], standard[1]}}}),
        adapter_engine(5));
    const auto together = logits_side_by_side(engine, all, texts);
    for (std::size_t i = 0; i < all.size(); ++i) {
      std::vector<LoraFile> used;
      const std::vector<float>& scales = all[i].empty() ? standard : all[i];
      for (std::size_t f = 0; f < files.size(); ++f)
        if (scales[f] != 0) used.push_back({files[f], scales[f]});
      Engine alone(*Model::load(model, {.loras = used}), adapter_engine(1));
      EXPECT_EQ(logits_side_by_side(alone, {{}}, {texts[i]}).front(), together[i])
          << c.gguf.name << " " << i;
    }
    EXPECT_NE(together[2], together[3]);
  }
}

TEST_F(LoraTest, PrefixesAreSharedUnderTheSameScales) {
  const std::string model = base({"llama", "llama", {}, {}, 0});
  const LoraFile file{adapter("one.gguf", {"blk.1.attn_k.weight"}, 4, 1), 1};
  Engine engine(*Model::load(model, {.loras = {file}}), adapter_engine(3));
  const std::vector<TokenId> text = {1, 2, 3, 4, 5, 6};
  (void)logits_side_by_side(engine, {{}, {2}}, {text, text});
  EXPECT_EQ(Sequence(engine).known_prefix(text), 6U);
  EXPECT_EQ(Sequence(engine, 0, true, {1}).known_prefix(text), 6U);
  EXPECT_EQ(Sequence(engine, 0, true, {2}).known_prefix(text), 6U);
  EXPECT_EQ(Sequence(engine, 0, true, {3}).known_prefix(text), 0U);
  EXPECT_EQ(Sequence(engine, 0, true, {0}).known_prefix(text), 0U);
}

TEST_F(LoraTest, RejectsScalesThatDoNotFit) {
  const std::string model = base({"llama", "llama", {}, {}, 0});
  const LoraFile file{adapter("one.gguf", {"blk.1.attn_k.weight"}, 4, 1), 1};
  Engine engine(*Model::load(model, {.loras = {file}}), adapter_engine(1));
  EXPECT_THROW(Sequence(engine, 0, true, {1, 2}), Error);
  EXPECT_THROW(Sequence(engine, 0, true, {std::numeric_limits<float>::infinity()}), Error);
}

TEST_F(LoraTest, GraphShowsAdapters) {
  const std::string model = base({"llama", "llama", {}, {}, 0});
  const std::string file = adapter("one.gguf", {"blk.1.ffn_up.weight"}, 4, 1);
  const std::string text = Model::load(model, {.loras = {{file, 1}}})->graph().to_string();
  EXPECT_NE(text.find("lora of rank 4"), std::string::npos) << text;
}

TEST_F(LoraTest, MergesExpertsByNumber) {
  ArchitectureCase c{"experts", "llama", {{"expert_count", 6U}, {"expert_used_count", 2U}}, {}, 0};
  c.tensors = {{"*.ffn_gate_inp.weight", {64, 6}}, {"*.ffn_down_exps.weight", {32, 64, 6}}};
  const std::string model = base(c, DType::F32);
  const std::string name = "blk.2.ffn_down_exps.weight";
  const LoraFile lora{adapter("one.gguf", {name}, 2, 1), 0.25F};
  const GgufFile before = GgufFile::open(model), after = GgufFile::open(merged({lora}, {})),
                 halves = GgufFile::open(lora.path);
  const auto value = [](const GgufFile& file, const std::string& tensor, std::uint64_t i) {
    float x = 0;
    std::memcpy(&x, file.tensor(tensor)->data + i * sizeof x, sizeof x);
    return double{x};
  };
  const std::uint64_t cols = 32, rows = 64, rank = 2, expert = 4, row = 7, col = 13;
  double want = value(before, name, (expert * rows + row) * cols + col);
  for (std::uint64_t r = 0; r < rank; ++r)
    want += 0.25 * 8 / 2 * value(halves, name + ".lora_b", (expert * rows + row) * rank + r) *
            value(halves, name + ".lora_a", (expert * rank + r) * cols + col);
  EXPECT_NEAR(value(after, name, (expert * rows + row) * cols + col), want, 1e-6);
  EXPECT_EQ(value(after, "blk.1.ffn_down_exps.weight", 5),
            value(before, "blk.1.ffn_down_exps.weight", 5));
  try {
    (void)Model::load(model, {.loras = {lora}});
    ADD_FAILURE() << "experts are not added to while the model runs";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("cria merge writes it into a model (tensor " + name),
              std::string::npos)
        << error.what();
  }
}

// llama.cpp's converter writes A and B of the embedding the other way round.
TEST_F(LoraTest, EmbeddingsAreTurnedRound) {
  const std::string model = base({"llama", "llama", {}, {}, 0}, DType::F32),
                    name = "token_embd.weight";
  const LoraFile lora{
      write("one.gguf", {{name + ".lora_a", {3, 40}}, {name + ".lora_b", {3, 64}}}, 1), 0.5F};
  const GgufFile before = GgufFile::open(model), after = GgufFile::open(merged({lora}, {})),
                 halves = GgufFile::open(lora.path);
  const auto row_of = [](const GgufFile& file, const std::string& tensor, std::uint64_t row) {
    const TensorView& view = *file.tensor(tensor);
    std::vector<float> values(view.cols());
    std::memcpy(values.data(), view.data + row * view.row_bytes(), view.row_bytes());
    return values;
  };
  for (const std::uint64_t token : {0, 7, 39}) {
    const std::vector<float> a = row_of(halves, name + ".lora_a", token),
                             x = row_of(before, name, token);
    for (std::uint64_t i = 0; i < 64; ++i) {
      const std::vector<float> b = row_of(halves, name + ".lora_b", i);
      double want = x[i];
      for (std::size_t r = 0; r < 3; ++r) want += 0.5 * 8 / 3 * double{a[r]} * double{b[r]};
      EXPECT_NEAR(row_of(after, name, token)[i], want, 1e-6);
    }
  }
  try {
    (void)Model::load(model, {.loras = {lora}});
    ADD_FAILURE() << "looked up, not multiplied by";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("cria merge writes it into a model (tensor " + name),
              std::string::npos)
        << error.what();
  }
}

TEST_F(LoraTest, NormsArePassedOver) {
  const std::string model = base({"llama", "llama", {}, {}, 0}), q = "blk.0.attn_q.weight";
  const std::string file = write(
      "norm.gguf",
      {{q + ".lora_a", {64, 4}}, {q + ".lora_b", {4, 64}}, {"blk.0.attn_norm.weight", {64}}}, 1);
  EXPECT_EQ(Model::load(model, {.loras = {{file, 1}}})->warnings().back(),
            file + ": 1 norm ignored: adapters change only matrices");
}

// Without an alpha, or with one of 0, additions count as they are.
TEST_F(LoraTest, WithoutAnAlpha) {
  const std::string model = base({"llama", "llama", {}, {}, 0}, DType::F32);
  const auto logits = [&](std::optional<float> alpha) {
    keys.erase("adapter.lora.alpha");
    if (alpha) keys["adapter.lora.alpha"] = *alpha;
    return logits_of(model, {{adapter("lora.gguf", {"blk.1.attn_q.weight"}, 4, 1), 1}});
  };
  const std::vector<float> none = logits({});
  EXPECT_EQ(none, logits(0.0F));
  EXPECT_EQ(none, logits(4.0F)) << "as large as the rank";
  EXPECT_NE(none, logits(8.0F));
}

TEST_F(LoraTest, MergedFilesSayTheTypeOfMostWeights) {
  base({"llama", "llama", {}, {}, 0}, DType::F32);
  std::vector<std::string> all;
  const GgufFile file = GgufFile::open(path("base.gguf"));
  for (const TensorView& tensor : file.tensors())
    if (tensor.shape.size() > 1) all.emplace_back(tensor.name);
  const std::vector<LoraFile> loras = {{adapter("all.gguf", all, 2, 1), 1}};
  const GgufFile halves = GgufFile::open(merged(loras, DType::F16));
  EXPECT_EQ(halves.get_uint("general.file_type"), 1U);
  EXPECT_EQ(halves.find("general.quantization_version"), nullptr);
  const GgufFile bytes = GgufFile::open(merged(loras, DType::Q8_0));
  EXPECT_EQ(bytes.get_uint("general.file_type"), 7U);
  EXPECT_EQ(bytes.get_uint("general.quantization_version"), 2U);
}

// Each row of IQ4_KS begins with a scale of its own.
TEST_F(LoraTest, RowsWithHeadersAreRead) {
  const DTypeInfo& type = dtype_info(DType::IQ4_KS);
  const std::string q = "blk.1.attn_q.weight";
  constexpr std::size_t kCols = 256, kRank = 4;
  std::vector<float> values(kCols * kRank), want(values.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(1 + i / kCols) * (static_cast<float>(i * 37 % 101) - 50);
  std::vector<std::byte> rows(kRank * type.row_bytes(kCols));
  for (std::size_t r = 0; r < kRank; ++r) {
    std::byte* const row = rows.data() + r * type.row_bytes(kCols);
    available_kernels().back()->encode(type.id)(values.data() + r * kCols, nullptr, kCols, row);
    type.dequantize(row, want.data() + r * kCols, kCols);
  }
  GgufWriter writer(path("quantized.gguf"));
  for (const auto& [key, value] : keys) writer.set(key, value);
  writer.declare(q + ".lora_a", type.id, {kCols, kRank});
  writer.declare(q + ".lora_b", DType::F32, {kRank, kCols});
  writer.begin();
  writer.write(rows);
  writer.write(std::as_bytes(std::span(values)));
  writer.finish();
  const GgufFile demo = GgufFile::open(CRIA_DATA "/cria-demo-Q8_0.gguf");
  const Adapters adapters = Adapters::load(std::vector<LoraFile>{{writer.path(), 1}}, demo);
  ASSERT_NE(adapters.find(q), nullptr);
  EXPECT_EQ(adapters.find(q)->a, want);
}

// Tables of a base may be of types that nothing is encoded in.
TEST_F(LoraTest, MergingIntoATypeWithoutEncoderIsAnError) {
  for (const DType type : {DType::F64, DType::I32}) {
    GgufWriter writer(path("base.gguf"));
    writer.set("general.architecture", std::string("llama"));
    writer.declare("table.weight", type, {32, 2});
    writer.begin();
    writer.write(std::vector<std::byte>(dtype_info(type).row_bytes(32) * 2));
    writer.finish();
    const std::vector<LoraFile> loras = {{adapter("table.gguf", {"table.weight"}, 4, 1), 1}};
    try {
      static_cast<void>(merged(loras, {}));
      ADD_FAILURE() << name(type);
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()), path("base.gguf") + ": no encoder for " +
                                               std::string(name(type)) + " (tensor table.weight)");
    }
    EXPECT_FALSE(fs::exists(path("merged.gguf")));
  }
}

TEST_F(LoraTest, HostileFilesAreRefused) {
  const std::string model = base({"llama", "llama", {}, {}, 0});
  const std::string q = "blk.0.attn_q.weight", a = q + ".lora_a", b = q + ".lora_b";
  const auto refused = [&](const std::string& file, const std::string& says) {
    try {
      (void)Model::load(model, {.loras = {{file, 1}}});
      ADD_FAILURE() << says;
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).find(file), 0U) << error.what();
      EXPECT_NE(std::string(error.what()).find(says), std::string::npos) << error.what();
    }
  };
  const std::vector<LoraTensor> good = {{a, {64, 4}}, {b, {4, 64}}};
  const auto with_key = [&](const std::string& key, const GgufData& value) {
    const auto kept = keys;
    keys[key] = value;
    std::string file = write("bad.gguf", good, 1);
    keys = kept;
    return file;
  };
  EXPECT_NO_THROW((void)Model::load(model, {.loras = {{write("good.gguf", good, 1), 1}}}));
  refused(with_key("general.type", std::string("model")),
          "expected 'adapter', got 'model' (key general.type)");
  refused(with_key("adapter.type", std::string("dora")),
          "expected 'lora', got 'dora' (key adapter.type)");
  refused(with_key("general.architecture", std::string("qwen3")), "(key general.architecture)");
  refused(with_key("adapter.lora.alpha", std::numeric_limits<float>::quiet_NaN()),
          "(key adapter.lora.alpha)");
  refused(with_key("adapter.lora.alpha", std::string("8")), "adapter.lora.alpha");
  refused(
      with_key("adapter.alora.invocation_tokens", GgufArray::of(std::vector<std::uint32_t>{1, 2})),
      "are not supported (key adapter.alora.invocation_tokens)");
  refused(write("bad.gguf", {}, 1), "the adapter has no tensors");
  refused(write("bad.gguf", {{a, {64, 4}}}, 1), "the other is missing (tensor " + a);
  refused(write("bad.gguf", {{b, {4, 64}}}, 1), "the other is missing (tensor " + b);
  refused(write("bad.gguf", {{"odd.weight", {4, 64}}}, 1), "unknown tensor");
  refused(write("bad.gguf", {{a, {32, 4}}, {b, {4, 64}}}, 1),
          "wrong shape for the model's [64, 64]");
  refused(write("bad.gguf", {{a, {64, 4}}, {b, {4, 32}}}, 1), "wrong shape for the model's");
  refused(write("bad.gguf", {{a, {64, 4, 2}}, {b, {4, 64, 2}}}, 1), "wrong shape for the model's");
  refused(write("bad.gguf", {{a, {64, 4, 1, 2}}, {b, {4, 64}}}, 1), "expected 2 or 3 dimensions");
  refused(write("bad.gguf", {{a, {64, 5}}, {b, {4, 64}}}, 1), "the factors do not fit each other");
  const std::string norm = "blk.0.attn_norm.weight";
  const std::string to_a_vector =
      write("bad.gguf", {{norm + ".lora_a", {64, 1}}, {norm + ".lora_b", {1, 1}}}, 1);
  EXPECT_THROW((void)Model::load(model, {.loras = {{to_a_vector, 1}}}), Error);
  refused(write("bad.gguf", {{"blk.9.x.lora_a", {64, 4}}, {"blk.9.x.lora_b", {4, 64}}}, 1),
          "no matrix of this name");
  refused(write("bad.gguf", good, 1, std::numeric_limits<float>::infinity()),
          "holds NaN or infinity");
  refused(path("none.gguf"), "");
}

}  // namespace
}  // namespace cria::test
