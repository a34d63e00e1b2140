#include <gtest/gtest.h>

#include <cstring>

#include "tests/model/bytes.h"

namespace cria::test {
namespace {

// The same small file in every version: one string, one number, one 2×3 tensor of F32.
Bytes small_file(std::uint32_t version) {
  Bytes bytes(version);
  bytes.header(1, 2)
      .key("general.name", GgufType::String)
      .string("alpaca")
      .key("answer", GgufType::U16);
  bytes.put<std::uint16_t>(42).tensor("weights", {2, 3}, 0, 0).pad();
  for (int i = 0; i < 6; ++i) bytes.put(static_cast<float>(i));
  return bytes;
}

class Versions : public testing::TestWithParam<std::uint32_t> {};

TEST_P(Versions, ReadsKeysAndTensors) {
  const Bytes bytes = small_file(GetParam());
  const GgufFile file = parse(bytes.data);
  EXPECT_EQ(file.version(), GetParam());
  EXPECT_EQ(file.path(), "test.gguf");
  EXPECT_EQ(file.file_bytes(), bytes.data.size());
  EXPECT_EQ(file.alignment(), 32U);
  ASSERT_EQ(file.keys().size(), 2U);
  EXPECT_EQ(file.keys()[1].key, "answer");
  EXPECT_EQ(file.get_string("general.name"), "alpaca");
  EXPECT_EQ(file.get_uint("answer"), 42U);

  const TensorView* const tensor = file.tensor("weights");
  ASSERT_NE(tensor, nullptr);
  EXPECT_EQ(tensor, file.tensors().data());
  EXPECT_EQ(tensor->dtype, DType::F32);
  EXPECT_EQ(tensor->shape, (std::vector<std::uint64_t>{2, 3}));
  EXPECT_EQ(tensor->shape_string(), "[2, 3]");
  EXPECT_EQ(tensor->cols(), 2U);
  EXPECT_EQ(tensor->rows(), 3U);
  EXPECT_EQ(tensor->row_bytes(), 8U);
  EXPECT_EQ(tensor->bytes, 24U);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(tensor->data), 24),
            bytes.data.substr(bytes.data.size() - 24));
  EXPECT_EQ(file.tensor("nothing"), nullptr);
  EXPECT_EQ(file.find("nothing"), nullptr);
}

// A file that ends anywhere inside is an error, never a crash; each prefix lies in a buffer of its
// own size, for ASan's sake.
TEST_P(Versions, RefusesEveryPrefix) {
  const std::string whole = small_file(GetParam()).data;
  for (std::size_t n = 0; n < whole.size(); ++n) {
    const std::vector<char> prefix(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(n));
    const std::string text =
        error_of([&] { GgufFile::from_bytes(std::as_bytes(std::span(prefix)), "test.gguf"); });
    EXPECT_TRUE(text.starts_with("test.gguf: ")) << n << ": " << text;
  }
}

INSTANTIATE_TEST_SUITE_P(Gguf, Versions, testing::Values(1U, 2U, 3U));

TEST(Gguf, MetadataOnlyToleratesMissingData) {
  std::string bytes = small_file(3).data;
  bytes.resize(bytes.size() - 1);
  EXPECT_EQ(error_of([&] { parse(bytes); }),
            "test.gguf: file ends before the tensor's data: expected at least 184 bytes, got 183, "
            "1 missing "
            "(tensor weights)");
  EXPECT_EQ(parse(bytes, {.metadata_only = true}).tensor("weights")->data, nullptr);
}

TEST(Gguf, KeepsGapsAndTrailingBytes) {
  Bytes bytes;
  bytes.header(2, 0).tensor("b", {8}, 0, 128).tensor("a", {8}, 0, 0).pad().zeros(128 + 32 + 5);
  const GgufFile file = parse(bytes.data);
  EXPECT_EQ(file.tensor("b")->data - file.tensor("a")->data, 128);
}

TEST(Gguf, HonoursAlignment) {
  Bytes bytes;
  bytes.header(2, 1).key("general.alignment", GgufType::U32).put(64U);
  bytes.tensor("a", {1}, 0, 0).tensor("b", {1}, 0, 64).pad(64).zeros(68);
  const GgufFile file = parse(bytes.data);
  EXPECT_EQ(file.alignment(), 64U);
  EXPECT_EQ(reinterpret_cast<const char*>(file.tensor("b")->data) - bytes.data.data(),
            static_cast<std::ptrdiff_t>(bytes.data.size()) - 4);
}

