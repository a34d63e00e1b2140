// Calibrated quantization of whole models: every architecture, threads, instruction sets, and that
// the result is nearer to the exact model.
#include "engine/calibrate/calibrate.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>

#include "engine/calibrate/calibration_text.h"
#include "engine/quantize/rows.h"
#include "tests/engine/architectures/architecture_cases.h"
#include "tests/engine/demo.h"

namespace cria::test {
namespace {

// Every matrix whose rows are whole blocks gets the type; the others stay as they are.
QuantizePlan plan_of(const GgufFile& file, DType type, std::string_view part = "") {
  QuantizePlan plan;
  for (const TensorView& tensor : file.tensors()) {
    const bool wanted = tensor.shape.size() > 1 && is_quantizable(tensor.name) &&
                        tensor.cols() % dtype_info(type).block_values == 0 &&
                        tensor.name.find(part) != std::string_view::npos;
    plan.tensors.push_back({&tensor, wanted ? type : tensor.dtype, ""});
  }
  return plan;
}

CalibrationTokens random_tokens(std::size_t windows, std::size_t window, std::uint32_t vocabulary) {
  Random random(1);
  CalibrationTokens tokens{window, {}};
  for (std::size_t i = 0; i < windows * window; ++i)
    tokens.ids.push_back(static_cast<TokenId>(random.next() % vocabulary));
  return tokens;
}

using Blocks = std::map<std::string, std::vector<std::byte>>;  // by tensor

Blocks blocks_of(const CalibrationState& state, const QuantizePlan& plan) {
  Blocks blocks;
  for (const PlannedTensor& tensor : plan.tensors)
    if (const auto made = state.tensor(tensor.source->name); !made.empty())
      blocks[std::string(tensor.source->name)].assign(made.begin(), made.end());
  return blocks;
}

Blocks calibrated(const Model& model, const QuantizePlan& plan, const CalibrationTokens& tokens,
                  const CalibrationOptions& options) {
  CalibrationState state = CalibrationState::unnamed(plan, testing::TempDir());
  calibrate(model, plan, tokens, options, state);
  return blocks_of(state, plan);
}

Blocks calibrated(const Model& model, const QuantizePlan& plan, const CalibrationTokens& tokens,
                  unsigned threads, const KernelSet& kernels = *active_kernels()) {
  CalibrationOptions options;
  options.feedback = {.descents = 1, .refits = 1, .threads = threads};
  options.kernels = &kernels;
  return calibrated(model, plan, tokens, options);
}

class CalibratedArchitectures : public testing::TestWithParam<ArchitectureCase> {};

TEST_P(CalibratedArchitectures, GiveTheSameBytesForAnyThreads) {
  const auto model = TinyArchitecture(GetParam()).load();
  const QuantizePlan plan = plan_of(model->file(), DType::Q4_0);
  const CalibrationTokens tokens = random_tokens(3, 24, TinyArchitecture::kVocabulary);
  const Blocks one = calibrated(*model, plan, tokens, 1);
  EXPECT_FALSE(one.empty());
  EXPECT_EQ(calibrated(*model, plan, tokens, 3), one);
  for (const auto& [name, bytes] : one) {
    const TensorView& tensor = *model->file().tensor(name);
    EXPECT_EQ(bytes.size(), dtype_info(DType::Q4_0).row_bytes(tensor.cols()) * tensor.rows());
  }
}

// Stops at any matrices, also between a router and its experts, change nothing.
TEST_P(CalibratedArchitectures, StreamsMayStopAtAnyMatrix) {
  const auto model = TinyArchitecture(GetParam()).load();
  const CalibrationTokens tokens = random_tokens(2, 24, TinyArchitecture::kVocabulary);
  const Graph& graph = model->graph();
  const auto rows_at = [&](std::size_t node, std::size_t step) {
    LayerStream stream(*model, tokens, *active_kernels(), 1);
    for (std::size_t i = step; step > 0 && i < node; i += step) {
      if (graph.nodes[i].facts.dense) stream.visit(i, [](std::size_t) {});
      if (graph.nodes[i].as<ExpertsUpOp>() != nullptr ||
          graph.nodes[i].as<ExpertsDownOp>() != nullptr)
        stream.run_to(i);
    }
    std::vector<float> rows;
    stream.visit(node, [&](std::size_t) {
      const std::span<const float> some = stream.rows_of_window(graph.nodes[node].in);
      rows.insert(rows.end(), some.begin(), some.end());
    });
    return rows;
  };
  const std::size_t last = graph.nodes.size() - 1;
  const std::vector<float> expected = rows_at(last, 0);
  for (const std::size_t step : {1U, 2U, 3U, 5U}) EXPECT_EQ(rows_at(last, step), expected) << step;
}
INSTANTIATE_TEST_SUITE_P(, CalibratedArchitectures, testing::ValuesIn(architecture_cases()),
                         name_of_case);

TEST(Calibrate, GivesTheSameBytesForEachInstructionSet) {
  const auto model = TinyArchitecture(architecture_case("qwen3moe")).load();
  const QuantizePlan plan = plan_of(model->file(), DType::Q4_0);
  const CalibrationTokens tokens = random_tokens(2, 24, TinyArchitecture::kVocabulary);
  const Blocks expected = calibrated(*model, plan, tokens, 1);
  for (const KernelSet* const kernels : available_kernels())
    EXPECT_EQ(calibrated(*model, plan, tokens, 2, *kernels), expected) << kernels->isa;
}

// The matrix of each head of latent attention has inputs of its own.
TEST(Calibrate, ChoosesCodesOfEachHead) {
  const auto model = TinyArchitecture(architecture_case("deepseek2_split")).load();
  const QuantizePlan plan = plan_of(model->file(), DType::Q4_0, "_b.weight");
  std::map<std::string, int> better;  // heads by tensor
  CalibrationOptions options;
  options.on_matrix = [&](const std::string& tensor, std::uint64_t, const FeedbackLoss& loss) {
    if (loss.found < loss.encoded) ++better[tensor];
  };
  const CalibrationTokens tokens = random_tokens(3, 24, TinyArchitecture::kVocabulary);
  const Blocks blocks = calibrated(*model, plan, tokens, options);
  const std::uint32_t heads = model->config().n_heads[0];
  for (const char* const name : {"blk.0.attn_k_b.weight", "blk.0.attn_v_b.weight"}) {
    EXPECT_TRUE(blocks.contains(name)) << name;
    EXPECT_EQ(better[name], static_cast<int>(heads)) << name;
  }
}

TEST(Calibrate, NotesExpertsWithoutTokens) {
  const auto model = TinyArchitecture(architecture_case("qwen3moe")).load();
  const QuantizePlan plan = plan_of(model->file(), DType::Q4_0);
  std::vector<std::string> notes;
  CalibrationOptions options;
  options.on_note = [&](const std::string& note) { notes.push_back(note); };
  const CalibrationTokens tokens{8, std::vector<TokenId>(8, 3)};  // one token eight times
  const Blocks made = calibrated(*model, plan, tokens, options);
  EXPECT_TRUE(made.contains("blk.0.ffn_down_exps.weight"));
  ASSERT_FALSE(notes.empty());
  EXPECT_NE(notes.front().find("no token takes expert"), std::string::npos) << notes.front();
}

// A model in which one weight is not a number.
std::shared_ptr<const Model> model_with_nan(const std::string& tensor) {
  TinyArchitecture tiny(architecture_case("llama"));
  tiny.matrix_type = DType::F32;
  tiny.edit = [&](const TinyArchitecture::Tensor& t, std::vector<float>& values) {
    if (t.name == tensor) values[1] = std::numeric_limits<float>::quiet_NaN();
  };
  return tiny.load();
}

TEST(Calibrate, RefusesMatricesThatAreNotFinite) {
  const auto model = model_with_nan("blk.1.attn_k.weight");
  try {
    calibrated(*model, plan_of(model->file(), DType::Q4_0),
               random_tokens(2, 24, TinyArchitecture::kVocabulary), CalibrationOptions());
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("tensor blk.1.attn_k.weight"), std::string::npos)
        << error.what();
  }
}

TEST(Calibrate, UsesTheEncoderWhereInputsAreNotFinite) {
  const auto model = model_with_nan("blk.1.attn_norm.weight");
  const QuantizePlan plan = plan_of(model->file(), DType::Q4_0);
  std::vector<std::string> notes;
  CalibrationOptions options;
  options.on_note = [&](const std::string& note) { notes.push_back(note); };
  const Blocks made =
      calibrated(*model, plan, random_tokens(2, 24, TinyArchitecture::kVocabulary), options);
  EXPECT_TRUE(made.contains("blk.3.ffn_down.weight"));
  ASSERT_FALSE(notes.empty());
  EXPECT_NE(notes.front().find("not finite"), std::string::npos) << notes.front();
}

// One token over and over: moments of rank one. Rows of 64 and 96 take the place of Q4_K's blocks.
TEST(Calibrate, TakesTextsWithoutVarietyAndShortRows) {
  const auto model = TinyArchitecture(architecture_case("llama")).load();
  QuantizeOptions how;
  how.mix = find_mix("Q4_K_M");
  how.allow_requantize = true;
  const QuantizePlan plan = plan_quantize(model->file(), how);
  const CalibrationTokens tokens{24, std::vector<TokenId>(72, 5)};
  const Blocks made = calibrated(*model, plan, tokens, CalibrationOptions());
  ASSERT_TRUE(made.contains("blk.0.ffn_up.weight"));
  for (const PlannedTensor& tensor : plan.tensors) {
    const auto found = made.find(std::string(tensor.source->name));
    if (found == made.end()) continue;
    EXPECT_NE(tensor.type, DType::Q4_K) << tensor.source->name;
    std::vector<float> values(tensor.source->rows() * tensor.source->cols());
    dtype_info(tensor.type)
        .dequantize_rows(found->second.data(), values.data(), tensor.source->rows(),
                         tensor.source->cols());
    EXPECT_TRUE(std::ranges::all_of(values, [](float v) { return std::isfinite(v); }))
        << tensor.source->name;
  }
}

struct Stop {};

class ResumedCalibration : public testing::Test {
 protected:
  ~ResumedCalibration() override { std::filesystem::remove(path_); }
  CalibrationState state(std::uint64_t identity = 7) const { return {plan_, path_, identity}; }
  // Calibrates until that many more matrices are finished.
  bool run(std::size_t matrices) {
    CalibrationState state = this->state();
    const std::size_t before = state.finished();
    CalibrationOptions options;
    options.on_matrix = [&](const std::string&, std::uint64_t, const FeedbackLoss&) {
      if (state.finished() >= before + matrices) throw Stop();
    };
    try {
      calibrate(*model_, plan_, tokens_, options, state);
      return true;
    } catch (const Stop&) {
      return false;
    }
  }
  const std::shared_ptr<const Model> model_ =
      TinyArchitecture(architecture_case("qwen3moe")).load();
  const QuantizePlan plan_ = plan_of(model_->file(), DType::Q4_0);
  const CalibrationTokens tokens_ = random_tokens(2, 24, TinyArchitecture::kVocabulary);
  const std::string path_ = testing::TempDir() + "/calibration-" + std::to_string(::getpid());
};

TEST_F(ResumedCalibration, GivesTheSameBytes) {
  const Blocks expected = calibrated(*model_, plan_, tokens_, CalibrationOptions());
  std::size_t stops = 0;
  while (!run(1)) {
    ++stops;
    // A kill in the middle of a matrix leaves rows that are not finished.
    CalibrationState state = this->state();
    for (const auto& [name, blocks] : expected)
      if (state.tensor(name).empty() && !state.has(name, 0))
        state.write(name, 0, std::vector<std::byte>(blocks.size() / 8, std::byte{0x55}));
  }
  EXPECT_GE(stops, 10U);
  const Blocks made = blocks_of(state(), plan_);
  EXPECT_EQ(made.size(), expected.size());
  for (const auto& [name, blocks] : expected) EXPECT_TRUE(made.at(name) == blocks) << name;
}

TEST_F(ResumedCalibration, RepeatsWhatIsDamaged) {
  const Blocks expected = calibrated(*model_, plan_, tokens_, CalibrationOptions());
  EXPECT_FALSE(run(5));
  EXPECT_EQ(state().finished(), 5U);
  std::filesystem::resize_file(path_, std::filesystem::file_size(path_) - 1);
  EXPECT_EQ(state().finished(), 4U);
  constexpr std::size_t kBegin = 4096, kList = 5 * 32;
  std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(kBegin);
  file << std::string(std::filesystem::file_size(path_) + 1 - kList - kBegin, 'x');
  file.close();
  EXPECT_EQ(state().finished(), 0U);
  EXPECT_TRUE(run(1000));
  EXPECT_EQ(blocks_of(state(), plan_), expected);
}

TEST_F(ResumedCalibration, RefusesOtherStates) {
  EXPECT_FALSE(run(1));
  EXPECT_THROW(state(8), Error);
  {
    const CalibrationState used = state();
    EXPECT_THROW(state(), Error);
  }
  EXPECT_THROW(CalibrationState(plan_of(model_->file(), DType::Q8_0), path_, 7), Error);
  EXPECT_THROW(CalibrationState(plan_, path_ + "/none", 7), Error);
  std::ofstream(path_) << "a text of some length that is no state of a calibration";
  EXPECT_THROW(state(), Error);
}

TEST_F(ResumedCalibration, IdentityCountsTextsTypesAndOptions) {
  const auto identity = [&](const QuantizePlan& plan, const CalibrationTokens& tokens,
                            double damping) {
    CalibrationOptions options;
    options.feedback.damping = damping;
    return calibration_identity(*model_, plan, tokens, options);
  };
  const std::uint64_t one = identity(plan_, tokens_, 0.3);
  EXPECT_EQ(identity(plan_, tokens_, 0.3), one);
  EXPECT_NE(identity(plan_of(model_->file(), DType::Q8_0), tokens_, 0.3), one);
  EXPECT_NE(identity(plan_, random_tokens(3, 24, TinyArchitecture::kVocabulary), 0.3), one);
  EXPECT_NE(identity(plan_, tokens_, 0.2), one);
}

TEST(Calibrate, NeedsLittleMoreThanStreamsAndMoments) {
  const Model& model = demo_model();
  const QuantizePlan plan = plan_of(model.file(), DType::Q3_K, "blk.");
  std::uint64_t bytes = 0;
  CalibrationOptions options;
  options.on_start = [&](std::uint64_t needed) { bytes = needed; };
  options.check = [] { throw Stop(); };
  const CalibrationTokens tokens{512, many_tokens(64 * 512)};
  CalibrationState state = CalibrationState::unnamed(plan, testing::TempDir());
  EXPECT_THROW(calibrate(model, plan, tokens, options, state), Stop);
  std::size_t widest = 0, stream = model.graph().values[model.graph().nodes.front().out].width;
  for (const PlannedTensor& tensor : plan.tensors)
    if (!tensor.copied()) widest = std::max<std::size_t>(widest, tensor.source->cols());
  const std::size_t streams = 2 * tokens.ids.size() * stream * sizeof(float);
  EXPECT_GT(bytes, streams);
  EXPECT_LE(static_cast<double>(bytes),
            1.3 * static_cast<double>(streams + widest * widest * sizeof(double)));
}

TEST(Calibrate, LowersTheLossOfTheDemoModel) {
  const Model& model = demo_model();
  const QuantizePlan plan = plan_of(model.file(), DType::Q3_K, "blk.0.");
  const CalibrationTokens tokens{128, many_tokens(512)};
  FeedbackLoss all;
  CalibrationOptions options;
  options.on_matrix = [&](const std::string&, std::uint64_t, const FeedbackLoss& loss) {
    all.found += loss.found;
    all.encoded += loss.encoded;
  };
  const Blocks made = calibrated(model, plan, tokens, options);
  EXPECT_EQ(made.size(), 7U);
  EXPECT_LT(all.found, 0.8 * all.encoded);
}

TEST(Calibrate, TheEncoderKnowsTheInputsWhereItChoosesAlone) {
  const Model& model = demo_model();
  const QuantizePlan plan = plan_of(model.file(), DType::IQ2_KL, "blk.0.");
  std::string notes;
  CalibrationOptions options;
  options.on_note = [&](const std::string& text) { notes += text; };
  const Blocks made = calibrated(model, plan, {128, many_tokens(512)}, options);
  EXPECT_NE(notes.find("IQ2_KL"), std::string::npos);
  EXPECT_FALSE(made.empty());
  for (const auto& [name, bytes] : made) {
    const TensorView& tensor = *model.file().tensor(name);
    std::vector<float> values(tensor.rows() * tensor.cols());
    decode_rows(tensor.dtype, tensor.data, tensor.rows(), tensor.cols(), 1, values.data());
    std::vector<std::byte> plain(bytes.size());
    encode_rows(DType::IQ2_KL, values, tensor.cols(), {}, 1, plain.data());
    EXPECT_NE(bytes, plain) << name;
  }
}

TEST(CalibrationText, AlternatesBetweenTexts) {
  const Model& model = demo_model();
  std::string first, second;
  for (int i = 0; i < 2000; ++i) first += "The river rises. ", second += "A house has doors. ";
  const std::vector<CalibrationText> texts{{"first", first}, {"second", second}};
  const CalibrationTokens tokens = calibration_tokens(model, texts, 4 * 512, {});
  ASSERT_EQ(tokens.windows(), 4U);
  const auto window = [&](std::size_t w) {
    return std::vector<TokenId>(
        tokens.ids.begin() + static_cast<std::ptrdiff_t>(w * tokens.window + 1),
        tokens.ids.begin() + static_cast<std::ptrdiff_t>((w + 1) * tokens.window));
  };
  for (std::size_t w = 0; w < 4; ++w)
    EXPECT_EQ(tokens.ids[w * tokens.window], *model.vocabulary().bos);
  EXPECT_EQ(model.tokenizer().decode(window(0)).substr(0, 9), "The river");
  EXPECT_EQ(model.tokenizer().decode(window(1)).substr(0, 7), "A house");
  EXPECT_THROW(calibration_tokens(model, std::vector<CalibrationText>{{"name", "short"}}, 512, {}),
               Error);
}

TEST(CalibrationText, HasItsShareOfTheModelsOwn) {
  const Model& model = demo_model();
  std::string first;
  for (int i = 0; i < 2000; ++i) first += "The river rises. ";
  const std::vector<CalibrationText> texts{{"first", first}, {"self", {}}};
  const CalibrationTokens tokens = calibration_tokens(model, texts, 4 * 512, {});
  ASSERT_EQ(tokens.windows(), 4U);
  const std::vector<std::vector<TokenId>> own = own_windows(model, 2, {});
  EXPECT_TRUE(std::equal(own[0].begin(), own[0].end(), tokens.ids.begin() + 512));
  EXPECT_TRUE(std::equal(own[1].begin(), own[1].end(), tokens.ids.begin() + 3 * 512));
}

TEST(OwnText, IsProseAndDialoguesAndTheSameEachTime) {
  const Model& model = demo_model();
  const std::vector<std::vector<TokenId>> windows = own_windows(model, 2, {});
  ASSERT_EQ(windows.size(), 2U);
  const auto count = [&](std::size_t window, std::string_view text) {
    const std::string all = model.tokenizer().decode(windows[window], true);
    std::size_t n = 0;
    for (std::size_t at = 0; (at = all.find(text, at)) != std::string::npos; ++at) ++n;
    return n;
  };
  for (const std::vector<TokenId>& window : windows) {
    ASSERT_EQ(window.size(), 512U);
    EXPECT_EQ(window.front(), *model.vocabulary().bos);
  }
  EXPECT_EQ(count(0, "<|im_start|>user"), 0U);
  EXPECT_GE(count(1, "<|im_start|>user\n"), 3U);
  EXPECT_GE(count(1, "<|im_start|>assistant\n"), 3U);
  OwnTextOptions options;
  options.threads = 2;
  EXPECT_EQ(own_windows(model, 2, options), windows);
  options.on_progress = [](std::size_t tokens) { return tokens < 100; };
  EXPECT_TRUE(own_windows(model, 2, options).empty());
}

}  // namespace
}  // namespace cria::test
