// Quantizing a file: the blocks are the encoder's, the same on any number of threads; what
// cannot be is named.
#include "engine/quantize/quantize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>

#include "engine/quantize/ordered_pipeline.h"
#include "tests/engine/demo.h"

namespace cria::test {
namespace {

namespace fs = std::filesystem;

/// A directory with a model of two matrices (one of two experts) and a norm, of known values.
class QuantizeFile : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = fs::temp_directory_path() / ("cria-quantize-" + std::to_string(getpid()));
    fs::create_directory(directory_);
    for (std::size_t i = 0; i < values_.size(); ++i)
      values_[i] = static_cast<float>(std::sin(static_cast<double>(i) * 0.7) * 0.1);
  }
  void TearDown() override { fs::remove_all(directory_); }

  [[nodiscard]] std::string path(const char* name) const { return (directory_ / name).string(); }

  GgufFile input(std::uint64_t rows = kRows) {
    GgufWriter writer(path("in.gguf"));
    writer.set("general.architecture", std::string("llama"));
    writer.set("strange.key", GgufArray::of(std::vector<std::string>{"a", "b"}));
    writer.set("split.no", std::uint16_t{0});
    writer.declare("blk.0.attn_q.weight", DType::F32, {kCols, rows});
    writer.declare("blk.0.ffn_down_exps.weight", DType::F32, {kCols, rows / 2, 2});
    writer.declare("blk.0.attn_norm.weight", DType::F32, {kCols});
    writer.declare("table", DType::I32, {4});
    writer.begin();
    for (int matrix = 0; matrix < 2; ++matrix)
      writer.write(std::as_bytes(std::span(values_).first(kCols * rows)));
    writer.write(std::as_bytes(std::span(values_).first(kCols)));
    writer.write(std::as_bytes(std::span(values_).first(4)));
    writer.finish();
    return GgufFile::open(path("in.gguf"));
  }

  bool run(const GgufFile& file, const char* mix, const char* out, QuantizeRun settings = {}) {
    QuantizeOptions options;
    options.mix = find_mix(mix);
    const QuantizePlan plan = plan_quantize(file, options);
    GgufWriter writer(path(out));
    declare(writer, file, plan);
    return quantize(file, plan, writer, settings);
  }

