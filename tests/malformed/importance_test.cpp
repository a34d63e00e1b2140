// Case 99: importance matrices, in both forms, that the quantizer must refuse.
#include <gtest/gtest.h>

#include <filesystem>
#include "tests/malformed/refusal.h"

namespace cria::test {
namespace {

std::string many(std::size_t n, float value) {
  std::string data;
  for (std::size_t i = 0; i < n; ++i) data += raw(value);
  return data;
}

/// A matrix in the newer form: sums of squares and counts of one tensor.
Image importance(std::size_t cols, float sum, float count) {
  Image image;
  image.set("general.type") = std::string("imatrix");
  image.set("imatrix.datasets") = GgufArray::of(std::vector<std::string>{"text"});
  image.set("imatrix.chunk_count") = 1U;
  image.set("imatrix.chunk_size") = 512U;
  image.tensors = {{"blk.0.ffn_up.weight.in_sum2", {cols, 1}, 0, many(cols, sum)},
                   {"blk.0.ffn_up.weight.counts", {1, 1}, 0, many(1, count)}};
  return image;
}

/// The same in the older form: entries of a name, a number of chunks and values.
std::string old_entry(const std::string& name, std::int32_t values, const std::string& data) {
  return raw(static_cast<std::int32_t>(name.size())) + name + raw(std::int32_t{1}) + raw(values) +
         data;
}
std::string old_form(const std::string& entries, std::int32_t n = 1) { return raw(n) + entries; }

class MalformedImportance : public testing::Test {
 protected:
  /// Quantizes with an importance matrix whose file has `bytes`.
  Result quantize(const std::string& bytes) const {
    directory_.write("matrix", bytes);
    return limited({"quantize", model_, directory_.path("out.gguf"), "Q4_0", "--allow-requantize",
                    "--imatrix", directory_.path("matrix")});
  }
  void expect_matrix_refused(const std::string& bytes, const std::string& says) const {
    expect_error(quantize(bytes), directory_.path("matrix") + ": " + says);
    EXPECT_FALSE(std::filesystem::exists(directory_.path("out.gguf")));
  }

  TempDirectory directory_;
  std::string model_ = directory_.write("model.gguf", valid_model().bytes());
};

TEST_F(MalformedImportance, ValidOnesServe) {
  EXPECT_EQ(quantize(importance(64, 3, 512).bytes()).code, 0);
  EXPECT_EQ(quantize(old_form(old_entry("blk.0.ffn_up.weight", 64, many(64, 3)))).code, 0);
  EXPECT_EQ(quantize(importance(64, 0, 512).bytes()).code, 0)
      << "sums of zero say that nothing matters";
  EXPECT_EQ(quantize(importance(64, 0, 0).bytes()).code, 0);
}

TEST_F(MalformedImportance, Case099Values) {
  const std::string says = "bad sum of squares: expected finite numbers of at least 0, got ",
                    where = " (tensor blk.0.ffn_up.weight)";
  for (const auto& [value, text] : {std::pair{kNan, "nan"}, {kInf, "inf"}, {-1.0F, "-1"}}) {
    const std::string message = std::string(says).append(text).append(where);
    expect_matrix_refused(importance(64, value, 512).bytes(), message);
    expect_matrix_refused(importance(64, 1, value).bytes(), message);
    expect_matrix_refused(old_form(old_entry("blk.0.ffn_up.weight", 64, many(64, value))), message);
  }
}

TEST_F(MalformedImportance, Case099Sizes) {
  expect_matrix_refused(importance(63, 1, 512).bytes(),
                        "*expected 64 columns, got 63 (tensor blk.0.ffn_up.weight)");
  expect_matrix_refused(old_form(old_entry("blk.0.ffn_up.weight", 32, many(32, 1))),
                        "*expected 64 columns, got 32 (tensor blk.0.ffn_up.weight)");
  Image image = importance(64, 1, 512);
  image.remove("blk.0.ffn_up.weight.counts");
  expect_matrix_refused(image.bytes(), "sums without their counts (tensor blk.0.ffn_up.weight)");
  image = importance(64, 1, 512);
  image.tensors[1] = {"blk.0.ffn_up.weight.counts", {7}, 0, many(7, 1)};
  expect_matrix_refused(image.bytes(),
                        "sums and counts do not match: got 64 and 7 (tensor blk.0.ffn_up.weight)");
  image.tensors[1] = {"blk.0.ffn_up.weight.counts", {1}, 1, std::string(2, '\0')};
  expect_matrix_refused(image.bytes(),
                        "wrong type: expected F32, got F16 (tensor blk.0.ffn_up.weight.counts)");
}

TEST_F(MalformedImportance, Case099Files) {
  expect_matrix_refused(
      "", "file ends inside the number of entries: expected 4 more bytes, got 0 (at byte 0)");
  expect_matrix_refused(
      old_form("", 0),
      "not an importance matrix, or damaged: the number of entries is 0 (at byte 0)");
  expect_matrix_refused(
      old_form("", -1),
      "not an importance matrix, or damaged: the number of entries is -1 (at byte 0)");
  expect_matrix_refused(
      old_form("", 1'000'000),
      "file ends inside the length of a name: expected 4 more bytes, got 0 (at byte 4)");
  expect_matrix_refused(
      "It was a dark and stormy night",
      "not an importance matrix, or damaged: the number of entries is * (at byte 0)");
  expect_matrix_refused(
      old_form(old_entry("w", 1 << 30, "")),
      "not an importance matrix, or damaged: the number of values is 1073741824 (at byte 13)");
  expect_matrix_refused(
      old_form(raw(std::int32_t{1 << 30})),
      "not an importance matrix, or damaged: the length of a name is 1073741824 (at byte 4)");
  const std::string entry = old_entry("w", 1, many(1, 1));
  expect_matrix_refused(old_form(entry + entry, 2), "an entry comes twice (tensor w)");
  expect_matrix_refused(
      old_form(entry, 2),
      "file ends inside the length of a name: expected 4 more bytes, got 0 (at byte 21)");
  expect_matrix_refused(
      valid_model().bytes(),
      "no importance matrix: expected a file of general.type imatrix (key general.type)");
  Image none = importance(64, 1, 512);
  none.tensors.clear();
  expect_matrix_refused(none.bytes(), "an importance matrix without entries");
}

}  // namespace
}  // namespace cria::test
