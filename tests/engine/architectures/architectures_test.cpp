// Every architecture on a small random model. The logits are known: they come from a version that
// agreed with exact arithmetic. Bits do not depend on batches, threads or instruction sets. Errors
// in a file are reported.
#include <gtest/gtest.h>

#include <set>

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

/// Every setting is tried with these, one with each of the others.
class CoveringArchitectures : public testing::TestWithParam<ArchitectureCase> {};

TEST(ArchitectureTable, CoveringCasesExist) {
  EXPECT_EQ(covering_cases().size(), std::size(kCoveringCases));
}

/// Compares the logits of one batch with other settings. The text is long enough that
/// sliding-window layers evict pages; one batch keeps all keys and masks those outside the window.
class SettingsCheck {
 public:
  explicit SettingsCheck(const ArchitectureCase& c)
      : model_(TinyArchitecture(c).load()), expected_(logits({.n_batch = 512, .threads = 1})) {}

  void expect_same(const SessionOptions& options, const std::string& what) const {
    EXPECT_TRUE(same_bytes(expected_, logits(options))) << what;
  }

 private:
  [[nodiscard]] std::vector<float> logits(SessionOptions options) const {
    options.n_ctx = 320;
    return architecture_logits(*model_, options, 310);
  }

  std::shared_ptr<const Model> model_;
  std::vector<float> expected_;
};

TEST_P(Architectures, BitsDependOnNothingElse) {
  SettingsCheck(GetParam()).expect_same({.n_batch = 7, .threads = 3}, "chunks of 7, 3 threads");
}

TEST_P(CoveringArchitectures, BitsDependOnNothingElse) {
  const SettingsCheck check(GetParam());
  check.expect_same({.n_batch = 1, .threads = 1}, "token by token");
  check.expect_same({.n_batch = 512, .threads = 2}, "one batch, two threads");
  check.expect_same({.n_batch = 64, .threads = 2}, "chunks of 64, two threads");
  for (const KernelSet* set : available_kernels())
    check.expect_same({.n_batch = 32, .threads = 1, .kernels = set}, std::string(set->isa));
}

/// Powers of two, by which numbers are multiplied exactly.
float power_at(std::size_t i) { return i % 3 == 0 ? 2.0F : i % 3 == 1 ? 0.5F : 1.0F; }

// A matrix may have one scale, one per stacked matrix, or one per row, under either name. Logits
// equal bit for bit those of a model whose matrices are multiplied beforehand.
TEST_P(Architectures, ScalesMultiplyTheProducts) {
  TinyArchitecture scaled(GetParam()), multiplied = scaled;
  std::map<std::string, std::size_t> values_per_scale;  // by name of a matrix
  std::size_t kind = 0;
  for (const TinyArchitecture::Tensor& t : multiplied.tensors) {
    const std::string base = t.name.substr(0, t.name.rfind('.'));
    const bool has_own =
        std::ranges::find(multiplied.tensors, base + ".scale", &TinyArchitecture::Tensor::name) !=
        multiplied.tensors.end();
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
  // Encoders have theirs in session/vectors_test.cpp.
  const std::set<std::string_view> encoders = {"bert", "nomic-bert", "nomic-bert-moe",
                                               "gemma-embedding"};
  for (const Architecture& row : architectures())
    EXPECT_TRUE(
        encoders.contains(row.name) ||
        std::ranges::any_of(cases, [&](const ArchitectureCase& c) { return c.arch == row.name; }))
        << row.name;
}

// Windows longer than a page, so that pages are evicted and found again in part.
TEST_P(CoveringArchitectures, BatchesChangeNothing) {
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

/// A file that needs one of the listed keys and lacks it causes an Error that names the key.
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

// Tensors that the description requires, without the optional ones of this case.
TEST_P(Architectures, MissingTensorsAreNamed) {
  TinyArchitecture tiny(GetParam());
  const auto good = tiny.tensors;
  ASSERT_TRUE(tiny.required.contains("token_embd.weight"));
  ASSERT_GT(tiny.required.size(), 10U);
  const bool equal_layers = tiny.load()->graph().states.empty();
  ASSERT_TRUE(!equal_layers || tiny.required.contains("blk.0.attn_output.weight"));
  for (std::size_t i = 0; i < good.size(); ++i) {
    const bool layer_0 = good[i].name.starts_with("blk.0.") || !good[i].name.starts_with("blk.");
    if (!tiny.required.contains(good[i].name) || (equal_layers && !layer_0)) continue;
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

// Errors that the reader of files cannot find. All layers are equal; an unused tensor may have any
// shape. A tensor that is too long is an Error.
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

// CRIA_HOSTILE_FILES: number of files of all architectures.
TEST_P(Architectures, ChangedFilesAreErrorsOrModels) {
  const MemoryLimit limit;
  const char* const wanted = std::getenv("CRIA_HOSTILE_FILES");
  const std::size_t all = architecture_cases().size();
  const std::size_t files = ((wanted != nullptr ? std::stoul(wanted) : 400) + all - 1) / all;
  const TinyArchitecture good(GetParam());
  for (std::size_t file = 0; file < files; ++file) {
    TinyArchitecture tiny = good;
    Random random(file * 1000 + GetParam().name.size());
    const auto below = [&random](std::size_t n) {
      return static_cast<std::size_t>(random.next() % n);
    };
    for (std::size_t n = 1 + below(4); n > 0; --n) spoil(tiny, below);
    EXPECT_NO_THROW(load_and_run(tiny)) << GetParam().name << ", file " << file;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Architectures, testing::ValuesIn(architecture_cases()), name_of_case);
INSTANTIATE_TEST_SUITE_P(All, CoveringArchitectures, testing::ValuesIn(covering_cases()),
                         name_of_case);

}  // namespace
}  // namespace cria::test
