// Calibrated quantization of whole models: every architecture, threads, instruction sets, and that
// the result is nearer to the exact model.
#include "engine/calibrate/calibrate.h"

#include <gtest/gtest.h>

#include "engine/calibrate/calibration_text.h"
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

CalibratedTensors calibrated(const Model& model, const QuantizePlan& plan,
                             const CalibrationTokens& tokens, unsigned threads,
                             const KernelSet& kernels = *active_kernels()) {
  CalibrationOptions options;
  options.feedback = {.descents = 1, .refits = 1, .threads = threads};
  options.kernels = &kernels;
  return calibrate(model, plan, tokens, options);
}

class CalibratedArchitectures : public testing::TestWithParam<ArchitectureCase> {};

TEST_P(CalibratedArchitectures, GiveTheSameBytesForAnyThreads) {
  const auto model = TinyArchitecture(GetParam()).load();
  const QuantizePlan plan = plan_of(model->file(), DType::Q4_0);
  const CalibrationTokens tokens = random_tokens(3, 24, TinyArchitecture::kVocabulary);
  const CalibratedTensors one = calibrated(*model, plan, tokens, 1);
  EXPECT_FALSE(one.empty());
  EXPECT_EQ(calibrated(*model, plan, tokens, 3), one);
  for (const auto& [name, bytes] : one) {
    const TensorView& tensor = *model->file().tensor(name);
    EXPECT_EQ(bytes.size(), dtype_info(DType::Q4_0).row_bytes(tensor.cols()) * tensor.rows());
  }
}
INSTANTIATE_TEST_SUITE_P(, CalibratedArchitectures, testing::ValuesIn(architecture_cases()),
                         [](const auto& one) {
                           std::string name = one.param.name;
                           std::ranges::replace_if(
                               name, [](char c) { return std::isalnum(c) == 0; }, '_');
                           return name;
                         });

TEST(Calibrate, GivesTheSameBytesForEachInstructionSet) {
  const auto model = TinyArchitecture(architecture_case("qwen3moe")).load();
  const QuantizePlan plan = plan_of(model->file(), DType::Q4_0);
  const CalibrationTokens tokens = random_tokens(2, 24, TinyArchitecture::kVocabulary);
  const CalibratedTensors expected = calibrated(*model, plan, tokens, 1);
  for (const KernelSet* const kernels : available_kernels())
    EXPECT_EQ(calibrated(*model, plan, tokens, 2, *kernels), expected) << kernels->isa;
}

TEST(Calibrate, NotesExpertsWithoutTokens) {
  const auto model = TinyArchitecture(architecture_case("qwen3moe")).load();
  const QuantizePlan plan = plan_of(model->file(), DType::Q4_0);
  std::vector<std::string> notes;
  CalibrationOptions options;
  options.on_note = [&](const std::string& note) { notes.push_back(note); };
  const CalibrationTokens tokens{8, std::vector<TokenId>(8, 3)};  // one token eight times
  const CalibratedTensors made = calibrate(*model, plan, tokens, options);
  EXPECT_TRUE(made.contains("blk.0.ffn_down_exps.weight"));
  ASSERT_FALSE(notes.empty());
  EXPECT_NE(notes.front().find("no token takes expert"), std::string::npos) << notes.front();
}

TEST(Calibrate, StopsWhenAsked) {
  const auto model = TinyArchitecture(architecture_case("llama")).load();
  CalibrationOptions options;
  options.on_matrix = [](const std::string&, std::uint64_t, const Feedback::Loss&) {
    return false;
  };
  EXPECT_TRUE(calibrate(*model, plan_of(model->file(), DType::Q4_0),
                        random_tokens(1, 24, TinyArchitecture::kVocabulary), options)
                  .empty());
}

TEST(Calibrate, LowersTheLossOfTheDemoModel) {
  const Model& model = demo_model();
  const QuantizePlan plan = plan_of(model.file(), DType::Q3_K, "blk.0.");
  const CalibrationTokens tokens{128, many_tokens(512)};
  Feedback::Loss all;
  CalibrationOptions options;
  options.on_matrix = [&](const std::string&, std::uint64_t, const Feedback::Loss& loss) {
    all.found += loss.found;
    all.encoded += loss.encoded;
    return true;
  };
  const CalibratedTensors made = calibrate(model, plan, tokens, options);
  EXPECT_EQ(made.size(), 7U);
  EXPECT_LT(all.found, 0.8 * all.encoded);
}

TEST(CalibrationText, AlternatesBetweenTexts) {
  const Model& model = demo_model();
  std::string first, second;
  for (int i = 0; i < 2000; ++i) first += "The river rises. ", second += "A house has doors. ";
  const std::vector<std::string> texts{first, second}, names{"first", "second"};
  const CalibrationTokens tokens = calibration_tokens(model, texts, names, 4 * 512);
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
  EXPECT_THROW(calibration_tokens(model, std::vector<std::string>{"short"},
                                  std::vector<std::string>{"name"}, 512),
               Error);
}

TEST(CalibrationText, OwnTextIsTheSameEachTime) {
  const std::string text = own_text(demo_model(), 1, 1);
  EXPECT_GT(text.size(), 500U);
  EXPECT_EQ(own_text(demo_model(), 1, 2), text);
}

}  // namespace
}  // namespace cria::test