  [[nodiscard]] std::string content(const char* name) const {
    std::ifstream file(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  static constexpr std::uint64_t kCols = 512, kRows = 3000;  // several pieces
  std::vector<float> values_ = std::vector<float>(kCols * kRows);
  fs::path directory_;
};

std::vector<std::byte> fixture(const std::string& name) {
  std::ifstream file(std::string(CRIA_TEST_DATA) + "/dequant/" + name, std::ios::binary);
  const std::string content{std::istreambuf_iterator<char>(file), {}};
  const auto bytes = std::as_bytes(std::span(content));
  return {bytes.begin(), bytes.end()};
}

// When a file is written without them, and when it is loaded: the same bytes of the same values,
// also where plain rows take more bytes.
TEST_F(QuantizeFile, InterleavedRowsArePutInOrder) {
  constexpr std::uint64_t kUnits = 700;  // several pieces
  for (const DType stored : {DType::IQ4_KS_R4, DType::IQ1_S_R4}) {
    const std::string type(name(stored));
    const DType plain = dtype_info(stored).plain;
    const std::vector<std::byte> unit = fixture(type + ".blocks"), values = fixture(type + ".f32");
    GgufWriter writer(path("in.gguf"));
    writer.set("general.architecture", std::string("llama"));
    writer.declare("blk.0.ffn_up_exps.weight", stored, {kCols, 2 * kUnits, 2});
    writer.begin();
    for (std::uint64_t i = 0; i < kUnits; ++i) writer.write(unit);
    writer.finish();
    GgufFile file = GgufFile::open(path("in.gguf"));
    const QuantizePlan plan{find_mix(name(plain)), {{&file.tensors()[0], plain, ""}}};
    GgufWriter to(path("out.gguf"));
    declare(to, file, plan);
    ASSERT_TRUE(quantize(file, plan, to, {}));
    const GgufFile out = GgufFile::open(path("out.gguf"));
    const TensorView &written = out.tensors()[0], &loaded = file.tensors()[0];
    ASSERT_EQ(written.dtype, plain);
    std::vector<std::byte> row(kCols * sizeof(float));
    for (std::uint64_t r = 0; r < written.rows(); ++r) {
      dtype_info(plain).dequantize(written.data + r * written.row_bytes(),
                                   reinterpret_cast<float*>(row.data()), kCols);
      ASSERT_EQ(std::memcmp(row.data(), &values[r % 4 * row.size()], row.size()), 0) << r;
    }
    EXPECT_EQ(file.interleaved_bytes(), written.bytes);
    file.make_plain(3);
    EXPECT_EQ(file.interleaved_bytes(), 0U);
    EXPECT_EQ(loaded.dtype, plain);
    ASSERT_EQ(loaded.bytes, written.bytes);
    EXPECT_EQ(std::memcmp(loaded.data, written.data, written.bytes), 0);
  }
}

TEST_F(QuantizeFile, InterleavedRowsFillWholeUnits) {
  GgufWriter writer(path("in.gguf"));
  writer.declare("blk.0.ffn_up_exps.weight", DType::IQ4_K_R4, {256, 6, 2});
  writer.begin();
  writer.write(std::vector<std::byte>(dtype_info(DType::IQ4_K_R4).row_bytes(256) * 12));
  writer.finish();
  try {
    static_cast<void>(GgufFile::open(path("in.gguf")));
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("expected a multiple of 4 for IQ4_K_R4, got 6"),
              std::string::npos)
        << error.what();
  }
}

TEST_F(QuantizeFile, BlocksAreTheEncodersOnAnyNumberOfThreads) {
  const GgufFile file = input();
  for (const unsigned threads : {1U, 2U, 3U})
    ASSERT_TRUE(run(file, "Q4_0", ("out" + std::to_string(threads)).c_str(), {.threads = threads}));
  EXPECT_EQ(content("out1"), content("out2"));
  EXPECT_EQ(content("out1"), content("out3"));
  const GgufFile result = GgufFile::open(path("out1"));
  const TensorView& q = *result.tensor("blk.0.attn_q.weight");
  ASSERT_EQ(q.dtype, DType::Q4_0);
  std::vector<std::byte> expected(q.bytes);
  active_kernels()->encode(DType::Q4_0)(values_.data(), nullptr, values_.size(), expected.data());
  EXPECT_EQ(std::memcmp(q.data, expected.data(), q.bytes), 0);
  EXPECT_EQ(std::memcmp(result.tensor("blk.0.attn_norm.weight")->data, values_.data(), kCols * 4),
            0);
  EXPECT_EQ(std::memcmp(result.tensor("table")->data, values_.data(), 16), 0)
      << "tensors of other types are copied";
  EXPECT_EQ(result.get_uint("general.file_type"), 2U);
  EXPECT_EQ(result.get_uint("general.quantization_version"), 2U);
  EXPECT_EQ(result.find_strings("strange.key")->size(), 2U);
  EXPECT_EQ(result.find("split.no"), nullptr);
}

/// Σ x²·error² of blocks.
double errors_by_size(DType type, const std::byte* blocks, const std::vector<float>& values) {
  std::vector<float> decoded(values.size());
  dtype_info(type).dequantize(blocks, decoded.data(), decoded.size());
  double sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double x = values[i], error = x - decoded[i];
    sum += x * x * error * error;
  }
  return sum;
}

TEST_F(QuantizeFile, InOneBitLargeWeightsCountMore) {
  const GgufFile file = input(16);
  values_.resize(16 * kCols);
  QuantizeOptions options;
  options.mix = find_mix("IQ1_S");
  options.pure = true;
  const QuantizePlan plan = plan_quantize(file, options);
  GgufWriter writer(path("out"));
  declare(writer, file, plan);
  ASSERT_TRUE(quantize(file, plan, writer, {}));
  const GgufFile result = GgufFile::open(path("out"));
  ASSERT_EQ(result.tensor("blk.0.attn_q.weight")->dtype, DType::IQ1_S);
  std::vector<std::byte> plain(result.tensor("blk.0.attn_q.weight")->bytes);
  active_kernels()->encode(DType::IQ1_S)(values_.data(), nullptr, values_.size(), plain.data());
  EXPECT_LT(errors_by_size(DType::IQ1_S, result.tensor("blk.0.attn_q.weight")->data, values_),
            0.9 * errors_by_size(DType::IQ1_S, plain.data(), values_));
}

TEST_F(QuantizeFile, EmptyImatrixHasNoEffect) {
  const GgufFile file = input(16);
  ImportanceMatrix zeros;
  zeros.entries["blk.0.attn_q.weight"] = {std::vector<double>(kCols), {0}};
  zeros.entries["blk.0.ffn_down_exps.weight"] = {std::vector<double>(2 * kCols), {0, 0}};
  for (const char* mix : {"IQ1_S", "IQ1_M", "IQ2_XXS", "Q4_K_M"}) {
    ASSERT_TRUE(run(file, mix, "without"));
    ASSERT_TRUE(run(file, mix, "with", {.importance = &zeros}));
    EXPECT_EQ(content("with") == content("without"), true) << mix;
  }
}

