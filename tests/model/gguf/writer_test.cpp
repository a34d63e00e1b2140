#include "model/gguf/writer.h"

#include <gtest/gtest.h>

#include <cstring>
#include <iterator>

#include "tests/model/bytes.h"

namespace cria::test {
namespace {

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void set_one_of_each(GgufWriter& writer) {
  writer.set("u8", std::uint8_t{255});
  writer.set("i8", std::int8_t{-128});
  writer.set("u16", std::uint16_t{65535});
  writer.set("i16", std::int16_t{-32768});
  writer.set("u32", 4294967295U);
  writer.set("i32", -2147483647);
  writer.set("f32", 0.25F);
  writer.set("bool", true);
  writer.set("string", std::string("κρία\0", 9));
  writer.set("u64", ~std::uint64_t{0});
  writer.set("i64", std::int64_t{-1});
  writer.set("f64", 0.1);
  writer.set("strings", GgufArray::of(std::vector<std::string>{"", "one", "two"}));
  writer.set("floats", GgufArray::of(std::vector<float>{1, 2, 3}));
  GgufArray nested{GgufType::Array, {}};
  nested.values.emplace_back(GgufArray::of(std::vector<std::uint8_t>{1, 2}));
  nested.values.emplace_back(GgufArray::of(std::vector<bool>{true, false}));
  nested.values.emplace_back(GgufArray{GgufType::String, {}});
  writer.set("nested", std::move(nested));
}

GgufFile one_of_each(const std::string& path) {
  GgufWriter writer(path);
  set_one_of_each(writer);
  writer.begin();
  writer.finish();
  return GgufFile::open(path);
}

TEST(GgufWriter, EveryValueTypeComesBack) {
  const TemporaryDirectory directory;
  const GgufFile file = one_of_each(directory.file("a.gguf"));
  EXPECT_EQ(file.version(), 3U);
  ASSERT_EQ(file.keys().size(), 15U);
  EXPECT_EQ(file.get_uint("u8"), 255U);
  EXPECT_EQ(file.get_uint("u64"), ~std::uint64_t{0});
  EXPECT_EQ(file.get_float("f64"), 0.1);
  EXPECT_EQ(file.get_string("string"), std::string("κρία\0", 9));
  EXPECT_EQ(file.find_strings("strings"), (std::vector<std::string_view>{"", "one", "two"}));
  EXPECT_EQ(file.find_floats("floats"), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(file.elements(*file.find("nested")).size(), 3U);

  // Copied key by key, the second file is the first, byte by byte.
  GgufWriter copy(directory.file("b.gguf"));
  for (const GgufKey& key : file.keys()) copy.set(key.key, copy_value(file, key.value));
  copy.begin();
  copy.finish();
  EXPECT_EQ(content(directory.file("b.gguf")), content(directory.file("a.gguf")));
}

TEST(GgufWriter, CopiesArraysAsTheyAre) {
  const TemporaryDirectory directory;
  const GgufFile file = one_of_each(directory.file("a.gguf"));
  for (const char* key : {"strings", "floats", "nested"}) {
    const GgufValue& value = *file.find(key);
    const auto copy = std::get<GgufArray>(copy_value(file, value));
    EXPECT_EQ(copy.copied, value.count) << key;
    EXPECT_EQ(copy.payload.size(), value.bytes) << key;
    EXPECT_TRUE(copy.values.empty()) << key;
  }
}

TEST(GgufWriter, StreamsTensorsWithAlignment) {
  for (const std::uint64_t alignment : {8U, 32U, 4096U}) {
    const TemporaryDirectory directory;
    GgufWriter writer(directory.file("t.gguf"), alignment);
    writer.declare("first", DType::F32, {3, 2});
    writer.declare("second", DType::Q8_0, {64});
    writer.begin();
    std::vector<std::byte> data(24 + 68);
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i);
    const std::span<const std::byte> bytes(data);
    writer.write(bytes.subspan(0, 5));
    writer.write(bytes.subspan(5, 19));
    writer.write(bytes.subspan(24, 68));
    writer.finish();

    const GgufFile file = GgufFile::open(directory.file("t.gguf"));
    EXPECT_EQ(file.alignment(), alignment);
    EXPECT_EQ(file.file_bytes(), writer.file_bytes());
    EXPECT_EQ(std::memcmp(file.tensor("first")->data, data.data(), 24), 0);
    EXPECT_EQ(std::memcmp(file.tensor("second")->data, data.data() + 24, 68), 0);
  }
}

TEST(GgufWriter, LaterValueReplacesEarlier) {
  const TemporaryDirectory directory;
  GgufWriter writer(directory.file("r.gguf"));
  writer.set("key", 1U);
  writer.set("key", std::string("two"));
  writer.begin();
  writer.finish();
  EXPECT_EQ(GgufFile::open(directory.file("r.gguf")).get_string("key"), "two");
}

TEST(GgufWriter, UnfinishedFilesKeepTheTarget) {
  const TemporaryDirectory directory;
  const std::string path = directory.write("old.gguf", "old");
  {
    GgufWriter writer(path);
    writer.declare("a", DType::F32, {1});
    writer.begin();
    EXPECT_EQ(error_of([&] { writer.finish(); }), path + ": data is missing (tensor a)");
  }
  EXPECT_EQ(content(path), "old");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory.file("")), {}), 1);
}

