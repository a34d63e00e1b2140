// Every architecture on a small random model: the logits are those of the version that agreed with exact
// arithmetic on files of every architecture; the same bytes however tokens are cut, on any number of threads
// and by any instruction set; and what is wrong in a file is an Error.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>

#include "tests/engine/architectures/architecture_cases.h"
#include "tests/engine/architectures/hostile_edits.h"
#include "tests/engine/demo.h"
#include "tests/engine/session/batch_mix.h"

namespace cria::test {
namespace {

double checksum(const std::vector<float>& logits) {
  double sum = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) sum += logits[i] * (static_cast<double>(i * 7 % 11) - 5);
  return sum;
}

class Architectures : public testing::TestWithParam<ArchitectureCase> {};

TEST_P(Architectures, LogitsAreKnown) {
  const auto model = TinyArchitecture(GetParam()).load();
  const std::vector<float> logits = architecture_logits(*model, {.n_ctx = 64, .threads = 1}, 24);
  double squares = 0;
  for (const float x : logits) {
    ASSERT_TRUE(std::isfinite(x));
    squares += double{x} * x;
  }
  // Rounding of other math libraries may change a quantized activation by one step.
  EXPECT_NEAR(checksum(logits), GetParam().golden, 2e-3 * std::sqrt(squares));
}

// Over so many tokens that windowed layers have let go of pages.
TEST_P(Architectures, BitsDependOnNothingElse) {
  constexpr std::size_t kTokens = 310;
  const auto model = TinyArchitecture(GetParam()).load();
  // In one batch every key is still there, and the window is but a mask.
  const std::vector<float> logits =
      architecture_logits(*model, {.n_ctx = 320, .n_batch = 512, .threads = 1}, kTokens);
  const auto expect_same = [&](SessionOptions options, const std::string& what) {
    options.n_ctx = 320;
    const std::vector<float> other = architecture_logits(*model, options, kTokens);
    EXPECT_EQ(std::memcmp(logits.data(), other.data(), logits.size() * sizeof(float)), 0) << what;
  };
  expect_same({.n_batch = 1, .threads = 1}, "token by token");
  expect_same({.n_batch = 512, .threads = 2}, "one batch, two threads");
  expect_same({.n_batch = 7, .threads = 3}, "chunks of 7, three threads");
  expect_same({.n_batch = 64, .threads = 2}, "chunks of 64, two threads");
  for (const KernelSet* set : available_kernels())
    expect_same({.n_batch = 32, .threads = 1, .kernels = set}, std::string(set->isa));
}

/// Powers of two, by which numbers are multiplied exactly.
float power_at(std::size_t i) { return i % 3 == 0 ? 2.0F : i % 3 == 1 ? 0.5F : 1.0F; }

// Beside every matrix one scale, one for each of those that are stacked, or one for each row, under either name:
// the same bits as if the weights were larger.
TEST_P(Architectures, ScalesMultiplyTheProducts) {
  TinyArchitecture scaled(GetParam()), multiplied = scaled;
  std::map<std::string, std::size_t> values_per_scale;  // of a matrix
  std::size_t kind = 0;
  for (const TinyArchitecture::Tensor& t : multiplied.tensors) {
    const std::string base = t.name.substr(0, t.name.rfind('.'));
    const bool has_own = std::ranges::find(multiplied.tensors, base + ".scale",
                                           &TinyArchitecture::Tensor::name) != multiplied.tensors.end();
    if (multiplied.type_of(t) == DType::F32 || has_own) continue;
    const std::size_t rows = t.shape[1], stacked = t.shape.size() > 2 ? t.shape[2] : 1;
    const std::size_t scales = std::array{std::size_t{1}, stacked, stacked * rows}[++kind % 3];
    values_per_scale[t.name] = t.shape[0] * rows * stacked / scales;
    scaled.tensors.push_back({(kind % 2 == 0 ? base : t.name) + ".scale", {scales}});
    scaled.tensors.push_back({base + ".input_scale", {1}});
  }
  const std::size_t old = multiplied.tensors.size();
  scaled.edit = [&](const TinyArchitecture::Tensor& t, std::vector<float>& values) {
    if (&t < scaled.tensors.data() + old) return;
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = power_at(i);
  };
  multiplied.edit = [&](const TinyArchitecture::Tensor& t, std::vector<float>& values) {
    const auto found = values_per_scale.find(t.name);
    for (std::size_t i = 0; found != values_per_scale.end() && i < values.size(); ++i)
      values[i] *= power_at(i / found->second);
  };
  const auto model = scaled.load();
  EXPECT_TRUE(architecture_logits(*model, {.n_ctx = 64, .threads = 2}, 24) ==
              architecture_logits(*multiplied.load(), {.n_ctx = 64, .threads = 1}, 24));
}

TEST(ArchitectureTable, EveryRowHasACase) {
  const std::vector<ArchitectureCase> cases = architecture_cases();
  for (const Architecture& row : architectures())
    EXPECT_TRUE(std::ranges::any_of(cases, [&](const ArchitectureCase& c) { return c.arch == row.name; }))
        << row.name;
}

// Windows longer than a page, so that pages are let go and found again in part.
TEST_P(Architectures, BatchesChangeNothing) {
  ArchitectureCase c = GetParam();
  const auto window = c.keys.find("attention.sliding_window");
  for (const std::uint32_t width : {8U, 70U}) {
    if (window != c.keys.end()) window->second = width;
    const auto model = TinyArchitecture(c).load();
    EngineOptions options;
    options.n_ctx = 400;
    options.rope_ctx = 256;
    options.n_batch = 40;
    options.threads = 2;
    options.sequences = 5;
    BatchMix mix(*model, options, width);
    mix.run(60);
    mix.check();
    if (window == c.keys.end()) return;
  }
}

/// Without one of these no file is taken that needs it, and the Error names it.
constexpr const char* kRequiredKeys[] = {".block_count",
                                         ".context_length",
                                         ".embedding_length",
                                         ".feed_forward_length",
                                         ".attention.head_count",
                                         ".attention.layer_norm_epsilon",
                                         ".attention.layer_norm_rms_epsilon",
                                         ".attention.kv_lora_rank",
                                         ".expert_used_count",
                                         "xielu.alpha_n",
                                         "xielu.alpha_p",
                                         "xielu.beta",
                                         "xielu.eps"};

TEST_P(Architectures, MissingKeysAreNamed) {
  TinyArchitecture tiny(GetParam());
  const auto good = tiny.keys;
  std::size_t required = 0;
  for (const auto& [key, value] : good) {
    const auto named = [&name = key](const char* end) { return name.ends_with(end); };
    if (std::ranges::none_of(kRequiredKeys, named)) continue;
    ++required;
    tiny.keys.erase(key);
    const std::string error = error_of([&] { (void)tiny.load(); });
    EXPECT_TRUE(error.ends_with("(key " + key + ")")) << key << " missing: " << error;
    tiny.keys = good;
  }
  EXPECT_GE(required, 6U);
}

// What the description asks for, beyond what this case has by choice.
TEST_P(Architectures, MissingTensorsAreNamed) {
  TinyArchitecture tiny(GetParam());
  const auto good = tiny.tensors;
  ASSERT_TRUE(tiny.required.contains("token_embd.weight"));
  ASSERT_TRUE(tiny.required.contains("blk.0.attn_output.weight"));
  for (std::size_t i = 0; i < good.size(); ++i) {
    const bool layer_0 = good[i].name.starts_with("blk.0.") || !good[i].name.starts_with("blk.");
    if (!tiny.required.contains(good[i].name) || !layer_0) continue;  // layers are alike
    tiny.tensors.erase(tiny.tensors.begin() + static_cast<std::ptrdiff_t>(i));
    const std::string error = error_of([&] { (void)tiny.load(); });
    EXPECT_NE(error.find(": missing tensor: "), std::string::npos) << good[i].name << ": " << error;
    EXPECT_TRUE(error.ends_with("(tensor " + good[i].name + ")")) << error;
    tiny.tensors = good;
  }
}

TEST_P(Architectures, OddKeysAreErrorsOrModels) {
  const MemoryLimit limit;
  TinyArchitecture tiny(GetParam());
  const auto good = tiny.keys;
  for (const auto& [key, value] : good) {
    tiny.keys.erase(key);
    EXPECT_NO_THROW(load_and_run(tiny)) << key << " missing";
    for (const GgufData& bad : odd_values()) {
      tiny.keys[key] = bad;
      EXPECT_NO_THROW(load_and_run(tiny)) << key;
    }
    tiny.keys = good;
  }
}

// What the reader of files would not know to be wrong. Layers are alike; a tensor without a use may have any
// shape. One that is too long is an Error.
TEST_P(Architectures, OddTensorsAreErrorsOrModels) {
  const MemoryLimit limit;
  TinyArchitecture tiny(GetParam());
  const auto good = tiny.tensors;
  for (std::size_t i = 0; i < good.size(); ++i) {
    if (good[i].name.ends_with(".padding") ||
        (good[i].name.starts_with("blk.") && !good[i].name.starts_with("blk.0.")))
      continue;
    tiny.tensors.erase(tiny.tensors.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_NO_THROW(load_and_run(tiny)) << good[i].name << " missing";
    tiny.tensors = good;
    tiny.tensors[i].shape.back() += 1;
    EXPECT_THROW((void)tiny.load(), Error) << good[i].name << " too long";
    tiny.tensors[i].shape = {1};
    EXPECT_NO_THROW(load_and_run(tiny)) << good[i].name << " of one value";
    tiny.tensors[i].shape = {32, 2, 2};
    EXPECT_NO_THROW(load_and_run(tiny)) << good[i].name << " of three dimensions";
    for (const float value : {std::numeric_limits<float>::quiet_NaN(), 0.0F, -1e30F}) {
      tiny.tensors = good;
      tiny.tensors[i].fill = value;
      EXPECT_NO_THROW(load_and_run(tiny)) << good[i].name << " of " << value;
    }
    tiny.tensors = good;
  }
}

// CRIA_HOSTILE_FILES: how many, of all architectures together.
TEST_P(Architectures, ChangedFilesAreErrorsOrModels) {
  const MemoryLimit limit;
  const char* const wanted = std::getenv("CRIA_HOSTILE_FILES");
  const std::size_t all = architecture_cases().size();
  const std::size_t files = ((wanted != nullptr ? std::stoul(wanted) : 400) + all - 1) / all;
  const TinyArchitecture good(GetParam());
  for (std::size_t file = 0; file < files; ++file) {
    TinyArchitecture tiny = good;
    Random random(file * 1000 + GetParam().name.size());
    const auto below = [&random](std::size_t n) { return static_cast<std::size_t>(random.next() % n); };
    for (std::size_t n = 1 + below(4); n > 0; --n) spoil(tiny, below);
    EXPECT_NO_THROW(load_and_run(tiny)) << GetParam().name << ", file " << file;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Architectures, testing::ValuesIn(architecture_cases()),
                         [](const testing::TestParamInfo<ArchitectureCase>& test) {
                           return test.param.name;
                         });

TEST(Experts, AreDescribedInTheGraph) {
  const auto model = TinyArchitecture({"experts", "llama", expert_keys(), expert_tensors(), 0}).load();
  const std::string text = model->graph().to_string();
  EXPECT_NE(text.find("2 of 6 experts by softmax, normalized"), std::string::npos) << text;
}

class ExpertTies : public ::testing::Test {
 protected:
  /// Six experts, of which as many are used. Where the router's rows of two are equal, so are the router's values.
  static TinyArchitecture model(std::uint32_t used, bool all_equal) {
    TinyArchitecture tiny(
        {"ties", "llama", {{"expert_count", kExperts}, {"expert_used_count", used}}, expert_tensors(), 0});
    tiny.edit = [all_equal](const TinyArchitecture::Tensor& t, std::vector<float>& values) {
      if (t.name.ends_with("ffn_gate_inp.weight")) make_ties(all_equal, values);
    };
    return tiny;
  }
  /// The same with zeros in place of experts [begin, end).
  static TinyArchitecture without(TinyArchitecture tiny, std::size_t begin, std::size_t end) {
    const auto edit = tiny.edit;
    tiny.edit = [=](const TinyArchitecture::Tensor& t, std::vector<float>& values) {
      edit(t, values);
      if (!t.name.ends_with("_exps.weight")) return;
      const std::size_t one = values.size() / kExperts;
      std::fill_n(values.begin() + static_cast<std::ptrdiff_t>(begin * one), (end - begin) * one, 0.0F);
    };
    return tiny;
  }
  static std::vector<float> logits(const TinyArchitecture& tiny) {
    return architecture_logits(*tiny.load(), {.n_ctx = 64, .threads = 2}, 24);
  }
  static constexpr std::uint32_t kExperts = 6;

 private:
  /// All rows as the first, or those of the second half as those of the first.
  static void make_ties(bool all_equal, std::vector<float>& values) {
    const std::size_t row = values.size() / kExperts, distinct = all_equal ? row : values.size() / 2;
    for (std::size_t i = distinct; i < values.size(); ++i) values[i] = values[i - distinct];
  }
};

TEST_F(ExpertTies, GoToTheLowerIds) {
  const TinyArchitecture two = model(2, true);
  const std::vector<float> want = logits(two);
  EXPECT_TRUE(same_bytes(logits(without(two, 2, 6)), want)) << "none but the first two are used";
  for (const std::size_t used : {0U, 1U})
    EXPECT_FALSE(same_bytes(logits(without(two, used, used + 1)), want)) << used;
}

// Each of experts 0, 1, 2 is as good as the one three after it, but not as each other.
TEST_F(ExpertTies, OfThoseThatAreBestGoToTheLowerId) {
  const TinyArchitecture one = model(1, false);
  const std::vector<float> want = logits(one);
  EXPECT_TRUE(same_bytes(logits(without(one, 3, 6)), want));
  for (const std::size_t used : {0U, 1U, 2U})
    EXPECT_FALSE(same_bytes(logits(without(one, used, used + 1)), want)) << used;
}

// The best experts lie in the groups of the best, so that groups change nothing where as many of them are used.
TEST(Experts, GroupsWithoutABiasCountAsTheirBest) {
  const auto logits_with = [](std::map<std::string, GgufData> keys) {
    return architecture_logits(
        *TinyArchitecture({"groups", "deepseek2", expert_keys(std::move(keys)), expert_tensors(), 0}).load(),
        {.n_ctx = 64, .threads = 1}, 24);
  };
  std::map<std::string, GgufData> keys = {{"attention.kv_lora_rank", 32U},
                                          {"attention.key_length", 40U},
                                          {"rope.dimension_count", 8U},
                                          {"expert_gating_func", 1U}};
  const std::vector<float> want = logits_with(keys);
  keys["expert_group_count"] = 3U;
  keys["expert_group_used_count"] = 2U;
  EXPECT_EQ(logits_with(keys), want);
  keys["expert_group_used_count"] = 1U;
  EXPECT_NE(logits_with(keys), want);
}

// Within the first steps the factor is 1; then it is that of queries made larger.
TEST(LatentAttention, QueriesMayGrow) {
  TinyArchitecture tiny(architecture_case("deepseek2_split"));
  const auto run = [&] { return architecture_logits(*tiny.load(), {.n_ctx = 64, .threads = 1}, 24); };
  const std::vector<float> want = run();
  tiny.keys["deepseek2.attention.temperature_scale"] = 0.5F;
  EXPECT_NE(error_of([&] { (void)tiny.load(); }).find("temperature_length"), std::string::npos);
  tiny.keys["deepseek2.attention.temperature_length"] = 16U;
  const std::vector<float> got = run();
  const auto same = std::ranges::mismatch(got, want).in1 - got.begin();
  EXPECT_EQ(same / TinyArchitecture::kVocabulary, 16) << "the first position that differs";
}

// As ik_llama.cpp converts: the halves stand beside the whole once more, of two dimensions.
TEST(LatentAttention, HalvesBesideTheWhole) {
  TinyArchitecture tiny(architecture_case("deepseek2"));
  const auto want = tiny.load();
  for (int layer = 0; layer < 4; ++layer) {
    const std::string name = "blk." + std::to_string(layer) + ".attn_";
    tiny.tensors.push_back({name + "k_b.weight", {32, 32 * 4}});
    tiny.tensors.push_back({name + "v_b.weight", {32, 16 * 4}});
  }
  const auto got = tiny.load();
  EXPECT_EQ(got->graph().to_string(), want->graph().to_string());
  EXPECT_EQ(got->warnings(), want->warnings());
  std::erase_if(tiny.tensors, [](const auto& tensor) { return tensor.name == "blk.1.attn_kv_b.weight"; });
  EXPECT_NE(error_of([&] { (void)tiny.load(); }).find("(tensor blk.1.attn_k_b.weight)"), std::string::npos);
}

// Converters write the type for classes whose factors they do not know.
TEST(Architecture, LongropeWithoutFactors) {
  TinyArchitecture tiny({"x", "llama", {}, {}, 0});
  const auto want = tiny.load();
  tiny.keys["llama.rope.scaling.type"] = std::string("longrope");
  const auto got = tiny.load();
  EXPECT_EQ(got->graph().to_string(), want->graph().to_string());
  EXPECT_EQ(got->warnings().size(), want->warnings().size() + 1);
  tiny.tensors.push_back({"rope_factors_short.weight", {8}});
  EXPECT_NE(error_of([&] { (void)tiny.load(); }).find("missing tensor"), std::string::npos);
}

// Products of each head, of a few tokens at a time: more pieces of work than the threads are given at once.
TEST(LatentAttention, ManyHeadsOfManyTokens) {
  constexpr std::size_t kSequences = 32, kTokens = 64;
  const auto model = TinyArchitecture({"heads",
                                       "deepseek2",
                                       {{"block_count", 1U},
                                        {"attention.head_count", 1024U},
                                        {"attention.head_count_kv", 1024U},
                                        {"attention.kv_lora_rank", 1U},
                                        {"attention.key_length", 3U},
                                        {"attention.value_length", 1U},
                                        {"rope.dimension_count", 2U}},
                                       {},
                                       0})
                         .load();
  EngineOptions options;
  options.n_ctx = kTokens;
  options.n_batch = kSequences * kTokens;
  options.threads = 2;
  options.sequences = kSequences;
  Engine engine(*model, options);
  ASSERT_EQ(engine.options().n_batch, options.n_batch) << "not cut for want of memory";
  std::vector<TokenId> tokens;
  for (std::size_t i = 0; i < kTokens; ++i) tokens.push_back(static_cast<TokenId>((i * i + 3 * i) % 40));
  std::vector<Sequence> sequences;
  Batch batch(engine);
  for (std::size_t i = 0; i < kSequences; ++i) batch.add(sequences.emplace_back(engine), tokens, 0);
  batch.forward();
  const std::vector<float> alone = architecture_logits(*model, {.n_ctx = kTokens, .threads = 1}, kTokens);
  for (const std::size_t row : {std::size_t{0}, kSequences * kTokens - 1}) {
    const std::span<const float> logits = batch.logits(row, row + 1);
    EXPECT_TRUE(std::ranges::equal(logits, std::span(alone).subspan(row % kTokens * 40, 40))) << row;
  }
}

// 0 says that there are none, whatever the pattern: every layer is rotated alike, and sees all positions.
TEST(Windows, None) {
  for (const std::string arch : {"gemma3", "olmo2", "exaone4"}) {
    TinyArchitecture tiny({"w", arch, {{"attention.sliding_window", 8U}}, {}, 0});
    const auto graph = [&] { return tiny.load()->graph().to_string(); };
    EXPECT_NE(graph().find("window 8"), std::string::npos) << arch;
    tiny.keys[arch + ".attention.sliding_window_pattern"] = flags({0, 0, 0, 0});
    const std::string full = graph();
    tiny.keys[arch + ".attention.sliding_window_pattern"] = flags({1, 1, 1, 0});
    tiny.keys[arch + ".attention.sliding_window"] = 0U;
    const std::string none = graph();
    EXPECT_EQ(none.find("window"), std::string::npos) << none;
    tiny.keys.erase(arch + ".attention.sliding_window");
    if (arch == "gemma3") {  // the key is required
      EXPECT_EQ(none, full);
      EXPECT_THROW((void)graph(), Error);
    } else {
      EXPECT_EQ(graph(), none) << arch;
    }
  }
}

// Old files of Phi 3 for short contexts lack the key.
TEST(Windows, OfPhi3) {
  Shapes enough;  // tensors for a file of so many layers to be looked at
  for (int i = 0; i < 32; ++i) enough.push_back({std::to_string(i) + ".padding", {64}});
  TinyArchitecture tiny({"w", "phi3", {{"block_count", 32U}, {"context_length", 4096U}}, enough, 0});
  const auto windows = [&](const std::string& length) {
    return tiny.load()->graph().to_string().find("window " + length) != std::string::npos;
  };
  EXPECT_TRUE(windows("2047"));
  tiny.keys["phi3.context_length"] = 8192U;
  EXPECT_FALSE(windows(""));
  tiny.keys["phi3.context_length"] = 4096U;
  tiny.keys["phi3.attention.sliding_window"] = 0U;
  EXPECT_FALSE(windows(""));
}

TEST(Windows, NumbersAsFlags) {
  for (const std::string arch : {"gemma3", "gemma4"}) {
    TinyArchitecture tiny(
        {"w",
         arch,
         {{"attention.sliding_window", 8U}, {"attention.sliding_window_pattern", flags({1, 0, 0, 1})}},
         {},
         0});
    GgufData& pattern = tiny.keys[arch + ".attention.sliding_window_pattern"];
    const std::string want = tiny.load()->graph().to_string();
    pattern = GgufArray::of(std::vector<std::int32_t>{1, 0, 0, 1});
    EXPECT_EQ(tiny.load()->graph().to_string(), want);
    pattern = GgufArray::of(std::vector<std::uint32_t>{1, 0, 0});
    EXPECT_NE(error_of([&] { (void)tiny.load(); }).find("expected one value per layer, 4, got 3"),
              std::string::npos);
    pattern = GgufArray::of(std::vector<float>{1, 0, 0, 1});
    EXPECT_THROW((void)tiny.load(), Error);
  }
}

// MobileLLM is a Llama 4 without chunks: all layers are rotated, and no query grows with its position.
TEST(Windows, NoChunks) {
  TinyArchitecture tiny({"w", "llama4", {}, {}, 0});
  const auto graph = [&] { return tiny.load()->graph().to_string(); };
  const std::string usual = graph();
  for (const char* what : {"chunks of 8192", "no rope", "temperature 0.1"})
    EXPECT_NE(usual.find(what), std::string::npos) << what;
  tiny.keys["llama4.attention.sliding_window"] = 8192U;
  EXPECT_EQ(graph(), usual);
  tiny.keys["llama4.attention.sliding_window"] = 0U;
  const std::string whole = graph();
  for (const char* what : {"chunks", "no rope", "temperature"})
    EXPECT_EQ(whole.find(what), std::string::npos) << whole;
  std::size_t norms = 0;
  for (std::size_t at = 0; (at = whole.find("norms after rope", at)) != std::string::npos; ++at) ++norms;
  EXPECT_EQ(norms, TinyArchitecture::kLayers);
}

TEST(Windows, KeepNoMoreThanTheyNeed) {
  const auto model = TinyArchitecture({"w", "cohere2", {{"attention.sliding_window", 8U}}, {}, 0}).load();
  const SessionMemory wide = session_memory(*model, {.n_ctx = 256, .n_batch = 256});
  const SessionMemory narrow = session_memory(*model, {.n_ctx = 256, .n_batch = 16});
  // Three of four layers need two pages of four.
  EXPECT_EQ(narrow.kv, wide.kv / 4 + wide.kv / 4 * 3 / 2);
}

TEST(Windows, RewindOnlyAsFarAsKeysAreThere) {
  const auto model = TinyArchitecture({"w", "cohere2", {{"attention.sliding_window", 8U}}, {}, 0}).load();
  Session session(*model, {.n_ctx = 256, .n_batch = 16, .threads = 1});
  std::vector<TokenId> tokens(200, 3);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<TokenId>(i * 7 % 40);
  session.eval(tokens);
  EXPECT_EQ(session.truncate(198), 198U);
  const std::span<const float> again = session.eval(std::span(tokens).subspan(198));
  const std::vector<float> first(again.begin(), again.end());
  EXPECT_EQ(session.truncate(100), 0U) << "its keys are gone";
  const std::span<const float> fresh = session.eval(tokens);
  EXPECT_TRUE(std::equal(fresh.begin(), fresh.end(), first.begin(), first.end()));
}

TEST(Architecture, DecisiveKeysThatAreNotKnownAreRefused) {
  for (const auto& [key, value] : std::map<std::string, GgufData>{{"attn_logit_softcapping", 50.0F},
                                                                  {"logit_scale", 0.5F},
                                                                  {"attention.clamp_kqv", 8.0F},
                                                                  {"nextn_predict_layers", 1U},
                                                                  {"attention.causal", false},
                                                                  {"attention.value_scale", 0.5F},
                                                                  {"attention.output_scale", 0.5F},
                                                                  {"expert_weights_scale", 2.0F},
                                                                  {"rope.scaling.yarn_ext_factor", 0.5F},
                                                                  {"expert_count", 4U}}) {
    TinyArchitecture tiny({"x", "qwen3", {}, {}, 0});
    tiny.keys["qwen3." + key] = value;
    if (key == "expert_count") tiny.keys["qwen3.expert_used_count"] = 2U;
    try {
      (void)tiny.load();
      ADD_FAILURE() << key;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("(key qwen3." + key + ")"), std::string::npos) << error.what();
    }
  }
}

// What the keys may say of a family that does not go by them.
TEST(Architecture, RoutersThatAreNotTheFamilys) {
  struct Says {
    const char* name;
    bool normalized;
    std::uint32_t function;
  };
  for (const Says& family : {Says{"qwen3moe", true, 1}, Says{"qwen2moe", false, 1}, Says{"llama4", false, 2},
                             Says{"gpt_oss", true, 3}}) {
    TinyArchitecture tiny(architecture_case(family.name));
    const std::string norm = tiny.arch + ".expert_weights_norm", function = tiny.arch + ".expert_gating_func";
    const bool decides = family.function != 3;  // softmax of the chosen: sums of 1
    tiny.keys[norm] = family.normalized;
    tiny.keys[function] = family.function;
    EXPECT_NO_THROW((void)tiny.load()) << family.name;
    tiny.keys[function] = 0U;
    EXPECT_NO_THROW((void)tiny.load()) << family.name;
    tiny.keys[function] = 3 - family.function;
    EXPECT_EQ(error_of([&] { (void)tiny.load(); }).find("(key " + function + ")") != std::string::npos,
              decides);
    tiny.keys.erase(function);
    tiny.keys[norm] = !family.normalized;
    EXPECT_EQ(error_of([&] { (void)tiny.load(); }).find("(key " + norm + ")") != std::string::npos, decides);
  }
}

// Published files have keys, their norm and values where those of another layer are used.
TEST(Architecture, OwnKeysBesideSharedOnes) {
  const ArchitectureCase c = architecture_case("gemma4");
  const auto want = TinyArchitecture(c).load();
  TinyArchitecture more(c);
  for (const auto& [name, length] : std::map<std::string, std::uint64_t>{{"attn_k", 32}, {"attn_v", 32}})
    more.tensors.push_back({"blk.2." + name + ".weight", {64, length}});
  more.tensors.push_back({"blk.2.attn_k_norm.weight", {16}});
  const auto got = more.load();
  EXPECT_EQ(got->warnings().size(), want->warnings().size() + 1);
  EXPECT_EQ(got->graph().to_string(), want->graph().to_string());
  more.tensors.push_back({"blk.1.attn_v_norm.weight", {16}});
  EXPECT_NE(error_of([&] { (void)more.load(); }).find("a norm that this architecture does not have"),
            std::string::npos);
}

// The rows of queries and keys in the order of halves: the same model.
TEST(Architecture, SectionsMeanHalves) {
  TinyArchitecture pairs(architecture_case("glm4"));
  pairs.matrix_type = DType::F32;  // nothing is quantized
  TinyArchitecture halves = pairs;
  halves.keys["glm4.rope.dimension_sections"] = GgufArray::of(std::vector<std::int32_t>{2, 1, 1, 0});
  halves.edit = [](const TinyArchitecture::Tensor& t, std::vector<float>& values) {
    if (!t.name.ends_with("attn_q.weight") && !t.name.ends_with("attn_k.weight")) return;
    const std::vector<float> old = values;
    for (std::size_t row = 0; row < old.size() / 64; ++row) {
      const std::size_t i = row % 16, from = i < 8 ? row - i + 2 * (i % 4) + i / 4 : row;
      std::copy_n(old.data() + from * 64, 64, values.data() + row * 64);
    }
  };
  const auto run = [](const TinyArchitecture& tiny) {
    SessionOptions options;
    options.n_ctx = 64;
    options.threads = 1;
    options.kv_type = KvType::F32;
    return architecture_logits(*tiny.load(), options, 24);
  };
  const std::vector<float> want = run(pairs), got = run(halves);
  double squares = 0;
  for (const float x : want) squares += double{x} * x;
  EXPECT_NEAR(checksum(got), checksum(want), 1e-3 * std::sqrt(squares)) << "sums of another order";
  halves.keys["glm4.rope.dimension_sections"] = GgufArray::of(std::vector<std::int32_t>{0, 0, 0, 0});
  EXPECT_GT(std::abs(checksum(run(halves)) - checksum(want)), 0.1 * std::sqrt(squares));
}

TEST(Architecture, SectionsOfAdjacentPairsAreRefused) {
  for (const std::string key : {"rope.dimension_sections", "rope.mrope_section"}) {
    for (const std::string arch : {"llama", "qwen3"}) {
      TinyArchitecture tiny({"x", arch, {}, {}, 0});
      tiny.keys[arch + "." + key] = GgufArray::of(std::vector<std::int32_t>{2, 3, 3, 0});
      EXPECT_EQ(error_of([&] { (void)tiny.load(); }).find("(key llama." + key + ")") != std::string::npos,
                arch == "llama");
      tiny.keys[arch + "." + key] = GgufArray::of(std::vector<std::int32_t>{0, 0, 0, 0});
      EXPECT_NO_THROW((void)tiny.load());
    }
  }
}

TEST(Architecture, LayersThatPredictAreNotRun) {
  for (const char* name : {"glm4", "glm4moe", "exaone4", "deepseek2"}) {
    TinyArchitecture tiny(architecture_case(name));
    const std::string want = tiny.load()->graph().to_string();
    tiny.keys[tiny.arch + ".block_count"] = 5U;
    tiny.keys[tiny.arch + ".nextn_predict_layers"] = 1U;
    for (const char* tensor : {"attn_norm", "attn_k_norm", "nextn.enorm", "nextn.shared_head_norm"})
      tiny.tensors.push_back({std::string("blk.4.") + tensor + ".weight", {64}});
    EXPECT_EQ(tiny.load()->graph().to_string(), want) << name;
  }
}

TEST(Architecture, Gemma3AsOllamaNamesIt) {
  TinyArchitecture tiny(architecture_case("gemma3"));
  tiny.keys["gemma3.rope.freq_base"] = 1e6F;
  tiny.keys["gemma3.rope.freq_base_swa"] = 20000.0F;
  const std::string want = tiny.load()->graph().to_string();
  for (const char* key : {"gemma3.rope.freq_base", "gemma3.rope.freq_base_swa"}) tiny.keys.erase(key);
  EXPECT_NE(tiny.load()->graph().to_string(), want);
  tiny.keys["gemma3.rope.global.freq_base"] = 1e6F;
  tiny.keys["gemma3.rope.local.freq_base"] = 20000.0F;
  EXPECT_EQ(tiny.load()->graph().to_string(), want);
}

// With biases in the feed-forward part the models are others.
TEST(Architecture, GraniteMayHaveBiases) {
  for (const char* name : {"granite", "minicpm"}) {
    ArchitectureCase c = architecture_case(name);
    const auto run = [&] {
      return architecture_logits(*TinyArchitecture(c).load(), {.n_ctx = 64, .threads = 1}, 24);
    };
    const std::vector<float> without = run();
    for (const char* tensor : {"*.ffn_gate.bias", "*.ffn_up.bias", "*.ffn_down.bias"}) {
      c.tensors = {{tensor, {tensor == std::string("*.ffn_down.bias") ? 64U : 96U}}};
      EXPECT_NE(run(), without) << tensor;
    }
  }
}

TEST(Architecture, GraniteMayRotateNothing) {
  for (const std::string arch : {"granite", "granitemoe"}) {
    TinyArchitecture tiny(architecture_case(arch));
    const auto rotates = [&] {
      return tiny.load()->graph().to_string().find("no rope") == std::string::npos;
    };
    EXPECT_TRUE(rotates());
    tiny.keys[arch + ".rope.scaling.finetuned"] = true;
    EXPECT_TRUE(rotates());
    tiny.keys[arch + ".rope.scaling.finetuned"] = false;
    EXPECT_FALSE(rotates());
  }
}

// Granite 4 without state spaces has their keys all the same.
TEST(Architecture, StateSpacesAreTensors) {
  TinyArchitecture tiny(architecture_case("granite"));
  tiny.keys["granite.ssm.state_size"] = 128U;
  tiny.keys["granite.attention.head_count_kv"] = GgufArray::of(std::vector<std::int32_t>(4, 2));
  EXPECT_NO_THROW((void)tiny.load());
  tiny.tensors.push_back({"blk.2.ssm_in.weight", {64, 64}});
  EXPECT_NE(error_of([&] { (void)tiny.load(); }).find("a state space that this architecture does not have"),
            std::string::npos);
}

// Layer 2 reads the keys and values of layer 0, of four heads.
TEST(Architecture, SharedKeysHaveHeadsThatDivideAmongThem) {
  const auto with_heads = [](std::int32_t heads) {
    const std::map<std::string, GgufData> keys = {
        {"attention.sliding_window", 8U},
        {"attention.sliding_window_pattern", flags({1, 0, 1, 0})},
        {"attention.shared_kv_layers", 2U},
        {"attention.head_count", GgufArray::of(std::vector<std::int32_t>{4, 4, heads, 4})},
        {"attention.head_count_kv", GgufArray::of(std::vector<std::int32_t>{4, 4, heads, 4})}};
    return TinyArchitecture({"shared", "gemma4", keys, {}, 0});
  };
  EXPECT_NO_THROW(load_and_run(with_heads(8)));
  for (const std::int32_t heads : {2, 6}) {
    EXPECT_NE(error_of([&] { load_and_run(with_heads(heads)); })
                  .find("heads of layer 2 do not divide among the KV heads that they share: expected a "
                        "multiple of 4, got " +
                        std::to_string(heads) + " (key gemma4.attention.head_count)"),
              std::string::npos)
        << heads;
  }
}

}  // namespace
}  // namespace cria::test
