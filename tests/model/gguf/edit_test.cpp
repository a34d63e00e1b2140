#include "model/gguf/rewrite.h"

#include <gtest/gtest.h>

#include <cstring>

#include "model/limits.h"
#include "tests/model/bytes.h"

namespace cria::test {
namespace {

/// Two tensors, the later one first in the data, at an alignment that is not the default.
std::string aligned_file() {
  Bytes bytes;
  bytes.header(2, 2).key("general.alignment", GgufType::U16).put(std::uint16_t{256});
  bytes.key("a", GgufType::U8).put(std::uint8_t{1});
  bytes.tensor("first", {3}, 0, 256).tensor("second", {5}, 0, 0);
  bytes.pad(256);
  for (const float value : {1.F, 2.F, 3.F, 4.F, 5.F}) bytes.put(value);
  bytes.pad(256);
  for (const float value : {6.F, 7.F, 8.F}) bytes.put(value);
  return bytes.data;
}

TEST(WriteEdited, KeepsAlignmentAndTensors) {
  const TemporaryDirectory directory;
  const std::string in = directory.write("in.gguf", aligned_file()),
                    out = directory.file("out.gguf");
  const GgufFile file = GgufFile::open(in);
  ASSERT_TRUE(write_edited(file, out, {.set = {{"b", std::string(1000, 'x')}}, .remove = {"a"}}));
  const GgufFile edited = GgufFile::open(out);
  EXPECT_EQ(edited.alignment(), 256U);
  EXPECT_EQ(edited.find("general.alignment")->type, GgufType::U16);
  EXPECT_EQ(edited.find("a"), nullptr);
  EXPECT_EQ(edited.find_string("b")->size(), 1000U);
  for (const TensorView& tensor : file.tensors()) {
    const TensorView* const copy = edited.tensor(tensor.name);
    ASSERT_NE(copy, nullptr);
    ASSERT_EQ(copy->bytes, tensor.bytes);
    EXPECT_EQ(std::memcmp(copy->data, tensor.data, tensor.bytes), 0);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(copy->data) % 256, 0U);
  }
}

TEST(WriteEdited, StopsWhenAsked) {
  const TemporaryDirectory directory;
  const std::string out = directory.write("out.gguf", "before");
  const GgufFile file = GgufFile::open(directory.write("in.gguf", aligned_file()));
  EXPECT_FALSE(
      write_edited(file, out, {.set = {}, .remove = {"a"}}, [](std::uint64_t) { return false; }));
  EXPECT_EQ(std::filesystem::file_size(out), 6U);
}

TEST(WriteEdited, RejectsUnreadableResults) {
  const TemporaryDirectory directory;
  const std::string out = directory.file("out.gguf");
  const GgufFile file = GgufFile::open(directory.write("in.gguf", aligned_file()));
  const auto refused = [&](std::string key, GgufData value) {
    return error_of([&] {
      return write_edited(file, out, {.set = {{std::move(key), std::move(value)}}, .remove = {}});
    });
  };
  EXPECT_EQ(refused(std::string("a\0b", 3), std::uint8_t{1}), "NUL byte in a key (key a?b)");
  EXPECT_EQ(refused("k", GgufArray::of(std::vector<std::uint8_t>(limits::kArrayElements + 1))),
            "array too long: expected at most 16777216 elements, got 16777217 (key k)");
  GgufData nested = std::uint8_t{1};
  for (int depth = 0; depth <= limits::kArrayDepth; ++depth) {
    const GgufType element = nested.type();
    nested = GgufArray{.element = element, .values = {std::move(nested)}};
  }
  EXPECT_EQ(refused("k", std::move(nested)),
            "arrays nested too deep: expected at most 8 levels (key k)");
  EXPECT_FALSE(std::filesystem::exists(out));
}

}  // namespace
}  // namespace cria::test