/// Writes a file of one key to a path.
void write_small(const std::string& path) {
  GgufWriter writer(path);
  writer.set("key", 1U);
  writer.begin();
  writer.finish();
}

TEST(GgufWriter, ReplacesTheFileBehindALinkAndKeepsTheLink) {
  const TemporaryDirectory directory;
  const std::string path = directory.write("old.gguf", "old"), link = directory.file("link.gguf");
  std::filesystem::create_symlink("old.gguf", link);
  write_small(link);
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(GgufFile::open(path).get_uint("key"), 1U);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory.file("")), {}), 2);
}

TEST(GgufWriter, RejectsPathsItCannotReplace) {
  const TemporaryDirectory directory;
  EXPECT_EQ(error_of([&] { write_small(directory.file("")); }),
            directory.file("") + ": cannot write: it is a directory");
  EXPECT_EQ(error_of([&] { write_small("/dev/null"); }),
            "/dev/null: cannot write: not a regular file");
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST(GgufWriter, ChecksTheFreeSpaceFirst) {
  const TemporaryDirectory directory;
  GgufWriter writer(directory.file("large.gguf"));
  writer.declare("a", DType::F32, {std::uint64_t{1} << 50});
  EXPECT_NE(error_of([&] {
              writer.begin();
            }).find("not enough space on the disk: expected 45035996273705"),
            std::string::npos);
  EXPECT_TRUE(std::filesystem::is_empty(directory.file("")));
}

TEST(GgufWriter, KnowsItsInputUnderOtherNames) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("in.gguf");
  write_small(path);
  const GgufFile file = GgufFile::open(path);
  std::filesystem::create_symlink(path, directory.file("symbolic.gguf"));
  std::filesystem::create_hard_link(path, directory.file("hard.gguf"));
  for (const char* name : {"in.gguf", "symbolic.gguf", "hard.gguf"})
    EXPECT_NE(error_of([&] {
                require_other_file(file, directory.file(name));
              }).find("it is the input itself"),
              std::string::npos)
        << name;
  require_other_file(file, directory.file("none.gguf"));
  require_other_file(file, directory.write("other.gguf", "other"));
}

TEST(GgufWriter, NamesTheUnwritableTensor) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("nowhere/x.gguf");
  GgufWriter writer(path);
  EXPECT_EQ(error_of([&] { writer.begin(); }), path + ": cannot write: No such file or directory");
  EXPECT_NE(error_of([&] {
              writer.declare("a", DType::Q4_K, {100});
            }).find("multiple of 256, got 100 (tensor a)"),
            std::string::npos);
}

}  // namespace
}  // namespace cria::test