/// Errors and sizes that quantizing reports, checked against the written file.
class QuantizedBlocks : public QuantizeFile, public testing::WithParamInterface<const char*> {};

TEST_P(QuantizedBlocks, ReportsTheErrorsOfTheFile) {
  const GgufFile file = input();
  std::map<std::string, QuantizeError> errors;
  QuantizeRun settings;
  settings.measure = true;
  std::uint64_t last = 0;
  settings.on_progress = [&](std::uint64_t bytes) {
    EXPECT_GT(bytes, last);
    last = bytes;
    return true;
  };
  settings.on_tensor = [&](const PlannedTensor& tensor, const std::optional<QuantizeError>& error) {
    if (error) errors[std::string(tensor.source->name)] = *error;
  };
  ASSERT_TRUE(run(file, GetParam(), "out", settings));
  EXPECT_EQ(errors.size(), 2U) << "not of what is copied";
  const GgufFile result = GgufFile::open(path("out"));
  const TensorView& q = *result.tensor("blk.0.attn_q.weight");
  std::vector<float> decoded(values_.size());
  dtype_info(q.dtype).dequantize_rows(q.data, decoded.data(), q.rows(), q.cols());
  double squares = 0;
  double differences = 0;
  for (std::size_t i = 0; i < values_.size(); ++i) {
    squares += double{values_[i]} * values_[i];
    differences += std::pow(double{values_[i]} - decoded[i], 2);
  }
  const auto n = static_cast<double>(values_.size());
  EXPECT_EQ(q.bytes, q.rows() * dtype_info(q.dtype).row_bytes(q.cols()));
  EXPECT_NEAR(errors["blk.0.attn_q.weight"].rmse, std::sqrt(differences / n), 1e-12);
  EXPECT_NEAR(errors["blk.0.attn_q.weight"].rms, std::sqrt(squares / n), 1e-9);
  EXPECT_EQ(last, q.bytes * 2 + kCols * 4 + 16);
}

INSTANTIATE_TEST_SUITE_P(Types, QuantizedBlocks, testing::Values("Q8_0", "NVFP4", "Q1_0", "IQ4_KS"),
                         [](const auto& test) { return std::string(test.param); });

// Each expert's rows get that expert's weights: the encoder called with the same ones gives the
// same blocks.
TEST_F(QuantizeFile, ImportanceIsPerColumnAndExpert) {
  const GgufFile file = input();
  ImportanceMatrix matrix;
  ImportanceEntry entry{std::vector<double>(kCols * 2), {2, 4}};
  for (std::size_t i = 0; i < entry.sums.size(); ++i)
    entry.sums[i] = static_cast<double>(i % 97) + 1;
  matrix.entries["blk.0.ffn_down_exps.weight"] = entry;
  ASSERT_TRUE(run(file, "Q4_0", "out", {.importance = &matrix}));
  const GgufFile result = GgufFile::open(path("out"));
  const TensorView& down = *result.tensor("blk.0.ffn_down_exps.weight");
  std::vector<std::byte> expected(down.bytes), unweighted(down.bytes);
  const EncodeFn encode = active_kernels()->encode(down.dtype);
  for (std::size_t row = 0; row < kRows; ++row) {
    const std::size_t expert = row / (kRows / 2);
    std::vector<float> weights(kCols);
    for (std::size_t i = 0; i < kCols; ++i)
      weights[i] = static_cast<float>(entry.sums[expert * kCols + i] / entry.counts[expert]);
    const float* const x = values_.data() + row * kCols;
    encode(x, weights.data(), kCols, expected.data() + row * down.row_bytes());
    encode(x, nullptr, kCols, unweighted.data() + row * down.row_bytes());
  }
  EXPECT_EQ(std::memcmp(down.data, expected.data(), down.bytes), 0);
  EXPECT_NE(expected, unweighted) << "a test that sees whether the weights arrive";
}