// Every scalar type converts where its value fits, and only there.
TEST(Gguf, TypedGetters) {
  Bytes bytes;
  bytes.header(0, 14);
  bytes.key("u8", GgufType::U8)
      .put<std::uint8_t>(200)
      .key("i8", GgufType::I8)
      .put<std::int8_t>(-100);
  bytes.key("u16", GgufType::U16)
      .put<std::uint16_t>(60000)
      .key("i16", GgufType::I16)
      .put<std::int16_t>(30000);
  bytes.key("u32", GgufType::U32)
      .put<std::uint32_t>(4000000000U)
      .key("i32", GgufType::I32)
      .put<std::int32_t>(7);
  bytes.key("f32", GgufType::F32).put(1.5F).key("bool", GgufType::Bool).put<std::uint8_t>(1);
  bytes.key("string", GgufType::String).string(std::string_view("nul\0inside", 10));
  bytes.key("u64", GgufType::U64)
      .put(std::uint64_t{1} << 63)
      .key("i64", GgufType::I64)
      .put<std::int64_t>(-1);
  bytes.key("f64", GgufType::F64).put(0.1).key("empty", GgufType::String).string("");
  bytes.key("array", GgufType::Array).put<std::uint32_t>(8).count(2).string("x").string("yz");
  const GgufFile file = parse(bytes.data);

  EXPECT_EQ(file.get_uint("u8"), 200U);
  EXPECT_EQ(file.get_uint("u16"), 60000U);
  EXPECT_EQ(file.get_uint("i16"), 30000U);
  EXPECT_EQ(file.get_uint("u32"), 4000000000U);
  EXPECT_EQ(file.get_uint("i32"), 7U);
  EXPECT_EQ(file.get_uint("u64"), std::uint64_t{1} << 63);
  EXPECT_EQ(file.get_float("f32"), 1.5);
  EXPECT_EQ(file.get_float("f64"), 0.1);
  EXPECT_EQ(file.find_bool("bool"), true);
  EXPECT_EQ(file.get_string("string"), std::string_view("nul\0inside", 10));
  EXPECT_EQ(file.get_string("empty"), "");
  EXPECT_EQ(file.find_strings("array"), (std::vector<std::string_view>{"x", "yz"}));
  EXPECT_EQ(file.find_uint("nothing"), std::nullopt);
  EXPECT_EQ(file.find_floats("nothing"), std::nullopt);

  EXPECT_EQ(error_of([&] { return file.get_uint("nothing"); }),
            "test.gguf: missing key (key nothing)");
  EXPECT_EQ(error_of([&] { return file.get_uint("i8"); }),
            "test.gguf: negative number: expected 0 or more, got -100 (key i8)");
  EXPECT_EQ(error_of([&] { return file.get_uint("bool"); }),
            "test.gguf: wrong type of a key: expected an integer, got bool (key bool)");
  EXPECT_EQ(error_of([&] { return file.get_float("u8"); }),
            "test.gguf: wrong type of a key: expected f32 or f64, got u8 (key u8)");
  EXPECT_EQ(error_of([&] { return file.get_string("array"); }),
            "test.gguf: wrong type of a key: expected string, got array of string (key array)");
  EXPECT_NE(error_of([&] { return file.find_ints("array"); }), "");
  EXPECT_NE(error_of([&] { return file.find_strings("string"); }), "");
  EXPECT_NE(error_of([&] { return file.find_bool("u8"); }), "");
}

TEST(Gguf, NumberArrays) {
  Bytes bytes;
  bytes.header(0, 3);
  bytes.key("i16", GgufType::Array).put<std::uint32_t>(3).count(3);
  for (const std::int16_t n : {-5, 0, 5}) bytes.put(n);
  bytes.key("f64", GgufType::Array).put<std::uint32_t>(12).count(2).put(0.5).put(-2.0);
  bytes.key("u64", GgufType::Array).put<std::uint32_t>(10).count(1).put(~std::uint64_t{0});
  const GgufFile file = parse(bytes.data);
  EXPECT_EQ(file.find_ints("i16"), (std::vector<std::int64_t>{-5, 0, 5}));
  EXPECT_EQ(file.find_floats("f64"), (std::vector<float>{0.5F, -2.0F}));
  EXPECT_EQ(error_of([&] { return file.find_ints("u64"); }),
            "test.gguf: number too large at index 0 (key u64)");
}

TEST(Gguf, NestedArrays) {
  Bytes bytes;
  bytes.header(0, 2).key("nested", GgufType::Array).put<std::uint32_t>(9).count(2);
  bytes.put<std::uint32_t>(0).count(3).raw("abc").put<std::uint32_t>(8).count(1).string("deep");
  bytes.key("after", GgufType::U8).put<std::uint8_t>(1);
  const GgufFile file = parse(bytes.data);
  EXPECT_EQ(file.get_uint("after"), 1U);
  const auto outer = file.elements(*file.find("nested"));
  ASSERT_EQ(outer.size(), 2U);
  EXPECT_EQ(outer[0].element, GgufType::U8);
  EXPECT_EQ(file.elements(outer[0]).size(), 3U);
  EXPECT_EQ(file.elements(outer[0])[2].data[0], std::byte{'c'});
  EXPECT_EQ(file.elements(outer[1])[0].type, GgufType::String);
  EXPECT_EQ(file.elements(outer[1])[0].count, 4U);
}

TEST(Gguf, OpensMappedAndRead) {
  const TemporaryDirectory directory;
  const std::string path = directory.write("small.gguf", small_file(3).data);
  for (const MapMode mode : {MapMode::Mmap, MapMode::Read}) {
    GgufFile first = GgufFile::open(path, {.map = mode, .mlock = true});
    first.prefetch();
    const GgufFile file = std::move(first);
    EXPECT_EQ(file.get_uint("answer"), 42U);
    float last = 0;
    std::memcpy(&last, file.tensor("weights")->data + 20, 4);
    EXPECT_EQ(last, 5.0F);
  }
}

}  // namespace
}  // namespace cria::test
