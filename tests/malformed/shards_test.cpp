// Cases 92 to 98: models in several files.
#include <gtest/gtest.h>

#include <array>
#include <filesystem>

#include "tests/malformed/refusal.h"

namespace cria::test {
namespace {

/// The valid model in three files of seven tensors each, which tests change before they are
/// written.
class MalformedShards : public testing::Test {
 protected:
  MalformedShards() {
    const Image whole = valid_model();
    parts_[0].keys = whole.keys;
    for (std::size_t i = 0; i < 3; ++i) {
      parts_[i].set("split.no") = static_cast<std::uint16_t>(i);
      parts_[i].set("split.count") = std::uint16_t{3};
      parts_[i].set("split.tensors.count") = std::int32_t{21};
      const auto first = whole.tensors.begin() + static_cast<std::ptrdiff_t>(7 * i);
      parts_[i].tensors.assign(first, first + 7);
    }
  }

  [[nodiscard]] std::string path(std::size_t i) const {
    return directory_.path("m-0000" + std::to_string(i + 1) + "-of-00003.gguf");
  }
  void write() const {
    for (std::size_t i = 0; i < 3; ++i)
      directory_.write("m-0000" + std::to_string(i + 1) + "-of-00003.gguf", parts_[i].bytes());
  }
  /// The message that names the file at fault, after a change to what the shards say.
  void expect_split_refused(std::size_t at_fault, const std::string& says) const {
    write();
    expect_error(limited(answer_from(path(0))), path(at_fault) + ": " + says);
  }

  std::array<Image, 3> parts_;
  TempDirectory directory_;
};

TEST_F(MalformedShards, ValidOnesAnswer) {
  write();
  const Result result = limited(answer_from(path(0)));
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, expect_answer(valid_model()).out);
}

TEST_F(MalformedShards, Case092LaterShard) {
  write();
  expect_error(limited(answer_from(path(1))),
               path(1) +
                   ": a later shard of a split model: expected the first one "
                   "(-00001-of-00003.gguf), got shard 2 of 3 (key split.no)");
}

TEST_F(MalformedShards, Case093MissingShard) {
  write();
  std::filesystem::remove(path(2));
  expect_error(limited(answer_from(path(0))), path(2) + ": cannot open: No such file or directory");
  std::filesystem::create_directory(path(2));
  expect_error(limited(answer_from(path(0))), path(2) + ": is a directory: expected a GGUF file");
}

TEST_F(MalformedShards, Case093RenamedShard) {
  const std::string other = directory_.write("other.gguf", parts_[0].bytes());
  expect_error(limited(answer_from(other)), other +
                                                ": first shard of 3: expected a name that ends in "
                                                "-00001-of-00003.gguf to find the others "
                                                "by (key split.count)");
}

TEST_F(MalformedShards, Case094Counts) {
  parts_[1].set("split.count") = std::uint16_t{4};
  expect_split_refused(1, "shards disagree on their count: expected 3, got 4 (key split.count)");
  parts_[1].erase("split.count");
  expect_split_refused(1, "shards disagree on their count: expected 3, got 0 (key split.count)");
  parts_[0].set("split.count") = 65536U;
  expect_split_refused(0, "too many shards: expected at most 65535, got 65536 (key split.count)");
  parts_[0].set("split.count") = std::string("3");
  expect_split_refused(
      0, "wrong type of a key: expected an unsigned integer, got string (key split.count)");
}

TEST_F(MalformedShards, Case095Numbers) {
  parts_[2].set("split.no") = std::uint16_t{1};
  expect_split_refused(2, "wrong shard under this name: expected number 2, got 1 (key split.no)");
  parts_[2].erase("split.no");
  expect_split_refused(2, "shard of a split model without its number (key split.no)");
}

TEST_F(MalformedShards, Case096TensorCounts) {
  for (Image& part : parts_) part.set("split.tensors.count") = std::int32_t{22};
  expect_split_refused(
      0, "wrong number of tensors in all shards: expected 22, got 21 (key split.tensors.count)");
  for (Image& part : parts_) part.set("split.tensors.count") = std::int32_t{-1};
  expect_split_refused(
      0, "wrong type of a key: expected an unsigned integer, got i32 (key split.tensors.count)");
}

TEST_F(MalformedShards, Case097TwoModels) {
  parts_[1].set("split.tensors.count") = std::int32_t{40};
  expect_split_refused(
      1,
      "shard of another model: its count of tensors differs from the first shard's: "
      "expected 21, got 40 (key split.tensors.count)");
  parts_[1].set("split.tensors.count") = std::int32_t{21};
  parts_[1].tensors.front().name = "token_embd.weight";
  expect_split_refused(1, "duplicate tensor (tensor token_embd.weight)");
  parts_[1].version = 2;
  expect_split_refused(1, "shards disagree on the GGUF version: expected 3, got 2 (at byte 4)");
}

TEST_F(MalformedShards, Case098Concatenated) {
  const std::string first = parts_[0].bytes();
  const std::string says =
      "another GGUF file follows (shards joined with cat?): expected the end of the file (at byte ";
  for (const std::size_t pad : {std::size_t{0}, 31 - (first.size() + 31) % 32}) {
    const std::string whole =
        first + std::string(pad, '\0') + parts_[1].bytes() + parts_[2].bytes();
    const std::string path = directory_.write("m-00001-of-00003.gguf", whole);
    const std::string place = std::to_string(first.size() + pad) + ")";
    expect_error(limited(answer_from(path)),
                 std::string(path).append(": ").append(says).append(place));
  }
}

}  // namespace
}  // namespace cria::test