// A tensor of four dimensions is a row of matrices, each with importance of its own.
TEST_F(QuantizeFile, ImportanceOfFourDimensions) {
  constexpr std::size_t kMatrices = 4, kRowsOfOne = 8, kAll = kMatrices * kRowsOfOne;
  {
    GgufWriter writer(path("in.gguf"));
    writer.set("general.architecture", std::string("llama"));
    writer.declare("blk.0.deep.weight", DType::F32, {kCols, kRowsOfOne, 2, 2});
    writer.begin();
    writer.write(std::as_bytes(std::span(values_).first(kCols * kAll)));
    writer.finish();
  }
  const GgufFile file = GgufFile::open(path("in.gguf"));
  ImportanceMatrix matrix;
  ImportanceEntry entry{std::vector<double>(kCols * kMatrices), {1, 2, 3, 4}};
  for (std::size_t i = 0; i < entry.sums.size(); ++i)
    entry.sums[i] = static_cast<double>(i % 97) + 1;
  matrix.entries["blk.0.deep.weight"] = entry;
  EXPECT_NO_THROW(require_importance_of(file, matrix, "m.gguf"));
  ASSERT_TRUE(run(file, "Q4_0", "out", {.importance = &matrix}));
  const GgufFile result = GgufFile::open(path("out"));
  const TensorView& deep = *result.tensor("blk.0.deep.weight");
  std::vector<std::byte> expected(deep.bytes);
  for (std::size_t row = 0; row < kAll; ++row) {
    const std::size_t number = row / kRowsOfOne;
    std::vector<float> weights(kCols);
    for (std::size_t i = 0; i < kCols; ++i)
      weights[i] = static_cast<float>(entry.sums[number * kCols + i] / entry.counts[number]);
    active_kernels()->encode(deep.dtype)(values_.data() + row * kCols, weights.data(), kCols,
                                         expected.data() + row * deep.row_bytes());
  }
  EXPECT_EQ(std::memcmp(deep.data, expected.data(), deep.bytes), 0);
}

TEST_F(QuantizeFile, NamesTheUnsupportedTensor) {
  values_[kCols * 2000 + 7] = std::numeric_limits<float>::quiet_NaN();
  const GgufFile bad = input();
  EXPECT_NE(error_of([&] {
              (void)run(bad, "Q8_0", "out");
            }).find("cannot quantize NaN or infinity (tensor blk.0.attn_q.weight)"),
            std::string::npos);
  values_[kCols * 2000 + 7] = 70000;
  const GgufFile large = input();
  EXPECT_NE(error_of([&] { (void)run(large, "F16", "out"); }).find("a value is too large for F16"),
            std::string::npos);
  EXPECT_TRUE(run(large, "BF16", "wide"));
  EXPECT_FALSE(fs::exists(path("out")));
}

TEST_F(QuantizeFile, RejectsValuesOutOfRange) {
  const auto refused = [&](float value, const char* mix) {
    values_[kCols + 7] = value;
    const GgufFile file = input();
    return error_of([&] { (void)run(file, mix, "out"); });
  };
  EXPECT_EQ(refused(-0x1.FEFFFEp127F, "BF16"), "");
  EXPECT_NE(refused(0x1.FFp127F, "BF16").find("a value is too large for BF16"), std::string::npos);
  EXPECT_EQ(refused(2688, "NVFP4"), "");
  EXPECT_NE(refused(-2700, "NVFP4").find("for NVFP4: expected up to 2688, got 2700"),
            std::string::npos);
  EXPECT_EQ(refused(0x1p40F, "IQ4_KS"), "");
  EXPECT_NE(refused(0x1.1p40F, "IQ4_KS").find("a value is too large for IQ4_KS"),
            std::string::npos);
}

// ERNIE 4.5 has weights that F16 cannot hold. A scale of 1e5/127 is no problem for Q8_0.
TEST_F(QuantizeFile, HoldsWhatScalesReach) {
  for (const char* mix :
       {"Q8_0", "Q4_0", "Q5_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS"}) {
    const DType type = find_dtype(std::string_view(mix))->id;
    for (const float sign : {1.0F, -1.0F}) {
      std::vector<float> row(256, 0.05F), back(256);
      row[9] = sign * largest_held(type);
      std::vector<std::byte> bytes(dtype_info(type).row_bytes(256));
      active_kernels()->encode(type)(row.data(), nullptr, 256, bytes.data());
      dtype_info(type).dequantize_rows(bytes.data(), back.data(), 1, 256);
      EXPECT_NEAR(back[9] / row[9], 1, 0.01) << mix << sign;
    }
    values_[kCols + 7] = 1e5F;
    const GgufFile file = input();
    EXPECT_EQ(error_of([&] { (void)run(file, mix, "out"); }), "") << mix;
  }
}

TEST_F(QuantizeFile, StopsWhenAskedAndLeavesTheTarget) {
  const GgufFile file = input();
  std::ofstream(path("out")) << "old";
  QuantizeRun settings;
  settings.on_progress = [](std::uint64_t) { return false; };
  EXPECT_FALSE(run(file, "Q8_0", "out", settings));
  EXPECT_EQ(content("out"), "old");
  EXPECT_NE(error_of([&] { (void)run(file, "Q8_0", "in.gguf"); }).find("it is the input itself"),
            std::string::npos);
  EXPECT_EQ(std::distance(fs::directory_iterator(directory_), {}), 2) << "nothing else is left";
}

}  // namespace
}  // namespace cria::test
